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
import time
from collections.abc import Callable
from contextlib import suppress

from sglb.collective.transport.engine import Engine
from sglb.collective.transport.errors import RendezvousError, WireError
from sglb.collective.transport.handshake import Incoming, Outgoing, RefusedError
from sglb.collective.transport.rails import Rail
from sglb.collective.transport.wire import Hello

_log = logging.getLogger("sglb.collective")

MAX_STRANGERS = 64
_BACKLOG = 512


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


def prepare(sock: socket.socket, device: str, unsent_bytes: int) -> None:
    """Options of a connection; ties it to an interface where the kernel lets us."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)
    if device:
        with suppress(OSError):  # PermissionError: then the address alone decides
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode() + b"\0")


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


class Greeting:
    """A connection in its handshake. Calls `done(greeting)` or `failed(greeting, error)`, once."""

    def __init__(
        self,
        engine: Engine,
        sock: socket.socket,
        side: Incoming | Outgoing,
        timeout_s: float,
        done: Callable[[Greeting], None],
        failed: Callable[[Greeting, Exception], None],
    ) -> None:
        self.sock = sock
        self.side = side
        self.deadline = time.monotonic() + timeout_s
        self._engine = engine
        self._done = done
        self._failed = failed
        self._held = b""
        self._connecting = isinstance(side, Outgoing)
        self.over = False
        engine.watch(sock.fileno(), self._on_event)

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
        code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        self._connecting = False
        assert isinstance(self.side, Outgoing)
        self.sock.send(self.side.begin())
        return True

    def _read(self) -> None:
        while self.side.need:
            try:
                data = self.sock.recv(self.side.need - len(self._held))
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
                self.sock.send(answer)  # the first bytes on this socket: there is room
        self.over = True
        self._engine.forget(self.sock.fileno())
        self._done(self)

    def fail(self, error: Exception) -> None:
        """Give it up."""
        if self.over:
            return
        self.over = True
        self._engine.forget(self.sock.fileno())
        if isinstance(error, RefusedError):
            with suppress(OSError):
                self.sock.send(error.last)
        self.sock.close()
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
            greeting = Greeting(
                self._engine,
                sock,
                self._greet(),
                self._timeout_s,
                lambda greeting: self._come_in(greeting, rail),
                self._turn_away,
            )
            self._strangers.add(greeting)

    def _come_in(self, greeting: Greeting, rail: int) -> None:
        self._strangers.discard(greeting)
        self._adopt(greeting, rail)

    def _turn_away(self, greeting: Greeting, error: Exception) -> None:
        self._strangers.discard(greeting)
        self.turned_away += 1
        _log.warning("a connection was turned away: %s", error)

    def expire(self, now: float) -> None:
        """Give up strangers that have not proved themselves in time."""
        for greeting in [g for g in self._strangers if g.deadline < now]:
            greeting.fail(WireError("no proof in time"))

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
