"""Action profiles and selectors: members, weighted groups, watch ports, one-shot action sets.

A group chooses like BMv2: its live members in order of their ids, each as often as its weight, indexed
by the selector's hash modulo their number. A member whose watch port is down is out of the choice
from the moment the switch knows. An empty choice runs no action; it is counted (`empty_lookups`).
A one-shot set chooses among its actions in the order given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import RLock

import numpy as np

from sglb.p4 import ir
from sglb.p4.native.table_layout import RECORD_ALIGN, RecordLayout
from sglb.switch.errors import BadValue, EntryExists, InUse, NoSuchEntry, TableFull, full
from sglb.switch.locking import SwitchLock, locked
from sglb.switch.memory import ActionData, ChoiceCell, Record, Slab, address_of


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action by its P4Info id, and its data in parameter order."""

    action_id: int
    args: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member's place in a group; out of the choice while `watch_port` is down."""

    member_id: int
    weight: int = 1
    watch_port: int | None = None


@dataclass(frozen=True, slots=True)
class OneShotAction:
    """One action of a one-shot set."""

    call: ActionCall
    weight: int = 1
    watch_port: int | None = None


class Member:
    """A member: its action can be replaced while entries and groups use it.

    `refs` counts the entries and groups that refer to it. `block` holds its action as each table of
    the profile runs it, `cell` the choice that is this member alone.
    """

    __slots__ = ("block", "call", "cell", "id", "refs")

    def __init__(self, member_id: int, call: ActionCall, block: Record) -> None:
        self.id = member_id
        self.call = call
        self.refs = 0
        self.block = block
        self.cell = ChoiceCell()
        self.cell.point((block.address,))


class Choice:
    """Weighted alternatives of a group or a one-shot set; `live` is what the hash indexes.

    `cell` is where native code finds those alive.
    """

    __slots__ = ("cell", "live", "slots", "watched")

    def __init__(self, slots: Iterable[tuple[Member, int, int | None]], cell: ChoiceCell) -> None:
        self.cell = cell
        self.slots = tuple(slots)
        self.watched = frozenset(w for _, _, w in self.slots if w is not None)
        self.live: tuple[Member, ...] = ()

    def refresh(self, port_up: Callable[[int], bool]) -> None:
        """Leaves out what watches a port that is down."""
        self.live = tuple(
            member
            for member, weight, watch in self.slots
            if watch is None or port_up(watch)
            for _ in range(weight)
        )
        self.cell.point([member.block.address for member in self.live])


class Group:
    """A group of a selector. `max_size` 0 means the selector's own limit; `refs` counts entries."""

    __slots__ = ("choice", "id", "max_size", "members", "refs")

    def __init__(self, group_id: int, max_size: int) -> None:
        self.id = group_id
        self.max_size = max_size
        self.members: tuple[GroupMember, ...] = ()
        self.choice = Choice((), ChoiceCell())
        self.refs = 0


@dataclass(frozen=True, slots=True)
class MemberRef:
    """An entry's target: a member."""

    member_id: int


@dataclass(frozen=True, slots=True)
class GroupRef:
    """An entry's target: a group."""

    group_id: int


@dataclass(frozen=True, slots=True)
class OneShot:
    """An entry's target: a set of actions of its own."""

    actions: tuple[OneShotAction, ...]


