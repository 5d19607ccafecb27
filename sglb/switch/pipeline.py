"""The path of packets through a program, in BMv2's order of decisions.

After ingress: clone, digests, then the first that applies of resubmit, multicast, drop, unicast. After
egress: clone, then drop, else recirculate, else send. Clones of the received packet are parsed again
from its original bytes; clones in egress keep the headers as they stand. Fields that a copy preserves
have their value of the end of the control; everything else in metadata is zero, ingress_port included.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import cached_property

from sglb.p4 import ir
from sglb.p4.identity import once_for_each
from sglb.p4.runtime import Engine, ExternFailure, PacketContext, Request
from sglb.switch.clock import PS_PER_US, Scheduler
from sglb.switch.config import SwitchConfig
from sglb.switch.digests import DigestEngine
from sglb.switch.errors import ConfigError
from sglb.switch.packet import InstanceType, Packet
from sglb.switch.ports import DropReason, Port
from sglb.switch.pre import CloneSession, ReplicationEngine
from sglb.switch.trace import PacketTrace, TraceRecorder
from sglb.switch.traffic import TrafficManager

_log = logging.getLogger(__name__)


class FieldSlots:
    """Where a program keeps the fields of standard_metadata that the switch reads and writes."""

    def __init__(self, code: ir.Program) -> None:
        known = code.standard_metadata

        def slot(name: str) -> int:
            if name not in known:
                raise ConfigError(f"the program's standard_metadata has no field {name}")
            return known[name]

        def top(name: str) -> int:
            return (1 << code.slots[slot(name)].width) - 1

        self.ingress_port = slot("ingress_port")
        self.egress_spec = slot("egress_spec")
        self.egress_port = slot("egress_port")
        self.instance_type = slot("instance_type")
        self.packet_length = slot("packet_length")
        self.enq_timestamp = slot("enq_timestamp")
        self.enq_qdepth = slot("enq_qdepth")
        self.deq_timedelta = slot("deq_timedelta")
        self.deq_qdepth = slot("deq_qdepth")
        self.ingress_time = slot("ingress_global_timestamp")
        self.egress_time = slot("egress_global_timestamp")
        self.mcast_grp = slot("mcast_grp")
        self.egress_rid = slot("egress_rid")
        self.priority = slot("priority")
        self.port_mask = top("egress_spec")
        self.time32_mask = top("enq_timestamp")
        self.time48_mask = top("ingress_global_timestamp")
        self.enq_top = top("enq_qdepth")
        self.deq_top = top("deq_qdepth")
        self.metadata = _metadata_slots(code)
        self.headers = _header_sizes(code)


def _metadata_slots(code: ir.Program) -> tuple[int, ...]:
    """Slots that a clone does not inherit: metadata that is no header (headers are parsed again)."""
    first, count = code.metadata
    in_headers = {
        slot for header in code.headers for slot in range(header.valid, header.valid + header.size)
    }
    user = (slot for slot in range(first, first + count) if slot not in in_headers)
    return (*user, *code.standard_metadata.values())


def _header_sizes(code: ir.Program) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
    """(validity slot, fixed bytes, varbit length slots) of the headers a packet consists of."""
    first, count = code.headers_out
    return tuple(
        (
            header.valid,
            header.width // 8,
            tuple(field.slot + 1 for field in header.fields if field.varbit),
        )
        for header in code.headers
        if first <= header.valid < first + count
    )


@once_for_each(16)
def field_slots(code: ir.Program) -> FieldSlots:
    """The slots of a program, for all switches that run it."""
    return FieldSlots(code)


class Pipeline:
    """One loaded program at work. Implements `traffic.Egress`."""

    def __init__(
        self,
        code: ir.Program,
        make_engine: Callable[[], Engine],
        *,
        config: SwitchConfig,
        clock: Scheduler,
        ports: dict[int, Port],
        traffic: TrafficManager,
        replication: ReplicationEngine,
        digests: DigestEngine,
        digest_ids: dict[int, int],
        lose: Callable[[Packet, Port | None, DropReason, bytes], None],
        transmit: Callable[[Port, bytes, int, int], None],
    ) -> None:
        self.retired = False
        self.recorder: TraceRecorder | None = None
        self._code = code
        self._make_engine = make_engine
        self._slots = field_slots(code)
        self._config = config
        self._clock = clock
        self._ports = ports
        self._traffic = traffic
        self._replication = replication
        self._digests = digests
        self._digest_ids = digest_ids
        self._lose = lose
        self._transmit = transmit

    @cached_property
    def _engine(self) -> Engine:
        """Made with the first packet: switches whose packets run elsewhere need none."""
        return self._make_engine()

    # --- ingress ---

    def receive(self, data: bytes, port: int, trace: PacketTrace | None) -> None:
        """A packet enters: parser and ingress run now, its queue is reached after the latency."""
        now = self._clock.now_ps
        context = self._engine.new_context(data, now)
        slots, frame = self._slots, context.frame
        frame[slots.ingress_port] = port
        frame[slots.packet_length] = len(data)
        frame[slots.ingress_time] = now // PS_PER_US & slots.time48_mask
        packet = Packet(context, port, 1, [0])
        packet.trace = context.trace = trace
        self._ingress(packet)

    def _ingress(self, packet: Packet) -> None:
        context, engine = packet.ctx, self._engine
        if self.retired:
            self.lose(packet, None, DropReason.RELOADED, context.data)
            return
        try:
            engine.parse(context)
            packet.base_bytes = len(context.data) - self._header_bytes(context.frame)
            engine.verify_checksum(context)
            engine.ingress(context)
        except ExternFailure as failure:
            self._failed(packet, None, failure)
            return
        self._after_ingress(packet)

    def _after_ingress(self, packet: Packet) -> None:
        context, slots = packet.ctx, self._slots
        frame = context.frame
        if context.clone is not None:
            self._clone_ingress(packet, context.clone)
        if context.digests:
            self._learn(context)
        if context.resubmit is not None:
            preserved = self._preserved(context.resubmit, frame)
            delay = self._config.ingress_latency_ps
            self._again(packet, context.data, preserved, InstanceType.RESUBMITTED, delay)
            return
        packet.length_bytes = packet.base_bytes + self._header_bytes(frame)
        group = frame[slots.mcast_grp]
        if group:
            self._multicast(packet, group)
            return
        egress_spec = frame[slots.egress_spec]
        if egress_spec == self._config.drop_port:
            self.lose(packet, None, DropReason.INGRESS, context.data)
            return
        frame[slots.instance_type] = InstanceType.NORMAL
        self._to_queue(packet, egress_spec, frame[slots.priority])

    def _multicast(self, packet: Packet, group: int) -> None:
        slots, frame = self._slots, packet.ctx.frame
        copies = self._replication.copies(group)
        if not copies:
            self.lose(packet, None, DropReason.NO_GROUP, packet.ctx.data)
            return
        frame[slots.instance_type] = InstanceType.REPLICATION
        queue = frame[slots.priority]
        self._note(packet, "multicast", group=group, copies=len(copies))
        self._replicate(packet, copies, queue)

    def _replicate(self, packet: Packet, copies: Iterable[tuple[int, int]], queue: int) -> None:
        rid = self._slots.egress_rid
        for port, instance in copies:
            copy = self._copy(packet, f"copy to port {port}, instance {instance}")
            copy.ctx.frame[rid] = instance
            self._to_queue(copy, port, queue)

    def _copy(self, packet: Packet, origin: str) -> Packet:
        """A twin with a frame of its own; a truncation asked for so far is not inherited (BMv2)."""
        context = packet.ctx
        twin = PacketContext(
            context.frame.copy(),
            context.data,
            now_ps=context.now_ps,
            payload_offset=context.payload_offset,
        )
        copy = Packet(twin, packet.ingress_port, packet.passes, packet.family)
        copy.base_bytes = packet.base_bytes
        copy.length_bytes = packet.length_bytes
        copy.limit_bytes = packet.limit_bytes
        copy.is_clone = packet.is_clone
        copy.trace = twin.trace = self._trace_copy(packet, origin)
        return copy

    def _to_queue(self, packet: Packet, port_number: int, queue: int) -> None:
        delay = self._config.ingress_latency_ps
        if delay:
            self._clock.call_later(delay, self._enqueue, packet, port_number, queue)
        else:
            self._enqueue(packet, port_number, queue)

    def _enqueue(self, packet: Packet, port_number: int, queue: int) -> None:
        port = self._ports.get(port_number)
        if self.retired or port is None:
            reason = DropReason.RELOADED if self.retired else DropReason.NO_PORT
            self.lose(packet, port, reason, packet.ctx.data)
            return
        if packet.trace is not None:
            self._note(packet, "queue", port=port_number, queue=queue, bytes=packet.length_bytes)
        self._traffic.enqueue(packet, port, queue)

    # --- copies and further passes ---

    def _preserved(self, request: Request, frame: list[int]) -> list[tuple[int, int]]:
        slots = request.slots
        if request.field_list is not None:
            slots = self._code.field_lists.get(request.field_list, ())
        return [(slot, frame[slot]) for slot in slots]

    def _clone_ingress(self, packet: Packet, request: Request) -> None:
        session = self._replication.session(request.session)
        if session is None:
            self._note(packet, "clone", session=request.session, result="session not configured")
            return
        slots, original = self._slots, packet.ctx
        context = self._engine.new_context(original.data, original.now_ps)
        frame = context.frame
        frame[slots.ingress_port] = packet.ingress_port if packet.passes == 1 else 0
        self._engine.parse(context)
        copy = Packet(context, packet.ingress_port, packet.passes, packet.family)
        copy.base_bytes = len(original.data) - self._header_bytes(frame)
        self._send_clone(
            packet,
            copy,
            session,
            InstanceType.INGRESS_CLONE,
            self._preserved(request, original.frame),
        )

    def _clone_egress(self, packet: Packet, request: Request) -> None:
        session = self._replication.session(request.session)
        if session is None:
            self._note(packet, "clone", session=request.session, result="session not configured")
            return
        if not self._may_go_on(packet):
            self.lose(packet, None, DropReason.LOOP, packet.ctx.data)
            return
        copy = self._copy(packet, "")
        copy.passes += 1
        self._send_clone(
            packet,
            copy,
            session,
            InstanceType.EGRESS_CLONE,
            self._preserved(request, packet.ctx.frame),
        )

    def _send_clone(
        self,
        packet: Packet,
        copy: Packet,
        session: CloneSession,
        kind: InstanceType,
        preserved: list[tuple[int, int]],
    ) -> None:
        slots, frame = self._slots, copy.ctx.frame
        for slot in slots.metadata:
            frame[slot] = 0
        for slot, value in preserved:
            frame[slot] = value
        frame[slots.instance_type] = kind
        copy.is_clone = True
        copy.length_bytes = copy.base_bytes + self._header_bytes(frame)
        copy.limit_bytes = session.packet_length_bytes
        copies = self._replication.session_copies(session.id)
        self._note(packet, "clone", session=session.id, copies=len(copies))
        copy.trace = packet.trace
        self._replicate(copy, copies, session.class_of_service)

    def _again(
        self,
        packet: Packet,
        data: bytes,
        preserved: list[tuple[int, int]],
        kind: InstanceType,
        delay_ps: int,
    ) -> None:
        """Another run through ingress, after `delay_ps` and the recirculation latency."""
        if not self._may_go_on(packet):
            self.lose(packet, None, DropReason.LOOP, data)
            return
        slots = self._slots
        delay = delay_ps + self._config.recirculation_latency_ps
        context = self._engine.new_context(data, self._clock.now_ps + delay)
        frame = context.frame
        for slot, value in preserved:
            frame[slot] = value
        frame[slots.instance_type] = kind
        frame[slots.packet_length] = len(data)
        again = Packet(context, packet.ingress_port, packet.passes + 1, packet.family)
        again.trace = context.trace = self._trace_copy(packet, kind.name.lower())
        self._clock.call_later(delay, self._ingress, again)

    # --- egress ---

    def run_egress(self, packet: Packet, port: Port, queue: int, depth: int) -> bytes | None:
        """Runs egress and deparser as the packet leaves its queue; None when nothing is to be sent."""
        context, slots, config = packet.ctx, self._slots, self._config
        frame = context.frame
        now = context.now_ps = self._clock.now_ps
        enqueued_us, now_us = packet.enq_ps // PS_PER_US, now // PS_PER_US
        frame[slots.egress_port] = port.number
        frame[slots.egress_spec] = (config.drop_port + 1) & slots.port_mask
        frame[slots.packet_length] = packet.length_bytes
        frame[slots.egress_time] = now_us & slots.time48_mask
        frame[slots.enq_timestamp] = enqueued_us & slots.time32_mask
        frame[slots.enq_qdepth] = min(packet.enq_depth, slots.enq_top)
        frame[slots.deq_timedelta] = (now_us - enqueued_us) & slots.time32_mask
        frame[slots.deq_qdepth] = min(depth, slots.deq_top)
        context.clone = context.clone_egress = None
        context.resubmit = context.recirculate = None
        if packet.trace is not None:
            self._note(packet, "dequeue", port=port.number, queue=queue, depth=depth)
        try:
            self._engine.egress(context)
            if context.clone_egress is not None:
                self._clone_egress(packet, context.clone_egress)
            if context.digests:
                self._learn(context)
            if frame[slots.egress_spec] == config.drop_port:
                self.lose(packet, port, DropReason.EGRESS, context.data)
                return None
            data = self._engine.deparse(context)
        except ExternFailure as failure:
            self._failed(packet, port, failure)
            return None
        if context.recirculate is not None:
            preserved = self._preserved(context.recirculate, frame)
            delay = config.egress_latency_ps
            self._again(packet, data, preserved, InstanceType.RECIRCULATED, delay)
            return None
        if context.truncate_bytes is not None:
            data = data[: context.truncate_bytes]
        return data[: packet.limit_bytes] if packet.limit_bytes else data

    def sent(self, packet: Packet, port: Port, data: bytes, start_ps: int, end_ps: int) -> None:
        """The last bit of a frame has left."""
        if packet.trace is not None:
            self._note(packet, "send", port=port.number, bytes=len(data), start_ps=start_ps)
        self._transmit(port, data, start_ps, end_ps)

    def lose(self, packet: Packet, port: Port | None, reason: DropReason, data: bytes) -> None:
        """A packet is lost."""
        if packet.trace is not None:
            self._note(packet, "drop", reason=reason.value)
        self._lose(packet, port, reason, data)

    # --- inside ---

    def _header_bytes(self, frame: list[int]) -> int:
        total = 0
        for valid, size, varying in self._slots.headers:
            if frame[valid]:
                total += size
                for slot in varying:
                    total += frame[slot] // 8
        return total

    def _may_go_on(self, packet: Packet) -> bool:
        """Whether a further pass or egress clone is within the limits; counts it."""
        packet.family[0] += 1
        config = self._config
        return packet.passes < config.max_passes and packet.family[0] <= config.max_copies

    def _learn(self, context: PacketContext) -> None:
        for instance, values in context.digests:
            self._digests.push(self._digest_ids[instance], values)
        context.digests.clear()

    def _failed(self, packet: Packet, port: Port | None, failure: ExternFailure) -> None:
        _log.warning("packet dropped: %s", failure)
        self.lose(packet, port, DropReason.ASSERTION, packet.ctx.data)

    def _note(self, packet: Packet, step: str, **values: object) -> None:
        if packet.trace is not None:
            packet.trace.event(step, self._clock.now_ps, **values)

    def _trace_copy(self, packet: Packet, origin: str) -> PacketTrace | None:
        if packet.trace is None or self.recorder is None or not origin:
            return None
        return self.recorder.copy(packet.trace, self._clock.now_ps, origin)
