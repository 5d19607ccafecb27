"""What a setting will score: the fluid model's word, corrected by what was measured.

A Gaussian process over places (Rasmussen and Williams, 2006, chapters 2 and 5): its mean is an offset
and a multiple of what the model says of one kind of traffic, beside it what nearby places share.
Kinds are weighed by how well they explain the scores that were measured (marginal likelihood), and the
delay and pauses that came with them. One kind is none: the model tells nothing. So is how much scores of
one place scatter: two guesses at that are weighed the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Final

import numpy as np

from sglb.watermark.arrays import Floats
from sglb.watermark.objective import Weights
from sglb.watermark.space import Place
from sglb.watermark.tuner.observation import Observation
from sglb.watermark.tuner.prior import Prior

#: Of an interval's score, with what speaks against it beforehand (log): calm traffic; such that
#: scatters; such whose own rounds are as long as an interval.
_NOISES: Final = ((0.01, 0.0), (0.03, 0.0), (0.1, 3.0))
_OFFSET: Final = 0.3
_SCALE: Final = 0.4  #: of the model's differences: 1 +- this
_LOCAL: Final = 0.03  #: what places have beside the model
_LENGTH: Final = 1.5  #: levels over which they have it in common
_PARTS: Final = 0.15  #: how far delay and pauses may be from the model's


class Guess:
    """Learns from intervals of one kind of traffic; `scores` are those of each place."""

    def __init__(self, prior: Prior | None, weights: Weights) -> None:
        self._prior = prior
        self._means: Floats = np.zeros((1, 1))
        if prior is not None:
            self._means = np.vstack([prior.scores(weights), np.zeros(prior.delay.shape[1])])
        self.scores: dict[Place, list[float]] = {}
        self._parts: list[tuple[Place, float, float]] = []

    def learn(self, place: Place, score: float, seen: Observation) -> None:
        """One interval under a place."""
        self.scores.setdefault(place, []).append(score)
        self._parts.append((place, seen.delay, seen.unpaused))

    def expect(self, places: Sequence[Place]) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each place's score; needs one that was learnt."""
        met = list(self.scores)
        known = np.array(met, dtype=np.float64)
        asked = np.array(places, dtype=np.float64)
        counts = np.array([len(each) for each in self.scores.values()], dtype=np.float64)
        scores = np.array([sum(each) / len(each) for each in self.scores.values()])
        scatter = sum(float(np.var(each)) * len(each) for each in self.scores.values())
        again = float(counts.sum()) - len(met)
        numbers, wanted = self._numbers(met), self._numbers(places)
        evidence, means, variances = [], [], []
        local = _LOCAL**2 * _near(known, known)
        towards = _LOCAL**2 * _near(asked, known)
        apart = [self._apart(kind) for kind in range(len(self._means))]
        for kind, (noise, against) in product(range(len(self._means)), _NOISES):
            there, here = self._means[kind][numbers], self._means[kind][wanted]
            centre = float(there.mean())
            a, b = _SCALE * (there - centre), _SCALE * (here - centre)
            matrix = local + _OFFSET**2 + np.outer(a, a) + np.diag(noise**2 / counts)
            across = towards + _OFFSET**2 + np.outer(b, a)
            left = scores - there
            root = np.linalg.cholesky(matrix)
            solved = np.linalg.solve(root.T, np.linalg.solve(root, left))
            spread = np.linalg.solve(root, across.T)
            means.append(here + across @ solved)
            variances.append(_OFFSET**2 + b * b + _LOCAL**2 - (spread**2).sum(axis=0))
            likelihood = -0.5 * float(left @ solved) - float(np.log(np.diag(root)).sum())
            # What places met again tell of the noise.
            likelihood -= 0.5 * scatter / noise**2 + again * float(np.log(noise))
            evidence.append(likelihood - against - apart[kind])
        share = np.exp(np.array(evidence) - max(evidence))
        share /= share.sum()
        mean = share @ np.array(means)
        # Kinds that disagree add to what is not known.
        between = share @ (np.array(means) - mean) ** 2
        return mean, np.sqrt(np.maximum(share @ np.array(variances) + between, 0.0))

    def kind(self) -> str | None:
        """The kind of traffic whose delay and pauses are the nearest; None without a model."""
        if self._prior is None or not self._parts:
            return None
        kinds = self._prior.kinds
        return kinds[min(range(len(kinds)), key=self._apart)]

    def _numbers(self, places: Sequence[Place]) -> list[int]:
        if self._prior is None:
            return [0] * len(places)
        found = [self._prior.number(place) for place in places]
        return [0 if number is None else number for number in found]

    def _apart(self, kind: int) -> float:
        """How far what was measured is from a kind's delay and pauses, as a negative log likelihood."""
        if self._prior is None or kind == len(self._prior.kinds):
            return 2.0
        numbers = self._numbers([place for place, _, _ in self._parts])
        there = (self._prior.delay[kind][numbers], self._prior.unpaused[kind][numbers])
        measured = np.array([parts for _, *parts in self._parts]).T
        errors = [((m - t) ** 2).mean() for m, t in zip(measured, there, strict=True)]
        return float(sum(errors)) / (2 * _PARTS**2)


def _near(some: Floats, others: Floats) -> Floats:
    """What places have in common, by the levels between them: (some, others)."""
    squares = ((some[:, None, :] - others[None, :, :]) ** 2).sum(axis=2)
    found: Floats = np.exp(-squares / (2 * _LENGTH**2))
    return found


def softmax_pick(gains: Floats, temperature: float, chance: float) -> int:
    """The number of a gain, drawn with weights exp(gain / temperature) by a `chance` from 0 to 1."""
    weights = np.exp((gains - gains.max()) / temperature)
    found = int(np.searchsorted(np.cumsum(weights), chance * float(weights.sum())))
    return min(found, len(gains) - 1)
