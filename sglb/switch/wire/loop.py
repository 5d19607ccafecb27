"""The loop of a live switch: frames from its sockets, events as they fall due, frames to its sockets.

It runs in a thread of its own as machine code and needs no Python while packets come and go. What Python
does to the node (writes, port events, packet-outs), it does under the switch's lock (`lock.DataLock`);
the loop holds it for a batch of frames at a time and never while it sleeps.

Time is the monotonic clock from the switch's start, in ps. An event runs as of the time that it was due,
however late the processor comes to it, so that a queue's rate is kept over any longer time; a frame is
received as of the time that its batch was taken from the socket.
"""

from __future__ import annotations

from typing import Final

from sglb.switch.core import model as m
from sglb.switch.core.heap import index_of, kind_of, peek, pop
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.switch import switch_event
from sglb.switch.core.world import World
from sglb.switch.wire import layout as s
from sglb.switch.wire.links import read_links
from sglb.switch.wire.native import system
from sglb.switch.wire.receive import forget_rows, receive
from sglb.switch.wire.transmit import transmit

#: Events that may run before writers, and sockets, get their turn.
_EVENTS: Final = 1_024
_MONOTONIC: Final = 1
_NS_PER_S: Final = 1_000_000_000
_PS_PER_NS: Final = 1_000
_PS_PER_MS: Final = 1_000_000_000
#: Longest sleep, so that times stay within their fields.
_LONGEST_NS: Final = 60 * _NS_PER_S
_POLLIN: Final = 1
_POLL_SHIFT: Final = 48
#: The node cannot go on with these.
FATAL: Final = m.HALT_HEAP
_NEWS: Final = m.HALT_DIGEST | m.HALT_PROGRAM


@compiled
def clock(world: World) -> int:
    """Time since the switch's start, ps."""
    w = world.w
    section = w[m.WIRE_AT]
    at = section + s.S_TIME
    system(w[section + s.C_CLOCK], _MONOTONIC, w[m.BASE] + at * 8, 0, 0, 0)
    return (w[at] * _NS_PER_S + w[at + 1] - w[section + s.S_START_NS]) * _PS_PER_NS


@compiled
def lock(world: World) -> None:
    """Takes the lock on the node's memory; who asked first comes first."""
    w = world.w
    section = w[m.WIRE_AT]
    turn = w[m.BASE] + (section + s.S_TURN) * 8
    system(w[section + s.C_LOCK], turn, 0, 0, 0, 0)
    system(w[section + s.C_LOCK], w[m.BASE] + (section + s.S_DATA) * 8, 0, 0, 0, 0)
    system(w[section + s.C_UNLOCK], turn, 0, 0, 0, 0)


@compiled
def unlock(world: World) -> None:
    """Gives the lock back, and wakes the loop if there is an event now that it would sleep through."""
    w = world.w
    section = w[m.WIRE_AT]
    if peek(world, 0) < w[section + s.S_SLEEPS_UNTIL]:
        w[section + s.S_SLEEPS_UNTIL] = 0
        wake(world)
    _unlock(world)


@inlined
def _unlock(world: World) -> None:
    w = world.w
    section = w[m.WIRE_AT]
    system(w[section + s.C_UNLOCK], w[m.BASE] + (section + s.S_DATA) * 8, 0, 0, 0, 0)


@compiled
def wake(world: World) -> None:
    """Ends the loop's sleep."""
    w = world.w
    _ring(world, w[w[m.WIRE_AT] + s.S_WAKE])


@inlined
def _ring(world: World, bell: int) -> None:
    w = world.w
    section = w[m.WIRE_AT]
    system(w[section + s.C_WRITE], bell, w[m.BASE] + (section + s.S_ONE) * 8, 8, 0, 0)


@compiled
def serve(world: World) -> None:
    """Runs until S_STOP is set, or something fatal happens (HALT says what)."""
    w = world.w
    section = w[m.WIRE_AT]
    lock(world)
    while not w[section + s.S_STOP] and not w[m.HALT] & FATAL:
        now = clock(world)
        _run_due(world, now)
        _receive_all(world, now)
        _run_due(world, now)
        transmit(world)
        _tell(world)
        _wait(world)
    forget_rows(world)
    _unlock(world)


@compiled
def _run_due(world: World, now: int) -> None:
    """Runs the events that are due, up to a number of them."""
    w = world.w
    section = w[m.WIRE_AT]
    for _ in range(_EVENTS):
        if peek(world, 0) > now:
            break
        time, order, _ = pop(world, 0)
        late = now - time
        if late > w[section + s.S_LATEST]:
            w[section + s.S_LATEST] = late
        if late >= _PS_PER_MS:
            w[section + s.S_LATE] += 1
        w[m.NOW] = time
        w[m.EVENTS_RUN] += 1
        switch_event(world, 0, kind_of(order), index_of(order), time)


@compiled
def _receive_all(world: World, now: int) -> None:
    """A batch from each socket that had something when last looked at."""
    w = world.w
    section = w[m.WIRE_AT]
    poll = w[section + s.S_POLL]
    if w[poll] >> _POLL_SHIFT:
        system(
            w[section + s.C_READ],
            w[section + s.S_WAKE],
            w[m.BASE] + (section + s.S_TRASH) * 8,
            8,
            0,
            0,
        )
    if w[poll + 1 + w[section + s.S_COUNT]] >> _POLL_SHIFT:
        read_links(world, now)
    for local in range(w[section + s.S_COUNT]):
        if w[poll + 1 + local] >> _POLL_SHIFT:
            receive(world, local, now)
            w[m.NOW] = now


@compiled
def _tell(world: World) -> None:
    """Clears what halts a driver in virtual time; rings for Python when there is something for it."""
    w = world.w
    section = w[m.WIRE_AT]
    halt = w[m.HALT]
    w[m.LOG_USED] = 0  # nobody reads it here
    if halt & (m.HALT_ROWS | m.HALT_BLOBS):
        w[section + s.S_LOST_ROWS] += 1
    w[m.HALT] = halt & FATAL
    news = halt & _NEWS & ~w[section + s.S_NEWS]
    if news:
        w[section + s.S_NEWS] |= news
        _ring(world, w[section + s.S_BELL])


@compiled
def _wait(world: World) -> None:
    """Lets others have the lock, and sleeps until a frame comes or an event is due."""
    w = world.w
    section = w[m.WIRE_AT]
    until = peek(world, 0)
    # A difference of times may be more than 64 bits hold: `until` is NEVER when there is no event.
    wait_ns = min(max(0, until // _PS_PER_NS - clock(world) // _PS_PER_NS), _LONGEST_NS)
    w[section + s.S_ROUNDS] += 1
    if wait_ns:
        w[section + s.S_SLEEPS] += 1
        w[section + s.S_SLEEPS_UNTIL] = until
    at = section + s.S_TIME
    w[at] = wait_ns // _NS_PER_S
    w[at + 1] = wait_ns % _NS_PER_S
    poll = w[section + s.S_POLL]
    entries = w[section + s.S_COUNT] + 2
    for i in range(entries):
        w[poll + i] &= (1 << _POLL_SHIFT) - 1
    _unlock(world)
    system(w[section + s.C_PPOLL], w[m.BASE] + poll * 8, entries, w[m.BASE] + at * 8, 0, 0)
    asked = clock(world)
    lock(world)
    w[section + s.S_LOCKED_OUT] = max(w[section + s.S_LOCKED_OUT], clock(world) - asked)
    w[section + s.S_SLEEPS_UNTIL] = 0
