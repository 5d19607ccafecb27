"""A program as one LLVM module: blocks, entry points, and the functions that these call."""

from __future__ import annotations

from dataclasses import dataclass

from sglb.p4 import ir
from sglb.p4.native.emit_hash import hash_functions, random_between_function, random_function
from sglb.p4.native.emit_lookup import count_function, lookup_function, value_set_function
from sglb.p4.native.emit_meter import meter_functions
from sglb.p4.native.emit_parser import Reach
from sglb.p4.native.emit_pass import emit_blocks, emit_entries
from sglb.p4.native.layout import Layout
from sglb.p4.native.unit import Unit
from sglb.p4.native.usage import statements

# Importing them registers their translators.
from sglb.p4.native import emit_extern, emit_request, emit_table  # isort: skip  # noqa: F401

#: Bytes that a deparser with loops may write beyond its headers once each.
_LOOPED_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Module:
    """LLVM text and what was decided while writing it."""

    text: str
    unit: Unit


def write_module(program: ir.Program) -> Module:
    """Translates a program. ValueError for an unknown extern, hash algorithm or core error."""
    layout = Layout(program)
    reach = Reach(program)
    once = _emitted_bytes(program, layout)
    watch = layout.blocks["deparser"].loops
    unit = Unit(
        program,
        layout,
        unaligned=_unaligned(program),
        cyclic=reach.steps is None,
        max_parse_bytes=None if reach.bits is None else reach.bits + 7 >> 3,
        max_header_bytes=-(-once // 8) * 8 + 8 + (_LOOPED_BYTES if watch else 0),
        watch_output=watch,
    )
    emit_blocks(unit)
    emit_entries(unit)
    parts = [*_support(unit), *unit.functions, "!0 = !{}\n"]
    return Module("\n".join(parts), unit)


def _support(unit: Unit) -> list[str]:
    """The functions of tables, hashes, meters and random numbers."""
    program = unit.program
    parts = [count_function(), meter_functions()]
    used = {stmt.table for proc in program.procs for stmt in _applies(proc)}
    hashes = set(unit.hashes)
    for index, table in enumerate(program.tables):
        if index not in used:
            continue
        algorithm = "crc32"
        if table.implementation is not None:
            algorithm = program.instances[table.implementation].algorithm or algorithm
            hashes.add(algorithm)
        parts.append(lookup_function(table, index, algorithm, unit.table_trails.get(index)))
    parts += [value_set_function(decl, index) for index, decl in enumerate(program.value_sets)]
    parts.append(hash_functions(hashes))
    if unit.random_widths or "random" in hashes:
        parts.append(random_function())
    parts += [random_between_function(width) for width in sorted(unit.random_widths)]
    return parts


def _applies(proc: ir.Proc) -> list[ir.Apply]:
    return [stmt for stmt in statements([proc.body]) if isinstance(stmt, ir.Apply)]


def _unaligned(program: ir.Program) -> bool:
    """Whether the parser or deparser can stand inside a byte."""
    if any(header.width % 8 for header in program.headers):
        return True
    bodies = (state.body for proc in program.procs for state in proc.states)
    return any(
        isinstance(stmt, ir.Extract) and stmt.header is None and stmt.width % 8
        for stmt in statements(bodies)
    )


def _emitted_bytes(program: ir.Program, layout: Layout) -> int:
    """Bytes that the deparser writes at most, if each of its statements runs once."""
    total: dict[int, int] = {}
    for index in layout.blocks["deparser"].procs:  # callees first
        bits = sum(count * total[p] for p, count in layout.uses[index].calls.items())
        for stmt in statements([program.procs[index].body]):
            if isinstance(stmt, ir.Emit):
                bits += sum(field.width for field in program.headers[stmt.header].fields)
        total[index] = bits
    return total[program.deparser] + 7 >> 3
