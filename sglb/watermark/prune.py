"""Cuts a search space down to the settings that can be best, and tells what was cut and why.

1. *Feasibility*: rules that need no model (`sglb.watermark.space`).
2. *Sensitivity*: a watermark that changes nothing need not be searched. From settings drawn at random
   each is moved over its levels alone; where the model's score then moves by less than `Limits.flat`
   whatever the others are, one level stands for all.
3. *Model*: of what is left every second level is solved, and then the neighbours (one level of one
   watermark away) of whatever comes within `Limits.reach` of the best so far, until there are no new
   ones. What is not within the tolerance of the best, and a margin for the step before, goes; so does
   what was never reached.

"Within 2 % of the best" is 2 % of the best score. A setting that sensitivity cut is not lost: a kept one
stands for it, which `Pruned.stands_for` finds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sglb.watermark.arrays import Floats
from sglb.watermark.errors import WatermarkError
from sglb.watermark.layout import Timing
from sglb.watermark.network import Network
from sglb.watermark.objective import Weights, parts
from sglb.watermark.settings import Watermarks
from sglb.watermark.solve import solve
from sglb.watermark.space import RULES, Place, SearchSpace

Progress = Callable[[str, int, int], None]


def _quiet(_what: str, _done: int, _of: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Limits:
    """How pruning decides; shares are of the best score.

    Attributes:
        tolerance: settings so close to the best are to be kept.
        margin: and those that a cut watermark may make look worse than they are.
        flat: a watermark that moves the score by less is not searched.
        reach: neighbours are looked at of settings so close to the best.
        draws: settings that each watermark is moved from.
        seed: of the draws.
    """

    tolerance: float = 0.02
    margin: float = 0.005
    flat: float = 0.005
    reach: float = 0.06
    draws: int = 24
    seed: int = 1

    def __post_init__(self) -> None:
        for key in ("tolerance", "margin", "flat", "reach"):
            if not 0 <= getattr(self, key) < 1:
                raise WatermarkError(f"{key} must be from 0 to below 1, got {getattr(self, key)!r}")
        if self.draws < 1:
            raise WatermarkError(f"draws must be at least 1, got {self.draws}")


@dataclass(frozen=True, slots=True)
class Model:
    """What settings are judged by: the mean score over `networks`, each solved with `timing`."""

    networks: tuple[Network, ...]
    timing: Timing
    weights: Weights = field(default_factory=Weights)

    def scores(
        self, settings: Sequence[Watermarks], tell: Callable[[int, int], None] = lambda _d, _o: None
    ) -> Floats:
        """Shape (B,)."""
        total = np.zeros(len(settings))
        of = len(settings) * len(self.networks)
        for at, network in enumerate(self.networks):
            base = at * len(settings)
            found = solve(
                network,
                settings,
                self.timing,
                progress=lambda done, _, base=base: tell(base + done, of),  # type: ignore[misc]
            )
            total += parts(found).score(self.weights)
        return total / len(self.networks)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What moving one watermark alone does to the score, in shares of the best; `kept`: searched."""

    name: str
    largest: float
    typical: float
    kept: bool
    fixed_at: float | None


@dataclass(frozen=True, slots=True)
class Pruned:
    """What is left of a space, best first, and the account of the rest.

    `cut` counts settings by reason, in the order in which reasons were tried. `evaluations` counts
    settings that were solved, each over all networks.
    """

    space: SearchSpace
    kept: tuple[Place, ...]
    scores: tuple[float, ...]
    cut: Mapping[str, int]
    sensitivities: tuple[Sensitivity, ...]
    evaluations: int
    _fixed: Mapping[int, int]

    @property
    def share_cut(self) -> float:
        """Of the grid."""
        return 1 - len(self.kept) / len(self.space)

    def stands_for(self, place: Place) -> Place:
        """The setting that was looked at in place of this one."""
        return tuple(self._fixed.get(at, level) for at, level in enumerate(place))


