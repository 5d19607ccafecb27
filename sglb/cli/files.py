"""Files that the commands read and write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from finsy.proto import p4r
from google.protobuf import text_format

from sglb.cli.errors import UserError
from sglb.p4.compiler import CompiledProgram, compile  # noqa: A004 - the documented name
from sglb.p4.ir import InstanceKind
from sglb.whole_file import check_writable, write_whole

# Functions import what not every command has to wait for.
if TYPE_CHECKING:
    from finsy import P4Schema

    from sglb.fabric.scenario import Scenario
    from sglb.fabric.yaml_source import Source


def scenario(path: Path, seed: int | None = None, engine: str | None = None) -> Scenario:
    """A checked scenario that can complete, with another seed and engine if given; its warnings told.

    Raises `SourceError`, `UserError` for the seed.
    """
    from sglb.fabric import cut_off
    from sglb.fabric.yaml_source import SourceError, read_file

    source = read_file(path)
    if seed is not None:
        source.data["seed"] = seed
    if engine is not None:
        source.data["engine"] = engine
    checked = _checked(source, seed)
    for warning in checked.warnings:
        typer.echo(f"warning: {warning}", err=True)
    found = cut_off.find(checked)
    if found is not None:
        raise SourceError([source.problem(found.path, found.message)])
    return checked


def _checked(source: Source, seed: int | None) -> Scenario:
    from sglb.fabric import scenario as scenarios
    from sglb.fabric.yaml_source import SourceError

    try:
        return scenarios.check(source)
    except SourceError as error:
        for problem in error.problems:
            if seed is not None and problem.path == ("seed",):
                raise UserError(f"--seed {seed}: {problem.message}") from None
        raise


def program(
    path: Path, include: Sequence[Path] | None = None, define: Sequence[str] | None = None
) -> CompiledProgram:
    """A compiled program, its warnings told. Raises `P4Errors`, `UserError` for a bad -I or -D."""
    for folder in include or ():
        if not folder.is_dir():
            raise UserError(f"-I {folder}: there is no such folder")
    compiled = compile(path, include_dirs=include or (), defines=_macros(define or ()))
    for warning in compiled.warnings:
        typer.echo(str(warning), err=True)
    return compiled


def _macros(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.isidentifier() or not name.isascii():
            raise UserError(f"-D {text}: {name!r} is no name for a macro; write NAME or NAME=VALUE")
        found[name] = value if equals else "1"
    return found


def entries(path: Path, schema: P4Schema) -> list[p4r.Update]:
    """What a switch shall hold: a runtime file (.json), or one of BMv2's commands (.txt).

    Raises `RuntimeFileError`.
    """
    from sglb.switch import commands_file, runtime_file

    read = commands_file.read if path.suffix == ".txt" else runtime_file.read
    return read(path, schema)


def check(path: Path, include: Sequence[Path] | None, define: Sequence[str] | None) -> None:
    """Read and check a file by its kind. Raises what is wrong with it."""
    if path.suffix == ".p4":
        program(path, include, define)
    elif path.suffix in (".yaml", ".yml"):
        scenario(path)
    else:
        raise UserError(f"{path}: neither a scenario (.yaml, .yml) nor a program (.p4)")


def folder_for(option: str, path: Path) -> None:
    """Makes a folder that an option names, if it is not there. Raises `UserError`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{option} {path}: is no folder: {error.strerror}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(f"{option} {path}: cannot be written to")


def summary(compiled: CompiledProgram) -> str:
    """`2 tables (1,024 entries), 3 actions, 1 register (256 bits)`: what a program asks of a switch."""
    registers = [i for i in compiled.ir.instances if i.kind is InstanceKind.REGISTER]
    bits = sum(r.size * sum(r.elements) for r in registers)
    entries = sum(table.size for table in compiled.p4info.tables)
    parts = [
        _count(len(compiled.p4info.tables), "table", f" (room for {entries:,} entries)"),
        _count(len(compiled.p4info.actions), "action"),
        _count(len(registers), "register", f" ({bits:,} bits)"),
    ]
    return ", ".join(parts)


def _count(number: int, what: str, of: str = "") -> str:
    if not number:
        return f"no {what}s"
    return f"{number} {what}{'s' if number > 1 else ''}{of}"


def p4info_text(compiled: CompiledProgram) -> str:
    """P4Info as protobuf text."""
    return str(text_format.MessageToString(compiled.p4info))


def entries_text(compiled: CompiledProgram) -> str:
    """The program's own entries as a WriteRequest in protobuf text."""
    return str(text_format.MessageToString(p4r.WriteRequest(updates=compiled.entries)))


@contextmanager
def output(path: Path | None) -> Iterator[Callable[[str], None]]:
    """How to write a text to a file, to standard output (`-`) or nowhere (None).

    A bad path is told first, before the work; the file takes its new content only when the work has
    succeeded, and as a whole. Raises OSError, with the file's name.
    """
    if path is None:
        yield lambda _: None
    elif str(path) == "-":
        yield _to_standard_output
    else:
        check_writable(path)
        yield lambda text: write_whole(path, text)


def _to_standard_output(text: str) -> None:
    try:
        typer.echo(text, nl=False)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output") from None
