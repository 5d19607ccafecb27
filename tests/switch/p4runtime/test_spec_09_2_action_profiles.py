"""P4Runtime 1.5, section 9.2: members, groups, one-shot sets. Tests are named by their section."""

import pytest
from finsy.proto import p4r
from p4runtime_kit import KITCHEN, PORTS, Bench, action, compiled, exact, frame, table_entry

from sglb.switch.clock import PS_PER_MS

Set = p4r.ActionProfileActionSet


#: kitchen.p4 without the table that would overrule the port chosen.
PLAIN = KITCHEN.read_text().replace("const_t.apply();", "")


class Kitchen(Bench):
    """Members, groups and references of kitchen.p4 in few words. `spread` has a selector."""

    def __init__(self, text=PLAIN):
        super().__init__(compiled(text))

    def forward(self, port):
        return action(self.id("forward"), bytes([port]))

    def member(self, number, port=2, profile="spread", **fields):
        fields.setdefault("action", self.forward(port))
        return p4r.Entity(
            action_profile_member={
                "action_profile_id": self.id(profile),
                "member_id": number,
                **fields,
            }
        )

    def group(self, number, *members, max_size=6, profile="spread"):
        return p4r.Entity(
            action_profile_group={
                "action_profile_id": self.id(profile),
                "group_id": number,
                "max_size": max_size,
                "members": [
                    dict(zip(("member_id", "weight", "watch_port"), m, strict=False))
                    for m in members
                ],
            }
        )

    def entry(self, table="spread_t", **kind):
        return table_entry(self.id(table), exact(1, b"\1"), action=p4r.TableAction(**kind))

    def shot(self, *actions, **fields):
        """An entry with a one-shot set of (port, weight[, watch port])."""
        made = Set(**fields)
        for port, weight, *watch in actions:
            added = made.action_profile_actions.add(action=self.forward(port), weight=weight)
            if watch:
                added.watch_port = watch[0]
        return self.entry(action_profile_action_set=made)

    def spread(self, count=12):
        """Where packets with hash values 0 .. count-1 go (the selector's hash is the identity)."""
        self.modify(
            p4r.Entity(
                value_set_entry={
                    "value_set_id": self.id("body_types"),
                    "members": [{"match": [exact(1, b"\x99\x99")]}],
                }
            ),
            table_entry(
                self.id("exact_t"), act=action(self.id("NoAction")), is_default_action=True
            ),
        )
        self.sent.clear()
        for value in range(count):
            self.send(9, frame(payload=b"\0\0\0\1" + value.to_bytes(2, "big") + b"\0"))
        return [port for port, _ in self.sent]


@pytest.fixture
def bench():
    return Kitchen()


# --- 9.2.1 members --------------------------------------------------------------------------------


def test_9_2_1_insert_an_id_that_is_taken(bench):
    assert bench.insert(bench.member(1)) == ["OK"]
    assert bench.insert(bench.member(1)) == ["ALREADY_EXISTS"]


def test_9_2_1_id_zero(bench):
    assert bench.insert(bench.member(0)) == ["INVALID_ARGUMENT"]


def test_9_2_1_an_action_is_needed(bench):
    bare = p4r.Entity(
        action_profile_member={"action_profile_id": bench.id("spread"), "member_id": 1}
    )
    assert bench.insert(bare) == ["INVALID_ARGUMENT"]
    bench.insert(bench.member(1))
    assert bench.modify(bare) == ["INVALID_ARGUMENT"]


def test_9_2_1_only_actions_of_its_tables(bench):
    assert bench.insert(bench.member(1, action=action(bench.id("learn")))) == ["INVALID_ARGUMENT"]


def test_9_2_1_a_full_profile(bench):
    members = [bench.member(n, profile="shared") for n in (1, 2, 3)]  # its size is 2
    assert bench.insert(*members) == ["OK", "OK", "RESOURCE_EXHAUSTED"]


