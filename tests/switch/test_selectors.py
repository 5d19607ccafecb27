"""Action profiles and selectors: choice, weights, watch ports, one-shot sets, refusals."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from switch_kit import SET, found, key, make_decl, set_

from sglb.p4 import ir
from sglb.switch.clock import VirtualClock
from sglb.switch.errors import (
    BadValue,
    EntryExists,
    InUse,
    NoSuchEntry,
    SwitchError,
    TableFull,
    ValueTooLarge,
)
from sglb.switch.profiles import (
    ActionProfile,
    GroupMember,
    GroupRef,
    MemberRef,
    OneShot,
    OneShotAction,
)
from sglb.switch.tables import NO_ACTION, Table


class Bench:
    """A selector of one table whose ports can be switched off; its hash is the bytes' value."""

    def __init__(self, *, size: int = 16, selector: bool = True, max_group_size: int = 0) -> None:
        kind = ir.InstanceKind.ACTION_SELECTOR if selector else ir.InstanceKind.ACTION_PROFILE
        self.down: set[int] = set()
        self.profile = ActionProfile(
            ir.Instance(kind, "C.as", size=size, algorithm="identity", p4info_id=0x11000001),
            lambda port: port not in self.down,
            lambda data: int.from_bytes(data, "big"),
            max_group_size=max_group_size,
        )
        self.table = Table(
            make_decl([key("exact", 8)], implementation=0, direct_counter=0),
            VirtualClock(),
            profile=self.profile,
        )

    def members(self, *ids: int) -> None:
        """Members whose action's parameter is their id."""
        for member_id in ids:
            self.profile.insert_member(member_id, set_(member_id))

    def choices(self, entry: int, count: int) -> list[int | None]:
        """What the hash values 0 .. count-1 choose."""
        return [found(self.table, entry, selector=bytes([h])) for h in range(count)]

    def set_port(self, port: int, *, up: bool) -> None:
        (self.down.discard if up else self.down.add)(port)
        self.profile.port_changed(port)


def test_members_are_chosen_in_order_of_their_ids() -> None:
    bench = Bench()
    bench.members(6, 4, 5, 0, 1)
    bench.profile.insert_group(2, [GroupMember(m) for m in (6, 4, 5, 0, 1)])
    bench.table.insert((3,), GroupRef(2))
    assert bench.choices(3, 7) == [0, 1, 4, 5, 6, 0, 1]


def test_a_weight_repeats_its_member() -> None:
    bench = Bench()
    bench.members(1, 2)
    bench.profile.insert_group(1, [GroupMember(2, weight=1), GroupMember(1, weight=3)])
    bench.table.insert((3,), GroupRef(1))
    assert bench.choices(3, 8) == [1, 1, 1, 2, 1, 1, 1, 2]


def test_a_member_whose_watch_port_is_down_is_out_at_once() -> None:
    bench = Bench()
    bench.members(1, 2, 3)
    watched = [GroupMember(m, watch_port=10 + m) for m in (1, 2, 3)]
    bench.profile.insert_group(1, watched)
    bench.table.insert((3,), GroupRef(1))
    bench.set_port(12, up=False)
    assert bench.choices(3, 4) == [1, 3, 1, 3]
    bench.set_port(12, up=True)
    assert bench.choices(3, 3) == [1, 2, 3]
    bench.down.add(11)  # down before a group is made that watches it
    bench.profile.insert_group(2, watched)
    bench.table.insert((4,), GroupRef(2))
    assert bench.choices(4, 2) == [2, 3]


def test_without_a_live_member_nothing_runs_and_it_is_counted() -> None:
    bench = Bench()
    bench.members(1)
    bench.profile.insert_group(1, [GroupMember(1, watch_port=11)])
    bench.table.insert((3,), GroupRef(1))
    bench.set_port(11, up=False)
    match = bench.table.lookup((3,), b"\0", 0)
    assert (match.hit, match.action, match.args) == (True, NO_ACTION, ())
    assert bench.profile.empty_lookups == 1
    bench.table.count(match, 50)
    entry = bench.table.get((3,))
    assert entry is not None
    assert (entry.counter.packets, entry.counter.bytes) == (1, 50)


def test_a_member_modified_changes_for_all_who_use_it() -> None:
    bench = Bench()
    bench.members(1, 2)
    bench.table.insert((1,), MemberRef(1))
    bench.profile.insert_group(1, [GroupMember(1)])
    bench.table.insert((2,), GroupRef(1))
    bench.profile.modify_member(1, set_(99))
    assert [found(bench.table, 1), *bench.choices(2, 1)] == [99, 99]


def test_a_one_shot_set_chooses_in_the_order_given() -> None:
    bench = Bench()
    actions = (
        OneShotAction(set_(7), weight=2, watch_port=1),
        OneShotAction(set_(5)),
        OneShotAction(set_(7)),
    )
    entry = bench.table.insert((1,), OneShot(actions))
    assert bench.choices(1, 4) == [7, 7, 5, 7]
    bench.set_port(1, up=False)
    assert bench.choices(1, 2) == [5, 7]
    assert entry.target == OneShot(actions)


