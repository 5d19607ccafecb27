"""Scenarios as fluid networks, and how near those come to packets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sglb.fabric import scenario as scenarios
from sglb.watermark.errors import WatermarkError
from sglb.watermark.from_scenario import from_scenario
from sglb.watermark.layout import Timing
from sglb.watermark.packets import run_packets
from sglb.watermark.solve import solve


def _keys(**more: Any) -> dict[str, Any]:
    lossless = {"class": 3, "lossless": True, "scheduling": "dwrr", "weight": 4}
    return {
        "topology": {"leaf_spine": {"leaves": 1, "spines": 1, "hosts_per_leaf": 5}},
        "links": {"host": {"rate_gbps": 40, "delay_ns": 1_000}},
        "workload": {"incast": {"to": "h4", "fan_in": 4, "bytes": 38_000_000}},
        "switch": {
            "pipeline_latency_ns": 1_000,
            "buffer": {"total_bytes": 12_000_000, "alpha": 0.125, "classes": [lossless]},
            "pfc": {"enabled": True},
            "ecn": {"kmin_bytes": 100_000, "kmax_bytes": 400_000, "pmax": 0.2},
        },
        "transport": {
            "mtu_bytes": 1_024,
            "traffic_class": 3,
            "window_packets": None,
            "dcqcn": {"enabled": True, "rate_hai_mbps": 40},
        },
        "policies": ["ecmp"],
        "stop_us": 29_000,
    } | more


def test_delays_are_those_of_links_and_pipelines() -> None:
    """A frame of 1,024 bytes has 1,108 on the wire: 0.2216 us at 40 Gbit/s.

    Into the queue: frame, link (1 us), half a pipeline (0.5). Back: the other half, frame and link to
    the receiver, two links and a pipeline for the CNP.
    """
    network = from_scenario(scenarios.from_dict(_keys())).network
    assert [s.name for s in network.sources] == ["h0", "h1", "h2", "h3"]
    (hop,) = network.flows[0].hops
    frame_us = network.packet_bytes * 8 / 40e3 * (40 / network.queues[0].rate_gbps)
    assert network.packet_bytes < network.packet_bytes * 40 / network.queues[0].rate_gbps
    assert hop.link_us == pytest.approx(frame_us + 1 + 0.5, abs=0.02)
    assert hop.feedback_us == pytest.approx(0.5 + frame_us + 1 + 2 + 1, abs=0.02)
    assert network.ingresses[0].pauses == "h0"
    # Link, 84 bytes of pause frame, 118 quanta until it is obeyed.
    assert network.ingresses[0].delay_us == pytest.approx(1 + (84 * 8 + 118 * 512) / 40e3)


def test_flows_take_turns_on_equal_paths() -> None:
    keys = _keys(
        topology={"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 2}},
        workload={"flows": [{"src": f"h{i}", "dst": f"h{i + 2}", "bytes": 1000} for i in (0, 1)]},
    )
    network = from_scenario(scenarios.from_dict(keys)).network
    names = [[hop.queue for hop in flow.hops] for flow in network.flows]
    assert names[0] == ["leaf0 to spine0", "spine0 to leaf1", "leaf1 to h2"]
    assert names[1] == ["leaf0 to spine1", "spine1 to leaf1", "leaf1 to h3"]
    found = solve(network, [from_scenario(scenarios.from_dict(keys)).watermarks], Timing(100, 0.5))
    assert np.isfinite(found.completion_us).all()


def test_an_incast_rests_where_packets_do() -> None:
    given = scenarios.from_dict(_keys())
    packet = run_packets(given, "ecmp", 20)
    fluid = from_scenario(given)
    found = solve(fluid.network, [fluid.watermarks], Timing(28_000, 0.5, 20_000))
    late = (packet.time_us >= 20_000) & (packet.time_us < 28_000)
    depth = packet.queue_bytes["leaf0 to h4"][late]
    assert len(depth) > 100
    assert found.queue_mean_bytes[0, 0] == pytest.approx(depth.mean(), rel=0.1)
    assert packet.pauses.pause_frames == 0
    assert found.pauses.max() == 0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"switch": {}}, "the hosts' class to be lossless"),
        ({"faults": [{"at_us": 5, "rate": {"link": "leaf0-h4", "gbps": 10}}]}, "has no faults"),
        ({"workload": {"ring_all_reduce": {"bytes": 1_000_000}}}, "wait for other flows"),
    ],
)
def test_what_the_model_does_not_know_is_told(change: dict[str, Any], text: str) -> None:
    with pytest.raises(WatermarkError, match=text):
        from_scenario(scenarios.from_dict(_keys(**change)))
    keys = _keys()
    keys["transport"] = {"traffic_class": 3}
    with pytest.raises(WatermarkError, match=r"set transport\.dcqcn\.enabled"):
        from_scenario(scenarios.from_dict(keys))
