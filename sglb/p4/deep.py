"""A deep stack for walks over trees: generated programs have chains of hundreds of `else if`s."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Python frames; a link of an `else if` chain takes about ten of them.
_FRAMES = 60_000
#: Enough for as many frames of which each calls through C; only what is touched takes memory.
_STACK_BYTES = 128 << 20

# The recursion limit and the size of a new thread's stack belong to the whole process.
_lock = threading.Lock()
_inside = threading.local()


def run_deep(function: Callable[[], T]) -> T:
    """What `function` returns or raises, run where recursion may go deep.

    RecursionError is still what a tree deeper than that ends with.
    """
    if getattr(_inside, "yes", False):
        return function()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        _inside.yes = True
        try:
            results.append(function())
        except BaseException as error:  # raised again by the caller
            errors.append(error)

    with _lock:
        limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK_BYTES)
        try:
            sys.setrecursionlimit(max(limit, _FRAMES))
            thread = threading.Thread(target=run, name="p4-compiler", daemon=True)
            thread.start()
            thread.join()
        finally:
            sys.setrecursionlimit(limit)
            threading.stack_size(size)
    if errors:
        raise errors[0]
    return results[0]
