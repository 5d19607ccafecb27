"""`sglb tune`: a scenario with its watermarks as they are, and tuned while it runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from sglb.cli import files
from sglb.cli.errors import INCOMPLETE, UserError
from sglb.cli.table import FILE_WIDTH

if TYPE_CHECKING:
    from sglb.watermark.settings import Watermarks
    from sglb.watermark.tuner.observation import Observation
    from sglb.watermark.tuner.session import Outcome, Tuned

_MS = 1e9  # ps


def tune_command(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A scenario in YAML; not with --sonic.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", "-p", metavar="NAME", help="[the scenario's first]")
    ] = None,
    throughput: Annotated[
        float, typer.Option("--throughput", min=0, metavar="W", help="Weight of throughput.")
    ] = 0.4,
    delay: Annotated[
        float, typer.Option("--delay", min=0, metavar="W", help="Weight of short queues.")
    ] = 0.4,
    pauses: Annotated[
        float, typer.Option("--pauses", min=0, metavar="W", help="Weight of few pauses.")
    ] = 0.2,
    interval_us: Annotated[
        float | None,
        typer.Option(
            "--interval-us",
            min=10,
            metavar="US",
            help="Between two settings. [1000; with --sonic 10000000]",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Instead of the scenario's seed.")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write every step to FILE (- for stdout)."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No table and no progress.")] = False,
    sonic: Annotated[
        list[str] | None,
        typer.Option(
            "--sonic",
            metavar="HOST",
            help="Tune this SONiC switch (HOST[:PORT] or unix:PATH of its Redis); repeatable.",
        ),
    ] = None,
    guard: Annotated[
        Path | None,
        typer.Option(
            "--guard", metavar="FILE", help="What may be tuned of SONiC, and within what."
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write to SONiC; without it, show the first step.")
    ] = False,
    journal: Annotated[
        Path,
        typer.Option("--journal", metavar="FILE", help="Where a write to SONiC is noted first."),
    ] = Path("sonic-journal.jsonl"),
    intervals: Annotated[
        int | None,
        typer.Option(
            "--intervals", min=1, metavar="N", help="Then end, on SONiC. [Ctrl-C ends it]"
        ),
    ] = None,
) -> None:
    """Run a scenario twice, as it is and with the tuner at work, and compare. Or tune SONiC switches.

    The tuner sees what switches report (bytes sent, queue depths, pauses, losses) and sets what
    marks and pauses: Kmin, Kmax, Pmax, alpha and XON.
    """
    from sglb.watermark.objective import Weights
    from sglb.watermark.tuner.fabric import Timing
    from sglb.watermark.tuner.session import Options, tune

    weights = Weights(throughput, delay, pauses)
    if sonic:
        if file is not None:
            raise UserError("give a scenario or --sonic, not both")
        from sglb.cli.tune_sonic import tune_sonic
        from sglb.watermark.sonic.loop import LoopOptions

        every_s = 10.0 if interval_us is None else interval_us / 1e6
        loop = LoopOptions(interval_s=every_s, seed=1 if seed is None else seed, weights=weights)
        tune_sonic(sonic, guard, loop, journal, apply=apply, intervals=intervals, quiet=quiet)
        return
    if file is None:
        raise UserError("give a scenario FILE, or --sonic HOST")
    interval_us = 1000.0 if interval_us is None else interval_us
    scenario = files.scenario(file, seed, None)
    name = scenario.policies[0] if policy is None else policy
    if name not in scenario.policies:
        raise UserError(f"{file}: no policy {name}; there are {', '.join(scenario.policies)}")
    timing = Timing(settle_us=interval_us / 5, measure_us=interval_us * 4 / 5)
    options = Options(weights=weights, timing=timing)
    with files.output(json_file) as write, _Told(quiet) as told:
        found = tune(scenario, name, options, told)
        write(json.dumps(_document(found), indent=1) + "\n")
    if not quiet:
        _show(found, f"{scenario.name}, {name}", on_stderr=str(json_file) == "-")
    if found.fixed.completion_us is None or found.tuned.completion_us is None:
        raise typer.Exit(INCOMPLETE)


class _Told:
    """Progress on a terminal: which run, how many intervals, the last score's parts."""

    def __init__(self, quiet: bool) -> None:
        console = Console(stderr=True)
        self._shown = Progress(
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._shown.add_task("starts", total=None)
        self._count = {False: 0, True: 0}

    def __enter__(self) -> _Told:
        self._shown.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.stop()

    def __call__(self, seen: Observation, tuned: bool) -> None:
        self._count[tuned] += 1
        self._shown.update(
            self._task,
            description=f"{'tuned' if tuned else 'as it is'}: interval {self._count[tuned]}, "
            f"throughput {seen.throughput:.2f}, delay {seen.delay:.2f}, unpaused {seen.unpaused:.2f}",
        )


def _document(found: Tuned) -> dict[str, object]:
    names = [parameter.name for parameter in found.space.parameters]
    return {
        "fixed": asdict(found.fixed),
        "tuned": asdict(found.tuned),
        "start": asdict(found.start),
        "last": asdict(found.last),
        "searches": found.searches,
        "parameters": {
            p.name: {"unit": p.unit, "levels": p.levels} for p in found.space.parameters
        },
        "steps": [
            {
                "number": step.number,
                "phase": step.phase,
                "score": step.score,
                "temperature": step.temperature,
                "accepted": step.accepted,
                "setting": dict(zip(names, found.space.values(step.place).values(), strict=True)),
            }
            for step in found.steps
        ],
    }


def _show(found: Tuned, title: str, on_stderr: bool) -> None:
    console = Console(stderr=on_stderr, highlight=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    table = Table(title=title, title_justify="left", box=None)
    for heading in ("", "as it is", "tuned"):
        table.add_column(heading, justify="left" if not heading else "right")
    for label, text in _ROWS:
        table.add_row(label, text(found.fixed), text(found.tuned))
    console.print(table)
    settings = Table(title="setting", title_justify="left", box=None)
    for heading in ("", "at first", "at last"):
        settings.add_column(heading, justify="left" if not heading else "right")
    for name in ("kmin_bytes", "kmax_bytes", "pmax", "alpha", "xon_offset_bytes"):
        settings.add_row(name, _value(found.start, name), _value(found.last, name))
    console.print(settings)
    tried = len({step.place for step in found.steps})
    console.print(
        f"{len(found.steps)} intervals, {tried} settings tried of {len(found.space):,}, "
        f"{found.searches} searches. The score is the mean over intervals, from 0 to 1."
    )


def _completion(run: Outcome) -> str:
    return "not complete" if run.completion_us is None else f"{run.completion_us:,.0f} us"


_ROWS = (
    ("score", lambda run: f"{run.score:.4f}"),
    ("completion", _completion),
    ("flow completion, median", lambda run: f"{run.flows.fct_ps.p50 / _MS:,.3f} ms"),
    ("flow completion, 99 %", lambda run: f"{run.flows.fct_ps.p99 / _MS:,.3f} ms"),
    ("pause frames", lambda run: f"{run.pauses.pause_frames:,}"),
    ("ports were paused for", lambda run: f"{run.pauses.paused_us:,.0f} us"),
    ("data packets lost", lambda run: f"{run.losses.data:,}"),
)


def _value(setting: Watermarks, name: str) -> str:
    value = getattr(setting, name)
    return f"{value:,.0f}" if name.endswith("_bytes") else f"{value:g}"
