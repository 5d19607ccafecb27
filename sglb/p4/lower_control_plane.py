"""What a lowered program shows its control plane, in the order in which p4c lists it.

p4c walks the blocks of the evaluated package level by level, after it has inlined controls into their
callers where their instances are declared, copied global actions to the head of each control that
uses them, and dropped what nothing uses (extern instances are kept).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sglb.p4 import ast
from sglb.p4.control_plane import (
    ControlPlane,
    CpAction,
    CpControllerHeader,
    CpCounter,
    CpParam,
    CpProfile,
    CpRegister,
    CpValueSet,
)
from sglb.p4.lower_core import Body, Lowering
from sglb.p4.lower_env import (
    ActionInst,
    BlockInst,
    ExternInst,
    TableInst,
    ValueSetInst,
    name_annotation,
    problem,
)
from sglb.p4.types import NewT, Type


def control_plane(
    lowering: Lowering, globals_: Sequence[ExternInst], blocks: Sequence[BlockInst]
) -> ControlPlane:
    """Everything a program shows."""
    checked = lowering.checked
    plane = ControlPlane(errors=checked.errors, has_externs=lowering.has_externs)
    if checked.main is not None:
        plane.package_annotations = checked.main.annotations
    for extern in globals_:
        _extern(lowering, plane, extern)
    declared: dict[str, ast.ActionDecl] = {}
    for block in blocks:
        _value_sets(plane, block)
        _actions(lowering, plane, block, declared)
    for block in blocks:
        for member in _members(block):
            if isinstance(member, ExternInst):
                _extern(lowering, plane, member)
            elif isinstance(member, TableInst) and member.shown is not None:
                _table(lowering, plane, member)
    _controller_headers(lowering, plane)
    _unique(lowering, plane, blocks)
    return plane


Member = ExternInst | TableInst | ActionInst | ValueSetInst


def _members(block: BlockInst) -> Iterator[Member]:
    """What a block declares, its sub-controls' and sub-parsers' members in their instances' place."""
    for member in block.members:
        if isinstance(member, BlockInst):
            if member.proc >= 0:
                yield from _members(member)
        elif isinstance(member, ExternInst | TableInst | ActionInst | ValueSetInst):
            yield member


def _nested(block: BlockInst) -> Iterator[BlockInst]:
    yield block
    for member in block.members:
        if isinstance(member, BlockInst) and member.proc >= 0:
            yield from _nested(member)


def _value_sets(plane: ControlPlane, block: BlockInst) -> None:
    for member in _members(block):
        if isinstance(member, ValueSetInst):
            plane.value_sets.append(
                CpValueSet(member.name, member.decl.annotations, type=member.type, size=member.size)
            )


# --- actions --------------------------------------------------------------------------------------


def _actions(
    lowering: Lowering,
    plane: ControlPlane,
    block: BlockInst,
    declared: dict[str, ast.ActionDecl],
) -> None:
    """A block's actions that a table lists or a body calls: global ones first, in order of use."""
    local = [m for m in _members(block) if isinstance(m, ActionInst)]
    used = [a for a in local if a.in_table or a.called]
    for action in [*_global_actions(lowering, block), *used]:
        known = declared.setdefault(action.name, action.decl)
        if known is action.decl:
            if all(a.name != action.name for a in plane.actions):
                plane.actions.append(_action(lowering, action))
        else:  # a controller could not tell them apart
            raise problem(
                f"two actions are called {action.name}",
                action.decl.span,
                hint=f"the other stands in line {known.span.line}; give one another @name",
            )
        for digest in action.digests:
            if digest not in plane.digests:
                plane.digests.append(digest)
    for inner in _nested(block):
        for digest in inner.digests:
            if digest not in plane.digests:
                plane.digests.append(digest)


def _global_actions(lowering: Lowering, block: BlockInst) -> list[ActionInst]:
    found: list[ActionInst] = []
    for member in _members(block):
        if isinstance(member, TableInst) and member.shown is not None:
            found += [a for a in member.actions if a.env is lowering.root and a not in found]
    for inner in _nested(block):
        found += [a for a in inner.called_globals if a not in found]
    return found


