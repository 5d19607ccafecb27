"""Ports: their state, what they counted, and why packets were lost."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from sglb.switch.clock import PS_PER_S, Handle
from sglb.switch.errors import ConfigError

if TYPE_CHECKING:
    from sglb.switch.packet import Packet


class DropReason(StrEnum):
    """Why a packet was lost. The text is what reports show."""

    INGRESS = "dropped by the program in ingress"
    EGRESS = "dropped by the program in egress"
    ASSERTION = "the program stopped it: a false assert or assume, or an endless loop"
    NO_PROGRAM = "no program is loaded"
    RELOADED = "the program was replaced"
    NO_PORT = "the egress port does not exist"
    NO_QUEUE = "the port has no queue of that priority"
    NO_GROUP = "the multicast group does not exist or has no live copy"
    QUEUE_FULL = "the queue is full"
    PORT_DOWN = "the egress port is known to be down"
    CUT = "the link was cut while or before the frame was sent"
    RX_PORT_DOWN = "the ingress port is down"
    LOOP = "resubmitted or recirculated too often"
    BUFFER_FULL = "the queue exceeds its share of the buffer"
    HEADROOM = "headroom exceeded: more came in after a pause than the headroom holds"
    STORM = "the watchdog drops a queue that is paused without end"


@dataclass(frozen=True, slots=True)
class Drop:
    """A lost packet: `port` is the egress port where one was chosen, `ingress_port` where it came in.

    `data` are the bytes as they entered the pipeline (as sent, for `CUT`). `is_clone`: what was lost is
    a clone that the program made of the packet with these bytes, not that packet.
    """

    time_ps: int
    reason: DropReason
    port: int | None
    ingress_port: int
    data: bytes
    is_clone: bool = False


@dataclass(slots=True)
class PortCounters:
    """Totals since the port was added; `drops` by reason, of packets meant for this port."""

    rx_packets: int = 0
    rx_bytes: int = 0
    tx_packets: int = 0
    tx_bytes: int = 0
    drops: Counter[DropReason] = field(default_factory=Counter)


class Queue:
    """One class queue. Bytes count the packet as its headers stand after ingress."""

    __slots__ = ("_packets", "bytes", "cells", "max_bytes", "max_packets")

    def __init__(self) -> None:
        self._packets: deque[Packet] | None = None
        self.bytes = 0
        self.cells = 0
        self.max_bytes = 0
        self.max_packets = 0

    @property
    def packets(self) -> deque[Packet]:
        """What waits; made when asked for, as most queues of a fabric see no packet."""
        if self._packets is None:
            self._packets = deque()
        return self._packets


class Port:
    """A port. `rate_bps` None sends in no time.

    `up` is the truth on the wire, `live` what the switch knows of it.
    """

    __slots__ = (
        "_classes",
        "_queues",
        "counters",
        "cuts",
        "detection",
        "free_ps",
        "live",
        "number",
        "queued",
        "rate_bps",
        "up",
        "waking",
    )

    def __init__(self, number: int, rate_bps: int | None, queues: int) -> None:
        self.number = number
        self.up = True
        self.live = True
        self.cuts = 0
        self.detection: Handle | None = None
        self.counters = PortCounters()
        self._classes = queues
        self._queues: tuple[Queue, ...] | None = None
        self.queued = 0
        self.free_ps = 0
        self.waking: Handle | None = None
        self.rate_bps: int | None = None
        self.set_rate(rate_bps)

    @property
    def queues(self) -> tuple[Queue, ...]:
        """One for each class, made when asked for: the packets of a native fabric wait elsewhere."""
        if self._queues is None:
            self._queues = tuple(Queue() for _ in range(self._classes))
        return self._queues

    def set_rate(self, rate_bps: int | None) -> None:
        """Changes the rate from the next frame on. Raises `ConfigError` for a rate below 1."""
        if rate_bps is not None and rate_bps < 1:
            raise ConfigError(f"port {self.number}: the rate must be above 0, got {rate_bps} bit/s")
        self.rate_bps = rate_bps

    def wire_ps(self, length_bytes: int) -> int:
        """Time on the wire of that many bytes, rounded up to whole picoseconds."""
        rate = self.rate_bps
        return 0 if rate is None else -(-length_bytes * 8 * PS_PER_S // rate)

    @property
    def depth_bytes(self) -> int:
        """Bytes waiting in all queues."""
        return sum(queue.bytes for queue in self.queues)

    @property
    def depth_packets(self) -> int:
        """Packets waiting in all queues."""
        return self.queued
