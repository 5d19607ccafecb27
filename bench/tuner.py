"""The watermark tuner beside fixed settings, random search, TPE and an exhaustive grid.

    python bench/tuner.py [--quick] [--json FILE] [--seeds N] [--only CASE ...] [--every N]

Cases are `examples/tune`: an incast with a background, all-to-all, web search and Hadoop flows at 30, 50
and 70 % load, and two runs whose traffic changes: `changing`, in which one setting is near the best
throughout, and `transfers`, in which none is. All methods choose from one grid of levels (`LEVELS`),
from what the space's rules leave of it. An evaluation is an interval of the running fabric; the tuner,
random search and TPE (Optuna; left out where it can't be imported) have 5 % as many as the grid has
settings, and then hold what they found. That is scored as the grid's settings are: by a whole run with
it from the beginning, over the same seeds (the grid's: the first seed for all, the others for the
best 10). In the changing runs nobody starts anew: the whole run counts, the search with it.

Scores count intervals in which traffic arrives. FILE keeps all runs; a bench that was interrupted goes
on from there. `--every N` thins the grid, not the searches. `--quick`: all-to-all alone, every fourth
setting of the grid, one seed.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from sglb.fabric import scenario as scenarios
from sglb.fabric.scenario import Scenario
from sglb.watermark.objective import Weights
from sglb.watermark.settings import Watermarks
from sglb.watermark.space import Place
from sglb.watermark.tuner.annealing import Annealer, Schedule
from sglb.watermark.tuner.fabric import Timing
from sglb.watermark.tuner.observation import Observation
from sglb.watermark.tuner.prior import Prior
from sglb.watermark.tuner.session import Held, Options, hold, run, setting
from sglb.watermark.tuner.spaces import nearest_feasible, prior_of, search_space
from sglb.whole_file import write_whole

try:
    import optuna
except ImportError:
    optuna = None

ROOT = Path(__file__).parents[1]
SHARE = 0.05
RECOVERED = 0.95
#: Beside each scenario's own values.
LEVELS: Mapping[str, Sequence[float]] = {
    "kmin_bytes": (8_192, 32_768, 131_072, 393_216),
    "kmax_bytes": (16_384, 65_536, 262_144, 786_432),
    "pmax": (0.01, 0.05, 1.0),
    "dynamic_th": (-7, -5, -1, 1),
}
#: Settings as published; what a source does not say (alpha) is the scenario's.
FIXED: Mapping[str, Callable[[Watermarks, float], Watermarks]] = {
    # sonic-buildimage, files/build_templates/qos_config.j2
    "SONiC AZURE_LOSSLESS": lambda own, _gbps: replace(
        own, kmin_bytes=1_048_576, kmax_bytes=2_097_152, pmax=0.05
    ),
    # Zhu et al., SIGCOMM 2015, section 5.2 (for 40 Gbit/s) and beta of section 4
    "DCQCN paper": lambda own, _gbps: replace(
        own, kmin_bytes=5_000, kmax_bytes=200_000, pmax=0.01, alpha=8
    ),
    # Li et al., SIGCOMM 2019, section 5.1: 100 and 400 KB at 25 Gbit/s, in proportion; alpha 1/8
    "HPCC paper": lambda own, gbps: replace(
        own, kmin_bytes=4_000 * gbps, kmax_bytes=16_000 * gbps, pmax=0.2, alpha=0.125
    ),
}


@dataclass(frozen=True)
class Case:
    """A scenario, how it is watched, how long traffic arrives, and when it changes."""

    name: str
    file: str
    interval_us: float
    window_us: float
    weights: Weights = field(default_factory=Weights)
    load: float | None = None
    changes_us: tuple[float, ...] = ()

    @property
    def timing(self) -> Timing:
        """A fifth to settle, the rest to measure."""
        return Timing(self.interval_us / 5, self.interval_us * 4 / 5)

    @property
    def intervals(self) -> int:
        """How many count."""
        return int(self.window_us // self.interval_us)

    def model(self) -> dict[str, Any]:
        """The scenario's keys, at this load."""
        model = scenarios.load(ROOT / "examples" / "tune" / self.file).model
        found = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
        if self.load is not None:
            for part in found["workload"]["mix"]:
                part["arrivals"]["load"] = self.load / 2
        return found


