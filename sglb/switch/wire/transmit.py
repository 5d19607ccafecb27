"""From packet rows to sockets: frames that have left their port's queue, a batch a system call."""

from __future__ import annotations

from typing import Final

from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.lists import take
from sglb.switch.core.rows import row_free
from sglb.switch.core.world import World
from sglb.switch.wire import layout as s
from sglb.switch.wire.native import last_error, system

_EINTR: Final = 4
_EAGAIN: Final = 11
_ENETDOWN: Final = 100
_DONT_WAIT: Final = 0x40
_NS_PER_S: Final = 1_000_000_000
_PS_PER_NS: Final = 1_000
_LOW32: Final = 0xFFFFFFFF


@compiled
def transmit(world: World) -> None:
    """Sends what has left the ports (the list at CPU_AT), in order for each port, pauses first."""
    w = world.w
    used = w[m.CPU_USED]
    pausing = w[w[m.NODES_AT] + m.N_CLASSES] >> 2 * m.CLASSES != 0
    if used == 0 and not pausing:
        return
    section = w[m.WIRE_AT]
    if pausing:
        _add_pauses(world)
    for number in range(used):
        record = w[m.CPU_AT] + number * m.CPU_WORDS
        local = w[record + m.U_PORT] - w[w[m.NODES_AT] + m.N_FIRST_PORT]
        wire = w[section + s.S_PORTS] + local * s.WIRE_WORDS
        row = w[record + m.U_ROW]
        if w[wire + s.W_FD] < 0:
            w[wire + s.W_SEND_FAILED] += 1
        _leave(world, wire, row, w[record + m.U_TIME])
    w[m.CPU_USED] = 0
    for local in range(w[section + s.S_COUNT]):
        wire = w[section + s.S_PORTS] + local * s.WIRE_WORDS
        if w[wire + s.W_TX_COUNT]:
            _flush(world, wire)


@compiled
def _add_pauses(world: World) -> None:
    """Puts the pause frames that ports are to send into their batches."""
    w = world.w
    section = w[m.WIRE_AT]
    for local in range(w[section + s.S_COUNT]):
        wire = w[section + s.S_PORTS] + local * s.WIRE_WORDS
        record = w[m.PORTS_AT] + w[wire + s.W_PORT] * m.PORT_WORDS
        while w[record + m.P_PAUSE_HEAD] >= 0:
            row = take(world, record + m.P_PAUSE_HEAD)
            _leave(world, wire, row, w[row + m.R_TIME])


@inlined
def _leave(world: World, wire: int, row: int, time: int) -> None:
    """A frame that left its port at `time` goes to the interface with the next batch, if it is there."""
    w = world.w
    if w[wire + s.W_FD] < 0:
        row_free(world, row)
        return
    if w[wire + s.W_CAPTURE_OUT] >= 0:
        capture(world, wire, w[wire + s.W_CAPTURE_OUT], row, time)
    _add(world, wire, row)
    if w[wire + s.W_TX_COUNT] == s.BATCH:
        _flush(world, wire)


@inlined
def _add(world: World, wire: int, row: int) -> None:
    w = world.w
    tx, count = w[wire + s.W_TX], w[wire + s.W_TX_COUNT]
    iov = tx + s.IOV_AT + count * s.IOV_WORDS
    w[iov + 2] = w[row + abi.DATA]
    w[iov + 3] = world.h[row * 2 + abi.STORED]
    w[tx + s.ROWS_AT + count] = row
    w[wire + s.W_TX_COUNT] = count + 1


@compiled
def _flush(world: World, wire: int) -> None:
    """Hands a port's batch to its socket. A frame that it does not take is lost, and counted."""
    w = world.w
    section, tx, count = w[m.WIRE_AT], w[wire + s.W_TX], w[wire + s.W_TX_COUNT]
    done = 0
    told = False  # that the interface was down before is told once in place of sending
    while done < count:
        sent = system(
            w[section + s.C_SENDMMSG],
            w[wire + s.W_FD],
            w[m.BASE] + (tx + done * s.MSG_WORDS) * 8,
            count - done,
            _DONT_WAIT,
            0,
        )
        if sent > 0:
            done += sent
            continue
        error = last_error(w[section + s.C_ERRNO])
        if error == _EINTR or (error == _ENETDOWN and not told):
            told = error == _ENETDOWN
            continue
        w[wire + s.W_ERRNO] = error
        failed = count - done if error == _EAGAIN else 1  # full: so it is for the rest of them
        w[wire + s.W_SEND_FAILED] += failed
        done += failed
    for i in range(count):
        row_free(world, w[tx + s.ROWS_AT + i])
    w[wire + s.W_TX_COUNT] = 0


@compiled
def capture(world: World, wire: int, file: int, row: int, time: int) -> None:
    """Appends a frame to a capture file (nanosecond pcap), by one system call."""
    w, h = world.w, world.h
    section = w[m.WIRE_AT]
    iov = section + s.S_IOV
    time_ns = w[section + s.S_EPOCH_NS] + time // _PS_PER_NS
    size = h[row * 2 + abi.STORED]
    head = iov + 4
    w[head] = time_ns // _NS_PER_S & _LOW32 | time_ns % _NS_PER_S << 32
    w[head + 1] = size | size << 32
    w[iov] = w[m.BASE] + head * 8
    w[iov + 1] = 16
    w[iov + 2] = w[row + abi.DATA]
    w[iov + 3] = size
    if system(w[section + s.C_WRITEV], file, w[m.BASE] + iov * 8, 2, 0, 0) != 16 + size:
        w[wire + s.W_CAPTURE_FAILED] += 1
