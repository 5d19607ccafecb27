"""`sglb tune FILE` in the simulator: two runs a seed, tables, JSON and a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from sglb.cli import files
from sglb.cli.errors import INCOMPLETE
from sglb.cli.timed_bar import TimedBar
from sglb.cli.tune_outputs import Outputs
from sglb.cli.tune_show import show

if TYPE_CHECKING:
    from sglb.fabric.scenario import Scenario
    from sglb.watermark.tuner.observation import Observation
    from sglb.watermark.tuner.session import Options, Tuned
    from sglb.watermark.tuner.store import Results


def tune_simulated(
    scenarios: Sequence[Scenario], policy: str, options: Options, outputs: Outputs, *, quiet: bool
) -> None:
    """Runs scenarios that differ by their seeds, each as it is and tuned, and compares."""
    from sglb.watermark.tuner.page import page
    from sglb.watermark.tuner.store import Results

    results = Results(outputs.resume, scenarios[0], policy, options)
    interval_us = options.timing.settle_us + options.timing.measure_us
    title, alone = f"{scenarios[0].name}, {policy}", len(scenarios) == 1
    found: list[tuple[int, Tuned]] = []
    with files.output(outputs.json_file) as write, files.output(outputs.html) as write_page:
        for one in scenarios:
            found.append((one.model.seed, _tuned(one, policy, options, results, quiet)))
        documents = [_document(one) for _, one in found]
        write(json.dumps(documents[0] if alone else documents, indent=1) + "\n")
        write_page(page(title, found, options.weights, interval_us))
    if not quiet:
        for seed, tuned in found:
            head = title if alone else f"{title}, seed {seed}"
            show(tuned, head, options.weights, outputs.on_stderr)
    _warn_of_none(found)
    if any(run.completion_us is None for _, one in found for run in (one.fixed, one.tuned)):
        raise typer.Exit(INCOMPLETE)


def _warn_of_none(found: Sequence[tuple[int, Tuned]]) -> None:
    for number, one in found:
        if not one.steps:
            why = "the run was over before its first interval was; take a shorter --interval-us"
            typer.echo(f"warning: seed {number}: nothing was tuned: {why}", err=True)


def _tuned(
    scenario: Scenario, policy: str, options: Options, results: Results, quiet: bool
) -> Tuned:
    """One seed's runs, those that are not kept yet."""
    from sglb.watermark.from_scenario import watermarks
    from sglb.watermark.tuner.session import hold, search_space, tune

    seed = scenario.model.seed
    kept = results.tuned(seed)
    if kept is not None:
        return kept
    search_space(scenario)  # complains before anything is run
    with _Told(quiet, seed) as told:
        fixed = results.fixed(seed)
        if fixed is None:
            told.begin("as it is")
            fixed = hold(scenario, policy, watermarks(scenario), options, told.interval)
            results.keep(seed, fixed)

        def each(seen: Observation, _tuned: bool) -> None:
            told.interval(seen)

        told.begin("fluid model")
        begun = False

        def solved(done: int, of: int) -> None:
            nonlocal begun
            told.solved(done, of)
            if done == of and not begun:
                begun = True
                told.begin("tuned", len(fixed.seen))

        if not options.use_model:
            told.begin("tuned", len(fixed.seen))
        found = tune(scenario, policy, options, each, solved, fixed)
        results.keep(seed, found)
    return found


class _Told(TimedBar):
    """Progress on a terminal: which run, how far, the last interval's parts."""

    def __init__(self, quiet: bool, seed: int) -> None:
        super().__init__(quiet)
        self._seed = seed
        self._what = ""

    def begin(self, what: str, intervals: int | None = None) -> None:
        """A run of about so many intervals begins."""
        self._what = f"seed {self._seed}, {what}"
        self._shown.remove_task(self._task)
        self._task = self._shown.add_task(self._what, total=intervals)

    def solved(self, done: int, of: int) -> None:
        """So many settings are."""
        self._shown.update(self._task, completed=done, total=of)

    def interval(self, seen: Observation) -> None:
        """One more is over."""
        parts = f"throughput {seen.throughput:.2f}, delay {seen.delay:.2f}, unpaused {seen.unpaused:.2f}"
        self._shown.update(self._task, advance=1, description=f"{self._what}: {parts}")


def _document(found: Tuned) -> dict[str, object]:
    from sglb.watermark.tuner.store import parameters_of, steps_of

    return {
        "fixed": asdict(found.fixed),
        "tuned": asdict(found.tuned),
        "start": asdict(found.start),
        "last": asdict(found.last),
        "searches": found.searches,
        "recalled": found.recalled,
        "ports": [asdict(port) for port in found.after],
        "parameters": parameters_of(found.space),
        "steps": steps_of(found.space, found.steps),
    }
