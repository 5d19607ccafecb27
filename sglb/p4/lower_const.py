"""Compile-time `int`s that the checker could not know: they depend on an instance's arguments.

Everything of fixed width folds as it is lowered (`sglb.p4.ir_build`); an `int` has no width to be
lowered in, so it is computed here.
"""

from __future__ import annotations

from collections.abc import Callable

from sglb.p4 import ast
from sglb.p4.checked import Const
from sglb.p4.constants import ConstError, arithmetic, shift
from sglb.p4.source import P4Error
from sglb.p4.types import IntT

Known = Callable[[ast.Expr], Const | None]


def fold_int(known: Known, expr: ast.Expr) -> int | None:
    """The value of an `int` expression; None where it is not known.

    `known` gives the values of names and of what the checker has folded. Raises P4Error for an
    operation without a value, such as a division by zero.
    """
    value = known(expr)
    if isinstance(value, int):
        return int(value)
    if isinstance(expr, ast.Cast):
        return fold_int(known, expr.operand)
    if isinstance(expr, ast.Unary) and expr.op in "+-":
        operand = fold_int(known, expr.operand)
        return operand if operand is None or expr.op == "+" else -operand
    if isinstance(expr, ast.Binary):
        left, right = fold_int(known, expr.left), fold_int(known, expr.right)
        if left is not None and right is not None:
            return _binary(expr, left, right)
    return None


def _binary(expr: ast.Binary, left: int, right: int) -> int:
    try:
        if expr.op in ("<<", ">>"):
            return shift(expr.op, left, right, IntT())
        return arithmetic(expr.op, left, right, IntT())
    except ConstError as error:
        raise P4Error(str(error), expr.span, phase="lower") from error
