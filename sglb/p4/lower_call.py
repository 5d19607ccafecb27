"""Lowering of calls to what the program itself defines: functions, actions, controls, parsers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sglb.p4 import ast, ir
from sglb.p4.checked import BoundArg, CallInfo, CallKind, Const
from sglb.p4.layout import ElementPlace, Place, SlicePlace, SlotPlace, is_scalar, size_of
from sglb.p4.lower_core import CALLS, Body
from sglb.p4.lower_env import (
    ActionInst,
    Binding,
    Env,
    ExternInst,
    Fixed,
    Known,
    Value,
    name_annotation,
    problem,
    qualify,
    scalar_const,
)
from sglb.p4.lower_expr import item_into, rule
from sglb.p4.types import ExternT, IntT, ListT, StringT, Type, VoidT


@dataclass(frozen=True, slots=True)
class Passed:
    """An argument after evaluation: `value` goes in, `place` gets what comes out."""

    param: ast.Param
    type: Type
    value: Value
    place: Place | None

    @property
    def extent(self) -> tuple[int, int] | None:
        """First slot and the one after the last of static storage; None for any other value."""
        place: object = self.place if self.place is not None else self.value
        if isinstance(place, ir.Load):
            return place.slot, place.slot + 1
        if not isinstance(place, SlotPlace) or size_of(place.type) != size_of(self.type):
            return None
        return place.base, place.base + size_of(place.type)

    def shares(self, slots: SlotPlace) -> bool:
        """Whether a parameter is its argument's own storage."""
        own = self.extent
        return own is not None and own[0] == slots.base


# --- arguments ------------------------------------------------------------------------------------


def evaluate(body: Body, call: ast.Node, args: Sequence[BoundArg], given: object) -> list[Passed]:
    """Evaluate arguments in the order they are written; the result is in parameter order."""
    order: dict[int, int] = {}
    if isinstance(given, tuple):
        order = {id(argument): i for i, argument in enumerate(given)}
    indices = sorted(range(len(args)), key=lambda i: order.get(id(args[i].arg), len(order) + i))
    values = body.ordered([_thunk(body, call, args[i]) for i in indices])
    found = dict(zip(indices, values, strict=True))
    passed: list[Passed] = []
    for i, bound in enumerate(args):
        value = found[i]
        type_ = body.lowering.substitute(bound.type, body.env)
        place = value.place if isinstance(value, Fixed) else None
        if isinstance(value, Fixed):
            value = _initial(body, bound, value.place)
        passed.append(Passed(bound.param, type_, value, place))
    return passed


def _initial(body: Body, bound: BoundArg, place: Place) -> Value:
    """What an inout parameter starts with; an out one starts empty."""
    if bound.param.direction == "out":
        return None
    if isinstance(place, SlicePlace) or is_scalar(place.type):
        return body.load(place)
    return place


def _thunk(body: Body, call: ast.Node, bound: BoundArg) -> Callable[[], Value]:
    type_ = body.lowering.substitute(bound.type, body.env)

    def run() -> Value:
        expr = bound.arg.value if bound.arg is not None else bound.param.default
        if bound.param.direction in ("out", "inout"):
            if expr is None:
                return Fixed(body.temp(type_))
            return Fixed(body.place(expr, fix=True))
        if expr is None:
            raise problem(f"there is no argument for {bound.param.name}", call.span)
        if isinstance(type_, ExternT):
            return extern_of(body, expr)
        if isinstance(type_, IntT | StringT | ListT):
            value = body.known(expr)
            return Known(body.constant(expr, bound.param.name) if value is None else value, type_)
        return argument_value(body, expr, type_)

    return run


def argument_value(body: Body, expr: ast.Expr, type_: Type) -> Value:
    """The value of an argument of the parameter's type."""
    if is_scalar(type_):
        known = body.known(expr)
        return body.expr(expr) if known is None else scalar_const(known, type_, expr.span)
    if isinstance(expr, ast.ListExpr | ast.StructExpr | ast.InvalidHeader | ast.Default):
        temp = body.temp(type_)
        item_into(body, expr, temp)
        return temp
    return body.storage(expr)


def extern_of(body: Body, expr: ast.Expr) -> ExternInst:
    """The extern instance that an expression names."""
    bound = body.binding(expr) if isinstance(expr, ast.Name) else None
    if not isinstance(bound, ExternInst):
        raise problem("this must be the name of an extern instance", expr.span)
    return bound


def enter(body: Body, slots: SlotPlace, value: Value) -> None:
    """Copy an argument into its parameter."""
    if isinstance(value, ir.Expr):
        body.store(slots, value)
    elif isinstance(value, SlotPlace | ElementPlace):
        body.copy(slots, value)


def leave(body: Body, passed: Sequence[Passed], params: Sequence[Binding]) -> tuple[ir.Stmt, ...]:
    """Copy out and inout parameters back, in parameter order."""
    with body.captured() as out:
        for argument, slots in zip(passed, params, strict=True):
            if argument.place is None or not isinstance(slots, SlotPlace):
                continue
            if argument.shares(slots):
                continue
            if isinstance(argument.place, SlicePlace) or is_scalar(argument.type):
                body.store(argument.place, body.load(slots))
            else:
                body.copy(argument.place, slots)
    return tuple(out)