CASES = (
    Case("incast", "incast.yaml", 500, 10_000),
    Case("all-to-all", "all-to-all.yaml", 1_000, 14_000),
    *(Case(f"mix {n} %", "mix.yaml", 500, 12_000, load=n / 100) for n in (30, 50, 70)),
    Case(
        "changing",
        "changing.yaml",
        500,
        40_000,
        changes_us=(10_000, 20_000, 30_000),
    ),
    Case(
        "transfers",
        "transfers.yaml",
        2_000,
        800_000,
        weights=Weights(0.7, 0.2, 0.1),
        changes_us=(200_000, 400_000, 600_000),
    ),
)


class Store:
    """All runs so far, by what they were, in a file that is never half written."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._runs: dict[str, dict[str, Any]] = {}
        self._saved = time.monotonic()
        if path is not None and path.exists():
            self._runs = json.loads(path.read_text(encoding="utf-8"))["runs"]

    def get(self, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The run of that key, made if it is not there."""
        if key not in self._runs:
            self._runs[key] = make()
            if time.monotonic() - self._saved > 10:
                self.save()
        return self._runs[key]

    def save(self, results: Mapping[str, Any] | None = None) -> None:
        """Writes everything."""
        if self._path is None:
            return
        document = {"results": results or {}, "runs": self._runs}
        write_whole(self._path, json.dumps(document) + "\n")
        self._saved = time.monotonic()


def summed_up(held: Held) -> dict[str, Any]:
    """What of a run is kept."""
    flows, outcome = held.outcome.flows, held.outcome
    return {
        "intervals": [
            [o.throughput, o.delay, o.unpaused, o.lost_packets, o.load] for o in held.seen
        ],
        "fct_p50_ms": flows.fct_ps.p50 / 1e9,
        "fct_p99_ms": flows.fct_ps.p99 / 1e9,
        "completion_us": outcome.completion_us,
        "pause_frames": outcome.pauses.pause_frames,
        "paused_us": outcome.pauses.paused_us,
        "lost": outcome.losses.data,
    }


def scores(case: Case, one: Mapping[str, Any]) -> list[float]:
    """Of the intervals that count."""
    found = []
    for t, d, u, lost, load in one["intervals"][: case.intervals]:
        seen = Observation(case.interval_us, t, d, u, lost, 0.0, load)
        if not seen.idle:
            found.append(seen.score(case.weights))
    return found


def mean(values: Sequence[float]) -> float:
    """0 of none."""
    return sum(values) / len(values) if values else 0.0


class Bench:
    """One case: its space, and runs of it."""

    def __init__(self, case: Case, store: Store, tick: Callable[[str], None], every: int) -> None:
        self.case, self._store, self._tick = case, store, tick
        self._model = case.model()
        first = self.scenario(1)
        self.space, self.given = search_space(first, LEVELS)
        self.start = nearest_feasible(self.space, self.given)
        room = self.start[-1]
        whole = [p for p in self.space.places() if p[-1] == room and not self.space.why_not(p)]
        self.grid = whole[::every]
        self.whole = len(self.space)
        self.feasible = len(whole)
        self.budget = int(SHARE * self.feasible)
        content = json.dumps([self._model, case.interval_us, case.window_us], sort_keys=True)
        self._id = hashlib.sha256(content.encode()).hexdigest()[:12]
        self.own = self.watermarks(self.given)
        self.gbps = max(link.spec.rate_bps for link in first.topology.links) / 1e9

    def scenario(self, seed: int) -> Scenario:
        """The case with one seed."""
        return scenarios.from_dict(self._model | {"seed": seed})

    def watermarks(self, place: Place) -> Watermarks:
        """What is set for it."""
        return setting(self.space, self.given, place)

    def held(self, marks: Watermarks, seed: int) -> dict[str, Any]:
        """A run with one setting."""
        key = f"{self.case.name}/{self._id}/hold/{seed}/{marks}"
        options = Options(weights=self.case.weights, timing=self.case.timing)

        def make() -> dict[str, Any]:
            self._tick(f"{self.case.name}, seed {seed}")
            return summed_up(hold(self.scenario(seed), "ecmp", marks, options))

        return self._store.get(key, make)

    def score(self, marks: Watermarks, seeds: Sequence[int]) -> float:
        """The mean over seeds of a run's mean."""
        return mean([mean(scores(self.case, self.held(marks, seed))) for seed in seeds])

    def best(self, seeds: Sequence[int]) -> Place:
        """The grid's best: the best 10 by the first seed, by all seeds."""
        first = sorted(self.grid, key=lambda p: -self.score(self.watermarks(p), seeds[:1]))[:10]
        return max(first, key=lambda p: self.score(self.watermarks(p), seeds))

    def searched(self, method: str, seed: int, make: Callable[[], Method]) -> dict[str, Any]:
        """A run in which a method searches, and the place it ended at."""
        key = f"{self.case.name}/{self._id}/{method}/{seed}/{self.budget}/{VERSION}"
        options = Options(weights=self.case.weights, timing=self.case.timing)

        def call() -> dict[str, Any]:
            self._tick(f"{self.case.name}, {method}, seed {seed}")
            one = make()

            def decide(seen: Observation) -> Watermarks:
                return self.watermarks(one.observed(seen))

            found = run(self.scenario(seed), "ecmp", self.watermarks(one.place), decide, options)
            return summed_up(found) | {"place": list(one.best), "tried": one.tried}

        return self._store.get(key, call)


