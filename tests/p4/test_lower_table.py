"""Tables and what the control plane sees: keys, actions, defaults, entries, properties, order."""

from __future__ import annotations

from typing import Any

import pytest
from finsy.proto import p4i
from lower_kit import build, results

from sglb.p4 import CompiledProgram, P4Errors, ir

ACTIONS = "action set(bit<8> v) { h.o.r0 = v; } action other() { h.o.r0 = 99; }"


def table(body: str, apply: str = "t.apply();", **parts: str) -> CompiledProgram:
    locals_ = f"{ACTIONS} {parts.pop('locals', '')} table t {{ {body} }}"
    return build(apply, locals=locals_, **parts)


def only(program: CompiledProgram) -> ir.Table:
    (found,) = program.ir.tables
    return found


def key_names(keys: str, **parts: str) -> list[str]:
    program = table(f"key = {{ {keys} }} actions = {{ set; other; NoAction; }}", **parts)
    names = [k.name for k in only(program).keys]
    assert names == [f.name for f in program.p4info.tables[0].match_fields]
    return names


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("h.i.x", "h.i.x"),
        ("h.s[1].v", "h.s[1].v"),
        ("h.s[ONE].v", "h.s[1].v"),
        ("h.i.x[3:0]", "h.i.x[3:0]"),
        ("h.i.x & 0xF0", "h.i.x & 0xf0"),
        ("h.i.x & 240", "h.i.x & 240"),
        ("h.i.x & 0b11", "h.i.x & 0b11"),
        ("h.i.x & MASK", "h.i.x & 0x3c"),
        ("h.i.x & (0x30 + 0xf)", "h.i.x & 0x3f"),
        ("h.i.isValid()", "h.i.$valid$"),
        ("m.m0", "m.m0"),
        ("m.renamed", "m.shown"),
        ("sm.ingress_port", "sm.ingress_port"),
        ('(h.i.x + 1) @name("sum")', "sum"),
    ],
)
def test_keys_are_named_as_p4c_names_them(key: str, name: str) -> None:
    expr, _, annotation = key.partition(" @")
    text = f"{expr} : exact {'@' + annotation if annotation else ''};"
    parts = {
        "top": "header e_h { bit<8> v; } const bit<8> MASK = 0x3c; const int ONE = 1;",
        "headers": "e_h[2] s;",
        "meta": '@name("shown") bit<8> renamed;',
    }
    assert key_names(text, **parts) == [name]


def test_a_key_that_has_no_name_of_its_own_is_refused() -> None:
    with pytest.raises(P4Errors, match=r"has no name of its own[\s\S]*@name"):
        key_names("h.i.x + 1 : exact;")


def test_keys_read_once_before_each_apply() -> None:
    locals_ = f"""{ACTIONS}
    table t {{ key = {{ next(h.i.x) : exact @name("n"); }} actions = {{ set; other; }}
        const entries = {{ 1 : set(10); 2 : set(20); }} default_action = other(); }}
    """
    before = "bit<8> next(inout bit<8> v) { v = v + 1; return v; }"
    code = "t.apply(); h.o.r1 = h.o.r0; t.apply(); h.o.r2 = h.o.r0; t.apply(); h.o.r3 = h.i.x;"
    assert results(code, locals=locals_, before=before)[:4] == [99, 10, 20, 3]


def test_a_field_of_an_invalid_header_matches_as_zero() -> None:
    locals_ = f"""{ACTIONS}
    table t {{ key = {{ h.i.x : exact; }} actions = {{ set; other; }}
        const entries = {{ 0 : set(10); 5 : set(50); }} default_action = other(); }}
    """
    assert results("t.apply();", "00050000", locals=locals_)[0] == 50
    assert results("h.i.setInvalid(); t.apply();", "00050000", locals=locals_)[0] == 10


def test_no_action_is_added_where_there_is_no_default() -> None:
    plain = only(table("key = { h.i.x : exact; } actions = { set; }"))
    assert [a.name for a in plain.actions] == ["I.set", "NoAction"]
    assert plain.default_action == 1
    assert plain.actions[1].default_only
    listed = only(table("key = { h.i.x : exact; } actions = { NoAction; set; }"))
    assert [a.name for a in listed.actions] == ["NoAction", "I.set"]
    assert (listed.default_action, listed.actions[0].default_only) == (0, False)


