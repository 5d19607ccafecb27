"""Expressions: what they compute, and that they are evaluated once and in order."""

from __future__ import annotations

import pytest
from lower_kit import build, results, run

from sglb.p4 import P4Errors, ir

BUMP = """
bit<8> bump(inout bit<8> v) { v = v + 1; return v; }
bool hit(inout bit<8> v, in bool answer) { v = v + 1; return answer; }
"""


def test_an_operand_keeps_its_value_through_the_effects_of_the_next() -> None:
    # x = 5: left is 5, then bump makes it 6 and yields 6.
    code = "h.o.r0 = h.i.x + bump(h.i.x); h.o.r1 = h.i.x; h.o.r2 = bump(h.i.y) - bump(h.i.y);"
    assert results(code, "00050a00", top=BUMP)[:3] == [11, 6, 0xFF]


def test_nested_and_repeated_calls_do_not_share_a_result() -> None:
    top = "bit<8> twice(in bit<8> v) { return v + v; }"
    code = "h.o.r0 = twice(twice(3)); h.o.r1 = twice(1) ++ 4w0 == 12w0x20 ? twice(5) : 8w0;"
    code += "h.o.r2 = twice(1) * 16 + twice(2);"
    assert results(code, top=top)[:3] == [12, 10, 0x24]


def test_short_circuits_evaluate_the_right_side_only_when_it_matters() -> None:
    code = """
    if (h.i.x == 1 && hit(h.i.y, true)) { h.o.r0 = 1; }
    if (h.i.x == 0 || hit(h.i.y, false)) { h.o.r1 = 1; }
    if (h.i.x == 0 && hit(h.i.y, true)) { h.o.r2 = 1; }
    if (h.i.x == 1 || hit(h.i.y, true)) { h.o.r3 = 1; }
    h.o.r4 = h.i.y;
    """
    # x = 0: right sides run in the third only (second is decided, fourth runs too).
    assert results(code, top=BUMP)[:5] == [0, 1, 1, 1, 2]
    # x = 1: first runs, second runs, third not, fourth not.
    assert results(code, "00010000", top=BUMP)[:5] == [1, 0, 0, 1, 2]


def test_an_arm_with_effects_runs_only_when_chosen() -> None:
    code = "h.o.r0 = h.i.x == 0 ? bump(h.i.y) : bump(h.i.z); h.o.r1 = h.i.y; h.o.r2 = h.i.z;"
    assert results(code, "00001020", top=BUMP)[:3] == [0x11, 0x11, 0x20]
    assert results(code, "00011020", top=BUMP)[:3] == [0x21, 0x10, 0x21]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("h.i.x |+| h.i.y", 0xFF),  # 0xf0 + 0x20
        ("h.i.y |-| h.i.x", 0),
        ("h.i.x >> 4", 0x0F),
        ("(bit<8>)((int<8>)h.i.x >> 2)", 0xFC),
        ("h.i.x << 9", 0),
        ("h.i.x << h.i.y", 0),  # by 32
        ("(bit<8>)((int<8>)h.i.x >> h.i.y)", 0xFF),
        ("-h.i.y", 0xE0),
        ("~h.i.x", 0x0F),
        ("h.i.x[7:4] ++ h.i.y[7:4]", 0xF2),
        ("(bit<8>)h.i.y[6:5]", 0x01),
        ("(bit<8>)(bit<1>)((int<8>)h.i.x < (int<8>)h.i.y)", 1),
        ("(bit<8>)(bit<1>)(h.i.x < h.i.y)", 0),
        ("(bit<8>)(bit<1>)(h.i.x >= h.i.y)", 1),
        ("(bit<8>)(int<8>)(int<16>)(int<4>)h.i.x[7:4]", 0xFF),
        ("(bit<8>)(int<8>)((int<16>)(int<8>)h.i.x >> 8)", 0xFF),
        ("h.i.x / 16", 0x0F),
        ("h.i.x % 32", 0x10),
        ("h.i.x[h.i.z+:4] ++ 4w0", 0xF0),  # z = 4
        ("(h.i.x ^ h.i.y) | 1", 0xD1),
        ("h.i.x * h.i.y", 0),
    ],
)
def test_operators(expr: str, expected: int) -> None:
    assert results(f"h.o.r0 = {expr};", "00f02004")[0] == expected


def test_division_at_run_time_names_the_place() -> None:
    with pytest.raises(P4Errors, match=r"<program>:\d+:\d+: error: division"):
        build("h.o.r0 = h.i.x / h.i.y;")


def test_slices_as_targets() -> None:
    code = """
    h.o.r0 = 0xff; h.o.r0[5:2] = 4w0;
    h.o.r1[7:4] = h.i.x[3:0]; h.o.r1[3:0] = h.i.x[7:4];
    h.o.r2 = 0xf0; h.o.r2[5:2][2:1] = 2w3;
    h.o.r3[h.i.z+:2] = 2w3;
    h.o.r4 = 1; h.o.r4[7:7] = h.o.r4[0:0];
    """
    assert results(code, "00a50004")[:5] == [0xC3, 0x5A, 0xF8, 0x30, 0x81]


