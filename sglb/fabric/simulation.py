"""One policy on one fabric in virtual time: switches that run the P4 program, wires, hosts, faults.

Every frame that a host sends is real bytes, every switch runs the compiled program over them, and what
is reported is what happened to the frames. The control plane comes through `sglb.fabric.control`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from sglb.fabric import frames
from sglb.fabric.advance import Advance, Stop, Tell, never
from sglb.fabric.control import (
    ControlPlane,
    ControlPlaneFactory,
    FabricView,
    collector_at_rest,
)
from sglb.fabric.events import (
    EventLog,
    FaultInjected,
    LossReason,
    NotificationReceived,
    NotificationSent,
    PacketLost,
    PacketSentIntoDeadPath,
    PortDownSeen,
    PortUpSeen,
)
from sglb.fabric.faults import DeadHop, FabricState, Fault, FaultKind, dead_hops
from sglb.fabric.host import Host
from sglb.fabric.metrics import HostCounters, PauseStats
from sglb.fabric.qp import TransportConfig
from sglb.fabric.roce import SPAN_PACKETS, WIRE_OVERHEAD_BYTES, packet_count
from sglb.fabric.scenario import Scenario, ns_to_ps, us_to_ps
from sglb.fabric.topology import Edge, Link
from sglb.fabric.traffic import TrafficDriver
from sglb.fabric.wires import LossSpan, Wire
from sglb.p4.compiler import CompiledProgram
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import PS_PER_US, VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.p4runtime.service import P4RuntimeService
from sglb.switch.ports import Drop, DropReason
from sglb.switch.switch import Switch
from sglb.switch.trace import TraceRecorder

_REASONS = {
    DropReason.QUEUE_FULL: LossReason.QUEUE_FULL,
    DropReason.PORT_DOWN: LossReason.LINK_DOWN,
    DropReason.CUT: LossReason.LINK_DOWN,
    DropReason.RX_PORT_DOWN: LossReason.LINK_DOWN,
    DropReason.RELOADED: LossReason.SWITCH_DOWN,
    DropReason.NO_PROGRAM: LossReason.SWITCH_DOWN,
}


@dataclass(slots=True)
class PolicyRun:
    """What a run left behind, for `metrics`.

    `completed` is False when `stop_us` ended it. `max_queue_bytes` is the deepest egress queue of
    any switch port, `max_queue_at` its (switch id, port). `drops` counts by reason over all
    switches, program drops of control frames included. `control` is the control plane's report.
    """

    policy: str
    completed: bool
    end_ps: int
    log: EventLog
    hosts: Mapping[int, HostCounters]
    switches: dict[int, Switch]
    max_queue_bytes: int
    max_queue_at: tuple[int, int]
    drops: Counter[str] = field(default_factory=Counter)
    control: dict[str, object] = field(default_factory=dict)
    wire_frames: int = 0
    events_run: int = 0
    pauses: PauseStats = field(default_factory=PauseStats)


class Simulation:
    """Builds a fabric for one policy of a scenario; `run` runs it once.

    `program` is what every switch runs, `control` makes the control plane. `recorder` traces
    packets in every switch.
    """

    def __init__(
        self,
        scenario: Scenario,
        policy: str,
        program: CompiledProgram,
        control: ControlPlaneFactory,
        recorder: TraceRecorder | None = None,
    ) -> None:
        self.scenario = scenario
        self.policy = policy
        self.clock = VirtualClock()
        self.log = EventLog()
        self.state = FabricState(scenario.topology)
        self.switches: dict[int, Switch] = {}
        self.services: dict[int, P4RuntimeService] = {}
        self.hosts: dict[int, Host] = {}
        self._program = program
        self._dead: frozenset[DeadHop] = frozenset()
        self._driver: TrafficDriver | None = None
        self._out: dict[tuple[int, int], Wire] = {}
        self._build_switches(recorder)
        self._build_hosts()
        self._build_wires()
        self._control: ControlPlane = control(
            FabricView(
                scenario.topology,
                scenario,
                policy,
                self.clock,
                self.switches,
                self.services,
                self.log,
            )
        )

    # --- building ---

    def _build_switches(self, recorder: TraceRecorder | None) -> None:
        config = switch_config(self.scenario)
        for node in self.scenario.topology.switches:
            switch = Switch(
                self._program,
                config,
                self.clock,
                name=node.name,
                device_id=node.id,
                rng=RandomStream(f"{self.scenario.model.seed}/switch {node.name}"),
            )
            for port, link in self.scenario.topology.ports(node.id).items():
                switch.add_port(port, link.spec.rate_bps)
            switch.on_transmit = partial(self._transmitted, node.id)
            switch.on_drop = partial(self._dropped, node.id)
            switch.recorder = recorder
            self.switches[node.id] = switch
            service = P4RuntimeService(switch, self.clock)
            service.on_port_state(partial(self._port_state, node.id))
            self.services[node.id] = service
            self._delay_cpu_frames(switch)

    def _delay_cpu_frames(self, switch: Switch) -> None:
        deliver, delay_ps = switch.on_cpu, ns_to_ps(self.scenario.model.switch.cpu_latency_ns)
        if deliver is None:
            return

        def later(frame: bytes) -> None:
            self.clock.call_later(delay_ps, deliver, frame)

        switch.on_cpu = later

    def _build_hosts(self) -> None:
        topology = self.scenario.topology
        config = transport_config(self.scenario)
        for node in topology.hosts:
            link = topology.attachment(node.id)
            self.hosts[node.id] = Host(
                node.name,
                topology.address(node.id),
                topology.switch_of(node.id).mac,
                link.spec.rate_bps,
                config,
                self.clock,
                partial(self._sent_by_host, node.id, link.port(node.id)),
                self.scenario.rng(f"host {node.name}"),
            )

    def _build_wires(self) -> None:
        spans: dict[tuple[int, int], list[LossSpan]] = {}
        for loss in self.scenario.losses:
            for edge in loss.edges:
                span = LossSpan(loss.syncmesh, loss.data, loss.from_ps, loss.to_ps, loss.ber)
                spans.setdefault(edge.key, []).append(span)
        for edge in self.scenario.topology.edges:
            wire = Wire(
                edge,
                self.clock,
                self.state,
                self._receiver(edge),
                self._lost_on_wire,
                spans.get(edge.key, ()),
                self.scenario.rng(f"wire {edge.link.name} {edge.src}"),
            )
            self._out[(edge.src, edge.link.port(edge.src))] = wire

    def _receiver(self, edge: Edge) -> Callable[[bytes], None]:
        port = edge.link.port(edge.dst)
        if edge.dst in self.hosts:
            return self.hosts[edge.dst].receive
        return partial(self._received, edge.dst, port, self.switches[edge.dst])

    # --- running ---

    def run(self, tell: Tell | None = None, stop: Stop = never) -> PolicyRun:
        """Runs to the end of the workload or `stop_us`, or until it is asked to `stop`.

        `tell` hears now and then how far it has come.
        """
        scenario = self.scenario
        for fault in scenario.faults:
            self.clock.call_at(fault.time_ps, self._apply, fault)
        with collector_at_rest():
            self._control.start()
        driver = TrafficDriver(
            scenario.workload,
            self.hosts,
            self.clock,
            self.log,
            scenario.model.transport.qps_per_pair,
        )
        driver.start()
        self._driver = driver
        if tell is not None:
            self._report_progress(driver, tell, needed_packets(scenario))
        self.clock.run(scenario.stop_ps, lambda: driver.done or stop())
        return self.result()

    def _report_progress(self, driver: TrafficDriver, tell: Tell, total: int) -> None:
        arrived = sum(host.stats.data_received for host in self.hosts.values())
        hops = sum(wire.frames for wire in self._out.values())
        # More arrive than are needed when some are sent twice.
        tell(Advance(min(arrived, total), total, self.clock.now_ps / PS_PER_US, hops))
        if not driver.done:
            self.clock.call_later(us_to_ps(10), self._report_progress, driver, tell, total)

    def result(self) -> PolicyRun:
        """What has happened so far."""
        depth, at = 0, (0, 0)
        drops: Counter[str] = Counter()
        for switch_id, switch in self.switches.items():
            drops.update({str(reason): n for reason, n in switch.drops.items()})
            for number, port in switch.ports.items():
                if number != switch.config.cpu_port:
                    deepest = max(queue.max_bytes for queue in port.queues)
                    if deepest > depth:
                        depth, at = deepest, (switch_id, number)
        return PolicyRun(
            policy=self.policy,
            completed=self._driver is not None and self._driver.done,
            end_ps=self.clock.now_ps,
            log=self.log,
            hosts=self.hosts,
            switches=self.switches,
            max_queue_bytes=depth,
            max_queue_at=at,
            drops=drops,
            control=dict(self._control.report()),
            wire_frames=sum(wire.frames for wire in self._out.values()),
            events_run=self.clock.events_run,
        )

    # --- faults ---

    def _apply(self, fault: Fault) -> None:
        self.log.append(FaultInjected(self.clock.now_ps, fault))
        self.state.apply(fault)
        self._dead = dead_hops(self.state)
        match fault.kind:
            case FaultKind.LINK_RATE:
                for link in fault.links:
                    self._set_rate(link, fault.rate_bps)
            case FaultKind.LINK_DOWN | FaultKind.LINK_UP:
                for link in fault.links:
                    self._set_carrier(link)
            case FaultKind.SWITCH_DOWN | FaultKind.SWITCH_UP:
                # A switch comes back empty; what it had queued and learned is gone.
                if fault.kind is FaultKind.SWITCH_UP:
                    self.switches[fault.switch_id].load(self._program)
                else:
                    self.switches[fault.switch_id].unload()
                self.services[fault.switch_id].power(fault.kind is FaultKind.SWITCH_UP)
                for link in self.scenario.topology.ports(fault.switch_id).values():
                    self._set_carrier(link)
                if fault.kind is FaultKind.SWITCH_UP:
                    self._control.switch_restarted(fault.switch_id)

    def _set_rate(self, link: Link, rate_bps: int) -> None:
        for node in (link.a, link.b):
            if node in self.hosts:
                self.hosts[node].set_rate(rate_bps)
            else:
                self.switches[node].set_port_rate(link.port(node), rate_bps)
        self._control.rate_changed(link.id, rate_bps)

    def _set_carrier(self, link: Link) -> None:
        up = self.state.carrier(link)
        for node in (link.a, link.b):
            if node in self.hosts:
                self.hosts[node].set_link(up)
            else:
                self.switches[node].set_port_state(link.port(node), up)

    # --- what is seen ---

    def _sent_by_host(self, host: int, port: int, frame: bytes) -> None:
        self._out[(host, port)].send(frame)

    def _transmitted(
        self, switch: int, port: int, frame: bytes, _start_ps: int, end_ps: int
    ) -> None:
        if self._dead:
            destination = frames.destination_switch(frame)
            if DeadHop(switch, port, destination) in self._dead:
                self.log.append(PacketSentIntoDeadPath(end_ps, switch, port, destination))
        told = frames.urgent_note(frame)
        if told is not None:
            self.log.append(NotificationSent(end_ps, switch, port, *told))
        self._out[(switch, port)].send(frame)

    def _received(self, node: int, port: int, switch: Switch, frame: bytes) -> None:
        told = frames.urgent_note(frame)
        if told is not None:
            self.log.append(NotificationReceived(self.clock.now_ps, node, port, *told))
        switch.receive(port, frame)

    def _port_state(self, node: int, port: int, up: bool) -> None:
        now_ps = self.clock.now_ps
        self.log.append(
            PortUpSeen(now_ps, node, port) if up else PortDownSeen(now_ps, node, port, "carrier")
        )

    def _lost_on_wire(self, edge: Edge, frame: bytes, reason: LossReason) -> None:
        self._lose(edge.src, edge.link.port(edge.src), reason, frame)

    def _dropped(self, switch: int, drop: Drop) -> None:
        by_program = drop.reason in (DropReason.INGRESS, DropReason.EGRESS)
        if drop.ingress_port == self.switches[switch].config.event_port or (
            by_program and frames.ether_type(drop.data) == frames.SYNCMESH
        ):
            return  # so end timer packets, and what neighbours told the program
        reason = _REASONS.get(drop.reason, LossReason.PROGRAM)
        # A clone is a notification to be; the packet that it was made of went its own way.
        self._lose(switch, drop.port or 0, reason, b"" if drop.is_clone else drop.data)

    def _lose(self, node: int, port: int, reason: LossReason, frame: bytes) -> None:
        self.log.append(
            PacketLost(
                self.clock.now_ps,
                node,
                port,
                reason,
                frames.traffic(frame),
                frames.destination_switch(frame),
            )
        )


def switch_config(scenario: Scenario) -> SwitchConfig:
    """What every switch of a scenario is built like."""
    block = scenario.model.switch
    latency_ps = ns_to_ps(block.pipeline_latency_ns)
    return SwitchConfig(
        ingress_latency_ps=latency_ps // 2,
        egress_latency_ps=latency_ps - latency_ps // 2,
        queue_limit_bytes=block.queue_bytes,
        wire_overhead_bytes=WIRE_OVERHEAD_BYTES,
        depth_unit="cells",
        port_events=True,
        port_down_detection_ps=us_to_ps(block.port_down_detection_us),
        port_up_detection_ps=us_to_ps(block.port_down_detection_us),
    )


def needed_packets(scenario: Scenario) -> int:
    """Data packets that the workload needs, each sent once."""
    mtu_bytes = scenario.model.transport.mtu_bytes
    return sum(packet_count(flow.size_bytes, mtu_bytes) for flow in scenario.workload.flows)


def transport_config(scenario: Scenario) -> TransportConfig:
    """The hosts' transport settings of a scenario."""
    block = scenario.model.transport
    return TransportConfig(
        mtu_bytes=block.mtu_bytes,
        window_packets=block.window_packets or SPAN_PACKETS,
        ack_every=block.ack_every,
        rto_ps=us_to_ps(block.rto_us),
        rto_max_ps=us_to_ps(block.rto_max_us),
        reorder_ps=us_to_ps(block.reorder_us),
        ip_version=block.ip_version,
    )
