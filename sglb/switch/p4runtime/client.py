"""A P4Runtime client in the same process, for controllers and agents in virtual time.

It speaks to `P4RuntimeService` without a socket and takes finsy's entities (`finsy.P4TableEntry` …),
which it encodes and decodes with finsy's `P4Schema`. Requests take no time; what the switch sends comes
in events of its own, `delay_ps` later, never in the middle of a packet's processing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from finsy import (
    P4DigestList,
    P4PacketIn,
    P4RuntimeVersion,
    P4Schema,
)
from finsy.p4entity import (
    P4IdleTimeoutNotification,
    P4PacketOut,
    decode_entity,
    encode_entities,
    encode_updates,
)
from finsy.proto import U128, p4i, p4r

from sglb.switch.p4runtime.service import API_VERSION, P4RuntimeService
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.p4runtime.values import encode_bits

Atomicity = p4r.WriteRequest.Atomicity


class ClientError(P4RuntimeError):
    """A write that failed; the message names the switch and each failed update."""

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


@lru_cache(maxsize=8)
def _schema(p4info: bytes) -> P4Schema:
    """The schema of a P4Info; the clients of a fabric's switches share it."""
    schema = P4Schema(p4i.P4Info.FromString(p4info))
    schema.set_p4runtime_version(P4RuntimeVersion.parse(API_VERSION))
    return schema


