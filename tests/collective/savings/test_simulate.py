"""Simulated runs: one followed by hand, many against closed forms, and what holds for all."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from sglb.collective.savings.assessment import Assessment, Estimate, assess
from sglb.collective.savings.closed_forms import efficiency
from sglb.collective.savings.policy import Floats, Policy, with_failover, without_failover
from sglb.collective.savings.settings import Settings
from sglb.collective.savings.simulate import Jobs, Outcome, simulate

#: Half widths of 95 % intervals: one in 10^5 seeds would fail with 4.4 standard errors.
WIDE = 4.4 / 1.96


def _policy(rates: list[float], ends: list[bool], **keys: object) -> Policy:
    given: dict[str, object] = {
        "rates": np.array(rates),
        "ends_job": np.array(ends),
        "stall_h": np.zeros(len(rates)),
        "level": np.zeros(len(rates), dtype=np.int64),
        "repair_h": np.zeros(len(rates)),
        "speeds": np.array([0.5]),
        "interval_h": 1.0,
        "write_h": 0.25,
        "recovery_h": 0.5,
        "random_repair": False,
        "restart_clears": False,
    }
    return Policy(**(given | keys))  # type: ignore[arg-type]


def _hours(found: Outcome) -> dict[str, float]:
    return {f.name: float(getattr(found, f.name)[0]) for f in dataclasses.fields(found)}


def _live(policy: Policy, faults: list[tuple[float, int]], hours: float) -> dict[str, float]:
    """One run with the given faults: (hour, kind)."""
    job, now = Jobs(policy, 1), 0.0
    for hour, kind in faults:
        job.advance(np.array([now]), np.array([hour]))
        job.fault(np.array([hour]), np.array([kind]), np.ones(1), np.array([True]))
        now = hour
    job.advance(np.array([now]), np.array([hours]))
    return _hours(job.outcome())


TWO = _policy([1, 1], [True, False], stall_h=np.array([0, 0.5]), repair_h=np.array([0.0, 2.0]))


def test_a_run_followed_by_hand() -> None:
    found = _live(
        TWO,
        [
            (1.5, 0),  # a checkpoint was complete at 1.25: a quarter of an hour is lost
            (1.75, 0),  # during recovery, which begins anew and ends at 2.25
            (3.25, 1),  # an hour of work later: stands still to 3.75, half speed to 5.25
            (4.25, 1),  # writing has just ended; still to 4.75, half speed to 6.25 now
        ],
        hours=7,
    )
    assert found == {
        "kept_h": 3.25,
        "writing_h": 0.75,
        "lost_h": 0.25,
        "recovery_h": 0.75,
        "stalled_h": 1.0,
        "slowed_h": 1.0,
        "restarts": 2,
        "failovers": 2,
    }


def test_a_fault_while_a_checkpoint_is_written_costs_it_all() -> None:
    found = _live(TWO, [(1.125, 0)], hours=2)
    assert (found["lost_h"], found["writing_h"], found["kept_h"]) == (1.125, 0, 0.375)


def test_a_rail_lost_during_recovery_slows_what_comes_after() -> None:
    found = _live(TWO, [(1.25, 0), (1.5, 1)], hours=4)
    # Recovered at 1.75, but the stall of the second fault is over at 2 only; then 1.5 h at half speed.
    assert (found["recovery_h"], found["stalled_h"], found["slowed_h"]) == (0.5, 0.25, 0.75)


@pytest.mark.parametrize(("clears", "slowed"), [(True, 0.25), (False, 0.75)])
def test_a_restart_may_leave_degraded_hosts(clears: bool, slowed: float) -> None:
    policy = dataclasses.replace(TWO, restart_clears=clears, stall_h=np.zeros(2))
    found = _live(policy, [(1.0, 1), (1.5, 0)], hours=4)
    assert found["slowed_h"] == slowed


def _close(values: Floats, expected: float, edge: float = 0.0) -> None:
    found = Estimate.of(values)
    assert abs(found.mean - expected) <= WIDE * found.half_width + edge, (found, expected)


@pytest.mark.parametrize(
    ("rate", "interval_h", "write_h", "recovery_h"),
    [(1 / 3, 0.25, 1 / 120, 0.2), (1 / 30, 1, 0.05, 1.2), (1.0, 0.5, 0.1, 1.0)],
)
def test_restarts_alone_give_dalys_efficiency(
    rate: float, interval_h: float, write_h: float, recovery_h: float
) -> None:
    policy = _policy([rate], [True], interval_h=interval_h, write_h=write_h, recovery_h=recovery_h)
    hours = 3_000 / rate
    (found,) = simulate([policy], hours, runs=300, seed=7)
    expected = efficiency(interval_h, write_h, recovery_h, rate)
    # A run begins with work and may end within a cycle: at most one of all that is another.
    _close(found.kept_h / hours, expected, (interval_h + write_h + recovery_h) / hours)


@pytest.mark.parametrize("random_repair", [False, True])
def test_degraded_spans_alone(random_repair: bool) -> None:
    """At half speed with probability 1 - exp(-0.6), whatever the spread of repairs; 2 h at the start."""
    policy = _policy(
        [0.2], [False], repair_h=np.array([3.0]), random_repair=random_repair, write_h=0.0
    )
    (found,) = simulate([policy], 5_000, runs=300, seed=7)
    _close(found.kept_h / 5_000, 1 - (1 - math.exp(-0.6)) / 2, 2 / 5_000)


def test_stalls_alone() -> None:
    policy = _policy([0.5], [False], stall_h=np.array([0.4]), write_h=0.0)
    (found,) = simulate([policy], 5_000, runs=300, seed=7)
    _close(found.kept_h / 5_000, math.exp(-0.2), 0.4 / 5_000)
    _close(found.stalled_h / 5_000, 1 - math.exp(-0.2), 0.4 / 5_000)


NETWORK_ONLY = {
    "fault_table": "none",
    "faults": {"network": {"per_gpu_hour": 42 / 21_233_664, "loses": "nic"}},
    "checkpoint_interval_min": 60,
    "checkpoint_write_s": 0,
    "detection_s": 0,
    "failover_stall_s": 0,
    "repair_h": 0,
    "runs": 4_000,
}


@pytest.mark.parametrize(("restart_min", "millions"), [(10, 0.46), (68, 1.12)])
def test_network_faults_cost_what_the_first_order_says(restart_min: float, millions: float) -> None:
    """Less the second order: faults during what they cost themselves, at most that share of it."""
    saved = assess(
        Settings.model_validate(NETWORK_ONLY | {"restart_min": restart_min})
    ).saved_gpu_hours
    share = millions / 21.233664
    assert millions * (1 - share) * 1e6 - 3 * saved.half_width <= saved.mean
    assert saved.mean <= (millions + 0.005) * 1e6 + 3 * saved.half_width


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"restart_replaces": True, "repair_h": 24.0},
        {"reroute": "neighbour", "repair_times": "exponential"},
        {"reroute": "dual-homed", "network_fault_scale": 3.0, "repair_h": 12.0},
        {"checkpoint_interval_min": 60.0, "restart_min": 68.0, "failover_stall_s": 60.0},
    ],
)
def test_all_together_agree_with_the_closed_form(keys: dict[str, object]) -> None:
    """Within 0.05 % of the GPU-hours beside the confidence interval: it takes parts as independent."""
    found = assess(Settings.model_validate({"runs": 1_000} | keys))
    for side in (found.without, found.failover):
        assert abs(side.kept.mean - side.kept_formula) < WIDE * side.kept.half_width + 5e-4
    total = found.settings.gpu_hours
    apart = abs(found.saved_gpu_hours.mean - found.saved_formula_gpu_hours) / total
    assert apart < WIDE * found.saved_gpu_hours.half_width / total + 5e-4


def test_savings_change_sign_at_the_break_even() -> None:
    usual = {"repair_h": 24.0, "runs": 2_000}
    point = assess(Settings.model_validate(usual)).break_even.restart_min
    assert point is not None
    assert point > 5
    less = assess(Settings.model_validate(usual | {"restart_min": 0.75 * point})).saved_gpu_hours
    more = assess(Settings.model_validate(usual | {"restart_min": 1.25 * point})).saved_gpu_hours
    assert less.mean + less.half_width < 0 < more.mean - more.half_width


@tries(max_examples=60, deadline=None)
@given(
    gpus=st.integers(1, 50_000),
    days=st.floats(0.01, 90),
    interval=st.one_of(st.floats(0.1, 10_000), st.sampled_from(["young", "daly", "exact"])),
    write_s=st.floats(1, 5_000),
    restart_min=st.floats(0, 2_000),
    stall_s=st.floats(0, 10_000),
    repair_h=st.floats(0, 500),
    reroute=st.sampled_from(["balanced", "neighbour", "dual-homed"]),
    rails=st.integers(1, 16),
    replaces=st.booleans(),
    random_repair=st.booleans(),
)
def test_every_hour_is_accounted_for(
    gpus: int,
    days: float,
    interval: float | str,
    write_s: float,
    restart_min: float,
    stall_s: float,
    repair_h: float,
    reroute: str,
    rails: int,
    replaces: bool,
    random_repair: bool,
) -> None:
    settings = Settings.model_validate(
        {
            "gpus": gpus,
            "days": days,
            "checkpoint_interval_min": interval,
            "checkpoint_write_s": write_s,
            "restart_min": restart_min,
            "failover_stall_s": stall_s,
            "repair_h": repair_h,
            "reroute": reroute,
            "rails_per_host": rails,
            "restart_replaces": replaces,
            "repair_times": "exponential" if random_repair else "fixed",
            "runs": 5,
        }
    )
    policies = [without_failover(settings), with_failover(settings)]
    for found in simulate(policies, settings.hours, settings.runs, settings.seed):
        parts = [
            found.kept_h,
            found.writing_h,
            found.lost_h,
            found.recovery_h,
            found.stalled_h,
            found.slowed_h,
        ]
        assert all((part >= -1e-9).all() for part in parts)
        assert np.allclose(sum(parts), settings.hours, rtol=1e-9)


def test_both_policies_live_through_the_same_faults() -> None:
    found = assess(Settings(runs=50))
    assert found.without.restarts == pytest.approx(
        found.failover.restarts + found.failover.failovers
    )


def _bytes(seed: int) -> str:
    return assess(Settings(runs=20, days=5.0, seed=seed)).to_json()


def test_same_seed_same_bytes() -> None:
    assert _bytes(3) == _bytes(3)
    assert _bytes(3) != _bytes(4)


def test_without_faults_nothing_is_lost() -> None:
    found: Assessment = assess(Settings(fault_scale=0.0, checkpoint_interval_min=59.5, runs=2))
    # 59.5 min of work and 30 s of writing: 1,296 times.
    assert found.without.kept.mean == pytest.approx(59.5 / 60)
    assert found.saved_gpu_hours.mean == 0
    assert found.break_even.restart_min is None


def test_policies_of_other_faults_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="same faults"):
        simulate([_policy([1], [True]), _policy([2], [True])], 1, 2, 0)
