"""The stream over shared memory: bytes in order, wake-ups, ends, and a ring that lies."""

from __future__ import annotations

import random
import secrets
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sglb.collective.transport.memory import MemoryStream, SharedMemoryError, folder

Pair = tuple[MemoryStream, MemoryStream]


@pytest.fixture
def pair() -> Iterator[Pair]:
    nonce = secrets.token_bytes(16)
    a, b = socket.socketpair()
    for sock in (a, b):
        sock.setblocking(False)
    left = MemoryStream.create(a, nonce, 1000)
    right = MemoryStream.attach(b, nonce)
    assert not (folder() / f"reccl-{nonce.hex()}").exists()
    yield left, right
    for stream in (left, right):
        with suppress(ValueError):
            stream.close()


def test_bytes_wrap_around_the_ring(pair: Pair) -> None:
    left, right = pair
    sent = random.Random(1).randbytes(10_000)
    got = b""
    at = 0
    while len(got) < len(sent):
        with suppress(BlockingIOError):
            at += left.sendmsg([sent[at : at + 300], sent[at + 300 : at + 700]])
        with suppress(BlockingIOError):
            got += right.recv(257)
    assert got == sent


def test_a_full_ring_blocks_the_writer_and_reading_wakes_it(pair: Pair) -> None:
    left, right = pair
    assert left.sendmsg([b"x" * 1500]) == 1000
    with pytest.raises(BlockingIOError):
        left.sendmsg([b"y"])
    assert left.arm(writing=True)
    assert not select.select([left], [], [], 0)[0]
    assert right.recv(10) == b"x" * 10
    assert select.select([left], [], [], 0)[0]
    left.drain()
    assert left.sendmsg([b"y" * 20]) == 10


def test_an_empty_ring_blocks_the_reader_and_writing_wakes_it_once(pair: Pair) -> None:
    left, right = pair
    with pytest.raises(BlockingIOError):
        right.recv(10)
    left.send(b"a")
    left.send(b"b")
    assert right._socket.recv(10) == b"\1"
    assert right.recv(10) == b"ab"


def test_who_is_awake_is_not_woken(pair: Pair) -> None:
    left, right = pair
    assert right.arm(writing=False)
    right.disarm()
    left.send(b"a")
    assert not select.select([right], [], [], 0)[0]
    assert not right.arm(writing=False)  # there is something: no sleep
    assert right.recv(10) == b"a"


def test_the_end_comes_after_what_was_sent(pair: Pair) -> None:
    left, right = pair
    left.send(b"last")
    left.close()
    right.drain()
    assert right.recv(10) == b"last"
    assert right.recv(10) == b""
    with pytest.raises(BrokenPipeError):
        right.send(b"x")


def test_a_side_that_leaves_wake_ups_behind_is_just_an_end(pair: Pair) -> None:
    left, right = pair
    with suppress(BlockingIOError):
        left.recv(1)
    right.send(b"x")
    left.close()  # with a wake-up unread: the socket is reset
    right.drain()
    assert right.recv(10) == b""


def test_two_threads_lose_no_byte_and_no_wake_up(pair: Pair) -> None:
    left, right = pair
    sent = random.Random(2).randbytes(300_000)

    def write() -> None:
        at = 0
        while at < len(sent):
            try:
                at += left.sendmsg([sent[at : at + 700]])
            except BlockingIOError:
                if left.arm(writing=True):
                    assert select.select([left], [], [], 10)[0], "no wake-up"
                left.drain()
                left.disarm()

    thread = threading.Thread(target=write)
    thread.start()
    got = bytearray()
    while len(got) < len(sent):
        try:
            got += right.recv(900)
        except BlockingIOError:
            assert select.select([right], [], [], 10)[0], "no wake-up"
            right.drain()
    thread.join()
    assert got == sent


@pytest.mark.parametrize("word", [0, 1])
def test_a_ring_that_says_nonsense_is_an_error(pair: Pair, word: int) -> None:
    left, right = pair
    left.send(b"abc")
    left.outgoing._words[word] += 5000
    with pytest.raises(SharedMemoryError):
        right.recv(10)


def test_a_file_of_another_size_is_refused(tmp_path) -> None:
    nonce = secrets.token_bytes(16)
    path = folder() / f"reccl-{nonce.hex()}"
    path.write_bytes(b"x" * 100)
    a, b = socket.socketpair()
    with a, b, pytest.raises(SharedMemoryError, match="of 100 bytes"):
        MemoryStream.attach(a, nonce)
    assert not path.exists()
