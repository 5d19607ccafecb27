"""Drivers: run a fabric's events, a window of time after the other.

Whatever one node does to another takes at least the lookahead (the shortest wire, or the way to the
control plane): within a window of that length every node can run alone. The *window kernel* does so,
each node with a heap of its own, and so with its state in the cache. The *heap kernel* has one heap for
all nodes, runs the same windows in strict order of time, and is the window kernel's oracle: a node's
events come in the same order in both, so everything comes out the same.
"""

from __future__ import annotations

from typing import Final

from sglb.fabric.kernel.ahead import STEPS, begin, gather, prepare
from sglb.fabric.kernel.hosts import host_event, host_receive
from sglb.switch.core import model as m
from sglb.switch.core.heap import NEVER, index_of, kind_of, node_of, peek, peek_kind, pop
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.pfc import pause_arrives
from sglb.switch.core.switch import pipe, switch_event
from sglb.switch.core.watchdog import pause_event
from sglb.switch.core.wires import arrive
from sglb.switch.core.world import World

#: A run cannot go on with these: the memory was too small, or the program failed.
FATAL: Final = m.HALT_ROWS | m.HALT_HEAP | m.HALT_BLOBS | m.HALT_PROGRAM


@compiled
def _run_heap(world: World, heap: int, end: int, place: int, turns: int) -> int:
    """Runs one heap's events before `end`; how many those were.

    It is number `place` of so many `turns` in this window, of which the next ones are prepared between
    the events (memory takes only so many requests at a time); 0 turns: none are.
    """
    w = world.w
    count = 0
    step = 0 if turns else STEPS
    due_at = _due_at(world, heap)
    while True:
        if step < STEPS:
            prepare(world, place, step, turns, end)
            step += 1
        due = w[due_at]
        time = peek(world, heap)
        if due < time or (due == time and due < end and peek_kind(world, heap) > m.EV_PIPE):
            if due >= end:
                break
            w[m.NOW] = due
            pipe(world, heap, due)
            _blame(world, heap)
        else:
            if time >= end:
                break
            _run_first(world, heap)
        count += 1
        if w[m.HALT] & FATAL:
            break
    w[w[m.FIRSTS_AT] + heap] = min(time, due)
    for later in range(step, STEPS):
        prepare(world, place, later, turns, end)
    return count


@inlined
def _due_at(world: World, heap: int) -> int:
    """Where it stands when the first packet in a switch's pipeline is due, which has no event."""
    w = world.w
    if w[m.HEAPS] == 1 or heap >= w[m.SWITCHES]:
        return m.NO_TIME
    return w[m.NODES_AT] + heap * m.NODE_WORDS + m.N_PIPE_DUE


@compiled
def _run_first(world: World, heap: int) -> None:
    """Runs a heap's first event."""
    w = world.w
    time, order, _ = pop(world, heap)
    node = node_of(order)
    w[m.NOW] = time
    if node < w[m.SWITCHES]:
        switch_event(world, node, kind_of(order), index_of(order), time)
    else:
        _host(world, node, kind_of(order), index_of(order), time)
    _blame(world, node)


@inlined
def _blame(world: World, node: int) -> None:
    w = world.w
    if w[m.HALT] & FATAL and w[m.FAILED_NODE] < 0:
        w[m.FAILED_NODE] = node


@compiled
def _host(world: World, node: int, kind: int, index: int, now: int) -> None:
    """An event of a host."""
    w = world.w
    port = w[w[m.NODES_AT] + node * m.NODE_WORDS + m.N_FIRST_PORT]
    if kind == m.EV_WIRE:
        row = arrive(world, port, now)
        if row >= 0:
            host_receive(world, node, port, row, now)
    elif kind == m.EV_PAUSE:
        pause_arrives(world, port, now)
    elif kind == m.EV_PAUSE_END:
        pause_event(world, port, index, now)
    else:
        host_event(world, node, kind, index, now)


@compiled
def _earliest(world: World) -> int:
    """Time of the first event of all heaps, NEVER when all are empty."""
    w = world.w
    found = NEVER
    for heap in range(w[m.HEAPS]):
        found = min(found, w[w[m.FIRSTS_AT] + heap])
    return found


@compiled
def run(world: World, limit: int, lookahead: int) -> int:
    """Runs the events before `limit` in windows that begin at multiples of `lookahead` ps.

    Ends early, after a whole window, when something halts it; at once when that is fatal. Gives the
    time up to which all events have run, or NEVER when none is left.
    """
    w = world.w
    while True:
        start = _earliest(world)
        if start >= limit:
            return NEVER if start == NEVER else limit
        end = min(start - start % lookahead + lookahead, limit)
        count = gather(world, end)
        if w[m.LOOKS_AHEAD]:
            begin(world, count, end)
        turns = count if w[m.LOOKS_AHEAD] else 0
        for place in range(count):
            heap = w[w[m.ACTIVE_AT] + place]
            w[m.EVENTS_RUN] += _run_heap(world, heap, end, place, turns)
            if w[m.HALT] & FATAL:
                return w[m.NOW]
        if w[m.HALT]:
            return end
