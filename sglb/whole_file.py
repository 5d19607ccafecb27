"""Files that a command leaves: they hold all of what was to be written, or what they held before."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def check_writable(path: Path) -> None:
    """Raises OSError, with the file's name, where `write_whole` could not begin."""
    with _named(path):
        if path.is_dir() or path.is_file():
            path.open("ab").close()
        if not _in_place(path):
            part, fd = _part_beside(path)
            os.close(fd)
            part.unlink()


def write_whole(path: Path, text: str) -> None:
    """Puts a text into a file, in place of what it holds: that stays there if the text finds no room.

    A new file takes the old one's name, once it is on the disk; mode and owner are the old one's. Only
    what is no file (a device, a pipe), or is in a folder that takes no other, is written over.
    Raises OSError, with the file's name.
    """
    data = text.encode()
    with _named(path):
        if _in_place(path):
            # Not buffered: what a full disk refuses would be tried again as the file is closed.
            with path.open("wb", buffering=0) as stream:
                _all_of(data, stream.fileno())
        else:
            _replace(path, data)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Names the file in an OSError: a full disk is told without a name, or with another's."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def _in_place(path: Path) -> bool:
    if not path.exists():
        return False
    return not path.is_file() or not os.access(_target(path).parent, os.W_OK | os.X_OK)


def _target(path: Path) -> Path:
    """Where a link leads: it shall do so afterwards."""
    return Path(os.path.realpath(path))


def _part_beside(path: Path) -> tuple[Path, int]:
    part = _target(path).with_name(f".sglb-{secrets.token_hex(8)}.part")
    return part, os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)


def _replace(path: Path, data: bytes) -> None:
    part, fd = _part_beside(path)
    try:
        try:
            with suppress(FileNotFoundError):
                old = path.stat()
                with suppress(PermissionError):
                    os.fchown(fd, old.st_uid, old.st_gid)
                os.fchmod(fd, old.st_mode & 0o777)
            _all_of(data, fd)
            os.fsync(fd)  # some disks tell only then that they are full
        finally:
            os.close(fd)
        part.replace(_target(path))
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _all_of(data: bytes, fd: int) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
