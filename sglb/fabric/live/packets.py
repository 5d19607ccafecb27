"""Packet sockets in namespaces, and socket filters that make a wire swallow frames.

A black hole is a filter on the receiving socket of a running process: carrier and sender see nothing of
it. (tc and nftables cannot do this: packet sockets get frames before either of them looks, and a sender
that passes its queueing discipline by is not seen at all.) The filter is classic BPF, attached from
outside through a duplicate of the descriptor (`pidfd_getfd`, Linux 5.6).
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from sglb.fabric.live.errors import LiveError
from sglb.fabric.live.namespaces import Namespace

ETH_P_ALL: Final = 3
SYNCMESH: Final = 0x88B5
_SOL_PACKET: Final = 263
_IGNORE_OUTGOING: Final = 23
_ADD_MEMBERSHIP: Final = 1
_PROMISCUOUS: Final = 1
_ATTACH_FILTER: Final = 26
_DETACH_FILTER: Final = 27
_RCVBUFFORCE: Final = 33
_TIMESTAMPNS: Final = 35
_BUFFER_BYTES: Final = 4 << 20
_PIDFD_GETFD: Final = 438
_ALL: Final = 0x40000  #: bytes of a frame that a filter lets through

# Classic BPF (linux/filter.h): load a half word, a byte, the random number; jumps; return.
_LDH, _LDB, _LDW = 0x28, 0x30, 0x20
_JEQ, _JGE, _AND, _RET = 0x15, 0x35, 0x54, 0x06
_RANDOM: Final = 0xFFFFF000 + 56
_TYPE_AT, _SYNC_TYPE_AT, _CODE_AT = 12, 14, 28
_NOTE: Final = 8
_CODE_DOWN: Final = 8

Program = Sequence[tuple[int, int, int, int]]

#: Takes nothing.
SWALLOW: Final[Program] = ((_RET, 0, 0, 0),)
#: Takes SyncMesh notifications that something is down, nothing else.
DOWN_NOTES: Final[Program] = (
    (_LDH, 0, 0, _TYPE_AT),
    (_JEQ, 0, 7, SYNCMESH),
    (_LDB, 0, 0, _SYNC_TYPE_AT),
    (_AND, 0, 0, 0xF),
    (_JEQ, 0, 4, _NOTE),
    (_LDB, 0, 0, _CODE_AT),
    (_AND, 0, 0, 0xF),
    (_JEQ, 0, 1, _CODE_DOWN),
    (_RET, 0, 0, _ALL),
    (_RET, 0, 0, 0),
)


def losing(data: float, syncmesh: float) -> Program:
    """Loses SyncMesh frames and all others with these probabilities each."""
    bars = [min(0xFFFFFFFF, round(p * (1 << 32))) for p in (syncmesh, data)]
    return (
        (_LDH, 0, 0, _TYPE_AT),
        (_JEQ, 0, 2, SYNCMESH),
        (_LDW, 0, 0, _RANDOM),
        (_JGE, 2, 3, bars[0]),
        (_LDW, 0, 0, _RANDOM),
        (_JGE, 0, 1, bars[1]),
        (_RET, 0, 0, _ALL),
        (_RET, 0, 0, 0),
    )


def filtered(found: socket.socket, program: Program | None) -> None:
    """Gives a socket a filter in place of what it had, or takes it away."""
    if program is None:
        with suppress(FileNotFoundError):
            found.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
        return
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    buffer = ctypes.create_string_buffer(code)
    value = struct.pack("H6xQ", len(program), ctypes.addressof(buffer))
    found.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, value)


def open_socket(namespace: Namespace, interface: str) -> socket.socket:
    """A non-blocking packet socket on an interface of a namespace, for what comes in, and to send."""
    with namespace.inside():
        found = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, 0
        )
        try:
            found.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
            found.setsockopt(socket.SOL_SOCKET, _RCVBUFFORCE, _BUFFER_BYTES)
            found.bind((interface, ETH_P_ALL))
        except BaseException:
            found.close()
            raise
    return found


def open_tap(namespace: Namespace, program: Program) -> socket.socket:
    """A socket for the frames that come in by any interface of a namespace and pass a filter.

    They come with the kernel's time stamp (SO_TIMESTAMPNS).
    """
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    with namespace.inside():
        found = socket.socket(socket.AF_PACKET, kind, socket.htons(ETH_P_ALL))
    try:
        filtered(found, program)
        found.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        found.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
        with suppress(BlockingIOError):
            while True:  # what came before the filter
                found.recv(1)
    except BaseException:
        found.close()
        raise
    return found


def packet_sockets_of(pid: int, index: int) -> Iterator[socket.socket]:
    """Duplicates of a process's packet sockets that are bound to interface number `index`."""
    wanted = _inodes(pid, index)
    pidfd = os.pidfd_open(pid)
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = entry.readlink().name
            except OSError:
                continue  # closed meanwhile
            if target.startswith("socket:[") and int(target[8:-1]) in wanted:
                fd = _duplicate(pidfd, int(entry.name))
                yield socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0, fileno=fd)
    finally:
        os.close(pidfd)


def _inodes(pid: int, index: int) -> set[int]:
    """Of the packet sockets on an interface, from the process's namespace's list of them."""
    found = set()
    for line in Path(f"/proc/{pid}/net/packet").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[4]) == index:
            found.add(int(fields[8]))
    return found


def _duplicate(pidfd: int, fd: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    found: int = libc.syscall(_PIDFD_GETFD, pidfd, fd, 0)
    if found < 0:
        number = ctypes.get_errno()
        raise LiveError(
            f"a wire cannot be made to swallow frames: pidfd_getfd: {os.strerror(number)}; "
            "it needs Linux 5.6 and the right to trace processes"
        )
    return found
