"""Lists of packet rows, first in, first out. A list is two words, head and tail, empty with -1, -1."""

from __future__ import annotations

from sglb.switch.core import model as m
from sglb.switch.core.jit import inlined
from sglb.switch.core.world import World


@inlined
def append(world: World, at: int, row: int) -> None:
    """Puts a row at the end of the list whose head is word `at`."""
    w = world.w
    w[row + m.R_NEXT] = -1
    tail = w[at + 1]
    if tail < 0:
        w[at] = row
    else:
        w[tail + m.R_NEXT] = row
        w[tail + m.R_AFTER] = w[row + m.R_TIME]
    w[at + 1] = row


@inlined
def take(world: World, at: int) -> int:
    """Takes the first row out of a list, -1 when it is empty."""
    w = world.w
    row = w[at]
    if row >= 0:
        rest = w[row + m.R_NEXT]
        w[at] = rest
        if rest < 0:
            w[at + 1] = -1
    return row


@inlined
def insert_by_time(world: World, at: int, row: int) -> None:
    """Puts a row behind those that are not later, by R_TIME."""
    w = world.w
    time, before, after = w[row + m.R_TIME], -1, w[at]
    while after >= 0 and w[after + m.R_TIME] <= time:
        before = after
        after = w[after + m.R_NEXT]
    w[row + m.R_NEXT] = after
    if before < 0:
        w[at] = row
    else:
        w[before + m.R_NEXT] = row
    if after < 0:
        w[at + 1] = row
