"""Indices in memory, for native code: what `native.emit_lookup` searches, kept up to date by writes.

Each is the twin of one in `lookup`, by the layout in `native.table_layout`. A write touches only what
it changes: slots grow by doubling, a trie's nodes come and go one by one, the list of groups is written
anew when a group appears or its best priority changes. Nobody may look anything up meanwhile.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sglb.p4.native import table_layout as lay
from sglb.p4.native.table_layout import IndexLayout, KeyShape, Kind
from sglb.switch.keys import MatchKey, prefix_mask
from sglb.switch.lookup import Priorities
from sglb.switch.memory import WORD_MASK, Record, address_of
from sglb.switch.memory_bits import BitVectors, Rule, cost

_FIRST_SLOTS: Final = 8
_FIRST_GROUPS: Final = 4
#: What looks at a group and at a further rule of a bucket cost, in looks at bit vectors (measured).
_GROUP_COST: Final = 15
_CHAIN_COST: Final = 10


class StoredRule(Protocol):
    """What an index needs of an entry; larger `priority` wins, then smaller `order`."""

    key: MatchKey
    priority: int
    order: int
    record: Record


class MemoryIndex(Protocol):
    """Rules where native code finds them. The head that it was made with leads to them."""

    def add(self, rule: StoredRule) -> None:
        """Takes a rule in."""

    def remove(self, rule: StoredRule) -> None:
        """Takes a rule out; it must be in."""


def make_memory_index(layout: IndexLayout, head: NDArray[np.uint64]) -> MemoryIndex | None:
    """An empty index for these keys, which the head then leads to; None without keys."""
    if layout.kind is Kind.NONE:
        return None
    if layout.kind is Kind.DENSE:
        return DenseIndex(layout, head)
    if layout.kind is Kind.HASH:
        return HashIndex(layout, head)
    if layout.kind is Kind.TRIE:
        from sglb.switch.memory_trie import TrieIndex

        return TrieIndex(layout, head)
    return GroupIndex(layout, head)


# --- keys -----------------------------------------------------------------------------------------


def pack(values: Sequence[int], keys: Sequence[KeyShape]) -> int:
    """The fields' bits as one number, the first foremost."""
    packed = 0
    for value, key in zip(values, keys, strict=True):
        packed = packed << key.width | value
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

    def __init__(self, layout: IndexLayout, head: NDArray[np.uint64]) -> None:
        self._keys = layout.keys
        self._memory = np.zeros(1 << layout.bits, dtype=np.uint64)
        self._records = self._memory.data
        head[lay.HEAD_INDEX] = address_of(self._memory)

    def add(self, rule: StoredRule) -> None:
        """Takes a rule in."""
        self._records[masked(rule.key, self._keys)[0]] = rule.record.address

    def remove(self, rule: StoredRule) -> None:
        """Takes a rule out."""
        self._records[masked(rule.key, self._keys)[0]] = 0


class Slots:
    """A hash table of (tag, record), with linear probing, at most half full."""

    def __init__(self, words: int) -> None:
        self._words = words
        self._used = 0
        self._make(_FIRST_SLOTS)

    def _make(self, count: int) -> None:
        self.mask = count - 1
        self._memory = np.zeros(2 * count, dtype=np.uint64)
        self._slots = self._memory.data
        self.address = address_of(self._memory)

    def add(self, packed: int, record: int) -> None:
        """Puts a record in under a key that is not there."""
        self._used += 1
        if 2 * self._used > self.mask + 1:
            old = self._slots
            self._make(2 * (self.mask + 1))
            for at in range(0, len(old), 2):
                if old[at + 1]:
                    self._put(old[at], self._hash_of(old[at]), old[at + 1])
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


def _store_key(rule: StoredRule, layout: IndexLayout, packed: int) -> None:
    if layout.key is not None:
        start = rule.record.at + layout.key // lay.WORD
        for number, word in enumerate(words_of(packed, layout.words)):
            rule.record.words[start + number] = word


