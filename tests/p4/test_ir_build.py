"""Folding of IR expressions agrees with arithmetic on Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.p4 import ir
from sglb.p4.ir import BinOp, UnOp
from sglb.p4.ir_build import all_of, any_of, binary, const, mux, resize, slice_, unary

WIDTHS = st.integers(1, 130)


def signed(value: int, width: int) -> int:
    return value - 2**width if value >= 2 ** (width - 1) else value


def clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


WHOLE: dict[BinOp, Callable[[int, int, int], int]] = {
    BinOp.ADD: lambda a, b, w: (a + b) % 2**w,
    BinOp.SUB: lambda a, b, w: (a - b) % 2**w,
    BinOp.MUL: lambda a, b, w: a * b % 2**w,
    BinOp.AND: lambda a, b, w: a & b,
    BinOp.OR: lambda a, b, w: a | b,
    BinOp.XOR: lambda a, b, w: a ^ b,
    BinOp.ADD_SAT: lambda a, b, w: clamp(a + b, 0, 2**w - 1),
    BinOp.SUB_SAT: lambda a, b, w: clamp(a - b, 0, 2**w - 1),
    BinOp.ADD_SAT_S: lambda a, b, w: (
        clamp(signed(a, w) + signed(b, w), -(2 ** (w - 1)), 2 ** (w - 1) - 1) % 2**w
    ),
    BinOp.SUB_SAT_S: lambda a, b, w: (
        clamp(signed(a, w) - signed(b, w), -(2 ** (w - 1)), 2 ** (w - 1) - 1) % 2**w
    ),
}
COMPARE: dict[BinOp, Callable[[int, int, int], bool]] = {
    BinOp.EQ: lambda a, b, w: a == b,
    BinOp.NE: lambda a, b, w: a != b,
    BinOp.LT: lambda a, b, w: a < b,
    BinOp.LE: lambda a, b, w: a <= b,
    BinOp.LT_S: lambda a, b, w: signed(a, w) < signed(b, w),
    BinOp.LE_S: lambda a, b, w: signed(a, w) <= signed(b, w),
}


@given(WIDTHS, st.data())
def test_operators_on_equal_widths(width: int, data: st.DataObject) -> None:
    a, b = (data.draw(st.integers(0, 2**width - 1)) for _ in range(2))
    left, right = ir.Const(width, a), ir.Const(width, b)
    for op, whole in WHOLE.items():
        assert binary(op, left, right) == ir.Const(width, whole(a, b, width)), op
    for op, compare in COMPARE.items():
        assert binary(op, left, right) == ir.Const(1, int(compare(a, b, width))), op


@given(WIDTHS, st.data())
def test_shifts_by_any_amount(width: int, data: st.DataObject) -> None:
    a = data.draw(st.integers(0, 2**width - 1))
    amount = data.draw(st.integers(0, 2 * width))
    left, right = ir.Const(width, a), ir.Const(32, amount)
    assert binary(BinOp.SHL, left, right) == ir.Const(width, a * 2**amount % 2**width)
    assert binary(BinOp.SHR, left, right) == ir.Const(width, a // 2**amount)
    floor = signed(a, width) // 2**amount
    assert binary(BinOp.SAR, left, right) == ir.Const(width, floor % 2**width)


def test_a_shift_by_a_huge_amount_needs_no_huge_number() -> None:
    huge = ir.Const(64, 2**63)
    assert binary(BinOp.SHL, ir.Const(8, 255), huge) == ir.Const(8, 0)
    assert binary(BinOp.SHR, ir.Const(8, 255), huge) == ir.Const(8, 0)
    assert binary(BinOp.SAR, ir.Const(8, 128), huge) == ir.Const(8, 255)


@given(WIDTHS, WIDTHS, st.data())
def test_concatenation_slices_and_widths(width: int, other: int, data: st.DataObject) -> None:
    a = data.draw(st.integers(0, 2**width - 1))
    b = data.draw(st.integers(0, 2**other - 1))
    joined = binary(BinOp.CONCAT, ir.Const(width, a), ir.Const(other, b))
    assert joined == ir.Const(width + other, a * 2**other + b)
    assert slice_(joined, width + other - 1, other) == ir.Const(width, a)
    assert slice_(joined, other - 1, 0) == ir.Const(other, b)
    unsigned = a % 2**other
    assert resize(ir.Const(width, a), other, signed=False) == ir.Const(other, unsigned)
    extended = signed(a, width) % 2**other
    assert resize(ir.Const(width, a), other, signed=True) == ir.Const(other, extended)


@given(WIDTHS, st.data())
def test_unary_operators(width: int, data: st.DataObject) -> None:
    a = data.draw(st.integers(0, 2**width - 1))
    assert unary(UnOp.INV, ir.Const(width, a)) == ir.Const(width, 2**width - 1 - a)
    assert unary(UnOp.NEG, ir.Const(width, a)) == ir.Const(width, -a % 2**width)


X, FLAG = ir.Load(8, 3), ir.Load(1, 4)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (binary(BinOp.LAND, const(1, 1), FLAG), FLAG),
        (binary(BinOp.LAND, FLAG, const(1, 0)), const(1, 0)),
        (binary(BinOp.LOR, const(1, 0), FLAG), FLAG),
        (binary(BinOp.LOR, FLAG, const(1, 1)), const(1, 1)),
        (binary(BinOp.SHR, X, const(32, 0)), X),
        (unary(UnOp.NOT, unary(UnOp.NOT, FLAG)), FLAG),
        (slice_(X, 7, 0), X),
        (slice_(slice_(X, 6, 2), 3, 1), ir.Slice(3, X, 5, 3)),
        (resize(X, 8, signed=True), X),
        (resize(X, 4, signed=True), ir.Slice(4, X, 3, 0)),
        (resize(X, 9, signed=True), ir.Extend(9, X, True)),
        (mux(const(1, 1), X, const(8, 0)), X),
        (mux(FLAG, X, X), X),
        (all_of([]), const(1, 1)),
        (any_of([const(1, 0), FLAG]), FLAG),
    ],
)
def test_what_is_known_leaves_no_code(made: ir.Expr, expected: ir.Expr) -> None:
    assert made == expected
