"""Between two processes of one host: large pieces are read where they are, once.

Where the kernel lets a process read the memory of another (process_vm_readv: same user, no Yama in the
way) a message need not go through a socket: its sender says where it is, and keeps it until that is
acknowledged; the receiver copies it from there. Each side finds out whether it can read the other's
memory, by a nonce that only the right process has at that address, and says so in a page both share.

The page: 64 bytes for each side, that of the side that connects first: process number, address of the
nonce, whether the other side has read it there, whether loans are revoked. 64-bit numbers in the
machine's order.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from contextlib import suppress

import numpy as np

from sglb.collective.transport.memory import SharedMemoryError, discard, make_file, open_file

_PAGE_BYTES = 4096
_WORDS = 8
_PID, _ADDRESS, _IS_READ, _REVOKED = range(4)


class BorrowError(OSError):
    """A piece cannot be read where it is said to be: it has to come another way."""


class _Piece(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


_read = ctypes.CDLL(None, use_errno=True).process_vm_readv
_read.restype = ctypes.c_ssize_t
_read.argtypes = (
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_void_p,
    ctypes.c_ulong,
    ctypes.c_ulong,
)


def read_process(pid: int, address: int, into: memoryview) -> None:
    """Copy from another process. Raises OSError, also when only a part could be read."""
    size = len(into)
    if not size:
        return
    here = _Piece(ctypes.addressof(ctypes.c_char.from_buffer(into)), size)
    there = _Piece(address, size)
    count = _read(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if count != size:
        code = ctypes.get_errno() if count < 0 else errno.EFAULT
        raise OSError(code, f"cannot read the memory of process {pid}: {os.strerror(code)}")


class Lending:
    """What two processes know of each other's memory."""

    def __init__(self, page: mmap.mmap, nonce: bytes, *, connects: bool) -> None:
        words = memoryview(page).cast("Q")
        sides = [words[n * _WORDS : (n + 1) * _WORDS] for n in range(2)]
        self._mine, self._theirs = sides if connects else sides[::-1]
        self._nonce = np.frombuffer(nonce, np.uint8)
        self._mine[_PID] = os.getpid()
        self._mine[_ADDRESS] = self._nonce.ctypes.data
        self._tried = False

    @classmethod
    def create(cls, nonce: bytes) -> Lending:
        """The side that connects, before its HELLO. Raises OSError."""
        return cls(make_file(nonce, _PAGE_BYTES), nonce, connects=True)

    @classmethod
    def attach(cls, nonce: bytes) -> Lending:
        """The side that accepts, after the proof. Raises OSError, also when the other does not lend."""
        page = open_file(nonce)
        if len(page) != _PAGE_BYTES:
            raise SharedMemoryError(f"shared memory of {len(page)} bytes")
        return cls(page, nonce, connects=False)

    def forget(self) -> None:
        """The connection is over: the page has no name any more, even if nobody attached to it."""
        discard(self._nonce.tobytes())

    def try_reading(self) -> None:
        """Find out, once the other side is there, whether its memory can be read from here."""
        if self._tried or not self._theirs[_ADDRESS]:
            return
        self._tried = True
        found = bytearray(len(self._nonce))
        with suppress(OSError, OverflowError):
            read_process(self._theirs[_PID], self._theirs[_ADDRESS], memoryview(found))
            if found == self._nonce.tobytes():
                self._theirs[_IS_READ] = 1

    def refuse(self) -> None:
        """Do not read the other side's memory, whether that can be done or not."""
        self._tried = True

    def lends(self) -> bool:
        """Whether the other side can read this process's memory."""
        return bool(self._mine[_IS_READ])

    def borrow(self, address: int, into: memoryview) -> None:
        """Copy from the other process's memory. Raises BorrowError; OSError for a loan revoked."""
        try:
            read_process(self._theirs[_PID], address, into)
        except OSError as error:
            raise BorrowError(error.errno, error.strerror) from error
        if self._theirs[_REVOKED]:
            raise SharedMemoryError("the other side has given the group up")

    def revoke(self) -> None:
        """What was lent so far must not be used any more."""
        self._mine[_REVOKED] = 1
