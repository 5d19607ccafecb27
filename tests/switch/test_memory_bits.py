"""Rules as bit vectors: which rules a key's vectors have in common, whatever was moved to make room."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglb.p4.native import table_layout as lay
from sglb.p4.native.table_layout import KeyShape
from sglb.switch.keys import MatchKey, matches
from sglb.switch.memory import Slab
from sglb.switch.memory_bits import BLOCK_BITS, NARROW_BITS, BitVectors, Rank, Rule
from sglb.switch.memory_index import masked, pack

KEYS = (KeyShape(9, "ternary"), KeyShape(6, "range"), KeyShape(7, "range", signed=True))
LAYOUT = lay.index_layout(KEYS, 100, 8)


@dataclass
class Bench:
    """Vectors with the rules that are to be in them."""

    vectors: BitVectors = field(default_factory=lambda: BitVectors(LAYOUT, []))
    slab: Slab = field(default_factory=lambda: Slab(64))
    rules: dict[Rank, Rule] = field(default_factory=dict)

    def add(self, rank: Rank, key: MatchKey) -> None:
        self.rules[rank] = Rule(rank, key, masked(key, KEYS), self.slab.take())
        self.vectors.add(self.rules[rank])

    def remove(self, rank: Rank) -> None:
        del self.rules[rank]
        self.vectors.remove(rank)

    def candidates(self, values: tuple[int, ...]) -> list[int]:
        """Addresses of the records that native code would look at, in order."""
        packed = pack(values, KEYS)
        found = []
        for block in self.vectors.blocks:
            common = np.full(block.vectors.shape[2], np.uint64(2**64 - 1))
            for nibble in range(LAYOUT.nibbles):
                common &= block.vectors[nibble, packed >> 4 * nibble & 15]
            for word, bits in enumerate(common.tolist()):
                found += [int(block.records[64 * word + b]) for b in range(64) if bits >> b & 1]
        return found

    def check(self, values: tuple[int, ...]) -> None:
        found = self.candidates(values)
        known = [self.rules[rank] for rank in sorted(self.rules)]
        addresses = [rule.record.address for rule in known]
        places = [addresses.index(address) for address in found]
        assert places == sorted(places)  # by rank, and each once
        for number, rule in enumerate(known):
            parts = zip(KEYS, rule.key, values, strict=True)
            if all(matches(k.kind, f, v, k.width, k.signed) for k, f, v in parts):
                assert number in places


@st.composite
def match_keys(draw: st.DrawFn) -> MatchKey:
    ternary = (draw(st.integers(0, 511)), draw(st.sampled_from([0, 0x1F0, 0x1FF, 0x00F])))
    low, high = sorted((draw(st.integers(0, 63)), draw(st.integers(0, 63))))
    first, last = sorted(
        (draw(st.integers(0, 127)), draw(st.integers(0, 127))), key=lambda v: v ^ 64
    )
    return (ternary[0] & ternary[1], ternary[1]), (low, high), (first, last)


VALUES = st.tuples(st.integers(0, 511), st.integers(0, 63), st.integers(0, 127))


@given(
    st.lists(st.tuples(st.integers(-3, 0), match_keys()), max_size=NARROW_BITS + 6),
    st.lists(st.integers(0, 1000), max_size=10),
    st.lists(VALUES, min_size=1, max_size=4),
    st.booleans(),
)
@settings(max_examples=100)
def test_the_vectors_hold_what_matches_in_order(
    wanted: list[tuple[int, MatchKey]],
    gone: list[int],
    keys: list[tuple[int, int, int]],
    wide: bool,
) -> None:
    bench = Bench()
    if wide:
        for number in range(NARROW_BITS + 1):
            bench.add((-2, -1 - number), ((number, 511), (0, 63), (64, 63)))
    for order, (rank, key) in enumerate(wanted):
        bench.add((rank, order), key)
    for number in gone:
        if bench.rules:
            bench.remove(sorted(bench.rules)[number % len(bench.rules)])
    for values in keys:
        bench.check(values)


@pytest.mark.parametrize("step", [1, -1, 9])
def test_blocks_come_and_go_with_the_rules(step: int) -> None:
    bench, size = Bench(), 2 * BLOCK_BITS + 40
    for number in range(size):
        rank = number * step % size
        bench.add((rank, 0), ((rank % 512, 511), (0, 63), (64, 63)))
    for value in (0, 1, 100, 511):
        bench.check((value, 5, 5))
        assert len(bench.candidates((value, 5, 5))) == 2 + (value < 40)
    assert len(bench.vectors.blocks) in (3, 4)
    for number in range(size - 30):
        bench.remove((number * step % size, 0))
    assert bench.vectors.sparse == (len(bench.vectors.blocks) > 1)
    for value in (0, 1, 100, 511):
        bench.check((value, 5, 5))
    again = BitVectors(LAYOUT, [bench.rules[rank] for rank in sorted(bench.rules)])
    before, bench.vectors = bench.vectors, again
    assert (len(again.blocks), again.count, before.count) == (1, 30, 30)
    for value in (0, 1, 100, 511):
        bench.check((value, 5, 5))


def test_a_range_bounds_the_nibbles_that_its_ends_share() -> None:
    bench = Bench()
    bench.add((0, 0), ((0, 0), (17, 30), (125, 2)))  # -3..2 signed
    assert len(bench.candidates((0, 17, 127))) == 1
    assert bench.candidates((0, 40, 0)) == []
    assert bench.candidates((0, 20, 64)) == []  # -64