def test_default_actions() -> None:
    stated = only(
        table("key = { h.i.x : exact; } actions = { set; } const default_action = set(7);")
    )
    assert (stated.default_action, stated.default_args, stated.const_default) == (0, (7,), True)
    with pytest.raises(P4Errors, match="error:"):
        table("actions = { set; } default_action = other();")


def entries(body: str, keys: str, **parts: str) -> list[tuple[Any, ...]]:
    actions = "actions = { set; other; NoAction; }"
    found = only(table(f"key = {{ {keys} }} {actions} {body}", **parts))
    return [
        (tuple((k.value, k.mask, k.hi) for k in e.keys), e.args, e.priority) for e in found.entries
    ]


def test_entries_of_each_match_kind() -> None:
    keys = "h.i.x : exact; h.i.y : lpm; h.i.z : ternary;"
    body = """const entries = {
        (1, 0x30 &&& 0xf0, _) : set(1); (2, _, 5) : set(2); (3, 4, 0x1f &&& 0x0f): other(); }"""
    assert entries(body, keys) == [
        (((1, 255, None), (0x30, 0xF0, None), (0, 0, None)), (1,), 3),
        (((2, 255, None), (0, 0, None), (5, 255, None)), (2,), 2),
        (((3, 255, None), (4, 255, None), (0x0F, 0x0F, None)), (), 1),
    ]
    keys = "h.i.x : range; h.i.y : optional;"
    body = "const entries = { (3 .. 9, 1) : set(1); (_, _) : set(2); (4, _) : set(3); }"
    assert entries(body, keys) == [
        (((3, 0, 9), (1, 255, None)), (1,), 3),
        (((0, 0, 255), (0, 0, None)), (2,), 2),
        (((4, 0, 4), (0, 0, None)), (3,), 1),
    ]


@pytest.mark.parametrize(
    ("body", "priorities", "shown"),
    [
        # Without numbers the first listed wins.
        ("entries = { 1 : set(1); 2 : set(2); 3 : set(3); }", [3, 2, 1], [3, 2, 1]),
        # An entry without a number follows the one before; they are put in order.
        (
            "entries = { priority=10 : 1 : set(1); 2 : set(2); priority=30 : 3 : set(3); }",
            [30, 10, 9],
            [30, 10, 9],
        ),
        (
            "priority_delta = 5; entries = { priority=20 : 1 : set(1); 2 : set(2); }",
            [20, 15],
            [20, 15],
        ),
        # The smallest wins: the control plane keeps the numbers, the switch turns them round.
        (
            "largest_priority_wins = false; entries = { priority=10 : 1 : set(1); 2 : set(2); }",
            [2, 1],
            [10, 11],
        ),
    ],
)
def test_priorities(body: str, priorities: list[int], shown: list[int]) -> None:
    program = table(f"key = {{ h.i.x : ternary; }} actions = {{ set; other; NoAction; }} {body}")
    assert [e.priority for e in only(program).entries] == priorities
    assert [u.entity.table_entry.priority for u in program.entries] == shown


@pytest.mark.parametrize(
    ("keys", "body", "message"),
    [
        ("h.i.x : exact;", "entries = { priority=1 : 1 : set(1); }", "no priority"),
        ("h.i.x : ternary;", "const entries = { priority=1 : 1 : set(1); }", "priorit"),
        ("h.i.x : ternary;", "entries = { 1 : set(1); priority=1 : 2 : set(1); }", "priority"),
        ("h.i.x : lpm;", "const entries = { 1 &&& 0x0f : set(1); }", "lpm|mask"),
        ("h.i.x : exact;", "const entries = { _ : set(1); }", "exact"),
        ("h.i.x : range;", "const entries = { 5 .. 3 : set(1); }", "range"),
    ],
)
def test_bad_entries(keys: str, body: str, message: str) -> None:
    with pytest.raises(P4Errors, match=f"error: [^\n]*({message})"):
        entries(body, keys)


