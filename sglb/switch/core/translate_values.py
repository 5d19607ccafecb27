"""Arithmetic of compiled functions: int64 that wraps around, in LLVM's instructions.

`//` and `%` round down as Python's do, and dividing by 0 gives 0; shifts count modulo 64. What is known
beforehand is worked out beforehand.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sglb.p4.native.text import Function

_WRAP: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class Value:
    """An i64, or an i1 if it is a truth; `constant` is its value where that is known."""

    text: str
    is_truth: bool = False
    constant: int | None = None


def wrap(value: int) -> int:
    """What int64 makes of a number."""
    return (value + _WRAP // 2) % _WRAP - _WRAP // 2


def constant(value: int) -> Value:
    """A number that is known."""
    number = wrap(int(value))
    return Value(str(number), constant=number)


def truth(value: bool) -> Value:
    """A truth that is known."""
    return Value("true" if value else "false", is_truth=True, constant=int(value))


def number(fn: Function, value: Value) -> Value:
    """A value as an i64."""
    if not value.is_truth:
        return value
    if value.constant is not None:
        return constant(value.constant)
    return Value(fn.op(f"zext i1 {value.text} to i64"))


def as_truth(fn: Function, value: Value) -> Value:
    """Whether a value is not 0."""
    if value.is_truth:
        return value
    if value.constant is not None:
        return truth(value.constant != 0)
    return Value(fn.op(f"icmp ne i64 {value.text}, 0"), is_truth=True)


def negation(fn: Function, value: Value) -> Value:
    """`not` of a value."""
    value = as_truth(fn, value)
    if value.constant is not None:
        return truth(not value.constant)
    return Value(fn.op(f"xor i1 {value.text}, true"), is_truth=True)


def unary(fn: Function, op: ast.unaryop, value: Value) -> Value | None:
    """`-`, `+` or `~` of an i64; None for another operator."""
    if isinstance(op, ast.UAdd):
        return value
    if isinstance(op, ast.USub):
        return combine(fn, ast.Sub(), constant(0), value)
    return combine(fn, ast.BitXor(), value, constant(-1)) if isinstance(op, ast.Invert) else None


def combine(fn: Function, op: ast.operator, a: Value, b: Value) -> Value | None:
    """An operator of two i64; None for one that there is not."""
    fold = _FOLDS.get(type(op))
    if fold is None:
        return None
    if a.constant is not None and b.constant is not None:
        return constant(fold(a.constant, b.constant))
    plain = _PLAIN.get(type(op))
    if plain is not None:
        return Value(fn.op(f"{plain} i64 {a.text}, {b.text}"))
    if isinstance(op, ast.LShift | ast.RShift):
        kind = "shl" if isinstance(op, ast.LShift) else "ashr"
        count = _combined(fn, ast.BitAnd(), b, constant(63))
        return Value(fn.op(f"{kind} i64 {a.text}, {count.text}"))
    return _divide(fn, a, b, remainder=isinstance(op, ast.Mod))


def _combined(fn: Function, op: ast.operator, a: Value, b: Value) -> Value:
    value = combine(fn, op, a, b)
    assert value is not None
    return value


def _divide(fn: Function, a: Value, b: Value, *, remainder: bool) -> Value:
    by = b.constant
    if by is not None and by > 0 and by & (by - 1) == 0:
        if remainder:
            return _combined(fn, ast.BitAnd(), a, constant(by - 1))
        return _combined(fn, ast.RShift(), a, constant(by.bit_length() - 1))
    # What the processor refuses to divide by is not asked of it: 0, and -1 for the least number.
    divisor, odd = b.text, ""
    if by in (None, 0, -1):
        odd = fn.op(f"icmp ult i64 {fn.op(f'add i64 {b.text}, 1')}, 2")
        divisor = fn.op(f"select i1 {odd}, i64 1, i64 {b.text}")
    rest = fn.op(f"srem i64 {a.text}, {divisor}")
    other_sign = fn.op(f"icmp slt i64 {fn.op(f'xor i64 {rest}, {divisor}')}, 0")
    low = fn.op(f"and i1 {fn.op(f'icmp ne i64 {rest}, 0')}, {other_sign}")
    if remainder:
        more = fn.op(f"select i1 {low}, i64 {divisor}, i64 0")
        return Value(fn.op(f"add i64 {rest}, {more}"))
    quotient = fn.op(f"sdiv i64 {a.text}, {divisor}")
    quotient = fn.op(f"sub i64 {quotient}, {fn.op(f'zext i1 {low} to i64')}")
    if odd:
        product = fn.op(f"mul i64 {a.text}, {b.text}")  # by 0 or by -1
        quotient = fn.op(f"select i1 {odd}, i64 {product}, i64 {quotient}")
    return Value(quotient)


def compare(fn: Function, op: ast.cmpop, a: Value, b: Value) -> Value | None:
    """A comparison of two i64; None for one that there is not."""
    order = _ORDERS.get(type(op))
    if order is None:
        return None
    if a.constant is not None and b.constant is not None:
        return truth(order[1](a.constant, b.constant))
    return Value(fn.op(f"icmp {order[0]} i64 {a.text}, {b.text}"), is_truth=True)


def either(fn: Function, a: Value, b: Value) -> Value:
    """Whether one of two truths holds."""
    return Value(fn.op(f"or i1 {a.text}, {b.text}"), is_truth=True)


def extreme(fn: Function, name: str, values: Sequence[Value]) -> Value:
    """LLVM's `smin` or `smax` of some i64."""
    found = values[0]
    for value in values[1:]:
        found = Value(
            fn.op(f"call i64 @llvm.{name}.i64(i64 {found.text}, i64 {value.text})"),
        )
    return found


def magnitude(fn: Function, value: Value) -> Value:
    """`abs`; the least number stays as it is."""
    return Value(fn.op(f"call i64 @llvm.abs.i64(i64 {value.text}, i1 false)"))


_PLAIN: Final[dict[type, str]] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
_FOLDS: Final[dict[type, Callable[[int, int], int]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
    ast.LShift: lambda a, b: a << (b & 63),
    ast.RShift: lambda a, b: a >> (b & 63),
    ast.FloorDiv: lambda a, b: a // b if b else 0,
    ast.Mod: lambda a, b: a % b if b else 0,
}
_ORDERS: Final[dict[type, tuple[str, Callable[[int, int], bool]]]] = {
    ast.Eq: ("eq", lambda a, b: a == b),
    ast.NotEq: ("ne", lambda a, b: a != b),
    ast.Lt: ("slt", lambda a, b: a < b),
    ast.LtE: ("sle", lambda a, b: a <= b),
    ast.Gt: ("sgt", lambda a, b: a > b),
    ast.GtE: ("sge", lambda a, b: a >= b),
}
