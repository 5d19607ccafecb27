"""The hosts of a live fabric: one process with a packet socket in each host's namespace.

The hosts, their queue pairs and the workload's driver are those of the simulated fabric; time is the
machine's, and frames go through sockets. Beside the workload it sends probes: small UDP packets between
hosts of different switches, numbered and never sent again, which show how long a loss lasted.
"""

from __future__ import annotations

import asyncio
import json
import logging
import mmap
import pickle
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Final

from sglb.fabric.dcqcn_config import resolve
from sglb.fabric.events import Event, EventLog
from sglb.fabric.frames import packet_identity
from sglb.fabric.host import FIRST_PORT, Host, NicStats
from sglb.fabric.live.control import LiveView
from sglb.fabric.lossless_host import LosslessConfig, LosslessHost
from sglb.fabric.qp import ReceiveStats, SendStats
from sglb.fabric.roce import ipv4_checksum
from sglb.fabric.simulation import transport_config
from sglb.fabric.topology import HostAddress, Node
from sglb.fabric.traffic import TrafficDriver
from sglb.switch.clock import PS_PER_S, VirtualHandle
from sglb.switch.wall_clock import WallClock

_FRAMES: Final = 64  #: of a socket, before other things get their turn
_FRAME_BYTES: Final = 9_728
_LINGER_S: Final = 0.3  #: for packets under way when the workload is complete
_DATAGRAM_BYTES: Final = 1 << 12
_LOOK_S: Final = 0.05

#: UDP port and payload of probes: a mark, the number.
PROBE_PORT: Final = 50_007
_PROBE: Final = struct.Struct("!4sI")
_MARK: Final = b"sglb"
_PROBE_AT: Final = 14 + 20 + 8
_SOURCE_PORTS: Final = 97  #: a pair's probes take so many ports in turn, and so all paths
NAME: Final = "traffic"


def probe_frame(
    src: HostAddress, dst: HostAddress, gateway: bytes, port: int, number: int
) -> bytes:
    """A probe: Ethernet, IPv4 (not ECN capable, checksum set), UDP without checksum, mark and number."""
    payload = _PROBE.pack(_MARK, number)
    length = 20 + 8 + len(payload)
    head = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0x4000, 64, 17, 0)
    ends = src.ipv4.packed + dst.ipv4.packed
    checksum = ipv4_checksum(head + ends).to_bytes(2, "big")
    udp = struct.pack("!HHHH", port, PROBE_PORT, 8 + len(payload), 0)
    return gateway + src.mac + b"\x08\x00" + head[:10] + checksum + ends + udp + payload


def probe_number(frame: bytes) -> int | None:
    """The number of a probe; None for any other frame."""
    if len(frame) < _PROBE_AT + _PROBE.size or frame[_PROBE_AT : _PROBE_AT + 4] != _MARK:
        return None
    if frame[12:14] != b"\x08\x00" or frame[36:38] != PROBE_PORT.to_bytes(2, "big"):
        return None
    return int(_PROBE.unpack_from(frame, _PROBE_AT)[1])


@dataclass(frozen=True, slots=True)
class Sent:
    """A packet that host `src` sent to host `dst` at `time_ps`."""

    time_ps: int
    src: int
    dst: int


@dataclass(slots=True)
class SenderCount:
    """A queue pair's sending side, as far as figures are concerned."""

    stats: SendStats


@dataclass(slots=True)
class ReceiverCount:
    """A queue pair's receiving side, as far as figures are concerned."""

    stats: ReceiveStats


@dataclass(slots=True)
class HostCount:
    """What a host counted, as `metrics.HostCounters`."""

    stats: NicStats
    send_queues: dict[int, SenderCount]
    receive_queues: dict[int, ReceiverCount]


@dataclass(slots=True)
class TrafficResult:
    """What happened to the packets; times in ps from the run's start.

    `copies` are data packets by what identifies them, each time that they were sent; `arrivals` those
    that came. `probes` are in order of their numbers, `probe_arrivals` times by number. `refused`
    counts frames that an interface did not take.
    """

    end_ps: int
    done: bool
    events: list[Event]
    hosts: dict[int, HostCount]
    copies: list[tuple[bytes, Sent]]
    arrivals: list[tuple[bytes, int]]
    probes: list[Sent]
    probe_arrivals: dict[int, int]
    refused: int


