"""What a fabric's memory has room for."""

from __future__ import annotations

from sglb import programs
from sglb.fabric import scenario as scenarios
from sglb.fabric.control import load_control_plane
from sglb.fabric.kernel.simulation import NativeSimulation
from sglb.p4.compiler import compile as compile_p4


def test_every_agent_may_send_a_long_frame_by_every_port_at_once() -> None:
    scenario = scenarios.from_dict(
        {
            "topology": {"leaf_spine": {"leaves": 8, "spines": 8, "hosts_per_leaf": 1}},
            "workload": {"flows": [{"src": "h0", "dst": "h1", "bytes": 1}]},
            "policies": ["glb"],
        }
    )
    simulation = NativeSimulation(scenario, "glb", compile_p4(programs.glb()), load_control_plane())
    for switch in simulation.switches.values():
        for _ in switch.ports:
            switch.receive(switch.config.cpu_port, bytes(1500))  # raises when there is no room
