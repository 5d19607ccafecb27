"""`sglb tune FILE --on live` and `--on bmv2`: the tuner on live switches, in real time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from sglb.cli import files
from sglb.cli.entry import Interrupted
from sglb.cli.errors import INCOMPLETE
from sglb.cli.table import FILE_WIDTH
from sglb.cli.timed_bar import TimedBar
from sglb.cli.tune_outputs import Outputs

if TYPE_CHECKING:
    from sglb.fabric.advance import Advance
    from sglb.fabric.scenario import Scenario
    from sglb.watermark.live.session import LiveOptions, LiveTuned
    from sglb.watermark.objective import Weights

_RUNS = {"fixed": "as it is", "tuned": "tuned"}


def tune_live_command(
    scenario: Scenario,
    policy: str,
    options: LiveOptions,
    outputs: Outputs,
    *,
    quiet: bool,
) -> None:
    """Runs a scenario twice on live switches and compares.

    When it is interrupted it shows and writes what is known by then.
    """
    from sglb.watermark.live.page import document, page
    from sglb.watermark.live.session import tune_live
    from sglb.watermark.live.store import LiveResults

    weights = options.judging()
    if weights != options.weights and not quiet:
        text = "BMv2 has neither pauses nor a shared buffer: their weight is 0, marking is tuned"
        typer.echo(text, err=outputs.on_stderr)
    kept = LiveResults(outputs.resume, scenario, policy, options)
    with files.output(outputs.json_file) as write, files.output(outputs.html) as write_page:
        with _Bar(quiet) as told:
            found = tune_live(scenario, policy, options, told, kept)
        if found.fixed is None:
            raise Interrupted("no packet had been sent")
        title = f"{scenario.name}, {policy}, {options.target} at 1/{found.scale:,} of the rates"
        write(json.dumps(document(found), indent=1) + "\n")
        write_page(page(title, found, weights, options.interval_s))
    if not quiet:
        _show(found, title, weights, outputs.on_stderr)
    if found.interrupted:
        raise Interrupted(_how_far(found))
    if not all(run is not None and run.report.completed for run in (found.fixed, found.tuned)):
        raise typer.Exit(INCOMPLETE)


def _how_far(found: LiveTuned) -> str:
    run, kind = (found.fixed, "as it is") if found.tuned is None else (found.tuned, "tuned")
    intervals = 0 if run is None else len(run.seen)
    if run is not None and not run.report.interrupted:
        return f"the run {kind} had ended; the other had not begun"
    return f"in the run {kind}, after {intervals} intervals; what is shown of it is partial"


class _Bar(TimedBar):
    """How many of the packets have arrived, in which of the runs."""

    def __call__(self, kind: str, advance: Advance) -> None:
        self._shown.update(
            self._task,
            description=_RUNS[kind],
            completed=advance.arrived,
            total=advance.total,
        )


def _show(found: LiveTuned, title: str, weights: Weights, on_stderr: bool) -> None:
    from sglb.watermark.live.page import heads, price, rows, settings, summary

    console = Console(stderr=on_stderr, highlight=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    console.print(_table(title, heads(found), rows(found)))
    for line in price(found, weights):
        console.print(line, soft_wrap=True)
    console.print(_table("setting", ("", "at first", "at last"), settings(found)))
    console.print(summary(found), soft_wrap=True)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", box=None)
    for heading in heads:
        table.add_column(heading, justify="right" if heading else "left")
    for row in rows:
        table.add_row(*row)
    return table
