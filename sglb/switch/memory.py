"""Memory that the Python objects of a switch share with native code (see `native.table_layout`).

Python reads and writes it through memoryviews, which give plain ints and are quicker than arrays for
single values.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from threading import Lock
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

_FIRST_RECORDS: Final = 4
#: What an arena takes at once for small pieces, and from the system for those that are not dense.
_DENSE_CHUNK_BYTES: Final = 1 << 15
_SPARSE_CHUNK_BYTES: Final = 1 << 20
#: Up to here pieces share a chunk; longer ones, of which few would fit, would leave much of it unused.
_SMALL_BYTES: Final = 1 << 11
#: Of longer arrays than these mostly the first elements are used.
_DENSE_BYTES: Final = 3 << 12
_REGION_BYTES: Final = 1 << 25
_LARGE_PAGE_BYTES: Final = 1 << 21
_NUMBERS: Final = tuple(range(4096))


def address_of(array: NDArray[np.uint64] | NDArray[np.uint8] | NDArray[np.int64]) -> int:
    """Where the array's first byte lies; valid as long as the array lives."""
    return int(array.__array_interface__["data"][0])


def aligned_bytes(size_bytes: int, *, zeroed: bool = True) -> NDArray[np.uint8]:
    """Bytes that begin at a cache line; with anything in them unless they are to be `zeroed`."""
    make = np.zeros if zeroed else np.empty
    raw = make(size_bytes + lay.RECORD_ALIGN, dtype=np.uint8)
    start = -address_of(raw) % lay.RECORD_ALIGN
    return raw[start : start + size_bytes]


@dataclass(frozen=True, slots=True)
class Piece:
    """Memory as its large piece shows it: views of the whole of that, and where this one begins."""

    words: memoryview
    bytes: memoryview
    start_byte: int
    address: int


class _Regions:
    """Zeroed memory of which most is touched, by large pages where the system has them.

    Packets jump about in what switches keep; with small pages a processor would spend much of its time
    on finding these.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._region = np.empty(0, dtype=np.uint8)
        self._used = 0

    def take(self, size_bytes: int) -> NDArray[np.uint8]:
        """So many bytes, at most a region's."""
        with self._lock:
            if self._used + size_bytes > len(self._region):
                self._region = _from_system(_REGION_BYTES, large_pages=True)
                self._used = -address_of(self._region) % _LARGE_PAGE_BYTES
            start = self._used
            self._used += size_bytes
            return self._region[start : start + size_bytes]


_regions: Final = _Regions()


def _from_system(size_bytes: int, *, large_pages: bool) -> NDArray[np.uint8]:
    chunk = mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if large_pages and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without large pages
            chunk.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(chunk, dtype=np.uint8)


class _Chunk:
    """A large piece of an arena's memory and how much of it is in use."""

    def __init__(self) -> None:
        self.memory = np.empty(0, dtype=np.uint8)
        self.used = 0
        self._views: tuple[memoryview, memoryview] | None = None

    def replace(self, memory: NDArray[np.uint8]) -> None:
        """Goes on with another piece; what was handed out keeps the old one."""
        self.memory, self.used, self._views = memory, 0, None

    @property
    def views(self) -> tuple[memoryview, memoryview]:
        """Its words and bytes."""
        if self._views is None:
            self._views = self.memory.view(np.uint64).data, self.memory.data
        return self._views


