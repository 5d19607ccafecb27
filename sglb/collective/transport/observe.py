"""How a process is asked what its transports do: a Unix socket for `sglb collective status`, and HTTP
on 127.0.0.1 for Prometheus. One thread a process, started with its first transport.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from sglb.collective.transport.errors import SettingsError
from sglb.collective.transport.prometheus import exposition
from sglb.collective.transport.runtime import listen_at, runtime_folder, sweep
from sglb.collective.transport.settings import Settings
from sglb.collective.transport.stats import Stats

_log = logging.getLogger("sglb.collective")

_ASKING_S = 1.0
_MAX_REQUEST_BYTES = 8192
_MAX_ANSWER_BYTES = 16 << 20

Ask = Callable[[], Stats]


class _Observer:
    """The sockets of this process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._asks: list[Ask] = []
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._status: socket.socket | None = None
        self._metrics: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)

    def add(self, ask: Ask, settings: Settings, rank: int) -> None:
        """Tell of one more transport. Raises SettingsError when a socket cannot be had."""
        with self._lock:
            # First what others may have taken: nothing is left open then.
            if self._metrics is None and settings.metrics_port:
                self._metrics = _listen_http(settings.metrics_port + rank)
                os.eventfd_write(self._stop, 1)  # look again at what there is to listen to
            if self._status is None:
                self._path = runtime_folder(settings.runtime_dir) / f"{self.pid}.status"
                self._path.unlink(missing_ok=True)
                try:
                    self._status = listen_at(self._path)
                except OSError as error:
                    raise SettingsError(f"cannot listen at {self._path}: {error}") from error
            self._asks.append(ask)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="reccl-observe", daemon=True
                )
                self._thread.start()

    def remove(self, ask: Ask) -> None:
        """A transport is closed; the last one takes the sockets along."""
        with self._lock:
            if ask in self._asks:
                self._asks.remove(ask)
            if self._asks or self._thread is None:
                return
            thread, self._thread = self._thread, None
            for sock in (self._status, self._metrics):
                if sock is not None:
                    with suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)
            os.eventfd_write(self._stop, 1)
        thread.join(2 * _ASKING_S)
        with self._lock:
            for sock in (self._status, self._metrics):
                if sock is not None:
                    sock.close()
            self._status = self._metrics = None
            if self._path is not None:
                self._path.unlink(missing_ok=True)

    def disown(self) -> None:
        """In a forked child, where the thread is not: leave the path to the parent."""
        for sock in (self._status, self._metrics):
            if sock is not None:
                sock.close()
        os.close(self._stop)

    def _found(self) -> list[Stats]:
        with self._lock:
            asks = list(self._asks)
        return [ask() for ask in asks]

    def _serve(self) -> None:
        mine = threading.current_thread()
        while self._thread is mine:
            doors: list[Any] = [s for s in (self._status, self._metrics) if s is not None]
            ready, _, _ = select.select([self._stop, *doors], [], [])
            if self._stop in ready:
                os.eventfd_read(self._stop)
            for door in ready:
                if isinstance(door, socket.socket):
                    self._answer(door)

    def _answer(self, door: socket.socket) -> None:
        with suppress(OSError):
            asker, _ = door.accept()
            with asker:
                asker.settimeout(_ASKING_S)
                if door is self._status:
                    asker.sendall(json.dumps([s.to_dict() for s in self._found()]).encode())
                else:
                    asker.sendall(self._page(_request(asker)))

    def _page(self, request: bytes) -> bytes:
        words = request.split(b"\r\n", 1)[0].split()
        if len(words) != 3 or words[0] != b"GET" or words[1] not in {b"/metrics", b"/"}:
            return b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        body = exposition(self._found()).encode()
        head = (
            "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def _request(asker: socket.socket) -> bytes:
    """The head of an HTTP request, or as much of it as came in time."""
    deadline = time.monotonic() + _ASKING_S
    data = b""
    while b"\r\n\r\n" not in data and len(data) < _MAX_REQUEST_BYTES:
        if time.monotonic() > deadline:
            break
        piece = asker.recv(_MAX_REQUEST_BYTES - len(data))
        if not piece:
            break
        data += piece
    return data


def _listen_http(port: int) -> socket.socket:
    if port > 65_535:
        raise SettingsError(f"RECCL_METRICS_PORT plus the rank is {port}; ports end at 65535")
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(("127.0.0.1", port))
        door.listen(16)
        door.setblocking(False)
    except OSError as error:
        door.close()
        raise SettingsError(
            f"RECCL_METRICS_PORT: cannot listen on 127.0.0.1:{port} (base port plus rank): "
            f"{error.strerror}"
        ) from error
    return door


_observer: _Observer | None = None
_choosing = threading.Lock()


def _own() -> _Observer:
    """This process's; a forked child has its own."""
    global _observer
    with _choosing:
        if _observer is None or _observer.pid != os.getpid():
            _observer = _Observer(os.getpid())
        return _observer


def disown() -> None:
    """In a forked child: its copies of the sockets are closed, once, even if it forks again."""
    global _observer, _choosing
    _choosing = threading.Lock()  # another thread, which is not here, may have held it
    gone, _observer = _observer, None
    if gone is not None:
        gone.disown()


def show(ask: Ask, settings: Settings, rank: int) -> None:
    """From now on whoever asks this process is told of one more transport. Raises SettingsError."""
    _own().add(ask, settings, rank)


def hide(ask: Ask) -> None:
    """No longer."""
    _own().remove(ask)


def ask_all(folder: Path) -> Iterator[tuple[int, list[dict[str, Any]] | None]]:
    """(pid, its transports as `Stats.to_dict`) of all processes that have a socket in a folder.

    None for one that gives no answer, or not one of this version (stopped; another user's; another
    sglb). Sockets whose process has ended are removed. Raises OSError.
    """
    sweep(folder)
    for path in sorted(folder.glob("*.status")):
        if not path.stem.isdecimal():
            continue
        with suppress(FileNotFoundError, ConnectionRefusedError):  # it has ended meanwhile
            yield int(path.stem), _ask(path)


def _ask(path: Path) -> list[dict[str, Any]] | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(2 * _ASKING_S)
        data = b""
        try:
            sock.connect(str(path))
            while piece := sock.recv(1 << 16):
                data += piece
                if len(data) > _MAX_ANSWER_BYTES:
                    return None
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            raise
        except (TimeoutError, PermissionError, BlockingIOError, ConnectionResetError):
            return None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and all(map(_is_stats, found)) else None


def _is_stats(found: Any) -> bool:
    return isinstance(found, dict) and found.keys() >= {field.name for field in fields(Stats)}
