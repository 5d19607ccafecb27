"""What each SyncMesh agent is told, and what stands in its tables where no agent runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from finsy import Action, Match, P4TableEntry

from controller.layout import FabricLayout, Layout
from sglb.fabric.scenario import Scenario, us_to_ps
from sglb.syncmesh.config import AgentConfig, FabricPort, Heard, Timers
from sglb.syncmesh.dataplane import A_SET_FABRIC, T_PORTS
from sglb.syncmesh.key_file import read_key
from sglb.syncmesh.messages import FabricKey
from sglb.syncmesh.profiles import Allocation, allocate


def allocation_of(fabric: FabricLayout, switch_id: int, profiles: int) -> Allocation:
    """The profiles of a switch, by the capacities of the healthy fabric."""
    return allocate(
        fabric.topology,
        switch_id,
        profiles=profiles,
        members={
            d: {m.port: m.capacity_bps for m in fabric.healthy(d).members(switch_id)}
            for d in fabric.layout(switch_id).members
        },
    )


def named_key_file(scenario: Scenario) -> Path | None:
    """The file with the fabric's key, if the scenario names one."""
    name = scenario.model.syncmesh.key_file
    return None if name is None else Path(scenario.file).parent / name


def simulated_key(scenario: Scenario) -> FabricKey:
    """The key of a simulated fabric: from its file, or the seed. Raises `KeyFileError`."""
    path = named_key_file(scenario)
    return FabricKey(scenario.rng("fabric key").randbytes(32)) if path is None else read_key(path)


def agent_config(
    layout: Layout, allocation: Allocation, scenario: Scenario, incarnation: int, key: FabricKey
) -> AgentConfig:
    """The configuration of a switch's agent."""
    heard = []
    for subject, ports in layout.heard().items():
        assignment = allocation.of(subject)
        if assignment.profile:
            relay = layout.relay(subject)
            heard.append(Heard(subject, assignment.profile, assignment.alone, relay, ports))
    sync = scenario.model.syncmesh
    return AgentConfig(
        node=layout.switch.id,
        incarnation=incarnation,
        mac=layout.switch.mac,
        key=key,
        ports={
            port: FabricPort(layout.lanes[port], layout.subject_of_port(port), neighbour)
            for port, neighbour in layout.neighbours.items()
        },
        heard=tuple(heard),
        timers=Timers(
            hello_ps=us_to_ps(sync.hello_us),
            hold_ps=us_to_ps(sync.hold_us),
            full_ps=us_to_ps(sync.full_us),
            heartbeat_ps=us_to_ps(sync.heartbeat_us),
        ),
    )


def static_ports(layout: Layout) -> Iterator[P4TableEntry]:
    """Table `ports` of a switch without an agent: it knows its neighbours, and takes no notifications.

    Incarnation 0 is nobody's.
    """
    for port, neighbour in layout.neighbours.items():
        lane = layout.lanes[port]
        yield P4TableEntry(
            T_PORTS,
            match=Match(port=port),
            action=Action(
                A_SET_FABRIC,
                neighbour=neighbour,
                incarnation=0,
                bank=lane.bank,
                lane_shift=lane.shift,
                subject=0,
            ),
        )
