"""veth pairs between namespaces, by rtnetlink (RFC 3549; linux/rtnetlink.h, if_link.h, veth.h)."""

from __future__ import annotations

import errno
import os
import socket
import struct
from dataclasses import dataclass
from typing import Final

from sglb.fabric.live.errors import LiveError
from sglb.fabric.live.namespaces import Namespace

_NEWLINK: Final = 16
_ERROR: Final = 2
_REQUEST, _ACK, _EXCL, _CREATE = 0x1, 0x4, 0x200, 0x400
_IFF_UP: Final = 1
_ADDRESS, _IFNAME, _MTU, _LINKINFO, _NET_NS_FD = 1, 3, 4, 18, 28
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_HEADER: Final = struct.Struct("=IHHII")
_LINK: Final = struct.Struct("=BxHiII")
_WHAT: Final = {
    errno.EPERM: "that needs root",
    errno.EOPNOTSUPP: "this kernel has no veth",
    errno.EEXIST: "there is one already",
    errno.ENODEV: "it is gone",
}


def _attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + bytes(-size % 4)


@dataclass(frozen=True, slots=True)
class End:
    """One end of a cable: an interface of a namespace."""

    namespace: Namespace
    interface: str
    index: int
    mac: bytes

    def attributes(self, mtu_bytes: int) -> bytes:
        """Its name, address and MTU as attributes of a link message."""
        return (
            _attribute(_IFNAME, self.interface.encode() + b"\0")
            + _attribute(_ADDRESS, self.mac)
            + _attribute(_MTU, struct.pack("=I", mtu_bytes))
        )


class LinkSocket:
    """An rtnetlink socket in a namespace, where it stays. Raises `LiveError` for what is refused."""

    def __init__(self, namespace: Namespace) -> None:
        self._name = namespace.name
        self._seq = 0
        with namespace.inside():
            self._socket = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
            )
        self._socket.bind((0, 0))

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def join(self, here: End, there: End, mtu_bytes: int) -> None:
        """Makes a veth pair with an end in either namespace, both down.

        The ends need different indexes: with equal ones Linux takes the peer for the interface itself
        and tells of a lost carrier up to a second late.
        """
        peer = (
            _LINK.pack(0, 0, there.index, 0, 0)
            + there.attributes(mtu_bytes)
            + _attribute(_NET_NS_FD, struct.pack("=I", there.namespace.fd))
        )
        info = _attribute(_INFO_KIND, b"veth") + _attribute(
            _INFO_DATA, _attribute(_VETH_PEER, peer)
        )
        body = (
            _LINK.pack(0, 0, here.index, 0, 0)
            + here.attributes(mtu_bytes)
            + _attribute(_LINKINFO, info)
        )
        self._ask(_CREATE | _EXCL, body, f"cable {here.interface} of {self._name}")

    def set_up(self, end: End, up: bool) -> None:
        """`ip link set up` or `down`."""
        body = _LINK.pack(0, 0, end.index, _IFF_UP if up else 0, _IFF_UP)
        state = "up" if up else "down"
        self._ask(0, body, f"interface {end.interface} of {self._name} {state}")

    def _ask(self, flags: int, body: bytes, what: str) -> None:
        self._seq += 1
        size = _HEADER.size + len(body)
        head = _HEADER.pack(size, _NEWLINK, _REQUEST | _ACK | flags, self._seq, 0)
        self._socket.send(head + body)
        while True:
            answer = self._socket.recv(1 << 16)
            _, kind, _, seq, _ = _HEADER.unpack_from(answer)
            if kind == _ERROR and seq == self._seq:
                break
        code = -struct.unpack_from("=i", answer, _HEADER.size)[0]
        if code:
            raise LiveError(f"{what}: {_WHAT.get(code, os.strerror(code))}")
