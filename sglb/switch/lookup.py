"""Indices that find the entry for a key: exact, longest prefix, and priority order over masks.

All hold anything that has `key`, `priority` and `order` (insertion number). They are built on dicts: a
prefix index has one dict per prefix length, a priority index one per combination of masks (tuple space
search), visited from the best priority down until no group can hold a better entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

from sglb.p4 import ir
from sglb.switch.keys import MatchKey, prefix_mask


class Rule(Protocol):
    """What an index needs of an entry; larger `priority` wins, then smaller `order`."""

    key: MatchKey

    @property
    def priority(self) -> int:
        """Larger wins."""

    @property
    def order(self) -> int:
        """Its place among those of one priority."""


R = TypeVar("R", bound=Rule)


class Index(Protocol[R]):
    """Finds rules by packet key."""

    def add(self, rule: R) -> None:
        """Takes a rule in."""

    def remove(self, rule: R) -> None:
        """Takes a rule out; it must be in."""

    def find(self, key: tuple[int, ...]) -> R | None:
        """The rule for a packet's key values, None when there is none."""


class ExactIndex(Generic[R]):
    """Every key exact."""

    def __init__(self) -> None:
        self._rules: dict[MatchKey, R] = {}
        self.find = self._rules.get

    def add(self, rule: R) -> None:
        """Takes a rule in."""
        self._rules[rule.key] = rule

    def remove(self, rule: R) -> None:
        """Takes a rule out."""
        del self._rules[rule.key]


class PrefixIndex(Generic[R]):
    """Exact and lpm keys. With several lpm keys, the first one's longer prefix counts most."""

    def __init__(self, keys: Sequence[ir.Key]) -> None:
        self._lpm = tuple(key.kind == "lpm" for key in keys)
        self._widths = tuple(key.width for key in keys)
        self._groups: dict[tuple[int, ...], dict[tuple[int, ...], R]] = {}
        self._ordered: list[tuple[tuple[int, ...], dict[tuple[int, ...], R]]] = []

    def _split(self, key: MatchKey) -> tuple[tuple[int, ...], tuple[int, ...]]:
        lengths: list[int] = []
        values: list[int] = []
        for field, width in zip(key, self._widths, strict=True):
            if isinstance(field, tuple):
                values.append(field[0])
                lengths.append(field[1])
            elif field is not None:
                values.append(field)
                lengths.append(width)
        return tuple(lengths), tuple(values)

    def add(self, rule: R) -> None:
        """Takes a rule in."""
        lengths, values = self._split(rule.key)
        group = self._groups.get(lengths)
        if group is None:
            group = self._groups[lengths] = {}
            self._order()
        group[values] = rule

    def remove(self, rule: R) -> None:
        """Takes a rule out."""
        lengths, values = self._split(rule.key)
        group = self._groups[lengths]
        del group[values]
        if not group:
            del self._groups[lengths]
            self._order()

    def _order(self) -> None:
        self._ordered = [
            (tuple(map(prefix_mask, lengths, self._widths)), self._groups[lengths])
            for lengths in sorted(self._groups, reverse=True)
        ]

    def find(self, key: tuple[int, ...]) -> R | None:
        """The rule with the longest prefix."""
        if len(key) == 1:
            value = key[0]
            for masks, group in self._ordered:
                rule = group.get((value & masks[0],))
                if rule is not None:
                    return rule
            return None
        for masks, group in self._ordered:
            rule = group.get(tuple([v & m for v, m in zip(key, masks, strict=True)]))
            if rule is not None:
                return rule
        return None


class Priorities:
    """The priorities of a set of rules; knows the best without looking at them all."""

    __slots__ = ("_counts", "_heap")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []

    @property
    def best(self) -> int:
        """The largest, -1 without any."""
        heap = self._heap
        while heap and -heap[0] not in self._counts:
            heappop(heap)
        return -heap[0] if heap else -1

    def add(self, priority: int) -> None:
        """One more rule has this priority."""
        if priority not in self._counts:
            heappush(self._heap, -priority)
        self._counts[priority] = self._counts.get(priority, 0) + 1

    def remove(self, priority: int) -> None:
        """One rule of this priority is gone."""
        self._counts[priority] -= 1
        if not self._counts[priority]:
            del self._counts[priority]


