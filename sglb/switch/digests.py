"""Digests on their way to the control plane: buffered, without duplicates, acknowledged.

The rules are those of P4Runtime's `DigestEntry`: a list is sent when it holds `max_list_size`
distinct messages or its first one has waited `max_timeout_ns`; a message that was sent but not yet
acknowledged is not sent again before `ack_timeout_ns` has passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sglb.switch.clock import PS_PER_NS, Handle, Scheduler
from sglb.switch.errors import BadValue, EntryExists, NoSuchEntry

Values = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DigestConfig:
    """`max_list_size` 0 means no limit, 1 (or a timeout of 0) one list per message."""

    max_timeout_ns: int = 0
    max_list_size: int = 0
    ack_timeout_ns: int = 0

    def __post_init__(self) -> None:
        if min(self.max_timeout_ns, self.max_list_size, self.ack_timeout_ns) < 0:
            raise BadValue(f"digest timeouts and sizes must not be negative: {self}")


@dataclass(frozen=True, slots=True)
class DigestList:
    """What is sent: one tuple of values per message, in the order seen."""

    digest_id: int
    list_id: int
    messages: tuple[Values, ...]
    time_ps: int


class _Stream:
    """One enabled digest: its buffer, and what was sent and waits for an acknowledgement."""

    def __init__(self, config: DigestConfig) -> None:
        self.config = config
        self.buffer: dict[Values, None] = {}
        self.unacked: dict[int, tuple[int, frozenset[Values]]] = {}
        self.next_list = 1
        self.timer: Handle | None = None

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class DigestEngine:
    """All digests of a switch. `on_list` gets each list; without it, lists are dropped.

    A digest id is the P4Info id. Messages of a digest that is not enabled are ignored.
    """

    def __init__(self, clock: Scheduler) -> None:
        self.on_list: Callable[[DigestList], None] | None = None
        self._clock = clock
        self._known: frozenset[int] = frozenset()
        self._streams: dict[int, _Stream] = {}

    def push(self, digest_id: int, values: Values) -> None:
        """A message from the data plane."""
        stream = self._streams.get(digest_id)
        if stream is None or values in stream.buffer:
            return
        now = self._clock.now_ps
        self._forget(stream, now)
        if any(values in messages for _, messages in stream.unacked.values()):
            return
        stream.buffer[values] = None
        config = stream.config
        full = config.max_list_size and len(stream.buffer) >= config.max_list_size
        if full or config.max_timeout_ns == 0:
            self._send(digest_id, stream)
        elif stream.timer is None:
            stream.timer = self._clock.call_later(
                config.max_timeout_ns * PS_PER_NS, self._send, digest_id, stream
            )

    def ack(self, digest_id: int, list_id: int) -> None:
        """The control plane took a list; an unknown one is ignored, as P4Runtime wants."""
        stream = self._streams.get(digest_id)
        if stream is not None:
            stream.unacked.pop(list_id, None)

    def config(self, digest_id: int) -> DigestConfig | None:
        """The configuration of an enabled digest, None otherwise."""
        stream = self._streams.get(digest_id)
        return None if stream is None else stream.config

    def enabled(self) -> tuple[int, ...]:
        """Ids of the enabled digests, in order."""
        return tuple(sorted(self._streams))

    def enable(self, digest_id: int, config: DigestConfig) -> None:
        """Starts sending. Raises `NoSuchEntry` for an id the program lacks, `EntryExists`."""
        if digest_id not in self._known:
            raise NoSuchEntry(f"the program has no digest with id {digest_id}")
        if digest_id in self._streams:
            raise EntryExists(f"digest {digest_id} is enabled already")
        self._streams[digest_id] = _Stream(config)

    def modify(self, digest_id: int, config: DigestConfig) -> None:
        """Changes the configuration; what is buffered is sent at once. Raises `NoSuchEntry`."""
        stream = self._streams.get(digest_id)
        if stream is None:
            raise NoSuchEntry(f"digest {digest_id} is not enabled")
        stream.config = config
        self._send(digest_id, stream)

    def disable(self, digest_id: int) -> None:
        """Stops sending and forgets what is buffered. Raises `NoSuchEntry`."""
        stream = self._streams.pop(digest_id, None)
        if stream is None:
            raise NoSuchEntry(f"digest {digest_id} is not enabled")
        stream.stop()

    def load(self, known: frozenset[int]) -> None:
        """Disables everything; the program that comes next has these digests."""
        self._known = known
        for stream in self._streams.values():
            stream.stop()
        self._streams.clear()

    def _send(self, digest_id: int, stream: _Stream) -> None:
        stream.stop()
        if not stream.buffer:
            return
        now = self._clock.now_ps
        messages = tuple(stream.buffer)
        stream.buffer.clear()
        list_id, stream.next_list = stream.next_list, stream.next_list + 1
        if stream.config.ack_timeout_ns:
            stream.unacked[list_id] = (now, frozenset(messages))
        if self.on_list is not None:
            self.on_list(DigestList(digest_id, list_id, messages, now))

    @staticmethod
    def _forget(stream: _Stream, now_ps: int) -> None:
        limit = now_ps - stream.config.ack_timeout_ns * PS_PER_NS
        old = [list_id for list_id, (sent, _) in stream.unacked.items() if sent <= limit]
        for list_id in old:
            del stream.unacked[list_id]
