"""`sglb compile` and `sglb check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sglb.cli import files
from sglb.cli.arguments import Define, Include
from sglb.cli.errors import tell
from sglb.p4.print_ir import print_ir


def compile_command(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM.p4", help="A v1model program.")],
    include: Include = None,
    define: Define = None,
    p4info: Annotated[
        Path | None,
        typer.Option("--p4info", metavar="FILE", help="Write P4Info as protobuf text."),
    ] = None,
    entries: Annotated[
        Path | None,
        typer.Option("--entries", metavar="FILE", help="Write the program's own table entries."),
    ] = None,
    show_ir: Annotated[
        bool, typer.Option("--print-ir", help="Print the intermediate representation.")
    ] = False,
) -> None:
    """Compile a P4 program; FILE may be - for standard output.

    Without any output, tells what is in the program.
    """
    compiled = files.program(program, include, define)
    with files.output(p4info) as write:
        write(files.p4info_text(compiled))
    with files.output(entries) as write:
        write(files.entries_text(compiled))
    if show_ir:
        typer.echo(print_ir(compiled.ir), nl=False)
    elif p4info is None and entries is None:
        typer.echo(f"{program}: OK: {files.summary(compiled)}")


def check_command(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Scenarios (.yaml), programs (.p4).")
    ],
    include: Include = None,
    define: Define = None,
) -> None:
    """Check scenarios and P4 programs; tell every mistake."""
    failed = 0
    for path in paths:
        try:
            files.check(path, include, define)
        except Exception as error:
            failed = max(failed, tell(error, debug=False))
        else:
            typer.echo(f"{path}: OK")
    if failed:
        raise typer.Exit(failed)
