"""Priority flow control (IEEE 802.1Qbb): pause frames on the wire, and what they do at both ends.

A pause frame has 64 bytes with FCS and is a MAC control frame: it waits for the frame that has the
wire and goes before all that wait, whatever is paused; it takes the wire for its time and arrives after
the link's delay. At the peer it works `P_RESPONSE` after its last bit: from the next frame on the class
is not picked. A pause lasts as many times 512 bits at the port's rate as the frame says, 0 ends it. A
port that has paused its peer renews that at half of this time until the priority group is calm.

The egress latency of a switch is taken as lying before the MAC: it delays data frames only.

A frame is real bytes in a row: on a port without a peer (of a live switch) `send_pause` leaves it in
the port's P_PAUSE list, from where the live loop takes it; what came in goes to `pause_received`.
"""

from __future__ import annotations

from typing import Final

from sglb.p4.native import abi
from sglb.switch.clock import PS_PER_S
from sglb.switch.core import model as m
from sglb.switch.core.buffer import class_at, group_at, node_at, port_at, queue_at
from sglb.switch.core.heap import order_of, push, remove
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.observe import log
from sglb.switch.core.rows import data_at, row_free, row_new
from sglb.switch.core.wires import arrive_pause, launch_pause
from sglb.switch.core.world import World

PAUSE_BYTES: Final = 60  #: a pause frame without FCS, as all frame lengths here
QUANTUM_BITS: Final = 512
LONGEST_QUANTA: Final = 0xFFFF
#: The least rate at which the longest pause is counted in 64 bits.
LEAST_RATE_BPS: Final = 1_000_000

_ETHER_TYPE: Final = 12
_OPCODE: Final = 14
_VECTOR: Final = 16
_TIMES: Final = 18
_USED_BYTES: Final = _TIMES + 2 * m.CLASSES
_QUANTUM_PS: Final = QUANTUM_BITS * PS_PER_S


@inlined
def local_port(world: World, port: int) -> int:
    """A port's number within its node, the index of its events."""
    w = world.w
    return port - w[node_at(world, w[port_at(world, port) + m.P_NODE]) + m.N_FIRST_PORT]


