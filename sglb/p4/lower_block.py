"""Lowering of controls and parsers, and of their application."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from sglb.p4 import ast, ir
from sglb.p4.checked import CallInfo, CallKind
from sglb.p4.instances import block_instance, extern_instance, value_set
from sglb.p4.layout import ElementPlace, SlicePlace, SlotPlace
from sglb.p4.lower_call import Passed, enter, evaluate, finish, leave, reset_out
from sglb.p4.lower_core import CALLS, Body, Lowering
from sglb.p4.lower_env import (
    SHARED,
    ActionInst,
    Binding,
    BlockInst,
    ExternInst,
    Known,
    TableInst,
    Value,
    name_annotation,
    problem,
    qualify,
    scalar_const,
)
from sglb.p4.lower_expr import rule
from sglb.p4.lower_parser import lower_states
from sglb.p4.lower_stmt import declare
from sglb.p4.source import BUILTIN
from sglb.p4.types import ControlT, ExternT, ParserT


@rule(CALLS, CallKind.CONTROL_APPLY, CallKind.PARSER_APPLY)
def apply_block(body: Body, call: ast.Call, info: CallInfo) -> Value:
    """`instance.apply(…)` or `Type.apply(…)`."""
    block = _applied(body, call, info)
    passed = evaluate(body, call, info.args, call.args)
    if block.proc < 0:
        _bind_params(body, block, passed)
        block.proc = body.lowering.new_proc()
        lower_block(body.lowering, block)
    for argument, slots in zip(passed, block.params, strict=True):
        if isinstance(slots, ExternInst | Known) and not _same(slots, argument.value):
            raise problem(
                f"{argument.param.name} must be the same wherever {block.prefix} is applied",
                call.span,
            )
        if isinstance(slots, SlotPlace) and not argument.shares(slots):
            enter(body, slots, argument.value)
    copy_out = leave(body, passed, block.params)
    body.emit(ir.Call(proc=block.proc, copy_out=copy_out, span=call.span))
    return None


def _same(binding: ExternInst | Known, value: Value) -> bool:
    """Whether a call passes what a parameter without direction stands for."""
    if isinstance(binding, Known) and isinstance(value, ir.Const):
        return scalar_const(binding.value, binding.type, BUILTIN) == value
    return binding == value if isinstance(binding, Known) else binding is value


def _applied(body: Body, call: ast.Call, info: CallInfo) -> BlockInst:
    if not info.direct and info.receiver is not None:
        bound = body.binding(info.receiver)
        if not isinstance(bound, BlockInst):
            raise problem("this is no control or parser", call.span)
        return bound
    decl = info.target
    if not isinstance(decl, ast.ControlDecl | ast.ParserDecl):
        raise problem("this is no control or parser", call.span)
    block = block_instance(body, decl, qualify(body.env.prefix, decl.name), None, call)
    block.env.types.update(zip(decl.type_params, info.type_args, strict=False))
    if body.block_inst is not None:
        body.block_inst.members.append(block)
    return block


# --- parameters -----------------------------------------------------------------------------------


def _bind_params(body: Body, block: BlockInst, passed: Sequence[Passed]) -> None:
    """Share the arguments' storage where nothing can tell, else give parameters their own."""
    # The call may know only the control's type, whose parameters are other declarations.
    for i, (param, argument) in enumerate(zip(block.decl.params, passed, strict=True)):
        binding: Binding
        own = argument.extent
        if isinstance(argument.value, ExternInst | Known):
            binding = argument.value
        elif block.sites == 1 and isinstance(argument.value, ir.Const):
            binding = Known(argument.value.value, argument.type)
        elif block.sites == 1 and own is not None and _may_share(body, passed, i, own):
            binding = SlotPlace(own[0], argument.type)
        else:
            name = f"{block.prefix}.{param.name}"
            binding = body.frame.allocate(argument.type, name, param.span)
        block.env.bindings[id(param)] = binding
        block.params.append(binding)


def _may_share(body: Body, passed: Sequence[Passed], index: int, own: tuple[int, int]) -> bool:
    """Whether a parameter may be its argument: storage that no other argument overlaps.

    Two `in` arguments may overlap. A function's result may not be shared: the next call of the
    function overwrites it.
    """
    if "$result$" in body.frame.slots[own[0]].name:
        return False
    for i, other in enumerate(passed):
        if i == index or (passed[index].place is None and other.place is None):
            continue
        extent = _reach(body, other)
        if extent is not None and own[0] < extent[1] and extent[0] < own[1]:
            return False
    return True