#: Changes when a method does, so that stored searches of older ones are not taken for it.
VERSION = 4


class Method:
    """A search: `place` is in force, `observed` gives the next; `best` after `tried` evaluations."""

    place: Place
    best: Place
    tried: int

    def observed(self, seen: Observation) -> Place:
        """An interval is over."""
        raise NotImplementedError


class Tuner(Method):
    """Ours."""

    def __init__(self, bench: Bench, seed: int, prior: Prior | None) -> None:
        schedule = Schedule(tries=1)
        # As many intervals as the others have, by the pace at which T falls.
        levels = bench.budget - 1
        pace = (schedule.last_temperature / schedule.first_temperature) ** (1 / (levels - 0.5))
        schedule = replace(schedule, cooling=pace)
        assert schedule.intervals == bench.budget
        self._annealer = Annealer(
            bench.space,
            bench.start,
            random.Random(f"{seed}/tuner"),
            bench.case.weights,
            schedule,
            prior,
        )
        self.place = bench.start
        self._budget, self._changes = bench.budget, bool(bench.case.changes_us)

    def observed(self, seen: Observation) -> Place:
        """Judged by the annealer, which may begin anew only where traffic changes."""
        if self._changes or self.tried < self._budget:
            self.place = self._annealer.observed(seen)
        else:
            self.place = self.best
        return self.place

    @property
    def best(self) -> Place:  # type: ignore[override]
        """The annealer's."""
        return self._annealer.best

    @property
    def tried(self) -> int:  # type: ignore[override]
        """Intervals that were no mere holding."""
        return sum(step.phase != "hold" for step in self._annealer.steps)


class Asked(Method):
    """Tries what it is given, so often, and then holds the best."""

    def __init__(self, bench: Bench, asked: Iterator[Place], told: Callable[[float], None]) -> None:
        self._bench, self._asked, self._told = bench, asked, told
        self.place = next(asked)
        self.best, self._most, self.tried = self.place, -1.0, 0

    def observed(self, seen: Observation) -> Place:
        """One of those asked for is judged, or the best is held."""
        if seen.idle or self.tried >= self._bench.budget:
            return self.place
        score = seen.score(self._bench.case.weights)
        self._told(score)
        if score > self._most:
            self.best, self._most = self.place, score
        self.tried += 1
        self.place = next(self._asked) if self.tried < self._bench.budget else self.best
        return self.place


def at_random(bench: Bench, seed: int) -> Asked:
    """Each place once."""
    places = list(bench.grid)
    random.Random(f"{seed}/random").shuffle(places)
    return Asked(bench, iter(places), lambda _score: None)


