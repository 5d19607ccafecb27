from pathlib import Path

import pytest
from controller_kit import tiny

from controller.agents import (
    agent_config,
    allocation_of,
    named_key_file,
    simulated_key,
    static_ports,
)
from controller.layout import FabricLayout
from controller.timers import timers_of
from sglb.fabric.scenario import from_dict
from sglb.switch.clock import PS_PER_US
from sglb.syncmesh.config import FabricPort, Heard
from sglb.syncmesh.dataplane import APP_BEAT_TIMER, APP_QUALITY_TIMER, POD_SUBJECT, Lane
from sglb.syncmesh.key_file import KeyFileError
from sglb.syncmesh.messages import FabricKey

KEY = FabricKey(b"0123456789abcdef")
LEAF0, LEAF1, SPINE0, SPINE1 = 1, 2, 3, 4


def test_a_leaf_hears_of_the_other_leaf_through_both_spines() -> None:
    scenario = tiny(syncmesh={"hello_us": 20, "hold_us": 70, "full_us": 400, "heartbeat_us": 9})
    fabric = FabricLayout(scenario.topology)
    config = agent_config(
        fabric.layout(LEAF0), allocation_of(fabric, LEAF0, 64), scenario, incarnation=3, key=KEY
    )
    assert config.key is KEY
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
        fabric.layout(SPINE0), allocation_of(fabric, SPINE0, 64), scenario, incarnation=1, key=KEY
    )
    assert [(p, c.subject, c.neighbour) for p, c in config.ports.items()] == [
        (1, 1, LEAF0),
        (2, 2, LEAF1),
    ]
    assert config.heard == ()


def test_a_simulated_fabrics_key_follows_from_the_seed() -> None:
    tags = [simulated_key(tiny(seed=seed)).tag(b"x") for seed in (1, 1, 2)]
    assert tags[0] == tags[1] != tags[2]


def test_a_key_file_stands_beside_the_scenario(tmp_path: Path) -> None:
    key = tmp_path / "fabric.key"
    key.write_text("00112233445566778899aabbccddeeff\n")
    key.chmod(0o600)
    data = {**tiny().model.model_dump(exclude_unset=True), "syncmesh": {"key_file": "fabric.key"}}
    scenario = from_dict(data, str(tmp_path / "my.yaml"))
    assert named_key_file(scenario) == key
    expected = FabricKey(bytes.fromhex("00112233445566778899aabbccddeeff"))
    assert simulated_key(scenario).tag(b"x") == expected.tag(b"x")
    key.chmod(0o644)
    with pytest.raises(KeyFileError, match="other users may use this key"):
        simulated_key(scenario)
    assert named_key_file(tiny()) is None


def test_three_tiers_relay_what_is_behind() -> None:
    # k = 4: leaves 1..8 (two a pod), spines 9..16, cores 17..20.
    scenario = from_dict(
        {
            "topology": {"clos3": {"k": 4}},
            "workload": {"flows": [{"src": "h0", "dst": "h1", "bytes": 64}]},
        }
    )
    fabric = FabricLayout(scenario.topology)
    config = agent_config(fabric.layout(9), allocation_of(fabric, 9, 64), scenario, 1, KEY)
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
