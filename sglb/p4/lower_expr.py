"""Lowering of expressions: scalars to IR expressions, l-values to places, the rest into storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from sglb.p4 import ast, ir
from sglb.p4.checked import CallKind
from sglb.p4.ir import BinOp, UnOp
from sglb.p4.ir_build import all_of, binary, const, mux, resize, unary
from sglb.p4.layout import (
    ElementPlace,
    Place,
    SlicePlace,
    SlotPlace,
    Storage,
    is_header,
    is_header_stack,
    is_scalar,
    is_signed,
    is_union,
    members,
    scalar_width,
    strip,
)
from sglb.p4.lower_core import BUILDERS, CALLS, EXPRS, PLACES, STORAGES, Body
from sglb.p4.lower_env import Known, Value, problem, scalar_const
from sglb.p4.types import BitsT, IntT, StackT, Type, VarbitT

F = TypeVar("F", bound=Callable[..., Any])


def rule(registry: dict[Any, Any], *keys: object) -> Callable[[F], F]:
    """Register a function for the keys."""

    def register(function: F) -> F:
        for key in keys:
            registry[key] = function
        return function

    return register


# --- scalars --------------------------------------------------------------------------------------


@rule(EXPRS, ast.Name, ast.Index, ast.Slice)
def read_place(body: Body, expr: ast.Expr) -> ir.Expr:
    """A variable, element or slice."""
    if isinstance(expr, ast.Slice) and not isinstance(expr.base, tuple(PLACES)):
        return _slice_of_value(body, expr)
    place = PLACES[type(expr)](body, expr, False)
    return body.load(place)


def _slice_of_value(body: Body, expr: ast.Slice) -> ir.Expr:
    low, width = slice_bounds(body, expr)

    def base() -> Value:
        return body.expr(expr.base)

    if isinstance(low, int):
        whole = body.expr(expr.base)
        return resize(binary(BinOp.SHR, whole, const(32, low)), width, signed=False)
    whole_value, amount = body.ordered([base, lambda: body.expr(expr.lo)])
    assert isinstance(whole_value, ir.Expr)
    assert isinstance(amount, ir.Expr)
    return resize(binary(BinOp.SHR, whole_value, amount), width, signed=False)


@rule(EXPRS, ast.Member)
def read_member(body: Body, expr: ast.Member) -> ir.Expr:
    """A field, or a property of a stack or of a table's result."""
    if isinstance(expr.base, ast.Call):
        info = body.call_info(expr.base)
        if info.kind is CallKind.TABLE_APPLY:
            result = CALLS[info.kind](body, expr.base, info)
            assert isinstance(result, ir.Expr)
            return result if expr.name == "hit" else unary(UnOp.NOT, result)
    base_type = strip(body.own_type(expr.base))
    if isinstance(base_type, StackT) and expr.name in ("lastIndex", "size"):
        if expr.name == "size":
            return const(32, base_type.size)
        next_index = stack_next(body, expr.base)
        return binary(BinOp.SUB, next_index, const(32, 1))
    return body.load(PLACES[ast.Member](body, expr, False))


def stack_next(body: Body, expr: ast.Expr) -> ir.Expr:
    """A stack's next index."""
    place = body.place(expr, fix=False)
    if isinstance(place, SlotPlace):
        return ir.Load(32, place.base)
    if isinstance(place, ElementPlace):
        return ir.LoadElement(32, place.array, place.offset, place.index)
    raise problem("a slice is no stack", expr.span)


@rule(EXPRS, ast.Unary)
def unary_expr(body: Body, expr: ast.Unary) -> ir.Expr:
    """`!`, `~`, `-`, `+`."""
    operand = body.expr(expr.operand)
    if expr.op == "+":
        return operand
    return unary({"!": UnOp.NOT, "~": UnOp.INV, "-": UnOp.NEG}[expr.op], operand)


