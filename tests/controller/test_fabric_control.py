"""The default control plane on small fabrics that run the real program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from controller_kit import program
from finsy import Match, P4RegisterEntry, P4TableEntry

from controller.fabric_control import FabricControl
from controller.plan import T_DESTINATIONS, T_SLOTS
from sglb.fabric import scenario
from sglb.fabric.events import (
    Event,
    FlowCompleted,
    PacketLost,
    PacketSentIntoDeadPath,
    PortDownSeen,
    SlowPathSaw,
    TableWritten,
)
from sglb.fabric.recovery import Recovery, recoveries
from sglb.fabric.simulation import PolicyRun, Simulation
from sglb.switch.clock import PS_PER_US
from sglb.switch.p4runtime.client import InProcessClient
from sglb.syncmesh.dataplane import Lane

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
        return sorted({e.time_ps / PS_PER_US for e in self.wrote("controller") if e.time_ps})

    def wrote(self, writer: str) -> list[TableWritten]:
        return [e for e in self.events(TableWritten) if e.writer == writer]

    def reader(self, switch_id: int) -> InProcessClient:
        """A client that is not primary."""
        return InProcessClient(self.simulation.services[switch_id], election_id=0)

    def down_lanes(self) -> list[int]:
        """Every bank's set of lanes that some data plane holds for dead, where it is not empty."""
        found: list[int] = []
        for switch_id in self.simulation.services:
            cells: Sequence[P4RegisterEntry] = self.reader(switch_id).read(
                P4RegisterEntry("local_down")
            )
            found += [cell.data for cell in cells if isinstance(cell.data, int)]
        return [lanes for lanes in found if lanes]

    def id(self, name: str) -> int:
        return self.topology.node(name).id

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


HOLE = [{"at_us": 200, "blackhole": "leaf1->spine0"}, {"at_us": 900, "heal": "leaf1->spine0"}]


def test_routing_finds_a_one_way_hole_by_its_probes_and_takes_the_link_back() -> None:
    run = Run("spray", kib=3072, faults=HOLE, transport={"rto_us": 50, "rto_max_us": 100})
    assert run.result.completed
    # The last probe before 200 was heard less than a third of 100 us before it (plus a microsecond
    # or two on the way), and 100 us after it the link is down for routing; tables follow 60 later.
    (down_us, down), (up_us, up) = run.saw()
    assert (down, up) == (False, True)
    assert 200 + 66 < down_us < 200 + 102
    # The first probe after 900 is heard within a third of 100 us.
    assert 900 < up_us < 900 + 36
    assert run.written() == pytest.approx([down_us + 60, up_us + 40])
    assert run.events(PortDownSeen) == []


def test_glb_finds_a_hole_by_heartbeats_before_routing_does() -> None:
    sync = {"heartbeat_us": 10, "missed_count": 3, "hello_us": 100, "hold_us": 350}
    run = Run("glb", kib=3072, faults=HOLE, syncmesh=sync)
    assert run.result.completed
    first = run.events(PortDownSeen)[0]
    assert first.cause == "heartbeat"
    assert 200 + 20 < first.time_ps / PS_PER_US < 200 + 45
    (down_us, _), (up_us, _) = run.saw()
    assert down_us == first.time_ps / PS_PER_US
    assert 900 < up_us < 960
    assert run.down_lanes() == []
    assert run.result.control["links"] == {}


def test_glb_avoids_a_hole_in_both_directions_that_no_agent_can_tell_of() -> None:
    faults = [{"at_us": 200, "blackhole": "leaf1-spine0"}, {"at_us": 900, "heal": "leaf1-spine0"}]
    sync = {"heartbeat_us": 10, "missed_count": 3, "hello_us": 100, "hold_us": 350}
    run = Run("glb", kib=3072, faults=faults, syncmesh=sync)
    assert run.result.completed
    assert run.recovery().overall.total_ps < 50 * PS_PER_US
    assert [up for _, up in run.saw()] == [False, True]
    assert run.down_lanes() == []


RESTART = [{"at_us": 100, "down_switch": "spine0"}, {"at_us": 400, "up_switch": "spine0"}]