def test_9_2_1_modify_and_delete_what_is_not_there(bench):
    assert bench.modify(bench.member(1)) == ["NOT_FOUND"]
    assert bench.delete(bench.member(1)) == ["NOT_FOUND"]


def test_9_2_1_delete_a_member_of_a_group(bench):
    bench.insert(bench.member(1))
    bench.insert(bench.group(1, (1, 1)))
    assert bench.delete(bench.member(1)) == ["FAILED_PRECONDITION"]
    bench.modify(bench.group(1))
    assert bench.delete(bench.member(1)) == ["OK"]


def test_9_2_1_delete_a_member_of_an_entry(bench):
    bench.insert(bench.member(1))
    bench.insert(bench.entry(action_profile_member_id=1))
    assert bench.delete(bench.member(1)) == ["FAILED_PRECONDITION"]


def test_9_2_1_delete_looks_at_the_ids_only(bench):
    bench.insert(bench.member(1))
    assert bench.delete(bench.member(1, action=action(7, b""))) == ["OK"]


def test_9_2_1_reads(bench):
    one, two = bench.member(1), bench.member(2)
    other = bench.member(1, profile="shared")
    bench.insert(one, two, other)
    ask = bench.member(0)
    assert bench.read(ask) == [one, two]
    assert bench.read(two) == [two]
    assert len(bench.read(p4r.Entity(action_profile_member={}))) == 3


# --- 9.2.2 groups ---------------------------------------------------------------------------------


@pytest.fixture
def members(bench):
    """Members 1, 2 and 3, forwarding to these ports."""
    assert bench.insert(*(bench.member(n, n) for n in (1, 2, 3))) == ["OK"] * 3
    return bench


def test_9_2_2_members_and_groups_have_ids_of_their_own(members):
    assert members.insert(members.group(2, (1, 1))) == ["OK"]


def test_9_2_2_a_member_may_be_in_many_groups_and_changes_in_all(members):
    members.insert(members.group(1, (1, 1)), members.group(2, (1, 1)))
    members.insert(members.entry(action_profile_group_id=2))
    members.modify(members.member(1, 7))
    assert members.spread(2) == [7, 7]


def test_9_2_2_insert_an_id_that_is_taken(members):
    members.insert(members.group(1))
    assert members.insert(members.group(1)) == ["ALREADY_EXISTS"]


def test_9_2_2_id_zero(members):
    assert members.insert(members.group(0)) == ["INVALID_ARGUMENT"]


def test_9_2_2_members_must_exist(members):
    assert members.insert(members.group(1, (9, 1))) == ["NOT_FOUND"]
    members.insert(members.group(1))
    assert members.modify(members.group(1, (9, 1))) == ["NOT_FOUND"]


def test_9_2_2_modify_and_delete_what_is_not_there(members):
    assert members.modify(members.group(1)) == ["NOT_FOUND"]
    assert members.delete(members.group(1)) == ["NOT_FOUND"]


def test_9_2_2_weight_zero(members):
    assert members.insert(members.group(1, (1, 0))) == ["INVALID_ARGUMENT"]


def test_9_2_2_weights_are_shares(members):
    members.insert(members.group(1, (1, 1), (2, 2), (3, 3)))
    members.insert(members.entry(action_profile_group_id=1))
    assert sorted(members.spread(6)) == [1, 2, 2, 3, 3, 3]


def test_9_2_2_a_member_given_twice(members):
    assert members.insert(members.group(1, (1, 1), (1, 1))) == ["INVALID_ARGUMENT"]


@pytest.mark.parametrize("port", [b"\x63", b"\1\2\3\4\5"])
def test_9_2_2_a_watch_port_that_does_not_exist(members, port):
    assert members.insert(members.group(1, (1, 1, port))) == ["INVALID_ARGUMENT"]


