"""Wires: what becomes of a frame between two ports, in one direction.

A frame is launched when its first bit leaves, with the time at which its last one will; what befell
it is settled when it arrives, at one event a hop. What changes on the wire meanwhile is written to
the frames that it concerns, through the functions here: a frame whose last bit hasn't left is lost
when the link is cut, one in flight only if there is no carrier as it arrives. So times, counters
and the log are those of `sglb.fabric.wires`, where each of these moments is an event.

Control: set a port's words, then call what tells of the change. All of it is about frames that the
port sends; a link has two directions, hence two ports.
"""

from __future__ import annotations

from typing import Final

from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.heap import push_order
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.lists import append, take
from sglb.switch.core.observe import (
    SYNCMESH,
    count,
    ether_type,
    log,
    log_lost,
    on_dead_path,
    traffic,
    urgent_note,
)
from sglb.switch.core.rows import row_free
from sglb.switch.core.world import World

FCS_BYTES: Final = 4
_ONE: Final = 1 << 62  #: certainty, of bit errors
_LOW32: Final = 0xFFFFFFFF
_GAMMA: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX_1: Final = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2: Final = 0x94D049BB133111EB - (1 << 64)
_KIND: Final = 0xFF << 32


@inlined
def _record(world: World, port: int) -> int:
    return world.w[m.PORTS_AT] + port * m.PORT_WORDS


# --- sending and receiving ---


@compiled
def launch(world: World, port: int, row: int, end_ps: int) -> None:
    """Puts a frame on the wire of a port; its last bit leaves at `end_ps`.

    Frames of a port must leave in the order in which they are launched.
    """
    w, h = world.w, world.h
    record = _record(world, port)
    time = end_ps + w[record + m.P_DELAY]
    w[row + m.R_TIME] = time
    h[row * 2 + m.RH_OUT_PORT] = port
    if w[record + m.P_TROUBLE]:
        _befall(world, record, row)
    if w[m.DEAD_ANY]:
        _mark_dead(world, record, port, row)
    w[record + m.P_TX_PACKETS] += 1
    w[record + m.P_TX_BYTES] += h[row * 2 + abi.LENGTH]
    if w[record + m.P_WIRE_HEAD] < 0:
        push_order(world, w[record + m.P_ARRIVE_HEAP], time, w[record + m.P_ARRIVE], row)
    append(world, record + m.P_WIRE_HEAD, row)


@compiled
def arrive(world: World, port: int, now: int) -> int:
    """Takes the frame that arrives now at a port (EV_WIRE); -1 when it was lost on the way."""
    w, h = world.w, world.h
    sender = w[_record(world, port) + m.P_PEER]
    row = _off_the_wire(world, sender)
    if (
        h[row * 2 + m.RH_FLAGS] & (m.RF_LOST | m.RF_DEAD | m.RF_TOLD)
        or w[_record(world, sender) + m.P_TROUBLE]
    ):
        row = _settle_arrival(world, sender, row, now)
        if row < 0:
            return -1
    elif ether_type(world, row) == SYNCMESH:
        _tell_sent(world, sender, row)
    w[m.HOPS] += 1
    return row


@compiled
def depart(world: World, port: int, now: int) -> None:
    """Hands the frame that has left a port without a peer (EV_OUT) to Python; sets HALT_CPU."""
    w, h = world.w, world.h
    row = _off_the_wire(world, port)
    if h[row * 2 + m.RH_FLAGS] & (m.RF_LOST | m.RF_TOLD):
        row = _settle_arrival(world, port, row, now)
        if row < 0:
            return
    w[m.HALT] |= m.HALT_CPU
    used = w[m.CPU_USED]
    w[m.CPU_USED] = used + 1
    record = w[m.CPU_AT] + used * m.CPU_WORDS
    w[record + m.U_TIME] = now
    w[record + m.U_NODE] = w[_record(world, port) + m.P_NODE]
    w[record + m.U_PORT] = port
    w[record + m.U_ROW] = row


