"""The search, without a fabric: what it may try, what it gives up, when it begins anew."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.watermark.device import DEVICES, Port
from sglb.watermark.errors import WatermarkError
from sglb.watermark.objective import Weights
from sglb.watermark.space import Place, SearchSpace, grid
from sglb.watermark.tuner.annealing import Annealer, Phase, Schedule
from sglb.watermark.tuner.observation import Observation

SEEN = Observation(800.0, 0.9, 0.8, 1.0, 0, 1.0, 1.0)
EVEN = Weights(1, 1, 1)


def space_of() -> SearchSpace:
    whole = grid(DEVICES["simulated"], Port(ports=16))
    enough = [level for level in whole.parameters[5].levels if level >= whole.needed_headroom_bytes]
    headroom = replace(whole.parameters[5], levels=(enough[0],))
    return replace(whole, parameters=(*whole.parameters[:5], headroom))


SPACE = space_of()
START: Place = (2, 4, 2, 4, 1, 0)


def scored(score: float, **changes: float) -> Observation:
    return replace(SEEN, throughput=score, delay=score, unpaused=score, **changes)


def annealer(seed: int = 1, **schedule: float) -> Annealer:
    return Annealer(SPACE, START, random.Random(seed), EVEN, Schedule(**schedule))


def drive(one: Annealer, score_of: Callable[[Place], float], intervals: int) -> None:
    for _ in range(intervals):
        one.observed(scored(score_of(one.place)))


def peak(at: Place) -> Callable[[Place], float]:
    """1 at a place, less by 0.02 with each level that lies between."""
    return lambda place: 1 - 0.02 * sum(abs(a - b) for a, b in zip(place, at, strict=True))


def test_scores_are_weighted_and_a_loss_scores_nothing() -> None:
    seen = Observation(1.0, 0.5, 0.25, 1.0, 0, 1.0, 1.0)
    assert seen.score(Weights(2, 1, 1)) == pytest.approx((2 * 0.5 + 0.25 + 1.0) / 4)
    assert replace(seen, lost_packets=1).score(Weights()) == 0.0


@given(st.integers(0, 2**32), st.lists(st.floats(0, 1), min_size=1, max_size=80))
def test_nothing_forbidden_is_tried_and_steps_are_small(seed: int, scores: list[float]) -> None:
    one = annealer(seed)
    known = {START}
    for score in scores:
        before = one.place
        one.observed(scored(score))
        assert SPACE.why_not(one.place) is None
        assert one.place[5] == START[5]
        if one.place not in known:
            apart = [abs(a - b) for a, b in zip(one.place, before, strict=True)]
            # From the place before, or from the one that stood when that was refused.
            assert max(apart) <= 2
            assert sum(a > 0 for a in apart) <= 4
        known.add(one.place)
    assert len(one.steps) == len(scores)


def test_same_seed_same_steps() -> None:
    runs = []
    for _ in range(2):
        one = annealer(7)
        drive(one, peak((4, 5, 3, 5, 1, 0)), 60)
        runs.append(one.steps)
    assert runs[0] == runs[1]
    other = annealer(8)
    drive(other, peak((4, 5, 3, 5, 1, 0)), 60)
    assert other.steps != runs[0]


def test_it_ends_nearer_to_the_best_than_it_began_and_holds() -> None:
    best = (4, 5, 3, 5, 1, 0)
    score = peak(best)
    ends = []
    for seed in range(32):
        one = annealer(seed)
        drive(one, score, 60)
        assert one.steps[-1].phase is Phase.HOLD
        held = one.place
        ends.append(score(held))
        drive(one, score, 20)
        assert (one.place, one.searches) == (held, 1)
    assert score(START) == pytest.approx(0.9)
    assert min(ends) >= 0.9
    assert sum(ends) / len(ends) > 0.95


def test_a_step_that_hurts_is_taken_back_for_an_interval() -> None:
    one = annealer()
    one.observed(scored(0.9))
    assert one.place != START
    one.observed(scored(0.1))
    assert one.steps[-1].accepted is False
    assert one.place == START
    one.observed(scored(0.9))
    assert one.steps[-1].phase is Phase.RESTORE
    assert one.place != START


def hold(one: Annealer) -> None:
    while not one.steps or one.steps[-1].phase is not Phase.HOLD:
        one.observed(scored(0.8))


@pytest.mark.parametrize(
    "other",
    [scored(0.8, fan_in=2.0), scored(0.8, load=0.5), scored(0.6)],
    ids=["fan-in", "load", "score"],
)
def test_another_traffic_begins_a_new_search_when_it_stays(other: Observation) -> None:
    one = annealer()
    hold(one)
    held = one.place
    one.observed(other)
    one.observed(scored(0.8))  # it was a moment's
    one.observed(other)
    assert (one.searches, one.place) == (1, held)
    one.observed(other)
    assert (one.searches, one.place) == (2, held)
    one.observed(other)
    assert one.steps[-1].phase is Phase.BASELINE
    assert one.steps[-1].temperature == Schedule().first_temperature


def test_small_changes_begin_nothing() -> None:
    one = annealer()
    hold(one)
    for _ in range(20):
        one.observed(scored(0.78, fan_in=1.3))
    assert one.searches == 1


def test_scores_that_scatter_have_not_fallen() -> None:
    one = annealer()
    hold(one)
    rng = random.Random(1)
    for _ in range(100):
        one.observed(scored(0.8 + rng.choice((-0.08, 0.0, 0.08))))
    # Before the scatter is known two low intervals in a row may have begun one.
    assert one.searches <= 2
    before = one.searches
    for _ in range(200):
        one.observed(scored(0.8 + rng.choice((-0.08, 0.0, 0.08))))
    assert one.searches == before
    for _ in range(3):
        one.observed(scored(0.4))
    assert one.searches == before + 1


def test_what_is_held_goes_on_being_judged() -> None:
    best = peak((4, 5, 3, 5, 1, 0))
    one = annealer()
    drive(one, best, 60)
    lucky = one.place
    tried = {step.place for step in one.steps}
    # The place was lucky: it falls little by little, so that no new search begins.
    score = best(lucky)
    for _ in range(60):
        score -= 0.002
        one.observed(scored(score if one.place == lucky else best(one.place)))
    assert one.searches == 1
    assert one.place != lucky
    assert one.place in tried
    assert best(one.place) > score


def test_a_place_that_lost_something_is_not_held_on_to() -> None:
    one = annealer()
    hold(one)
    rng = random.Random(1)
    for _ in range(20):  # so much that a score of 0 would be nothing unusual
        one.observed(scored(rng.choice((0.1, 0.9))))
    held = one.place
    one.observed(scored(0.9, lost_packets=1))
    assert one.place != held


def test_idle_intervals_say_nothing() -> None:
    one = annealer()
    assert one.observed(replace(SEEN, load=0.0, throughput=0.0)) == START
    assert one.steps == []


@pytest.mark.parametrize(
    ("seen", "up", "down"),
    [
        (replace(SEEN, unpaused=0.5), {2, 3}, {0, 1}),
        (replace(SEEN, delay=0.2), {2}, {0, 1}),
        (replace(SEEN, throughput=0.3), {0, 1}, {2}),
    ],
    ids=["paused", "deep queues", "empty links"],
)
def test_steps_lean_to_where_the_traffic_points(
    seen: Observation, up: set[int], down: set[int]
) -> None:
    steps = []
    for seed in range(200):
        one = annealer(seed, bias=1.0)
        after = one.observed(seen)
        steps += [(at, b - a) for at, (a, b) in enumerate(zip(START, after, strict=True)) if a != b]
    with_it = sum((at in up and step > 0) or (at in down and step < 0) for at, step in steps)
    against = sum((at in up and step < 0) or (at in down and step > 0) for at, step in steps)
    assert with_it > 2 * against > 0


def test_what_cannot_be_searched() -> None:
    inverted = (7, 0, 2, 4, 1, 0)
    with pytest.raises(WatermarkError, match="can't start from this setting: Kmin above Kmax"):
        Annealer(SPACE, inverted, random.Random(1))
    for wrong in ({"cooling": 1.0}, {"tries": 0}, {"last_temperature": 0.0}, {"hurt": 0.0}):
        with pytest.raises(WatermarkError):
            Schedule(**wrong)
