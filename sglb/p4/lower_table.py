"""Lowering of tables: keys, actions, defaults, properties; their entries are in `lower_entries`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sglb.p4 import ast, ir
from sglb.p4.checked import BoundArg, CallInfo, CallKind
from sglb.p4.control_plane import CpActionRef, CpParam, CpTable
from sglb.p4.instances import construct_extern
from sglb.p4.key_names import key_name
from sglb.p4.layout import is_scalar, is_signed, scalar_width
from sglb.p4.lower_call import action_of, enter, evaluate, leave, lower_action
from sglb.p4.lower_core import CALLS, Body
from sglb.p4.lower_data import Invalid, data_fields, zero_if_invalid
from sglb.p4.lower_entries import Action, Shape, lower_entries
from sglb.p4.lower_env import (
    ActionInst,
    ExternInst,
    TableInst,
    Value,
    name_annotation,
    problem,
    scalar_const,
)
from sglb.p4.lower_expr import rule
from sglb.p4.source import BUILTIN
from sglb.p4.types import BitsT, Type

DEFAULT_SIZE = 1024
MATCH_KINDS = ("exact", "lpm", "ternary", "range", "optional")
_DEFAULT_ONLY = ast.Annotation(span=BUILTIN, name="defaultonly")


def apply_table(
    body: Body, call: ast.Call, hit: int | None = None, action_run: int | None = None
) -> TableInst:
    """Apply a table, with slots for what its result is asked for."""
    info = body.call_info(call)
    assert info.receiver is not None
    table = body.binding(info.receiver)
    if not isinstance(table, TableInst):
        raise problem("this is no table", call.span)
    if table.index < 0:
        lower_table(body, table)
    body.emit(*table.key_setup)
    body.emit(ir.Apply(table=table.index, hit=hit, action_run=action_run, span=call.span))
    return table


@rule(CALLS, CallKind.TABLE_APPLY)
def table_apply_hit(body: Body, call: ast.Call, info: CallInfo) -> Value:  # noqa: ARG001
    """`table.apply().hit`: the flag."""
    hit = body.temp(BitsT(1))
    apply_table(body, call, hit=hit.base)
    return ir.Load(1, hit.base)


# --- keys -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Keys:
    keys: list[ir.Key]
    shown: list[CpParam]
    selector: tuple[ir.DataField, ...]
    setup: tuple[ir.Stmt, ...]


def _lower_keys(body: Body, decl: ast.TableDecl) -> _Keys:
    """Keys are read when the table is applied; what they must compute first is `setup`."""
    found = _Keys([], [], (), ())
    with body.captured() as setup:
        for key in decl.keys or ():
            body.span = key.span
            if key.match_kind == "selector":
                found.selector += data_fields(body, key.expr, Invalid.SKIP)
                # P4Info does not show it, but counts it in the ids of the keys after it.
                shown = CpParam("", body.type_of(key.expr), key.annotations, key.match_kind)
                found.shown.append(shown)
                continue
            _lower_key(body, decl, key, found)
    found.setup = tuple(setup)
    return found


def _lower_key(body: Body, decl: ast.TableDecl, key: ast.TableKey, found: _Keys) -> None:
    if key.match_kind not in MATCH_KINDS:
        raise problem(
            f"table {decl.name}: match kind {key.match_kind} is not supported",
            key.span,
            hint=f"use one of {', '.join(MATCH_KINDS)} or selector",
        )
    type_ = body.type_of(key.expr)
    if not is_scalar(type_):
        raise problem(f"table {decl.name}: a key of type {type_} is not supported", key.span)
    name = key_name(body, key)
    if name is None:
        raise problem(
            f"table {decl.name}: this key has no name of its own",
            key.span,
            hint='name it for the control plane: `… : exact @name("my_key")`',
        )
    value = zero_if_invalid(body, key.expr)
    found.keys.append(ir.Key(name, value, scalar_width(type_), key.match_kind, is_signed(type_)))
    found.shown.append(CpParam(name, type_, key.annotations, key.match_kind))


# --- actions --------------------------------------------------------------------------------------


def _data_params(body: Body, action: ActionInst) -> list[tuple[int, ast.Param, Type]]:
    """Position, declaration and type of the parameters that action data fills."""
    inner = Body(body.lowering, action.env, "action", action.name)
    out: list[tuple[int, ast.Param, Type]] = []
    for i, param in enumerate(action.decl.params):
        if param.direction:
            continue
        type_ = inner.typeref(param.type)
        if not is_scalar(type_):
            raise problem(
                f"action {action.decl.name}: a table cannot supply a parameter of type {type_}",
                param.span,
            )
        out.append((i, param, type_))
    return out


def _table_action(body: Body, ref: ast.ActionRef) -> Action:
    decl = body.checked.refs.get(id(ref))
    if not isinstance(decl, ast.ActionDecl):
        raise problem(f"{ref.name} is no action", ref.span)
    action = action_of(body, decl)
    return _make_action(body, action, ref.annotations, body.checked.calls.get(id(ref)), ref)


def _make_action(
    body: Body,
    action: ActionInst,
    annotations: tuple[ast.Annotation, ...],
    info: CallInfo | None,
    node: ast.Node,
) -> Action:
    lower_action(body, action)
    action.in_table = True
    params = _data_params(body, action)
    setup, copy_out = _bound_arguments(body, action, info, node)
    names = {a.name for a in annotations}
    lowered = ir.TableAction(
        action.name,
        action.proc,
        tuple((action.params[i].base, scalar_width(t)) for i, _, t in params),
        setup,
        copy_out,
        table_only="tableonly" in names,
        default_only="defaultonly" in names,
    )
    types = tuple(t for _, _, t in params)
    return Action(action, lowered, CpActionRef(action.name, annotations), types)


def _bound_arguments(
    body: Body, action: ActionInst, info: CallInfo | None, node: ast.Node
) -> tuple[tuple[ir.Stmt, ...], tuple[ir.Stmt, ...]]:
    """Statements around the action for the arguments that the program binds."""
    bound = [a for a in info.args if a.param.direction] if info is not None else []
    missing = [
        p.name for p in action.decl.params if p.direction and all(a.param is not p for a in bound)
    ]
    if missing:
        raise problem(
            f"action {action.decl.name} needs an argument for {missing[0]} in the actions list",
            node.span,
        )
    if not bound:
        return (), ()
    slots = {id(p): s for p, s in zip(action.decl.params, action.params, strict=True)}
    with body.captured() as setup:
        passed = evaluate(body, node, bound, getattr(node, "args", ()))
        for argument in passed:
            enter(body, slots[id(argument.param)], argument.value)
    copy_out = leave(body, passed, [slots[id(a.param)] for a in passed])
    return tuple(setup), copy_out


def _lower_actions(body: Body, decl: ast.TableDecl) -> list[Action]:
    actions = [_table_action(body, ref) for ref in decl.actions]
    if _property(decl, "default_action") is None and all(
        a.inst.decl.name != "NoAction" for a in actions
    ):
        no_action = _no_action(body, decl)
        actions.append(_make_action(body, no_action, (_DEFAULT_ONLY,), None, decl))
    return actions


def _no_action(body: Body, decl: ast.TableDecl) -> ActionInst:
    for top in body.checked.program.decls:
        if isinstance(top, ast.ActionDecl) and top.name == "NoAction":
            return action_of(body, top)
    raise problem(
        f"table {decl.name} has no default_action, and there is no NoAction",
        decl.span,
        hint="#include <core.p4>",
    )


# --- properties -----------------------------------------------------------------------------------


def _property(decl: ast.TableDecl, name: str) -> ast.TableProperty | None:
    for prop in decl.properties:
        if prop.name == name:
            return prop
    return None


def flag(body: Body, decl: ast.TableDecl, name: str, default: bool) -> bool:
    """A boolean property."""
    prop = _property(decl, name)
    return default if prop is None else bool(body.constant(prop.value, f"the property {name}"))


def number(body: Body, decl: ast.TableDecl, name: str, default: int) -> int:
    """A numeric property."""
    prop = _property(decl, name)
    return default if prop is None else body.constant(prop.value, f"the property {name}")


def _attached(body: Body, table: TableInst, name: str, allowed: Sequence[str]) -> ExternInst | None:
    """The extern that a property names or constructs in place."""
    prop = _property(table.decl, name)
    if prop is None:
        return None
    value = prop.value
    bound: object
    if isinstance(value, ast.Call):
        own = name_annotation(prop.annotations, f"{table.name}.{name}").removeprefix(".")
        bound = construct_extern(body, value, own, prop.annotations)
    else:
        bound = body.binding(value)
    if not isinstance(bound, ExternInst) or bound.extern not in allowed:
        raise problem(
            f"table {table.decl.name}: {name} must be a {' or '.join(allowed)}", prop.span
        )
    if bound.extern.startswith("direct_") and bound.tables:
        raise problem(
            f"{bound.name} belongs to table {bound.tables[0]} already",
            prop.span,
            hint=f"a {bound.extern} counts for one table",
        )
    bound.tables.append(table.name)
    return bound


def _default_action(
    body: Body, decl: ast.TableDecl, actions: Sequence[Action]
) -> tuple[int, tuple[int, ...], bool]:
    """Index of the default action, its action data, and whether it is const."""
    prop = _property(decl, "default_action")
    if prop is None:
        names = [a.inst.decl.name for a in actions]
        return names.index("NoAction"), (), False
    value = prop.value
    target: ast.Node | None
    args: tuple[BoundArg, ...] = ()
    if isinstance(value, ast.Call):
        info = body.call_info(value)
        target, args = info.target, info.args
    else:
        target = body.checked.refs.get(id(value))
    for index, action in enumerate(actions):
        if action.inst.decl is target:
            return index, action_data(body, action, args, value), prop.is_const
    raise problem(f"table {decl.name}: the default action is not among its actions", prop.span)


def action_data(
    body: Body, action: Action, args: Sequence[BoundArg], node: ast.Node
) -> tuple[int, ...]:
    """The values of an action's data parameters in a default action or an entry."""
    given = {id(a.param): a for a in args}
    values: list[int] = []
    params = [p for p in action.inst.decl.params if not p.direction]
    for param, type_ in zip(params, action.types, strict=True):
        bound = given.get(id(param))
        expr = param.default if bound is None or bound.arg is None else bound.arg.value
        if expr is None:
            raise problem(
                f"action {action.inst.decl.name} needs an argument for {param.name}", node.span
            )
        known = body.known(expr)
        if known is None:
            known = body.constant(expr, f"the argument for {param.name}")
        values.append(scalar_const(known, type_, expr.span).value)
    return tuple(values)


