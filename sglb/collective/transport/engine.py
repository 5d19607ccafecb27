"""Who drives: one thread at a time waits for events and handles them.

A thread that waits for a transfer drives the transport itself, so that no message has to be handed
from thread to thread. When several wait, one leads and the others sleep until their transfer is done
or the lead is free. When none waits, a background thread takes over after a moment.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from sglb.collective.transport.errors import WaitTimeoutError
from sglb.collective.transport.messages import Transfer

_log = logging.getLogger("sglb.collective")

_EVENTS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
_FIRST_PAUSE_S = 0.001
_LAST_PAUSE_S = 0.004


class Work(Protocol):
    """What is driven; all but `completed` under the engine's lock."""

    def handle(self) -> bool:
        """After the handlers of events: do what is due. Whether there is more to do at once."""

    def due_s(self) -> float:
        """Seconds until `handle` must be called even if nothing happens."""

    def about_to_sleep(self) -> bool:
        """Without the lock: whether to sleep until something happens, or to go on at once."""

    def completed(self) -> list[Transfer]:
        """Transfers done since the last call."""

    def broke(self, error: Exception) -> None:
        """A bug: nothing can go on."""


class _Wake:
    """Wakes one sleeping thread, however often it is set."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def release(self) -> None:
        """Wake it."""
        with suppress(RuntimeError):  # was set before
            self._lock.release()

    def sleep(self, timeout_s: float | None) -> None:
        """Until set, or `timeout_s`."""
        self._lock.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0))


class Engine:
    """The event loop of one transport. `lock` guards all state of the transport."""

    def __init__(self, work: Work, name: str) -> None:
        self.lock = threading.Lock()
        self._work = work
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._kick = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._kick, select.EPOLLIN)
        self._led = False
        self._led_at = 0.0
        self._leader = 0
        self._background_leads = False
        self._more = False
        self._followers: deque[_Wake] = deque()
        self._stopped = False
        self._thread = threading.Thread(target=self._background, name=name, daemon=True)

    def start(self) -> None:
        """From now on things go on even if nobody waits."""
        self._thread.start()

    def stop(self) -> None:
        """Stop driving; waits for the background thread. Not from a callback."""
        self._stopped = True
        self.kick()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()
        # Another thread may lead, waiting for something; or a callback on this one closes the transport.
        while self._led and self._leader != threading.get_ident():
            self.kick()
            time.sleep(_FIRST_PAUSE_S)

    def close(self) -> None:
        """Give the loop's descriptors back; after `stop`, when nobody drives any more."""
        self._epoll.close()
        kick, self._kick = self._kick, -1  # a late `kick` must not write to another's descriptor
        os.close(kick)

    def watch(self, fd: int, handler: Callable[[int], None], *, writing: bool = True) -> None:
        """Call the handler, under the lock, with each change of readiness (edge-triggered)."""
        self._handlers[fd] = handler
        self._epoll.register(fd, _EVENTS if writing else _EVENTS & ~select.EPOLLOUT)

    def want_room(self, fd: int, wanted: bool) -> None:
        """Of a descriptor watched for reading: whether to tell when it can be written to."""
        events = _EVENTS if wanted else _EVENTS & ~select.EPOLLOUT
        with suppress(OSError):
            self._epoll.modify(fd, events)

    def forget(self, fd: int) -> None:
        """Before a watched descriptor is closed."""
        if self._handlers.pop(fd, None) is not None:
            with suppress(OSError):
                self._epoll.unregister(fd)

    def kick(self) -> None:
        """Make whoever sleeps in the event loop look again."""
        with suppress(OSError):
            os.eventfd_write(self._kick, 1)

    def wait_for(self, transfer: Transfer, timeout_s: float | None) -> None:
        """Until the transfer is done. Raises WaitTimeoutError."""
        if not self.wait_until(lambda: transfer.done, timeout_s, transfer):
            raise WaitTimeoutError(
                f"{transfer.progress_bytes} of {transfer.size_bytes} bytes with rank "
                f"{transfer.peer} after {timeout_s:g} s"
            )

    def wait_until(
        self,
        done: Callable[[], bool],
        timeout_s: float | None = None,
        transfer: Transfer | None = None,
    ) -> bool:
        """Until `done()`, driving meanwhile; whether it is. `transfer`: what wakes a sleeper."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not done():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return done()
            if self._stopped:  # whoever stopped it will end all transfers
                time.sleep(_FIRST_PAUSE_S)
                continue
            wake = self._take_lead(transfer)
            if wake is None:
                try:
                    self._lead(done, deadline)
                finally:
                    self._resign()
            else:
                # Without a transfer nothing but the free lead would wake it.
                wake.sleep(left if transfer is not None else min(left or 0.01, 0.01))
                self._pass_on(wake)
        return True

    def _take_lead(self, transfer: Transfer | None) -> _Wake | None:
        with self.lock:
            if not self._led:
                self._led = True
                self._leader = threading.get_ident()
                return None
            wake = _Wake()
            if transfer is not None:
                if transfer.done:
                    wake.release()
                transfer.wake_with(wake)
            self._followers.append(wake)
            if self._background_leads:
                self.kick()
            return wake

    def _pass_on(self, wake: _Wake) -> None:
        """A sleeper woke; if it was for a lead that it may not need, the next one gets it."""
        with self.lock:
            if wake in self._followers:
                self._followers.remove(wake)
            elif not self._led and self._followers:
                self._followers.popleft().release()

    def _resign(self) -> None:
        with self.lock:
            self._led = self._background_leads = False
            if self._followers:
                self._followers.popleft().release()

    def _lead(self, done: Callable[[], bool], deadline: float | None) -> None:
        while not done() and not self._stopped:
            timeout = 0.0 if self._more else self._work.due_s()
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                timeout = min(timeout, left)
            if timeout > 0 and not self._work.about_to_sleep():
                timeout = 0.0
            self._turn(self._epoll.poll(timeout))

    def _turn(self, events: list[tuple[int, int]]) -> None:
        with self.lock:
            self._led_at = time.monotonic()
            try:
                for fd, event in events:
                    if fd == self._kick:
                        with suppress(OSError):
                            os.eventfd_read(fd)
                        continue
                    handler = self._handlers.get(fd)
                    if handler is not None:
                        handler(event)
                self._more = self._work.handle()
            except Exception as error:
                _log.exception("a bug in the transport")
                self._more = False
                self._work.broke(error)
        self.run_callbacks()

    def run_callbacks(self) -> None:
        """Tell who wants to know of transfers that are done; without the lock."""
        for transfer in self._work.completed():
            try:
                transfer.run_callbacks()
            except Exception:
                _log.exception("a callback failed")

    def _background(self) -> None:
        pause = _FIRST_PAUSE_S
        while not self._stopped:
            with self.lock:
                mine = not self._led and time.monotonic() - self._led_at > pause
                if mine:
                    self._led = self._background_leads = True
                    self._leader = threading.get_ident()
            if not mine:
                # Others drive. Looking now and then costs less than being woken by each of them.
                time.sleep(pause)
                pause = min(pause * 1.5, _LAST_PAUSE_S)
                continue
            pause = _FIRST_PAUSE_S
            try:
                self._lead(lambda: bool(self._followers) or self._stopped, None)
            finally:
                self._resign()
