"""The commands and their options."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer
from finsy.proto import p4r
from google.protobuf import text_format
from rich.console import Console

from sglb.fabric import scenario as scenarios
from sglb.fabric.bounds import BoundError
from sglb.fabric.control import ControlPlaneNotFoundError
from sglb.fabric.run import UnknownPolicyError, run
from sglb.fabric.workers import WorkerError
from sglb.fabric.yaml_source import SourceError
from sglb.p4.compiler import CompiledProgram, compile  # noqa: A004 - the documented name
from sglb.p4.print_ir import print_ir
from sglb.p4.source import P4Errors

#: What a user can put right: its text is enough.
USER_ERRORS = (
    BoundError,
    ControlPlaneNotFoundError,
    OSError,
    P4Errors,
    SourceError,
    UnknownPolicyError,
    WorkerError,
)

app = typer.Typer(
    name="sglb",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Global load balancing for AI fabrics: run, compile and check, in virtual or real time.",
)


@app.callback()
def _common() -> None:
    """Global load balancing for AI fabrics."""


@app.command("run")
def run_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A scenario in YAML.")],
    policy: Annotated[
        list[str] | None, typer.Option("--policy", "-p", help="Only this policy; repeatable.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every number to this file.")
    ] = None,
    program: Annotated[
        Path | None, typer.Option("--program", help="Another P4 program for all switches.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Policies at a time.")
    ] = None,
) -> None:
    """Run a scenario under each policy and compare what happened to the packets."""
    report = run(scenarios.load(file), policies=policy, program=program, jobs=jobs)
    if json_file is not None:
        json_file.write_text(report.to_json())
    console = Console()
    for found in report.policies.values():
        console.print(found.policy, found.completion_us, found.ratio, found.lost_packets)
    if not report.completed:
        raise typer.Exit(1)


def _defines(texts: list[str] | None) -> dict[str, str]:
    return {name: value or "1" for name, _, value in (t.partition("=") for t in texts or ())}


@app.command("compile")
def compile_command(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM.p4")],
    include: Annotated[list[Path] | None, typer.Option("--include", "-I")] = None,
    define: Annotated[list[str] | None, typer.Option("--define", "-D")] = None,
    p4info: Annotated[Path | None, typer.Option("--p4info")] = None,
    entries: Annotated[Path | None, typer.Option("--entries")] = None,
    show_ir: Annotated[bool, typer.Option("--print-ir")] = False,
) -> None:
    """Compile a v1model program; write its P4Info and its own entries as protobuf text."""
    compiled = compile(program, include_dirs=include or (), defines=_defines(define))
    _warn(compiled)
    if p4info is not None:
        p4info.write_text(text_format.MessageToString(compiled.p4info))
    if entries is not None:
        request = p4r.WriteRequest(updates=compiled.entries)
        entries.write_text(text_format.MessageToString(request))
    if show_ir:
        typer.echo(print_ir(compiled.ir), nl=False)


def _warn(program: CompiledProgram) -> None:
    for warning in program.warnings:
        typer.echo(str(warning), err=True)


@app.command("check")
def check_command(path: Annotated[Path, typer.Argument(metavar="FILE")]) -> None:
    """Check a scenario or a P4 program; tell every mistake."""
    if path.suffix == ".p4":
        _warn(compile(path))
    else:
        scenarios.load(path)
    typer.echo(f"{path}: OK")


def main() -> None:
    """The `sglb` command."""
    try:
        app()
    except USER_ERRORS as error:
        typer.echo(f"error: {error}", err=True)
        if "--debug" in sys.argv:
            traceback.print_exc()
        sys.exit(1)
