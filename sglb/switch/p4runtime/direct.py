"""Direct counters and meters: inside TableEntry, as DirectCounterEntry and as DirectMeterEntry.

P4Runtime 1.5, "Direct Resources", "DirectCounterEntry", "DirectMeterEntry". In a write of an entry an
unset `meter_config` makes the meter green for all, an unset `counter_data` leaves the counter alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from finsy.proto import p4i, p4r

from sglb.switch.meters import MeterConfig
from sglb.switch.p4runtime.arrays import (
    clear_meter_counts,
    counter_message,
    meter_config,
    meter_counts_message,
    meter_message,
    set_counter,
    set_meter,
)
from sglb.switch.p4runtime.entity import Undo, all_of
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.tables import TableEntry


@dataclass(frozen=True, slots=True)
class ParsedResources:
    """The direct resources of a write, checked: applying them cannot fail."""

    what: str
    has_meter: bool
    counter: p4r.CounterData | None
    config: MeterConfig | None
    meter_counts: p4r.MeterCounterData | None

    def apply(self, entry: TableEntry, now_ps: int) -> Undo:
        """Writes them to an entry."""
        undos: list[Undo] = []
        if self.counter is not None:
            undos.append(set_counter(entry.counter, self.counter, self.what))
        if self.has_meter and not (self.config is None and entry.meter.config is None):
            undos.append(set_meter(entry.meter, self.config, now_ps))
        if self.meter_counts is not None:
            undos.append(clear_meter_counts(entry.meter, self.meter_counts, self.what))
        return all_of(undos)


@dataclass(frozen=True, slots=True)
class DirectResources:
    """Which direct resources a table has."""

    table: str
    counter: p4i.DirectCounter | None
    meter: p4i.DirectMeter | None

    def parse(self, message: p4r.TableEntry) -> ParsedResources:
        """Reads the resources of a write; INVALID_ARGUMENT for one that the table doesn't have."""
        self.check_read(message)
        config = None
        if self.meter is not None and message.HasField("meter_config"):
            config = meter_config(message.meter_config, self.meter.spec.type, self._what("meter"))
        counter = message.counter_data if message.HasField("counter_data") else None
        if counter is not None and min(counter.byte_count, counter.packet_count) < 0:
            raise self._bad("a count must not be negative")
        counts = message.meter_counter_data if message.HasField("meter_counter_data") else None
        if counts is not None and any(
            c.byte_count or c.packet_count for c in (counts.green, counts.yellow, counts.red)
        ):
            raise self._bad("meter counts can only be set to zero")
        return ParsedResources(self._what("entry"), self.meter is not None, counter, config, counts)

    def check_read(self, message: p4r.TableEntry) -> None:
        """INVALID_ARGUMENT when a request has a resource that the table doesn't have."""
        if self.counter is None and message.HasField("counter_data"):
            raise self._bad("counter_data is set, but there is no direct counter")
        for field in ("meter_config", "meter_counter_data"):
            if self.meter is None and message.HasField(field):
                raise self._bad(f"{field} is set, but there is no direct meter")

    def fill(self, message: p4r.TableEntry, entry: TableEntry, wanted: p4r.TableEntry) -> None:
        """Adds to a response what the request asked for and the table has."""
        if self.counter is not None and wanted.HasField("counter_data"):
            message.counter_data.CopyFrom(counter_message(entry.counter))
        if self.meter is None:
            return
        if wanted.HasField("meter_config") and entry.meter.config is not None:
            message.meter_config.CopyFrom(meter_message(entry.meter.config))
        if wanted.HasField("meter_counter_data"):
            message.meter_counter_data.CopyFrom(meter_counts_message(entry.meter))

    def _what(self, kind: str) -> str:
        return f"table {self.table}, {kind}"

    def _bad(self, text: str) -> P4RuntimeError:
        return P4RuntimeError(Code.INVALID_ARGUMENT, f"table {self.table}: {text}")
