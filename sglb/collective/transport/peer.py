"""What a rank knows about one other: messages both ways, and what was sent and not acknowledged.

A message has a number, dense toward each peer; the receiver lets messages meet their receives in this
order, whatever channel they came over. Up to `eager_bytes` a message goes with its announcement, from
a copy; of a larger one the first `head_bytes` do, and the rest, in chunks that any channel takes as it
drains, once its receive has been posted (GRANT).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from sglb.collective.transport.balance import may_take
from sglb.collective.transport.channel import Channel
from sglb.collective.transport.errors import PeerLostError, TransportError, WireError
from sglb.collective.transport.failover import Ledger
from sglb.collective.transport.matching import Matching
from sglb.collective.transport.messages import (
    Frame,
    Inbound,
    Label,
    Outbound,
    Receive,
    Transfer,
    label_text,
)
from sglb.collective.transport.settings import MAX_EAGER_BYTES, Settings
from sglb.collective.transport.stats import PeerStats
from sglb.collective.transport.wire import Header, Kind, bytes_of, text_of

#: What may arrive twice, and is sent again as soon as its connection is lost.
_REPEATABLE = frozenset({Kind.REPORT, Kind.ABORT})
#: Labels of copied messages that are kept for a complaint of their receiver.
_RECENT = 256


class Company(Protocol):
    """What a peer asks of the group it is in; all under the engine's lock."""

    matching: Matching

    def finished(self, transfer: Transfer, error: TransportError | None) -> None:
        """A transfer is done; its callbacks run once the lock is free."""

    def mismatch(self, peer: int, message: str) -> None:
        """Two ranks called different things."""

    def aborted_by(self, peer: int, cause: int, reason: str) -> None:
        """A rank gave the group up."""

    def drop(self, channel: Channel, reason: str) -> None:
        """Give a connection up."""


