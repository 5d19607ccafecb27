"""Compiled code on disk, by content.

A file holds the SHA-256 of what follows, then the object code. It is written beside its place and moved
there, so a reader sees all of it or nothing; one that is damaged counts as absent. The directory is
`$SGLB_CACHE_DIR`, else `$XDG_CACHE_HOME/sglb`, else `~/.cache/sglb`; where it cannot be written, things
work as well, only slower. Of more than `LIMIT_BYTES`, the files unused for longest are removed.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

#: Bytes that all files may take together.
LIMIT_BYTES: Final = 256 << 20

_SUM_BYTES: Final = 32
#: How files of object code end.
OBJECT: Final = ".o"


def cache_directory() -> Path | None:
    """Where compiled code is kept; None where the user has no home."""
    chosen = os.environ.get("SGLB_CACHE_DIR")
    if chosen:
        return Path(chosen) / "native"
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "sglb" / "native"
    except RuntimeError:
        return None


def load(key: str, suffix: str = OBJECT) -> bytes | None:
    """What is kept under a key; None if there is none, or it is damaged."""
    directory = cache_directory()
    if directory is None:
        return None
    path = directory / (key + suffix)
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    code = whole[_SUM_BYTES:]
    if not code or sha256(code).digest() != whole[:_SUM_BYTES]:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return code


def save(key: str, code: bytes, suffix: str = OBJECT) -> None:
    """Keeps something under a key, if the directory can be written."""
    directory = cache_directory()
    if directory is None:
        return
    with contextlib.suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=directory, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(sha256(code).digest() + code)
            Path(name).replace(directory / (key + suffix))
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
        _trim(directory)


def _trim(directory: Path) -> None:
    files = []
    for path in directory.glob("[!.]*"):
        with contextlib.suppress(OSError):  # another process may be trimming too
            stat = path.stat()
            files.append((stat.st_mtime_ns, stat.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= LIMIT_BYTES:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
