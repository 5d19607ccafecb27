"""The packet generator: timers whose frames are those of `sglb.switch.pktgen`."""

from __future__ import annotations

from typing import Final

from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.call import move_bytes, zero_bytes
from sglb.switch.core.heap import order_of, push, remove
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.rows import data_at, row_free, row_new, row_room
from sglb.switch.core.world import World
from sglb.switch.pktgen import EVENT_BYTES, KIND_TIMER

_TYPE: Final = 12
_EVENT: Final = 14


@inlined
def _timer(world: World, node: int, app: int) -> int:
    at = world.w[m.NODES_AT] + node * m.NODE_WORDS
    return world.w[at + m.N_TIMERS] + app * m.TIMER_WORDS


@compiled
def timer_due(world: World, node: int, index: int, now: int) -> int:
    """The frame that a timer makes now (EV_TIMER), -1 when there is no room for it."""
    w = world.w
    app = index % m.TIMERS
    timer = _timer(world, node, app)
    if index < m.TIMERS:
        batch = w[timer + m.T_BATCH]
        w[timer + m.T_BATCH_GOING] = batch
        w[timer + m.T_PACKET] = 0
        w[timer + m.T_BATCH] = batch + 1
        w[timer + m.T_RUNS] = w[timer + m.T_BATCHES] < 0 or batch + 1 < w[timer + m.T_BATCHES]
        if w[timer + m.T_RUNS]:
            w[timer + m.T_NEXT_BATCH] = now + w[timer + m.T_PERIOD]
            push(world, node, w[timer + m.T_NEXT_BATCH], m.EV_TIMER, app, 0)
    packet = w[timer + m.T_PACKET]
    w[timer + m.T_PACKET] = packet + 1
    if packet + 1 < w[timer + m.T_BATCH_PACKETS]:
        push(world, node, now + w[timer + m.T_GAP], m.EV_TIMER, m.TIMERS + app, 0)
    return _frame(world, node, app, packet)


@compiled
def _frame(world: World, node: int, app: int, packet: int) -> int:
    w, h, b = world.w, world.h, world.b
    timer = _timer(world, node, app)
    row = row_new(world)
    if row < 0:
        return -1
    payload = w[timer + m.T_PAYLOAD_BYTES]
    size = _EVENT + EVENT_BYTES + payload
    if not row_room(world, row, size):
        row_free(world, row)
        return -1
    address, at = w[row + abi.DATA], data_at(world, row)
    zero_bytes(address, _TYPE)
    kind = w[w[m.NODES_AT] + node * m.NODE_WORDS + m.N_ETHERTYPE]
    batch = w[timer + m.T_BATCH_GOING]
    b[at + _TYPE] = kind >> 8
    b[at + _TYPE + 1] = kind
    b[at + _EVENT] = app
    b[at + _EVENT + 1] = KIND_TIMER << 4
    b[at + _EVENT + 2] = batch >> 8
    b[at + _EVENT + 3] = batch
    b[at + _EVENT + 4] = packet >> 8
    b[at + _EVENT + 5] = packet
    move_bytes(address + _EVENT + EVENT_BYTES, w[m.BASE] + w[timer + m.T_PAYLOAD], payload)
    h[row * 2 + abi.LENGTH] = size
    h[row * 2 + abi.STORED] = size
    h[row * 2 + m.RH_IN_PORT] = m.FROM_EVENT
    return row


@compiled
def start_timer(world: World, node: int, app: int, time: int) -> None:
    """The first batch begins at `time`; the application's other words are set."""
    w = world.w
    timer = _timer(world, node, app)
    stop_timer(world, node, app)
    remove(world, _heap(world, node), order_of(node, m.EV_TIMER, m.TIMERS + app))
    w[timer + m.T_RUNS] = 1
    w[timer + m.T_BATCH] = 0
    w[timer + m.T_NEXT_BATCH] = time
    push(world, node, time, m.EV_TIMER, app, 0)


@compiled
def stop_timer(world: World, node: int, app: int) -> None:
    """No further batch begins; one that has begun is sent to its end."""
    world.w[_timer(world, node, app) + m.T_RUNS] = 0
    remove(world, _heap(world, node), order_of(node, m.EV_TIMER, app))


@inlined
def _heap(world: World, node: int) -> int:
    return world.w[world.w[m.NODES_AT] + node * m.NODE_WORDS + m.N_HEAP]