_PLAIN: Final = {
    "+": (BinOp.ADD, BinOp.ADD),
    "-": (BinOp.SUB, BinOp.SUB),
    "*": (BinOp.MUL, BinOp.MUL),
    "&": (BinOp.AND, BinOp.AND),
    "|": (BinOp.OR, BinOp.OR),
    "^": (BinOp.XOR, BinOp.XOR),
    "<<": (BinOp.SHL, BinOp.SHL),
    ">>": (BinOp.SHR, BinOp.SAR),
    "|+|": (BinOp.ADD_SAT, BinOp.ADD_SAT_S),
    "|-|": (BinOp.SUB_SAT, BinOp.SUB_SAT_S),
    "<": (BinOp.LT, BinOp.LT_S),
    "<=": (BinOp.LE, BinOp.LE_S),
    ">": (BinOp.LT, BinOp.LT_S),
    ">=": (BinOp.LE, BinOp.LE_S),
    "++": (BinOp.CONCAT, BinOp.CONCAT),
}


def operate(op: str, type_: Type, left: ir.Expr, right: ir.Expr, node: ast.Node) -> ir.Expr:
    """`left op right` on scalars, where the left one is of `type_`."""
    if op in ("==", "!="):
        return binary(BinOp.EQ if op == "==" else BinOp.NE, left, right)
    if op in ("/", "%") and isinstance(right, ir.Const) and not is_signed(type_):
        shift = right.value.bit_length() - 1
        if right.value == 1 << max(shift, 0):
            if op == "/":
                return binary(BinOp.SHR, left, const(32, shift))
            return binary(BinOp.AND, left, const(left.width, right.value - 1))
    if op not in _PLAIN:
        raise problem(
            f"{op} works on values known at compile time only",
            node.span,
            hint="use shifts, or a table or register for division at run time",
        )
    if op in (">", ">="):
        left, right = right, left
    return binary(_PLAIN[op][1 if is_signed(type_) else 0], left, right)


@rule(EXPRS, ast.Binary)
def binary_expr(body: Body, expr: ast.Binary) -> ir.Expr:
    """A binary operator; `&&` and `||` evaluate the right side only when it matters."""
    if expr.op in ("&&", "||"):
        return _short_circuit(body, expr)
    type_ = body.type_of(expr.left)
    if expr.op in ("==", "!=") and not is_scalar(type_) and not isinstance(type_, IntT):
        same = _compare(body, expr)
        return same if expr.op == "==" else unary(UnOp.NOT, same)
    left, right = body.ordered([lambda: body.expr(expr.left), lambda: body.expr(expr.right)])
    assert isinstance(left, ir.Expr)
    assert isinstance(right, ir.Expr)
    return operate(expr.op, type_, left, right, expr)


def _short_circuit(body: Body, expr: ast.Binary) -> ir.Expr:
    op = BinOp.LAND if expr.op == "&&" else BinOp.LOR
    left = body.expr(expr.left)
    if isinstance(left, ir.Const) and left.value == (op is BinOp.LOR):
        return left
    with body.captured() as effects:
        right = body.expr(expr.right)
    if not effects:
        return binary(op, left, right)
    temp = body.in_temp(left)
    target = ir.SlotRef(temp.slot, 1)
    run = (*effects, ir.Assign(target=target, value=right, span=expr.span))
    cond: ir.Expr = temp if op is BinOp.LAND else unary(UnOp.NOT, temp)
    body.emit(ir.If(cond=cond, then=run, span=expr.span))
    return temp


