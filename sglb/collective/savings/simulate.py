"""Many runs at once: a step takes every run from one of its faults to its next one.

Faults come by the clock, at random (Poisson), whether the job works or not. Every policy lives through
the same faults. What happens:

- A fault that ends the job costs all progress since the last checkpoint that was completely written.
  Detection and restart follow; another such fault in that time makes them begin anew.
- A fault that the job survives stops it for its stall (stalls do not add up: each ends when its own time
  is over) and slows it from the fault until the repair. During detection and restart there is nothing to
  stop, but the rail is away all the same.
- Overlapping degraded spans: the slowest one sets the speed, as the slowest host does in a collective;
  those of one speed do not make it slower. (Two rails lost on one host are thus taken for one: at 16,384
  GPUs rare.) Writing a checkpoint is slowed as work is.
- The run is over after its hours; work after the last checkpoint then counts as kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sglb.collective.savings.policy import Floats, Policy

    Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where the time of each run went: hours, an entry a run; their sum is the run's length.

    `kept_h`: work that was not lost, at full speed; `writing_h`: completed checkpoints; `lost_h`: work
    and writing since the last checkpoint when the job ended; `recovery_h`: detection and restart;
    `stalled_h`; `slowed_h`: what degraded spans cost. `restarts`, `failovers`: faults a run.
    """

    kept_h: Floats
    writing_h: Floats
    lost_h: Floats
    recovery_h: Floats
    stalled_h: Floats
    slowed_h: Floats
    restarts: Floats
    failovers: Floats


def simulate(policies: Sequence[Policy], hours: float, runs: int, seed: int) -> list[Outcome]:
    """An outcome for each policy. All policies must have the same kinds of faults (`Policy.rates`).

    Same seed, same numbers. Expects `runs` x faults a run to be bounded by the caller.
    """
    rates = policies[0].rates
    total = float(rates.sum())
    if not all(np.array_equal(policy.rates, rates) for policy in policies):
        raise ValueError("policies to compare must have the same faults")
    random = np.random.Generator(np.random.PCG64(seed))
    shares = np.cumsum(rates) / total if total else np.ones(1)
    # The last kind that can happen ends at 1 exactly, so that no draw falls behind it.
    shares[shares >= shares[-1]] = 1.0
    jobs = [Jobs(policy, runs) for policy in policies]
    now = np.zeros(runs)
    while True:
        if total:
            after = np.minimum(now + random.standard_exponential(runs) / total, hours)
        else:
            after = np.full(runs, hours)
        for job in jobs:
            job.advance(now, after)
        now = after
        running = now < hours
        if not running.any():
            return [job.outcome() for job in jobs]
        kind = np.searchsorted(shares, random.random(runs), side="right")
        stretch = random.standard_exponential(runs)
        for job in jobs:
            job.fault(now, kind, stretch, running)


class Jobs:
    """One policy's job in all runs: `advance` to the next fault, `fault`, and so on."""

    def __init__(self, policy: Policy, runs: int) -> None:
        self._policy = policy
        self._cycles = np.zeros(runs)
        # Progress since the last checkpoint, in hours at full speed.
        self._phase_h = np.zeros(runs)
        self._recovered = np.zeros(runs)
        self._stalled_until = np.zeros(runs)
        self._slow_until = np.zeros((len(policy.speeds), runs))
        self._lost_h = np.zeros(runs)
        self._recovery_h = np.zeros(runs)
        self._stalled_h = np.zeros(runs)
        self._slowed_h = np.zeros(runs)
        self._restarts = np.zeros(runs)
        self._failovers = np.zeros(runs)

    def advance(self, now: Floats, after: Floats) -> None:
        """From one time of each run to a later one, no fault between them."""
        up = np.clip(self._recovered, now, after)
        self._recovery_h += up - now
        start = np.clip(self._stalled_until, up, after)
        self._stalled_h += start - up
        progress = np.zeros_like(now)
        at = start
        for speed, until in zip(self._policy.speeds, self._slow_until, strict=True):
            end = np.clip(until, at, after)
            progress += (end - at) * speed
            at = end
        progress += after - at
        self._slowed_h += after - start - progress
        whole, self._phase_h = np.divmod(self._phase_h + progress, self._policy.cycle_h)
        self._cycles += whole

    def fault(self, now: Floats, kind: np.ndarray, stretch: Floats, running: Bools) -> None:
        """A fault of the given kind in each run; `stretch` is its repair time over the mean one."""
        policy = self._policy
        ends = running & policy.ends_job[kind]
        self._lost_h += np.where(ends, self._phase_h, 0)
        self._phase_h[ends] = 0
        self._recovered = np.where(ends, now + policy.recovery_h, self._recovered)
        self._restarts += ends
        if policy.restart_clears:
            self._slow_until[:, ends] = 0
        survives = running & ~policy.ends_job[kind]
        self._failovers += survives
        stall_end = np.maximum(self._stalled_until, now + policy.stall_h[kind])
        self._stalled_until = np.where(survives, stall_end, self._stalled_until)
        repaired = now + policy.repair_h[kind] * (stretch if policy.random_repair else 1)
        level = policy.level[kind]
        for number, until in enumerate(self._slow_until):
            hit = survives & (level == number)
            np.maximum(until, repaired, out=until, where=hit)

    def outcome(self) -> Outcome:
        """What came of the runs."""
        policy = self._policy
        working = np.minimum(self._phase_h, policy.interval_h)
        return Outcome(
            kept_h=self._cycles * policy.interval_h + working,
            writing_h=self._cycles * policy.write_h + self._phase_h - working,
            lost_h=self._lost_h,
            recovery_h=self._recovery_h,
            stalled_h=self._stalled_h,
            slowed_h=self._slowed_h,
            restarts=self._restarts,
            failovers=self._failovers,
        )
