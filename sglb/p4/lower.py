"""The lowering pass: from a checked program to the IR and to what the control plane sees.

It walks the program from `main` on: the six blocks of V1Switch, and from there whatever they apply.
What nothing applies leaves no code. All storage is laid out here (`sglb.p4.layout`), calls inside
expressions become statements in evaluation order, and copy-in and copy-out become assignments,
except where a parameter can share its argument's storage unseen.
"""

from __future__ import annotations

from sglb.p4 import ast, ir

# The rules register themselves when their modules are imported.
from sglb.p4 import lower_extern as _lower_extern  # noqa: F401
from sglb.p4.checked import Checked
from sglb.p4.control_plane import ControlPlane
from sglb.p4.instances import block_instance
from sglb.p4.layout import SlotPlace, is_scalar, members, size_of, strip
from sglb.p4.lower_block import instance, lower_block
from sglb.p4.lower_control_plane import control_plane
from sglb.p4.lower_core import Body, Lowering
from sglb.p4.lower_env import SHARED, BlockInst, ExternInst, problem
from sglb.p4.lower_stmt import declare_const
from sglb.p4.types import PackageT, StackT, StructT

#: V1Switch's parameters, in order, with the names that `ir.Program` gives its blocks.
BLOCKS = {
    "p": "parser",
    "vr": "verify_checksum",
    "ig": "ingress",
    "eg": "egress",
    "ck": "compute_checksum",
    "dep": "deparser",
}


def lower(checked: Checked) -> tuple[ir.Program, ControlPlane]:
    """Lower a checked program whose `main` is a V1Switch.

    Raises P4Error (phase "lower") for what cannot be run, naming construct and place.
    """
    lowering = Lowering(checked)
    root = Body(lowering, lowering.root, "top", "")
    globals_ = _globals(root)
    blocks = _blocks(root)
    _bind_shared(lowering, blocks)
    for block in blocks.values():
        block.proc = lowering.new_proc()
    for block in blocks.values():
        lower_block(lowering, block)
    program = _program(lowering, blocks)
    return program, control_plane(lowering, globals_, list(blocks.values()))


def _globals(root: Body) -> list[ExternInst]:
    """Constants and instances declared at top level; packages other than `main` run nowhere."""
    found: list[ExternInst] = []
    for decl in root.checked.program.decls:
        root.span = decl.span
        if isinstance(decl, ast.ConstDecl):
            declare_const(root, decl)
        elif isinstance(decl, ast.Instance):
            if isinstance(root.typeref(decl.type), PackageT):
                continue
            made = instance(root, decl, sites=SHARED)
            root.env.bindings[id(decl)] = made
            if isinstance(made, ExternInst):
                found.append(made)
    return found


def _blocks(root: Body) -> dict[str, BlockInst]:
    """The six blocks that `main` names, by the names of V1Switch's parameters."""
    main = root.checked.main
    if main is None:
        program = root.checked.program
        written = [d.span for d in program.decls if d.span.file == program.span.file]
        raise problem(
            "the program has no main package",
            written[-1] if written else program.span,
            hint="end it with: V1Switch(MyParser(), …, MyDeparser()) main;",
        )
    info = root.call_info(main)
    names = {a.param.name for a in info.args}
    if info.target is None or info.target.name != "V1Switch" or names != set(BLOCKS):
        package = "a package" if info.target is None else info.target.name
        raise problem(
            f"main is {package}; only v1model's V1Switch can be run",
            main.span,
            hint="#include <v1model.p4>",
        )
    by_param = {a.param.name: a for a in info.args}
    blocks: dict[str, BlockInst] = {}
    for name in BLOCKS:
        argument = by_param[name].arg
        if argument is None or argument.value is None:
            raise problem(f"main has no argument for {name}", main.span)
        blocks[name] = _block(root, argument.value)
    return blocks


def _block(root: Body, expr: ast.Expr) -> BlockInst:
    if isinstance(expr, ast.Call):
        info = root.call_info(expr)
        if not isinstance(info.target, ast.ControlDecl | ast.ParserDecl):
            raise problem("a control or parser is expected here", expr.span)
        block = block_instance(root, info.target, info.target.name, info, expr)
    else:
        bound = root.binding(expr)
        if not isinstance(bound, BlockInst):
            raise problem("a control or parser is expected here", expr.span)
        block = block_instance(root, bound.decl, bound.decl.name, None, expr)
        block.env.bindings.update(bound.env.bindings)
        block.env.types.update(bound.env.types)
    block.top = True
    return block


