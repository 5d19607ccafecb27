"""What failover saves in a run: simulated, with confidence, beside the closed form."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from sglb.collective.savings import closed_forms, policy
from sglb.collective.savings.policy import Floats, Policy
from sglb.collective.savings.settings import Settings
from sglb.collective.savings.simulate import Outcome, simulate

#: Of the intervals that are given.
CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
#: Restart times above this are not looked at for the break-even: 30 days.
LONGEST_RESTART_MIN = 43_200.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over runs, the half width of its 95 % confidence interval, and where 90 % of runs lie."""

    mean: float
    half_width: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Floats) -> Estimate:
        """From one value for each run; at least two."""
        low, high = np.quantile(values, (0.05, 0.95))
        spread = float(values.std(ddof=1)) / math.sqrt(len(values))
        return cls(float(values.mean()), _Z * spread, float(low), float(high))


@dataclass(frozen=True, slots=True)
class Side:
    """A run under one policy; all but counts and the interval as shares of its GPU-hours (0 to 1).

    `kept_formula`: what `closed_forms.kept_share` has for `kept`.
    """

    kept: Estimate
    kept_formula: float
    writing: float
    lost: float
    recovery: float
    stalled: float
    slowed: float
    restarts: float
    failovers: float
    interval_min: float


@dataclass(frozen=True, slots=True)
class BreakEven:
    """From which restart time on failover pays (by the closed forms).

    `restart_min`: that time; 0: from any; None: not even at `LONGEST_RESTART_MIN`. `first_order_min`:
    from failover_stall + (1 - speed) x repair = interval/2 + detection + restart, the mean over the
    kinds of faults that failover saves; may be negative. Both None when failover saves from nothing.
    """

    restart_min: float | None
    first_order_min: float | None


@dataclass(frozen=True, slots=True)
class Assessment:
    """Both policies, what the second saves over the first, and the settings that they stand on.

    `saved_gpu_hours` is of kept work; `saved_formula_gpu_hours` from the closed forms.
    """

    settings: Settings
    without: Side
    failover: Side
    saved_gpu_hours: Estimate
    saved_formula_gpu_hours: float
    break_even: BreakEven

    def as_dict(self) -> dict[str, Any]:
        """Plain data, all settings and kinds of faults included."""
        found = {
            field.name: dataclasses.asdict(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if dataclasses.is_dataclass(getattr(self, field.name))
        }
        return {
            "settings": self.settings.model_dump(mode="json"),
            "faults": {
                name: fault.model_dump(mode="json") for name, fault in self.settings.kinds().items()
            },
            "gpu_hours": self.settings.gpu_hours,
            "saved_formula_gpu_hours": self.saved_formula_gpu_hours,
            **found,
        }

    def to_json(self) -> str:
        """`as_dict` as JSON text."""
        return json.dumps(self.as_dict(), indent=2) + "\n"


def assess(settings: Settings) -> Assessment:
    """Simulate `settings.runs` runs with and without failover, through the same faults."""
    without, failover = policy.without_failover(settings), policy.with_failover(settings)
    one, two = simulate([without, failover], settings.hours, settings.runs, settings.seed)
    return Assessment(
        settings=settings,
        without=_side(settings, without, one),
        failover=_side(settings, failover, two),
        saved_gpu_hours=Estimate.of((two.kept_h - one.kept_h) * settings.gpus),
        saved_formula_gpu_hours=saved_formula(settings),
        break_even=break_even(settings),
    )


def _side(settings: Settings, lives: Policy, found: Outcome) -> Side:
    def share(hours: Floats) -> float:
        return float(hours.mean()) / settings.hours

    return Side(
        kept=Estimate.of(found.kept_h / settings.hours),
        kept_formula=closed_forms.kept_share(lives, settings.hours),
        writing=share(found.writing_h),
        lost=share(found.lost_h),
        recovery=share(found.recovery_h),
        stalled=share(found.stalled_h),
        slowed=share(found.slowed_h),
        restarts=float(found.restarts.mean()),
        failovers=float(found.failovers.mean()),
        interval_min=lives.interval_h * 60,
    )


def saved_formula(settings: Settings) -> float:
    """GPU-hours that failover saves, by `closed_forms.kept_share`."""
    kept = [
        closed_forms.kept_share(lives, settings.hours)
        for lives in (policy.without_failover(settings), policy.with_failover(settings))
    ]
    return (kept[1] - kept[0]) * settings.gpu_hours


def break_even(settings: Settings) -> BreakEven:
    """See `BreakEven`."""
    without, failover = policy.without_failover(settings), policy.with_failover(settings)
    saved = without.ends_job & ~failover.ends_job
    rates = np.where(saved, failover.rates, 0)
    if not rates.sum():
        return BreakEven(None, None)
    cost_h = sum(
        rate * closed_forms.failover_loss_h(stall, failover.speeds[level], repair)
        for rate, stall, level, repair in zip(
            rates[saved],
            failover.stall_h[saved],
            failover.level[saved],
            failover.repair_h[saved],
            strict=True,
        )
    ) / float(rates.sum())
    at_once_h = closed_forms.restart_loss_h(
        without.interval_h, settings.detection_s / 3600, restart_h=0
    )
    return BreakEven(_crossing(settings), (cost_h - at_once_h) * 60)


def _crossing(settings: Settings) -> float | None:
    """The restart time at which `saved_formula` turns positive, by bisection."""

    def pays(restart_min: float) -> bool:
        return saved_formula(settings.model_copy(update={"restart_min": restart_min})) > 0

    if pays(0):
        return 0.0
    # At hopelessly long restarts neither policy keeps anything, so look from below.
    low, high = 0.0, 1.0
    while not pays(high):
        low, high = high, high * 2
        if high > LONGEST_RESTART_MIN:
            return None
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high