def test_old_priority_annotations_order_const_entries_as_bmv2_does() -> None:
    """The smallest wins; an entry without one has its position."""
    body = "key = { h.i.x : ternary; } actions = { set; NoAction; } const entries = {"
    body += "1 &&& 3 : set(1) @priority(3); 1 : set(2); 5 &&& 5 : set(3) @priority(1); }"
    program = table(body)
    assert [e.priority for e in only(program).entries] == [1, 2, 3]
    assert [u.entity.table_entry.priority for u in program.entries] == [3, 2, 1]
    assert sum("@priority" in w.message for w in program.warnings) == 2


def test_direct_counters_meters_and_profiles() -> None:
    locals_ = """
    direct_counter(CounterType.bytes) dc; direct_meter<bit<8>>(MeterType.packets) dm;
    action_selector(HashAlgorithm.crc16, 64, 10) sel;
    action metered() { dc.count(); dm.read(m.m0); }
    """
    program = table(
        """key = { h.i.x : exact; h.i.y : selector; h.i.z : selector; }
        actions = { metered; NoAction; } counters = dc; meters = dm; implementation = sel;
        size = 17; support_timeout = true;""",
        locals=locals_,
    )
    found = only(program)
    instances = program.ir.instances
    assert found.direct_counter is not None
    assert found.direct_meter is not None
    assert found.implementation is not None
    assert instances[found.direct_counter].counts == "bytes"
    assert instances[found.direct_meter].counts == "packets"
    selector = instances[found.implementation]
    assert (selector.size, selector.algorithm, selector.output_width) == (64, "crc16", 10)
    assert (found.size, found.support_timeout) == (17, True)
    assert [k.name for k in found.keys] == ["h.i.x"]
    assert [f.width for f in found.selector] == [8, 8]
    assert isinstance(found.meter_result, ir.SlotRef)
    assert program.ir.slots[found.meter_result.slot].name == "m.m0"
    info = program.p4info
    assert info.tables[0].implementation_id == info.action_profiles[0].preamble.id
    assert info.tables[0].implementation_id == selector.p4info_id


def test_a_colour_kept_in_a_variable_of_the_action() -> None:
    locals_ = """
    direct_meter<bit<8>>(MeterType.packets) dm;
    action metered() { bit<8> colour = 9; dm.read(colour); h.o.r0 = colour + 1; }
    table t { key = { h.i.x : exact; } actions = { metered; } meters = dm;
              default_action = metered(); const entries = { 5 : metered(); } }
    """
    assert results("t.apply();", "00050000", locals=locals_)[0] == 1  # green


def test_a_profile_made_in_place_is_named_by_its_annotation() -> None:
    program = table(
        'key = { h.i.x : exact; } actions = { set; } @name("shared") implementation = action_profile(8);'
    )
    assert [p.preamble.name for p in program.p4info.action_profiles] == ["shared"]


def test_one_direct_counter_serves_one_table() -> None:
    locals_ = f"""{ACTIONS} direct_counter(CounterType.packets) dc;
    table a {{ actions = {{ other; }} default_action = other(); counters = dc; }}
    table b {{ actions = {{ other; }} default_action = other(); counters = dc; }}
    """
    with pytest.raises(P4Errors, match=r"belongs to table I\.a already"):
        build("a.apply(); b.apply();", locals=locals_)


# --- the control plane ----------------------------------------------------------------------------


def names(items: Any) -> list[str]:
    return [item.preamble.name for item in items]


def shown(apply: str, **parts: str) -> p4i.P4Info:
    return build(apply, **parts).p4info


def test_what_nothing_uses_is_not_shown_but_extern_instances_are() -> None:
    locals_ = f"""{ACTIONS} action direct(bit<8> v) {{ h.o.r1 = v; inner(); }}
    action inner() {{ h.o.r2 = 1; }} counter(4, CounterType.packets) c;
    table used {{ key = {{ h.i.x : exact; }} actions = {{ set; }} }}
    table unused {{ key = {{ h.i.x : exact; }} actions = {{ other; }} }}
    """
    locals_ = locals_.replace("action inner() { h.o.r2 = 1; }", "").replace(
        ACTIONS, ACTIONS + " action inner() { h.o.r2 = 1; }"
    )
    info = shown("used.apply(); if (false) { unused.apply(); } exit; direct(3);", locals=locals_)
    assert names(info.tables) == ["I.used"]
    assert names(info.counters) == ["I.c"]
    # `inner` runs only inside another action; `direct` gets no data from a controller.
    assert names(info.actions) == ["NoAction", "I.set", "I.direct"]
    assert [len(a.params) for a in info.actions] == [0, 1, 0]


