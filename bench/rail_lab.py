"""Hosts in network namespaces joined by shaped veth rails, and faults on these; needs root and iproute2.

Rail n of host h is the interface `rail<n>` with 10.<net>.<n>.<h + 1>/24. Each pair of hosts would need
a switch; a lab has two hosts, and any number of ranks on each. Everything is named after the process
and removed at the end, also after an error.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

_CLONE_NEWNET = 0x40000000
_NOWHERE = "02:00:00:00:00:99"
_QUEUE_S = 0.01
_END_S = 20


def why_not() -> str:
    """Why no lab can be made here, or ''."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if missing:
        return f"needs {' and '.join(missing)} (iproute2)"
    with suppress(subprocess.CalledProcessError):
        probe = f"rl{os.getpid()}"
        _run("ip", "netns", "add", probe)
        try:
            inside = ["ip", "netns", "exec", probe]
            _run(*inside, *["ip", "link", "add", "rail0", "type", "veth", "peer", "name", "rail1"])
            _run(*inside, *["tc", "qdisc", "add", "dev", "rail0", "root", "handle", "1:", "htb"])
        finally:
            _run("ip", "netns", "del", probe)
        return ""
    return "needs network namespaces, veth and htb in the kernel"


def _run(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout


class Lab:
    """Two hosts and `rails` links of `rate_mbit` each between them.

    switched: each rail ends at a switch instead, all of them in one network, so that a rail of one
    host alone can fail.
    """

    def __init__(
        self, rails: int, rate_mbit: int, *, switched: bool = False, net: int = 77
    ) -> None:
        self.rails = rails
        self.rate_mbit = rate_mbit
        self.switched = switched
        self._net = net
        self._hosts = [f"reccl-{os.getpid()}-{host}" for host in range(2)]
        self._switch = f"reccl-{os.getpid()}-switch"

    def names(self) -> tuple[str, ...]:
        """What RECCL_RAILS is on both hosts."""
        return tuple(f"rail{rail}" for rail in range(self.rails))

    def up(self) -> None:
        """Make it."""
        for name in self._hosts:
            _run("ip", "netns", "add", name)
            self.on(self._hosts.index(name), "ip link set lo up")
        if self.switched:
            _run("ip", "netns", "add", self._switch)
            self._at_switch("ip link add sw0 type bridge")
            self._at_switch("ip link set sw0 up")
        for rail in range(self.rails):
            if not self.switched:
                a, b = self._hosts
                pair = f"ip link add rail{rail} netns {a} type veth peer name rail{rail} netns {b}"
                _run(*pair.split())
            for host in range(2):
                if self.switched:
                    self._plug(host, rail)
                self._set_up(host, rail)

    def _plug(self, host: int, rail: int) -> None:
        port = f"port{host}-{rail}"
        _run(
            *f"ip link add rail{rail} netns {self._hosts[host]} type veth "
            f"peer name {port} netns {self._switch}".split()
        )
        self._at_switch(f"ip link set {port} master sw0")
        self._at_switch(f"ip link set {port} up")

    def _set_up(self, host: int, rail: int) -> None:
        self.on(host, f"ip addr add {self._address(host, rail)}/24 dev rail{rail}")
        self.on(host, f"ip link set rail{rail} up")
        self.on(host, f"tc qdisc add dev rail{rail} root handle 1: htb default 1")
        self._shape("add", host, rail, self.rate_mbit)
        queue = int(self.rate_mbit * 125_000 * _QUEUE_S) + 200_000
        self.on(host, f"tc qdisc add dev rail{rail} parent 1:1 handle 10: bfifo limit {queue}")
        if self.switched:  # several interfaces in one network: each answers for itself alone
            conf = f"/proc/sys/net/ipv4/conf/rail{rail}"
            _run(
                *("ip", "netns", "exec", self._hosts[host], "sh", "-c"),
                f"echo 1 > {conf}/arp_ignore; echo 2 > {conf}/arp_announce; "
                f"echo 0 > {conf}/rp_filter; echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter",
            )

    def _at_switch(self, command: str) -> None:
        _run("ip", "netns", "exec", self._switch, *command.split())

    def down(self) -> None:
        """Remove it."""
        for name in [*self._hosts, self._switch]:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def _address(self, host: int, rail: int) -> str:
        if self.switched:
            return f"10.{self._net}.0.{host * 100 + rail + 1}"
        return f"10.{self._net}.{rail}.{host + 1}"

    def _shape(self, verb: str, host: int, rail: int, rate_mbit: float) -> None:
        self.on(
            host,
            f"tc class {verb} dev rail{rail} parent 1: classid 1:1 htb "
            f"rate {int(rate_mbit * 1000)}kbit burst 128k cburst 128k quantum 60000",
        )

    def on(self, host: int, command: str) -> str:
        """Run a command on a host."""
        return _run("ip", "netns", "exec", self._hosts[host], *command.split())

    def enter(self, host: int) -> None:
        """Move the calling process (of one thread) to a host."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/run/netns/{self._hosts[host]}") as file:  # noqa: PTH123
            if libc.setns(file.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    # Faults.

    def link(self, rail: int, *, up: bool) -> None:
        """Take a link down, or up again, at host 0; the other end loses its carrier."""
        self.on(0, f"ip link set rail{rail} {'up' if up else 'down'}")

    def black_hole(self, rail: int, *, senders: tuple[int, ...] = (0, 1)) -> None:
        """What these hosts send on a rail arrives nowhere, though the link stays up."""
        for host in senders:
            peer = self._address(1 - host, rail)
            self.on(host, f"ip neigh replace {peer} lladdr {_NOWHERE} dev rail{rail} nud permanent")

    def unplug(self, host: int, rail: int, *, silently: bool = False) -> None:
        """Take one host's rail off the switch; `silently`: its carrier stays."""
        verb = "nomaster" if silently else "down"
        self._at_switch(f"ip link set port{host}-{rail} {verb}")

    def plug(self, host: int, rail: int) -> None:
        """Put it back."""
        self._at_switch(f"ip link set port{host}-{rail} master sw0 up")

    def heal(self, rail: int) -> None:
        """End a black hole."""
        for host in range(2):
            peer = self._address(1 - host, rail)
            with suppress(subprocess.CalledProcessError):
                self.on(host, f"ip neigh del {peer} dev rail{rail}")

    def slow(self, rail: int, factor: float) -> None:
        """Let a rail have this part of its rate, both ways."""
        for host in range(2):
            self._shape("change", host, rail, self.rate_mbit * factor)


@contextmanager
def lab(rails: int, rate_mbit: int, *, switched: bool = False) -> Iterator[Lab]:
    """A lab, removed at the end."""
    made = Lab(rails, rate_mbit, switched=switched)
    try:
        made.up()
        yield made
    finally:
        made.down()


@contextmanager
def started(work: Sequence[BaseProcess]) -> Iterator[None]:
    """Processes run while the block does, and a little longer to end; then they are killed."""
    try:
        for process in work:
            process.start()
        yield
        for process in work:
            process.join(_END_S)
    finally:
        for process in work:
            if process.is_alive():
                process.kill()
            if process.pid is not None:
                process.join()


class FolderStore:
    """A store of files, with the methods of `torch.distributed.Store` that a transport uses."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, key: str) -> Path:
        return self._folder / key.replace("/", "%")

    def set(self, key: str, value: Any) -> None:
        """Set a key."""
        data = value.encode() if isinstance(value, str) else bytes(value)
        part = self._path(f"{key}.{os.getpid()}.part")
        part.write_bytes(data)
        part.replace(self._path(key))

    def add(self, key: str, amount: int) -> int:
        """Add to a number; the sum."""
        with open(self._path(f"{key}.lock"), "w") as lock:  # noqa: PTH123
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = self._path(key)
            total = (int(path.read_bytes()) if path.exists() else 0) + amount
            self.set(key, str(total))
            return total

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are set."""
        return all(self._path(key).exists() for key in keys)

    def get(self, key: str) -> bytes:
        """A key's value; it is set."""
        return self._path(key).read_bytes()
