"""Callers that wait in shared memory: nothing tells them of a rank that has ended, so they look."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sglb.collective.transport.group import Group


@contextmanager
def awaiting(group: Group) -> Iterator[None]:
    """While a caller waits: the group finds out whether the others are still there."""
    _count(group, 1)
    try:
        yield
    finally:
        _count(group, -1)


def _count(group: Group, change: int) -> None:
    with group.engine.lock:
        for peer in group.peers.values():
            peer.awaited += change
        group.activate()


def look(group: Group, late: Callable[[], list[int]]) -> None:
    """Raises the group's error; one is made of a rank that is gone and that `late` still names."""
    lost = [peer for peer in group.peers.values() if not peer.channels]
    # Who has done its part may leave. So first who is gone, then who is late even so.
    still = late() if lost else []
    with group.engine.lock:
        for peer in lost:
            if peer.rank in still and not peer.channels:
                group.judge(peer, time.monotonic())
    group.engine.run_callbacks()
    if group.error is not None:
        raise group.error
