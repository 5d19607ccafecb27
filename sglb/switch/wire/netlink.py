"""What the kernel tells of interfaces (rtnetlink): which come, go, and have a carrier."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_RTMGRP_LINK: Final = 1
NEW_LINK: Final = 16
DELETE_LINK: Final = 17
_IFLA_NAME: Final = 3
RUNNING: Final = 0x10041  #: IFF_UP, IFF_RUNNING and IFF_LOWER_UP
_HEADER: Final = struct.Struct("=IHHII")
_LINK: Final = struct.Struct("=BxHiII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_BUFFER_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LinkChange:
    """An interface as it is now; `up`: it is up and has a carrier. `gone`: it is not there any more."""

    index: int
    name: str
    up: bool
    gone: bool


def open_monitor() -> socket.socket:
    """A socket that gets a message for each change of an interface of this network namespace."""
    found = socket.socket(
        socket.AF_NETLINK,
        socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK,
        socket.NETLINK_ROUTE,
    )
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    found.bind((0, _RTMGRP_LINK))
    return found


def changes(data: bytes) -> Iterator[LinkChange]:
    """The changes in what was read from such a socket; ends where it is not well formed."""
    at = 0
    while at + _HEADER.size <= len(data):
        size, kind, *_ = _HEADER.unpack_from(data, at)
        if size < _HEADER.size or at + size > len(data):
            return
        if kind in (NEW_LINK, DELETE_LINK) and size >= _HEADER.size + _LINK.size:
            body = data[at + _HEADER.size : at + size]
            family, _, index, flags, _ = _LINK.unpack_from(body)
            if family == socket.AF_UNSPEC:  # others tell of bridges' ports and the like
                gone = kind == DELETE_LINK
                alive = flags & RUNNING == RUNNING
                yield LinkChange(index, _name(body[_LINK.size :]), alive and not gone, gone)
        at += size + 3 & ~3


def _name(attributes: bytes) -> str:
    at = 0
    while at + _ATTRIBUTE.size <= len(attributes):
        size, kind = _ATTRIBUTE.unpack_from(attributes, at)
        if size < _ATTRIBUTE.size or at + size > len(attributes):
            break
        if kind & 0x3FFF == _IFLA_NAME:
            value = attributes[at + _ATTRIBUTE.size : at + size]
            return value.rstrip(b"\0").decode(errors="replace")
        at += size + 3 & ~3
    return ""
