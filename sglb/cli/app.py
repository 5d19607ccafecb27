"""The commands and their options."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from sglb.cli import files
from sglb.cli.arguments import Define, Include
from sglb.cli.collective import collective_app
from sglb.cli.control import control_command
from sglb.cli.entry import Interrupted, raise_on_signals
from sglb.cli.errors import INCOMPLETE, UserError, tell
from sglb.cli.fluid import fluid_command
from sglb.cli.lab import export_command, load_command
from sglb.cli.progress import RunProgress
from sglb.cli.savings import savings_command
from sglb.cli.serving import switch_command
from sglb.cli.sonic import sonic_app
from sglb.cli.table import FILE_WIDTH, show
from sglb.cli.tune import tune_command
from sglb.cli.tutorial import tutorial_command
from sglb.fabric.packet_trace import TraceRequest
from sglb.fabric.report import RunReport
from sglb.fabric.run import LiveOptions, RunInterrupted, run, versions
from sglb.p4.print_ir import print_ir


class _Commands(TyperGroup):
    """The commands; what Ctrl-C does to one of them is ours to tell, not the library's."""

    def invoke(self, ctx: Any) -> Any:
        raise_on_signals()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None


app = typer.Typer(
    cls=_Commands,
    name="sglb",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=(
        "Global load balancing for AI fabrics. Runs P4 programs in simulated fabrics and in "
        "switches of its own.\n\n--debug, anywhere, shows the trace of an error."
    ),
)


def _version(wanted: bool) -> None:
    if wanted:
        found = versions()
        typer.echo(f"sglb {found['sglb']} (Python {found['python']})")
        raise typer.Exit


class EngineChoice(StrEnum):
    """What runs the switches and hosts of a scenario."""

    NATIVE = "native"
    REFERENCE = "reference"


class OnChoice(StrEnum):
    """Where a scenario runs."""

    SIM = "sim"
    LIVE = "live"
    BMV2 = "bmv2"


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """Options that stand before a command."""


@app.command("run", no_args_is_help=True)
def run_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A scenario in YAML.")],
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", "-p", metavar="NAME", help="Run only this one; repeatable."),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write every number to FILE (- for stdout)."),
    ] = None,
    program: Annotated[
        Path | None,
        typer.Option("--program", metavar="P4", help="Run this program in every switch."),
    ] = None,
    control_plane: Annotated[
        str,
        typer.Option("--control-plane", metavar="NAME", help="Who fills the switches' tables."),
    ] = "default",
    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            help="Follow the first packet that takes another path because of the first cut, "
            "under the last policy.",
        ),
    ] = False,
    trace_packet: Annotated[
        str | None,
        typer.Option(
            "--trace-packet", metavar="SRC:DST:N", help="Follow this data packet instead."
        ),
    ] = None,
    trace_all: Annotated[
        bool, typer.Option("--trace-all", help="Follow it through every assignment.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, metavar="N", help="Policies at a time [one a CPU]."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Instead of the scenario's seed.")
    ] = None,
    on: Annotated[
        OnChoice,
        typer.Option(
            "--on",
            help="sim: virtual time; live: switches, agents and controllers as processes over veth "
            "(needs root); bmv2: as live, with simple_switch_grpc.",
        ),
    ] = OnChoice.SIM,
    rate_scale: Annotated[
        int | None,
        typer.Option(
            "--rate-scale",
            min=1,
            metavar="N",
            help="With --on live: divide rates by N [as far as one machine can follow].",
        ),
    ] = None,
    logs: Annotated[
        Path | None,
        typer.Option(
            "--logs", metavar="DIR", help="With --on live: keep the logs of all processes in DIR."
        ),
    ] = None,
    engine: Annotated[
        EngineChoice | None,
        typer.Option("--engine", help="Instead of the scenario's engine."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No table and no progress bar.")
    ] = False,
) -> None:
    """Run a scenario under each policy and compare what happened to the packets.

    Ends with 0 when every policy completed, with 3 when one did not, with 1 for a mistake in a file
    or an option, with 130 when interrupted (143 by SIGTERM): then what is known by then is shown.
    """
    scenario = files.scenario(file, seed, None if engine is None else engine.value)
    request = None
    if trace_packet is not None:
        request = TraceRequest.parse(trace_packet, trace_all)
    elif trace or trace_all:
        request = TraceRequest(every_step=trace_all)
    with files.output(json_file) as write, RunProgress(quiet) as progress:
        try:
            report = run(
                scenario,
                policies=policy,
                program=None if program is None else files.program(program),
                control_plane=control_plane,
                jobs=jobs,
                trace=request,
                progress=progress,
                on=on.value,
                live=LiveOptions(rate_scale, logs),
            )
        except RunInterrupted as stopped:
            report = stopped.report
        write(report.to_json())
    if report.policies and not quiet:
        show(scenario, report, _console(on_stderr=str(json_file) == "-"))
    _show_trace(report, named=trace_packet is not None)
    if report.interrupted:
        wanted = len(set(policy or scenario.policies))
        finished = sum(not found.interrupted for found in report.policies.values())
        raise Interrupted(f"{finished} of {wanted} policies had finished")
    if not report.completed:
        raise typer.Exit(INCOMPLETE)


def _console(on_stderr: bool) -> Console:
    console = Console(stderr=on_stderr)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


def _show_trace(report: RunReport, named: bool) -> None:
    for found in report.policies.values():
        if found.trace is None:
            continue
        if named and not found.trace.hops:
            raise UserError(f"policy {found.policy}: {found.trace.why}")
        typer.echo(f"\nOne packet's way under {found.trace.text}")


@app.command("compile", no_args_is_help=True)
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


@app.command("check", no_args_is_help=True)
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


app.command("switch")(switch_command)
app.command("export", no_args_is_help=True)(export_command)
app.command("load", no_args_is_help=True)(load_command)
app.command("tutorial")(tutorial_command)
app.command("control", no_args_is_help=True)(control_command)
app.command("savings")(savings_command)
app.command("fluid")(fluid_command)
app.command("tune", no_args_is_help=True)(tune_command)
app.add_typer(collective_app)
app.add_typer(sonic_app)


@app.command("version")
def version_command() -> None:
    """Print the versions of sglb and of what it stands on."""
    for name, number in versions().items():
        typer.echo(f"{name} {number}")


def execute(arguments: list[str]) -> None:
    """Run the command that the arguments say. Ends by SystemExit or `Interrupted`."""
    debug = "--debug" in arguments
    try:
        app([a for a in arguments if a != "--debug"])
    except Exception as error:
        sys.exit(tell(error, debug))
