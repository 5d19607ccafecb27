"""Whether a server can have an address, asked before gRPC is.

gRPC takes a Unix socket away from who listens there, is content with one of a name's two addresses, and
says why it could not have one in lines of its own on standard error.
"""

from __future__ import annotations

import errno
import socket
import stat
from pathlib import Path
from typing import Final

#: A machine without IPv6 may still resolve names to it.
_NOT_HERE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def check_free(address: str) -> None:
    """Raises OSError, which says why `address` ("host:port", "unix:PATH") cannot be had."""
    try:
        if address.startswith("unix:"):
            _check_path(Path(address.removeprefix("unix:")))
        else:
            host, _, port = address.rpartition(":")
            _check_port(host.strip("[]"), int(port))
    except OSError as error:
        why = error.strerror or str(error)
        raise OSError(f"cannot serve P4Runtime on {address}: {why}") from None


def _check_path(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError("there is something of that name that is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return  # left by a server that was killed
    raise OSError(errno.EADDRINUSE, "Address already in use")


def _check_port(host: str, port: int) -> None:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    missing: OSError | None = None
    had = 0
    for family, kind, protocol, _, where in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(where)
                had += 1
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
            missing = error
    if missing is not None and not had:
        raise missing
