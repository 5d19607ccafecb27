"""Carries forwarding state from one program to the next, for RECONCILE_AND_COMMIT.

Everything a controller can write is read from the old program and written to the new one: members,
groups, entries with their counters and meters, default entries that were changed, value sets,
replication, digests, indirect counters and meters, registers. What the new program has no object for,
or refuses, makes the whole step fail; only array elements with nothing in them may vanish.
"""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4d, p4r

from sglb.switch.errors import SwitchError
from sglb.switch.keys import MatchKey
from sglb.switch.p4runtime.bound import BoundPipeline
from sglb.switch.p4runtime.entity import UpdateType
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.p4runtime.table_entries import TableBinding

_PLAIN = (
    ("value_set_entry", UpdateType.MODIFY),
    ("packet_replication_engine_entry", UpdateType.INSERT),
    ("digest_entry", UpdateType.INSERT),
    ("counter_entry", UpdateType.MODIFY),
    ("meter_entry", UpdateType.MODIFY),
    ("register_entry", UpdateType.MODIFY),
)


def carry_over(old: BoundPipeline, new: BoundPipeline) -> None:
    """Writes the old program's state to the new one, whose state is fresh.

    Raises INVALID_ARGUMENT naming the first thing that cannot be kept.
    """
    for kind in ("action_profile_member", "action_profile_group"):
        for entity in _all(old, kind):
            _write(new, kind, UpdateType.INSERT, entity)
    for table_id, table in old.tables.items():
        _carry_table(table, table_id, old, new)
    for kind, update in _PLAIN:
        for entity in _all(old, kind):
            if not _is_empty(kind, entity):
                _write(new, kind, update, entity)


def _all(bound: BoundPipeline, kind: str) -> Iterator[p4r.Entity]:
    requests = [p4r.Entity()]
    getattr(requests[0], kind).SetInParent()
    if kind == "packet_replication_engine_entry":
        requests = [p4r.Entity(), p4r.Entity()]
        requests[0].packet_replication_engine_entry.multicast_group_entry.SetInParent()
        requests[1].packet_replication_engine_entry.clone_session_entry.SetInParent()
    for request in requests:
        yield from bound.handlers[kind].read(request)


def _is_empty(kind: str, entity: p4r.Entity) -> bool:
    """Whether an array element or value set holds what a new program starts with anyway."""
    match kind:
        case "counter_entry":
            data = entity.counter_entry.data
            return not (data.byte_count or data.packet_count)
        case "meter_entry":
            return not entity.meter_entry.HasField("config")
        case "register_entry":
            return bool(entity.register_entry.data == p4d.P4Data(bitstring=b"\0"))
        case "value_set_entry":
            return not entity.value_set_entry.members
        case _:
            return False


def _carry_table(
    table: TableBinding, table_id: int, old: BoundPipeline, new: BoundPipeline
) -> None:
    request = p4r.TableEntry(table_id=table_id)
    if table.resources.counter is not None:
        request.counter_data.SetInParent()
    if table.resources.meter is not None:
        request.meter_config.SetInParent()
    default = p4r.TableEntry(is_default_action=True)
    default.MergeFrom(request)
    target = new.tables.get(table_id)
    if target is not None:
        target.state.clear()  # entries that the new program starts with and the old one lost
    for wanted in (request, default):
        for entity in old.table_handler.read(p4r.Entity(table_entry=wanted)):
            entry = entity.table_entry
            if entry.is_default_action and not _default_changed(table):
                continue
            if entry.is_const and not entry.is_default_action:
                # It stands in a program: if in the new one, too, what it counted goes on.
                if target is None or target.state.get(*_key(old, entry)) is None:
                    continue
                entry.ClearField("action")
            _drop_unset(entry, target)
            stays = entry.is_default_action or entry.is_const
            entry.is_const = False
            _write(new, "table_entry", UpdateType.MODIFY if stays else UpdateType.INSERT, entity)


def _key(old: BoundPipeline, entry: p4r.TableEntry) -> tuple[MatchKey, int]:
    return old.tables[entry.table_id].key(entry)


def _drop_unset(entry: p4r.TableEntry, target: TableBinding | None) -> None:
    """Leaves out a counter that the new table doesn't have, if it has counted nothing."""
    lacks = target is not None and target.resources.counter is None
    data = entry.counter_data
    if lacks and not (data.packet_count or data.byte_count):
        entry.ClearField("counter_data")


def _default_changed(table: TableBinding) -> bool:
    state = table.state
    entry, decl = state.default, state.decl
    return (
        not decl.const_default
        and table.profile is None
        and (
            (entry.action, entry.args) != (decl.default_action, decl.default_args)
            or bool(entry.metadata or entry.cookie or entry.counter.packets)
            or entry.meter.config is not None
        )
    )


def _write(new: BoundPipeline, kind: str, update: UpdateType, entity: p4r.Entity) -> None:
    try:
        new.handlers[kind].write(update, entity)
    except (P4RuntimeError, SwitchError) as error:
        raise P4RuntimeError(
            Code.INVALID_ARGUMENT, f"the new program cannot keep the state: {error}"
        ) from error
