"""One packet's way through the fabric, hop by hop, through parsers, tables and actions.

The packet is named (`h0:h5:3`, the third data packet from h0 to h5) or found: the first one that a
switch sends on by what it has learned of the scenario's first cut.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from finsy.proto import p4i

from sglb import programs
from sglb.fabric import frames
from sglb.fabric.events import (
    Event,
    EventLog,
    FaultInjected,
    NotificationReceived,
    PortDownSeen,
    TableWritten,
)
from sglb.fabric.faults import FabricState, FaultKind, dead_hops
from sglb.fabric.report import TracedPacket, to_us
from sglb.fabric.scenario import Scenario
from sglb.fabric.topology import Topology, TopologyError
from sglb.switch.trace import PacketTrace, TraceRecorder

_CUTS = frozenset((FaultKind.LINK_DOWN, FaultKind.SWITCH_DOWN, FaultKind.BLACKHOLE))
_NAMED = re.compile(r"([^:]+):([^:]+)(?::([0-9]{1,9}))?\Z")
# A packet may be sent again a few times; after that it has nothing new to tell.
_MAX_VISITS = 24


class TraceRequestError(ValueError):
    """A request for a packet that cannot be."""


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Which packet: the `number`-th data packet (from 1) from host `src` to host `dst`.

    Without hosts: the first packet that a switch sends on by what it learned of the first cut, or, in
    a scenario without one, the first that crosses the fabric. `every_step` puts each assignment into
    the text.
    """

    src: str = ""
    dst: str = ""
    number: int = 1
    every_step: bool = False

    @classmethod
    def parse(cls, text: str, every_step: bool = False) -> TraceRequest:
        """From `SRC:DST:N` or `SRC:DST`. Raises `TraceRequestError`."""
        found = _NAMED.match(text)
        if found is None or found[3] == "0":
            raise TraceRequestError(
                f"packet {text!r}: write SRC:DST:N, such as h0:h5:3, with N from 1"
            )
        return cls(found[1], found[2], int(found[3] or 1), every_step)

    def check(self, scenario: Scenario) -> None:
        """Raises `TraceRequestError` for an unknown host, or when `src` sends `dst` nothing."""
        if not self.src:
            return
        try:
            ends = [scenario.topology.host(name).id for name in (self.src, self.dst)]
        except TopologyError as error:
            raise TraceRequestError(f"packet {self.src}:{self.dst}: {error}") from None
        if not any([flow.src, flow.dst] == ends for flow in scenario.workload.flows):
            raise TraceRequestError(
                f"packet {self.src}:{self.dst}: {self.src} sends {self.dst} nothing in this workload"
            )


