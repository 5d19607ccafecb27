"""Members, groups and one-shot sets (P4Runtime 1.5, "ActionProfileMember …", "One Shot …")."""

from dataclasses import replace

import pytest
from finsy.proto import p4i, p4r
from p4runtime_kit import Bench, action, compiled, exact, table_entry

Set = p4r.ActionProfileActionSet


@pytest.fixture
def bench():
    return Bench()


def forward(bench, port):
    return action(bench.id("forward"), bytes([port]))


def member(bench, member_id, port=2, profile="spread", **kw):
    kw.setdefault("action", forward(bench, port))
    return p4r.Entity(
        action_profile_member=p4r.ActionProfileMember(
            action_profile_id=bench.id(profile), member_id=member_id, **kw
        )
    )


def group(bench, group_id, *members, max_size=6, profile="spread"):
    """A group of (member id, weight) or (member id, weight, watch port bytes)."""
    made = p4r.ActionProfileGroup(
        action_profile_id=bench.id(profile), group_id=group_id, max_size=max_size
    )
    for member_id, weight, *watch in members:
        added = made.members.add(member_id=member_id, weight=weight)
        if watch:
            added.watch_port = watch[0]
    return p4r.Entity(action_profile_group=made)


def entry(bench, key=1, table="spread_t", **kind):
    return table_entry(bench.id(table), exact(1, bytes([key])), action=p4r.TableAction(**kind))


def one_shot(bench, *actions, **fields):
    """A set of (port, weight) or (port, weight, watch port bytes)."""
    made = Set(**fields)
    for port, weight, *watch in actions:
        added = made.action_profile_actions.add(action=forward(bench, port), weight=weight)
        if watch:
            added.watch_port = watch[0]
    return made


def read_all(bench, kind):
    return bench.read(p4r.Entity(**{kind: {}}))


def chosen(bench, count=12):
    """Ports that hash values 0 .. count-1 select for key 1 (the selector's hash is the identity)."""
    table = bench.switch.state.by_name("I.spread_t")
    ports = []
    for value in range(count):
        match = table.lookup((1,), value.to_bytes(2, "big"), 0)
        ports.append(match.args[0] if match.args else None)
    return ports


# --- members --------------------------------------------------------------------------------------


def test_life_of_a_member(bench):
    assert bench.modify(member(bench, 1)) == ["NOT_FOUND"]
    assert bench.insert(member(bench, 1)) == ["OK"]
    assert bench.insert(member(bench, 1)) == ["ALREADY_EXISTS"]
    assert bench.modify(member(bench, 1, port=3)) == ["OK"]
    assert read_all(bench, "action_profile_member") == [member(bench, 1, port=3)]
    assert bench.delete(member(bench, 1, action=None)) == ["OK"]
    assert bench.delete(member(bench, 1)) == ["NOT_FOUND"]


def test_member_rules(bench):
    for update in (bench.insert, bench.modify):
        assert update(member(bench, 0)) == ["INVALID_ARGUMENT"]
        assert update(member(bench, 1, action=None)) == ["INVALID_ARGUMENT"]
        assert update(member(bench, 1, action=action(bench.id("learn")))) == ["INVALID_ARGUMENT"]
    profile = member(bench, 1)
    profile.action_profile_member.action_profile_id = 0
    assert bench.insert(profile) == ["INVALID_ARGUMENT"]
    assert bench.insert(*(member(bench, i, profile="shared") for i in (1, 2, 3))) == [
        "OK",
        "OK",
        "RESOURCE_EXHAUSTED",
    ]


def test_members_in_use_cannot_go(bench):
    bench.insert(member(bench, 1), member(bench, 2))
    bench.insert(group(bench, 1, (1, 1)))
    bench.insert(entry(bench, action_profile_member_id=2))
    assert bench.delete(member(bench, 1), member(bench, 2)) == ["FAILED_PRECONDITION"] * 2
    bench.delete(entry(bench))
    bench.delete(group(bench, 1))
    assert bench.delete(member(bench, 1), member(bench, 2)) == ["OK"] * 2


