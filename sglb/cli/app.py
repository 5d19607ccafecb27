"""The commands and their options."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from sglb.cli import files
from sglb.cli.collective import collective_app
from sglb.cli.entry import Interrupted, raise_on_signals
from sglb.cli.errors import INCOMPLETE, UserError, tell
from sglb.cli.progress import RunProgress
from sglb.cli.savings import savings_command
from sglb.cli.serving import check_address, parse_ports, serve_switch
from sglb.cli.table import FILE_WIDTH, show
from sglb.fabric.packet_trace import TraceRequest
from sglb.fabric.report import RunReport
from sglb.fabric.run import RunInterrupted, run, versions
from sglb.p4.print_ir import print_ir
from sglb.switch.config import SwitchConfig
from sglb.switch.live import ServeOptions


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


Include = Annotated[
    list[Path] | None,
    typer.Option("--include", "-I", metavar="DIR", help="Look here for #include; repeatable."),
]
Define = Annotated[
    list[str] | None,
    typer.Option("--define", "-D", metavar="NAME[=VALUE]", help="Define a macro; repeatable."),
]


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


@app.command("switch")
def switch_command(
    program: Annotated[
        Path | None,
        typer.Argument(metavar="[PROGRAM.p4]", help="Without one, a controller loads it."),
    ] = None,
    grpc: Annotated[
        str, typer.Option("--grpc", metavar="HOST:PORT", help="P4Runtime here; port 0 picks one.")
    ] = "127.0.0.1:9559",
    pcap_dir: Annotated[
        Path | None,
        typer.Option(
            "--pcap-dir",
            metavar="DIR",
            help="Port N reads DIR/N.pcap (a file or a named pipe) and writes DIR/N_out.pcap.",
        ),
    ] = None,
    ports: Annotated[
        str,
        typer.Option("--ports", metavar="N", help="Ports 1 to N, or a list such as 0,2-5."),
    ] = "",
    device_id: Annotated[int, typer.Option("--device-id", min=1, metavar="N")] = 1,
    cpu_port: Annotated[int, typer.Option("--cpu-port", min=0, max=511, metavar="N")] = 510,
    speed: Annotated[
        float,
        typer.Option(
            "--speed", min=0, metavar="X", help="Replay input X times as fast; 0: at once."
        ),
    ] = 1.0,
    input_delay_s: Annotated[
        float,
        typer.Option("--input-delay", min=0, metavar="S", help="Hold input back for S seconds."),
    ] = 0.0,
    exit_when_done: Annotated[
        bool, typer.Option("--exit-when-done", help="End when all input files are used up.")
    ] = False,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="Seed of the program's random numbers.")
    ] = 0,
    include: Include = None,
    define: Define = None,
) -> None:
    """Run one switch in real time, served by P4Runtime, with capture files as ports."""
    check_address(grpc)
    options = ServeOptions(
        grpc=grpc,
        pcap_dir=pcap_dir,
        ports=parse_ports(ports),
        speed=speed,
        input_delay_s=input_delay_s,
        exit_when_done=exit_when_done,
        seed=seed,
        device_id=device_id,
        switch=replace(SwitchConfig(), cpu_port=cpu_port),
    )
    if exit_when_done and pcap_dir is None:
        raise UserError("--exit-when-done needs --pcap-dir: there is no input to be used up")
    serve_switch(None if program is None else files.program(program, include, define), options)


app.command("savings")(savings_command)
app.add_typer(collective_app)


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