class Follower:
    """Picks the packet while a run goes on, and follows it.

    Give `recorder` to the simulation, and its log to `watch` before it runs.
    """

    def __init__(self, scenario: Scenario, request: TraceRequest) -> None:
        self.why = ""
        self.recorder = TraceRecorder(limit=_MAX_VISITS, wanted=self._wanted)
        self._topology = scenario.topology
        self._request = request
        self._identity: bytes | None = None
        self._sent = 0
        self._log = EventLog()
        self._known = _Knowledge(scenario)
        self._arrivals: dict[int, int] = {}  # trace number -> port

    def watch(self, log: EventLog) -> None:
        """Where the run's events are."""
        self._log = log

    def _wanted(self, switch: str, port: int, frame: bytes) -> bool:
        identity = frames.packet_identity(frame)
        if identity is None:
            return False
        if self._identity is None and self._choose(switch, port, frame, identity):
            self._identity = identity
        if identity != self._identity:
            return False
        self._arrivals[len(self.recorder.traces)] = port
        return True

    def _choose(self, switch: str, port: int, frame: bytes, identity: bytes) -> bool:
        node = self._topology.node(switch)
        link = self._topology.ports(node.id).get(port)
        source = None if link is None else self._topology.by_id(link.other(node.id))
        if source is None or not source.is_host:
            return False
        destination = frames.destination_switch(frame)
        target = self._host_name(destination, identity)
        why = self._reason(node.id, destination, source.name, target)
        if why:
            psn = int.from_bytes(identity[-3:], "big")
            self.why = f"data packet from {source.name} to {target}, PSN {psn}: {why}"
        return bool(why)

    def _host_name(self, switch_id: int, identity: bytes) -> str:
        for host in self._topology.hosts_of(switch_id):
            address = self._topology.address(host.id)
            if identity[:-6] in (address.ipv4.packed, address.ipv6.packed):
                return host.name
        return ""

    def _reason(self, node: int, destination: int, src: str, dst: str) -> str:
        """Why the packet is the one, or "" when it is not."""
        request = self._request
        if request.src:
            self._sent += (src, dst) == (request.src, request.dst)
            return f"number {request.number} of that pair" if self._sent == request.number else ""
        return self._known.reason(self._log, node, destination)

    def tell(self, policy: str, p4info: p4i.P4Info) -> TracedPacket:
        """What was found, after the run."""
        traces = self.recorder.traces
        wanted = self._request
        why = self.why or (
            f"{wanted.src} never sent a data packet number {wanted.number} to {wanted.dst}: there were "
            f"{self._sent}, those sent again included"
            if wanted.src
            else "no packet was sent on by what a switch had learned of the first cut"
        )
        story = _Story(self._topology, _parameters(p4info), self._request.every_step)
        lines = [f"{policy}: {why}"]
        for number, trace in enumerate(traces):
            lines += story.hop(trace, self._arrivals.get(number))
        text = "\n".join(lines)
        return TracedPacket(policy, why, tuple(_record(t) for t in traces), text)


class _Knowledge:
    """What each switch has learned of the first cut, as the log grows."""

    def __init__(self, scenario: Scenario) -> None:
        self._topology = scenario.topology
        self._state = FabricState(scenario.topology)
        self._read = 0
        self._has_cuts = any(fault.kind in _CUTS for fault in scenario.faults)
        self._cut = ""
        self._dead: set[tuple[int, int]] = set()
        self._learned: dict[int, str] = {}

    def reason(self, log: EventLog, node: int, destination: int) -> str:
        """Why a packet into `node` for `destination` is worth following, or ""."""
        for event in log.since(self._read):
            self._take(event)
        self._read = len(log)
        if not self._has_cuts:
            return "the first to cross the fabric" if node != destination else ""
        if (node, destination) not in self._dead or node not in self._learned:
            return ""
        name = self._topology.by_id(node).name
        return (
            f"the first into {name} for {self._topology.by_id(destination).name} after {name} "
            f"{self._learned[node]} ({self._cut})"
        )

    def _take(self, event: Event) -> None:
        at = f"at {to_us(event.time_ps):g} us"
        match event:
            case FaultInjected(fault=fault):
                self._state.apply(fault)
                if fault.kind in _CUTS and not self._cut:
                    self._cut = f"{fault.label}: {fault.kind} {at}"
                self._dead = {(h.switch_id, h.dest_switch_id) for h in dead_hops(self._state)}
            case _ if not self._cut:
                pass
            case PortDownSeen(node=node):
                self._learned.setdefault(node, f"saw its port go down {at}")
            case NotificationReceived(node=node, down=True, origin=origin):
                who = self._topology.by_id(origin).name
                self._learned.setdefault(node, f"was told of it by {who} {at}")
            case TableWritten(node=node):
                self._learned.setdefault(node, f"had its tables changed {at}")


def _at(place: str) -> str:
    """A place in a program of ours as it is called in the source tree, wherever sglb is installed."""
    return place.removeprefix(f"{programs.p4src().parent}{os.sep}")