def test_wildcard_and_single_reads(bench):
    bench.insert(member(bench, 1), member(bench, 2), member(bench, 7, profile="shared"))
    assert len(read_all(bench, "action_profile_member")) == 3
    of_one = p4r.ActionProfileMember(action_profile_id=bench.id("spread"))
    assert bench.read(p4r.Entity(action_profile_member=of_one)) == [
        member(bench, 1),
        member(bench, 2),
    ]
    of_one.member_id = 2
    assert bench.read(p4r.Entity(action_profile_member=of_one)) == [member(bench, 2)]


# --- groups ---------------------------------------------------------------------------------------


def test_life_of_a_group(bench):
    bench.insert(member(bench, 1, port=1), member(bench, 2, port=2))
    first = group(bench, 5, (1, 1), (2, 3, b"\x02"))
    assert bench.modify(first) == ["NOT_FOUND"]
    assert bench.insert(first) == ["OK"]
    assert bench.insert(first) == ["ALREADY_EXISTS"]
    assert read_all(bench, "action_profile_group") == [first]
    second = group(bench, 5, (2, 2))
    assert bench.modify(second) == ["OK"]
    assert read_all(bench, "action_profile_group") == [second]
    bench.insert(entry(bench, action_profile_group_id=5))
    assert bench.delete(group(bench, 5)) == ["FAILED_PRECONDITION"]
    bench.delete(entry(bench))
    assert bench.delete(group(bench, 5)) == ["OK"]
    assert bench.delete(group(bench, 5)) == ["NOT_FOUND"]


BAD_GROUPS = [
    (lambda b: group(b, 0, (1, 1)), "INVALID_ARGUMENT"),
    (lambda b: group(b, 1, (9, 1)), "NOT_FOUND"),
    (lambda b: group(b, 1, (1, 0)), "INVALID_ARGUMENT"),
    (lambda b: group(b, 1, (1, -1)), "INVALID_ARGUMENT"),
    (lambda b: group(b, 1, (1, 1), (1, 2)), "INVALID_ARGUMENT"),  # use the weight
    (lambda b: group(b, 1, (1, 1, b"\x63")), "INVALID_ARGUMENT"),  # no port 99
    (lambda b: group(b, 1, (1, 1), max_size=0), "INVALID_ARGUMENT"),  # max_group_size is 6
    (lambda b: group(b, 1, (1, 1), max_size=7), "INVALID_ARGUMENT"),
    (lambda b: group(b, 1, (1, 4), max_size=3), "RESOURCE_EXHAUSTED"),
    (lambda b: group(b, 1, profile="shared"), "INVALID_ARGUMENT"),  # no selector
]


@pytest.mark.parametrize(("make", "code"), BAD_GROUPS)
def test_bad_groups(bench, make, code):
    bench.insert(member(bench, 1))
    assert bench.insert(make(bench)) == [code]
    assert read_all(bench, "action_profile_group") == []


def test_max_size_stays(bench):
    bench.insert(member(bench, 1))
    bench.insert(group(bench, 1, (1, 1), max_size=3))
    assert bench.modify(group(bench, 1, (1, 1), max_size=4)) == ["INVALID_ARGUMENT"]
    assert bench.modify(group(bench, 1, (1, 3), max_size=3)) == ["OK"]


def test_selection_by_weight_and_watch_port(bench):
    bench.insert(member(bench, 1, port=1), member(bench, 2, port=2))
    bench.insert(group(bench, 1, (1, 1, b"\x01"), (2, 2, b"\x02")))
    bench.insert(entry(bench, action_profile_group_id=1))
    assert chosen(bench) == [1, 2, 2] * 4
    bench.switch.set_port_state(2, False)
    bench.clock.run()
    assert chosen(bench) == [1] * 12
    bench.switch.set_port_state(1, False)
    bench.clock.run()
    assert chosen(bench) == [None] * 12
    bench.switch.set_port_state(2, True)
    bench.clock.run()
    assert chosen(bench) == [2] * 12
    # What a controller reads doesn't change with ports.
    assert read_all(bench, "action_profile_group") == [
        group(bench, 1, (1, 1, b"\x01"), (2, 2, b"\x02"))
    ]


