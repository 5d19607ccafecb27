"""The P4Runtime service of one switch, without a transport.

Simulations call it in process, `grpc_server` serves it on a socket. All calls run on the switch's
scheduler, one after the other: each request is atomic for other requests, and for packets of the same
scheduler. That gives strictly serializable batches; ROLLBACK_ON_ERROR and DATAPLANE_ATOMIC are the same
thing. Whoever runs packets in another thread holds the switch's lock. A Write holds it for an update at
a time, so that packets need not wait for thousands of them, and for its whole batch where it asks for
all or nothing.

Port states have no message in P4Runtime; `on_port_state` tells them in process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from finsy.proto import p4r

from sglb.switch.clock import PS_PER_NS, Scheduler
from sglb.switch.digests import DigestList
from sglb.switch.errors import SwitchError
from sglb.switch.locking import SwitchLock
from sglb.switch.p4runtime.arbitration import Arbitration, RoleState, Send, Session
from sglb.switch.p4runtime.bound import BoundPipeline, TranslationOptions
from sglb.switch.p4runtime.entity import EntityHandler, Undo, UpdateType
from sglb.switch.p4runtime.pipeline_config import PipelineConfigs
from sglb.switch.p4runtime.roles import RoleScope
from sglb.switch.p4runtime.status import Code, P4RuntimeError, batch_error
from sglb.switch.tables import Table, TableEntry

if TYPE_CHECKING:
    from sglb.switch.switch import Switch

#: The version of the specification that the service follows.
API_VERSION = "1.5.0"

_UPDATE_TYPES = frozenset(p4r.Update.Type.values()) - {p4r.Update.UNSPECIFIED}
_ATOMICITIES = frozenset(p4r.WriteRequest.Atomicity.values())


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """Settings of a service.

    `allow_device_id_zero`: the specification forbids device 0, tutorials number switches from 0.
    `max_streams_per_role` bounds open streams. `epoch_ns` is the wall-clock time (ns since 1970) at
    the scheduler's time 0, added to time stamps. `include_dirs` are for programs that clients send.
    `read_chunk` is the number of entities in one ReadResponse.
    """

    allow_device_id_zero: bool = False
    max_streams_per_role: int = 32
    epoch_ns: int = 0
    include_dirs: tuple[Path, ...] = ()
    translation: TranslationOptions = field(default_factory=TranslationOptions)
    read_chunk: int = 256


class Stream:
    """One StreamChannel. `close` it when the client is gone."""

    def __init__(self, service: P4RuntimeService, send: Send) -> None:
        self._service = service
        self._send = send
        self._session: Session | None = None
        self._closed = False
        self._broken = False

    def receive(self, request: p4r.StreamMessageRequest) -> None:
        """Handles a message from the client.

        Raises `P4RuntimeError` where the stream has to end with that status (it is closed then);
        other mistakes are answered with a StreamError message.
        """
        self._service.check_power()
        if self._broken:
            raise P4RuntimeError(
                Code.UNAVAILABLE,
                f"device {self._service.device_id} has restarted since: open another stream",
            )
        if self._closed:
            raise P4RuntimeError(Code.FAILED_PRECONDITION, "the stream is closed")
        match request.WhichOneof("update"):
            case "arbitration":
                try:
                    self._session = self._service.arbitration.update(
                        self._session, self._send, request.arbitration
                    )
                except P4RuntimeError:
                    self.close()
                    raise
            case "packet":
                self._answer(request, self._service.packet_out)
            case "digest_ack":
                self._answer(request, self._service.digest_ack)
            case _:
                self._answer(request, _refuse_other)

    def close(self) -> None:
        """The client is gone."""
        self._closed = True
        self._service.forget(self)
        if self._session is not None:
            self._service.arbitration.close(self._session)
            self._session = None

    def break_off(self) -> None:
        """The switch is gone, and what it knew of the client with it."""
        self._closed = self._broken = True
        self._session = None

    def _answer(
        self,
        request: p4r.StreamMessageRequest,
        handle: Callable[[p4r.StreamMessageRequest, RoleState], None],
    ) -> None:
        try:
            handle(request, self._service.role_of(self._session))
        except (P4RuntimeError, SwitchError) as error:
            problem = _as_p4runtime(error)
            reply = p4r.StreamError(canonical_code=problem.code, message=problem.message)
            match request.WhichOneof("update"):
                case "packet":
                    reply.packet_out.packet_out.CopyFrom(request.packet)
                case "digest_ack":
                    reply.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
                case _:
                    reply.other.other.CopyFrom(request.other)
            self._send(p4r.StreamMessageResponse(error=reply))


class _Reading:
    """A Read under way. It goes on piece by piece, so that packets pass between two pieces.

    Before a write `finish` takes what is left at once, so that the answer is all of one moment.
    """

    __slots__ = ("__weakref__", "_ahead", "_lock", "_steps", "errors")

    def __init__(
        self,
        steps: Iterator[p4r.Entity],
        lock: SwitchLock,
        errors: Sequence[P4RuntimeError | None],
    ) -> None:
        self.errors = errors
        self._ahead: list[p4r.Entity] = []
        self._steps = steps
        self._lock = lock

    def take(self, count: int) -> list[p4r.Entity]:
        """The next entities, empty at the end."""
        if self._ahead:
            taken, self._ahead = self._ahead[:count], self._ahead[count:]
            return taken
        with self._lock:  # each entity is before or after a packet in another thread
            return list(islice(self._steps, count))

    def finish(self) -> None:
        """Reads to the end."""
        with self._lock:
            self._ahead += self._steps


class P4RuntimeService:
    """All RPCs of P4Runtime for one switch.

    `device_id` is the switch's. The service takes over the switch's `on_cpu`, `on_idle` and
    `digests.on_list`, and puts itself before what `on_port_event` was. `lost_packet_ins` counts
    frames for the controller that no primary wanted, or that the program made too short.
    """

    def __init__(
        self, switch: Switch, clock: Scheduler, options: ServiceOptions | None = None
    ) -> None:
        self.options = options or ServiceOptions()
        if switch.device_id == 0 and not self.options.allow_device_id_zero:
            raise ValueError(
                f"switch {switch.name}: P4Runtime forbids device_id 0; choose another or set "
                "allow_device_id_zero"
            )
        self.switch = switch
        self.clock = clock
        self.lost_packet_ins = 0
        self.arbitration = Arbitration(
            switch.device_id, max_sessions=self.options.max_streams_per_role
        )
        self._pipelines = PipelineConfigs(
            switch, clock, self.options.translation, self.options.include_dirs
        )
        self._streams: list[Stream] = []
        self._readings: WeakSet[_Reading] = WeakSet()
        self._powered = True
        self._power_listeners: list[Callable[[bool], None]] = []
        self._port_listeners: list[Callable[[int, bool], None]] = []
        self._next_port_event = switch.on_port_event
        switch.on_port_event = self._port_event
        switch.on_cpu = self._packet_in
        switch.on_idle = self._idle
        switch.digests.on_list = self._digest_list

    @property
    def device_id(self) -> int:
        """The device's id."""
        return self.arbitration.device_id

    # --- the switch's power -----------------------------------------------------------------------

    def power(self, on: bool) -> None:
        """The machine that this service runs on goes down, or is back with nothing remembered.

        While it is down every RPC and stream message ends with UNAVAILABLE; streams break, and with
        them sessions and elections. The switch itself is `Switch.unload`ed and loaded by the caller,
        before this call.
        """
        if on == self._powered:
            return
        self._powered = on
        if not on:
            self._finish_readings()
            for stream in self._streams:
                stream.break_off()
            self._streams.clear()
            self.arbitration = Arbitration(
                self.device_id, max_sessions=self.options.max_streams_per_role
            )
        for listener in tuple(self._power_listeners):
            listener(on)

    def on_power(self, callback: Callable[[bool], None]) -> None:
        """`callback(on)` is called when the switch goes down or is back: clients reconnect then."""
        self._power_listeners.append(callback)

    def check_power(self) -> None:
        """UNAVAILABLE while the switch is down."""
        if not self._powered:
            raise P4RuntimeError(
                Code.UNAVAILABLE, f"device {self.device_id} ({self.switch.name}) is down"
            )

    def forget(self, stream: Stream) -> None:
        """A stream was closed."""
        if stream in self._streams:
            self._streams.remove(stream)

    # --- unary RPCs -------------------------------------------------------------------------------

    def capabilities(
        self, request: p4r.CapabilitiesRequest | None = None
    ) -> p4r.CapabilitiesResponse:
        """Capabilities; NOT_FOUND for another device's id (0 asks for none)."""
        self.check_power()
        if request is not None and request.device_id:
            self.arbitration.check_device(request.device_id)
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    def set_forwarding_pipeline_config(
        self, request: p4r.SetForwardingPipelineConfigRequest
    ) -> p4r.SetForwardingPipelineConfigResponse:
        """SetForwardingPipelineConfig; see `pipeline_config` for what a config holds."""
        self.check_power()
        role = self.arbitration.check_primary(
            request.device_id, request.role, _election_id(request)
        )
        if not role.scope.push_pipeline:
            raise P4RuntimeError(
                Code.PERMISSION_DENIED, f"role {role.name!r} may not push a pipeline"
            )
        self._finish_readings()
        self._pipelines.set(request)
        return p4r.SetForwardingPipelineConfigResponse()

    def get_forwarding_pipeline_config(
        self, request: p4r.GetForwardingPipelineConfigRequest
    ) -> p4r.GetForwardingPipelineConfigResponse:
        """GetForwardingPipelineConfig."""
        self.check_power()
        self.arbitration.check_device(request.device_id)
        return self._pipelines.get(request.response_type)

    def write(self, request: p4r.WriteRequest) -> p4r.WriteResponse:
        """Write: applies the batch.

        Raises `P4RuntimeError`: with UNKNOWN and one detail per update when updates failed, with
        another code and no details when the request as a whole is refused.
        """
        self.check_power()
        role = self.arbitration.check_primary(
            request.device_id, request.role, _election_id(request)
        )
        bound = self._bound()
        if request.atomicity not in _ATOMICITIES:
            raise P4RuntimeError(Code.INVALID_ARGUMENT, f"atomicity {request.atomicity} is unknown")
        if self._readings:
            self._finish_readings()
        if request.atomicity == p4r.WriteRequest.CONTINUE_ON_ERROR:
            self._write_each(bound, role, request.updates)
        else:
            with self.switch.lock:  # packets in another thread see all of the batch or none
                self._write_all_or_none(bound, role, request.updates)
        return p4r.WriteResponse()

    def _write_each(
        self, bound: BoundPipeline, role: RoleState, updates: Sequence[p4r.Update]
    ) -> None:
        failed: dict[int, P4RuntimeError] = {}
        insert_known = bound.table_handler.insert_known if role.scope.ids is None else None
        lock = self.switch.lock
        for i, update in enumerate(updates):
            try:
                with lock:  # packets in another thread wait for one update at a time
                    if insert_known is None or not insert_known(update):
                        self._write_one(bound, role, update)
            except (P4RuntimeError, SwitchError) as error:
                failed[i] = _as_p4runtime(error)
        if failed:
            raise batch_error("updates", [failed.get(i) for i in range(len(updates))])

    def _write_all_or_none(
        self, bound: BoundPipeline, role: RoleState, updates: Sequence[p4r.Update]
    ) -> None:
        undos: list[Undo] = []
        for i, update in enumerate(updates):
            try:
                undos.append(self._write_one(bound, role, update))
            except (P4RuntimeError, SwitchError) as error:
                for undo in reversed(undos):
                    undo()
                errors = [
                    P4RuntimeError(Code.ABORTED, f"not kept, since update [{i}] failed")
                    for _ in updates
                ]
                errors[i] = _as_p4runtime(error)
                text = f"nothing was written: update [{i}] failed: {errors[i].message}"
                raise P4RuntimeError(Code.UNKNOWN, text, [e.to_error() for e in errors]) from error

    def _write_one(self, bound: BoundPipeline, role: RoleState, update: p4r.Update) -> Undo:
        if update.type not in _UPDATE_TYPES:
            raise P4RuntimeError(Code.INVALID_ARGUMENT, f"update type {update.type} is not one")
        handler = _handler(bound, update.entity)
        object_id = handler.object_id(update.entity)
        if not role.scope.allows(object_id):
            raise P4RuntimeError(
                Code.PERMISSION_DENIED,
                f"role {role.name!r} may not write object {object_id:#010x}",
            )
        return handler.write(UpdateType(update.type), update.entity)

    def read(self, request: p4r.ReadRequest) -> Iterator[p4r.ReadResponse]:
        """Read: what the switch holds when the first message is asked for, in messages.

        Writes that come in between do not show, what packets change meanwhile does. Raises
        `P4RuntimeError` at once when the request as a whole is refused. When single requests of the
        batch are wrong, the iterator gives what the others found and then raises UNKNOWN with one
        detail per request.
        """
        self.check_power()
        self.arbitration.check_device(request.device_id)
        scope = self.arbitration.role(request.role).scope
        bound = self._bound()
        errors: list[P4RuntimeError | None] = []
        reading = _Reading(_find(bound, scope, request.entities, errors), self.switch.lock, errors)
        self._readings.add(reading)
        return self._responses(reading)

    def _responses(self, reading: _Reading) -> Iterator[p4r.ReadResponse]:
        while found := reading.take(self.options.read_chunk):
            yield p4r.ReadResponse(entities=found)
        if any(reading.errors):
            raise batch_error("read requests", reading.errors)

    def _finish_readings(self) -> None:
        """Before anything is changed."""
        for reading in tuple(self._readings):
            reading.finish()
        self._readings.clear()

    def _bound(self) -> BoundPipeline:
        bound = self._pipelines.current
        if bound is None:
            raise P4RuntimeError(
                Code.FAILED_PRECONDITION,
                f"no forwarding pipeline config is set for device {self.device_id}",
            )
        return bound

    # --- streams ----------------------------------------------------------------------------------

    def open_stream(self, send: Send) -> Stream:
        """A StreamChannel; `send` is called with each message for the client."""
        self.check_power()
        stream = Stream(self, send)
        self._streams.append(stream)
        return stream

    def role_of(self, session: Session | None) -> RoleState:
        """The role whose primary a session is; PERMISSION_DENIED for everybody else."""
        if session is not None:
            role = self.arbitration.role(session.role)
            if role.primary is session:
                return role
        raise P4RuntimeError(Code.PERMISSION_DENIED, "only the primary may send this message")

    def packet_out(self, request: p4r.StreamMessageRequest, role: RoleState) -> None:  # noqa: ARG002
        """Sends a PacketOut into the pipeline; raises what a StreamError has to say."""
        bound = self._pipelines.live
        if bound is None:
            raise P4RuntimeError(
                Code.FAILED_PRECONDITION, "no forwarding pipeline config is committed"
            )
        self.switch.packet_out(bound.codecs.packet_out.pack(request.packet))

    def digest_ack(self, request: p4r.StreamMessageRequest, role: RoleState) -> None:
        """Takes a DigestListAck; raises what a StreamError has to say."""
        bound = self._pipelines.live
        digest_id = request.digest_ack.digest_id
        if bound is None or digest_id not in bound.digest_ids:
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT, f"digest id {digest_id} is not in the P4Info"
            )
        if not role.scope.allows(digest_id):
            raise P4RuntimeError(
                Code.PERMISSION_DENIED, f"role {role.name!r} may not use digest {digest_id}"
            )
        self.switch.digests.ack(digest_id, request.digest_ack.list_id)

    # --- from the switch --------------------------------------------------------------------------

    def on_port_state(self, callback: Callable[[int, bool], None]) -> None:
        """`callback(port, up)` is called when the switch notices that a port changed."""
        self._port_listeners.append(callback)

    def port_states(self) -> dict[int, bool]:
        """Which ports are up, as far as the switch knows; the CPU port is not among them."""
        cpu = self.switch.config.cpu_port
        return {n: port.live for n, port in sorted(self.switch.ports.items()) if n != cpu}

    def _port_event(self, port: int, up: bool) -> None:
        for listener in self._port_listeners:
            listener(port, up)
        if self._next_port_event is not None:
            self._next_port_event(port, up)

    def _primaries(self, wants: Callable[[RoleState], bool]) -> list[Session]:
        return [
            role.primary
            for role in self.arbitration.roles()
            if role.primary is not None and wants(role)
        ]

    def _packet_in(self, frame: bytes) -> None:
        bound = self._pipelines.live
        if bound is None:
            self.lost_packet_ins += 1
            return
        try:
            packet = bound.codecs.packet_in.unpack(frame)
        except P4RuntimeError:
            self.lost_packet_ins += 1
            return
        sessions = self._primaries(lambda role: role.scope.wants_packet(packet.metadata))
        if not sessions:
            self.lost_packet_ins += 1
        for session in sessions:
            session.send(p4r.StreamMessageResponse(packet=packet))

    def _digest_list(self, digests: DigestList) -> None:
        bound = self._pipelines.live
        if bound is None:
            return
        stamp = self._stamp(digests.time_ps)
        message = bound.digest_handler.list_message(digests, stamp)
        for session in self._primaries(lambda role: role.scope.allows(digests.digest_id)):
            session.send(p4r.StreamMessageResponse(digest=message))

    def _idle(self, table: Table, entries: Sequence[TableEntry]) -> None:
        bound = self._pipelines.live
        if bound is None or table.p4info_id not in bound.tables:
            return
        handler = bound.table_handler
        message = p4r.IdleTimeoutNotification(
            table_entry=[handler.idle_message(table.p4info_id, e) for e in entries],
            timestamp=self._stamp(self.clock.now_ps),
        )
        for session in self._primaries(lambda role: role.scope.allows(table.p4info_id)):
            session.send(p4r.StreamMessageResponse(idle_timeout_notification=message))

    def _stamp(self, time_ps: int) -> int:
        return self.options.epoch_ns + time_ps // PS_PER_NS