class ActionProfile:
    """State of one `action_profile` or `action_selector`.

    `size` bounds the members of a profile, and of a selector also the sum of weights over its groups
    and one-shot sets (P4Runtime's default size semantics). `max_group_size` bounds a group's weights
    (0: only by `size`). With `sum_of_members` both sizes count members instead of their weights.
    """

    def __init__(
        self,
        instance: ir.Instance,
        port_up: Callable[[int], bool],
        hash_function: Callable[[bytes], int],
        *,
        max_group_size: int = 0,
        sum_of_members: bool = False,
        lock: SwitchLock | None = None,
    ) -> None:
        self.lock: SwitchLock = lock or RLock()
        self.name = instance.name
        self.size = instance.size
        self.p4info_id = instance.p4info_id
        self.selector = instance.kind is ir.InstanceKind.ACTION_SELECTOR
        self._hash = hash_function
        self.max_group_size = max_group_size
        self.members: dict[int, Member] = {}
        self.groups: dict[int, Group] = {}
        self.sum_of_members = sum_of_members
        self._empty = np.zeros(1, dtype=np.uint64)
        self._block_bytes = 0
        self._tables: list[tuple[int, ActionData, Callable[[int], int]]] = []
        self._slab: Slab | None = None
        self._port_up = port_up
        self._one_shots: dict[int, Choice] = {}
        self._weights = 0
        self._check_call: list[Callable[[ActionCall], None]] = []

    @property
    def empty_lookups(self) -> int:
        """Lookups that found a choice without anybody alive."""
        return int(self._empty[0])

    @property
    def empty_address(self) -> int:
        """Where `empty_lookups` lies."""
        return address_of(self._empty)

    # --- data plane ---

    def choose(self, choice: Choice, selector: bytes) -> Member | None:
        """The alternative for these selector bytes; None (and counted) when none is alive."""
        live = choice.live
        if not live:
            self._empty[0] += 1
            return None
        if len(live) == 1:
            return live[0]
        return live[self._hash(selector) % len(live)]

    @locked
    def port_changed(self, port: int) -> None:
        """A port's known state changed: groups that watch it choose anew."""
        for group in self.groups.values():
            if port in group.choice.watched:
                group.choice.refresh(self._port_up)
        for choice in self._one_shots.values():
            if port in choice.watched:
                choice.refresh(self._port_up)

    # --- members ---

    def member(self, member_id: int) -> Member:
        """The member. Raises `NoSuchEntry`."""
        found = self.members.get(member_id)
        if found is None:
            raise NoSuchEntry(f"{self.name} has no member {member_id}")
        return found

    @locked
    def insert_member(self, member_id: int, call: ActionCall) -> Member:
        """Adds a member. Raises `EntryExists`, `TableFull`, or as `check` for a bad action."""
        if member_id in self.members:
            raise EntryExists(f"{self.name} has a member {member_id} already")
        if len(self.members) >= self.size:
            raise full("action profile", self.name, self.size)
        self.check(call)
        made = self.members[member_id] = Member(member_id, call, self._block(call))
        return made

    @locked
    def modify_member(self, member_id: int, call: ActionCall) -> None:
        """Replaces a member's action, at once for everyone who uses it."""
        found = self.member(member_id)
        self.check(call)
        found.call = call
        self._write_block(found.block, call)

    @locked
    def delete_member(self, member_id: int) -> None:
        """Removes a member. Raises `NoSuchEntry`, or `InUse` while something refers to it."""
        found = self.member(member_id)
        if found.refs:
            raise InUse(
                f"{self.name}: member {member_id} is used by {found.refs} entries or groups"
            )
        del self.members[member_id]

    # --- groups ---

    def group(self, group_id: int) -> Group:
        """The group. Raises `NoSuchEntry`."""
        found = self.groups.get(group_id)
        if found is None:
            raise NoSuchEntry(f"{self.name} has no group {group_id}")
        return found

    @locked
    def insert_group(
        self, group_id: int, members: Sequence[GroupMember] = (), max_size: int = 0
    ) -> Group:
        """Adds a group of these members.

        `max_size` bounds its weights. Raises `EntryExists`, `NoSuchEntry` for an unknown member,
        `TableFull` beyond a size, `BadValue` for a profile without selector, a member given twice,
        or a weight below 1.
        """
        if not self.selector:
            raise BadValue(f"{self.name} is an action profile without selector: it has no groups")
        if group_id in self.groups:
            raise EntryExists(f"{self.name} has a group {group_id} already")
        if max_size < 0 or (self.max_group_size and max_size > self.max_group_size):
            raise BadValue(
                f"{self.name}: group size {max_size} is outside 0..{self.max_group_size or self.size}"
            )
        group = Group(group_id, max_size)
        self._set_members(group, members)
        self.groups[group_id] = group
        return group

    @locked
    def modify_group(self, group_id: int, members: Sequence[GroupMember]) -> None:
        """Replaces a group's members in one step. Raises as `insert_group`, and `NoSuchEntry`."""
        self._set_members(self.group(group_id), members)

    @locked
    def delete_group(self, group_id: int) -> None:
        """Removes a group. Raises `NoSuchEntry`, or `InUse` while an entry points to it."""
        group = self.group(group_id)
        if group.refs:
            raise InUse(f"{self.name}: group {group_id} is used by {group.refs} entries")
        self._set_members(group, ())
        del self.groups[group_id]

    @locked
    def reset(self) -> None:
        """Forgets members and groups (the tables must have let go of them)."""
        self.groups.clear()
        self.members.clear()
        self._one_shots.clear()
        self._weights = 0

    # --- for tables ---

    def attach(
        self,
        check: Callable[[ActionCall], None],
        layout: RecordLayout,
        data: ActionData,
        index_of: Callable[[int], int],
    ) -> int:
        """A table uses this profile: its actions bound what members may run.

        `index_of` gives its own number of an action id. Returns where the table's records lie in a
        member's block. All tables come before the first member.
        """
        if self._slab is not None:
            raise ValueError(f"{self.name} has members already: no further table can use it")
        self._check_call.append(check)
        offset = self._block_bytes
        self._block_bytes += layout.stride
        self._tables.append((offset, data, index_of))
        return offset

    def check(self, call: ActionCall) -> None:
        """Raises `UnknownAction`, `BadValue` or `ValueTooLarge` for what a table cannot run."""
        for one in self._check_call:
            one(call)

    @property
    def one_shots(self) -> int:
        """How many entries hold a one-shot set."""
        return len(self._one_shots)

    def add_one_shot(self, target: OneShot, replaced: Choice | None = None) -> Choice:
        """The choice of a one-shot set; `replaced` will be dropped for it, so its room counts.

        Raises as `insert_group`.
        """
        if not self.selector:
            raise BadValue(f"{self.name} is an action profile without selector: no one-shot sets")
        weights = [a.weight for a in target.actions]
        for action in target.actions:
            self.check(action.call)
        freed = 0 if replaced is None else self._measure([w for _, w, _ in replaced.slots])
        self._room(weights, freed, self.max_group_size)
        members = (Member(i, a.call, self._block(a.call)) for i, a in enumerate(target.actions))
        choice = Choice(
            ((m, a.weight, a.watch_port) for m, a in zip(members, target.actions, strict=True)),
            ChoiceCell(),
        )
        choice.refresh(self._port_up)
        self._weights += self._measure(weights)
        self._one_shots[id(choice)] = choice
        return choice

    def drop_one_shot(self, choice: Choice) -> None:
        """An entry lets go of its one-shot set."""
        if self._one_shots.pop(id(choice), None) is not None:
            self._weights -= self._measure([weight for _, weight, _ in choice.slots])

    # --- inside ---

    def _block(self, call: ActionCall) -> Record:
        if self._slab is None:
            self._slab = Slab(max(self._block_bytes, RECORD_ALIGN))
        block = self._slab.take()
        self._write_block(block, call)
        return block

    def _write_block(self, block: Record, call: ActionCall) -> None:
        for offset, data, index_of in self._tables:
            data.write(block, index_of(call.action_id), call.args, offset)

    def _measure(self, weights: Sequence[int]) -> int:
        return len(weights) if self.sum_of_members else sum(weights)

    def _room(self, weights: Sequence[int], freed: int, limit: int) -> None:
        if any(weight < 1 for weight in weights):
            raise BadValue(f"{self.name}: a weight must be at least 1")
        total = self._measure(weights)
        if limit and total > limit:
            raise TableFull(f"{self.name}: weights of {total} exceed the group size {limit}")
        if self._weights - freed + total > self.size:
            raise TableFull(
                f"{self.name} is full: {self._weights - freed} of {self.size} weights are in use, "
                f"{total} more do not fit"
            )

    def _set_members(self, group: Group, members: Sequence[GroupMember]) -> None:
        found = [self.member(m.member_id) for m in members]
        if len({m.member_id for m in members}) != len(members):
            raise BadValue(f"{self.name}: group {group.id} names a member twice; use its weight")
        freed = self._measure([m.weight for m in group.members])
        weights = [m.weight for m in members]
        self._room(weights, freed, group.max_size or self.max_group_size)
        for old in group.members:
            self.members[old.member_id].refs -= 1
        for new in found:
            new.refs += 1
        self._weights += self._measure(weights) - freed
        group.members = tuple(members)
        ordered = sorted(zip(found, members, strict=True), key=lambda pair: pair[0].id)
        group.choice = Choice(((m, g.weight, g.watch_port) for m, g in ordered), group.choice.cell)
        group.choice.refresh(self._port_up)
