"""A channel: one connection to a peer over a pair of rails, its frames in order both ways.

Everything here runs under the engine's lock and never blocks.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from sglb.collective.transport.errors import WireError
from sglb.collective.transport.messages import Frame
from sglb.collective.transport.wire import (
    HEADER_BYTES,
    HOP_CHANNEL,
    LAST_COUNTED,
    LENT,
    RELAY_CHANNEL,
    Header,
    Kind,
    pack_header,
    pack_loan,
    unpack_header,
    unpack_loan,
)

_STAGING_BYTES = 32 << 10
_MAX_FRAMES_AT_ONCE = 32
_MAX_BYTES_AT_ONCE = 128 << 10
_ACK_FRAMES = 64
_ACK_BYTES = 256 << 10
_RATE_SPAN_S = 0.01
_FIRST_WINDOW_BYTES = 1 << 20
_FIRST_DETOUR_BYTES = 256 << 10
_MIN_WINDOW_BYTES = 1 << 20
_MAX_WINDOW_BYTES = 256 << 20
_MIN_CHUNK_BYTES = 64 << 10
_CHUNK_S = 0.01


class ByteStream(Protocol):
    """A non-blocking stream, as a connected socket is. Both raise BlockingIOError when they would."""

    def sendmsg(self, buffers: Iterable[Any], /) -> int: ...  # noqa: D102
    def recvmsg_into(self, buffers: Iterable[Any], /) -> tuple[int, Any, int, Any]: ...  # noqa: D102
    def fileno(self) -> int: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


class Host(Protocol):
    """What a channel asks of its peer."""

    def next_frame(self, channel: Channel) -> Frame | None:
        """What to send next on this channel."""

    def destination(self, channel: Channel, header: Header) -> memoryview:
        """Where the payload goes: `payload_bytes` bytes. Raises WireError."""

    def arrived(self, channel: Channel, header: Header, payload: memoryview) -> None:
        """A frame is complete. Raises WireError."""

    def acknowledged(self, _channel: Channel, frames: Sequence[Frame]) -> None:
        """The other side has taken these in."""

    def consumed_bytes(self) -> int:
        """For ACK and PING: bytes of first pieces that have met their receive."""


class Lender(Protocol):
    """Of a connection whose two processes may read each other's memory."""

    def lends(self) -> bool:
        """Whether the other side can read this process's memory."""

    def borrow(self, address: int, into: memoryview) -> None:
        """Copy from the other process's memory. Raises OSError."""

    def revoke(self) -> None:
        """What was lent so far must not be used any more."""


_NOTHING = memoryview(b"")
_MIN_LOAN_BYTES = 32 << 10


