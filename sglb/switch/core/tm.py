"""The traffic manager: class queues per port, admission, and who is served next.

Strict classes go first, the highest number before the others; the rest share by deficit round robin
(Shreedhar and Varghese, SIGCOMM 1995) with deficits in bytes: a class whose turn comes gets its quantum
and sends while its deficit covers the packet at its head. A class that empties loses its deficit and its
turn; one that is paused keeps the former. Paused classes are passed over.

A packet is admitted, waits, is picked (unlinked) and released: the buffer counts it until then. What
the egress pass is told of its waiting stands in the row when it has been picked; depths are those of
before its coming and after its leaving, in `N_DEPTH_UNIT`.
"""

from __future__ import annotations

from sglb.p4.native import abi
from sglb.switch.clock import PS_PER_US
from sglb.switch.core import buffer, pfc
from sglb.switch.core import model as m
from sglb.switch.core.buffer import class_at, group_at, node_at, port_at, queue_at
from sglb.switch.core.call import bit_length
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.observe import lost
from sglb.switch.core.rows import row_free
from sglb.switch.core.world import World

_STRICT_MASK = (1 << m.CLASSES) - 1
#: Flag in P_ROUND: the class whose turn it is has got its quantum.
_CREDITED = m.CLASSES


@inlined
def _depth(world: World, node_record: int, queue: int) -> int:
    # Packets, bytes and cells stand one after the other.
    return world.w[queue + m.Q_PACKETS + world.w[node_record + m.N_DEPTH_UNIT]]


@compiled
def admit(world: World, row: int, now: int) -> int:
    """Queues a packet: RH_OUT_PORT, RH_QUEUE, RH_BYTES and RH_IN_PORT are set. 0, or why it is lost.

    A number is a DROP_*; the row is still the caller's then. May send a pause frame to where the packet
    came from. Who admits sees to it that the port is served.
    """
    w, h = world.w, world.h
    half = 2 * row
    port, cls = h[half + m.RH_OUT_PORT], h[half + m.RH_QUEUE]
    record = port_at(world, port)
    node_record = node_at(world, w[record + m.P_NODE])
    if w[record + m.P_LIVE] == 0:
        return m.DROP_PORT_DOWN
    if cls >= w[node_record + m.N_QUEUES]:
        return m.DROP_NO_QUEUE
    if w[record + m.P_IGNORE] >> (m.CLASSES + cls) & 1:
        return m.DROP_STORM
    queue = queue_at(world, port, cls)
    why = _count(world, row, node_record, queue, now)
    if why != 0:
        return why
    w[row + m.R_ENQ] = now
    h[half + abi.ENQ_QDEPTH] = _depth(world, node_record, queue)
    _link(world, row, node_record, record, queue)
    if w[queue + m.Q_PACKETS] == 1 and w[record + m.P_PAUSED] >> cls & 1:
        pfc.watch(world, port, cls, now)
    return 0


@compiled
def _count(world: World, row: int, node_record: int, queue: int, now: int) -> int:
    """Has the buffer count a packet; pauses the peer when its group is then over."""
    w, h = world.w, world.h
    half = 2 * row
    cls, origin = h[half + m.RH_QUEUE], h[half + m.RH_IN_PORT]
    settings = class_at(world, node_record, cls)
    h[half + m.RH_FLAGS] &= ~(m.RF_GROUP | m.RF_EGRESS)
    if w[settings + m.C_LOSSLESS] == 0 or origin < 0:
        return buffer.count_egress(world, row, node_record, queue, settings)
    group = group_at(world, origin, cls)
    why = buffer.count_ingress(world, row, node_record, group, settings)
    if w[group + m.G_XOFF] == 0 and (why != 0 or buffer.over(world, node_record, settings, group)):
        pfc.xoff(world, origin, cls, settings, now)
    return why


