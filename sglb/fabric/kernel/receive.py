"""Receivers: what arrives in which order, and what is acknowledged.

With selective repeat this is `sglb.fabric.qp.ReceiveQueue`, plus an optional timer for what no frame
asked to acknowledge. With go-back-N a receiver has no room for packets out of order: it drops them
(they count as out of range) and answers the first of them with a NAK, if the host has that on; the
next NAK is not before the packet waited for has come (IBTA 9.7.5.2.8).

The notification point of DCQCN is here too: a CNP for a frame marked CE, at most one an interval.
"""

from __future__ import annotations

from typing import Final

from sglb.fabric import roce
from sglb.fabric.kernel import flows, templates
from sglb.fabric.kernel import layout as k
from sglb.fabric.kernel.bits import (
    LOW_32,
    ring_clear,
    ring_get,
    ring_get32,
    ring_set,
)
from sglb.fabric.kernel.nic import send_ack, send_cnp
from sglb.fabric.kernel.send import signed
from sglb.switch.core import model as m
from sglb.switch.core.call import lowest
from sglb.switch.core.heap import push
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.rows import data_at
from sglb.switch.core.world import World

_PSN_MASK: Final = roce.PSN_MOD - 1


@inlined
def _ends_ring(world: World, end: int) -> int:
    return world.w[end + k.E_RING_H] + ((world.w[end + k.E_MASK] + 1) >> 5)


@compiled
def notify(world: World, host: int, end: int, now: int) -> None:
    """A marked frame has arrived."""
    w = world.w
    last = w[end + k.R_LAST_CNP]
    if last >= 0 and now - last < w[host + k.HD_CNP_INTERVAL]:
        return
    w[end + k.R_LAST_CNP] = now
    w[end + k.RS_CNPS] += 1
    send_cnp(world, host, templates.cnp_frame(world, end), now)


@compiled
def take_data(
    world: World, host: int, end: int, opcode: int, psn: int, asks: bool, now: int
) -> None:
    """Takes a data frame; may acknowledge and complete flows."""
    w = world.w
    ahead = signed(psn - w[end + k.E_FIRST_PSN] - w[end + k.R_EXPECTED])
    packet = w[end + k.R_EXPECTED] + ahead
    if w[host + k.H_GO_BACK_N]:
        if ahead > 0:
            _refuse(world, host, end, packet, now)
            return
        known = ahead < 0
    else:
        if ahead > w[end + k.E_MASK]:
            w[end + k.RS_OUT_OF_RANGE] += 1
            return
        known = ahead < 0
        if ahead > 0:
            known = ring_get(world, w[end + k.E_RING_H], w[end + k.E_MASK], packet) != 0
    if known:
        w[end + k.RS_DUPLICATES] += 1
        acknowledge(world, host, end, now)
        return
    w[end + k.RS_RECEIVED] += 1
    _note_order(world, end, packet)
    last = opcode == roce.SEND_LAST or opcode == roce.SEND_ONLY
    closed = False
    if ahead:
        ring_set(world, w[end + k.E_RING_H], w[end + k.E_MASK], packet)
        if last:
            ring_set(world, _ends_ring(world, end), w[end + k.E_MASK], packet)
    else:
        closed = _advance(world, end, last, now)
    if asks or closed:
        acknowledge(world, host, end, now)
    else:
        _acknowledge_later(world, host, end, now)


@compiled
def _refuse(world: World, host: int, end: int, packet: int, now: int) -> None:
    """Go-back-N: a packet after a hole."""
    w = world.w
    w[end + k.RS_OUT_OF_RANGE] += 1
    w[end + k.R_HIGHEST] = max(w[end + k.R_HIGHEST], packet)
    if not w[host + k.H_NACK] or w[end + k.R_NAK_SENT]:
        return
    w[end + k.R_NAK_SENT] = 1
    w[end + k.RS_NAKS] += 1
    w[end + k.R_ACK_AT] = -1
    psn = (w[end + k.E_FIRST_PSN] + w[end + k.R_EXPECTED]) & _PSN_MASK
    msn = w[end + k.R_MESSAGES] & _PSN_MASK
    row = templates.ack_frame(world, end, psn, templates.NAK_SYNDROME, msn, 0)
    send_ack(world, host, row, now)


