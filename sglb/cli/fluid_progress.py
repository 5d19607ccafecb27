"""A progress bar for settings that are solved, once that takes longer than a glance."""

from __future__ import annotations

import threading
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_AFTER_S = 2.0


class FluidProgress:
    """Called with how many settings of how many are solved; nothing without a terminal.

    The first time on a machine the model is compiled, which takes long and tells nothing; so the bar
    comes by itself when its time has come.
    """

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
        self._task = self._bar.add_task("loading the model (compiled once)", total=None)
        self._start = threading.Timer(_AFTER_S, self._bar.start)
        self._start.daemon = True

    def __enter__(self) -> FluidProgress:
        self._start.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._start.cancel()
        self._start.join()
        self._bar.stop()

    def __call__(self, done: int, of: int) -> None:
        """So many of so many."""
        self.named("settings", done, of)

    def named(self, what: str, done: int, of: int) -> None:
        """The same, of a part of the work."""
        self._bar.update(self._task, description=what, completed=done, total=of)
