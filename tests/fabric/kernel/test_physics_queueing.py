"""One output port as a queue: against M/D/1 theory, Lindley's recursion and the incast bound."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
from physics_kit import WIRE_OVERHEAD_BYTES, Outcome, fabric, leaf_spine, outcome, star, with_flows

SOURCES = 32
PAYLOAD_BYTES = 1_000
DELAY_PS = 500_000
PIPELINE_PS = 1_000_000
#: Time on the receiver's link at 100 Gbit/s; the sources' links are four times as fast.
SERVICE_PS = (PAYLOAD_BYTES + WIRE_OVERHEAD_BYTES) * 8 * 10
UPLINK_PS = SERVICE_PS // 4
ALONE_PS = UPLINK_PS + DELAY_PS + PIPELINE_PS + SERVICE_PS + DELAY_PS
#: Messages of one packet. Waits of a loaded queue resemble each other for long, so more are needed.
COUNT = {0.5: 8_000, 0.7: 12_000, 0.9: 40_000}


@cache
def poisson(load: float) -> tuple[Outcome, np.ndarray, np.ndarray]:
    """One-packet messages of random sources, Poisson in all; start times and waits (ps)."""
    rng = random.Random(f"poisson {load}")
    flows, at = [], 0.0
    for _ in range(COUNT[load]):
        at += rng.expovariate(load / SERVICE_PS)
        flows.append((int(at), rng.randrange(SOURCES), SOURCES, PAYLOAD_BYTES))
    fast = [{"between": [f"s{i}", "sw"], "rate_gbps": 400} for i in range(SOURCES)]
    scenario = fabric(
        topology=star(SOURCES),
        links={"host": {"rate_gbps": 100, "delay_ns": 500}, "overrides": fast},
        switch={"queue_bytes": 100_000_000},
        workload={"incast": {"to": "r", "fan_in": 1, "bytes": 1}},
        transport={"ack_every": 64},
        policies=["ecmp"],
    )
    result = outcome(with_flows(scenario, flows), "ecmp")
    done = result.completed_ps
    starts = np.array([flow.start_ps for flow in result.scenario.workload.flows])
    waits = np.array([done[n] for n in range(len(starts))]) - starts - ALONE_PS
    return result, starts, waits


@pytest.mark.parametrize("load", COUNT)
def test_mean_wait_is_that_of_an_m_d_1_queue(load: float) -> None:
    _, _, waits = poisson(load)
    truth = load / (2 * (1 - load))  # Pollaczek-Khinchine, in service times
    batches = (waits / SERVICE_PS).reshape(20, -1).mean(axis=1)
    error = batches.std(ddof=1) / len(batches) ** 0.5
    assert error < 0.08 * truth  # else the next line says little
    assert abs(batches.mean() - truth) < 3 * error


@pytest.mark.parametrize("load", COUNT)
def test_each_packet_waits_as_long_as_lindley_says(load: float) -> None:
    result, starts, waits = poisson(load)
    flows = result.scenario.workload.flows
    uplink_free = dict.fromkeys((flow.src for flow in flows), 0)
    arrivals = []
    for flow in flows:
        uplink_free[flow.src] = max(flow.start_ps, uplink_free[flow.src]) + UPLINK_PS
        arrivals.append((uplink_free[flow.src], flow.id))
    free, expected = 0, np.zeros(len(flows), dtype=np.int64)
    for at, flow_id in sorted(arrivals):
        free = max(at, free) + SERVICE_PS
        expected[flow_id] = free - SERVICE_PS - UPLINK_PS - starts[flow_id]
    assert waits.tolist() == expected.tolist()


@pytest.mark.parametrize("policy", ["ecmp", "flowlet", "spray", "dlb", "glb"])
def test_incast_takes_what_the_receivers_link_needs_whatever_the_policy(policy: str) -> None:
    packets, fan_in = 40, 12
    result = outcome(
        fabric(
            topology=leaf_spine(4, 4, 4),
            workload={"incast": {"to": "h0", "fan_in": fan_in, "bytes": packets * 4_096}},
            transport={"window_packets": None},
            switch={"queue_bytes": 50_000_000},
            policies=[policy],
        ),
        policy,
    )
    # All packets leave by the receiver's link one after the other. The first of them comes from a
    # neighbour on the same leaf; the last one can come over a spine, not sooner.
    wire_ps = (4_096 + WIRE_OVERHEAD_BYTES) * 80
    first_ps = 2 * (wire_ps + DELAY_PS) + PIPELINE_PS
    least_ps = (fan_in * packets - 1) * wire_ps + first_ps
    assert least_ps <= result.completion_ps <= 1.01 * least_ps
    assert result.lost == {}