# --- the table ------------------------------------------------------------------------------------


def lower_table(body: Body, table: TableInst) -> None:
    """Lower a table, once, when it is first applied."""
    lowering = body.lowering
    decl = table.decl
    table.index = len(lowering.tables)
    lowering.tables.append(None)
    own = Body(lowering, table.env, "control", table.name)
    own.span = decl.span
    keys = _lower_keys(own, decl)
    table.key_setup = keys.setup
    counter = _attached(own, table, "counters", ("direct_counter",))
    meter = _attached(own, table, "meters", ("direct_meter",))
    profile = _attached(own, table, "implementation", ("action_profile", "action_selector"))
    actions = _lower_actions(own, decl)
    table.actions = [a.inst for a in actions]
    default, default_args, const_default = _default_action(own, decl, actions)
    size = number(own, decl, "size", DEFAULT_SIZE) or DEFAULT_SIZE
    timeout = flag(own, decl, "support_timeout", default=False)
    shape = Shape(
        tuple(keys.keys),
        tuple(p.type for p in keys.shown if p.match_kind != "selector"),
        actions,
        flag(own, decl, "largest_priority_wins", default=True),
        number(own, decl, "priority_delta", 1),
    )
    entries, shown_entries = lower_entries(own, decl, shape, action_data)
    lowering.tables[table.index] = ir.Table(
        table.name,
        shape.keys,
        tuple(a.lowered for a in actions),
        default,
        default_args,
        const_default,
        size,
        entries,
        decl.entries_const,
        implementation=None if profile is None else profile.index,
        selector=keys.selector,
        direct_counter=None if counter is None else counter.index,
        direct_meter=None if meter is None else meter.index,
        meter_result=None if meter is None else meter.meter_result,
        support_timeout=timeout,
        span=decl.span,
    )
    table.shown = CpTable(
        table.name,
        decl.annotations,
        keys=tuple(keys.shown),
        actions=tuple(a.shown for a in actions),
        default_action=actions[default].shown.action,
        default_args=default_args,
        const_default=const_default,
        size=size,
        implementation="" if profile is None else profile.name,
        direct_counter="" if counter is None else counter.name,
        direct_meter="" if meter is None else meter.name,
        support_timeout=timeout,
        entries=shown_entries,
        entries_const=decl.entries_const,
    )
    table.profile = profile if profile is not None and _in_place(decl) else None


def _in_place(decl: ast.TableDecl) -> bool:
    prop = _property(decl, "implementation")
    return prop is not None and isinstance(prop.value, ast.Call)
