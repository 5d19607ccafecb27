"""Parsers: selects, stacks, unions, lookahead, varbits, variables; and what the deparser sends."""

from __future__ import annotations

import pytest
from lower_kit import build, results, run

from sglb.p4 import P4Errors, ir

ELEMENT = {"top": "header e_h { bit<7> v; bit<1> last; }", "headers": "e_h[3] s;"}


@pytest.mark.parametrize(
    ("packet", "expected"),
    [
        ("00120000", 1),  # mask
        ("00370000", 2),  # range, both ends
        ("00390000", 2),
        ("003a0000", 9),
        ("00050000", 3),  # an enum's member
        ("00060700", 4),  # tuple with don't care
    ],
)
def test_key_sets(packet: str, expected: int) -> None:
    states = """
    state start { pkt.extract(h.i); transition select(h.i.x, h.i.y) {
        (0x10 &&& 0xf0, _): p1; (0x37 .. 0x39, _): p2; (Kind.Five, default): p3; (6, 7): p4;
        _: p9; } }
    """ + " ".join(f"state p{n} {{ m.m0 = {n}; transition accept; }}" for n in (1, 2, 3, 4, 9))
    parts = {"top": "enum bit<8> Kind { Five = 5 }", "parser": states}
    assert results("h.o.r0 = m.m0;", packet, **parts)[0] == expected


def test_a_select_calls_each_operand_once_and_in_order() -> None:
    states = """
    state start { pkt.extract(h.i); transition select(h.i.x, next(h.i.x), next(h.i.x)) {
        (5, 6, 7): good; _: accept; } }
    state good { m.m0 = 1; transition accept; }
    """
    parts = {"before": "bit<8> next(inout bit<8> v) { v = v + 1; return v; }", "parser": states}
    assert results("h.o.r0 = m.m0; h.o.r1 = h.i.x;", "00050000", **parts)[:2] == [1, 7]


def test_no_match_rejects_without_an_error_and_implicit_reject() -> None:
    states = (
        "state start { pkt.extract(h.i); transition select(h.i.x) { 1: more; } } state more { }"
    )
    code = "h.o.r0 = (bit<8>)(bit<1>)(sm.parser_error == error.NoError); h.o.r1 = h.i.x;"
    assert results(code, "00070000", parser=states)[:2] == [1, 7]
    program = build(parser=states)
    parser = program.ir.procs[program.ir.parser]
    assert [s.name for s in parser.states] == ["start", "more"]
    assert parser.states[1].next == ir.REJECT


def test_stacks_grow_and_tell_their_last_element() -> None:
    states = """
    state start { pkt.extract(h.i); transition next; }
    state next { pkt.extract(h.s.next); m.m0 = (bit<8>)h.s.last.v;
        m.m1 = (bit<16>)h.s.lastIndex;
        transition select(h.s.last.last) { 0: next; 1: accept; } }
    """
    code = """
    h.o.r0 = m.m0; h.o.r1 = m.m1[7:0]; h.o.r2 = (bit<8>)h.s[1].v;
    h.o.r3 = (bit<8>)(bit<1>)(sm.parser_error == error.StackOutOfBounds);
    """
    parts = ELEMENT | {"parser": states}
    assert results(code, "00000000" + "0205", **parts)[:4] == [2, 1, 2, 0]
    # A fourth element does not fit: three stay, the error is told.
    assert results(code, "00000000" + "02040609", **parts)[:4] == [3, 2, 2, 1]


def test_the_last_element_of_an_empty_stack_is_an_error() -> None:
    states = "state start { pkt.extract(h.i); m.m0 = (bit<8>)h.s.last.v + 1; transition accept; }"
    code = "h.o.r0 = m.m0; h.o.r1 = (bit<8>)(bit<1>)(sm.parser_error == error.StackOutOfBounds);"
    assert results(code, "00000000", **ELEMENT, parser=states)[:2] == [0, 1]


UNION = "header a_h { bit<8> kind; bit<8> v; } header b_h { bit<8> kind; bit<16> w; } "
UNION += "header_union u_t { a_h a; b_h b; }"


def test_extracting_into_a_stack_of_unions() -> None:
    states = """
    state start { pkt.extract(h.i); transition next; }
    state next { transition select(pkt.lookahead<bit<8>>()) { 1: a; 2: b; default: accept; } }
    state a { pkt.extract(h.us.next.a); transition next; }
    state b { pkt.extract(h.us.next.b); transition next; }
    """
    code = """
    h.o.r0 = (bit<8>)(bit<1>)h.us[0].b.isValid(); h.o.r1 = (bit<8>)(bit<1>)h.us[1].a.isValid();
    h.o.r2 = h.us[1].a.v; h.o.r3 = (bit<8>)(bit<1>)h.us[1].b.isValid(); h.o.r4 = h.us[0].b.w[7:0];
    """
    parts = {"top": UNION, "headers": "u_t[2] us;", "parser": states}
    found = results(code, "00000000" + "02aabb" + "01cc" + "ff", **parts)
    assert found[:5] == [1, 1, 0xCC, 0, 0xBB]
    sent = run("", "00000000" + "02aabb" + "01cc" + "ff", **parts, deparser="pkt.emit(h.us);")
    assert sent == "02aabb" + "01cc" + "ff"


