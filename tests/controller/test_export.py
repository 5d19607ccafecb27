"""A fabric as files: what a switch holds by them is what it takes to forward, with no controller."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from finsy import P4Schema
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import Ether

from controller.export import export
from sglb import programs
from sglb.fabric import scenario as scenarios
from sglb.fabric import topology_files
from sglb.fabric.scenario import Scenario
from sglb.fabric.topology import LinkSpec
from sglb.p4 import compile as compile_p4
from sglb.p4.compiler import CompiledProgram
from sglb.p4.random_stream import RandomStream
from sglb.switch import Switch, SwitchConfig, runtime_file
from sglb.switch.clock import VirtualClock
from sglb.switch.p4runtime import InProcessClient, P4RuntimeService


@cache
def program() -> CompiledProgram:
    return compile_p4(programs.glb())


def fabric(**links: object) -> Scenario:
    """leaf0 (id 1) and leaf1 (2) with h0 and h1 on port 1; spine0 (3) and spine1 (4) on 2 and 3."""
    return scenarios.from_dict(
        {
            "topology": {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 1}},
            "links": links,
            "workload": {"all_to_all": {"bytes_per_pair": 1}},
        }
    )


def write(folder: Path, scenario: Scenario, mbps: float | None = None) -> dict[str, object]:
    schema = P4Schema(program().p4info)
    export(scenario, "flowlet", folder, schema, programs.glb(), mbps)
    data: dict[str, object] = json.loads((folder / "topology.json").read_text())
    return data


def test_the_topology_is_read_back(tmp_path: Path) -> None:
    scenario = fabric()
    data = write(tmp_path, scenario)
    spec = LinkSpec(10**9, 0)
    found = topology_files.read(tmp_path / "topology.json", spec, spec).topology
    ends = {(link.name, link.a_port, link.b_port) for link in found.links}
    assert ends == {(link.name, link.a_port, link.b_port) for link in scenario.topology.links}
    hosts = data["hosts"]
    assert isinstance(hosts, dict)
    assert hosts["h1"] == {
        "ip": "10.0.2.1/32",
        "mac": "02:00:00:00:00:06",
        "commands": [
            "ip neigh add 169.254.1.1 lladdr 02:00:00:00:00:02 dev eth0",
            "ip route add 169.254.1.1 dev eth0",
            "ip route add default via 169.254.1.1 dev eth0",
        ],
    }
    assert data["switches"]["spine1"] == {  # type: ignore[index]
        "runtime_json": "spine1-runtime.json",
        "program": str(programs.glb().resolve()),
        "device_id": 4,
    }


def test_rates_are_in_proportion(tmp_path: Path) -> None:
    slow = {"between": ["leaf1", "spine0"], "rate_gbps": 25}
    rates = {"host": {"rate_gbps": 50}, "fabric": {"rate_gbps": 100}, "overrides": [slow]}
    links = write(tmp_path, fabric(**rates), mbps=40)["links"]
    assert links == [
        ["leaf0-p1", "h0", "0", 20],
        ["leaf1-p1", "h1", "0", 20],
        ["leaf0-p2", "spine0-p1", "0", 40],
        ["leaf0-p3", "spine1-p1", "0", 40],
        ["leaf1-p2", "spine0-p2", "0", 10],
        ["leaf1-p3", "spine1-p2", "0", 40],
    ]


@pytest.mark.parametrize("spine", ["spine0", "spine1"])
def test_switches_forward_by_their_files(tmp_path: Path, spine: str) -> None:
    """A ping from h0 to h1: the leaf sends it up, either spine down, the other leaf to the host."""
    write(tmp_path, fabric())
    ping = Ether(src="02:00:00:00:00:05", dst="02:00:00:00:00:01")
    ping /= IP(src="10.0.1.1", dst="10.0.2.1", ttl=9) / ICMP()
    ((up, frame),) = sent(tmp_path, "leaf0", 1, bytes(ping))
    assert up in (2, 3)
    ((down, frame),) = sent(tmp_path, spine, 1, frame)
    assert down == 2
    ((port, frame),) = sent(tmp_path, "leaf1", 2, frame)
    assert port == 1
    assert Ether(frame).dst == "02:00:00:00:00:06"
    assert Ether(frame)[IP].ttl == 6


def sent(folder: Path, name: str, port: int, frame: bytes) -> list[tuple[int, bytes]]:
    """What a switch that holds its file's entries makes of a frame."""
    clock = VirtualClock()
    switch = Switch(program(), SwitchConfig(), clock, rng=RandomStream(1))
    for number in (1, 2, 3):
        switch.add_port(number, 10**11)
    client = InProcessClient(P4RuntimeService(switch, clock))
    client.write(runtime_file.read(folder / f"{name}-runtime.json", client.schema))
    found: list[tuple[int, bytes]] = []
    switch.on_transmit = lambda to, data, *_: found.append((to, data))
    switch.receive(port, frame)
    clock.run()
    return found
