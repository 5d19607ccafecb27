from controller_kit import tiny

from controller.agents import agent_config, allocation_of, static_ports
from controller.layout import FabricLayout
from controller.timers import timers_of
from sglb.fabric.scenario import from_dict
from sglb.switch.clock import PS_PER_US
from sglb.syncmesh.config import FabricPort, Heard
from sglb.syncmesh.dataplane import APP_BEAT_TIMER, APP_QUALITY_TIMER, POD_SUBJECT, Lane

LEAF0, LEAF1, SPINE0, SPINE1 = 1, 2, 3, 4


def test_a_leaf_hears_of_the_other_leaf_through_both_spines() -> None:
    scenario = tiny(syncmesh={"hello_us": 20, "hold_us": 70, "full_us": 400, "heartbeat_us": 9})
    fabric = FabricLayout(scenario.topology)
    config = agent_config(
        fabric.layout(LEAF0), allocation_of(fabric, LEAF0, 64), scenario, incarnation=3
    )
    assert (config.node, config.incarnation) == (LEAF0, 3)
    assert config.mac == bytes.fromhex("020000000001")
    # Port 1 is the host's. A leaf is no transit, so no port of it carries an announcement.
    assert config.ports == {
        2: FabricPort(Lane(0, 0), 0, SPINE0),
        3: FabricPort(Lane(0, 1), 0, SPINE1),
    }
    assert config.heard == (Heard(LEAF1, profile=1, alone=True, relay=0, ports=(2, 3)),)
    us = PS_PER_US
    timers = config.timers
    assert (timers.hello_ps, timers.hold_ps) == (20 * us, 70 * us)
    assert (timers.full_ps, timers.heartbeat_ps) == (400 * us, 9 * us)


def test_a_spine_announces_a_leaf_a_port_and_hears_of_nobody() -> None:
    scenario = tiny()
    fabric = FabricLayout(scenario.topology)
    config = agent_config(
        fabric.layout(SPINE0), allocation_of(fabric, SPINE0, 64), scenario, incarnation=1
    )
    assert [(p, c.subject, c.neighbour) for p, c in config.ports.items()] == [
        (1, 1, LEAF0),
        (2, 2, LEAF1),
    ]
    assert config.heard == ()


def test_one_key_a_fabric_and_another_for_another_seed() -> None:
    def tag(seed: int, switch: int) -> bytes:
        scenario = tiny(seed=seed)
        fabric = FabricLayout(scenario.topology)
        allocation = allocation_of(fabric, switch, 64)
        return agent_config(fabric.layout(switch), allocation, scenario, 1).key.tag(b"x")

    assert tag(1, LEAF0) == tag(1, SPINE0) != tag(2, LEAF0)


def test_three_tiers_relay_what_is_behind() -> None:
    # k = 4: leaves 1..8 (two a pod), spines 9..16, cores 17..20.
    scenario = from_dict(
        {
            "topology": {"clos3": {"k": 4}},
            "workload": {"flows": [{"src": "h0", "dst": "h1", "bytes": 64}]},
        }
    )
    fabric = FabricLayout(scenario.topology)
    config = agent_config(fabric.layout(9), allocation_of(fabric, 9, 64), scenario, incarnation=1)
    # spine0 tells its leaves of other pods as wholes, and what it hears of a leaf there changes that.
    relays = {h.subject: h.relay for h in config.heard}
    own = {s.destination: s.index for s in fabric.layout(9).subjects}
    assert relays[POD_SUBJECT | 1] == relays[3] == relays[4] == own[POD_SUBJECT | 1]
    assert relays[POD_SUBJECT | 3] == relays[8] == own[POD_SUBJECT | 3]
    assert 1 not in relays  # its own leaf: it needs nobody to tell


def test_without_an_agent_neighbours_are_known_and_nobody_is_believed() -> None:
    fabric = FabricLayout(tiny().topology)
    found = [(e.match["port"], dict(e.action.args)) for e in static_ports(fabric.layout(LEAF1))]
    common = {"incarnation": 0, "bank": 0, "subject": 0}
    assert found == [
        (2, {"neighbour": SPINE0, "lane_shift": 0, **common}),
        (3, {"neighbour": SPINE1, "lane_shift": 8, **common}),
    ]


def test_timers_tick_one_switch_after_the_other() -> None:
    model = tiny(syncmesh={"heartbeat_us": 100}).model
    assert timers_of(model, "spray", 0, 4) == ()
    [quality] = timers_of(model, "dlb", 0, 4)
    assert (quality.app_id, quality.period_ps) == (APP_QUALITY_TIMER, 16 * PS_PER_US)
    # A quarter of 16 us apart, the last at the period's end; heartbeats likewise, of 100 us.
    starts = [
        [app.start_ps // PS_PER_US for app in timers_of(model, "glb", i, 4)] for i in range(4)
    ]
    assert starts == [[4, 25], [8, 50], [12, 75], [16, 100]]
    assert timers_of(model, "glb", 0, 4)[1].app_id == APP_BEAT_TIMER
    assert len(quality.payload) == 40  # 14 + 6 + 40 = 60 bytes, the shortest Ethernet frame
