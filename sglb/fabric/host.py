"""RoCEv2 hosts: a NIC with a rate, and queue pairs. Event-driven, no I/O of their own.

A host is given the time (`scheduler`) and a way out (`send`, called with each frame when its
last bit has left the NIC); frames for it go to `receive`. It neither knows nor cares whether
that is a simulated link or a socket.

The NIC sends acknowledges first and then serves queue pairs in turn, a packet each, as long as
their windows let them.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from sglb.fabric import roce
from sglb.fabric.qp import ReceiveQueue, SendQueue, TransportConfig
from sglb.fabric.roce import FrameError, Framer, Path
from sglb.fabric.topology import HostAddress
from sglb.switch.clock import Scheduler

FIRST_QP = 0x100
# Source ports from the dynamic range, as the RoCEv2 annex (A17.9.2) recommends for entropy.
FIRST_PORT = 0xC000
PORT_BITS = 14


@dataclass(slots=True)
class NicStats:
    """Counts of a NIC, in frames. `cut` were on the wire when the link went down."""

    data_sent: int = 0
    acks_sent: int = 0
    data_received: int = 0
    acks_received: int = 0
    cut_data: int = 0
    cut_acks: int = 0
    dropped: dict[str, int] = field(default_factory=dict)


class Host:
    """A host with one port.

    `gateway_mac` is the Ethernet destination of everything it sends (its switch's address).
    Frames for another MAC or IP address are dropped and counted under a reason in
    `stats.dropped`, as are broken ones.
    """

    def __init__(
        self,
        name: str,
        address: HostAddress,
        gateway_mac: bytes,
        rate_bps: int,
        config: TransportConfig,
        scheduler: Scheduler,
        send: Callable[[bytes], object],
        rng: random.Random,
    ) -> None:
        self.name = name
        self.address = address
        self.config = config
        self.stats = NicStats()
        self.send_queues: dict[int, SendQueue] = {}
        self.receive_queues: dict[int, ReceiveQueue] = {}
        self._gateway_mac = gateway_mac
        self._rate_bps = rate_bps
        self._scheduler = scheduler
        self._send = send
        self._rng = rng
        self._ip = address.ipv4.packed if config.ip_version == 4 else address.ipv6.packed
        self._next_qp = FIRST_QP
        self._acks: deque[bytes] = deque()
        self._waiting: deque[SendQueue] = deque()
        self._is_waiting: set[int] = set()
        self._sending = False
        self._link_up = True
        self._cut = False

    def set_rate(self, rate_bps: int) -> None:
        """New rate of the link, from the next frame on."""
        self._rate_bps = rate_bps

    def set_link(self, up: bool) -> None:
        """Carrier of the link. A frame being sent when it goes is lost, the others wait."""
        if not up and self._sending:
            self._cut = True
        self._link_up = up
        self._pump()

    def receive(self, frame: bytes) -> None:
        """Take a frame from the link."""
        try:
            if frame[:6] != self.address.mac:
                raise FrameError("for another MAC address")
            packet = roce.parse(frame)
            if packet.dst_ip != self._ip:
                raise FrameError("for another IP address")
            if packet.opcode in roce.DATA_OPCODES:
                self._on_data(packet)
            elif packet.opcode == roce.ACKNOWLEDGE:
                self._on_ack(packet)
            elif packet.opcode == roce.CNP:
                self._on_cnp(packet)
            else:
                raise FrameError("unexpected opcode")
        except FrameError as error:
            reason = str(error)
            self.stats.dropped[reason] = self.stats.dropped.get(reason, 0) + 1

    def _on_data(self, packet: roce.RocePacket) -> None:
        queue = self.receive_queues.get(packet.dest_qp)
        if queue is None:
            raise FrameError("no such queue pair")
        self.stats.data_received += 1
        if packet.ecn == roce.CE:
            queue.stats.ce_marked += 1
            self._on_marked(packet)
        queue.on_data(packet.opcode, packet.psn, packet.ack_request)

    def _on_ack(self, packet: roce.RocePacket) -> None:
        queue = self.send_queues.get(packet.dest_qp)
        if queue is None:
            raise FrameError("no such queue pair")
        _, bitmap = roce.parse_ack(packet)
        self.stats.acks_received += 1
        queue.on_ack(packet.psn, bitmap)

    def _on_cnp(self, packet: roce.RocePacket) -> None:  # noqa: ARG002
        raise FrameError("unexpected opcode")

    def _on_marked(self, packet: roce.RocePacket) -> None:
        """A data packet was marked by ECN: nothing to do without rate control."""

    # Sending: one frame at a time is on the wire.

    def _wake(self, queue: SendQueue) -> None:
        if id(queue) not in self._is_waiting and queue.ready():
            self._is_waiting.add(id(queue))
            self._waiting.append(queue)
            self._pump()

    def _send_ack(self, frame: bytes) -> None:
        self._acks.append(frame)
        self._pump()

    def _pump(self) -> None:
        if self._sending or not self._link_up:
            return
        if self._acks:
            self._start(self._acks.popleft(), None)
            return
        while self._waiting:
            queue = self._waiting.popleft()
            self._is_waiting.discard(id(queue))
            if queue.ready():
                self._start(queue.next_frame(), queue)
                return

    def _start(self, frame: bytes, queue: SendQueue | None) -> None:
        """Put a data frame of a queue pair, or an acknowledge (None), on the wire."""
        if queue is None:
            self.stats.acks_sent += 1
        else:
            self.stats.data_sent += 1
        self._sending = True
        took_ps = roce.serialisation_ps(len(frame), self._rate_bps)
        self._scheduler.call_later(took_ps, self._sent, frame, queue)

    def _sent(self, frame: bytes, queue: SendQueue | None) -> None:
        self._sending = False
        if self._cut:
            self._cut = False
            self.stats.cut_data += queue is not None
            self.stats.cut_acks += queue is None
        else:
            self._send(frame)
        if queue is not None:
            self._wake(queue)  # behind those that wait already: each gets its turn
        self._pump()

    def _new_qp(self) -> int:
        number = self._next_qp
        self._next_qp += 1
        return number

    def _path_to(self, peer: Host) -> Path:
        port = FIRST_PORT + self._rng.getrandbits(PORT_BITS)
        version = self.config.ip_version
        return Path(self.address, peer.address, self._gateway_mac, port, version)

    def _sends_by(self, number: int, queue: SendQueue) -> None:
        """A queue pair to send by has been made."""

    def _receives_by(self, number: int, path: Path, peer_qp: int) -> None:
        """A queue pair to receive by has been made; `path` leads to its peer."""


def connect(src: Host, dst: Host, on_message: Callable[[int], object]) -> SendQueue:
    """Make a queue pair for messages from `src` to `dst`.

    Stands for the connection manager, whose exchange is not simulated. Post messages on the
    result; `on_message(n)` is called when `dst` has message n and all before it whole. The first
    PSN and the UDP source ports are drawn from the hosts' generators.
    """
    if src.config != dst.config:
        raise ValueError(f"{src.name} and {dst.name} differ in their transport configuration")
    src_qp, dst_qp = src._new_qp(), dst._new_qp()
    psn = src._rng.getrandbits(24)
    sender = SendQueue(
        src.config, src._scheduler, Framer(src._path_to(dst), dst_qp), psn, src._wake
    )
    back = dst._path_to(src)
    receiver = ReceiveQueue(Framer(back, src_qp), psn, dst._send_ack, on_message)
    src.send_queues[src_qp] = sender
    dst.receive_queues[dst_qp] = receiver
    src._sends_by(src_qp, sender)
    dst._receives_by(dst_qp, back, src_qp)
    return sender
