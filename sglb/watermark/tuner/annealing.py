"""Simulated annealing on live feedback, without input or output of its own.

Whoever runs it puts `place` in force, measures an interval, and calls `observed`, which gives the place
for the next one. A search accepts what is better, and what is worse by d with the chance exp(-d / T); T
falls by levels. A step that hurts is taken back for an interval before the search goes on. When T has
fallen, the best place stays in force until traffic changes or the score falls, and a new search begins
from there. T falls by a factor of 10 in 9 levels, as Paraleon's does (ICNP 2024); it starts lower, as
scores of neighbouring places differ by a hundredth or so.

What is held goes on being judged: when its scores show that more is to be expected of another place
(without a prior: of another that was tried), that one is held. A score has fallen when it is lower than
scores that scatter as these do are.

Every step moves one or two parameters by one level, to a place that the space's rules allow; headroom
is never changed, so no setting that is tried can lose lossless traffic for want of it. A place that lost
some all the same is never entered again.

With a fluid model's prior a search first leaps to the places of which most is expected, and steps are
drawn by what is expected of them (`sglb.watermark.tuner.guess`). What a search has found is kept: when
its traffic comes back, so does its best place, without a search.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from statistics import fmean, stdev
from typing import Final

from sglb.watermark.errors import WatermarkError
from sglb.watermark.objective import Weights
from sglb.watermark.space import Place, SearchSpace
from sglb.watermark.tuner.guess import Guess, softmax_pick
from sglb.watermark.tuner.observation import Observation
from sglb.watermark.tuner.prior import Prior

_FIXED: Final = frozenset({"headroom_bytes"})
_TRIES: Final = 64
#: Standard deviations of a guess that count as hope.
_CURIOUS: Final = 0.5
#: Standard deviations by which traffic is off when it is another.
_ODD: Final = 2.5
#: So many of the last scores tell how much they scatter.
_RECENT: Final = 16
#: How much traffic scatters (of the logarithm), as if that had been seen in so many intervals.
_SCATTER: Final = 0.4
_FEW: Final = 4
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
        change: a new search begins when fan-in or load is off its mean by this factor, and by 2.5
            standard deviations, or the score has fallen by `hurt` and by 2.5 standard deviations, in
            `confirm` intervals in a row; at once when fan-in or load are off by `leap` times and 5
            standard deviations.
        leaps: with a prior, so many tries of a search go to any place; at most a third of all tries.
        same: traffic whose fan-in and load differ by less than this factor is known again.
    """

    first_temperature: float = 0.02
    last_temperature: float = 0.002
    cooling: float = 0.76
    tries: int = 4
    hurt: float = 0.05
    bias: float = 0.7
    change: float = 1.5
    confirm: int = 2
    leap: float = 3.0
    leaps: int = 4
    same: float = 1.25

    def __post_init__(self) -> None:
        if not 0 < self.last_temperature <= self.first_temperature:
            raise WatermarkError("temperatures must be above 0, the last not above the first")
        if not 0 < self.cooling < 1:
            raise WatermarkError(f"cooling must be between 0 and 1, got {self.cooling:g}")
        if self.tries < 1 or self.confirm < 1:
            raise WatermarkError("tries and confirm must be at least 1")
        if self.hurt <= 0 or self.change <= 1 or not 0 <= self.bias <= 1:
            raise WatermarkError("hurt must be above 0, change above 1, bias from 0 to 1")
        if self.leap <= 1 or self.same <= 1 or self.leaps < 0:
            raise WatermarkError("leap and same must be above 1, leaps 0 or more")

    @property
    def intervals(self) -> int:
        """Of a search that nothing interrupts: the first setting's, and the tries."""
        levels, temperature = 0, self.first_temperature
        while temperature >= self.last_temperature:
            levels += 1
            temperature *= self.cooling
        return 1 + levels * self.tries


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


@dataclass(slots=True, eq=False)
class _Search:
    """What one search has found out, and of what traffic."""

    guess: Guess
    traffic: list[tuple[float, float]] = field(default_factory=list)
    held: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def meet(self, seen: Observation) -> None:
        """Such traffic is part of what the search is for."""
        self.traffic.append(_logs(seen))

    def off(self, seen: Observation, factor: float, deviations: float) -> bool:
        """Whether fan-in or load is off its mean by a factor, and by so many standard deviations."""
        if not self.traffic:
            return False
        for before, now in zip(zip(*self.traffic, strict=True), _logs(seen), strict=True):
            mean = fmean(before)
            spread = math.sqrt(
                (sum((one - mean) ** 2 for one in before) + _FEW * _SCATTER**2)
                / (len(before) + _FEW)
            )
            if abs(now - mean) > max(math.log(factor), deviations * spread):
                return True
        return False

    def scatter(self) -> float:
        """The standard deviation of scores while its best is held; 0 before some are known."""
        return stdev(self.held) if len(self.held) >= _RECENT // 2 else 0.0

    def mean(self, place: Place) -> float:
        known = self.guess.scores[place]
        return sum(known) / len(known)


