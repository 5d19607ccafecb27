"""Lowering of parser states and of the methods of packet_in and packet_out."""

from __future__ import annotations

from collections.abc import Sequence

from sglb.p4 import ast, ir
from sglb.p4.checked import CallInfo
from sglb.p4.ir import BinOp
from sglb.p4.ir_build import binary, const, mask_of, resize, slice_
from sglb.p4.layout import (
    ElementPlace,
    SlotPlace,
    is_header,
    is_scalar,
    is_signed,
    is_union,
    leaves,
    members,
    min_bit_width,
    scalar_width,
    strip,
)
from sglb.p4.lower_core import METHODS, Body
from sglb.p4.lower_data import Invalid, data_fields, kept
from sglb.p4.lower_env import Value, ValueSetInst, problem, scalar_const
from sglb.p4.lower_expr import as_slots, rule
from sglb.p4.types import StackT, Type, VarbitT

_FINAL = {"accept": ir.ACCEPT, "reject": ir.REJECT}


def lower_states(body: Body, decl: ast.ParserDecl) -> tuple[ir.State, ...]:
    """All states of a parser, the start state first."""
    states = sorted(decl.states or (), key=lambda s: s.name != "start")
    numbers = {s.name: i for i, s in enumerate(states)} | _FINAL
    return tuple(_state(body, state, numbers) for state in states)


def _state(body: Body, state: ast.ParserState, numbers: dict[str, int]) -> ir.State:
    body.span = state.span
    with body.captured() as out:
        body.stmts(state.body)
        target: int | ir.Select
        if isinstance(state.transition, ast.Select):
            target = _select(body, state.transition, numbers)
        else:
            target = _number(numbers, state.transition or "reject", state)
    return ir.State(state.name, tuple(out), target, state.span)


def _number(numbers: dict[str, int], name: str, node: ast.Node) -> int:
    if name not in numbers:
        raise problem(f"there is no state {name}", node.span)
    return numbers[name]


def _select(body: Body, select: ast.Select, numbers: dict[str, int]) -> ir.Select:
    fields: tuple[ir.DataField, ...] = ()
    types: list[Type] = []
    for expr in select.exprs:
        with body.captured() as effects:
            more = data_fields(body, expr, Invalid.AS_IS)
        if effects:
            fields = tuple(kept(body, f) for f in fields)
            body.emit(*effects)
        fields += more
        types += _flat_types(body.type_of(expr))
    cases = tuple(
        ir.SelectCase(_key_sets(body, case, types), _number(numbers, case.state, case))
        for case in select.cases
    )
    return ir.Select(tuple(f.value for f in fields), cases)


def _flat_types(type_: Type) -> list[Type]:
    if is_scalar(type_):
        return [type_]
    if isinstance(strip(type_), StackT) or is_header(strip(type_)):
        return [type_]
    return [t for _, member in members(type_) for t in _flat_types(member)]


def _key_sets(body: Body, case: ast.SelectCase, types: Sequence[Type]) -> tuple[ir.KeySet, ...]:
    keys = case.keys
    if len(keys) == 1 and isinstance(keys[0], ast.ListExpr) and len(types) > 1:
        keys = keys[0].items
    if len(keys) == 1:
        alone = _value_set(body, keys[0])
        if alone is not None:
            return (ir.MatchSet(alone.index),)
        if isinstance(keys[0], ast.Default):
            return (ir.MatchAny(),) * len(types)
    if len(keys) != len(types):
        raise problem(f"{len(keys)} key sets for {len(types)} operands", case.span)
    return tuple(_key_set(body, k, t) for k, t in zip(keys, types, strict=True))


def _value_set(body: Body, expr: ast.Expr) -> ValueSetInst | None:
    if not isinstance(expr, ast.Name) or body.known(expr) is not None:
        return None
    bound = body.env.lookup(body.checked.refs.get(id(expr), expr))
    return bound if isinstance(bound, ValueSetInst) else None


def _key_set(body: Body, expr: ast.Expr, type_: Type) -> ir.KeySet:
    if isinstance(expr, ast.Default):
        return ir.MatchAny()
    if _value_set(body, expr) is not None:
        raise problem(
            "a value set among other key sets is not supported",
            expr.span,
            hint="let the value set hold a struct of all operands, and select on it alone",
        )
    if isinstance(expr, ast.Binary) and expr.op == "&&&":
        return ir.MatchMask(_key(body, expr.left, type_), _key(body, expr.right, type_))
    if isinstance(expr, ast.Binary) and expr.op == "..":
        low, high = _key(body, expr.left, type_), _key(body, expr.right, type_)
        return ir.MatchRange(low, high, signed=is_signed(type_))
    value = _key(body, expr, type_)
    return ir.MatchMask(value, const(value.width, mask_of(value.width)))


def _key(body: Body, expr: ast.Expr, type_: Type) -> ir.Expr:
    known = body.known(expr)
    if known is not None:
        return scalar_const(known, type_, expr.span)
    return resize(body.expr(expr), scalar_width(type_), signed=False)


# --- packet_in ------------------------------------------------------------------------------------


