"""Native runs of fabrics made for one question, and what they left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sglb.fabric import metrics
from sglb.fabric import scenario as scenarios
from sglb.fabric.control import load_control_plane
from sglb.fabric.events import FlowCompleted
from sglb.fabric.kernel.simulation import NativeSimulation
from sglb.fabric.metrics import TransportStats
from sglb.fabric.scenario import Scenario
from sglb.fabric.simulation import PolicyRun
from sglb.fabric.workload import Flow, Workload
from sglb.p4 import CompiledProgram
from sglb.p4 import compile as compile_p4
from sglb.programs import glb

#: Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4; on the wire FCS, preamble and gap as well.
FRAME_OVERHEAD_BYTES = 58
WIRE_OVERHEAD_BYTES = 82


@cache
def program() -> CompiledProgram:
    return compile_p4(glb())


def fabric(**keys: Any) -> Scenario:
    """A native scenario; see `leaf_spine` and `star` for topologies."""
    return scenarios.from_dict({"name": "physics", "engine": "native", **keys})


def leaf_spine(leaves: int, spines: int, hosts_per_leaf: int) -> dict[str, Any]:
    sizes = {"leaves": leaves, "spines": spines, "hosts_per_leaf": hosts_per_leaf}
    return {"leaf_spine": sizes}


def star(senders: int) -> dict[str, Any]:
    """Hosts s0, s1, … and r on one switch `sw`."""
    hosts = [*(f"s{i}" for i in range(senders)), "r"]
    links = [{"between": [host, "sw"]} for host in hosts]
    return {"explicit": {"switches": ["sw"], "hosts": hosts, "links": links}}


def with_flows(scenario: Scenario, flows: list[tuple[int, int, int, int]]) -> Scenario:
    """The scenario with other flows: (start ps, source, destination, bytes), by host number."""
    ids = [node.id for node in scenario.topology.hosts]
    made = (Flow(n, ids[a], ids[b], size, at) for n, (at, a, b, size) in enumerate(sorted(flows)))
    return replace(scenario, workload=Workload("given", tuple(made)))


def simulate(
    scenario: Scenario, policy: str, *, one_heap: bool = False, look_ahead: bool | None = None
) -> NativeSimulation:
    return NativeSimulation(
        scenario,
        policy,
        program(),
        load_control_plane(),
        one_heap=one_heap,
        look_ahead=look_ahead,
    )


@dataclass(frozen=True)
class Outcome:
    """A finished run."""

    scenario: Scenario
    run: PolicyRun

    @property
    def completion_ps(self) -> int:
        found = metrics.completion_ps(self.run.log, self.scenario.workload)
        assert found is not None
        return found

    @property
    def transport(self) -> TransportStats:
        return metrics.transport_stats(self.run.hosts.values())

    @property
    def lost(self) -> dict[str, int]:
        """Lost data packets by reason."""
        return dict(metrics.losses(self.run.log, list(self.run.hosts.values())).by_reason)

    @property
    def completed_ps(self) -> dict[int, int]:
        """When each flow was complete."""
        return {e.flow_id: e.time_ps for e in self.run.log.of(FlowCompleted)}


def outcome(
    scenario: Scenario,
    policy: str,
    *,
    one_heap: bool = False,
    look_ahead: bool | None = None,
    prepare: Callable[[NativeSimulation], None] = lambda _: None,
) -> Outcome:
    """Runs a scenario; `prepare` may have things done at times of the simulation's clock."""
    simulation = simulate(scenario, policy, one_heap=one_heap, look_ahead=look_ahead)
    prepare(simulation)
    return Outcome(scenario, simulation.run())
