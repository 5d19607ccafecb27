"""Senders: what a queue pair sends next, and what acknowledges, losses and timeouts do to it.

Selective repeat is `sglb.fabric.qp.SendQueue` to the picosecond. A packet under way holds one of
`window` slots, which form a list in order of sending; packets found lost form a list in order of the
finding. Both lists go through the ring, so that an acknowledge finds a packet's place in them without
looking for it.

Go-back-N (IBTA 9.7.5, as RNICs without a reorder buffer): packets under way are those from `base` to
`next`, whatever their number; a NAK or a timeout sets `next` back to `base`. The timeout is that of
RFC 6298 too; it runs from the last progress, and a packet at a time is timed for the round trip
(Karn: none that is sent again). Only the first packet sent again and every `ack_every`-th asks for
an acknowledge, where selective repeat asks with each.

After a timeout either one probes with one packet at a time until something is acknowledged.
"""

from __future__ import annotations

from typing import Final

from sglb.fabric import roce
from sglb.fabric.kernel import layout as k
from sglb.fabric.kernel import slots
from sglb.fabric.kernel.bits import (
    LOW_32,
    ring_clear,
    ring_get,
    ring_get32,
    ring_set,
)
from sglb.fabric.kernel.templates import data_frame
from sglb.switch.core import model as m
from sglb.switch.core.call import bit_length, lowest
from sglb.switch.core.heap import push
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.world import World

#: Go-back-N without a window: half of what 24 bit PSNs can tell apart.
GO_BACK_N_SPAN: Final = roce.PSN_MOD // 4
_LARGEST_SHIFT: Final = 32


