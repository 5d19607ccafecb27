"""Random streams: the published sequence, fair ranges, one state in shared memory."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.p4.random_stream import RandomStream


def test_the_sequence_is_splitmix64s() -> None:
    # The first outputs for seed 1234567, as the reference C code prints them.
    stream = RandomStream(1234567)
    assert [stream.next64() for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_a_text_seeds_by_its_sha256() -> None:
    # printf 'switch leaf1' | sha256sum | cut -c1-16
    assert RandomStream("switch leaf1").state == 0xF6EA08BBD63181DE


def test_bits_are_the_upper_ones_of_the_draws() -> None:
    draws = [RandomStream(9).next64()]
    stream = RandomStream(9)
    stream.next64()
    draws.append(stream.next64())
    assert RandomStream(9).bits(5) == draws[0] >> 59
    assert RandomStream(9).bits(64) == draws[0]
    assert RandomStream(9).bits(65) == (draws[0] << 64 | draws[1]) >> 63
    assert RandomStream(9).bits(0) == 0


@given(st.integers(0, 1 << 64), st.integers(0, 1 << 200), st.integers(0, 1 << 200))
def test_numbers_lie_between_their_bounds(seed: int, low: int, high: int) -> None:
    value = RandomStream(seed).between(low, high)
    assert low <= value <= max(low, high)


@pytest.mark.parametrize(("low", "high"), [(7, 7), (9, 3)])
def test_an_empty_range_draws_nothing(low: int, high: int) -> None:
    stream = RandomStream(1)
    assert stream.between(low, high) == low
    assert stream.state == 1


def test_every_number_of_a_range_comes_up_alike() -> None:
    stream = RandomStream("fair")
    counts = Counter(stream.between(10, 14) for _ in range(5000))
    assert sorted(counts) == [10, 11, 12, 13, 14]
    # 1000 each; 5 sigma of a binomial with p = 1/5 is 141.
    assert all(abs(count - 1000) < 142 for count in counts.values())


def test_a_moved_stream_goes_on_in_the_new_memory() -> None:
    here, there = RandomStream(5), RandomStream(5)
    memory = np.zeros(4, dtype=np.int64)
    here.next64()
    there.next64()
    there.move(memory, 2)
    assert [here.next64() for _ in range(3)] == [there.next64() for _ in range(3)]
    assert int(memory[2]) & (1 << 64) - 1 == here.state
    memory[2] = -1  # whoever shares the memory may draw, too
    assert there.state == (1 << 64) - 1
