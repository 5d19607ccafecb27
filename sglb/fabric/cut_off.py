"""Faults that leave some flow without any way for good, found before anything runs.

Only what no routing could help is called hopeless: no path of links that deliver is left at the end of
all faults, and the flow cannot have been complete before the last one was cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import networkx as nx

from sglb.fabric.bounds import BoundError, earliest_ends_ps, lower_bound
from sglb.fabric.faults import FabricState, Fault, FaultKind, state_at
from sglb.fabric.scenario import Scenario, ns_to_ps, us_to_ps
from sglb.fabric.simulation import transport_config
from sglb.fabric.workload import Flow
from sglb.fabric.yaml_source import KeyPath

_KEYS = {
    FaultKind.LINK_DOWN: "down",
    FaultKind.SWITCH_DOWN: "down_switch",
    FaultKind.BLACKHOLE: "blackhole",
}
_Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CutOff:
    """The key of the fault that is to blame, and what is wrong with it."""

    path: KeyPath
    message: str


def find(scenario: Scenario) -> CutOff | None:
    """The fault that cuts a flow off for good before it can be complete; None when all can be."""
    topology, faults = scenario.topology, scenario.faults
    pairs = {(flow.src, flow.dst) for flow in scenario.workload.flows}
    end_ps = max((fault.time_ps for fault in faults), default=0)
    if not _without_way(state_at(topology, faults, end_ps), pairs):
        return None
    cuts = _last_cuts(scenario, pairs)
    flow = _hopeless(scenario, cuts)
    if flow is None or (flow.src, flow.dst) not in cuts:
        return (
            None  # all can be complete, or a link is slow beyond reason, which is no fault's doing
        )
    src, dst = topology.by_id(flow.src).name, topology.by_id(flow.dst).name
    return CutOff(
        _path(scenario, cuts[flow.src, flow.dst]),
        f"cuts {dst} off from {src} for good, so the workload can never complete; "
        "bring it up again later",
    )


def _without_way(state: FabricState, pairs: Iterable[_Pair]) -> set[_Pair]:
    """Pairs (source, destination) of hosts that no path of delivering links joins."""
    graph = nx.DiGraph()
    graph.add_nodes_from(node.id for node in state.topology.nodes)
    graph.add_edges_from((e.src, e.dst) for e in state.topology.edges if state.delivers(e))
    group = {n: i for i, some in enumerate(nx.strongly_connected_components(graph)) for n in some}
    apart = [(src, dst) for src, dst in pairs if group[src] != group[dst]]
    reached = {src: nx.descendants(graph, src) for src in {src for src, _ in apart}}
    return {(src, dst) for src, dst in apart if dst not in reached[src]}


def _last_cuts(scenario: Scenario, pairs: set[_Pair]) -> dict[_Pair, Fault]:
    """For each pair that ends without a way: the fault since which it has had none."""
    state = FabricState(scenario.topology)
    found: dict[_Pair, Fault] = {}
    for fault in scenario.faults:
        state.apply(fault)
        gone = _without_way(state, pairs)
        found = {pair: found.get(pair, fault) for pair in gone}
    return found


def _hopeless(scenario: Scenario, cuts: dict[_Pair, Fault]) -> Flow | None:
    fabric = (scenario.topology, scenario.faults, scenario.workload)
    hosts = (transport_config(scenario), ns_to_ps(scenario.model.switch.pipeline_latency_ns))
    try:
        ends_ps = earliest_ends_ps(*fabric, *hosts)
        lower_bound(*fabric, *hosts)
    except BoundError as error:
        return error.flow
    for flow in scenario.workload.flows:
        cut = cuts.get((flow.src, flow.dst))
        if cut is not None and ends_ps[flow.id] > cut.time_ps:
            return flow
    return None


def _path(scenario: Scenario, fault: Fault) -> KeyPath:
    """The key of a fault in the scenario."""
    key = _KEYS[fault.kind]
    for i, block in enumerate(scenario.model.faults):
        same_time = block.flap is None and us_to_ps(block.start_us) == fault.time_ps
        if same_time and getattr(block, key) == fault.label:
            return ("faults", i, key)
    return ("faults",)
