"""`sglb savings`: its options, and what they are called in complaints."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from sglb.cli import files
from sglb.cli.errors import UserError
from sglb.cli.table import FILE_WIDTH
from sglb.collective.savings import Settings, assess
from sglb.collective.savings.given import KeyPath, checked
from sglb.collective.savings.plot import draw
from sglb.collective.savings.settings import SettingsError
from sglb.collective.savings.show import show, show_sweep
from sglb.collective.savings.sweep import parse, sweep
from sglb.fabric.yaml_source import Source, dotted, read_file

#: Runs for each point of a sweep, unless a number is given.
SWEEP_RUNS = 1_000


class Reroute(StrEnum):
    """Where a lost rail's traffic goes."""

    BALANCED = "balanced"
    NEIGHBOUR = "neighbour"
    DUAL_HOMED = "dual-homed"


class RepairTimes(StrEnum):
    """How long repairs take."""

    FIXED = "fixed"
    EXPONENTIAL = "exponential"


def _number(flag: str, unit: str, text: str) -> Any:
    return typer.Option(flag, metavar=unit, help=text)


def savings_command(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Settings in YAML; options go before it.")
    ] = None,
    gpus: Annotated[int | None, _number("--gpus", "N", "GPUs of the job.")] = None,
    days: Annotated[float | None, _number("--days", "DAYS", "Length of the run.")] = None,
    rails_per_host: Annotated[
        int | None, _number("--rails-per-host", "N", "NICs of a host.")
    ] = None,
    reroute: Annotated[
        Reroute | None,
        typer.Option("--reroute", help="Where the traffic of a lost rail goes."),
    ] = None,
    exposed_communication: Annotated[
        float | None,
        _number("--exposed-communication", "SHARE", "Of an iteration, 0 to 1."),
    ] = None,
    checkpoint_interval_min: Annotated[
        str | None,
        _number("--checkpoint-interval-min", "MIN", "Or a rule: young, daly, exact."),
    ] = None,
    checkpoint_write_s: Annotated[
        float | None, _number("--checkpoint-write-s", "S", "The job stands still for it.")
    ] = None,
    detection_s: Annotated[
        float | None, _number("--detection-s", "S", "Until a job is known to be dead.")
    ] = None,
    restart_min: Annotated[
        float | None, _number("--restart-min", "MIN", "From then until it works again.")
    ] = None,
    failover_stall_s: Annotated[
        float | None, _number("--failover-stall-s", "S", "What a saved fault stops the job for.")
    ] = None,
    repair_h: Annotated[
        float | None, _number("--repair-h", "H", "Until a lost rail is back.")
    ] = None,
    repair_times: Annotated[
        RepairTimes | None, typer.Option("--repair-times", help="All alike, or random.")
    ] = None,
    restart_replaces: Annotated[
        bool | None,
        typer.Option(
            "--restart-replaces/--restart-keeps", help="Whether restarts leave degraded hosts."
        ),
    ] = None,
    failover_saves: Annotated[
        str | None,
        _number("--failover-saves", "LIST", "Of nic,link,switch; those that failover saves."),
    ] = None,
    fault_scale: Annotated[
        float | None, _number("--fault-scale", "X", "Factor on the rates of all faults.")
    ] = None,
    network_fault_scale: Annotated[
        float | None, _number("--network-fault-scale", "X", "Factor on those of the network.")
    ] = None,
    runs: Annotated[
        int | None,
        _number("--runs", "N", f"Runs to simulate [10000; {SWEEP_RUNS} for a point of a sweep]."),
    ] = None,
    seed: Annotated[int | None, _number("--seed", "N", "Of the random numbers.")] = None,
    sweep_keys: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="KEY=A..B",
            help="Vary a key (restart_min=1..120, =1..120:20:log, reroute=balanced,neighbour); "
            "twice for two keys.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw the sweep.")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write every number to FILE (- for stdout)."),
    ] = None,
    brief: Annotated[
        bool,
        typer.Option(
            "--brief", help="Without the table of faults; a sweep without what it assumes."
        ),
    ] = False,
) -> None:
    """Tell how many GPU-hours network failover saves in a training run, and what that assumes.

    Keys of FILE are the options with _ for -, and `faults`: see docs/savings.md. As everywhere,
    ends with 1 for a mistake in a file or in what an option says, with 2 for a command line that cannot
    be read.
    """
    given = {
        "gpus": gpus,
        "days": days,
        "rails_per_host": rails_per_host,
        "reroute": None if reroute is None else reroute.value,
        "exposed_communication": exposed_communication,
        "checkpoint_interval_min": _number_or_word(checkpoint_interval_min),
        "checkpoint_write_s": checkpoint_write_s,
        "detection_s": detection_s,
        "restart_min": restart_min,
        "failover_stall_s": failover_stall_s,
        "repair_h": repair_h,
        "repair_times": None if repair_times is None else repair_times.value,
        "restart_replaces": restart_replaces,
        "failover_saves": _names(failover_saves),
        "fault_scale": fault_scale,
        "network_fault_scale": network_fault_scale,
        "runs": runs,
        "seed": seed,
    }
    if plot is not None and not sweep_keys:
        raise UserError("--plot draws a sweep; say --sweep KEY=A..B as well")
    if plot is not None and plot.suffix != ".svg":
        raise UserError(f"--plot {plot}: draws SVG only; end the name in .svg")
    options = {key: value for key, value in given.items() if value is not None}
    settings = _settings(file, options, sweeps=bool(sweep_keys))
    console = _console(on_stderr=str(json_file) == "-")
    with files.output(json_file) as write_json, files.output(plot) as write_plot:
        if not sweep_keys:
            assessed = assess(settings)
            write_json(assessed.to_json())
            show(assessed, console, brief=brief)
            return
        try:
            swept = sweep(settings, parse(sweep_keys), _progress)
        except SettingsError as error:
            raise UserError(f"--sweep {error}") from None
        write_json(json.dumps(swept.as_dict(), indent=2) + "\n")
        write_plot(draw(swept) if plot is not None else "")
        show_sweep(swept, console, brief=brief)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name for name in text.split(",") if name]


def _number_or_word(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _settings(file: Path | None, options: dict[str, Any], sweeps: bool) -> Settings:
    source = Source("", {}) if file is None else read_file(file)
    data = source.data | options
    if sweeps:
        data.setdefault("runs", SWEEP_RUNS)

    def where(path: KeyPath) -> str:
        if path and path[0] in options:
            return "error: --" + str(path[0]).replace("_", "-")
        if file is None:
            return "error"
        place = f"{source.file}:{source.line(path)}"
        return f"{place}: {dotted(path)}" if path else place

    return checked(data, where)


def _console(on_stderr: bool) -> Console:
    console = Console(stderr=on_stderr)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


def _progress(done: int, of: int) -> None:
    """One line that is written over, for who watches."""
    if sys.stderr.isatty():
        end = "\r" if done + 1 < of else "\r\x1b[K"
        typer.echo(f"point {done + 1} of {of}{end}", nl=False, err=True)
