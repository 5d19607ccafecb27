"""Bits in network order: loads and stores of whole bytes, and of bits at any position.

Packets are big endian. Whole bytes go through loads and stores of natural size with a byte swap; what
starts or ends inside a byte is shifted, and never touches a byte beyond its own last one when read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sglb.p4.native.unit import Body

#: A value and its width.
Bits = tuple[str, int]


def load_bytes(body: Body, pointer: str, count: int) -> str:
    """`count` bytes as an `i<8 count>`, the first byte foremost."""
    fn = body.fn
    if count == 1:
        return fn.op(f"load i8, ptr {pointer}, align 1")
    if count % 2:
        high = load_bytes(body, pointer, count - 1)
        last = fn.op(f"getelementptr inbounds i8, ptr {pointer}, i64 {count - 1}")
        low = fn.op(f"load i8, ptr {last}, align 1")
        whole = body.shifted_left(body.resized(high, 8 * count - 8, 8 * count), 8 * count, 8)
        return fn.op(f"or disjoint i{8 * count} {whole}, {body.resized(low, 8, 8 * count)}")
    return swapped(body, fn.op(f"load i{8 * count}, ptr {pointer}, align 1"), count)


def store_bytes(body: Body, pointer: str, value: str, count: int) -> None:
    """Stores an `i<8 count>` as `count` bytes, the first byte foremost."""
    fn = body.fn
    if count == 1:
        fn.do(f"store i8 {value}, ptr {pointer}, align 1")
        return
    if count % 2:
        last = fn.op(f"getelementptr inbounds i8, ptr {pointer}, i64 {count - 1}")
        fn.do(f"store i8 {body.resized(value, 8 * count, 8)}, ptr {last}, align 1")
        high = body.shifted_right(value, 8 * count, 8)
        store_bytes(body, pointer, body.resized(high, 8 * count, 8 * count - 8), count - 1)
        return
    fn.do(f"store i{8 * count} {swapped(body, value, count)}, ptr {pointer}, align 1")


def swapped(body: Body, value: str, count: int) -> str:
    """The bytes of a value of an even number of them in reverse order."""
    type_ = f"i{8 * count}"
    return body.fn.op(f"call {type_} @llvm.bswap.{type_}({type_} {value})")


# --- fields that lie one after the other -----------------------------------------------------------


def gathered(body: Body, fields: Sequence[Bits], low: int, high: int) -> str:
    """Bits low..high-1, counted from the first one, of the fields' bits laid one after the other.

    Bits behind the last field are zeros.
    """
    width = high - low
    result = ""
    start = 0
    for value, bits in fields:
        end = start + bits
        if start < high and end > low:
            part = _part(body, (value, bits), max(low - start, 0), min(high, end) - start)
            part = body.resized(part, min(high, end) - max(low, start), width)
            part = body.shifted_left(part, width, high - min(high, end))
            result = part if not result else body.fn.op(f"or disjoint i{width} {result}, {part}")
        start = end
    return result or "0"


def _part(body: Body, field: Bits, first: int, end: int) -> str:
    """Bits first..end-1 of a field, counted from its foremost one."""
    value, bits = field
    moved = body.shifted_right(value, bits, bits - end)
    return body.resized(moved, bits, end - first)


def store_fields(body: Body, pointer: str, fields: Sequence[Bits]) -> int:
    """Stores fields one after the other, padded with zero bits to whole bytes; gives the bytes."""
    size = sum(bits for _, bits in fields) + 7 >> 3
    at = 0
    while at < size:
        count = next(n for n in (8, 4, 2, 1) if n <= size - at)
        word = gathered(body, fields, 8 * at, 8 * (at + count))
        target = body.address(pointer, at)
        store_bytes(body, target, word, count)
        at += count
    return size


@dataclass(frozen=True, slots=True)
class Window:
    """A run of fields read by one load: bytes [start, end), which hold fields [first, last)."""

    start: int
    end: int
    first: int
    last: int


def windows(widths: Sequence[int], size: int) -> list[Window]:
    """How to read fields that lie one after the other in `size` bytes with few loads of 8 bytes."""
    found: list[Window] = []
    first = position = 0
    start = end = 0
    for index, width in enumerate(widths):
        low, high = position >> 3, position + width + 7 >> 3
        if index > first and high - start > 8:
            found.append(_fitted(start, end, first, index, size))
            first = index
        if index == first:
            start = low
        end = high
        position += width
    if widths:
        found.append(_fitted(start, end, first, len(widths), size))
    return found


def _fitted(start: int, end: int, first: int, last: int, size: int) -> Window:
    """The window widened to a natural size where the header has the bytes."""
    for natural in (1, 2, 4, 8):
        if end - start <= natural <= size:
            low = start if start + natural <= size else size - natural
            return Window(low, low + natural, first, last)
    return Window(start, end, first, last)


def load_fields(body: Body, pointer: str, widths: Sequence[int]) -> list[str]:
    """The values of fields that lie one after the other, `i<width>` each."""
    size = sum(widths) + 7 >> 3
    values: list[str] = []
    position = 0
    for window in windows(widths, size):
        bits = 8 * (window.end - window.start)
        source = body.address(pointer, window.start)
        word = load_bytes(body, source, window.end - window.start)
        for width in widths[window.first : window.last]:
            position += width
            moved = body.shifted_right(word, bits, 8 * window.end - position)
            values.append(body.resized(moved, bits, width))
    return values


# --- bits at any position -------------------------------------------------------------------------


def load_bits(body: Body, pointer: str, position: str, width: int) -> str:
    """`width` bits from bit `position` (i64) on; reads no byte that holds none of them."""
    fn = body.fn
    count = width + 7 >> 3
    total = 8 * count + 8
    first = fn.op(f"lshr i64 {position}, 3")
    start = fn.op(f"getelementptr inbounds i8, ptr {pointer}, i64 {first}")
    last = fn.op(f"add i64 {position}, {width - 1}")
    last = fn.op(f"lshr i64 {last}, 3")
    final = fn.op(f"getelementptr inbounds i8, ptr {pointer}, i64 {last}")
    head = load_bytes(body, start, count)
    head = body.shifted_left(body.resized(head, 8 * count, total), total, 8)
    tail = body.resized(fn.op(f"load i8, ptr {final}, align 1"), 8, total)
    whole = fn.op(f"or disjoint i{total} {head}, {tail}")
    inside = body.resized(fn.op(f"and i64 {position}, 7"), 64, total)
    down = fn.op(f"sub i{total} {total - width}, {inside}")
    moved = fn.op(f"lshr i{total} {whole}, {down}")
    return body.resized(moved, total, width)


def put_bits(body: Body, pointer: str, position: str, value: str, width: int) -> str:
    """Appends `width` bits at bit `position` (i64); gives the next position.

    What is in the byte before stays; the bits behind, to the end of their byte, become zeros, and one
    byte more may.
    """
    fn = body.fn
    count = (width + 7 >> 3) + 1
    total = 8 * count
    first = fn.op(f"lshr i64 {position}, 3")
    target = fn.op(f"getelementptr inbounds i8, ptr {pointer}, i64 {first}")
    bit = fn.op(f"and i64 {position}, 7")
    inside = body.resized(bit, 64, total)
    up = fn.op(f"sub i{total} {total - width}, {inside}")
    moved = fn.op(f"shl i{total} {body.resized(value, width, total)}, {up}")
    before = fn.op(f"load i8, ptr {target}, align 1")
    mask = fn.op(f"lshr i64 255, {bit}")
    mask = fn.op(f"xor i64 {mask}, 255")
    kept = fn.op(f"and i8 {before}, {body.resized(mask, 64, 8)}")
    kept = body.shifted_left(body.resized(kept, 8, total), total, total - 8)
    store_bytes(body, target, fn.op(f"or disjoint i{total} {moved}, {kept}"), count)
    return fn.op(f"add i64 {position}, {width}")
