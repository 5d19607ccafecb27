"""Memory that the Python objects of a switch share with native code (see `native.table_layout`).

Python reads and writes it through memoryviews, which give plain ints and are quicker than arrays for
single values.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sglb.p4 import ir
from sglb.p4.native import table_layout as lay

#: Every word of unsigned memory.
WORD_MASK: Final = (1 << 64) - 1

_ACTION: Final = Struct("<i")
#: `struct`'s codes of the sizes that it has.
_CODES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}

_FIRST_RECORDS: Final = 16
_LARGEST_CHUNK_BYTES: Final = 1 << 20


def address_of(array: NDArray[np.uint64] | NDArray[np.uint8] | NDArray[np.int64]) -> int:
    """Where the array's first byte lies; valid as long as the array lives."""
    return int(array.__array_interface__["data"][0])


def aligned_bytes(size_bytes: int) -> NDArray[np.uint8]:
    """Zeroed bytes that begin at a cache line."""
    raw = np.zeros(size_bytes + lay.RECORD_ALIGN, dtype=np.uint8)
    start = -address_of(raw) % lay.RECORD_ALIGN
    return raw[start : start + size_bytes]


class Record:
    """One record. It goes back to its slab, to be used again, when nobody holds it any more.

    `words` (unsigned) and `bytes` are views of the memory around it; the record begins at word `at`,
    byte `8 * at`, and at `address`.
    """

    __slots__ = ("_slab", "address", "at", "bytes", "words")

    def __init__(
        self, slab: Slab, words: memoryview, bytes_: memoryview, at: int, address: int
    ) -> None:
        self._slab = slab
        self.words = words
        self.bytes = bytes_
        self.at = at
        self.address = address

    def __del__(self) -> None:
        self._slab.give_back(self)


class Slab:
    """Records of one size, each with `before_bytes` of its own in front of it; zeroed when taken."""

    def __init__(self, stride_bytes: int, before_bytes: int = 0) -> None:
        self._stride = stride_bytes
        self._before = before_bytes
        self._records = _FIRST_RECORDS
        self._free: list[tuple[memoryview, memoryview, int, int]] = []

    def take(self) -> Record:
        """A zeroed record."""
        if not self._free:
            self._grow()
        return Record(self, *self._free.pop())

    def give_back(self, record: Record) -> None:
        """The record's memory is free again."""
        start = record.at * lay.WORD - self._before
        record.bytes[start : start + self._stride] = bytes(self._stride)
        self._free.append((record.words, record.bytes, record.at, record.address))

    def _grow(self) -> None:
        count = max(1, min(self._records, _LARGEST_CHUNK_BYTES // self._stride))
        self._records *= 2
        chunk = aligned_bytes(count * self._stride)
        words, start = chunk.view(np.uint64).data, address_of(chunk)
        for number in reversed(range(count)):
            offset = number * self._stride + self._before
            self._free.append((words, chunk.data, offset // lay.WORD, start + offset))


def signed(word: int) -> int:
    """An unsigned word as the signed number it stands for."""
    return word - (1 << 64) if word >> 63 else word


class ActionData:
    """Writes actions and their data into records of one table's layout."""

    def __init__(self, table: ir.Table, layout: lay.RecordLayout) -> None:
        self._forms = [
            _Form(offsets, [lay.natural_bytes(width) for _, width in action.params])
            for action, offsets in zip(table.actions, layout.params, strict=True)
        ]

    def write(self, data: memoryview, start: int, action: int, args: Sequence[int]) -> None:
        """Writes into the record that begins at byte `start`; action -1 takes no data."""
        _ACTION.pack_into(data, start + lay.ACTION, action)
        if args:
            self._forms[action].write(data, start, args)


class _Form:
    """How one action's data lies in a record."""

    def __init__(self, offsets: Sequence[int], sizes: Sequence[int]) -> None:
        text, end = "<", offsets[0] if offsets else 0
        for offset, size in zip(offsets, sizes, strict=True):
            text += f"{offset - end}x{_CODES.get(size, f'{size}s')}"
            end = offset + size
        self._struct = Struct(text)
        self._first = offsets[0] if offsets else 0
        self._wide = [(number, size) for number, size in enumerate(sizes) if size not in _CODES]

    def write(self, data: memoryview, start: int, args: Sequence[int]) -> None:
        values: list[int | bytes] = [*args]
        for number, size in self._wide:
            values[number] = args[number].to_bytes(size, "little")
        self._struct.pack_into(data, start + self._first, *values)


class ChoiceCell:
    """A choice as native code reads it, at one address for its owner's whole life."""

    __slots__ = ("_blocks", "_words", "address")

    def __init__(self) -> None:
        self._words = np.zeros(2, dtype=np.uint64)
        self._blocks = self._words
        self.address = address_of(self._words)

    def point(self, blocks: Sequence[int]) -> None:
        """The members alive are those in blocks at these addresses."""
        self._blocks = np.array(blocks, dtype=np.uint64)
        self._words[:] = (len(blocks), address_of(self._blocks))