def by_tpe(bench: Bench, seed: int) -> Asked:
    """Optuna's TPE over levels; places that no rule allows are refused, and not counted."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # Its own default of 10 random trials would leave none of its own.
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=max(3, bench.budget // 3))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    waiting = []

    def ask() -> Iterator[Place]:
        while True:
            trial = study.ask()
            place = tuple(
                trial.suggest_int(p.name, 0, len(p.levels) - 1) if len(p.levels) > 1 else 0
                for p in bench.space.parameters
            )
            if bench.space.why_not(place) is None:
                waiting.append(trial)
                yield place
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)

    return Asked(bench, ask(), lambda score: study.tell(waiting.pop(), score))


def recovery_us(case: Case, values: Sequence[float], targets: Sequence[float]) -> float | None:
    """The mean time from a change until two intervals in a row are near the phase's target.

    Near: 95 %. A change after which that never comes counts as the whole phase; None: it never came.
    """
    ends = (*case.changes_us[1:], case.window_us)
    times, came = [], False
    for change, end, target in zip(case.changes_us, ends, targets[1:], strict=True):
        first, last = round(change / case.interval_us), round(end / case.interval_us)
        good = [value >= RECOVERED * target for value in values[first:last]]
        at = next((n for n in range(len(good) - 1) if good[n] and good[n + 1]), None)
        came |= at is not None
        times.append(end - change if at is None else at * case.interval_us)
    return mean(times) if came else None


def phases(case: Case, values: Sequence[float], left_out: float = 0.2) -> list[float]:
    """Mean score from change to change, the first part of each left out."""
    edges = [0, *(round(c / case.interval_us) for c in case.changes_us), case.intervals]
    return [mean(values[a + int((b - a) * left_out) : b]) for a, b in itertools.pairwise(edges)]


@dataclass
class Row:
    """One line of a case's table."""

    name: str
    score: float
    evaluations: int
    runs: list[dict[str, Any]]
    setting: str = ""


def rows_of(bench: Bench, seeds: Sequence[int], tell: Callable[[str], None]) -> list[Row]:
    """All methods on one case."""
    case = bench.case
    for place in bench.grid:
        bench.held(bench.watermarks(place), seeds[0])
    best = bench.best(seeds)
    found = [
        fixed_row(bench, name, make(bench.own, bench.gbps), seeds) for name, make in FIXED.items()
    ]
    tell(f"{case.name}: the fluid model")
    prior = prior_of(bench.scenario(1), bench.space, bench.start)
    methods: dict[str, Callable[[int], Method]] = {
        "random search": lambda seed: at_random(bench, seed),
        "Optuna TPE": lambda seed: by_tpe(bench, seed),
        "tuner": lambda seed: Tuner(bench, seed, prior),
        "tuner without model": lambda seed: Tuner(bench, seed, None),
    }
    if optuna is None:
        del methods["Optuna TPE"]
    for name, make in methods.items():
        searches = [bench.searched(name, seed, lambda s=seed, m=make: m(s)) for seed in seeds]
        if case.changes_us:
            score = mean([mean(scores(case, one)) for one in searches])
            runs = searches
        else:
            places = [bench.watermarks(tuple(one["place"])) for one in searches]
            score = mean([bench.score(marks, seeds) for marks in places])
            runs = [bench.held(marks, seed) for marks in places for seed in seeds]
        tried = max(one["tried"] for one in searches)
        found.append(Row(name, score, tried, runs))
    marks = bench.watermarks(best)
    found.append(fixed_row(bench, "grid's best", marks, seeds, len(bench.grid)))
    return found


def fixed_row(
    bench: Bench, name: str, marks: Watermarks, seeds: Sequence[int], evaluations: int = 0
) -> Row:
    """A setting held throughout."""
    text = (
        f"{marks.kmin_bytes / 1e3:.0f}/{marks.kmax_bytes / 1e3:.0f} kB {marks.pmax:g} "
        f"a={marks.alpha:g}"
    )
    runs = [bench.held(marks, seed) for seed in seeds]
    return Row(name, bench.score(marks, seeds), evaluations, runs, text)


