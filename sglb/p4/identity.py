"""Functions of one object that are worked out once for it, by what it is and not what it equals.

The switches of a fabric run one program: what follows from its declarations alone is theirs in common.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Identity(Generic[T]):
    """An object as a key: equal to itself only, and kept alive as long as the key is."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def once_for_each(size: int) -> Callable[[Callable[[T], R]], Callable[[T], R]]:
    """The function with its last `size` results kept, each by the identity of its argument."""

    def decorate(function: Callable[[T], R]) -> Callable[[T], R]:
        @lru_cache(maxsize=size)
        def kept(key: Identity[T]) -> R:
            return function(key.value)

        @wraps(function)
        def call(value: T) -> R:
            return kept(Identity(value))

        return call

    return decorate