@compiled
def pause_ps(rate_bps: int, quanta: int) -> int:
    """How long that many quanta last at a rate, rounded down; 0 for a port that sends in no time."""
    if rate_bps == 0:
        return 0
    return quanta * (_QUANTUM_PS // rate_bps) + quanta * (_QUANTUM_PS % rate_bps) // rate_bps


@compiled
def wire_ps(rate_bps: int, length_bytes: int) -> int:
    """Time on the wire of that many bytes, rounded up."""
    return 0 if rate_bps == 0 else (length_bytes * 8 * PS_PER_S + rate_bps - 1) // rate_bps


@compiled
def kick(world: World, port: int, now: int) -> None:
    """Has a port look for a packet as soon as its wire is free."""
    w = world.w
    record = port_at(world, port)
    if w[record + m.P_WAKING] == 0:
        w[record + m.P_WAKING] = 1
        time = max(now, w[record + m.P_FREE])
        push(world, w[record + m.P_NODE], time, m.EV_FREE, local_port(world, port), 0)


@compiled
def arm(world: World, port: int, cls: int, alarm: int, time: int) -> None:
    """Has `pause_event` called at `time` for one of a class's ALARM_*.

    There is one event of each in the heap at most: one that is due earlier stays and finds out that it
    was too early, as almost always; only a later one (the peer now asks for less) is taken out.
    """
    w = world.w
    place = queue_at(world, port, cls) + m.Q_ALARMS + alarm
    node = w[port_at(world, port) + m.P_NODE]
    index = local_port(world, port) * m.ALARMS + alarm * m.CLASSES + cls
    waits = w[place]
    if waits != 0:
        if time >= waits:
            return
        heap = w[node_at(world, node) + m.N_HEAP]
        remove(world, heap, order_of(node, m.EV_PAUSE_END, index))
    w[place] = time
    push(world, node, time, m.EV_PAUSE_END, index, 0)


# --- frames ---


@compiled
def write_pause(world: World, row: int, port: int, cls: int, quanta: int) -> None:
    """Makes a row a pause frame for one class, from an address made of the port's number."""
    h, b = world.h, world.b
    at = data_at(world, row)
    for i in range(PAUSE_BYTES):
        b[at + i] = 0
    b[at] = 0x01
    b[at + 1] = 0x80
    b[at + 2] = 0xC2
    b[at + 5] = 0x01
    b[at + 6] = 0x02
    for i in range(4):
        b[at + 8 + i] = port >> (24 - 8 * i) & 0xFF
    b[at + _ETHER_TYPE] = 0x88
    b[at + _ETHER_TYPE + 1] = 0x08
    b[at + _OPCODE] = 0x01
    b[at + _OPCODE + 1] = 0x01
    b[at + _VECTOR + 1] = 1 << cls
    b[at + _TIMES + 2 * cls] = quanta >> 8
    b[at + _TIMES + 2 * cls + 1] = quanta & 0xFF
    h[2 * row + abi.LENGTH] = PAUSE_BYTES
    h[2 * row + abi.STORED] = PAUSE_BYTES
    h[2 * row + m.RH_BYTES] = PAUSE_BYTES


@compiled
def is_pause(world: World, row: int) -> bool:
    """Whether the frame stored in a row is a class-based pause frame."""
    h, b = world.h, world.b
    if h[2 * row + abi.STORED] < _USED_BYTES:
        return False
    at = data_at(world, row)
    return (
        b[at + _ETHER_TYPE] == 0x88
        and b[at + _ETHER_TYPE + 1] == 0x08
        and b[at + _OPCODE] == 0x01
        and b[at + _OPCODE + 1] == 0x01
    )


@compiled
def send_pause(world: World, port: int, cls: int, quanta: int, now: int) -> None:
    """Sends a pause frame for a class: `quanta` times 512 bits, 0 to let it go on."""
    w, h = world.w, world.h
    row = row_new(world)
    if row < 0:
        return  # the driver stops at HALT_ROWS
    write_pause(world, row, port, cls, quanta)
    record = port_at(world, port)
    overhead = w[node_at(world, w[record + m.P_NODE]) + m.N_OVERHEAD]
    start = max(now, w[record + m.P_FREE])
    end = start + wire_ps(w[record + m.P_RATE], PAUSE_BYTES + overhead)
    w[record + m.P_FREE] = end
    w[record + m.P_PAUSE_TX] += 1
    w[queue_at(world, port, cls) + m.Q_PAUSE_TX] += 1
    w[row + m.R_START] = start
    h[2 * row + m.RH_OUT_PORT] = port
    h[2 * row + m.RH_QUEUE] = cls
    peer = w[record + m.P_PEER]
    if peer >= 0:
        end += w[port_at(world, peer) + m.P_RESPONSE]
    launch_pause(world, port, row, end)


@compiled
def xoff(world: World, port: int, cls: int, settings: int, now: int) -> None:
    """Pauses the peer's class, anew when it was paused before."""
    w = world.w
    record = port_at(world, port)
    group = group_at(world, port, cls)
    quanta = w[settings + m.C_PAUSE_QUANTA]
    if w[group + m.G_XOFF] == 0:
        w[group + m.G_XOFF] = 1
        w[queue_at(world, port, cls) + m.Q_HELD_PS] -= now
        w[record + m.P_SENT_XOFF] |= 1 << cls
        log(world, now, m.LOG_PAUSE, port, cls, 1)
    send_pause(world, port, cls, quanta, now)
    renew = now + max(1, pause_ps(w[record + m.P_RATE], quanta) // 2)
    w[group + m.G_REFRESH] = renew
    arm(world, port, cls, m.ALARM_RENEW, renew)


@compiled
def xon(world: World, port: int, cls: int, now: int) -> None:
    """Lets the peer's paused class go on."""
    w = world.w
    w[group_at(world, port, cls) + m.G_XOFF] = 0
    w[queue_at(world, port, cls) + m.Q_HELD_PS] += now
    w[port_at(world, port) + m.P_SENT_XOFF] &= ~(1 << cls)
    log(world, now, m.LOG_PAUSE, port, cls, 0)
    send_pause(world, port, cls, 0, now)


# --- at the paused port ---


@compiled
def watch(world: World, port: int, cls: int, now: int) -> None:
    """Arms the watchdog of a class that is paused while packets wait."""
    w = world.w
    record = port_at(world, port)
    node_record = node_at(world, w[record + m.P_NODE])
    queue = queue_at(world, port, cls)
    waits = w[record + m.P_PAUSED] & w[record + m.P_READY]
    if (
        w[node_record + m.N_CLASSES] >> (m.CLASSES + cls) & 1
        and w[queue + m.Q_WATCHDOG] == 0
        and waits >> cls & 1
    ):
        settings = class_at(world, node_record, cls)
        w[queue + m.Q_WATCHDOG] = 1
        w[queue + m.Q_WATCH_AT] = now + w[settings + m.C_WATCH_PS]
        arm(world, port, cls, m.ALARM_WATCH, w[queue + m.Q_WATCH_AT])


@inlined
def unwatch(world: World, queue: int) -> None:
    """Disarms the watchdog: the class is not paused any more, or nothing waits."""
    if world.w[queue + m.Q_WATCHDOG] == 1:
        world.w[queue + m.Q_WATCHDOG] = 0


@compiled
def expect_calm(world: World, port: int, cls: int, earliest: int) -> None:
    """Sets when a storm is to be over: the restore time after the last pause, not before `earliest`."""
    w = world.w
    queue = queue_at(world, port, cls)
    node_record = node_at(world, w[port_at(world, port) + m.P_NODE])
    restore = w[class_at(world, node_record, cls) + m.C_RESTORE_PS]
    w[queue + m.Q_WATCH_AT] = max(earliest, w[queue + m.Q_CALM_FROM] + restore)
    arm(world, port, cls, m.ALARM_WATCH, w[queue + m.Q_WATCH_AT])


@compiled
def resume(world: World, port: int, cls: int, now: int) -> None:
    """A class's pause is over."""
    w = world.w
    record = port_at(world, port)
    queue = queue_at(world, port, cls)
    if w[record + m.P_PAUSED] >> cls & 1 == 0:
        return
    w[record + m.P_PAUSED] &= ~(1 << cls)
    w[queue + m.Q_PAUSE_UNTIL] = now
    w[queue + m.Q_PAUSED_PS] += now - w[queue + m.Q_PAUSED_AT]
    if w[record + m.P_PAUSED] == 0:
        w[record + m.P_PAUSED_PS] += now - w[record + m.P_PAUSED_SINCE]
    unwatch(world, queue)
    if w[queue + m.Q_WATCHDOG] == 2:
        expect_calm(world, port, cls, now)
    kick(world, port, now)


@compiled
def _pause(world: World, port: int, cls: int, quanta: int, now: int) -> None:
    w = world.w
    record = port_at(world, port)
    queue = queue_at(world, port, cls)
    w[queue + m.Q_PAUSE_RX] += 1
    until = now + pause_ps(w[record + m.P_RATE], quanta)
    if until == now:
        resume(world, port, cls, now)  # a port without a rate knows no bit times
        return
    w[queue + m.Q_PAUSE_UNTIL] = until
    if w[record + m.P_PAUSED] >> cls & 1 == 0:
        if w[record + m.P_PAUSED] == 0:
            w[record + m.P_PAUSED_SINCE] = now
        w[record + m.P_PAUSED] |= 1 << cls
        w[queue + m.Q_PAUSED_AT] = now
        watch(world, port, cls, now)
    if w[queue + m.Q_WATCHDOG] == 2:
        w[queue + m.Q_CALM_FROM] = now
        expect_calm(world, port, cls, until)
    arm(world, port, cls, m.ALARM_OVER, until)


@compiled
def pause_arrives(world: World, port: int, now: int) -> None:
    """An EV_PAUSE: takes the pause frame off the wire; it takes effect now, unless it was lost."""
    row = arrive_pause(world, port)
    if row >= 0:
        pause_received(world, port, row, now)
        row_free(world, row)


@compiled
def pause_received(world: World, port: int, row: int, now: int) -> None:
    """A pause frame takes effect: the classes it names stop from the next frame on, or go on."""
    w, b = world.w, world.b
    w[port_at(world, port) + m.P_PAUSE_RX] += 1
    at = data_at(world, row)
    vector = b[at + _VECTOR + 1]
    for cls in range(m.CLASSES):
        if vector >> cls & 1:
            quanta = b[at + _TIMES + 2 * cls] << 8 | b[at + _TIMES + 2 * cls + 1]
            if quanta == 0:
                resume(world, port, cls, now)
            else:
                _pause(world, port, cls, quanta, now)


@compiled
def forget(world: World, port: int, now: int) -> None:
    """A port has lost its link: nothing is paused any more, neither here nor at the peer."""
    w = world.w
    for cls in range(m.CLASSES):
        resume(world, port, cls, now)
        group = group_at(world, port, cls)
        if w[group + m.G_XOFF] != 0:
            w[group + m.G_XOFF] = 0
            w[queue_at(world, port, cls) + m.Q_HELD_PS] += now
    w[port_at(world, port) + m.P_SENT_XOFF] = 0
