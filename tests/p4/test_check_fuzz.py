"""Whatever a program says, the checker answers with side tables or with P4Errors."""

from __future__ import annotations

import random
import re

from check_kit import PRELUDE, in_apply
from hypothesis import given, settings
from hypothesis import strategies as st

from sglb.p4.check import check
from sglb.p4.parser import parse_program
from sglb.p4.source import P4Error, P4Errors

PROGRAM = (
    in_apply(
        "b8 = twice(v = ro) + b16[7:0]; s = { x = 1, ... }; if (tab.apply().hit && flag) { exit; }\n"
        "switch (tab.apply().action_run) { NoAction: { act(b8, 4); } default: { return; } }\n"
        "q.q[b8].b = (bit<16>)((bit<8>)kind ++ 8w0 >> 3); q.h = {#};\n"
        "pair = { 1, true }; mark<G<bit<6>>>(g);"
        "for (bit<8> i in 0 .. 3) { reg.read(_, (bit<32>)i); } b8 = flag ? 1 : b8 |-| 2;"
    )
    + "parser p(packet_in pkt, out Q q)(bit<8> n) { value_set<S>(4) vs; state start {\n"
    "pkt.extract(q.q.next); transition select(q.q.last.a, q.h.b) { vs: start; (1 .. 3, _): accept;"
    " (n &&& 7, 4): start; default: reject; } } }\n"
    "extern Abs<T> { Abs(T t); abstract T f(in T x); }\n"
    "Abs<bit<8>>(3) ab = { bit<8> f(in bit<8> x) { return x; } };\n"
    "control d(inout S s)(bit<8> n) { action b(inout bit<8> w, bit<8> v) { w = v; } table u {\n"
    "key = { s.x : exact; s.y : ternary; } actions = { b(s.x); NoAction; } size = 16;\n"
    "default_action = b(s.x, 2); const entries = { (1, 2 &&& 6) : b(s.x, 1); _ : NoAction; } }\n"
    "apply { u.apply(); } } control C<X>(inout X x); package Pack<X>(C<X> c);\n"
    "Pack(d(4)) main;\n"
)
TOKENS = re.findall(
    r'"[^"]*"|\{#\}|[A-Za-z_0-9]+|&&&|\.\.\.?|\|[+\-]\||<<|>>|[=!<>]=|&&|\|\||\S', PROGRAM
)
LITERALS = [
    "0", "1", "-1", "8w255", "4s7", "0w0", "true", "_", "...", "{#}", "{ 1, 2 }", "{ x = 1 }",
    "error.NoMatch", "Kind.tcp", "Color.red", "main", "this", "1 << 70", "(int)8w3", "q", "tab",
    "NoAction", "same(1)", "H.minSizeInBits()", "(S){ 1, 2 }", "int", "bit<8>", "G", "S", "Abs",
]  # fmt: skip


OPERATORS = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "|",
    "^",
    "==",
    "<",
    "<<",
    ">>",
    "++",
    "&&",
    "|-|",
    "&&&",
]
NAMES = sorted(
    {t for t in TOKENS if re.fullmatch("[a-z][a-zA-Z0-9]{0,4}", t)} - {"in", "out", "if", "for"}
)


def alike(rng: random.Random, token: str) -> str:
    """Another token that the parser takes as readily as this one."""
    if token in OPERATORS:
        return rng.choice(OPERATORS)
    if token in NAMES:
        return rng.choice(NAMES)
    return rng.choice(LITERALS) if token[0].isdigit() or token in ("true", "_") else token


def mutated(seed: int, edits: int) -> str:
    """The program with some tokens dropped, doubled, swapped or replaced, all by one seed."""
    rng = random.Random(seed)
    first = TOKENS.index("extern")  # the include stays: programs without core.p4 are too easy
    out = list(TOKENS[first:])
    for _ in range(edits):
        i = rng.randrange(len(out))
        match rng.randrange(20):
            case 0:
                del out[i]
            case 1:
                out.insert(i, out[i])
            case 2:
                j = rng.randrange(len(out))
                out[i], out[j] = out[j], out[i]
            case 3:
                out[i] = out[rng.randrange(len(out))]
            case 4:
                out[i] = rng.choice(LITERALS)
            case _:
                out[i] = alike(rng, out[i])
    return PRELUDE.split("\n")[0] + "\n" + " ".join(out)


def judge(source: str) -> str:
    """ "right", "wrong" or "unreadable"; anything but P4Errors escapes and fails the test."""
    try:
        program, sources = parse_program(source, "m.p4")
    except P4Errors:
        return "unreadable"
    found: list[P4Error] = []
    try:
        check(program, sources)
    except P4Errors as e:
        found = e.errors
        assert found, "P4Errors without an error"
    assert all(e.message and e.span.line > 0 for e in found)
    return "wrong" if found else "right"


def test_the_program_itself_is_right() -> None:
    assert judge(PROGRAM) == "right"
    assert judge(mutated(0, 0)) == "right"


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_a_mutated_program_never_crashes_the_checker(seed: int, edits: int) -> None:
    judge(mutated(seed, edits))


def test_mutations_reach_the_checker() -> None:
    verdicts = [judge(mutated(seed, 1)) for seed in range(60)]
    assert {"right", "wrong", "unreadable"} == set(verdicts)


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    deep = "1" + " + 1" * 20_000
    assert judge(f"const int k = {deep};") in ("wrong", "unreadable")
