"""Flows that arrive at random: sizes from a distribution, times Poisson, pairs of hosts uniform."""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Mapping, Sequence

from sglb.fabric.workload import MAX_FLOWS, Flow, Workload, WorkloadError
from sglb.switch.clock import PS_PER_S

#: A distribution: (bytes, percent of flows that have at most so many), both ascending.
Cdf = tuple[tuple[int, float], ...]

#: The tables of HPCC's traffic generator: web search (DCTCP's) and Facebook's Hadoop.
WEB_SEARCH: Cdf = (
    (0, 0),
    (10_000, 15),
    (20_000, 20),
    (30_000, 30),
    (50_000, 40),
    (80_000, 53),
    (200_000, 60),
    (1_000_000, 70),
    (2_000_000, 80),
    (5_000_000, 90),
    (10_000_000, 97),
    (30_000_000, 100),
)
FB_HDP: Cdf = (
    (0, 0),
    (100, 1),
    (200, 2),
    (300, 5),
    (350, 15),
    (400, 20),
    (500, 30),
    (600, 40),
    (700, 50),
    (1_000, 60),
    (2_000, 67),
    (7_000, 70),
    (30_000, 72),
    (50_000, 82),
    (80_000, 87),
    (120_000, 90),
    (300_000, 95),
    (1_000_000, 97.5),
    (2_000_000, 99),
    (10_000_000, 100),
)
KNOWN: Mapping[str, Cdf] = {"web_search": WEB_SEARCH, "fb_hdp": FB_HDP}


def checked(points: Sequence[tuple[int, float]]) -> Cdf:
    """The points as a distribution from 0 to 100 %. Raises `WorkloadError` for anything else."""
    cdf = tuple(points)
    for (size, percent), (size2, percent2) in itertools.pairwise(cdf):
        if size2 < size or percent2 < percent:
            raise WorkloadError(
                f"sizes: {size2} bytes at {percent2:g} % must not be below {size} bytes at "
                f"{percent:g} %"
            )
    if cdf[-1][1] != 100:
        raise WorkloadError(f"sizes: the last point must be at 100 %, got {cdf[-1][1]:g} %")
    if cdf[-1][0] < 1:
        raise WorkloadError("sizes: all flows would have 0 bytes")
    return cdf


def mean_bytes(cdf: Cdf) -> float:
    """Mean flow size: linear between points, a step at the first if that is above 0 %."""
    total = cdf[0][0] * cdf[0][1]
    for (size, percent), (size2, percent2) in itertools.pairwise(cdf):
        total += (size + size2) / 2 * (percent2 - percent)
    return total / 100


def size_at(cdf: Cdf, percent: float) -> int:
    """The size that `percent` (0..100) of flows do not exceed, at least 1 byte."""
    place = bisect.bisect_left(cdf, percent, key=lambda point: point[1])
    if not place:
        return max(1, cdf[0][0])
    (size, low), (size2, high) = cdf[place - 1], cdf[place]
    return max(1, round(size + (size2 - size) * (percent - low) / (high - low)))


def arrivals(
    rates_bps: Mapping[int, int],
    cdf: Cdf,
    load: float,
    duration_ps: int,
    rng: random.Random,
    start_ps: int = 0,
) -> Workload:
    """Flows from every host to a random other one, for `duration_ps`.

    `rates_bps` are the hosts (node ids) and the rates of their links. A host starts flows as a Poisson
    process whose mean payload is `load` of its rate: load x rate / (8 x mean size) flows a second.
    Raises `WorkloadError` when that makes too many flows, or none.
    """
    hosts = list(rates_bps)
    if len(hosts) < 2:
        raise WorkloadError(f"arrivals need at least 2 hosts, got {len(hosts)}")
    mean = mean_bytes(cdf)
    expected = sum(rates_bps.values()) * load / (8 * mean) * duration_ps / PS_PER_S
    if expected > MAX_FLOWS:
        raise WorkloadError(
            f"arrivals would be about {expected:.3g} flows, more than {MAX_FLOWS}; "
            "give a shorter duration_us or a lower load"
        )
    found: list[tuple[int, int, int, int]] = []
    for i, host in enumerate(hosts):
        flows_per_ps = rates_bps[host] * load / (8 * mean) / PS_PER_S
        at_ps = rng.expovariate(flows_per_ps)
        while at_ps < duration_ps:
            other = rng.randrange(len(hosts) - 1)
            peer = hosts[other + (other >= i)]
            size = size_at(cdf, 100 * rng.random())
            found.append((start_ps + int(at_ps), host, peer, size))
            at_ps += rng.expovariate(flows_per_ps)
    if not found:
        raise WorkloadError(
            f"arrivals: no flow starts within the duration, {expected:.2g} were expected; "
            "give a longer duration_us"
        )
    found.sort()
    return Workload(
        "arrivals",
        tuple(Flow(n, src, dst, size, at) for n, (at, src, dst, size) in enumerate(found)),
    )
