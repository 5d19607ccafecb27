"""Reads the simple_switch_CLI commands of the recorded cases and applies them to a `Switch`.

Only the commands the recordings use. Handles count from 0 per kind, a freed one is used again with
the next version in its high byte, and a smaller priority number wins: that is how BMv2's CLI has it.
`run` gives the lines that the CLI would print and that a recording can be compared by.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from sglb.p4 import ir
from sglb.switch.counters import CounterArray
from sglb.switch.errors import (
    ActionScope,
    BadValue,
    EntryExists,
    InUse,
    NoSuchEntry,
    SwitchError,
    TableFull,
    ValueTooLarge,
)
from sglb.switch.keys import MatchField, MatchKey
from sglb.switch.meters import Meter, MeterArray, MeterConfig
from sglb.switch.pre import CloneSession, MulticastGroup, Replica
from sglb.switch.profiles import ActionCall, ActionProfile, GroupMember, GroupRef, MemberRef
from sglb.switch.switch import Switch
from sglb.switch.tables import Table, TableEntry, Target
from sglb.switch.value_sets import ValueSetTable

#: Priorities in the CLI are at most this; ours are this minus the CLI's.
_LEAST_PRIORITY = 1 << 24

_ERRORS: dict[type[SwitchError], str] = {
    EntryExists: "DUPLICATE_ENTRY",
    TableFull: "TABLE_FULL",
    InUse: "MBR_STILL_USED",
}


class _EmptyGroup(SwitchError):
    """BMv2 refuses to point an entry to an empty group; P4Runtime, and so the switch, allows it."""


class Handles:
    """BMv2's handles: the lowest free index, with a version that counts its reuses."""

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {}
        self._versions: dict[int, int] = {}

    def add(self, value: Any) -> int:
        used = {handle & 0xFFFFFF for handle in self.objects}
        index = next(i for i in range(len(used) + 1) if i not in used)
        version = self._versions.get(index, -1) + 1
        self._versions[index] = version
        handle = version << 24 | index
        self.objects[handle] = value
        return handle


def _number(text: str) -> int:
    if text.count(".") == 3:
        return int.from_bytes(bytes(int(part) for part in text.split(".")), "big")
    return int(text, 0)


