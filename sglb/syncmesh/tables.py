"""An agent's effects as P4Runtime updates (finsy's entities), whatever the switch holds already.

The agent owns the tables `ports` and `profiles`, the notification group and the two notification
sessions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from finsy import (
    Action,
    Match,
    P4CloneSessionEntry,
    P4MulticastGroupEntry,
    P4PacketOut,
    P4RegisterEntry,
    P4TableAction,
    P4TableEntry,
)

from sglb.syncmesh import dataplane as dp
from sglb.syncmesh.effects import (
    Effect,
    SendFrame,
    SendToPipeline,
    WriteListeners,
    WritePort,
    WriteProfile,
)

_Key = tuple[str, int]
_Entity = P4TableEntry | P4MulticastGroupEntry | P4CloneSessionEntry

#: What to read before the agent starts, for `AgentTables.found`.
OWNED: tuple[_Entity, ...] = (
    P4TableEntry(dp.T_PORTS),
    P4TableEntry(dp.T_PROFILES),
    P4MulticastGroupEntry(dp.NOTIFY_GROUP),
    P4CloneSessionEntry(dp.NOTIFY_SESSION),
    P4CloneSessionEntry(dp.URGENT_SESSION),
)

#: What to read for `announced_codes`.
ANNOUNCED = (P4TableEntry(dp.T_ANNOUNCEMENTS), P4RegisterEntry(dp.R_ANNOUNCED))


class AgentTables:
    """Inserts what the switch lacks, modifies what it has, and knows what is left over."""

    def __init__(self) -> None:
        self._present: dict[_Key, _Entity] = {}
        self._written: set[_Key] = set()

    def found(self, entities: Iterable[Any]) -> None:
        """What a read of `OWNED` returned."""
        for entity in entities:
            key = _key(entity)
            if key is not None:
                self._present[key] = entity

    def neighbours(self) -> dict[int, tuple[int, int]]:
        """(node, incarnation) by port whose heartbeats and notifications the data plane takes."""
        found = {}
        for (kind, port), entity in self._present.items():
            if kind == dp.T_PORTS and isinstance(entity, P4TableEntry):
                assert isinstance(entity.action, P4TableAction)
                args = entity.action.args
                found[port] = (_number(args["neighbour"]), _number(args["incarnation"]))
        return found

    def updates(self, effect: Effect) -> list[Any]:
        """The updates and packet-outs that carry an effect out; none for what concerns others."""
        match effect:
            case SendFrame(port, frame):
                return [_packet_out(frame, port, False)]
            case SendToPipeline(frame):
                return [_packet_out(frame, 0, True)]
            case WritePort():
                return [self._put((dp.T_PORTS, effect.port), _port_entry(effect))]
            case WriteProfile(heard):
                return [self._put((dp.T_PROFILES, heard.subject), _profile_entry(effect))]
            case WriteListeners(ports):
                group = P4MulticastGroupEntry(dp.NOTIFY_GROUP, replicas=ports)
                return [
                    self._put(("group", dp.NOTIFY_GROUP), group),
                    self._session(dp.NOTIFY_SESSION, ports),
                    self._session(dp.URGENT_SESSION, (*ports, dp.CPU_PORT)),
                ]
        return []

    def leftovers(self) -> list[Any]:
        """Deletions of what was found and never written: call it after the agent's start."""
        strays = [key for key in self._present if key not in self._written]
        return [-self._present.pop(key) for key in strays]

    def _session(self, session: int, ports: tuple[int, ...]) -> Any:
        entity = P4CloneSessionEntry(session, class_of_service=dp.SYNC_CLASS, replicas=ports)
        return self._put(("session", session), entity)

    def _put(self, key: _Key, entity: _Entity) -> Any:
        self._written.add(key)
        present = key in self._present
        self._present[key] = entity
        return ~entity if present else +entity


def announced_codes(entities: Iterable[Any]) -> dict[int, int]:
    """Code by subject that a running data plane announced last, from a read of `ANNOUNCED`."""
    names: dict[int, int] = {}
    codes: dict[int, int] = {}
    for entity in entities:
        if isinstance(entity, P4TableEntry):
            if entity.match is not None and isinstance(entity.action, P4TableAction):
                names[_number(entity.match["subject"])] = _number(entity.action.args["of_dst"])
        elif isinstance(entity, P4RegisterEntry) and entity.index is not None:
            codes[entity.index] = _number(entity.data)
    return {name: codes[index] for index, name in sorted(names.items()) if index in codes}


def _key(entity: Any) -> _Key | None:
    match entity:
        case P4TableEntry() if entity.match is not None:
            # finsy shows a table by its alias, the shortest suffix of its name that is unique.
            if f".{dp.T_PORTS}".endswith(f".{entity.table_id}"):
                return (dp.T_PORTS, _number(entity.match["port"]))
            return (dp.T_PROFILES, _number(entity.match["subject"]))
        case P4MulticastGroupEntry():
            return ("group", entity.multicast_group_id)
        case P4CloneSessionEntry():
            return ("session", entity.session_id)
    return None


def _number(value: Any) -> int:
    return int(value)


def _packet_out(frame: bytes, port: int, to_pipeline: bool) -> P4PacketOut:
    return P4PacketOut(frame, egress_port=port, to_pipeline=int(to_pipeline), pad=0)


def _port_entry(effect: WritePort) -> P4TableEntry:
    return P4TableEntry(
        dp.T_PORTS,
        match=Match(port=effect.port),
        action=Action(
            dp.A_SET_FABRIC,
            neighbour=effect.neighbour,
            incarnation=effect.incarnation,
            bank=effect.setup.lane.bank,
            lane_shift=effect.setup.lane.shift,
            subject=effect.setup.subject,
        ),
    )


def _profile_entry(effect: WriteProfile) -> P4TableEntry:
    return P4TableEntry(
        dp.T_PROFILES,
        match=Match(subject=effect.heard.subject),
        action=Action(
            dp.A_SET_PROFILE,
            index=effect.heard.profile,
            lanes=effect.lanes,
            alone=int(effect.heard.alone),
            relay=effect.heard.relay,
        ),
    )
