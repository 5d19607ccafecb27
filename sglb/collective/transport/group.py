"""All peers of one rank: their connections come up, are watched, lost, and come back.

Everything runs under the engine's lock, on whichever thread drives.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from sglb.collective.transport.channel import Channel
from sglb.collective.transport.commons import Commons
from sglb.collective.transport.connections import (
    Doors,
    Greeting,
    Link,
    Pace,
    address_of,
    forget_unsent,
    prepare,
    watch_link,
)
from sglb.collective.transport.dialing import Dialing
from sglb.collective.transport.engine import Engine
from sglb.collective.transport.errors import (
    AbortedError,
    MismatchError,
    PeerLostError,
    TransportError,
    WireError,
)
from sglb.collective.transport.handshake import Incoming, group_id
from sglb.collective.transport.health import Health
from sglb.collective.transport.lending import BorrowError, Lending
from sglb.collective.transport.matching import Matching
from sglb.collective.transport.memory import MemoryStream
from sglb.collective.transport.messages import Transfer
from sglb.collective.transport.peer import Peer
from sglb.collective.transport.places import NO_RAIL, Places, Slot
from sglb.collective.transport.rails import CarrierWatch, Rail
from sglb.collective.transport.relay import Relays
from sglb.collective.transport.rendezvous import Met
from sglb.collective.transport.settings import Settings
from sglb.collective.transport.wire import (
    HOP_CHANNEL,
    MAX_CHANNELS,
    MEMORY_CHANNEL,
    RELAY_CHANNEL,
    Cause,
    Hello,
)

log = logging.getLogger("sglb.collective")

#: Instead of a rail: this host's door, the inside of a connection to or from a relay.
DOOR, HOPPED = -1, -2
_READ_BYTES = 2 << 20
_IDLE_TICK_S = 1.0
_TICKS_A_BOUND = 6
_LATE_TICKS = 4
_EVENTS_KEPT = 100
_CAUSES = {Cause.MISMATCH: MismatchError, Cause.LOST: PeerLostError}


class Group:
    """The state of one transport."""

    def __init__(self, rank: int, size: int, rails: list[Rail], settings: Settings) -> None:
        self.rank = rank
        self.size = size
        self.rails = rails
        self.settings = settings
        self.matching = Matching()
        self.engine = Engine(self, f"reccl-{rank}")
        self.peers: dict[int, Peer] = {}
        self.error: TransportError | None = None
        self.closing = False
        self.events: deque[str] = deque(maxlen=_EVENTS_KEPT)
        #: By rail name, of connections that were: bytes sent, received, and how often it failed.
        self.past: dict[str, list[int]] = {}
        self.carrier = [True] * len(rails)
        self.commons: Commons | None = None
        self._met: Met | None = None
        self.places: Places
        self._done: list[Transfer] = []
        self._ready: list[Channel] = []
        self._touched: dict[int, Peer] = {}
        self._memory: list[tuple[Channel, MemoryStream]] = []  # those over shared memory
        self._lendings: list[tuple[Channel, Lending]] = []
        self._armed = False
        self._active = False
        self._tick_at = time.monotonic()
        self._tick_s = settings.detection_s / _TICKS_A_BOUND
        self._doors = Doors(self.engine, settings.handshake_s, self._greet, self._admitted)
        self.health = Health(settings)
        self.relays = Relays(self)
        self._dialing: Dialing | None = None
        self._watch = CarrierWatch()
        self._indexes = _interface_indexes(rails)
        self.engine.watch(self._watch.socket.fileno(), self._on_carrier)

    # Coming up.

    def begin(self, met: Met, doors: list[socket.socket]) -> None:
        """All ranks are known: listen, and connect to those of higher rank."""
        with self.engine.lock:
            self._met = met
            for record in met.records:
                if record.rank != self.rank:
                    peer = Peer(self, record.rank, self.rank, self.settings)
                    self.peers[record.rank] = peer
            self.places = Places(self.rank, self.rails, self.settings, met)
            self._dialing = Dialing(self, met)
            for number, door in enumerate(doors):
                self._doors.open(door, number if number < len(self.rails) else DOOR)
            self._dialing.attempt(time.monotonic())

    def connected(self) -> bool:
        """Whether every peer is reached over at least one channel; also when all is lost."""
        return self.error is not None or all(peer.channels for peer in self.peers.values())

    def missing(self) -> str:
        """Which peers no channel reaches, and what was last heard of attempts."""
        assert self._dialing is not None
        found = [rank for rank, peer in self.peers.items() if not peer.channels]
        return "; ".join(f"rank {rank}: {self._dialing.last_error(rank)}" for rank in found)

    def _greet(self) -> Incoming:
        assert self._met is not None
        return Incoming(self._met.secret, self._admit)

    def _admit(self, hello: Hello) -> str:
        """Why a HELLO is refused, or ''."""
        assert self._met is not None
        if hello.group != group_id(self._met.name):
            return "not this group"
        if hello.target != self.rank or hello.source not in self.peers:
            return f"this is rank {self.rank} of {self.size}"
        if hello.channel == HOP_CHANNEL:
            other = hello.relay - 1
            known = other in self.peers and other != hello.source and self.settings.relay
            return "" if not hello.relay or known else "no relay here"
        if hello.source > self.rank:
            return "the lower rank connects"
        remote = self._met.records[hello.source].rails
        through = hello.channel - RELAY_CHANNEL
        if not (
            hello.channel < MAX_CHANNELS
            or hello.channel == MEMORY_CHANNEL
            or 0 <= through < self.size
        ) or hello.rail >= len(remote):
            return "no such channel"
        peer = self.peers[hello.source]
        if peer.ledger.knows(hello.channel, hello.epoch):
            return "an old epoch"
        return "closing" if self.closing else ""

    def _admitted(self, greeting: Greeting, rail: int) -> None:
        hello, link = greeting.hello, greeting.link
        assert hello is not None
        if self._admit(hello):  # it has changed meanwhile
            link.close()
            return
        if hello.channel == HOP_CHANNEL:
            if rail == DOOR and isinstance(link, socket.socket):
                try:
                    link = MemoryStream.attach(link, hello.nonce)
                except OSError as error:
                    self.note(f"no shared memory with rank {hello.source}: {error}")
                    link.close()
                    return
            if hello.relay:
                self.relays.begin(link, hello)
            else:
                self._doors.hear(link, HOPPED)
            return
        lending = None
        if rail == DOOR:
            with suppress(OSError):  # the other side lends nothing
                lending = Lending.attach(hello.nonce)
        elif isinstance(link, socket.socket):
            # Where networks differ the route back need not be this rail's.
            near = rail >= 0 and self.rails[rail].shares_network(address_of(link))
            device = self.places.device_toward(hello.source, rail) if near else ""
            prepare(link, device, self.settings.unsent_bytes)
        peer = self.peers[hello.source]
        current = peer.channels.get(hello.channel)
        if current is not None:
            self.drop(current, "the peer connected anew")
        direct = hello.channel < MAX_CHANNELS
        own, remote = (rail, hello.rail) if direct and rail >= 0 else (NO_RAIL, NO_RAIL)
        assert self._dialing is not None
        slot = self._dialing.slot(hello.source, hello.channel, own, remote)
        self.adopt(slot, link, hello.epoch, lending)

    @property
    def met(self) -> Met:
        """What all know."""
        assert self._met is not None
        return self._met

    def live_pairs(self, rank: int) -> list[tuple[int, int]]:
        """(own, remote) rails over which a rank is reached now."""
        assert self._dialing is not None
        return [
            (slot.rail, slot.remote)
            for slot in self._dialing.slots_to(rank)
            if slot.rail != NO_RAIL and slot.channel is not None and slot.channel.up
        ]

    def adopt(self, slot: Slot, link: Link, epoch: int, lending: Lending | None = None) -> None:
        """A connection has proved itself: it is a channel now."""
        now = time.monotonic()
        peer = self.peers[slot.peer]
        names = self.places.names(slot)
        channel = Channel(peer, link, slot.index, epoch, names)
        slot.comeback.opened(now)
        channel.up = slot.comeback.trusted(now) or not any(c.up for c in peer.channels.values())
        peer.channels[slot.index] = channel
        if channel.is_detour:
            peer.count_anew()
        peer.ledger.opened(channel)
        peer.cut_since = None
        slot.channel = channel
        slot.attempts = 0
        watch_link(self.engine, link, partial(self._on_channel, channel))
        self._fit(channel, link, lending, peer.borrows)
        self._touched[peer.rank] = peer
        if slot.comeback.faults or slot.via is not None:
            self.tell(
                f"rail {names[0]} to rank {peer.rank} ({names[1]}) is connected, "
                + ("in use" if channel.up else f"on probation {slot.comeback.probation_s():g} s")
            )

    def _fit(self, channel: Channel, link: Link, lending: Lending | None, borrows: bool) -> None:
        """What is particular to each kind of connection."""
        if isinstance(link, MemoryStream):
            self._memory = [m for m in self._memory if m[0].open] + [(channel, link)]
        elif link.family == socket.AF_UNIX:
            channel.ask_for_room = partial(self.engine.want_room, link.fileno(), True)
            if lending is not None and self.settings.single_copy:
                channel.lender = lending
                self._lendings = [m for m in self._lendings if m[0].open] + [(channel, lending)]
                if not borrows:
                    lending.refuse()
                lending.try_reading()
        else:
            channel.pace = Pace(link, self.settings.unsent_bytes)

    # The loop.

    def activate(self) -> None:
        """Something is outstanding: watch closely."""
        if not self._active:
            self._active = True
            self._tick_at = min(self._tick_at, time.monotonic() + self._tick_s)
            self.engine.kick()

    def completed(self) -> list[Transfer]:
        """Transfers done since the last call."""
        if not self._done:
            return self._done
        with self.engine.lock:
            found, self._done = self._done, []
        return found

    def due_s(self) -> float:
        """Until the next look at everything."""
        return max(self._tick_at - time.monotonic(), 0.0)

    def handle(self) -> bool:
        """Read what is there, write what there is room for, look at everything now and then."""
        if self._memory:
            self._look_at_memory()
        ready, self._ready = self._ready, []
        for channel in ready:
            self._read(channel)
        passing = self.relays.pump()
        while self._touched:
            _, peer = self._touched.popitem()
            peer.pump()
        now = time.monotonic()
        if now >= self._tick_at:
            self._tick(now)
        self._ready += [c for c in ready if c.readable and c.open and c not in self._ready]
        return bool(self._ready or self._touched or passing)

    def about_to_sleep(self) -> bool:
        """Ask to be woken by what happens in shared memory."""
        if not self._memory:
            return True
        with self.engine.lock:
            self._armed = True
            return all(s.arm(c.blocked) for c, s in self._memory if c.open)

    def _look_at_memory(self) -> None:
        """What shared memory has to be read, or has room again."""
        for channel, stream in self._memory:
            if not channel.open:
                continue
            if self._armed:
                stream.disarm()
            if stream.ready(channel.blocked):
                self._on_channel(channel, select.EPOLLIN | select.EPOLLOUT)
        self._armed = False

    def _on_channel(self, channel: Channel, event: int) -> None:
        if event & select.EPOLLOUT and channel.blocked:
            channel.blocked = False
            if channel.ask_for_room is not None:
                self.engine.want_room(channel.stream.fileno(), False)
            self.touch(channel)
        if event & ~select.EPOLLOUT and not channel.readable:
            channel.readable = True
            self._ready.append(channel)

    def touch(self, channel: Channel) -> None:
        """Something may be written to this channel's peer."""
        peer = channel.host
        assert isinstance(peer, Peer)
        self._touched[peer.rank] = peer

    def _read(self, channel: Channel) -> None:
        try:
            channel.read(_READ_BYTES)
        except EOFError:
            self.drop(channel, "the peer closed the connection")
        except BorrowError as error:
            peer = channel.host
            assert isinstance(peer, Peer)
            peer.borrows = False  # what is sent again must not be lent again
            self.drop(channel, str(error))
        except OSError as error:
            self.drop(channel, error.strerror or str(error))
        except WireError as error:
            self.drop(channel, f"bytes that make no sense: {error}")
        self.touch(channel)

    def _tick(self, now: float) -> None:
        late = now - self._tick_at
        if late > _LATE_TICKS * self._tick_s:
            self._forgive(late)
        self._active = self.matching.waits_for_any()
        for peer in self.peers.values():
            busy = bool(peer.outstanding()) or self.matching.waits_for(peer.rank)
            self._active |= busy or peer.awaited > 0
            for channel in list(peer.channels.values()):
                reason = self.health.check(channel, now)
                if reason:
                    self.drop(channel, reason)
                elif self.health.wants_ping(channel, now, busy):
                    channel.ping_now = True
                if channel.owes_ack():
                    channel.ack_now = True
            if busy and not peer.channels and (peer.gone is None or peer.wanted()):
                self.judge(peer, now)
            peer.pump()
        self._doors.expire(now)
        for channel, lending in self._lendings:
            if channel.open:
                lending.try_reading()
        self._active |= self.relays.tick(now)
        if self._dialing is not None and not self.closing:
            self._active |= self._dialing.attempt(now)
        self._tick_at = now + (self._tick_s if self._active else _IDLE_TICK_S)

    def _forgive(self, late: float) -> None:
        """This process did not run for a while: others get that much more time."""
        self._doors.forgive(late)
        if self._dialing is not None:
            self._dialing.forgive(late)
        for peer in self.peers.values():
            if peer.cut_since is not None:
                peer.cut_since += late

    def judge(self, peer: Peer, now: float) -> None:
        """No channel reaches a peer from which something is wanted."""
        if peer.cut_since is None:
            peer.cut_since = now
        if peer.gone is not None:
            self.fail(peer.gone, Cause.LOST)
        elif now - peer.cut_since >= self.settings.unreachable_s:
            assert self._dialing is not None
            self.fail(
                PeerLostError(
                    f"rank {self.rank} cannot reach rank {peer.rank} over any rail for "
                    f"{now - peer.cut_since:.1f} s: {self._dialing.story(peer.rank, now)}"
                ),
                Cause.LOST,
            )

    def _gone(self, peer: Peer, why: str) -> None:
        peer.gone = PeerLostError(why)
        if peer.wanted():
            self.judge(peer, time.monotonic())

    def refused(self, rank: int) -> None:
        """A peer's port is closed while no channel reaches it: its process has ended."""
        peer = self.peers[rank]
        if not peer.channels:
            self._gone(peer, f"rank {rank} has ended: its ports are closed")

    # Faults.

    def drop(self, channel: Channel, reason: str, *, quiet: bool = False) -> None:
        """Give a connection up; what was on it goes elsewhere."""
        if not channel.open:
            return
        self.engine.forget(channel.stream.fileno())
        forget_unsent(channel.stream)
        for other, lending in self._lendings:
            if other is channel:
                lending.forget()
        channel.shut()
        peer = channel.host
        assert isinstance(peer, Peer)
        assert self._dialing is not None
        peer.lose(channel)
        self._touched[peer.rank] = peer
        now = time.monotonic()
        if not peer.channels:
            peer.cut_since = now
        slot = self._dialing.lost(peer.rank, channel, now)
        if slot.via is not None and self._dialing.direct(peer.rank):
            quiet = True  # a detour that is needed no more
        if not any(other.up for other in peer.channels.values()):
            for other in peer.channels.values():  # on probation, but there is nothing better
                other.up = True
        past = self.past.setdefault(channel.rails[0], [0, 0, 0])
        past[0] += channel.sent_bytes
        past[1] += channel.received_bytes
        if peer.leaving and not peer.channels:  # noticed by reading or by writing
            self._gone(peer, f"rank {peer.rank} has closed its transport")
        if quiet or peer.leaving or self.closing:
            return
        peer.stats.failovers += 1
        past[2] += 1
        self.tell(
            f"rail {channel.rails[0]} to rank {peer.rank} ({channel.rails[1]}) is lost: {reason}; "
            f"{len(channel.unacked)} frames of {channel.inflight_bytes} bytes unacknowledged, "
            f"{len(peer.channels)} channels left"
        )
        self.activate()

    def slots_on(self, rail: int) -> int:
        """How many channels should be on a rail."""
        return 0 if self._dialing is None else self._dialing.wanted_on(rail)

    def abort(self, reason: str) -> None:
        """A caller gives the group up."""
        with self.engine.lock:
            self.fail(AbortedError(f"rank {self.rank} aborted: {reason}"), Cause.ABORT)

    def tell(self, text: str) -> None:
        """Log an event, and keep it for the status."""
        self.events.append(f"{time.strftime('%H:%M:%S')} {text}")
        log.warning("rank %d: %s", self.rank, text)

    def note(self, text: str) -> None:
        """Log what is of interest only to those who look closer."""
        log.info("rank %d: %s", self.rank, text)

    def _on_carrier(self, _event: int) -> None:
        for index, has in self._watch.read():
            for number, rail in enumerate(self.rails):
                if self._indexes[number] != index or self.carrier[number] == has:
                    continue
                self.carrier[number] = has
                self.tell(f"rail {rail.name}: carrier {'is back' if has else 'lost'}")
                self._carrier_changed(number, has)

    def _carrier_changed(self, number: int, has: bool) -> None:
        if self._dialing is None:
            return
        if not has:
            self.relays.lost_rail(self.rails[number].name)
        for slot in self._dialing.slots_on(number):
            if not self.places.is_remote(slot.peer):
                continue
            if has:
                slot.comeback.hurry(time.monotonic())
            elif slot.channel is not None and slot.channel.open:
                self.drop(slot.channel, "its interface lost the carrier")
        self.activate()

    # Company of the peers.

    def finished(self, transfer: Transfer, error: TransportError | None) -> None:
        """A transfer is done; its callbacks run once the lock is free."""
        if not transfer.done and transfer.finish(error):
            self._done.append(transfer)

    def mismatch(self, peer: int, message: str) -> None:
        """Two ranks called different things."""
        del peer
        self.fail(MismatchError(message), Cause.MISMATCH)

    def aborted_by(self, peer: int, cause: int, reason: str) -> None:
        """A rank gave the group up."""
        kind = {int(c): k for c, k in _CAUSES.items()}.get(cause, AbortedError)
        self.fail(kind(reason), None, told_by=peer)

    def broke(self, error: Exception) -> None:
        """A bug: nothing can go on."""
        text = f"a bug in the transport of rank {self.rank}: {type(error).__name__}: {error}"
        self.fail(AbortedError(text), Cause.ABORT)

    def fail(self, error: TransportError, cause: Cause | None, told_by: int | None = None) -> None:
        """The group is given up: all transfers end with the error; with a cause the others are told."""
        if self.error is not None:
            return
        self.error = error
        if self.commons is not None:
            self.commons.revoke()
        self.tell(f"given up{'' if told_by is None else f', says rank {told_by}'}: {error}")
        for receive in self.matching.drain():
            self.finished(receive.transfer, error)
        for peer in self.peers.values():
            for transfer in peer.abandon():
                self.finished(transfer, error)
            if cause is not None:
                peer.tell_abort(cause, str(error))
            self._touched[peer.rank] = peer
        self.engine.kick()

    def disown(self) -> None:
        """In a forked child: close its copies of all descriptors, touch nothing that is shared."""
        for peer in self.peers.values():
            for channel in peer.channels.values():
                channel.stream.close()
        for owner in (self._doors, self.relays, self._dialing):
            for link in () if owner is None else owner.links():
                link.close()
        self._watch.close()
        self.engine.close()

    # The end.

    def flushed(self) -> bool:
        """Whether every peer has what it is to have, or cannot be reached."""
        with self.engine.lock:
            return not any(p.channels and p.outstanding() for p in self.peers.values())

    def shut(self) -> None:
        """Say BYE and close everything; nobody drives any more."""
        with self.engine.lock:
            self.closing = True
            for peer in self.peers.values():
                for channel in list(peer.channels.values()):
                    channel.bye_now = True
                peer.pump()
                for channel in list(peer.channels.values()):
                    self.engine.forget(channel.stream.fileno())
                    channel.shut()
                peer.channels.clear()
            for _, lending in self._lendings:
                lending.forget()
            if self._dialing is not None:
                self._dialing.close()
            self.relays.close()
            self._doors.close()
            self.engine.forget(self._watch.socket.fileno())
            self._watch.close()
            if self.commons is not None:
                self.commons.revoke()
            closed = AbortedError("the transport was closed")
            self.error = self.error or closed
            for receive in self.matching.drain():
                self.finished(receive.transfer, self.error)
            for peer in self.peers.values():
                for transfer in peer.abandon():
                    self.finished(transfer, self.error)
        self.engine.close()
        self.engine.run_callbacks()


def _interface_indexes(rails: list[Rail]) -> list[int]:
    find: Callable[[str], int] = socket.if_nametoindex
    return [find(rail.device) if rail.device else 0 for rail in rails]
