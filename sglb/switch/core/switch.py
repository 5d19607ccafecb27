"""A switch: what its events do. The P4 program decides everything about a packet, by a call a pass.

The order of decisions is that of `sglb.switch.pipeline` and `sglb.switch.traffic`: ingress runs as a
packet arrives, its queue is reached after the ingress latency, egress runs as it leaves the queue, and
a packet that egress drops takes no time on the wire.
"""

from __future__ import annotations

from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.buffer import queue_at
from sglb.switch.core.call import bit_length, call2
from sglb.switch.core.generator import timer_due
from sglb.switch.core.heap import NEVER, order_of, push, remove
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.lists import insert_by_time, take
from sglb.switch.core.observe import SYNCMESH, ether_type, log, lost, urgent_note
from sglb.switch.core.pfc import pause_arrives, wire_ps
from sglb.switch.core.replication import (
    RECIRCULATED,
    RESUBMITTED,
    again,
    clone_egress,
    clone_ingress,
    entry,
    lose,
    multicast,
    node_record,
    row_address,
    to_queue,
)
from sglb.switch.core.rows import deparsed, leave_family, row_free, row_new, row_store, row_widen
from sglb.switch.core.tm import admit, flush, pick, release
from sglb.switch.core.trails import follow, trail_of
from sglb.switch.core.watchdog import pause_event
from sglb.switch.core.wires import arrive, depart, launch
from sglb.switch.core.world import World

_NUMBERS = 512  #: P4 port numbers of a switch


@inlined
def _port_record(world: World, port: int) -> int:
    return world.w[m.PORTS_AT] + port * m.PORT_WORDS


# --- ingress ---


@compiled
def switch_receive(world: World, node: int, port: int, row: int, now: int) -> None:
    """A whole frame has come in by a port; the row is the switch's from now on."""
    w, h = world.w, world.h
    half = row * 2
    record = _port_record(world, port)
    h[half + m.RH_FLAGS] &= m.RF_BLOB
    if h[half + m.RH_FAMILY]:
        leave_family(world, row)
    h[half + m.RH_IN_PORT] = port
    if port == w[node_record(world, node) + m.N_CPU_PORT]:
        h[half + m.RH_IN_PORT] = m.FROM_CONTROL
    if not (w[record + m.P_UP] and w[record + m.P_LIVE]):
        lost(world, port, row, m.DROP_RX_PORT_DOWN, now)
        row_free(world, row)
        return
    w[record + m.P_RX_PACKETS] += 1
    w[record + m.P_RX_BYTES] += h[half + abi.LENGTH]
    enter(world, node, row, w[record + m.P_NUMBER], now)


@compiled
def enter(world: World, node: int, row: int, number: int, now: int) -> None:
    """A packet enters ingress by P4 port `number`; RH_IN_PORT is set."""
    w, h = world.w, world.h
    half = row * 2
    record = node_record(world, node)
    if w[record + m.N_PROGRAM] < 0 or not w[record + m.N_ALIVE]:
        lose(world, node, row, m.DROP_NO_PROGRAM, now)
        return
    h[half + abi.FLAGS] = 0
    h[half + abi.INGRESS_PORT] = number
    h[half + abi.INSTANCE_TYPE] = 0
    h[half + abi.PACKET_LENGTH] = h[half + abi.LENGTH]
    h[half + abi.EGRESS_RID] = 0
    h[half + m.RH_PASSES] = 1
    _ingress(world, node, row, now)


