"""Expressions of the IR as LLVM values: bit<W> is iW, whatever W is.

Nothing here may be poison: a shift by the width or more is guarded, an array is never read outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sglb.p4 import ir
from sglb.p4.native import abi
from sglb.p4.native.text import literal
from sglb.p4.native.unit import Body

_PLAIN: Final = {
    ir.BinOp.ADD: "add",
    ir.BinOp.SUB: "sub",
    ir.BinOp.MUL: "mul",
    ir.BinOp.AND: "and",
    ir.BinOp.OR: "or",
    ir.BinOp.XOR: "xor",
    ir.BinOp.LAND: "and",
    ir.BinOp.LOR: "or",
}
_COMPARISONS: Final = {
    ir.BinOp.EQ: "eq",
    ir.BinOp.NE: "ne",
    ir.BinOp.LT: "ult",
    ir.BinOp.LE: "ule",
    ir.BinOp.LT_S: "slt",
    ir.BinOp.LE_S: "sle",
}
_SATURATING: Final = {
    ir.BinOp.ADD_SAT: "uadd",
    ir.BinOp.SUB_SAT: "usub",
    ir.BinOp.ADD_SAT_S: "sadd",
    ir.BinOp.SUB_SAT_S: "ssub",
}
_SHIFTS: Final = {ir.BinOp.SHL: "shl", ir.BinOp.SHR: "lshr", ir.BinOp.SAR: "ashr"}


def value(body: Body, expr: ir.Expr) -> str:
    """The expression's value, an `i<width>`."""
    return _VALUES[type(expr)](body, expr)


def _const(_body: Body, expr: ir.Const) -> str:
    return literal(expr.value)


def _load(body: Body, expr: ir.Load) -> str:
    return body.load(expr.slot)


def _load_element(body: Body, expr: ir.LoadElement) -> str:
    array = body.program.arrays[expr.array]
    slot = array.base + expr.offset
    if isinstance(expr.index, ir.Const):
        at = expr.index.value
        return body.load(slot + at * array.stride) if at < array.size else "0"
    if not array.size:
        return "0"
    inside, shift = element(body, array, expr.index)
    shift = body.fn.op(f"select i1 {inside}, i64 {shift}, i64 0")
    found = body.load(slot, shift)
    return body.fn.op(f"select i1 {inside}, i{expr.width} {found}, i{expr.width} 0")


def element(body: Body, array: ir.Array, index: ir.Expr) -> tuple[str, str]:
    """Whether an index lies in an array (i1), and the element's bytes from the first one (i64)."""
    return element_at(body, array, value(body, index), index.width)


def element_at(body: Body, array: ir.Array, index: str, width: int) -> tuple[str, str]:
    """`element` for an index that is already a value."""
    inside = below(body, index, width, array.size)
    wide = body.resized(index, width, 64)
    stride = body.unit.layout.stride_bytes(body.block, array)
    return inside, body.fn.op(f"mul i64 {wide}, {stride}")


def below(body: Body, number: str, width: int, bound: int) -> str:
    """Whether a number is less than a constant (i1)."""
    if bound >> width:
        return "1"
    return body.fn.op(f"icmp ult i{width} {number}, {literal(bound)}")


def _packet_length(body: Body, _expr: ir.PacketLength) -> str:
    return body.load_row(abi.LENGTH)


def _unary(body: Body, expr: ir.Unary) -> str:
    operand = value(body, expr.operand)
    if expr.op is ir.UnOp.NEG:
        return body.fn.op(f"sub i{expr.width} 0, {operand}")
    return body.fn.op(f"xor i{expr.width} {operand}, -1")


def _slice(body: Body, expr: ir.Slice) -> str:
    width = expr.operand.width
    moved = body.shifted_right(value(body, expr.operand), width, expr.lo)
    return body.resized(moved, width, expr.width)


def _extend(body: Body, expr: ir.Extend) -> str:
    operand = value(body, expr.operand)
    if not expr.signed:
        return body.resized(operand, expr.operand.width, expr.width)
    if expr.operand.width == expr.width:
        return operand
    return body.fn.op(f"sext i{expr.operand.width} {operand} to i{expr.width}")


def _mux(body: Body, expr: ir.Mux) -> str:
    cond = value(body, expr.cond)
    then, other = value(body, expr.then), value(body, expr.other)
    return body.fn.op(f"select i1 {cond}, i{expr.width} {then}, i{expr.width} {other}")


def _binary(body: Body, expr: ir.Binary) -> str:
    left, right = value(body, expr.left), value(body, expr.right)
    width = expr.width
    if expr.op in _PLAIN:
        return body.fn.op(f"{_PLAIN[expr.op]} i{width} {left}, {right}")
    if expr.op in _COMPARISONS:
        return body.fn.op(f"icmp {_COMPARISONS[expr.op]} i{expr.left.width} {left}, {right}")
    if expr.op in _SATURATING:
        type_ = f"i{width}"
        function = f"@llvm.{_SATURATING[expr.op]}.sat.{type_}"
        return body.fn.op(f"call {type_} {function}({type_} {left}, {type_} {right})")
    if expr.op is ir.BinOp.CONCAT:
        low = expr.right.width
        high = body.shifted_left(body.resized(left, expr.left.width, width), width, low)
        return body.fn.op(f"or disjoint i{width} {high}, {body.resized(right, low, width)}")
    return _shift(body, expr, left, right)


def _shift(body: Body, expr: ir.Binary, left: str, right: str) -> str:
    width, of_amount = expr.width, expr.right.width
    if isinstance(expr.right, ir.Const):
        amount = expr.right.value
        if amount >= width and expr.op is not ir.BinOp.SAR:
            return "0"
        return body.fn.op(f"{_SHIFTS[expr.op]} i{width} {left}, {min(amount, width - 1)}")
    inside = below(body, right, of_amount, width)
    amount_text = body.resized(right, of_amount, width)
    if expr.op is ir.BinOp.SAR:
        amount_text = body.fn.op(
            f"select i1 {inside}, i{width} {amount_text}, i{width} {width - 1}"
        )
        return body.fn.op(f"ashr i{width} {left}, {amount_text}")
    moved = body.fn.op(f"{_SHIFTS[expr.op]} i{width} {left}, {amount_text}")
    return body.fn.op(f"select i1 {inside}, i{width} {moved}, i{width} 0")


_VALUES: Final[dict[type[ir.Expr], Callable[[Body, Any], str]]] = {
    ir.Const: _const,
    ir.Load: _load,
    ir.LoadElement: _load_element,
    ir.PacketLength: _packet_length,
    ir.Unary: _unary,
    ir.Slice: _slice,
    ir.Extend: _extend,
    ir.Mux: _mux,
    ir.Binary: _binary,
}
