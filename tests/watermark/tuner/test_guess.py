"""What is expected of places that were not tried: by neighbours, by the model, by both."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.watermark.device import DEVICES, Port
from sglb.watermark.network import paper_dcqcn
from sglb.watermark.objective import Weights
from sglb.watermark.space import Place, SearchSpace, grid
from sglb.watermark.tuner.annealing import Annealer, Phase, Schedule
from sglb.watermark.tuner.guess import Guess, softmax_pick
from sglb.watermark.tuner.observation import Observation
from sglb.watermark.tuner.prior import Links, Prior

EVEN = Weights(1, 1, 1)
SEEN = Observation(800.0, 0.5, 0.5, 1.0, 0, 1.0, 1.0)


def space_of() -> SearchSpace:
    levels = {"kmin_bytes": 3, "kmax_bytes": 3, "pmax": 3, "dynamic_th": 3, "xon_offset_bytes": 2}
    whole = grid(DEVICES["simulated"], Port(ports=8), levels=levels)
    room = whole.parameters[5]
    enough = min(level for level in room.levels if level >= whole.needed_headroom_bytes)
    return replace(whole, parameters=(*whole.parameters[:5], replace(room, levels=(enough,))))


SPACE = space_of()
PLACES = [p for p in SPACE.places() if SPACE.why_not(p) is None and not p[4]]


class Told(Prior):
    """A prior whose word is given instead of solved for: one kind of traffic for each function."""

    def __init__(self, *words) -> None:
        self._at = 4
        self._number = {place: n for n, place in enumerate(PLACES)}
        self.kinds = tuple(f"kind {n}" for n in range(len(words)))
        said = np.array([[word(place) for place in PLACES] for word in words])
        self.throughput = self.delay = said
        self.unpaused = said
        self.lossless = np.ones(said.shape, dtype=bool)


def seen(score: float, **changes: float) -> Observation:
    return replace(SEEN, throughput=score, delay=score, unpaused=score, **changes)


def rising(place: Place) -> float:
    return 0.4 + 0.1 * place[0] + 0.05 * place[3]


def falling(place: Place) -> float:
    return 0.9 - 0.1 * place[0] - 0.05 * place[3]


def test_without_a_model_what_was_measured_is_expected_and_known_best_there() -> None:
    guess = Guess(None, EVEN)
    near, far = (0, 0, 0, 0, 0, 0), (2, 2, 2, 2, 1, 0)
    guess.learn(near, 0.8, seen(0.8))
    guess.learn(near, 0.8, seen(0.8))
    mean, spread = guess.expect([near, far])
    assert mean[0] == pytest.approx(0.8, abs=0.01)
    assert spread[0] < 0.015 < spread[1]
    assert spread[1] == pytest.approx(0.03, abs=0.02)


def test_neighbours_of_a_good_place_are_expected_to_be_good() -> None:
    guess = Guess(None, EVEN)
    guess.learn((0, 0, 0, 0, 0, 0), 0.9, SEEN)
    guess.learn((2, 2, 2, 2, 1, 0), 0.7, SEEN)
    mean, _ = guess.expect([(0, 1, 0, 0, 0, 0), (2, 1, 2, 2, 1, 0)])
    assert mean[0] > mean[1]


@pytest.mark.parametrize(("truth", "kind"), [(rising, 0), (falling, 1)])
def test_the_kind_of_traffic_that_explains_the_scores_is_believed(truth, kind: int) -> None:
    prior = Told(rising, falling)
    guess = Guess(prior, EVEN)
    # 0.1 less than the model says; the order is what counts.
    for place in PLACES[::7][:5]:
        guess.learn(place, truth(place) - 0.1, seen(truth(place) - 0.1))
    mean, _ = guess.expect(PLACES)
    assert truth(PLACES[int(mean.argmax())]) == max(map(truth, PLACES))
    assert mean.max() == pytest.approx(max(map(truth, PLACES)) - 0.1, abs=0.03)
    assert guess.kind() == f"kind {kind}"


def test_a_model_that_is_wrong_is_left() -> None:
    guess = Guess(Told(rising), EVEN)
    for place in PLACES[::3]:
        guess.learn(place, falling(place), seen(falling(place)))
    mean, _ = guess.expect(PLACES)
    best = falling(PLACES[int(mean.argmax())])
    assert best > max(map(falling, PLACES)) - 0.03


def test_scores_that_scatter_are_believed_less() -> None:
    one, two = (0, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0)
    calm, wild = Guess(None, EVEN), Guess(None, EVEN)
    for each in (-0.1, 0.1) * 4:
        calm.learn(one, 0.7, SEEN)
        wild.learn(one, 0.7 + each, SEEN)
    for guess in (calm, wild):
        guess.learn(two, 0.78, SEEN)  # once
    (sure, there), (doubtful, here) = (guess.expect([two]) for guess in (calm, wild))
    assert sure[0] > 0.75 > doubtful[0] > 0.7
    assert there[0] < here[0]


def test_what_is_learnt_again_weighs_as_if_learnt_apart() -> None:
    # The mean of n scores, with an n-th of the variance, is all that they tell of a place.
    place, other = (0, 0, 0, 0, 0, 0), (2, 2, 2, 2, 1, 0)
    spreads = []
    for times in (1, 4, 16):
        guess = Guess(None, EVEN)
        for _ in range(times):
            guess.learn(place, 0.8, SEEN)
        mean, spread = guess.expect([place, other])
        spreads.append(spread[0])
        assert mean[0] == pytest.approx(0.8, abs=0.02)
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] < 0.005


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30), st.floats(0, 1), st.floats(0.002, 0.02))
def test_a_gain_is_drawn_that_is_there(gains: list[float], chance: float, at: float) -> None:
    number = softmax_pick(np.array(gains), at, chance)
    assert 0 <= number < len(gains)


def test_better_gains_are_drawn_more_often_and_when_cold_always() -> None:
    gains = np.array([0.0, 0.02, -0.5])
    rng = random.Random(1)
    drawn = [softmax_pick(gains, 0.02, rng.random()) for _ in range(2000)]
    # 1 to e, and e^-25 for the last.
    assert drawn.count(1) / drawn.count(0) == pytest.approx(2.718, rel=0.15)
    assert drawn.count(2) == 0
    assert {softmax_pick(gains, 1e-4, rng.random()) for _ in range(50)} == {1}


def annealer(prior: Prior, truth, intervals: int, **schedule: float) -> Annealer:
    worst = min(PLACES, key=truth)
    one = Annealer(SPACE, worst, random.Random(1), EVEN, Schedule(tries=1, **schedule), prior)
    for _ in range(intervals):
        one.observed(seen(truth(one.place)))
    return one


@pytest.mark.parametrize("truth", [rising, falling])
def test_a_search_with_a_model_finds_the_best_within_ten_tries(truth) -> None:
    one = annealer(Told(rising, falling), truth, 12)
    assert one.steps[-1].phase is Phase.HOLD
    assert truth(one.place) == max(map(truth, PLACES))
    assert all(SPACE.why_not(step.place) is None for step in one.steps)


def test_a_schedule_knows_its_length() -> None:
    for tries in (1, 3):
        schedule = Schedule(tries=tries)
        one = Annealer(SPACE, PLACES[0], random.Random(1), EVEN, schedule)
        for _ in range(100):
            one.observed(seen(0.5))
        assert sum(step.phase is not Phase.HOLD for step in one.steps) == schedule.intervals


def test_traffic_that_comes_back_is_known_again() -> None:
    one = annealer(Told(rising, falling), rising, 15)
    first = one.place
    for _ in range(15):
        one.observed(seen(falling(one.place), fan_in=7.0, load=0.5))
    other = one.place
    assert (one.searches, one.recalled) == (2, 0)
    assert falling(other) == max(map(falling, PLACES))
    assert other != first
    # Seven times the fan-in is no accident: one interval is enough.
    one.observed(seen(rising(one.place)))
    assert (rising(one.place), one.searches, one.recalled) == (rising(first), 2, 1)
    one.observed(seen(falling(one.place), fan_in=7.0, load=0.5))
    assert (falling(one.place), one.recalled) == (falling(other), 2)


def test_a_place_that_lost_packets_is_never_entered_again() -> None:
    best = max(PLACES, key=rising)
    one = annealer(Told(rising), rising, 0)
    entered = 0
    for _ in range(60):
        lost = int(one.place == best)
        entered += lost
        one.observed(seen(rising(one.place), lost_packets=lost))
    assert entered == 1
    assert one.place != best


def test_the_solved_prior_has_every_place_and_the_model_s_order() -> None:
    links = Links(40.0, 8.0, 2.0, 1.0, 1_000.0, paper_dcqcn())
    told: list[tuple[int, int]] = []
    prior = Prior(SPACE, links, 0, lambda done, of: told.append((done, of)))
    scores = prior.scores(EVEN)
    assert scores.shape == (len(prior.kinds), len(PLACES))
    assert told[-1][0] == told[-1][1] == scores.size
    assert ((scores >= 0) & (scores <= 1)).all()
    assert [prior.number(p) for p in PLACES] == list(range(len(PLACES)))
    # XON is not the model's.
    assert prior.number((*PLACES[3][:4], 1, 0)) == 3
    assert prior.like((0, 0, 0, 0, 1, 0))[3] == (*PLACES[3][:4], 1, 0)
    # With seven flows from line rate, marking from four packets on makes the shorter queues.
    early, late = PLACES[0], max(PLACES)
    assert SPACE.watermarks(early).kmin_bytes < SPACE.watermarks(late).kmin_bytes
    seven = prior.kinds.index("7 flows")
    assert prior.delay[seven][prior.number(early)] > prior.delay[seven][prior.number(late)]
