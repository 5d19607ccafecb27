"""Connections that break while messages are on their way: same bytes, nothing twice, clear errors."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import suppress

import pytest
from transport_kit import on_all, ranks, settings

from sglb.collective.transport import PeerLostError, Transport
from sglb.collective.transport.channel import Channel


def channels(transport: Transport) -> list[Channel]:
    with transport._group.engine.lock:
        peers = transport._group.peers.values()
        return [c for peer in peers for c in peer.channels.values()]


def cut(channel: Channel) -> None:
    """As a reset that both sides notice."""
    stream = channel.stream
    assert isinstance(stream, socket.socket)
    with suppress(OSError):
        stream.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(("seed", "memory"), [(0, False), (1, False), (2, True), (3, True)])
def test_cuts_at_random_moments_change_no_byte(seed: int, memory: bool) -> None:
    chosen = settings(
        3,
        chunk_bytes=64 << 10,
        retry_s=0.01,
        probation_s=0.02,
        retry_max_s=0.05,
        shared_memory=memory,
    )
    with ranks(3, chosen) as made:
        over = threading.Event()
        draw = random.Random(seed)

        def vandal() -> None:
            while not over.wait(draw.uniform(0.001, 0.02)):
                there = channels(made[draw.randrange(3)])
                if there:
                    cut(draw.choice(there))

        sizes = [draw.choice([0, 10, 5000, 70_000, 1_000_000, 4_000_000]) for _ in range(40)]

        def exchange(rank: int) -> None:
            right, left = (rank + 1) % 3, (rank + 2) % 3
            for number, size in enumerate(sizes):
                into = bytearray(size)
                data = random.Random(f"{rank} {number}").randbytes(size)
                found = made[rank].recv(left, number, into)
                sent = made[rank].send(right, number, data)
                found.wait(30)
                sent.wait(30)
                assert into == random.Random(f"{left} {number}").randbytes(size), (number, size)

        thread = threading.Thread(target=vandal)
        thread.start()
        try:
            on_all(3, exchange)
        finally:
            over.set()
            thread.join()
        assert sum(t.stats().failovers for t in made) > 10
        assert sum(t.stats().replayed_bytes for t in made) > 0


def test_a_lost_channel_comes_back_after_its_probation() -> None:
    with ranks(2, settings(2, retry_s=0.02, probation_s=0.05)) as made:
        lost = channels(made[0])[0]
        cut(lost)
        deadline = time.monotonic() + 10
        while any(sum(p.failbacks for p in t.stats().peers.values()) < 1 for t in made):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        stats = made[0].stats()
        assert [c.up for c in stats.channels] == [True, True]
        assert any("carries data again" in event for event in stats.events)
        rail = lost.rails[0]
        assert any(f"rail {rail} to rank 1 ({rail}) is lost" in event for event in stats.events)


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("dead", [0, 1])  # of two ranks the lower one connects
def test_a_process_that_ended_is_an_error_at_once(dead: int, memory: bool) -> None:
    with ranks(2, settings(2, shared_memory=memory)) as made:
        waiting = made[1 - dead].recv(dead, 0, bytearray(10))
        group = made[dead]._group
        group.engine.stop()  # as if killed: no good-bye
        with group.engine.lock:
            group.closing = True
            for channel in list(group.peers[1 - dead].channels.values()):
                group.engine.forget(channel.stream.fileno())
                channel.shut()
            group._dialing.close()
            group._doors.close()
        with pytest.raises(PeerLostError, match=f"rank {dead} has ended"):
            waiting.wait(10)


def test_a_peer_that_closed_in_good_order_is_an_error_only_for_those_who_want_more() -> None:
    with ranks(2) as made:
        first = bytearray(100_000)
        found = made[0].recv(1, 0, first)
        sent = made[1].send(0, 0, b"x" * 100_000)
        found.wait(10)
        sent.wait(10)
        made[1].close()
        with pytest.raises(PeerLostError, match="rank 1 has closed"):
            made[0].recv(1, 0, bytearray(10)).wait(10)


def _send_until_it_fails(transport: Transport) -> None:
    for stream in range(1000):  # the peer leaves some time meanwhile
        transport.send(1, 1 + stream, bytes(100_000))
        transport.progress(0.001)
    transport.recv(1, 0, bytearray(10)).wait(10)


@pytest.mark.parametrize("again", range(6))  # whether reading or writing notices it first varies
def test_writing_to_a_peer_that_closed_tells_so_at_once(again: int) -> None:
    with ranks(2) as made:
        found = made[0].recv(1, 0, bytearray(10))
        made[1].send(0, 0, b"x" * 10).wait(10)
        found.wait(10)
        leaves = threading.Thread(target=made[1].close)
        leaves.start()
        # A reset takes what has not been read yet along, BYE too: then it is the ports that tell.
        with pytest.raises(PeerLostError, match=r"rank 1 has (closed|ended)"):
            _send_until_it_fails(made[0])
        leaves.join()


def test_two_connections_lost_at_once_that_carry_each_others_reports() -> None:
    with ranks(2, settings(2, chunk_bytes=8192, retry_s=0.02, probation_s=0.02)) as made:
        size = 3_000_000
        data = [random.Random(rank).randbytes(size) for rank in range(2)]
        into = [bytearray(size) for _ in range(2)]
        found = [made[rank].recv(1 - rank, 0, into[rank]) for rank in range(2)]
        sent = [made[rank].send(1 - rank, 0, data[rank]) for rank in range(2)]
        groups = [transport._group for transport in made]
        with groups[0].engine.lock, groups[1].engine.lock:
            for rank in range(2):  # each reports the one over the other
                peer = groups[rank].peers[1 - rank]
                groups[rank].drop(peer.channels[rank], "for a test")
                peer.pump()
        for transfer in found + sent:
            transfer.wait(20)
        assert into == data[::-1]
        assert all(transport.stats().failovers >= 1 for transport in made)
