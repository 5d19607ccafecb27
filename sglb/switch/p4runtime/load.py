"""A program and its entries into a P4Runtime switch at an address, in one short session."""

from __future__ import annotations

import queue
from collections.abc import Sequence

import grpc
from finsy.proto import U128, p4i, p4r, p4r_grpc, rpc_status
from google.protobuf.message import DecodeError

from sglb.switch.p4runtime.grpc_server import DETAILS_KEY
from sglb.switch.p4runtime.status import Code, P4RuntimeError

#: Updates in a request: the errors of all of them fit into the trailing metadata that gRPC takes.
_BATCH = 500
_ROOM_BYTES = 8192 + 200 * _BATCH


def load(
    address: str,
    device_id: int,
    p4info: p4i.P4Info,
    device_config: bytes,
    updates: Sequence[p4r.Update],
    *,
    election_id: int = 1,
    timeout_s: float = 30.0,
) -> None:
    """Becomes primary, sets the pipeline (VERIFY_AND_COMMIT), writes the updates and leaves.

    `timeout_s` is for each step, connecting included. Raises `P4RuntimeError` whose text names the
    address, and each update that failed.
    """
    options = [("grpc.max_metadata_size", _ROOM_BYTES)]
    with grpc.insecure_channel(address, options) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout_s)
        except grpc.FutureTimeoutError:
            message = f"{address}: nobody answers within {timeout_s:g} s"
            raise P4RuntimeError(Code.UNAVAILABLE, message) from None
        session = _Session(channel, address, device_id, election_id, timeout_s)
        with session:
            session.set_pipeline(p4info, device_config)
            for first in range(0, len(updates), _BATCH):
                session.write(updates[first : first + _BATCH])


class _Session:
    """A stream as primary, and requests beside it."""

    def __init__(
        self,
        channel: grpc.Channel,
        address: str,
        device_id: int,
        election_id: int,
        timeout_s: float,
    ) -> None:
        self._stub = p4r_grpc.P4RuntimeStub(channel)
        self._address = address
        self._device_id = device_id
        self._election_id = U128.encode(election_id)
        self._timeout_s = timeout_s
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()

    def __enter__(self) -> None:
        self._stream = self._stub.StreamChannel(iter(self._requests.get, None))
        arbitration = p4r.MasterArbitrationUpdate(
            device_id=self._device_id, election_id=self._election_id
        )
        self._requests.put(p4r.StreamMessageRequest(arbitration=arbitration))
        try:
            answer = next(m.arbitration for m in self._stream if m.HasField("arbitration"))
        except grpc.RpcError as error:
            raise self._explained(error, "asking to be primary", ()) from None
        if answer.status.code != Code.OK:
            other = U128.decode(answer.election_id)
            raise P4RuntimeError(
                Code.PERMISSION_DENIED,
                f"{self._address}: another controller is primary (election id {other})",
            )

    def __exit__(self, *_: object) -> None:
        self._requests.put(None)
        self._stream.cancel()

    def set_pipeline(self, p4info: p4i.P4Info, device_config: bytes) -> None:
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self._device_id,
            election_id=self._election_id,
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        )
        request.config.p4info.CopyFrom(p4info)
        request.config.p4_device_config = device_config
        try:
            self._stub.SetForwardingPipelineConfig(request, timeout=self._timeout_s)
        except grpc.RpcError as error:
            raise self._explained(error, "setting the pipeline", ()) from None

    def write(self, updates: Sequence[p4r.Update]) -> None:
        request = p4r.WriteRequest(
            device_id=self._device_id, election_id=self._election_id, updates=updates
        )
        try:
            self._stub.Write(request, timeout=self._timeout_s)
        except grpc.RpcError as error:
            raise self._explained(error, "writing entries", updates) from None

    def _explained(
        self, error: grpc.RpcError, doing: str, updates: Sequence[p4r.Update]
    ) -> P4RuntimeError:
        lines = [f"{self._address}: {doing}: {error.details()}"]
        details = _details(error)
        for n, (update, detail) in enumerate(zip(updates, details, strict=False)):
            if detail.canonical_code:
                what = f"{p4r.Update.Type.Name(update.type)} {update.entity.WhichOneof('entity')}"
                code = Code(detail.canonical_code).name
                lines.append(f"update {n}, {what}: {code}: {detail.message}")
        return P4RuntimeError(Code(error.code().value[0]), "\n  ".join(lines))


def _details(error: grpc.RpcError) -> list[p4r.Error]:
    """The error of each update, of the trailing metadata; none where they make no sense."""
    found = dict(error.trailing_metadata() or ()).get(DETAILS_KEY)
    if not isinstance(found, bytes):
        return []
    try:
        status = rpc_status.Status.FromString(found)
        made = []
        for packed in status.details:
            one = p4r.Error()
            packed.Unpack(one)
            made.append(one)
        return made
    except DecodeError:
        return []