def test_the_index_of_a_compound_assignment_is_evaluated_once() -> None:
    top = BUMP + "header e_h { bit<8> v; }"
    code = """
    h.s[0].setValid(); h.s[1].setValid(); h.s[2].setValid();
    h.s[0].v = 10; h.s[1].v = 20; h.s[2].v = 30;
    h.s[bump(h.i.x)].v += 5;
    h.o.r0 = h.s[0].v; h.o.r1 = h.s[1].v; h.o.r2 = h.s[2].v; h.o.r3 = h.i.x;
    """
    assert results(code, top=top, headers="e_h[3] s;")[:4] == [10, 25, 30, 1]


def test_the_index_of_a_target_is_settled_before_the_value() -> None:
    top = BUMP + "header e_h { bit<8> v; }"
    code = """
    h.s[0].setValid(); h.s[1].setValid();
    h.s[h.i.x].v = bump(h.i.x) + 6;
    h.o.r0 = h.s[0].v; h.o.r1 = h.s[1].v;
    """
    assert results(code, top=top, headers="e_h[2] s;")[:2] == [7, 0]


def test_equality_of_headers_is_about_validity_first() -> None:
    code = """
    out_h a; out_h b;
    if (a == b) { h.o.r0 = 1; }
    a.setValid();
    if (a == b) { h.o.r1 = 1; }
    b.setValid(); b.r3 = 9;
    if (a == b) { h.o.r2 = 1; }
    a.r3 = 9;
    if (a == b) { h.o.r3 = 1; }
    a.setInvalid(); b.setInvalid(); b.r0 = 77;
    if (a == b) { h.o.r4 = 1; }
    if (a != b) { h.o.r5 = 1; }
    """
    assert results(code)[:6] == [1, 0, 0, 1, 1, 0]


def test_structures_from_lists_names_and_defaults() -> None:
    top = "struct s_t { bit<8> a; bit<8> b; } struct n_t { s_t s; bit<8> c; }"
    code = """
    s_t s = { 1, 2 };
    n_t n = { c = 5, s = { b = 4, a = 3 } };
    s = { s.b, s.a };
    s_t d = { a = 9, ... };
    tuple<bit<8>, bit<8>> t = { 7, 8 };
    out_h k = (out_h){ 1, 1, 1, 1, 1, 1, 1, 1 };
    k = {#};
    h.o.r0 = s.a; h.o.r1 = s.b; h.o.r2 = n.s.a; h.o.r3 = n.s.b; h.o.r4 = n.c;
    h.o.r5 = d.a + d.b; h.o.r6 = t[1]; h.o.r7 = (bit<8>)(bit<1>)k.isValid();
    """
    assert results(code, top=top) == [2, 1, 3, 4, 5, 9, 8, 0]


def test_constants_of_structure_type() -> None:
    top = "struct s_t { bit<8> a; bit<8> b; } const s_t K = { 3, 4 };"
    code = "s_t s = K; h.o.r0 = s.b; h.o.r1 = K.a; if (s == K) { h.o.r2 = 1; }"
    assert results(code, top=top)[:3] == [4, 3, 1]


def test_a_union_has_one_valid_member() -> None:
    top = "header a_h { bit<8> v; } header b_h { bit<16> w; } header_union u_t { a_h a; b_h b; }"
    code = """
    h.o.r0 = (bit<8>)(bit<1>)h.u.isValid();
    h.u.a.setValid(); h.u.a.v = 5;
    h.u.b.setValid();
    h.o.r1 = (bit<8>)(bit<1>)h.u.a.isValid(); h.o.r2 = (bit<8>)(bit<1>)h.u.b.isValid();
    a_h other; other.setValid(); other.v = 9;
    h.u.a = other;
    h.o.r3 = (bit<8>)(bit<1>)h.u.b.isValid(); h.o.r4 = h.u.a.v;
    other.setInvalid(); h.u.b.setValid(); h.u.a = other;
    h.o.r5 = (bit<8>)(bit<1>)h.u.b.isValid();
    h.u.setInvalid(); h.o.r6 = (bit<8>)(bit<1>)h.u.isValid();
    """
    code = code.replace("h.u.setInvalid();", "h.u.b.setInvalid();")
    assert results(code, top=top, headers="u_t u;")[:7] == [0, 0, 1, 0, 9, 1, 0]


def test_unions_in_a_stack_at_a_run_time_index() -> None:
    top = "header a_h { bit<8> v; } header b_h { bit<16> w; } header_union u_t { a_h a; b_h b; }"
    code = """
    h.us[h.i.x].a.setValid(); h.us[h.i.x].a.v = 6;
    h.o.r0 = (bit<8>)(bit<1>)h.us[1].a.isValid(); h.o.r1 = h.us[1].a.v;
    h.us[h.i.x].b.setValid();
    h.o.r2 = (bit<8>)(bit<1>)h.us[1].a.isValid();
    h.o.r3 = (bit<8>)(bit<1>)h.us[h.i.x].b.isValid();
    h.o.r4 = (bit<8>)(bit<1>)h.us[0].isValid();
    """
    assert results(code, "00010000", top=top, headers="u_t[2] us;")[:5] == [1, 6, 0, 1, 0]


