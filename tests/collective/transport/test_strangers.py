"""A listening group among foreign connections, and a member that sends nonsense."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable

import pytest
from transport_kit import ranks, settings

from sglb.collective.transport import Transport
from sglb.collective.transport.connections import MAX_STRANGERS
from sglb.collective.transport.handshake import Outgoing, group_id
from sglb.collective.transport.wire import VERSION, Hello


def port_of(transport: Transport) -> int:
    return transport._group.met.records[transport.rank].rails[0].port


def still_works(made: list[Transport]) -> None:
    for size in (10, 700_000):
        into = bytearray(size)
        found = made[1].recv(0, 5, into)
        sent = made[0].send(1, 5, b"\x5a" * size)
        found.wait(10)
        sent.wait(10)
        assert into == b"\x5a" * size


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def ended(sock: socket.socket) -> bool:
    sock.settimeout(10)
    try:
        while sock.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("seed", range(6))
def test_random_bytes_are_turned_away_and_disturb_nobody(seed: int) -> None:
    draw = random.Random(seed)
    with ranks(2, settings(1)) as made:
        known = Outgoing(
            b"x" * 32, Hello(VERSION, 0, 0, 1, 1, 0, 0, group_id(made[0]._group.met.name), b"")
        ).begin()
        for number in range(8):
            with socket.create_connection(("127.0.0.1", port_of(made[1]))) as sock:
                begin = known[: draw.choice([0, 8, len(known)])]
                sock.sendall(begin + draw.randbytes(draw.choice([200, 5000])))
                assert ended(sock), number
        still_works(made)
        assert made[1]._group._doors.turned_away == 8
        assert made[1].stats().failovers == 0


def test_who_says_nothing_is_given_up_in_time() -> None:
    with (
        ranks(2, settings(1, handshake_s=0.1)) as made,
        socket.create_connection(("127.0.0.1", port_of(made[1]))) as silent,
    ):
        assert ended(silent)
        still_works(made)


def test_only_so_many_strangers_are_heard_at_a_time() -> None:
    with ranks(2, settings(1)) as made:
        crowd = [
            socket.create_connection(("127.0.0.1", port_of(made[1])))
            for _ in range(MAX_STRANGERS + 5)
        ]
        try:
            until(lambda: made[1]._group._doors.turned_away >= 5)
            still_works(made)
        finally:
            for sock in crowd:
                sock.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_member_that_sends_nonsense_loses_its_connection_not_the_group(seed: int) -> None:
    draw = random.Random(seed)
    with ranks(2, settings(2, retry_s=0.01, probation_s=0.01)) as made:
        with made[0]._group.engine.lock:
            channel = next(iter(made[0]._group.peers[1].channels.values()))
            channel.stream.sendmsg([draw.choice([b"", b"Rc\x03"]) + draw.randbytes(500)])
        until(lambda: made[1].stats().failovers == 1)
        assert any("make no sense" in event for event in made[1].stats().events)
        still_works(made)


def test_the_wrong_secret_does_not_get_in() -> None:
    with ranks(2, settings(1)) as made:
        group = made[1]._group
        hello = Hello(VERSION, 0, 0, 1, 77, 0, 0, group_id(group.met.name), b"")
        side = Outgoing(b"x" * 32, hello)
        with socket.create_connection(("127.0.0.1", port_of(made[1]))) as sock:
            sock.sendall(side.begin())
            sock.sendall(bytes(sock.recv(side.need)[:8]) + b"\x01\x00\x02\x00" + bytes(48))
            answer = sock.recv(100)
            assert b"wrong secret" in answer
            assert ended(sock)
        still_works(made)