@compiled
def _ingress(world: World, node: int, row: int, now: int) -> None:
    """Parser and ingress, then the first that applies of resubmit, multicast, drop, unicast."""
    w, h = world.w, world.h
    half = row * 2
    record = node_record(world, node)
    if h[half + abi.STORED] < min(h[half + abi.LENGTH], w[m.PARSE_BYTES]) and not row_widen(
        world, row
    ):
        row_free(world, row)
        return
    w[row + abi.NOW] = now
    trail = 0
    if w[m.LOOKS_AHEAD]:
        trail = trail_of(world, node, row)
        follow(world, record, trail)
    call2(entry(world, record, m.F_INGRESS), w[record + m.N_MACHINE], row_address(world, row))
    if h[half + abi.STATUS] != 0:
        _failed(world, node, row)
        lose(world, node, row, m.DROP_ASSERTION, now)
        return
    if h[half + abi.CLONE] or h[half + abi.DIGESTS] or h[half + abi.RESUBMIT]:
        if h[half + abi.DIGESTS]:
            w[m.HALT] |= m.HALT_DIGEST
        if h[half + abi.CLONE]:
            clone_ingress(world, node, row, now)
        if h[half + abi.RESUBMIT]:
            again(world, node, row, h[half + abi.RESUBMIT] - 1, RESUBMITTED, now)
            return
    size = h[half + abi.LENGTH] - h[half + abi.PARSED_BYTES] + h[half + abi.HEADER_BYTES]
    h[half + m.RH_BYTES] = size
    if h[half + abi.MCAST_GRP]:
        multicast(world, node, row, now)
    elif h[half + abi.EGRESS_SPEC] == w[record + m.N_DROP_PORT]:
        lose(world, node, row, m.DROP_INGRESS, now)
    else:
        h[half + abi.INSTANCE_TYPE] = 0
        if trail:
            h[trail * 2 + m.TRH_QUEUE] = _queue_number(world, record, row)
        to_queue(world, node, row, h[half + abi.EGRESS_SPEC], h[half + abi.PRIORITY], now)


@inlined
def _queue_number(world: World, record: int, row: int) -> int:
    """The queue that a packet goes to, as a trail tells it."""
    h, half = world.h, row * 2
    number = h[half + abi.EGRESS_SPEC] & (_NUMBERS - 1)
    return h[world.w[record + m.N_PORT_OF] + number] * m.CLASSES + h[half + abi.PRIORITY] + 1


@compiled
def _failed(world: World, node: int, row: int) -> None:
    """Notes where a program gave a packet up; HALT_PROGRAM when native code could not go on."""
    w = world.w
    status = world.h[row * 2 + abi.STATUS]
    w[m.FAILED_NODE] = node
    w[m.FAILED_STATUS] = status
    if status < 0:
        w[m.HALT] |= m.HALT_PROGRAM


# --- queues and egress ---


@compiled
def _enqueue(world: World, node: int, row: int, now: int) -> None:
    """A packet comes to its queue."""
    w, h = world.w, world.h
    half = row * 2
    number = h[half + m.RH_OUT_PORT]
    port = -1
    if number < _NUMBERS:
        port = h[w[node_record(world, node) + m.N_PORT_OF] + number]
    if h[half + m.RH_FLAGS] & m.RF_RETIRED:
        if port < 0:
            lose(world, node, row, m.DROP_RELOADED, now)
        else:
            _lose_at(world, port, row, m.DROP_RELOADED, now)
        return
    if port < 0:
        lose(world, node, row, m.DROP_NO_PORT, now)
        return
    h[half + m.RH_OUT_PORT] = port
    why = admit(world, row, now)
    if why:
        _lose_at(world, port, row, why, now)
        return
    record = _port_record(world, port)
    if not w[record + m.P_WAKING]:
        if now >= w[record + m.P_FREE]:
            _serve(world, node, port, now)
        else:
            _wake_later(world, node, port)


@inlined
def _lose_at(world: World, port: int, row: int, reason: int, now: int) -> None:
    lost(world, port, row, reason, now)
    row_free(world, row)


@inlined
def _wake_later(world: World, node: int, port: int) -> None:
    """Has a port look for its next packet when its wire is free."""
    w = world.w
    record = _port_record(world, port)
    if not w[record + m.P_WAKING]:
        w[record + m.P_WAKING] = 1
        local = port - w[node_record(world, node) + m.N_FIRST_PORT]
        row = w[queue_at(world, port, bit_length(w[record + m.P_READY]) - 1) + m.Q_HEAD]
        push(world, node, w[record + m.P_FREE], m.EV_FREE, local, row)


@compiled
def _serve(world: World, node: int, port: int, now: int) -> None:
    """Sends packets until the wire is taken, or nothing waits that may go."""
    w = world.w
    record = _port_record(world, port)
    while w[record + m.P_QUEUED] and now >= w[record + m.P_FREE]:
        row = pick(world, port, now)
        if row < 0:
            return  # all that waits is paused: who resumes it wakes the port
        release(world, row, now)
        _egress(world, node, port, row, now)
    if w[record + m.P_QUEUED]:
        _wake_later(world, node, port)


