"""Connections before they are channels: listening, connecting, and proving who is there.

Whoever connects may be anybody: at most `MAX_STRANGERS` at a time are heard, each for at most
`handshake_s`, and of each no more than one message of the handshake is held.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from sglb.collective.transport.channel import ByteStream
from sglb.collective.transport.engine import Engine
from sglb.collective.transport.errors import RendezvousError, WireError
from sglb.collective.transport.handshake import Incoming, Outgoing, RefusedError
from sglb.collective.transport.memory import MemoryStream
from sglb.collective.transport.rails import Rail
from sglb.collective.transport.wire import Hello

_log = logging.getLogger("sglb.collective")

MAX_STRANGERS = 64
_BACKLOG = 512
LOCAL_BUFFER_BYTES = 1 << 20
_UNSENT_S = 0.003
_MAX_UNSENT_BYTES = 4 << 20


def listen(rail: Rail) -> socket.socket:
    """A listening socket on a rail, any port. Raises OSError."""
    door = socket.socket(rail.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        door.bind((rail.address, 0))
        door.listen(_BACKLOG)
    except OSError:
        door.close()
        raise
    return door


def knock(path: str) -> socket.socket:
    """A socket connected to a rank's door on this host. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LOCAL_BUFFER_BYTES)
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock


def address_of(sock: socket.socket) -> str:
    """The other side's address, '' once it is gone."""
    with suppress(OSError):
        return str(sock.getpeername()[0])
    return ""


