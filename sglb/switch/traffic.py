"""The traffic manager: class queues per port, served at the port's rate in virtual time.

A port's highest non-empty queue is served first. The egress pipeline runs when a packet leaves its
queue; a packet that egress drops takes no time on the wire. A queue whose port went down keeps sending
into the void until the switch knows; then it is flushed, and nothing more is queued until the port is
known to be up again. Frames on the wire, or between queue and wire, when the link is cut are lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sglb.switch.clock import Scheduler
from sglb.switch.config import SwitchConfig
from sglb.switch.packet import Packet
from sglb.switch.ports import DropReason, Port, Queue


class Egress(Protocol):
    """What the traffic manager needs of the switch around it."""

    def run_egress(self, packet: Packet, port: Port, queue: int, depth: int) -> bytes | None:
        """Runs the egress pipeline; the frame to send, None when it goes elsewhere."""

    def sent(self, packet: Packet, port: Port, data: bytes, start_ps: int, end_ps: int) -> None:
        """The last bit of a frame has left."""

    def lose(self, packet: Packet, port: Port | None, reason: DropReason, data: bytes) -> None:
        """A packet is lost."""


class TrafficManager:
    """Queues and serves packets; see the module's text for its rules."""

    #: Set before the first packet is queued.
    egress: Egress

    def __init__(self, clock: Scheduler, config: SwitchConfig) -> None:
        self._clock = clock
        self._config = config
        self._depth: Callable[[Queue], int] = {
            "packets": lambda queue: len(queue.packets),
            "bytes": lambda queue: queue.bytes,
            "cells": lambda queue: queue.cells,
        }[config.depth_unit]

    def enqueue(self, packet: Packet, port: Port, queue_number: int) -> None:
        """Queues a packet (with `length_bytes` set) or drops it."""
        config = self._config
        if not port.live:
            self.egress.lose(packet, port, DropReason.PORT_DOWN, packet.ctx.data)
            return
        if queue_number >= len(port.queues):
            self.egress.lose(packet, port, DropReason.NO_QUEUE, packet.ctx.data)
            return
        queue = port.queues[queue_number]
        depth_bytes = queue.bytes + packet.length_bytes
        limit = config.queue_limit_packets
        if depth_bytes > config.queue_limit_bytes or (
            limit is not None and len(queue.packets) >= limit
        ):
            self.egress.lose(packet, port, DropReason.QUEUE_FULL, packet.ctx.data)
            return
        packet.enq_ps = now = self._clock.now_ps
        packet.enq_depth = self._depth(queue)
        packet.cells = -(-packet.length_bytes // config.cell_bytes)
        queue.packets.append(packet)
        queue.bytes = depth_bytes
        queue.cells += packet.cells
        if depth_bytes > queue.max_bytes:
            queue.max_bytes = depth_bytes
        if len(queue.packets) > queue.max_packets:
            queue.max_packets = len(queue.packets)
        port.queued += 1
        if port.waking is None:
            if now >= port.free_ps:
                self._serve(port)
            else:
                port.waking = self._clock.call_at(port.free_ps, self._wake, port)

    def flush(self, port: Port, reason: DropReason) -> None:
        """Drops everything that waits on a port."""
        for queue in port.queues:
            while queue.packets:
                packet = self._take(port, queue)
                self.egress.lose(packet, port, reason, packet.ctx.data)

    def _wake(self, port: Port) -> None:
        port.waking = None
        self._serve(port)

    @staticmethod
    def _take(port: Port, queue: Queue) -> Packet:
        packet = queue.packets.popleft()
        queue.bytes -= packet.length_bytes
        queue.cells -= packet.cells
        port.queued -= 1
        return packet

    def _serve(self, port: Port) -> None:
        """Sends packets until the wire is taken or nothing waits."""
        now = self._clock.now_ps
        while port.queued and now >= port.free_ps:
            number = len(port.queues) - 1
            while not port.queues[number].packets:
                number -= 1
            queue = port.queues[number]
            packet = self._take(port, queue)
            data = self.egress.run_egress(packet, port, number, self._depth(queue))
            if data is not None:
                self._send(packet, port, data, now)
        if port.queued and port.waking is None:
            port.waking = self._clock.call_at(port.free_ps, self._wake, port)

    def _send(self, packet: Packet, port: Port, data: bytes, now: int) -> None:
        wire = port.wire_ps(len(data) + self._config.wire_overhead_bytes)
        port.free_ps = now + wire
        start = now + self._config.egress_latency_ps
        if start == now and not wire:
            self._finish(packet, port, data, start, port.cuts)
        else:
            self._clock.call_at(start + wire, self._finish, packet, port, data, start, port.cuts)

    def _finish(self, packet: Packet, port: Port, data: bytes, start_ps: int, cuts: int) -> None:
        if port.cuts != cuts or not port.up:
            self.egress.lose(packet, port, DropReason.CUT, data)
        else:
            self.egress.sent(packet, port, data, start_ps, self._clock.now_ps)
