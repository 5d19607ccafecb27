"""Network namespaces with hosts around a live switch; all of it gone at the end, whatever happens."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

SGLB = Path(sys.executable).with_name("sglb")
_SETNS = 0x40000000
_numbers = itertools.count()


@cache
def why_not() -> str:
    """Why there can be no such namespaces here, or ''."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "needs root"
    if shutil.which("ip") is None:
        return "needs ip (iproute2)"
    probe = f"wk{os.getpid()}"
    try:
        run("ip", "netns", "add", probe)
    except subprocess.CalledProcessError:
        return "needs network namespaces"
    try:
        run(*f"ip link add va netns {probe} type veth peer name vb netns {probe}".split())
    except subprocess.CalledProcessError:
        return "needs veth in the kernel"
    else:
        # Fails in a root that is no mount, as in a plain chroot.
        inside = ("ip", "netns", "exec", probe, "sysctl", "-n", "net.ipv6.conf.all.disable_ipv6")
        done = subprocess.run(inside, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"needs ip netns exec and sysctl: {' '.join(done.stderr.split())[:100]}"
    finally:
        run("ip", "netns", "del", probe)
    return ""


def run(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Lab:
    """Hosts 1 to `hosts`, each a namespace with `eth0` (10.0.0.N) that leads to `port(N)` out here."""

    def __init__(self, hosts: int) -> None:
        self.name = f"wk{os.getpid()}{'abcdefghijklmnopqrstuvwxyz'[next(_numbers)]}"
        self.hosts = {n: f"{self.name}{n}" for n in range(1, hosts + 1)}
        self._sockets: list[socket.socket] = []
        self._processes: list[subprocess.Popen[str]] = []
        try:
            for number in self.hosts:
                run("ip", "netns", "add", self.hosts[number])
                self.plug(number)
        except BaseException:
            self.close()
            raise

    def port(self, number: int) -> str:
        """The interface at the switch's end of a host's cable."""
        return f"{self.name}p{number}"

    def plug(self, number: int) -> None:
        """Makes a host's cable."""
        host, port = self.hosts[number], self.port(number)
        for kind in ("default", "all"):  # nothing but our frames
            setting = f"net.ipv6.conf.{kind}.disable_ipv6=1"
            run("ip", "netns", "exec", host, "sysctl", "-qw", setting)
        run(
            *f"ip link add {port} type veth peer name eth0 netns {host} "
            f"address 04:00:00:00:00:0{number}".split()
        )
        run("sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1")
        run("ip", "-n", host, "addr", "add", f"10.0.0.{number}/24", "dev", "eth0")
        run("ip", "-n", host, "link", "set", "eth0", "up")
        run("ip", "link", "set", port, "up")

    def set_host_end(self, number: int, state: str) -> None:
        """Sets the host's end of a cable up or down."""
        run("ip", "-n", self.hosts[number], "link", "set", "eth0", state)

    def in_namespace(self, name: str, make: Callable[[], Any]) -> Any:
        """Calls something within a namespace; sockets made there stay there."""
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{name}", os.O_RDONLY)
        try:
            _enter(there)
            return make()
        finally:
            _enter(here)
            os.close(here)
            os.close(there)

    def wire(self, number: int) -> socket.socket:
        """A packet socket at a host's end of its cable; what comes in waits up to 5 s to be read."""

        def make() -> socket.socket:
            found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            found.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING
            found.bind(("eth0", 3))
            found.settimeout(5)
            return found

        found: socket.socket = self.in_namespace(self.hosts[number], make)
        self._sockets.append(found)
        return found

    def switch(self, *arguments: str) -> subprocess.Popen[str]:
        """A running `sglb switch`; ends with the lab."""
        process = subprocess.Popen(
            [str(SGLB), "switch", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("P4Runtime on "):
            process.wait(10)
            assert process.stderr is not None
            raise AssertionError(process.stderr.read())
        return process

    def close(self) -> None:
        """Ends and removes all of it."""
        for one in self._sockets:
            one.close()
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        for name in self.hosts.values():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _enter(namespace: int) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).setns(namespace, _SETNS):
        raise OSError(ctypes.get_errno(), "setns")


@contextmanager
def lab(hosts: int) -> Iterator[Lab]:
    """A lab that is gone afterwards."""
    made = Lab(hosts)
    try:
        yield made
    finally:
        made.close()


def frames(wire: socket.socket, count: int) -> list[bytes]:
    """The next frames at a host's end."""
    return [wire.recv(65_536) for _ in range(count)]


def silent(wire: socket.socket) -> bool:
    """Whether nothing waits at a host's end."""
    wire.setblocking(False)
    try:
        wire.recv(65_536)
    except BlockingIOError:
        return True
    finally:
        wire.settimeout(5)
    return False