@compiled
def launch_pause(world: World, port: int, row: int, end_ps: int) -> None:
    """Puts a MAC control frame on the wire; it arrives as EV_PAUSE.

    On a port without a peer it stays in the P_PAUSE list, for whoever drives that port.
    """
    w = world.w
    record = _record(world, port)
    time = end_ps + w[record + m.P_DELAY]
    w[row + m.R_TIME] = time
    if w[record + m.P_TROUBLE]:
        _befall(world, record, row)
    if w[record + m.P_PAUSE_HEAD] < 0 and w[record + m.P_PEER] >= 0:
        _push_pause(world, record, time)
    append(world, record + m.P_PAUSE_HEAD, row)


@compiled
def arrive_pause(world: World, port: int) -> int:
    """Takes the MAC control frame that arrives now at a port (EV_PAUSE); -1 when it was lost."""
    w = world.w
    record = _record(world, w[_record(world, port) + m.P_PEER])
    row = take(world, record + m.P_PAUSE_HEAD)
    head = w[record + m.P_PAUSE_HEAD]
    if head >= 0:
        _push_pause(world, record, w[head + m.R_TIME])
    if world.h[row * 2 + m.RH_FLAGS] & m.RF_LOST or not w[record + m.P_UP]:
        row_free(world, row)
        return -1
    return row


@inlined
def _push_pause(world: World, record: int, time: int) -> None:
    w = world.w
    order = w[record + m.P_ARRIVE] & ~_KIND | m.EV_PAUSE << 32
    push_order(world, w[record + m.P_ARRIVE_HEAP], time, order, 0)


@inlined
def _off_the_wire(world: World, sender: int) -> int:
    """Takes the first frame of a port's wire and sees to the event of the next."""
    w = world.w
    record = _record(world, sender)
    row = take(world, record + m.P_WIRE_HEAD)
    head = w[record + m.P_WIRE_HEAD]
    if head >= 0:
        push_order(
            world, w[record + m.P_ARRIVE_HEAP], w[row + m.R_AFTER], w[record + m.P_ARRIVE], head
        )
    return row


@compiled
def _settle_arrival(world: World, sender: int, row: int, now: int) -> int:
    """The frame, or -1 after it was counted and logged as lost."""
    w, h = world.w, world.h
    record = _record(world, sender)
    _settle(world, sender, row)
    flags = h[row * 2 + m.RH_FLAGS]
    if not flags & m.RF_LOST and w[record + m.P_UP]:
        h[row * 2 + m.RH_FLAGS] = flags & ~(m.RF_DEAD | m.RF_TOLD)
        return row
    if not flags & (m.RF_CUT | m.RF_DOWN):
        w[m.HOPS] += 1
    if not flags & m.RF_LOST:
        count(world, w[record + m.P_DROPS], m.DROP_CARRIER)
        log(world, now, m.LOG_LOST, sender, m.DROP_CARRIER, traffic(world, row))
    row_free(world, row)
    return -1


# --- what was lost, and what was seen ---


@compiled
def _settle(world: World, sender: int, row: int) -> None:
    """Counts and logs, once, what happened to a frame up to its last bit, as of that time."""
    w, h = world.w, world.h
    flags = h[row * 2 + m.RH_FLAGS]
    if flags & m.RF_TOLD:
        return
    h[row * 2 + m.RH_FLAGS] = flags | m.RF_TOLD
    record = _record(world, sender)
    end = w[row + m.R_TIME] - w[record + m.P_DELAY]
    if flags & (m.RF_CUT | m.RF_DOWN):
        w[record + m.P_TX_PACKETS] -= 1
        w[record + m.P_TX_BYTES] -= h[row * 2 + abi.LENGTH]
        node = w[record + m.P_NODE]
        if w[w[m.NODES_AT] + node * m.NODE_WORDS + m.N_KIND] == 0:
            count(world, w[record + m.P_DROPS], m.DROP_CUT)
            log_lost(world, node, sender, row, m.DROP_CUT, end)
        else:  # a NIC counts, no more
            count(world, w[record + m.P_DROPS], _cut_reason(world, row))
        return
    _tell_sent(world, sender, row)
    if flags & m.RF_LOST:
        reason = m.DROP_BITS
        if flags & m.RF_HOLE:
            reason = m.DROP_BLACKHOLE
        elif flags & m.RF_UNLUCKY:
            reason = m.DROP_RANDOM
        count(world, w[record + m.P_DROPS], reason)
        log(world, end, m.LOG_LOST, sender, reason, traffic(world, row))


