"""Port state over gNMI: `/interfaces/interface[name=X]/state/{name,ifindex,oper-status}` (OpenConfig).

What controllers ask BMv2 and Stratum for. `ifindex` is the P4 port number, `oper-status` UP or DOWN as
the switch knows it. Get and Subscribe (ONCE, POLL; STREAM on change or by sample) take wildcards (`*`,
`...`, a list without its key) and prefixes. Set changes the buffer of a switch that has one
(`gnmi_buffers`), nothing else. Specification: gNMI 0.10.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import grpc
import grpc.aio
from finsy.proto import gnmi, gnmi_grpc

from sglb.switch.errors import ConfigError

_VERSION: Final = "0.10.0"
_MODEL: Final = gnmi.ModelData(
    name="openconfig-interfaces", organization="OpenConfig working group", version="2.4.3"
)
_LEAVES: Final = ("name", "ifindex", "oper-status")
_LEAST_SAMPLE_S: Final = 0.1
_LIMIT: Final = 10_000  #: changes that wait for a slow client

Elem = tuple[str, Mapping[str, str]]
Leaf = tuple[tuple[Elem, ...], gnmi.TypedValue]


class PortStates:
    """What there is to see of ports: their names by number, and whether they are up.

    Call `changed` for a port whose state is another now, on the server's loop.
    """

    def __init__(self, names: Mapping[int, str], up: Callable[[int], bool]) -> None:
        self._names = names
        self._up = up
        self._listeners: list[asyncio.Queue[int | None]] = []

    def leaves(self, ports: Iterable[int] | None = None) -> Iterator[Leaf]:
        """All leaves of some ports, or of all."""
        for number in sorted(self._names) if ports is None else ports:
            name = self._names[number]
            values = (
                gnmi.TypedValue(string_val=name),
                gnmi.TypedValue(uint_val=number),
                gnmi.TypedValue(string_val="UP" if self._up(number) else "DOWN"),
            )
            head: tuple[Elem, ...] = (("interfaces", {}), ("interface", {"name": name}))
            for leaf, value in zip(_LEAVES, values, strict=True):
                yield (*head, ("state", {}), (leaf, {})), value

    def changed(self, number: int) -> None:
        """Tells those who have subscribed."""
        if number in self._names:
            for queue in self._listeners:
                if queue.qsize() < _LIMIT:
                    queue.put_nowait(number)

    def listen(self) -> asyncio.Queue[int | None]:
        """A queue of the numbers of ports that change, until `ignore`."""
        queue: asyncio.Queue[int | None] = asyncio.Queue()
        self._listeners.append(queue)
        return queue

    def ignore(self, queue: asyncio.Queue[int | None]) -> None:
        """Ends what `listen` began."""
        self._listeners.remove(queue)


def matches(pattern: Sequence[Elem], path: Sequence[Elem]) -> bool:
    """Whether a path lies at or below one with wildcards."""
    if not pattern:
        return True
    (name, keys), rest = pattern[0], pattern[1:]
    if name == "...":
        return any(matches(rest, path[i:]) for i in range(len(path) + 1))
    if not path or name not in ("*", path[0][0]):
        return False
    known = path[0][1]
    if any(k not in known or v not in ("*", known[k]) for k, v in keys.items()):
        return False
    return matches(rest, path[1:])


def elements(prefix: gnmi.Path, path: gnmi.Path) -> tuple[Elem, ...]:
    """A request's path; a YANG module's name before the first element is left out."""
    found = [(e.name, dict(e.key)) for e in (*prefix.elem, *path.elem)]
    return tuple((name.rpartition(":")[2], keys) for name, keys in found)


class Settable(Protocol):
    """What Set reaches."""

    def leaves(self) -> Iterator[Leaf]:
        """All leaves, `config` and `state`."""

    def set(self, wanted: Sequence[tuple[tuple[Elem, ...], gnmi.TypedValue]]) -> None:
        """Sets leaves, all or none. Raises `ConfigError`."""


class _Servicer(gnmi_grpc.gNMIServicer):
    """The RPCs."""

    def __init__(self, states: PortStates, buffers: Settable | None) -> None:
        self._states = states
        self._buffers = buffers

    def _leaves(self, kind: int) -> list[Leaf]:
        """What there is of a kind of data (`GetRequest.DataType`)."""
        buffers = [] if self._buffers is None else list(self._buffers.leaves())
        if kind == gnmi.GetRequest.CONFIG:
            return [leaf for leaf in buffers if ("config", {}) in leaf[0]]
        found = [*self._states.leaves(), *buffers]
        if kind == gnmi.GetRequest.ALL:
            return found
        return [leaf for leaf in found if ("config", {}) not in leaf[0]]

    async def Capabilities(  # noqa: N802
        self,
        request: gnmi.CapabilityRequest,  # noqa: ARG002
        context: Any,  # noqa: ARG002
    ) -> gnmi.CapabilityResponse:
        return gnmi.CapabilityResponse(
            supported_models=[_MODEL],
            supported_encodings=[gnmi.Encoding.PROTO],
            gNMI_version=_VERSION,
        )

    async def Get(self, request: gnmi.GetRequest, context: Any) -> gnmi.GetResponse:  # noqa: N802
        patterns = [elements(request.prefix, path) for path in request.path]
        leaves = self._leaves(request.type)
        notifications = []
        for pattern in patterns:
            found = [leaf for leaf in leaves if matches(pattern, leaf[0])]
            if not found:
                if request.type == gnmi.GetRequest.CONFIG and self._buffers is None:
                    continue  # there is no configuration at all
                text = f"there is nothing at {_text(pattern)}"
                await context.abort(grpc.StatusCode.NOT_FOUND, text)
            notifications.append(_notification(found))
        return gnmi.GetResponse(notification=notifications)

    async def Set(self, request: gnmi.SetRequest, context: Any) -> gnmi.SetResponse:  # noqa: N802
        if self._buffers is None:
            text = "port state can only be read, and this switch has no buffer that could be set"
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, text)
            raise AssertionError("abort returned")
        if request.delete or request.replace or request.union_replace:
            text = "values can be updated, not deleted or replaced"
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, text)
        wanted = [(elements(request.prefix, one.path), one.val) for one in request.update]
        try:
            self._buffers.set(wanted)
        except ConfigError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return gnmi.SetResponse(
            prefix=request.prefix,
            timestamp=time.time_ns(),
            response=[
                gnmi.UpdateResult(path=one.path, op=gnmi.UpdateResult.UPDATE)
                for one in request.update
            ],
        )

    async def Subscribe(  # noqa: N802
        self, requests: AsyncIterator[gnmi.SubscribeRequest], context: Any
    ) -> AsyncIterator[gnmi.SubscribeResponse]:
        first = await anext(requests, None)
        if first is None:
            return
        if not first.HasField("subscribe"):
            text = "the first message of a subscription must be a SubscriptionList"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        wanted = first.subscribe
        patterns = [elements(wanted.prefix, one.path) for one in wanted.subscription]
        if wanted.mode == gnmi.SubscriptionList.STREAM:
            async for response in self._stream(wanted, patterns):
                yield response
            return
        for response in self._all(patterns, wanted.updates_only):
            yield response
        if wanted.mode == gnmi.SubscriptionList.POLL:
            async for request in requests:
                if not request.HasField("poll"):
                    text = "after the first message of a POLL subscription come only polls"
                    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
                for response in self._all(patterns, updates_only=False):
                    yield response

    def _all(
        self, patterns: Sequence[Sequence[Elem]], updates_only: bool
    ) -> Iterator[gnmi.SubscribeResponse]:
        """All that there is, and the sign that this was it."""
        found = [leaf for leaf in self._states.leaves() if _any(patterns, leaf)]
        if found and not updates_only:
            yield gnmi.SubscribeResponse(update=_notification(found))
        yield gnmi.SubscribeResponse(sync_response=True)

    async def _stream(
        self, wanted: gnmi.SubscriptionList, patterns: Sequence[Sequence[Elem]]
    ) -> AsyncIterator[gnmi.SubscribeResponse]:
        changing, sampled, interval_s = [], [], float("inf")
        for one, pattern in zip(wanted.subscription, patterns, strict=True):
            if one.mode == gnmi.SubscriptionMode.SAMPLE:
                sampled.append(pattern)
                interval_s = min(interval_s, max(_LEAST_SAMPLE_S, one.sample_interval / 1e9))
            else:
                changing.append(pattern)
        queue = self._states.listen()
        try:
            for response in self._all(patterns, wanted.updates_only):
                yield response
            due = time.monotonic() + interval_s
            while True:
                number = await _next(queue, due)
                if number is None:
                    found = [leaf for leaf in self._states.leaves() if _any(sampled, leaf)]
                    due += interval_s
                else:
                    changed = self._states.leaves([number])
                    found = [
                        leaf
                        for leaf in changed
                        if leaf[0][-1][0] == "oper-status" and _any(changing, leaf)
                    ]
                if found:
                    yield gnmi.SubscribeResponse(update=_notification(found))
        finally:
            self._states.ignore(queue)


async def _next(queue: asyncio.Queue[int | None], due: float) -> int | None:
    """The next port that changes, None when a sample is due before."""
    if due == float("inf"):
        return await queue.get()
    try:
        return await asyncio.wait_for(queue.get(), max(0.0, due - time.monotonic()))
    except TimeoutError:
        return None


def _any(patterns: Iterable[Sequence[Elem]], leaf: Leaf) -> bool:
    return any(matches(pattern, leaf[0]) for pattern in patterns)


def _text(path: Iterable[Elem]) -> str:
    return "".join(
        f"/{name}" + "".join(f"[{k}={v}]" for k, v in keys.items()) for name, keys in path
    )


def _notification(leaves: Iterable[Leaf]) -> gnmi.Notification:
    return gnmi.Notification(
        timestamp=time.time_ns(),
        update=[
            gnmi.Update(
                path=gnmi.Path(elem=[gnmi.PathElem(name=n, key=k) for n, k in path]), val=value
            )
            for path, value in leaves
        ],
    )


def add_to_server(
    states: PortStates, server: grpc.aio.Server, buffers: Settable | None = None
) -> None:
    """Serves gNMI on a gRPC server that has not started yet."""
    gnmi_grpc.add_gNMIServicer_to_server(_Servicer(states, buffers), server)
