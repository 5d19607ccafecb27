"""Callbacks in real time."""

from __future__ import annotations

import asyncio

from sglb.switch.clock import PS_PER_MS
from sglb.switch.wall_clock import WallClock


def test_one_that_keeps_asking_for_the_past_holds_up_nobody() -> None:
    async def run() -> tuple[int, list[str]]:
        clock = WallClock(asyncio.get_running_loop())
        told: list[str] = []
        late = 0

        def again() -> None:
            nonlocal late
            late += 1
            clock.call_at(-late, again)

        clock.call_at(-1, again)
        clock.call_later(PS_PER_MS, told.append, "on time")
        async with asyncio.timeout(30):
            while not told or late < 3:
                await asyncio.sleep(0)
        clock.stop()
        return late, told

    late, told = asyncio.run(run())
    assert late >= 3
    assert told == ["on time"]


def test_what_is_due_together_runs_in_order_and_what_is_cancelled_meanwhile_does_not() -> None:
    async def run() -> list[int]:
        clock = WallClock(asyncio.get_running_loop())
        told: list[int] = []
        clock.call_at(-2, told.append, 2)
        handle = clock.call_at(-1, told.append, 3)
        clock.call_at(-3, lambda: (told.append(1), handle.cancel()))
        clock.call_at(0, told.append, 4)
        await asyncio.sleep(0.05)
        clock.stop()
        return told

    assert asyncio.run(run()) == [1, 2, 4]
