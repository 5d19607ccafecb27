"""`sglb run`: a scenario under each policy."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sglb.cli import files
from sglb.cli.entry import Interrupted
from sglb.cli.errors import INCOMPLETE, UserError
from sglb.cli.progress import RunProgress
from sglb.cli.table import FILE_WIDTH, show
from sglb.fabric.packet_trace import TraceRequest
from sglb.fabric.report import RunReport
from sglb.fabric.run import LiveOptions, RunInterrupted, run, traceable


class EngineChoice(StrEnum):
    """What runs the switches and hosts of a scenario."""

    NATIVE = "native"
    REFERENCE = "reference"


class OnChoice(StrEnum):
    """Where a scenario runs."""

    SIM = "sim"
    LIVE = "live"
    BMV2 = "bmv2"


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
            max=10_000_000,
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
    _check_where(on, rate_scale, logs, engine)
    scenario = files.scenario(file, seed, None if engine is None else engine.value)
    request = None
    if trace_packet is not None:
        request = TraceRequest.parse(trace_packet, trace_all)
    elif trace or trace_all:
        request = TraceRequest(every_step=trace_all)
    if request is not None and on is OnChoice.SIM:
        scenario = traceable(scenario)
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


def _check_where(
    on: OnChoice, rate_scale: int | None, logs: Path | None, engine: EngineChoice | None
) -> None:
    """Raises `UserError` for options that mean nothing there, or logs that have no place."""
    if on is OnChoice.SIM:
        for option, value in (("--rate-scale", rate_scale), ("--logs", logs)):
            if value is not None:
                raise UserError(f"{option} needs --on live or --on bmv2")
    elif engine is not None:
        raise UserError(f"--engine {engine} needs --on sim: on --on {on} real switches run")
    if logs is not None:
        files.folder_for("--logs", logs)


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