def _bind_shared(lowering: Lowering, blocks: dict[str, BlockInst]) -> None:
    """Headers, metadata and standard_metadata: one storage, which ingress's parameters name."""
    ingress = blocks["ig"]
    root = Body(lowering, ingress.env, "top", "")
    places: list[SlotPlace] = []
    for param in ingress.decl.params:
        place = lowering.frame.allocate(root.typeref(param.type), param.name, param.span)
        places.append(place)
    headers, metadata, standard = places
    lowering.standard_metadata = standard
    packet = lowering.packet
    given: dict[str, tuple[SlotPlace | ExternInst, ...]] = {
        "p": (packet, headers, metadata, standard),
        "vr": (headers, metadata),
        "ig": (headers, metadata, standard),
        "eg": (headers, metadata, standard),
        "ck": (headers, metadata),
        "dep": (packet, headers),
    }
    for name, arguments in given.items():
        block = blocks[name]
        if len(block.decl.params) != len(arguments):
            raise problem(f"{block.decl.name} has the wrong number of parameters", block.decl.span)
        for param, argument in zip(block.decl.params, arguments, strict=True):
            block.env.bindings[id(param)] = argument
            block.params.append(argument)


# --- the program ----------------------------------------------------------------------------------


def _program(lowering: Lowering, blocks: dict[str, BlockInst]) -> ir.Program:
    headers, metadata, standard = blocks["ig"].params
    assert isinstance(headers, SlotPlace)
    assert isinstance(metadata, SlotPlace)
    assert isinstance(standard, SlotPlace)
    procs = [p for p in lowering.procs if p is not None]
    tables = [t for t in lowering.tables if t is not None]
    assert len(procs) == len(lowering.procs)
    assert len(tables) == len(lowering.tables)
    return ir.Program(
        slots=tuple(lowering.frame.slots),
        headers=tuple(lowering.frame.headers),
        arrays=tuple(lowering.frame.arrays),
        procs=tuple(procs),
        tables=tuple(tables),
        instances=tuple(lowering.instances),
        value_sets=tuple(lowering.value_sets),
        standard_metadata={name: standard.member(name).base for name, _ in members(standard.type)},
        metadata=(metadata.base, size_of(metadata.type)),
        headers_out=(headers.base, size_of(headers.type)),
        field_lists=_field_lists(metadata, _named_numbers(lowering.checked)),
        errors=lowering.checked.errors,
        **{name: blocks[param].proc for param, name in BLOCKS.items()},
    )


def _named_numbers(checked: Checked) -> dict[str, int]:
    """Top-level integer constants and enum members, which @field_list may name."""
    found = {}
    for decl in checked.program.decls:
        if isinstance(decl, ast.ConstDecl):
            value = checked.consts.get(id(decl.value))
            if isinstance(value, int):
                found[decl.name] = int(value)
        elif isinstance(decl, ast.EnumDecl):
            for member in decl.members:
                value = None if member.value is None else checked.consts.get(id(member.value))
                if isinstance(value, int):
                    found[f"{decl.name}.{member.name}"] = int(value)
    return found


def _field_lists(metadata: SlotPlace, names: dict[str, int]) -> dict[int, tuple[int, ...]]:
    """Slots of the metadata fields tagged @field_list(…), by list index."""
    found: dict[int, list[int]] = {}
    _tagged(metadata, frozenset(), found, names)
    return {index: tuple(slots) for index, slots in sorted(found.items())}


def _tagged(
    place: SlotPlace, tags: frozenset[int], found: dict[int, list[int]], names: dict[str, int]
) -> None:
    """A tag on a struct holds for all its fields."""
    type_ = strip(place.type)
    if is_scalar(type_) or not isinstance(type_, StructT | StackT):
        for tag in sorted(tags):
            found.setdefault(tag, []).extend(range(place.base, place.base + size_of(type_)))
        return
    if isinstance(type_, StackT) or type_.kind != "struct":
        for tag in sorted(tags):
            found.setdefault(tag, []).extend(range(place.base, place.base + size_of(type_)))
        if isinstance(type_, StackT):
            return
    for field in type_.fields:
        own = frozenset(_indices(field.annotations, names))
        inherited = tags if type_.kind == "struct" else frozenset()
        _tagged(place.member(field.name), inherited | own, found, names)


def _indices(annotations: tuple[ast.Annotation, ...], names: dict[str, int]) -> list[int]:
    """The numbers of `@field_list(1, 2)`; names are constants and enum members."""
    out: list[int] = []
    for annotation in annotations:
        if annotation.name != "field_list":
            continue
        for token in "".join(annotation.tokens).split(","):
            try:
                out.append(names[token] if token in names else int(token.rsplit("w", 1)[-1], 0))
            except ValueError:
                raise problem(
                    f"@field_list takes numbers or constants, not {token}", annotation.span
                ) from None
    return out