def prune(
    space: SearchSpace, model: Model, limits: Limits | None = None, progress: Progress = _quiet
) -> Pruned:
    """Cut a space down by the three steps of the module's text. Raises `WatermarkError`.

    The same for the same `limits`; `progress` hears what is being solved, how much of it is done, and of
    how much.
    """
    limits = limits or Limits()
    cut = dict.fromkeys(RULES, 0)
    feasible = []
    for place in space.places():
        rule = space.why_not(place)
        if rule is None:
            feasible.append(place)
        else:
            cut[rule] += 1
    if not feasible:
        most = max(cut, key=lambda rule: cut[rule])
        raise WatermarkError(f"no setting of the grid is feasible; most fail by: {most}")
    known: dict[Place, float] = {}
    judge = _Judge(space, model, known, progress)
    sensitivities, fixed = _sensitivity(space, feasible, judge, limits)
    allowed = set(feasible)
    left = {moved for place in feasible if (moved := _at(place, fixed)) in allowed}
    cut["makes no difference"] = len(feasible) - len(left)
    _spread(space, left, judge, limits)
    best = max(known[place] for place in left if place in known)
    least = best * (1 - limits.tolerance - limits.margin)
    found = [(score, p) for p, score in known.items() if p in left and score >= least]
    found.sort(key=lambda one: (-one[0], one[1]))
    cut["the model finds better ones"] = len(left) - len(found)
    return Pruned(
        space,
        tuple(place for _, place in found),
        tuple(score for score, _ in found),
        cut,
        sensitivities,
        len(known),
        fixed,
    )


class _Judge:
    """Solves settings that are not known yet."""

    def __init__(
        self, space: SearchSpace, model: Model, known: dict[Place, float], progress: Progress
    ) -> None:
        self._space, self._model, self._progress = space, model, progress
        self.known = known

    def __call__(self, places: set[Place], what: str) -> None:
        new = sorted(places - self.known.keys())
        if new:
            settings = [self._space.watermarks(place) for place in new]
            scores = self._model.scores(settings, lambda done, of: self._progress(what, done, of))
            self.known.update(zip(new, map(float, scores), strict=True))


def _spread(space: SearchSpace, left: set[Place], judge: _Judge, limits: Limits) -> None:
    """Solves every second level, then the neighbours of what is good."""
    judge({place for place in left if all(level % 2 == 0 for level in place)}, "every second level")
    if not left & judge.known.keys():
        judge(left, "all that is left")
    seen: set[Place] = set()
    while True:
        reached = [place for place in left & judge.known.keys() if place not in seen]
        best = max(judge.known[place] for place in left & judge.known.keys())
        good = [p for p in reached if judge.known[p] >= best * (1 - limits.reach)]
        if not good:
            return
        seen.update(good)
        judge(
            {near for place in good for near in _neighbours(space, place) if near in left},
            "neighbours",
        )


def _neighbours(space: SearchSpace, place: Place) -> list[Place]:
    return [
        _move(place, at, level)
        for at, parameter in enumerate(space.parameters)
        for level in (place[at] - 1, place[at] + 1)
        if 0 <= level < len(parameter.levels)
    ]


def _at(place: Place, fixed: Mapping[int, int]) -> Place:
    return tuple(fixed.get(at, level) for at, level in enumerate(place))


def _sensitivity(
    space: SearchSpace, feasible: Sequence[Place], judge: _Judge, limits: Limits
) -> tuple[tuple[Sensitivity, ...], dict[int, int]]:
    rng = random.Random(f"{limits.seed}/sensitivity")
    bases = [rng.choice(feasible) for _ in range(limits.draws)]
    allowed = set(feasible)
    lines = [
        [
            [
                p
                for level in range(len(parameter.levels))
                if (p := _move(base, at, level)) in allowed
            ]
            for base in bases
        ]
        for at, parameter in enumerate(space.parameters)
    ]
    judge({place for line in lines for moved in line for place in moved}, "sensitivity")
    score = judge.known
    best = max(score.values())
    found, fixed = [], {}
    for at, parameter in enumerate(space.parameters):
        spans = [
            (max(score[p] for p in moved) - min(score[p] for p in moved)) / best
            for moved in lines[at]
        ]
        flat = max(spans) < limits.flat
        level = _safest(space, at) if flat else None
        if level is not None:
            fixed[at] = level
        found.append(
            Sensitivity(
                parameter.name,
                float(max(spans)),
                float(np.median(spans)),
                level is None,
                None if level is None else parameter.levels[level],
            )
        )
    return tuple(found), fixed


def _move(place: Place, at: int, level: int) -> Place:
    return (*place[:at], level, *place[at + 1 :])


def _safest(space: SearchSpace, at: int) -> int:
    """Of levels that are alike: the least headroom that is enough, else the middle one."""
    parameter = space.parameters[at]
    if parameter.name == "headroom_bytes":
        needed = space.needed_headroom_bytes
        return next(i for i, level in enumerate(parameter.levels) if level >= needed)
    return len(parameter.levels) // 2
