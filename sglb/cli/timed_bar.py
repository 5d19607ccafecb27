"""A progress bar with what is going on and for how long."""

from __future__ import annotations

from rich.progress import TimeElapsedColumn

from sglb.cli.bars import Bars


class TimedBar(Bars):
    """One task in `_shown`, there from the beginning."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(quiet, TimeElapsedColumn(), after_s=0.0)
        self._task = self._shown.add_task("starts", total=None)
