"""Rails: the local addresses over which a rank reaches its peers, and their carrier.

`RECCL_RAILS` names interfaces or addresses, in the same order on every rank. Without it every
interface with an address that is up counts once, by an IPv4 address if it has one, else by a global IPv6
one; except loopback, bridges of containers and virtual machines. With none left, loopback.
"""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sglb.collective.transport.errors import SettingsError

_SIOCGIFADDR = 0x8915
_SIOCGIFNETMASK = 0x891B
_IFF_RUNNING = 0x40
_NOT_RAILS = ("lo", "docker", "virbr", "br-", "veth", "cni", "flannel")


@dataclass(frozen=True, slots=True)
class Rail:
    """One local address. `device` is '' when no interface has it; `prefix` bits of its network."""

    name: str
    address: str
    device: str
    prefix: int

    @property
    def family(self) -> socket.AddressFamily:
        """Address family for sockets."""
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET

    def shares_network(self, address: str) -> bool:
        """Whether an address is of this rail's network."""
        net = ipaddress.ip_network(f"{self.address}/{self.prefix}", strict=False)
        with suppress(ValueError):
            return ipaddress.ip_address(address) in net
        return False


def find_rails(names: tuple[str, ...]) -> list[Rail]:
    """The rails of `RECCL_RAILS`, or those found. Raises SettingsError naming the one that isn't."""
    held = list(_addresses())
    if names:
        return [_named(name, held) for name in names]
    first: dict[str, Rail] = {}
    for rail in held:
        if not rail.device.startswith(_NOT_RAILS) and _up(rail.device):
            first.setdefault(rail.device, rail)
    return list(first.values()) or [Rail("lo", "127.0.0.1", "lo", 8)]


def _named(name: str, held: list[Rail]) -> Rail:
    for rail in held:
        if name in {rail.device, rail.address}:
            return Rail(name, rail.address, rail.device, rail.prefix)
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        known = ", ".join(sorted({rail.device for rail in held})) or "none"
        raise SettingsError(
            f"RECCL_RAILS: {name} is neither an address nor an interface with one (those are: {known})"
        ) from None
    if address.is_loopback:  # all of 127.0.0.0/8 is local
        return Rail(name, str(address), "lo", 8 if address.version == 4 else 128)
    raise SettingsError(f"RECCL_RAILS: no interface of this host has the address {name}")


def _addresses() -> Iterator[Rail]:
    """Addresses of all interfaces: the first IPv4 one of each, then global IPv6 ones."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, device in socket.if_nameindex():
            request = struct.pack("256s", device.encode()[:15])
            try:
                address = fcntl.ioctl(probe, _SIOCGIFADDR, request)[20:24]
                mask = fcntl.ioctl(probe, _SIOCGIFNETMASK, request)[20:24]
            except OSError:
                continue
            prefix = int.from_bytes(mask, "big").bit_count()
            yield Rail(device, socket.inet_ntoa(address), device, prefix)
    yield from _ipv6_addresses()


def _ipv6_addresses() -> Iterator[Rail]:
    try:
        lines = Path("/proc/net/if_inet6").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        digits, _, prefix, scope, _, device = line.split()
        if int(scope, 16) == 0:  # global
            address = str(ipaddress.IPv6Address(int(digits, 16)))
            yield Rail(device, address, device, int(prefix, 16))


def _up(device: str) -> bool:
    try:
        return int(Path("/sys/class/net", device, "carrier").read_text()) == 1
    except (OSError, ValueError):
        return False


def same_host_text() -> str:
    """What ranks that can share memory have in common: this boot of the kernel and network."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/net').stat().st_ino}"


class CarrierWatch:
    """Tells interfaces that lose or get back their carrier, by rtnetlink (RTM_NEWLINK, DELLINK)."""

    _GROUP_LINK = 1
    _NEW, _DELETED = 16, 17

    def __init__(self) -> None:
        self.socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, 0
        )
        self.socket.bind((0, self._GROUP_LINK))

    def read(self) -> list[tuple[int, bool]]:
        """(interface index, has carrier) of what happened since the last call, in order."""
        changes: list[tuple[int, bool]] = []
        while True:
            try:
                data = self.socket.recv(65_536)
            except BlockingIOError:
                return changes
            except OSError:  # ENOBUFS: messages were lost; sockets notice what these told
                continue
            changes += parse_link_messages(data)

    def close(self) -> None:
        """Give the socket back."""
        self.socket.close()


def parse_link_messages(data: bytes) -> list[tuple[int, bool]]:
    """(interface index, has carrier) of each RTM_NEWLINK and RTM_DELLINK; anything else is passed over.

    Layout: linux/netlink.h `nlmsghdr`, linux/rtnetlink.h `ifinfomsg`.
    """
    found = []
    at = 0
    while at + 32 <= len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        if length < 16:
            break
        if kind in {16, 17} and length >= 32:
            index, flags = struct.unpack_from("=iI", data, at + 20)
            found.append((index, kind == 16 and bool(flags & _IFF_RUNNING)))
        at += (length + 3) & ~3
    return found