def test_instances_are_shown_where_they_are_declared() -> None:
    before = """
    control Sub(inout bit<8> v) {
        action a() { v = 1; }
        table t { key = { v : exact; } actions = { a; } }
        counter(1, CounterType.bytes) c;
        apply { t.apply(); c.count(0); }
    }
    """
    locals_ = """
    register<bit<8>>(1) first; table own { key = { h.i.x : exact; } actions = { NoAction; } }
    Sub() s; @name("renamed") Sub() q; counter(1, CounterType.bytes) last;
    """
    info = shown("q.apply(h.o.r1); s.apply(h.o.r0); own.apply();", before=before, locals=locals_)
    assert names(info.tables) == ["I.own", "I.s.t", "I.renamed.t"]
    assert names(info.counters) == ["I.s.c", "I.renamed.c", "I.last"]
    assert names(info.actions) == ["NoAction", "I.s.a", "I.renamed.a"]


def test_two_instances_of_one_name_are_refused() -> None:
    before = """
    control Sub(inout bit<8> v) { table t { key = { v : exact; } actions = { NoAction; } }
                                  apply { t.apply(); } }
    """
    with pytest.raises(P4Errors, match=r"two tables are called I\.Sub\.t"):
        build("Sub.apply(h.o.r0); Sub.apply(h.o.r1);", before=before)


def test_names_may_be_absolute() -> None:
    locals_ = '@name(".top") action a() {} @name(".t") table t { actions = { a; } }'
    info = shown("t.apply();", locals=locals_)
    assert (names(info.tables), names(info.actions)) == (["t"], ["NoAction", "top"])


def test_digests_are_named_by_their_type() -> None:
    top = "struct learn_t { bit<8> a; bit<8> b; }"
    code = "digest<learn_t>(1, { h.i.x, h.i.y }); digest<learn_t>(1, { h.i.y, h.i.x });"
    program = build(code, top=top)
    assert names(program.p4info.digests) == ["learn_t"]
    assert [i.name for i in program.ir.instances] == ["learn_t"]


def test_field_lists_are_the_tagged_slots() -> None:
    top = "const bit<8> TWO = 2; struct part_t { bit<8> a; @field_list(3) bit<8> b; }"
    meta = "@field_list(1, TWO) bit<8> p; @field_list(2) part_t q; bit<8> r;"
    program = build(top=top, meta=meta)
    by_list = {
        index: [program.ir.slots[s].name for s in slots]
        for index, slots in program.ir.field_lists.items()
    }
    assert by_list == {1: ["m.p"], 2: ["m.p", "m.q.a", "m.q.b"], 3: ["m.q.b"]}


def test_two_actions_of_one_name_are_refused() -> None:
    locals_ = '@name(".same") action a() {} @name(".same") action b() {}'
    with pytest.raises(P4Errors, match=r"two actions are called same[\s\S]*another @name"):
        build("a(); b();", locals=locals_)


def test_selector_keys_take_up_field_ids() -> None:
    """As p4c numbers them; the switch matches by the keys that are shown."""
    locals_ = f"""{ACTIONS} action_selector(HashAlgorithm.crc16, 64, 10) s;
    table t {{ key = {{ m.m0 : selector; h.i.x : exact; h.i.y : selector; m.m1 : ternary; }}
        actions = {{ set; NoAction; }} implementation = s; }}
    """
    program = build("t.apply();", locals=locals_)
    fields = program.p4info.tables[0].match_fields
    assert [(f.id, f.name) for f in fields] == [(2, "h.i.x"), (4, "m.m1")]
    assert [k.name for k in only(program).keys] == ["h.i.x", "m.m1"]
