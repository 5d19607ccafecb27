"""A switch's message, as bytes.

    0      'W' (0x57)
    1      version, 1
    2      flags: bit 0: full
    3..    varints: switch, incarnation, sequence, end of the interval (us), its length (us, 1 and more)
    full:  varints: number of ports; their numbers; then one step a field (1 and more)
    then   varint: number of rows; of each: varint of its key; varint with a bit a field that
           follows; these fields as varints, in steps
    full:  the same once more, for the counters as they stand, not in steps

Port numbers and keys rise: the first is written as it is, others less the one before and 1. A row's key
is the port's place among the ports x 9 + class, 8 for the whole port. A varint has 7 bits a byte, the
lowest first, the top bit says that more follow; it holds 64 bits at most and has no zeros in front. A
row or field that a full message leaves out is 0, one that another leaves out has not moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sglb.watermark.telemetry.errors import TelemetryError
from sglb.watermark.telemetry.reading import FIELDS, ROWS

MAGIC: Final = 0x57
VERSION: Final = 1
#: Ports of a switch; more are no switch but a damaged message.
MOST_PORTS: Final = 4_096
_FULL: Final = 1
_LARGEST: Final = (1 << 64) - 1
_LONGEST: Final = 10  #: bytes of a varint

#: By row and field.
Cells = Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True)
class Message:
    """What a switch says of an interval.

    Attributes:
        switch, incarnation: who; a switch that restarts is a new incarnation.
        sequence: counts its messages from 0.
        end_us, span_us: the interval, by the switch's clock.
        cells: in steps, how much counters grew in the interval and how high levels were.
        ports, steps, totals: of a full message (else empty): port numbers, the unit of each field,
            and the counters themselves.
    """

    switch: int
    incarnation: int
    sequence: int
    end_us: int
    span_us: int
    cells: Cells
    ports: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    totals: Cells | None = None

    @property
    def full(self) -> bool:
        """Whether it says all there is."""
        return self.totals is not None


def encode(message: Message) -> bytes:
    """See the module."""
    out = bytearray((MAGIC, VERSION, _FULL if message.full else 0))
    for value in (message.switch, message.incarnation, message.sequence):
        _put(out, value)
    _put(out, message.end_us)
    _put(out, message.span_us)
    if message.totals is not None:
        _put(out, len(message.ports))
        for gap in _gaps(message.ports):
            _put(out, gap)
        for step in message.steps:
            _put(out, step)
    _put_cells(out, message.cells)
    if message.totals is not None:
        _put_cells(out, message.totals)
    return bytes(out)


def decode(data: bytes) -> Message:
    """Reads a message. Raises `TelemetryError` that says at which byte it is none."""
    source = _Source(data)
    if source.byte() != MAGIC or source.byte() != VERSION:
        raise TelemetryError(
            f"no telemetry of version {VERSION}: it begins with {data[:2].hex()!r}"
        )
    flags = source.byte()
    if flags & ~_FULL:
        raise TelemetryError(f"byte 2: unknown flags {flags:#x}")
    switch, incarnation, sequence = source.varint(), source.varint(), source.varint()
    end_us, span_us = source.varint(), source.varint()
    if not span_us:
        raise TelemetryError("an interval of no time")
    ports: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    if flags & _FULL:
        count = source.varint()
        if count > MOST_PORTS:
            raise TelemetryError(f"{count} ports: a switch has {MOST_PORTS} at most")
        ports = tuple(source.rising(count))
        steps = tuple(source.varint() for _ in range(FIELDS))
        if not all(steps):
            raise TelemetryError("a step of 0")
    cells = source.cells()
    totals = source.cells() if flags & _FULL else None
    source.end()
    return Message(switch, incarnation, sequence, end_us, span_us, cells, ports, steps, totals)


def _put(out: bytearray, value: int) -> None:
    if not 0 <= value <= _LARGEST:
        raise TelemetryError(f"{value} does not fit into 64 bits")
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _gaps(rising: tuple[int, ...] | list[int]) -> Iterator[int]:
    before = -1
    for value in rising:
        yield value - before - 1
        before = value


def _put_cells(out: bytearray, cells: Cells) -> None:
    rows: dict[int, list[int]] = {}
    for row, field in sorted(cells):
        rows.setdefault(row, []).append(field)
    _put(out, len(rows))
    for (row, fields), gap in zip(rows.items(), _gaps(list(rows)), strict=True):
        _put(out, gap)
        _put(out, sum(1 << field for field in fields))
        for field in fields:
            _put(out, cells[row, field])


class _Source:
    """Reads on in a message."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        if self._at >= len(self._data):
            raise TelemetryError(f"it ends too early, after {len(self._data)} bytes")
        self._at += 1
        return self._data[self._at - 1]

    def varint(self) -> int:
        value = 0
        start = self._at
        for shift in range(0, 7 * _LONGEST, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > _LARGEST or (shift and not byte):
                    break
                return value
        raise TelemetryError(f"byte {start}: no number of 64 bits")

    def rising(self, count: int) -> Iterator[int]:
        before = -1
        for _ in range(count):
            before += self.varint() + 1
            if before > _LARGEST:
                raise TelemetryError(f"byte {self._at}: no number of 64 bits")
            yield before

    def cells(self) -> dict[tuple[int, int], int]:
        count = self.varint()
        if count > MOST_PORTS * ROWS:
            raise TelemetryError(f"{count} rows: a switch has {MOST_PORTS * ROWS} at most")
        found = {}
        for row in self.rising(count):
            present = self.varint()
            if not 0 < present < 1 << FIELDS:
                raise TelemetryError(f"byte {self._at - 1}: unknown fields {present:#x}")
            for field in range(FIELDS):
                if present >> field & 1:
                    found[row, field] = self.varint()
        return found

    def end(self) -> None:
        if self._at != len(self._data):
            raise TelemetryError(f"{len(self._data) - self._at} bytes after its end")
