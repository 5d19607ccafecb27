"""`sglb tune FILE --on live`: the tuner on live switches, in real time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table

from sglb.cli import files
from sglb.cli.errors import INCOMPLETE
from sglb.cli.table import FILE_WIDTH
from sglb.cli.timed_bar import TimedBar

if TYPE_CHECKING:
    from sglb.fabric.advance import Advance
    from sglb.fabric.scenario import Scenario
    from sglb.watermark.live.session import LiveOptions, LiveRun, LiveTuned

_SETTINGS = ("kmin_bytes", "kmax_bytes", "pmax", "alpha", "xon_offset_bytes")


def tune_live_command(
    scenario: Scenario, policy: str, options: LiveOptions, json_file: Path | None, *, quiet: bool
) -> None:
    """Runs a scenario twice on live switches and compares."""
    from sglb.watermark.live.session import tune_live

    on_stderr = str(json_file) == "-"
    with files.output(json_file) as write, _Bar(quiet) as told:
        found = tune_live(scenario, policy, options, told)
        write(json.dumps(_document(found), indent=1) + "\n")
    if not quiet:
        _show(
            found, f"{scenario.name}, {policy}, live at 1/{found.scale:,} of the rates", on_stderr
        )
    if not (found.fixed.report.completed and found.tuned.report.completed):
        raise typer.Exit(INCOMPLETE)


class _Bar(TimedBar):
    """How many of the packets have arrived, in which of the runs."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(quiet)
        self._runs = ["as it is", "tuned"]
        self._last = 1 << 62

    def __call__(self, _policy: str, advance: Advance) -> None:
        if advance.arrived < self._last and self._runs:
            self._shown.update(self._task, description=self._runs.pop(0))
        self._last = advance.arrived
        self._shown.update(self._task, completed=advance.arrived, total=advance.total)


def _document(found: LiveTuned) -> dict[str, Any]:
    return {
        "rate_scale": found.scale,
        "start": asdict(found.start),
        "last": asdict(found.last),
        "parameters": {
            p.name: {"unit": p.unit, "levels": p.levels} for p in found.space.parameters
        },
        "fixed": _run(found.fixed),
        "tuned": _run(found.tuned),
    }


def _run(run: LiveRun) -> dict[str, Any]:
    return {"score": run.score, "report": asdict(run.report), "tuner": dict(run.tuner)}


def _show(found: LiveTuned, title: str, on_stderr: bool) -> None:
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
    first, last = asdict(found.start), asdict(found.last)
    for name in _SETTINGS:
        settings.add_row(name, _value(first, name), _value(last, name))
    console.print(settings)
    steps = found.tuned.tuner["steps"]
    tried = len({tuple(step["place"]) for step in steps})
    console.print(
        f"{len(steps)} intervals, {tried} settings tried of {len(found.space):,}, "
        f"{found.tuned.tuner['searches']} searches. The score is the mean over intervals, 0 to 1."
    )


def _completion(run: LiveRun) -> str:
    us = run.report.completion_us
    return "not complete" if us is None else f"{us / 1e6:,.2f} s"


def _mean(name: str) -> Any:
    def text(run: LiveRun) -> str:
        seen = [one for one in run.tuner["seen"] if one["load"]]
        return f"{sum(one[name] for one in seen) / len(seen):.3f}" if seen else "-"

    return text


def _telemetry(run: LiveRun) -> str:
    seconds = sum(one["duration_us"] for one in run.tuner["seen"]) / 1e6
    return f"{run.tuner['telemetry_bytes'] / max(seconds, 1e-9):,.0f} bytes/s"


_ROWS = (
    ("score", lambda run: f"{run.score:.4f}"),
    ("completion", _completion),
    ("throughput", _mean("throughput")),
    ("base / (base + queueing)", _mean("delay")),
    ("share of time without pauses", _mean("unpaused")),
    ("deepest queue", lambda run: f"{run.report.max_queue_bytes or 0:,} bytes"),
    ("data packets lost", lambda run: f"{run.report.lost_packets:,}"),
    ("telemetry", _telemetry),
)


def _value(setting: Mapping[str, Any], name: str) -> str:
    value = setting[name]
    return f"{value:,.0f}" if name.endswith("_bytes") else f"{value:g}"
