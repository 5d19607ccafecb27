"""A byte stream between two processes of one host: two rings in shared memory, and a Unix socket.

A rank that goes out through a neighbour has one to it, so that the neighbour can pass bytes on straight
from and to that memory. The side that connects makes the file, named after its HELLO's nonce; the side
that accepts opens and unlinks it once the other has proved itself. A byte on the socket wakes a side
that is about to sleep and said so; the end of the socket is the end of the stream.

Layout: 64 bytes for each of two rings (bytes written so far, bytes read so far, reader waits, writer
waits: 64-bit numbers in the machine's order, each written by one side); from 4096 on the data of the
ring of the side that connects, then that of the other.
"""

from __future__ import annotations

import mmap
import os
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

_CONTROL_BYTES = 4096
_WAKES = 256  # taken at a time
_SMALL_BYTES = 16 << 10
_WRITTEN, _READ, _READER_WAITS, _WRITER_WAITS = range(4)
_WORDS = 8  # of a ring's control block

#: Small: what waits there cannot go another way any more.
RING_BYTES = 256 << 10


class SharedMemoryError(OSError):
    """The shared memory is not what it should be."""


def folder() -> Path:
    """Where the files are made: memory, where there is such a place."""
    shm = Path("/dev/shm")
    return shm if os.access(shm, os.W_OK) else Path("/tmp")


def _path(nonce: bytes) -> Path:
    return folder() / f"reccl-{nonce.hex()}"


def _size(ring_bytes: int) -> int:
    return _CONTROL_BYTES + 2 * ring_bytes


def make_file(nonce: bytes, size: int) -> mmap.mmap:
    """Shared memory of a connection, for the side that connects. Raises OSError."""
    fd = os.open(_path(nonce), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, size)
        return mmap.mmap(fd, size)
    except OSError:
        discard(nonce)
        raise
    finally:
        os.close(fd)


