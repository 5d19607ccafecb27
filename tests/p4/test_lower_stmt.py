"""Statements: loops, switches, returns, variables."""

from __future__ import annotations

import pytest
from lower_kit import build, results

from sglb.p4 import ir


def test_a_range_may_end_at_the_largest_value_of_its_type() -> None:
    code = "bit<16> n = 0; for (bit<8> i in 0 .. 255) { n = n + 1; } h.o.r0 = n[15:8]; h.o.r1 = n[7:0];"
    assert results(code)[:2] == [1, 0]


def test_signed_ranges_and_run_time_ends() -> None:
    code = """
    int<8> sum = 0; for (int<8> i in -3 .. 1) { sum = sum + i; }
    h.o.r0 = (bit<8>)sum;
    for (bit<8> i in h.i.x .. h.i.y) { h.o.r1 = h.o.r1 + i; h.i.y = 0; }
    for (bit<8> i in 5 .. 4) { h.o.r2 = 9; }
    """
    # -3-2-1+0+1 = -5; 3+4+5 = 12, the end being taken once.
    assert results(code, "00030500")[:3] == [0xFB, 12, 0]


def test_break_continue_and_the_update_of_a_for() -> None:
    code = """
    for (bit<8> i = 0; i < 10; i = i + 1) {
        if (i == 2) { continue; }
        if (i == 5) { break; }
        h.o.r0 = h.o.r0 + i;
    }
    bit<8> n = 0;
    for (bit<8> i = 0, bit<8> j = 10; i < j; i = i + 1, j = j - 1) { n = n + 1; }
    h.o.r1 = n;
    """
    assert results(code)[:2] == [0 + 1 + 3 + 4, 5]


def test_a_condition_with_effects_is_tested_each_round() -> None:
    top = "bool below(inout bit<8> v, in bit<8> limit) { v = v + 1; return v < limit; }"
    code = "for (; below(h.i.x, 4); ) { h.o.r0 = h.o.r0 + 1; } h.o.r1 = h.i.x;"
    assert results(code, top=top)[:2] == [3, 4]


def test_loops_over_stacks_and_lists_go_over_a_copy() -> None:
    parts = {"top": "header e_h { bit<8> v; }", "headers": "e_h[3] s;"}
    code = """
    h.s[0].setValid(); h.s[0].v = 1; h.s[1].setValid(); h.s[1].v = 2; h.s[2].setValid(); h.s[2].v = 3;
    for (e_h e in h.s) { h.o.r0 = h.o.r0 + e.v; h.s[2].v = 100; }
    for (bit<8> b in (list<bit<8>>){ 10, 20, 12 }) { h.o.r1 = h.o.r1 + b; }
    """
    assert results(code, **parts)[:2] == [6, 42]


def test_a_variable_without_a_value_starts_as_zero_in_every_round() -> None:
    code = """
    for (bit<8> i = 0; i < 3; i = i + 1) { bit<8> v; v = v + 1; h.o.r0 = h.o.r0 + v;
        out_h k; if (k.isValid()) { h.o.r1 = 1; } k.setValid(); }
    """
    assert results(code)[:2] == [3, 0]


@pytest.mark.parametrize(("x", "expected"), [(1, 11), (2, 12), (3, 12), (4, 14), (9, 14), (5, 15)])
def test_a_switch_falls_to_the_next_body_and_to_default(x: int, expected: int) -> None:
    code = """
    switch (h.i.x) {
        1: { h.o.r0 = 11; }
        2: 3: { h.o.r0 = 12; }
        5: { h.o.r0 = 15; }
        4: default: { h.o.r0 = 14; }
    }
    """
    assert results(code, f"00{x:02x}0000")[0] == expected


def test_a_switch_on_a_table_runs_what_the_action_says() -> None:
    locals_ = """
    action a() { h.o.r1 = 1; } action b() { h.o.r1 = 2; }
    table t { key = { h.i.x : exact; } actions = { a; b; NoAction; }
              const entries = { 1 : a(); 2 : b(); } }
    """
    code = """
    switch (t.apply().action_run) { a: { h.o.r0 = 11; } b: { h.o.r0 = 12; } default: { h.o.r0 = 13; } }
    """
    found = [results(code, f"00{x:02x}0000", locals=locals_)[:2] for x in (1, 2, 3)]
    assert found == [[11, 1], [12, 2], [13, 0]]


def test_hit_and_miss_inside_expressions() -> None:
    locals_ = """
    action a() { h.i.y = 7; }
    table t { key = { h.i.x : exact; } actions = { a; NoAction; } const entries = { 1 : a(); } }
    """
    code = "if (h.i.y == 0 && t.apply().hit && h.i.y == 7) { h.o.r0 = 1; } h.o.r1 = h.i.y;"
    assert results(code, "00010000", locals=locals_)[:2] == [1, 7]
    assert results(code, "00020000", locals=locals_)[:2] == [0, 0]
    assert results(code, "00010100", locals=locals_)[:2] == [0, 1]  # not applied
    code = "if (t.apply().miss) { h.o.r0 = 1; }"
    assert results(code, "00020000", locals=locals_)[0] == 1


def test_return_leaves_the_function_from_inside_a_loop() -> None:
    top = """
    bit<8> first(in bit<8> limit) {
        for (bit<8> i = 0; i < 100; i = i + 1) { if (i * i > limit) { return i; } }
        return 0xff;
    }
    """
    assert results("h.o.r0 = first(h.i.x); h.o.r1 = first(3);", "00300000", top=top)[:2] == [7, 2]


def test_code_behind_a_return_is_dropped() -> None:
    program = build("if (h.i.x == 1) { exit; h.o.r0 = 1; } { return; } h.o.r1 = 1;")
    body = program.ir.procs[program.ir.ingress].body
    branch = body[2]
    assert isinstance(branch, ir.If)
    assert [type(s) for s in branch.then] == [ir.Exit]
    assert len(body) == 3  # the return at the very end is not needed


def test_assigning_the_invalid_header() -> None:
    code = "h.i = {#}; h.o.r0 = (bit<8>)(bit<1>)h.i.isValid(); h.i.setValid(); h.o.r1 = h.i.x;"
    assert results(code, "00050000")[:2] == [0, 0]  # setValid on an invalid header clears it
