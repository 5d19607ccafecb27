"""One lock a switch: a packet sees a write whole or not at all, whatever thread it runs in.

Whoever runs packets holds the lock from the first to the last, so a writer waits for the batch. Writes
to tables, profiles, value sets and registers take it by themselves, and so does a P4Runtime Write as a
whole; single counters and meters are the caller's to lock.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class SwitchLock(Protocol):
    """What `with` takes and gives back; its thread may take it again. An RLock is one."""

    def __enter__(self) -> object: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> object: ...


class Lockable(Protocol):
    """What `locked` methods belong to: `lock` is the switch's, or one of its own."""

    lock: SwitchLock


L = TypeVar("L", bound=Lockable)


def locked(method: Callable[Concatenate[L, P], R]) -> Callable[Concatenate[L, P], R]:
    """The method under the lock of its object."""

    @wraps(method)
    def run(self: L, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.lock:
            return method(self, *args, **kwargs)

    return run
