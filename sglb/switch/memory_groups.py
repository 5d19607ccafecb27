"""Rules in groups of one mask: prefixes of several keys or of wide ones, and rules with priorities.

Each group is a hash table by masked value; native code looks at one group after the other, in the order
of their ranks, the largest first (see `native.table_layout`).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sglb.p4.native import table_layout as lay
from sglb.p4.native.table_layout import IndexLayout
from sglb.switch.keys import MatchKey
from sglb.switch.lookup import Priorities
from sglb.switch.memory import WORD_MASK, Arena, address_of
from sglb.switch.memory_bits import BitVectors, Rule, cost
from sglb.switch.memory_index import Slots, StoredRule, masked, store_key, words_of

_FIRST_GROUPS: Final = 4
#: What looks at a group and at a further rule of a bucket cost, in looks at bit vectors (measured).
_GROUP_COST: Final = 15
_CHAIN_COST: Final = 10


class _Ranked(Protocol):
    """The rules of one mask; groups are sorted by `rank`, the largest first."""

    mask: int
    rank: tuple[int, ...]
    slots: Slots


G = TypeVar("G", bound=_Ranked)


class _Groups(Generic[G]):
    """Groups by their masks, and the list of them in memory to which a table's head leads."""

    def __init__(self, layout: IndexLayout, head: NDArray[np.uint64]) -> None:
        self.by_mask: dict[int, G] = {}
        self._layout = layout
        self._head = head
        self._ordered: list[G] = []
        self._rows = np.zeros((0, layout.group_words), dtype=np.uint64)
        self._grow(_FIRST_GROUPS)
        head[lay.HEAD_EXTENT] = 0

    def enter(self, group: G) -> None:
        """A new group, which has no rules yet, comes last of its rank."""
        self.by_mask[group.mask] = group
        count = len(self._ordered)
        if count == len(self._rows):
            self._grow(2 * count)
        at = self._place(group.rank)
        self._rows[at + 1 : count + 1] = self._rows[at:count].copy()
        self._ordered.insert(at, group)
        self._describe(at, group)
        self._head[lay.HEAD_EXTENT] = count + 1

    def leave(self, group: G) -> None:
        """A group has no rules any more."""
        del self.by_mask[group.mask]
        at = self._ordered.index(group)
        del self._ordered[at]
        count = len(self._ordered)
        self._rows[at:count] = self._rows[at + 1 : count + 1].copy()
        self._head[lay.HEAD_EXTENT] = count

    def refresh(self, group: G, rank: tuple[int, ...]) -> None:
        """Writes the group's description anew, where it ranks now."""
        at = self._ordered.index(group)
        if rank != group.rank:
            del self._ordered[at]
            group.rank = rank
            to = self._place(rank)
            self._ordered.insert(to, group)
            if to < at:
                self._rows[to + 1 : at + 1] = self._rows[to:at].copy()
            else:
                self._rows[at:to] = self._rows[at + 1 : to + 1].copy()
            at = to
        self._describe(at, group)

    def _place(self, rank: tuple[int, ...]) -> int:
        return bisect_right(self._ordered, _last_first(rank), key=lambda g: _last_first(g.rank))

    def _describe(self, at: int, group: G) -> None:
        words = (group.rank[0] & WORD_MASK, group.slots.address, group.slots.mask)
        self._rows[at] = (*words, *words_of(group.mask, self._layout.words))

    def _grow(self, count: int) -> None:
        rows = np.zeros((count, self._layout.group_words), dtype=np.uint64)
        rows[: len(self._ordered)] = self._rows[: len(self._ordered)]
        self._rows = rows
        self._head[lay.HEAD_INDEX] = address_of(rows)


# --- by prefix lengths ----------------------------------------------------------------------------


class _Prefixes:
    """The rules of one combination of prefix lengths: no two have the same value."""

    __slots__ = ("count", "mask", "rank", "slots")

    def __init__(self, mask: int, rank: tuple[int, ...], slots: Slots) -> None:
        self.mask = mask
        self.rank = rank
        self.slots = slots
        self.count = 0


class LengthIndex:
    """Prefixes by their lengths: the first key's longer one counts most."""

    def __init__(self, layout: IndexLayout, head: NDArray[np.uint64], arena: Arena) -> None:
        self._layout = layout
        self._arena = arena
        self._groups: _Groups[_Prefixes] = _Groups(layout, head)

    def add(self, rule: StoredRule) -> None:
        """Takes a rule in."""
        layout = self._layout
        packed, mask = masked(rule.key, layout.keys)
        store_key(rule, layout, packed)
        group = self._groups.by_mask.get(mask)
        if group is None:
            slots = Slots(layout.words, self._arena)
            group = _Prefixes(mask, self._lengths(rule.key), slots)
            self._groups.enter(group)
        address = group.slots.address
        group.slots.add(packed, rule.record.address)
        group.count += 1
        if group.slots.address != address:
            self._groups.refresh(group, group.rank)

    def remove(self, rule: StoredRule) -> None:
        """Takes a rule out."""
        packed, mask = masked(rule.key, self._layout.keys)
        group = self._groups.by_mask[mask]
        group.slots.remove(packed, rule.record.address)
        group.count -= 1
        if not group.count:
            self._groups.leave(group)

    def _lengths(self, key: MatchKey) -> tuple[int, ...]:
        pairs = zip(key, self._layout.keys, strict=True)
        return tuple(field[1] for field, k in pairs if k.kind == "lpm" and isinstance(field, tuple))


# --- by priority ----------------------------------------------------------------------------------


class _Rules:
    """The rules of one combination of masks, by masked value, each bucket with the best first."""

    __slots__ = ("buckets", "mask", "priorities", "rank", "slots")

    def __init__(self, mask: int, slots: Slots) -> None:
        self.mask = mask
        self.rank: tuple[int, ...] = (-1,)
        self.slots = slots
        self.priorities = Priorities()
        self.buckets: dict[int, list[StoredRule]] = {}


class RuleIndex:
    """Rules by priority. Those of one bucket are chained by `next`."""

    def __init__(self, layout: IndexLayout, head: NDArray[np.uint64], arena: Arena) -> None:
        self._layout = layout
        self._head = head
        self._arena = arena
        self._groups: _Groups[_Rules] = _Groups(layout, head)
        self._rules: dict[int, StoredRule] = {}
        self._buckets = 0
        self._vectors: BitVectors | None = None
        head[lay.HEAD_VECTORS] = 0  # a value set's head may have led to those of its last members

    def add(self, rule: StoredRule) -> None:
        """Takes a rule in."""
        layout = self._layout
        packed, mask = masked(rule.key, layout.keys)
        store_key(rule, layout, packed)
        self._store_rule(rule)
        group = self._groups.by_mask.get(mask)
        if group is None:
            group = _Rules(mask, Slots(layout.words, self._arena))
            self._groups.enter(group)
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
        self._groups.refresh(group, (group.priorities.best,))
        self._add_to_vectors(rule, (packed, mask))

    def remove(self, rule: StoredRule) -> None:
        """Takes a rule out."""
        packed, mask = masked(rule.key, self._layout.keys)
        group = self._groups.by_mask[mask]
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
            self._groups.refresh(group, (group.priorities.best,))
        else:
            self._groups.leave(group)
        self._remove_from_vectors(rule)

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
        count = len(self._groups.by_mask)
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


def _preference(rule: StoredRule) -> tuple[int, int]:
    return -rule.priority, rule.order


def _last_first(rank: tuple[int, ...]) -> tuple[int, ...]:
    """Sorts ranks from the largest down."""
    return tuple(-part for part in rank)