def _action(lowering: Lowering, action: ActionInst) -> CpAction:
    """Parameters are the control plane's only if a table supplies them."""
    body = Body(lowering, action.env, "action", action.name)
    params = tuple(
        CpParam(name_annotation(p.annotations, p.name), body.typeref(p.type), p.annotations)
        for p in action.decl.params
        if not p.direction and action.in_table
    )
    return CpAction(action.name, action.decl.annotations, params=params)


# --- tables and externs ---------------------------------------------------------------------------


def _table(lowering: Lowering, plane: ControlPlane, table: TableInst) -> None:
    assert table.shown is not None
    plane.tables.append(table.shown)
    if table.profile is not None:
        _extern(lowering, plane, table.profile)
    lowered = lowering.tables[table.index]
    assert lowered is not None
    for index in (lowered.direct_counter, lowered.direct_meter):
        if index is not None:
            _direct(lowering, plane, lowering.externs[index])


def _direct(lowering: Lowering, plane: ControlPlane, extern: ExternInst) -> None:
    assert extern.index is not None
    lowered = lowering.instances[extern.index]
    plane.counters.append(
        CpCounter(
            extern.name,
            extern.annotations,
            kind="counter" if extern.extern == "direct_counter" else "meter",
            unit=lowered.counts,
            table=extern.tables[0],
            direct=True,
        )
    )


def _extern(lowering: Lowering, plane: ControlPlane, extern: ExternInst) -> None:
    assert extern.index is not None
    lowered = lowering.instances[extern.index]
    name, annotations = extern.name, extern.annotations
    if extern.extern in ("counter", "meter"):
        plane.counters.append(
            CpCounter(
                name,
                annotations,
                kind=extern.extern,
                unit=lowered.counts,
                size=lowered.size,
                index_type=_index_type(extern, 0),
            )
        )
    elif extern.extern == "register":
        plane.registers.append(
            CpRegister(
                name,
                annotations,
                type=extern.type.args[0],
                size=lowered.size,
                index_type=_index_type(extern, 1),
            )
        )
    elif extern.extern in ("action_profile", "action_selector"):
        plane.profiles.append(
            CpProfile(
                name,
                annotations,
                selector=extern.extern == "action_selector",
                size=lowered.size,
                tables=tuple(extern.tables),
            )
        )


def _index_type(extern: ExternInst, position: int) -> Type | None:
    args = extern.type.args
    if position < len(args) and isinstance(args[position], NewT):
        return args[position]
    return None


# --- headers --------------------------------------------------------------------------------------


def _controller_headers(lowering: Lowering, plane: ControlPlane) -> None:
    """Headers marked @controller_header, in the order of declaration."""
    for decl in lowering.checked.program.decls:
        if not isinstance(decl, ast.StructDecl) or decl.kind != "header":
            continue
        title = _annotation(decl, "controller_header")
        if title is None:
            continue
        body = Body(lowering, lowering.root, "top", "")
        fields = tuple(
            CpParam(name_annotation(f.annotations, f.name), body.typeref(f.type), f.annotations)
            for f in decl.fields
        )
        type_name = name_annotation(decl.annotations, decl.name).removeprefix(".")
        plane.controller_headers.append(
            CpControllerHeader(title, decl.annotations, type_name=type_name, fields=fields)
        )


def _annotation(decl: ast.Decl, name: str) -> str | None:
    for annotation in decl.annotations:
        if annotation.name == name:
            return "".join(annotation.tokens)
    return None


def _unique(lowering: Lowering, plane: ControlPlane, blocks: Sequence[BlockInst]) -> None:
    """Two tables of one name could not be told apart by a controller."""
    seen: dict[str, TableInst] = {}
    for block in blocks:
        for member in _members(block):
            if not isinstance(member, TableInst) or member.shown is None:
                continue
            if member.name in seen:
                raise problem(
                    f"two tables are called {member.name}",
                    member.decl.span,
                    hint="give the instances they belong to different names, with @name",
                )
            seen[member.name] = member
    assert len(seen) == len(plane.tables)
    assert len(lowering.tables) == len(seen)
