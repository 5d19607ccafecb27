"""Arithmetic on compile-time values: `int` is unbounded, `bit<W>` and `int<W>` wrap (spec chapter 8)."""

from __future__ import annotations

from typing import Final

from sglb.p4.checked import Const
from sglb.p4.types import BitsT, BoolT, EnumT, ErrorT, NewT, SerEnumT, StructT, TupleT, Type

#: A constant of more bits than this is refused, so that `1 << 1000000000` cannot eat all memory.
MAX_BITS: Final = 1 << 16


class ConstError(Exception):
    """A compile-time operation without a value; the message says why."""


def wrap(value: int, t: BitsT) -> int:
    """`value` modulo 2**width, as two's complement where `t` is signed."""
    value &= (1 << t.width) - 1
    if t.signed and t.width and value >> (t.width - 1):
        value -= 1 << t.width
    return value


def saturate(value: int, t: BitsT) -> int:
    """`value` forced into the range of `t`."""
    low, high = bounds(t)
    return min(max(value, low), high)


def bounds(t: BitsT) -> tuple[int, int]:
    """The smallest and largest value of `t`."""
    if t.signed:
        half = 1 << max(t.width - 1, 0)
        return -half, half - 1
    return 0, (1 << t.width) - 1


def fits(value: int, t: BitsT) -> bool:
    """Whether `t` can hold `value` unchanged."""
    low, high = bounds(t)
    return low <= value <= high


def arithmetic(op: str, a: int, b: int, t: Type) -> int:
    """A binary integer operation on values of type `t` (BitsT or IntT)."""
    bits = t if isinstance(t, BitsT) else None
    match op:
        case "+" | "|+|":
            value = a + b
        case "-" | "|-|":
            value = a - b
        case "*":
            value = a * b
        case "/" | "%":
            value = _divide(op, a, b)
        case "&":
            value = a & b
        case "|":
            value = a | b
        case "^":
            value = a ^ b
        case _:
            raise AssertionError(op)
    if bits is None:
        if value.bit_length() > MAX_BITS:
            raise ConstError(f"the result has more than {MAX_BITS} bits")
        return value
    return saturate(value, bits) if op in ("|+|", "|-|") else wrap(value, bits)


def _divide(op: str, a: int, b: int) -> int:
    if b == 0:
        raise ConstError("division by zero" if op == "/" else "modulo by zero")
    if a < 0 or b < 0:
        raise ConstError(f"'{op}' is not defined on negative numbers")
    return a // b if op == "/" else a % b


def shift(op: str, a: int, amount: int, t: Type) -> int:
    """`a << amount` or `a >> amount` on a value of type `t` (BitsT or IntT); `amount` >= 0."""
    if isinstance(t, BitsT):
        amount = min(amount, t.width)
        return wrap(a << amount if op == "<<" else a >> amount, t)
    if op == ">>":
        return a >> min(amount, MAX_BITS)
    if a and amount + a.bit_length() > MAX_BITS:
        raise ConstError(f"the result has more than {MAX_BITS} bits")
    return a << amount if a else 0


def compare(op: str, a: Const, b: Const) -> bool:
    """A comparison of two values of one type."""
    match op:
        case "==":
            return a == b
        case "!=":
            return a != b
    if isinstance(a, int) and isinstance(b, int):
        match op:
            case "<":
                return a < b
            case "<=":
                return a <= b
            case ">":
                return a > b
            case ">=":
                return a >= b
    raise AssertionError(op)


def concat(a: int, left: BitsT, b: int, right: BitsT) -> int:
    """`a ++ b`: a's bits above b's, in the sign of `left`."""
    low = b & ((1 << right.width) - 1)
    whole = (a << right.width) | low
    return wrap(whole, BitsT(left.width + right.width, left.signed))


def cut(value: int, hi: int, lo: int) -> int:
    """Bits `hi` down to `lo` of a value."""
    return (value >> lo) & ((1 << (hi - lo + 1)) - 1)


def convert(value: Const, target: Type) -> Const:
    """A scalar value as one of `target` (implicit conversion or cast)."""
    while isinstance(target, NewT):
        target = target.underlying
    if isinstance(target, SerEnumT):
        target = target.underlying
    if isinstance(target, BitsT) and isinstance(value, int):
        return wrap(int(value), target)
    if isinstance(target, BoolT) and isinstance(value, int):
        return bool(value)
    return value


def default_value(t: Type) -> Const | None:
    """The value `...` stands for (spec 7.3), None where it is no constant (headers)."""
    match t:
        case BoolT():
            return False
        case EnumT() | ErrorT() | BitsT() | SerEnumT():
            return 0
        case NewT(underlying=u):
            return default_value(u)
        case StructT(kind="struct", fields=fields):
            return _all_of([default_value(f.type) for f in fields])
        case TupleT(items=items):
            return _all_of([default_value(i) for i in items])
    return None


def _all_of(values: list[Const | None]) -> Const | None:
    out = [v for v in values if v is not None]
    return tuple(out) if len(out) == len(values) else None