def _record(trace: PacketTrace) -> dict[str, Any]:
    record = trace.to_json()
    steps = [s | {"at": _at(s["at"])} if "at" in s else s for s in record["steps"]]
    return record | {"steps": steps}


def _parameters(p4info: p4i.P4Info) -> Mapping[str, list[str]]:
    """Names of the parameters of each action."""
    return {a.preamble.name: [p.name for p in a.params] for a in p4info.actions}


def _value(value: int) -> str:
    return str(value) if value < 1_000 else f"{value:#x}"


def _named(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in values.items())


class _Story:
    """Turns traces into text."""

    def __init__(
        self, topology: Topology, parameters: Mapping[str, list[str]], every_step: bool
    ) -> None:
        self._topology = topology
        self._parameters = parameters
        self._every_step = every_step

    def hop(self, trace: PacketTrace, port: int | None) -> Iterator[str]:
        """One switch's part; `port` is where the packet came in, None for a copy."""
        origin = (
            trace.origin if port is None else f"{trace.origin}{self._peer(trace, port, 'from')}"
        )
        copy = "" if trace.parent is None else f", a copy of packet {trace.parent}"
        yield ""
        yield f"packet {trace.number} in {trace.switch}, {to_us(trace.time_ps):g} us: {origin}{copy}"
        for step in trace.steps:
            line = self._line(trace, step)
            if line:
                yield line

    def _line(self, trace: PacketTrace, step: Mapping[str, Any]) -> str:
        match step:
            case {"step": "enter", "block": block}:
                return f"  {block}"
            case {"step": "state", "name": name}:
                return f"    state {name}"
            case {"step": "extract", "header": header, "fields": fields}:
                return f"      {header}: {_named(fields)}"
            case {"step": "error", "name": name, "at": at}:
                return f"    parser error {name}  [{_at(at)}]"
            case {"step": "table"}:
                return self._table(step)
            case {"step": "assign", "target": target, "value": value}:
                return f"      {target} = {_value(value)}" if self._every_step else ""
            case {"step": "extern"}:
                return self._extern(step)
            case {"step": "emit", "header": header}:
                return f"    emit {header}"
            case {"step": "log", "message": message}:
                return f"    log: {message}"
            case {"step": kind, "time_ps": time_ps, **rest}:
                return f"  {to_us(time_ps):g} us: {kind} {self._switch_event(trace, rest)}"
        raise AssertionError(f"a step that nobody tells: {step}")

    def _table(self, step: Mapping[str, Any]) -> str:
        action, args = step["action"], step["args"]
        names = self._parameters.get(action, [])
        if len(names) == len(args):
            given = _named(dict(zip(names, args, strict=True)))
        else:
            given = ", ".join(map(_value, args))
        outcome = "hit" if step["hit"] else "miss"
        key = f"[{_named(step['key'])}] " if step["key"] else ""
        return f"    table {step['name']} {key}{outcome} -> {action}({given})  [{_at(step['at'])}]"

    def _extern(self, step: Mapping[str, Any]) -> str:
        name = f"{step['instance']}.{step['op']}" if step["instance"] else step["op"]
        outs = " -> " + ", ".join(map(_value, step["outs"])) if step["outs"] else ""
        return f"      {name}({', '.join(map(_value, step['ins']))}){outs}"

    def _switch_event(self, trace: PacketTrace, values: Mapping[str, Any]) -> str:
        parts = []
        for name, value in values.items():
            if name.endswith("_ps"):
                continue
            peer = self._peer(trace, value, "to") if name == "port" else ""
            parts.append(f"{name} {value}{peer}")
        return ", ".join(parts)

    def _peer(self, trace: PacketTrace, port: object, word: str) -> str:
        """` (to leaf0)` for a port that leads somewhere."""
        node = self._topology.node(trace.switch)
        link = self._topology.ports(node.id).get(port) if isinstance(port, int) else None
        return "" if link is None else f" ({word} {self._topology.by_id(link.other(node.id)).name})"
