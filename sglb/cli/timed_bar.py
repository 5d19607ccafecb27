"""A progress bar with what is going on and for how long."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


class TimedBar:
    """One task in `_shown`; nothing without a terminal. Use it in `with`."""

    def __init__(self, quiet: bool) -> None:
        console = Console(stderr=True)
        self._shown = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._shown.add_task("starts", total=None)

    def __enter__(self) -> Self:
        self._shown.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.stop()