@rule(EXPRS, ast.Ternary)
def ternary_expr(body: Body, expr: ast.Ternary) -> ir.Expr:
    """`?:` on scalars: a choice of values, or a branch when an arm has effects."""
    cond = body.expr(expr.cond)
    if isinstance(cond, ir.Const):
        return body.expr(expr.then if cond.value else expr.other)
    with body.captured() as then_effects:
        then = body.expr(expr.then)
    with body.captured() as other_effects:
        other = body.expr(expr.other)
    if not then_effects and not other_effects:
        return mux(cond, then, other)
    temp = body.temp(body.type_of(expr))
    target = ir.SlotRef(temp.base, then.width)
    body.emit(
        ir.If(
            cond=cond,
            then=(*then_effects, ir.Assign(target=target, value=then, span=expr.span)),
            other=(*other_effects, ir.Assign(target=target, value=other, span=expr.span)),
            span=expr.span,
        )
    )
    return body.load(temp)


@rule(EXPRS, ast.Cast)
def cast_expr(body: Body, expr: ast.Cast) -> ir.Expr:
    """A cast between scalars."""
    target = body.typeref(expr.type)
    if strip(target) == BitsT(0):
        raise problem(f"a value of type {target} holds nothing", expr.span)
    value = body.expr(expr.operand)
    return resize(value, scalar_width(target), is_signed(body.type_of(expr.operand)))


@rule(EXPRS, ast.Call)
def call_expr(body: Body, expr: ast.Call) -> ir.Expr:
    """A call that yields a scalar."""
    info = body.call_info(expr)
    value = CALLS[info.kind](body, expr, info)
    if isinstance(value, SlotPlace | ElementPlace):
        return body.load(value)
    if not isinstance(value, ir.Expr):
        raise problem(f"{info.name} yields no value", expr.span)
    return value


@rule(EXPRS, ast.Default)
def default_expr(body: Body, expr: ast.Default) -> ir.Expr:
    """`...` as a scalar: zero."""
    return const(scalar_width(body.type_of(expr)), 0)


# --- equality of structures -----------------------------------------------------------------------


def _compare(body: Body, expr: ast.Binary) -> ir.Expr:
    values = body.ordered([lambda: body.storage(expr.left), lambda: body.storage(expr.right)])
    left, right = (as_slots(body, v) for v in values if isinstance(v, SlotPlace | ElementPlace))
    return equal(left, right)


def as_slots(body: Body, place: Storage) -> SlotPlace:
    """The place, or a copy of an array's element."""
    if isinstance(place, SlotPlace):
        return place
    temp = body.temp(place.type)
    body.copy(temp, place)
    return temp


def equal(left: SlotPlace, right: SlotPlace) -> ir.Expr:
    """Whether two values of one type are equal (specification 8.15 to 8.20)."""
    type_ = strip(left.type)
    if is_scalar(type_):
        width = scalar_width(type_)
        return binary(BinOp.EQ, ir.Load(width, left.base), ir.Load(width, right.base))
    if isinstance(type_, VarbitT):
        bits = binary(BinOp.EQ, ir.Load(type_.width, left.base), ir.Load(type_.width, right.base))
        lengths = binary(BinOp.EQ, ir.Load(32, left.base + 1), ir.Load(32, right.base + 1))
        return binary(BinOp.LAND, lengths, bits)
    parts = all_of(equal(left.member(name), right.member(name)) for name, _ in members(type_))
    if not is_header(type_):
        return parts
    left_valid, right_valid = ir.Load(1, left.base), ir.Load(1, right.base)
    both_or_none = binary(BinOp.EQ, left_valid, right_valid)
    same_fields = binary(BinOp.LOR, unary(UnOp.NOT, left_valid), parts)
    return binary(BinOp.LAND, both_or_none, same_fields)


# --- places ---------------------------------------------------------------------------------------


@rule(PLACES, ast.Name)
def name_place(body: Body, expr: ast.Name, fix: bool) -> Place:  # noqa: ARG001
    """A variable or parameter."""
    bound = body.binding(expr)
    if isinstance(bound, SlotPlace):
        return bound
    if isinstance(bound, Known):
        temp = body.temp(bound.type)
        body.const_into(bound.value, temp, expr.span)
        return temp
    raise problem(f"{expr.name} is an instance, not a value", expr.span)


