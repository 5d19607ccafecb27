"""The front door of the P4 compiler: source text in, a program ready to run and its P4Info out.

A program that was compiled before comes from the disk, and then the compiler's phases aren't even
imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from finsy.proto import p4i, p4r

from sglb.p4 import ir, program_cache
from sglb.p4.deep import run_deep
from sglb.p4.source import read_program
from sglb.p4.sourcemap import P4Warning, SourceMap


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

    def __reduce__(self) -> tuple[Callable[..., CompiledProgram], tuple[object, ...]]:
        # finsy's messages cannot be pickled themselves.
        messages = self.p4info.SerializeToString(), [e.SerializeToString() for e in self.entries]
        return _restored, (self.ir, *messages, self.sources, self.warnings, self.digest)


def _restored(
    code: ir.Program,
    p4info: bytes,
    entries: Sequence[bytes],
    sources: SourceMap,
    warnings: tuple[P4Warning, ...],
    digest: str,
) -> CompiledProgram:
    updates = tuple(p4r.Update.FromString(entry) for entry in entries)
    return CompiledProgram(code, p4i.P4Info.FromString(p4info), updates, sources, warnings, digest)


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

    A file's program is kept on disk (see `program_cache`) and taken from there while no file it is
    made of changes.

    Raises `P4Errors` with every error found, each with its place, source line and hint; an unreadable
    file is one of them.
    """
    folders = [Path(d) for d in include_dirs]
    if not isinstance(source, Path):
        return _compile(source, "<program>" if filename is None else filename, folders, defines)
    text = read_program(source)
    name = str(source) if filename is None else filename
    key = program_cache.key(text, name, folders, defines)
    program = None if key is None else program_cache.load(key)
    if program is None:
        program = _compile(text, name, folders, defines)
        if key is not None:
            program_cache.save(key, program)
    return program


def _compile(
    text: str, name: str, include_dirs: Sequence[Path], defines: Mapping[str, str] | None
) -> CompiledProgram:
    from sglb.p4.front_end import compile_text  # a third of a second that a kept program spares

    return run_deep(lambda: compile_text(text, name, include_dirs, defines))
