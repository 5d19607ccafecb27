"""Indices in memory, for native code: what `native.emit_lookup` searches, kept up to date by writes.

Each is the twin of one in `lookup`, by the layout in `native.table_layout`. A write touches only what
it changes: slots grow by doubling, a trie's nodes come and go one by one (`memory_trie`), the list of
groups is written anew when a group appears or its best priority changes (`memory_groups`). Nobody may
look anything up meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sglb.p4.native import table_layout as lay
from sglb.p4.native.table_layout import IndexLayout, KeyShape, Kind
from sglb.switch.keys import MatchKey, prefix_mask
from sglb.switch.memory import WORD_MASK, Arena, Record, address_of

_FIRST_SLOTS: Final = 8


class StoredRule(Protocol):
    """What an index needs of an entry; larger `priority` wins, then smaller `order`."""

    key: MatchKey

    @property
    def priority(self) -> int:
        """Larger wins."""

    @property
    def order(self) -> int:
        """Its place among those of one priority."""

    @property
    def record(self) -> Record:
        """Where native code finds it."""


class MemoryIndex(Protocol):
    """Rules where native code finds them. The head that it was made with leads to them."""

    def add(self, rule: StoredRule) -> None:
        """Takes a rule in."""

    def remove(self, rule: StoredRule) -> None:
        """Takes a rule out; it must be in."""


def make_memory_index(
    layout: IndexLayout, head: NDArray[np.uint64], arena: Arena
) -> MemoryIndex | None:
    """An empty index for these keys, which the head then leads to; None without keys."""
    from sglb.switch import memory_groups, memory_trie

    match layout.kind:
        case Kind.NONE:
            return None
        case Kind.DENSE:
            return DenseIndex(layout, head, arena)
        case Kind.HASH:
            return HashIndex(layout, head, arena)
        case Kind.TRIE:
            return memory_trie.TrieIndex(layout, head, arena)
        case Kind.GROUPS:
            return memory_groups.LengthIndex(layout, head, arena)
        case Kind.RULES:
            return memory_groups.RuleIndex(layout, head, arena)


# --- keys -----------------------------------------------------------------------------------------


def pack(values: Sequence[int], keys: Sequence[KeyShape]) -> int:
    """The fields' bits as one number, the first foremost."""
    packed = 0
    for value, key in zip(values, keys, strict=True):
        packed = packed << key.width | value
    return packed


def pack_exact(key: MatchKey, widths: Sequence[int]) -> int:
    """`pack` for a rule's key of exact fields alone."""
    packed = 0
    for field, width in zip(key, widths, strict=True):
        assert isinstance(field, int)
        packed = packed << width | field
    return packed


def masked(key: MatchKey, keys: Sequence[KeyShape]) -> tuple[int, int]:
    """A rule's key as packed value and mask. A range has mask 0: it is looked at apart."""
    values: list[int] = []
    masks: list[int] = []
    for field, shape in zip(key, keys, strict=True):
        value = mask = 0
        if isinstance(field, int):
            value, mask = field, (1 << shape.width) - 1
        elif field is not None and shape.kind == "ternary":
            value, mask = field
        elif field is not None and shape.kind == "lpm":
            value, mask = field[0], prefix_mask(field[1], shape.width)
        values.append(value)
        masks.append(mask)
    return pack(values, keys), pack(masks, keys)


def words_of(packed: int, count: int) -> list[int]:
    """The 64-bit words of a number, the lowest first."""
    return [packed >> 64 * number & WORD_MASK for number in range(count)]


# --- one array, one hash table --------------------------------------------------------------------


class DenseIndex:
    """Short exact keys: an array by key."""

    def __init__(self, layout: IndexLayout, head: NDArray[np.uint64], arena: Arena) -> None:
        self._widths = [key.width for key in layout.keys]
        self._memory = arena.take(lay.WORD << layout.bits).view(np.uint64)
        self._records = self._memory.data
        head[lay.HEAD_INDEX] = address_of(self._memory)

    def add(self, rule: StoredRule) -> None:
        """Takes a rule in."""
        self._records[pack_exact(rule.key, self._widths)] = rule.record.address

    def remove(self, rule: StoredRule) -> None:
        """Takes a rule out."""
        self._records[pack_exact(rule.key, self._widths)] = 0


