"""Progress bars on a terminal, as all commands show them."""

from __future__ import annotations

import threading
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn

#: What is over before that needs no bar.
AFTER_S: Final = 2.0


class Bars:
    """Bars in `_shown`, with `columns` beside them; on standard error, and nothing without a terminal.

    Use it in `with`. They come by themselves `after_s` later: a part of the work may tell nothing.
    """

    def __init__(self, quiet: bool, *columns: ProgressColumn, after_s: float = AFTER_S) -> None:
        console = Console(stderr=True)
        self._shown = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            *columns,
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._start = threading.Timer(after_s, self._shown.start)
        self._start.daemon = True

    def __enter__(self) -> Self:
        if not self._shown.disable:
            self._start.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._shown.disable:
            self._start.cancel()
            self._start.join()
            self._shown.stop()
