"""One rank's memory that the other ranks of its host see: words, a bell, slots for bytes.

Each file is named at random and locked while it has a name: one that nobody holds is of a process
that was killed before all had opened it, and is removed by whoever comes next.
"""

from __future__ import annotations

import ctypes
import fcntl
import logging
import mmap
import os
import time
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from sglb.collective.transport.lending import read_process
from sglb.collective.transport.memory import SharedMemoryError, folder

_log = logging.getLogger("sglb.collective")

#: Up to so many ranks: each looks at the words of all others.
MAX_RANKS = 8
#: What a rank lays out as a copy, for all others together.
COPIED_BYTES = 128 << 10
#: Operations that may be under way at the same time.
SLOTS = 4
TEXT_WORDS = 24
#: So long a rank sleeps before it looks whether all is well.
_NAP_NS = 10_000_000
#: Threads of a rank that are woken at once; each looks by itself soon anyway.
_MOST_SLEEPERS = 64


class Word:
    """Words of a page, 64-bit numbers in the machine's order, that only its rank writes."""

    REVOKED = 0
    SLEEPERS = 1
    PID = 2
    ADDRESS = 3  # of the file's name, in that process
    BELL = 4  # a semaphore, of up to 4 words


class SlotWord:
    """Words of a slot. After these, for each part its size and where it is, then the text."""

    POSTED = 0
    FINGERPRINT = 1
    PROGRESS = 2
    FINISHED = 3
    LENT = 4
    PARTS = 5
    TEXT_BYTES = 6
    FIRST_PART = 8


FIRST_TEXT_WORD = SlotWord.FIRST_PART + 2 * MAX_RANKS
SLOT_WORDS = FIRST_TEXT_WORD + TEXT_WORDS
_FIRST_SLOT = 16
_PAGE_BYTES = 4096
_FILE_BYTES = _PAGE_BYTES + SLOTS * COPIED_BYTES
_NONCE_BYTES = 16
_PREFIX = "reccl-commons-"


class _Time(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_libc = ctypes.CDLL(None, use_errno=True)
_sem_init, _sem_post, _sem_timedwait = _libc.sem_init, _libc.sem_post, _libc.sem_timedwait
_sem_init.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint)
_sem_post.argtypes = (ctypes.c_void_p,)
_sem_timedwait.argtypes = (ctypes.c_void_p, ctypes.c_void_p)


def address_of(view: memoryview) -> int:
    """Where bytes are in this process."""
    if view.readonly:
        return int(np.frombuffer(view, np.uint8).ctypes.data)
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


class Segment:
    """The memory of one rank."""

    def __init__(self, file: mmap.mmap, name: bytes) -> None:
        self.name = name
        self._memory = memoryview(file)
        self.words = self._memory[:_PAGE_BYTES].cast("Q")
        self._bell = address_of(self._memory) + 8 * Word.BELL
        self._held = -1  # the locked file, while it has its name
        self._proof = np.frombuffer(name, np.uint8)

    @classmethod
    def make(cls) -> Segment:
        """This rank's. Raises OSError."""
        _sweep()
        name = os.urandom(_NONCE_BYTES)
        fd = os.open(folder(), os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        try:
            # Its name comes after the lock: another rank's sweep would remove what nobody holds.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # With `src_dir_fd` only does Python ask the kernel to follow the link.
            os.link(f"/proc/self/fd/{fd}", _path(name), src_dir_fd=fd)
            os.posix_fallocate(fd, 0, _FILE_BYTES)
            made = cls(mmap.mmap(fd, _FILE_BYTES), name)
            if _sem_init(made._bell, 1, 0):
                raise OSError(ctypes.get_errno(), "sem_init")
        except OSError:
            os.close(fd)
            _remove(name)
            raise
        made._held = fd
        made.words[Word.PID] = os.getpid()
        made.words[Word.ADDRESS] = made._proof.ctypes.data
        return made

    @classmethod
    def open(cls, name: bytes) -> Segment:
        """Another rank's, while it has its name. Raises OSError."""
        fd = os.open(_path(name), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            if size != _FILE_BYTES:
                raise SharedMemoryError(f"shared memory of {size} bytes")
            return cls(mmap.mmap(fd, size), name)
        finally:
            os.close(fd)

    def unname(self) -> None:
        """All that have to open it have: it ends with the last of them."""
        if self._held >= 0:
            _remove(self.name)
            os.close(self._held)
            self._held = -1

    def slot(self, number: int) -> memoryview:
        """The words of a slot."""
        start = _FIRST_SLOT + number * SLOT_WORDS
        return self.words[start : start + SLOT_WORDS]

    def data(self, number: int) -> memoryview:
        """The bytes of a slot."""
        start = _PAGE_BYTES + number * COPIED_BYTES
        return self._memory[start : start + COPIED_BYTES]

    def is_readable(self) -> bool:
        """Whether this process can read the memory of the one that made it."""
        found = bytearray(len(self.name))
        try:
            read_process(self.words[Word.PID], self.words[Word.ADDRESS], memoryview(found))
        except (OSError, OverflowError):
            return False
        return found == self.name

    def ring(self) -> None:
        """Wake those of its rank that sleep."""
        for _ in range(min(self.words[Word.SLEEPERS], _MOST_SLEEPERS)):
            _sem_post(self._bell)

    def nap(self) -> None:
        """Sleep until the bell is rung, or for a moment."""
        until = time.time_ns() + _NAP_NS
        limit = _Time(until // 1_000_000_000, until % 1_000_000_000)
        _sem_timedwait(self._bell, ctypes.byref(limit))


def make(size: int) -> Segment | None:
    """This rank's memory, before the ranks have met; None for numbers of ranks that have none."""
    if not 1 < size <= MAX_RANKS:
        return None
    try:
        return Segment.make()
    except OSError as error:
        _log.info("no memory to share with ranks of this host: %s", error)
        return None


def attach(own: Segment, rank: int, names: Sequence[str]) -> tuple[list[Segment], int]:
    """All ranks' memory by their names, and 0 if it cannot be had, 1 if it can, 2 if all lend too."""
    try:
        found = [
            own if r == rank else Segment.open(bytes.fromhex(name)) for r, name in enumerate(names)
        ]
    except (OSError, ValueError) as error:
        _log.info("cannot share memory with ranks of this host: %s", error)
        return [], 0
    return found, 1 + all(segment.is_readable() for segment in found)


def _path(name: bytes) -> str:
    return str(folder() / f"{_PREFIX}{name.hex()}")


def _remove(name: bytes) -> None:
    with suppress(FileNotFoundError):
        os.unlink(_path(name))  # noqa: PTH108


def _sweep() -> None:
    """Remove what killed processes of this user have left."""
    for path in folder().glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, gone meanwhile, or held: BlockingIOError
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(fd)
