"""The virtual clock against truths worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.switch.clock import ClockError, RunEnd, Scheduler, VirtualClock


def test_events_run_in_time_order_and_ties_in_order_of_scheduling() -> None:
    clock: VirtualClock = VirtualClock()
    scheduler: Scheduler = clock
    seen: list[tuple[int, str]] = []
    for time_ps, name in ((30, "c"), (10, "a"), (10, "b"), (0, "z")):
        scheduler.call_at(time_ps, lambda n: seen.append((clock.now_ps, n)), name)
    assert clock.run() is RunEnd.IDLE
    assert seen == [(0, "z"), (10, "a"), (10, "b"), (30, "c")]
    assert clock.now_ps == 30
    assert clock.events_run == 4


def test_event_scheduled_for_now_by_an_event_runs_after_those_already_waiting() -> None:
    clock = VirtualClock()
    seen: list[str] = []
    clock.call_at(5, lambda: (seen.append("first"), clock.call_later(0, seen.append, "third")))
    clock.call_at(5, seen.append, "second")
    clock.run()
    assert seen == ["first", "second", "third"]


def test_cancelled_event_does_not_run_nor_move_time() -> None:
    clock = VirtualClock()
    seen: list[str] = []
    keep = clock.call_at(1, seen.append, "kept")
    gone = clock.call_at(9, seen.append, "gone")
    gone.cancel()
    gone.cancel()
    assert (keep.active, gone.active) == (True, False)
    assert clock.next_ps() == 1
    clock.run()
    assert (seen, clock.now_ps, clock.next_ps(), keep.active) == (["kept"], 1, None, False)
    keep.cancel()


def test_run_until_is_inclusive_and_leaves_the_clock_there() -> None:
    clock = VirtualClock()
    seen: list[int] = []
    for t in (10, 20, 21):
        clock.call_at(t, seen.append, t)
    assert clock.run(until_ps=20) is RunEnd.UNTIL
    assert (seen, clock.now_ps) == ([10, 20], 20)
    assert clock.run(until_ps=50) is RunEnd.IDLE
    assert (seen, clock.now_ps) == ([10, 20, 21], 50)


def test_stop_condition_is_asked_after_each_event() -> None:
    clock = VirtualClock()
    seen: list[int] = []
    for t in (1, 2, 3):
        clock.call_at(t, seen.append, t)
    assert clock.run(stop=lambda: len(seen) == 2) is RunEnd.STOPPED
    assert (seen, clock.now_ps) == ([1, 2], 2)


def test_the_past_and_fractions_are_refused() -> None:
    clock = VirtualClock(start_ps=100)
    with pytest.raises(ClockError, match=r"event at 99 ps lies before now \(100 ps\)"):
        clock.call_at(99, lambda: None)
    with pytest.raises(ClockError, match="lies before now"):
        clock.call_later(-1, lambda: None)
    with pytest.raises(ClockError, match=r"integer picoseconds, got 200\.0"):
        clock.call_at(200.0, lambda: None)  # type: ignore[arg-type]


def test_an_exception_passes_through_and_later_events_still_run() -> None:
    clock = VirtualClock()
    seen: list[int] = []

    def fail() -> None:
        raise RuntimeError("boom")

    clock.call_at(1, fail)
    clock.call_at(2, seen.append, 2)
    with pytest.raises(RuntimeError, match="boom"):
        clock.run()
    clock.run()
    assert seen == [2]


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans())))
def test_order_equals_a_stable_sort_of_the_events_kept(events: list[tuple[int, bool]]) -> None:
    clock = VirtualClock()
    seen: list[tuple[int, int]] = []
    for i, (time_ps, cancel) in enumerate(events):
        handle = clock.call_at(time_ps, seen.append, (time_ps, i))
        if cancel:
            handle.cancel()
    clock.run()
    assert seen == sorted((t, i) for i, (t, cancel) in enumerate(events) if not cancel)