@pytest.mark.parametrize("policy", ["spray", "glb"])
def test_a_switch_that_restarts_is_filled_again_and_used_again(policy: str) -> None:
    run = Run(policy, kib=3072, faults=RESTART, transport={"rto_us": 50, "rto_max_us": 100})
    assert run.result.completed
    assert run.result.control["links"] == {}
    assert run.down_lanes() == []
    refilled = [e for e in run.wrote("controller") if e.time_ps == 440 * PS_PER_US]
    assert {run.topology.by_id(e.node).name for e in refilled} == {"spine0"}
    # spine0 is away for 340 of about 1100 us.
    assert run.sent("spine0", "leaf1") > run.sent("spine1", "leaf1") / 2


# spine0 is away from 20 to 100 us, and its link to leaf1 is dead by the time it is back. It is filled at
# 140, leaf0 may use it again from 150 on; routing takes the dead link out at 190.
DEAD_AT_RETURN = {
    "cut while away": [
        {"at_us": 20, "down_switch": "spine0"},
        {"at_us": 60, "down": "leaf1-spine0"},
        {"at_us": 100, "up_switch": "spine0"},
    ],
    "cut before": [
        {"at_us": 15, "down": "leaf1-spine0"},
        {"at_us": 20, "down_switch": "spine0"},
        {"at_us": 100, "up_switch": "spine0"},
    ],
}


@pytest.mark.parametrize("faults", DEAD_AT_RETURN.values(), ids=DEAD_AT_RETURN.keys())
def test_a_restarted_switch_attracts_nothing_into_a_link_that_was_dead_already(
    faults: list[dict[str, Any]],
) -> None:
    run = Run("glb", kib=1024, faults=faults, transport={"rto_us": 50, "rto_max_us": 100})
    assert run.result.completed
    back = 100 * PS_PER_US
    assert [e for e in run.events(PacketSentIntoDeadPath) if e.time_ps > back] == []
    assert [
        e for e in run.events(PacketLost) if e.time_ps > back and str(e.traffic) != "control"
    ] == []
    assert run.sent("spine0", "leaf0") > 0


def test_without_agents_the_restarted_switch_itself_avoids_a_link_that_was_dead_already() -> None:
    # leaf0 is back at 100 with its link to spine1 dead, and filled at 140; h0 is connected to it.
    faults = [
        {"at_us": 20, "down_switch": "leaf0"},
        {"at_us": 60, "down": "leaf0-spine1"},
        {"at_us": 100, "up_switch": "leaf0"},
    ]
    run = Run("dlb", kib=256, faults=faults, transport={"rto_us": 10, "rto_max_us": 10})
    assert run.result.completed
    lost = [e for e in run.events(PacketLost) if str(e.traffic) == "data"]
    assert [e for e in lost if e.time_ps > 140 * PS_PER_US] == []


def test_a_restarted_switch_that_is_still_empty_gets_no_changes() -> None:
    # spine0 is up at 400 and filled at 440; at 420 tables follow a rate that changed at 360.
    rate = {"at_us": 360, "rate": {"link": "leaf1-spine1", "gbps": 12.5}}
    run = Run("glb", kib=2048, faults=[RESTART[0], rate, RESTART[1]])
    assert run.result.completed
    assert {420, 440} <= set(run.written())
    assert run.result.control["links"] == {}


def test_a_dead_switch_takes_no_writes() -> None:
    # spine0 dies at 100; at 420 tables follow a rate that changed at 360. Its neighbours tell routing.
    rate = {"at_us": 360, "rate": {"link": "leaf1-spine1", "gbps": 12.5}}
    run = Run("glb", kib=1024, faults=[RESTART[0], rate])
    assert run.result.completed
    spine0 = run.id("spine0")
    assert run.simulation.switches[spine0].program is None
    dead = [e for e in run.events(TableWritten) if e.node == spine0 and e.time_ps > 100 * PS_PER_US]
    assert dead == []
    assert {270, 420} <= set(run.written())


