"""A progress bar for runs that take longer than a glance."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

_AFTER_S = 2.0


class RunProgress:
    """Shows each policy's packets that have arrived, once `_AFTER_S` have passed.

    Nothing without a terminal.
    """

    def __init__(self, quiet: bool) -> None:
        console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("packets"),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
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

    def __call__(self, policy: str, done: int, total: int) -> None:
        """So many of the packets of a policy's run have arrived."""
        if policy not in self._tasks:
            self._tasks[policy] = self._bars.add_task(policy, total=total)
        self._bars.update(self._tasks[policy], completed=done)
        if not self._shown and time.monotonic() - self._since > _AFTER_S:
            self._shown = True
            self._bars.start()
