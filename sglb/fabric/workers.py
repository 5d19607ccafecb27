"""Policies in processes of their own, so that a comparison uses all processors.

A worker is a fresh interpreter that reads its job from standard input and answers on standard output,
both pickled. Unlike `multiprocessing` this asks nothing of the caller's main module, so `run` works
from a script, a notebook and a program with threads alike.
"""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import IO, Any, Protocol

from finsy.proto import p4i, p4r

from sglb.fabric.advance import Advance, Stop, never
from sglb.fabric.policy_job import PolicyInterrupted, PolicyJob
from sglb.fabric.report import PolicyReport

Told = Callable[[str, Advance], None]

_TELL_EVERY_S = 0.1
#: How long workers may take to report what they have, once they are asked to stop.
_GRACE_S = 2.0
_STOP = b"s"
_MAIN = "from sglb.fabric.workers import work; work()"


class WorkerError(RuntimeError):
    """A policy's run failed; the text is one line, `details` the traceback."""

    def __init__(self, policy: str, message: str, details: str = "") -> None:
        super().__init__(f"policy {policy}: {message}")
        self.details = details


class JobsInterrupted(KeyboardInterrupt):
    """Ctrl-C; `reports` are those of the jobs that had finished, or had something to report."""

    def __init__(self, reports: list[PolicyReport]) -> None:
        super().__init__()
        self.reports = reports


def run_jobs(
    jobs: Sequence[PolicyJob], at_a_time: int, progress: Told | None = None
) -> list[PolicyReport]:
    """Run all jobs, `at_a_time` of them in parallel (1: here, in this process).

    Reports come in the order of the jobs. Raises `WorkerError` for the first that fails and ends
    the others; `JobsInterrupted` on Ctrl-C, likewise.
    """
    if at_a_time > 1 and len(jobs) > 1:
        return _Crew(jobs, progress).run(at_a_time)
    reports: list[PolicyReport] = []
    try:
        for job in jobs:
            reports.append(_run_here(job, progress))
    except PolicyInterrupted as stopped:
        raise JobsInterrupted([*reports, stopped.report]) from None
    except KeyboardInterrupt:
        raise JobsInterrupted(reports) from None
    return reports


def _run_here(job: PolicyJob, progress: Told | None, stop: Stop = never) -> PolicyReport:
    def tell(advance: Advance) -> None:
        if progress is not None:
            progress(job.policy, advance)

    try:
        return job.run(tell, stop)
    except Exception as error:
        raise _failure(job.policy, error) from error


def _failure(policy: str, error: Exception) -> WorkerError:
    text = str(error) or type(error).__name__
    return WorkerError(policy, text, "".join(traceback.format_exception(error)))


