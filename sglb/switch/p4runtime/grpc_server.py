"""The P4Runtime service on a socket: asyncio gRPC on the loop that drives the switch.

Every RPC runs on that loop, so that access to the switch is serialised without a lock. Errors of
single updates travel as a `google.rpc.Status` in the trailing metadata `grpc-status-details-bin`; a
client with large batches has to allow for it (`grpc.max_metadata_size` of 8192 + 100 bytes an update).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NoReturn, TypeVar

import grpc
import grpc.aio
from finsy.proto import p4r
from google.protobuf.message import DecodeError, Message

from sglb.switch.p4runtime.free_address import check_free
from sglb.switch.p4runtime.service import P4RuntimeService, Stream
from sglb.switch.p4runtime.status import Code, P4RuntimeError

_log = logging.getLogger(__name__)
_M = TypeVar("_M", bound=Message)

DETAILS_KEY = "grpc-status-details-bin"
_STATUS = {status.value[0]: status for status in grpc.StatusCode}

#: P4Info and device config come in one message.
MAX_RECEIVE_BYTES = 256 * 1024 * 1024


class _Outbox:
    """Messages for one client. When it is slow, further packet-ins, digests … are dropped.

    Arbitration messages are few and always kept.
    """

    def __init__(self, limit: int) -> None:
        self.dropped = 0
        self._limit = limit
        self._messages: deque[p4r.StreamMessageResponse] = deque()
        self._wake = asyncio.Event()
        self._closed = False

    def put(self, message: p4r.StreamMessageResponse) -> None:
        """Queues a message."""
        if len(self._messages) >= self._limit and not message.HasField("arbitration"):
            self.dropped += 1
            return
        self._messages.append(message)
        self._wake.set()

    def close(self) -> None:
        """No more messages will come."""
        self._closed = True
        self._wake.set()

    async def messages(self) -> AsyncIterator[p4r.StreamMessageResponse]:
        """What comes, until closed."""
        while True:
            while self._messages:
                yield self._messages.popleft()
            if self._closed:
                return
            self._wake.clear()
            await self._wake.wait()


class _Servicer:
    """RPC methods: each hands its message to the service and turns errors into statuses.

    Requests come as bytes, so that what is no message gets a status of ours, not a trace in the log.
    """

    def __init__(self, service: P4RuntimeService, outbox_limit: int) -> None:
        self._service = service
        self._outbox_limit = outbox_limit
        self._open: set[_Outbox] = set()
        self._ending = False

    def end_streams(self) -> None:
        """Ends all streams, with UNAVAILABLE: gRPC would cancel them, and write traces of that."""
        self._ending = True
        for outbox in self._open:
            outbox.close()

    def handlers(self) -> grpc.GenericRpcHandler:
        """What gRPC calls."""
        unary = {
            "Write": (p4r.WriteRequest, "write"),
            "SetForwardingPipelineConfig": (
                p4r.SetForwardingPipelineConfigRequest,
                "set_forwarding_pipeline_config",
            ),
            "GetForwardingPipelineConfig": (
                p4r.GetForwardingPipelineConfigRequest,
                "get_forwarding_pipeline_config",
            ),
            "Capabilities": (p4r.CapabilitiesRequest, "capabilities"),
        }
        methods = {
            name: grpc.unary_unary_rpc_method_handler(
                self._unary(kind, method), response_serializer=_serialized
            )
            for name, (kind, method) in unary.items()
        }
        methods["Read"] = grpc.unary_stream_rpc_method_handler(
            self.read, response_serializer=_serialized
        )
        methods["StreamChannel"] = grpc.stream_stream_rpc_method_handler(
            self.stream_channel, response_serializer=_serialized
        )
        return grpc.method_handlers_generic_handler("p4.v1.P4Runtime", methods)

    def _unary(self, kind: type[Message], name: str) -> Callable[[bytes, Any], Any]:
        """The method of an RPC with one request and one response."""

        async def method(data: bytes, context: Any) -> Any:
            try:
                return getattr(self._service, name)(_parsed(kind, data))
            except Exception as error:  # as in read
                await _abort(context, error)

        return method

    async def read(self, data: bytes, context: Any) -> AsyncIterator[p4r.ReadResponse]:
        """Read."""
        try:
            for response in self._service.read(_parsed(p4r.ReadRequest, data)):
                yield response
        except Exception as error:  # errors of the request and bugs of ours become a status
            await _abort(context, error)

    async def stream_channel(
        self, requests: AsyncIterator[bytes], context: Any
    ) -> AsyncIterator[p4r.StreamMessageResponse]:
        """StreamChannel."""
        outbox = _Outbox(self._outbox_limit)
        self._open.add(outbox)
        stream = self._service.open_stream(outbox.put)
        reader = asyncio.ensure_future(_receive_all(stream, requests, outbox))
        try:
            async for message in outbox.messages():
                yield message
            if self._ending:
                raise P4RuntimeError(Code.UNAVAILABLE, "the switch ends")
            await reader
        except Exception as error:  # as in read
            await _abort(context, error)
        finally:
            reader.cancel()
            stream.close()
            self._open.discard(outbox)
            if outbox.dropped:
                _log.warning("a slow client missed %d stream messages", outbox.dropped)


def _parsed(kind: type[_M], data: bytes) -> _M:
    """The message in a request's bytes; INVALID_ARGUMENT when there is none."""
    message: _M = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise P4RuntimeError(
            Code.INVALID_ARGUMENT, f"{len(data)} bytes that are no {kind.DESCRIPTOR.full_name}"
        ) from error
    return message


