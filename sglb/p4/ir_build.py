"""Makers of IR expressions that fold what is known at compile time.

Every function keeps the rules of `sglb.p4.ir`: values are unsigned bit patterns of their width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from sglb.p4 import ir
from sglb.p4.ir import BinOp, UnOp

TRUE: Final = ir.Const(1, 1)
FALSE: Final = ir.Const(1, 0)


def mask_of(width: int) -> int:
    """All ones."""
    return (1 << width) - 1


def const(width: int, value: int) -> ir.Const:
    """A constant; negative values become their two's complement."""
    return ir.Const(width, value & mask_of(width))


def signed_value(value: int, width: int) -> int:
    """A bit pattern read as two's complement."""
    if width and value >> (width - 1):
        return value - (1 << width)
    return value


def _saturate(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def _add_sat_s(a: int, b: int, w: int) -> int:
    total = signed_value(a, w) + signed_value(b, w)
    return _saturate(total, -(1 << (w - 1)), (1 << (w - 1)) - 1)


def _sub_sat_s(a: int, b: int, w: int) -> int:
    total = signed_value(a, w) - signed_value(b, w)
    return _saturate(total, -(1 << (w - 1)), (1 << (w - 1)) - 1)


def _shift_left(a: int, b: int, w: int) -> int:
    return a << b if b < w else 0


def _shift_right(a: int, b: int, w: int) -> int:
    return a >> b if b < w else 0


def _shift_arithmetic(a: int, b: int, w: int) -> int:
    return signed_value(a, w) >> min(b, w)


#: What each operator computes from the operands' patterns and the left operand's width.
EVALUATE: Final[dict[BinOp, Callable[[int, int, int], int]]] = {
    BinOp.ADD: lambda a, b, _w: a + b,
    BinOp.SUB: lambda a, b, _w: a - b,
    BinOp.MUL: lambda a, b, _w: a * b,
    BinOp.AND: lambda a, b, _w: a & b,
    BinOp.OR: lambda a, b, _w: a | b,
    BinOp.XOR: lambda a, b, _w: a ^ b,
    BinOp.SHL: _shift_left,
    BinOp.SHR: _shift_right,
    BinOp.SAR: _shift_arithmetic,
    BinOp.ADD_SAT: lambda a, b, w: min(a + b, mask_of(w)),
    BinOp.SUB_SAT: lambda a, b, _w: max(a - b, 0),
    BinOp.ADD_SAT_S: _add_sat_s,
    BinOp.SUB_SAT_S: _sub_sat_s,
    BinOp.EQ: lambda a, b, _w: a == b,
    BinOp.NE: lambda a, b, _w: a != b,
    BinOp.LT: lambda a, b, _w: a < b,
    BinOp.LE: lambda a, b, _w: a <= b,
    BinOp.LT_S: lambda a, b, w: signed_value(a, w) < signed_value(b, w),
    BinOp.LE_S: lambda a, b, w: signed_value(a, w) <= signed_value(b, w),
    BinOp.LAND: lambda a, b, _w: a and b,
    BinOp.LOR: lambda a, b, _w: a or b,
}

_SHIFTS: Final = frozenset({BinOp.SHL, BinOp.SHR, BinOp.SAR})
COMPARISONS: Final = frozenset({BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.LE, BinOp.LT_S, BinOp.LE_S})


def binary(op: BinOp, left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """`left op right`, with the width that the operator gives."""
    if op is BinOp.CONCAT:
        width = left.width + right.width
        if isinstance(left, ir.Const) and isinstance(right, ir.Const):
            return ir.Const(width, left.value << right.width | right.value)
        return ir.Binary(width, op, left, right)
    width = 1 if op in COMPARISONS else left.width
    if isinstance(left, ir.Const) and isinstance(right, ir.Const):
        return const(width, int(EVALUATE[op](left.value, right.value, left.width)))
    if op in _SHIFTS and right == ir.Const(right.width, 0):
        return left
    if op is BinOp.LAND:
        return _short(op, left, right, neutral=1)
    if op is BinOp.LOR:
        return _short(op, left, right, neutral=0)
    return ir.Binary(width, op, left, right)


def _short(op: BinOp, left: ir.Expr, right: ir.Expr, neutral: int) -> ir.Expr:
    if isinstance(left, ir.Const):
        return right if left.value == neutral else left
    if isinstance(right, ir.Const):
        return left if right.value == neutral else right
    return ir.Binary(1, op, left, right)


def unary(op: UnOp, operand: ir.Expr) -> ir.Expr:
    """`op operand`."""
    if isinstance(operand, ir.Const):
        if op is UnOp.NOT:
            return const(1, operand.value ^ 1)
        return const(operand.width, ~operand.value if op is UnOp.INV else -operand.value)
    if op is UnOp.NOT and isinstance(operand, ir.Unary) and operand.op is UnOp.NOT:
        return operand.operand
    return ir.Unary(operand.width, op, operand)


def slice_(operand: ir.Expr, high: int, low: int) -> ir.Expr:
    """Bits `high..low`."""
    width = high - low + 1
    if low == 0 and width == operand.width:
        return operand
    if isinstance(operand, ir.Const):
        return const(width, operand.value >> low)
    if isinstance(operand, ir.Slice):
        return ir.Slice(width, operand.operand, operand.lo + high, operand.lo + low)
    return ir.Slice(width, operand, high, low)


def resize(operand: ir.Expr, width: int, signed: bool) -> ir.Expr:
    """The value cut to `width`, or widened: by zeros, or by its sign when `signed`."""
    if width < operand.width:
        return slice_(operand, width - 1, 0)
    if width == operand.width:
        return operand
    if isinstance(operand, ir.Const):
        value = signed_value(operand.value, operand.width) if signed else operand.value
        return const(width, value)
    return ir.Extend(width, operand, signed)


def mux(cond: ir.Expr, then: ir.Expr, other: ir.Expr) -> ir.Expr:
    """`cond ? then : other`."""
    if isinstance(cond, ir.Const):
        return then if cond.value else other
    if then == other:
        return then
    return ir.Mux(then.width, cond, then, other)


def all_of(conditions: Iterable[ir.Expr]) -> ir.Expr:
    """The conjunction of conditions."""
    out: ir.Expr = TRUE
    for condition in conditions:
        out = binary(BinOp.LAND, out, condition)
    return out


def any_of(conditions: Iterable[ir.Expr]) -> ir.Expr:
    """The disjunction of conditions."""
    out: ir.Expr = FALSE
    for condition in conditions:
        out = binary(BinOp.LOR, out, condition)
    return out