@rule(PLACES, ast.Member)
def member_place(body: Body, expr: ast.Member, fix: bool) -> Place:
    """A field; or a stack's `next` or `last` element."""
    base_type = strip(body.own_type(expr.base))
    if isinstance(base_type, StackT) and expr.name in ("next", "last"):
        return _stack_end(body, expr)
    base = body.place(expr.base, fix=fix)
    if isinstance(base, SlicePlace):
        raise problem("a slice has no fields", expr.span)
    return base.member(expr.name)


def _stack_end(body: Body, expr: ast.Member) -> ElementPlace:
    place = body.place(expr.base, fix=True)
    if not isinstance(place, SlotPlace):
        raise problem(
            f".{expr.name} of a stack inside an array element is not supported", expr.span
        )
    type_ = strip(place.type)
    assert isinstance(type_, StackT)
    array = body.frame.array_at[place.base, type_]
    next_index = ir.Load(32, place.base)
    if expr.name == "last":
        body.emit(ir.StackLast(array=array, span=expr.span))
        index = body.in_temp(binary(BinOp.SUB, next_index, const(32, 1)))
    else:
        overflow = const(32, body.lowering.errors["StackOutOfBounds"])
        room = binary(BinOp.LT, next_index, const(32, type_.size))
        body.emit(ir.Verify(cond=room, error=overflow, span=expr.span))
        index = body.in_temp(next_index)
    return ElementPlace(array, index, 0, type_.element)


@rule(PLACES, ast.Index)
def index_place(body: Body, expr: ast.Index, fix: bool) -> Place:
    """An element of a stack, array or tuple."""
    base_type = strip(body.own_type(expr.base))
    fixed_index = body.known(expr.index)
    if fixed_index is None and not isinstance(body.type_of(expr.index), IntT):
        with body.captured() as effects:
            lowered = body.expr(expr.index)
        if isinstance(lowered, ir.Const) and not effects:
            fixed_index = lowered.value
    if isinstance(fixed_index, int) and (
        not isinstance(base_type, StackT) or 0 <= fixed_index < base_type.size
    ):
        base = body.place(expr.base, fix=fix)
        if isinstance(base, SlicePlace):
            raise problem("a slice has no elements", expr.span)
        return base.member(str(int(fixed_index)))
    if not isinstance(base_type, StackT):
        raise problem("the index of a tuple must be known at compile time", expr.index.span)
    return _run_time_element(body, expr, base_type, fix)


def _run_time_element(body: Body, expr: ast.Index, type_: StackT, fix: bool) -> ElementPlace:
    base = body.place(expr.base, fix=fix)
    if isinstance(base, ElementPlace):
        if fix:
            raise problem(
                "writing through two indices known only at run time is not supported",
                expr.span,
                hint="copy the inner array to a variable, change it there, and copy it back",
            )
        base = as_slots(body, base)
    if isinstance(base, SlicePlace):
        raise problem("a slice has no elements", expr.span)
    index = body.expr(expr.index)
    if fix and not isinstance(index, ir.Const):
        index = body.in_temp(index)
    return ElementPlace(body.frame.array_at[base.base, type_], index, 0, type_.element)


def slice_bounds(body: Body, expr: ast.Slice) -> tuple[int | None, int]:
    """Lowest bit (None where known only at run time) and width of a slice."""
    if expr.hi is not None:
        high = body.constant(expr.hi, "the bounds of a slice")
        low = body.constant(expr.lo, "the bounds of a slice")
        return low, high - low + 1
    assert expr.width is not None
    width = body.constant(expr.width, "the width of a slice")
    known = body.known(expr.lo)
    return (int(known) if isinstance(known, int) else None), width


