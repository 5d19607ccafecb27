"""A progress bar for runs that take longer than a glance."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from sglb.fabric.advance import Advance

_AFTER_S = 2.0


class RunProgress:
    """Shows how far each policy's run has come, how fast it goes and when it will be done.

    Packets that have arrived, virtual time, packet-hops a second; once `_AFTER_S` have passed.

    Nothing without a terminal.
    """

    def __init__(self, quiet: bool) -> None:
        console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("packets"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._began: dict[str, tuple[float, int]] = {}
        self._since = time.monotonic()
        self._shown = False

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            self._bars.stop()

    def __call__(self, policy: str, advance: Advance) -> None:
        """A policy's run has come so far."""
        now = time.monotonic()
        if policy not in self._tasks:
            self._tasks[policy] = self._bars.add_task(policy, total=advance.total, speed="")
            self._began[policy] = (now, advance.hops)
        began, hops = self._began[policy]
        rate = (advance.hops - hops) / max(now - began, 1e-3)
        speed = f"{advance.virtual_us:,.0f} us  {rate:,.0f} hop/s"
        self._bars.update(self._tasks[policy], completed=advance.arrived, speed=speed)
        if not self._shown and now - self._since > _AFTER_S:
            self._shown = True
            self._bars.start()