def test_modifying_a_member_changes_its_groups(bench):
    bench.insert(member(bench, 1, port=1))
    bench.insert(group(bench, 1, (1, 1)))
    bench.insert(entry(bench, action_profile_group_id=1))
    bench.modify(member(bench, 1, port=7))
    assert chosen(bench, 2) == [7, 7]


def test_member_and_group_ids_are_separate(bench):
    bench.insert(member(bench, 5, port=1), member(bench, 6, port=2))
    bench.insert(group(bench, 5, (6, 1)))
    bench.insert(
        entry(bench, 1, action_profile_group_id=5), entry(bench, 2, action_profile_member_id=5)
    )
    assert chosen(bench, 1) == [2]


def test_references_in_entries(bench):
    assert bench.insert(entry(bench, action_profile_member_id=1)) == ["NOT_FOUND"]
    assert bench.insert(entry(bench, action_profile_group_id=1)) == ["NOT_FOUND"]
    assert bench.insert(entry(bench, table="shared_t", action_profile_group_id=1)) == [
        "INVALID_ARGUMENT"
    ]
    assert bench.insert(entry(bench, action=forward(bench, 1))) == ["INVALID_ARGUMENT"]
    bench.insert(member(bench, 1))
    made = entry(bench, action_profile_member_id=1)
    assert bench.insert(made) == ["OK"]
    assert bench.read(table_entry(bench.id("spread_t"))) == [made]


# --- one-shot sets --------------------------------------------------------------------------------


def shot(bench, *actions, key=1, **fields):
    return entry(bench, key, action_profile_action_set=one_shot(bench, *actions, **fields))


def test_one_shots_select_and_read_back_verbatim(bench):
    made = shot(bench, (1, 1, b"\x01"), (2, 2), (1, 1))
    assert bench.insert(made) == ["OK"]
    assert bench.read(table_entry(bench.id("spread_t"))) == [made]
    assert chosen(bench, 8) == [1, 2, 2, 1] * 2
    assert read_all(bench, "action_profile_member") == []
    changed = shot(bench, (3, 1))
    assert bench.modify(changed) == ["OK"]
    assert chosen(bench, 2) == [3, 3]
    bench.switch.set_port_state(1, False)
    bench.clock.run()
    assert bench.modify(made) == ["OK"]
    assert chosen(bench, 6) == [2, 2, 1] * 2  # the first one watches port 1


def test_one_shot_bytes_come_back_shortest(bench):
    made = shot(bench, (1, 1, b"\0\0\x01"))
    made.table_entry.action.action_profile_action_set.action_profile_actions[0].action.params[
        0
    ].value = b"\0\x01"
    bench.insert(made)
    assert bench.read(table_entry(bench.id("spread_t"))) == [shot(bench, (1, 1, b"\x01"))]


BAD_SHOTS = [
    (lambda b: shot(b), "OK"),  # an empty group
    (lambda b: shot(b, (1, 0)), "INVALID_ARGUMENT"),
    (lambda b: shot(b, (1, 7)), "INVALID_ARGUMENT"),  # beyond max_group_size 6
    (lambda b: shot(b, (1, 1, b"\x63")), "INVALID_ARGUMENT"),
    (lambda b: shot(b, (1, 1), action_selection_mode=Set.RANDOM), "UNIMPLEMENTED"),
    (lambda b: shot(b, (1, 1), action_selection_mode=9), "INVALID_ARGUMENT"),
    (lambda b: shot(b, (1, 1), size_semantics=Set.SUM_OF_MEMBERS), "UNIMPLEMENTED"),
    (lambda b: shot(b, (1, 1), action_selection_mode=Set.HASH), "OK"),
    (lambda b: shot(b, (1, 1), size_semantics=Set.SUM_OF_WEIGHTS), "OK"),
]


@pytest.mark.parametrize(("make", "code"), BAD_SHOTS)
def test_one_shot_rules(bench, make, code):
    assert bench.insert(make(bench)) == [code]