@inlined
def signed(difference: int) -> int:
    """A difference of PSNs as the number nearest to 0."""
    return ((difference + roce.PSN_MOD // 2) & (roce.PSN_MOD - 1)) - roce.PSN_MOD // 2


@inlined
def _may_advance(world: World, host: int, end: int) -> bool:
    w = world.w
    span = GO_BACK_N_SPAN if w[host + k.H_GO_BACK_N] else roce.SPAN_PACKETS
    following = w[end + k.S_NEXT]
    return following < w[end + k.S_END] and following - w[end + k.S_BASE] < span


@inlined
def _under_way(world: World, host: int, end: int) -> int:
    w = world.w
    if w[host + k.H_GO_BACK_N]:
        return w[end + k.S_NEXT] - w[end + k.S_BASE]
    return w[end + k.S_UNDER_WAY]


@compiled
def ready(world: World, host: int, end: int) -> bool:
    """Whether windows let a sender send a packet now."""
    w = world.w
    room = 1 if w[end + k.S_BACKOFF] else w[host + k.H_WINDOW]
    if _under_way(world, host, end) >= room:
        return False
    return w[end + k.S_LOST] != k.NO_LOST or _may_advance(world, host, end)


@compiled
def next_frame(world: World, host: int, end: int, now: int) -> int:
    """A row with the next packet, taken as sent now; only when `ready`. -1 when no row is free."""
    w = world.w
    packet = w[end + k.S_NEXT]
    go_back_n = w[host + k.H_GO_BACK_N]
    if go_back_n:
        again = packet < w[end + k.S_HIGH]
        asks = again and packet == w[end + k.S_BASE]
    else:
        if w[end + k.S_LOST] != k.NO_LOST:
            packet = w[end + k.S_BASE] + (
                (w[end + k.S_LOST] - w[end + k.S_BASE]) & w[end + k.E_MASK]
            )
        again = packet < w[end + k.S_NEXT]
        asks = again
    row = _frame(world, host, end, packet, again, asks)
    if row < 0:
        return -1
    if go_back_n:
        _sent_in_order(world, end, packet, again, now)
    else:
        _sent_selectively(world, end, packet, again, now)
    w[end + k.SS_SENT] += 1
    if again:
        w[end + k.SS_RESENT] += 1
    if w[end + k.S_TIMER] < 0:
        arm(world, host, end, now)
    return row


@compiled
def _sent_selectively(world: World, end: int, packet: int, again: bool, now: int) -> None:
    w = world.w
    if again:
        slots.lost_remove(world, end, packet)
        ring = slots.again_ring(world, end)
        if not ring_get(world, ring, w[end + k.E_MASK], packet):
            ring_set(world, ring, w[end + k.E_MASK], packet)
            w[end + k.S_AGAIN] += 1
    else:
        w[end + k.S_NEXT] = packet + 1
    slots.start(world, end, packet, now)


@compiled
def _sent_in_order(world: World, end: int, packet: int, again: bool, now: int) -> None:
    w = world.w
    if packet == w[end + k.S_BASE]:
        w[end + k.S_PROGRESS] = now
    w[end + k.S_NEXT] = packet + 1
    if not again:
        w[end + k.S_HIGH] = packet + 1
        if w[end + k.S_TIMED] < 0:
            w[end + k.S_TIMED] = packet
            w[end + k.S_TIMED_AT] = now


@compiled
def _part_of(world: World, end: int, packet: int, again: bool) -> int:
    """The part that a packet belongs to; new packets move the sender's own mark on."""
    w = world.w
    part = w[end + k.S_ACK_PART] if again else w[end + k.S_SEND_PART]
    while packet >= w[part + k.PT_START] + w[part + k.PT_PACKETS]:
        part = w[part + k.PT_NEXT]
    if not again:
        w[end + k.S_SEND_PART] = part
    return part


@compiled
def _frame(world: World, host: int, end: int, packet: int, again: bool, asks: bool) -> int:
    w = world.w
    part = _part_of(world, end, packet, again)
    at = packet - w[part + k.PT_START]
    mtu = w[host + k.H_MTU]
    left = w[part + k.PT_BYTES] - at * mtu
    last = left <= mtu
    if last:
        opcode = roce.SEND_LAST if at else roce.SEND_ONLY
    else:
        opcode = roce.SEND_MIDDLE if at else roce.SEND_FIRST
    selective_again = again and not w[host + k.H_GO_BACK_N]
    under_way = _under_way(world, host, end) + 1
    following = w[end + k.S_NEXT] + (0 if selective_again else 1)
    span = GO_BACK_N_SPAN if w[host + k.H_GO_BACK_N] else roce.SPAN_PACKETS
    goes_on = following < w[end + k.S_END] and following - w[end + k.S_BASE] < span
    fills = under_way >= w[host + k.H_WINDOW] or not goes_on
    ask = asks or last or fills or (packet + 1) % w[host + k.H_ACK_EVERY] == 0
    return data_frame(world, end, opcode, packet, min(left, mtu), ask)


# --- acknowledges ---


@compiled
def acknowledged(
    world: World, host: int, end: int, psn: int, bitmap: int, words: int, now: int
) -> bool:
    """Takes an acknowledge of everything up to `psn`, and `words` of bitmap at a byte offset.

    Says whether it told anything new.
    """
    w = world.w
    w[end + k.SS_ACKS] += 1
    base = w[end + k.S_BASE]
    base += signed(psn + 1 - w[end + k.E_FIRST_PSN] - base)
    if w[host + k.H_GO_BACK_N]:
        return _acknowledged_in_order(world, end, base, now)
    highest = base + _bitmap_length(world, bitmap, words)
    if base > w[end + k.S_NEXT] or (highest > base and highest >= w[end + k.S_NEXT]):
        w[end + k.SS_BAD_ACKS] += 1  # speaks of packets that were never sent
        return False
    fresh = _take_below(world, end, base, now)
    fresh |= _take_bitmap(world, end, base, bitmap, words, now)
    newest = w[end + k.S_TIMED_AT]
    if newest >= 0:
        _sample(world, end, now - newest)
        _note_newest(world, end, newest, now)
    if not fresh:
        return False
    w[end + k.S_BACKOFF] = 0
    find_lost(world, host, end, now)
    arm(world, host, end, now)
    return True


@compiled
def _acknowledged_in_order(world: World, end: int, base: int, now: int) -> bool:
    w = world.w
    if base > w[end + k.S_HIGH]:
        w[end + k.SS_BAD_ACKS] += 1
        return False
    if base <= w[end + k.S_BASE]:
        return False
    w[end + k.S_BASE] = base
    w[end + k.S_NEXT] = max(w[end + k.S_NEXT], base)
    w[end + k.S_BACKOFF] = 0
    w[end + k.S_PROGRESS] = now
    if 0 <= w[end + k.S_TIMED] < base:
        _sample(world, end, now - w[end + k.S_TIMED_AT])
        w[end + k.S_TIMED] = -1
    return True


@compiled
def refused(world: World, host: int, end: int, psn: int, now: int) -> bool:
    """Takes a NAK: `psn` is what the receiver waits for. Says whether it told anything new."""
    w = world.w
    w[end + k.SS_NAKS] += 1
    fresh = acknowledged(world, host, end, psn - 1, 0, 0, now)
    base = w[end + k.S_BASE]
    waits_for = base + signed(psn - w[end + k.E_FIRST_PSN] - base)
    if not w[host + k.H_GO_BACK_N] or waits_for != base or w[end + k.S_NEXT] == base:
        return fresh
    _go_back(world, end, now)
    return True


@inlined
def _go_back(world: World, end: int, now: int) -> None:
    w = world.w
    w[end + k.S_NEXT] = w[end + k.S_BASE]
    w[end + k.S_PROGRESS] = now
    w[end + k.S_TIMED] = -1


@compiled
def _bitmap_length(world: World, bitmap: int, words: int) -> int:
    """Bits of a bitmap up to the highest that is set."""
    while words > 0:
        value = little32(world, bitmap + 4 * (words - 1))
        if value:
            return 32 * (words - 1) + bit_length(value)
        words -= 1
    return 0


@inlined
def little32(world: World, at: int) -> int:
    """Four bytes, low one first."""
    b = world.b
    return b[at] | b[at + 1] << 8 | b[at + 2] << 16 | b[at + 3] << 24


@compiled
def _take_below(world: World, end: int, base: int, now: int) -> bool:
    """Everything below `base` has arrived. Sets S_TIMED_AT as `_arrived` says."""
    w = world.w
    w[end + k.S_TIMED_AT] = -1
    first = w[end + k.S_BASE]
    if base <= first:
        return False
    w[end + k.S_BASE] = base
    for packet in range(first, base):
        if w[end + k.S_SACKED]:
            _forget_sack(world, end, packet)
        _arrived(world, end, packet, now)
    if w[end + k.S_SACKED]:
        _forget_sack(world, end, base)
    return True


@compiled
def _forget_sack(world: World, end: int, packet: int) -> None:
    w = world.w
    ring = slots.sacked_ring(world, end)
    if ring_get(world, ring, w[end + k.E_MASK], packet):
        ring_clear(world, ring, w[end + k.E_MASK], packet)
        w[end + k.S_SACKED] -= 1


@compiled
def _take_bitmap(world: World, end: int, base: int, bitmap: int, words: int, now: int) -> bool:
    """Takes what the bitmap of an acknowledge says of packets beyond `base`."""
    w = world.w
    mask = w[end + k.E_MASK]
    ring = slots.sacked_ring(world, end)
    fresh = False
    for i in range(words):
        bits = little32(world, bitmap + 4 * i)
        first = base + 1 + 32 * i
        known = w[end + k.S_BASE] - first  # packets of these that need no telling
        if known >= 31:
            continue
        if known >= 0:
            bits &= LOW_32 << (known + 1)
        bits &= LOW_32
        if bits and w[end + k.S_SACKED]:
            bits &= ~ring_get32(world, ring, mask, first)
        while bits:
            packet = first + lowest(bits)
            bits &= bits - 1
            ring_set(world, ring, mask, packet)
            w[end + k.S_SACKED] += 1
            _arrived(world, end, packet, now)
            fresh = True
    return fresh


@compiled
def _arrived(world: World, end: int, packet: int, now: int) -> None:
    """A packet has newly arrived. S_TIMED_AT: when the newest that was sent once was sent."""
    w = world.w
    sent = slots.finish(world, end, packet)
    if w[end + k.S_AGAIN]:
        ring = slots.again_ring(world, end)
        if ring_get(world, ring, w[end + k.E_MASK], packet):
            ring_clear(world, ring, w[end + k.E_MASK], packet)
            w[end + k.S_AGAIN] -= 1
            # Too soon to answer the retransmission: the first copy arrived after all.
            if sent >= 0 and now - sent >= w[end + k.S_RTT_MIN]:
                _note_newest(world, end, sent, now)
            return
    if sent > w[end + k.S_TIMED_AT]:
        w[end + k.S_TIMED_AT] = sent


@compiled
def _sample(world: World, end: int, rtt: int) -> None:
    """Estimates the round trip by RFC 6298."""
    w = world.w
    mean = w[end + k.S_RTT]
    if mean == 0:
        w[end + k.S_RTT] = rtt
        w[end + k.S_RTT_VAR] = rtt >> 1
        w[end + k.S_RTT_MIN] = rtt
        return
    w[end + k.S_RTT_VAR] += (abs(mean - rtt) - w[end + k.S_RTT_VAR]) >> 2
    w[end + k.S_RTT] = mean + ((rtt - mean) >> 3)
    w[end + k.S_RTT_MIN] = min(w[end + k.S_RTT_MIN], rtt)


@inlined
def _note_newest(world: World, end: int, sent: int, now: int) -> None:
    w = world.w
    if sent >= w[end + k.S_NEWEST_ACKED]:
        w[end + k.S_NEWEST_ACKED] = sent
        w[end + k.S_NEWEST_RTT] = now - sent


# --- losses and the timer ---


@compiled
def timeout_ps(world: World, host: int, end: int) -> int:
    """The retransmission timeout with its backoff."""
    w = world.w
    limit = w[host + k.H_RTO_MAX]
    shift = min(w[end + k.S_BACKOFF], _LARGEST_SHIFT)
    time = max(w[host + k.H_RTO], w[end + k.S_RTT] + 4 * w[end + k.S_RTT_VAR])
    return limit if time > limit >> shift else min(limit, time << shift)


@inlined
def _overdue_at(world: World, host: int, end: int, sent: int) -> int:
    """When a packet counts as lost by reordering; -1 while none sent later arrived."""
    w = world.w
    if sent >= w[end + k.S_NEWEST_ACKED]:
        return -1
    return sent + w[end + k.S_NEWEST_RTT] + w[host + k.H_REORDER]


@compiled
def find_lost(world: World, host: int, end: int, now: int) -> None:
    """Selective repeat: declares lost what is overdue."""
    w = world.w
    while w[end + k.S_UNDER_WAY]:
        overdue = _overdue_at(world, host, end, slots.oldest_sent(world, end))
        if overdue < 0 or overdue > now:
            return
        slots.lose_oldest(world, end)
        w[end + k.SS_LOSSES] += 1


@compiled
def arm(world: World, host: int, end: int, now: int) -> None:
    """Has the timer run no later than the oldest packet under way needs it.

    One that runs early looks again; moving it at each acknowledge would cost more.
    """
    w = world.w
    if _under_way(world, host, end) == 0:
        return
    time = timeout_ps(world, host, end)
    if w[host + k.H_GO_BACK_N]:
        at = w[end + k.S_PROGRESS] + time
    else:
        sent = slots.oldest_sent(world, end)
        at = sent + time
        overdue = _overdue_at(world, host, end, sent)
        if overdue >= 0:
            at = min(at, overdue)
    at = max(at, now)
    if 0 <= w[end + k.S_TIMER] <= at:
        return
    w[end + k.S_TIMER] = at
    _have_event(world, host, end)


@compiled
def _have_event(world: World, host: int, end: int) -> None:
    """Sees to it that an EV_QP comes no later than the timer is due.

    One that has become too late stays in the heap; it serves when the timer is due after it again.
    """
    w = world.w
    at, event = w[end + k.S_TIMER], w[end + k.S_EVENT]
    if 0 <= event <= at:
        return
    if w[end + k.S_LATER] < 0:
        w[end + k.S_LATER] = event
    w[end + k.S_EVENT] = at
    push(world, w[host + k.H_NODE], at, m.EV_QP, w[end + k.E_INDEX], 0)


@compiled
def timer_event(world: World, host: int, end: int, now: int) -> bool:
    """EV_QP. Says whether the timer was due."""
    w = world.w
    if w[end + k.S_EVENT] != now:
        return False
    w[end + k.S_EVENT] = w[end + k.S_LATER]
    w[end + k.S_LATER] = -1
    if w[end + k.S_TIMER] != now:
        if w[end + k.S_TIMER] >= 0:
            _have_event(world, host, end)
        return False
    w[end + k.S_TIMER] = -1
    if w[host + k.H_GO_BACK_N]:
        late = (
            w[end + k.S_NEXT] > w[end + k.S_BASE]
            and w[end + k.S_PROGRESS] + timeout_ps(world, host, end) <= now
        )
        if late:
            _go_back(world, end, now)
    else:
        find_lost(world, host, end, now)
        late = (
            w[end + k.S_UNDER_WAY] > 0
            and slots.oldest_sent(world, end) + timeout_ps(world, host, end) <= now
        )
        # Nothing came back for so long: whatever else is under way has no better prospects.
        while late and w[end + k.S_UNDER_WAY]:
            slots.lose_oldest(world, end)
    if late:
        w[end + k.S_BACKOFF] += 1
        w[end + k.SS_TIMEOUTS] += 1
    arm(world, host, end, now)
    return True
