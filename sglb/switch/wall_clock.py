"""Real time for the parts that live on a `Scheduler`: an asyncio loop's clock in picoseconds."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable

from sglb.switch.clock import PS_PER_NS, PS_PER_S, ClockError, VirtualHandle


class WallClock:
    """Scheduler over an asyncio loop; time 0 is when it was made.

    As in virtual time, callbacks run one after the other, in order of time, then of asking; one asked
    for in the past runs as soon as possible. Use it on its loop's thread only. At time 0 the wall
    clock showed `epoch_ns` (ns since 1970), the monotonic clock `start_ns`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.epoch_ns = time.time_ns()
        self._loop = loop
        self.start_ns = time.monotonic_ns()
        self._seq = 0
        self._heap: list[tuple[int, int, VirtualHandle]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ps = 0

    @property
    def now_ps(self) -> int:
        """Picoseconds since the clock was made."""
        return (time.monotonic_ns() - self.start_ns) * PS_PER_NS

    def call_at(self, time_ps: int, fn: Callable[..., object], *args: object) -> VirtualHandle:
        """Call `fn(*args)` at `time_ps`, or at once if that has passed.

        Raises `ClockError` for a time that is no `int`.
        """
        if type(time_ps) is not int:
            raise ClockError(f"event time must be integer picoseconds, got {time_ps!r}")
        handle = VirtualHandle(time_ps, fn, args)
        self._seq += 1
        heapq.heappush(self._heap, (time_ps, self._seq, handle))
        self._arm()
        return handle

    def call_later(self, delay_ps: int, fn: Callable[..., object], *args: object) -> VirtualHandle:
        """Call `fn(*args)` after `delay_ps`."""
        return self.call_at(self.now_ps + delay_ps, fn, *args)

    def next_ps(self) -> int | None:
        """Time of the next live event, None when there is none."""
        while self._heap and not self._heap[0][2].active:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def stop(self) -> None:
        """Forgets all events."""
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        due_ps = self.next_ps()
        if due_ps is None:
            return
        if self._timer is not None:
            if self._timer_ps <= due_ps:
                return
            self._timer.cancel()
        self._timer_ps = due_ps
        delay_s = max(0, due_ps - self.now_ps) / PS_PER_S
        self._timer = self._loop.call_later(delay_s, self._run)

    def _run(self) -> None:
        self._timer = None
        # What callbacks add for right now waits for the next round, so that sockets get their turn.
        # All that is due is taken first: one that keeps asking for the past holds up nobody.
        limit_ps = self.now_ps
        due: list[tuple[int, int, VirtualHandle]] = []
        while self._heap and self._heap[0][0] <= limit_ps:
            due.append(heapq.heappop(self._heap))
        due.reverse()
        try:
            while due:
                fn, args = due.pop()[2]._take()
                if fn is not None:
                    fn(*args)
        finally:
            for left in due:
                heapq.heappush(self._heap, left)
            self._arm()
