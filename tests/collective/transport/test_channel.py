"""Frames on a stream, however it is cut into pieces, and bytes that are none."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.collective.transport.channel import Channel
from sglb.collective.transport.errors import WireError
from sglb.collective.transport.messages import Frame
from sglb.collective.transport.wire import Header, Kind


class Pieces:
    """A stream that hands out what it was given in pieces, and takes `room` bytes at a time."""

    def __init__(self, pieces: Sequence[bytes] = (), room: int = 1 << 30) -> None:
        self.pieces = deque(pieces)
        self.room = room
        self.taken = b""

    def recvmsg_into(self, buffers):
        if not self.pieces:
            raise BlockingIOError
        data = self.pieces.popleft()
        count = 0
        for buffer in buffers:
            part = data[count : count + len(buffer)]
            buffer[: len(part)] = part
            count += len(part)
        if count < len(data):
            self.pieces.appendleft(data[count:])
        return count, [], 0, None

    def sendmsg(self, buffers):
        data = b"".join(bytes(buffer) for buffer in buffers)[: self.room]
        self.taken += data
        return len(data)

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        pass


class Host:
    """Notes what arrives, sends what it was told to."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[Header, bytes]] = []
        self.acked: list[Frame] = []
        self.queue: deque[Frame] = deque()

    def next_frame(self, channel):
        return self.queue.popleft() if self.queue else None

    def destination(self, channel, header):
        return memoryview(bytearray(header.payload_bytes))

    def arrived(self, channel, header, payload):
        self.arrivals.append((header, bytes(payload)))

    def acknowledged(self, channel, frames):
        self.acked += frames

    def consumed_bytes(self) -> int:
        return 0


def bytes_of_frames(payloads: list[bytes], room: int = 1 << 30) -> bytes:
    host, stream = Host(), Pieces(room=room)
    host.queue.extend(
        Frame(Kind.DATA, (number, 0, 0, 0), payload) for number, payload in enumerate(payloads)
    )
    channel = Channel(host, stream, 3, 4, ("a", "b"))
    while channel.pump() or channel.mid_frame:
        channel.blocked = False
    return stream.taken


PAYLOADS = st.lists(
    st.one_of(st.binary(max_size=100), st.integers(30_000, 70_000).map(lambda n: b"x" * n)),
    min_size=1,
    max_size=8,
)


@given(PAYLOADS, st.lists(st.integers(1, 50_000), min_size=1, max_size=30), st.integers(1, 9999))
def test_frames_arrive_however_they_are_cut(payloads, cuts, room) -> None:
    data = bytes_of_frames(payloads, room if sum(map(len, payloads)) < 1000 else 1 << 30)
    pieces = []
    for cut in cuts:
        pieces.append(data[:cut])
        data = data[cut:]
    host = Host()
    channel = Channel(host, Pieces([p for p in [*pieces, data] if p]), 3, 4, ("a", "b"))
    for _ in range(1000):
        channel.readable = True
        channel.read(1 << 20)
        if len(host.arrivals) == len(payloads):
            break
    assert [payload for _, payload in host.arrivals] == payloads
    assert channel.received == len(payloads)


@given(PAYLOADS, st.integers(0, 10**6), st.integers(1, 255))
def test_one_changed_byte_of_a_header_is_an_error_or_another_frame(payloads, at, change) -> None:
    data = bytearray(bytes_of_frames(payloads))
    data[at % 60] ^= change
    host = Host()
    channel = Channel(host, Pieces([bytes(data)]), 3, 4, ("a", "b"))
    channel.readable = True
    try:
        channel.read(1 << 24)
    except WireError:
        return
    assert len(host.arrivals) <= len(payloads)


@given(st.binary(min_size=60, max_size=400))
def test_other_bytes_are_an_error(data: bytes) -> None:
    channel = Channel(Host(), Pieces([data]), 3, 4, ("a", "b"))
    channel.readable = True
    with pytest.raises(WireError):
        channel.read(1 << 20)


def test_what_a_lost_connection_did_not_deliver_is_known_from_the_report() -> None:
    host, stream = Host(), Pieces()
    frames = [Frame(Kind.DATA, (n, 0, 0, 0), b"x" * n) for n in range(5)]
    host.queue.extend(frames)
    channel = Channel(host, stream, 0, 0, ("a", "b"))
    while channel.pump():
        pass
    assert channel.inflight_bytes == 10
    channel.shut()
    assert channel.settle(3) == frames[3:]
    assert host.acked == frames[:3]
    assert channel.inflight_bytes == 0


@pytest.mark.parametrize("count", [-1, 6])
def test_a_report_that_cannot_be_is_an_error(count: int) -> None:
    host = Host()
    host.queue.extend(Frame(Kind.GRANT, (n, 0, 0, 0)) for n in range(5))
    channel = Channel(host, Pieces(), 0, 0, ("a", "b"))
    while channel.pump():
        pass
    with pytest.raises(WireError, match="frames reported"):
        channel.settle(count)


def test_half_a_rate_halves_what_a_channel_takes_at_a_time() -> None:
    channel = Channel(Host(), Pieces(), 0, 0, ("a", "b"))
    assert channel.chunk_bytes(1 << 20) == 256 << 10
    channel.rate = 50e6
    assert channel.chunk_bytes(1 << 20) == 500_000
    channel.rate = 25e6
    assert channel.chunk_bytes(1 << 20) == 250_000
    channel.rate = 1e9
    assert channel.chunk_bytes(1 << 20) == 1 << 20
    assert channel.window_bytes(0.2, 1 << 20) == 200_000_000