@compiled
def _egress(world: World, node: int, port: int, row: int, now: int) -> None:
    """Egress and deparser as a packet leaves its queue, then the wire."""
    w, h = world.w, world.h
    half = row * 2
    record, port_record = node_record(world, node), _port_record(world, port)
    h[half + abi.EGRESS_PORT] = w[port_record + m.P_NUMBER]
    h[half + abi.PACKET_LENGTH] = h[half + m.RH_BYTES]
    w[row + abi.NOW] = now
    if w[m.LOOKS_AHEAD]:
        follow(world, record, trail_of(world, node, row))
    call2(entry(world, record, m.F_EGRESS), w[record + m.N_MACHINE], row_address(world, row))
    if h[half + abi.STATUS] != 0:
        _failed(world, node, row)
        _lose_at(world, port, row, m.DROP_ASSERTION, now)
        return
    if h[half + abi.DIGESTS]:
        w[m.HALT] |= m.HALT_DIGEST
    if h[half + abi.CLONE]:
        clone_egress(world, node, row, now)
    if h[half + abi.EGRESS_SPEC] == w[record + m.N_DROP_PORT]:
        _lose_at(world, port, row, m.DROP_EGRESS, now)
        return
    if not deparsed(world, row):
        row_free(world, row)
        return
    if h[half + abi.RECIRCULATE]:
        again(world, node, row, h[half + abi.RECIRCULATE] - 1, RECIRCULATED, now)
        return
    if h[half + abi.TRUNCATE] or h[half + m.RH_FLAGS] & m.RF_LIMIT:
        _cut(world, row)
    size = h[half + abi.LENGTH] + w[record + m.N_OVERHEAD]
    wire = wire_ps(w[port_record + m.P_RATE], size)
    w[port_record + m.P_FREE] = now + wire
    start = now + w[record + m.N_EGRESS_PS]
    w[row + m.R_START] = start
    w[queue_at(world, port, h[half + m.RH_QUEUE]) + m.Q_SENT_BYTES] += h[half + abi.LENGTH]
    launch(world, port, row, start + wire)


@compiled
def _cut(world: World, row: int) -> None:
    """Shortens a packet as `truncate` and its clone session ask."""
    w, h = world.w, world.h
    half = row * 2
    size = h[half + abi.LENGTH]
    if h[half + abi.TRUNCATE]:
        size = min(size, h[half + abi.TRUNCATE] - 1)
    if h[half + m.RH_FLAGS] & m.RF_LIMIT:
        size = min(size, w[row + m.R_LIMIT])
    h[half + abi.LENGTH] = size
    h[half + abi.STORED] = min(h[half + abi.STORED], size)


# --- events ---


@compiled
def switch_event(world: World, node: int, kind: int, index: int, now: int) -> None:
    """An event of a switch (EV_*)."""
    w = world.w
    port = w[node_record(world, node) + m.N_FIRST_PORT] + index
    if kind == m.EV_WIRE:
        row = arrive(world, port, now)
        if row >= 0:
            if ether_type(world, row) == SYNCMESH:
                _tell_received(world, port, row, now)
            switch_receive(world, node, port, row, now)
    elif kind == m.EV_PIPE:
        pipe(world, node, now)
    elif kind == m.EV_FREE:
        w[_port_record(world, port) + m.P_WAKING] = 0
        _serve(world, node, port, now)
    else:
        _rare_event(world, node, kind, index, port, now)