@compiled
def _cut_reason(world: World, row: int) -> int:
    kind = traffic(world, row) >> 32
    if kind == m.TRAFFIC_DATA:
        return m.DROP_CUT
    return m.DROP_CUT_ACK if kind == m.TRAFFIC_ACK else m.DROP_CUT_CONTROL


@compiled
def _tell_sent(world: World, sender: int, row: int) -> None:
    """Logs a notification, and a frame sent into a dead path, as a switch's port has sent it."""
    w = world.w
    record = _record(world, sender)
    node = w[m.NODES_AT] + w[record + m.P_NODE] * m.NODE_WORDS
    if w[node + m.N_KIND]:
        return
    end = w[row + m.R_TIME] - w[record + m.P_DELAY]
    if world.h[row * 2 + m.RH_FLAGS] & m.RF_DEAD:
        destination = traffic(world, row) & _LOW32
        log(world, end, m.LOG_DEAD_PATH, sender, destination, 0)
    told = urgent_note(world, row)
    if told >= 0:
        log(world, end, m.LOG_NOTE_SENT, sender, told >> 1, told & 1)


@compiled
def _mark_dead(world: World, record: int, port: int, row: int) -> None:
    w, half = world.w, row * 2 + m.RH_FLAGS
    node = w[m.NODES_AT] + w[record + m.P_NODE] * m.NODE_WORDS
    if w[node + m.N_KIND] == 0 and on_dead_path(world, port, row):
        world.h[half] |= m.RF_DEAD


@compiled
def _befall(world: World, record: int, row: int) -> None:
    """Decides what a troubled wire does to a frame."""
    w, half = world.w, row * 2 + m.RH_FLAGS
    if not w[record + m.P_UP]:
        world.h[half] |= m.RF_DOWN
    else:
        world.h[half] |= _fate(world, record, row)


@compiled
def _fate(world: World, record: int, row: int) -> int:
    """What a direction with carrier does to a frame: RF_HOLE, RF_UNLUCKY, RF_BITS or 0."""
    w = world.w
    if w[record + m.P_BLACKHOLE]:
        return m.RF_HOLE
    chance = w[record + m.P_LOSS]
    if ether_type(world, row) == SYNCMESH:
        chance = w[record + m.P_LOSS_SYNC]
    if chance and next64(world, record + m.P_RNG) >> 32 & _LOW32 < chance:
        return m.RF_UNLUCKY
    if w[record + m.P_BER]:
        bits = 8 * (world.h[row * 2 + abi.LENGTH] + FCS_BYTES)
        if next64(world, record + m.P_RNG) & (_ONE - 1) >= intact(w[record + m.P_BER], bits):
            return m.RF_BITS
    return 0


@compiled
def next64(world: World, at: int) -> int:
    """Draws 64 bits from the SplitMix64 stream whose state is word `at` (see `random_stream`)."""
    state = world.w[at] + _GAMMA
    world.w[at] = state
    state = (state ^ (state >> 30 & (1 << 34) - 1)) * _MIX_1
    state = (state ^ (state >> 27 & (1 << 37) - 1)) * _MIX_2
    return state ^ (state >> 31 & (1 << 33) - 1)


@compiled
def intact(error_rate: int, bits: int) -> int:
    """(1 - error_rate / 2**62) ** bits in units of 2**-62, rounded down at each step."""
    result, factor = _ONE, _ONE - error_rate
    while bits:
        if bits & 1:
            result = _times(result, factor)
        factor = _times(factor, factor)
        bits >>= 1
    return result


@compiled
def _times(a: int, b: int) -> int:
    """a * b / 2**62 for factors up to 2**62, by halves of 31 bits."""
    low = (1 << 31) - 1
    high_a, low_a, high_b, low_b = a >> 31, a & low, b >> 31, b & low
    middle = high_a * low_b + (low_a * low_b >> 31)
    return high_a * high_b + (middle >> 31) + ((middle & low) + low_a * high_b >> 31)