class Annealer:
    """See the module. The same observations and seed give the same steps."""

    def __init__(
        self,
        space: SearchSpace,
        start: Place,
        rng: random.Random,
        weights: Weights | None = None,
        schedule: Schedule | None = None,
        prior: Prior | None = None,
    ) -> None:
        why = space.why_not(start)
        if why is not None:
            raise WatermarkError(f"the tuner can't start from this setting: {why}")
        self._space = space
        self._rng = rng
        self._weights = weights or Weights()
        self._schedule = schedule or Schedule()
        self._prior = prior
        self.place = start
        self.steps: list[Step] = []
        self.searches = 0
        self.recalled = 0
        self._known: list[_Search] = []
        self._lossy: set[Place] = set()
        self._odd: list[tuple[float, Observation]] = []
        self._trust = 0.5
        self._led = False
        self._hurt = False
        self._begin(start)

    def observed(self, seen: Observation) -> Place:
        """An interval under `place` is over; the place for the next one."""
        if seen.idle:
            return self.place
        score = seen.score(self._weights)
        if seen.lost_packets:
            self._lossy.add(self.place)
        phase, temperature, accepted = self._phase, self._temperature, True
        if phase is not Phase.HOLD and self._other(seen):
            accepted = False
            following = self._strange(score, seen)
        else:
            if phase is not Phase.HOLD:
                self._usual(seen)
            match phase:
                case Phase.BASELINE:
                    self._search.guess.learn(self.place, score, seen)
                    following = self._propose(seen)
                case Phase.SEARCH:
                    accepted = self._judge(score, seen)
                    following = self._after_try(accepted, seen)
                case Phase.RESTORE:
                    self._search.guess.learn(self._current, score, seen)
                    following = self._propose(seen)
                case Phase.HOLD:
                    following = self._watch(score, seen)
        self.steps.append(Step(len(self.steps), self.place, phase, score, temperature, accepted))
        self.place = following
        return following

    @property
    def best(self) -> Place:
        """The place of this search of which most is to be expected; the start before any is known.

        That is the best mean score without a prior; with one, what is measured and what neighbours and
        the model say count together, so that a lucky interval is not taken for a good place.
        """
        places = [place for place in self._search.guess.scores if place not in self._lossy]
        if not places:
            return self._current
        if self._prior is None:
            return max(places, key=self._search.mean)
        mean, _ = self._search.guess.expect(places)
        return places[int(mean.argmax())]

    # --- a search ---

    def _begin(self, start: Place) -> None:
        self.searches += 1
        self._phase = Phase.BASELINE
        self._temperature = self._schedule.first_temperature
        self._current = start
        self._tried = 0
        self._search = _Search(Guess(self._prior, self._weights))
        self._reference = 0.0
        self._odd = []

    def _judge(self, score: float, seen: Observation) -> bool:
        """Whether the place that was tried becomes the current one."""
        loss = self._search.mean(self._current) - score
        self._search.guess.learn(self.place, score, seen)
        accepted = loss <= 0 or self._rng.random() < math.exp(-loss / self._temperature)
        accepted = accepted and self.place not in self._lossy
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
            return self._hold()
        if self._hurt and not accepted:
            self._phase = Phase.RESTORE
            return self._current
        return self._propose(seen)

    def _hold(self) -> Place:
        self._phase = Phase.HOLD
        best = self.best
        self._reference = self._search.mean(best) if self._search.guess.scores else 0.0
        if self._search not in self._known:
            self._known.append(self._search)
        return best

    def _propose(self, seen: Observation) -> Place:
        """A feasible place one step from the current one, itself if there is none; or a leap."""
        self._phase = Phase.SEARCH
        if self._prior is not None:
            self._led = False
            return self._guessed(self._prior)
        wish = _wish(seen)
        self._led = bool(wish) and self._rng.random() < self._schedule.bias * self._trust
        for attempt in range(_TRIES):
            # Where the wish leads nowhere, any way will do.
            led = wish if self._led and attempt < _TRIES // 2 else {}
            place = self._moved(led)
            if place != self._current and self._allowed(place):
                return place
        return self._current

    def _allowed(self, place: Place) -> bool:
        return place not in self._lossy and self._space.why_not(place) is None

    def _guessed(self, prior: Prior) -> Place:
        """Where most is expected of any place, or one step away, by a chance that follows T."""
        guess = self._search.guess
        leaps = min(self._schedule.leaps, (self._schedule.intervals - 1) // 3)
        if self._tried < leaps:
            fresh = [
                place
                for place in prior.like(self._current)
                if place not in self._search.guess.scores and place not in self._lossy
            ]
            if fresh:
                mean, spread = guess.expect(fresh)
                return fresh[int((mean + _CURIOUS * spread).argmax())]
        near = [place for place in self._around() if place not in self._search.guess.scores]
        near = [place for place in near if self._allowed(place)]
        if not near:
            return self._current
        mean, spread = guess.expect(near)
        gains = mean + _CURIOUS * spread
        return near[softmax_pick(gains, self._temperature, self._rng.random())]

    def _around(self) -> list[Place]:
        """All places that one step can reach."""
        found = []
        free = self._free()
        for one in free:
            for two in free:
                for step, step2 in product((-1, 1), (-1, 0, 1) if one < two else (0,)):
                    place = list(self._current)
                    place[one] += step
                    place[two] += step2
                    found.append(tuple(place))
        sizes = [len(p.levels) for p in self._space.parameters]
        return sorted(
            {p for p in found if all(0 <= at < size for at, size in zip(p, sizes, strict=True))}
        )

    def _free(self) -> list[int]:
        return [
            at
            for at, parameter in enumerate(self._space.parameters)
            if parameter.name not in _FIXED and len(parameter.levels) > 1
        ]

    def _moved(self, wish: Mapping[str, int]) -> Place:
        names = [parameter.name for parameter in self._space.parameters]
        free = [at for at in self._free() if not wish or names[at] in wish]
        place = list(self._current)
        for at in self._rng.sample(free, min(len(free), self._rng.choice((1, 1, 2)))):
            parameter = self._space.parameters[at]
            step = wish[parameter.name] if wish else self._rng.choice((-1, 1))
            place[at] = min(max(place[at] + step, 0), len(parameter.levels) - 1)
        return tuple(place)

    # --- traffic that changes ---

    def _other(self, seen: Observation) -> bool:
        """Whether this is not the traffic that the search is for."""
        return self._search.off(seen, self._schedule.change, _ODD)

    def _usual(self, seen: Observation) -> None:
        """It is; and so was what seemed not to be and did not last."""
        for _, one in self._odd:
            self._search.meet(one)
        self._search.meet(seen)
        self._odd = []

    def _strange(self, score: float, seen: Observation) -> Place:
        """Waits until the change is certain, and then does something about it."""
        self._odd.append((score, seen))
        leapt = self._search.off(seen, self._schedule.leap, 2 * _ODD)
        if len(self._odd) < self._schedule.confirm and not leapt:
            return self.place
        known = self._recall(seen) if self._other(seen) else None
        if known is not None:
            self.recalled += 1
            self._search = known
            self._odd = []
            return self._hold()
        odd = [one for one in self._odd if self._prior is not None]
        held = () if self._other(seen) else self._search.held
        self._begin(self.place)
        self._search.held.extend(held)
        if not odd:
            return self.place
        for score_then, seen_then in odd:
            self._search.guess.learn(self.place, score_then, seen_then)
            self._search.meet(seen_then)
        return self._propose(seen)

    def _recall(self, seen: Observation) -> _Search | None:
        """The newest search for traffic like this, if there is one."""
        for one in reversed(self._known):
            if one is not self._search and not one.off(seen, self._schedule.same, 1.0):
                return one
        return None

    def _watch(self, score: float, seen: Observation) -> Place:
        """Stays, unless what is seen is not what the search was for."""
        fall = max(self._schedule.hurt, _ODD * self._search.scatter())
        self._search.held.append(score)
        if self._other(seen) or score < self._reference - fall:
            return self._strange(score, seen)
        self._usual(seen)
        self._reference += 0.1 * (score - self._reference)
        self._search.guess.learn(self.place, score, seen)
        return self._better()

    def _better(self) -> Place:
        """What is held from now on: scores since may show that more is to be expected elsewhere."""
        if self._prior is None:
            best, held = self.best, self._search.mean(self.place)
            expected = self._search.mean(best)
        else:
            places = [place for place in self._prior.like(self.place) if place not in self._lossy]
            if not places:
                return self.place
            mean, _ = self._search.guess.expect([*places, self.place])
            at = int(mean[: len(places)].argmax())
            best, expected, held = places[at], float(mean[at]), float(mean[-1])
        lossy = self.place in self._lossy
        if not lossy and expected - held <= self._schedule.last_temperature:
            return self.place
        self._reference = expected
        return best


def _wish(seen: Observation) -> Mapping[str, int]:
    """Where the observation points."""
    if seen.unpaused < 0.99:
        return _PAUSED
    if seen.delay < 0.5:
        return _DEEP
    if seen.throughput < 0.95:
        return _EMPTY
    return {}


def _logs(seen: Observation) -> tuple[float, float]:
    return math.log(max(seen.fan_in, 1e-9)), math.log(max(seen.load, 1e-9))
