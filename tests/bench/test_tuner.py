"""How the tuner's bench judges: recovery, phases, what counts as an evaluation, what is kept."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import tuner as bench

from sglb.fabric import scenario as scenarios
from sglb.watermark.objective import Weights
from sglb.watermark.settings import Watermarks
from sglb.watermark.tuner.observation import Observation

CASE = bench.Case("c", "changing.yaml", 500, 5_000, changes_us=(2_000, 3_500))
SEEN = Observation(500, 0.5, 0.5, 0.5, 0, 1.0, 1.0)


def test_recovery_is_the_time_until_two_intervals_are_near_the_target() -> None:
    # 4 intervals, 3 and 3; 95 % of 0.8 are 0.76.
    values = [0.9] * 4 + [0.1, 0.8, 0.79] + [0.77, 0.76, 0.1]
    assert bench.recovery_us(CASE, values, [0.9, 0.8, 0.8]) == pytest.approx((500 + 0) / 2)
    # The last phase never gets there: it counts whole.
    assert bench.recovery_us(CASE, values, [0.9, 0.8, 0.9]) == pytest.approx((500 + 1_500) / 2)
    assert bench.recovery_us(CASE, [0.1] * 10, [0.9, 0.8, 0.9]) is None


def test_phases_leave_out_their_first_fifth() -> None:
    case = replace(CASE, window_us=10_000, changes_us=(5_000,))
    values = [0.0, 0.0, *[1.0] * 8, 0.0, 0.0, *[0.5] * 8]
    assert bench.phases(case, values) == [1.0, 0.5]


def test_scores_count_busy_intervals_of_the_window() -> None:
    case = replace(CASE, window_us=1_500, weights=Weights(2, 1, 1))
    run = {
        "intervals": [[0.5, 1.0, 1.0, 0, 1.0], [1, 1, 1, 0, 0.0], [1, 1, 1, 3, 1], [1, 1, 1, 0, 1]]
    }
    assert bench.scores(case, run) == [0.75, 0.0]


def test_a_search_that_is_asked_ends_with_its_evaluations_and_holds_the_best() -> None:
    told: list[float] = []
    one = bench.Asked(
        SimpleNamespace(budget=3, case=CASE), iter([(0,), (1,), (2,), (3,)]), told.append
    )
    entered = [one.place]
    for throughput in (0.2, 0.9, 0.4, 1.0, 1.0):
        entered.append(one.observed(replace(SEEN, throughput=throughput)))
        # What is idle is no evaluation.
        assert one.observed(replace(SEEN, load=0.0)) == entered[-1]
    assert entered == [(0,), (1,), (2,), (1,), (1,), (1,)]
    assert (one.tried, one.best, len(told)) == (3, (1,), 3)


def test_runs_are_kept_and_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    store = bench.Store(path)
    assert store.get("a", lambda: {"n": 1}) == {"n": 1}
    store.save({"case": {"tuner": 0.5}})
    again = bench.Store(path)
    assert again.get("a", lambda: pytest.fail("made again")) == {"n": 1}
    assert json.loads(path.read_text())["results"] == {"case": {"tuner": 0.5}}


@pytest.mark.parametrize("case", bench.CASES, ids=lambda case: case.name)
def test_cases_are_scenarios_with_enough_intervals_for_a_search(case: bench.Case) -> None:
    made = bench.Bench(case, bench.Store(None), lambda _what: None, 1)
    assert made.budget <= bench.SHARE * made.feasible
    assert made.budget < case.intervals
    assert made.space.why_not(made.start) is None
    last_us = max(flow.start_ps for flow in made.scenario(1).workload.flows) / 1e6
    assert 0.75 * case.window_us <= last_us <= case.window_us * 1.15
    assert all(0 < at < case.window_us for at in case.changes_us)


def test_the_load_is_that_of_the_case() -> None:
    (heavy,) = (case for case in bench.CASES if case.name == "mix 70 %")
    loads = [part["arrivals"]["load"] for part in heavy.model()["workload"]["mix"]]
    assert loads == [0.35, 0.35]
    assert scenarios.from_dict(heavy.model()).name == "mix"


def test_published_settings_are_the_sources() -> None:
    own = Watermarks(160_000, 640_000, 0.2, 0.125)
    found = {name: make(own, 40.0) for name, make in bench.FIXED.items()}
    marks = {n: (w.kmin_bytes, w.kmax_bytes, w.pmax, w.alpha) for n, w in found.items()}
    assert marks == {
        "SONiC AZURE_LOSSLESS": (1_048_576, 2_097_152, 0.05, 0.125),
        "DCQCN paper": (5_000, 200_000, 0.01, 8),
        "HPCC paper": (160_000, 640_000, 0.2, 0.125),
    }
