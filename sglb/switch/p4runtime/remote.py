"""A switch in another process with the face of `P4RuntimeService`: a stand-in for clients in process.

`InProcessClient`, and with it the fabric's controller and agents, work on this as they work on the
service itself. Reads and writes block the loop until they are answered; streams and port states
(gNMI) arrive on it. A switch that goes away and comes back does what `P4RuntimeService.power` says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import grpc
import grpc.aio
from finsy.proto import gnmi, gnmi_grpc, p4r, p4r_grpc, rpc_status
from google.protobuf.message import DecodeError

from sglb.switch.clock import Scheduler
from sglb.switch.p4runtime.grpc_server import DETAILS_KEY, MAX_RECEIVE_BYTES
from sglb.switch.p4runtime.status import Code, P4RuntimeError, details_of

_log = logging.getLogger(__name__)

Send = Callable[[p4r.StreamMessageResponse], None]

_AGAIN_S: Final = 0.05
_RPC_S: Final = 20.0
_OPTIONS: Final = (
    ("grpc.max_metadata_size", 4 << 20),
    ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.use_local_subchannel_pool", 1),
)


class PortSource(Protocol):
    """Who knows which ports of a switch are up, beside gNMI."""

    def states(self) -> dict[int, bool]:
        """By port, now."""

    def listen(self, callback: Callable[[int, bool], None]) -> None:
        """Calls back, on the loop, with each change; in place of who listened before."""


@dataclass(frozen=True, slots=True)
class RemoteSwitch:
    """What clients ask of `service.switch`."""

    name: str


_T = TypeVar("_T")


class _Outbox(AsyncIterator[_T]):
    """What a call sends, until None.

    No generator: one that a call which broke still waits for can't be closed, and says so to the loop.
    """

    def __init__(self, *first: _T) -> None:
        self._queue: asyncio.Queue[_T | None] = asyncio.Queue()
        for message in first:
            self.put(message)

    def put(self, message: _T | None) -> None:
        self._queue.put_nowait(message)

    async def __anext__(self) -> _T:
        message = await self._queue.get()
        if message is None:
            raise StopAsyncIteration
        return message


class RemoteStream:
    """A StreamChannel; what is sent leaves in order, what comes is handed over on the loop.

    While the switch is away there is nothing to open, and nothing is sent: one that were opened just
    before the switch is there would hold the election id of the one that follows it.
    """

    def __init__(self, service: RemoteService, send: Send) -> None:
        self._service = service
        self._deliver = send
        self._out: _Outbox[p4r.StreamMessageRequest] = _Outbox()
        self._task = asyncio.get_running_loop().create_task(self._run()) if service.up else None

    def receive(self, request: p4r.StreamMessageRequest) -> None:
        """Sends a message to the switch."""
        self._out.put(request)

    def close(self) -> None:
        """Ends the stream in good order."""
        self._out.put(None)

    def break_off(self) -> None:
        """Ends the stream now."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            async for message in self._service.stub.StreamChannel(self._out):
                self._deliver(message)
        except grpc.aio.AioRpcError as error:
            _log.info("stream to %s ended: %s", self._service.switch.name, error.details())
            self._service.lost()
        finally:
            self._out.put(None)  # a call that broke goes on waiting for what to send


