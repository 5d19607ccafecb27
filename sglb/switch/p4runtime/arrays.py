"""CounterEntry, MeterEntry and RegisterEntry: the indexed arrays.

P4Runtime 1.5, sections "CounterEntry …", "MeterEntry …" and "RegisterEntry".
An unset index reads or writes the whole array, id 0 reads all arrays of the kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from finsy.proto import p4d, p4i, p4r

from sglb.switch.clock import Scheduler
from sglb.switch.counters import CounterArray, CounterData
from sglb.switch.meters import Meter, MeterArray, MeterConfig
from sglb.switch.p4runtime.entity import (
    IndexMap,
    Undo,
    UpdateType,
    all_of,
    find,
    modify_only,
    nothing,
)
from sglb.switch.p4runtime.p4data import P4DataCodec
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.registers import RegisterArray

_LARGEST_COUNT: Final = (1 << 63) - 1

# --- conversions that direct resources share ------------------------------------------------------


def counter_message(cell: CounterData) -> p4r.CounterData:
    """The message of a counter's value, which wraps around where P4Runtime's int64 ends."""
    return p4r.CounterData(
        byte_count=cell.bytes & _LARGEST_COUNT, packet_count=cell.packets & _LARGEST_COUNT
    )


def set_counter(cell: CounterData, data: p4r.CounterData, what: str) -> Undo:
    """Writes a counter's value; INVALID_ARGUMENT for a negative one."""
    if data.byte_count < 0 or data.packet_count < 0:
        raise P4RuntimeError(Code.INVALID_ARGUMENT, f"{what}: a count must not be negative")
    packets, size = cell.packets, cell.bytes
    cell.set(data.packet_count, data.byte_count)
    return lambda: cell.set(packets, size)


def meter_config(message: p4r.MeterConfig, kind: int, what: str) -> MeterConfig:
    """The device's configuration; INVALID_ARGUMENT unless it suits the meter's type.

    `kind` is a `p4.config.v1.MeterSpec.Type`.
    """
    single = kind in (p4i.MeterSpec.SINGLE_RATE_THREE_COLOR, p4i.MeterSpec.SINGLE_RATE_TWO_COLOR)
    if single and (message.pir, message.pburst) != (message.cir, message.cburst):
        raise P4RuntimeError(
            Code.INVALID_ARGUMENT, f"{what}: a single-rate meter needs pir = cir, pburst = cburst"
        )
    if message.eburst and kind != p4i.MeterSpec.SINGLE_RATE_THREE_COLOR:
        raise P4RuntimeError(
            Code.INVALID_ARGUMENT, f"{what}: eburst is for single-rate three-colour meters only"
        )
    return MeterConfig(message.cir, message.cburst, message.pir, message.pburst, message.eburst)


def meter_message(config: MeterConfig) -> p4r.MeterConfig:
    """The message of a meter's configuration."""
    return p4r.MeterConfig(
        cir=config.cir,
        cburst=config.cburst,
        pir=config.pir,
        pburst=config.pburst,
        eburst=config.eburst,
    )


def set_meter(meter: Meter, config: MeterConfig | None, now_ps: int) -> Undo:
    """Configures a meter, or makes it green for all when `config` is None."""
    undo = meter.checkpoint()
    meter.configure(config, now_ps)
    return undo


def clear_meter_counts(meter: Meter, data: p4r.MeterCounterData, what: str) -> Undo:
    """Zeroes the per-colour counts; INVALID_ARGUMENT for data with anything but zeros."""
    for colour in (data.green, data.yellow, data.red):
        if colour.byte_count or colour.packet_count:
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT, f"{what}: meter counts can only be set to zero"
            )
    saved = [(cell.packets, cell.bytes) for cell in meter.counts]
    for cell in meter.counts:
        cell.set(0, 0)

    def undo() -> None:
        for cell, (packets, size) in zip(meter.counts, saved, strict=True):
            cell.set(packets, size)

    return undo


def meter_counts_message(meter: Meter) -> p4r.MeterCounterData:
    """The message of a meter's per-colour counts."""
    green, yellow, red = (counter_message(cell) for cell in meter.counts)
    return p4r.MeterCounterData(green=green, yellow=yellow, red=red)


# --- handlers -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CounterBinding:
    """An indirect counter of P4Info and its state."""

    info: p4i.Counter
    state: CounterArray
    indices: IndexMap


