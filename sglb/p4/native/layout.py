"""Where native code keeps each slot.

What outlives a pass (headers, what a copy preserves, what both passes use) lies in the row's frame.
Metadata that outlives a block but no pass lies beside it, in memory that a pass has while it runs: the
row of a packet that waits need not hold it. The rest belongs to one block: a value of its own that
LLVM keeps in a register or, where an index or a function needs its address, a place in the block's
memory.

In memory a slot of W bits takes 1, 2, 4, 8 or 16 bytes, wider ones a multiple of 8, zero-extended,
little endian, aligned to its size (8 above 16 bytes). Headers and arrays stay together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from sglb.p4 import ir
from sglb.p4.native.abi import FRAME_BYTE
from sglb.p4.native.table_layout import alignment, natural_bytes
from sglb.p4.native.usage import BLOCKS, BlockUse, ProcUse, block_use, proc_uses


class Area(Enum):
    """Where a slot lives: the row, the pass's or the block's memory, or a value of its own."""

    ROW = "r"
    PASS = "s"
    MEMORY = "v"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Place:
    """A slot's place: `offset` in bytes from the start of its area."""

    area: Area
    offset: int
    width: int


@dataclass(slots=True)
class _Unit:
    """Slots that stay together: their offsets from the unit's start."""

    size: int
    align: int
    places: dict[int, int]


