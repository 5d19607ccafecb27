"""No packet comes from nothing or goes astray, and nothing is faster than can be, whatever happens."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from physics_kit import Outcome, fabric, leaf_spine, program, simulate

from sglb.fabric.events import FlowStarted
from sglb.fabric.kernel.simulation import NativeSimulation
from sglb.fabric.metrics import in_flight
from sglb.fabric.run import make_jobs
from sglb.switch.core import model as m

LINKS = st.sampled_from([f"leaf{a}-spine{b}" for a in range(3) for b in range(2)] + ["leaf0-h0"])
AT = st.integers(1, 60)
FAULTS = st.lists(
    st.one_of(
        st.builds(lambda at, x: [{"at_us": at, "down": x}, {"at_us": at + 40, "up": x}], AT, LINKS),
        st.builds(
            lambda at, x: [{"at_us": at, "blackhole": x}, {"at_us": at + 40, "heal": x}], AT, LINKS
        ),
        st.builds(lambda at, x: [{"at_us": at, "loss": {"link": x, "data": 0.02}}], AT, LINKS),
        st.builds(lambda at, x: [{"at_us": at, "bit_errors": {"link": x, "ber": 1e-6}}], AT, LINKS),
        st.builds(lambda at, x: [{"at_us": at, "rate": {"link": x, "gbps": 30}}], AT, LINKS),
        st.builds(
            lambda at, s: [{"at_us": at, "down_switch": s}, {"at_us": at + 50, "up_switch": s}],
            AT,
            st.sampled_from(["spine0", "leaf1"]),
        ),
    ),
    max_size=3,
    unique_by=lambda group: next(key for key in group[0] if key != "at_us"),
)
WORKLOADS = st.sampled_from(
    [
        {"permutation": {"bytes": 150_000}},
        {"all_to_all": {"bytes_per_pair": 20_000}},
        {"incast": {"to": "h0", "fan_in": 8, "bytes": 60_000}},
        {"ring_all_reduce": {"bytes": 90_000}},
        {"arrivals": {"load": 0.6, "sizes": "fb_hdp", "duration_us": 30}},
    ]
)
BUFFERS: list[dict[str, Any]] = [
    {"queue_bytes": 20_000},
    {"queue_bytes": 500_000, "buffer": {"total_bytes": 60_000, "alpha": 1.0}},
    {
        "buffer": {"total_bytes": 900_000, "classes": [{"class": 3, "lossless": True}]},
        "pfc": {"enabled": True, "xoff_bytes": 12_000},
    },
    {
        "buffer": {"total_bytes": 150_000, "classes": [{"class": 3, "lossless": True}]},
        "pfc": {"enabled": True, "xoff_bytes": 12_000, "headroom_bytes": 9_000},
    },
]


@settings(max_examples=6)
@given(
    workload=WORKLOADS,
    faults=FAULTS,
    switch=st.sampled_from(BUFFERS),
    policy=st.sampled_from(["ecmp", "flowlet", "spray", "dlb", "glb"]),
    recovery=st.sampled_from(["selective_repeat", "go_back_n"]),
    dcqcn=st.booleans(),
    seed=st.integers(0, 9),
)
def test_what_was_sent_has_arrived_or_is_lost_and_bounds_hold(
    workload: dict[str, Any],
    faults: list[list[dict[str, Any]]],
    switch: dict[str, Any],
    policy: str,
    recovery: str,
    dcqcn: bool,
    seed: int,
) -> None:
    scenario = fabric(
        seed=seed,
        topology=leaf_spine(3, 2, 3),
        workload=workload,
        faults=sorted((fault for group in faults for fault in group), key=lambda f: f["at_us"]),
        switch={**switch, "ecn": {"kmin_bytes": 4_000, "kmax_bytes": 40_000}},
        transport={
            "traffic_class": 3,
            "recovery": recovery,
            "rto_us": 50,
            "rto_max_us": 400,
            "ack_timer_us": 5,
            "dcqcn": {"enabled": dcqcn},
        },
        control_plane={"failure_detection_ms": 0.03, "programming_ms": 0.02, "restore_ms": 0.02},
        policies=[policy],
        stop_us=3_000,
    )
    simulation = simulate(scenario, policy)
    result = Outcome(scenario, simulation.run())
    (job,) = make_jobs(scenario, [policy], program())
    if result.run.completed:
        job.bound.check(result.completion_ps)  # raises when it was too fast
    assert in_flight(result.run.log, list(result.run.hosts.values())) >= 0
    for flow, time_ps in _flow_times(result).items():
        assert time_ps >= job.ideal_fct_ps[flow]
    if result.run.completed:
        _drain(simulation)
        after = simulation.result()
        assert in_flight(after.log, list(after.hosts.values())) == 0
        _is_empty(simulation)


def _flow_times(result: Outcome) -> dict[int, int]:
    """From start to completion, by flow."""
    started = {event.flow_id: event.time_ps for event in result.run.log.of(FlowStarted)}
    return {flow: at - started[flow] for flow, at in result.completed_ps.items()}


def _drain(simulation: NativeSimulation) -> None:
    """Lets all that is under way arrive, which a run does not wait for; twice the longest timeout."""
    simulation._world.w[m.HALT] = 0
    now_ps = simulation.clock.now_ps
    simulation._advance(now_ps, now_ps + 800_000_000)


def _is_empty(simulation: NativeSimulation) -> None:
    """No queue of hosts' traffic, no priority group and no headroom holds anything."""
    w = simulation._world.w

    def table(at: int, count: int, words: int) -> np.ndarray:
        return w[int(w[at]) : int(w[at]) + count * words].reshape(count, words)

    slots = int(w[m.PORTS]) * m.CLASSES
    queues = table(m.QUEUES_AT, slots, m.QUEUE_WORDS).reshape(-1, m.CLASSES, m.QUEUE_WORDS)
    assert not queues[:, :7, [m.Q_BYTES, m.Q_PACKETS, m.Q_COUNTED]].any()
    groups = table(m.GROUPS_AT, slots, m.GROUP_WORDS)
    assert not groups[:, [m.G_BYTES, m.G_HEADROOM, m.G_XOFF]].any()
    nodes = table(m.NODES_AT, int(w[m.SWITCHES]), m.NODE_WORDS)
    assert not nodes[:, m.N_HEADROOM_USED].any()
