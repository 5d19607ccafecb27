"""Checks that v1model's packet functions are called in the control where they mean something.

`resubmit` and I2E clones belong to ingress, `recirculate` and E2E clones to egress: a call elsewhere
would do nothing, and p4c refuses it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sglb.p4 import ir
from sglb.p4.source import P4Error

_CLONES: Final = frozenset({"clone", "clone3", "clone_preserving_field_list"})
_INGRESS_ONLY: Final = frozenset({"resubmit", "resubmit_preserving_field_list"})
_EGRESS_ONLY: Final = frozenset({"recirculate", "recirculate_preserving_field_list"})


def check_placement(program: ir.Program) -> None:
    """Raises `P4Error` for the first call, in source order, that stands in the wrong control."""
    blocks = (
        ("parser", program.parser),
        ("verify_checksum", program.verify_checksum),
        ("ingress", program.ingress),
        ("egress", program.egress),
        ("compute_checksum", program.compute_checksum),
        ("deparser", program.deparser),
    )
    for block, proc in blocks:
        calls = _externs(program, proc)
        for call in sorted(calls, key=lambda c: (c.span.file, c.span.line, c.span.column)):
            wanted = _place_of(call)
            if wanted is not None and wanted != block:
                what = call.op.removesuffix("_preserving_field_list")
                if call.op in _CLONES:
                    what = f"{what}({'I2E' if wanted == 'ingress' else 'E2E'})"
                raise P4Error(
                    f"{what} can only be called in the {wanted} control, but the {block} block "
                    "reaches this call",
                    call.span,
                    hint="resubmit and I2E clones are for ingress, recirculate and E2E for egress",
                    phase="lower",
                )


def _place_of(call: ir.Extern) -> str | None:
    """The only control where a call has an effect; None where any will do, or nobody knows."""
    if call.op in _INGRESS_ONLY:
        return "ingress"
    if call.op in _EGRESS_ONLY:
        return "egress"
    if call.op in _CLONES and isinstance(call.ins[0], ir.Const):
        return "egress" if call.ins[0].value else "ingress"
    return None


def _externs(program: ir.Program, root: int) -> Iterator[ir.Extern]:
    """Every extern call that a procedure can reach."""
    seen, todo = {root}, [root]
    while todo:
        proc = program.procs[todo.pop()]
        bodies = [proc.body, *(state.body for state in proc.states)]
        for stmt in _statements(program, bodies):
            if isinstance(stmt, ir.Extern):
                yield stmt
            reached = _procs(program, stmt)
            todo += [p for p in reached if p not in seen]
            seen.update(reached)


def _procs(program: ir.Program, stmt: ir.Stmt) -> list[int]:
    if isinstance(stmt, ir.Call):
        return [stmt.proc]
    if isinstance(stmt, ir.Apply):
        return [action.proc for action in program.tables[stmt.table].actions]
    return []


def _statements(program: ir.Program, bodies: Sequence[Sequence[ir.Stmt]]) -> Iterator[ir.Stmt]:
    """All statements of these bodies, nested ones included."""
    todo = list(bodies)
    while todo:
        for stmt in todo.pop():
            yield stmt
            if isinstance(stmt, ir.If):
                todo += [stmt.then, stmt.other]
            elif isinstance(stmt, ir.Switch):
                todo += [body for _, body in stmt.cases]
                todo.append(stmt.default)
            elif isinstance(stmt, ir.Loop):
                todo += [stmt.cond_setup, stmt.body, stmt.update]
            elif isinstance(stmt, ir.Call):
                todo.append(stmt.copy_out)
            elif isinstance(stmt, ir.Apply):
                for action in program.tables[stmt.table].actions:
                    todo += [action.setup, action.copy_out]
