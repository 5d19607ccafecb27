"""Match fields: what an entry says about one key, in one canonical form per match kind.

exact: the value. lpm: (value, prefix length). ternary: (value, mask). range: (low, high), both
included. optional: the value, or None for don't care. Values are unsigned patterns of the key's width.
"""

from __future__ import annotations

from sglb.p4 import ir
from sglb.switch.errors import BadValue, ValueTooLarge

MatchField = int | tuple[int, int] | None
MatchKey = tuple[MatchField, ...]


def prefix_mask(length: int, width: int) -> int:
    """The mask of a prefix of `length` bits in `width`."""
    return ((1 << length) - 1) << (width - length)


def _pair(kind: str, field: MatchField) -> tuple[int, int]:
    if not isinstance(field, tuple) or len(field) != 2:
        raise BadValue(f"a {kind} match needs a pair of numbers, got {field!r}")
    return field


def _fits(value: int, width: int) -> int:
    if value < 0 or value >> width:
        raise ValueTooLarge(f"{value:#x} does not fit {width} bits")
    return value


def _lpm(field: MatchField, width: int) -> MatchField:
    value, length = _pair("lpm", field)
    if not 0 <= length <= width:
        raise BadValue(f"prefix length {length} is outside 0..{width}")
    return _fits(value, width) & prefix_mask(length, width), length


def _ternary(field: MatchField, width: int) -> MatchField:
    value, mask = _pair("ternary", field)
    return _fits(value, width) & _fits(mask, width), mask


def _range(field: MatchField, width: int, signed: bool) -> MatchField:
    low, high = _pair("range", field)
    sign = 1 << (width - 1) if signed else 0
    if (_fits(low, width) ^ sign) > (_fits(high, width) ^ sign):
        raise BadValue(f"the range {low}..{high} is empty: its low end lies above its high end")
    return low, high


def normalise(kind: str, field: MatchField, width: int, signed: bool = False) -> MatchField:
    """The canonical form: bits outside a mask or prefix become 0.

    Raises `BadValue` for a wrong shape or an empty range, `ValueTooLarge` for a value that does not fit.
    """
    if kind == "lpm":
        return _lpm(field, width)
    if kind == "ternary":
        return _ternary(field, width)
    if kind == "range":
        return _range(field, width, signed)
    if field is None and kind == "optional":
        return None
    if not isinstance(field, int):
        raise BadValue(f"an {kind} match needs one number, got {field!r}")
    return _fits(field, width)


def matches(kind: str, field: MatchField, value: int, width: int, signed: bool = False) -> bool:
    """Whether `value` meets a canonical field: the plain definition, without an index."""
    if field is None:
        return True
    if isinstance(field, int):
        return field == value
    first, second = field
    if kind == "lpm":
        return value & prefix_mask(second, width) == first
    if kind == "ternary":
        return value & second == first
    sign = 1 << (width - 1) if signed else 0
    return first ^ sign <= value ^ sign <= second ^ sign


def from_const(kind: str, key: ir.EntryKey, width: int) -> MatchField:
    """The canonical field of an entry that stands in the program."""
    if kind == "exact":
        return key.value
    if kind == "lpm":
        return key.value & key.mask, key.mask.bit_count()
    if kind == "ternary":
        return key.value & key.mask, key.mask
    if kind == "optional":
        return key.value if key.mask else None
    if key.hi is None:
        return 0, (1 << width) - 1
    return key.value, key.hi


def show(kind: str, field: MatchField) -> str:
    """The field as a person writes it."""
    if field is None:
        return "*"
    if isinstance(field, int):
        return f"{field:#x}"
    first, second = field
    if kind == "lpm":
        return f"{first:#x}/{second}"
    if kind == "ternary":
        return f"{first:#x}&&&{second:#x}"
    return f"{first:#x}..{second:#x}"
