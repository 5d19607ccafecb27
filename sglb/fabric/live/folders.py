"""A private folder for a fabric's sockets and logs, removed whatever happens.

A watcher process removes it when the owner ends without having done so (kill -9), and what even the
watcher left is removed by the next fabric: whose lock on the folder is free, is dead.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

_log = logging.getLogger(__name__)

PREFIX: Final = "sglb-live-"
_LOCK: Final = "lock"
_KEPT: Final = ("*.log", "*.json", "*.events", "*.pcap")
_AFTER_S: Final = 0.5  #: for the owner's children to be gone


@contextmanager
def private_folder(keep: Path | None = None) -> Iterator[Path]:
    """A folder that only this user can look into. Logs and the like go to `keep` at the end."""
    sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = _locked(folder / _LOCK)
    hold, watched = os.pipe2(os.O_CLOEXEC)
    watcher = os.fork()
    if watcher == 0:
        os.close(lock)
        os.close(watched)
        _watch(hold, folder)
    os.close(hold)
    try:
        yield folder
    finally:
        if keep is not None:
            _keep(folder, keep)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(watched)
        os.close(lock)
        os.waitpid(watcher, 0)


def _keep(folder: Path, keep: Path) -> None:
    """What the run found is worth more than its logs: if these find no room it is only told."""
    try:
        keep.mkdir(parents=True, exist_ok=True)
        for pattern in _KEPT:
            for path in folder.glob(pattern):
                shutil.copy2(path, keep)
    except OSError as error:
        _log.warning("warning: not all logs are in %s: %s", keep, error.strerror)


def _locked(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


def _watch(hold: int, folder: Path) -> NoReturn:
    """Waits until the other end is closed, by whatever end of its process."""
    with suppress(OSError):
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(0, hold)
        os.closerange(hold + 1, 1 << 16)
        os.read(hold, 1)
        if folder.exists():
            time.sleep(_AFTER_S)
            shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def sweep(parent: Path) -> list[Path]:
    """Removes folders of fabrics whose owners are dead; those that it removed."""
    removed = []
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder.stat().st_uid != os.geteuid() or folder.is_symlink():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
            finally:
                os.close(lock)
    return removed
