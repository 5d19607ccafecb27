"""Parser states, select and value sets."""

from __future__ import annotations

import pytest
from check_kit import PRELUDE, nodes, one_error, run, warnings

from sglb.p4 import ast


def in_parser(states: str, local: str = "") -> str:
    """A parser whose own text stands on line 4."""
    return (
        f"{PRELUDE}struct M {{ S s; Kind k; bool f; V[2] vs; U u; error e; }}\n"
        f"parser p(packet_in pkt, out Q q, inout M m)(bit<8> n) {{ {local}\n{states}\n}}"
    )


def start(body: str) -> str:
    return f"state start {{ {body} }}"


ERRORS = [
    ("state begin { transition accept; }", "3:8: parser 'p' has no state 'start'", ""),
    (start("transition nxt;") + " state next { }", "4:7: state 'nxt' is not declared", "'next'"),
    (start("transition n;"), "4:7: state 'n' is not declared", "'n' is no state"),
    (start("") + start(""), "4:23: state 'start' is declared twice", ""),
    (start("transition accept;") + " state accept { }", "4:42: state 'accept' is built in", ""),
    (start("transition start;"), "3:8: parser 'p' never reaches accept or reject", ""),
    (start("pkt.extract(m.s);"), "4:15: extract needs a header, not S", ""),
    (start("pkt.extract(m.vs.next);"), "4:15: header V has a varbit field", "") ,
    (start("pkt.extract(q.h, 8);"), "4:15: header H has no varbit field", ""),
    (start("m.s = pkt.lookahead<V>();"), "4:21: lookahead needs a type of fixed width, not V", ""),
    (start("pkt.extract(q.q);"), "4:15: extract needs a header, not H[3]", ""),
    (start("m.s.x = q.q.lastIndex;"), "4:23: the assigned value must have type bit<8>", ""),
    (start("q.q.lastIndex = 1;"), "4:15: the left side of an assignment cannot be 'lastIndex'", ""),
    (start("NoAction();"), "4:15: action 'NoAction' cannot be called in a parser state", ""),
    (start("Reg<bit<8>>(4) r;"), "4:30: 'Reg' cannot be instantiated in a parser state", ""),
    (start("verify(m.s.x, error.NoMatch);"), "4:22: argument 'check' must have type bool", ""),
    (start("transition select(m.s.x) { 1: acept; default: accept; }"), "4:42: state 'acept'", "accept"),
    (start("transition select(m.s.x) { true: accept; }"), "4:42: the key set must have type bit<8>", ""),
    (start("transition select(m.s.x) { 16w1: accept; }"), "4:42: the key set must have type bit<8>, but "
     "this is bit<16>", ""),
    (start("transition select(m.s.x, m.f) { 1: accept; }"), "4:47: this has 1 key set, but 2 are", ""),
    (start("transition select(m.s.x) { (1, 2): accept; }"), "4:42: this has 2 key sets, but 1 is", ""),
    (start("transition select(m.s.x, m.f) { (1, 2): accept; }"), "4:51: the key set must have type", ""),
    (start("transition select(m.s.x) { 1 &&& true: accept; }"), "4:48: cannot make a set of", ""),
    (start("transition select(m.s.x) { 8w1..16w2: accept; }"), "4:42: cannot make a set of bit<8>", ""),
    (start("transition select(m.f) { false..true: accept; }"), "4:40: cannot make a set of values", ""),
    (start("transition select(q.h) { _: accept; }"), "4:33: cannot select on a value of type H", ""),
    (start("transition select(m.s) { _: accept; }"), "4:33: cannot select on a value of type S", ""),
    (start("transition select(5) { _: accept; }"), "4:33: cannot select on an int", ""),
    (start("transition select(m.s.x) { twice(1): accept; }"), "4:42: a function cannot be call", ""),
    (start("transition select(m.s.x) { vs: accept; }"), "4:42: name 'vs' is not declared", ""),
]  # fmt: skip


@pytest.mark.parametrize(("states", "message", "hint"), ERRORS)
def test_error(states: str, message: str, hint: str) -> None:
    found = one_error(in_parser(states))
    assert found.startswith(message), found
    assert hint in found.split(" | ")[1], found