class Peer:
    """One other rank. Under the engine's lock throughout."""

    def __init__(self, company: Company, rank: int, own_rank: int, settings: Settings) -> None:
        self._company = company
        self._settings = settings
        self._own_rank = own_rank
        self.rank = rank
        self.stats = PeerStats()
        self.channels: dict[int, Channel] = {}
        self.ledger = Ledger()
        self.gone: PeerLostError | None = None  # its process has ended
        self.cut_since: float | None = None  # no channel reaches it
        self.leaving = False  # it said BYE
        self.borrows = True  # whether its memory may be read where it is
        self.awaited = 0  # by how many callers, in shared memory
        self.failed = False  # the group is given up
        # Out.
        self._next_out = 0
        self._control: deque[Frame] = deque()
        self._again: deque[Frame] = deque()  # data that a lost connection did not deliver
        self._ungranted: dict[int, Outbound] = {}
        self._bulk: deque[Outbound] = deque()
        self._open_sends: dict[int, Outbound] = {}
        self._recent: deque[tuple[int, int, Label]] = deque(maxlen=_RECENT)
        self._early_sent = 0
        self._early_consumed = 0
        # In.
        self._next_in = 0
        self._reordered: dict[int, Inbound] = {}
        self._incoming: dict[int, Inbound] = {}
        self._consumed = 0
        self._consumed_told = 0
        self._scratch = bytearray(0)
        self._landed: dict[int, Receive] = {}  # by channel: whose buffer a first piece goes to
        self._mismatched: dict[int, tuple[int, str]] = {}
        self._handlers: dict[Kind, Callable[[Channel, Header, memoryview], None]] = {
            Kind.MSG: self._on_message,
            Kind.GRANT: self._on_grant,
            Kind.DATA: self._on_data,
            Kind.REPORT: self._on_report,
            Kind.MISMATCH: self._on_mismatch,
            Kind.ABORT: lambda _, header, payload: company.aborted_by(
                rank, header.m, text_of(payload)
            ),
            Kind.BYE: self._on_bye,
            Kind.ACK: self._on_ack,
            Kind.PING: self._on_ack,
        }

    # What the caller does.

    def send(
        self, stream: int, data: memoryview, fingerprint: int, label: Label, transfer: Transfer
    ) -> None:
        """Queue a message; its transfer is done at once when it is small enough to be copied."""
        size = len(data)
        number = self._next_out
        self._next_out += 1
        small = size <= self._settings.eager_bytes
        most = self._settings.head_bytes
        if not small and any(c.lender is not None and c.lender.lends() for c in self._lenders()):
            most = MAX_EAGER_BYTES  # nothing has to be held for it on the way
        head = size if small else min(size, most)
        if self._early_sent - self._early_consumed + head > self._settings.eager_budget_bytes:
            head = 0
        self._early_sent += head
        fields = (number, stream, size, fingerprint)
        if head == size:  # it may be acknowledged before it meets its receive
            self._recent.append((number, size, label))
        if small and head == size:
            self._control.append(Frame(Kind.MSG, fields, bytes(data)))
            self.stats.messages_sent += 1
            self._company.finished(transfer, None)
            return
        message = Outbound(number, stream, data, transfer, label)
        message.next = head
        self._open_sends[number] = message
        if head < size:
            self._ungranted[number] = message
        self._control.append(Frame(Kind.MSG, fields, data[:head], message))

    def _lenders(self) -> Iterable[Channel]:
        return (c for c in self.channels.values() if c.open)

    def post(self, receive: Receive) -> None:
        """Post a receive from this peer."""
        message = self._company.matching.post(self.rank, receive)
        if message is not None:
            self.meet(message, receive)

    def tell_abort(self, cause: int, reason: str) -> None:
        """Queue, before all else, that the group is given up."""
        self._control.appendleft(Frame(Kind.ABORT, (cause, 0, 0, 0), bytes_of(reason)))

    # Out.

    def pump(self) -> None:
        """Let every channel that has room take what is next, one frame or chunk each in turn."""
        if not self._work():
            for channel in list(self.channels.values()):
                if channel.urgent and not channel.blocked:
                    self._pump(channel)
            return
        channels = [c for c in self.channels.values() if c.open and not c.blocked]
        if len(channels) > 1:
            channels.sort(key=_inflight)
        while channels:
            channels = [c for c in channels if self._pump(c)]
            if not self._work():
                return

    def _work(self) -> bool:
        """Whether there are frames or chunks to take."""
        return bool(self._control or self._bulk or self._again)

    def _pump(self, channel: Channel) -> bool:
        try:
            return channel.pump()
        except OSError as error:
            self._company.drop(channel, error.strerror or str(error))
            return False

    def next_frame(self, channel: Channel) -> Frame | None:
        """What goes next on this channel."""
        if not channel.up and any(c.up for c in self.channels.values()):
            return None
        if self._control:
            return self._control.popleft()
        most = self._settings.chunk_bytes
        if channel.inflight_bytes >= channel.window_bytes(self._settings.window_s, most):
            return None
        if self._again:
            return self._again.popleft() if self._suits(channel, self._again[0].size) else None
        return self._next_chunk(channel, most) if self._bulk else None

    def _next_chunk(self, channel: Channel, most: int) -> Frame | None:
        message = self._bulk[0]
        at = message.next
        size = min(channel.chunk_bytes(most), len(message.data) - at)
        if not self._suits(channel, size):
            return None
        message.next = at + size
        if message.next == len(message.data):
            self._bulk.popleft()
        return Frame(Kind.DATA, (message.number, at, 0, 0), message.data[at : at + size], message)

    def _suits(self, channel: Channel, size: int) -> bool:
        if len(self.channels) == 1:
            return True
        left = sum(len(m.data) - m.next for m in self._bulk) + sum(f.size for f in self._again)
        return may_take(channel, size, left, [c for c in self.channels.values() if c.up])

    def count_anew(self) -> None:
        """There is another way through a neighbour: what those there have carried does not count."""
        for channel in self.channels.values():
            channel.counted_from = channel.sent_bytes

    def acknowledged(self, _channel: Channel, frames: Sequence[Frame]) -> None:
        """Some frames have arrived; a message all of whose bytes have, is done."""
        for frame in frames:
            message = frame.owner
            if message is None:
                continue
            message.left -= frame.size
            message.transfer.progress_bytes = len(message.data) - message.left
            if not message.left:
                self._open_sends.pop(message.number, None)
                self.stats.messages_sent += 1
                self._company.finished(message.transfer, None)

    def outstanding(self) -> bool:
        """Whether anything is to be sent, acknowledged or reported."""
        return bool(
            self._control
            or self._again
            or self._open_sends
            or self.ledger
            or any(c.unacked or c.mid_frame for c in self.channels.values())
        )

    def wanted(self) -> bool:
        """Whether a caller waits for something that this peer has to do."""
        return bool(self._open_sends or self._incoming) or self._company.matching.waits_for(
            self.rank
        )

    # In.

    def consumed_bytes(self) -> int:
        """Bytes of first pieces that have met their receive."""
        self._consumed_told = self._consumed
        return self._consumed

    def destination(self, channel: Channel, header: Header) -> memoryview:
        """Where a payload goes: into the receive's buffer, where that is known."""
        size = header.payload_bytes
        if header.kind is Kind.DATA:
            return self._place(header) or self._waste(size)
        if header.kind is Kind.MSG:
            if size > header.y:
                raise WireError(f"{size} first bytes of a message of {header.y}")
            receive = self._company.matching.peek(self.rank, header.x)
            if (
                receive is not None
                and header.m == self._next_in
                and len(receive.into) == header.y
                and receive.fingerprint == header.z
            ):
                self._landed[channel.index] = receive
                return receive.into[:size]
        self._landed.pop(channel.index, None)
        return memoryview(bytearray(size))

    def _waste(self, size: int) -> memoryview:
        if len(self._scratch) < size:
            self._scratch = bytearray(size)
        return memoryview(self._scratch)[:size]

    def _place(self, header: Header) -> memoryview | None:
        message = self._incoming.get(header.m)
        if message is None:
            if header.m >= self._next_in:
                raise WireError(f"data of message {header.m}, which was not announced")
            return None
        end = header.x + header.payload_bytes
        receive = message.receive
        if end > message.size or receive is None:
            raise WireError(f"bytes to {end} of a message of {message.size}")
        return None if header.x in message.offsets else receive.into[header.x : end]

    def arrived(self, channel: Channel, header: Header, payload: memoryview) -> None:
        """A frame is complete."""
        self._handlers[header.kind](channel, header, payload)

    def _on_message(self, channel: Channel, header: Header, payload: memoryview) -> None:
        landed = self._landed.pop(channel.index, None)
        if header.payload_bytes > self._settings.eager_bytes:
            channel.ack_now = True  # not from a copy: its sender waits for that
        number = header.m
        if number < self._next_in or number in self._reordered:
            self.stats.duplicates += 1
            return
        message = Inbound(number, header.x, header.y, header.z)
        message.head = payload
        if number != self._next_in:
            self._reordered[number] = message
            return
        self._announce(message, landed)
        while self._reordered:
            following = self._reordered.pop(self._next_in, None)
            if following is None:
                break
            self._announce(following, None)

    def _announce(self, message: Inbound, landed: Receive | None) -> None:
        self._next_in += 1
        receive = self._company.matching.take(self.rank, message)
        if receive is not None:
            self.meet(message, receive, receive is landed)

    def meet(self, message: Inbound, receive: Receive, landed: bool = False) -> None:
        """A message and its receive have found each other; `landed`: the first bytes are there."""
        transfer = receive.transfer
        transfer.peer = self.rank
        if message.size != len(receive.into) or message.fingerprint != receive.fingerprint:
            self._tell_mismatch(message, receive)
            return
        head = len(message.head)
        if head:
            if not landed:
                receive.into[:head] = message.head
            message.head = b""
            self._consumed += head
        message.got = transfer.progress_bytes = head
        if head == message.size:
            self._received(transfer)
        else:
            message.receive = receive
            self._incoming[message.number] = message
            self._control.append(Frame(Kind.GRANT, (message.number, 0, 0, 0)))
        if self._consumed - self._consumed_told > self._settings.eager_budget_bytes // 4:
            for channel in self.channels.values():
                channel.ack_now = True

    def _received(self, transfer: Transfer) -> None:
        self.stats.messages_received += 1
        self._company.finished(transfer, None)

    def _on_grant(self, _channel: Channel, header: Header, _payload: memoryview) -> None:
        message = self._ungranted.pop(header.m, None)
        if message is None:
            self.stats.duplicates += 1
            return
        self._bulk.append(message)

    def _on_data(self, channel: Channel, header: Header, payload: memoryview) -> None:
        channel.ack_now = True  # what a channel may have under way may be no more than two of these
        message = self._incoming.get(header.m)
        if message is None or header.x in message.offsets:
            self.stats.duplicates += 1
            return
        message.offsets.add(header.x)
        message.got += len(payload)
        receive = message.receive
        assert receive is not None
        receive.transfer.progress_bytes = message.got
        if message.got >= message.size:
            del self._incoming[header.m]
            self._received(receive.transfer)

    def _on_bye(self, channel: Channel, header: Header, payload: memoryview) -> None:
        self.leaving = True
        self._on_ack(channel, header, payload)

    def _on_ack(self, _channel: Channel, header: Header, _payload: memoryview) -> None:
        if header.m > self._early_sent:
            raise WireError(f"{header.m} first bytes consumed, {self._early_sent} sent")
        self._early_consumed = max(self._early_consumed, header.m)

    # Faults.

    def _on_report(self, _channel: Channel, header: Header, _payload: memoryview) -> None:
        index, epoch, received = header.m, header.x, header.y
        current = self.channels.get(index)
        if current is not None and current.epoch == epoch:
            self._company.drop(current, f"rank {self.rank} gave it up")
        if self.ledger.knows(index, epoch):
            self._replay(self.ledger.reported(index, epoch, received))
        else:  # it never came to be on this side
            self.ledger.never_was(index, epoch)
            self._control.append(Frame(Kind.REPORT, (index, epoch, 0, 0)))

    def lose(self, channel: Channel) -> None:
        """A connection is closed on this side: say how far it was read, keep what it may owe."""
        if self.channels.get(channel.index) is channel:
            del self.channels[channel.index]
        self._landed.pop(channel.index, None)
        if self.leaving:  # it listens no more
            return
        report = (channel.index, channel.epoch, channel.received, 0)
        self._control.appendleft(Frame(Kind.REPORT, report))
        # Two connections lost at once may each have carried the report on the other: reports go out
        # again at once, not when it is known whether they arrived; to hear one twice does no harm.
        self._control.extendleft(f for f in channel.unacked if f.kind in _REPEATABLE)
        self.ledger.lost(channel)

    def _replay(self, frames: Sequence[Frame]) -> None:
        """Send again, before what is new, in the same order."""
        for frame in reversed(frames):
            if self.failed or frame.kind in _REPEATABLE:
                continue
            queue = self._again if frame.kind is Kind.DATA else self._control
            queue.appendleft(frame)
            self.stats.replayed_frames += 1
            self.stats.replayed_bytes += frame.size

    # Mistakes.

    def _tell_mismatch(self, message: Inbound, receive: Receive) -> None:
        """The sender learns of it and tells all; the message's own end waits for those words."""
        text = bytes_of(label_text(receive.label))
        fields = (message.number, len(receive.into), 0, receive.fingerprint)
        self._incoming[message.number] = message
        message.receive = receive
        self._control.append(Frame(Kind.MISMATCH, fields, text))

    def _on_mismatch(self, _channel: Channel, header: Header, payload: memoryview) -> None:
        number = header.m
        sent = [(size, label) for n, size, label in self._recent if n == number]
        held = self._open_sends.get(number)
        if held is not None:
            sent.append((len(held.data), held.label))
        mine = (
            f"{sent[0][0]} bytes ({label_text(sent[0][1]) or 'no label'})" if sent else "a message"
        )
        theirs = text_of(payload) or "no label"
        why = "sizes" if not sent or sent[0][0] != header.x else "operations"
        self._company.mismatch(
            self.rank,
            f"{why} differ: rank {self._own_rank} sent {mine} to rank {self.rank}, "
            f"which expected {header.x} bytes ({theirs})",
        )

    def abandon(self) -> list[Transfer]:
        """Forget everything queued, touch no buffer any more; the transfers that were not done."""
        self.failed = True
        for channel in self.channels.values():
            channel.divert()
        found = [message.transfer for message in self._open_sends.values()]
        found += [m.receive.transfer for m in self._incoming.values() if m.receive is not None]
        self._open_sends.clear()
        self._incoming.clear()
        self._ungranted.clear()
        self._bulk.clear()
        self._again.clear()
        self._control.clear()
        return found


def _inflight(channel: Channel) -> int:
    return channel.inflight_bytes