def _election_id(
    request: p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest,
) -> p4r.Uint128 | None:
    return request.election_id if request.HasField("election_id") else None


def _find(
    bound: BoundPipeline,
    scope: RoleScope,
    requests: Sequence[p4r.Entity],
    errors: list[P4RuntimeError | None],
) -> Iterator[p4r.Entity]:
    """What the requests of a Read select; `errors` gets one element a request."""
    for wanted in requests:
        try:
            handler = _handler(bound, wanted)
            for entity in handler.read(wanted):
                if scope.allows(handler.object_id(entity)):
                    yield entity
            errors.append(None)
        except (P4RuntimeError, SwitchError) as error:
            errors.append(_as_p4runtime(error))


def _handler(bound: BoundPipeline, entity: p4r.Entity) -> EntityHandler:
    kind = entity.WhichOneof("entity")
    if kind is None:
        raise P4RuntimeError(Code.INVALID_ARGUMENT, "the entity is not set")
    return bound.handlers[kind]


def _refuse_other(request: p4r.StreamMessageRequest, role: RoleState) -> None:  # noqa: ARG001
    if request.WhichOneof("update") is None:
        raise P4RuntimeError(Code.INVALID_ARGUMENT, "the stream message has no content")
    raise P4RuntimeError(Code.UNIMPLEMENTED, "no architecture-specific messages are known")


def _as_p4runtime(error: P4RuntimeError | SwitchError) -> P4RuntimeError:
    if isinstance(error, P4RuntimeError):
        return error
    return P4RuntimeError(Code[error.code], str(error))
