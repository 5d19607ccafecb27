"""A scenario of `sglb run` as the fluid model sees it.

What is kept of it: links, buffers, watermarks and headroom, DCQCN, the paths of flows (the shortest; of
several equal ones flow n takes the n-th in turn at each switch). Bytes are those of frames, as buffers
count them; rates are what is left of the links' for frames without preamble, gap and FCS. Feedback goes
from the mark (as a packet leaves its queue) to the receiver and back to the sender over the same links
without waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sglb.fabric import lossless
from sglb.fabric.headroom import PAUSE_WIRE_BYTES, QUANTUM_BITS, peer_response_quanta
from sglb.fabric.lossless import BufferConfig
from sglb.fabric.roce import frame_bytes, wire_bytes
from sglb.fabric.scenario import Scenario
from sglb.fabric.topology import Edge, Topology
from sglb.fabric.workload import Flow as PacketFlow
from sglb.switch.clock import PS_PER_NS, PS_PER_S, PS_PER_US
from sglb.watermark.errors import WatermarkError
from sglb.watermark.network import Flow, Hop, Ingress, Network, Queue, Source, Switch
from sglb.watermark.settings import Watermarks

_BPS_PER_GBPS = 1e9


@dataclass(frozen=True, slots=True)
class Fluid:
    """A scenario's network, the watermarks of its switches, and the file that it is from."""

    network: Network
    watermarks: Watermarks
    name: str


def from_scenario(scenario: Scenario) -> Fluid:
    """What a scenario means to the fluid model. Raises `WatermarkError` for what that does not know."""
    _check(scenario)
    return Fluid(_Builder(scenario).build(), watermarks(scenario), scenario.name)


def watermarks(scenario: Scenario) -> Watermarks:
    """Those of the hosts' class; headroom is left to the ports."""
    number = scenario.model.transport.traffic_class
    config = scenario.buffer.classes[number]
    return Watermarks(
        kmin_bytes=config.kmin_bytes,
        kmax_bytes=config.kmax_bytes,
        pmax=config.pmax,
        alpha=config.alpha_num / config.alpha_den,
        xoff_bytes=config.xoff_bytes or None,
        xon_offset_bytes=config.xon_offset_bytes,
    )


def _check(scenario: Scenario) -> None:
    where = scenario.file
    buffer: BufferConfig = scenario.buffer
    number = scenario.model.transport.traffic_class
    if not (buffer.pfc and buffer.classes[number].lossless):
        raise WatermarkError(
            f"{where}: the fluid model needs the hosts' class to be lossless: set switch.pfc.enabled "
            f"and list class {number} under switch.buffer.classes with lossless: true"
        )
    if not scenario.dcqcn.enabled:
        raise WatermarkError(
            f"{where}: the fluid model is one of DCQCN: set transport.dcqcn.enabled"
        )
    if scenario.faults:
        raise WatermarkError(f"{where}: the fluid model has no faults; take them out")
    waits = next((flow for flow in scenario.workload.flows if flow.after), None)
    if waits is not None:
        raise WatermarkError(
            f"{where}: flows of workload {scenario.workload.name} wait for other flows, which the "
            f"fluid model does not know; take incast, permutation, all_to_all, arrivals or flows"
        )


