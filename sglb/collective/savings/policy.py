"""What each kind of fault does to a job, without failover and with it, as arrays to simulate with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sglb.collective.savings import intervals
from sglb.collective.savings.settings import Fault, Loss, Settings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_S_PER_H = 3600
_MIN_PER_H = 60


@dataclass(frozen=True, slots=True)
class Policy:
    """How a job lives with faults. Times in hours; arrays have an entry for each kind of fault.

    `ends_job`: the kind costs all work since the last checkpoint, and `recovery_h`. Other kinds cost
    `stall_h`, and slow the job to `speeds[level]` until `repair_h` later. `speeds` are shares of the
    full speed, slowest first, without repetition. `rates` are faults per hour of the whole job.
    """

    rates: Floats
    ends_job: NDArray[np.bool_]
    stall_h: Floats
    level: Ints
    repair_h: Floats
    speeds: Floats
    interval_h: float
    write_h: float
    recovery_h: float
    random_repair: bool
    restart_clears: bool

    @property
    def restarts_per_hour(self) -> float:
        """Faults that end the job, per hour."""
        return float(self.rates[self.ends_job].sum())

    @property
    def cycle_h(self) -> float:
        """Work from one checkpoint to the next and writing it, in hours at full speed."""
        return self.interval_h + self.write_h


def load_factor(rails: int, reroute: str, loses: Loss) -> float | None:
    """How many times longer communication takes with failover; None when failover cannot save the job.

    A ring's slowest host sets its pace. With m rails, 1 lost: m / (m - 1) if the others share its
    traffic evenly, 2 if one takes it all; half a rail lost (of a dual-homed NIC): m / (m - 1/2).
    """
    lost = 0.5 if reroute == "dual-homed" and loses in ("link", "switch") else 1.0
    if rails <= lost:
        return None
    return 2.0 if reroute == "neighbour" else rails / (rails - lost)


def plain_factor(reroute: str, loses: Loss) -> float | None:
    """The same without failover: only a dual-homed NIC survives, on one port of two."""
    if reroute == "dual-homed" and loses in ("link", "switch"):
        return 2.0
    return None


def iteration_speed(settings: Settings, factor: float) -> float:
    """Share of full speed when communication takes `factor` times as long.

    An iteration then takes 1 + s of its time, s = exposed_communication x (factor - 1).
    """
    return 1 / (1 + settings.exposed_communication * (factor - 1))


def without_failover(settings: Settings) -> Policy:
    """The job ends with every fault, except those that dual-homed NICs survive by themselves."""
    kinds = list(settings.kinds().values())
    factors = [plain_factor(settings.reroute, fault.loses) for fault in kinds]
    return _policy(settings, kinds, factors, [0.0] * len(kinds))


def with_failover(settings: Settings) -> Policy:
    """Failover saves the job from those of `failover_saves`."""
    kinds = list(settings.kinds().values())
    factors, stalls = [], []
    for fault in kinds:
        factor = None
        if fault.loses in settings.failover_saves:
            factor = load_factor(settings.rails_per_host, settings.reroute, fault.loses)
        saved = factor is not None
        factors.append(factor if saved else plain_factor(settings.reroute, fault.loses))
        stalls.append(settings.failover_stall_s / _S_PER_H if saved else 0.0)
    return _policy(settings, kinds, factors, stalls)


def _policy(
    settings: Settings, kinds: list[Fault], factors: list[float | None], stalls: list[float]
) -> Policy:
    speed = [1.0 if f is None else iteration_speed(settings, f) for f in factors]
    speeds = sorted({s for s, f in zip(speed, factors, strict=True) if f is not None})
    rates = np.array([fault.per_gpu_hour * settings.gpus for fault in kinds])
    ends_job = np.array([factor is None for factor in factors])
    write_h = settings.checkpoint_write_s / _S_PER_H
    recovery_h = settings.detection_s / _S_PER_H + settings.restart_min / _MIN_PER_H
    interval = settings.checkpoint_interval_min
    if isinstance(interval, str):
        interval_h = intervals.best_h(interval, write_h, float(rates[ends_job].sum()))
    else:
        interval_h = interval / _MIN_PER_H
    return Policy(
        rates=rates,
        ends_job=ends_job,
        stall_h=np.array(stalls),
        level=np.array(
            [0 if f is None else speeds.index(s) for s, f in zip(speed, factors, strict=True)]
        ),
        repair_h=np.array([settings.repair_h if f.repair_h is None else f.repair_h for f in kinds]),
        speeds=np.array(speeds),
        interval_h=interval_h,
        write_h=write_h,
        recovery_h=recovery_h,
        random_repair=settings.repair_times == "exponential",
        restart_clears=settings.restart_replaces,
    )
