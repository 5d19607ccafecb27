"""The compiler's phases one after the other: parse, check, lower, P4Info, verify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sglb.p4 import ir
from sglb.p4.check import check
from sglb.p4.compiler import CompiledProgram
from sglb.p4.control_plane import ControlPlane
from sglb.p4.lower import lower
from sglb.p4.p4info import collect_symbols, make_entries, make_p4info
from sglb.p4.p4info_names import Prefix, SymbolTable
from sglb.p4.parser import parse_program
from sglb.p4.placement import check_placement
from sglb.p4.source import P4Error, P4Errors, Span
from sglb.p4.verify_ir import verify


def compile_text(
    text: str, name: str, include_dirs: Sequence[Path], defines: Mapping[str, str] | None
) -> CompiledProgram:
    """Compiles a program's text; arguments and errors are those of `compiler.compile`."""
    program, sources = parse_program(text, name, include_dirs=include_dirs, defines=defines)
    checked = check(program, sources)
    try:
        lowered, plane = lower(checked)
        check_placement(lowered)
        p4info = make_p4info(plane)
        entries = tuple(make_entries(plane).updates)
        numbered = _with_ids(lowered, plane)
        verify(numbered)
    except P4Error as error:
        raise P4Errors([sources.fill(error)]) from error
    except RecursionError:
        deep = P4Error("the program nests too deeply", Span(name, 1, 1), phase="lower")
        raise P4Errors([sources.fill(deep)]) from None
    return CompiledProgram(
        numbered, p4info, entries, sources, tuple(sources.warnings), sources.digest
    )


def _with_ids(program: ir.Program, plane: ControlPlane) -> ir.Program:
    """The program with the ids that P4Info gives its objects, hidden ones included."""
    symbols = collect_symbols(plane)
    tables = tuple(
        replace(
            table,
            p4info_id=symbols.id(Prefix.TABLE, table.name),
            actions=tuple(
                replace(a, p4info_id=symbols.id(Prefix.ACTION, a.name)) for a in table.actions
            ),
        )
        for table in program.tables
    )
    instances = tuple(replace(i, p4info_id=_instance_id(symbols, i)) for i in program.instances)
    value_sets = tuple(
        replace(v, p4info_id=symbols.id(Prefix.VALUE_SET, v.name)) for v in program.value_sets
    )
    return replace(program, tables=tables, instances=instances, value_sets=value_sets)


_PREFIXES = {
    ir.InstanceKind.REGISTER: Prefix.REGISTER,
    ir.InstanceKind.COUNTER: Prefix.COUNTER,
    ir.InstanceKind.DIRECT_COUNTER: Prefix.DIRECT_COUNTER,
    ir.InstanceKind.METER: Prefix.METER,
    ir.InstanceKind.DIRECT_METER: Prefix.DIRECT_METER,
    ir.InstanceKind.ACTION_PROFILE: Prefix.ACTION_PROFILE,
    ir.InstanceKind.ACTION_SELECTOR: Prefix.ACTION_PROFILE,
    ir.InstanceKind.DIGEST: Prefix.DIGEST,
}


def _instance_id(symbols: SymbolTable, instance: ir.Instance) -> int:
    """The id of an extern instance; 0 for what P4Info does not show."""
    prefix = _PREFIXES.get(instance.kind)
    if prefix is None:
        return 0
    try:
        return symbols.id(prefix, instance.name)
    except KeyError:  # a direct counter or meter that no table has
        return 0