@compiled
def _note_order(world: World, end: int, packet: int) -> None:
    w = world.w
    highest = w[end + k.R_HIGHEST]
    if packet > highest:
        w[end + k.R_HIGHEST] = packet
    else:
        w[end + k.RS_REORDERED] += 1
        w[end + k.RS_EXTENT] = max(w[end + k.RS_EXTENT], highest - packet)


@compiled
def _advance(world: World, end: int, last: bool, now: int) -> bool:
    """The packet waited for has come. Delivers messages; says whether a hole was closed."""
    w = world.w
    first = w[end + k.R_EXPECTED]
    w[end + k.R_NAK_SENT] = 0
    run = 0
    messages = 1 if last else 0
    if w[end + k.R_HIGHEST] > first and not w[w[end + k.E_HOST] + k.H_GO_BACK_N]:
        run = _run(world, end, first + 1)
        messages += _forget(world, end, first + 1, run)
    w[end + k.R_EXPECTED] = first + run + 1
    for _ in range(messages):
        flows.delivered(world, end, now)
    return run > 0


@compiled
def _run(world: World, end: int, packet: int) -> int:
    """How many packets from one on have arrived without a gap."""
    w = world.w
    ring, mask = w[end + k.E_RING_H], w[end + k.E_MASK]
    run = 0
    while run <= mask:
        gaps = ~ring_get32(world, ring, mask, packet + run) & LOW_32
        if gaps:
            return run + lowest(gaps)
        run += 32
    return run


@compiled
def _forget(world: World, end: int, packet: int, count: int) -> int:
    """Clears packets in both bitmaps; returns how many of them end a message."""
    w = world.w
    ring, ends, mask = w[end + k.E_RING_H], _ends_ring(world, end), w[end + k.E_MASK]
    messages = 0
    for i in range(packet, packet + count):
        ring_clear(world, ring, mask, i)
        if ring_get(world, ends, mask, i):
            ring_clear(world, ends, mask, i)
            messages += 1
    return messages


@compiled
def acknowledge(world: World, host: int, end: int, now: int) -> None:
    """Sends an acknowledge of all that has arrived."""
    w, b = world.w, world.b
    w[end + k.R_ACK_AT] = -1
    expected = w[end + k.R_EXPECTED]
    words = 0
    if not w[host + k.H_GO_BACK_N] and w[end + k.R_HIGHEST] > expected:
        words = (w[end + k.R_HIGHEST] - expected + 31) >> 5
    psn = (w[end + k.E_FIRST_PSN] + expected - 1) & _PSN_MASK
    msn = w[end + k.R_MESSAGES] & _PSN_MASK
    row = templates.ack_frame(world, end, psn, roce.ACK_SYNDROME, msn, words)
    if row < 0:
        return
    at = data_at(world, row) + templates.bth_offset(world, host)
    at += templates.BTH_BYTES + templates.AETH_BYTES
    left = w[end + k.R_HIGHEST] - expected
    for i in range(words):
        bits = ring_get32(world, w[end + k.E_RING_H], w[end + k.E_MASK], expected + 1 + 32 * i)
        if left < 32:
            bits &= (1 << left) - 1
        left -= 32
        for j in range(4):
            b[at + 4 * i + j] = bits >> (8 * j) & 0xFF
    send_ack(world, host, row, now)


@compiled
def _acknowledge_later(world: World, host: int, end: int, now: int) -> None:
    """Has a packet that nobody asked about acknowledged by the timer, if there is one."""
    w = world.w
    if not w[host + k.H_ACK_TIMER] or w[end + k.R_ACK_AT] >= 0:
        return
    w[end + k.R_ACK_AT] = now + w[host + k.H_ACK_TIMER]
    if w[end + k.R_ACK_LIVE] < 0:
        _arm(world, host, end)


@inlined
def _arm(world: World, host: int, end: int) -> None:
    w = world.w
    w[end + k.R_ACK_LIVE] = w[end + k.R_ACK_AT]
    push(world, w[host + k.H_NODE], w[end + k.R_ACK_AT], m.EV_ACK, w[end + k.E_INDEX], 0)


@compiled
def ack_event(world: World, host: int, end: int, now: int) -> None:
    """EV_ACK."""
    w = world.w
    w[end + k.R_ACK_LIVE] = -1
    if w[end + k.R_ACK_AT] < 0:
        return
    if now < w[end + k.R_ACK_AT]:
        _arm(world, host, end)
    else:
        acknowledge(world, host, end, now)