class HashIndex:
    """Exact keys."""

    def __init__(self, layout: IndexLayout, head: NDArray[np.uint64]) -> None:
        self._layout = layout
        self._head = head
        self._slots = Slots(layout.words)
        self._lead()

    def add(self, rule: StoredRule) -> None:
        """Takes a rule in."""
        packed, _ = masked(rule.key, self._layout.keys)
        _store_key(rule, self._layout, packed)
        self._slots.add(packed, rule.record.address)
        self._lead()

    def remove(self, rule: StoredRule) -> None:
        """Takes a rule out."""
        packed, _ = masked(rule.key, self._layout.keys)
        self._slots.remove(packed, rule.record.address)

    def _lead(self) -> None:
        self._head[lay.HEAD_INDEX] = self._slots.address
        self._head[lay.HEAD_EXTENT] = self._slots.mask


# --- groups ---------------------------------------------------------------------------------------


class _Group:
    """The rules of one mask. `rank` is what groups are sorted by, the largest first."""

    __slots__ = ("buckets", "mask", "priorities", "rank", "slots")

    def __init__(self, mask: int, rank: tuple[int, ...], words: int) -> None:
        self.mask = mask
        self.rank = rank
        self.slots = Slots(words)
        self.priorities = Priorities()
        self.buckets: dict[int, list[StoredRule]] = {}


