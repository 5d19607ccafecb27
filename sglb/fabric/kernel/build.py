"""A scenario's fabric in the kernel's memory: nodes, links, buffers, hosts, queue pairs and flows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sglb.fabric import lossless
from sglb.fabric.headroom import peer_response_quanta
from sglb.fabric.kernel.host_memory import LEAST_DATA_BYTES, HostPlan, HostSpec
from sglb.fabric.kernel.host_settings import HostSettings, host_settings
from sglb.fabric.lossless import BufferConfig, ClassConfig
from sglb.fabric.roce import WIRE_OVERHEAD_BYTES, frame_bytes
from sglb.fabric.scenario import Scenario
from sglb.p4.native.program import NativeProgram
from sglb.switch.clock import PS_PER_S
from sglb.switch.config import SwitchConfig
from sglb.switch.core import model as m
from sglb.switch.core.memory import Memory, NodeSpec, PortSpec, Sizes, build
from sglb.switch.core.settings import (
    ClassSettings,
    TrafficSettings,
    set_headroom,
    set_response,
    write_settings,
)

#: Packet rows at least; the rest follows from what the fabric can hold.
_LEAST_ROWS = 4_096
_MOST_ROWS = 1 << 22
_MOST_DATA_BYTES = 512
#: Long frames (of agents and the controller) under way at once: what is never used is never touched.
_BLOBS_A_PORT = 16
#: From so many switches on a fabric's memory is more than the nearer caches hold (measured).
_LARGE = 100


@dataclass(frozen=True, slots=True)
class NativeFabric:
    """The memory and what stands where: node numbers by id in the topology, and back.

    `lookahead_ps` is the least time that anything takes from one node to another.
    """

    memory: Memory
    plan: HostPlan
    node_of: dict[int, int]
    lookahead_ps: int


def build_fabric(
    scenario: Scenario,
    config: SwitchConfig,
    native: NativeProgram,
    *,
    lookahead_ps: int,
    one_heap: bool,
    look_ahead: bool | None,
) -> NativeFabric:
    """Lays out and fills the memory of a scenario's fabric; switches have no program yet.

    `one_heap` and `look_ahead`: see `NativeSimulation`.
    Raises `ConfigError` and `WorkloadError` for what cannot be.
    """
    topology = scenario.topology
    settings = host_settings(scenario.model.transport)
    hosts = [
        HostSpec(
            node.id,
            node.name,
            topology.address(node.id),
            topology.switch_of(node.id).mac,
            scenario.rng(f"host {node.name}"),
        )
        for node in topology.hosts
    ]
    plan = HostPlan(
        hosts,
        scenario.workload,
        settings,
        scenario.model.transport.qps_per_pair,
        lookahead_ps,
    )
    order = [node.id for node in (*topology.switches, *topology.hosts)]
    node_of = {node_id: number for number, node_id in enumerate(order)}
    specs = [
        NodeSpec(node.id, _ports(scenario, node.id, node_of), config) for node in topology.switches
    ]
    for place, node in enumerate(topology.hosts):
        ports = _ports(scenario, node.id, node_of)
        events = plan.events(place)
        specs.append(NodeSpec(node.id, ports, None, events, WIRE_OVERHEAD_BYTES))
    buffer = scenario.buffer
    sizes = Sizes(
        rows=_rows(scenario, settings, buffer),
        frame_bytes=native.frame_bytes,
        data_bytes=_data_bytes(native),
        blobs=_BLOBS_A_PORT * sum(len(spec.ports) + 1 for spec in specs),
        header_bytes=max(256, native.max_header_bytes),
        configs=1,
        one_heap=one_heap,
        seed=str(scenario.model.seed),
        sections=plan.sections,
        counts=plan.counts,
    )
    memory = build(specs, sizes)
    memory.world.w[m.PARSE_BYTES] = _parse_bytes(native)
    memory.world.w[m.FAILED_NODE] = -1
    large = len(topology.switches) >= _LARGE
    memory.world.w[m.LOOKS_AHEAD] = not one_heap and (large if look_ahead is None else look_ahead)
    plan.write(memory, len(topology.switches))
    _write_buffers(scenario, buffer, memory, node_of)
    return NativeFabric(memory, plan, node_of, lookahead_ps)


def _ports(scenario: Scenario, node_id: int, node_of: dict[int, int]) -> list[PortSpec]:
    return [
        PortSpec(
            number,
            link.spec.rate_bps,
            link.spec.delay_ps,
            (node_of[link.other(node_id)], link.port(link.other(node_id))),
        )
        for number, link in scenario.topology.ports(node_id).items()
    ]


def _data_bytes(native: NativeProgram) -> int:
    """Bytes of a packet that its row keeps: what the program can look at, within reason."""
    looked_at = native.max_parse_bytes or _MOST_DATA_BYTES
    return max(LEAST_DATA_BYTES, min(looked_at, _MOST_DATA_BYTES))


def _parse_bytes(native: NativeProgram) -> int:
    return (1 << 30) if native.max_parse_bytes is None else native.max_parse_bytes


def _rows(scenario: Scenario, settings: HostSettings, buffer: BufferConfig) -> int:
    """Packets that can be under way at once: what senders' windows or the buffers allow.

    Memory that is never used is never touched, so this may be generous.
    """
    flows = scenario.workload.flows
    window = settings.window_packets or 1_024
    qps = scenario.model.transport.qps_per_pair
    packets = sum(min(window * qps, -(-flow.size_bytes // settings.mtu_bytes)) for flow in flows)
    # Each data packet may be answered by an acknowledge; notes and control frames come beside.
    by_windows = 2 * packets
    frame = frame_bytes(settings.mtu_bytes, settings.ip_version)
    in_flight = sum(
        2 * (link.spec.rate_bps * link.spec.delay_ps // (8 * PS_PER_S * frame) + 4)
        for link in scenario.topology.links
    )
    per_switch = buffer.total_bytes
    if not per_switch:
        ports = max(len(scenario.topology.ports(s.id)) for s in scenario.topology.switches)
        per_switch = scenario.model.switch.queue_bytes * ports
    in_buffers = len(scenario.topology.switches) * (per_switch // frame + 1)
    wanted = min(by_windows, 2 * (in_flight + in_buffers))
    return min(_MOST_ROWS, _LEAST_ROWS + wanted + 64 * len(scenario.topology.links))


def _write_buffers(
    scenario: Scenario, buffer: BufferConfig, memory: Memory, node_of: dict[int, int]
) -> None:
    topology, model = scenario.topology, scenario.model
    lossless_classes = [c.number for c in buffer.classes if c.lossless and buffer.pfc]
    for switch in topology.switches:
        node = node_of[switch.id]
        settings = traffic_settings(scenario, buffer, switch.id)
        write_settings(memory.world, node, 0, settings)
        for number, link in topology.ports(switch.id).items():
            port = memory.port(node, number)
            room = lossless.port_headroom_bytes(link.spec, model.switch, model.transport)
            for cls in lossless_classes:
                set_headroom(memory.world, port, cls, room)
    if buffer.pfc:
        quanta = model.switch.pfc.peer_response_quanta
        for node_id, node in node_of.items():
            for number, link in topology.ports(node_id).items():
                own = peer_response_quanta(link.spec.rate_bps) if quanta == "auto" else quanta
                set_response(memory.world, memory.port(node, number), own)


def traffic_settings(scenario: Scenario, buffer: BufferConfig, switch_id: int) -> TrafficSettings:
    """A switch's classes and the pool that they share: what reservations and headroom leave."""
    classes = tuple(_class(buffer, one) for one in buffer.classes)
    if not buffer.total_bytes:
        return TrafficSettings(classes)
    topology, model = scenario.topology, scenario.model
    headroom = lossless.switch_headroom_bytes(topology, switch_id, model.switch, model.transport)
    reserved = sum(c.reserved_bytes for c in buffer.classes) * len(topology.ports(switch_id))
    return TrafficSettings(classes, buffer.total_bytes - headroom - reserved)


def _class(buffer: BufferConfig, one: ClassConfig) -> ClassSettings:
    pauses = one.lossless and buffer.pfc
    return ClassSettings(
        strict=one.strict,
        quantum_bytes=one.quantum_bytes,
        lossless=pauses,
        alpha=Fraction(one.alpha_num, one.alpha_den) if buffer.total_bytes else None,
        reserved_bytes=one.reserved_bytes,
        xoff_bytes=one.xoff_bytes,
        xon_offset_bytes=one.xon_offset_bytes,
        limit_bytes=None if pauses else one.queue_limit_bytes,
        pause_quanta=buffer.pause_quanta,
        watchdog_ps=buffer.watchdog_ps if pauses else 0,
        restore_ps=buffer.watchdog_restore_ps if pauses else 0,
        watchdog_drops=buffer.watchdog_drops,
    )
