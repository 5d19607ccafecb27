"""A progress bar for settings that are solved."""

from __future__ import annotations

from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from sglb.cli.bars import Bars


class FluidProgress(Bars):
    """Called with how many settings of how many are solved.

    The first time on a machine the model is compiled, which takes long and tells nothing.
    """

    def __init__(self) -> None:
        super().__init__(False, MofNCompleteColumn(), TimeRemainingColumn())
        self._task = self._shown.add_task("loading the model (compiled once)", total=None)

    def __call__(self, done: int, of: int) -> None:
        """So many of so many."""
        self.named("settings", done, of)

    def named(self, what: str, done: int, of: int) -> None:
        """The same, of a part of the work."""
        self._shown.update(self._task, description=what, completed=done, total=of)
