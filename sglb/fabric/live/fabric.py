"""A live fabric for one policy: namespaces, cables, processes; built, watched, cut, and taken down.

It runs on the loop of a process that has no threads and no gRPC of its own (`processes`). Whatever ends
it, everything that it made is gone afterwards.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import signal
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

from sglb.fabric import frames
from sglb.fabric.advance import Advance, Stop, Tell, never
from sglb.fabric.events import Event, FaultInjected, NotificationReceived
from sglb.fabric.faults import Fault, FaultKind
from sglb.fabric.live import journal, packets
from sglb.fabric.live.control import LiveControlPlane, LiveControlPlaneFactory, LiveView
from sglb.fabric.live.errors import LiveError, StartStoppedError
from sglb.fabric.live.links import End, LinkSocket
from sglb.fabric.live.namespaces import Namespace
from sglb.fabric.live.processes import Process, ProcessSpec, end_all, failed, start
from sglb.fabric.live.traffic import NAME as TRAFFIC
from sglb.fabric.live.traffic import Progress, TrafficProcess, TrafficResult
from sglb.fabric.scenario import Scenario
from sglb.fabric.topology import Edge, Link
from sglb.switch.clock import PS_PER_NS, PS_PER_S, PS_PER_US
from sglb.whole_file import write_whole

_MTU_BYTES: Final = 9_216
_FIRST_INDEX: Final = 10  #: of interfaces; below are the kernel's own
_READY_S: Final = 60.0
_LOOK_S: Final = 0.01
_SETTLE_S: Final = 1.0
_LEAD_NS: Final = 300_000_000  #: from the traffic's start until time 0
_TRAFFIC_END_S: Final = 20.0
_RESTART_S: Final = 0.2
_PREPARE_S: Final = 0.1
_TAP_BYTES: Final = 64
_STAMP: Final = struct.Struct("=qq")


class SwitchTarget(Protocol):
    """What runs the switches of a live fabric.

    `compiled` is a program that the control plane has to load, `depth_unit_bytes` the unit of queue
    depths.
    """

    name: str
    depth_unit_bytes: int
    compiled: Path | None

    def process(self, fabric: LiveFabric, switch_id: int) -> ProcessSpec:
        """The process of a switch."""


@dataclass(slots=True)
class LiveRun:
    """What a run left behind, for `report`. Times of events are in ps from the run's start."""

    policy: str
    traffic: TrafficResult
    events: list[Event]
    switches: dict[str, Mapping[str, Any]]
    control: dict[str, Any]
    restarts: dict[str, int] = field(default_factory=dict)


