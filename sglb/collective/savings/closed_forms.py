"""What the simulation must give on average, in formulas.

Times in hours, rates per hour; losses in hours of the whole job (times its GPUs: GPU-hours).
"""

from __future__ import annotations

import math

import numpy as np

from sglb.collective.savings.policy import Floats, Policy

_POINTS = 4_000


def restart_loss_h(interval_h: float, detection_h: float, restart_h: float) -> float:
    """What a fault costs that ends the job: half an interval of work, noticing it, restarting.

    First order: right while faults are much rarer than checkpoints (Young 1974).
    """
    return interval_h / 2 + detection_h + restart_h


def failover_loss_h(stall_h: float, speed: float, repair_h: float) -> float:
    """What a fault costs that failover takes: the stall, and the work not done until the repair.

    At iterations that take 1 + s times as long, speed = 1 / (1 + s): (1 - speed) of the time is lost.
    """
    return stall_h + (1 - speed) * repair_h


def efficiency(
    interval_h: float, write_h: float, recovery_h: float, faults_per_hour: float
) -> float:
    """Share of the time that ends up as kept work: tau / (M exp(R/M) (exp((tau + delta)/M) - 1)).

    Daly's complete model (FGCS 22(3), 2006): a fault costs all work since the last checkpoint; one that
    comes during recovery makes the recovery begin anew. M = 1 / faults_per_hour; 0 faults: tau / (tau +
    delta). Exact for a long run. 0 when that cannot be told from nothing (overflow).
    """
    rate = faults_per_hour
    if rate == 0:
        return interval_h / (interval_h + write_h)
    exponent = rate * (interval_h + write_h)
    if exponent + rate * recovery_h > 700:
        return 0.0
    return interval_h * rate / (math.exp(rate * recovery_h) * math.expm1(exponent))


def mean_speed(policy: Policy, hours: float) -> float:
    """Average speed of a job that works, over a run of `hours`, faults overlapping as they may.

    Degraded spans of one level, started at random, are the customers of an M/G/infinity queue that
    starts empty: at time t none is there with probability exp(-rate x integral of P(repair > u) over
    u from 0 to t) (Takacs 1962). The slowest level that is there sets the speed. Where a restart
    clears what is degraded, t counts from the last restart, which is exponentially far.
    """
    if not len(policy.speeds):
        return 1.0
    share = (np.arange(_POINTS) + 0.5) / _POINTS
    age = hours * share
    if policy.restart_clears and policy.restarts_per_hour > 0:
        age = -np.log(share) / policy.restarts_per_hour
    speed = np.zeros(_POINTS)
    none_slower = np.ones(_POINTS)
    for level, value in enumerate(policy.speeds):
        here = ~policy.ends_job & (policy.level == level)
        expected = sum(
            (rate * _repairs_under_way(policy, repair, age))
            for rate, repair in zip(policy.rates[here], policy.repair_h[here], strict=True)
        )
        none = none_slower * np.exp(-expected)
        speed += value * (none_slower - none)
        none_slower = none
    return float((speed + none_slower).mean())


def _repairs_under_way(policy: Policy, repair_h: float, age: Floats) -> Floats:
    """Integral of P(repair time > u) for u from 0 to each age."""
    if not policy.random_repair:
        return np.minimum(age, repair_h)
    if repair_h == 0:
        return np.zeros_like(age)
    return np.asarray(-repair_h * np.expm1(-age / repair_h))


def kept_share(policy: Policy, hours: float) -> float:
    """Share of a run of `hours` that ends up as kept work, all faults together.

    `efficiency`, in which work and writing take longer by the mean speed and by the stalls; no stall
    is under way with probability exp(-sum of rate x stall), as for degraded spans. Exact in a long run
    for restarts, stalls or degraded spans alone; together they are taken as independent.
    """
    saved = ~policy.ends_job
    stalled = float((policy.rates[saved] * policy.stall_h[saved]).sum())
    stretch = math.exp(stalled) / mean_speed(policy, hours)
    return (
        efficiency(
            policy.interval_h * stretch,
            policy.write_h * stretch,
            policy.recovery_h,
            policy.restarts_per_hour,
        )
        / stretch
    )