@rule(PLACES, ast.Slice)
def slice_place(body: Body, expr: ast.Slice, fix: bool) -> Place:
    """Bits of a scalar l-value."""
    low, width = slice_bounds(body, expr)
    base = body.place(expr.base, fix=fix)
    start: int | ir.Expr
    if low is None:
        start = body.expr(expr.lo)
        if fix and not isinstance(start, ir.Const):
            start = body.in_temp(start)
    else:
        start = low
    if isinstance(base, SlicePlace):
        if not isinstance(start, int) or not isinstance(base.low, int):
            raise problem("a slice of a slice at a run-time position is not supported", expr.span)
        return SlicePlace(base.whole, base.low + start, BitsT(width))
    return SlicePlace(base, start, BitsT(width))


# --- structures -----------------------------------------------------------------------------------


@rule(STORAGES, ast.Call)
def call_storage(body: Body, expr: ast.Call) -> Storage:
    """The result of a call that yields a structure."""
    info = body.call_info(expr)
    value = CALLS[info.kind](body, expr, info)
    if not isinstance(value, SlotPlace | ElementPlace):
        raise problem(f"{info.name} yields no structure", expr.span)
    return value


@rule(STORAGES, ast.Cast)
def cast_storage(body: Body, expr: ast.Cast) -> Storage:
    """A cast to a structure: its operand, member by member."""
    temp = body.temp(body.typeref(expr.type))
    operand = expr.operand
    if isinstance(operand, ast.ListExpr | ast.StructExpr | ast.InvalidHeader | ast.Default):
        BUILDERS[type(operand)](body, operand, temp)
        return temp
    source = as_slots(body, body.storage(operand))
    body.convert(temp, source)
    return temp


@rule(BUILDERS, ast.ListExpr)
def build_list(body: Body, expr: ast.ListExpr, target: SlotPlace) -> None:
    """`{ a, b, … }` into a struct, header, tuple or array."""
    parts = members(target.type)
    if expr.dots or (isinstance(strip(target.type), StackT) and len(expr.items) < len(parts)):
        body.zero(target)
    body.mark_valid(target)
    if is_header_stack(target.type):
        body.emit(ir.Zero(target=target.base, count=1, span=expr.span))
    for i, item in enumerate(expr.items):
        item_into(body, item, target.member(parts[i][0]))


@rule(BUILDERS, ast.StructExpr)
def build_struct(body: Body, expr: ast.StructExpr, target: SlotPlace) -> None:
    """`{ a = x, … }` into a struct or header."""
    if expr.dots or is_union(target.type) or len(expr.fields) < len(members(target.type)):
        body.zero(target)
    body.mark_valid(target)
    for name, value in expr.fields:
        item_into(body, value, target.member(name))


def item_into(body: Body, item: ast.Expr, target: SlotPlace) -> None:
    """One part of a structure: `target`'s type decides, where the item has none of its own."""
    if isinstance(item, ast.ListExpr | ast.StructExpr | ast.InvalidHeader | ast.Default):
        BUILDERS[type(item)](body, item, target)
    elif is_scalar(target.type):
        value = body.expr(item)
        if value.width != scalar_width(target.type):
            known = body.known(item)
            if known is None:
                raise problem("this value has another width than the field it goes to", item.span)
            value = scalar_const(known, target.type, item.span)
        body.store(target, value)
    else:
        body.into(item, target)


@rule(BUILDERS, ast.InvalidHeader, ast.Default)
def build_zero(body: Body, expr: ast.Expr, target: SlotPlace) -> None:  # noqa: ARG001
    """`{#}` and `...`: invalid headers, zeros."""
    body.zero(target)


@rule(BUILDERS, ast.Ternary)
def build_ternary(body: Body, expr: ast.Ternary, target: SlotPlace) -> None:
    """`?:` on structures."""
    cond = body.expr(expr.cond)
    with body.captured() as then:
        body.into(expr.then, target)
    with body.captured() as other:
        body.into(expr.other, target)
    body.emit(ir.If(cond=cond, then=tuple(then), other=tuple(other), span=expr.span))