@compiled
def _link(world: World, row: int, node_record: int, record: int, queue: int) -> None:
    w, h = world.w, world.h
    half = 2 * row
    w[row + m.R_NEXT] = -1
    packets = w[queue + m.Q_PACKETS] + 1
    if packets == 1:
        w[queue + m.Q_HEAD] = row
        w[record + m.P_READY] |= 1 << h[half + m.RH_QUEUE]
    else:
        w[w[queue + m.Q_TAIL] + m.R_NEXT] = row
    w[queue + m.Q_TAIL] = row
    w[queue + m.Q_PACKETS] = packets
    w[queue + m.Q_MAX_PACKETS] = max(w[queue + m.Q_MAX_PACKETS], packets)
    count = w[queue + m.Q_BYTES] + h[half + m.RH_BYTES]
    w[queue + m.Q_BYTES] = count
    if count > w[queue + m.Q_HIGH_BYTES]:
        w[queue + m.Q_HIGH_BYTES] = count
        w[queue + m.Q_MAX_BYTES] = max(w[queue + m.Q_MAX_BYTES], count)
    if w[node_record + m.N_DEPTH_UNIT] == 2:
        size = w[node_record + m.N_CELL_BYTES]
        h[half + m.RH_CELLS] = (h[half + m.RH_BYTES] + size - 1) // size
        w[queue + m.Q_CELLS] += h[half + m.RH_CELLS]
    w[record + m.P_QUEUED] += 1


@compiled
def _unlink(world: World, node_record: int, record: int, queue: int) -> int:
    """Takes a queue's first packet, which there must be, out of it."""
    w, h = world.w, world.h
    row = w[queue + m.Q_HEAD]
    half = 2 * row
    w[queue + m.Q_HEAD] = w[row + m.R_NEXT]
    w[row + m.R_NEXT] = -1
    packets = w[queue + m.Q_PACKETS] - 1
    w[queue + m.Q_PACKETS] = packets
    w[queue + m.Q_BYTES] -= h[half + m.RH_BYTES]
    if w[node_record + m.N_DEPTH_UNIT] == 2:
        w[queue + m.Q_CELLS] -= h[half + m.RH_CELLS]
    w[record + m.P_QUEUED] -= 1
    if packets == 0:
        w[record + m.P_READY] &= ~(1 << h[half + m.RH_QUEUE])
        w[queue + m.Q_DEFICIT] = 0  # without it the turn is over too
    return row


@compiled
def pick(world: World, port: int, now: int) -> int:
    """Takes the port's next packet out of its queue, -1 when nothing waits or all that waits is paused.

    `release` has to follow.
    """
    w, h = world.w, world.h
    record = port_at(world, port)
    ready = w[record + m.P_READY] & ~(w[record + m.P_PAUSED] & ~w[record + m.P_IGNORE])
    if ready == 0:
        return -1
    node_record = node_at(world, w[record + m.P_NODE])
    strict = ready & w[node_record + m.N_CLASSES] & _STRICT_MASK
    if strict != 0:
        cls = bit_length(strict) - 1
    else:
        cls = _round_robin(world, node_record, record, queue_at(world, port, 0), ready)
    queue = queue_at(world, port, cls)
    row = _unlink(world, node_record, record, queue)
    half = 2 * row
    h[half + abi.DEQ_QDEPTH] = _depth(world, node_record, queue)
    queued_us = w[row + m.R_ENQ] // PS_PER_US
    h[half + abi.ENQ_TIME_US] = queued_us
    h[half + abi.DEQ_DELTA_US] = now // PS_PER_US - queued_us
    return row


@compiled
def _round_robin(world: World, node_record: int, record: int, queues: int, ready: int) -> int:
    """The class to serve among those ready, none of them strict; its deficit is paid."""
    w, h = world.w, world.h
    if ready & (ready - 1) == 0:
        return _alone(world, node_record, record, queues, bit_length(ready) - 1)
    turn = w[record + m.P_ROUND]
    while True:
        for _ in range(m.CLASSES):
            cls = turn % m.CLASSES
            if ready >> cls & 1:
                queue = queues + cls * m.QUEUE_WORDS
                if turn < _CREDITED:
                    turn |= _CREDITED
                    quantum = w[class_at(world, node_record, cls) + m.C_QUANTUM]
                    w[queue + m.Q_DEFICIT] += quantum
                left = w[queue + m.Q_DEFICIT] - h[2 * w[queue + m.Q_HEAD] + m.RH_BYTES]
                if left >= 0:
                    w[queue + m.Q_DEFICIT] = left
                    w[record + m.P_ROUND] = turn
                    return cls
            turn = (cls + 1) % m.CLASSES
        _skip_rounds(world, node_record, queues, ready)


