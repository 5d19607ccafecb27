"""What telemetry on change costs, and what the tuner loses by it.

    python bench/telemetry.py [--quick] [--json FILE] [SCENARIO...]

Each scenario is tuned with several seeds (`--quick`: 2), once with all counters read at every interval
(1 ms), once with what switches report on change. Bytes are those of the messages, beside those of a
poll of the same values each interval: 8 bytes a value and nothing around it, all classes of all ports;
and the tuned class alone. The outcome is the run's score (the mean over intervals, in either run of
what really happened), and its completion.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from sglb.cli.files import scenario as scenario_file
from sglb.fabric.control import FabricView
from sglb.watermark.from_scenario import watermarks
from sglb.watermark.objective import Weights
from sglb.watermark.telemetry.agent import Deadband
from sglb.watermark.telemetry.simulated import Cost, ReportedFabric, reported
from sglb.watermark.tuner.fabric import Timing
from sglb.watermark.tuner.observation import Observation
from sglb.watermark.tuner.session import Options, hold, tune

EXAMPLES = Path(__file__).parents[1] / "examples" / "tune"
SEEDS = 16
#: Told to the last byte, in every interval: what really happened.
EXACT = Deadband(steps={}, share=0.0, least=1, every=1)
QUICK_SEEDS = 2


@dataclass(frozen=True, slots=True)
class Pair:
    """One seed of a scenario: the tuner that reads all, and the one that is told."""

    scenario: str
    seed: int
    read_score: float
    told_score: float
    read_us: float | None
    told_us: float | None
    duration_s: float
    cost: Cost


class Judged:
    """A `Watch` that sees all for the bench, and shows the tuner all, or what is told on change."""

    def __init__(self, view: FabricView, told: ReportedFabric | None) -> None:
        self.truth: list[Observation] = []
        self._told = told
        self._exact = ReportedFabric(view, EXACT, Cost())

    def begin(self) -> None:
        """An interval begins."""
        self._exact.begin()
        if self._told is not None:
            self._told.begin()

    def sample(self) -> None:
        """Some time within it."""
        self._exact.sample()
        if self._told is not None:
            self._told.sample()

    def end(self) -> Observation:
        """It is over."""
        self.truth.append(self._exact.end())
        return self.truth[-1] if self._told is None else self._told.end()

    @property
    def score(self) -> float:
        """The mean of what happened."""
        return statistics.fmean(one.score(Weights()) for one in self.truth if not one.idle)


def measure(path: Path, seed: int) -> Pair:
    """Both runs."""
    scenario = scenario_file(path, seed)
    timing, cost = Timing(), Cost()
    policy = scenario.policies[0]
    fixed = hold(scenario, policy, watermarks(scenario), Options(timing=timing))

    def tuned(told: Callable[[FabricView], ReportedFabric] | None) -> tuple[float, float | None]:
        made: list[Judged] = []

        def watch(view: FabricView) -> Judged:
            made.append(Judged(view, None if told is None else told(view)))
            return made[-1]

        found = tune(scenario, policy, Options(timing=timing, watch=watch), fixed=fixed).tuned
        return made[-1].score, found.completion_us

    read_score, read_us = tuned(None)
    told_score, told_us = tuned(reported(timing, cost))
    interval_s = (timing.settle_us + timing.measure_us) / 1e6
    duration_s = cost.intervals / len(scenario.topology.switches) * interval_s
    return Pair(path.stem, seed, read_score, told_score, read_us, told_us, duration_s, cost)


def show(name: str, pairs: list[Pair]) -> None:
    """A scenario's figures."""
    seconds = sum(pair.duration_s for pair in pairs)

    def rate(total: int) -> float:
        return total / seconds / 1e3

    told = rate(sum(pair.cost.bytes for pair in pairs))
    polled = rate(sum(pair.cost.polled_bytes for pair in pairs))
    narrow = rate(sum(pair.cost.polled_class_bytes for pair in pairs))
    print(f"{name} telemetry on change: {told:,.1f} KB/s ({told / polled:.3f} of polling)")
    print(f"{name} polling all classes: {polled:,.1f} KB/s (1.000)")
    print(f"{name} polling the tuned class: {narrow:,.1f} KB/s ({narrow / polled:.3f} of polling)")
    read = statistics.fmean(pair.read_score for pair in pairs)
    score = statistics.fmean(pair.told_score for pair in pairs)
    print(f"{name} score, told: {score:.4f} ({score / read:.4f} of {read:.4f}, when all is read)")
    done = [(p.read_us, p.told_us) for p in pairs if p.read_us and p.told_us]
    if done:
        before = statistics.fmean(a for a, _ in done)
        after = statistics.fmean(b for _, b in done)
        print(
            f"{name} completion, told: {after:,.0f} us ({after / before:.4f} of {before:,.0f} us)"
        )
    shares = [pair.told_score / pair.read_score for pair in pairs]
    spread = statistics.stdev(shares) if len(shares) > 1 else 0.0
    print(
        f"{name} score of one seed, told: {min(shares):.3f} to {max(shares):.3f} "
        f"(standard deviation {spread:.3f}, {len(pairs)} seeds)"
    )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scenario", nargs="*", type=Path, default=[EXAMPLES / "ecn-above-pfc.yaml"])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_SEEDS} seeds, not {SEEDS}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number there")
    args = parser.parse_args()
    found = []
    for path in args.scenario:
        pairs = [
            measure(path, seed) for seed in range(1, 1 + (QUICK_SEEDS if args.quick else SEEDS))
        ]
        found += pairs
        show(path.stem, pairs)
    if args.json:
        args.json.write_text(json.dumps([asdict(pair) for pair in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