def test_a_run_time_index_out_of_range_reads_zero_and_writes_nothing() -> None:
    code = """
    h.s[0].setValid(); h.s[0].v = 1; h.s[1].setValid(); h.s[1].v = 2;
    h.s[h.i.x].v = 9;
    h.o.r0 = h.s[h.i.x].v; h.o.r1 = h.s[0].v; h.o.r2 = h.s[1].v;
    e_h e = h.s[h.i.x]; h.o.r3 = (bit<8>)(bit<1>)e.isValid();
    e = h.s[h.i.y]; h.o.r4 = e.v; h.s[h.i.z] = e; h.o.r5 = h.s[0].v;
    """
    parts = {"top": "header e_h { bit<8> v; }", "headers": "e_h[2] s;"}
    assert results(code, "00020100", **parts)[:6] == [0, 1, 2, 0, 2, 2]


def test_sizes_and_stack_properties_are_constants() -> None:
    code = """
    h.o.r0 = (bit<8>)h.i.minSizeInBits(); h.o.r1 = (bit<8>)h.o.maxSizeInBytes();
    h.o.r2 = (bit<8>)h.s.size;
    """
    parts = {"top": "header e_h { bit<8> v; }", "headers": "e_h[5] s;"}
    assert results(code, **parts)[:3] == [32, 8, 5]


def test_known_conditions_leave_no_code() -> None:
    program = build("if (1 == 1) { h.o.r0 = 1; } else { h.o.r1 = 1; } return; h.o.r2 = 2;")
    body = program.ir.procs[program.ir.ingress].body
    assert [type(s) for s in body] == [ir.SetValid, ir.Assign, ir.Assign]


def test_push_and_pop() -> None:
    code = """
    h.s[0].setValid(); h.s[0].v = 1; h.s[1].setValid(); h.s[1].v = 2;
    h.s.push_front(1); h.o.r0 = (bit<8>)(bit<1>)h.s[0].isValid();
    h.o.r1 = h.s[1].v; h.o.r2 = h.s[2].v;
    h.s.pop_front(2); h.o.r3 = h.s[0].v; h.o.r4 = (bit<8>)(bit<1>)h.s[1].isValid();
    """
    parts = {"top": "header e_h { bit<8> v; }", "headers": "e_h[3] s;"}
    assert results(code, **parts)[:5] == [0, 1, 2, 2, 0]


def test_varbits_compare_by_length_and_contents() -> None:
    top = "header v_h { bit<8> n; varbit<32> v; }"
    states = """
    state start { pkt.extract(h.i); pkt.extract(h.v, 16); pkt.extract(h.w, (bit<32>)h.i.x);
                  transition accept; }
    """
    code = "if (h.v == h.w) { h.o.r0 = 1; } h.v = h.w; if (h.v == h.w) { h.o.r1 = 1; }"
    parts = {"top": top, "parser": states, "headers": "v_h v; v_h w;"}
    same = "00100000" + "07aabb" + "07aabb"
    shorter = "00080000" + "07aabb" + "07aa"
    other = "00100000" + "07aabb" + "07aabc"
    assert [results(code, p, **parts)[:2] for p in (same, shorter, other)] == [
        [1, 1],
        [0, 1],
        [0, 1],
    ]


def test_errors_and_enums() -> None:
    top = "enum Suit { Clubs, Hearts } enum bit<8> Kind { A = 3, B = 7 }"
    code = """
    Suit s = Suit.Hearts; if (s == Suit.Hearts) { h.o.r0 = 1; }
    Kind k = (Kind)h.i.x; if (k == Kind.B) { h.o.r1 = 1; } h.o.r2 = k;
    if (sm.parser_error == error.PacketTooShort) { h.o.r3 = 1; }
    """
    assert results(code, "00070000", top=top)[:4] == [1, 1, 7, 0]
    assert results(code, "0007", top=top)[3] == 1


def test_everything_at_once_leaves_the_payload_alone() -> None:
    assert run("h.o.r7 = 1;", "00000000" + "cafe") == "0000000000000001" + "cafe"


def test_writing_through_two_run_time_indices_is_refused_reading_is_not() -> None:
    parts = {"top": "struct row_t { bit<8>[2] cells; }", "meta": "row_t[2] rows;"}
    code = "m.rows[1].cells[0] = 7; h.o.r0 = m.rows[h.i.x].cells[h.i.y];"
    assert results(code, "00010000", **parts)[0] == 7
    with pytest.raises(P4Errors, match=r"two indices known only at run time[\s\S]*copy the inner"):
        build("m.rows[h.i.x].cells[h.i.y] = 7;", **parts)
