"""Counters, indirect and direct. Both always keep packets and bytes, whatever type is declared."""

from __future__ import annotations

from sglb.p4 import ir
from sglb.switch.errors import BadValue, ValueTooLarge


class CounterData:
    """Packets and bytes seen; the control plane may set both."""

    __slots__ = ("bytes", "packets")

    def __init__(self, packets: int = 0, bytes_: int = 0) -> None:
        self.packets = packets
        self.bytes = bytes_

    def set(self, packets: int, bytes_: int) -> None:
        """Overwrites the values."""
        self.packets = packets
        self.bytes = bytes_


class CounterArray:
    """State of one `counter`. Bytes are those of the packet as received, in egress too."""

    def __init__(self, instance: ir.Instance) -> None:
        self.name = instance.name
        self.size = instance.size
        self.unit = instance.counts
        self.p4info_id = instance.p4info_id
        self._cells = [CounterData() for _ in range(instance.size)]

    def count(self, index: int, length_bytes: int) -> None:
        """Counts a packet; an index out of range does nothing."""
        if 0 <= index < self.size:
            cell = self._cells[index]
            cell.packets += 1
            cell.bytes += length_bytes

    def cell(self, index: int) -> CounterData:
        """The live cell. Raises `BadValue` for a negative index, `ValueTooLarge` beyond the end."""
        if index < 0:
            raise BadValue(f"counter {self.name}: index {index} is negative")
        if index >= self.size:
            raise ValueTooLarge(f"counter {self.name}: index {index}, but its size is {self.size}")
        return self._cells[index]

    def reset(self) -> None:
        """Zeroes every cell."""
        for cell in self._cells:
            cell.set(0, 0)
