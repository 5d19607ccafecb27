"""TableEntry: match-action entries and default entries (P4Runtime 1.5, "TableEntry").

Direct counters and meters that come with an entry are handled in `direct`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from finsy.proto import p4i, p4r

from sglb.switch.clock import PS_PER_NS, Scheduler
from sglb.switch.keys import MatchKey
from sglb.switch.p4runtime.action_profiles import ProfileBinding, WrittenOneShot
from sglb.switch.p4runtime.actions import ActionSet
from sglb.switch.p4runtime.direct import DirectResources
from sglb.switch.p4runtime.entity import Undo, UpdateType, all_of, find
from sglb.switch.p4runtime.match_fields import MatchCodec
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.profiles import ActionCall, GroupRef, MemberRef, OneShot
from sglb.switch.tables import Table, TableEntry, Target

#: Messages of entries that are kept in mind.
_MOST_KNOWN: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class TableBinding:
    """A table of P4Info and its state; `profile` is what it takes its actions from, if anything."""

    info: p4i.Table
    state: Table
    keys: MatchCodec
    actions: ActionSet
    profile: ProfileBinding | None
    resources: DirectResources

    @property
    def name(self) -> str:
        """The full name."""
        return str(self.info.preamble.name)

    @property
    def has_timeout(self) -> bool:
        """Whether entries may have idle timeouts."""
        return bool(self.info.idle_timeout_behavior == p4i.Table.NOTIFY_CONTROL)

    def bad(self, text: str, code: Code = Code.INVALID_ARGUMENT) -> P4RuntimeError:
        """An error about this table."""
        return P4RuntimeError(code, f"table {self.name}: {text}")

    # --- keys -------------------------------------------------------------------------------------

    def key(self, message: p4r.TableEntry) -> tuple[MatchKey, int]:
        """Key and priority that identify an entry; INVALID_ARGUMENT when malformed."""
        key = self.keys.decode(message.match)
        priority = message.priority
        if self.state.needs_priority and priority <= 0:
            raise self.bad(
                f"priority {priority}: a key with ternary, range or optional fields needs one "
                "above 0"
            )
        if not self.state.needs_priority and priority:
            raise self.bad(f"priority {priority}: it must be 0, the key is exact or lpm only")
        return key, priority

    def existing(self, message: p4r.TableEntry) -> TableEntry:
        """The entry (or default entry) that a message names; NOT_FOUND when there is none."""
        if message.is_default_action:
            self.check_default_key(message)
            return self.state.default
        key, priority = self.key(message)
        entry = self.state.get(key, priority)
        if entry is None:
            shown = self.state.show_key(key)
            suffix = f" with priority {priority}" if priority else ""
            raise self.bad(f"there is no entry [{shown}]{suffix}", Code.NOT_FOUND)
        return entry

    def check_default_key(self, message: p4r.TableEntry) -> None:
        """INVALID_ARGUMENT for a default entry with a match or a priority."""
        if message.match or message.priority:
            raise self.bad("a default entry has neither match fields nor a priority")

    # --- actions ----------------------------------------------------------------------------------

    def target(self, action: p4r.TableAction) -> Target:
        """What an entry shall do; INVALID_ARGUMENT unless it is what the table's kind takes."""
        kind = action.WhichOneof("type")
        if self.profile is None:
            if kind != "action":
                raise self.bad(f"takes an action in its entries, not {kind or 'nothing'}")
            return self.actions.decode(action.action)
        selector = self.profile.info.with_selector
        match kind:
            case "action_profile_member_id":
                self.profile.check_style(one_shot=False)
                return MemberRef(action.action_profile_member_id)
            case "action_profile_group_id" if selector:
                self.profile.check_style(one_shot=False)
                return GroupRef(action.action_profile_group_id)
            case "action_profile_action_set" if selector:
                return self.profile.one_shot(action.action_profile_action_set)
            case _:
                raise self.bad(
                    f"takes its actions from {self.profile.name}: give a member"
                    + (", a group or a one-shot set" if selector else "")
                    + f", not {kind or 'nothing'}"
                )

    def fill_action(self, message: p4r.TableEntry, target: Target) -> None:
        """Writes what an entry does; nothing for an action that P4Info doesn't show."""
        if isinstance(target, ActionCall):
            codec = self.actions.shown(target)
            if codec is not None:
                codec.fill(message.action.action, target.args)
        elif isinstance(target, MemberRef):
            message.action.action_profile_member_id = target.member_id
        elif isinstance(target, GroupRef):
            message.action.action_profile_group_id = target.group_id
        else:
            message.action.action_profile_action_set.CopyFrom(self._set_message(target))

    def _set_message(self, target: OneShot) -> p4r.ActionProfileActionSet:
        if isinstance(target, WrittenOneShot):
            return target.message
        message = p4r.ActionProfileActionSet()
        for one in target.actions:
            made = message.action_profile_actions.add(
                action=self.actions.encode(one.call), weight=one.weight
            )
            if one.watch_port is not None and self.profile is not None:
                made.watch_port = self.profile.ports.encode(one.watch_port)
        return message


