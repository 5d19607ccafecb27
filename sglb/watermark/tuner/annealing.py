"""Simulated annealing on live feedback, without input or output of its own.

Whoever runs it puts `place` in force, measures an interval, and calls `observed`, which gives the place
for the next one. A search accepts what is better, and what is worse by d with the chance exp(-d / T); T
falls by levels. A step that hurts is taken back for an interval before the search goes on. When T has
fallen, the best place stays in force until traffic changes or the score falls, and a new search begins
from there. T falls by a factor of 10 in 9 levels, as Paraleon's does (ICNP 2024); it starts lower, as
scores of neighbouring places differ by a hundredth or so.

Every step moves one or two parameters by one level, to a place that the space's rules allow; headroom
is never changed, so no setting that is tried can lose lossless traffic for want of it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sglb.watermark.errors import WatermarkError
from sglb.watermark.objective import Weights
from sglb.watermark.space import Place, SearchSpace
from sglb.watermark.tuner.observation import Observation

_FIXED: Final = frozenset({"headroom_bytes"})
_TRIES: Final = 64
#: Where steps should lead when peers are paused, queues are deep, or links run empty.
_PAUSED: Final = {"kmin_bytes": -1, "kmax_bytes": -1, "pmax": 1, "dynamic_th": 1}
_DEEP: Final = {"kmin_bytes": -1, "kmax_bytes": -1, "pmax": 1}
_EMPTY: Final = {"kmin_bytes": 1, "kmax_bytes": 1, "pmax": -1}


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the search runs.

    Attributes:
        first_temperature, last_temperature, cooling, tries: T goes from the first below the last, times
            `cooling` after each level of `tries` intervals.
        hurt: a step whose score is that much lower is taken back for an interval.
        bias: the largest chance that a step goes where the observation points; it falls as such
            steps fail (an average over about ten).
        change: a new search begins when fan-in or load has changed by this factor, or the score has
            fallen by `hurt`, in `confirm` intervals in a row.
    """

    first_temperature: float = 0.02
    last_temperature: float = 0.002
    cooling: float = 0.76
    tries: int = 4
    hurt: float = 0.05
    bias: float = 0.7
    change: float = 1.5
    confirm: int = 2

    def __post_init__(self) -> None:
        if not 0 < self.last_temperature <= self.first_temperature:
            raise WatermarkError("temperatures must be above 0, the last not above the first")
        if not 0 < self.cooling < 1:
            raise WatermarkError(f"cooling must be between 0 and 1, got {self.cooling:g}")
        if self.tries < 1 or self.confirm < 1:
            raise WatermarkError("tries and confirm must be at least 1")
        if self.hurt <= 0 or self.change <= 1 or not 0 <= self.bias <= 1:
            raise WatermarkError("hurt must be above 0, change above 1, bias from 0 to 1")


class Phase(StrEnum):
    """What an interval was for."""

    BASELINE = "baseline"  # the setting that a search starts from
    SEARCH = "search"
    RESTORE = "restore"  # back at the last good setting after a step that hurt
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Step:
    """One interval: what was in force, how it did, and what followed from that."""

    number: int
    place: Place
    phase: Phase
    score: float
    temperature: float
    accepted: bool


