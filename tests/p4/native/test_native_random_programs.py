"""Random P4 programs and packets: what leaves, and when, is the same by both engines."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from native_twins_kit import ENGINES, Twin, state_of
from p4_text_kit import Program

from sglb.p4.compiler import compile as compile_p4


def packets(rng: random.Random) -> list[bytes]:
    """Of any bytes, or of few different ones."""
    made = []
    for _ in range(30):
        data = rng.randbytes(rng.choice([0, 1, 5, 10, 20, 40, 60, 100, 150]))
        if rng.random() < 0.3:
            mask = rng.choice([0, 1, 0x80, 0xFF])
            data = bytes(byte & mask for byte in data)
        made.append(data)
    return made


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_random_programs(seed: int) -> None:
    program = compile_p4(Program(seed).text)
    twins = [Twin(program, engine, "") for engine in ENGINES]
    for data in packets(random.Random(seed)):
        expected, got = (twin.feed(1, data) for twin in twins)
        assert got == expected, data.hex()
    expected, got = (state_of(twin.switch.state) for twin in twins)
    assert got == expected