def _leave_signals_to_others() -> None:
    """Keep SIGINT and SIGTERM from this thread and the processes that it starts: others end them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})


class _Crew:
    """Worker processes, each watched by a thread of this process."""

    def __init__(self, jobs: Sequence[PolicyJob], progress: Told | None) -> None:
        self._jobs = [(job.policy, packed(job)) for job in jobs]
        self._progress = progress
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[bytes]] = []
        self._over = False

    def run(self, at_a_time: int) -> list[PolicyReport]:
        with ThreadPoolExecutor(at_a_time, initializer=_leave_signals_to_others) as pool:
            waiting = [pool.submit(self._watch, *job) for job in self._jobs]
            try:
                wait(waiting, return_when=FIRST_EXCEPTION)
                for future in waiting:
                    if future.done():
                        future.result()
                return [future.result() for future in waiting]
            except KeyboardInterrupt:
                self._ask_to_stop()
                wait(waiting, timeout=_GRACE_S)
                finished = [f for f in waiting if f.done() and f.exception() is None]
                raise JobsInterrupted([f.result() for f in finished]) from None
            finally:
                self._stop()

    def _ask_to_stop(self) -> None:
        with self._lock:
            self._over = True
            for process in self._running:
                with suppress(OSError, ValueError):
                    assert process.stdin is not None
                    process.stdin.write(_STOP)
                    process.stdin.flush()

    def _stop(self) -> None:
        with self._lock:
            self._over = True
            for process in self._running:
                process.kill()

    def _start(self) -> subprocess.Popen[bytes] | None:
        path = os.pathsep.join(p for p in sys.path if p)
        with self._lock:
            if self._over:
                return None
            process = subprocess.Popen(
                # -P: a module of that name in the user's folder must not stand before ours.
                [sys.executable, "-P", "-c", _MAIN],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": path},
            )
            self._running.append(process)
            return process

    def _watch(self, policy: str, job: bytes) -> PolicyReport:
        process = self._start()
        if process is None:
            raise WorkerError(policy, "was not started, because another one failed")
        assert process.stdin is not None
        assert process.stdout is not None
        with process:
            try:
                # It stays open: that it closes tells the worker that nobody waits any more.
                process.stdin.write(job)
                process.stdin.flush()
                return self._listen(policy, process.stdout)
            except (OSError, EOFError, pickle.UnpicklingError) as error:
                code = process.wait()
                raise WorkerError(
                    policy, f"its process ended without a result, exit status {code}"
                ) from error

    def _listen(self, policy: str, answers: IO[bytes]) -> PolicyReport:
        while True:
            match pickle.load(answers):
                case ("progress", advance):
                    if self._progress is not None:
                        with self._lock:
                            self._progress(policy, advance)
                case ("failed", text, details):
                    raise WorkerError(policy, text, details)
                case report:
                    assert isinstance(report, PolicyReport)
                    return report


class _Pickler(pickle.Pickler):
    """Knows that protobuf messages travel as their own wire format."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, p4i.P4Info):
            return _p4info, (obj.SerializeToString(deterministic=True),)
        if isinstance(obj, p4r.Update):
            return _update, (obj.SerializeToString(deterministic=True),)
        return NotImplemented


def _p4info(data: bytes) -> p4i.P4Info:
    message = p4i.P4Info()
    message.ParseFromString(data)
    return message


def _update(data: bytes) -> p4r.Update:
    message = p4r.Update()
    message.ParseFromString(data)
    return message


class Job(Protocol):
    """What can be sent to another process."""

    @property
    def policy(self) -> str:
        """What to name where it fails."""

    @property
    def control_plane(self) -> object:
        """A name or a factory."""


def packed(job: Job) -> bytes:
    """A job as bytes; `WorkerError` when it cannot travel."""
    control = job.control_plane
    buffer = io.BytesIO()
    try:
        if getattr(control, "__module__", "") == "__main__":
            raise pickle.PicklingError("it is defined in the main module")
        _Pickler(buffer).dump(job)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise WorkerError(
            job.policy,
            f"cannot be sent to another process ({error}); put the control plane into a module that "
            "can be imported, or use jobs=1",
        ) from error
    return buffer.getvalue()


def work() -> None:
    """A worker's whole life: job in, progress and a report out."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a control plane prints must not get between the answers

    def answer(message: object) -> None:
        try:
            pickle.dump(message, answers)
            answers.flush()
        except BrokenPipeError:
            os._exit(1)  # nobody waits any more

    told_s = float("-inf")

    def progress(_policy: str, advance: Advance) -> None:
        nonlocal told_s
        if time.monotonic() - told_s > _TELL_EVERY_S:
            told_s = time.monotonic()
            answer(("progress", advance))

    try:
        job = pickle.load(sys.stdin.buffer)
    except (EOFError, pickle.UnpicklingError):
        os._exit(1)  # whoever sent it is gone
    stop = threading.Event()
    threading.Thread(target=_listen_to_parent, args=(stop,), daemon=True).start()
    try:
        answer(_run_here(job, progress, stop.is_set))
    except WorkerError as error:
        cause = error.__cause__
        assert isinstance(cause, Exception)
        answer(("failed", str(cause) or type(cause).__name__, error.details))


def _listen_to_parent(stop: threading.Event) -> None:
    """End this process as soon as the one that started it is gone; stop when it says so."""
    while os.read(0, 1):
        stop.set()
    os._exit(1)