@rule(METHODS, ("packet_in", "extract"))
def extract(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`packet.extract(header)` and `packet.extract(header, bits)`; `_` skips a header."""
    target = info.args[0].arg
    var_bits: ir.Expr | None = None
    if len(info.args) > 1 and info.args[1].arg is not None:
        bits = info.args[1].arg.value
        assert bits is not None
        var_bits = body.expr(bits)
    expr = None if target is None else target.value
    if expr is None or isinstance(expr, ast.Default):
        type_ = body.lowering.substitute(info.args[0].type, body.env)
        body.emit(ir.Extract(header=None, width=min_bit_width(type_), span=call.span))
    elif isinstance(expr, ast.Member) and expr.name == "next":
        _extract_next(body, call, expr, var_bits)
    else:
        _extract_at(body, call, expr, var_bits)
    return None


def _extract_next(body: Body, call: ast.Call, expr: ast.Member, var_bits: ir.Expr | None) -> None:
    type_ = strip(body.own_type(expr.base))
    if not isinstance(type_, StackT):  # a field that happens to be called next
        _extract_at(body, call, expr, var_bits)
        return
    stack = body.place(expr.base, fix=True)
    if not isinstance(stack, SlotPlace) or not is_header(type_.element):
        raise problem("extracting into the next element of this stack is not supported", call.span)
    array = body.frame.array_at[stack.base, type_]
    body.emit(ir.ExtractNext(array=array, var_bits=var_bits, span=call.span))


def _extract_at(body: Body, call: ast.Call, expr: ast.Expr, var_bits: ir.Expr | None) -> None:
    place = body.place(expr, fix=True)
    if not isinstance(place, SlotPlace | ElementPlace):
        raise problem("a header is expected here", expr.span)
    with body.header(place) as header:
        body.emit(ir.Extract(header=header, var_bits=var_bits, span=call.span))
        if isinstance(header, ir.HeaderAt):
            others = body.frame.siblings.get(body.frame.headers[header.header].valid, ())
            body.emit(*(ir.SetInvalid(header=ir.HeaderAt(i), span=call.span) for i in others))
    stack = _next_union_stack(body, expr)
    if stack is not None:
        next_index = ir.Load(32, stack.base)
        more = binary(BinOp.ADD, next_index, const(32, 1))
        body.emit(ir.Assign(target=ir.SlotRef(stack.base, 32), value=more, span=call.span))


def _next_union_stack(body: Body, expr: ast.Expr) -> SlotPlace | None:
    """The stack of unions whose next element's member is extracted, if that is so."""
    if not isinstance(expr, ast.Member) or not isinstance(expr.base, ast.Member):
        return None
    if expr.base.name != "next" or not is_union(strip(body.own_type(expr.base))):
        return None
    stack = body.place(expr.base.base, fix=False)
    return stack if isinstance(stack, SlotPlace) else None


@rule(METHODS, ("packet_in", "lookahead"))
def lookahead(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`packet.lookahead<T>()`: the next bits, seen as a T; a header comes out valid."""
    type_ = body.lowering.substitute(info.result, body.env)
    result = body.temp(type_)
    if is_scalar(type_):
        body.emit(ir.Lookahead(target=result.base, width=scalar_width(type_), span=call.span))
        return body.load(result)
    fields = list(leaves(result))
    if any(isinstance(strip(f.type), VarbitT) for f in fields) or _has_union(type_):
        raise problem(f"lookahead of a {type_} is not supported", call.span)
    width = sum(scalar_width(f.type) for f in fields)
    raw = body.in_temp(const(max(width, 1), 0))
    body.emit(ir.Lookahead(target=raw.slot, width=width, span=call.span))
    _make_valid(body, result)
    low = width
    for leaf in fields:
        size = scalar_width(leaf.type)
        low -= size
        body.store(leaf, slice_(raw, low + size - 1, low))
    return result


def _has_union(type_: Type) -> bool:
    return is_union(strip(type_)) or any(_has_union(t) for _, t in members(type_))


def _make_valid(body: Body, place: SlotPlace) -> None:
    body.mark_valid(place)
    if is_header(strip(place.type)):
        return
    for name, _ in members(place.type):
        _make_valid(body, place.member(name))


@rule(METHODS, ("packet_in", "advance"))
def advance(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`packet.advance(bits)`."""
    body.emit(ir.Advance(bits=argument(body, info, 0), span=call.span))
    return None


@rule(METHODS, ("packet_in", "length"))
def length(body: Body, call: ast.Call, info: CallInfo) -> Value:  # noqa: ARG001
    """`packet.length()`: bytes."""
    return ir.PacketLength(32)


def argument(body: Body, info: CallInfo, index: int) -> ir.Expr:
    """A scalar argument, in the parameter's type."""
    bound = info.args[index]
    expr = bound.param.default if bound.arg is None else bound.arg.value
    if expr is None:
        raise problem(f"there is no argument for {bound.param.name}", bound.param.span)
    type_ = body.lowering.substitute(bound.type, body.env)
    known = body.known(expr)
    if known is not None:
        return scalar_const(known, type_, expr.span)
    return body.expr(expr)


# --- packet_out -----------------------------------------------------------------------------------


@rule(METHODS, ("packet_out", "emit"))
def emit(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`packet.emit(x)`: the headers in x, in order."""
    bound = info.args[0]
    assert bound.arg is not None
    assert bound.arg.value is not None
    place = as_slots(body, body.storage(bound.arg.value))
    _emit(body, place, call)
    return None


def _emit(body: Body, place: SlotPlace, call: ast.Call) -> None:
    type_ = strip(place.type)
    if is_header(type_):
        body.emit(ir.Emit(header=body.frame.header_at[place.base], span=call.span))
        return
    if is_scalar(type_) or isinstance(type_, VarbitT):
        raise problem(
            f"only headers can be emitted, not a {type_}",
            call.span,
            hint="put the field in a header",
        )
    for name, _ in members(type_):
        _emit(body, place.member(name), call)
