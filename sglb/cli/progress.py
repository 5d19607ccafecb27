"""A progress bar for runs that take longer than a glance."""

from __future__ import annotations

import time

from rich.progress import MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn

from sglb.cli.bars import Bars
from sglb.fabric.advance import Advance


class RunProgress(Bars):
    """Shows how far each policy's run has come, how fast it goes and when it will be done.

    Packets that have arrived, virtual time, packet-hops a second.
    """

    def __init__(self, quiet: bool) -> None:
        super().__init__(
            quiet,
            MofNCompleteColumn(),
            TextColumn("packets"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
        )
        self._tasks: dict[str, TaskID] = {}
        self._began: dict[str, tuple[float, int]] = {}

    def __call__(self, policy: str, advance: Advance) -> None:
        """A policy's run has come so far."""
        now = time.monotonic()
        if policy not in self._tasks:
            self._tasks[policy] = self._shown.add_task(policy, total=advance.total, speed="")
            self._began[policy] = (now, advance.hops)
        began, hops = self._began[policy]
        rate = (advance.hops - hops) / max(now - began, 1e-3)
        speed = f"{advance.virtual_us:,.0f} us  {rate:,.0f} hop/s"
        self._shown.update(self._tasks[policy], completed=advance.arrived, speed=speed)
