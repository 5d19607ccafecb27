"""The front door of the P4 compiler: source text in, a program ready to run and its P4Info out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from finsy.proto import p4i, p4r

from sglb.p4 import ir
from sglb.p4.check import check
from sglb.p4.control_plane import ControlPlane
from sglb.p4.deep import run_deep
from sglb.p4.lower import lower
from sglb.p4.p4info import collect_symbols, make_entries, make_p4info
from sglb.p4.p4info_names import Prefix, SymbolTable
from sglb.p4.parser import parse_program
from sglb.p4.placement import check_placement
from sglb.p4.preprocess import read_program
from sglb.p4.source import P4Error, P4Errors, Span
from sglb.p4.sourcemap import P4Warning, SourceMap
from sglb.p4.verify_ir import verify


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A compiled P4 program.

    `ir` is what runs. `p4info` and `entries` (INSERT updates for the entries that the program states)
    are what a controller sees, ids included. `sources` has the texts for diagnostics, `warnings` what
    the compiler found odd. `digest` is the SHA-256, in hex, of the preprocessed program.
    """

    ir: ir.Program
    p4info: p4i.P4Info
    entries: tuple[p4r.Update, ...]
    sources: SourceMap
    warnings: tuple[P4Warning, ...]
    digest: str


def compile(  # noqa: A001 - the name the documentation promises
    source: str | Path,
    *,
    include_dirs: Sequence[str | Path] = (),
    defines: Mapping[str, str] | None = None,
    filename: str | None = None,
) -> CompiledProgram:
    """Compile a v1model program.

    `source` is a file's path, or the program's text if it is a `str`; `filename` names a text in
    diagnostics, and its directory is where `#include "…"` looks first, then come `include_dirs` and the
    compiler's own core.p4 and v1model.p4. `defines` are macros, as -D gives them.

    Raises `P4Errors` with every error found, each with its place, source line and hint; an unreadable
    file is one of them.
    """
    if isinstance(source, Path):
        text = read_program(source)
        filename = str(source) if filename is None else filename
    else:
        text = source
    name = "<program>" if filename is None else filename
    return run_deep(lambda: _compile(text, name, [Path(d) for d in include_dirs], defines))


def _compile(
    text: str, name: str, include_dirs: Sequence[Path], defines: Mapping[str, str] | None
) -> CompiledProgram:
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