class GroupIndex:
    """One hash table a mask: prefixes by their lengths, or rules by priority.

    A bucket holds the rules of one masked value, the best first: they are chained by `next`.
    """

    def __init__(self, layout: IndexLayout, head: NDArray[np.uint64]) -> None:
        self._layout = layout
        self._head = head
        self._by_length = layout.kind is Kind.GROUPS
        self._groups: dict[int, _Group] = {}
        self._ordered: list[_Group] = []
        self._rules: dict[int, StoredRule] = {}
        self._buckets = 0
        self._vectors: BitVectors | None = None
        self._rows = np.zeros((0, layout.group_words), dtype=np.uint64)
        self._grow(_FIRST_GROUPS)
        head[lay.HEAD_EXTENT] = head[lay.HEAD_VECTORS] = 0

    def add(self, rule: StoredRule) -> None:
        """Takes a rule in."""
        layout = self._layout
        packed, mask = masked(rule.key, layout.keys)
        _store_key(rule, layout, packed)
        self._store_rule(rule)
        group = self._groups.get(mask)
        if group is None:
            rank = self._lengths(rule.key) if self._by_length else (-1,)
            group = self._groups[mask] = _Group(mask, rank, layout.words)
            self._enter(group)
        bucket = group.buckets.setdefault(packed, [])
        insort(bucket, rule, key=_preference)
        if bucket[0] is rule:
            if len(bucket) == 1:
                self._buckets += 1
                group.slots.add(packed, rule.record.address)
            else:
                group.slots.replace(packed, bucket[1].record.address, rule.record.address)
        self._chain(bucket)
        group.priorities.add(rule.priority)
        self._refresh(group)
        if not self._by_length:
            self._add_to_vectors(rule, (packed, mask))

    def remove(self, rule: StoredRule) -> None:
        """Takes a rule out."""
        packed, mask = masked(rule.key, self._layout.keys)
        group = self._groups[mask]
        bucket = group.buckets[packed]
        bucket.remove(rule)
        address = rule.record.address
        if not bucket:
            group.slots.remove(packed, address)
            del group.buckets[packed]
            self._buckets -= 1
        elif _preference(rule) < _preference(bucket[0]):
            group.slots.replace(packed, address, bucket[0].record.address)
        self._chain(bucket)
        group.priorities.remove(rule.priority)
        if group.buckets:
            self._refresh(group)
        else:
            del self._groups[mask]
            self._leave(group)
        if not self._by_length:
            self._remove_from_vectors(rule)

    def _lengths(self, key: MatchKey) -> tuple[int, ...]:
        """The prefix lengths: the first key's longer one counts most."""
        pairs = zip(key, self._layout.keys, strict=True)
        return tuple(field[1] for field, k in pairs if k.kind == "lpm" and isinstance(field, tuple))

    # --- records ---

    def _store_rule(self, rule: StoredRule) -> None:
        layout = self._layout
        if layout.priority is None or layout.order is None:
            return
        record = rule.record
        record.words[record.at + layout.priority // lay.WORD] = rule.priority
        record.words[record.at + layout.order // lay.WORD] = rule.order
        for number, low_at, high_at in layout.ranges:
            field = rule.key[number]
            assert isinstance(field, tuple)
            size = lay.natural_bytes(layout.keys[number].width)
            for offset, bound in ((low_at, field[0]), (high_at, field[1])):
                start = record.at * lay.WORD + offset
                record.bytes[start : start + size] = bound.to_bytes(size, "little")

    def _chain(self, bucket: list[StoredRule]) -> None:
        if self._layout.next is None:
            return
        place = self._layout.next // lay.WORD
        following = 0
        for rule in reversed(bucket):
            record = rule.record
            record.words[record.at + place] = following
            following = record.address

    # --- bit vectors ---

    def _add_to_vectors(self, rule: StoredRule, packed: tuple[int, int]) -> None:
        self._rules[rule.record.address] = rule
        if self._vectors is not None:
            self._vectors.add(Rule(_preference(rule), rule.key, packed, rule.record))
            self._check_vectors(self._vectors)
        elif self._group_cost() > cost(self._layout, len(self._rules)):
            self._make_vectors()

    def _remove_from_vectors(self, rule: StoredRule) -> None:
        del self._rules[rule.record.address]
        if self._vectors is not None:
            self._vectors.remove(_preference(rule))
            if self._vectors.sparse:
                self._make_vectors()
            else:
                self._check_vectors(self._vectors)

    def _group_cost(self) -> int:
        count = len(self._groups)
        chained = len(self._rules) - self._buckets
        return _GROUP_COST * count + _CHAIN_COST * chained // max(count, 1)

    def _check_vectors(self, vectors: BitVectors) -> None:
        """Leads to the vectors, unless groups have become the cheaper way."""
        if 2 * self._group_cost() < cost(self._layout, len(self._rules)):
            self._vectors = None
            self._head[lay.HEAD_VECTORS] = 0
        else:
            vectors.lead(self._head)

    def _make_vectors(self) -> None:
        keys = self._layout.keys
        ranked = sorted(self._rules.values(), key=_preference)
        rules = [Rule(_preference(r), r.key, masked(r.key, keys), r.record) for r in ranked]
        self._vectors = BitVectors(self._layout, rules)
        self._check_vectors(self._vectors)

    # --- the groups' list ---

    def _enter(self, group: _Group) -> None:
        """A new group, which has no rules yet, comes last of its rank."""
        count = len(self._ordered)
        if count == len(self._rows):
            self._grow(2 * count)
        at = bisect_right(self._ordered, _last_first(group.rank), key=lambda g: _last_first(g.rank))
        self._rows[at + 1 : count + 1] = self._rows[at:count].copy()
        self._ordered.insert(at, group)
        self._describe(at, group)
        self._head[lay.HEAD_EXTENT] = count + 1

    def _leave(self, group: _Group) -> None:
        at = self._ordered.index(group)
        del self._ordered[at]
        count = len(self._ordered)
        self._rows[at:count] = self._rows[at + 1 : count + 1].copy()
        self._head[lay.HEAD_EXTENT] = count

    def _refresh(self, group: _Group) -> None:
        """Writes the group's description anew where it ranks now."""
        rank = group.rank if self._by_length else (group.priorities.best,)
        at = self._ordered.index(group)
        if rank != group.rank:
            del self._ordered[at]
            group.rank = rank
            to = bisect_right(self._ordered, _last_first(rank), key=lambda g: _last_first(g.rank))
            self._ordered.insert(to, group)
            if to < at:
                self._rows[to + 1 : at + 1] = self._rows[to:at].copy()
            else:
                self._rows[at:to] = self._rows[at + 1 : to + 1].copy()
            at = to
        self._describe(at, group)

    def _describe(self, at: int, group: _Group) -> None:
        words = (group.rank[0] & WORD_MASK, group.slots.address, group.slots.mask)
        self._rows[at] = (*words, *words_of(group.mask, self._layout.words))

    def _grow(self, count: int) -> None:
        rows = np.zeros((count, self._layout.group_words), dtype=np.uint64)
        rows[: len(self._ordered)] = self._rows[: len(self._ordered)]
        self._rows = rows
        self._head[lay.HEAD_INDEX] = address_of(rows)


def _preference(rule: StoredRule) -> tuple[int, int]:
    return -rule.priority, rule.order


def _last_first(rank: tuple[int, ...]) -> tuple[int, ...]:
    """Sorts ranks from the largest down."""
    return tuple(-part for part in rank)
