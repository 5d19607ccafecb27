"""What the kernel tells of carriers, taken straight into the data plane.

The loop reads netlink itself, so that a lost carrier costs no way through Python: the port goes down for
the wire and for the switch, its queues are flushed, and the port-event packet enters, in one go. Python
hears of it by a socket of its own (`interfaces`) and sees to what can wait.
"""

from __future__ import annotations

from typing import Final

from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.call import zero_bytes
from sglb.switch.core.jit import compiled
from sglb.switch.core.rows import data_at, row_free, row_new, row_room
from sglb.switch.core.switch import enter, set_live
from sglb.switch.core.wires import set_carrier
from sglb.switch.core.world import World
from sglb.switch.pktgen import EVENT_BYTES, KIND_PORT
from sglb.switch.wire import layout as s
from sglb.switch.wire.native import load16, load32, system
from sglb.switch.wire.netlink import DELETE_LINK, NEW_LINK, RUNNING

_DONT_WAIT: Final = 0x40
_HEADER_BYTES: Final = 16
_LEAST_BYTES: Final = 32  #: struct nlmsghdr and ifinfomsg
_TYPE: Final = 12
_EVENT: Final = 14


@compiled
def read_links(world: World, now: int) -> None:
    """Takes what the netlink socket has, a datagram; ends where that is not well formed."""
    w = world.w
    section = w[m.WIRE_AT]
    buffer = w[m.BASE] + w[section + s.S_LINKS_AT] * 8
    count = system(
        w[section + s.C_RECV], w[section + s.S_LINKS], buffer, s.LINKS_WORDS * 8, _DONT_WAIT, 0
    )
    at = 0
    while at + _LEAST_BYTES <= count:
        size, kind = load32(buffer + at), load16(buffer + at + 4)
        if size < _HEADER_BYTES or at + size > count:
            break
        if kind in (NEW_LINK, DELETE_LINK) and size >= _LEAST_BYTES:
            _change(world, buffer + at + _HEADER_BYTES, kind, now)
        at += size + 3 & ~3


@compiled
def _change(world: World, link: int, kind: int, now: int) -> None:
    """One interface has changed; `link` is the address of its ifinfomsg."""
    w = world.w
    section = w[m.WIRE_AT]
    index, up = load32(link + 4), kind == NEW_LINK and load32(link + 8) & RUNNING == RUNNING
    if load16(link) & 0xFF:
        return  # of an address family: tells of a bridge's port or the like
    for local in range(w[section + s.S_COUNT]):
        wire = w[section + s.S_PORTS] + local * s.WIRE_WORDS
        if w[wire + s.W_FD] >= 0 and w[wire + s.W_INDEX] == index:
            port_changed(world, local, up, now)


@compiled
def port_changed(world: World, local: int, up: bool, now: int) -> None:
    """A port's carrier, as far as it is another than was told last."""
    w = world.w
    section = w[m.WIRE_AT]
    wire = w[section + s.S_PORTS] + local * s.WIRE_WORDS
    if (w[wire + s.W_UP] != 0) == up:
        return
    w[wire + s.W_UP] = up
    set_carrier(world, w[wire + s.W_PORT], up, now)
    set_live(world, w[wire + s.W_PORT], up, now)
    if w[section + s.S_EVENTS]:
        _event(world, w[wire + s.W_PORT], up, now)


@compiled
def _event(world: World, port: int, up: bool, now: int) -> None:
    """The port-event packet (`sglb.switch.pktgen`) enters."""
    w, h, b = world.w, world.h, world.b
    section, node = w[m.WIRE_AT], w[m.NODES_AT]
    row = row_new(world)
    if row < 0:
        return
    size = _EVENT + EVENT_BYTES
    if not row_room(world, row, size):
        row_free(world, row)
        return
    number, count = (
        w[w[m.PORTS_AT] + port * m.PORT_WORDS + m.P_NUMBER],
        w[section + s.S_EVENT_COUNT],
    )
    w[section + s.S_EVENT_COUNT] = count + 1
    zero_bytes(w[row + abi.DATA], size)
    at = data_at(world, row)
    b[at + _TYPE] = w[node + m.N_ETHERTYPE] >> 8
    b[at + _TYPE + 1] = w[node + m.N_ETHERTYPE]
    b[at + _EVENT] = w[section + s.S_EVENT_APP]
    b[at + _EVENT + 1] = KIND_PORT << 4 | up
    b[at + _EVENT + 2] = number >> 8
    b[at + _EVENT + 3] = number
    b[at + _EVENT + 4] = count >> 8
    b[at + _EVENT + 5] = count
    h[row * 2 + abi.LENGTH] = size
    h[row * 2 + abi.STORED] = size
    h[row * 2 + m.RH_IN_PORT] = m.FROM_EVENT
    enter(world, 0, row, w[node + m.N_EVENT_PORT], now)
