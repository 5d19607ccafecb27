"""What belongs to a switch's SyncMesh agent, as it stands before the agent has heard anybody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from finsy import Action, Match, P4CloneSessionEntry, P4MulticastGroupEntry, P4TableEntry

from controller.layout import Layout
from controller.plan import INGRESS
from sglb.syncmesh.dataplane import CPU_PORT, NOTIFY_GROUP, NOTIFY_SESSION, SYNC_CLASS, lane_set
from sglb.syncmesh.profiles import Allocation

T_PORTS = f"{INGRESS}.ports.ports"
T_PROFILES = f"{INGRESS}.syncmesh.profiles"


def agent_entities(
    layout: Layout, allocation: Allocation | None, incarnations: Mapping[int, int]
) -> Iterator[P4TableEntry | P4MulticastGroupEntry | P4CloneSessionEntry]:
    """The agent's entities of one switch.

    `incarnations` are those of the neighbours by switch id. Without an allocation the switch keeps no
    remote quality and tells nobody of its own.
    """
    for port, neighbour in layout.neighbours.items():
        lane = layout.lanes[port]
        yield P4TableEntry(
            T_PORTS,
            match=Match(port=port),
            action=Action(
                f"{INGRESS}.ports.set_fabric",
                neighbour=neighbour,
                incarnation=incarnations[neighbour],
                bank=lane.bank,
                lane_shift=lane.shift,
                subject=0 if allocation is None else layout.subject_of_port(port),
            ),
        )
    if allocation is None:
        return
    for subject, ports in layout.heard().items():
        assignment = allocation.of(subject)
        if assignment.profile:
            yield P4TableEntry(
                T_PROFILES,
                match=Match(subject=subject),
                action=Action(
                    f"{INGRESS}.syncmesh.set_profile",
                    index=assignment.profile,
                    lanes=lane_set(tuple(layout.lanes[p] for p in ports)),
                    alone=int(assignment.alone),
                    relay=layout.relay(subject),
                ),
            )
    listeners = list(layout.neighbours)
    yield P4MulticastGroupEntry(NOTIFY_GROUP, replicas=listeners)
    yield P4CloneSessionEntry(
        NOTIFY_SESSION, class_of_service=SYNC_CLASS, replicas=[*listeners, CPU_PORT]
    )
