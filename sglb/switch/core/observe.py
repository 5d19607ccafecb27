"""What an observer can tell of frames, and the log that it keeps.

The rules are those of `sglb.fabric.frames`; they classify for metrics, and nothing is forwarded by
them. Bytes that are not stored count as zero.
"""

from __future__ import annotations

from typing import Final

from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.rows import data_at
from sglb.switch.core.world import World

SYNCMESH: Final = 0x88B5
_IPV4: Final = 0x0800
_IPV6: Final = 0x86DD
_TYPE: Final = 12
_ETHERNET: Final = 14
_BTH_IPV4: Final = _ETHERNET + 20 + 8
_BTH_IPV6: Final = _ETHERNET + 40 + 8
_DEST_IPV4: Final = 31  #: second and third byte of the destination address
_DEST_IPV6: Final = 44
_ROCE_ACK: Final = 0x11
_ROCE_CNP: Final = 0x81
_NOTE_BYTES: Final = _ETHERNET + 12 + 8
_NOTE: Final = 8
_URGENT: Final = 1
_ORIGIN: Final = 18
_CODE: Final = 28
_CODE_DOWN: Final = 8


@compiled
def log(world: World, time: int, kind: int, port: int, a: int, b: int) -> None:
    """Adds a record about a port; HALT_LOG from half full on, so that it never runs over."""
    log_at_node(world, time, kind, world.w[_port(world, port) + m.P_NODE], port, a, b)


@compiled
def log_at_node(world: World, time: int, kind: int, node: int, port: int, a: int, b: int) -> None:
    """Adds a record about a node; `port` is -1 for none."""
    w = world.w
    used = w[m.LOG_USED]
    if used >= w[m.LOG_CAPACITY] >> 1:
        w[m.HALT] |= m.HALT_LOG
        if used >= w[m.LOG_CAPACITY]:
            w[m.LOG_OVERRUN] += 1
            return
    w[m.LOG_USED] = used + 1
    record = w[m.LOG_AT] + used * m.LOG_WORDS
    w[record + m.L_TIME] = time
    w[record + m.L_KIND] = kind
    w[record + m.L_NODE] = node
    w[record + m.L_PORT] = port
    w[record + m.L_A] = a
    w[record + m.L_B] = b


@inlined
def _port(world: World, port: int) -> int:
    return world.w[m.PORTS_AT] + port * m.PORT_WORDS


@inlined
def ether_type(world: World, row: int) -> int:
    """EtherType of a frame, 0 when it is too short for one."""
    if world.h[row * 2 + abi.STORED] < _ETHERNET:
        return 0
    at = data_at(world, row) + _TYPE
    return world.b[at] << 8 | world.b[at + 1]


@compiled
def destination_switch(world: World, row: int) -> int:
    """The switch id in the destination address of host traffic; 0 for other frames."""
    stored, b = world.h[row * 2 + abi.STORED], world.b
    kind = ether_type(world, row)
    if kind == _IPV4 and stored >= _BTH_IPV4:
        at = data_at(world, row) + _DEST_IPV4
    elif kind == _IPV6 and stored >= _BTH_IPV6:
        at = data_at(world, row) + _DEST_IPV6
    else:
        return 0
    return b[at] << 8 | b[at + 1]


@compiled
def traffic(world: World, row: int) -> int:
    """TRAFFIC_* << 32 | destination switch."""
    kind = ether_type(world, row)
    bth = _BTH_IPV4 if kind == _IPV4 else _BTH_IPV6
    found = m.TRAFFIC_CONTROL
    if kind in (_IPV4, _IPV6) and world.h[row * 2 + abi.STORED] > bth:
        opcode = world.b[data_at(world, row) + bth]
        if opcode != _ROCE_CNP:
            found = m.TRAFFIC_ACK if opcode == _ROCE_ACK else m.TRAFFIC_DATA
    return found << 32 | destination_switch(world, row)


@compiled
def urgent_note(world: World, row: int) -> int:
    """origin << 1 | down of an urgent SyncMesh notification, -1 for other frames."""
    if ether_type(world, row) != SYNCMESH or world.h[row * 2 + abi.STORED] < _NOTE_BYTES:
        return -1
    b, at = world.b, data_at(world, row)
    if b[at + _ETHERNET] & 0xF != _NOTE or b[at + _ETHERNET + 1] & _URGENT == 0:
        return -1
    origin = 0
    for i in range(4):
        origin = origin << 8 | b[at + _ORIGIN + i]
    return origin << 1 | (b[at + _CODE] & 0xF == _CODE_DOWN)


@compiled
def on_dead_path(world: World, port: int, row: int) -> bool:
    """Whether a frame sent on a port goes to a next hop that cannot reach its destination switch."""
    w = world.w
    destination = destination_switch(world, row)
    word = destination >> 6
    if word >= w[m.DEAD_WORDS]:
        return False
    return w[w[m.DEAD_AT] + port * w[m.DEAD_WORDS] + word] >> (destination & 63) & 1 != 0


@compiled
def lost(world: World, port: int, row: int, reason: int, time: int) -> None:
    """Counts and logs a frame that a port of a switch, or the wire from it, has lost."""
    record = _port(world, port)
    count(world, world.w[record + m.P_DROPS], reason)
    log_lost(world, world.w[record + m.P_NODE], port, row, reason, time)


@inlined
def count(world: World, counters: int, reason: int) -> None:
    """Adds one to a drop counter."""
    world.w[counters + reason] += 1


@compiled
def log_lost(world: World, node: int, port: int, row: int, reason: int, time: int) -> None:
    """Logs a lost frame, unless that is its end by design.

    So end timer packets, which the switch made itself, and what neighbours told its program.
    A clone counts as a control frame without destination: it is a notification to be, and the
    packet that it was made of went its own way.
    """
    h = world.h
    by_program = reason in (m.DROP_INGRESS, m.DROP_EGRESS)
    if h[row * 2 + m.RH_IN_PORT] == m.FROM_EVENT or (
        by_program and ether_type(world, row) == SYNCMESH
    ):
        return
    what = m.TRAFFIC_CONTROL << 32
    if not h[row * 2 + m.RH_FLAGS] & m.RF_CLONE:
        what = traffic(world, row)
    log_at_node(world, time, m.LOG_LOST, node, port, reason, what)
