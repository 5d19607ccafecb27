"""Takes frames apart that a host's kernel left to segmentation offload (TSO, UDP GSO), as a card would.

Such a frame is up to 64 KiB of payload behind one set of headers, with a virtio_net_hdr that says how
much goes into a segment and where its checksum begins. Each segment gets the headers, with lengths,
IPv4 identification, TCP sequence number and flags, and checksums of its own.
"""

from __future__ import annotations

from typing import Final

from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.call import move_bytes
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.rows import data_at, row_free, row_new, row_room
from sglb.switch.core.world import World
from sglb.switch.wire import layout as s
from sglb.switch.wire.checksum import internet_checksum, swapped
from sglb.switch.wire.native import load16, store16

_ECN: Final = 0x80  #: VIRTIO_NET_HDR_GSO_ECN
_TCP4: Final = 1
_TCP6: Final = 4
_UDP: Final = 5  #: VIRTIO_NET_HDR_GSO_UDP_L4
_TAGGED: Final = 0x8100
_IPV4: Final = 0x0800
_FIN_PSH: Final = 0x09
_CWR: Final = 0x80
_PROTOCOL_TCP: Final = 6
_PROTOCOL_UDP: Final = 17


@compiled
def segments(world: World, vnet: int, length: int, row: int) -> int:
    """How many frames a joined one holds, 0 when it is of a kind that is not known, or no right one."""
    w = world.w
    kind = w[vnet] >> 8 & 0xFF & ~_ECN
    size, start = w[vnet] >> 32 & 0xFFFF, w[vnet] >> 48 & 0xFFFF
    if kind not in (_TCP4, _TCP6, _UDP) or not size or not w[vnet] & 1:
        return 0
    if start + 20 > w[m.ROW_ROOM] - s.FRONT_BYTES or start < 34:
        return 0
    headers = _headers(world, vnet, row)
    if headers > w[m.ROW_ROOM] - s.FRONT_BYTES or headers >= length:
        return 0
    return (length - headers + size - 1) // size


@inlined
def _headers(world: World, vnet: int, row: int) -> int:
    """Bytes of all headers."""
    start = world.w[vnet] >> 48 & 0xFFFF
    if world.w[vnet] >> 8 & 0xFF & ~_ECN == _UDP:
        return start + 8
    return start + (world.b[data_at(world, row) + start + 12] >> 4) * 4


@compiled
def segment(world: World, vnet: int, length: int, row: int, rest: int, number: int) -> int:
    """A row with segment `number` of a joined frame, whose bytes beyond its row lie at address `rest`.

    -1 when there is no room.
    """
    w, h = world.w, world.h
    size, headers = w[vnet] >> 32 & 0xFFFF, _headers(world, vnet, row)
    first = headers + number * size
    count = min(size, length - first)
    made = row_new(world)
    if made < 0:
        return -1
    if not row_room(world, made, s.FRONT_BYTES + headers + count):
        row_free(world, made)
        return -1
    w[made + abi.DATA] += s.FRONT_BYTES
    at = w[made + abi.DATA]
    move_bytes(at, w[row + abi.DATA], headers)
    inside = max(0, min(count, w[m.ROW_ROOM] - s.FRONT_BYTES - first))
    move_bytes(at + headers, w[row + abi.DATA] + first, inside)
    beyond = rest + first + inside - (w[m.ROW_ROOM] - s.FRONT_BYTES)
    move_bytes(at + headers + inside, beyond, count - inside)
    h[made * 2 + abi.LENGTH] = headers + count
    h[made * 2 + abi.STORED] = headers + count
    last = first + count == length
    _network(world, made, w[vnet] >> 48 & 0xFFFF, number)
    _transport(world, made, vnet, number, last)
    return made


@inlined
def _ip(world: World, row: int) -> int:
    """Where a frame's IP header begins, from its first byte."""
    return 18 if load16(world.w[row + abi.DATA] + 12) == swapped(_TAGGED) else 14


@inlined
def _is_ipv4(world: World, row: int) -> bool:
    return load16(world.w[row + abi.DATA] + _ip(world, row) - 2) == swapped(_IPV4)


@compiled
def _network(world: World, row: int, start: int, number: int) -> None:
    """Length, identification and checksum of the IP header."""
    length = world.h[row * 2 + abi.LENGTH]
    ip = world.w[row + abi.DATA] + _ip(world, row)
    if _is_ipv4(world, row):
        store16(ip + 2, swapped(length - _ip(world, row)))
        store16(ip + 4, swapped(swapped(load16(ip + 4)) + number & 0xFFFF))
        store16(ip + 10, 0)
        store16(ip + 10, internet_checksum(ip, start - _ip(world, row)))
    else:
        store16(ip + 4, swapped(length - _ip(world, row) - 40))


@compiled
def _transport(world: World, row: int, vnet: int, number: int, last: bool) -> None:
    """Sequence number and flags, or length, and the checksum."""
    w, b = world.w, world.b
    start = w[vnet] >> 48 & 0xFFFF
    place = start + (w[vnet + 1] & 0xFFFF)
    length = world.h[row * 2 + abi.LENGTH] - start
    header = data_at(world, row) + start
    udp = w[vnet] >> 8 & 0xFF & ~_ECN == _UDP
    if udp:
        b[header + 4] = length >> 8
        b[header + 5] = length
    else:
        sequence = b[header + 4] << 24 | b[header + 5] << 16 | b[header + 6] << 8 | b[header + 7]
        sequence += number * (w[vnet] >> 32 & 0xFFFF)
        for i in range(4):
            b[header + 4 + i] = sequence >> (24 - 8 * i)
        if not last:
            b[header + 13] = b[header + 13] & ~_FIN_PSH
        if number:
            b[header + 13] = b[header + 13] & ~_CWR
    ip = w[row + abi.DATA] + _ip(world, row)
    addresses = internet_checksum(ip + 8, 32)
    if _is_ipv4(world, row):
        addresses = internet_checksum(ip + 12, 8)
    total = addresses ^ 0xFFFF
    total += swapped(_PROTOCOL_UDP if udp else _PROTOCOL_TCP) + swapped(length)
    total = (total & 0xFFFF) + (total >> 16)
    store16(w[row + abi.DATA] + place, (total & 0xFFFF) + (total >> 16))
    whole = internet_checksum(w[row + abi.DATA] + start, length)
    store16(w[row + abi.DATA] + place, whole)
