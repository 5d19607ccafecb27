"""Packet sockets on Linux interfaces, and what the interfaces are told."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import socket
import struct
from typing import Final

from sglb.switch.errors import SwitchError

_log = logging.getLogger(__name__)

_SOL_PACKET: Final = 263
_PACKET_ADD_MEMBERSHIP: Final = 1
_PACKET_AUXDATA: Final = 8
_PACKET_VNET_HDR: Final = 15
_PACKET_QDISC_BYPASS: Final = 20
_PACKET_IGNORE_OUTGOING: Final = 23
_PROMISCUOUS: Final = 1
_RUNNING: Final = 0x41  #: IFF_UP and IFF_RUNNING
_ETH_P_ALL: Final = 3
_SO_RCVBUFFORCE: Final = 33
_SIOCGIFFLAGS: Final = 0x8913
_SIOCETHTOOL: Final = 0x8946
_ARPHRD_ETHER: Final = 1
_ARPHRD_LOOPBACK: Final = 772
#: What waits while the loop is at other work: some milliseconds at 10 Gbit/s.
_BUFFER_BYTES: Final = 8 << 20
_ETHTOOL_SET_GRO: Final = 0x2C
_ETHTOOL_GET_FLAGS: Final = 0x25
_ETHTOOL_SET_FLAGS: Final = 0x26
_FLAG_LRO: Final = 1 << 15


class InterfaceError(SwitchError):
    """An interface cannot be a port; the text says why and what to do."""


def interface_index(name: str) -> int:
    """Number of an interface, 0 when there is none of that name."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return 0


def open_socket(name: str) -> socket.socket:
    """A socket that gets all frames that come in by an interface, and sends there.

    Frames are preceded by a virtio_net_hdr, both ways, and come with a control message of VLAN tags; own
    frames don't come back. Raises `InterfaceError`.
    """
    try:
        found = socket.socket(
            socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, 0
        )
    except PermissionError:
        raise InterfaceError(
            f"interface {name}: packet sockets need the right CAP_NET_RAW; run it as root, or give "
            "Python that capability"
        ) from None
    try:
        _set_up(found, name)
    except OSError as error:
        found.close()
        if error.errno == errno.ENODEV:
            raise InterfaceError(f"interface {name}: there is none of that name here") from None
        raise InterfaceError(f"interface {name}: {error.strerror}") from error
    except BaseException:
        found.close()
        raise
    return found


def _set_up(found: socket.socket, name: str) -> None:
    index = interface_index(name)
    if not index:
        raise OSError(errno.ENODEV, "no such interface")
    found.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    found.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
    found.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, 1)
    found.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    for option in (_SO_RCVBUFFORCE, socket.SO_RCVBUF):
        try:
            found.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        except PermissionError:  # without CAP_NET_ADMIN: as much as the system allows
            continue
        break
    found.bind((name, _ETH_P_ALL))
    if found.getsockname()[3] not in (_ARPHRD_ETHER, _ARPHRD_LOOPBACK):
        raise InterfaceError(f"interface {name}: it is no Ethernet interface")
    request = struct.pack("iHH8s", index, _PROMISCUOUS, 0, b"")
    found.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, request)


def switch_off_joining(name: str) -> None:
    """Has an interface hand over received frames one by one (no GRO, no LRO).

    What it refuses is logged: there may be nothing to switch off, or no right to (CAP_NET_ADMIN). What
    the other end's kernel joins before it sends (TSO, GSO) only the other end can switch off.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        try:
            _ethtool(control, name, _ETHTOOL_SET_GRO, 0)
            flags = _ethtool(control, name, _ETHTOOL_GET_FLAGS, 0)
            if flags & _FLAG_LRO:
                _ethtool(control, name, _ETHTOOL_SET_FLAGS, flags & ~_FLAG_LRO)
        except OSError as error:
            _log.info("interface %s: receive offloads stay as they are: %s", name, error.strerror)


def _ethtool(control: socket.socket, name: str, command: int, data: int) -> int:
    """One command with one number (struct ethtool_value); what the number is then."""
    value = (ctypes.c_uint32 * 2)(command, data)
    request = struct.pack("16sQ16x", name.encode(), ctypes.addressof(value))
    fcntl.ioctl(control, _SIOCETHTOOL, request)
    return value[1]


def has_carrier(name: str) -> bool:
    """Whether an interface is up and sees its other end. False when it is gone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as control:
        try:
            answer = fcntl.ioctl(control, _SIOCGIFFLAGS, struct.pack("16s24x", name.encode()))
        except OSError:
            return False
    return struct.unpack_from("H", answer, 16)[0] & _RUNNING == _RUNNING
