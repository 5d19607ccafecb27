"""Where processes of this user leave sockets for others on the same host."""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

from sglb.collective.transport.errors import SettingsError

_BACKLOG = 512
_MAX_PATH_BYTES = 107


def runtime_folder(chosen: str = "") -> Path:
    """The folder, made if need be, ours alone: `chosen`, else of XDG_RUNTIME_DIR, else in /tmp.

    Raises SettingsError when it is somebody else's, or cannot be made.
    """
    path = folder_path(chosen)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError as error:
        raise SettingsError(f"RECCL_RUNTIME_DIR: cannot use {path}: {error.strerror}") from error
    if found.st_uid != os.getuid() or (found.st_mode & 0o022 and not chosen):
        raise SettingsError(f"RECCL_RUNTIME_DIR: {path} is not this user's alone; name another")
    return path


def folder_path(chosen: str = "") -> Path:
    """Where that folder is, whether it is there or not."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if chosen:
        return Path(chosen)
    if base and os.access(base, os.W_OK):
        return Path(base, "reccl")
    return Path(f"/tmp/reccl-{os.getuid()}")


def listen_at(path: Path) -> socket.socket:
    """A listening Unix socket, for this user only. Raises OSError, SettingsError for a long path."""
    size = len(os.fsencode(path))
    if size > _MAX_PATH_BYTES:
        raise SettingsError(
            f"RECCL_RUNTIME_DIR: {path} has {size} bytes, the path of a Unix socket at most "
            f"{_MAX_PATH_BYTES}: name a shorter folder"
        )
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        door.bind(str(path))
        path.chmod(0o600)
        door.listen(_BACKLOG)
    except OSError:
        door.close()
        raise
    return door


def open_door(runtime_dir: str) -> tuple[str, socket.socket]:
    """A door for ranks of this host: its path, and the listening socket. Raises OSError."""
    folder = runtime_folder(runtime_dir)
    sweep(folder)
    path = folder / f"{os.getpid()}-{secrets.token_hex(4)}.door"
    return str(path), listen_at(path)


def close_door(path: str) -> None:
    """Remove a door's path."""
    if path:
        with suppress(FileNotFoundError):
            Path(path).unlink()


def sweep(folder: Path) -> None:
    """Remove the sockets that killed processes have left in a folder."""
    for path in [*folder.glob("*.door"), *folder.glob("*.status")]:
        pid = path.stem.partition("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists() and not _is_open(path):
            path.unlink(missing_ok=True)


def _is_open(path: Path) -> bool:
    """Whether somebody listens: a process of another container has another number there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as knocking:
        try:
            knocking.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:  # so many wait to be let in, or it may not be asked: not ours to judge
            return True
    return True