def reset_out(body: Body, params: Sequence[ast.Param], slots: Sequence[Binding]) -> None:
    """Out parameters start as zeros and invalid headers."""
    for param, place in zip(params, slots, strict=True):
        if param.direction == "out" and isinstance(place, SlotPlace):
            body.zero(place)


def finish(body: Body) -> tuple[ir.Stmt, ...]:
    """A procedure's statements, without a return at the very end."""
    if body.out and isinstance(body.out[-1], ir.Return):
        body.out.pop()
    return tuple(body.out)


# --- functions ------------------------------------------------------------------------------------


@rule(CALLS, CallKind.FUNCTION)
def call_function(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """A call of a P4 function; its result stands in slots that the next call overwrites."""
    assert isinstance(info.target, ast.FunctionDecl)
    passed = evaluate(body, call, info.args, call.args)
    proc, params, result = _function(body, info, passed)
    for argument, slots in zip(passed, params, strict=True):
        if isinstance(slots, SlotPlace):
            enter(body, slots, argument.value)
    body.emit(ir.Call(proc=proc, copy_out=leave(body, passed, params), span=call.span))
    if isinstance(result.type, VoidT):
        return None
    return body.load(result) if is_scalar(result.type) else result


def _function(
    body: Body, info: CallInfo, passed: Sequence[Passed]
) -> tuple[int, tuple[Binding, ...], SlotPlace]:
    """The procedure of a function for these type arguments and extern arguments."""
    decl = info.target
    assert isinstance(decl, ast.FunctionDecl)
    assert decl.body is not None
    lowering = body.lowering
    type_args = tuple(lowering.substitute(t, body.env) for t in info.type_args)
    key = (id(decl), type_args, extern_key(passed))
    if key in lowering.functions:
        return lowering.functions[key]
    env = Env(lowering.root, decl.name)
    env.types.update(zip(decl.signature.type_params, type_args, strict=False))
    inner = Body(lowering, env, "function", decl.name)
    proc = lowering.new_proc()
    params = own_params(inner, passed)
    result_type = lowering.substitute(info.result, body.env)
    inner.result = lowering.frame.allocate(result_type, f"{decl.name}.$result$", decl.span)
    lowering.functions[key] = (proc, params, inner.result)
    inner.span = decl.span
    reset_out(inner, decl.signature.params, params)
    inner.stmt(decl.body)
    lowering.procs[proc] = ir.Proc(decl.name, "function", finish(inner), (), decl.span)
    return lowering.functions[key]


def own_params(inner: Body, passed: Sequence[Passed]) -> tuple[Binding, ...]:
    """Storage for each parameter; externs are bound as they are."""
    params: list[Binding] = []
    for argument in passed:
        binding: Binding
        if isinstance(argument.value, ExternInst | Known):
            binding = argument.value
        else:
            name = f"{inner.name}.{argument.param.name}"
            binding = inner.frame.allocate(argument.type, name, argument.param.span)
        inner.env.bindings[id(argument.param)] = binding
        params.append(binding)
    return tuple(params)


def extern_key(passed: Sequence[Passed]) -> tuple[Const, ...]:
    """Which extern instances and compile-time values are among the arguments."""
    return tuple(
        id(a.value) if isinstance(a.value, ExternInst) else a.value.value
        for a in passed
        if isinstance(a.value, ExternInst | Known)
    )


# --- actions --------------------------------------------------------------------------------------


def action_of(body: Body, decl: ast.ActionDecl) -> ActionInst:
    """The action as the current control has it; a global one belongs to the whole program."""
    bound = body.env.lookup(decl)
    if isinstance(bound, ActionInst):
        return bound
    root = body.lowering.root
    action = ActionInst(decl, root, qualify("", name_annotation(decl.annotations, decl.name)))
    root.bindings[id(decl)] = action
    return action


def lower_action(body: Body, action: ActionInst) -> None:
    """Lower an action's body, once."""
    if action.proc >= 0:
        return
    lowering = body.lowering
    decl = action.decl
    env = Env(action.env, action.name)
    name = qualify(action.env.prefix, decl.name)
    inner = Body(lowering, env, "action", name)
    inner.action_inst = action
    action.proc = lowering.new_proc()
    params: list[SlotPlace] = []
    for param in decl.params:
        place = lowering.frame.allocate(
            inner.typeref(param.type), f"{name}.{param.name}", param.span
        )
        env.bindings[id(param)] = place
        params.append(place)
    action.params = tuple(params)
    inner.span = decl.span
    reset_out(inner, decl.params, params)
    inner.stmt(decl.body)
    lowering.procs[action.proc] = ir.Proc(action.name, "action", finish(inner), (), decl.span)


@rule(CALLS, CallKind.ACTION)
def call_action(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """An action called directly."""
    assert isinstance(info.target, ast.ActionDecl)
    action = action_of(body, info.target)
    if body.kind != "action":
        action.called = True
        if action.env is body.lowering.root and body.block_inst is not None:
            body.block_inst.called_globals.append(action)
    passed = evaluate(body, call, info.args, call.args)
    lower_action(body, action)
    for argument, slots in zip(passed, action.params, strict=True):
        enter(body, slots, argument.value)
    copy_out = leave(body, passed, action.params)
    body.emit(ir.Call(proc=action.proc, copy_out=copy_out, span=call.span))
    return None
