"""What is on its way: frames, messages in both directions, and the `Transfer` a caller holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sglb.collective.transport.errors import TransportError
from sglb.collective.transport.wire import Kind

Done = Callable[[TransportError | None], None]
Label = str | Callable[[], str]


def label_text(label: Label) -> str:
    """The words of a label; made only when an error needs them."""
    return label if isinstance(label, str) else label()


class Wake(Protocol):
    """Something that lets a sleeping thread go on."""

    def release(self) -> None: ...  # noqa: D102


class Waiter(Protocol):
    """Who makes transfers go on while a thread waits for one."""

    def wait_for(self, transfer: Transfer, timeout_s: float | None) -> None: ...  # noqa: D102


class Transfer:
    """One message on its way. Its buffer must not change, or be read, until `done`.

    peer: the other rank; of a `recv_any` -1 until a message met it. progress_bytes: how many bytes
    are known to have arrived. error: why it failed, or None.
    """

    __slots__ = (
        "_callbacks",
        "_engine",
        "_wakes",
        "done",
        "error",
        "peer",
        "progress_bytes",
        "size_bytes",
        "stream",
    )

    def __init__(self, engine: Waiter, peer: int, stream: int, size_bytes: int) -> None:
        self._engine = engine
        self.peer = peer
        self.stream = stream
        self.size_bytes = size_bytes
        self.progress_bytes = 0
        self.done = False
        self.error: TransportError | None = None
        self._callbacks: list[Done] = []
        self._wakes: list[Wake] = []

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until done; drives the transport meanwhile, so that no other thread has to.

        Raises the transfer's error, WaitTimeoutError after `timeout_s`. Not for callbacks.
        """
        if not self.done:
            self._engine.wait_for(self, timeout_s)
        if self.error is not None:
            raise self.error

    def on_done(self, callback: Done) -> None:
        """Call with the error or None, once: at once when done, else on the thread that drives."""
        self._callbacks.append(callback)
        if self.done:
            self._run()

    # For the engine.

    def finish(self, error: TransportError | None) -> bool:
        """Mark done and wake who waits; under the engine's lock. Whether callbacks are to be run."""
        self.error = error
        self.done = True
        if self._wakes:
            for wake in self._wakes:
                wake.release()
            self._wakes.clear()
        return bool(self._callbacks)

    def run_callbacks(self) -> None:
        """Run what `on_done` was given, each once; not under a lock."""
        self._run()

    def wake_with(self, wake: Wake) -> None:
        """Wake this sleeper when done; under the engine's lock."""
        self._wakes.append(wake)

    def _run(self) -> None:
        while self._callbacks:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:  # another thread took the last one
                return
            callback(self.error)


class Frame:
    """A frame to send, kept until it is acknowledged. `owner`: whose bytes its payload is."""

    __slots__ = ("fields", "kind", "owner", "payload", "size")

    def __init__(
        self,
        kind: Kind,
        fields: tuple[int, int, int, int],
        payload: memoryview | bytes | None = None,
        owner: Outbound | None = None,
    ) -> None:
        self.kind = kind
        self.fields = fields
        self.payload = payload
        self.size = 0 if payload is None else len(payload)
        self.owner = owner


class Outbound:
    """A message to a peer whose buffer is still the caller's."""

    __slots__ = ("data", "label", "left", "next", "number", "stream", "transfer")

    def __init__(
        self, number: int, stream: int, data: memoryview, transfer: Transfer, label: Label
    ) -> None:
        self.number = number
        self.stream = stream
        self.data = data
        self.left = len(data)  # not acknowledged
        self.next = 0  # first byte that no channel has taken
        self.transfer = transfer
        self.label = label


class Receive:
    """A posted receive. `order`: how many were posted before, by all."""

    __slots__ = ("fingerprint", "into", "label", "order", "stream", "transfer")

    def __init__(
        self,
        stream: int,
        into: memoryview,
        fingerprint: int,
        label: Label,
        transfer: Transfer,
        order: int,
    ) -> None:
        self.stream = stream
        self.into = into
        self.fingerprint = fingerprint
        self.label = label
        self.transfer = transfer
        self.order = order


class Inbound:
    """A message of a peer. `head` are its first bytes, until it meets a receive."""

    __slots__ = (
        "fingerprint",
        "got",
        "head",
        "number",
        "offsets",
        "order",
        "receive",
        "size",
        "stream",
    )

    def __init__(self, number: int, stream: int, size: int, fingerprint: int) -> None:
        self.number = number
        self.stream = stream
        self.size = size
        self.fingerprint = fingerprint
        self.head: memoryview | bytes = b""
        self.receive: Receive | None = None
        self.got = 0
        self.offsets: set[int] = set()
        self.order = 0
