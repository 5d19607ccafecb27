"""Frames as bytes in rows: written from an end's template, and read and checked.

A frame is what `sglb.fabric.roce` lays out, with two differences that save time. The payload is not
stored (a row reads as zeros beyond what it stores), and there is no ICRC: its four bytes are zeros.
Instead the receiver holds the addresses, UDP ports and queue pair number of each frame against those
of the queue pair's peer and drops what differs, and it verifies the IPv4 header checksum. So a switch
that changes what it must not is still found out, but for the payload, PSN and opcode.

CNPs are those of annex A17.9.3: BTH opcode 0x81 with BECN, PSN 0 and 16 reserved bytes.
"""

from __future__ import annotations

from typing import Final

from sglb.fabric import roce
from sglb.fabric.kernel import layout as k
from sglb.fabric.kernel.bits import LOW_32
from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.call import load64
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.rows import data_at, row_new, row_room
from sglb.switch.core.world import World

CNP: Final = 0x81
CNP_BYTES: Final = 16
BTH_BYTES: Final = 12
AETH_BYTES: Final = 4
ICRC_BYTES: Final = 4
UDP_BYTES: Final = 8
HEADER_4: Final = 54  #: Ethernet, IPv4, UDP, BTH
HEADER_6: Final = 74
#: The most that a host stores of a frame: headers, AETH and a whole bitmap.
LONGEST_STORED: Final = HEADER_6 + AETH_BYTES + roce.SPAN_PACKETS // 8
NAK_SYNDROME: Final = 0x60  #: NAK of code 0, PSN sequence error (IBTA 9.7.5.2.8)
_UDP_PROTOCOL: Final = 17
_BECN: Final = 0x40
_BTH_4: Final = HEADER_4 - BTH_BYTES
_BTH_6: Final = HEADER_6 - BTH_BYTES
_LEAST_UDP: Final = UDP_BYTES + BTH_BYTES + ICRC_BYTES


@inlined
def put16(world: World, at: int, value: int) -> None:
    """Two bytes, high one first."""
    world.b[at] = value >> 8
    world.b[at + 1] = value & 0xFF


@inlined
def put24(world: World, at: int, value: int) -> None:
    """Three bytes, high one first."""
    world.b[at] = value >> 16
    put16(world, at + 1, value & 0xFFFF)


@inlined
def get16(world: World, at: int) -> int:
    """Two bytes, high one first."""
    return world.b[at] << 8 | world.b[at + 1]


@inlined
def get24(world: World, at: int) -> int:
    """Three bytes, high one first."""
    return world.b[at] << 16 | get16(world, at + 1)


@inlined
def bth_offset(world: World, host: int) -> int:
    """Where the BTH begins in a host's frames."""
    return _BTH_6 if world.w[host + k.H_IPV6] else _BTH_4


@compiled
def set_lengths(world: World, at: int, end: int, ipv6: int, udp_bytes: int, tos: int) -> None:
    """Lengths, TOS and header checksum of the frame at a byte offset."""
    w, b = world.w, world.b
    if ipv6:
        b[at + 14] = 0x60 | tos >> 4
        b[at + 15] = (tos & 0xF) << 4
        put16(world, at + 18, udp_bytes)
        put16(world, at + 58, udp_bytes)
        return
    total = udp_bytes + 20
    rest = w[w[end + k.E_TEMPLATE] + k.T_SUM] + total + tos
    rest = (rest & 0xFFFF) + (rest >> 16)
    rest = (rest & 0xFFFF) + (rest >> 16)
    b[at + 15] = tos
    put16(world, at + 16, total)
    put16(world, at + 24, rest ^ 0xFFFF)
    put16(world, at + 38, udp_bytes)


@compiled
def new_frame(world: World, end: int, stored: int, length: int) -> int:
    """A row with an end's template at its head; -1 (and a HALT bit) when there is no room."""
    w, h = world.w, world.h
    row = row_new(world)
    if row < 0:
        return -1
    if stored > w[m.ROW_ROOM] and not row_room(world, row, stored):
        return -1
    to = data_at(world, row) >> 3
    template = w[end + k.E_TEMPLATE]
    for i in range(7):
        w[to + i] = w[template + i]
    if w[w[end + k.E_HOST] + k.H_IPV6]:
        for i in range(7, 10):
            w[to + i] = w[template + i]
    half = row * 2
    h[half + abi.LENGTH] = length
    h[half + abi.STORED] = stored
    h[half + m.RH_BYTES] = length
    h[half + m.RH_IN_PORT] = -1
    return row


@compiled
def data_frame(world: World, end: int, opcode: int, packet: int, size: int, ask: bool) -> int:
    """A row with a sender's data frame: `size` bytes of payload, packet number `packet`."""
    w, b = world.w, world.b
    host = w[end + k.E_HOST]
    bth = bth_offset(world, host)
    pad = -size & 3
    length = bth + BTH_BYTES + size + pad + ICRC_BYTES
    row = new_frame(world, end, bth + BTH_BYTES, length)
    if row < 0:
        return -1
    at = data_at(world, row)
    if size != w[host + k.H_MTU]:
        tos = w[w[end + k.E_TEMPLATE] + k.T_TOS]
        udp = UDP_BYTES + BTH_BYTES + size + pad + ICRC_BYTES
        set_lengths(world, at, end, w[host + k.H_IPV6], udp, tos)
        b[at + bth + 1] = pad << 4
    b[at + bth] = opcode
    b[at + bth + 8] = 0x80 if ask else 0
    put24(world, at + bth + 9, (w[end + k.E_FIRST_PSN] + packet) & 0xFFFFFF)
    return row