class _Builder:
    def __init__(self, scenario: Scenario) -> None:
        model = scenario.model
        self._scenario = scenario
        self._topology: Topology = scenario.topology
        self._frame = frame_bytes(model.transport.mtu_bytes, model.transport.ip_version)
        self._wire = wire_bytes(model.transport.mtu_bytes, model.transport.ip_version)
        self._payload = model.transport.mtu_bytes
        self._pipeline_us = model.switch.pipeline_latency_ns * PS_PER_NS / PS_PER_US
        self._queues: dict[str, Queue] = {}
        self._ingresses: dict[str, Ingress] = {}
        self._sources: dict[str, Source] = {}
        self._towards: dict[int, Mapping[int, int]] = {}

    def build(self) -> Network:
        flows = tuple(self._flow(flow) for flow in self._scenario.workload.flows)
        used = {queue.switch for queue in self._queues.values()}
        buffer_bytes = self._scenario.buffer.total_bytes
        dcqcn = self._scenario.dcqcn
        share = self._frame / self._wire
        return Network(
            switches=tuple(
                Switch(node.name, buffer_bytes)
                for node in self._topology.switches
                if node.name in used
            ),
            sources=tuple(self._sources.values()),
            queues=tuple(self._queues.values()),
            ingresses=tuple(self._ingresses.values()),
            flows=flows,
            dcqcn=replace(
                dcqcn,
                rate_ai_bps=round(dcqcn.rate_ai_bps * share),
                min_rate_bps=round(dcqcn.min_rate_bps * share),
            ),
            packet_bytes=self._frame,
        )

    def _flow(self, flow: PacketFlow) -> Flow:
        edges = self._path(flow)
        host = self._topology.by_id(flow.src).name
        self._sources.setdefault(host, Source(host, self._gbps(edges[0])))
        hops = []
        for place in range(1, len(edges)):
            before, edge = edges[place - 1], edges[place]
            self._queues.setdefault(
                _name(self._topology, edge),
                Queue(_name(self._topology, edge), self._node(edge.src), self._gbps(edge)),
            )
            ingress = self._ingress(before, host if place == 1 else _name(self._topology, before))
            hops.append(
                Hop(
                    _name(self._topology, edge),
                    ingress,
                    self._link_us(before),
                    self._feedback_us(edges, place),
                )
            )
        # Every packet carries headers; the last one of a message may be short.
        packets = -(-flow.size_bytes // self._payload)
        size = flow.size_bytes + packets * (self._frame - self._payload)
        start = flow.start_ps / PS_PER_US
        return Flow(f"flow{flow.id}", host, tuple(hops), start_us=start, size_bytes=size)

    def _ingress(self, edge: Edge, pauses: str) -> str:
        name = f"{self._node(edge.dst)} from {pauses}"
        if name not in self._ingresses:
            model = self._scenario.model
            spec = edge.link.spec
            quanta = model.switch.pfc.peer_response_quanta
            if quanta == "auto":
                quanta = peer_response_quanta(spec.rate_bps)
            bits = PAUSE_WIRE_BYTES * 8 + quanta * QUANTUM_BITS
            pipeline_us = 0.0 if self._topology.by_id(edge.src).is_host else self._pipeline_us / 2
            self._ingresses[name] = Ingress(
                name,
                self._node(edge.dst),
                pauses,
                (spec.delay_ps + bits * PS_PER_S // spec.rate_bps) / PS_PER_US + pipeline_us,
                headroom_bytes=lossless.port_headroom_bytes(spec, model.switch, model.transport),
            )
        return name

    def _link_us(self, edge: Edge) -> float:
        """From a transmitter's start of a frame until that is in the next queue, on average."""
        spec = edge.link.spec
        halves = 1 if self._topology.by_id(edge.src).is_host else 2
        wire_us = self._wire * 8 * 1e6 / spec.rate_bps
        return wire_us + spec.delay_ps / PS_PER_US + halves * self._pipeline_us / 2

    def _feedback_us(self, edges: list[Edge], place: int) -> float:
        ahead = sum(self._link_us(edge) for edge in edges[place:])
        # Hosts have no pipeline: the half behind the last link is taken off.
        ahead -= self._pipeline_us / 2
        back = sum(edge.link.spec.delay_ps / PS_PER_US for edge in edges)
        return ahead + back + (len(edges) - 1) * self._pipeline_us

    def _gbps(self, edge: Edge) -> float:
        return edge.link.spec.rate_bps * self._frame / self._wire / _BPS_PER_GBPS

    def _node(self, node_id: int) -> str:
        return self._topology.by_id(node_id).name

    def _path(self, flow: PacketFlow) -> list[Edge]:
        distance = self._towards.get(flow.dst)
        if distance is None:
            distance = self._towards[flow.dst] = _distances(self._topology, flow.dst)
        edges, at = [], flow.src
        while at != flow.dst:
            near = [
                link
                for link in self._topology.ports(at).values()
                if distance.get(link.other(at), len(distance)) < distance[at]
            ]
            link = near[flow.id % len(near)]
            edges.append(Edge(link, at, link.other(at)))
            at = link.other(at)
        return edges


def _name(topology: Topology, edge: Edge) -> str:
    number = edge.link.name.partition("#")[2]
    name = f"{topology.by_id(edge.src).name} to {topology.by_id(edge.dst).name}"
    return f"{name}#{number}" if number else name


def _distances(topology: Topology, host: int) -> dict[int, int]:
    """Links to a host from every node; other hosts pass nothing on."""
    found, waiting = {host: 0}, deque([host])
    while waiting:
        at = waiting.popleft()
        if at != host and topology.by_id(at).is_host:
            continue
        for link in topology.ports(at).values():
            other = link.other(at)
            if other not in found:
                found[other] = found[at] + 1
                waiting.append(other)
    return found