class LiveFabric:
    """See the module. `scenario` is in real time, `folder` private to this fabric and empty.

    `target` gives each switch's process, `control` the control plane. Use it in `async with`, which
    raises `StartStoppedError` when it is asked to `stop` before it is ready.
    """

    def __init__(
        self,
        scenario: Scenario,
        policy: str,
        folder: Path,
        target: SwitchTarget,
        control: LiveControlPlaneFactory,
        stop: Stop = never,
    ) -> None:
        self.scenario = scenario
        self.topology = scenario.topology
        self.policy = policy
        self.namespaces: dict[int, Namespace] = {}
        self.view = LiveView(
            scenario,
            policy,
            folder,
            {n.id: f"unix:{folder}/{n.name}.sock" for n in self.topology.switches},
            target.depth_unit_bytes,
            target.name,
            target.compiled,
            self.namespaces,
        )
        self.ends: dict[tuple[int, int], End] = {}
        self.processes: dict[str, Process] = {}
        self.restarts: dict[str, int] = {}
        self.start_ns = 0
        self.plane: LiveControlPlane = control(self.view)
        self._make_switch = target.process
        self._stop = stop
        self._links: dict[int, LinkSocket] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._taps: list[socket.socket] = []
        self._events: list[Event] = []
        self._down: set[int] = set()  # switches that a fault took down
        self._cut_ports: frozenset[tuple[int, int]] = frozenset()  # by filters, of switches
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._clock_gap_ns = time.time_ns() - time.monotonic_ns()

    async def __aenter__(self) -> LiveFabric:
        try:
            self._build()
            await self._start()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    # --- building ---------------------------------------------------------------------------------

    def _build(self) -> None:
        for node in self.topology.nodes:
            self.namespaces[node.id] = Namespace(node.name)
            self._links[node.id] = LinkSocket(self.namespaces[node.id])
        index = count(_FIRST_INDEX)
        for link in self.topology.links:
            here, there = (self._end(link, node, next(index)) for node in (link.a, link.b))
            self._links[link.a].join(here, there, _MTU_BYTES)
        for link in self.topology.links:
            self._set_link(link, True)
        for node in self.topology.hosts:
            port = self.topology.attachment(node.id).port(node.id)
            interface = self.ends[node.id, port].interface
            self._sockets[node.id] = packets.open_socket(self.namespaces[node.id], interface)
        loop = asyncio.get_running_loop()
        for node in self.topology.switches:
            tap = packets.open_tap(self.namespaces[node.id], packets.DOWN_NOTES)
            self._taps.append(tap)
            loop.add_reader(tap.fileno(), self._tapped, node.id, tap)

    def _end(self, link: Link, node_id: int, index: int) -> End:
        node, port = self.topology.by_id(node_id), link.port(node_id)
        name = f"eth{port - 1}" if node.is_host else f"p{port}"
        # A switch's ports have addresses of their own; the P4 program writes the switch's.
        mac = node.mac if node.is_host else bytes((0x02, 0x01)) + index.to_bytes(4, "big")
        end = self.ends[node_id, port] = End(self.namespaces[node_id], name, index, mac)
        return end

    async def _start(self) -> None:
        specs = [self._make_switch(self, node.id) for node in self.topology.switches]
        for spec in specs:
            self.start_process(spec)
        await self._until_ready(spec.name for spec in specs)
        specs = list(self.plane.processes())
        for spec in specs:
            self.start_process(spec)
        await self._until_ready(spec.name for spec in specs)
        # So many processes that start at once can look like a fault to one another.
        deadline = time.monotonic() + _READY_S
        calm_since = time.monotonic()
        while time.monotonic() < calm_since + _SETTLE_S:
            await self._look()
            if not self.plane.calm():
                calm_since = time.monotonic()
            if calm_since > deadline:
                raise LiveError(
                    f"the fabric's links were not all in use after {_READY_S:g} s: this machine is too "
                    "busy for its heartbeats (live.heartbeat_us, live.missed_count)"
                )

    async def _until_ready(self, names: Iterable[str]) -> None:
        deadline = time.monotonic() + _READY_S
        for name in names:
            while not self.view.ready(name).exists():
                await self._look()
                if time.monotonic() > deadline:
                    words = self.processes[name].last_words()
                    raise LiveError(f"{name} was not ready after {_READY_S:g} s: {words}")

    async def _look(self) -> None:
        """A moment of the start. Raises what failed, or that it is to stop."""
        if self._failure.done():
            self._failure.result()
        if self._stop():
            raise StartStoppedError
        await asyncio.sleep(_LOOK_S)

    # --- processes --------------------------------------------------------------------------------

    def start_process(self, spec: ProcessSpec) -> Process:
        """Starts a process of the fabric, which watches it from now on."""
        process = start(spec, self.view.folder / f"{spec.name}.log")
        self.processes[spec.name] = process
        loop = asyncio.get_running_loop()
        loop.add_reader(process.pidfd, self._ended, process)
        return process

    def _ended(self, process: Process) -> None:
        asyncio.get_running_loop().remove_reader(process.pidfd)
        status = process.reap()
        spec = process.spec
        if self.processes.get(spec.name) is process:
            del self.processes[spec.name]
        if not process.wanted:
            return
        if spec.restart:
            self.restarts[spec.name] = self.restarts.get(spec.name, 0) + 1
            asyncio.get_running_loop().call_later(_RESTART_S, self._again, spec)
        elif status or not spec.ends:
            self._fail(failed(process, status))

    def _again(self, spec: ProcessSpec) -> None:
        if self.namespaces and spec.name not in self.processes:
            self.start_process(spec)

    def _fail(self, error: Exception) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)

    def _order(self, name: str, order: Mapping[str, Any]) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out, suppress(OSError):
            out.sendto(json.dumps(order).encode(), str(self.view.control(name)))

    # --- running ----------------------------------------------------------------------------------

    async def run(self, tell: Tell) -> LiveRun:
        """The workload, with the faults; until it is complete, time is up, or it is asked to `stop`."""
        progress, result = Progress(), self.view.folder / "traffic.pickle"
        self.start_ns = time.monotonic_ns() + _LEAD_NS
        keep = tuple(s.fileno() for s in self._sockets.values())
        target = TrafficProcess(self.view, self.start_ns, self._sockets, progress, result)
        for node in self.topology.switches:
            self._order(node.name, {"begin": True})
        traffic = self.start_process(ProcessSpec(TRAFFIC, target, ends=True, keep=keep, nice=-15))
        injecting = asyncio.create_task(self._inject())
        asked = False
        total = sum(-(-f.size_bytes // self._mtu) for f in self.scenario.workload.flows)
        try:
            while self.processes.get(TRAFFIC) is traffic:
                arrived, hops = progress.read()
                tell(Advance(min(arrived, total), total, max(0, self.now_ps) / PS_PER_US, hops))
                if self._failure.done():
                    self._failure.result()
                if injecting.done():
                    injecting.result()
                if self._stop() and not asked:
                    asked = True
                    traffic.kill(signal.SIGTERM)
                await asyncio.sleep(_LOOK_S)
        finally:
            injecting.cancel()
        if not result.exists():
            raise LiveError(f"{TRAFFIC} left no result: {traffic.last_words()}")
        return self._finish(pickle.loads(result.read_bytes()))

    @property
    def _mtu(self) -> int:
        return self.scenario.model.transport.mtu_bytes

    @property
    def now_ps(self) -> int:
        """Time since the run's start."""
        return (time.monotonic_ns() - self.start_ns) * PS_PER_NS

    def _finish(self, traffic: TrafficResult) -> LiveRun:
        """Ends all processes and reads what they leave."""
        self._end_processes()
        switches: dict[str, Mapping[str, Any]] = {
            n.name: _read(self.view.report(n.name)) for n in self.topology.switches
        }
        names = [spec.name for spec in self.plane.processes()]
        control = {name: _read(self.view.report(name)) for name in names}
        events = [*traffic.events, *self._events]
        for name in names:
            events += journal.read(self.view.journal(name), self.start_ns)
        events.sort(key=lambda event: event.time_ps)
        text = "".join(f"{e.time_ps / PS_PER_US:.3f} us {e}\n" for e in events)
        (self.view.folder / "all.events").write_text(text)
        return LiveRun(self.policy, traffic, events, switches, control, dict(self.restarts))

    # --- faults -----------------------------------------------------------------------------------

    async def _inject(self) -> None:
        for fault in self.scenario.faults:
            await asyncio.sleep(max(0.0, self._left_s(fault) - _PREPARE_S))
            cuts = self._receivers(fault)
            await asyncio.sleep(max(0.0, self._left_s(fault)))
            self._apply(fault, cuts)

    def _left_s(self, fault: Fault) -> float:
        return (fault.time_ps - self.now_ps) / PS_PER_S

    def apply(self, fault: Fault) -> None:
        """Does to the fabric what a fault says, now."""
        self._apply(fault, self._receivers(fault))

    def _apply(self, fault: Fault, cuts: list[socket.socket]) -> None:
        # The moment before: what happens because of it cannot be older.
        self._events.append(FaultInjected(self.now_ps, fault))
        for cut in cuts:
            with cut:
                packets.filtered(cut, _swallowed(fault))
        for link in fault.links:
            if fault.kind is FaultKind.LINK_RATE:
                self._set_rate(link, fault.rate_bps)
            else:
                self._set_link(link, fault.kind is FaultKind.LINK_UP)
        if fault.kind is FaultKind.SWITCH_DOWN:
            self._switch_down(fault.switch_id)
        elif fault.kind is FaultKind.SWITCH_UP:
            self._switch_up(fault.switch_id)

    def _set_link(self, link: Link, up: bool) -> None:
        """Both ends; a switch that is down keeps its ends down.

        One after the other, as the kernel has it: the upper tier's first, as it has others to tell.

        BMv2 takes nothing in any more, by whatever port, once an interface of it has been down. So its
        cables are cut by filters, and its control plane is told what carriers would have told.
        """
        if self.view.target == "bmv2" and self.start_ns:
            self._cut_by_filter(link, up)
            return
        for node in (link.b, link.a):
            if not (up and node in self._down):
                self._links[node].set_up(self.ends[node, link.port(node)], up)
            if self.topology.by_id(node).is_host and TRAFFIC in self.processes:
                self._order(TRAFFIC, {"link": [node, up]})

    def _cut_by_filter(self, link: Link, up: bool) -> None:
        edges = tuple(Edge(link, src, link.other(src)) for src in (link.a, link.b))
        for cut in self._receivers(Fault(0, FaultKind.BLACKHOLE, link.name, edges=edges)):
            with cut:
                packets.filtered(cut, None if up else packets.SWALLOW)
        ends = [(n, link.port(n)) for n in (link.a, link.b) if not self.topology.by_id(n).is_host]
        self._cut_ports = self._cut_ports.difference(ends) if up else self._cut_ports.union(ends)
        write_whole(self.view.cut_ports, json.dumps(sorted(self._cut_ports)))
        for node, port in ends:
            for name in self.plane.told:
                self._order(name, {"port": [node, port, up]})

    def _set_rate(self, link: Link, rate_bps: int) -> None:
        for node in (link.a, link.b):
            if self.topology.by_id(node).is_host:
                self._order(TRAFFIC, {"rate": [node, rate_bps]})
            else:
                name = self.topology.by_id(node).name
                self._order(name, {"rate": [link.port(node), rate_bps]})
        for name in self.plane.told:
            self._order(name, self.plane.rate_changed(link.id, rate_bps))

    def _switch_down(self, switch_id: int) -> None:
        """As by a loss of power: its process is killed, its links lose their carrier."""
        self._down.add(switch_id)
        process = self.processes.get(self.topology.by_id(switch_id).name)
        if process is not None:
            process.wanted = False
            process.kill(signal.SIGKILL)
        for port, link in self.topology.ports(switch_id).items():
            self._links[switch_id].set_up(self.ends[switch_id, port], False)
            self._tell_host(link, switch_id, False)

    def _switch_up(self, switch_id: int) -> None:
        self._down.discard(switch_id)
        spec = self._make_switch(self, switch_id)
        self.view.ready(spec.name).unlink(missing_ok=True)
        # First its ports: BMv2 opens none that is down.
        for port, link in self.topology.ports(switch_id).items():
            self._links[switch_id].set_up(self.ends[switch_id, port], True)
            self._tell_host(link, switch_id, True)
        self.start_process(spec)

    def _tell_host(self, link: Link, switch_id: int, up: bool) -> None:
        other = link.other(switch_id)
        if self.topology.by_id(other).is_host:
            self._order(TRAFFIC, {"link": [other, up]})

    def _receivers(self, fault: Fault) -> list[socket.socket]:
        """The sockets that receive what is sent in the directions of a fault.

        To be found beforehand: looking for them takes longer than a fault may be late.
        """
        found = []
        for edge in fault.edges:
            node = self.topology.by_id(edge.dst)
            if node.is_host:
                found.append(self._sockets[node.id].dup())
                continue
            process = self.processes.get(node.name)
            if process is None:
                continue  # it is down and takes nothing
            index = self.ends[node.id, edge.link.port(node.id)].index
            theirs = list(packets.packet_sockets_of(process.pid, index))
            if not theirs:
                raise LiveError(f"{node.name} has no packet socket on {edge.link.name} to be cut")
            found += theirs
        return found

    # --- what is seen -----------------------------------------------------------------------------

    def _tapped(self, switch_id: int, tap: socket.socket) -> None:
        """SyncMesh notifications of something down, as they come in."""
        while True:
            try:
                frame, extra, _, address = tap.recvmsg(_TAP_BYTES, 128)
            except BlockingIOError:
                return
            told = frames.urgent_note(frame)
            if told is None or not self.start_ns:
                continue
            seconds, rest = _STAMP.unpack_from(extra[0][2]) if extra else (0, time.time_ns())
            time_ns = seconds * 1_000_000_000 + rest - self._clock_gap_ns - self.start_ns
            port = self._port_of(switch_id, address[0])
            self._events.append(NotificationReceived(time_ns * PS_PER_NS, switch_id, port, *told))

    def _port_of(self, switch_id: int, interface: str) -> int:
        ends = self.topology.ports(switch_id)
        return next((p for p in ends if self.ends[switch_id, p].interface == interface), 0)

    # --- the end ----------------------------------------------------------------------------------

    def _end_processes(self) -> None:
        loop = asyncio.get_running_loop()
        left = list(self.processes.values())
        self.processes.clear()
        for process in left:
            loop.remove_reader(process.pidfd)
        end_all(left)

    def close(self) -> None:
        """Ends what runs and lets go of what was made; harmless when done before."""
        self._end_processes()
        loop = asyncio.get_running_loop()
        for tap in self._taps:
            loop.remove_reader(tap.fileno())
            tap.close()
        self._taps.clear()
        for found in self._sockets.values():
            found.close()
        self._sockets.clear()
        for links in self._links.values():
            links.close()
        self._links.clear()
        for namespace in self.namespaces.values():
            namespace.close()
        self.namespaces.clear()
        if self._failure.done():
            self._failure.exception()  # it was told, or something else came first


def _swallowed(fault: Fault) -> packets.Program | None:
    """What becomes of frames in the directions that a fault is about; None: they are taken."""
    if fault.kind is FaultKind.BLACKHOLE:
        return packets.SWALLOW
    data, syncmesh = fault.loss
    return packets.losing(data, syncmesh) if data or syncmesh else None


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found