def test_9_2_2_a_member_whose_watch_port_is_down_is_left_out(members):
    members.insert(members.group(1, (1, 1, b"\1"), (2, 1, b"\2")))
    members.insert(members.entry(action_profile_group_id=1))
    assert set(members.spread(4)) == {1, 2}
    members.switch.set_port_state(1, False)
    members.clock.run(until_ps=members.clock.now_ps + 100 * PS_PER_MS)
    assert members.spread(4) == [2] * 4
    members.switch.set_port_state(1, True)
    members.clock.run(until_ps=members.clock.now_ps + 100 * PS_PER_MS)
    assert set(members.spread(4)) == {1, 2}


def test_9_2_2_an_empty_watch_port_watches_nothing(members):
    members.insert(members.group(1, (3, 1)))
    members.insert(members.entry(action_profile_group_id=1))
    for port in PORTS:
        members.switch.set_port_state(port, port in (3, 9))
    members.clock.run(until_ps=members.clock.now_ps + 100 * PS_PER_MS)
    assert members.spread(2) == [3, 3]


def test_9_2_2_delete_a_group_that_an_entry_uses(members):
    members.insert(members.group(1, (1, 1)))
    members.insert(members.entry(action_profile_group_id=1))
    assert members.delete(members.group(1)) == ["FAILED_PRECONDITION"]


def test_9_2_2_delete_looks_at_the_ids_only(members):
    members.insert(members.group(1, (1, 1)))
    assert members.delete(members.group(1, (9, 0), max_size=-3)) == ["OK"]


def test_9_2_2_reads(members):
    one, two = members.group(1, (1, 1)), members.group(2, (2, 2, b"\2"))
    members.insert(one, two)
    assert members.read(members.group(0)) == [one, two]
    assert members.read(two) == [two]
    assert members.read(p4r.Entity(action_profile_group={})) == [one, two]


def test_9_2_2_a_profile_without_selector_has_no_groups(bench):
    assert bench.insert(bench.group(1, profile="shared")) == ["INVALID_ARGUMENT"]


def test_9_2_2_1_max_size_must_be_within_max_group_size(members):
    # @max_group_size(6)
    for size, code in ((0, "INVALID_ARGUMENT"), (7, "INVALID_ARGUMENT"), (6, "OK")):
        assert members.insert(members.group(1, max_size=size)) == [code]


def test_9_2_2_1_max_size_stays(members):
    members.insert(members.group(1, max_size=5))
    assert members.modify(members.group(1, max_size=6)) == ["INVALID_ARGUMENT"]


@pytest.fixture
def unbounded():
    """A selector with max_group_size 0, size 16."""
    text = PLAIN.replace("@max_group_size(6)", "")
    made = Kitchen(text)
    made.insert(*(made.member(n, n) for n in (1, 2)))
    return made


def test_9_2_2_1_without_max_group_size_zero_is_what_the_target_can(unbounded):
    group = unbounded.group(1, (1, 16), max_size=0)
    assert unbounded.insert(group) == ["OK"]
    assert unbounded.modify(unbounded.group(1, (1, 17), max_size=0)) == ["RESOURCE_EXHAUSTED"]


# --- 9.2.3 one-shot sets --------------------------------------------------------------------------


def test_9_2_3_a_set_works_like_a_group(bench):
    assert bench.insert(bench.shot((1, 1), (2, 2))) == ["OK"]
    assert sorted(bench.spread(3)) == [1, 2, 2]


def test_9_2_3_the_original_message_is_read(bench):
    entry = bench.shot((1, 1, b"\1"), (2, 2), (1, 1))
    bench.insert(entry)
    assert bench.read(table_entry(bench.id("spread_t"))) == [entry]
    assert (
        bench.read(p4r.Entity(action_profile_member={}), p4r.Entity(action_profile_group={})) == []
    )


def test_9_2_3_equal_actions_are_not_merged(bench):
    bench.insert(bench.shot((1, 1), (1, 1), (2, 1)))
    assert sorted(bench.spread(3)) == [1, 1, 2]


def test_9_2_3_weight_zero(bench):
    assert bench.insert(bench.shot((1, 0))) == ["INVALID_ARGUMENT"]


