"""A byte stream between two processes of one host: two rings in shared memory, and a Unix socket.

The side that connects makes the file, named after its HELLO's nonce; the side that accepts opens and
unlinks it once the other has proved itself. Bytes go through the rings; a byte on the socket wakes a
side that found its ring empty, or full, and said so; the end of the socket is the end of the stream.

Where the kernel lets a process read the memory of another (process_vm_readv; same user, no Yama in the
way), each side finds that out and says so; then large pieces don't go through the rings: the sender says
where they are and the receiver copies them from there, once.

Layout: 64 bytes for each of two rings (bytes written so far, bytes read so far, reader waits, writer
waits: 64-bit numbers in the machine's order, each written by one side); 64 bytes for each side, that of
the side that connects first (process number, address of the nonce in its memory, whether the other side
has read it there, whether loans are revoked); from 4096 on the data of the ring of the side that
connects, then that of the other.
"""

from __future__ import annotations

import ctypes
import errno
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
_SMALL_BYTES = 16 << 10
_WRITTEN, _READ, _READER_WAITS, _WRITER_WAITS = range(4)
_WORDS = 8  # of a ring's control block, and of a side's
_PID, _ADDRESS, _IS_READ, _REVOKED = range(4)

RING_BYTES = 2 << 20
#: Toward a relay: what waits there cannot go another way any more.
HOP_RING_BYTES = 256 << 10


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


class _Piece(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


_libc = ctypes.CDLL(None, use_errno=True)


def _read_process(pid: int, address: int, into: memoryview) -> None:
    """Copy from another process. Raises OSError, also when only a part could be read."""
    array = np.frombuffer(into, np.uint8)
    here = _Piece(array.ctypes.data, len(array))
    there = _Piece(address, len(array))
    count = _libc.process_vm_readv(
        ctypes.c_int(pid), ctypes.byref(here), 1, ctypes.byref(there), 1, 0
    )
    if count != len(array):
        code = ctypes.get_errno() if count < 0 else errno.EFAULT
        raise OSError(code, f"cannot read the memory of process {pid}: {os.strerror(code)}")


class MemoryStream:
    """A non-blocking stream like a socket's, over two rings. Closing it wakes the other side."""

    def __init__(
        self,
        sock: socket.socket,
        file: mmap.mmap,
        ring_bytes: int,
        nonce: bytes,
        *,
        connects: bool,
    ) -> None:
        self._socket = sock
        self._file = file
        self._area = memoryview(file)
        rings = [Ring(self._area, number, ring_bytes) for number in range(2)]
        self.outgoing, self.incoming = rings if connects else rings[::-1]
        self._ended = False
        words = self._area[:_CONTROL_BYTES].cast("Q")
        sides = [words[(2 + n) * _WORDS : (3 + n) * _WORDS] for n in range(2)]
        self._mine, self._theirs = sides if connects else sides[::-1]
        self._nonce = np.frombuffer(nonce, np.uint8)
        self._mine[_PID] = os.getpid()
        self._mine[_ADDRESS] = self._nonce.ctypes.data
        self._tried = False

    @classmethod
    def create(
        cls, sock: socket.socket, nonce: bytes, ring_bytes: int = RING_BYTES
    ) -> MemoryStream:
        """The side that connects, before its HELLO. Raises OSError, also when memory is short."""
        path = _path(nonce)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, _size(ring_bytes))
            file = mmap.mmap(fd, _size(ring_bytes))
        except OSError:
            discard(nonce)
            raise
        finally:
            os.close(fd)
        return cls(sock, file, ring_bytes, nonce, connects=True)

    @classmethod
    def attach(cls, sock: socket.socket, nonce: bytes) -> MemoryStream:
        """The side that accepts, after the proof. Raises OSError."""
        fd = os.open(_path(nonce), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            discard(nonce)
            size = os.fstat(fd).st_size
            ring_bytes = (size - _CONTROL_BYTES) // 2
            if ring_bytes < 1 or size != _size(ring_bytes):
                raise SharedMemoryError(f"shared memory of {size} bytes")
            file = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        return cls(sock, file, ring_bytes, nonce, connects=False)

    def fileno(self) -> int:
        """What becomes readable when the other side has done something."""
        return self._socket.fileno()

    def drain(self) -> None:
        """Take the wake-up bytes; before looking at the rings."""
        try:
            while not self._ended:
                data = self._socket.recv(4096)
                self._ended = not data
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

    # Without the rings.

    def try_reading(self) -> None:
        """Find out, once the other side is there, whether its memory can be read from here."""
        if self._tried or not self._theirs[_ADDRESS]:
            return
        self._tried = True
        found = bytearray(len(self._nonce))
        with suppress(OSError, OverflowError):
            _read_process(self._theirs[_PID], self._theirs[_ADDRESS], memoryview(found))
            if found == self._nonce.tobytes():
                self._theirs[_IS_READ] = 1

    def lends(self) -> bool:
        """Whether the other side can read this process's memory."""
        return bool(self._mine[_IS_READ])

    def borrow(self, address: int, into: memoryview) -> None:
        """Copy from the other process's memory. Raises OSError, also when the loan was revoked."""
        _read_process(self._theirs[_PID], address, into)
        if self._theirs[_REVOKED]:
            raise SharedMemoryError("the other side has given the group up")

    def revoke(self) -> None:
        """What was lent so far must not be used any more."""
        self._mine[_REVOKED] = 1

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
        self._socket.close()
        self.outgoing.release()
        self.incoming.release()
        self._mine.release()
        self._theirs.release()
        self._area.release()
        with suppress(BufferError):  # a caller still looks at a piece of it
            self._file.close()


def discard(nonce: bytes) -> None:
    """Remove the file of a connection, if it is still there."""
    with suppress(FileNotFoundError):
        _path(nonce).unlink()