class Slots:
    """A hash table of (tag, record), with linear probing, at most half full."""

    def __init__(self, words: int, arena: Arena) -> None:
        self._words = words
        self._arena = arena
        self._used = 0
        self._make(_FIRST_SLOTS)

    def _make(self, count: int) -> None:
        self.mask = count - 1
        self._memory = self._arena.take(2 * count * lay.WORD)
        self._slots = self._memory.view(np.uint64).data
        self.address = address_of(self._memory)

    def add(self, packed: int, record: int) -> None:
        """Puts a record in under a key that is not there."""
        self._used += 1
        if 2 * self._used > self.mask + 1:
            memory, old = self._memory, self._slots
            self._make(2 * (self.mask + 1))
            for at in range(0, len(old), 2):
                if old[at + 1]:
                    self._put(old[at], self._hash_of(old[at]), old[at + 1])
            self._arena.give_back(memory)
        self._put(*self._tag(packed), record)

    def replace(self, packed: int, old: int, new: int) -> None:
        """Puts another record in the place of `old`."""
        self._slots[2 * self._find(packed, old) + 1] = new

    def remove(self, packed: int, record: int) -> None:
        """Takes the record out and moves those up that it had kept from their place."""
        slots, mask = self._slots, self.mask
        free = at = self._find(packed, record)
        while True:
            at = at + 1 & mask
            if not slots[2 * at + 1]:
                break
            home = self._hash_of(slots[2 * at]) & mask
            if (at - home & mask) >= (at - free & mask):
                slots[2 * free], slots[2 * free + 1] = slots[2 * at], slots[2 * at + 1]
                free = at
        slots[2 * free] = slots[2 * free + 1] = 0
        self._used -= 1

    def _tag(self, packed: int) -> tuple[int, int]:
        """A key's tag and hash."""
        hashed = lay.key_hash(words_of(packed, self._words))
        return (packed if self._words == 1 else hashed), hashed

    def _hash_of(self, tag: int) -> int:
        return lay.key_hash((tag,)) if self._words == 1 else tag

    def _put(self, tag: int, hashed: int, record: int) -> None:
        slots, mask = self._slots, self.mask
        at = hashed & mask
        while slots[2 * at + 1]:
            at = at + 1 & mask
        slots[2 * at], slots[2 * at + 1] = tag, record

    def _find(self, packed: int, record: int) -> int:
        slots, mask = self._slots, self.mask
        at = self._tag(packed)[1] & mask
        while slots[2 * at + 1] != record:
            at = at + 1 & mask
        return at


def store_key(rule: StoredRule, layout: IndexLayout, packed: int) -> None:
    """Writes a packed key into the rule's record, where the layout wants it."""
    if layout.key is not None:
        record = rule.record
        start = record.at + layout.key // lay.WORD
        for number, word in enumerate(words_of(packed, layout.words)):
            record.words[start + number] = word


class HashIndex:
    """Exact keys."""

    def __init__(self, layout: IndexLayout, head: NDArray[np.uint64], arena: Arena) -> None:
        self._layout = layout
        self._widths = [key.width for key in layout.keys]
        self._head = head
        self._slots = Slots(layout.words, arena)
        self._lead()

    def add(self, rule: StoredRule) -> None:
        """Takes a rule in."""
        packed = pack_exact(rule.key, self._widths)
        store_key(rule, self._layout, packed)
        address = self._slots.address
        self._slots.add(packed, rule.record.address)
        if self._slots.address != address:
            self._lead()

    def remove(self, rule: StoredRule) -> None:
        """Takes a rule out."""
        packed = pack_exact(rule.key, self._widths)
        self._slots.remove(packed, rule.record.address)

    def _lead(self) -> None:
        self._head[lay.HEAD_INDEX] = self._slots.address
        self._head[lay.HEAD_EXTENT] = self._slots.mask
