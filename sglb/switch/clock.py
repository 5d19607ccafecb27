"""Virtual time: a deterministic event loop in integer picoseconds.

Everything that waits (hosts, switches, agents, the control plane) depends on the small
`Scheduler` protocol only, so that the same code runs under virtual or real time.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable
from typing import Any, Protocol

PS_PER_NS = 1_000
PS_PER_US = 1_000_000
PS_PER_MS = 1_000_000_000
PS_PER_S = 1_000_000_000_000


class ClockError(ValueError):
    """A callback was asked for in the past, or at a time that is no integer."""


class Handle(Protocol):
    """A scheduled callback that can be called off."""

    def cancel(self) -> None:
        """Call it off; harmless when it has run or was cancelled before."""

    @property
    def active(self) -> bool:
        """Whether the callback is still to come."""


class Scheduler(Protocol):
    """What a part needs in order to live in time."""

    @property
    def now_ps(self) -> int:
        """The current time in picoseconds."""

    def call_at(self, time_ps: int, fn: Callable[..., object], *args: object) -> Handle:
        """Call `fn(*args)` at `time_ps`; equal times run in the order they were asked for."""

    def call_later(self, delay_ps: int, fn: Callable[..., object], *args: object) -> Handle:
        """Call `fn(*args)` after `delay_ps`."""


class RunEnd(enum.Enum):
    """Why `VirtualClock.run` returned."""

    IDLE = "no event left"
    UNTIL = "the time limit was reached"
    STOPPED = "the stop condition held"


class VirtualHandle:
    """Handle of a callback on a `VirtualClock`."""

    __slots__ = ("_args", "_fn", "time_ps")

    def __init__(self, time_ps: int, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.time_ps = time_ps
        self._fn: Callable[..., object] | None = fn
        self._args = args

    @property
    def active(self) -> bool:
        """Whether the callback is still to come."""
        return self._fn is not None

    def cancel(self) -> None:
        """Call it off; harmless when it has run or was cancelled before."""
        self._fn = None
        self._args = ()

    def _take(self) -> tuple[Callable[..., object] | None, tuple[Any, ...]]:
        fn, args = self._fn, self._args
        self._fn = None
        self._args = ()
        return fn, args


class VirtualClock:
    """Event loop over integer picoseconds; events of one time run in the order of scheduling."""

    __slots__ = ("_heap", "_seq", "events_run", "now_ps")

    def __init__(self, start_ps: int = 0) -> None:
        self.now_ps = start_ps
        self.events_run = 0
        self._seq = 0
        self._heap: list[tuple[int, int, VirtualHandle]] = []

    def call_at(self, time_ps: int, fn: Callable[..., object], *args: object) -> VirtualHandle:
        """Call `fn(*args)` at `time_ps`.

        Raises `ClockError` for a time in the past or one that is not an `int` (a float would
        make the order of events depend on rounding).
        """
        if type(time_ps) is not int:
            raise ClockError(f"event time must be integer picoseconds, got {time_ps!r}")
        if time_ps < self.now_ps:
            raise ClockError(f"event at {time_ps} ps lies before now ({self.now_ps} ps)")
        handle = VirtualHandle(time_ps, fn, args)
        self._seq += 1
        heapq.heappush(self._heap, (time_ps, self._seq, handle))
        return handle

    def call_later(self, delay_ps: int, fn: Callable[..., object], *args: object) -> VirtualHandle:
        """Call `fn(*args)` after `delay_ps` (>= 0)."""
        return self.call_at(self.now_ps + delay_ps, fn, *args)

    def next_ps(self) -> int | None:
        """Time of the next live event, None when there is none."""
        heap = self._heap
        while heap and not heap[0][2].active:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def run(self, until_ps: int | None = None, stop: Callable[[], bool] | None = None) -> RunEnd:
        """Run events up to and including `until_ps`, or until `stop()` holds after an event.

        With `until_ps` the clock stands at that time afterwards (unless stopped), so that runs
        can be chained. An exception in a callback passes through; the clock stays usable.
        """
        heap = self._heap
        pop = heapq.heappop
        while heap:
            time_ps = heap[0][0]
            if until_ps is not None and time_ps > until_ps:
                break
            fn, args = pop(heap)[2]._take()
            if fn is None:
                continue
            self.now_ps = time_ps
            self.events_run += 1
            fn(*args)
            if stop is not None and stop():
                return RunEnd.STOPPED
        if until_ps is None:
            return RunEnd.IDLE
        self.now_ps = max(self.now_ps, until_ps)
        return RunEnd.UNTIL if heap else RunEnd.IDLE