# --- changes, from Python ---


@compiled
def set_carrier(world: World, port: int, up: bool, now: int) -> None:
    """The link at a port has lost or found its carrier, as far as this direction is concerned."""
    w, h = world.w, world.h
    record = _record(world, port)
    if (w[record + m.P_UP] != 0) == up:
        return
    w[record + m.P_UP] = up
    if not up:
        w[record + m.P_CUTS] += 1
        w[record + m.P_CUT_AT] = now
    _note_trouble(world, record)
    for head in (m.P_WIRE_HEAD, m.P_PAUSE_HEAD):
        row = w[record + head]
        while row >= 0:
            if w[row + m.R_TIME] - w[record + m.P_DELAY] >= now:
                flags = h[row * 2 + m.RH_FLAGS]
                if not up:
                    flags |= m.RF_CUT
                elif flags & m.RF_DOWN:
                    flags = flags & ~m.RF_DOWN | _fate(world, record, row)
                h[row * 2 + m.RH_FLAGS] = flags
            row = w[row + m.R_NEXT]


@compiled
def wire_changed(world: World, port: int, now: int) -> None:
    """P_BLACKHOLE, P_LOSS, P_LOSS_SYNC or P_BER of a port has changed."""
    w, h = world.w, world.h
    record = _record(world, port)
    _note_trouble(world, record)
    row = w[record + m.P_WIRE_HEAD]
    while row >= 0:
        flags = h[row * 2 + m.RH_FLAGS]
        if w[row + m.R_TIME] - w[record + m.P_DELAY] >= now and not flags & (m.RF_CUT | m.RF_DOWN):
            flags &= ~(m.RF_HOLE | m.RF_UNLUCKY | m.RF_BITS)
            h[row * 2 + m.RH_FLAGS] = flags | _fate(world, record, row)
        row = w[row + m.R_NEXT]


@inlined
def _note_trouble(world: World, record: int) -> None:
    w = world.w
    lossy = w[record + m.P_LOSS] | w[record + m.P_LOSS_SYNC] | w[record + m.P_BER]
    w[record + m.P_TROUBLE] = not w[record + m.P_UP] or w[record + m.P_BLACKHOLE] or lossy


@compiled
def dead_changed(world: World, now: int) -> None:
    """The bits in DEAD have changed (DEAD_ANY says whether there are any)."""
    w, h = world.w, world.h
    for port in range(w[m.PORTS]):
        record = _record(world, port)
        row = w[record + m.P_WIRE_HEAD]
        while row >= 0:
            if w[row + m.R_TIME] - w[record + m.P_DELAY] >= now:
                h[row * 2 + m.RH_FLAGS] &= ~m.RF_DEAD
                if w[m.DEAD_ANY]:
                    _mark_dead(world, record, port, row)
            row = w[row + m.R_NEXT]


@compiled
def settle(world: World, now: int) -> None:
    """Brings counters and log up to `now`: otherwise a frame is told of when it arrives."""
    w = world.w
    for port in range(w[m.PORTS]):
        record = _record(world, port)
        row = w[record + m.P_WIRE_HEAD]
        while row >= 0 and w[row + m.R_TIME] - w[record + m.P_DELAY] <= now:
            _settle(world, port, row)
            row = w[row + m.R_NEXT]


@compiled
def unsent(world: World, port: int, now: int) -> tuple[int, int]:
    """(packets, bytes) in a port's P_TX counters whose last bit hasn't left yet, or never did."""
    w, h = world.w, world.h
    record = _record(world, port)
    packets = size = 0
    row = w[record + m.P_WIRE_HEAD]
    while row >= 0:
        flags = h[row * 2 + m.RH_FLAGS]
        cut = flags & (m.RF_CUT | m.RF_DOWN) and not flags & m.RF_TOLD
        if cut or w[row + m.R_TIME] - w[record + m.P_DELAY] > now:
            packets += 1
            size += h[row * 2 + abi.LENGTH]
        row = w[row + m.R_NEXT]
    return packets, size