def _reach(body: Body, argument: Passed) -> tuple[int, int] | None:
    """The slots that an argument's place may lie in."""
    place: object = argument.place if argument.place is not None else argument.value
    if isinstance(place, SlicePlace):
        place = place.whole
    if isinstance(place, ElementPlace):
        array = body.frame.arrays[place.array]
        return array.base, array.base + array.size * array.stride
    if isinstance(place, SlotPlace) and place.base < len(body.frame.slots):
        return Passed(argument.param, place.type, place, None).extent
    return argument.extent


# --- declarations ---------------------------------------------------------------------------------


def walk(node: object) -> Iterator[ast.Node]:
    """A syntax tree's nodes, parents first."""
    left = [node]
    while left:
        item = left.pop()
        if isinstance(item, tuple):
            left.extend(reversed(item))
        elif isinstance(item, ast.Node):
            yield item
            fields = [f.name for f in dataclasses.fields(item) if f.name != "span"]
            left.extend(getattr(item, name) for name in reversed(fields))


def _sites(body: Body, block: BlockInst) -> dict[int, int]:
    """How often each instance is applied, by the identity of its declaration."""
    found: dict[int, int] = {}
    decl = block.decl
    inside = decl.body if isinstance(decl, ast.ControlDecl) else decl.states
    for node in walk(inside):
        if isinstance(node, ast.Call):
            info = body.checked.calls.get(id(node))
            if info is not None and info.receiver is not None:
                target = body.checked.refs.get(id(info.receiver))
                found[id(target)] = found.get(id(target), 0) + 1
    for local in decl.locals:
        for argument in local.args if isinstance(local, ast.Instance) else ():
            found[id(body.checked.refs.get(id(argument.value)))] = SHARED
    return found


def elaborate_locals(body: Body, block: BlockInst) -> None:
    """Make what a control or parser declares, in order; variables get their first values."""
    sites = _sites(body, block)
    for decl in block.decl.locals:
        if isinstance(decl, ast.VarDecl | ast.ConstDecl):
            declare(body, decl)
            continue
        member = _local_member(body, decl, sites)
        body.env.bindings[id(decl)] = member
        block.members.append(member)


def _local_member(body: Body, decl: ast.Decl, sites: dict[int, int]) -> Binding:
    name = qualify(body.env.prefix, name_annotation(decl.annotations, decl.name))
    if isinstance(decl, ast.ActionDecl):
        return ActionInst(decl, body.env, name)
    if isinstance(decl, ast.TableDecl):
        return TableInst(decl, body.env, name)
    if isinstance(decl, ast.ValueSetDecl):
        return value_set(body, decl)
    if isinstance(decl, ast.Instance):
        return instance(body, decl, sites.get(id(decl), 0))
    raise problem(f"{decl.name}: this kind of declaration is not supported here", decl.span)


def instance(body: Body, decl: ast.Instance, sites: int) -> ExternInst | BlockInst:
    """What an instance declaration makes."""
    type_ = body.typeref(decl.type)
    if decl.body:
        raise problem(
            f"{decl.name}: v1model has no extern with abstract methods to define", decl.span
        )
    if isinstance(type_, ExternT):
        return extern_instance(body, decl, type_)
    if isinstance(type_, ControlT | ParserT):
        info = body.call_info(decl)
        block_decl = type_.decl if type_.decl is not None else info.target
        if not isinstance(block_decl, ast.ControlDecl | ast.ParserDecl):
            raise problem(f"{decl.name} is no control or parser", decl.span)
        name = qualify(body.env.prefix, name_annotation(decl.annotations, decl.name))
        block = block_instance(body, block_decl, name, info, decl)
        block.sites = sites
        return block
    raise problem(f"{decl.name}: an instance of {type_} means nothing here", decl.span)


def lower_block(lowering: Lowering, block: BlockInst) -> None:
    """Lower a control or parser instance whose parameters are bound."""
    decl = block.decl
    kind = "control" if isinstance(decl, ast.ControlDecl) else "parser"
    body = Body(lowering, block.env, kind, block.prefix)
    body.span = decl.span
    body.block_inst = block
    if not block.top:
        reset_out(body, decl.params, block.params)
    elaborate_locals(body, block)
    states: tuple[ir.State, ...] = ()
    if isinstance(decl, ast.ControlDecl):
        if decl.body is None:
            raise problem(f"control {decl.name} has no body", decl.span)
        body.stmt(decl.body)
    else:
        states = lower_states(body, decl)
    lowering.procs[block.proc] = ir.Proc(block.prefix, kind, finish(body), states, decl.span)
