"""What a rank does for others of its host: pass bytes on between their memory and one of its rails.

A rank none of whose rails reaches a peer connects to a neighbour (over shared memory, or, from the
other side, over a rail), which connects to the peer; inside, the two ranks at the ends prove
themselves to each other and run a channel as over any connection. The neighbour reads the memory of
the one side straight into its socket, and its socket straight into that memory.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from sglb.collective.transport.connections import (
    Greeting,
    Link,
    dial,
    knock,
    prepare,
    watch_link,
)
from sglb.collective.transport.errors import WireError
from sglb.collective.transport.handshake import Outgoing, group_id
from sglb.collective.transport.memory import MemoryStream, discard
from sglb.collective.transport.wire import HOP_CHANNEL, VERSION, Hello

if TYPE_CHECKING:
    from sglb.collective.transport.group import Group

_TURN_BYTES = 1 << 20


def hop_hello(group: Group, target: int, relay: int) -> Hello:
    """The HELLO of a connection to a relay, or from it to the target."""
    return Hello(
        version=VERSION,
        relay=relay,
        source=group.rank,
        target=target,
        epoch=0,
        channel=HOP_CHANNEL,
        rail=0,
        group=group_id(group.met.name),
        nonce=b"",
    )


class Splice:
    """Bytes between shared memory and a socket, both ways, until either ends."""

    def __init__(self, group: Group, memory: MemoryStream, sock: socket.socket, rail: str) -> None:
        self.stream = sock
        self.rail = rail
        self.rtt_s = 0.0
        self.stalled: tuple[float, int] | None = None
        self.passed_bytes = 0
        self.open = True
        self._group = group
        self._memory = memory
        watch_link(group.engine, memory, self._on_event)
        watch_link(group.engine, sock, self._on_event)

    def _on_event(self, _event: int) -> None:
        self._group.relays.ready(self)

    def pump(self) -> bool:
        """Move what can be moved, up to a limit; whether there may be more."""
        try:
            out = self._out()
            return self._in() or out
        except (OSError, EOFError):
            self.close()
            return False

    def _out(self) -> bool:
        budget = _TURN_BYTES
        while budget > 0:
            held = self._memory.wait_for_bytes()
            if not held:
                if self._memory.ended:
                    raise EOFError
                return False
            try:
                count = self.stream.send(held)
            except BlockingIOError:
                return False
            self._memory.took(count)
            self.passed_bytes += count
            budget -= count
        return True

    def _in(self) -> bool:
        budget = _TURN_BYTES
        while budget > 0:
            room = self._memory.wait_for_room()
            if not room:
                return False
            try:
                count = self.stream.recv_into(room)
            except BlockingIOError:
                return False
            if not count:
                raise EOFError
            self._memory.wrote(count)
            self.passed_bytes += count
            budget -= count
        return True

    def links(self) -> tuple[Link, Link]:
        """Its two ends."""
        return self._memory, self.stream

    def close(self) -> None:
        """End it; both ranks notice at once."""
        if not self.open:
            return
        self.open = False
        self._group.engine.forget(self._memory.fileno())
        self._group.engine.forget(self.stream.fileno())
        self._memory.close()
        self.stream.close()


class Relays:
    """All that a rank passes on."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._splices: list[Splice] = []
        self._ready: list[Splice] = []
        self._greetings: set[Greeting] = set()
        self._turn = 0
        self._past_bytes = 0

    def begin(self, link: Link, hello: Hello) -> None:
        """A rank asks to be passed on to another; closes the link when that cannot be."""
        target = hello.relay - 1
        try:
            if isinstance(link, MemoryStream):
                self._to_rail(link, target)
            else:
                prepare(link, "", self._group.settings.unsent_bytes)
                self._to_memory(link, target)
        except OSError as error:
            self._group.note(f"cannot pass rank {hello.source} on to rank {target}: {error}")
            link.close()

    def _to_rail(self, memory: MemoryStream, target: int) -> None:
        group = self._group
        pairs = group.live_pairs(target)
        if not pairs:
            raise OSError("no rail of this rank reaches it")
        self._turn += 1
        own, remote = pairs[self._turn % len(pairs)]
        rail = group.rails[own]
        record = group.met.records[target].rails[remote]
        device = group.places.device_toward(target, own)
        sock = dial(rail, device, record.address, record.port, group.settings.unsent_bytes)
        side = Outgoing(group.met.secret, hop_hello(group, target, 0))
        self._greet(sock, side, lambda: self._join(memory, sock, rail.name), memory, b"")

    def _to_memory(self, sock: socket.socket, target: int) -> None:
        group = self._group
        side = Outgoing(group.met.secret, hop_hello(group, target, 0))
        door = knock(group.met.records[target].door)
        try:
            memory = MemoryStream.create(door, side.nonce)
        except OSError:
            door.close()
            raise
        self._greet(door, side, lambda: self._join(memory, sock, ""), sock, side.nonce)

    def _greet(self, link: Link, side: Outgoing, joined: object, other: Link, nonce: bytes) -> None:
        group = self._group

        def done(greeting: Greeting) -> None:
            self._greetings.discard(greeting)
            assert callable(joined)
            joined()

        def failed(greeting: Greeting, error: Exception) -> None:
            self._greetings.discard(greeting)
            discard(nonce)
            other.close()
            group.note(f"cannot pass on: {error}")

        local = bool(nonce)
        greeting = Greeting(
            group.engine,
            link,
            side,
            group.settings.handshake_s,
            done,
            failed,
            connected=local,
        )
        self._greetings.add(greeting)
        if local:
            greeting.start()

    def _join(self, memory: MemoryStream, sock: socket.socket, rail: str) -> None:
        splice = Splice(self._group, memory, sock, rail)
        self._splices.append(splice)
        self.ready(splice)

    def ready(self, splice: Splice) -> None:
        """It may have something to move."""
        if splice not in self._ready:
            self._ready.append(splice)

    def pump(self) -> bool:
        """Move what can be moved; whether there may be more."""
        ready, self._ready = self._ready, []
        for splice in ready:
            if splice.open and splice.pump():
                self.ready(splice)
        return bool(self._ready)

    def tick(self, now: float) -> bool:
        """Look after all; whether there are any."""
        for greeting in [g for g in self._greetings if g.deadline < now]:
            greeting.fail(WireError("no answer in time"))
        for splice in self._splices:
            reason = self._group.health.check(splice, now) if splice.open else ""
            if reason:
                self._group.note(f"what is passed on over rail {splice.rail} ends: {reason}")
                splice.close()
            else:
                self.ready(splice)  # in case that a wake-up was lost
        self._past_bytes += sum(s.passed_bytes for s in self._splices if not s.open)
        self._splices = [s for s in self._splices if s.open]
        return bool(self._splices or self._greetings)

    def lost_rail(self, name: str) -> None:
        """A rail has no carrier: what passes over it must go elsewhere."""
        for splice in self._splices:
            if splice.rail == name:
                splice.close()

    def links(self) -> list[Link]:
        """All that is open."""
        found: list[Link] = [greeting.link for greeting in self._greetings]
        for splice in self._splices:
            if splice.open:
                found += splice.links()
        return found

    @property
    def passed_bytes(self) -> int:
        """Bytes passed on so far, both ways."""
        return self._past_bytes + sum(s.passed_bytes for s in self._splices)

    def close(self) -> None:
        """End all."""
        for greeting in list(self._greetings):
            greeting.fail(WireError("closing"))
        for splice in self._splices:
            splice.close()