class Annealer:
    """See the module. The same observations and seed give the same steps."""

    def __init__(
        self,
        space: SearchSpace,
        start: Place,
        rng: random.Random,
        weights: Weights | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        why = space.why_not(start)
        if why is not None:
            raise WatermarkError(f"the tuner can't start from this setting: {why}")
        self._space = space
        self._rng = rng
        self._weights = weights or Weights()
        self._schedule = schedule or Schedule()
        self.place = start
        self.steps: list[Step] = []
        self.searches = 0
        self._trust = 0.5
        self._led = False
        self._hurt = False
        self._seen: Observation | None = None
        self._begin(start)

    def observed(self, seen: Observation) -> Place:
        """An interval under `place` is over; the place for the next one."""
        if seen.idle:
            return self.place
        score = seen.score(self._weights)
        phase, temperature, accepted = self._phase, self._temperature, True
        match phase:
            case Phase.BASELINE:
                self._know(self.place, score)
                self._seen = seen
                following = self._propose(seen)
            case Phase.SEARCH:
                accepted = self._judge(score)
                following = self._after_try(accepted, seen)
            case Phase.RESTORE:
                self._know(self._current, score)
                following = self._propose(seen)
            case Phase.HOLD:
                following = self._watch(score, seen)
        self.steps.append(Step(len(self.steps), self.place, phase, score, temperature, accepted))
        self.place = following
        return following

    @property
    def best(self) -> Place:
        """The place with the best mean score of this search; the start before any is known."""
        if not self._scores:
            return self._current
        return max(self._scores, key=lambda place: self._mean(place))

    # --- a search ---

    def _begin(self, start: Place) -> None:
        self.searches += 1
        self._phase = Phase.BASELINE
        self._temperature = self._schedule.first_temperature
        self._current = start
        self._tried = 0
        self._scores: dict[Place, tuple[float, int]] = {}
        self._reference = 0.0
        self._odd = 0
        self._seen = None

    def _know(self, place: Place, score: float) -> None:
        total, count = self._scores.get(place, (0.0, 0))
        self._scores[place] = (total + score, count + 1)

    def _mean(self, place: Place) -> float:
        total, count = self._scores[place]
        return total / count

    def _judge(self, score: float) -> bool:
        """Whether the place that was tried becomes the current one."""
        loss = self._mean(self._current) - score
        self._know(self.place, score)
        accepted = loss <= 0 or self._rng.random() < math.exp(-loss / self._temperature)
        if self._led:
            self._trust += 0.1 * ((loss <= 0) - self._trust)
        self._hurt = loss > self._schedule.hurt
        if accepted:
            self._current = self.place
        return accepted

    def _after_try(self, accepted: bool, seen: Observation) -> Place:
        self._tried += 1
        if self._tried % self._schedule.tries == 0:
            self._temperature *= self._schedule.cooling
        if self._temperature < self._schedule.last_temperature:
            self._phase = Phase.HOLD
            best = self.best
            self._reference = self._mean(best)
            self._seen = seen
            return best
        if self._hurt and not accepted:
            self._phase = Phase.RESTORE
            return self._current
        return self._propose(seen)

    def _propose(self, seen: Observation) -> Place:
        """A feasible place one step from the current one, itself if there is none."""
        self._phase = Phase.SEARCH
        wish = _wish(seen)
        self._led = bool(wish) and self._rng.random() < self._schedule.bias * self._trust
        for attempt in range(_TRIES):
            # Where the wish leads nowhere, any way will do.
            led = wish if self._led and attempt < _TRIES // 2 else {}
            place = self._moved(led)
            if place != self._current and self._space.why_not(place) is None:
                return place
        return self._current

    def _moved(self, wish: Mapping[str, int]) -> Place:
        free = [
            at
            for at, parameter in enumerate(self._space.parameters)
            if parameter.name not in _FIXED
            and len(parameter.levels) > 1
            and (not wish or parameter.name in wish)
        ]
        place = list(self._current)
        for at in self._rng.sample(free, min(len(free), self._rng.choice((1, 1, 2)))):
            parameter = self._space.parameters[at]
            step = wish[parameter.name] if wish else self._rng.choice((-1, 1))
            place[at] = min(max(place[at] + step, 0), len(parameter.levels) - 1)
        return tuple(place)

    # --- holding ---

    def _watch(self, score: float, seen: Observation) -> Place:
        """Stays, or begins anew when what is seen is not what the search was for."""
        assert self._seen is not None
        schedule = self._schedule
        other = score < self._reference - schedule.hurt or _changed(
            self._seen, seen, schedule.change
        )
        self._odd = self._odd + 1 if other else 0
        if self._odd >= schedule.confirm:
            self._begin(self.place)
        elif not other:
            self._reference += 0.1 * (score - self._reference)
        return self.place


def _wish(seen: Observation) -> Mapping[str, int]:
    """Where the observation points."""
    if seen.unpaused < 0.99:
        return _PAUSED
    if seen.delay < 0.5:
        return _DEEP
    if seen.throughput < 0.95:
        return _EMPTY
    return {}


def _changed(then: Observation, now: Observation, factor: float) -> bool:
    pairs = ((then.fan_in, now.fan_in), (then.load, now.load))
    return any(max(a, b) > factor * max(min(a, b), 1e-9) for a, b in pairs)
