"""A progress bar for settings that are solved, once that takes longer than a glance."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_AFTER_S = 2.0


class FluidProgress:
    """Called with how many settings of how many are solved; nothing without a terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("settings", total=None)
        self._since = time.monotonic()
        self._shown = False

    def __enter__(self) -> FluidProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            self._bar.stop()

    def __call__(self, done: int, of: int) -> None:
        """So many of so many."""
        self.named("settings", done, of)

    def named(self, what: str, done: int, of: int) -> None:
        """The same, of a part of the work."""
        self._bar.update(self._task, description=what, completed=done, total=of)
        if not self._shown and time.monotonic() - self._since > _AFTER_S:
            self._shown = True
            self._bar.start()
