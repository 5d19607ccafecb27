"""The processes of a fabric: forked from one that has everything loaded, and gone when that one is.

Loading the compiler, the compiled switch and gRPC takes seconds a process, so the supervisor loads them
once and forks. It must have no threads and no gRPC channel when it does. A child is killed by the kernel
when its parent ends, however that ends (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from sglb.fabric.live.errors import LiveError
from sglb.fabric.live.namespaces import Namespace

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_TERM_S: Final = 5.0
_LOG_LINES: Final = 8


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What a process is: `target` runs in the fork, in `namespace`, and ends with it.

    `restart` says whether another one takes its place when it ends by itself, `ends` whether it is
    expected to, with status 0. `keep` are descriptors
    that stay open; all others are closed. `nice` is its priority (-20 the highest): what else the
    machine does must not look like a fault.
    """

    name: str
    target: Callable[[], None]
    namespace: Namespace | None = None
    restart: bool = False
    ends: bool = False
    keep: tuple[int, ...] = ()
    nice: int = -10


@dataclass(slots=True)
class Process:
    """A running process. `pidfd` becomes readable when it ends."""

    spec: ProcessSpec
    pid: int
    pidfd: int
    log: Path
    wanted: bool = field(default=True)  #: False once it was told to end

    def kill(self, number: signal.Signals) -> None:
        """Sends a signal; harmless when it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    def reap(self) -> int:
        """Waits for its end; its exit status, negative for a signal."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pidfd)
        self.pidfd = -1
        return os.waitstatus_to_exitcode(status)

    def last_words(self) -> str:
        """The end of its log, on one line, without what points at a place in the line before."""
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return " | ".join(line.strip() for line in lines[-_LOG_LINES:] if line.strip(" ^~"))


def start(spec: ProcessSpec, log: Path) -> Process:
    """Forks a process; its output goes to the end of `log`."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    gc.freeze()
    pid = os.fork()
    if pid == 0:
        _child(spec, log, parent)
    gc.unfreeze()
    return Process(spec, pid, os.pidfd_open(pid), log)


def _child(spec: ProcessSpec, log: Path, parent: int) -> NoReturn:
    status = 1
    try:
        tie_to_parent(parent)
        os.setsid()  # Ctrl-C is for the supervisor, which sees to the rest
        _redirect(log)
        faulthandler.enable()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if spec.namespace is not None:
            spec.namespace.enter()
        _close_others({0, 1, 2, *spec.keep})
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, spec.nice)
        _libc().prctl(_PR_SET_NAME, spec.name.encode()[:15], 0, 0, 0)
        spec.target()
        status = 0
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def tie_to_parent(parent: int) -> None:
    """Has the kernel kill this process when the thread that started it ends."""
    _libc().prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it ended before that was said


def _redirect(log: Path) -> None:
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(fd, 1)
    os.dup2(fd, 2)


def _close_others(keep: set[int]) -> None:
    first = 0
    for fd in sorted(keep):
        if fd > first:  # an empty range that begins with 0 is everything to it
            os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, 1 << 16)


def end_all(processes: Sequence[Process]) -> list[int]:
    """Ends processes, by SIGTERM and then by force; their exit statuses."""
    for process in processes:
        process.wanted = False
        process.kill(signal.SIGTERM)
    deadline = time.monotonic() + _TERM_S
    left = list(processes)
    while left and time.monotonic() < deadline:
        left = [p for p in left if not _ended(p)]
        time.sleep(0.01)
    for process in left:
        process.kill(signal.SIGKILL)
    return [process.reap() for process in processes]


def _ended(process: Process) -> bool:
    found = os.waitid(os.P_PIDFD, process.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return found is not None


def failed(process: Process, status: int) -> LiveError:
    """What to tell of a process that ended when nobody had asked it to."""
    how = f"signal {-status}" if status < 0 else f"status {status}"
    words = process.last_words()
    return LiveError(f"{process.spec.name} ended with {how}" + (f": {words}" if words else ""))
