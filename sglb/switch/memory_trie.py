"""Longest prefixes of one key in memory: a trie of nodes for eight bits each.

Leaves are pushed down: a node's place holds the record of the longest prefix that covers it, so a
lookup never looks back. The first node takes 8 bits; once there are many prefixes it takes 16, which
spares a step. What native code reads has only the places where the value changes, with a bitmap of
them: the idea of Asai and Ohara's Poptrie (SIGCOMM 2015). So even many prefixes fit a processor's cache.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sglb.p4.native import table_layout as lay
from sglb.p4.native.table_layout import IndexLayout
from sglb.switch.memory import address_of, aligned_bytes
from sglb.switch.memory_index import StoredRule

_STEP: Final = 8
_WIDE_STEP: Final = 16
#: From how many prefixes on the first node is a wide one.
_MANY: Final = 2048
#: Bytes in the first chunk of memory for pieces of one size, and in the largest.
_FIRST_BYTES: Final = 512
_MOST_BYTES: Final = 1 << 18
_ONE: Final = np.uint64(1)
_BLOCK: Final = lay.TRIE_BLOCK
_BLOCK_WORDS: Final = 2


class _Piece:
    """Some words of memory and where they are."""

    __slots__ = ("address", "words")

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self.words = words
        self.address = address_of(words)


class _Pool:
    """Memory in pieces whose words are powers of two, those of a size beside each other."""

    def __init__(self) -> None:
        self._free: dict[int, list[_Piece]] = {}
        self._bytes: dict[int, int] = {}

    def take(self, words: int) -> _Piece:
        """A piece of at least so many words, with anything in them."""
        size = 1 << (words - 1).bit_length()
        free = self._free.setdefault(size, [])
        if not free:
            piece_bytes = lay.WORD * size
            chunk_bytes = max(self._bytes.get(size, _FIRST_BYTES), piece_bytes)
            self._bytes[size] = min(2 * chunk_bytes, _MOST_BYTES)
            chunk = aligned_bytes(chunk_bytes // piece_bytes * piece_bytes).view(np.uint64)
            free.extend(map(_Piece, chunk.reshape(-1, size)))
        return free.pop()

    def give_back(self, piece: _Piece) -> None:
        """A piece is not used any more."""
        self._free[len(piece.words)].append(piece)


class _Node:
    """The bits from `first` on: for each place the address of a record, or of a child plus one.

    `record` is what the parent's place would hold without this node. `lengths` are those of the
    prefixes that the places belong to, -1 for none. `prefixes` counts those that end here. `places`
    are ours alone; `publish` brings them where native code looks.
    """

    __slots__ = (
        *("address", "children", "first", "lengths", "places", "prefixes", "record", "step"),
        *("_flags", "_head", "_pool", "_values"),
    )

    def __init__(self, pool: _Pool, first: int, step: int, record: int, length: int) -> None:
        self.first = first
        self.step = step
        self.record = record
        self.places = np.full(1 << step, record, dtype=np.uint64)
        self.lengths = np.full(1 << step, length, dtype=np.int16)
        self.children: dict[int, _Node] = {}
        self.prefixes = 0
        self._pool = pool
        self._head = pool.take((1 << step) // _BLOCK * _BLOCK_WORDS)
        self._values: list[_Piece | None] = [None] * ((1 << step) // _BLOCK)
        self._flags = np.ones(_BLOCK, dtype=np.bool_)
        self.address = self._head.address
        self.publish(0, 1 << step)

    def publish(self, low: int, high: int) -> None:
        """Lets native code see what these places hold."""
        flags, head = self._flags, self._head.words
        for block in range(low // _BLOCK, (high - 1) // _BLOCK + 1):
            places = self.places[block * _BLOCK : (block + 1) * _BLOCK]
            np.not_equal(places[1:], places[:-1], out=flags[1:])
            values = places[flags]
            piece = self._values[block]
            if piece is None or len(piece.words) < len(values):
                if piece is not None:
                    self._pool.give_back(piece)
                piece = self._values[block] = self._pool.take(len(values))
            piece.words[: len(values)] = values
            at = block * _BLOCK_WORDS
            head[at : at + 1] = np.packbits(flags, bitorder="little").view(np.uint64)
            # A count of ones, which is at least one, finds the value.
            head[at + 1] = piece.address - lay.WORD

    def hold(self, place: int, value: int) -> None:
        """One place leads to a child, or to a record again."""
        self.places[place] = value
        self.publish(place, place + 1)

    def free(self) -> None:
        """The node goes."""
        for piece in (self._head, *self._values):
            if piece is not None:
                self._pool.give_back(piece)

    def cover(self, low: int, high: int, old: int, record: int, length: int) -> None:
        """Gives places of prefixes no longer than `old` this record, in the nodes below too."""
        places, lengths = self.places[low:high], self.lengths[low:high]
        chosen = lengths <= old
        if self.children:
            inner = chosen & (places & _ONE != 0)
            for place in (low + np.flatnonzero(inner)).tolist():
                child = self.children[place]
                child.record = record
                child.cover(0, 1 << _STEP, old, record, length)
            places[chosen & ~inner] = record
        else:
            places[chosen] = record
        lengths[chosen] = length
        self.publish(low, high)


class TrieIndex:
    """Prefixes of one key of at most 64 bits."""

    def __init__(self, layout: IndexLayout, head: NDArray[np.uint64]) -> None:
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
            parent.hold(place, child.record)
            child.free()

    def _plant(self, step: int) -> None:
        self._pool = _Pool()
        self._root = _Node(self._pool, 0, step, 0, -1)
        self._head[lay.HEAD_INDEX] = self._root.address
        self._head[lay.HEAD_EXTENT] = 64 - step

    def _enter(self, value: int, length: int, record: int) -> None:
        node = self._root
        while length > node.first + node.step:
            place = self._place(node, value)
            child = node.children.get(place)
            if child is None:
                first, below = node.first + node.step, int(node.places[place])
                child = _Node(self._pool, first, _STEP, below, int(node.lengths[place]))
                node.children[place] = child
                node.hold(place, child.address | 1)
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
