"""Priority flow control: what it costs ECMP, and that headroom is what keeps it lossless."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from physics_kit import Outcome, fabric, leaf_spine, outcome, with_flows

from sglb.fabric.lossless import least_port_headroom_bytes
from sglb.fabric.scenario import Scenario

LOSSLESS = {"class": 3, "lossless": True}


@cache
def all_to_all(policy: str, pfc: bool) -> Outcome:
    """64 KiB a pair between 36 hosts, all at once; without PFC no queue is ever full."""
    switch: dict[str, Any] = {"queue_bytes": 100_000_000}
    if pfc:
        switch = {
            "buffer": {"total_bytes": 20_000_000, "classes": [LOSSLESS]},
            "pfc": {"enabled": True, "xoff_bytes": 40_000},
        }
    result = outcome(
        fabric(
            topology=leaf_spine(6, 6, 6),
            workload={"all_to_all": {"bytes_per_pair": 65_536}},
            transport={"traffic_class": 3, "window_packets": None},
            switch=switch,
            policies=[policy],
        ),
        policy,
    )
    assert result.lost == {}
    return result


def test_pauses_block_ecmps_other_flows_in_an_all_to_all() -> None:
    # One crowded uplink pauses a leaf's hosts, or a spine, for all destinations.
    with_pfc, without = all_to_all("ecmp", True), all_to_all("ecmp", False)
    assert with_pfc.run.pauses.pause_frames > 100
    assert with_pfc.completion_ps > 1.1 * without.completion_ps


def test_spraying_fills_no_uplink_so_pauses_leave_it_alone() -> None:
    ecmp, spray = all_to_all("ecmp", True), all_to_all("spray", True)
    assert ecmp.completion_ps > 1.3 * spray.completion_ps


def crowded(delay_ns: int, pipeline_ns: int, headroom: int | str) -> Scenario:
    """Eleven hosts send 256 KiB to h0, and all 16 KiB to each other, at once."""
    hosts, links = 12, {"rate_gbps": 100, "delay_ns": delay_ns}
    scenario = fabric(
        topology=leaf_spine(3, 3, 4),
        links={"host": links, "fabric": links},
        workload={"incast": {"to": "h0", "fan_in": 1, "bytes": 1}},
        transport={
            "traffic_class": 3,
            "window_packets": None,
            # Pauses last: what is late must not be taken for lost.
            "rto_us": 5_000,
            "reorder_us": 5_000,
        },
        switch={
            "buffer": {"total_bytes": 40_000_000, "classes": [LOSSLESS]},
            "pfc": {"enabled": True, "xoff_bytes": 40_000, "headroom_bytes": headroom},
            "ecn": {"kmin_bytes": 10_000, "kmax_bytes": 30_000},
            "pipeline_latency_ns": pipeline_ns,
        },
        policies=["ecmp", "glb"],
    )
    flows = [(0, i, 0, 262_144) for i in range(1, hosts)]
    flows += [(0, i, j, 16_384) for i in range(hosts) for j in range(hosts) if i != j]
    return with_flows(scenario, flows)


def least_headroom(scenario: Scenario) -> int:
    model = scenario.model
    return least_port_headroom_bytes(scenario.topology.links[0].spec, model.switch, model.transport)


#: Delays of links and pipelines, ns: short, usual, a long cable, a slow switch.
PLACES = pytest.mark.parametrize(
    ("delay_ns", "pipeline_ns"), [(50, 1_000), (500, 1_000), (5_000, 1_000), (500, 20_000)]
)


@PLACES
def test_headroom_as_computed_loses_nothing(delay_ns: int, pipeline_ns: int) -> None:
    scenario = crowded(delay_ns, pipeline_ns, "auto")
    assert scenario.warnings == ()
    result = outcome(scenario, "glb")
    assert result.lost == {}
    assert result.transport.resent == 0
    assert result.run.pauses.headroom_bytes > 0


@PLACES
def test_what_can_arrive_at_worst_is_enough_and_half_of_it_loses_packets(
    delay_ns: int, pipeline_ns: int
) -> None:
    least = least_headroom(crowded(delay_ns, pipeline_ns, "auto"))
    assert outcome(crowded(delay_ns, pipeline_ns, least), "ecmp").lost == {}
    scenario = crowded(delay_ns, pipeline_ns, least // 2)
    assert [w.message for w in scenario.warnings] == [
        f"is {least // 2}, and {least} bytes can arrive on leaf0-h0 after a pause was decided: a "
        "lossless class can lose packets"
    ]
    result = outcome(scenario, "ecmp")
    assert set(result.lost) == {"headroom exceeded"}
    assert result.run.completed  # what was lost was sent again
