"""Calls: copy-in and copy-out, shared and own storage, instances, actions, sub-parsers."""

from __future__ import annotations

import pytest
from lower_kit import build, results, run, send

from sglb.p4 import CompiledProgram, P4Errors, ir


def slot_names(program: CompiledProgram) -> set[str]:
    return {slot.name for slot in program.ir.slots}


def test_arguments_go_in_and_come_out_in_order() -> None:
    top = """
    void mix(in bit<8> a, inout bit<8> b, out bit<8> c) { b = b + a; c = c + b; }
    """
    code = """
    h.i.z = 50;
    mix(h.i.x, h.i.y, h.i.z);            // y = 2 + 1, z = 0 + 3
    h.o.r0 = h.i.y; h.o.r1 = h.i.z;
    mix(h.i.x, h.i.x, h.i.x);            // b = 1 + 1, then c = 0 + 2 wins
    h.o.r2 = h.i.x;
    mix(c = h.o.r3, a = 5, b = h.i.x);   // named
    h.o.r4 = h.i.x;
    """
    assert results(code, "00010200", top=top)[:5] == [3, 3, 2, 7, 7]


def test_the_place_of_an_out_argument_is_settled_before_the_call() -> None:
    top = "header e_h { bit<8> v; } void set(inout bit<8> i, out bit<8> v) { i = 1; v = 9; }"
    code = """
    h.s[0].setValid(); h.s[1].setValid();
    set(h.i.x, h.s[h.i.x].v);
    h.o.r0 = h.s[0].v; h.o.r1 = h.s[1].v;
    """
    assert results(code, top=top, headers="e_h[2] s;")[:2] == [9, 0]


def test_a_slice_may_be_an_out_argument() -> None:
    top = "void set(out bit<4> v) { v = 0xa; }"
    assert results("h.o.r0 = 0xff; set(h.o.r0[5:2]);", top=top)[0] == 0xEB


def test_a_generic_function_is_made_for_each_type() -> None:
    top = "T pick<T>(in bool first, in T a, in T b) { if (first) { return a; } return b; }"
    code = """
    h.o.r0 = pick(h.i.x == 1, 8w5, 8w6);
    bit<16> w = pick<bit<16>>(true, 16w0x1234, 16w0); h.o.r1 = w[15:8];
    in_h k = pick(false, h.i, h.i); h.o.r2 = k.x;
    """
    assert results(code, "00010000", top=top)[:3] == [5, 0x12, 1]


def test_structures_as_results() -> None:
    top = "struct s_t { bit<8> a; bit<8> b; } s_t swap(in s_t s) { return { s.b, s.a }; }"
    code = """
    s_t s = { 1, 2 };
    s = swap(s); h.o.r0 = s.a; h.o.r1 = swap(swap({ 5, 6 })).a; h.o.r2 = swap({ 7, 8 }).a;
    """
    assert results(code, top=top)[:3] == [2, 5, 8]


SUB = """
control Sub(inout headers_t hdr, in bit<8> add, out bit<8> result) {
    bit<8> kept;
    action bump() { hdr.i.x = hdr.i.x + add; }
    apply { kept = kept + 1; bump(); result = hdr.i.x + kept; }
}
"""


def build_with(sub: str, code: str, locals_: str) -> CompiledProgram:
    return build(code, before=sub, locals=locals_)


def results_with(sub: str, code: str, locals_: str, packet: str = "00000000") -> list[int]:
    return results(code, packet, before=sub, locals=locals_)


def test_a_control_applied_once_shares_its_arguments_storage() -> None:
    code = "s.apply(h, h.i.y, m.m0); h.o.r0 = m.m0; h.o.r1 = h.i.x;"
    program = build_with(SUB.replace("hdr.i.x + add", "hdr.i.x + 2"), code, "Sub() s;")
    # `add` is h.i.y, which lies inside `hdr`: those two cannot be shared, `result` can.
    names = slot_names(program)
    assert "I.s.hdr.i.x" in names
    assert "I.s.add" in names
    assert "I.s.result" not in names
    program = build_with(SUB, "s.apply(h, m.m0, h.o.r0);".replace("h.o.r0", "m.m0"), "Sub() s;")
    assert "I.s.add" in slot_names(program)  # in and out are the same variable
    program = build_with(SUB, "bit<8> v = 3; s.apply(h, v, m.m0);", "Sub() s;")
    assert not {n for n in slot_names(program) if n.startswith("I.s.") and n != "I.s.kept"}
    call = next(s for s in program.ir.procs[program.ir.ingress].body if isinstance(s, ir.Call))
    assert call.copy_out == ()


def test_sharing_or_copying_gives_the_same_result() -> None:
    code = "bit<8> v = 3; s.apply(h, v, m.m0); h.o.r0 = m.m0; h.o.r1 = h.i.x;"
    assert results_with(SUB, code, "Sub() s;", "00050000")[:2] == [9, 8]
    twice = code + "s.apply(h, v, m.m0); h.o.r2 = m.m0; h.o.r3 = h.i.x;"
    assert results_with(SUB, twice, "Sub() s;", "00050000")[:4] == [9, 8, 12, 11]
    direct = code.replace("s.apply", "Sub.apply")
    assert results_with(SUB, direct, "", "00050000")[:2] == [9, 8]
    overlapping = "s.apply(h, h.i.x, h.i.x); h.o.r0 = h.i.x;"
    # x = 5, add = 5: hdr.x becomes 10, result 11; copied out in order, result last.
    assert results_with(SUB, overlapping, "Sub() s;", "00050000")[0] == 11