def test_group_action_is_refused_rather_than_ignored(bench):
    data = one_shot(bench, (1, 1)).SerializeToString() + b"\x2a\x02\x08\x01"  # field 5
    made = entry(bench, action_profile_action_set=Set.FromString(data))
    assert bench.insert(made) == ["UNIMPLEMENTED"]


def test_one_shot_on_a_profile_without_selector(bench):
    made = entry(bench, table="shared_t", action_profile_action_set=one_shot(bench, (1, 1)))
    assert bench.insert(made) == ["INVALID_ARGUMENT"]


def test_styles_do_not_mix(bench):
    bench.insert(member(bench, 1))
    assert bench.insert(shot(bench, (1, 1))) == ["INVALID_ARGUMENT"]
    bench.delete(member(bench, 1))
    assert bench.insert(shot(bench, (1, 1))) == ["OK"]
    assert bench.insert(member(bench, 1)) == ["INVALID_ARGUMENT"]
    assert bench.insert(group(bench, 1)) == ["INVALID_ARGUMENT"]
    bench.delete(shot(bench))
    assert bench.insert(member(bench, 1)) == ["OK"]


def test_a_selector_is_full(bench):
    """Size 16 is the sum of weights over all groups and sets."""
    shots = [shot(bench, (1, 6), key=k) for k in (1, 2)]
    assert bench.insert(*shots) == ["OK", "OK"]
    assert bench.insert(shot(bench, (1, 5), key=3)) == ["RESOURCE_EXHAUSTED"]
    assert bench.insert(shot(bench, (1, 4), key=3)) == ["OK"]
    # One that is replaced makes room for its successor.
    assert bench.modify(shot(bench, (2, 6), key=1)) == ["OK"]
    bench.delete(shots[0])
    assert bench.insert(shot(bench, (1, 6), key=4)) == ["OK"]


# --- other ways to count --------------------------------------------------------------------------

MEMBERS = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; }
struct hs { h_t h; }
struct ms { }
parser P(packet_in p, out hs h, inout ms m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout hs h, inout ms m) { apply { } }
control I(inout hs h, inout ms m, inout standard_metadata_t s) {
    ANNOTATIONS
    action_selector(HashAlgorithm.identity, 3, 16) spread;
    action forward(bit<9> port) { s.egress_spec = port; }
    table spread_t {
        key = { h.h.a: exact; h.h.b: selector; }
        actions = { forward; }
        implementation = spread;
    }
    apply { spread_t.apply(); }
}
control E(inout hs h, inout ms m, inout standard_metadata_t s) { apply { } }
control C(inout hs h, inout ms m) { apply { } }
control D(packet_out p, in hs h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def test_sum_of_members():
    notes = """@max_group_size(2) @selector_size_semantics("sum_of_members")
        @max_member_weight(100)"""
    program = compiled(MEMBERS.replace("ANNOTATIONS", notes))
    assert program.p4info.action_profiles[0].sum_of_members.max_member_weight == 100
    bench = Bench(program)
    assert bench.insert(shot(bench, (1, 101), key=1)) == ["INVALID_ARGUMENT"]
    assert bench.insert(shot(bench, (1, 1), (2, 1), (3, 1), key=1)) == ["INVALID_ARGUMENT"]
    assert bench.insert(shot(bench, (1, 100), (2, 100), key=1)) == ["OK"]
    assert bench.insert(shot(bench, (1, 1), (2, 1), key=2)) == ["RESOURCE_EXHAUSTED"]
    assert bench.insert(shot(bench, (1, 1), key=2)) == ["OK"]


def test_weights_disallowed():
    program = compiled(MEMBERS.replace("ANNOTATIONS", ""))
    p4info = p4i.P4Info()
    p4info.CopyFrom(program.p4info)
    p4info.action_profiles[0].weights_disallowed = True
    program = replace(program, p4info=p4info)
    bench = Bench(program)
    assert bench.insert(shot(bench, (1, 1))) == ["INVALID_ARGUMENT"]
    made = shot(bench, (1, 0), (2, 0))
    assert bench.insert(made) == ["OK"]
    assert bench.read(table_entry(bench.id("spread_t"))) == [made]
    assert chosen(bench, 4) == [1, 2, 1, 2]