class KnownEntries:
    """Plain entries that were taken before, by the bytes of their messages.

    Plain is an entry with key, priority and action alone. Switches of one program, and the tables of
    one switch, get many of the same: what one has found out about them holds for all.
    """

    def __init__(self) -> None:
        self._found: dict[bytes, tuple[int, MatchKey, int, ActionCall]] = {}
        self.get = self._found.get

    def put(self, data: bytes, table_id: int, entry: TableEntry) -> None:
        """Keeps what an entry's message means."""
        if isinstance(entry.target, ActionCall):
            if len(self._found) >= _MOST_KNOWN:
                self._found.clear()
            self._found[data] = table_id, entry.key, entry.priority, entry.target


class TableHandler:
    """TableEntry. `known` may be shared by handlers for the same declarations and codecs."""

    def __init__(
        self, tables: Mapping[int, TableBinding], clock: Scheduler, known: KnownEntries
    ) -> None:
        self._tables = tables
        self._clock = clock
        self._known = known

    def object_id(self, entity: p4r.Entity) -> int:
        """The table's id."""
        return int(entity.table_entry.table_id)

    # --- writing ----------------------------------------------------------------------------------

    def insert_known(self, update: p4r.Update) -> bool:
        """Carries out an INSERT whose like was taken before; False, with nothing done, for others.

        The same as `write`, for whoever takes nothing back.
        """
        if update.type != p4r.Update.INSERT:
            return False
        known = self._known.get(update.entity.table_entry.SerializeToString())
        if known is None:
            return False
        table_id, key, priority, call = known
        self._tables[table_id].state.insert_known(key, call, priority)
        return True

    def write(self, update: UpdateType, entity: p4r.Entity) -> Undo:
        """Inserts, changes or deletes an entry, or changes a default entry."""
        message = entity.table_entry
        if update is UpdateType.INSERT:
            data = message.SerializeToString()
            known = self._known.get(data)
            if known is not None:
                return self._insert_known(*known)
        table = find(self._tables, "table", message.table_id)
        if message.is_const:
            raise table.bad("is_const cannot be set by a client")
        if message.is_default_action:
            return self._write_default(update, table, message)
        if table.info.is_const_table and (
            update is not UpdateType.MODIFY or message.HasField("action")
        ):
            raise table.bad(
                "its entries are const: only counters and meters of entries can be changed "
                "(MODIFY without an action)",
                Code.PERMISSION_DENIED,
            )
        match update:
            case UpdateType.INSERT:
                return self._insert(table, message, data)
            case UpdateType.MODIFY:
                return self._modify(table, message)
            case _:
                return self._delete(table, message)

    def _check_times(self, table: TableBinding, message: p4r.TableEntry) -> None:
        if message.HasField("time_since_last_hit"):
            raise table.bad("time_since_last_hit can be read only")
        if message.idle_timeout_ns < 0:
            raise table.bad(f"idle_timeout_ns {message.idle_timeout_ns} is negative")
        if message.idle_timeout_ns and not table.has_timeout:
            raise table.bad("idle_timeout_ns is set, but the table has no support_timeout")

    def _insert_known(self, table_id: int, key: MatchKey, priority: int, call: ActionCall) -> Undo:
        state = self._tables[table_id].state
        state.insert_known(key, call, priority)
        return lambda: state.delete(key, priority)

    def _insert(self, table: TableBinding, message: p4r.TableEntry, data: bytes) -> Undo:
        if not table.info.match_fields:
            raise table.bad("it has no key, so no entry can be inserted (set its default entry)")
        key, priority = table.key(message)
        if not message.HasField("action"):
            raise table.bad("action is not set")
        target = table.target(message.action)
        if isinstance(target, ActionCall) and (
            len(message.ListFields()) == 2 + bool(message.match) + bool(priority)
        ):
            # Key, priority and action alone, which decoding has checked.
            entry = table.state.insert_known(key, target, priority)
            self._known.put(data, message.table_id, entry)
            return lambda: table.state.delete(key, priority)
        self._check_times(table, message)
        resources = table.resources.parse(message)
        entry = table.state.insert(
            key,
            target,
            priority=priority,
            metadata=message.metadata,
            idle_timeout_ns=message.idle_timeout_ns,
        )
        entry.cookie = message.controller_metadata
        resources.apply(entry, self._clock.now_ps)
        return lambda: table.state.delete(key, priority)

    def _modify(self, table: TableBinding, message: p4r.TableEntry) -> Undo:
        entry = table.existing(message)
        self._check_times(table, message)
        resources = table.resources.parse(message)
        if not message.HasField("action"):
            # Without an action only direct resources change, so const entries allow it.
            return resources.apply(entry, self._clock.now_ps)
        if entry.is_const:
            raise table.bad("the entry is const", Code.PERMISSION_DENIED)
        old = (entry.target, entry.metadata, entry.idle_timeout_ns, entry.cookie)
        times = (entry.last_hit_ps, entry.notified_ps)

        def undo() -> None:
            target, metadata, idle_timeout_ns, entry.cookie = old
            table.state.modify(
                entry.key,
                target,
                priority=entry.priority,
                metadata=metadata,
                idle_timeout_ns=idle_timeout_ns,
            )
            entry.last_hit_ps, entry.notified_ps = times

        table.state.modify(
            entry.key,
            table.target(message.action),
            priority=entry.priority,
            metadata=message.metadata,
            idle_timeout_ns=message.idle_timeout_ns,
        )
        entry.cookie = message.controller_metadata
        return all_of([undo, resources.apply(entry, self._clock.now_ps)])

    def _delete(self, table: TableBinding, message: p4r.TableEntry) -> Undo:
        entry = table.existing(message)
        target = entry.target
        table.state.delete(entry.key, entry.priority)
        return lambda: table.state.restore(entry, target)

    def _write_default(
        self, update: UpdateType, table: TableBinding, message: p4r.TableEntry
    ) -> Undo:
        if update is not UpdateType.MODIFY:
            raise table.bad(f"its default entry can be modified only, not {update.name}")
        table.check_default_key(message)
        if message.idle_timeout_ns or message.HasField("time_since_last_hit"):
            raise table.bad("a default entry has no idle timeout")
        if table.info.const_default_action_id or table.state.decl.const_default:
            raise table.bad("its default entry is const", Code.PERMISSION_DENIED)
        if table.profile is not None:
            raise table.bad(
                "the default entry of a table with an action profile is constant",
                Code.PERMISSION_DENIED,
            )
        resources = table.resources.parse(message)
        if not message.HasField("action"):
            return self._reset_default(table)
        if message.action.WhichOneof("type") != "action":
            raise table.bad("its default entry takes an action")
        call = table.actions.decode(message.action.action, default=True)
        entry = table.state.default
        old, metadata, cookie = entry.target, entry.metadata, entry.cookie
        table.state.set_default(call, message.metadata)
        entry.cookie = message.controller_metadata

        def undo() -> None:
            table.state.set_default(old, metadata)
            entry.cookie = cookie

        return all_of([undo, resources.apply(entry, self._clock.now_ps)])

    def _reset_default(self, table: TableBinding) -> Undo:
        entry = table.state.default
        target, metadata, cookie = entry.target, entry.metadata, entry.cookie
        cells = (entry.counter, *entry.meter.counts)
        counts = [(cell.packets, cell.bytes) for cell in cells]
        restore_meter = entry.meter.checkpoint()
        table.state.reset_default()

        def undo() -> None:
            table.state.set_default(target, metadata)
            entry.cookie = cookie
            restore_meter()
            for cell, (packets, size) in zip(cells, counts, strict=True):
                cell.set(packets, size)

        return undo

    # --- reading ----------------------------------------------------------------------------------

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """The entries that the request selects, const ones included; the default only if asked."""
        wanted = entity.table_entry
        if wanted.table_id == 0:
            if _has_filter(wanted):
                raise P4RuntimeError(
                    Code.INVALID_ARGUMENT, "a read of all tables (table_id 0) takes no other filter"
                )
            for table in self._tables.values():
                for entry in table.state.entries():
                    yield self._message(table, entry, wanted)
            return
        table = find(self._tables, "table", wanted.table_id)
        if wanted.HasField("time_since_last_hit") and not table.has_timeout:
            raise table.bad("time_since_last_hit is set, but the table has no support_timeout")
        table.resources.check_read(wanted)
        for entry in self.select(table, wanted):
            yield self._message(table, entry, wanted)

    def select(self, table: TableBinding, wanted: p4r.TableEntry) -> Iterator[TableEntry]:
        """The table's entries that pass the filters of a request."""
        if wanted.is_default_action:
            table.check_default_key(wanted)
            if wanted.HasField("time_since_last_hit"):
                raise table.bad("a default entry has no idle timeout")
            candidates: tuple[TableEntry, ...] = (table.state.default,)
            key = None
        else:
            key = table.keys.decode(wanted.match) if wanted.match else None
            if key is not None and bool(wanted.priority) is table.state.needs_priority:
                found = table.state.get(key, wanted.priority)
                candidates = () if found is None else (found,)
            else:
                candidates = table.state.entries()
        action_id = self._action_filter(table, wanted)
        for entry in candidates:
            if key is not None and entry.key != key:
                continue
            if wanted.priority and entry.priority != wanted.priority:
                continue
            if wanted.metadata and entry.metadata != wanted.metadata:
                continue
            if wanted.controller_metadata and entry.cookie != wanted.controller_metadata:
                continue
            if action_id and not (
                isinstance(entry.target, ActionCall) and entry.target.action_id == action_id
            ):
                continue
            yield entry

    def _action_filter(self, table: TableBinding, wanted: p4r.TableEntry) -> int:
        if not wanted.HasField("action"):
            return 0
        if wanted.action.WhichOneof("type") != "action":
            raise table.bad("entries can be filtered by an action's id only")
        if wanted.action.action.params:
            raise table.bad("entries cannot be filtered by action parameters")
        table.actions.codec(wanted.action.action.action_id)
        return int(wanted.action.action.action_id)

    def _message(
        self, table: TableBinding, entry: TableEntry, wanted: p4r.TableEntry
    ) -> p4r.Entity:
        entity = p4r.Entity()
        message = entity.table_entry
        message.table_id = table.info.preamble.id
        message.priority = entry.priority
        table.fill_action(message, entry.target)
        message.controller_metadata = entry.cookie
        message.metadata = entry.metadata
        message.is_default_action = not entry.hit
        message.idle_timeout_ns = entry.idle_timeout_ns
        message.is_const = entry.is_const
        if entry.hit:
            table.keys.fill(message.match, entry.key)
        if wanted.HasField("time_since_last_hit") and table.has_timeout and entry.hit:
            elapsed_ps = self._clock.now_ps - entry.last_hit_ps
            message.time_since_last_hit.elapsed_ns = elapsed_ps // PS_PER_NS
            message.time_since_last_hit.SetInParent()
        table.resources.fill(message, entry, wanted)
        return entity

    def idle_message(self, table_id: int, entry: TableEntry) -> p4r.TableEntry:
        """How an idle entry is named in a notification."""
        table = find(self._tables, "table", table_id)
        message = p4r.TableEntry(
            table_id=table_id,
            priority=entry.priority,
            controller_metadata=entry.cookie,
            metadata=entry.metadata,
            idle_timeout_ns=entry.idle_timeout_ns,
        )
        table.keys.fill(message.match, entry.key)
        return message


def _has_filter(wanted: p4r.TableEntry) -> bool:
    return bool(
        wanted.match
        or wanted.HasField("action")
        or wanted.priority
        or wanted.controller_metadata
        or wanted.metadata
        or wanted.is_default_action
    )