def open_file(nonce: bytes) -> mmap.mmap:
    """The same for the side that accepts; it has no name any more then. Raises OSError."""
    fd = os.open(_path(nonce), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        discard(nonce)
        size = os.fstat(fd).st_size
        if not size:
            raise SharedMemoryError("shared memory of 0 bytes")
        return mmap.mmap(fd, size)
    finally:
        os.close(fd)


def discard(nonce: bytes) -> None:
    """Remove the file of a connection, if it is still there."""
    if nonce:
        with suppress(FileNotFoundError):
            _path(nonce).unlink()


class Ring:
    """One direction. The writer calls `room` and `wrote`, the reader `held` and `took`."""

    def __init__(self, area: memoryview, number: int, size: int) -> None:
        self._words = area[:_CONTROL_BYTES].cast("Q")[number * _WORDS : (number + 1) * _WORDS]
        start = _CONTROL_BYTES + number * size
        self._data = area[start : start + size]
        self._size = size
        self._fence = threading.Lock()

    def release(self) -> None:
        """Give the memory back."""
        self._words.release()
        self._data.release()

    def _filled(self) -> int:
        filled = self._words[_WRITTEN] - self._words[_READ]
        if not 0 <= filled <= self._size:
            raise SharedMemoryError(f"a ring of {self._size} bytes says that it holds {filled}")
        return filled

    def room(self) -> memoryview:
        """Where the next bytes can be written, without a gap; may be empty."""
        at = self._words[_WRITTEN] % self._size
        return self._data[at : min(self._size, at + self._size - self._filled())]

    def wrote(self, count: int) -> None:
        """So many bytes are there now."""
        self._words[_WRITTEN] += count

    def held(self) -> memoryview:
        """The next bytes to read, without a gap; may be empty."""
        at = self._words[_READ] % self._size
        return self._data[at : min(self._size, at + self._filled())]

    def took(self, count: int) -> None:
        """So many bytes have been read."""
        self._words[_READ] += count

    def wait(self, word: int) -> None:
        """Say that this side waits; look again afterwards."""
        self._words[word] = 1
        self._full_fence()

    def awake(self, word: int) -> None:
        """This side looks by itself."""
        self._words[word] = 0

    def woken(self, word: int) -> bool:
        """Whether the other side waits and is to be woken now."""
        self._full_fence()
        if not self._words[word]:
            return False
        self._words[word] = 0
        return True

    def _full_fence(self) -> None:
        # What was stored must be seen before the other side's word is read: an atomic operation
        # on a lock sees to that, which Python has no word for.
        self._fence.acquire()
        self._fence.release()


def _copy(target: memoryview, source: memoryview) -> None:
    if len(source) < _SMALL_BYTES:
        target[:] = source
    else:  # without the interpreter's lock
        np.copyto(np.frombuffer(target, np.uint8), np.frombuffer(source, np.uint8))


class MemoryStream:
    """A non-blocking stream like a socket's, over two rings. Closing it wakes the other side."""

    def __init__(
        self,
        sock: socket.socket,
        file: mmap.mmap,
        ring_bytes: int,
        *,
        connects: bool,
    ) -> None:
        self._socket = sock
        self._file = file
        self._area = memoryview(file)
        rings = [Ring(self._area, number, ring_bytes) for number in range(2)]
        self.outgoing, self.incoming = rings if connects else rings[::-1]
        self._ended = False
        self._nonce = b""  # of a file that may still have its name

    @classmethod
    def create(
        cls, sock: socket.socket, nonce: bytes, ring_bytes: int = RING_BYTES
    ) -> MemoryStream:
        """The side that connects, before its HELLO. Raises OSError, also when memory is short."""
        made = cls(sock, make_file(nonce, _size(ring_bytes)), ring_bytes, connects=True)
        made._nonce = nonce
        return made

    @classmethod
    def attach(cls, sock: socket.socket, nonce: bytes) -> MemoryStream:
        """The side that accepts, after the proof. Raises OSError."""
        file = open_file(nonce)
        ring_bytes = (len(file) - _CONTROL_BYTES) // 2
        if ring_bytes < 1 or len(file) != _size(ring_bytes):
            raise SharedMemoryError(f"shared memory of {len(file)} bytes")
        return cls(sock, file, ring_bytes, connects=False)

    def fileno(self) -> int:
        """What becomes readable when the other side has done something."""
        return self._socket.fileno()

    def drain(self) -> None:
        """Take the wake-up bytes; before looking at the rings."""
        try:
            count = _WAKES
            while not self._ended and count == _WAKES:  # a short read: there are no more
                count = len(self._socket.recv(_WAKES))
                self._ended = not count
        except BlockingIOError:
            pass
        except ConnectionError:  # it closed without having taken all wake-ups
            self._ended = True

    def _wake(self) -> None:
        # BlockingIOError: it has wake-ups enough; BrokenPipe: reading will find the end.
        with suppress(OSError):
            self._socket.send(b"\1")

    def sendmsg(self, buffers: Iterable[Any]) -> int:
        """Write what there is room for. Raises BlockingIOError when there is none."""
        if self._ended:
            raise BrokenPipeError("the other process has closed the connection")
        total = 0
        ring = self.outgoing
        for buffer in buffers:
            view = memoryview(buffer)
            at = 0
            while at < len(view):
                room = ring.room()
                if not room:
                    self._woke_reader()
                    if total:
                        return total
                    raise BlockingIOError
                count = min(len(room), len(view) - at)
                _copy(room[:count], view[at : at + count])
                ring.wrote(count)
                at += count
                total += count
        self._woke_reader()
        return total

    def _woke_reader(self) -> None:
        if self.outgoing.woken(_READER_WAITS):
            self._wake()

    def recvmsg_into(self, buffers: Iterable[Any]) -> tuple[int, list[Any], int, Any]:
        """Read what is there, as a socket does; 0 bytes at the end. Raises BlockingIOError."""
        total = 0
        ring = self.incoming
        for view in buffers:
            at = 0
            while at < len(view):
                held = ring.held()
                if not held:
                    self._woke_writer()
                    if total or self._ended:
                        return total, [], 0, None
                    raise BlockingIOError
                count = min(len(held), len(view) - at)
                _copy(view[at : at + count], held[:count])
                ring.took(count)
                at += count
                total += count
        self._woke_writer()
        return total, [], 0, None

    def _woke_writer(self) -> None:
        if self.incoming.woken(_WRITER_WAITS):
            self._wake()

    def ready(self, writing: bool) -> bool:
        """Whether there is something to read, or, if one waits to write, room."""
        return bool(self.incoming.held()) or (writing and bool(self.outgoing.room()))

    def arm(self, writing: bool) -> bool:
        """Before sleeping: ask to be woken, by `fileno`; False when there is no need to sleep."""
        self.incoming.wait(_READER_WAITS)
        if writing:
            self.outgoing.wait(_WRITER_WAITS)
        return not self.ready(writing)

    def disarm(self) -> None:
        """Awake: wake-ups cost the other side time."""
        self.incoming.awake(_READER_WAITS)
        self.outgoing.awake(_WRITER_WAITS)

    def recv(self, count: int) -> bytes:
        """Up to `count` bytes; b'' at the end. Raises BlockingIOError, and will be woken then."""
        into = bytearray(count)
        buffers = [memoryview(into)]
        try:
            return bytes(into[: self.recvmsg_into(buffers)[0]])
        except BlockingIOError:
            self.incoming.wait(_READER_WAITS)
            return bytes(into[: self.recvmsg_into(buffers)[0]])

    def send(self, data: bytes) -> int:
        """Write. Raises BlockingIOError."""
        return self.sendmsg([data])

    # For who passes bytes on without a copy of its own.

    def wait_for_bytes(self) -> memoryview:
        """The next bytes to read; when there are none, the other side will wake this one."""
        held = self.incoming.held()
        if not held:
            self.incoming.wait(_READER_WAITS)
            held = self.incoming.held()
        return held

    def took(self, count: int) -> None:
        """So many of them have been read."""
        self.incoming.took(count)
        self._woke_writer()

    def wait_for_room(self) -> memoryview:
        """Where to write next; when there is no room, the other side will wake this one."""
        room = self.outgoing.room()
        if not room:
            self.outgoing.wait(_WRITER_WAITS)
            room = self.outgoing.room()
        return room

    def wrote(self, count: int) -> None:
        """So many bytes have been written there."""
        self.outgoing.wrote(count)
        self._woke_reader()

    @property
    def ended(self) -> bool:
        """Whether the other side has closed; bytes may still be held."""
        return self._ended

    def close(self) -> None:
        """Close this side."""
        self._ended = True
        discard(self._nonce)
        self._socket.close()
        self.outgoing.release()
        self.incoming.release()
        self._area.release()
        with suppress(BufferError):  # a caller still looks at a piece of it
            self._file.close()