class Cli:
    """A CLI session with one switch."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch
        self._entries: dict[str, Handles] = {}
        self._members: dict[str, int] = {}
        self._groups: dict[str, int] = {}
        self._nodes: list[tuple[int, list[int]]] = []
        self._commands: dict[str, Callable[[list[str]], list[str]]] = {
            name.removeprefix("do_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("do_")
        }

    def run(self, text: str) -> list[str]:
        """Runs commands, one a line; an error becomes its line, as in the CLI."""
        out: list[str] = []
        for line in text.splitlines():
            words = line.split()
            if not words:
                continue
            try:
                out += self._commands[words[0]](words[1:])
            except _EmptyGroup:
                out.append("Invalid table operation (EMPTY_GRP)")
            except SwitchError as error:
                name = _ERRORS.get(type(error))
                if name is None:
                    raise
                out.append(f"Invalid table operation ({name})")
        return out

    # --- helpers ---

    def _table(self, name: str) -> Table:
        table = self.switch.state.by_name(name)
        assert isinstance(table, Table)
        return table

    def _profile(self, name: str) -> ActionProfile:
        profile = self.switch.state.by_name(name)
        assert isinstance(profile, ActionProfile)
        return profile

    @staticmethod
    def _call(actions: tuple[ir.TableAction, ...], name: str, args: list[str]) -> ActionCall:
        for action in actions:
            if action.name == name or action.name.endswith("." + name):
                return ActionCall(action.p4info_id, tuple(_number(a) for a in args))
        raise BadValue(f"no action {name}")

    def _profile_call(self, profile: ActionProfile, name: str, args: list[str]) -> ActionCall:
        table = next(t for t in self.switch.state.tables if t.profile is profile)
        return self._call(table.decl.actions, name, args)

    @staticmethod
    def _field(decl: ir.Key, text: str) -> MatchField:
        if "->" in text:
            low, high = map(_number, text.split("->"))
            return low, high
        if "&&&" in text:
            value, mask = map(_number, text.split("&&&"))
            if decl.kind == "optional":
                return value if mask else None
            return value & mask, mask
        if "/" in text:
            value_text, length = text.split("/")
            return _number(value_text), int(length)
        return _number(text) & ((1 << decl.width) - 1)

    def _key(self, table: Table, words: list[str]) -> MatchKey:
        return tuple(
            self._field(decl, word) for decl, word in zip(table.decl.keys, words, strict=True)
        )

    def _handles(self, table: Table) -> Handles:
        return self._entries.setdefault(table.name, Handles())

    def _add(
        self, table: Table, key: MatchKey, target: Target, priority: str | None = None
    ) -> list[str]:
        rank = 0 if priority is None else _LEAST_PRIORITY - int(priority)
        entry = table.insert(key, target, priority=rank)
        handle = self._handles(table).add(entry)
        return [f"Entry has been added with handle {handle}"]

    # --- tables ---

    def do_table_add(self, words: list[str]) -> list[str]:
        """table_add TABLE ACTION KEYS => PARAMS [PRIORITY]"""
        table = self._table(words[0])
        arrow = words.index("=>")
        tail = words[arrow + 1 :]
        priority = tail.pop() if table.needs_priority else None
        try:
            key = self._key(table, words[2:arrow])
            call = self._call(table.decl.actions, words[1], tail)
            return self._add(table, key, call, priority)
        except BadValue as error:
            if "empty" not in str(error):
                raise
            return [f"Invalid match key: start is less than end in expression {words[2]}"]

    def do_table_modify(self, words: list[str]) -> list[str]:
        """table_modify TABLE ACTION HANDLE => PARAMS"""
        table = self._table(words[0])
        entry: TableEntry = self._handles(table).objects[int(words[2])]
        call = self._call(table.decl.actions, words[1], words[4:])
        table.modify(entry.key, call, priority=entry.priority)
        return []

    def do_table_delete(self, words: list[str]) -> list[str]:
        """table_delete TABLE HANDLE"""
        table = self._table(words[0])
        entry: TableEntry = self._handles(table).objects.pop(int(words[1]))
        table.delete(entry.key, entry.priority)
        return []

    def do_table_clear(self, words: list[str]) -> list[str]:
        """table_clear TABLE"""
        self._table(words[0]).clear()
        return []

    def do_table_set_default(self, words: list[str]) -> list[str]:
        """table_set_default TABLE ACTION PARAMS"""
        table = self._table(words[0])
        with contextlib.suppress(ActionScope):  # which BMv2 does not know
            table.set_default(self._call(table.decl.actions, words[1], words[2:]))
        return []

    def do_table_dump(self, words: list[str]) -> list[str]:
        """table_dump TABLE: its entries' actions, the part that does not depend on field names."""
        table = self._table(words[0])
        out = []
        for entry in table.entries():
            if isinstance(entry.target, GroupRef):
                out.append(f"Index: group({entry.target.group_id})")
            elif isinstance(entry.target, MemberRef):
                out.append(f"Index: member({entry.target.member_id})")
            else:
                out.append("Action entry: " + self._shown(table.decl.actions[entry.action], entry))
        return [*out, *(self.do_act_prof_dump([table.profile.name]) if table.profile else [])]

    @staticmethod
    def _shown(action: ir.TableAction, entry: TableEntry) -> str:
        widths = [width for _, width in action.params]
        args = ", ".join(
            f"{arg:0{(width + 7) // 8 * 2}x}" for arg, width in zip(entry.args, widths, strict=True)
        )
        return f"{action.name} - {args}"

    def do_table_indirect_add(self, words: list[str]) -> list[str]:
        """table_indirect_add TABLE KEYS => MEMBER"""
        table = self._table(words[0])
        arrow = words.index("=>")
        return self._add(table, self._key(table, words[1:arrow]), MemberRef(int(words[-1])))

    def do_table_indirect_add_with_group(self, words: list[str]) -> list[str]:
        """table_indirect_add_with_group TABLE KEYS => GROUP"""
        table = self._table(words[0])
        assert table.profile is not None
        group = table.profile.group(int(words[-1]))
        if not group.members:
            raise _EmptyGroup
        arrow = words.index("=>")
        return self._add(table, self._key(table, words[1:arrow]), GroupRef(group.id))

    def do_table_indirect_set_default(self, words: list[str]) -> list[str]:
        """table_indirect_set_default TABLE MEMBER"""
        self._table(words[0]).set_default(MemberRef(int(words[1])))
        return []

    # --- action profiles ---

    def do_act_prof_create_member(self, words: list[str]) -> list[str]:
        """act_prof_create_member PROFILE ACTION PARAMS"""
        profile = self._profile(words[0])
        handle = self._members.get(profile.name, 0)
        profile.insert_member(handle, self._profile_call(profile, words[1], words[2:]))
        self._members[profile.name] = handle + 1
        return [f"Member has been created with handle {handle}"]

    def do_act_prof_modify_member(self, words: list[str]) -> list[str]:
        """act_prof_modify_member PROFILE ACTION MEMBER PARAMS"""
        profile = self._profile(words[0])
        profile.modify_member(int(words[2]), self._profile_call(profile, words[1], words[3:]))
        return []

    def do_act_prof_delete_member(self, words: list[str]) -> list[str]:
        """act_prof_delete_member PROFILE MEMBER"""
        self._profile(words[0]).delete_member(int(words[1]))
        return []

    def do_act_prof_create_group(self, words: list[str]) -> list[str]:
        """act_prof_create_group PROFILE"""
        profile = self._profile(words[0])
        handle = self._groups.get(profile.name, 0)
        profile.insert_group(handle)
        self._groups[profile.name] = handle + 1
        return [f"Group has been created with handle {handle}"]

    def do_act_prof_add_member_to_group(self, words: list[str]) -> list[str]:
        """act_prof_add_member_to_group PROFILE MEMBER GROUP"""
        profile = self._profile(words[0])
        group = profile.group(int(words[2]))
        profile.modify_group(group.id, [*group.members, GroupMember(int(words[1]))])
        return []

    def do_act_prof_remove_member_from_group(self, words: list[str]) -> list[str]:
        """act_prof_remove_member_from_group PROFILE MEMBER GROUP"""
        profile = self._profile(words[0])
        group = profile.group(int(words[2]))
        rest = [m for m in group.members if m.member_id != int(words[1])]
        profile.modify_group(group.id, rest)
        return []

    def do_act_prof_dump(self, words: list[str]) -> list[str]:
        """act_prof_dump PROFILE: its groups' members."""
        groups = self._profile(words[0]).groups
        return [
            f"Members: {sorted(m.member_id for m in groups[group_id].members)}"
            for group_id in sorted(groups)
        ]

    # --- counters, meters, value sets ---

    def do_counter_read(self, words: list[str]) -> list[str]:
        """counter_read COUNTER INDEX (the handle of the entry for a direct counter)"""
        name, index = words[0], int(words[1])
        table = self._direct(name, "direct_counter")
        if table is not None:
            cell = table.entries()[index].counter
        else:
            counter = self.switch.state.by_name(name)
            assert isinstance(counter, CounterArray)
            try:
                cell = counter.cell(index)
            except ValueTooLarge:
                return ["Invalid counter operation (INVALID_INDEX)"]
        return [f"{name}[{index}]= ({cell.bytes} bytes, {cell.packets} packets)"]

    def do_counter_reset(self, words: list[str]) -> list[str]:
        """counter_reset COUNTER"""
        table = self._direct(words[0], "direct_counter")
        assert table is not None
        for entry in table.entries():
            entry.counter.set(0, 0)
        return []

    def _direct(self, name: str, kind: str) -> Table | None:
        assert self.switch.program is not None
        instances = self.switch.program.ir.instances
        for table in self.switch.state.tables:
            index = getattr(table.decl, kind)
            if index is not None and instances[index].name == name:
                return table
        return None

    def _meter(self, name: str, index: int) -> Meter:
        table = self._direct(name, "direct_meter")
        if table is not None:
            return table.entries()[index].meter
        meters = self.switch.state.by_name(name)
        assert isinstance(meters, MeterArray)
        return meters.cell(index)

    def do_meter_set_rates(self, words: list[str]) -> list[str]:
        """meter_set_rates METER INDEX RATE:BURST RATE:BURST; rates per microsecond."""
        (cir, cburst), (pir, pburst) = (
            (int(float(rate) * 1_000_000), int(burst))
            for rate, burst in (word.split(":") for word in words[2:])
        )
        config = MeterConfig(cir, cburst, pir, pburst)
        self._meter(words[0], int(words[1])).configure(config, self.switch.clock.now_ps)
        return []

    def do_meter_get_rates(self, words: list[str]) -> list[str]:
        """meter_get_rates METER INDEX: the bursts (the recorded rates are below one a second)."""
        config = self._meter(words[0], int(words[1])).config
        assert config is not None
        return [f"burst size = {config.cburst}", f"burst size = {config.pburst}"]

    def do_pvs_add(self, words: list[str]) -> list[str]:
        """pvs_add SET VALUE: the leaves one after the other as one number."""
        values = self.switch.state.by_name(words[0])
        assert isinstance(values, ValueSetTable)
        number = _number(words[1])
        leaves: list[MatchField] = []
        for kind, width in zip(reversed(values.kinds), reversed(values.widths), strict=True):
            mask = (1 << width) - 1
            value = number & mask
            leaves.append(value if kind == "exact" else (value, mask))
            number >>= width
        values.replace([*values.members, tuple(reversed(leaves))])
        return []

    def do_pvs_get(self, words: list[str]) -> list[str]:
        """pvs_get SET"""
        assert isinstance(self.switch.state.by_name(words[0]), ValueSetTable)
        return []

    def do_show_pvs(self, words: list[str]) -> list[str]:
        """show_pvs"""
        return []

    # --- replication ---

    def do_mirroring_add(self, words: list[str]) -> list[str]:
        """mirroring_add SESSION PORT; replaces a session of that number."""
        return self._session(int(words[0]), (Replica(int(words[1])),))

    def do_mirroring_add_mc(self, words: list[str]) -> list[str]:
        """mirroring_add_mc SESSION GROUP; replaces a session of that number."""
        group = self.switch.replication.group(int(words[1]))
        assert group is not None
        return self._session(int(words[0]), group.replicas)

    def _session(self, number: int, replicas: tuple[Replica, ...]) -> list[str]:
        pre = self.switch.replication
        session = CloneSession(number, replicas)
        if pre.session(number) is None:
            pre.insert_session(session)
        else:
            pre.modify_session(session)
        return []

    def do_mc_mgrp_create(self, words: list[str]) -> list[str]:
        """mc_mgrp_create GROUP"""
        self.switch.replication.insert_group(MulticastGroup(int(words[0])))
        return []

    def do_mc_node_create(self, words: list[str]) -> list[str]:
        """mc_node_create RID PORTS"""
        self._nodes.append((int(words[0]), [int(port) for port in words[1:]]))
        return [f"node was created with handle {len(self._nodes) - 1}"]

    def do_mc_node_associate(self, words: list[str]) -> list[str]:
        """mc_node_associate GROUP NODE"""
        group = self.switch.replication.group(int(words[0]))
        if group is None:
            raise NoSuchEntry(f"no multicast group {words[0]}")
        rid, ports = self._nodes[int(words[1])]
        copies = tuple(Replica(port, rid) for port in ports)
        self.switch.replication.modify_group(MulticastGroup(group.id, (*group.replicas, *copies)))
        return []
