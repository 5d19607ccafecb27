"""Real switches running the real program, for the controller to fill: no packets, no fabric."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import sglb.p4
from controller.controller import Controller
from controller.layout import FabricLayout
from controller.paths import LinkState
from controller.plan import PlanInputs
from sglb.fabric import scenario
from sglb.fabric.scenario import Scenario
from sglb.p4.compiler import CompiledProgram
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.service import P4RuntimeService
from sglb.switch.switch import Switch

PROGRAM = Path(__file__).parents[2] / "p4src/v1model/glb.p4"


@cache
def program() -> CompiledProgram:
    return sglb.p4.compile(PROGRAM)


def tiny(**changes: object) -> Scenario:
    """Two leaves (ids 1, 2) with one host each on port 1, two spines (3, 4) on ports 2 and 3."""
    return scenario.from_dict(
        {
            "topology": {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 1}},
            "workload": {"flows": [{"src": "h0", "dst": "h1", "bytes": 4096}]},
            **changes,
        }
    )


class Bench:
    """Switches of a scenario, filled by nobody, and a controller for them."""

    def __init__(self, of: Scenario | None = None) -> None:
        self.scenario = of or tiny()
        self.topology = self.scenario.topology
        self.clock = VirtualClock()
        self.switches: dict[int, Switch] = {}
        self.clients: dict[int, InProcessClient] = {}
        for node in self.topology.switches:
            switch = Switch(
                program(),
                SwitchConfig(),
                self.clock,
                name=node.name,
                device_id=node.id,
                rng=RandomStream(1),
            )
            for port in self.topology.ports(node.id):
                switch.add_port(port, 100_000_000_000)
            self.switches[node.id] = switch
            service = P4RuntimeService(switch, self.clock)
            self.clients[node.id] = InProcessClient(service)
        self.healthy = LinkState.healthy(self.topology)
        self.controller = self.new_controller()

    def new_controller(self) -> Controller:
        """A controller that has just started and remembers nothing."""
        inputs = PlanInputs(
            FabricLayout(self.topology), self.scenario.model, "ecmp", self.healthy, {}
        )
        return Controller(inputs, self.clients)

    def id(self, name: str) -> int:
        return self.topology.node(name).id

    def without(self, *names: str) -> LinkState:
        dead = frozenset(link.id for name in names for link in self.topology.find_links(name))
        return self.healthy.without(dead)
