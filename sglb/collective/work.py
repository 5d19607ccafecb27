"""Handles of operations, as torch expects them, and the thread that runs what is asynchronous."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import Work

from sglb.collective.errors import CollectiveTimeoutError


class CollectiveWork(Work):
    """An operation that runs, or has run. `label` names it in errors."""

    def __init__(self, label: Callable[[], str], result: list[Any]) -> None:
        super().__init__()
        self._label = label
        self._result = result
        self._lock = threading.Lock()
        self._done = False
        self._gate = (
            threading.Lock()
        )  # held until the end; an Event costs ten times as much to make
        self._gate.acquire()
        self._error: Exception | None = None
        self._future: torch.futures.Future[Any] | None = None

    def blame(self, error: Exception) -> None:
        """Why it will have failed once it ends; only the first one counts."""
        with self._lock:
            if not self._done and self._error is None:
                self._error = error

    def finish(self) -> None:
        """Marks the end, from which on its memory is the caller's; only the first call counts."""
        with self._lock:
            if self._done:
                return
            self._done = True
            self._gate.release()
            future = self._future
        if future is not None:
            future.set_result(None)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Until the end; raises the operation's error. `timeout` 0 means the operation's own.

        Raises CollectiveTimeoutError after another `timeout`; the operation goes on then.
        """
        limit_s = timeout.total_seconds()
        if not self._wait_until_ended(limit_s if limit_s > 0 else None):
            raise CollectiveTimeoutError(
                f"Timed out: {self._label()} was not done {limit_s:g} s after wait() was called"
            )
        if self._error is not None:
            raise self._error
        return True

    def _wait_until_ended(self, limit_s: float | None) -> bool:
        if self._done:
            return True
        if not self._gate.acquire(timeout=-1 if limit_s is None else limit_s):
            return False
        self._gate.release()
        return True

    def synchronize(self) -> None:
        """Like `wait`: results are stored when the operation ends."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return self._done

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._done and self._error is None

    def exception(self) -> Exception | None:
        """Why it has failed; None before it has."""
        return self._error if self._done else None

    def result(self) -> list[Any]:
        """The tensors that hold the result."""
        return self._result

    def source_rank(self) -> int:
        """Who sent what a receive has got; -1 for other operations, and before."""
        return -1

    def _source_rank(self) -> int:
        return self.source_rank()

    def get_future(self) -> torch.futures.Future[Any]:
        """Has the result tensors as its value when the operation has ended, or raises its error."""
        with self._lock:
            if self._future is None:
                self._future = torch.futures.Future()
                if self._done:
                    self._future.set_result(None)
        # An exception that is set would be a value to C++ (DDP); one that a callback raises is an error.
        return self._future.then(self._value)

    def _value(self, _future: torch.futures.Future[Any]) -> list[Any]:
        if self._error is not None:
            raise self._error
        return self._result


class Lane:
    """A thread that runs jobs in their order. It starts with the first; no process waits for it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, job: Callable[[], None]) -> None:
        """Runs `job`, which raises nothing, after those before it."""
        with self._changed:
            if self._closed:
                raise RuntimeError("the process group has been shut down")
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Ends the thread after the jobs that it has, and waits for it unless called from it."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._jobs:
                    if self._closed:
                        return
                    self._changed.wait()
                job = self._jobs.popleft()
            job()
