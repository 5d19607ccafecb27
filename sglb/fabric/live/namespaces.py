"""Network namespaces without names: they last as long as somebody holds them.

A namespace is held by this process's descriptor and by the processes inside. When all of them are gone,
by whatever death, the kernel takes it away with every interface in it, so none can be left behind. To
look into one: `nsenter --net=/proc/PID/ns/net` with the id of a process inside.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sglb.fabric.live.errors import LiveError

_NEWNET: Final = 0x40000000
_NEWNS: Final = 0x20000
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
_OWN: Final = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


def why_not() -> str:
    """Why there can be no namespaces with veth pairs here, or ''."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "it needs root (network namespaces, packet sockets)"
    if not Path(_OWN).exists():
        return "it needs Linux with network namespaces"
    if shutil.which("ip") is None and not Path("/sys/class/net").is_dir():
        return "it needs /sys"
    return ""


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise LiveError(f"{what}: {os.strerror(number)}")


def mount_own_sysfs() -> None:
    """Has this process, and none outside, see in /sys the interfaces of its network namespace."""
    _check(_libc.unshare(_NEWNS), "a mount namespace")
    private = ctypes.c_ulong(_MS_REC | _MS_PRIVATE)
    _check(_libc.mount(None, b"/", None, private, None), "private mounts")
    _check(_libc.mount(b"sysfs", b"/sys", b"sysfs", ctypes.c_ulong(0), None), "a /sys of its own")


class Namespace:
    """A network namespace of its own. `close` lets go of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        home = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(_libc.unshare(_NEWNET), f"a network namespace for {name}")
            try:
                self.fd = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
                for kind in ("default", "all"):  # no frames but ours
                    with suppress(FileNotFoundError):
                        Path(f"/proc/sys/net/ipv6/conf/{kind}/disable_ipv6").write_text("1")
            finally:
                _check(_libc.setns(home, _NEWNET), "the way back from a network namespace")
        finally:
            os.close(home)

    def enter(self) -> None:
        """Moves this thread there, for good."""
        _check(_libc.setns(self.fd, _NEWNET), f"the network namespace of {self.name}")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """What is opened in here is opened there."""
        home = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.enter()
            try:
                yield
            finally:
                _check(_libc.setns(home, _NEWNET), "the way back from a network namespace")
        finally:
            os.close(home)

    def close(self) -> None:
        """Lets go; the namespace ends with the last process in it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