def test_extracting_into_a_union_invalidates_its_other_member() -> None:
    states = "state start { pkt.extract(h.u.a); pkt.extract(h.u.b); transition accept; }"
    code = "h.o.r0 = (bit<8>)(bit<1>)h.u.a.isValid(); h.o.r1 = (bit<8>)(bit<1>)h.u.b.isValid();"
    parts = {"top": UNION, "headers": "u_t u;", "parser": states}
    assert results(code, "0102030405", **parts)[:2] == [0, 1]


def test_lookahead_of_structures() -> None:
    top = "struct peek_t { bit<4> a; bit<4> b; bit<8> c; } header k_h { bit<8> v; }"
    states = """
    state start {
        peek_t p = pkt.lookahead<peek_t>(); k_h k = pkt.lookahead<k_h>();
        m.m0 = (bit<8>)p.b; m.m1 = (bit<16>)p.c + (bit<16>)pkt.lookahead<in_h>().z;
        m.valid = (bit<8>)(bit<1>)k.isValid();
        pkt.extract(h.i); transition accept; }
    """
    code = "h.o.r0 = m.m0; h.o.r1 = m.m1[7:0]; h.o.r2 = h.i.op; h.o.r3 = m.valid;"
    parts = {"top": top, "parser": states, "meta": "bit<8> valid;"}
    assert results(code, "12340005", **parts)[:4] == [2, 0x39, 0x12, 1]


def test_advance_skips_and_length_counts() -> None:
    states = """
    state start { pkt.advance(16); pkt.extract(h.i); pkt.extract<out_h>(_);
        m.m0 = (bit<8>)pkt.length(); transition accept; }
    """
    sent = run("h.o.r0 = m.m0;", "ffff" + "01020304" + "00" * 8 + "ab", parser=states)
    assert sent == "0f" + "00" * 7 + "ab"


def test_variables_of_a_parser_start_once() -> None:
    states = """
    bit<8> n = 5;
    state start { pkt.extract(h.s.next); n = n + 1; transition select(h.s.last.last) {
        0: start; default: done; } }
    state done { m.m0 = n; transition accept; }
    """
    code = "h.o.r0 = m.m0;"
    assert results(code, "000201", **ELEMENT, parser=states)[0] == 8
    program = build(code, **ELEMENT, parser=states)
    parser = program.ir.procs[program.ir.parser]
    assert [type(s) for s in parser.body] == [ir.Assign]


def test_conditions_in_states() -> None:
    states = """
    state start { pkt.extract(h.i); if (h.i.x > 3) { m.m0 = 1; } else { m.m0 = 2; }
                  transition accept; }
    """
    assert results("h.o.r0 = m.m0;", "00040000", parser=states)[0] == 1
    assert results("h.o.r0 = m.m0;", "00030000", parser=states)[0] == 2


def test_value_sets() -> None:
    top = "struct pair_t { @match(ternary) bit<8> a; bit<8> b; }"
    states = """
    value_set<bit<8>>(4) one; value_set<pair_t>(2) @name("renamed") two;
    state start { pkt.extract(h.i); transition select(h.i.x) { one: accept; default: more; } }
    state more { transition select(h.i.x, h.i.y) { two: accept; default: accept; } }
    """.replace(
        'value_set<pair_t>(2) @name("renamed") two', '@name("renamed") value_set<pair_t>(2) two'
    )
    program = build(top=top, parser=states)
    first, second = program.ir.value_sets
    assert (first.name, first.widths, first.kinds, first.size) == ("P.one", (8,), ("exact",), 4)
    assert (second.name, second.widths) == ("P.renamed", (8, 8))
    assert second.kinds == ("ternary", "exact")
    select = program.ir.procs[program.ir.parser].states[1].next
    assert isinstance(select, ir.Select)
    assert select.cases[0].keys == (ir.MatchSet(1),)
    assert select.cases[1].keys == (ir.MatchAny(), ir.MatchAny())


def test_emit_walks_structures_in_order() -> None:
    states = "state start { pkt.extract(h.i); pkt.extract(h.s.next); transition accept; }"
    sent = run("", "01020304" + "05", **ELEMENT, parser=states, deparser="pkt.emit(h);")
    assert sent == "00" * 8 + "01020304" + "05"
    chosen = "if (h.i.x == 2) { pkt.emit(h.i); } pkt.emit(h.s[0]);"
    assert run("", "01020304" + "05", **ELEMENT, parser=states, deparser=chosen) == "0102030405"


def test_only_headers_can_be_emitted() -> None:
    with pytest.raises(P4Errors, match="error:"):
        build(deparser="pkt.emit(h.i.x);")


def test_extracting_at_a_run_time_index() -> None:
    states = """
    state start { pkt.extract(h.i); pkt.extract(h.s[h.i.x]); transition accept; }
    """
    code = "h.o.r0 = (bit<8>)h.s[2].v; h.o.r1 = (bit<8>)(bit<1>)h.s[0].isValid();"
    assert results(code, "00020000" + "55", **ELEMENT, parser=states)[:2] == [0x2A, 0]
