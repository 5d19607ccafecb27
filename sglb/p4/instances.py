"""Elaboration: what a declaration of an extern, control or parser instance stands for."""

from __future__ import annotations

from collections.abc import Mapping

from sglb.p4 import ast, ir
from sglb.p4.checked import BoundArg, CallInfo
from sglb.p4.ir import InstanceKind
from sglb.p4.layout import is_scalar, members, scalar_width, size_of, strip
from sglb.p4.lower_core import Body
from sglb.p4.lower_env import (
    Binding,
    BlockInst,
    Env,
    ExternInst,
    Known,
    ValueSetInst,
    name_annotation,
    problem,
    qualify,
)
from sglb.p4.types import ControlT, EnumT, ExternT, ParserT, StructT, TupleT, Type

_COUNTS = {"packets": "packets", "bytes": "bytes", "packets_and_bytes": "both"}


def constructor_args(body: Body, info: CallInfo) -> dict[int, Binding]:
    """What constructor parameters are bound to: constants, or extern instances."""
    return {id(a.param): _constructor_arg(body, a) for a in info.args}


def _constructor_arg(body: Body, bound: BoundArg) -> Binding:
    type_ = body.lowering.substitute(bound.type, body.env)
    expr = bound.param.default if bound.arg is None else bound.arg.value
    if expr is None:
        raise problem(f"there is no argument for {bound.param.name}", bound.param.span)
    if isinstance(type_, ExternT):
        if isinstance(expr, ast.Call):
            return construct_extern(body, expr, bound.param.name, ())
        found = body.binding(expr)
        if not isinstance(found, ExternInst):
            raise problem("this must be the name of an extern instance", expr.span)
        return found
    if isinstance(type_, ControlT | ParserT):
        block = body.binding(expr)
        if not isinstance(block, BlockInst):
            raise problem("this must be the name of a control or parser instance", expr.span)
        return block
    value = body.known(expr)
    if value is None:
        value = body.constant(expr, f"the constructor argument {bound.param.name}")
    return Known(value, type_)


def extern_instance(body: Body, decl: ast.Instance, type_: ExternT) -> ExternInst:
    """The extern that a declaration makes."""
    name = qualify(body.env.prefix, name_annotation(decl.annotations, decl.name))
    body.lowering.has_externs = True
    return _make_extern(body, body.call_info(decl), type_, name, decl.annotations, decl)


def construct_extern(
    body: Body, call: ast.Call, name: str, annotations: tuple[ast.Annotation, ...]
) -> ExternInst:
    """The extern that a constructor call makes in place."""
    type_ = body.own_type(call)
    if not isinstance(type_, ExternT):
        raise problem("an extern's constructor is expected here", call.span)
    return _make_extern(body, body.call_info(call), type_, name, annotations, call)


def _make_extern(
    body: Body,
    info: CallInfo,
    type_: ExternT,
    name: str,
    annotations: tuple[ast.Annotation, ...],
    node: ast.Node,
) -> ExternInst:
    try:
        kind = InstanceKind(type_.name)
    except ValueError:
        raise problem(
            f"extern {type_.name} is not one of v1model's, so there is nothing to run it",
            node.span,
            hint="v1model has " + ", ".join(k.value for k in InstanceKind),
        ) from None
    args: dict[str, Known] = {}
    for bound in info.args:
        value = _constructor_arg(body, bound)
        if isinstance(value, Known):
            args[bound.param.name] = value
    lowering = body.lowering
    index = len(lowering.instances)
    instance = ExternInst(type_.name, index, name, type_, annotations, node.span)
    instance.args = {n: v.value for n, v in args.items()}
    lowering.externs[index] = instance
    lowering.instances.append(_ir_instance(body, kind, name, type_, args))
    return instance


def _member(args: Mapping[str, Known], name: str) -> str:
    """The name of an enum argument's member."""
    known = args.get(name)
    if known is None or not isinstance(known.type, EnumT) or not isinstance(known.value, int):
        return ""
    return known.type.members[known.value]


def _ir_instance(
    body: Body, kind: InstanceKind, name: str, type_: ExternT, args: Mapping[str, Known]
) -> ir.Instance:
    elements: tuple[int, ...] = ()
    if kind is InstanceKind.REGISTER:
        value_type = body.lowering.substitute(type_.args[0], body.env)
        elements = slot_widths(body, value_type)
    size = args.get("size")
    output = args.get("outputWidth")
    return ir.Instance(
        kind,
        name,
        size=int(size.value) if size is not None and isinstance(size.value, int) else 0,
        elements=elements,
        counts=_COUNTS.get(_member(args, "type"), ""),
        algorithm=_member(args, "algorithm"),
        output_width=int(output.value)
        if output is not None and isinstance(output.value, int)
        else 0,
    )


def slot_widths(body: Body, type_: Type) -> tuple[int, ...]:
    """Widths of all slots of a value of the type."""
    place = body.frame.temp(type_)
    return tuple(s.width for s in body.frame.slots[place.base : place.base + size_of(type_)])


def block_instance(
    body: Body,
    decl: ast.ControlDecl | ast.ParserDecl,
    prefix: str,
    info: CallInfo | None,
    node: ast.Node,
) -> BlockInst:
    """An instance of a control or parser, with its constructor's arguments bound."""
    env = Env(body.lowering.root, prefix)
    if info is not None:
        env.bindings.update(constructor_args(body, info))
        types = tuple(body.lowering.substitute(t, body.env) for t in info.type_args)
        env.types.update(zip(decl.type_params, types, strict=False))
    return BlockInst(decl, prefix, env, node.span)


def value_set(body: Body, decl: ast.ValueSetDecl) -> ValueSetInst:
    """A parser value set; the fields of a struct say with @match how they match."""
    type_ = body.typeref(decl.type)
    name = qualify(body.env.prefix, name_annotation(decl.annotations, decl.name))
    widths: list[int] = []
    kinds: list[str] = []
    for part, kind in _value_set_parts(type_):
        if not is_scalar(part):
            raise problem(f"a value set of type {type_} is not supported", decl.span)
        widths.append(scalar_width(part))
        kinds.append(kind)
    size = body.constant(decl.size, "the size of a value set")
    index = len(body.lowering.value_sets)
    body.lowering.value_sets.append(ir.ValueSet(name, tuple(widths), tuple(kinds), size))
    return ValueSetInst(index, name, decl, type_, size)


def _value_set_parts(type_: Type) -> list[tuple[Type, str]]:
    bare = strip(type_)
    if isinstance(bare, StructT):
        out: list[tuple[Type, str]] = []
        for field in bare.fields:
            nested = isinstance(strip(field.type), StructT | TupleT)
            kind = _match_kind(field.annotations)
            out += _value_set_parts(field.type) if nested else [(field.type, kind)]
        return out
    if isinstance(bare, TupleT):
        return [(t, "exact") for _, t in members(bare)]
    return [(type_, "exact")]


def _match_kind(annotations: tuple[ast.Annotation, ...]) -> str:
    for annotation in annotations:
        if annotation.name == "match" and annotation.tokens:
            return annotation.tokens[0]
    return "exact"
