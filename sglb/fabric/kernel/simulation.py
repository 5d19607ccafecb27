"""One policy on one fabric in virtual time, natively: compiled switches, wires and hosts.

The kernel and Python take turns. The kernel runs every event before the next thing that Python has to
do (a fault, a timer of an agent or of the controller, a frame for the control plane); Python does that,
at its time, on the same `Switch` objects and P4Runtime services as everywhere; the kernel goes on.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

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
    FlowCompleted,
    PauseStorm,
    PortDownSeen,
    PortUpSeen,
)
from sglb.fabric.faults import FabricState, Fault, FaultKind, LinkLoss, dead_hops
from sglb.fabric.kernel import driver
from sglb.fabric.kernel.build import build_fabric
from sglb.fabric.kernel.host_view import data_received, host_views
from sglb.fabric.kernel.hosts import host_link_changed, hosts_start
from sglb.fabric.kernel.records import LogReader
from sglb.fabric.metrics import PauseStats
from sglb.fabric.scenario import Scenario, ns_to_ps, us_to_ps
from sglb.fabric.simulation import PolicyRun, needed_packets, switch_config
from sglb.fabric.topology import Edge, Link
from sglb.p4.compiler import CompiledProgram
from sglb.p4.native.program import compile_native
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import PS_PER_US, VirtualClock
from sglb.switch.core import model as m
from sglb.switch.core.bind import CoreSwitch, bind, take_frames
from sglb.switch.core.heap import NEVER
from sglb.switch.core.wires import dead_changed, set_carrier, settle, wire_changed
from sglb.switch.p4runtime.service import P4RuntimeService
from sglb.switch.switch import Switch

#: How long the kernel runs before Python may look at the time and at Ctrl-C, seconds of wall clock.
_SLICE_S: Final = 0.2
_FIRST_SLICE_PS: Final = us_to_ps(20)
_LOSS_ONE: Final = 1 << 32
_BER_ONE: Final = 1 << 62

_Words = npt.NDArray[np.int64]


class KernelError(RuntimeError):
    """The kernel could not go on; the text says why."""


class NativeSimulation:
    """Builds a fabric for one policy of a scenario; `run` runs it once.

    As `sglb.fabric.simulation.Simulation`. `one_heap` takes the heap kernel instead of the window
    kernel, `look_ahead` says whether that asks for memory in advance (None: if the fabric is large); the
    results are the same. `loop_cpu_s` is the CPU time of the kernel alone, after a run.
    """

    def __init__(
        self,
        scenario: Scenario,
        policy: str,
        program: CompiledProgram,
        control: ControlPlaneFactory,
        *,
        one_heap: bool = False,
        look_ahead: bool | None = None,
    ) -> None:
        self.scenario = scenario
        self.policy = policy
        self.clock = VirtualClock()
        self.log = EventLog()
        self.state = FabricState(scenario.topology)
        self.switches: dict[int, Switch] = {}
        self.services: dict[int, P4RuntimeService] = {}
        self.loop_cpu_s = 0.0
        self._at_ps = 0
        self._program = program
        self._cores: dict[int, CoreSwitch] = {}
        self._losses: dict[tuple[int, int], list[LinkLoss]] = {}
        self._cpu_ps = ns_to_ps(scenario.model.switch.cpu_latency_ns)
        lookahead_ps = min(self._cpu_ps, *(link.spec.delay_ps for link in scenario.topology.links))
        config = switch_config(scenario)
        self._fabric = build_fabric(
            scenario,
            config,
            compile_native(program.ir),
            lookahead_ps=lookahead_ps,
            one_heap=one_heap,
            look_ahead=look_ahead,
        )
        self._world = self._fabric.memory.world
        self._reader = LogReader(self._fabric.memory)
        for node in scenario.topology.switches:
            self._add_switch(node.id, node.name)
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

    def _add_switch(self, node_id: int, name: str) -> None:
        switch = Switch(
            self._program,
            switch_config(self.scenario),
            self.clock,
            name=name,
            device_id=node_id,
            rng=RandomStream(f"{self.scenario.model.seed}/switch {name}"),
            engine="native",
        )
        for port, link in self.scenario.topology.ports(node_id).items():
            switch.add_port(port, link.spec.rate_bps)
        self.switches[node_id] = switch
        node = self._fabric.node_of[node_id]
        self._cores[node_id] = bind(self._fabric.memory, node, switch)
        service = P4RuntimeService(switch, self.clock)
        service.on_port_state(partial(self._port_state, node_id))
        self.services[node_id] = service

    # --- running ---

    def run(self, tell: Tell | None = None, stop: Stop = never) -> PolicyRun:
        """Runs to the end of the workload or `stop_us`, or until it is asked to `stop`.

        KeyboardInterrupt leaves everything readable: `result` then says what happened so far. Raises
        `KernelError` when the kernel's memory was too small or the program failed.
        """
        scenario = self.scenario
        for fault in scenario.faults:
            self.clock.call_at(fault.time_ps, self._apply, fault)
        for loss in scenario.losses:
            self.clock.call_at(loss.from_ps, self._set_loss, loss, True)
            if loss.to_ps is not None:
                self.clock.call_at(loss.to_ps, self._set_loss, loss, False)
        with collector_at_rest():
            self._control.start()
        driver.run(self._world, 0, 1)  # compiles, if nobody has before
        hosts_start(self._world)
        total = needed_packets(scenario)
        slice_ps = _FIRST_SLICE_PS

        def news() -> None:
            if tell is not None:
                arrived = min(data_received(self._world), total)
                tell(Advance(arrived, total, self._at_ps / PS_PER_US, self.hops))

        news()
        while self._at_ps < scenario.stop_ps and not self.done and not stop():
            began = time.perf_counter()
            # Whole windows, so that the wall clock has no say in where one ends.
            lookahead_ps = self._fabric.lookahead_ps
            until_ps = (self._at_ps + slice_ps) // lookahead_ps * lookahead_ps + lookahead_ps
            until_ps = min(until_ps, scenario.stop_ps)
            self._at_ps = self._advance(self._at_ps, until_ps)
            news()
            took = time.perf_counter() - began
            slice_ps = max(_FIRST_SLICE_PS, round(slice_ps * min(2.0, _SLICE_S / max(took, 1e-6))))
        return self.result()

    @property
    def done(self) -> bool:
        """Whether every flow is complete."""
        return bool(self._world.w[m.FLOWS_OPEN] == 0)

    def _advance(self, from_ps: int, until_ps: int) -> int:
        """Runs kernel and Python from one time up to another, or until every flow is complete."""
        w, clock = self._world.w, self.clock
        now_ps = from_ps
        while now_ps < until_ps:
            due = clock.next_ps()
            limit = until_ps if due is None else min(due, until_ps)
            if limit > now_ps:
                now_ps = self._kernel(limit)
                if w[m.HALT] & m.HALT_DONE:
                    return now_ps
            if now_ps == due:
                clock.run(now_ps)
                # What Python does at a time may ask for more at that time, and for the kernel's too.
                while clock.next_ps() == now_ps:
                    clock.run(now_ps)
        return now_ps

    def _kernel(self, limit_ps: int) -> int:
        """Runs the kernel up to a time, or to where Python is wanted; the time reached."""
        w = self._world.w
        began = time.process_time()
        reached = driver.run(self._world, limit_ps, self._fabric.lookahead_ps)
        self.loop_cpu_s += time.process_time() - began
        halt = int(w[m.HALT])
        if halt & driver.FATAL:
            raise KernelError(self._why(halt))
        self.log.merge(self._reader.take())
        reached = limit_ps if reached == NEVER else min(reached, limit_ps)
        if halt & m.HALT_CPU:
            self._take_cpu_frames()
        if halt & m.HALT_DIGEST:
            for core in self._cores.values():
                core.take_digests()
        w[m.HALT] = halt & m.HALT_DONE
        self.clock.run(reached - 1)  # nothing is due: moves the clock
        return reached

    def _take_cpu_frames(self) -> None:
        memory = self._fabric.memory
        for end_ps, _, node, _, frame in take_frames(memory):
            switch = self.switches[memory.nodes[node].id]
            self.clock.call_at(end_ps + self._cpu_ps, self._to_cpu, switch, frame)

    @staticmethod
    def _to_cpu(switch: Switch, frame: bytes) -> None:
        if switch.on_cpu is not None:
            switch.on_cpu(frame)

    def _why(self, halt: int) -> str:
        w = self._world.w
        memory = self._fabric.memory
        node = int(w[m.FAILED_NODE])
        name = "" if node < 0 else self.scenario.topology.by_id(memory.nodes[node].id).name
        if halt & m.HALT_ROWS:
            return (
                f"more than {w[m.ROWS]} packets were under way at once: bound them by "
                "transport.window_packets or switch.buffer.total_bytes"
            )
        if halt & m.HALT_PROGRAM:
            return (
                f"switch {name}: the program looks at more bytes of a packet than a native fabric "
                "keeps; run it with engine: reference"
            )
        if halt & m.HALT_BLOBS:
            return f"switch {name}: too many long control frames are under way at once"
        return f"node {name}: its list of events is full"

    # --- the end ---

    def result(self) -> PolicyRun:
        """What has happened so far."""
        w = self._world.w
        now_ps = self._end_ps()
        settle(self._world, now_ps)
        self.log.merge(self._reader.take())
        drops: Counter[str] = Counter()
        depth, at = 0, (0, 0)
        for switch_id, switch in self.switches.items():
            self._cores[switch_id].collect()
            drops.update({str(reason): n for reason, n in switch.drops.items()})
            for number, port in switch.ports.items():
                if number != switch.config.cpu_port:
                    deepest = max(queue.max_bytes for queue in port.queues)
                    if deepest > depth:
                        depth, at = deepest, (switch_id, number)
        hosts = host_views(self._fabric.plan, self._world)
        return PolicyRun(
            policy=self.policy,
            completed=self.done,
            end_ps=now_ps,
            log=self.log,
            hosts=hosts,
            switches=self.switches,
            max_queue_bytes=depth,
            max_queue_at=at,
            drops=drops,
            control=dict(self._control.report()),
            wire_frames=int(w[m.HOPS]),
            events_run=int(w[m.EVENTS_RUN]) + self.clock.events_run,
            pauses=self._pauses(sum(host.cnps_sent for host in hosts.values())),
        )

    def _end_ps(self) -> int:
        """When the last flow was complete, or how far the run came."""
        if not self.done:
            return self._at_ps
        return max(event.time_ps for event in self.log.of(FlowCompleted))

    def _pauses(self, cnps: int) -> PauseStats:
        w = self._world.w
        ports = _records(w, m.PORTS_AT, m.PORTS, m.PORT_WORDS)
        nodes = _records(w, m.NODES_AT, m.SWITCHES, m.NODE_WORDS)
        return PauseStats(
            pause_frames=int(ports[:, m.P_PAUSE_TX].sum()),
            paused_us=int(ports[:, m.P_PAUSED_PS].sum()) / PS_PER_US,
            storms=sum(event.begins for event in self.log.of(PauseStorm)),
            buffer_bytes=int(nodes[:, m.N_SHARED_PEAK].max()),
            headroom_bytes=int(nodes[:, m.N_HEADROOM_PEAK].max()),
            cnps=cnps,
        )

    @property
    def hops(self) -> int:
        """Packet-hops so far."""
        return int(self._world.w[m.HOPS])

    # --- faults ---

    def _apply(self, fault: Fault) -> None:
        self.log.append(FaultInjected(self.clock.now_ps, fault))
        self.state.apply(fault)
        match fault.kind:
            case FaultKind.LINK_RATE:
                for link in fault.links:
                    self._set_rate(link, fault.rate_bps)
            case FaultKind.LINK_DOWN | FaultKind.LINK_UP:
                for link in fault.links:
                    self._set_carrier(link)
            case FaultKind.BLACKHOLE | FaultKind.HEAL:
                for edge in fault.edges:
                    self._set_wire(edge, {m.P_BLACKHOLE: fault.kind is FaultKind.BLACKHOLE})
            case FaultKind.SWITCH_DOWN:
                self.switches[fault.switch_id].unload()
                self._set_power(fault.switch_id, False)
            case FaultKind.SWITCH_UP:
                self.switches[fault.switch_id].load(self._program)
                self._set_power(fault.switch_id, True)
                self._control.switch_restarted(fault.switch_id)
        self._mark_dead()

    def _set_power(self, switch_id: int, on: bool) -> None:
        self.services[switch_id].power(on)
        for link in self.scenario.topology.ports(switch_id).values():
            self._set_carrier(link)

    def _port(self, node_id: int, number: int) -> int:
        return self._fabric.memory.port(self._fabric.node_of[node_id], number)

    def _set_rate(self, link: Link, rate_bps: int) -> None:
        for node in (link.a, link.b):
            if node in self.switches:
                self.switches[node].set_port_rate(link.port(node), rate_bps)
            else:
                port = self._port(node, link.port(node))
                self._world.w[self._port_record(port) + m.P_RATE] = rate_bps
                host_link_changed(self._world, self._fabric.node_of[node], self.clock.now_ps)
        self._control.rate_changed(link.id, rate_bps)

    def _port_record(self, port: int) -> int:
        return int(self._world.w[m.PORTS_AT]) + port * m.PORT_WORDS

    def _set_carrier(self, link: Link) -> None:
        up, now_ps = self.state.carrier(link), self.clock.now_ps
        for node in (link.a, link.b):
            if node in self.switches:
                self.switches[node].set_port_state(link.port(node), up)
            else:
                port = self._port(node, link.port(node))
                set_carrier(self._world, port, up, now_ps)
                self._world.w[self._port_record(port) + m.P_LIVE] = up
                host_link_changed(self._world, self._fabric.node_of[node], now_ps)

    def _set_wire(self, edge: Edge, words: dict[int, int]) -> None:
        port = self._port(edge.src, edge.link.port(edge.src))
        for word, value in words.items():
            self._world.w[self._port_record(port) + word] = value
        wire_changed(self._world, port, self.clock.now_ps)

    def _set_loss(self, loss: LinkLoss, begins: bool) -> None:
        """A span of loss begins or ends; spans of one direction add up as independent chances."""
        for edge in loss.edges:
            spans = self._losses.setdefault(edge.key, [])
            if begins:
                spans.append(loss)
            else:
                spans.remove(loss)
            words = {
                m.P_LOSS: _chance((span.data for span in spans), _LOSS_ONE),
                m.P_LOSS_SYNC: _chance((span.syncmesh for span in spans), _LOSS_ONE),
                m.P_BER: _chance((span.ber for span in spans), _BER_ONE),
            }
            self._set_wire(edge, words)

    def _mark_dead(self) -> None:
        w, words = self._world.w, int(self._world.w[m.DEAD_WORDS])
        first = int(w[m.DEAD_AT])
        w[first : first + int(w[m.PORTS]) * words] = 0
        hops = dead_hops(self.state)
        for hop in hops:
            port = self._port(hop.switch_id, hop.port)
            bit = 1 << (hop.dest_switch_id & 63)
            place = first + port * words + (hop.dest_switch_id >> 6)
            w[place] = int(w[place]) | (bit - (1 << 64) if bit >> 63 else bit)
        w[m.DEAD_ANY] = bool(hops)
        dead_changed(self._world, self.clock.now_ps)

    def _port_state(self, node: int, port: int, up: bool) -> None:
        now_ps = self.clock.now_ps
        self.log.append(
            PortUpSeen(now_ps, node, port) if up else PortDownSeen(now_ps, node, port, "carrier")
        )


def _records(w: _Words, first: int, count: int, words: int) -> _Words:
    """The records of a section, one a row."""
    at, number = int(w[first]), int(w[count])
    return w[at : at + number * words].reshape(number, words)


def _chance(parts: Iterable[float], one: int) -> int:
    """The chance that any of some independent things happens, in units of 1 / `one`."""
    spared = 1.0
    for part in parts:
        spared *= 1.0 - part
    return round((1.0 - spared) * one)