class CounterHandler:
    """CounterEntry."""

    def __init__(self, counters: Mapping[int, CounterBinding]) -> None:
        self._counters = counters

    def object_id(self, entity: p4r.Entity) -> int:
        """The counter's id."""
        return int(entity.counter_entry.counter_id)

    def write(self, update: UpdateType, entity: p4r.Entity) -> Undo:
        """Sets one cell or all; without `data` nothing changes."""
        entry = entity.counter_entry
        counter = find(self._counters, "counter", entry.counter_id)
        name = counter.state.name
        modify_only(update, "counter", name)
        chosen = counter.indices.chosen(entry)
        if not entry.HasField("data"):
            return nothing
        what = f"counter {name}"
        return all_of([set_counter(counter.state.cell(i), entry.data, what) for i in chosen])

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """The cells chosen, with their values."""
        entry = entity.counter_entry
        if entry.counter_id:
            counters = [find(self._counters, "counter", entry.counter_id)]
        else:
            counters = list(self._counters.values())
            entry = p4r.CounterEntry()
        for counter in counters:
            for i in counter.indices.chosen(entry):
                yield p4r.Entity(
                    counter_entry=p4r.CounterEntry(
                        counter_id=counter.info.preamble.id,
                        index=counter.indices.to_controller(i),
                        data=counter_message(counter.state.cell(i)),
                    )
                )


@dataclass(frozen=True, slots=True)
class MeterBinding:
    """An indirect meter of P4Info and its state."""

    info: p4i.Meter
    state: MeterArray
    indices: IndexMap


class MeterHandler:
    """MeterEntry."""

    def __init__(self, meters: Mapping[int, MeterBinding], clock: Scheduler) -> None:
        self._meters = meters
        self._clock = clock

    def object_id(self, entity: p4r.Entity) -> int:
        """The meter's id."""
        return int(entity.meter_entry.meter_id)

    def write(self, update: UpdateType, entity: p4r.Entity) -> Undo:
        """Configures one meter or all; without `config` back to green for all."""
        entry = entity.meter_entry
        meter = find(self._meters, "meter", entry.meter_id)
        what = f"meter {meter.state.name}"
        modify_only(update, "meter", meter.state.name)
        chosen = meter.indices.chosen(entry)
        config = None
        if entry.HasField("config"):
            config = meter_config(entry.config, meter.info.spec.type, what)
        undos: list[Undo] = []
        for i in chosen:
            cell = meter.state.cell(i)
            if entry.HasField("counter_data"):
                undos.append(clear_meter_counts(cell, entry.counter_data, what))
            undos.append(set_meter(cell, config, self._clock.now_ps))
        return all_of(undos)

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """The meters chosen; a default configuration stays unset, counts come if asked for."""
        entry = entity.meter_entry
        counts = entry.HasField("counter_data")
        if entry.meter_id:
            meters = [find(self._meters, "meter", entry.meter_id)]
        else:
            meters = list(self._meters.values())
            entry = p4r.MeterEntry()
        for meter in meters:
            for i in meter.indices.chosen(entry):
                cell = meter.state.cell(i)
                message = p4r.MeterEntry(
                    meter_id=meter.info.preamble.id, index=meter.indices.to_controller(i)
                )
                if cell.config is not None:
                    message.config.CopyFrom(meter_message(cell.config))
                if counts:
                    message.counter_data.CopyFrom(meter_counts_message(cell))
                yield p4r.Entity(meter_entry=message)


@dataclass(frozen=True, slots=True)
class RegisterBinding:
    """A register of P4Info and its state."""

    info: p4i.Register
    state: RegisterArray
    indices: IndexMap


class RegisterHandler:
    """RegisterEntry."""

    def __init__(self, registers: Mapping[int, RegisterBinding], codec: P4DataCodec) -> None:
        self._registers = registers
        self._codec = codec

    def object_id(self, entity: p4r.Entity) -> int:
        """The register's id."""
        return int(entity.register_entry.register_id)

    def write(self, update: UpdateType, entity: p4r.Entity) -> Undo:
        """Sets one element or all; INVALID_ARGUMENT unless `data` has the register's type."""
        entry = entity.register_entry
        register = find(self._registers, "register", entry.register_id)
        state = register.state
        modify_only(update, "register", state.name)
        chosen = register.indices.chosen(entry)
        if not entry.HasField("data"):
            raise P4RuntimeError(Code.INVALID_ARGUMENT, f"register {state.name}: data is not set")
        leaves = self._codec.decode(
            register.info.type_spec, entry.data, state.widths, f"register {state.name}"
        )
        value = leaves[0] if len(leaves) == 1 else tuple(leaves)
        saved = [(i, state.read(i)) for i in chosen]
        for i in chosen:
            state.write(i, value)

        def undo() -> None:
            for i, old in saved:
                state.write(i, old)

        return undo

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """The elements chosen, with their data."""
        entry = entity.register_entry
        if entry.register_id:
            registers = [find(self._registers, "register", entry.register_id)]
        else:
            registers = list(self._registers.values())
            entry = p4r.RegisterEntry()
        for register in registers:
            for i in register.indices.chosen(entry):
                yield p4r.Entity(
                    register_entry=p4r.RegisterEntry(
                        register_id=register.info.preamble.id,
                        index=register.indices.to_controller(i),
                        data=self._data(register, i),
                    )
                )

    def _data(self, register: RegisterBinding, index: int) -> p4d.P4Data:
        value = register.state.read(index)
        leaves = value if isinstance(value, tuple) else (value,)
        return self._codec.encode(register.info.type_spec, leaves)
