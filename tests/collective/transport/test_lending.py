"""Reading another process's memory: when it is allowed, when it is the right process, until revoked."""

from __future__ import annotations

import random
import secrets

import numpy as np
import pytest

from sglb.collective.transport.lending import Lending
from sglb.collective.transport.memory import SharedMemoryError, folder, make_file

Pair = tuple[Lending, Lending]


@pytest.fixture
def pair() -> Pair:
    nonce = secrets.token_bytes(16)
    left = Lending.create(nonce)
    return left, Lending.attach(nonce)


def test_large_pieces_are_read_where_they_are(pair: Pair) -> None:
    left, right = pair
    assert not left.lends()
    right.try_reading()
    if not left.lends():
        pytest.skip("this kernel does not let a process read another's memory")
    assert not right.lends()
    data = np.frombuffer(random.Random(3).randbytes(100_000), np.uint8)
    into = bytearray(len(data))
    right.borrow(data.ctypes.data, memoryview(into))
    assert into == data.tobytes()
    with pytest.raises(OSError, match="cannot read the memory of process"):
        right.borrow(16, memoryview(into))
    left.revoke()
    with pytest.raises(SharedMemoryError, match="given the group up"):
        right.borrow(data.ctypes.data, memoryview(into))


def test_memory_that_is_not_the_peers_is_not_read(pair: Pair) -> None:
    left, right = pair
    other = np.zeros(16, np.uint8)
    left._mine[1] = other.ctypes.data  # as if its process number meant another process here
    right.try_reading()
    assert not left.lends()


@pytest.mark.parametrize("number", [0, 1 << 40, (1 << 64) - 1])
def test_a_process_that_is_not_there_lends_nothing(pair: Pair, number: int) -> None:
    left, right = pair
    left._mine[0] = number
    right.try_reading()
    assert not left.lends()


def test_a_page_that_nobody_attached_to_leaves_no_file() -> None:
    nonce = secrets.token_bytes(16)
    lending = Lending.create(nonce)
    path = folder() / f"reccl-{nonce.hex()}"
    assert path.exists()
    lending.forget()
    assert not path.exists()


def test_a_page_of_another_size_is_refused() -> None:
    nonce = secrets.token_bytes(16)
    make_file(nonce, 100)
    with pytest.raises(SharedMemoryError, match="of 100 bytes"):
        Lending.attach(nonce)
