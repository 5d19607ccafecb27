"""Match-action tables: entries, defaults, direct counters and meters, idle times.

Times are integer picoseconds of the switch's clock. A write is complete before the next packet, since
packets and writes run one after the other on one scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from sglb.p4 import ir
from sglb.p4.native import table_layout as lay
from sglb.p4.runtime import Colour, Match
from sglb.switch.clock import PS_PER_NS, Scheduler
from sglb.switch.entries import NO_ACTION as NO_ACTION
from sglb.switch.entries import NOTHING, DefaultEntry, EntryStorage, IndirectMatch
from sglb.switch.entries import TableEntry as TableEntry
from sglb.switch.entries import Target as Target
from sglb.switch.errors import (
    ActionScope,
    BadValue,
    ConstTable,
    EntryExists,
    NoSuchEntry,
    SwitchError,
    UnknownAction,
    ValueTooLarge,
    full,
)
from sglb.switch.keys import MatchKey, from_const, normalise, show
from sglb.switch.locking import SwitchLock, locked
from sglb.switch.lookup import Index, make_index
from sglb.switch.memory import Arena, Record, address_of
from sglb.switch.memory_index import MemoryIndex, make_memory_index
from sglb.switch.profiles import (
    ActionCall,
    ActionProfile,
    GroupRef,
    MemberRef,
)

_CACHE_LIMIT: Final = 16384
_LARGEST_PRIORITY: Final = (1 << 63) - 1


class Table:
    """State of one `ir.Table`, with its program entries in place."""

    def __init__(
        self,
        decl: ir.Table,
        clock: Scheduler,
        *,
        profile: ActionProfile | None = None,
        meter_packets: bool = False,
        lock: SwitchLock | None = None,
        arena: Arena | None = None,
        head: NDArray[np.uint64] | None = None,
    ) -> None:
        self.decl = decl
        self.lock: SwitchLock = lock or RLock()
        #: Called when an entry with an idle timeout was added or changed.
        self.on_idle_entry: Callable[[Table, TableEntry], None] | None = None
        self._clock = clock
        self.name = decl.name
        self.size = max(decl.size, len(decl.entries))
        self.p4info_id = decl.p4info_id
        self.profile = profile
        #: Whether entries carry priorities.
        self.needs_priority = any(k.kind in ("ternary", "range", "optional") for k in decl.keys)
        self._arena = arena or Arena()
        self._storage = EntryStorage(decl, meter_packets=meter_packets, arena=self._arena)
        self._head = np.zeros(lay.head_words(decl), np.uint64) if head is None else head
        self._memory: MemoryIndex | None = None
        self._shared = False
        self._nothing: Record | None = None
        self._by_id = {a.p4info_id: i for i, a in enumerate(decl.actions) if a.p4info_id}
        #: By key, or by key and priority where entries have one.
        self._entries: dict[object, TableEntry] = {}
        self._index: Index[TableEntry] | None = None
        self._lookup: Callable[[tuple[int, ...], bytes, int], Match] | None = None
        self._cached = any(k.kind != "exact" for k in decl.keys)
        self._cache: dict[tuple[int, ...], TableEntry] = {}
        self._orders = 0
        self._ages = decl.support_timeout
        if profile is not None:
            self._nothing = self._storage.nothing()
            self._head[lay.HEAD_NOTHING] = self._nothing.address
            self._head[lay.HEAD_EMPTY] = profile.empty_address
            self._head[lay.HEAD_MEMBER] = profile.attach(
                self.check, self._storage.layout, self._storage.data, self.action_index
            )
        #: What runs when nothing matches; one object for the table's whole life.
        self.default: TableEntry = DefaultEntry((), self._storage)
        self._head[lay.HEAD_DEFAULT] = self.default.record.address
        self._restore_default()
        self._add_program_entries()

    # --- data plane ---

    @property
    def lookup(self) -> Callable[[tuple[int, ...], bytes, int], Match]:
        """The entry for the key, or the default entry; see `runtime.TableState`.

        Made, with its index, when somebody asks: native code needs neither.
        """
        if self._lookup is None:
            self._lookup = self._make_lookup()
        return self._lookup

    def count(self, match: Match, length_bytes: int) -> None:
        """Counts a packet on the matched entry, the default entry included."""
        cast("TableEntry | IndirectMatch", match).counter.count(length_bytes)

    def meter(self, match: Match, length_bytes: int, now_ps: int) -> Colour:
        """Runs the matched entry's meter."""
        return cast("TableEntry | IndirectMatch", match).meter.execute(length_bytes, now_ps)

    def _make_lookup(self) -> Callable[[tuple[int, ...], bytes, int], Match]:
        """A function for what this table has and nothing it lacks: this runs for every packet."""
        default, find, profile, resolve = self.default, self._find(), self.profile, self._resolve
        if profile is not None:
            ages = self._ages

            def indirect(key: tuple[int, ...], selector: bytes, now_ps: int) -> Match:
                entry = find(key) or default
                if ages:
                    entry.last_hit_ps = now_ps
                return entry if entry.action >= 0 else resolve(profile, entry, selector)

            return indirect
        if not self.decl.keys:
            return lambda _key, _selector, _now_ps: default
        if self._ages:

            def ageing(key: tuple[int, ...], _selector: bytes, now_ps: int) -> Match:
                entry = find(key) or default
                entry.last_hit_ps = now_ps
                return entry

            return ageing
        return lambda key, _selector, _now_ps: find(key) or default

    def _find(self) -> Callable[[tuple[int, ...]], TableEntry | None]:
        index: Index[TableEntry] = make_index(self.decl.keys)
        for stored in self._entries.values():
            index.add(stored)
        self._index, find = index, index.find
        if not self._cached:
            return find
        cache = self._cache
        absent = self.default

        def cached(key: tuple[int, ...]) -> TableEntry | None:
            entry = cache.get(key)
            if entry is None:
                entry = find(key) or absent
                if len(cache) >= _CACHE_LIMIT:
                    cache.clear()
                cache[key] = entry
            return entry

        return cached

    def _resolve(self, profile: ActionProfile, entry: TableEntry, selector: bytes) -> Match:
        member = entry.member
        if member is None:
            choice = entry.choice
            if choice is None and isinstance(entry.target, GroupRef):
                choice = profile.groups[entry.target.group_id].choice
            if choice is not None:
                member = profile.choose(choice, selector)
        if member is None:
            return IndirectMatch(entry, NO_ACTION, ())
        call = member.call
        return IndirectMatch(entry, self._by_id[call.action_id], call.args)

    # --- native code ---

    @locked
    def share(self, machine: int) -> int:
        """Puts the entries where native code finds them, from now on; gives the head's address.

        `machine` is the address of the machine that the table belongs to.
        """
        if self.profile is not None:
            self._head[lay.HEAD_MACHINE] = machine
        if not self._shared:
            self._shared = True
            self._memory = make_memory_index(self._storage.layout.index, self._head, self._arena)
            for entry in self._entries.values():
                self._index_in_memory(entry)
        return address_of(self._head)

    def _index_in_memory(self, entry: TableEntry) -> None:
        if self._memory is not None:
            self._memory.add(entry)

    # --- control plane ---

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> tuple[TableEntry, ...]:
        """All entries but the default, in order of insertion."""
        return tuple(self._entries.values())

    def get(self, key: MatchKey, priority: int = 0) -> TableEntry | None:
        """The entry with exactly this key and priority. Raises `BadValue` for a malformed key."""
        return self._entries.get(self._name(self._shape(key), priority))

    @locked
    def insert(
        self,
        key: MatchKey,
        target: Target,
        *,
        priority: int = 0,
        metadata: bytes = b"",
        idle_timeout_ns: int = 0,
    ) -> TableEntry:
        """Adds an entry.

        Raises `EntryExists`, `TableFull`, `ConstTable`, `BadValue`/`ValueTooLarge` (key, priority,
        action data), `UnknownAction`, `ActionScope`, `NoSuchEntry` (member or group).
        """
        if self.decl.entries_const:
            raise ConstTable(f"table {self.name}: its entries are const, none can be added")
        if not self.decl.keys:
            raise BadValue(f"table {self.name} has no key: only its default action can be set")
        self._check_idle(idle_timeout_ns)
        shaped = self._check_room(self._shape(key), priority)
        self._check_target(target, default=False)
        entry = self._place(shaped, priority, lambda entry: self._aim(entry, target))
        self._set_extras(entry, metadata, idle_timeout_ns)
        return entry

    @locked
    def insert_known(self, key: MatchKey, call: ActionCall, priority: int) -> TableEntry:
        """`insert` for key, action and priority of an entry of a table with the same declaration.

        Whether they suit it is known then. Raises `EntryExists` and `TableFull`.
        """
        name = (key, priority) if self.needs_priority else key
        if name in self._entries or len(self._entries) >= self.size:
            self._check_room(key, priority)
        entry = TableEntry(key, self._storage)
        self._orders += 1
        if self.needs_priority:
            more = entry.extras()
            more.priority, more.order = priority, self._orders
        entry.target, entry.args = call, call.args
        entry.action = self._by_id[call.action_id]
        self._storage.write(entry, 0)
        self._enter(name, entry)
        if self._ages:
            self._set_extras(entry, b"", 0)
        return entry

    @locked
    def modify(
        self,
        key: MatchKey,
        target: Target,
        *,
        priority: int = 0,
        metadata: bytes = b"",
        idle_timeout_ns: int = 0,
    ) -> TableEntry:
        """Replaces an entry's action, metadata and idle timeout; its counter and meter stay.

        Raises `NoSuchEntry`, and as `insert`.
        """
        entry = self._writable(key, priority)
        self._check_idle(idle_timeout_ns)
        self._check_target(target, default=False)
        self._aim(entry, target)
        self._set_extras(entry, metadata, idle_timeout_ns)
        return entry

    @locked
    def delete(self, key: MatchKey, priority: int = 0) -> None:
        """Removes an entry. Raises `NoSuchEntry`, `ConstTable`, `BadValue`."""
        entry = self._writable(key, priority)
        self._let_go(entry)
        del self._entries[self._name(entry.key, priority)]
        if self._index is not None:
            self._index.remove(entry)
        if self._memory is not None:
            self._memory.remove(entry)
        self._cache.clear()

    @locked
    def restore(self, entry: TableEntry, target: Target) -> None:
        """Takes back the `delete` of an entry that did `target`, its counts and order included."""
        self._aim(entry, target)
        self._enter(self._name(entry.key, entry.priority), entry)

    @locked
    def clear(self) -> None:
        """Removes every entry that is not const; the default stays."""
        for entry in self.entries():
            if not entry.is_const:
                self.delete(entry.key, entry.priority)

    @locked
    def set_default(self, target: Target, metadata: bytes = b"") -> None:
        """Sets the default action. Raises `ConstTable` for a const default, else as `insert`."""
        if self.decl.const_default:
            raise ConstTable(f"table {self.name}: its default action is const")
        self._check_target(target, default=True)
        self._aim(self.default, target)
        self.default.metadata = metadata

    @locked
    def reset_default(self) -> None:
        """Puts back the program's default action, with its counter and meter cleared."""
        if self.decl.const_default:
            raise ConstTable(f"table {self.name}: its default action is const")
        self._let_go(self.default)
        self._restore_default()

    def idle(self, now_ps: int) -> list[TableEntry]:
        """Entries not hit for their idle timeout; each is told once per timeout that passes."""
        out = []
        for entry in self._entries.values():
            if entry.idle_timeout_ns and self.idle_due_ps(entry) <= now_ps:
                entry.notified_ps = now_ps
                out.append(entry)
        return out

    def next_idle_ps(self) -> int | None:
        """When `idle` can have something to tell next; None without such entries."""
        return min(
            (self.idle_due_ps(e) for e in self._entries.values() if e.idle_timeout_ns),
            default=None,
        )

    @staticmethod
    def idle_due_ps(entry: TableEntry) -> int:
        """When the entry counts as idle if nothing hits it."""
        return max(entry.last_hit_ps, entry.notified_ps) + entry.idle_timeout_ns * PS_PER_NS

    def action_index(self, action_id: int) -> int:
        """Index into `decl.actions` of a P4Info action id. Raises `UnknownAction`."""
        index = self._by_id.get(action_id)
        if index is None:
            names = ", ".join(a.name for a in self.decl.actions)
            raise UnknownAction(
                f"table {self.name} has no action with id {action_id}; it has {names}"
            )
        return index

    def check(self, call: ActionCall) -> None:
        """Raises `UnknownAction`, `BadValue` or `ValueTooLarge` when the table cannot run this."""
        action = self.decl.actions[self.action_index(call.action_id)]
        if len(call.args) != len(action.params):
            raise BadValue(
                f"table {self.name}: action {action.name} takes {len(action.params)} "
                f"parameter(s), got {len(call.args)}"
            )
        for i, (arg, (_, width)) in enumerate(zip(call.args, action.params, strict=True), 1):
            if arg < 0 or arg >> width:
                raise ValueTooLarge(
                    f"table {self.name}: parameter {i} of {action.name} is {arg}, "
                    f"which exceeds {width} bits"
                )

    # --- inside ---

    def _name(self, key: MatchKey, priority: int) -> object:
        return (key, priority) if self.needs_priority else key

    def _shape(self, key: MatchKey) -> MatchKey:
        keys = self.decl.keys
        if len(key) != len(keys):
            raise BadValue(f"table {self.name} has {len(keys)} key field(s), got {len(key)}")
        out = []
        for field, decl in zip(key, keys, strict=True):
            try:
                out.append(normalise(decl.kind, field, decl.width, decl.signed))
            except SwitchError as error:
                raise type(error)(f"table {self.name}, key {decl.name}: {error}") from None
        return tuple(out)

    def show_key(self, key: MatchKey) -> str:
        """A canonical key as a person writes it."""
        return ", ".join(
            f"{k.name}={show(k.kind, f)}" for k, f in zip(self.decl.keys, key, strict=True)
        )

    def _writable(self, key: MatchKey, priority: int) -> TableEntry:
        shaped = self._shape(key)
        entry = self._entries.get(self._name(shaped, priority))
        if self.decl.entries_const or (entry is not None and entry.is_const):
            raise ConstTable(f"table {self.name}: the entry [{self.show_key(shaped)}] is const")
        if entry is None:
            raise NoSuchEntry(
                f"table {self.name} has no entry [{self.show_key(shaped)}]"
                + (f" with priority {priority}" if self.needs_priority else "")
            )
        return entry

    def _check_room(self, shaped: MatchKey, priority: int) -> MatchKey:
        if priority < 0 or (priority and not self.needs_priority):
            raise BadValue(
                f"table {self.name}: priority {priority}, but "
                + ("it must not be negative" if self.needs_priority else "its keys take none")
            )
        if priority > _LARGEST_PRIORITY:
            raise ValueTooLarge(f"table {self.name}: priority {priority} exceeds 63 bits")
        if self._name(shaped, priority) in self._entries:
            raise EntryExists(f"table {self.name} has an entry [{self.show_key(shaped)}] already")
        if len(self._entries) >= self.size:
            raise full("table", self.name, self.size)
        return shaped

    def _place(
        self, shaped: MatchKey, priority: int, aim: Callable[[TableEntry], None]
    ) -> TableEntry:
        entry = TableEntry(shaped, self._storage)
        if self.needs_priority:
            more = entry.extras()
            more.priority, more.order = priority, self._orders + 1
        aim(entry)
        self._orders += 1
        self._enter(self._name(shaped, priority), entry)
        return entry

    def _enter(self, name: object, entry: TableEntry) -> None:
        self._entries[name] = entry
        if self._index is not None:
            self._index.add(entry)
        if self._memory is not None:
            self._memory.add(entry)
        self._cache.clear()

    def _check_idle(self, idle_timeout_ns: int) -> None:
        if idle_timeout_ns < 0:
            raise BadValue(f"table {self.name}: the idle timeout must not be negative")
        if idle_timeout_ns and not self._ages:
            raise BadValue(f"table {self.name} is declared without `support_timeout = true`")

    def _set_extras(self, entry: TableEntry, metadata: bytes, idle_timeout_ns: int) -> None:
        entry.metadata = metadata
        if not self._ages:
            return
        entry.idle_timeout_ns = idle_timeout_ns
        entry.last_hit_ps = entry.notified_ps = self._clock.now_ps
        if idle_timeout_ns and self.on_idle_entry is not None:
            self.on_idle_entry(self, entry)

    def _check_target(self, target: Target, *, default: bool) -> None:
        if isinstance(target, ActionCall):
            if self.profile is not None:
                raise BadValue(
                    f"table {self.name} takes its actions from {self.profile.name}: "
                    "give a member, a group or a one-shot set"
                )
            self.check(target)
            self._check_scope(target, default=default)
            return
        profile = self.profile
        if profile is None:
            raise BadValue(f"table {self.name} has no action profile: give an action")
        if isinstance(target, MemberRef):
            profile.member(target.member_id)
        elif isinstance(target, GroupRef):
            profile.group(target.group_id)
        else:
            for action in target.actions:
                self.check(action.call)

    def _check_scope(self, call: ActionCall, *, default: bool) -> None:
        action = self.decl.actions[self.action_index(call.action_id)]
        if action.table_only and default:
            raise ActionScope(
                f"table {self.name}: {action.name} is @tableonly, not for the default"
            )
        if action.default_only and not default:
            raise ActionScope(f"table {self.name}: {action.name} is @defaultonly, not for entries")

    def _aim(self, entry: TableEntry, target: Target) -> None:
        """Points an entry at a checked target; what it held before is let go of last."""
        choice = None
        member = None
        cell = 0
        action, args = NO_ACTION, cast("tuple[int, ...]", ())
        if isinstance(target, ActionCall):
            action, args = self.action_index(target.action_id), target.args
        else:
            profile = cast("ActionProfile", self.profile)
            if isinstance(target, MemberRef):
                member = profile.member(target.member_id)
                member.refs += 1
                cell = member.cell.address
            elif isinstance(target, GroupRef):
                group = profile.group(target.group_id)
                group.refs += 1
                cell = group.choice.cell.address
            else:
                choice = profile.add_one_shot(target, entry.choice)
                cell = choice.cell.address
        self._let_go(entry)
        entry.target = target
        entry.action, entry.args = action, args
        entry.choice, entry.member = choice, member
        self._storage.write(entry, cell)

    def _let_go(self, entry: TableEntry) -> None:
        profile = self.profile
        if profile is None:
            return
        if entry.member is not None:
            entry.member.refs -= 1
            entry.member = None
        elif entry.choice is not None:
            profile.drop_one_shot(entry.choice)
            entry.choice = None
        elif isinstance(entry.target, GroupRef):
            profile.group(entry.target.group_id).refs -= 1
        entry.target = NOTHING

    def _restore_default(self) -> None:
        decl, entry = self.decl, self.default
        entry.action = decl.default_action
        entry.args = decl.default_args
        entry.target = ActionCall(decl.actions[decl.default_action].p4info_id, decl.default_args)
        entry.is_const = decl.const_default
        entry.metadata = b""
        entry.cookie = 0
        entry.counter.set(0, 0)
        entry.meter.clear()
        self._storage.write(entry, 0)

    def _add_program_entries(self) -> None:
        keys = self.decl.keys
        for const in self.decl.entries:
            key = tuple(
                from_const(k.kind, e, k.width) for k, e in zip(keys, const.keys, strict=True)
            )
            priority = const.priority if self.needs_priority else 0
            shaped = self._check_room(self._shape(key), priority)
            entry = self._place(shaped, priority, lambda _: None)
            entry.action, entry.args = const.action, const.args
            self._storage.write(entry, 0)
            entry.target = ActionCall(self.decl.actions[const.action].p4info_id, const.args)
            entry.is_const = const.is_const
            if self._ages:
                entry.last_hit_ps = entry.notified_ps = self._clock.now_ps
