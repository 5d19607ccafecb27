"""Formulas against numbers worked out by hand or printed by their authors."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sglb.collective.savings import intervals, llama3
from sglb.collective.savings.assessment import Estimate, break_even
from sglb.collective.savings.closed_forms import (
    efficiency,
    failover_loss_h,
    mean_speed,
    restart_loss_h,
)
from sglb.collective.savings.policy import Policy, iteration_speed, load_factor, plain_factor
from sglb.collective.savings.policy import with_failover as failover_policy
from sglb.collective.savings.policy import without_failover as plain_policy
from sglb.collective.savings.settings import Fault, Settings


def test_the_table_is_that_of_the_run() -> None:
    assert sum(count for _, count, _ in llama3.COUNTS) == 419
    network = sum(count for _, count, loses in llama3.COUNTS if loses != "job")
    assert network == 42
    settings = Settings()
    assert settings.gpu_hours == 21_233_664
    assert 1 / settings.rate_per_hour() == pytest.approx(3.09, abs=0.005)
    assert 1296 / network == pytest.approx(30.9, abs=0.05)
    assert llama3.per_gpu_hour(network) == pytest.approx(1.98e-6, rel=2e-3)


@pytest.mark.parametrize(
    ("restart_min", "gpu_hours", "share"), [(10, 458_752, 0.022), (68, 1_123_942, 0.053)]
)
def test_first_order_loss_of_the_network_faults(
    restart_min: float, gpu_hours: float, share: float
) -> None:
    """42 faults, half of an hour's work each, and the restart, on 16,384 GPUs."""
    found = 42 * 16_384 * restart_loss_h(1, 0, restart_min / 60)
    assert found == pytest.approx(gpu_hours, abs=1)
    assert found / 21_233_664 == pytest.approx(share, abs=5e-4)


@pytest.mark.parametrize(("mtbf_h", "minutes"), [(24, 117), (6, 57), (0.25, 9.1)])
def test_daly_interval_as_printed_in_his_paper(mtbf_h: float, minutes: float) -> None:
    """Figures 3 to 5: writing takes 5 minutes."""
    digits = 0.05 if minutes < 10 else 0.5
    assert intervals.daly_h(5 / 60, mtbf_h) * 60 == pytest.approx(minutes, abs=digits)


def test_young_interval() -> None:
    assert intervals.young_h(0.5, 16) == 4
    assert intervals.best_h("young", 0.5, 1 / 16) == 4
    assert intervals.best_h("young", 0.5, 0) == intervals.LONGEST_H


def test_daly_interval_when_writing_takes_longer_than_faults_stay_away() -> None:
    assert intervals.daly_h(3, 1) == 1


@pytest.mark.parametrize(("write_h", "mtbf_h"), [(0.01, 3), (0.5, 3), (5, 2)])
def test_no_interval_keeps_more_than_the_exact_one(write_h: float, mtbf_h: float) -> None:
    best = intervals.exact_h(write_h, mtbf_h)
    others = best * np.linspace(0.2, 3, 281)
    kept = [efficiency(t, write_h, 0.1, 1 / mtbf_h) for t in others]
    assert max(kept) <= efficiency(best, write_h, 0.1, 1 / mtbf_h) * (1 + 1e-12)
    assert others[int(np.argmax(kept))] == pytest.approx(best, rel=0.02)


def test_efficiency_by_hand() -> None:
    # M = 1 h, tau = ln 2 and no other cost: segments take exp(ln 2) - 1 = 1 h each.
    assert efficiency(math.log(2), 0, 0, 1) == pytest.approx(math.log(2))
    # Recovery of ln 3 h makes each three times as long.
    assert efficiency(math.log(2), 0, math.log(3), 1) == pytest.approx(math.log(2) / 3)
    assert efficiency(3, 1, 9, 0) == 0.75
    assert efficiency(1, 0, 10_000, 1) == 0


def test_failover_loss() -> None:
    assert failover_loss_h(0.25, 0.8, 5) == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("rails", "reroute", "loses", "factor"),
    [
        (8, "balanced", "nic", 8 / 7),
        (8, "balanced", "switch", 8 / 7),
        (2, "balanced", "link", 2),
        (8, "neighbour", "nic", 2),
        (8, "dual-homed", "nic", 8 / 7),
        (8, "dual-homed", "link", 16 / 15),
        (1, "dual-homed", "switch", 2),
        (1, "dual-homed", "nic", None),
        (1, "balanced", "nic", None),
        (1, "neighbour", "link", None),
    ],
)
def test_load_of_the_rails_that_are_left(
    rails: int, reroute: str, loses: str, factor: float | None
) -> None:
    assert load_factor(rails, reroute, loses) == (None if factor is None else pytest.approx(factor))


def test_without_failover_only_a_dual_homed_nic_survives() -> None:
    assert plain_factor("dual-homed", "switch") == 2
    assert plain_factor("dual-homed", "nic") is None
    assert plain_factor("balanced", "switch") is None


def test_only_exposed_communication_slows_iterations() -> None:
    settings = Settings(exposed_communication=0.35)
    assert 1 / iteration_speed(settings, 8 / 7) == pytest.approx(1.05)


