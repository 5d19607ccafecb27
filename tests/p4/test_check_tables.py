"""Tables: keys, action lists, properties, entries, apply results."""

from __future__ import annotations

import pytest
from check_kit import PRELUDE, nodes, one_error, pointed, run, warnings

from sglb.p4 import ast


def with_table(body: str, apply: str = "t.apply();") -> str:
    """A table whose properties stand on line 5, applied on line 7."""
    return (
        "#include <core.p4>\n#include <v1model.p4>\n"
        + PRELUDE.split("\n", 1)[1]
        + "struct M { S s; bool f; Kind k; Port p; int<8> i; error e; H h; } "
        "bit<8> effect(inout bit<8> v) { v = v + 1; return v; }\n"
        "control c(inout M m)(bit<32> big) { action a() {} action d1(bit<8> v) { m.s.x = v; } "
        "action d2(inout bit<8> w, bit<8> v) { w = v; } action in1(in bit<8> w, bit<16> v) {} "
        "action other() {} direct_counter(CounterType.packets) ctr; action_profile(16) prof; "
        f"table t {{\n{body}\n}} apply {{\n{apply}\n}} }}"
    )


PLAIN = "key = { m.s.x : exact; } actions = { a; d1; NoAction; } "
WIDE = "key = { m.s.x : exact; m.s.y : ternary; } actions = { a; d1; } "
LPM = "key = { m.s.y : lpm; } actions = { a; } "

ERRORS = [
    ("key = { m.s.x : exakt; } actions = { a; }", "m", "match_kind 'exakt' is not declared", "'exact'"),
    ("key = { m.s : exact; } actions = { a; }", "m.s", "a key field cannot have type S", "fields"),
    ("key = { m.h : exact; } actions = { a; }", "m.h", "a key field cannot have type H", ""),
    ("key = { 5 : exact; } actions = { a; }", "5", "a key field cannot have type int", "cast"),
    ("key = { m.z : exact; } actions = { a; }", "m.z", "struct M has no field 'z'", ""),
    ("actions = { a; a; }", "a", "action 'a' is listed twice", ""),
    ("actions = { b; }", "b", "action 'b' is not declared", ""),
    ("actions = { othr; }", "othr", "action 'othr' is not declared", "'other'"),
    ("actions = { m; }", "m", "'m' is a parameter, not an action", ""),
    ("actions = { d2; }", "d2", "the table must bind parameter 'w' of 'd2'", "inout bit<8> w"),
    ("actions = { d2(m.s.x, 1); }", "1", "parameter 'v' has no direction: the control plane", ""),
    ("actions = { d1(v = 1); }", "v = 1", "parameter 'v' has no direction: the control plane", ""),
    ("actions = { d2(m.s.y); }", "m.s.y", "argument 'w' must have type bit<8> exactly", ""),
    ("actions = { d2(1); }", "1", "the inout argument 'w' must be something that can be wri", ""),
    (PLAIN + "default_action = other;", "other", "action 'other' is not in the actions", "add it"),
    (PLAIN + "default_action = d1;", "d1", "'d1' needs an argument for v", "d1(bit<8> v)"),
    (PLAIN + "default_action = d1(m.s.x);", "m.s.x", "argument 'v' must be known at compile time", ""),
    (PLAIN + "default_action = d1(true);", "true", "argument 'v' must have type bit<8>", ""),
    (PLAIN + "default_action = m.s.x;", "m.s.x", "default_action must name an action", ""),
    (PLAIN + "size = 1; size = 2;", "size", "table 't' has 'size' twice", ""),
    (PLAIN + "size = true;", "true", "'size' must be an integer, not bool", ""),
    (PLAIN + "size = m.s.x;", "m.s.x", "'size' must be known at compile time", ""),
    (PLAIN + "size = -1;", "-1", "'size' must be at least 0, not -1", ""),
    (PLAIN + "priority_delta = 0;", "0", "'priority_delta' must be at least 1, not 0", ""),
    (PLAIN + "largest_priority_wins = 1;", "1", "'largest_priority_wins' must be true or false", ""),
    (PLAIN + "counters = 3;", "3", "'counters' must be an extern instance, not int", ""),
    (PLAIN + "const entries = { true : a; }", "true", "the key set must have type bit<8>", ""),
    (PLAIN + "const entries = { _ : a; }", "_", "an exact field needs a value, not '_'", ""),
    (PLAIN + "const entries = { 1 &&& 3 : a; }", "1 &&& 3", "a mask cannot be used on", ""),
    (PLAIN + "const entries = { 1..3 : a; }", "1..3", "a range of values cannot be used on a field", ""),
    (PLAIN + "const entries = { m.s.x : a; }", "m.s.x", "an entry's key must be known at compile", ""),
    (PLAIN + "const entries = { (1, 2) : a; }", "(", "this has 2 key sets, but 1 is needed", ""),
    (PLAIN + "const entries = { 1 : d1; }", "d1", "'d1' needs an argument for v", ""),
    (PLAIN + "const entries = { 1 : d1(m.s.x); }", "m.s.x", "argument 'v' must be known at compile", ""),
    (PLAIN + "const entries = { 1 : other; }", "other", "action 'other' is not in the actions", ""),
    (PLAIN + "const entries = { priority = 5 : 1 : a; }", "5", "entries of 't' take no priority", ""),
    (WIDE + "const entries = { 1 : a; }", "1", "this has 1 key set, but 2 are needed", ""),
    (WIDE + "const entries = { (1, 2..3) : a; }", "2..3", "a range of values cannot be used", ""),
    (WIDE + "const entries = { priority = (-1) : (1, 2) : a; }", "-1", "a priority cannot be n", ""),
    (WIDE + "entries = { (1, 2) : a; priority = 5 : (2, 3) : a; }", "(", "this entry needs a prio", ""),
    (LPM + "const entries = { 1 &&& 3 : a; }", "3", "0x3 is no prefix", ""),
    (LPM + "const entries = { 1..3 : a; }", "1..3", "a range of values cannot be used on a field", ""),
    ("actions = { d2(m.s.x); } default_action = d2(3);", "d2(3)", "'d2' needs an argument for w", ""),
    ("actions = { d2(m.s.x); } default_action = d2(m.i, 3);", "m.i", "argument 'w' must have type", ""),
    ("actions = { in1(m.s.x); } default_action = in1(7, 3);", "7", "argument 'w' differs from the", ""),
    ("actions = { @tableonly a; d1; } default_action = a;", "a", "'a' is @tableonly", ""),
    ("key = { m.s.x : exact; } actions = { @defaultonly a; } const entries = { 1 : a; }",
     "a", "'a' is @defaultonly", ""),
]  # fmt: skip


