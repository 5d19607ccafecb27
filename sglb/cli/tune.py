"""`sglb tune`: a scenario with its watermarks as they are, and tuned while it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sglb.cli import files
from sglb.cli.errors import INCOMPLETE, UserError
from sglb.cli.timed_bar import TimedBar
from sglb.cli.tune_show import show

if TYPE_CHECKING:
    from sglb.fabric.scenario import Scenario
    from sglb.watermark.tuner.observation import Observation
    from sglb.watermark.tuner.session import Options, Tuned
    from sglb.watermark.tuner.store import Results


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
            help="Between two settings. [1000; live 500000; with --sonic 10000000]",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Instead of the scenario's seed.")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Write every step to FILE (- for stdout)."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Draw it on a page, both runs and the search."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume", metavar="FILE", help="Keep finished runs in FILE; go on if it has some."
        ),
    ] = None,
    repeat: Annotated[
        int, typer.Option("--repeat", min=1, metavar="N", help="With N seeds, one after another.")
    ] = 1,
    model: Annotated[
        bool, typer.Option("--model/--no-model", help="Let the fluid model lead the search.")
    ] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No table and no progress.")] = False,
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="sim|live|bmv2",
            help="Simulated, or live switches: ours, or BMv2 (both need root).",
        ),
    ] = "sim",
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
    from sglb.watermark.tuner.page import page
    from sglb.watermark.tuner.session import Options
    from sglb.watermark.tuner.store import Results

    weights = Weights(throughput, delay, pauses)
    _refuse(
        "--sonic" if sonic else f"--on {on}" if on != "sim" else "a simulated scenario",
        {
            "--guard": not sonic and guard is not None,
            "--apply": not sonic and apply,
            "--intervals": not sonic and intervals is not None,
            "--policy": bool(sonic) and policy is not None,
            "--on": bool(sonic) and on != "sim",
            "--repeat": (bool(sonic) or on != "sim") and repeat != 1,
        },
    )
    if sonic:
        if file is not None:
            raise UserError("give a scenario or --sonic, not both")
        from sglb.cli.tune_sonic import Outputs, tune_sonic
        from sglb.watermark.sonic.loop import LoopOptions

        every_s = 10.0 if interval_us is None else interval_us / 1e6
        loop = LoopOptions(interval_s=every_s, seed=1 if seed is None else seed, weights=weights)
        outputs = Outputs(json_file, html, resume)
        tune_sonic(
            sonic, guard, loop, journal, outputs, apply=apply, intervals=intervals, quiet=quiet
        )
        return
    if file is None:
        raise UserError("give a scenario FILE, or --sonic HOST")
    if on not in ("sim", "live", "bmv2"):
        raise UserError(f"--on is sim, live or bmv2, not {on}")
    scenario = files.scenario(file, seed, None)
    name = scenario.policies[0] if policy is None else policy
    if name not in scenario.policies:
        raise UserError(f"{file}: no policy {name}; there are {', '.join(scenario.policies)}")
    if on == "live" or on == "bmv2":
        from sglb.cli.tune_live import tune_live_command
        from sglb.watermark.live.session import LiveOptions

        every_s = 0.5 if interval_us is None else interval_us / 1e6
        live = LiveOptions(every_s, weights, target="live" if on == "live" else "bmv2")
        tune_live_command(scenario, name, live, (json_file, html), resume, quiet=quiet)
        return
    interval_us = 1000.0 if interval_us is None else interval_us
    timing = Timing(settle_us=interval_us / 5, measure_us=interval_us * 4 / 5)
    options = Options(weights=weights, timing=timing, use_model=model)
    results = Results(resume, scenario, name, options)
    first = scenario.model.seed
    found: list[tuple[int, Tuned]] = []
    with files.output(json_file) as write, files.output(html) as write_page:
        for number in range(first, first + repeat):
            one = files.scenario(file, number, None) if number != first else scenario
            found.append((number, _tuned(one, name, options, results, quiet)))
        documents = [_document(one) for _, one in found]
        write(json.dumps(documents[0] if repeat == 1 else documents, indent=1) + "\n")
        title = f"{scenario.name}, {name}"
        write_page(page(title, found, weights, interval_us))
    if not quiet:
        on_stderr = "-" in (str(json_file), str(html))
        for number, one_found in found:
            head = title if repeat == 1 else f"{title}, seed {number}"
            show(one_found, head, weights, on_stderr)
    _warn_of_none(found)
    if any(run.completion_us is None for _, one in found for run in (one.fixed, one.tuned)):
        raise typer.Exit(INCOMPLETE)


def _refuse(kind: str, given: Mapping[str, bool]) -> None:
    """Raises `UserError` for an option that would have no effect."""
    for flag, in_vain in given.items():
        if in_vain:
            raise UserError(f"{flag} has no meaning with {kind}; leave it out")


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
    names = [parameter.name for parameter in found.space.parameters]
    return {
        "fixed": asdict(found.fixed),
        "tuned": asdict(found.tuned),
        "start": asdict(found.start),
        "last": asdict(found.last),
        "searches": found.searches,
        "recalled": found.recalled,
        "ports": [asdict(port) for port in found.after],
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
