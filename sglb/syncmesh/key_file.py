"""A fabric's secret in a file: hexadecimal digits on one line, for its owner's eyes only.

`openssl rand -hex 32 > fabric.key; chmod 600 fabric.key` makes one.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from sglb.syncmesh.messages import MIN_KEY_BYTES, FabricKey

_MOST_BYTES: Final = 1_024
_FRESH_BYTES: Final = 32


class KeyFileError(ValueError):
    """A key file that cannot be used: which, why, what to do."""


def read_key(path: Path) -> FabricKey:
    """The key in a file. Raises `KeyFileError`, for one that others may read, too."""
    try:
        # Looked at and read by one descriptor, so that it is the same file.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        text = _read_private(path, fd)
    finally:
        os.close(fd)
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        key = b""
    if len(text) > _MOST_BYTES or len(key) < MIN_KEY_BYTES:
        raise KeyFileError(
            f"{path}: must be {2 * MIN_KEY_BYTES} hexadecimal digits or more, on one line: "
            "openssl rand -hex 32"
        )
    return FabricKey(key)


def _read_private(path: Path, fd: int) -> bytes:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise KeyFileError(f"{path}: is no plain file")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        mode = stat.S_IMODE(found.st_mode)
        raise KeyFileError(
            f"{path}: other users may use this key (mode {mode:04o}): chmod 600 {path}"
        )
    if found.st_uid not in (0, os.geteuid()):
        raise KeyFileError(f"{path}: belongs to another user, who may change the key")
    return os.read(fd, _MOST_BYTES + 1)


def write_fresh_key(path: Path) -> None:
    """Writes a random key to a new file that only this user may read. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
        file.write(f"{secrets.token_hex(_FRESH_BYTES)}\n")