@compiled
def _rare_event(world: World, node: int, kind: int, index: int, port: int, now: int) -> None:
    first = world.w[node_record(world, node) + m.N_FIRST_PORT]
    if kind == m.EV_INJECT:
        _inject(world, node, now)
    elif kind == m.EV_PAUSE:
        pause_arrives(world, port, now)
    elif kind == m.EV_RESUBMIT:
        _once_more(world, node, m.N_RESUBMIT_HEAD, kind, now)
    elif kind == m.EV_RECIRC:
        _once_more(world, node, m.N_RECIRC_HEAD, kind, now)
    elif kind == m.EV_TIMER:
        row = timer_due(world, node, index, now)
        if row >= 0:
            enter(world, node, row, world.w[node_record(world, node) + m.N_EVENT_PORT], now)
    elif kind == m.EV_PAUSE_END:
        pause_event(world, first + index // m.ALARMS, index % m.ALARMS, now)
    elif kind == m.EV_OUT:
        depart(world, port, now)


@compiled
def _tell_received(world: World, port: int, row: int, now: int) -> None:
    told = urgent_note(world, row)
    if told >= 0:
        log(world, now, m.LOG_NOTE_RECEIVED, port, told >> 1, told & 1)


@compiled
def pipe(world: World, node: int, now: int) -> None:
    """Packets whose ingress latency is over come to their queues."""
    w = world.w
    record = node_record(world, node)
    at, due = record + m.N_PIPE_HEAD, record + m.N_PIPE_DUE
    while w[due] <= now:
        row = take(world, at)
        w[due] = w[row + m.R_AFTER] if w[at] >= 0 else NEVER
        w[w[m.PIPES_AT] + node * m.PIPE_WORDS + m.PI_TAKEN] += 1
        _enqueue(world, node, row, now)
    if w[at] >= 0 and w[m.HEAPS] == 1:
        push(world, node, w[due], m.EV_PIPE, 0, 0)


@compiled
def _once_more(world: World, node: int, head: int, kind: int, now: int) -> None:
    """Packets go through ingress another time."""
    w = world.w
    at = node_record(world, node) + head
    while w[at] >= 0 and w[w[at] + m.R_TIME] <= now:
        row = take(world, at)
        if world.h[row * 2 + m.RH_FLAGS] & m.RF_RETIRED:
            lose(world, node, row, m.DROP_RELOADED, now)
        else:
            _ingress(world, node, row, now)
    if w[at] >= 0:
        push(world, node, w[w[at] + m.R_TIME], kind, 0, 0)


@compiled
def _inject(world: World, node: int, now: int) -> None:
    """Frames from Python enter: from the control plane, as port events, or by a port."""
    w, h = world.w, world.h
    record = node_record(world, node)
    at = record + m.N_INJECT_HEAD
    while w[at] >= 0 and w[w[at] + m.R_TIME] <= now:
        row = take(world, at)
        origin = h[row * 2 + m.RH_IN_PORT]
        if h[row * 2 + m.RH_FLAGS] & m.RF_RETIRED:
            lose(world, node, row, m.DROP_RELOADED, now)
        elif origin == m.FROM_EVENT:
            enter(world, node, row, w[record + m.N_EVENT_PORT], now)
        else:
            switch_receive(world, node, origin, row, now)
    if w[at] >= 0:
        push(world, node, w[w[at] + m.R_TIME], m.EV_INJECT, 0, 0)


# --- from Python ---


@compiled
def retire(world: World, node: int, now: int) -> None:
    """The program is replaced, or the switch stops: what waits is lost, the rest will be."""
    w, h = world.w, world.h
    record = node_record(world, node)
    for head in (m.N_PIPE_HEAD, m.N_RESUBMIT_HEAD, m.N_RECIRC_HEAD, m.N_INJECT_HEAD):
        row = w[record + head]
        while row >= 0 and (head != m.N_INJECT_HEAD or w[row + m.R_TIME] <= now):
            h[row * 2 + m.RH_FLAGS] |= m.RF_RETIRED
            row = w[row + m.R_NEXT]
    first = w[record + m.N_FIRST_PORT]
    for port in range(first, first + w[record + m.N_PORTS]):
        flush(world, port, m.DROP_RELOADED, now)


@compiled
def inject(world: World, node: int, origin: int, address: int, length: int, time: int) -> bool:
    """Lets a frame that lies at an address enter a switch at `time`.

    `origin` is a global port, or FROM_EVENT. False when there was no room for it (HALT says what for).
    """
    w, h = world.w, world.h
    row = row_new(world)
    if row < 0:
        return False
    if not row_store(world, row, address, length, length):
        row_free(world, row)
        return False
    h[row * 2 + m.RH_IN_PORT] = origin
    w[row + m.R_TIME] = time
    at = node_record(world, node) + m.N_INJECT_HEAD
    before = w[at]
    insert_by_time(world, at, row)
    if w[at] == row:
        if before >= 0:
            remove(world, w[node_record(world, node) + m.N_HEAP], order_of(node, m.EV_INJECT, 0))
        push(world, node, time, m.EV_INJECT, 0, 0)
    return True


@compiled
def set_live(world: World, port: int, live: bool, now: int) -> None:
    """A switch has learned that a port went down, which flushes its queues, or came up."""
    world.w[_port_record(world, port) + m.P_LIVE] = live
    if not live:
        flush(world, port, m.DROP_PORT_DOWN, now)
