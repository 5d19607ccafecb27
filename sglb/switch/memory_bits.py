"""Rules as bit vectors in memory: an intersection of a few vectors finds all that match a key.

The idea is that of Lakshman and Stiliadis, "High-speed policy-based packet forwarding using efficient
multi-dimensional range matching" (SIGCOMM 1998), with nibbles of the key in place of fields; the layout
is in `native.table_layout`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sglb.p4.native import table_layout as lay
from sglb.p4.native.table_layout import IndexLayout
from sglb.switch.keys import MatchKey
from sglb.switch.memory import Record, address_of, aligned_bytes

NARROW_BITS: Final = 64
BLOCK_BITS: Final = 64 * lay.BLOCK_WORDS

_ONE: Final = np.uint64(1)
_TOP: Final = np.uint64(63)

#: (minus the priority, order of insertion): sorts the best rule first.
Rank = tuple[int, int]


def _allowed() -> NDArray[np.uint64]:
    """Whether (1) or not (0) a nibble x meets (value, mask): `[value, mask, x]`."""
    value, mask, x = np.ogrid[:16, :16, :16]
    met: NDArray[np.uint64] = ((x & mask) == (value & mask)).astype(np.uint64)
    return met


_ALLOWED: Final = _allowed()


class Rule(NamedTuple):
    """A rule as vectors take it in: its key also as packed value and mask."""

    rank: Rank
    key: MatchKey
    packed: tuple[int, int]
    record: Record


class Block:
    """Up to 64 rules a word: the rule of the lowest rank at bit 0, and so on without gaps."""

    def __init__(self, layout: IndexLayout, words: int) -> None:
        shape = (layout.nibbles, 16, words)
        memory = aligned_bytes(layout.nibbles * 16 * words * lay.WORD).view(np.uint64)
        #: `[nibble, value, word]`
        self.vectors = memory.reshape(shape)
        self.records = np.zeros(64 * words, dtype=np.uint64)
        self.ranks: list[Rank] = []
        self.addresses = (address_of(self.vectors), address_of(self.records))

    @property
    def full(self) -> bool:
        """Whether no rule fits any more."""
        return len(self.ranks) == len(self.records)

    def insert(self, rank: Rank, allowed: NDArray[np.uint64], record: int) -> None:
        """Takes in a rule: those of higher ranks move up by a bit."""
        count, at = len(self.ranks), bisect_left(self.ranks, rank)
        self.ranks.insert(at, rank)
        self.records[at + 1 : count + 1] = self.records[at:count].copy()
        self.records[at] = record
        word, bit = divmod(at, 64)
        part = self.vectors[:, :, word : count // 64 + 1]
        moved = part << _ONE
        moved[:, :, 1:] |= part[:, :, :-1] >> _TOP
        below = np.uint64((1 << bit) - 1)
        moved[:, :, 0] = part[:, :, 0] & below | (part[:, :, 0] & ~below) << _ONE
        moved[:, :, 0] |= allowed << np.uint64(bit)
        part[...] = moved

    def remove(self, rank: Rank) -> None:
        """Takes a rule out: those of higher ranks move down by a bit."""
        count, at = len(self.ranks), bisect_left(self.ranks, rank)
        del self.ranks[at]
        self.records[at : count - 1] = self.records[at + 1 : count].copy()
        self.records[count - 1] = 0
        word, bit = divmod(at, 64)
        part = self.vectors[:, :, word : (count - 1) // 64 + 1]
        moved = part >> _ONE
        moved[:, :, :-1] |= part[:, :, 1:] << _TOP
        below = np.uint64((1 << bit) - 1)
        moved[:, :, 0] = part[:, :, 0] & below | moved[:, :, 0] & ~below
        part[...] = moved

    def split(self, other: Block) -> None:
        """Gives the upper half of its rules, of which there are as many as fit, to an empty block."""
        half = self.vectors.shape[2] // 2
        rules = 64 * half
        other.vectors[:, :, :half] = self.vectors[:, :, half:]
        self.vectors[:, :, half:] = 0
        other.records[:rules] = self.records[rules:]
        self.records[rules:] = 0
        self.ranks, other.ranks = self.ranks[:rules], self.ranks[rules:]

    def widen(self, other: Block) -> None:
        """Gives all its rules to an empty block that has more words."""
        words = self.vectors.shape[2]
        other.vectors[:, :, :words] = self.vectors
        other.records[: 64 * words] = self.records
        other.ranks = self.ranks


class BitVectors:
    """The rules of a table, in blocks by rank: a write moves rules within one block only."""

    def __init__(self, layout: IndexLayout, rules: Sequence[Rule]) -> None:
        """With these rules, sorted by rank."""
        self._layout = layout
        self.count = 0
        self._blocks = [Block(layout, 1 if len(rules) <= NARROW_BITS else lay.BLOCK_WORDS)]
        self._list = np.zeros(0, dtype=np.uint64)
        for rule in rules:
            if self._blocks[-1].full:
                self._blocks.append(Block(layout, lay.BLOCK_WORDS))
            self._put(self._blocks[-1], rule)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks, the best rules first."""
        return tuple(self._blocks)

    @property
    def sparse(self) -> bool:
        """Whether many fewer blocks would do."""
        return len(self._blocks) > 1 + self.count // (BLOCK_BITS // 4)

    def lead(self, head: NDArray[np.uint64]) -> None:
        """Lets the head of a table lead here; due after every write."""
        first = self._blocks[0]
        if len(first.records) == NARROW_BITS:
            head[lay.HEAD_BLOCKS] = 0
            head[lay.HEAD_VECTORS], head[lay.HEAD_RECORDS] = first.addresses
            return
        if len(self._list) != 2 * len(self._blocks):
            words = [address for block in self._blocks for address in block.addresses]
            self._list = np.array(words, dtype=np.uint64)
        head[lay.HEAD_BLOCKS] = len(self._blocks)
        head[lay.HEAD_VECTORS] = address_of(self._list)

    def add(self, rule: Rule) -> None:
        """Takes in a rule."""
        at = self._block_of(rule.rank)
        block = self._blocks[at]
        if block.full:
            other = Block(self._layout, lay.BLOCK_WORDS)
            if len(block.records) == NARROW_BITS:
                block.widen(other)
                self._blocks[at] = block = other
            else:
                block.split(other)
                self._blocks.insert(at + 1, other)
                block = other if rule.rank > other.ranks[0] else block
        self._put(block, rule)

    def remove(self, rank: Rank) -> None:
        """Takes a rule out."""
        at = self._block_of(rank)
        self._blocks[at].remove(rank)
        self.count -= 1
        if not self._blocks[at].ranks and len(self._blocks) > 1:
            del self._blocks[at]

    def _block_of(self, rank: Rank) -> int:
        """The last block that does not begin behind the rank."""
        return bisect_right(self._blocks, rank, 1, key=lambda block: block.ranks[0]) - 1

    def _put(self, block: Block, rule: Rule) -> None:
        value, mask = rule.packed
        allowed = _ALLOWED[self._split(value), self._split(mask)]
        for number, _, _ in self._layout.ranges:
            field = rule.key[number]
            assert isinstance(field, tuple)
            allowed = allowed & self._within(number, field)
        block.insert(rule.rank, allowed, rule.record.address)
        self.count += 1

    def _split(self, packed: int) -> NDArray[np.uint8]:
        """The number's nibbles, the lowest first."""
        count = self._layout.nibbles
        data = np.frombuffer(packed.to_bytes(count // 2 + 1, "little"), dtype=np.uint8)
        nibbles = np.empty(2 * len(data), dtype=np.uint8)
        nibbles[0::2] = data & 15
        nibbles[1::2] = data >> 4
        return nibbles[:count]

    def _within(self, number: int, field: tuple[int, int]) -> NDArray[np.uint64]:
        """`[nibble, x]`: whether (1) or not (0) x is in some key with field `number` in the range.

        What a nibble says is bounded only as long as all bits above it are the same at both ends.
        """
        keys = self._layout.keys
        key = keys[number]
        below = sum(k.width for k in keys[number + 1 :])
        low, high = field
        allowed = np.ones((self._layout.nibbles, 16), dtype=np.uint64)
        for nibble in range((below + key.width - 1) // 4, below // 4 - 1, -1):
            top = min(4 * nibble + 4 - below, key.width)
            if low >> top != high >> top:
                break
            bottom = max(4 * nibble - below, 0)
            mask = (1 << top - bottom) - 1
            sign = 1 << top - bottom - 1 if key.signed and top == key.width else 0
            parts = np.arange(16) >> bottom + below - 4 * nibble & mask ^ sign
            first, last = (bound >> bottom & mask ^ sign for bound in (low, high))
            allowed[nibble] = (first <= parts) & (parts <= last)
        return allowed


def cost(layout: IndexLayout, rules: int) -> int:
    """What a look at the vectors of so many rules costs, in looks at single vectors."""
    return max(1, -(-rules // BLOCK_BITS)) * layout.nibbles + 20