def test_9_2_3_the_sum_of_weights_within_max_group_size(bench):
    assert bench.insert(bench.shot((1, 3), (2, 4))) == ["INVALID_ARGUMENT"]
    assert bench.insert(bench.shot((1, 3), (2, 3))) == ["OK"]


def test_9_2_3_watch_ports_leave_actions_out(bench):
    bench.insert(bench.shot((1, 1, b"\1"), (2, 1, b"\2")))
    bench.switch.set_port_state(2, False)
    bench.clock.run(until_ps=100 * PS_PER_MS)
    assert bench.spread(2) == [1, 1]


def test_9_2_3_a_watch_port_that_does_not_exist(bench):
    assert bench.insert(bench.shot((1, 1, b"\x63"))) == ["INVALID_ARGUMENT"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "OK"),
        ({"action_selection_mode": Set.HASH}, "OK"),
        ({"size_semantics": Set.SUM_OF_WEIGHTS}, "OK"),
        ({"action_selection_mode": Set.RANDOM}, "UNIMPLEMENTED"),
        ({"size_semantics": Set.SUM_OF_MEMBERS}, "UNIMPLEMENTED"),
    ],
    ids=["defaults", "hash", "sum of weights", "random", "sum of members"],
)
def test_9_2_3_modes(bench, fields, code):
    assert bench.insert(bench.shot((1, 1), **fields)) == [code]


def test_9_2_3_styles_do_not_mix(bench):
    bench.insert(bench.shot((1, 1)))
    assert bench.insert(bench.member(1), bench.group(1)) == ["INVALID_ARGUMENT"] * 2
    assert bench.delete(bench.shot()) == ["OK"]
    assert bench.insert(bench.member(1)) == ["OK"]
    assert bench.insert(bench.shot((1, 1))) == ["INVALID_ARGUMENT"]


MEMBERS = '@selector_size_semantics("sum_of_members") @max_member_weight(3) @max_group_size(2)'


@pytest.fixture
def by_members():
    text = PLAIN.replace("@max_group_size(6)", MEMBERS)
    return Kitchen(text)


@pytest.mark.parametrize(
    ("actions", "code"),
    [
        ([(1, 3), (2, 3)], "OK"),
        ([(1, 4)], "INVALID_ARGUMENT"),
        ([(1, 1), (1, 1), (1, 1)], "INVALID_ARGUMENT"),
    ],
    ids=["weights do not count", "beyond max_member_weight", "more than max_group_size"],
)
def test_9_2_3_sum_of_members(by_members, actions, code):
    assert by_members.insert(by_members.shot(*actions)) == [code]


@pytest.fixture
def weightless():
    return Kitchen(PLAIN.replace("@max_group_size(6)", "@weights_disallowed"))


def test_9_2_2_without_weights_only_zero_is_valid(weightless):
    weightless.insert(*(weightless.member(n, n) for n in (1, 2)))
    assert weightless.insert(weightless.group(1, (1, 1))) == ["INVALID_ARGUMENT"]
    assert weightless.insert(weightless.group(1, (1, 0), (2, 0))) == ["OK"]


def test_9_2_3_without_weights_only_zero_is_valid(weightless):
    assert weightless.insert(weightless.shot((1, 1))) == ["INVALID_ARGUMENT"]
    assert weightless.insert(weightless.shot((1, 0), (2, 0))) == ["OK"]
    assert sorted(weightless.spread(4)) == [1, 1, 2, 2]


# --- 9.2.4 ----------------------------------------------------------------------------------------


def test_9_2_4_a_group_may_be_empty(members):
    assert members.insert(members.group(1)) == ["OK"]
    assert members.insert(members.entry(action_profile_group_id=1)) == ["OK"]
    assert members.spread(1) == []  # no action: no egress port


def test_9_2_4_so_may_a_one_shot_set(bench):
    assert bench.insert(bench.shot()) == ["OK"]
    assert bench.spread(1) == []
