"""The default control plane on small fabrics that run the real program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from controller_kit import program
from finsy import P4RegisterEntry

from controller.fabric_control import FabricControl
from sglb.fabric import scenario
from sglb.fabric.events import (
    Event,
    FlowCompleted,
    PacketLost,
    SlowPathSaw,
    TableWritten,
)
from sglb.fabric.recovery import Recovery, recoveries
from sglb.fabric.simulation import PolicyRun, Simulation
from sglb.switch.clock import PS_PER_US
from sglb.switch.p4runtime.client import InProcessClient

POLICIES = ("ecmp", "flowlet", "spray", "dlb", "glb")
# Detection 100 us, reaction 60 us, restore 40 us: a slow path that fits a short run.
SLOW = {"failure_detection_ms": 0.1, "reaction_ms": 0.06, "restore_ms": 0.04}


class Run:
    """One policy on two leaves, two spines and two hosts a leaf; h0, h1 send to h2, h3
    at 25 Gbit/s."""

    def __init__(self, policy: str, kib: int = 256, stop_us: float = 1e6, **keys: Any) -> None:
        sizes = {"leaves": 2, "spines": 2, "hosts_per_leaf": 2}
        pairs = (("h0", "h2"), ("h1", "h3"))
        self.scenario = scenario.from_dict(
            {
                "topology": {"leaf_spine": sizes},
                "links": {"host": {"rate_gbps": 25}, "fabric": {"rate_gbps": 25}},
                "workload": {"flows": [{"src": a, "dst": b, "bytes": kib << 10} for a, b in pairs]},
                "control_plane": SLOW,
                "policies": [policy],
                "stop_us": stop_us,
                **keys,
            }
        )
        self.topology = self.scenario.topology
        self.simulation = Simulation(self.scenario, policy, program(), FabricControl)
        self.result: PolicyRun = self.simulation.run()

    def events(self, kind: type[Any]) -> list[Any]:
        return self.result.log.of(kind)

    def recovery(self) -> Recovery:
        return recoveries(self.result.log, self.topology)[0]

    def saw(self) -> list[tuple[float, bool]]:
        return [(e.time_ps / PS_PER_US, e.up) for e in self.events(SlowPathSaw)]

    def written(self) -> list[float]:
        """Times in us of the controller's writes after the start."""
        return sorted({e.time_ps / PS_PER_US for e in self.events(TableWritten) if e.time_ps})

    def down_lanes(self) -> list[int]:
        """Every bank's set of lanes that some data plane holds for dead, where it is not empty."""
        found: list[int] = []
        for service in self.simulation.services.values():
            client = InProcessClient(service, role=None, election_id=0)
            cells: Sequence[P4RegisterEntry] = client.read(P4RegisterEntry("local_down"))
            found += [cell.data for cell in cells if isinstance(cell.data, int)]
        return [lanes for lanes in found if lanes]

    def sent(self, switch: str, neighbour: str) -> int:
        """Frames that a switch sent to a neighbour."""
        [link] = self.topology.find_links(f"{switch}-{neighbour}")
        node = self.topology.node(switch).id
        return self.simulation.switches[node].ports[link.port(node)].counters.tx_packets


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_completes_and_is_its_own_seeds_image(policy: str) -> None:
    first, second = Run(policy, kib=64), Run(policy, kib=64)
    assert first.result.completed
    assert not first.events(PacketLost) or {str(e.traffic) for e in first.events(PacketLost)} == {
        "control"
    }
    log: list[Event] = list(first.result.log)
    assert log == list(second.result.log)
    assert len(first.events(FlowCompleted)) == 2


CUT = [{"at_us": 20, "down": "leaf1-spine0"}, {"at_us": 400, "up": "leaf1-spine0"}]


def test_glb_avoids_a_remote_cut_in_microseconds_without_the_slow_path() -> None:
    run = Run("glb", kib=128, faults=CUT[:1], transport={"rto_us": 1000})
    assert run.result.completed
    recovery = run.recovery()
    # Detection 10 us, then a frame in flight, a notification and a pipeline or two.
    assert recovery.remote.detected_by == "data plane"
    assert recovery.remote.detection_ps == 10 * PS_PER_US
    assert recovery.remote.notification_ps > 0
    assert 10 * PS_PER_US < recovery.overall.total_ps < 20 * PS_PER_US


@pytest.mark.parametrize("policy", ["ecmp", "flowlet", "spray", "dlb"])
def test_the_others_wait_for_the_slow_path(policy: str) -> None:
    run = Run(policy, kib=512, faults=CUT[:1], transport={"rto_us": 50, "rto_max_us": 100})
    assert run.result.completed
    # Cut at 20, seen at 30 by the ports, at 130 by routing, in the tables at 190.
    assert run.saw() == [(130, False)]
    assert run.written() == [190]
    if run.recovery().remote.sent_into_dead_path:
        last_us = (run.recovery().remote.total_ps + 20 * PS_PER_US) / PS_PER_US
        assert 150 < last_us < 195
    assert run.result.control["links"] == {"leaf1-spine0": "out of the tables"}


@pytest.mark.parametrize("policy", ["dlb", "glb"])
def test_a_link_that_returns_is_used_again(policy: str) -> None:
    run = Run(policy, kib=2048, faults=CUT)
    assert run.result.completed
    # Up at 400, seen at 410, back in the tables at 450.
    assert run.saw() == [(130, False), (410, True)]
    assert run.written() == [190, 450]
    assert run.result.control["links"] == {}
    assert run.down_lanes() == []
    one, other = run.sent("spine0", "leaf1"), run.sent("spine1", "leaf1")
    assert one > other / 2  # 2 MiB take 700 us, of which the link misses 400


def test_a_short_cut_that_routing_never_noticed_still_ends_for_the_data_planes() -> None:
    faults = [{"at_us": 20, "down": "leaf1-spine0"}, {"at_us": 60, "up": "leaf1-spine0"}]
    run = Run("glb", kib=512, faults=faults)
    assert run.result.completed
    assert run.saw() == []
    assert run.written() == []
    assert run.down_lanes() == []
    assert run.result.control["links"] == {}
