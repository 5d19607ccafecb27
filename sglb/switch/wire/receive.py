"""From a packet socket to packet rows: a batch a system call, each frame straight into its row.

The sockets are set up (see `sockets`) so that the kernel says with each frame what it left to be done:
a virtio_net_hdr tells of a checksum that the sender's kernel left to hardware that is not there, a
control message of a VLAN tag that was taken out. Both are put right here, so that a program sees what a
wire would carry.
"""

from __future__ import annotations

from typing import Final

from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.call import move_bytes
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.pfc import is_pause, pause_received
from sglb.switch.core.rows import row_free, row_new, row_room
from sglb.switch.core.switch import switch_receive
from sglb.switch.core.world import World
from sglb.switch.wire import layout as s
from sglb.switch.wire.checksum import internet_checksum, swapped
from sglb.switch.wire.native import last_error, load16, load32, store16, system
from sglb.switch.wire.segment import segment, segments
from sglb.switch.wire.transmit import capture

EINTR: Final = 4
EAGAIN: Final = 11
_DONT_WAIT: Final = 0x40
_TRUNCATED: Final = 0x20
_LOW32: Final = 0xFFFFFFFF
_MAC_BYTES: Final = 12
_TAG_BYTES: Final = 4
_NEEDS_CHECKSUM: Final = 1
_PACKET_AUXDATA: Final = 8
_TAGGED: Final = 0x10  #: TP_STATUS_VLAN_VALID
_TPID_GIVEN: Final = 0x40  #: TP_STATUS_VLAN_TPID_VALID
_DOT1Q: Final = 0x8100


@compiled
def receive(world: World, local: int, now: int) -> int:
    """Takes up to a batch of frames from a port's socket into the switch; how many there were."""
    w = world.w
    section = w[m.WIRE_AT]
    wire = w[section + s.S_PORTS] + local * s.WIRE_WORDS
    rx = w[section + s.S_RX]
    ready = _prepare(world, rx)
    if ready == 0:
        return 0
    count = system(
        w[section + s.C_RECVMMSG], w[wire + s.W_FD], w[m.BASE] + rx * 8, ready, _DONT_WAIT, 0
    )
    if count < 0:
        error = last_error(w[section + s.C_ERRNO])
        if error != EAGAIN and error != EINTR:
            w[wire + s.W_ERRNO] = error
        return 0
    for i in range(count):
        row = w[rx + s.ROWS_AT + i]
        if w[rx + s.VNET_AT + i * s.VNET_WORDS] >> 8 & 0xFF:
            _joined(world, wire, rx, i, row, now)
        elif _frame(world, wire, rx, i, row):
            w[rx + s.ROWS_AT + i] = -1
            _enter(world, wire, rx, i, row, now)
    return count


@inlined
def _enter(world: World, wire: int, rx: int, i: int, row: int, now: int) -> None:
    """A frame is whole: it is the switch's."""
    w = world.w
    message = rx + i * s.MSG_WORDS
    _tag(world, wire, rx + s.CONTROL_AT + i * s.CONTROL_WORDS, row, message)
    if w[wire + s.W_CAPTURE_IN] >= 0:
        capture(world, wire, w[wire + s.W_CAPTURE_IN], row, now)
    if w[w[m.NODES_AT] + m.N_CLASSES] >> 2 * m.CLASSES and is_pause(world, row):
        pause_received(world, w[wire + s.W_PORT], row, now)  # it is the port's, not the program's
        row_free(world, row)
        return
    switch_receive(world, 0, w[wire + s.W_PORT], row, now)


@compiled
def _joined(world: World, wire: int, rx: int, i: int, row: int, now: int) -> None:
    """Takes a frame apart that several were joined to; its row stays in the batch."""
    w = world.w
    message, vnet = rx + i * s.MSG_WORDS, rx + s.VNET_AT + i * s.VNET_WORDS
    length = (w[message + s.MSG_LENGTH] & _LOW32) - s.VNET_BYTES
    rest = w[m.BASE] + (rx + s.OVERFLOW_AT + i * s.OVERFLOW_WORDS) * 8
    count = 0
    if not w[message + s.MSG_FLAGS] & _TRUNCATED:
        count = segments(world, vnet, length, row)
    if count == 0:
        w[wire + s.W_UNKNOWN] += 1
    w[wire + s.W_SEGMENTED] += count
    for number in range(count):
        made = segment(world, vnet, length, row, rest, number)
        if made < 0:
            break
        _enter(world, wire, rx, i, made, now)


