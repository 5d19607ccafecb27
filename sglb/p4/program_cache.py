"""Compiled programs on disk, in `native.cache`, with what each file that was looked for held.

An entry is kept under the hash of the program's text and name, the working directory, include folders,
macros and the compiler itself. It counts as long as each file is as it was: those that were read, and
those that were not there. Like the code there, an entry is trusted as the user's own.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Mapping, Sequence
from functools import cache as once
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

import google.protobuf

from sglb.p4.deep import run_deep
from sglb.p4.native import cache

if TYPE_CHECKING:
    from sglb.p4.compiler import CompiledProgram

_SUFFIX: Final = ".p4"


def key(
    text: str, name: str, include_dirs: Sequence[Path], defines: Mapping[str, str] | None
) -> str | None:
    """What a program is kept under; None where the working directory is gone."""
    try:
        here = os.getcwd()  # noqa: PTH109 - only a string is needed
    except OSError:
        return None
    macros = [f"{macro}={value}" for macro, value in (defines or {}).items()]
    folders = [str(folder) for folder in include_dirs]
    parts = (text, name, here, *folders, "", *macros, "", *_compiler())
    return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def load(name: str) -> CompiledProgram | None:
    """The program kept under a key, if all its files are as they were."""
    data = cache.load(name, _SUFFIX)
    if data is None:
        return None
    files: dict[str, str]
    program: CompiledProgram
    files, program = run_deep(lambda: pickle.loads(data))
    return program if all(_digest(path) == seen for path, seen in files.items()) else None


def save(name: str, program: CompiledProgram) -> None:
    """Keeps a program under a key."""
    files = program.sources.looked_for
    cache.save(name, run_deep(lambda: pickle.dumps((files, program), 5)), _SUFFIX)


def _digest(path: str) -> str:
    """The SHA-256 of a file; "" where there is none."""
    try:
        return sha256(Path(path).read_bytes()).hexdigest()
    except (OSError, ValueError):
        return ""


@once
def _compiler() -> tuple[str, ...]:
    """What identifies the compiler: its files, and what it stands on."""
    found = [sys.version, google.protobuf.__version__]
    with os.scandir(Path(__file__).parent) as files:
        for file in sorted(files, key=lambda file: file.name):
            if file.is_file():
                stat = file.stat()
                found.append(f"{file.path} {stat.st_size} {stat.st_mtime_ns}")
    return tuple(found)