def test_constructor_arguments_are_constants_of_the_instance() -> None:
    sub = """
    control Adder(inout bit<8> v)(bit<8> amount, bool twice) {
        const bit<8> total = amount + (twice ? amount : 0);
        apply { if (twice) { v = v + total; } else { v = v - amount; } }
    }
    """
    code = "a.apply(h.i.x); b.apply(h.i.y); h.o.r0 = h.i.x; h.o.r1 = h.i.y;"
    assert results_with(sub, code, "Adder(5, true) a; Adder(1, false) b;", "00010100")[:2] == [
        11,
        0,
    ]


def test_each_instance_has_its_own_state() -> None:
    sub = """
    control Count(out bit<8> v) {
        register<bit<8>>(1) r;
        apply { r.read(v, 0); v = v + 1; r.write(0, v); }
    }
    """
    program = build_with(
        sub, "a.apply(h.o.r0); a.apply(h.o.r1); b.apply(h.o.r2);", "Count() a; Count() b;"
    )
    assert [i.name for i in program.ir.instances] == ["I.a.r", "I.b.r"]
    assert send(program, "00000000")[:6] == "010201"


def test_exit_in_a_callee_copies_out_and_ends_the_block_only() -> None:
    sub = "control Quit(inout bit<8> v) { action go() { v = 9; exit; } apply { v = 8; go(); v = 7; } }"
    code = "q.apply(h.o.r0); h.o.r1 = 1;"
    assert results_with(sub, code, "Quit() q;")[:2] == [9, 0]
    assert results_with(sub, code + "q.apply(h.o.r2);", "Quit() q;")[:3] == [9, 0, 0]


def test_an_action_keeps_arguments_apart_from_what_it_changes() -> None:
    locals_ = "action a(in bit<8> v, inout bit<8> w) { h.i.x = 50; w = w + v; }"
    code = "h.o.r0 = 1; a(h.i.x, h.o.r0); h.o.r1 = h.i.x; a(h.i.x, h.i.x); h.o.r2 = h.i.x;"
    # second call: v = w = 50, x set to 50, then copied out 100.
    assert results(code, "00020000", locals=locals_)[:3] == [3, 50, 100]


def test_actions_bound_in_the_program_and_by_the_table() -> None:
    locals_ = """
    action put(out bit<8> where, in bit<8> base, bit<8> data) { where = base + data; }
    table t { key = { h.i.x : exact; }
        actions = { put(h.o.r0, h.i.y); put2; NoAction; } const entries = { 1 : put(h.o.r0, h.i.y, 5); }
        default_action = put2(7); }
    """.replace("put2;", "other;").replace("put2(7)", "other(7)")
    locals_ = "action other(bit<8> data) { h.o.r1 = data; }" + locals_
    code = "h.i.y = h.i.y + 1; t.apply();"
    assert results(code, "00011000", locals=locals_)[:2] == [0x16, 0]
    assert results(code, "00021000", locals=locals_)[:2] == [0, 7]
    program = build(code, locals=locals_)
    action = next(a for a in program.p4info.actions if a.preamble.name == "I.put")
    assert [p.name for p in action.params] == ["data"]


SUBPARSER = """
parser Inner(packet_in p, out in_h first, inout bit<8> count) {
    bit<8> n = 1;
    state start { p.extract(first); count = count + n; n = n + 1; transition select(count) {
        2: start; default: done; } }
    state done { verify(first.x != 0xee, error.NoMatch); transition accept; }
}
"""


def test_sub_parsers_loop_reset_and_reject() -> None:
    states = """
    Inner() sub;
    state start { m.m0 = 1; sub.apply(pkt, h.i, m.m0); transition after; }
    state after { m.m1 = 7; transition accept; }
    """

    code = """
    h.o.r0 = m.m0; h.o.r1 = m.m1[7:0]; h.o.r2 = h.i.x;
    h.o.r3 = (bit<8>)(bit<1>)(sm.parser_error == error.NoMatch);
    """

    def go(packet: str) -> list[int]:
        return results(code, packet, before=SUBPARSER, parser=states)[:4]

    # count: 1 -> 2 (again) -> 4; n is set to 1 before start only once.
    assert go("00110000" + "00220000") == [4, 7, 0x22, 0]
    # reject inside the sub-parser: copied out, caller's next state never entered.
    assert go("00110000" + "00ee0000") == [4, 0, 0xEE, 1]


def test_unsupported_things_name_the_construct_and_place() -> None:
    top = "extern thing { thing(); void go(); }"
    with pytest.raises(
        P4Errors, match=r"<program>:\d+:\d+: error: extern thing is not one of v1model"
    ):
        build("t.go();", top=top, locals="thing() t;")
    with pytest.raises(P4Errors, match="extern function magic is not one of v1model"):
        build("magic();", top="extern void magic();")


def test_the_switch_still_sends_what_the_program_does_not_touch() -> None:
    assert run() == "0000000000000000"
