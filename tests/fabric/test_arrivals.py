"""Arrivals: means and quantiles by hand, rates against the Poisson law."""

from __future__ import annotations

import math
import random

import pytest

from sglb.fabric.arrivals import FB_HDP, WEB_SEARCH, Cdf, arrivals, checked, mean_bytes, size_at
from sglb.fabric.workload import WorkloadError

THOUSAND: Cdf = ((1_000, 0), (1_000, 100))
MS = 1_000_000_000


def test_means_by_hand() -> None:
    assert mean_bytes(WEB_SEARCH) == pytest.approx(1_711_250)
    assert mean_bytes(FB_HDP) == pytest.approx(120_420.75)
    assert mean_bytes(((100, 50), (200, 100))) == pytest.approx(125)  # half of all have 100


@pytest.mark.parametrize(
    ("percent", "size"),
    [(0, 1), (7.5, 5_000), (15, 10_000), (17.5, 15_000), (98.5, 20_000_000), (100, 30_000_000)],
)
def test_sizes_are_linear_between_points(percent: float, size: int) -> None:
    assert size_at(WEB_SEARCH, percent) == size


def test_a_step_is_one_size() -> None:
    assert {size_at(THOUSAND, p) for p in (0, 1e-9, 50, 100)} == {1_000}


def test_the_load_is_as_asked() -> None:
    hosts = dict.fromkeys(range(10), 8_000_000_000)
    work = arrivals(hosts, THOUSAND, 0.5, 10 * MS, random.Random(1), start_ps=7)
    # 8 Gbit/s x 0.5 / 8000 bits are 500,000 flows a second and host: 5,000 in 10 ms.
    assert abs(len(work.flows) - 50_000) < 5 * math.sqrt(50_000)
    starts = [f.start_ps for f in work.flows]
    assert starts == sorted(starts)
    assert starts[0] >= 7
    assert starts[-1] < 7 + 10 * MS
    to_zero = sum(f.dst == 0 for f in work.flows)
    assert abs(to_zero - 5_000) < 5 * math.sqrt(5_000)
    gaps = [b.start_ps - a.start_ps for a, b in zip(work.flows, work.flows[1:], strict=False)]
    # Exponential: a share of 1 - 1/e is shorter than the mean.
    short = sum(g < 10 * MS / len(work.flows) for g in gaps) / len(gaps)
    assert abs(short - (1 - 1 / math.e)) < 0.02


def test_faster_hosts_send_more() -> None:
    work = arrivals({1: 10**9, 2: 4 * 10**9}, THOUSAND, 1.0, 10 * MS, random.Random(1))
    ours = sum(f.src == 2 for f in work.flows)
    assert 3.5 < ours / (len(work.flows) - ours) < 4.5


def test_same_seed_same_flows() -> None:
    hosts = dict.fromkeys(range(4), 10**10)
    works = [arrivals(hosts, FB_HDP, 0.3, MS, random.Random(s)) for s in (1, 1, 2)]
    assert works[0] == works[1] != works[2]


def test_what_cannot_be() -> None:
    with pytest.raises(WorkloadError, match=r"about 4.18e\+13 flows, more than"):
        arrivals({1: 10**14, 2: 10**14}, ((1, 100),), 0.5, 3_340 * MS, random.Random(1))
    with pytest.raises(WorkloadError, match="no flow starts within the duration"):
        arrivals({1: 1, 2: 1}, WEB_SEARCH, 0.5, MS, random.Random(1))
    with pytest.raises(WorkloadError, match="at least 2 hosts, got 1"):
        arrivals({1: 1}, WEB_SEARCH, 0.5, MS, random.Random(1))
    with pytest.raises(WorkloadError, match="last point must be at 100 %, got 90 %"):
        checked([(1, 0), (2, 90)])
    with pytest.raises(WorkloadError, match="5 bytes at 60 % must not be below 9 bytes at 50 %"):
        checked([(9, 50), (5, 60), (10, 100)])
    with pytest.raises(WorkloadError, match="all flows would have 0 bytes"):
        checked([(0, 0), (0, 100)])
