"""Expressions of the IR as Python expressions.

`value` gives source for the number, `condition` source that is true or false: comparisons are
Python's own where only their truth matters. Every value is an int below 2**width, so only what can
leave that range is masked. Signed operations flip the sign bit (x ^ H orders two's complement
patterns) or subtract it ((x ^ H) - H is the signed number), H being 2**(width-1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sglb.p4 import ir
from sglb.p4.interp_code import MAX_NESTING, Body, Unit, literal

E = TypeVar("E", bound=ir.Expr)
_Translator = Callable[[Body, ir.Expr], str]
_VALUES: dict[type[ir.Expr], _Translator] = {}
_BINARY: dict[ir.BinOp, Callable[[str, str, ir.Binary], str]] = {}

_COMPARISONS = {
    ir.BinOp.EQ: "==",
    ir.BinOp.NE: "!=",
    ir.BinOp.LT: "<",
    ir.BinOp.LE: "<=",
    ir.BinOp.LT_S: "<",
    ir.BinOp.LE_S: "<=",
}
_SIGNED_COMPARISONS = (ir.BinOp.LT_S, ir.BinOp.LE_S)


def _translates(kind: type[E]) -> Callable[[Callable[[Body, E], str]], Callable[[Body, E], str]]:
    def register(function: Callable[[Body, E], str]) -> Callable[[Body, E], str]:
        _VALUES[kind] = function  # type: ignore[assignment]
        return function

    return register


def nesting(unit: Unit, expr: ir.Expr) -> int:
    """How deep an expression nests."""
    known = unit.nestings.get(id(expr))
    if known is None:
        below = [
            getattr(expr, name)
            for name in ("left", "right", "operand", "cond", "then", "other")
            if hasattr(expr, name)
        ]
        if isinstance(expr, ir.LoadElement):
            below.append(expr.index)
        known = 1 + max((nesting(unit, e) for e in below), default=0)
        unit.nestings[id(expr)] = known
    return known


def largest(expr: ir.Expr) -> int:
    """A bound that the expression's value never exceeds."""
    if isinstance(expr, ir.Const):
        return expr.value
    if isinstance(expr, ir.Extend) and not expr.signed:
        return largest(expr.operand)
    return (1 << expr.width) - 1


def value(body: Body, expr: ir.Expr) -> str:
    """Source of the expression's value: a name, number or something in brackets."""
    return _spilled(body, expr, _VALUES[type(expr)])


def condition(body: Body, expr: ir.Expr) -> str:
    """Source that is true when the (1-bit) expression is 1."""
    if isinstance(expr, ir.Binary | ir.Unary):
        return _spilled(body, expr, _truth)
    return value(body, expr)


def _spilled(body: Body, expr: ir.Expr, translate: _Translator) -> str:
    if nesting(body.unit, expr) % MAX_NESTING:
        return translate(body, expr)
    text = translate(body, expr)
    name = body.temp("x")
    body.line(f"{name} = {text}")
    return name


def assigned(body: Body, expr: ir.Expr) -> str:
    """Like `value`, without outer brackets, for the right side of an assignment."""
    text = value(body, expr)
    if text.startswith("(") and text.endswith(")") and _closes_last(text):
        return text[1:-1]
    return text


def _closes_last(text: str) -> bool:
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return at == len(text) - 1
    return False


def _truth(body: Body, expr: ir.Expr) -> str:
    if isinstance(expr, ir.Unary):
        if expr.op is ir.UnOp.NOT:
            return f"(not {condition(body, expr.operand)})"
        return value(body, expr)
    assert isinstance(expr, ir.Binary)
    if expr.op in _COMPARISONS:
        left, right = expr.left, expr.right
        if expr.op in _SIGNED_COMPARISONS:
            a, b = _flipped(body, left), _flipped(body, right)
        else:
            a, b = value(body, left), value(body, right)
        return f"({a} {_COMPARISONS[expr.op]} {b})"
    if expr.op is ir.BinOp.LAND:
        return f"({condition(body, expr.left)} and {condition(body, expr.right)})"
    if expr.op is ir.BinOp.LOR:
        return f"({condition(body, expr.left)} or {condition(body, expr.right)})"
    return value(body, expr)


def _flipped(body: Body, expr: ir.Expr) -> str:
    high = 1 << (expr.width - 1)
    if isinstance(expr, ir.Const):
        return literal(expr.value ^ high)
    return f"({value(body, expr)} ^ {literal(high)})"


def _signed(text: str, width: int) -> str:
    high = literal(1 << (width - 1))
    return f"({text} ^ {high}) - {high}"


def _mask(width: int) -> str:
    return literal((1 << width) - 1)


@_translates(ir.Const)
def _const(_body: Body, expr: ir.Const) -> str:
    return literal(expr.value)


@_translates(ir.Load)
def _load(_body: Body, expr: ir.Load) -> str:
    return f"f[{expr.slot}]"


