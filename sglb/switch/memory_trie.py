"""Longest prefixes of one key in memory: a trie of nodes for eight bits each.

Leaves are pushed down: a node's place holds the record of the longest prefix that covers it, so a
lookup never looks back. The first node takes 8 bits; once there are many prefixes it takes 16, which
spares a step.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sglb.p4.native import table_layout as lay
from sglb.p4.native.table_layout import IndexLayout
from sglb.switch.memory import Arena, address_of
from sglb.switch.memory_index import StoredRule

_STEP: Final = 8
_WIDE_STEP: Final = 16
#: From how many prefixes on the first node is a wide one.
_MANY: Final = 2048
#: Nodes in the first piece of memory, and in the largest.
_FIRST_NODES: Final = 4
_MOST_NODES: Final = 4096
_ONE: Final = np.uint64(1)


class _Pool:
    """Nodes' memory, which grows in larger and larger pieces."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._free: list[NDArray[np.uint64]] = []
        self._count = _FIRST_NODES

    def take(self) -> NDArray[np.uint64]:
        """The places of a node, with anything in them."""
        if not self._free:
            chunk = self._arena.take((lay.WORD << _STEP) * self._count).view(np.uint64)
            self._free.extend(chunk.reshape(self._count, 1 << _STEP))
            self._count = min(2 * self._count, _MOST_NODES)
        return self._free.pop()

    def give_back(self, memory: NDArray[np.uint64]) -> None:
        """A node is gone."""
        self._free.append(memory)


class _Node:
    """The bits from `first` on: for each place the address of a record, or of a child plus one.

    `record` is what the parent's place would hold without this node. `lengths` are those of the
    prefixes that the places belong to, -1 for none. `prefixes` counts those that end here.
    """

    __slots__ = ("address", "children", "first", "lengths", "memory", "prefixes", "record", "step")

    def __init__(self, first: int, memory: NDArray[np.uint64], record: int, length: int) -> None:
        self.first = first
        self.step = len(memory).bit_length() - 1
        self.record = record
        self.memory = memory
        self.memory.fill(record)
        self.lengths = np.empty(len(memory), dtype=np.int8)
        self.lengths.fill(length)
        self.address = address_of(self.memory)
        self.children: dict[int, _Node] = {}
        self.prefixes = 0

    def cover(self, low: int, high: int, old: int, record: int, length: int) -> None:
        """Gives places of prefixes no longer than `old` this record, in the nodes below too."""
        memory, lengths = self.memory[low:high], self.lengths[low:high]
        chosen = lengths <= old
        if self.children:
            inner = chosen & (memory & _ONE != 0)
            for place in (low + np.flatnonzero(inner)).tolist():
                child = self.children[place]
                child.record = record
                child.cover(0, 1 << _STEP, old, record, length)
            memory[chosen & ~inner] = record
        else:
            memory[chosen] = record
        lengths[chosen] = length


class TrieIndex:
    """Prefixes of one key of at most 64 bits."""

    def __init__(self, layout: IndexLayout, head: NDArray[np.uint64], arena: Arena) -> None:
        self._arena = arena
        self._width = layout.bits
        self._head = head
        self._rules: dict[tuple[int, int], StoredRule] = {}
        self._lengths: dict[int, int] = {}
        self._plant(_STEP)

    def add(self, rule: StoredRule) -> None:
        """Takes a rule in."""
        value, length = _prefix(rule)
        self._rules[value, length] = rule
        self._lengths[length] = self._lengths.get(length, 0) + 1
        if len(self._rules) == _MANY and self._width > _STEP:
            self._plant(_WIDE_STEP)
            for (other, bits), known in self._rules.items():
                self._enter(other, bits, known.record.address)
        else:
            self._enter(value, length, rule.record.address)

    def remove(self, rule: StoredRule) -> None:
        """Takes a rule out."""
        value, length = _prefix(rule)
        del self._rules[value, length]
        self._lengths[length] -= 1
        if not self._lengths[length]:
            del self._lengths[length]
        record, shorter = self._covering(value, length)
        path = self._path(value, length)
        node = path[-1]
        node.prefixes -= 1
        low, high = self._range(node, value, length)
        # Everything of this very length in the range is this prefix.
        node.cover(low, high, length, record, shorter)
        for parent, child in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
            if child.prefixes or child.children:
                break
            place = self._place(parent, value)
            del parent.children[place]
            parent.memory[place] = child.record
            self._pool.give_back(child.memory)

    def _plant(self, step: int) -> None:
        self._pool = _Pool(self._arena)
        root = self._arena.take(lay.WORD << step).view(np.uint64)
        self._root = _Node(0, root, 0, -1)
        self._head[lay.HEAD_INDEX] = self._root.address
        self._head[lay.HEAD_EXTENT] = 64 - step

    def _enter(self, value: int, length: int, record: int) -> None:
        node = self._root
        while length > node.first + node.step:
            place = self._place(node, value)
            child = node.children.get(place)
            if child is None:
                first, below = node.first + node.step, int(node.memory[place])
                memory, known = self._pool.take(), int(node.lengths[place])
                child = node.children[place] = _Node(first, memory, below, known)
                node.memory[place] = child.address | 1
            node = child
        node.prefixes += 1
        low, high = self._range(node, value, length)
        node.cover(low, high, length - 1, record, length)

    def _path(self, value: int, length: int) -> list[_Node]:
        """The nodes down to the one where the prefix ends."""
        path = [self._root]
        while length > path[-1].first + path[-1].step:
            path.append(path[-1].children[self._place(path[-1], value)])
        return path

    def _place(self, node: _Node, value: int) -> int:
        """The value's place in a node."""
        shift = self._width - node.first - node.step
        part = value >> shift if shift >= 0 else value << -shift
        return part & (1 << node.step) - 1

    def _range(self, node: _Node, value: int, length: int) -> tuple[int, int]:
        """The places in a node that a prefix covers which ends there."""
        low = self._place(node, value)
        return low, low + (1 << node.first + node.step - length)

    def _covering(self, value: int, length: int) -> tuple[int, int]:
        """The record and length of the next shorter prefix of the value; (0, -1) without one."""
        for shorter in range(length - 1, -1, -1):
            if shorter in self._lengths:
                cut = self._width - shorter
                rule = self._rules.get((value >> cut << cut, shorter))
                if rule is not None:
                    return rule.record.address, shorter
        return 0, -1


def _prefix(rule: StoredRule) -> tuple[int, int]:
    (field,) = rule.key
    assert isinstance(field, tuple)
    return field