ACCEPTED = [
    ("", start("pkt.extract(q.q.next); pkt.extract(q.q[0]); pkt.extract(q.q.last);")),
    ("", start("pkt.extract(m.vs[0], 16); pkt.extract<H>(_); m.s = pkt.lookahead<S>();")),
    ("", start("bit<8> v = pkt.lookahead<bit<8>>(); transition select(v) { 0: accept; 1..3: reject; }")),
    ("", start("transition select(m.s.x, m.f) { (1, true): accept; (_, false): start; _: reject; }")),
    ("", start("transition select(m.k) { Kind.tcp: accept; 7 .. 9: accept; _: reject; }")),
    ("", start("transition select(m.e) { error.NoError: accept; _: reject; }")),
    ("", start("transition select(m.s.x) { 0x10 &&& 0xF0: accept; n: accept; 8w3: start; }")),
    ("", start("transition select(m.s.x ++ m.s.x, q.q.lastIndex) { (257, 0): accept; }")),
    ("value_set<bit<8>>(4) vs;", start("transition select(m.s.x) { vs: accept; _: reject; }")),
    ("value_set<S>(4) vs;", start("transition select(m.s.x, m.s.y) { vs: accept; _: reject; }")),
    ("value_set<tuple<bit<8>, bool>>(4) vs;", start("transition select(m.s.x, m.f) { vs: accept; }")),
    ("bit<8> v = 0; const bit<8> k = 2;", start("v = v + k; if (v == 3) { v = 0; } transition accept;")),
    ("Reg<bit<8>>(4) r;", start("bit<8> v; r.read(v, 1); verify(v == 1, error.NoMatch);")),
]  # fmt: skip


@pytest.mark.parametrize(("local", "states"), ACCEPTED)
def test_accepted(local: str, states: str) -> None:
    run(in_parser(states, local))


@pytest.mark.parametrize(
    ("local", "message"),
    [
        ("value_set<H>(4) vs;", "3:72: there are no value sets of H"),
        ("value_set<bit<8>>(true) vs;", "3:77: a value set's size must be an integer, not bool"),
        ("value_set<bit<8>>(m.s.x) vs;", "3:77: a value set's size must be known at compile time"),
        ("bit<8> k = n; bit<8> k = 1;", "3:79: 'k' is already declared at m.p4:3:65"),
    ],
)
def test_local_error(local: str, message: str) -> None:
    found = one_error(in_parser(start("transition accept;"), local))
    assert found.split(":")[2].startswith(message.split(":")[2]), found
    assert found.startswith("3:"), found


def test_keys_are_recorded_with_conversion_and_value() -> None:
    checked = run(in_parser(start("transition select(m.s.x) { 300: accept; 1 &&& 3: accept; }")))
    (select,) = [n for n in nodes(checked.program) if isinstance(n, ast.Select)]
    plain, masked = (case.keys[0] for case in select.cases)
    assert str(checked.coercions[id(plain)]) == "bit<8>"
    assert checked.consts[id(plain)] == 300
    assert str(checked.coercions[id(masked)]) == "set<bit<8>>"
    assert isinstance(masked, ast.Binary)
    assert str(checked.coercions[id(masked.left)]) == "bit<8>"


def test_warnings() -> None:
    found = warnings(
        in_parser(start("transition select(m.s.x) { 300: accept; _: reject; 4..3: accept; }"))
    )
    assert found == [
        "4:42: 300 does not fit bit<8> and is cut to its width",
        "4:66: this case is never reached: an earlier one matches all",
        "4:66: the range 4..3 is empty",
    ]


def test_sub_parsers() -> None:
    source = (
        PRELUDE + "parser sub(packet_in p, out H h)(bit<8> n) { state start { p.extract(h); "
        "transition accept; } } parser top(packet_in p, out H h) { sub(3) s; state start { "
        "s.apply(p, h); transition accept; } }"
    )
    checked = run(source)
    (info,) = [i for i in checked.calls.values() if i.name == "apply"]
    assert info.kind.value == "parser apply"
    assert isinstance(info.target, ast.ParserDecl)
    assert info.target.name == "sub"
    wrong = source.replace("s.apply(p, h)", "s.apply(p, h, h)")
    assert "'sub' takes 2 arguments, but is given 3" in one_error(wrong)