class Arena:
    """Zeroed memory for things that live as long as it does.

    It comes in large pieces straight from the system, handed out side by side, so that many small
    things share a page. Small ones lie in large pages; of large ones, what nobody touches costs nothing.
    """

    def __init__(self) -> None:
        self._dense = _Chunk()
        self._sparse = _Chunk()
        self._free: dict[int, list[NDArray[np.uint8]]] = {}

    def take(self, size_bytes: int) -> NDArray[np.uint8]:
        """Zeroed bytes that begin at a cache line."""
        free = self._free.get(size_bytes)
        if free:
            return free.pop()
        chunk, start = self._take(size_bytes)
        return chunk.memory[start : start + size_bytes]

    def give_back(self, memory: NDArray[np.uint8]) -> None:
        """Zeroes what `take` gave and nobody uses any more, for the next who wants as much."""
        memory[:] = 0
        self._free.setdefault(len(memory), []).append(memory)

    def piece(self, size_bytes: int) -> Piece:
        """The same for many small things: with views that they share."""
        chunk, start = self._take(size_bytes)
        words, bytes_ = chunk.views
        return Piece(words, bytes_, start, address_of(chunk.memory) + start)

    def _take(self, size_bytes: int) -> tuple[_Chunk, int]:
        room = -(-size_bytes // lay.RECORD_ALIGN) * lay.RECORD_ALIGN
        if _SMALL_BYTES < room <= _DENSE_BYTES:
            chunk = _Chunk()
            chunk.replace(_regions.take(room))
            return chunk, 0
        chunk = self._dense if room <= _DENSE_BYTES else self._sparse
        if chunk.used + room > len(chunk.memory):
            if chunk is self._dense:
                chunk.replace(_regions.take(_DENSE_CHUNK_BYTES))
            else:
                chunk.replace(_from_system(max(room, _SPARSE_CHUNK_BYTES), large_pages=False))
        start = chunk.used
        chunk.used += room
        return chunk, start


class Record:
    """Where one record lies.

    `words` (unsigned) and `bytes` are views of the memory around it; the record begins at word `at`,
    byte `8 * at`, and at `address`.
    """

    __slots__ = ("address", "at", "bytes", "words")

    def __init__(self, words: memoryview, bytes_: memoryview, at: int, address: int) -> None:
        self.words = words
        self.bytes = bytes_
        self.at = at
        self.address = address


class OwnRecord(Record):
    """A record that goes back to its slab, to be used again, when nobody holds it any more."""

    __slots__ = ("_number", "_slab")

    def __init__(self, slab: Slab, number: int) -> None:
        found = slab.record(number)
        super().__init__(found.words, found.bytes, found.at, found.address)
        self._slab = slab
        self._number = number

    def __del__(self) -> None:
        self._slab.give_back(self._number)


class Slab:
    """Records of one size, each with `before_bytes` of its own in front of it; zeroed when taken.

    They are numbered from 0. There are pieces of memory of 4, 8, 16 … records.
    """

    def __init__(
        self, stride_bytes: int, before_bytes: int = 0, arena: Arena | None = None
    ) -> None:
        self._stride = stride_bytes
        self._before = before_bytes
        self._arena = arena or Arena()
        self._free: list[int] = []
        self._used = 0
        self._pieces: list[Piece] = []

    def take(self) -> OwnRecord:
        """A zeroed record."""
        return OwnRecord(self, self.take_number())

    def take_number(self) -> int:
        """The number of a zeroed record, until `give_back`."""
        if self._free:
            return self._free.pop()
        number = self._used
        if number == _FIRST_RECORDS * ((1 << len(self._pieces)) - 1):
            room = self._stride * _FIRST_RECORDS << len(self._pieces)
            self._pieces.append(self._arena.piece(room))
        self._used += 1
        # Slabs of many switches count alike: they share the objects that numbers are.
        return _NUMBERS[number] if number < len(_NUMBERS) else number

    def record(self, number: int) -> Record:
        """Where a record lies."""
        step = number // _FIRST_RECORDS + 1
        level = step.bit_length() - 1
        piece = self._pieces[level]
        place = number - _FIRST_RECORDS * ((1 << level) - 1)
        offset = place * self._stride + self._before
        at = (piece.start_byte + offset) // lay.WORD
        return Record(piece.words, piece.bytes, at, piece.address + offset)

    def give_back(self, number: int) -> None:
        """The record's memory is free again."""
        record = self.record(number)
        start = record.at * lay.WORD - self._before
        record.bytes[start : start + self._stride] = bytes(self._stride)
        self._free.append(number)


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

    def write(self, record: Record, action: int, args: Sequence[int], offset: int = 0) -> None:
        """Writes into a record, `offset` bytes behind its begin; action -1 takes no data."""
        data, start = record.bytes, record.at * lay.WORD + offset
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
