"""Counters, indirect and direct. Both always keep packets and bytes, whatever type is declared."""

from __future__ import annotations

from typing import Final

import numpy as np

from sglb.p4 import ir
from sglb.p4.native import table_layout as lay
from sglb.switch.errors import BadValue, ValueTooLarge
from sglb.switch.memory import WORD_MASK, Arena, address_of

_WORDS: Final = lay.COUNTER_BYTES // lay.WORD


class CounterData:
    """Packets and bytes seen, modulo 2**64; the control plane may set both.

    They lie in `words[at]` and `words[at + 1]`, or in memory of their own.
    """

    __slots__ = ("_at", "_words")

    def __init__(self, words: memoryview | None = None, at: int = 0) -> None:
        self._words = np.zeros(_WORDS, dtype=np.uint64).data if words is None else words
        self._at = at

    @property
    def packets(self) -> int:
        """Packets counted."""
        return int(self._words[self._at])

    @property
    def bytes(self) -> int:
        """Bytes counted."""
        return int(self._words[self._at + 1])

    def count(self, length_bytes: int) -> None:
        """Counts one packet."""
        words, at = self._words, self._at
        words[at] = words[at] + 1 & WORD_MASK
        words[at + 1] = words[at + 1] + length_bytes & WORD_MASK

    def set(self, packets: int, bytes_: int) -> None:
        """Overwrites the values."""
        self._words[self._at] = packets & WORD_MASK
        self._words[self._at + 1] = bytes_ & WORD_MASK


class CounterArray:
    """State of one `counter`. Bytes are those of the packet as received, in egress too."""

    def __init__(self, instance: ir.Instance, arena: Arena | None = None) -> None:
        self.name = instance.name
        self.size = instance.size
        self.unit = instance.counts
        self.p4info_id = instance.p4info_id
        size_bytes = instance.size * lay.COUNTER_BYTES
        self._memory = (arena or Arena()).take(size_bytes).view(np.uint64)
        self._words = self._memory.data

    @property
    def address(self) -> int:
        """Where the first cell lies."""
        return address_of(self._memory)

    def count(self, index: int, length_bytes: int) -> None:
        """Counts a packet; an index out of range does nothing."""
        if 0 <= index < self.size:
            words, at = self._words, index * _WORDS
            words[at] = words[at] + 1 & WORD_MASK
            words[at + 1] = words[at + 1] + length_bytes & WORD_MASK

    def cell(self, index: int) -> CounterData:
        """The live cell. Raises `BadValue` for a negative index, `ValueTooLarge` beyond the end."""
        if index < 0:
            raise BadValue(f"counter {self.name}: index {index} is negative")
        if index >= self.size:
            raise ValueTooLarge(f"counter {self.name}: index {index}, but its size is {self.size}")
        return CounterData(self._words, index * _WORDS)

    def reset(self) -> None:
        """Zeroes every cell."""
        self._memory[:] = 0
