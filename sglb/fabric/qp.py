"""Queue pairs: what is sent, acknowledged, lost and sent again (selective repeat).

Sequence numbers inside are plain growing integers; only on the wire are they 24 bit PSNs that
start at a random place and wrap.

Sender. Up to `window_packets` may be under way. Loss is found by time, in the manner of RACK
(RFC 8985): a packet is lost when one sent after it has been acknowledged and it has been on the
way for the newest round trip plus `reorder_ps`. So packets may overtake one another by
`reorder_ps` without any being sent twice. When nothing comes back at all, the retransmission
timeout (RFC 6298: smoothed round trip plus four deviations, at least `rto_ps`) declares all
under way lost and doubles up to `rto_max_ps`; until something is acknowledged the sender then
probes with one packet at a time instead of a window.

Receiver. It keeps every packet that arrives within `SPAN_PACKETS` of the first hole, drops
duplicates, and acknowledges when asked by AckReq, when a hole closes and on a duplicate. The
sender asks with every `ack_every`-th packet, with the last of a message, with one that fills
the window and with every retransmission. A message is delivered when it and all before it are
complete.
"""

from __future__ import annotations

import bisect
import functools
import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from sglb.fabric.roce import (
    PSN_MOD,
    SEND_FIRST,
    SEND_LAST,
    SEND_MIDDLE,
    SEND_ONLY,
    SPAN_PACKETS,
    Framer,
    packet_count,
)
from sglb.switch.clock import PS_PER_US, Handle, Scheduler


@dataclass(frozen=True, slots=True)
class TransportConfig:
    """The transport's numbers; see the module's text. Sizes are payload bytes, times ps."""

    mtu_bytes: int = 4_096
    window_packets: int = 32
    ack_every: int = 4
    rto_ps: int = 200 * PS_PER_US
    rto_max_ps: int = 20_000 * PS_PER_US
    reorder_ps: int = 50 * PS_PER_US
    ip_version: int = 4

    def __post_init__(self) -> None:
        if not self.mtu_bytes > 0 or self.mtu_bytes % 4:
            raise ValueError(f"mtu_bytes must be a multiple of 4, got {self.mtu_bytes}")
        if not 0 < self.window_packets <= SPAN_PACKETS:
            raise ValueError(f"window_packets must be 1..{SPAN_PACKETS}, got {self.window_packets}")
        if self.ack_every < 1:
            raise ValueError(f"ack_every must be at least 1, got {self.ack_every}")
        if not 0 < self.rto_ps <= self.rto_max_ps or self.reorder_ps < 0:
            raise ValueError("need 0 < rto_ps <= rto_max_ps and reorder_ps >= 0")
        if self.ip_version not in (4, 6):
            raise ValueError(f"ip_version must be 4 or 6, got {self.ip_version}")


@dataclass(slots=True)
class SendStats:
    """Counts of one sending side, in packets."""

    sent: int = 0
    resent: int = 0
    timeouts: int = 0
    reordering_losses: int = 0
    acks: int = 0
    bad_acks: int = 0


class RoundTrip:
    """Round trip estimator of RFC 6298, in ps."""

    __slots__ = ("_mean", "_var", "minimum")

    def __init__(self) -> None:
        self._mean = 0
        self._var = 0
        self.minimum = 0

    def sample(self, rtt_ps: int) -> None:
        """Take a round trip of a packet that was sent once."""
        if not self._mean:
            self._mean, self._var, self.minimum = rtt_ps, rtt_ps // 2, rtt_ps
            return
        self._var += (abs(self._mean - rtt_ps) - self._var) // 4
        self._mean += (rtt_ps - self._mean) // 8
        self.minimum = min(self.minimum, rtt_ps)

    def timeout(self, floor_ps: int) -> int:
        """Retransmission timeout without backoff."""
        return max(floor_ps, self._mean + 4 * self._var)