class Channel:
    """Frames over a stream; `index` numbers channels toward a peer, `epoch` their connections."""

    def __init__(
        self, host: Host, stream: ByteStream, index: int, epoch: int, rails: tuple[str, str]
    ) -> None:
        self.host = host
        self.stream = stream
        self.index = index
        self.epoch = epoch
        self.rails = rails
        self.open = True
        self.blocked = False
        self.readable = False
        self.lender: Lender | None = None
        self.ask_for_room: Callable[[], None] | None = None  # for streams that tell only when asked
        self.opened_at = time.monotonic()
        self.heard_at = self.opened_at
        self.sent_at = self.opened_at
        self.progress_at = self.opened_at
        self.rtt_s = 0.0
        self.stalled: tuple[float, int] | None = None  # of `Health`
        # Sending.
        self.unacked: deque[Frame] = deque()
        self.inflight_bytes = 0
        self.sent_bytes = 0
        self.counted_from = 0  # of `sent_bytes`, when ways through neighbours were last compared
        self._sent = 0
        self._acked = 0
        self._out: list[memoryview | bytes] = []
        self.rate = 0.0  # bytes a second, as acknowledged
        self.pace: Callable[[float], None] | None = None  # is told the rate
        self._rate_since = 0.0
        self._rate_bytes = 0
        # Receiving.
        self.received = 0
        self.received_bytes = 0
        self._told = 0  # of `received`, acknowledged
        self._untold_bytes = 0
        self.ack_now = False
        self.ping_now = False
        self.bye_now = False
        self.up = True  # whether data may go here; not while it is probed
        self._staging = bytearray(_STAGING_BYTES)
        self._staged = memoryview(self._staging)
        self._low = self._high = 0
        self._header: Header | None = None
        self._into = _NOTHING
        self._at = 0

    def __str__(self) -> str:
        return f"{self.rails[0]}-{self.rails[1]}#{self.index}.{self.epoch}"

    # Sending.

    def chunk_bytes(self, most: int) -> int:
        """How large a piece of a message this channel takes: about 10 ms' worth at its rate."""
        if not self.rate:
            return min(most, 256 << 10)
        return max(min(most, int(self.rate * _CHUNK_S)), min(most, _MIN_CHUNK_BYTES))

    def window_bytes(self, window_s: float, most: int) -> int:
        """How many bytes may be unacknowledged.

        On a way through a neighbour, which its own traffic may make slow, only what goes on soon:
        the end of a message would wait for all that is still there.
        """
        if not self.rate:
            return _FIRST_DETOUR_BYTES if self.is_detour else _FIRST_WINDOW_BYTES
        least = 2 * self.chunk_bytes(most)
        if not self.is_detour:
            least = max(least, _MIN_WINDOW_BYTES)
        return max(least, min(int(self.rate * window_s), _MAX_WINDOW_BYTES))

    def pump(self) -> bool:
        """Write once, if there is something to write and room. Whether something was written."""
        if self.blocked or not (self._out or self._fill()):
            return False
        try:
            count = self.stream.sendmsg(self._out)
        except BlockingIOError:
            self._block()
            return False
        self._advance(count)
        return True

    def _block(self) -> None:
        self.blocked = True
        if self.ask_for_room is not None:
            self.ask_for_room()

    @property
    def is_detour(self) -> bool:
        """Whether it leads through a neighbour."""
        return RELAY_CHANNEL <= self.index < HOP_CHANNEL

    @property
    def detour_bytes(self) -> int:
        """Of a way through a neighbour: what it has carried since there is no other one; else -1."""
        return self.sent_bytes - self.counted_from if self.is_detour else -1

    @property
    def urgent(self) -> bool:
        """Whether something of its own is to be written, of which only this channel knows."""
        return self.open and bool(self._out or self.ack_now or self.ping_now or self.bye_now)

    @property
    def mid_frame(self) -> bool:
        """Whether something is partly written."""
        return bool(self._out)

    def _advance(self, count: int) -> None:
        out = self._out
        for number, view in enumerate(out):
            size = len(view)
            if count < size:
                rest = memoryview(view)[count:]
                self._out = [rest, *out[number + 1 :]]
                self._block()  # a short write: no room
                return
            count -= size
        out.clear()

    def _fill(self) -> bool:
        size = 0
        out = self._out
        for _ in range(_MAX_FRAMES_AT_ONCE):
            frame = self.host.next_frame(self)
            if frame is None:
                break
            self._append(frame)
            size += frame.size
            if size >= _MAX_BYTES_AT_ONCE:
                break
        if (not out and (self.ack_now or self.ping_now)) or self.bye_now:
            kind = Kind.BYE if self.bye_now else Kind.PING if self.ping_now else Kind.ACK
            out.append(self._header_of(kind, 0, (self.host.consumed_bytes(), 0, 0, 0)))
        if not out:
            return False
        self.ack_now = self.ping_now = self.bye_now = False
        self._told = self.received
        self._untold_bytes = 0
        self.sent_at = time.monotonic()
        return True

    def _append(self, frame: Frame) -> None:
        lender = self.lender
        if lender is not None and frame.size >= _MIN_LOAN_BYTES and frame.owner and lender.lends():
            self._lend(frame)
        else:
            self._out.append(self._header_of(frame.kind, frame.size, frame.fields))
            if frame.payload is not None and frame.size:
                self._out.append(frame.payload)
        if not self.unacked:
            self.progress_at = self._rate_since = time.monotonic()
            self._rate_bytes = 0
        self._sent += 1
        self.unacked.append(frame)
        self.inflight_bytes += frame.size
        self.sent_bytes += frame.size

    def _lend(self, frame: Frame) -> None:
        """Say where the bytes are; the caller's buffer stays as it is until they are acknowledged."""
        assert frame.payload is not None
        address = np.frombuffer(frame.payload, np.uint8).ctypes.data
        kind = Kind.LENT_MSG if frame.kind is Kind.MSG else Kind.LENT_DATA
        loan = pack_loan(address, frame.size)
        self._out += (self._header_of(kind, len(loan), frame.fields), loan)

    def _borrow(self, header: Header, payload: memoryview) -> tuple[Header, memoryview]:
        """The frame as if its bytes had come with it."""
        address, size = unpack_loan(header.kind, payload)
        if self.lender is None:
            raise WireError("a loan over a connection between hosts")
        header = header._replace(kind=LENT[header.kind], payload_bytes=size)
        into = self.host.destination(self, header)
        self.lender.borrow(address, into)
        self.received_bytes += size
        return header, into

    def _header_of(self, kind: Kind, size: int, fields: tuple[int, int, int, int]) -> bytes:
        return pack_header(kind, self.index, self.epoch, self._sent, size, self.received, fields)

    # Receiving.

    def read(self, budget: int) -> None:
        """Take in what is there, up to about `budget` bytes. Raises WireError, OSError, EOFError."""
        while budget > 0 and self.open:
            if self._header is not None:
                wanted = len(self._into) - self._at
                buffers = [self._into[self._at :], self._staged]
            else:
                wanted = 0
                buffers = [self._staged[self._high :]]
            room = wanted + len(buffers[-1])
            try:
                count = self.stream.recvmsg_into(buffers)[0]
            except BlockingIOError:
                self.readable = False
                return
            if count == 0:
                raise EOFError
            self.heard_at = time.monotonic()
            budget -= count
            if count < room:
                self.readable = False  # a short read: there is no more now
            self._take(count, wanted)
            if not self.readable:
                return

    def _take(self, count: int, wanted: int) -> None:
        if self._header is not None:
            landed = min(count, wanted)
            self._at += landed
            self.received_bytes += landed
            count -= landed
            if self._at < len(self._into):
                return
            self._complete()
        self._high += count
        while self.open and self._high - self._low >= HEADER_BYTES:
            self._begin(unpack_header(self._staging, self._low))
            self._low += HEADER_BYTES
            if not self._from_staging():
                return
        self._settle()

    def _begin(self, header: Header) -> None:
        if header.channel != self.index or header.epoch != self.epoch:
            raise WireError(f"a frame of channel {header.channel}, epoch {header.epoch}")
        if header.seq != self.received & 0xFFFFFFFF:
            raise WireError(f"frame {header.seq} instead of {self.received}")
        self._acknowledge(header.ack)
        self._header = header
        self._at = 0
        if header.kind in LENT:
            self._into = memoryview(bytearray(header.payload_bytes))
        else:
            self._into = self.host.destination(self, header) if header.payload_bytes else _NOTHING

    def _from_staging(self) -> bool:
        """Take the payload from what is staged; whether that was all of it."""
        size = len(self._into)
        if size:
            landed = min(size, self._high - self._low)
            self._into[:landed] = self._staged[self._low : self._low + landed]
            self._low += landed
            self._at = landed
            self.received_bytes += landed
            if landed < size:
                self._low = self._high = 0
                return False
        self._complete()
        return True

    def _settle(self) -> None:
        """Move what is left, less than a header, to the front."""
        left = self._high - self._low
        if self._low and left:
            self._staging[:left] = self._staging[self._low : self._high]
        self._low, self._high = 0, left

    def _complete(self) -> None:
        header, payload = self._header, self._into
        assert header is not None
        self._header, self._into = None, _NOTHING
        counted = header.kind <= LAST_COUNTED
        if header.kind in LENT:
            header, payload = self._borrow(header, payload)
        if counted:
            self.received += 1
            self._untold_bytes += header.payload_bytes
            if self._untold_bytes >= _ACK_BYTES or self.received - self._told >= _ACK_FRAMES:
                self.ack_now = True
        self.host.arrived(self, header, payload)

    def owes_ack(self) -> bool:
        """Whether something received is not acknowledged."""
        return self.received != self._told

    def _acknowledge(self, count: int) -> None:
        new = count - self._acked
        if new == 0:
            return
        if new < 0 or new > len(self.unacked):
            raise WireError(f"{count} frames acknowledged, {self._sent} sent")
        frames = [self.unacked.popleft() for _ in range(new)]
        self._acked = count
        size = sum(frame.size for frame in frames)
        self.inflight_bytes -= size
        self._measure(size)
        self.host.acknowledged(self, frames)

    def _measure(self, size: int) -> None:
        now = self.progress_at = time.monotonic()
        self._rate_bytes += size
        span = now - self._rate_since
        if span >= _RATE_SPAN_S and self._rate_bytes >= _MIN_CHUNK_BYTES:
            sample = self._rate_bytes / span
            self.rate = sample if sample > self.rate else 0.75 * self.rate + 0.25 * sample
            if self.pace is not None:
                self.pace(self.rate)
            self._rate_since, self._rate_bytes = now, 0

    def divert(self) -> None:
        """From now on neither read into nor write from buffers of callers: they get them back."""
        if self._header is not None:
            self._into = memoryview(bytearray(len(self._into)))
        self._out = [bytes(view) for view in self._out]
        if self.lender is not None:
            self.lender.revoke()

    # The end.

    def settle(self, received: int) -> list[Frame]:
        """After the end: what the other side has not taken in, `received` being how many it has.

        The others count as acknowledged. Raises WireError when that cannot be.
        """
        new = received - self._acked
        if new < 0 or new > len(self.unacked):
            raise WireError(f"{received} frames reported, {self._acked} to {self._sent} possible")
        self._acknowledge(received)
        lost = list(self.unacked)
        self.unacked.clear()
        self.inflight_bytes = 0
        return lost

    def shut(self) -> None:
        """Close the stream: nothing is read from or written to it any more."""
        self.open = False
        self.readable = False
        self._out = []
        self._header, self._into = None, _NOTHING
        self.stream.close()