def prepare(sock: socket.socket, device: str, unsent_bytes: int) -> None:
    """Options of a connection; ties it to an interface where the kernel lets us."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)
    if device:
        with suppress(OSError):  # PermissionError: then the address alone decides
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode() + b"\0")


def forget_unsent(stream: ByteStream) -> None:
    """Let the kernel forget what is under way once the stream is closed: it is sent elsewhere."""
    if isinstance(stream, socket.socket) and stream.family != socket.AF_UNIX:
        with suppress(OSError):
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Pace:
    """Lets the kernel hold unsent what a connection sends in a moment, `least` bytes at any rate."""

    def __init__(self, sock: socket.socket, least: int) -> None:
        self._sock = sock
        self._least = self._now = least

    def __call__(self, rate: float) -> None:
        """Adapt to a rate in bytes a second, not to each small change."""
        wanted = min(max(int(rate * _UNSENT_S), self._least), _MAX_UNSENT_BYTES)
        if not self._now / 2 < wanted < 2 * self._now:
            self._now = wanted
            with suppress(OSError):
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, wanted)


def dial(rail: Rail, device: str, address: str, port: int, unsent_bytes: int) -> socket.socket:
    """A socket that connects from a rail to an address. Raises OSError."""
    sock = socket.socket(rail.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        prepare(sock, device, unsent_bytes)
        sock.bind((rail.address, 0))
        code = sock.connect_ex((address, port))
        if code not in {0, errno.EINPROGRESS}:
            raise OSError(code, os.strerror(code))
    except OSError:
        sock.close()
        raise
    return sock


Link = socket.socket | MemoryStream


def watch_link(engine: Engine, link: Link, handler: Callable[[int], None]) -> None:
    """Call the handler with what a link is ready for; shared memory may always be ready for both.

    A Unix socket tells of room each time its other end reads: only who asks for that hears of it.
    """
    if isinstance(link, socket.socket):
        engine.watch(link.fileno(), handler, writing=link.family != socket.AF_UNIX)
        return

    def drained(_event: int) -> None:
        link.drain()
        handler(select.EPOLLIN | select.EPOLLOUT)

    engine.watch(link.fileno(), drained, writing=False)


class Greeting:
    """A connection in its handshake. Calls `done(greeting)` or `failed(greeting, error)`, once.

    `connected`: the link stands already; then `start` has to be called.
    """

    def __init__(
        self,
        engine: Engine,
        link: Link,
        side: Incoming | Outgoing,
        timeout_s: float,
        done: Callable[[Greeting], None],
        failed: Callable[[Greeting, Exception], None],
        *,
        connected: bool = False,
    ) -> None:
        self.link = link
        self.side = side
        self.deadline = time.monotonic() + timeout_s
        self._engine = engine
        self._done = done
        self._failed = failed
        self._held = b""
        self._connecting = isinstance(side, Outgoing) and not connected
        self.over = False
        watch_link(engine, link, self._on_event)

    def start(self) -> None:
        """Begin on a link that stands."""
        try:
            if isinstance(self.side, Outgoing):
                self.link.send(self.side.begin())
            self._read()
        except (OSError, EOFError, WireError, RendezvousError) as error:
            self.fail(error)

    @property
    def hello(self) -> Hello | None:
        """What the other side said of itself, once it has."""
        return self.side.hello if isinstance(self.side, Incoming) else None

    def _on_event(self, event: int) -> None:
        try:
            if self._connecting and not self._connect(event):
                return
            self._read()
        except (OSError, EOFError, WireError, RendezvousError) as error:
            self.fail(error)

    def _connect(self, event: int) -> bool:
        if not event & (select.EPOLLOUT | select.EPOLLERR | select.EPOLLHUP):
            return False
        assert isinstance(self.link, socket.socket)
        assert isinstance(self.side, Outgoing)
        code = self.link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        self._connecting = False
        self.link.send(self.side.begin())
        return True

    def _read(self) -> None:
        while self.side.need:
            try:
                data = self.link.recv(self.side.need - len(self._held))
            except BlockingIOError:
                return
            if not data:
                raise EOFError("the other side closed the connection")
            self._held += data
            if len(self._held) < self.side.need:
                continue
            message, self._held = self._held, b""
            answer = self.side.feed(message)
            if answer:
                self.link.send(answer)  # the first bytes on this socket: there is room
        self.over = True
        self._engine.forget(self.link.fileno())
        self._done(self)

    def fail(self, error: Exception) -> None:
        """Give it up."""
        if self.over:
            return
        self.over = True
        self._engine.forget(self.link.fileno())
        if isinstance(error, RefusedError):
            with suppress(OSError):
                self.link.send(error.last)
        self.link.close()
        self._failed(self, error)


class Doors:
    """Listening sockets of all rails, and the strangers at them."""

    def __init__(
        self,
        engine: Engine,
        timeout_s: float,
        greet: Callable[[], Incoming],
        adopt: Callable[[Greeting, int], None],
    ) -> None:
        self._engine = engine
        self._timeout_s = timeout_s
        self._greet = greet
        self._adopt = adopt
        self._sockets: list[socket.socket] = []
        self._strangers: set[Greeting] = set()
        self.turned_away = 0

    def open(self, door: socket.socket, rail: int) -> None:
        """Accept on a listening socket; `rail` goes to `adopt`."""
        self._sockets.append(door)
        self._engine.watch(door.fileno(), lambda _event: self._accept(door, rail))

    def _accept(self, door: socket.socket, rail: int) -> None:
        while True:
            try:
                sock, _ = door.accept()
            except BlockingIOError:
                return
            except OSError as error:
                _log.warning("cannot accept a connection: %s", error)
                return
            if len(self._strangers) >= MAX_STRANGERS:
                self.turned_away += 1
                sock.close()
                continue
            sock.setblocking(False)
            self._strangers.add(self._hear(sock, rail, connected=False))

    def _hear(self, link: Link, rail: int, *, connected: bool) -> Greeting:
        return Greeting(
            self._engine,
            link,
            self._greet(),
            self._timeout_s,
            lambda greeting: self._come_in(greeting, rail),
            self._turn_away,
            connected=connected,
        )

    def hear(self, link: Link, rail: int) -> None:
        """Another handshake begins inside a connection that has proved itself."""
        greeting = self._hear(link, rail, connected=True)
        self._strangers.add(greeting)
        greeting.start()

    def _come_in(self, greeting: Greeting, rail: int) -> None:
        self._strangers.discard(greeting)
        self._adopt(greeting, rail)

    def _turn_away(self, greeting: Greeting, error: Exception) -> None:
        self._strangers.discard(greeting)
        self.turned_away += 1
        level = logging.INFO if isinstance(error, EOFError) else logging.WARNING
        _log.log(level, "a connection was turned away: %s", error)

    def expire(self, now: float) -> None:
        """Give up strangers that have not proved themselves in time."""
        for greeting in [g for g in self._strangers if g.deadline < now]:
            greeting.fail(WireError("no proof in time"))

    def links(self) -> list[Link]:
        """All that is open."""
        return [*self._sockets, *(greeting.link for greeting in self._strangers)]

    def forgive(self, late: float) -> None:
        """Give all strangers that much more time."""
        for greeting in self._strangers:
            greeting.deadline += late

    def close(self) -> None:
        """Close all."""
        for greeting in list(self._strangers):
            greeting.fail(WireError("closing"))
        for door in self._sockets:
            self._engine.forget(door.fileno())
            door.close()
        self._sockets.clear()
