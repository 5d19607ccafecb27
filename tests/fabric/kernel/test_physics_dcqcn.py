"""DCQCN's fixed point: N senders at 40 Gbit/s, packets of 1 KB, against two models of it.

The fluid model (Zhu et al., SIGCOMM 2015, with the fact sheet's parameters) takes each mark for a
reset of the increase. That is what senders do when each mark is answered: then marks come within
10 % of its fixed point, for all N. With a notification at most every 50 us the protocol does otherwise
than the fluid says: after each cut a sender is left alone for 50 us, nearly a whole stage of recovery.
There the truth is a sender's mean over a cycle from cut to cut, and marks are 25 to 36 % more than
the fluid says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from physics_kit import FRAME_OVERHEAD_BYTES, WIRE_OVERHEAD_BYTES, fabric, simulate, star

from sglb.fabric.metrics import TransportStats, transport_stats

LINE_BPS = 40_000_000_000
PAYLOAD_BYTES = 920
WIRE_BITS = (PAYLOAD_BYTES + WIRE_OVERHEAD_BYTES) * 8
#: The paper's parameters, times in s: T, tau', and F, alpha's gain.
TIMER = ALPHA_TIMER = 55e-6
THRESHOLD, GAIN = 5, 1 / 256


@dataclass(frozen=True)
class Senders:
    """`count` alike ones; rates in packets/s, the byte counter in packets."""

    count: int
    line: float = LINE_BPS / WIRE_BITS
    step: float = 40e6 / WIRE_BITS
    byte_counter: float = 10e6 / (PAYLOAD_BYTES + FRAME_OVERHEAD_BYTES)

    @property
    def rate(self) -> float:
        return self.line / self.count

    def fluid(self, cnp_gap: float) -> float:
        """Share p of packets that is marked where the fluid model stands still."""

        def net(p: float) -> float:
            none = math.log1p(-p)  # (1 - p)^n is exp(n x none)
            cut = -math.expm1(cnp_gap * self.rate * none)
            alpha = -math.expm1(ALPHA_TIMER * self.rate * none)
            stages, raises = 0.0, 0.0  # a packet: b + d and c + e
            for packets in (self.byte_counter, TIMER * self.rate):
                often = p * math.exp(packets * none) / -math.expm1(packets * none)
                stages += often
                raises += often * math.exp(THRESHOLD * packets * none)
            below_target = cnp_gap * self.step * self.rate * raises / cut
            gained = below_target / 2 * self.rate * stages
            return gained - self.rate * alpha * cut / (2 * cnp_gap)

        return _root(net)

    def cycle(self, cnp_gap: float) -> float:
        """p at which a sender's rate is the same from cut to cut on average.

        Marks are Poisson at the fair rate, so cycles last `cnp_gap` + an exponential time; the byte
        counter never speaks in one.
        """
        times = -np.log1p(-(np.arange(20_000) + 0.5) / 20_000)  # of mean 1

        def net(p: float) -> float:
            lasts = cnp_gap + times / (p * self.rate)
            kept = np.mean((1 - GAIN) ** np.floor(lasts / ALPHA_TIMER))
            alpha = GAIN / (1 - (1 - GAIN) * kept)
            stages = np.floor(lasts / TIMER)
            below = np.full(lasts.shape, alpha / 2 * self.rate)  # target - rate
            raised = np.zeros(lasts.shape)
            for stage in range(1, int(stages.max()) + 1):
                on = stages >= stage
                up = self.step if stage > THRESHOLD else 0.0
                raised[on] += up
                below[on] = (below[on] + up) / 2
            return float((raised - below).mean())

        return _root(net)


def _root(net: Callable[[float], float]) -> float:
    """Where a falling function of p crosses 0."""
    low, high = 1e-5, 0.5
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if net(middle) > 0 else (low, middle)
    return low


def test_the_fluids_fixed_points_are_those_of_the_fact_sheet() -> None:
    truth = {2: 0.00078, 4: 0.00189, 8: 0.00455, 16: 0.0109, 32: 0.0256, 64: 0.0591}
    for count, p in truth.items():
        found = Senders(count, line=5e6, step=5e3, byte_counter=1e4).fluid(50e-6)
        assert found == pytest.approx(p, rel=0.005)


def marked(senders: Senders, p: float, cnp_gap_us: float, from_us: float, until_us: float) -> float:
    """Share of marked packets between two times. At `p` the queue would be 2 MB.

    Marking is linear far beyond what the queue reaches, and so gentle that the queue is steady: with
    steep marking all senders swing together. They begin near the fair rate, so as not to simulate how
    they get there.
    """
    count = senders.count
    payload = int(2 * until_us / 1e6 * LINE_BPS / 8 / count)
    ecn = {"kmin_bytes": 5_000, "kmax_bytes": 20_000_000, "pmax": 10 * p}
    dcqcn = {
        "enabled": True,
        "cnp_interval_us": cnp_gap_us,
        "first_cnp_rate_mbps": LINE_BPS / 1e6 / count,
        "initial_alpha": p * senders.rate * ALPHA_TIMER,
    }
    scenario = fabric(
        topology=star(count),
        links={"host": {"rate_gbps": 40, "delay_ns": 1_000}},
        workload={"incast": {"to": "r", "fan_in": count, "bytes": payload}},
        switch={"queue_bytes": 50_000_000, "ecn": ecn, "buffer": {"cell_bytes": 978}},
        transport={
            "mtu_bytes": PAYLOAD_BYTES,
            "window_packets": None,
            "ack_every": 64,
            "rto_us": 20_000,
            "dcqcn": dcqcn,
        },
        policies=["ecmp"],
        stop_us=until_us,
    )
    before: list[TransportStats] = []
    simulation = simulate(scenario, "ecmp")

    def note() -> None:
        before.append(transport_stats(simulation.result().hosts.values()))

    simulation.clock.call_at(int(from_us * 1e6), note)
    after = transport_stats(simulation.run().hosts.values())
    packets = after.data_arrived - before[0].data_arrived
    # The link is busy: the fair share is the rate.
    assert packets * WIRE_BITS / (until_us - from_us) * 1e6 > 0.99 * LINE_BPS
    assert after.resent == 0
    return (after.ecn_marked - before[0].ecn_marked) / packets


@pytest.mark.parametrize(
    ("count", "from_us", "until_us"),
    [
        (2, 100_000, 500_000),
        (4, 100_000, 300_000),
        (8, 60_000, 200_000),
        (16, 60_000, 160_000),
        (32, 60_000, 160_000),
        (64, 60_000, 160_000),
    ],
)
def test_marks_settle_at_the_fluid_models_fixed_point(
    count: int, from_us: float, until_us: float
) -> None:
    senders = Senders(count)
    # No mark is left out, so a notification stands for one packet.
    p = senders.fluid(1 / senders.rate)
    found = marked(senders, p, 0, from_us, until_us)
    assert found == pytest.approx(p, rel=0.1)


@pytest.mark.parametrize(
    ("count", "from_us", "until_us"),
    [(16, 60_000, 160_000), (64, 60_000, 160_000)],
)
def test_with_50_us_between_notifications_marks_settle_where_a_senders_cycle_says(
    count: int, from_us: float, until_us: float
) -> None:
    senders = Senders(count)
    p = senders.cycle(50e-6)
    found = marked(senders, p, 50, from_us, until_us)
    assert found == pytest.approx(p, rel=0.05)
    assert 1.25 < found / senders.fluid(50e-6) < 1.36