def _serialized(message: Message) -> bytes:
    data: bytes = message.SerializeToString()
    return data


async def _receive_all(stream: Stream, requests: AsyncIterator[bytes], outbox: _Outbox) -> None:
    """Hands a client's messages to its stream; ends with the error that ends the stream."""
    try:
        async for data in requests:
            stream.receive(_parsed(p4r.StreamMessageRequest, data))
    finally:
        outbox.close()


async def _abort(context: Any, error: Exception) -> NoReturn:
    """Ends the RPC with the error's status. Raises, as gRPC wants."""
    if not isinstance(error, P4RuntimeError):
        _log.error("an RPC failed", exc_info=error)
        text = f"internal error: {type(error).__name__}: {error}"
        error = P4RuntimeError(Code.INTERNAL, text)
    metadata: tuple[tuple[str, bytes], ...] = ()
    if error.details:
        metadata = ((DETAILS_KEY, error.to_status().SerializeToString()),)
    await context.abort(_STATUS[error.code], error.message, metadata)
    raise AssertionError("abort returned")


class GrpcServer:
    """Serves one service on `address` ("host:port", port 0 picks a free one).

    Start and stop it on the loop that drives the switch. `credentials` makes it serve TLS.
    `outbox_limit` bounds the stream messages that wait for one slow client; more are dropped.
    `beside` add other services to the server.
    """

    def __init__(
        self,
        service: P4RuntimeService,
        address: str,
        *,
        credentials: grpc.ServerCredentials | None = None,
        outbox_limit: int = 10_000,
        beside: Sequence[Callable[[grpc.aio.Server], None]] = (),
    ) -> None:
        self._beside = beside
        self.address = address
        self.port = 0
        self._service = service
        self._credentials = credentials
        self._outbox_limit = outbox_limit
        self._server: grpc.aio.Server | None = None
        self._servicer: _Servicer | None = None

    async def start(self) -> None:
        """Binds and serves; `port` is the port then. Raises OSError when the address cannot be had."""
        check_free(self.address)
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
                ("grpc.so_reuseport", 0),
            ]
        )
        servicer = _Servicer(self._service, self._outbox_limit)
        server.add_generic_rpc_handlers((servicer.handlers(),))
        for add in self._beside:
            add(server)
        try:
            if self._credentials is None:
                self.port = server.add_insecure_port(self.address)
            else:
                self.port = server.add_secure_port(self.address, self._credentials)
        except RuntimeError as error:
            raise OSError(f"cannot serve P4Runtime on {self.address}: {error}") from error
        await server.start()
        self._server, self._servicer = server, servicer

    async def stop(self, grace_s: float = 0.5) -> None:
        """Ends running RPCs, after `grace_s` by force, and frees the address."""
        if self._server is not None and self._servicer is not None:
            server, self._server = self._server, None
            self._servicer.end_streams()
            await server.stop(grace_s)
