"""The front door: files and texts, include paths, macros, warnings, digests, errors."""

from __future__ import annotations

import contextlib
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lower_kit import START, run, text

from sglb import p4
from sglb.p4 import P4Errors

ORACLE = Path(__file__).parents[1] / "oracle"


def test_a_file_and_its_text_are_one_program(tmp_path: Path) -> None:
    path = tmp_path / "a.p4"
    path.write_text(text("h.o.r0 = 1;"))
    from_file = p4.compile(path)
    from_text = p4.compile(path.read_text(), filename="b.p4")
    assert from_file.digest == from_text.digest
    assert from_file.p4info == from_text.p4info
    assert re.fullmatch("[0-9a-f]{64}", from_file.digest)


def test_the_digest_follows_tokens_not_layout_and_not_comments() -> None:
    base = p4.compile(text("h.o.r0 = 1;")).digest
    assert p4.compile(text("h.o.r0  =  1; /* one */")).digest == base
    assert p4.compile(text("h.o.r0 = ONE;"), defines={"ONE": "1"}).digest == base
    assert p4.compile(text("h.o.r0 = 2;")).digest != base


def test_includes_are_found_beside_the_file_and_in_the_directories_given(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "far.p4").write_text("const bit<8> FAR = 7;")
    (tmp_path / "near.p4").write_text("const bit<8> NEAR = 3;")
    source = '#include "near.p4"\n#include <far.p4>\n' + text("h.o.r0 = NEAR + FAR;")
    path = tmp_path / "a.p4"
    path.write_text(source)
    program = p4.compile(path, include_dirs=[str(tmp_path / "inc")])
    assert "near.p4" in " ".join(program.sources.files)
    with pytest.raises(P4Errors, match=r"far\.p4"):
        p4.compile(path)


def test_ids_in_the_code_are_those_of_the_p4info() -> None:
    locals_ = """
    register<bit<8>>(1) r; counter(1, CounterType.bytes) c;
    action a(bit<8> v) { r.write(0, v); c.count(0); }
    @hidden table t { key = { h.i.x : exact; } actions = { a; } }
    """
    parser = "value_set<bit<8>>(1) vs; " + START
    program = p4.compile(text("t.apply();", locals=locals_, parser=parser))
    info = program.p4info
    assert program.ir.instances[0].p4info_id == info.registers[0].preamble.id
    assert program.ir.instances[1].p4info_id == info.counters[0].preamble.id
    assert program.ir.value_sets[0].p4info_id == info.value_sets[0].preamble.id
    assert not info.tables  # hidden, and yet it has an id
    assert program.ir.tables[0].p4info_id >> 24 == 2
    by_name = {a.preamble.name: a.preamble.id for a in info.actions}
    assert [a.p4info_id for a in program.ir.tables[0].actions] == [
        by_name["I.a"],
        by_name["NoAction"],
    ]


def test_errors_of_every_phase_come_as_p4errors_with_their_source_line() -> None:
    cases = {
        "preprocess": '#include "nowhere.p4"\n' + text(),
        "lex": text() + "\n/* never closed",
        "parse": text("h.o.r0 = ;"),
        "type": text("h.o.r0 = true;"),
        "lower": "#include <core.p4>\nconst bit<8> X = 1;\n",
        "p4info": text("a();", locals="@id(0x02000001) action a() {}"),
    }
    for phase, source in cases.items():
        with pytest.raises(P4Errors) as caught:
            p4.compile(source, filename="x.p4")
        first = caught.value.errors[0]
        assert (phase, first.phase) == (phase, phase)
        assert first.span.file == "x.p4"
        assert first.line_text


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(P4Errors, match=r"none\.p4:1:1: error: cannot read the program"):
        p4.compile(tmp_path / "none.p4")


def test_equal_sources_give_equal_programs() -> None:
    path = ORACLE / "61-counters" / "program.p4"
    first, second = p4.compile(path), p4.compile(path)
    assert first.ir == second.ir
    assert first.p4info.SerializeToString(deterministic=True) == (
        second.p4info.SerializeToString(deterministic=True)
    )


TOKENS = re.compile(r'\s+|//[^\n]*|"[^"\n]*"|\w+|#[^\n]*|.', re.DOTALL)
NAMES = ("11-clone-i2e", "28-action-run", "34-stack-index", "37-select-forms", "58-struct-equality")
PROGRAMS = [TOKENS.findall((ORACLE / n / "program.p4").read_text()) for n in NAMES]


def kind(token: str) -> str:
    """Tokens that may take each other's place without the parser noticing."""
    if token[0].isdigit():
        return "number"
    if token[0].isalpha() or token[0] == "_":
        return "word"
    return token if token in "{}();,<>" else "operator"


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(PROGRAMS), st.integers(0, 2**32), st.integers(1, 3))
def test_a_damaged_program_compiles_or_is_refused_and_nothing_else(
    tokens: list[str], seed: int, changes: int
) -> None:
    rng = random.Random(seed)
    tokens = list(tokens)
    places = [i for i, t in enumerate(tokens) if t.strip() and not t.startswith(("#", "//"))]
    for _ in range(changes):
        place = rng.choice(places)
        tokens[place] = rng.choice(
            [tokens[i] for i in places if kind(tokens[i]) == kind(tokens[place])]
        )
    # Anything but P4Errors fails the test.
    with contextlib.suppress(P4Errors):
        p4.compile("".join(tokens))


def test_long_chains_compile_and_run() -> None:
    """Generated programs have them; each link nests one deeper in the tree."""
    arms = "".join(f" else if (h.i.x == {i}) {{ h.o.r1 = {i}; }}" for i in range(1, 256))
    code = f"h.o.r0 = h.i.x{' + h.i.y' * 600}; if (h.i.x == 0) {{}}{arms} else if (h.i.y == 1) {{}}"
    assert run(code, "00c80300")[:4] == f"{(200 + 3 * 600) % 256:02x}c8"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("", 1),
        ("// nothing", 1),
        ("#include <v1model.p4>\n", 1),
        ("\nerror { A }\nconst int B = 1;", 3),
    ],
)
def test_a_program_without_main_is_told_in_its_own_file(source: str, line: int) -> None:
    with pytest.raises(P4Errors, match=rf"^mine\.p4:{line}:\d+: error: the program has no main"):
        p4.compile(source, filename="mine.p4")
