"""Which channels there should be toward each peer, and attempts to open those that are not there.

Of two ranks the lower one connects. A channel belongs to a rail of each side: to one of the same
network where there is one, else to that of the same number; while no channel at all reaches the peer,
every other attempt goes to another of its rails.
"""

from __future__ import annotations

import errno
import logging
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sglb.collective.transport.channel import Channel
from sglb.collective.transport.connections import Greeting, dial
from sglb.collective.transport.errors import WireError
from sglb.collective.transport.failback import Comeback
from sglb.collective.transport.handshake import Outgoing, group_id
from sglb.collective.transport.rails import Rail
from sglb.collective.transport.rendezvous import Met, RailRecord
from sglb.collective.transport.wire import VERSION, Hello

if TYPE_CHECKING:
    from sglb.collective.transport.group import Group

log = logging.getLogger("sglb.collective")


@dataclass(slots=True)
class Slot:
    """A channel that should be: `index` toward `peer`, from own rail to one of its."""

    peer: int
    index: int
    rail: int
    remote: int
    comeback: Comeback
    epoch: int = 0
    channel: Channel | None = None
    greeting: Greeting | None = None
    attempts: int = 0
    last_error: str = ""
    last_progress: float = field(default_factory=time.monotonic)


def pair_rails(mine: list[Rail], theirs: tuple[RailRecord, ...]) -> list[tuple[int, int]]:
    """(own, remote) rails of the channels: each rail of the side that has more stands in one."""
    left = set(range(len(theirs)))
    pairs = []
    for own, rail in enumerate(mine):
        near = [r for r in sorted(left) if rail.shares_network(theirs[r].address)]
        same = [own] if own in left else []
        choice = same if same and (own in near or not near) else near
        remote = choice[0] if choice else own % len(theirs)
        left.discard(remote)
        pairs.append((own, remote))
    return pairs + [(remote % len(mine), remote) for remote in sorted(left)]


class Dialing:
    """The slots of all peers."""

    def __init__(self, group: Group, met: Met) -> None:
        self._group = group
        self._met = met
        self._slots: dict[int, dict[int, Slot]] = {rank: {} for rank in group.peers}
        now = time.monotonic()
        for rank, slots in self._slots.items():
            if rank < group.rank:
                continue  # it connects
            pairs = pair_rails(group.rails, met.records[rank].rails)
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
        return slot

    def slots_on(self, rail: int) -> list[Slot]:
        """Slots whose own rail this is."""
        return [s for slots in self._slots.values() for s in slots.values() if s.rail == rail]

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
        for slots in self._slots.values():
            for slot in slots.values():
                if slot.channel is not None:
                    self._trust(slot, now)
                    imperfect |= not slot.channel.up
                else:
                    imperfect = True
                    self._try(slot, now)
        return imperfect

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
        if slot.peer < group.rank or peer.leaving or now < slot.comeback.next_try:
            return
        if group.is_remote(slot.peer) and not group.carrier[slot.rail]:
            slot.last_error = "no carrier"
            slot.comeback.failed(now)
            return
        self._dial(slot)

    def _dial(self, slot: Slot) -> None:
        group = self._group
        theirs = self._met.records[slot.peer].rails
        slot.attempts += 1
        slot.epoch += 1
        remote = slot.remote
        if not group.peers[slot.peer].channels:
            remote = (slot.remote + slot.attempts - 1) % len(theirs)
        rail = group.rails[slot.rail]
        device = rail.device if group.is_remote(slot.peer) and group.settings.bind_device else ""
        try:
            sock = dial(
                rail,
                device,
                theirs[remote].address,
                theirs[remote].port,
                group.settings.unsent_bytes,
            )
        except OSError as error:
            self._failed(slot, error)
            return
        hello = Hello(
            VERSION,
            group.rank,
            slot.peer,
            slot.epoch,
            slot.index,
            slot.rail,
            group_id(self._met.name),
            b"",
        )

        def done(greeting: Greeting) -> None:
            slot.greeting = None
            slot.remote = remote
            group.adopt(slot, greeting.sock, slot.epoch)

        slot.greeting = Greeting(
            group.engine,
            sock,
            Outgoing(self._met.secret, hello),
            min(group.settings.handshake_s, max(10 * group.settings.detection_s, 1.0)),
            done,
            lambda _greeting, error: self._failed(slot, error),
        )

    def _failed(self, slot: Slot, error: Exception) -> None:
        slot.greeting = None
        slot.last_error = str(error) or type(error).__name__
        mine = self._group.rails[slot.rail].name
        log.info(
            "rank %d: rail %s to rank %d: attempt %d failed: %s",
            self._group.rank,
            mine,
            slot.peer,
            slot.attempts,
            slot.last_error,
        )
        slot.comeback.failed(time.monotonic())
        if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
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
            mine = self._group.rails[slot.rail].name
            theirs = self._met.records[rank].rails[slot.remote].name
            last = f"last progress {now - slot.last_progress:.1f} s ago"
            why = slot.last_error or "waiting for the peer to connect"
            parts.append(f"rail {mine}-{theirs}: {last}, {why}")
        return "; ".join(parts) or "no rail ever reached it"

    def close(self) -> None:
        """Give up attempts."""
        for slots in self._slots.values():
            for slot in slots.values():
                if slot.greeting is not None:
                    slot.greeting.fail(WireError("closing"))


def linger_nothing(sock: socket.socket) -> None:
    """Let the kernel forget what is unsent when the socket is closed."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