class RemoteService:
    """See the module. `run` must run beside whoever uses it; nothing works before `ready` is set.

    `address` is what gRPC takes ("unix:PATH", "host:port"). `ports` tells of ports where there is no
    gNMI to ask.
    """

    def __init__(
        self,
        name: str,
        device_id: int,
        address: str,
        clock: Scheduler,
        ports: PortSource | None = None,
    ) -> None:
        self.switch = RemoteSwitch(name)
        self.device_id = device_id
        self.clock = clock
        self.ready = asyncio.Event()
        self._source = ports
        self._up = False
        self._ports: dict[int, bool] = {}
        self._numbers: dict[str, int] = {}
        self._power_listeners: list[Callable[[bool], None]] = []
        self._port_listeners: list[Callable[[int, bool], None]] = []
        self._streams: list[RemoteStream] = []
        self._lost = asyncio.Event()
        self._channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        self.stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._blocking = grpc.insecure_channel(address, options=_OPTIONS)
        self._calls = p4r_grpc.P4RuntimeStub(self._blocking)

    # --- the connection ---------------------------------------------------------------------------

    async def run(self) -> None:
        """Keeps in touch until it is cancelled."""
        try:
            while True:
                try:
                    await self._watch()
                except grpc.aio.AioRpcError as error:
                    _log.debug("%s: %s", self.switch.name, error.details())
                self._power(False)
                await asyncio.sleep(_AGAIN_S)
        finally:
            for stream in self._streams:
                stream.break_off()
            await self._channel.close()
            self._blocking.close()

    def lost(self) -> None:
        """A stream broke: the switch is gone, or has thrown everybody out."""
        self._lost.set()

    async def _watch(self) -> None:
        """From the first port states on until the connection ends."""
        await self._channel.channel_ready()
        self._lost.clear()
        if self._source is not None:
            self._ports = self._source.states()
            self._source.listen(self._changed)
            self._power(True)
            await self._lost.wait()
            return
        states = asyncio.ensure_future(self._port_states())
        lost = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait((states, lost), return_when=asyncio.FIRST_COMPLETED)
            if states.done():
                states.result()
        finally:
            states.cancel()
            lost.cancel()
            with suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
                await states

    async def _port_states(self) -> None:
        path = gnmi.Path(
            elem=[
                gnmi.PathElem(name="interfaces"),
                gnmi.PathElem(name="interface", key={"name": "*"}),
                gnmi.PathElem(name="state"),
            ]
        )
        wanted = gnmi.SubscribeRequest(
            subscribe=gnmi.SubscriptionList(
                mode=gnmi.SubscriptionList.STREAM,
                subscription=[gnmi.Subscription(path=path, mode=gnmi.ON_CHANGE)],
            )
        )

        requests = _Outbox(wanted)
        try:
            async for response in gnmi_grpc.gNMIStub(self._channel).Subscribe(requests):
                if response.sync_response:
                    self._power(True)
                else:
                    self._take(response.update)
        finally:
            requests.put(None)

    def _take(self, news: gnmi.Notification) -> None:
        for update in news.update:
            elements = [*news.prefix.elem, *update.path.elem]
            name = next((e.key["name"] for e in elements if "name" in e.key), "")
            match elements[-1].name:
                case "ifindex":
                    self._numbers[name] = update.val.uint_val
                case "oper-status":
                    self._port(name, update.val.string_val == "UP")

    def _port(self, name: str, up: bool) -> None:
        # The number comes in the same notification, after it or before.
        number = self._numbers.get(name)
        if number is None:
            return
        self._changed(number, up)

    def _changed(self, number: int, up: bool) -> None:
        changed = self._ports.get(number) != up
        self._ports[number] = up
        if changed and self._up:
            for listener in tuple(self._port_listeners):
                listener(number, up)

    def _power(self, on: bool) -> None:
        if on == self._up:
            return
        self._up = on
        # Those that were opened before there was a switch go as well: listeners open others.
        for stream in self._streams:
            stream.break_off()
        self._streams.clear()
        if on:
            self.ready.set()
        else:
            self._ports.clear()
        for listener in tuple(self._power_listeners):
            listener(on)

    def on_power(self, callback: Callable[[bool], None]) -> None:
        """`callback(on)` is called when the switch goes away or is back."""
        self._power_listeners.append(callback)

    @property
    def up(self) -> bool:
        """Whether there is a connection."""
        return self._up

    # --- as `P4RuntimeService` --------------------------------------------------------------------

    def open_stream(self, send: Send) -> RemoteStream:
        """Opens a StreamChannel; while the switch is away, one that stays silent."""
        stream = RemoteStream(self, send)
        self._streams.append(stream)
        return stream

    def on_port_state(self, callback: Callable[[int, bool], None]) -> None:
        """`callback(port, up)` is called when the switch tells that a port changed."""
        self._port_listeners.append(callback)

    def port_states(self) -> dict[int, bool]:
        """Which ports are up, as the switch said last."""
        return dict(sorted(self._ports.items()))

    def get_forwarding_pipeline_config(
        self, request: p4r.GetForwardingPipelineConfigRequest
    ) -> p4r.GetForwardingPipelineConfigResponse:
        """The RPC. Raises `P4RuntimeError`, as the others."""
        found = self._call(self._calls.GetForwardingPipelineConfig, request)
        assert isinstance(found, p4r.GetForwardingPipelineConfigResponse)
        return found

    def set_forwarding_pipeline_config(
        self, request: p4r.SetForwardingPipelineConfigRequest
    ) -> p4r.SetForwardingPipelineConfigResponse:
        """The RPC."""
        found = self._call(self._calls.SetForwardingPipelineConfig, request)
        assert isinstance(found, p4r.SetForwardingPipelineConfigResponse)
        return found

    def write(self, request: p4r.WriteRequest) -> p4r.WriteResponse:
        """The RPC."""
        found = self._call(self._calls.Write, request)
        assert isinstance(found, p4r.WriteResponse)
        return found

    def read(self, request: p4r.ReadRequest) -> Iterator[p4r.ReadResponse]:
        """The RPC."""
        self._check_up()
        try:
            yield from self._calls.Read(request, timeout=_RPC_S)
        except grpc.RpcError as error:
            raise _as_p4runtime(error) from error

    def _call(self, call: Callable[..., Any], request: Any) -> Any:
        self._check_up()
        try:
            return call(request, timeout=_RPC_S)
        except grpc.RpcError as error:
            raise _as_p4runtime(error) from error

    def _check_up(self) -> None:
        if not self._up:
            text = f"device {self.device_id} ({self.switch.name}) is not there"
            raise P4RuntimeError(Code.UNAVAILABLE, text)


def _as_p4runtime(error: Any) -> P4RuntimeError:
    details = []
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY:
            with suppress(DecodeError, ValueError):
                details = details_of(rpc_status.Status.FromString(value))
    return P4RuntimeError(Code(error.code().value[0]), error.details() or "", details)