@pytest.mark.parametrize(("body", "at", "message", "hint"), ERRORS)
def test_error(body: str, at: str, message: str, hint: str) -> None:
    line, marked, text = pointed(with_table(body))
    assert (line, marked) == (5, at), text
    assert text.startswith(message), text
    assert hint in text.split(" | ")[1], text


def test_entries_need_a_key() -> None:
    line, at, text = pointed(with_table("actions = { a; } const entries = { 1 : a; }"))
    assert (line, at) == (4, "t")
    assert text == "table 't' has no key, so it cannot have entries | use default_action instead"


ACCEPTED = [
    PLAIN + "size = 1024; default_action = NoAction(); counters = ctr;",
    PLAIN + "const default_action = d1(0xff); implementation = prof; support_timeout = true;",
    PLAIN + "const entries = { 1 : a(); 8w2 : d1(3); @name(\"x\") 3 : NoAction(); }",
    PLAIN + "size = big; meters = direct_meter<bit<2>>(MeterType.bytes);",
    WIDE + "const entries = { (1, 2) : a; (1, 3 &&& 7) : a; (2, _) : a; _ : d1(1); }",
    WIDE + "entries = { priority = 10 : (1, 2) : a; const priority = 20 : (1, _) : a; (2, _) : a; }",
    WIDE + "largest_priority_wins = false; priority_delta = 10; const entries = { (1, 2) : a; }",
    LPM + "const entries = { 0x0A00 &&& 0xFF00 : a; 1 : a; _ : a; 0 &&& 0 : a; }",
    "key = { m.s.y : range; } actions = { a; } const entries = { 1..3 : a; 5 : a; _ : a; }",
    "key = { m.s.y : optional; } actions = { a; } const entries = { 1 : a; _ : a; }",
    "key = { m.k : exact; m.p : exact; m.i : exact; m.e : exact; m.f : exact; } actions = { a; } "
    "const entries = { (Kind.tcp, 5, -3, error.NoMatch, true) : a; }",
    "key = { m.h.isValid() : exact; m.s.x[3:0] : exact; m.s.x & 15 : exact; } actions = { a; }",
    "key = { } actions = { a; }",
    "actions = { d2(m.s.x); in1(effect(m.s.x)); } default_action = d2(m.s.x, 3);",
    "actions = { d2(w = m.s.x); } default_action = d2(v = 3, w = m.s.x);",
    "key = { m.s.x : selector; m.s.y : exact; } actions = { a; } "
    "implementation = action_selector(HashAlgorithm.crc16, 32w16, 32w8);",
]  # fmt: skip


@pytest.mark.parametrize("body", ACCEPTED)
def test_accepted(body: str) -> None:
    run(with_table(body))


def test_bound_and_whole_arguments() -> None:
    checked = run(with_table("actions = { d2(m.s.x); } default_action = d2(m.s.x, 3);"))
    (table,) = [n for n in nodes(checked.program) if isinstance(n, ast.TableDecl)]
    listed = checked.calls[id(table.actions[0])]
    assert [b.param.name for b in listed.args] == ["w"]
    default = checked.calls[id(table.properties[0].value)]
    assert [b.param.name for b in default.args] == ["w", "v"]
    assert default.target is checked.refs[id(table.actions[0])]


def test_a_value_wider_than_its_key_is_cut_with_a_warning() -> None:
    source = with_table(PLAIN + "const entries = { 0x1ff : d1(0x1fe); }")
    assert warnings(source) == [
        "5:75: 511 does not fit bit<8> and is cut to its width",
        "5:86: 510 does not fit bit<8> and is cut to its width",
    ]


