"""How buffers are cut. Both ends of a message compute the same cuts from the same sizes."""

from __future__ import annotations

from itertools import pairwise


def segments(data: memoryview, count: int, itemsize: int) -> list[memoryview]:
    """`count` neighbouring parts of whole elements whose sizes differ by one element at most."""
    items = len(data) // itemsize
    bounds = [index * items // count * itemsize for index in range(count + 1)]
    return [data[lo:hi] for lo, hi in pairwise(bounds)]


def pieces(data: memoryview, piece_bytes: int) -> list[memoryview]:
    """Pieces of `piece_bytes` and a rest; none of an empty buffer."""
    return [data[lo : lo + piece_bytes] for lo in range(0, len(data), piece_bytes)]