@compiled
def ack_frame(world: World, end: int, psn: int, syndrome: int, msn: int, words: int) -> int:
    """A row with a receiver's acknowledge that has room for `words` 32 bit words of bitmap."""
    w, b = world.w, world.b
    host = w[end + k.E_HOST]
    bth = bth_offset(world, host)
    stored = bth + BTH_BYTES + AETH_BYTES + 4 * words
    row = new_frame(world, end, stored, stored + ICRC_BYTES)
    if row < 0:
        return -1
    at = data_at(world, row)
    if words:
        tos = w[w[end + k.E_TEMPLATE] + k.T_TOS]
        udp = UDP_BYTES + BTH_BYTES + AETH_BYTES + 4 * words + ICRC_BYTES
        set_lengths(world, at, end, w[host + k.H_IPV6], udp, tos)
    put24(world, at + bth + 9, psn)
    b[at + bth + BTH_BYTES] = syndrome
    put24(world, at + bth + BTH_BYTES + 1, msn)
    return row


@compiled
def cnp_frame(world: World, end: int) -> int:
    """A row with a receiver's CNP."""
    w, b = world.w, world.b
    host = w[end + k.E_HOST]
    bth = bth_offset(world, host)
    stored = bth + BTH_BYTES
    row = new_frame(world, end, stored, stored + CNP_BYTES + ICRC_BYTES)
    if row < 0:
        return -1
    at = data_at(world, row)
    udp = UDP_BYTES + BTH_BYTES + CNP_BYTES + ICRC_BYTES
    set_lengths(world, at, end, w[host + k.H_IPV6], udp, w[host + k.H_CNP_TOS])
    b[at + bth] = CNP
    b[at + bth + 4] = _BECN
    put24(world, at + bth + 9, 0)
    return row


@compiled
def _check_ip(world: World, host: int, address: int, at: int, length: int) -> int:
    """-1 when the IP and UDP headers are sound and for this host, else a BAD_ number."""
    w, b = world.w, world.b
    if w[host + k.H_IPV6]:
        if b[at + 14] >> 4 != 6 or b[at + 20] != _UDP_PROTOCOL:
            return k.BAD_ROCE
        udp = HEADER_6 - BTH_BYTES - UDP_BYTES
    else:
        if b[at + 14] != 0x45 or b[at + 23] != _UDP_PROTOCOL:
            return k.BAD_ROCE
        first, second = load64(address + 14), load64(address + 22)
        total = (first & LOW_32) + (first >> 32 & LOW_32) + (second & LOW_32)
        total += (second >> 32 & LOW_32) + (load64(address + 30) & LOW_32)
        # The sum of 16 bit halves in either byte order is all ones.
        if total % 0xFFFF:
            return k.BAD_CHECKSUM
        udp = HEADER_4 - BTH_BYTES - UDP_BYTES
    if get16(world, at + udp + 2) != roce.UDP_PORT:
        return k.BAD_ROCE
    size = get16(world, at + udp + 4)
    if size < _LEAST_UDP or udp + size > length:
        return k.BAD_LENGTH
    if w[host + k.H_IPV6]:
        mine = load64(address + 38) == w[host + k.H_IP]
        mine = mine and load64(address + 46) == w[host + k.H_IP + 1]
    else:
        mine = load64(address + 30) & LOW_32 == w[host + k.H_IP]
    return -1 if mine else k.BAD_IP


@compiled
def check_frame(world: World, host: int, row: int) -> int:
    """-1 when a row holds a sound RoCEv2 frame for a host, else a BAD_ number."""
    w, h = world.w, world.h
    address = w[row + abi.DATA]
    at = address - w[m.BASE]
    stored, length = h[row * 2 + abi.STORED], h[row * 2 + abi.LENGTH]
    if length < HEADER_4 + ICRC_BYTES or stored < HEADER_4:
        return k.BAD_SHORT
    if load64(address) & 0xFFFFFFFFFFFF != w[host + k.H_MAC]:
        return k.BAD_MAC
    kind = get16(world, at + 12)
    if kind != 0x0800 and kind != 0x86DD:
        return k.BAD_ETHERTYPE
    if (kind == 0x86DD) != (w[host + k.H_IPV6] != 0):
        return k.BAD_IP
    if kind == 0x86DD and (stored < HEADER_6 or length < HEADER_6 + ICRC_BYTES):
        return k.BAD_SHORT
    return _check_ip(world, host, address, at, length)


@compiled
def from_peer(world: World, end: int, row: int) -> bool:
    """Whether a checked frame comes from the other end of the queue pair."""
    w = world.w
    address = w[row + abi.DATA]
    template = w[end + k.E_TEMPLATE]
    if w[w[end + k.E_HOST] + k.H_IPV6]:
        for i in range(4):
            if load64(address + 22 + 8 * i) != w[template + k.T_PEER + i]:
                return False
        return load64(address + 54) & LOW_32 == w[template + k.T_PORTS]
    if load64(address + 26) != w[template + k.T_PEER]:
        return False
    return load64(address + 34) & LOW_32 == w[template + k.T_PORTS]


@inlined
def congestion_marked(world: World, host: int, at: int) -> bool:
    """Whether the frame at a byte offset has ECN's CE."""
    shift = 4 if world.w[host + k.H_IPV6] else 0
    return world.b[at + 15] >> shift & 3 == roce.CE