class _Packing:
    """One area under construction: units by falling alignment, small slots in the gaps."""

    def __init__(self, start: int) -> None:
        self.end = start
        self.places: dict[int, int] = {}
        self._gaps: list[tuple[int, int]] = []

    def add_all(self, units: Sequence[_Unit]) -> None:
        for unit in sorted(units, key=lambda u: (-u.align, -len(u.places))):
            at = self._in_gap(unit)
            if at is None:
                at = -(-self.end // unit.align) * unit.align
                if at > self.end:
                    self._gaps.append((self.end, at))
                self.end = at + unit.size
            for slot, offset in unit.places.items():
                self.places[slot] = at + offset

    def _in_gap(self, unit: _Unit) -> int | None:
        for index, (low, high) in enumerate(self._gaps):
            at = -(-low // unit.align) * unit.align
            if at + unit.size <= high:
                self._gaps[index : index + 1] = [(low, at), (at + unit.size, high)]
                return at
        return None


#: Standard metadata that an egress pass sets before its program runs, whatever ingress left there.
_SET_FOR_EGRESS: Final = (
    "egress_port",
    "egress_spec",
    "packet_length",
    "instance_type",
    "egress_rid",
    "enq_timestamp",
    "enq_qdepth",
    "deq_timedelta",
    "deq_qdepth",
    "egress_global_timestamp",
)
_INGRESS_BLOCKS: Final = BLOCKS[:3]
_PASS_ALIGN: Final = 16


class Layout:
    """All places of a program. `frame_bytes` is a multiple of 8.

    A row that blocks run on one by one has the `pass_bytes` of a pass's memory at byte `pass_at`.
    """

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.uses: list[ProcUse] = proc_uses(program)
        self.blocks: dict[str, BlockUse] = {
            name: block_use(self.uses, getattr(program, name)) for name in BLOCKS
        }
        self._array_at = _outermost(program.arrays)
        self._header_at = {header.valid: header for header in program.headers}
        in_row = self._groups_of(self._row_slots())
        passing = self._passing(in_row)
        row = _Packing(FRAME_BYTE)
        row.add_all(self._units(sorted(in_row - passing)))
        self.frame_bytes = -(-(row.end - FRAME_BYTE) // 8) * 8
        self._row = row.places
        beside = _Packing(0)
        beside.add_all(self._units(sorted(passing)))
        self.pass_at = -(-(FRAME_BYTE + self.frame_bytes) // _PASS_ALIGN) * _PASS_ALIGN
        self.pass_bytes = beside.end
        self._pass = beside.places
        self._memory: dict[str, dict[int, int]] = {}
        self.memory_bytes: dict[str, int] = {}
        for name, use in self.blocks.items():
            self._lay_memory(name, use)
        self._sorted: dict[tuple[Area, str], list[int]] = {}

    def place(self, block: str, slot: int) -> Place:
        """Where code of the block finds a slot."""
        width = self.program.slots[slot].width
        offset = self._row.get(slot)
        if offset is not None:
            return Place(Area.ROW, offset, width)
        offset = self._pass.get(slot)
        if offset is not None:
            return Place(Area.PASS, offset, width)
        offset = self._memory[block].get(slot)
        if offset is not None:
            return Place(Area.MEMORY, offset, width)
        return Place(Area.VALUE, slot, width)

    def row_place(self, slot: int) -> tuple[int, int] | None:
        """Byte offset in the row and size in bytes; None for a slot that belongs to one block."""
        offset = self._row.get(slot)
        if offset is None:
            offset = self._pass.get(slot)
            if offset is None:
                return None
            offset += self.pass_at
        return offset, natural_bytes(self.program.slots[slot].width)

    def outlives_a_pass(self, slot: int) -> bool:
        """Whether the row of a packet that waits between passes holds the slot."""
        return slot in self._row

    def stride_bytes(self, block: str, array: ir.Array) -> int:
        """Bytes from one element to the next."""
        if array.size < 2:
            return 1
        first = self.place(block, array.base).offset
        return self.place(block, array.base + array.stride).offset - first

    def span(self, block: str, first: int, count: int) -> tuple[Area, int, int] | None:
        """Area, offset and bytes of slots that lie in memory with no other slot between them."""
        places = [self.place(block, slot) for slot in range(first, first + count)]
        area = places[0].area
        if area is Area.VALUE or any(place.area is not area for place in places):
            return None
        low = min(place.offset for place in places)
        high = max(place.offset + natural_bytes(place.width) for place in places)
        offsets = self._offsets(area, block)
        inside = bisect_left(offsets, high) - bisect_left(offsets, low)
        return (area, low, high - low) if inside == count else None

    def _offsets(self, area: Area, block: str) -> list[int]:
        key = (area, block if area is Area.MEMORY else "")
        known = self._sorted.get(key)
        if known is None:
            beside = {Area.ROW: self._row, Area.PASS: self._pass}
            places = beside.get(area, self._memory.get(block, {}))
            known = self._sorted[key] = sorted(places.values())
        return known

    # --- which slots where ---

    def _row_slots(self) -> set[int]:
        program = self.program
        slots = set(program.standard_metadata.values())
        for first, count in (program.metadata, program.headers_out):
            slots.update(range(first, first + count))
        for kept in program.field_lists.values():
            slots.update(kept)
        for use in self.uses:
            slots |= use.kept
        seen: set[int] = set()
        for block in self.blocks.values():
            slots |= seen & block.slots
            seen |= block.slots
        return slots

    def _passing(self, slots: set[int]) -> set[int]:
        """Those that no packet takes from one pass to the next; headers and arrays go on whole."""
        program = self.program
        sides: list[set[int]] = [set(), set()]
        for name, use in self.blocks.items():
            sides[name not in _INGRESS_BLOCKS] |= use.slots
        standard = program.standard_metadata
        anew = {standard[name] for name in _SET_FOR_EGRESS if name in standard}
        # What the program doesn't set of the rest, its target and the parser's end may.
        sides[0].update(standard.values())
        staying = (sides[0] & sides[1] - anew).union(
            *(use.kept for use in self.uses), *program.field_lists.values()
        )
        for header in program.headers:
            staying.update(range(header.valid, header.valid + header.size))
        for array in self._array_at.values():
            staying.update(range(array.base, array.base + array.size * array.stride))
        return slots - staying

    def _groups_of(self, slots: set[int]) -> set[int]:
        """The slots, with all of every array and header that holds one of them."""
        found = set(slots)
        for array in self._array_at.values():
            whole = range(array.base, array.base + array.size * array.stride)
            if not found.isdisjoint(whole):
                found.update(whole)
        for header in self.program.headers:
            whole = range(header.valid, header.valid + header.size)
            if not found.isdisjoint(whole):
                found.update(whole)
        return found

    def _lay_memory(self, name: str, use: BlockUse) -> None:
        slots = use.shared | (use.memory & use.slots)
        for index in use.arrays:
            array = self.program.arrays[index]
            slots.update(range(array.base, array.base + array.size * array.stride))
        for array in self._array_at.values():
            whole = range(array.base, array.base + array.size * array.stride)
            if not slots.isdisjoint(whole):
                slots.update(whole)
        memory = _Packing(0)
        memory.add_all(self._units(sorted(slots - self._row.keys() - self._pass.keys())))
        self._memory[name] = memory.places
        self.memory_bytes[name] = memory.end

    # --- units ---

    def _units(self, slots: Sequence[int]) -> list[_Unit]:
        """Units of these slots; an array's slots are all there."""
        units = []
        chosen = set(slots)
        done = -1
        for slot in slots:
            if slot <= done:
                continue
            array = self._array_at.get(slot)
            header = self._header_at.get(slot)
            if array is not None:
                unit = self._array_unit(array)
                done = slot + array.size * array.stride - 1
            elif header is not None and chosen.issuperset(range(slot, slot + header.size)):
                unit = self._packed(slot, header.size, ())
                done = slot + header.size - 1
            else:
                unit = self._single(slot)
            units.append(unit)
        return units

    def _single(self, slot: int) -> _Unit:
        size = natural_bytes(self.program.slots[slot].width)
        return _Unit(size, alignment(size), {slot: 0})

    def _array_unit(self, array: ir.Array, inside: tuple[ir.Array, ...] = ()) -> _Unit:
        element = self._packed(array.base, array.stride, (*inside, array))
        stride = -(-element.size // element.align) * element.align
        places = {
            slot + i * array.stride: offset + i * stride
            for i in range(array.size)
            for slot, offset in element.places.items()
        }
        return _Unit(stride * array.size, element.align, places)

    def _packed(self, first: int, count: int, inside: tuple[ir.Array, ...]) -> _Unit:
        """The slots of a header or an array's element as one unit."""
        units = []
        slot = first
        while slot < first + count:
            array = self._largest_array(slot, first + count, inside)
            if array is None:
                units.append(self._single(slot))
                slot += 1
            else:
                units.append(self._array_unit(array, inside))
                slot += array.size * array.stride
        packing = _Packing(0)
        packing.add_all(units)
        return _Unit(packing.end, max(unit.align for unit in units), packing.places)

    def _largest_array(self, slot: int, end: int, inside: tuple[ir.Array, ...]) -> ir.Array | None:
        found = [
            array
            for array in self.program.arrays
            if array.base == slot
            and array.size
            and slot + array.size * array.stride <= end
            and array not in inside
        ]
        return max(found, key=lambda a: (a.size * a.stride, a.stride), default=None)


def _outermost(arrays: Sequence[ir.Array]) -> Mapping[int, ir.Array]:
    """The arrays that lie in no other one, by their first slot."""
    found: dict[int, ir.Array] = {}
    end = -1
    for array in sorted(
        (a for a in arrays if a.size), key=lambda a: (a.base, -a.size * a.stride, -a.stride)
    ):
        if array.base >= end:
            found[array.base] = array
            end = array.base + array.size * array.stride
    return found
