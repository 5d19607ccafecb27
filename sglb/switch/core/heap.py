"""Events in order of time, then of node, kind and index: 4-ary heaps, one a node or one for all."""

from __future__ import annotations

from typing import Final

from sglb.switch.core import model as m
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.world import World

#: Later than everything.
NEVER: Final = (1 << 63) - 1
_KIND_SHIFT: Final = 32
_NODE_SHIFT: Final = 40


@inlined
def order_of(node: int, kind: int, index: int) -> int:
    """E_ORDER of an event."""
    return node << _NODE_SHIFT | kind << _KIND_SHIFT | index


@inlined
def node_of(order: int) -> int:
    """The node of an event with that E_ORDER; `kind_of` and `index_of` tell the rest."""
    return order >> _NODE_SHIFT


@inlined
def kind_of(order: int) -> int:
    """See `node_of`."""
    return order >> _KIND_SHIFT & 0xFF


@inlined
def index_of(order: int) -> int:
    """See `node_of`."""
    return order & 0xFFFFFFFF


@compiled
def push_order(world: World, heap: int, time: int, order: int, row: int) -> None:
    """Puts an event into heap number `heap`; HALT_HEAP when it is full."""
    w = world.w
    head = w[m.HEAPS_AT] + heap * m.HEAP_WORDS
    hole = w[head + m.HEAP_SIZE]
    if hole >= w[head + m.HEAP_ROOM]:
        w[m.HALT] |= m.HALT_HEAP
        return
    w[head + m.HEAP_SIZE] = hole + 1
    first = w[head + m.HEAP_FIRST]
    while hole > 0:
        parent = (hole - 1) >> 2
        above = first + parent * m.EVENT_WORDS
        when = w[above + m.E_TIME]
        if when < time or (when == time and w[above + m.E_ORDER] <= order):
            break
        here = first + hole * m.EVENT_WORDS
        w[here + m.E_TIME] = when
        w[here + m.E_ORDER] = w[above + m.E_ORDER]
        w[here + m.E_ROW] = w[above + m.E_ROW]
        hole = parent
    here = first + hole * m.EVENT_WORDS
    w[here + m.E_TIME] = time
    w[here + m.E_ORDER] = order
    w[here + m.E_ROW] = row
    if time < w[w[m.FIRSTS_AT] + heap]:
        w[w[m.FIRSTS_AT] + heap] = time


@inlined
def push(world: World, node: int, time: int, kind: int, index: int, row: int) -> None:
    """Puts an event of a node into its heap; HALT_HEAP when that is full."""
    heap = world.w[world.w[m.NODES_AT] + node * m.NODE_WORDS + m.N_HEAP]
    push_order(world, heap, time, order_of(node, kind, index), row)


@inlined
def peek(world: World, heap: int) -> int:
    """Time of a heap's first event, NEVER when it is empty."""
    w = world.w
    head = w[m.HEAPS_AT] + heap * m.HEAP_WORDS
    return w[w[head + m.HEAP_FIRST] + m.E_TIME] if w[head + m.HEAP_SIZE] else NEVER


@inlined
def peek_kind(world: World, heap: int) -> int:
    """Kind of a heap's first event, which there must be."""
    w = world.w
    return kind_of(w[w[w[m.HEAPS_AT] + heap * m.HEAP_WORDS + m.HEAP_FIRST] + m.E_ORDER])


@compiled
def pop(world: World, heap: int) -> tuple[int, int, int]:
    """Takes a heap's first event, which there must be: its time, E_ORDER and E_ROW."""
    w = world.w
    head = w[m.HEAPS_AT] + heap * m.HEAP_WORDS
    first = w[head + m.HEAP_FIRST]
    time, order, row = w[first + m.E_TIME], w[first + m.E_ORDER], w[first + m.E_ROW]
    size = w[head + m.HEAP_SIZE] - 1
    w[head + m.HEAP_SIZE] = size
    if size:
        last = first + size * m.EVENT_WORDS
        _sink(world, first, 0, size, w[last + m.E_TIME], w[last + m.E_ORDER], w[last + m.E_ROW])
    return time, order, row


@compiled
def _sink(world: World, first: int, hole: int, size: int, time: int, order: int, row: int) -> None:
    """Fills a hole with an event, or with those below it that come before."""
    w = world.w
    while True:
        child = hole * 4 + 1
        if child >= size:
            break
        best = first + child * m.EVENT_WORDS
        least = w[best + m.E_TIME]
        rank = w[best + m.E_ORDER]
        for other in range(child + 1, min(child + 4, size)):
            at = first + other * m.EVENT_WORDS
            when = w[at + m.E_TIME]
            if when < least or (when == least and w[at + m.E_ORDER] < rank):
                child, best, least, rank = other, at, when, w[at + m.E_ORDER]
        if time < least or (time == least and order <= rank):
            break
        here = first + hole * m.EVENT_WORDS
        w[here + m.E_TIME] = least
        w[here + m.E_ORDER] = rank
        w[here + m.E_ROW] = w[best + m.E_ROW]
        hole = child
    here = first + hole * m.EVENT_WORDS
    w[here + m.E_TIME] = time
    w[here + m.E_ORDER] = order
    w[here + m.E_ROW] = row


@compiled
def remove(world: World, heap: int, order: int) -> bool:
    """Takes one event with that E_ORDER out of a heap, wherever it stands; False when there is none.

    Looks at every event: for what a control plane does now and then.
    """
    w = world.w
    head = w[m.HEAPS_AT] + heap * m.HEAP_WORDS
    first, size = w[head + m.HEAP_FIRST], w[head + m.HEAP_SIZE]
    for place in range(size):
        at = first + place * m.EVENT_WORDS
        if w[at + m.E_ORDER] == order:
            break
    else:
        return False
    # The rest is put in again: an event may have to move either way, and this is rare.
    w[head + m.HEAP_SIZE] = place
    for other in range(place + 1, size):
        at = first + other * m.EVENT_WORDS
        push_order(world, heap, w[at + m.E_TIME], w[at + m.E_ORDER], w[at + m.E_ROW])
    return True