class InProcessClient:
    """One controller session. Opens a stream and asks to be primary with `election_id`.

    `is_primary` tells whether it is. `delay_ps` is how long a message from the switch takes. When the
    switch was down and is back, the client has opened another stream and asked again; in between, all
    it does raises UNAVAILABLE. Raises `P4RuntimeError` when the service refuses the session.
    """

    def __init__(
        self,
        service: P4RuntimeService,
        election_id: int = 1,
        *,
        role: p4r.Role | None = None,
        delay_ps: int = 0,
    ) -> None:
        self.service = service
        self.election_id = election_id
        self.is_primary = False
        self.primary_id: int | None = None
        self._role = role
        self._delay_ps = delay_ps
        self._schema: P4Schema | None = None
        self._packet_in: Callable[[P4PacketIn], None] | None = None
        self._wanted: dict[int, bytes] = {}
        self._digest: Callable[[P4DigestList], None] | None = None
        self._idle: Callable[[P4IdleTimeoutNotification], None] | None = None
        self._error: Callable[[p4r.StreamError], None] | None = None
        self._arbitration: Callable[[bool], None] | None = None
        self._vacant: Callable[[], None] | None = None
        self._open = True
        self._stream = service.open_stream(self._received)
        self.ask_primary(election_id)
        service.on_power(self._power)

    # --- session ----------------------------------------------------------------------------------

    def ask_primary(self, election_id: int) -> None:
        """Sends a MasterArbitrationUpdate with this election id."""
        self.election_id = election_id
        update = p4r.MasterArbitrationUpdate(
            device_id=self.service.device_id, election_id=U128.encode(election_id), role=self._role
        )
        self._stream.receive(p4r.StreamMessageRequest(arbitration=update))

    def close(self) -> None:
        """Ends the session."""
        self._open = False
        self.is_primary = False
        self._stream.close()

    def _power(self, on: bool) -> None:
        self.is_primary = False  # on the stream that was
        if on and self._open:
            self._stream = self.service.open_stream(self._received)
            self.ask_primary(self.election_id)

    def on_primary(self, callback: Callable[[bool], None]) -> None:
        """`callback(is_primary)` is called when the session gains or loses that."""
        self._arbitration = callback

    def on_vacant(self, callback: Callable[[], None]) -> None:
        """`callback()` is called when the switch tells that nobody is primary any more."""
        self._vacant = callback

    # --- pipeline ---------------------------------------------------------------------------------

    @property
    def schema(self) -> P4Schema:
        """The schema of the device's P4Info. Raises FAILED_PRECONDITION when it has none."""
        if self._schema is None:
            self._schema = self._fetch_schema()
        return self._schema

    def has_program(self) -> bool:
        """Whether the switch runs a program, as it says now. Raises `P4RuntimeError`."""
        try:
            self._schema = self._fetch_schema()
        except P4RuntimeError as error:
            if error.code is not Code.FAILED_PRECONDITION:
                raise
            return False
        return True

    def _fetch_schema(self) -> P4Schema:
        request = p4r.GetForwardingPipelineConfigRequest(
            device_id=self.service.device_id,
            response_type=p4r.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE,
        )
        response = self.service.get_forwarding_pipeline_config(request)
        if not response.HasField("config"):
            raise P4RuntimeError(
                Code.FAILED_PRECONDITION,
                f"switch {self.service.switch.name} has no program: set_pipeline first",
            )
        return _schema(response.config.p4info.SerializeToString(deterministic=True))

    def set_pipeline(
        self,
        p4info: p4i.P4Info,
        program: str = "",
        *,
        cookie: int | None = None,
        action: int = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
    ) -> None:
        """SetForwardingPipelineConfig with the text of a program (empty: the one that runs)."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.service.device_id,
            role=self._role_name,
            election_id=U128.encode(self.election_id),
        )
        request.action = p4r.SetForwardingPipelineConfigRequest.Action.ValueType(action)
        request.config.p4info.CopyFrom(p4info)
        request.config.p4_device_config = program.encode()
        if cookie is not None:
            request.config.cookie.cookie = cookie
        self.service.set_forwarding_pipeline_config(request)
        self._schema = None

    # --- entities ---------------------------------------------------------------------------------

    def write(
        self, updates: Any, *, atomicity: Atomicity.ValueType = Atomicity.CONTINUE_ON_ERROR
    ) -> None:
        """Writes finsy updates (`+entry`, `~entry`, `-entry`), protobuf updates or nested lists.

        Packet-outs and digest acknowledgements among them go to the stream first. Raises
        `P4RuntimeError` whose text names each failed update.
        """
        batch: list[p4r.Update] = []
        for message in encode_updates(updates, self.schema):
            if isinstance(message, p4r.StreamMessageRequest):
                self._stream.receive(message)
            else:
                batch.append(message)
        self._write(batch, atomicity)

    def insert(self, entities: Any) -> None:
        """Inserts entities; raises as `write`."""
        self._write_as(p4r.Update.INSERT, entities)

    def modify(self, entities: Any) -> None:
        """Modifies entities; raises as `write`."""
        self._write_as(p4r.Update.MODIFY, entities)

    def delete(self, entities: Any) -> None:
        """Deletes entities; raises as `write`."""
        self._write_as(p4r.Update.DELETE, entities)

    def _write_as(self, update: p4r.Update.Type.ValueType, entities: Any) -> None:
        wanted = entities if isinstance(entities, Iterable) else [entities]
        batch = [p4r.Update(type=update, entity=e) for e in encode_entities(wanted, self.schema)]
        self._write(batch, Atomicity.CONTINUE_ON_ERROR)

    def _write(self, batch: Sequence[p4r.Update], atomicity: Atomicity.ValueType) -> None:
        if not batch:
            return
        request = p4r.WriteRequest(
            device_id=self.service.device_id,
            role=self._role_name,
            election_id=U128.encode(self.election_id),
            updates=batch,
            atomicity=atomicity,
        )
        try:
            self.service.write(request)
        except P4RuntimeError as error:
            raise self._explained(error, batch) from error

    def _explained(self, error: P4RuntimeError, batch: Sequence[p4r.Update]) -> P4RuntimeError:
        """The error with a text that says which updates failed, and on which switch."""
        lines = [f"switch {self.service.switch.name}: {error.message}"]
        for i, (update, detail) in enumerate(zip(batch, error.details, strict=False)):
            if detail.canonical_code:
                what = f"{p4r.Update.Type.Name(update.type)} {update.entity.WhichOneof('entity')}"
                lines.append(
                    f"update {i}, {what}: {Code(detail.canonical_code).name}: {detail.message}"
                )
        return ClientError(error.code, "\n  ".join(lines), error.details)

    def read(self, entities: Any) -> list[Any]:
        """Reads what finsy entities (or protobuf ones) select, as finsy entities.

        Raises `P4RuntimeError`; entities that other requests of the batch found are lost then.
        """
        return [decode_entity(entity, self.schema) for entity in self.read_messages(entities)]

    def read_messages(self, entities: Any) -> list[p4r.Entity]:
        """As `read`, as protobuf messages."""
        wanted = entities if isinstance(entities, Iterable) else [entities]
        request = p4r.ReadRequest(
            device_id=self.service.device_id,
            role=self._role_name,
            entities=encode_entities(wanted, self.schema),
        )
        return [entity for response in self.service.read(request) for entity in response.entities]

    # --- stream -----------------------------------------------------------------------------------

    def packet_out(self, payload: bytes, **metadata: Any) -> None:
        """Sends a packet with the metadata of the program's packet_out header.

        Raises ValueError for missing or unknown metadata. What the switch refuses comes as a stream
        error.
        """
        if "packet_out" in {c.name for c in self.schema.controller_packet_metadata}:
            message = P4PacketOut(payload, **metadata).encode_update(self.schema)
        elif metadata:
            raise ValueError(f"the program has no packet_out header for {', '.join(metadata)}")
        else:
            message = p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=payload))
        self._stream.receive(message)

    def on_packet_in(self, callback: Callable[[P4PacketIn], None], **wanted: int) -> None:
        """`callback(packet)` is called with each packet-in, or those whose metadata are as `wanted`.

        Raises ValueError for metadata that the program's packet_in header does not have.
        """
        ids = {
            field.name: field.id
            for header in self.schema.p4info.controller_packet_metadata
            if header.preamble.name == "packet_in"
            for field in header.metadata
        }
        if unknown := wanted.keys() - ids.keys():
            raise ValueError(f"the program's packet_in header has no {', '.join(sorted(unknown))}")
        self._wanted = {ids[name]: encode_bits(value) for name, value in wanted.items()}
        self._packet_in = callback

    def on_digest(self, callback: Callable[[P4DigestList], None]) -> None:
        """`callback(digests)` is called with each digest list; write `digests.ack()` in return."""
        self._digest = callback

    def on_idle(self, callback: Callable[[P4IdleTimeoutNotification], None]) -> None:
        """`callback(notification)` is called for idle entries."""
        self._idle = callback

    def on_error(self, callback: Callable[[p4r.StreamError], None]) -> None:
        """`callback(error)` is called for stream messages that the switch refused.

        Without it such an error is raised in the event that brings it.
        """
        self._error = callback

    # --- inside -----------------------------------------------------------------------------------

    @property
    def _role_name(self) -> str:
        return "" if self._role is None else self._role.name

    def _received(self, message: p4r.StreamMessageResponse) -> None:
        kind = message.WhichOneof("update")
        if kind == "arbitration":
            self._arbitrated(message.arbitration)
        elif kind != "packet" or not self._wanted or self._is_wanted(message.packet):
            self.service.clock.call_later(self._delay_ps, self._deliver, message)

    def _is_wanted(self, packet: p4r.PacketIn) -> bool:
        wanted = self._wanted
        return all(wanted.get(m.metadata_id, m.value) == m.value for m in packet.metadata)

    def _arbitrated(self, update: p4r.MasterArbitrationUpdate) -> None:
        was_primary = self.is_primary
        self.is_primary = update.status.code == Code.OK
        if update.HasField("election_id"):
            self.primary_id = U128.decode(update.election_id)
        if self.is_primary != was_primary and self._arbitration is not None:
            self.service.clock.call_later(self._delay_ps, self._arbitration, self.is_primary)
        if update.status.code == Code.NOT_FOUND and self._vacant is not None:
            self.service.clock.call_later(self._delay_ps, self._vacant)

    def _deliver(self, message: p4r.StreamMessageResponse) -> None:
        if not self._open:
            return
        match message.WhichOneof("update"):
            case "packet" if self._packet_in is not None:
                self._packet_in(P4PacketIn.decode(message, self.schema))
            case "digest" if self._digest is not None:
                self._digest(P4DigestList.decode(message, self.schema))
            case "idle_timeout_notification" if self._idle is not None:
                self._idle(P4IdleTimeoutNotification.decode(message, self.schema))
            case "error":
                self._failed(message.error)

    def _failed(self, error: p4r.StreamError) -> None:
        if self._error is None:
            raise P4RuntimeError(
                Code(error.canonical_code),
                f"switch {self.service.switch.name} refused a {error.WhichOneof('details')}: "
                f"{error.message}",
            )
        self._error(error)