@compiled
def _prepare(world: World, rx: int) -> int:
    """Readies the batch: a row for each frame to come. For how many there are rows."""
    w = world.w
    for i in range(s.BATCH):
        if w[rx + s.ROWS_AT + i] < 0:
            row = row_new(world)
            if row < 0:
                return i
            w[rx + s.ROWS_AT + i] = row
            w[row + abi.DATA] += s.FRONT_BYTES
            w[rx + s.IOV_AT + i * s.IOV_WORDS + 2] = w[row + abi.DATA]
        message = rx + i * s.MSG_WORDS
        w[message + s.MSG_CONTROL_BYTES] = s.CONTROL_WORDS * 8
        w[message + s.MSG_FLAGS] = 0
    return s.BATCH


@compiled
def _frame(world: World, wire: int, rx: int, i: int, row: int) -> bool:
    """Makes the row the frame that was received into it; False when it has to be dropped."""
    w, h = world.w, world.h
    message = rx + i * s.MSG_WORDS
    length = (w[message + s.MSG_LENGTH] & _LOW32) - s.VNET_BYTES
    vnet = rx + s.VNET_AT + i * s.VNET_WORDS
    if w[message + s.MSG_FLAGS] & _TRUNCATED or not 0 < length <= s.FRAME_BYTES:
        w[wire + s.W_LONG] += 1
        return False
    if not _whole(world, rx, i, row, length):
        return False
    h[row * 2 + abi.LENGTH] = length
    h[row * 2 + abi.STORED] = length
    if w[vnet] & _NEEDS_CHECKSUM:
        w[wire + s.W_CHECKSUMS] += 1
        start = w[vnet] >> 48 & 0xFFFF
        _checksum(world, row, start, start + (w[vnet + 1] & 0xFFFF))
    return True


@inlined
def _whole(world: World, rx: int, i: int, row: int, length: int) -> bool:
    """Gives a frame that is longer than its row a blob, where the rest of it joins the beginning."""
    w = world.w
    room = w[m.ROW_ROOM] - s.FRONT_BYTES
    if length <= room:
        return True
    start = w[row + abi.DATA]
    if not row_room(world, row, length + s.FRONT_BYTES):
        return False
    to = w[row + abi.DATA] + s.FRONT_BYTES
    move_bytes(to, start, room)
    rest = w[m.BASE] + (rx + s.OVERFLOW_AT + i * s.OVERFLOW_WORDS) * 8
    move_bytes(to + room, rest, length - room)
    w[row + abi.DATA] = to
    return True


@compiled
def _checksum(world: World, row: int, start: int, place: int) -> None:
    """Writes the Internet checksum of a frame's bytes from `start` on to byte `place` (RFC 1071).

    What stands there already is the sum over the pseudo-header, as the sender left it.
    """
    w = world.w
    length = world.h[row * 2 + abi.LENGTH]
    if start > length or place + 2 > length:
        return  # the sender's kernel would not say so
    store16(w[row + abi.DATA] + place, internet_checksum(w[row + abi.DATA] + start, length - start))


@compiled
def _tag(world: World, wire: int, control: int, row: int, message: int) -> None:
    """Puts a VLAN tag back that the kernel has taken out of a frame."""
    w, h = world.w, world.h
    if w[message + s.MSG_CONTROL_BYTES] < 36 or w[control + 1] >> 32 != _PACKET_AUXDATA:
        return
    data = w[m.BASE] + (control + 2) * 8
    status = load32(data)
    length = h[row * 2 + abi.LENGTH]
    if not status & _TAGGED or length < _MAC_BYTES:
        return
    w[wire + s.W_TAGS] += 1
    kind = load16(data + 18) if status & _TPID_GIVEN else _DOT1Q
    tci = load16(data + 16)
    at = w[row + abi.DATA] - _TAG_BYTES
    move_bytes(at, at + _TAG_BYTES, _MAC_BYTES)
    store16(at + _MAC_BYTES, swapped(kind))
    store16(at + _MAC_BYTES + 2, swapped(tci))
    w[row + abi.DATA] = at
    h[row * 2 + abi.LENGTH] = length + _TAG_BYTES
    h[row * 2 + abi.STORED] = length + _TAG_BYTES


@compiled
def forget_rows(world: World) -> None:
    """Gives the rows of the batch back."""
    w = world.w
    rx = w[w[m.WIRE_AT] + s.S_RX]
    for i in range(s.BATCH):
        if w[rx + s.ROWS_AT + i] >= 0:
            row_free(world, w[rx + s.ROWS_AT + i])
            w[rx + s.ROWS_AT + i] = -1
