"""Which channels there should be toward each peer, and attempts to open those that are not there.

Of two ranks the lower one connects. A channel belongs to a rail of each side: to one of the same
network where there is one, else to that of the same number; while no channel at all reaches the peer,
every other attempt goes to another of its rails.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from sglb.collective.transport.channel import Channel
from sglb.collective.transport.connections import Greeting, Link, dial, knock
from sglb.collective.transport.errors import WireError
from sglb.collective.transport.failback import Comeback
from sglb.collective.transport.handshake import Outgoing, group_id
from sglb.collective.transport.lending import Lending
from sglb.collective.transport.memory import MemoryStream, discard
from sglb.collective.transport.places import NO_RAIL, Slot
from sglb.collective.transport.relay import hop_hello
from sglb.collective.transport.rendezvous import Met
from sglb.collective.transport.wire import (
    HOP_CHANNEL,
    MEMORY_CHANNEL,
    RELAY_CHANNEL,
    VERSION,
    Hello,
)

if TYPE_CHECKING:
    from sglb.collective.transport.group import Group

#: Attempts over shared memory after which ranks of one host try their rails.
_MEMORY_ATTEMPTS = 2


class Dialing:
    """The slots of all peers."""

    def __init__(self, group: Group, met: Met) -> None:
        self._group = group
        self._met = met
        self._slots: dict[int, dict[int, Slot]] = {rank: {} for rank in group.peers}
        self._probes: dict[int, Greeting] = {}
        self._next_probe: dict[int, float] = {}
        now = time.monotonic()
        for rank, slots in self._slots.items():
            if rank < group.rank:
                continue  # it connects
            if group.places.shares_memory(rank):
                comeback = Comeback(group.settings, now)
                slots[MEMORY_CHANNEL] = Slot(rank, MEMORY_CHANNEL, NO_RAIL, NO_RAIL, comeback)
            pairs = group.places.pairs_to(rank)
            for index in range(len(pairs) * group.settings.channels_per_rail):
                rail, remote = pairs[index % len(pairs)]
                slots[index] = Slot(rank, index, rail, remote, Comeback(group.settings, now))

    def slot(self, rank: int, index: int, rail: int, remote: int) -> Slot:
        """The slot of a connection that a peer made."""
        slots = self._slots[rank]
        if index not in slots:
            comeback = Comeback(self._group.settings, time.monotonic())
            slots[index] = Slot(rank, index, rail, remote, comeback)
        slot = slots[index]
        slot.rail, slot.remote = rail, remote
        if RELAY_CHANNEL <= index < HOP_CHANNEL:
            slot.via = index - RELAY_CHANNEL
        return slot

    def slots_on(self, rail: int) -> list[Slot]:
        """Slots whose own rail this is."""
        return [s for slots in self._slots.values() for s in slots.values() if s.rail == rail]

    def wanted_on(self, rail: int) -> int:
        """How many channels there should be on an own rail, those that are included."""
        return sum(
            slot.channel is not None or self._wanted(slot, slots)
            for slots in self._slots.values()
            for slot in slots.values()
            if slot.rail == rail
        )

    def slots_to(self, rank: int) -> list[Slot]:
        """Slots toward a peer."""
        return list(self._slots[rank].values())

    def lost(self, rank: int, channel: Channel, now: float) -> Slot:
        """A slot's connection was lost."""
        slot = self._slots[rank][channel.index]
        if slot.channel is channel:
            slot.channel = None
            slot.comeback.lost(now)
        slot.last_progress = channel.progress_at
        return slot

    def attempt(self, now: float) -> bool:
        """Try what is due, trust what has stood its probation. Whether anything is missing."""
        imperfect = False
        for rank, slots in self._slots.items():
            self._detour(rank, slots)
            if rank < self._group.rank:
                self._probe(rank, now)
            for slot in slots.values():
                if slot.channel is not None:
                    self._trust(slot, now)
                    imperfect |= not slot.channel.up
                elif self._wanted(slot, slots):
                    imperfect = True
                    self._try(slot, now)
        return imperfect

    def _probe(self, rank: int, now: float) -> None:
        """Find out whether a peer that has to connect, and does not, has ended."""
        group = self._group
        peer = group.peers[rank]
        probe = self._probes.get(rank)
        if probe is not None and not probe.over:
            if probe.deadline < now:
                probe.fail(WireError("no answer in time"))
            return
        missed = peer.wanted() or peer.awaited
        known = peer.channels or peer.gone is not None or peer.leaving
        if known or not missed or now < self._next_probe.get(rank, 0.0):
            return
        self._next_probe[rank] = now + group.settings.retry_s
        try:
            if group.places.shares_memory(rank):
                with suppress(FileNotFoundError):  # its rails tell whether it has ended
                    knock(self._met.records[rank].door).close()
                    return
            own, remote = group.places.pairs_to(rank)[0]
            sock = self._connect(rank, own, remote)
        except OSError as error:
            self._probed(rank, error)
            return
        self._probes[rank] = Greeting(
            group.engine,
            sock,
            Outgoing(self._met.secret, hop_hello(group, rank, 0)),
            group.settings.handshake_s,
            lambda greeting: greeting.link.close(),
            lambda _greeting, error: self._probed(rank, error),
        )

    def _probed(self, rank: int, error: Exception) -> None:
        if isinstance(error, ConnectionRefusedError):
            self._group.refused(rank)

    def direct(self, rank: int) -> bool:
        """Whether a peer is reached without the help of others."""
        return any(
            s.channel is not None and s.channel.up and s.via is None
            for s in self._slots[rank].values()
        )

    def _wanted(self, slot: Slot, slots: dict[int, Slot]) -> bool:
        """Rails between ranks of one host are used only where shared memory is not."""
        memory = slots.get(MEMORY_CHANNEL)
        if memory is None or slot is memory or slot.via is not None:
            return True
        return memory.channel is None and memory.attempts >= _MEMORY_ATTEMPTS

    def _detour(self, rank: int, slots: dict[int, Slot]) -> None:
        """Open ways through others while no own way leads to a peer; close them when one does."""
        group = self._group
        if rank < group.rank or group.places.shares_memory(rank) or not group.settings.relay:
            return
        direct = [s for s in slots.values() if s.via is None]
        if self.direct(rank):
            for slot in [s for s in slots.values() if s.via is not None]:
                if slot.channel is not None:
                    group.drop(slot.channel, "a direct way is back", quiet=True)
                if slot.greeting is not None:
                    slot.greeting.fail(WireError("a direct way is back"))
                del slots[slot.index]
            return
        if not all(s.attempts for s in direct) or group.peers[rank].leaving:
            return
        for via in group.places.neighbours(rank):
            index = RELAY_CHANNEL + via
            if index not in slots:
                comeback = Comeback(group.settings, time.monotonic())
                slots[index] = Slot(rank, index, NO_RAIL, NO_RAIL, comeback, via)
                slots[index].epoch = group.peers[rank].ledger.last_epoch(index)

    def _trust(self, slot: Slot, now: float) -> None:
        channel = slot.channel
        assert channel is not None
        if not channel.up and slot.comeback.trusted(now):
            channel.up = True
            peer = self._group.peers[slot.peer]
            peer.stats.failbacks += 1
            self._group.tell(
                f"rail {channel.rails[0]} to rank {slot.peer} ({channel.rails[1]}) carries data again"
            )
            self._group.touch(channel)

    def _try(self, slot: Slot, now: float) -> None:
        group = self._group
        if slot.greeting is not None:
            if slot.greeting.deadline < now:
                slot.greeting.fail(WireError("no answer in time"))
            return
        peer = group.peers[slot.peer]
        over = peer.leaving or peer.gone is not None
        if slot.peer < group.rank or over or now < slot.comeback.next_try:
            return
        if (
            slot.rail != NO_RAIL
            and group.places.is_remote(slot.peer)
            and not group.carrier[slot.rail]
        ):
            slot.attempts += 1
            slot.last_error = "no carrier"
            slot.comeback.failed(now)
            return
        slot.attempts += 1
        slot.epoch += 1
        try:
            self._dial(slot)
        except OSError as error:
            self._failed(slot, error)

    def _dial(self, slot: Slot) -> None:
        if slot.via is not None:
            self._dial_hop(slot, slot.via)
        elif slot.rail == NO_RAIL:
            side = Outgoing(self._met.secret, self._hello(slot))
            door = knock(self._met.records[slot.peer].door)
            lending = self._lend(side.nonce)

            def attached(greeting: Greeting) -> None:
                slot.greeting = None
                self._group.adopt(slot, greeting.link, slot.epoch, lending)

            slot.greeting = self._greeting(slot, door, side, attached, side.nonce, connected=True)
            slot.greeting.start()
        else:
            self._dial_rail(slot)

    def _dial_rail(self, slot: Slot) -> None:
        theirs = self._met.records[slot.peer].rails
        remote = slot.home
        if not self._group.peers[slot.peer].channels:
            remote = (slot.home + slot.attempts - 1) % len(theirs)
        sock = self._connect(slot.peer, slot.rail, remote)

        def done(greeting: Greeting) -> None:
            slot.greeting = None
            slot.remote = remote
            self._group.adopt(slot, greeting.link, slot.epoch)

        side = Outgoing(self._met.secret, self._hello(slot))
        slot.greeting = self._greeting(slot, sock, side, done)

    def _dial_hop(self, slot: Slot, via: int) -> None:
        """To a neighbour first; inside that connection, to the peer."""
        group = self._group
        side = Outgoing(self._met.secret, hop_hello(group, via, slot.peer + 1))
        link: Link
        if group.places.shares_memory(via):
            link, memory = self._open_memory(via, side.nonce)
            inner: Link = memory
            nonce = side.nonce
        else:
            pairs = group.live_pairs(via)
            if not pairs:
                raise OSError(errno.ENETDOWN, "no rail of this rank reaches it")
            own, remote = pairs[(via + slot.attempts) % len(pairs)]
            link = inner = self._connect(via, own, remote)
            nonce = b""

        def hopped(_greeting: Greeting) -> None:
            ends = Outgoing(self._met.secret, self._hello(slot))
            slot.greeting = self._greeting(slot, inner, ends, arrived, connected=True)
            slot.greeting.start()

        def arrived(_greeting: Greeting) -> None:
            slot.greeting = None
            group.adopt(slot, inner, slot.epoch)

        local = bool(nonce)
        slot.greeting = self._greeting(slot, link, side, hopped, nonce, connected=local)
        if local:
            slot.greeting.start()

    def _connect(self, rank: int, own: int, remote: int) -> socket.socket:
        group = self._group
        record = self._met.records[rank].rails[remote]
        return dial(
            group.rails[own],
            group.places.device_toward(rank, own),
            record.address,
            record.port,
            group.settings.unsent_bytes,
        )

    def _lend(self, nonce: bytes) -> Lending | None:
        if not self._group.settings.single_copy:
            return None
        try:
            return Lending.create(nonce)
        except OSError as error:
            self._group.note(f"nothing can be lent to ranks of this host: {error}")
            return None

    def _open_memory(self, rank: int, nonce: bytes) -> tuple[socket.socket, MemoryStream]:
        door = knock(self._met.records[rank].door)
        try:
            return door, MemoryStream.create(door, nonce)
        except OSError:
            door.close()
            raise

    def _hello(self, slot: Slot) -> Hello:
        return Hello(
            version=VERSION,
            relay=0,
            source=self._group.rank,
            target=slot.peer,
            epoch=slot.epoch,
            channel=slot.index,
            rail=max(slot.rail, 0),
            group=group_id(self._met.name),
            nonce=b"",
        )

    def _greeting(
        self,
        slot: Slot,
        link: Link,
        side: Outgoing,
        done: Callable[[Greeting], None],
        nonce: bytes = b"",
        *,
        connected: bool = False,
    ) -> Greeting:
        settings = self._group.settings

        def failed(_greeting: Greeting, error: Exception) -> None:
            discard(nonce)
            self._failed(slot, error)

        return Greeting(
            self._group.engine,
            link,
            side,
            min(settings.handshake_s, max(10 * settings.detection_s, 1.0)),
            done,
            failed,
            connected=connected,
        )

    def _failed(self, slot: Slot, error: Exception) -> None:
        slot.greeting = None
        slot.last_error = str(error) or type(error).__name__
        name = self._group.places.names(slot)[0]
        if slot.attempts.bit_count() == 1:  # 1, 2, 4, 8 ...
            self._group.note(
                f"{name} to rank {slot.peer}: attempt {slot.attempts}: {slot.last_error}"
            )
        slot.comeback.failed(time.monotonic())
        if isinstance(error, FileNotFoundError):
            # No door: the process has ended, or has a file system of its own. Its rails will tell.
            slot.attempts = max(slot.attempts, _MEMORY_ATTEMPTS)
        if isinstance(error, ConnectionRefusedError) and slot.via is None:
            self._group.refused(slot.peer)

    def forgive(self, late: float) -> None:
        """Give all attempts that much more time."""
        for slots in self._slots.values():
            for slot in slots.values():
                if slot.greeting is not None:
                    slot.greeting.deadline += late

    def last_error(self, rank: int) -> str:
        """What was last heard of attempts to reach a peer."""
        errors = [slot.last_error for slot in self._slots[rank].values() if slot.last_error]
        return errors[-1] if errors else "it has not connected"

    def story(self, rank: int, now: float) -> str:
        """Per rail toward a peer: when something was last acknowledged, and what attempts met."""
        parts = []
        for slot in self.slots_to(rank):
            mine, theirs = self._group.places.names(slot)
            last = f"last progress {now - slot.last_progress:.1f} s ago"
            why = slot.last_error or "waiting for the peer to connect"
            parts.append(f"rail {mine}-{theirs}: {last}, {why}")
        return "; ".join(parts) or "no rail ever reached it"

    def links(self) -> list[Link]:
        """Connections that are being made."""
        slots = [slot for slots in self._slots.values() for slot in slots.values()]
        greetings = [slot.greeting for slot in slots if slot.greeting is not None]
        return [g.link for g in (*greetings, *self._probes.values()) if not g.over]

    def close(self) -> None:
        """Give up attempts."""
        for probe in self._probes.values():
            probe.fail(WireError("closing"))
        for slots in self._slots.values():
            for slot in slots.values():
                if slot.greeting is not None:
                    slot.greeting.fail(WireError("closing"))