def show(bench: Bench, rows: Sequence[Row], console: Console, seeds: Sequence[int]) -> None:
    """A case's table."""
    case, best = bench.case, rows[-1].score
    targets = phase_targets(bench, seeds, left_out=0.2)
    title = (
        f"{case.name}: {len(bench.grid)} settings of a grid of {bench.whole} "
        f"({bench.feasible} that the rules allow), {bench.budget} evaluations for a search"
    )
    table = Table(title=title, title_justify="left", box=None)
    heads = ["", "score", "of grid's", "evals", "used %", "FCT p50 ms", "p99 ms", "pauses", "lost"]
    for heading in [*heads, *(["recovery ms"] if case.changes_us else []), "Kmin/Kmax Pmax alpha"]:
        table.add_column(
            heading, justify="left" if heading in ("", "Kmin/Kmax Pmax alpha") else "right"
        )
    for row in rows:
        used = mean([mean([i[0] for i in one["intervals"][: case.intervals]]) for one in row.runs])
        cells = [
            row.name,
            f"{row.score:.4f}",
            f"{100 * row.score / best:.1f} %",
            str(row.evaluations or "-"),
            f"{100 * used:.1f}",
            *(f"{mean([one[k] for one in row.runs]):.3f}" for k in ("fct_p50_ms", "fct_p99_ms")),
            *(f"{mean([one[k] for one in row.runs]):,.0f}" for k in ("pause_frames", "lost")),
        ]
        if case.changes_us:
            times = [recovery_us(case, scores(case, one), targets) for one in row.runs]
            known = [t for t in times if t is not None]
            cells.append(f"{mean(known) / 1e3:.1f}" if known else "never")
        table.add_row(*cells, row.setting)
    console.print(table)
    if case.changes_us:
        # All phases are of one length, and each run has its own past.
        foreseen = mean(phase_targets(bench, seeds, left_out=0.0))
        first = bench.score(bench.watermarks(bench.best(seeds)), seeds[:1])
        console.print(
            f"each phase's best setting, known beforehand: {foreseen:.4f} "
            f"({100 * foreseen / first:.1f} % of the grid's best, seed {seeds[0]})"
        )
    console.print()


def phase_targets(bench: Bench, seeds: Sequence[int], left_out: float) -> list[float]:
    """The best that any setting of the grid reaches in each phase, by the first seed."""
    if not bench.case.changes_us:
        return []
    every = [
        phases(bench.case, scores(bench.case, bench.held(bench.watermarks(p), seeds[0])), left_out)
        for p in bench.grid
    ]
    return [max(one[n] for one in every) for n in range(len(every[0]))]


def figures(bench: Bench, rows: Sequence[Row]) -> None:
    """One line a figure."""
    by_name = {row.name: row for row in rows}
    best, ours = rows[-1], by_name["tuner"]
    what = "score of the run" if bench.case.changes_us else "score of what was found"
    others = [row for row in rows[:-1] if not row.name.startswith("tuner")]
    second = max(others, key=lambda row: row.score)
    print(
        f"{bench.case.name}, {what}: {ours.score:.4f} "
        f"({ours.score / best.score:.3f} x the grid's best with {ours.evaluations} of "
        f"{len(bench.grid)} evaluations; {ours.score / second.score:.3f} x {second.name})"
    )


def main() -> int:
    """Run, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--every", type=int, metavar="N", help="only every Nth setting of the grid")
    given = parser.parse_args()
    if given.seeds < 1 or (given.every or 1) < 1:
        parser.error("--seeds and --every must be at least 1")
    unknown = set(given.only) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}; known: {[c.name for c in CASES]}")
    names = given.only or (["all-to-all"] if given.quick else [case.name for case in CASES])
    seeds = range(1, 2 if given.quick else given.seeds + 1)
    store = Store(given.json)
    console = Console(width=150, highlight=False)
    results: dict[str, Any] = {}
    done = []
    shown = Progress(console=Console(stderr=True), transient=True)
    try:
        with shown:
            for case in CASES:
                if case.name not in names:
                    continue
                task = shown.add_task(case.name, total=None)

                def tick(what: str, task: Any = task) -> None:
                    shown.update(task, advance=1, description=what)

                bench = Bench(case, store, tick, given.every or (4 if given.quick else 1))
                shown.update(task, total=len(bench.grid) + 10 * len(seeds))
                rows = rows_of(bench, seeds, tick)
                results[case.name] = {row.name: row.score for row in rows}
                shown.remove_task(task)
                show(bench, rows, console, seeds)
                done.append((bench, rows))
    finally:
        store.save(results)
    for bench, rows in done:
        figures(bench, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