class SendQueue:
    """Sending side of a queue pair. The NIC asks `ready` and takes `next_frame`."""

    def __init__(
        self,
        config: TransportConfig,
        scheduler: Scheduler,
        framer: Framer,
        first_psn: int,
        wake: Callable[[SendQueue], object],
    ) -> None:
        self.stats = SendStats()
        self._config = config
        self._scheduler = scheduler
        self._framer = framer
        self._first_psn = first_psn
        self._wake = wake
        self._starts: list[int] = []
        self._sizes: list[int] = []
        self._end = 0
        self._base = 0
        self._next = 0
        self._sacked = 0
        # seq -> time sent, in order of sending: the head is the oldest on the way.
        self._under_way: dict[int, int] = {}
        self._lost: deque[int] = deque()
        self._resent: set[int] = set()
        self._rtt = RoundTrip()
        self._newest_acked_ps = -1
        self._newest_rtt_ps = 0
        self._backoff = 0
        self._timer: Handle | None = None
        self._timer_ps = 0

    @property
    def idle(self) -> bool:
        """Whether everything posted has been acknowledged."""
        return self._base == self._end

    def post(self, size_bytes: int) -> int:
        """Append a message; returns its number on this queue pair, from 0."""
        if size_bytes < 1:
            raise ValueError(f"a message needs at least 1 byte, got {size_bytes}")
        self._starts.append(self._end)
        self._sizes.append(size_bytes)
        self._end += packet_count(size_bytes, self._config.mtu_bytes)
        self._wake(self)
        return len(self._starts) - 1

    def ready(self) -> bool:
        """Whether a packet may be sent now."""
        room = 1 if self._backoff else self._config.window_packets
        if len(self._under_way) >= room:
            return False
        while self._lost and self._arrived(self._lost[0]):
            self._lost.popleft()
        return bool(self._lost) or self._may_advance()

    def next_frame(self) -> bytes:
        """The next packet as a frame, taken as sent now. Only when `ready`."""
        again = bool(self._lost)
        if again:
            seq = self._lost.popleft()
            self._resent.add(seq)
            self.stats.resent += 1
        else:
            seq = self._next
            self._next += 1
        self.stats.sent += 1
        self._under_way[seq] = self._scheduler.now_ps
        if self._timer is None:
            self._arm()
        return self._frame(seq, again)

    def _may_advance(self) -> bool:
        return self._next < self._end and self._next - self._base < SPAN_PACKETS

    def _frame(self, seq: int, again: bool) -> bytes:
        config = self._config
        message = bisect.bisect_right(self._starts, seq) - 1
        start, size = self._starts[message], self._sizes[message]
        at = seq - start
        length = min(config.mtu_bytes, size - at * config.mtu_bytes)
        last = size - at * config.mtu_bytes <= config.mtu_bytes
        if last:
            opcode = SEND_LAST if at else SEND_ONLY
        else:
            opcode = SEND_MIDDLE if at else SEND_FIRST
        fills = len(self._under_way) >= config.window_packets or not self._may_advance()
        ask = again or last or fills or not (seq + 1) % config.ack_every
        psn = (self._first_psn + seq) % PSN_MOD
        return self._framer.data(opcode, psn, _payload(length), ask)

    def _arrived(self, seq: int) -> bool:
        ahead = seq - self._base
        return ahead < 0 or (ahead > 0 and self._sacked >> (ahead - 1) & 1 == 1)

    def on_ack(self, psn: int, bitmap: int) -> None:
        """Take an acknowledge: everything up to `psn`, and the bitmap's packets beyond."""
        self.stats.acks += 1
        base = self._base + _signed(psn + 1 - self._first_psn - self._base)
        if base > self._next or (bitmap and base + bitmap.bit_length() >= self._next):
            self.stats.bad_acks += 1  # speaks of packets that were never sent
            return
        if base < self._base:  # overtaken on the way by a later one
            bitmap >>= self._base - base
            base = self._base
        if self._take(base, bitmap):
            self._backoff = 0
            self._find_lost()
            self._arm()
            self._wake(self)

    def _take(self, base: int, bitmap: int) -> bool:
        """Note what has newly arrived; says whether anything has."""
        arrived = list(range(self._base, base))
        self._sacked >>= base - self._base
        self._base = base
        fresh = bitmap & ~self._sacked
        self._sacked |= fresh
        while fresh:
            low = fresh & -fresh
            arrived.append(base + low.bit_length())
            fresh ^= low
        now = self._scheduler.now_ps
        newest_ps = -1
        for seq in arrived:
            sent = self._under_way.pop(seq, None)
            if seq in self._resent:
                self._resent.discard(seq)
                # Too soon to answer the retransmission: the first copy arrived after all.
                if sent is None or now - sent < self._rtt.minimum:
                    continue
                self._note_newest(sent)
            elif sent is not None:
                newest_ps = max(newest_ps, sent)
        if newest_ps >= 0:
            self._rtt.sample(now - newest_ps)
            self._note_newest(newest_ps)
        return bool(arrived)

    def _note_newest(self, sent_ps: int) -> None:
        if sent_ps >= self._newest_acked_ps:
            self._newest_acked_ps = sent_ps
            self._newest_rtt_ps = self._scheduler.now_ps - sent_ps

    def _overdue_ps(self, sent_ps: int) -> int | None:
        """When a packet counts as lost by reordering; None while none sent later arrived."""
        if sent_ps >= self._newest_acked_ps:
            return None
        return sent_ps + self._newest_rtt_ps + self._config.reorder_ps

    def _timeout_ps(self) -> int:
        config = self._config
        return min(config.rto_max_ps, self._rtt.timeout(config.rto_ps) << min(self._backoff, 32))

    def _find_lost(self) -> None:
        now = self._scheduler.now_ps
        while self._under_way:
            seq, sent = next(iter(self._under_way.items()))
            overdue = self._overdue_ps(sent)
            if overdue is None or overdue > now:
                return
            del self._under_way[seq]
            self._lost.append(seq)
            self.stats.reordering_losses += 1

    def _arm(self) -> None:
        """Have the timer run no later than the oldest packet under way needs it."""
        if not self._under_way:
            return
        sent = next(iter(self._under_way.values()))
        at_ps = sent + self._timeout_ps()
        overdue = self._overdue_ps(sent)
        if overdue is not None:
            at_ps = min(at_ps, overdue)
        at_ps = max(at_ps, self._scheduler.now_ps)
        if self._timer is not None:
            # A timer that runs early only looks again; moving it at each ACK would cost more.
            if self._timer_ps <= at_ps:
                return
            self._timer.cancel()
        self._timer_ps = at_ps
        self._timer = self._scheduler.call_at(at_ps, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._find_lost()
        oldest = next(iter(self._under_way.values()), None)
        if oldest is not None and oldest + self._timeout_ps() <= self._scheduler.now_ps:
            # Nothing came back for so long: whatever else is under way has no better prospects.
            self._lost.extend(self._under_way)
            self._under_way.clear()
            self._backoff += 1
            self.stats.timeouts += 1
        self._arm()
        self._wake(self)


@dataclass(slots=True)
class ReceiveStats:
    """Counts of one receiving side, in packets.

    `reordered` arrived after one with a higher number (RFC 4737, retransmissions included);
    `reorder_extent` is by how many at most.
    """

    received: int = 0
    duplicates: int = 0
    out_of_range: int = 0
    reordered: int = 0
    reorder_extent: int = 0
    ce_marked: int = 0


class ReceiveQueue:
    """Receiving side of a queue pair; acknowledges through `send_ack`, a frame at a time."""

    def __init__(
        self,
        framer: Framer,
        first_psn: int,
        send_ack: Callable[[bytes], object],
        on_message: Callable[[int], object],
    ) -> None:
        self.stats = ReceiveStats()
        self._framer = framer
        self._first_psn = first_psn
        self._send_ack = send_ack
        self._on_message = on_message
        self._expected = 0
        # Bit i: packet expected + 1 + i is here already.
        self._beyond = 0
        self._highest = -1
        self._ends: list[int] = []
        self._messages = 0

    def on_data(self, opcode: int, psn: int, ack_request: bool) -> bool:
        """Take a data packet; says whether it was new. May acknowledge and deliver messages."""
        ahead = _signed(psn - self._first_psn - self._expected)
        if ahead >= SPAN_PACKETS:
            self.stats.out_of_range += 1
            return False
        if ahead < 0 or (ahead and self._beyond >> (ahead - 1) & 1):
            self.stats.duplicates += 1
            self._acknowledge()
            return False
        self.stats.received += 1
        seq = self._expected + ahead
        self._note_order(seq)
        if opcode in (SEND_LAST, SEND_ONLY):
            heapq.heappush(self._ends, seq)
        closed_hole = False
        if ahead:
            self._beyond |= 1 << (ahead - 1)
        else:
            run = (~self._beyond & (self._beyond + 1)).bit_length() - 1
            self._beyond >>= run + 1
            self._expected += run + 1
            closed_hole = run > 0
            self._deliver()
        if ack_request or closed_hole:
            self._acknowledge()
        return True

    def _note_order(self, seq: int) -> None:
        if seq > self._highest:
            self._highest = seq
        else:
            self.stats.reordered += 1
            self.stats.reorder_extent = max(self.stats.reorder_extent, self._highest - seq)

    def _deliver(self) -> None:
        while self._ends and self._ends[0] < self._expected:
            heapq.heappop(self._ends)
            self._messages += 1
            self._on_message(self._messages - 1)

    def _acknowledge(self) -> None:
        psn = (self._first_psn + self._expected - 1) % PSN_MOD
        self._send_ack(self._framer.ack(psn, self._messages % PSN_MOD, self._beyond))


def _signed(difference: int) -> int:
    """A difference of PSNs as the number nearest to 0."""
    return (difference + PSN_MOD // 2) % PSN_MOD - PSN_MOD // 2


@functools.cache
def _payload(length: int) -> bytes:
    """Payload content: the bytes 0..255 over and over."""
    return bytes(i & 0xFF for i in range(length))