def test_one_shot_sets_give_their_room_back() -> None:
    bench = Bench(size=4)
    bench.table.insert((1,), OneShot((OneShotAction(set_(1), weight=3),)))
    with pytest.raises(TableFull, match="3 of 4 weights are in use, 2 more do not fit"):
        bench.table.insert((2,), OneShot((OneShotAction(set_(1), weight=2),)))
    assert len(bench.table) == 1
    bench.table.delete((1,))
    bench.table.insert((2,), OneShot((OneShotAction(set_(1), weight=4),)))
    bench.table.clear()
    bench.members(1)
    bench.profile.insert_group(1, [GroupMember(1, weight=4)])


def test_references_are_counted_from_tables_and_groups() -> None:
    bench = Bench()
    bench.members(1, 2)
    profile, table = bench.profile, bench.table
    profile.insert_group(1, [GroupMember(1)])
    table.insert((1,), GroupRef(1))
    table.insert((2,), MemberRef(2))
    with pytest.raises(InUse, match="member 1 is used by 1"):
        profile.delete_member(1)
    with pytest.raises(InUse, match="group 1 is used by 1"):
        profile.delete_group(1)
    table.modify((1,), MemberRef(2))
    profile.delete_group(1)
    profile.delete_member(1)
    with pytest.raises(InUse, match="member 2 is used by 2"):
        profile.delete_member(2)
    table.clear()
    profile.delete_member(2)


def test_a_default_action_may_point_to_a_member() -> None:
    bench = Bench()
    bench.members(4)
    bench.table.set_default(MemberRef(4))
    match = bench.table.lookup((1,), b"", 0)
    assert (match.hit, match.args) == (False, (4,))
    bench.table.reset_default()
    bench.profile.delete_member(4)


def _refusals() -> list[tuple[type[SwitchError], str, Any]]:
    one_shot = OneShotAction(set_(1))
    return [
        (EntryExists, "has a member 1 already", lambda b: b.profile.insert_member(1, set_(1))),
        (NoSuchEntry, "has no member 9", lambda b: b.profile.delete_member(9)),
        (ValueTooLarge, "exceeds 8 bits", lambda b: b.profile.insert_member(9, set_(256))),
        (ValueTooLarge, "exceeds 8 bits", lambda b: b.profile.modify_member(1, set_(256))),
        (EntryExists, "has a group 1 already", lambda b: b.profile.insert_group(1)),
        (NoSuchEntry, "has no member 9", lambda b: b.profile.insert_group(2, [GroupMember(9)])),
        (
            BadValue,
            "names a member twice",
            lambda b: b.profile.insert_group(2, [GroupMember(1), GroupMember(1)]),
        ),
        (BadValue, "at least 1", lambda b: b.profile.insert_group(2, [GroupMember(1, 0)])),
        (
            TableFull,
            "exceed the group size 3",
            lambda b: b.profile.insert_group(2, [GroupMember(1, 4)], max_size=3),
        ),
        (
            TableFull,
            "weights are in use",
            lambda b: b.profile.modify_group(1, [GroupMember(1, 17)]),
        ),
        (NoSuchEntry, "has no group 7", lambda b: b.table.insert((5,), GroupRef(7))),
        (NoSuchEntry, "has no member 7", lambda b: b.table.insert((5,), MemberRef(7))),
        (BadValue, "give a member", lambda b: b.table.insert((5,), set_(1))),
        (
            BadValue,
            "at least 1",
            lambda b: b.table.insert((5,), OneShot((one_shot, OneShotAction(set_(1), 0)))),
        ),
    ]


@pytest.mark.parametrize(("error", "text", "do"), _refusals())
def test_refusals_change_nothing(error: type[SwitchError], text: str, do: Any) -> None:
    bench = Bench()
    bench.members(1)
    bench.profile.insert_group(1, [GroupMember(1)])
    with pytest.raises(error, match=text):
        do(bench)
    assert len(bench.table) == 0
    assert sorted(bench.profile.groups) == [1]
    assert bench.profile.members[1].refs == 1
    assert bench.profile.group(1).members == (GroupMember(1),)
    assert bench.profile.members[1].call.action_id == SET


def test_a_profile_without_selector_has_no_groups() -> None:
    bench = Bench(selector=False, size=1)
    bench.members(1)
    with pytest.raises(BadValue, match="without selector"):
        bench.profile.insert_group(1)
    with pytest.raises(BadValue, match="without selector"):
        bench.table.insert((1,), OneShot((OneShotAction(set_(1)),)))
    with pytest.raises(TableFull, match="its size is 1"):
        bench.members(2)


def test_the_programs_group_size_bounds_what_a_group_asks_for() -> None:
    bench = Bench(max_group_size=4)
    bench.members(1)
    with pytest.raises(BadValue, match=r"outside 0\.\.4"):
        bench.profile.insert_group(1, max_size=5)
    with pytest.raises(TableFull, match="exceed the group size 4"):
        bench.profile.insert_group(1, [GroupMember(1, 5)])


@given(st.sets(st.integers(0, 30), min_size=1, max_size=8), st.binary(min_size=1, max_size=16))
def test_the_choice_is_the_hash_modulo_the_members(ids: set[int], data: bytes) -> None:
    profile = ActionProfile(
        ir.Instance(ir.InstanceKind.ACTION_SELECTOR, "C.as", size=64), lambda _: True, zlib.crc32
    )
    for member_id in sorted(ids, reverse=True):
        profile.insert_member(member_id, set_(1))
    group = profile.insert_group(1, [GroupMember(m) for m in sorted(ids, reverse=True)])
    chosen = profile.choose(group.choice, data)
    assert chosen is not None
    assert chosen.id == sorted(ids)[zlib.crc32(data) % len(ids)]