class _Clock(WallClock):
    """Real time from `start_ns` on the monotonic clock. In an event it is when that was due.

    So a NIC keeps its rate over any longer time, however late the processor comes to each frame.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, start_ns: int) -> None:
        super().__init__(loop)
        self.start_ns = start_ns
        self._due_ps: int | None = None

    @property
    def now_ps(self) -> int:
        """See the class."""
        return super().now_ps if self._due_ps is None else self._due_ps

    @property
    def real_ps(self) -> int:
        """What the clock shows."""
        return super().now_ps

    def call_at(self, time_ps: int, fn: Callable[..., object], *args: object) -> VirtualHandle:
        """See `WallClock.call_at`."""
        return super().call_at(time_ps, self._as_of, time_ps, fn, args)

    def _as_of(self, due_ps: int, fn: Callable[..., object], args: tuple[object, ...]) -> None:
        self._due_ps = min(due_ps, super().now_ps)
        try:
            fn(*args)
        finally:
            self._due_ps = None


class _Unordered(EventLog):
    """A log for events whose times are those when they were due."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Event] = []

    def append(self, event: Event) -> None:
        """Adds a record."""
        self.found.append(event)


class Progress:
    """Numbers that the traffic's process shows to the one that started it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)

    def show(self, arrived: int, frames: int) -> None:
        """Data packets that have arrived, and all frames that hosts have sent and taken."""
        struct.pack_into("=QQ", self._memory, 0, arrived, frames)

    def read(self) -> tuple[int, int]:
        """What was shown last."""
        arrived, frames = struct.unpack_from("=QQ", self._memory, 0)
        return arrived, frames


@dataclass(frozen=True)
class TrafficProcess:
    """The target of a process: the workload and the probes, until all is done or SIGTERM.

    `start_ns` is time 0 on the monotonic clock, `sockets` are by host. The result goes to `result` as a
    pickle. Its control socket takes `{"rate": [HOST, BIT/S]}` and `{"link": [HOST, UP]}`.
    """

    view: LiveView
    start_ns: int
    sockets: Mapping[int, socket.socket]
    progress: Progress
    result: Path

    def __call__(self) -> None:
        """Runs it."""
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
        # epoll rounds waits up to milliseconds; select does not.
        loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            found = runner.run(_Traffic(self, loop).run())
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is at its end
        self.result.write_bytes(pickle.dumps(found))


class _Traffic:
    def __init__(self, process: TrafficProcess, loop: asyncio.AbstractEventLoop) -> None:
        view = process.view
        self._process = process
        self._loop = loop
        self._clock = _Clock(loop, process.start_ns)
        self._log = _Unordered()
        self._scenario = view.scenario
        self._by_ip: dict[bytes, int] = {}
        self._hosts = {node.id: self._host(node) for node in self._scenario.topology.hosts}
        self._copies: list[tuple[bytes, Sent]] = []
        self._arrivals: list[tuple[bytes, int]] = []
        self._probes: list[Sent] = []
        self._probe_arrivals: dict[int, int] = {}
        self._refused = 0
        self._probing = True
        self._stop = asyncio.Event()
        self._driver = TrafficDriver(
            self._scenario.workload,
            self._hosts,
            self._clock,
            self._log,
            self._scenario.model.transport.qps_per_pair,
        )

    def _host(self, node: Node) -> Host:
        topology, model = self._scenario.topology, self._scenario.model
        address = topology.address(node.id)
        self._by_ip[address.ipv4.packed] = self._by_ip[address.ipv6.packed] = node.id
        gateway_mac = topology.switch_of(node.id).mac
        rate_bps = topology.attachment(node.id).spec.rate_bps
        config, rng = transport_config(self._scenario), self._scenario.rng(f"host {node.name}")
        send = partial(self._send, node.id)
        if not (model.switch.pfc.enabled or model.transport.dcqcn.enabled):
            return Host(node.name, address, gateway_mac, rate_bps, config, self._clock, send, rng)
        transport = model.transport
        lossless = LosslessConfig(
            transport.traffic_class, transport.cnp_class, resolve(transport.dcqcn)
        )
        return LosslessHost(
            node.name, address, gateway_mac, rate_bps, config, lossless, self._clock, send, rng
        )

    async def run(self) -> TrafficResult:
        self._loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        for host, found in self._process.sockets.items():
            self._loop.add_reader(found.fileno(), self._receive, host, found)
        orders = self._listen()
        self._driver.start()
        self._start_probes()
        self._look()
        await self._stop.wait()
        # What is under way may still arrive, and be no loss.
        end_ps = self._clock.now_ps
        self._probing = False
        await asyncio.sleep(_LINGER_S)
        self._clock.stop()
        for fd in (orders.fileno(), *(s.fileno() for s in self._process.sockets.values())):
            self._loop.remove_reader(fd)
        orders.close()
        return TrafficResult(
            end_ps,
            self._driver.done,
            sorted(self._log.found, key=lambda event: event.time_ps),
            {host.id: self._count(self._hosts[host.id]) for host in self._scenario.topology.hosts},
            self._copies,
            self._arrivals,
            self._probes,
            self._probe_arrivals,
            self._refused,
        )

    @staticmethod
    def _count(host: Host) -> HostCount:
        return HostCount(
            host.stats,
            {number: SenderCount(queue.stats) for number, queue in host.send_queues.items()},
            {number: ReceiverCount(queue.stats) for number, queue in host.receive_queues.items()},
        )

    def _look(self) -> None:
        """Shows how far it has come; ends when all is done or time is up."""
        data = sum(host.stats.data_received for host in self._hosts.values())
        sent = len(self._copies) + len(self._probes)
        self._process.progress.show(data, sent + data)
        if self._driver.done or self._clock.now_ps >= self._scenario.stop_ps:
            self._stop.set()
        else:
            self._loop.call_later(_LOOK_S, self._look)

    # --- frames ---

    def _send(self, host: int, frame: bytes) -> None:
        identity = packet_identity(frame)
        if identity is not None:
            # The address is in front: 4 bytes or 16, then queue pair and PSN.
            dst = self._by_ip[identity[:-6]]
            self._copies.append((identity, Sent(self._clock.now_ps, host, dst)))
        self._put(host, frame)

    def _put(self, host: int, frame: bytes) -> None:
        try:
            self._process.sockets[host].send(frame)
        except OSError:  # the link is down, or the kernel has no room
            self._refused += 1

    def _receive(self, host: int, found: socket.socket) -> None:
        for _ in range(_FRAMES):
            try:
                frame = found.recv(_FRAME_BYTES)
            except OSError:  # there is nothing more, or the link went down
                return
            number = probe_number(frame)
            if number is not None:
                self._probe_arrivals.setdefault(number, self._clock.now_ps)
                continue
            identity = packet_identity(frame)
            if identity is not None:
                self._arrivals.append((identity, self._clock.now_ps))
            self._hosts[host].receive(frame)

    # --- probes ---

    def _start_probes(self) -> None:
        rate = self._scenario.model.live.probes_per_s
        topology = self._scenario.topology
        hosts = [node.id for node in topology.hosts]
        pairs = [
            (src, dst)
            for src in hosts
            for dst in hosts
            if topology.switch_of(src).id != topology.switch_of(dst).id
        ]
        if not rate or not pairs:
            return
        self._scenario.rng("probes").shuffle(pairs)
        self._clock.call_at(0, self._probe, cycle(pairs), PS_PER_S // rate, 0)

    def _probe(self, pairs: Iterator[tuple[int, int]], period_ps: int, number: int) -> None:
        if not self._probing:
            return
        src, dst = next(pairs)
        topology = self._scenario.topology
        port = FIRST_PORT + number % _SOURCE_PORTS
        frame = probe_frame(
            topology.address(src), topology.address(dst), topology.switch_of(src).mac, port, number
        )
        self._probes.append(Sent(max(self._clock.now_ps, self._clock.real_ps), src, dst))
        self._put(src, frame)
        due_ps = (number + 1) * period_ps
        self._clock.call_at(due_ps, self._probe, pairs, period_ps, number + 1)

    # --- orders of the supervisor ---

    def _listen(self) -> socket.socket:
        path = self._process.view.control(NAME)
        orders = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        orders.bind(str(path))
        self._loop.add_reader(orders.fileno(), self._order, orders)
        return orders

    def _order(self, orders: socket.socket) -> None:
        with suppress(ValueError):
            match json.loads(orders.recv(_DATAGRAM_BYTES)):
                case {"rate": [int(host), int(rate_bps)]}:
                    self._hosts[host].set_rate(rate_bps)
                case {"link": [int(host), bool(up)]}:
                    self._hosts[host].set_link(up)