def test_unknown_properties_are_ignored_with_a_warning() -> None:
    assert warnings(with_table(PLAIN + "siz = 3; psa_implementation = 4;")) == [
        "5:57: the table property 'siz' is unknown and ignored; did you mean 'size'?"
    ]


def test_a_table_without_default_needs_no_action() -> None:
    source = "control c() { action a() {} table t { actions = { a; } } apply { t.apply(); } }"
    found = one_error(source)
    assert found.startswith(
        "1:35: table 't' has no default_action, and there is no action NoAction()"
    )
    assert "include core.p4" in found


APPLY_ERRORS = [
    ("switch (t.apply().action_run) { b: {} }", "b", "'b' is not an action of table 't'", ""),
    (
        "switch (t.apply().action_run) { d2: {} }",
        "d2",
        "'d2' is not an action of table 't'",
        "",
    ),
    ("switch (t.apply().action_run) { a: {} a: {} }", "a", "label 'a' appears twice", ""),
    (
        "switch (t.apply().action_run) { default: {} a: {} }",
        "default",
        "'default' must be the last",
        "",
    ),
    (
        "switch (t.apply().action_run) { 3: {} }",
        "3",
        "a label of this switch must be an action's",
        "",
    ),
    ("switch (m.s.x) { 3: {} 3: {} }", "3", "this label appears twice", ""),
    ("switch (m.s.x) { m.s.x: {} }", "m.s.x", "a label must be known at compile time", ""),
    (
        "switch (m.s.x) { true: {} }",
        "true",
        "the label must have type bit<8>, but this is bool",
        "",
    ),
    ("switch (m.k) { 8w6: {} }", "8w6", "the label must have type Kind, but this is bit<8>", ""),
    ("switch (m.s) { default: {} }", "m.s", "cannot switch on a value of type S", ""),
    ("switch (5) { default: {} }", "5", "cannot switch on an int", ""),
    ("if (t.apply()) {}", "t.apply()", "the condition of 'if' must be bool", ""),
    (
        "bool x = t.apply().hits;",
        "t.apply().hits",
        "the result of applying a table has no member 'hits'",
        "",
    ),
    (
        "t.apply().hit = true;",
        "t.apply().hit",
        "the left side of an assignment must be something",
        "",
    ),
    ("t.hit();", "t.hit()", "a value of type table t has no method 'hit'", ""),
]


@pytest.mark.parametrize(("apply", "at", "message", "hint"), APPLY_ERRORS)
def test_apply_error(apply: str, at: str, message: str, hint: str) -> None:
    line, marked, text = pointed(with_table(PLAIN, apply))
    assert (line, marked) == (7, at), text
    assert text.startswith(message), text
    assert hint in text.split(" | ")[1], text


APPLY_ACCEPTED = [
    "if (t.apply().hit) {} else if (!t.apply().miss) {}",
    "switch (t.apply().action_run) { a: { m.s.x = 1; } d1: NoAction: {} default: {} }",
    "switch (m.s.x) { 1: 2: { m.f = true; } 8w3: {} default: {} }",
    "switch (m.k) { Kind.tcp: {} Kind.udp: {} }",
    "switch (m.e) { error.NoMatch: {} default: {} }",
    "switch (m.f) { true: {} false: {} }",
    "for (bit<8> i = 0; i < 3; i = i + 1) { if (i == 2) { break; } else { continue; } }",
    "for (bit<8> i in 0 .. 3) { m.s.x = i; }",
    "for (bit<8> i in 8w1 .. m.s.x) { m.s.x = i; }",
    "for (bit<8> i in (list<bit<8>>){ 1, 2, 3 }) { m.s.x = i; }",
    "exit;",
    "return;",
    "a(); d1(4); d2(m.s.x, 1);",
]


@pytest.mark.parametrize("apply", APPLY_ACCEPTED)
def test_apply_accepted(apply: str) -> None:
    run(with_table(PLAIN, apply))


LOOP_ERRORS = [
    ("for (bit<8> i = 0; i; i = i + 1) {}", "i", "the condition of 'for' must be bool"),
    (
        "for (bit<8> i in 16w0 .. 3) {}",
        "16w0",
        "the range must have type bit<8>, but this is bit<16>",
    ),
    ("for (bit<8> i in m.s.x) {}", "m.s.x", "a loop cannot run over a value of type bit<8>"),
    (
        "for (bool i in (list<bit<8>>){ 1 }) {}",
        "for",
        "'i' has type bool, but the elements are bit<8>",
    ),
    ("break;", "break", "'break' can be used only in a loop"),
    ("continue;", "continue", "'continue' can be used only in a loop"),
]


@pytest.mark.parametrize(("apply", "at", "message"), LOOP_ERRORS)
def test_loop_error(apply: str, at: str, message: str) -> None:
    line, marked, text = pointed(with_table(PLAIN, apply))
    assert (line, marked) == (7, at), text
    assert text.startswith(message), text