class _MaskGroup(Generic[R]):
    """Rules of one combination of masks, by masked value; each list is in order of preference."""

    __slots__ = ("best", "buckets", "masks", "priorities")

    def __init__(self, masks: tuple[int, ...]) -> None:
        self.masks = masks
        self.buckets: dict[tuple[int, ...], list[R]] = {}
        self.priorities = Priorities()
        self.best = -1


class PriorityIndex(Generic[R]):
    """Any mix that holds a ternary, range or optional key; lpm keys count as masks then."""

    def __init__(self, keys: Sequence[ir.Key]) -> None:
        self._keys = tuple(keys)
        self._full = tuple((1 << key.width) - 1 for key in keys)
        #: Range positions with the bit to flip so that signed order becomes unsigned order.
        self._ranges = tuple(
            (i, 1 << (key.width - 1) if key.signed else 0)
            for i, key in enumerate(keys)
            if key.kind == "range"
        )
        self._groups: dict[tuple[int, ...], _MaskGroup[R]] = {}
        self._ordered: list[_MaskGroup[R]] = []

    def _split(self, key: MatchKey) -> tuple[tuple[int, ...], tuple[int, ...]]:
        masks: list[int] = []
        values: list[int] = []
        for field, decl, full in zip(key, self._keys, self._full, strict=True):
            value, mask = 0, 0
            if isinstance(field, int):
                value, mask = field, full
            elif field is not None and decl.kind == "ternary":
                value, mask = field
            elif field is not None and decl.kind == "lpm":
                value, mask = field[0], prefix_mask(field[1], decl.width)
            masks.append(mask)
            values.append(value)
        return tuple(masks), tuple(values)

    def add(self, rule: R) -> None:
        """Takes a rule in."""
        masks, values = self._split(rule.key)
        group = self._groups.get(masks)
        if group is None:
            group = self._groups[masks] = _MaskGroup(masks)
            self._ordered.append(group)
        rules = group.buckets.setdefault(values, [])
        rules.append(rule)
        rules.sort(key=lambda r: (-r.priority, r.order))
        group.priorities.add(rule.priority)
        self._refresh(group)

    def remove(self, rule: R) -> None:
        """Takes a rule out."""
        masks, values = self._split(rule.key)
        group = self._groups[masks]
        rules = group.buckets[values]
        rules.remove(rule)
        if not rules:
            del group.buckets[values]
        if not group.buckets:
            del self._groups[masks]
            self._ordered.remove(group)
        else:
            group.priorities.remove(rule.priority)
            self._refresh(group)

    def _refresh(self, group: _MaskGroup[R]) -> None:
        best = group.priorities.best
        if best != group.best:
            group.best = best
            self._ordered.sort(key=lambda group: -group.best)

    def _in_ranges(self, rule: R, key: tuple[int, ...]) -> bool:
        for position, flip in self._ranges:
            field = rule.key[position]
            if isinstance(field, tuple):
                value = key[position] ^ flip
                if not field[0] ^ flip <= value <= field[1] ^ flip:
                    return False
        return True

    def find(self, key: tuple[int, ...]) -> R | None:
        """The rule with the largest priority, of equal ones the first inserted."""
        found: R | None = None
        for group in self._ordered:
            if found is not None and group.best < found.priority:
                break
            bucket = group.buckets.get(
                tuple([v & m for v, m in zip(key, group.masks, strict=True)])
            )
            if bucket is None:
                continue
            for rule in bucket:
                if found is not None and (rule.priority, -rule.order) < (
                    found.priority,
                    -found.order,
                ):
                    break
                if not self._ranges or self._in_ranges(rule, key):
                    found = rule
                    break
        return found


def make_index(keys: Sequence[ir.Key]) -> Index[R]:
    """The index that fits a table's key kinds."""
    kinds = {key.kind for key in keys}
    if kinds <= {"exact"}:
        return ExactIndex()
    if kinds <= {"exact", "lpm"}:
        return PrefixIndex(keys)
    return PriorityIndex(keys)