@pytest.mark.parametrize("policy", ["spray", "glb"])
def test_a_switch_that_dies_again_before_it_is_filled_is_filled_when_it_stays(policy: str) -> None:
    # Back at 200, to be filled at 240, but gone at 220; back at 230, filled at 270.
    faults = [
        {"at_us": 100, "down_switch": "spine0"},
        {"at_us": 200, "up_switch": "spine0"},
        {"at_us": 220, "down_switch": "spine0"},
        {"at_us": 230, "up_switch": "spine0"},
    ]
    run = Run(policy, kib=2048, faults=faults, transport={"rto_us": 50, "rto_max_us": 100})
    assert run.result.completed
    spine0 = run.id("spine0")
    at_us = {e.time_ps / PS_PER_US for e in run.wrote("controller") if e.node == spine0}
    assert min(t for t in at_us if t > 100) == 270
    assert run.result.control["links"] == {}
    assert run.sent("spine0", "leaf1") > 0


def test_what_agents_write_is_logged() -> None:
    run = Run("glb", kib=64)
    first: Counter[int] = Counter()
    for event in run.wrote("agent"):
        first[event.node] += event.updates if not event.time_ps else 0
    # A leaf: a profile, two ports, the group and the two sessions of listeners, an entry each. A spine
    # hears of nobody.
    assert first == {run.id(n): 6 for n in ("leaf0", "leaf1")} | {
        run.id(n): 5 for n in ("spine0", "spine1")
    }
    later = [e for e in run.wrote("agent") if e.time_ps]
    assert {e.node for e in later} == set(first)  # each finds its neighbours
    control = run.result.control
    assert control["agent_table_updates"] == sum(e.updates for e in run.wrote("agent"))
    assert control["table_updates"] == sum(e.updates for e in run.wrote("controller"))


def test_neighbours_believe_a_restarted_switch() -> None:
    run = Run("glb", kib=3072, faults=[*RESTART, {"at_us": 700, "down": "leaf1-spine0"}])
    assert run.result.completed
    cut = recoveries(run.result.log, run.topology)[1]
    assert (cut.label, cut.cut_ps) == ("leaf1-spine0", 700 * PS_PER_US)
    assert cut.remote.sent_into_dead_path > 0
    # Not only told in time: what leaf0 had in its queue for spine0 by then is sent there all the same.
    assert cut.overall.total_ps < 45 * PS_PER_US


def test_shares_follow_a_new_rate_after_the_reaction() -> None:
    faults = [{"at_us": 100, "rate": {"link": "leaf1-spine0", "gbps": 12.5}}]
    run = Run("glb", kib=1024, faults=faults)
    assert run.result.completed
    assert run.written() == [160]
    leaf0 = run.reader(run.topology.node("leaf0").id)
    dst = run.topology.node("leaf1").id
    [group] = leaf0.read(P4TableEntry(T_DESTINATIONS, match=Match(dst=dst)))
    number = group.action.args["index"]
    slots = [e for e in leaf0.read(P4TableEntry(T_SLOTS)) if e.match["group"] == number]
    first = [e.action.args["one"] for e in slots]
    # 12.5 of 37.5 Gbit/s: a third of 64 slots for spine0 (lane 0), rounded.
    assert (first.count(Lane(0, 0).bit), first.count(Lane(0, 1).bit)) == (21, 43)


def test_a_lost_notification_heals_without_another_change() -> None:
    # Every SyncMesh frame from spine0 to leaf0 is lost around the cut: leaf0 is not told.
    lossy = {
        "host": {"rate_gbps": 25},
        "fabric": {"rate_gbps": 25},
        "overrides": [
            {
                "between": ["spine0", "leaf0"],
                "loss": {
                    "syncmesh": 1.0,
                    "from_us": 15,
                    "to_us": 100,
                    "direction": "spine0->leaf0",
                },
            }
        ],
    }
    slow = {"failure_detection_ms": 100, "reaction_ms": 60, "restore_ms": 60}
    keys: dict[str, Any] = {
        "faults": CUT[:1],
        "links": lossy,
        "control_plane": slow,
        "transport": {"rto_us": 50, "rto_max_us": 100},
        "syncmesh": {"full_us": 150},
    }
    run = Run("glb", kib=2048, **keys)
    assert run.result.completed
    assert run.saw() == []  # no slow path: SyncMesh's own repair
    recovery = run.recovery()
    last_us = 20 + recovery.remote.total_ps / PS_PER_US
    assert recovery.remote.last_switch == "leaf0"
    assert 100 < last_us < 400