def _network(rate: float, **keys: object) -> Settings:
    """One GPU and two kinds of network faults, with all of its communication exposed."""
    given = {
        "gpus": 1,
        "fault_table": "none",
        "exposed_communication": 1.0,
        "reroute": "dual-homed",
        "rails_per_host": 1,
        "faults": {"a": Fault(per_gpu_hour=rate, loses="link")},
    }
    return Settings.model_validate(given | keys)


def test_mean_speed_by_hand() -> None:
    """At half speed with probability 1 - exp(-0.1 x 5), in a run so long that its start is nothing."""
    policy = failover_policy(_network(0.1, repair_h=5.0))
    busy = 1 - math.exp(-0.5)
    assert mean_speed(policy, 1e7) == pytest.approx(1 - busy / 2, rel=1e-4)
    random = failover_policy(_network(0.1, repair_h=5.0, repair_times="exponential"))
    assert mean_speed(random, 1e7) == pytest.approx(1 - busy / 2, rel=1e-4)


def test_mean_speed_of_a_run_as_long_as_a_repair() -> None:
    """1 - exp(-rate t) at t, from 0 to T: on average 1 - (1 - exp(-rate T)) / (rate T)."""
    policy = failover_policy(_network(0.1, repair_h=5.0))
    assert mean_speed(policy, 5) == pytest.approx(1 - (1 - (1 - math.exp(-0.5)) / 0.5) / 2)


def test_the_slowest_of_overlapping_levels_counts() -> None:
    rates, levels = np.array([0.1, 0.2]), np.array([1, 0])
    policy = Policy(
        rates=rates,
        ends_job=np.array([False, False]),
        stall_h=np.zeros(2),
        level=levels,
        repair_h=np.array([3.0, 2.0]),
        speeds=np.array([0.25, 0.5]),
        interval_h=1,
        write_h=0,
        recovery_h=0,
        random_repair=False,
        restart_clears=False,
    )
    no_slow, no_other = math.exp(-0.4), math.exp(-0.3)
    expected = 0.25 * (1 - no_slow) + no_slow * (0.5 * (1 - no_other) + no_other)
    assert mean_speed(policy, 1e7) == pytest.approx(expected, rel=1e-4)


def test_speed_where_restarts_clear_what_is_slow() -> None:
    """Without repair, restarts at rate r, faults at rate f: degraded for f / (f + r) of the time."""
    settings = Settings.model_validate(
        {
            "gpus": 1,
            "fault_table": "none",
            "reroute": "dual-homed",
            "rails_per_host": 1,
            "exposed_communication": 1.0,
            "repair_h": 10_000.0,
            "restart_replaces": True,
            "faults": {
                "link": Fault(per_gpu_hour=0.1, loses="link"),
                "gpu": Fault(per_gpu_hour=0.3),
            },
        }
    )
    assert mean_speed(failover_policy(settings), 1e6) == pytest.approx(1 - 0.25 / 2, rel=1e-3)


def test_first_order_break_even_by_hand() -> None:
    """Cost: 6 s + a third of 3 h = 60.1 min; a restart at once: 30 min of work and 1 min to notice."""
    settings = Settings(
        reroute="neighbour",
        exposed_communication=0.5,
        repair_h=3.0,
        failover_stall_s=6.0,
        detection_s=60.0,
        checkpoint_interval_min=60.0,
    )
    assert break_even(settings).first_order_min == pytest.approx(29.1)


def test_break_even_where_nothing_can_be_saved() -> None:
    found = break_even(Settings(rails_per_host=1))
    assert (found.restart_min, found.first_order_min) == (None, None)


def test_each_policy_has_the_interval_of_its_own_restarts() -> None:
    settings = Settings(checkpoint_interval_min="young", checkpoint_write_s=3_600.0)
    assert plain_policy(settings).interval_h == pytest.approx(math.sqrt(2 * 1296 / 419))
    assert failover_policy(settings).interval_h == pytest.approx(math.sqrt(2 * 1296 / 377))


def test_slowest_speeds_come_first_and_kinds_know_theirs() -> None:
    settings = Settings(reroute="dual-homed", exposed_communication=1.0)
    policy = failover_policy(settings)
    assert list(policy.speeds) == pytest.approx([7 / 8, 15 / 16])
    kinds = list(settings.kinds())
    assert policy.level[kinds.index("NIC")] == 0
    assert policy.level[kinds.index("switch or cable")] == 1
    assert list(plain_policy(settings).speeds) == [0.5]
    assert plain_policy(settings).ends_job[kinds.index("NIC")]


def test_an_estimate_by_hand() -> None:
    """Deviations 1.5, 0.5, 0.5, 1.5: variance 5/3, standard error sqrt(5/12), times 1.96."""
    found = Estimate.of(np.array([1.0, 2.0, 3.0, 4.0]))
    assert found.mean == 2.5
    assert found.half_width == pytest.approx(1.959964 * math.sqrt(5 / 12))
    assert (found.low, found.high) == (pytest.approx(1.15), pytest.approx(3.85))
