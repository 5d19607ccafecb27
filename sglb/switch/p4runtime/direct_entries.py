"""DirectCounterEntry and DirectMeterEntry (P4Runtime 1.5, sections of these names).

Only MODIFY is allowed. A read whose table entry has no match selects all entries of the table that are
not the default, table id 0 (or an unset table entry) those of all tables with the resource.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from finsy.proto import p4r

from sglb.switch.clock import Scheduler
from sglb.switch.p4runtime.arrays import (
    clear_meter_counts,
    counter_message,
    meter_config,
    meter_counts_message,
    meter_message,
    set_counter,
    set_meter,
)
from sglb.switch.p4runtime.entity import Undo, UpdateType, all_of, find, modify_only, nothing
from sglb.switch.p4runtime.status import Code
from sglb.switch.p4runtime.table_entries import TableBinding
from sglb.switch.tables import TableEntry


def _key_message(table: TableBinding, entry: TableEntry) -> p4r.TableEntry:
    message = p4r.TableEntry(
        table_id=table.info.preamble.id, priority=entry.priority, is_default_action=not entry.hit
    )
    if entry.hit:
        table.keys.fill(message.match, entry.key)
    return message


def _select(
    tables: Mapping[int, TableBinding], wanted: p4r.TableEntry, resource: str
) -> Iterator[tuple[TableBinding, TableEntry]]:
    """The entries chosen by a read, of tables that have the resource ("counter" or "meter")."""
    if wanted.table_id == 0:
        for table in tables.values():
            if getattr(table.resources, resource) is not None:
                yield from ((table, entry) for entry in table.state.entries())
        return
    table = _with_resource(tables, wanted, resource)
    if wanted.match or wanted.is_default_action:
        yield table, table.existing(wanted)
        return
    for entry in table.state.entries():
        if wanted.priority in (0, entry.priority):
            yield table, entry


def _with_resource(
    tables: Mapping[int, TableBinding], wanted: p4r.TableEntry, resource: str
) -> TableBinding:
    table = find(tables, "table", wanted.table_id)
    if getattr(table.resources, resource) is None:
        raise table.bad(f"has no direct {resource}", Code.INVALID_ARGUMENT)
    return table


class DirectCounterHandler:
    """DirectCounterEntry."""

    def __init__(self, tables: Mapping[int, TableBinding]) -> None:
        self._tables = tables

    def object_id(self, entity: p4r.Entity) -> int:
        """The table's id."""
        return int(entity.direct_counter_entry.table_entry.table_id)

    def write(self, update: UpdateType, entity: p4r.Entity) -> Undo:
        """Sets the counter of an entry; without `data` nothing changes."""
        message = entity.direct_counter_entry
        table = _with_resource(self._tables, message.table_entry, "counter")
        modify_only(update, "direct counter of table", table.name)
        entry = table.existing(message.table_entry)
        if not message.HasField("data"):
            return nothing
        return set_counter(entry.counter, message.data, f"table {table.name}")

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """The counters of the entries chosen."""
        wanted = entity.direct_counter_entry.table_entry
        for table, entry in _select(self._tables, wanted, "counter"):
            yield p4r.Entity(
                direct_counter_entry=p4r.DirectCounterEntry(
                    table_entry=_key_message(table, entry), data=counter_message(entry.counter)
                )
            )


class DirectMeterHandler:
    """DirectMeterEntry."""

    def __init__(self, tables: Mapping[int, TableBinding], clock: Scheduler) -> None:
        self._tables = tables
        self._clock = clock

    def object_id(self, entity: p4r.Entity) -> int:
        """The table's id."""
        return int(entity.direct_meter_entry.table_entry.table_id)

    def write(self, update: UpdateType, entity: p4r.Entity) -> Undo:
        """Configures the meter of an entry; without `config` back to green for all."""
        message = entity.direct_meter_entry
        table = _with_resource(self._tables, message.table_entry, "meter")
        modify_only(update, "direct meter of table", table.name)
        entry = table.existing(message.table_entry)
        what = f"table {table.name}, meter"
        config = None
        if message.HasField("config") and table.resources.meter is not None:
            config = meter_config(message.config, table.resources.meter.spec.type, what)
        undos: list[Undo] = []
        if message.HasField("counter_data"):
            undos.append(clear_meter_counts(entry.meter, message.counter_data, what))
        undos.append(set_meter(entry.meter, config, self._clock.now_ps))
        return all_of(undos)

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """The meters of the entries chosen; counts come if asked for."""
        message = entity.direct_meter_entry
        counts = message.HasField("counter_data")
        for table, entry in _select(self._tables, message.table_entry, "meter"):
            found = p4r.DirectMeterEntry(table_entry=_key_message(table, entry))
            if entry.meter.config is not None:
                found.config.CopyFrom(meter_message(entry.meter.config))
            if counts:
                found.counter_data.CopyFrom(meter_counts_message(entry.meter))
            yield p4r.Entity(direct_meter_entry=found)