@_translates(ir.LoadElement)
def _load_element(body: Body, expr: ir.LoadElement) -> str:
    array = body.unit.program.arrays[expr.array]
    base = array.base + expr.offset
    if isinstance(expr.index, ir.Const):
        at = expr.index.value
        return f"f[{base + at * array.stride}]" if at < array.size else "0"
    index = value(body, expr.index)
    if isinstance(expr.index, ir.Load):
        name, test = index, index
    else:
        name = body.temp("i")
        test = f"({name} := {index})"
    return f"(f[{base} + {name} * {array.stride}] if {test} < {array.size} else 0)"


@_translates(ir.PacketLength)
def _packet_length(_body: Body, _expr: ir.PacketLength) -> str:
    return "m.length"


@_translates(ir.Unary)
def _unary(body: Body, expr: ir.Unary) -> str:
    if expr.op is ir.UnOp.NOT:
        return f"(0 if {condition(body, expr.operand)} else 1)"
    operand = value(body, expr.operand)
    if expr.op is ir.UnOp.INV:
        return f"({operand} ^ {_mask(expr.width)})"
    return f"(-{operand} & {_mask(expr.width)})"


@_translates(ir.Slice)
def _slice(body: Body, expr: ir.Slice) -> str:
    operand = value(body, expr.operand)
    whole = expr.hi == expr.operand.width - 1
    if expr.lo == 0:
        return operand if whole else f"({operand} & {_mask(expr.width)})"
    if whole:
        return f"({operand} >> {expr.lo})"
    return f"({operand} >> {expr.lo} & {_mask(expr.width)})"


@_translates(ir.Extend)
def _extend(body: Body, expr: ir.Extend) -> str:
    operand = value(body, expr.operand)
    if not expr.signed or expr.width == expr.operand.width:
        return operand
    return f"({_signed(operand, expr.operand.width)} & {_mask(expr.width)})"


@_translates(ir.Mux)
def _mux(body: Body, expr: ir.Mux) -> str:
    cond, then = condition(body, expr.cond), value(body, expr.then)
    return f"({then} if {cond} else {value(body, expr.other)})"


@_translates(ir.Binary)
def _binary(body: Body, expr: ir.Binary) -> str:
    if expr.op in _COMPARISONS or expr.op in (ir.BinOp.LAND, ir.BinOp.LOR):
        return f"(1 if {_truth(body, expr)} else 0)"
    return _BINARY[expr.op](value(body, expr.left), value(body, expr.right), expr)


def _arithmetic(symbol: str) -> Callable[[str, str, ir.Binary], str]:
    return lambda a, b, expr: f"({a} {symbol} {b} & {_mask(expr.width)})"


def _bitwise(symbol: str) -> Callable[[str, str, ir.Binary], str]:
    return lambda a, b, _expr: f"({a} {symbol} {b})"


def _shift_left(a: str, b: str, expr: ir.Binary) -> str:
    width = expr.width
    if isinstance(expr.right, ir.Const) and expr.right.value >= width:
        return "0"
    if isinstance(expr.right, ir.Const) or expr.right.width <= 8:
        return f"({a} << {b} & {_mask(width)})"
    # A left shift by a huge amount would first build the huge number.
    return f"({a} << min({b}, {width}) & {_mask(width)})"


def _shift_right_signed(a: str, b: str, expr: ir.Binary) -> str:
    return f"({_signed(a, expr.width)} >> {b} & {_mask(expr.width)})"


def _concat(a: str, b: str, expr: ir.Binary) -> str:
    return f"({a} << {expr.right.width} | {b})"


def _saturating_signed(symbol: str) -> Callable[[str, str, ir.Binary], str]:
    def translate(a: str, b: str, expr: ir.Binary) -> str:
        width, high = expr.width, 1 << (expr.width - 1)
        exact = f"({_signed(a, width)}) {symbol} ({_signed(b, width)})"
        return f"(min(max({exact}, {literal(-high)}), {literal(high - 1)}) & {_mask(width)})"

    return translate


_BINARY.update(
    {
        ir.BinOp.ADD: _arithmetic("+"),
        ir.BinOp.SUB: _arithmetic("-"),
        ir.BinOp.MUL: _arithmetic("*"),
        ir.BinOp.AND: _bitwise("&"),
        ir.BinOp.OR: _bitwise("|"),
        ir.BinOp.XOR: _bitwise("^"),
        ir.BinOp.SHL: _shift_left,
        ir.BinOp.SHR: _bitwise(">>"),
        ir.BinOp.SAR: _shift_right_signed,
        ir.BinOp.ADD_SAT: lambda a, b, expr: f"min({a} + {b}, {_mask(expr.width)})",
        ir.BinOp.SUB_SAT: lambda a, b, _expr: f"max({a} - {b}, 0)",
        ir.BinOp.ADD_SAT_S: _saturating_signed("+"),
        ir.BinOp.SUB_SAT_S: _saturating_signed("-"),
        ir.BinOp.CONCAT: _concat,
    }
)