@inlined
def _alone(world: World, node_record: int, record: int, queues: int, cls: int) -> int:
    """The only class that is ready gets as many quanta as its first packet takes, one at least if it
    was not its turn."""
    w, h = world.w, world.h
    queue = queues + cls * m.QUEUE_WORDS
    quantum = w[class_at(world, node_record, cls) + m.C_QUANTUM]
    left = w[queue + m.Q_DEFICIT] - h[2 * w[queue + m.Q_HEAD] + m.RH_BYTES]
    if w[record + m.P_ROUND] != cls | _CREDITED:
        w[record + m.P_ROUND] = cls | _CREDITED
        left += quantum
    if left < 0:
        left += (quantum - 1 - left) // quantum * quantum
    w[queue + m.Q_DEFICIT] = left
    return cls


@compiled
def _skip_rounds(world: World, node_record: int, queues: int, ready: int) -> None:
    """Hands out at once the quanta of all the rounds in which nobody could send."""
    w, h = world.w, world.h
    rounds = -1
    for cls in range(m.CLASSES):
        if ready >> cls & 1:
            queue = queues + cls * m.QUEUE_WORDS
            quantum = w[class_at(world, node_record, cls) + m.C_QUANTUM]
            short = h[2 * w[queue + m.Q_HEAD] + m.RH_BYTES] - w[queue + m.Q_DEFICIT]
            own = (short + quantum - 1) // quantum - 1
            rounds = own if rounds < 0 else min(rounds, own)
    for cls in range(m.CLASSES):
        if ready >> cls & 1:
            quantum = w[class_at(world, node_record, cls) + m.C_QUANTUM]
            w[queues + cls * m.QUEUE_WORDS + m.Q_DEFICIT] += rounds * quantum


@compiled
def release(world: World, row: int, now: int) -> None:
    """The buffer lets go of a picked packet, once; its peer may be told to go on."""
    w, h = world.w, world.h
    half = 2 * row
    flags = h[half + m.RH_FLAGS]
    if flags & (m.RF_GROUP | m.RF_EGRESS) == 0:
        return
    cls = h[half + m.RH_QUEUE]
    node_record = node_at(world, w[port_at(world, h[half + m.RH_OUT_PORT]) + m.P_NODE])
    settings = class_at(world, node_record, cls)
    if flags & m.RF_EGRESS:
        queue = queue_at(world, h[half + m.RH_OUT_PORT], cls)
        buffer.uncount_egress(world, row, node_record, queue, settings)
        return
    origin = h[half + m.RH_IN_PORT]
    group = group_at(world, origin, cls)
    buffer.uncount_ingress(world, row, node_record, group, settings)
    if w[group + m.G_XOFF] != 0 and buffer.calm(world, node_record, settings, group):
        pfc.xon(world, origin, cls, now)


@compiled
def flush_class(world: World, port: int, cls: int, reason: int, now: int) -> None:
    """Drops everything that waits in one queue."""
    w = world.w
    record = port_at(world, port)
    node_record = node_at(world, w[record + m.P_NODE])
    queue = queue_at(world, port, cls)
    while w[queue + m.Q_PACKETS] > 0:
        row = _unlink(world, node_record, record, queue)
        release(world, row, now)
        lost(world, port, row, reason, now)
        row_free(world, row)
    pfc.unwatch(world, queue)


@compiled
def flush(world: World, port: int, reason: int, now: int) -> None:
    """Drops everything that waits on a port; one that is known to be down forgets pauses too."""
    for cls in range(m.CLASSES):
        flush_class(world, port, cls, reason, now)
    if world.w[port_at(world, port) + m.P_LIVE] == 0:
        pfc.forget(world, port, now)
