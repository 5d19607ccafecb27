"""The lock on a live switch's memory, shared by Python and the loop's machine code."""

from __future__ import annotations

import threading
from types import TracebackType

from sglb.switch.core.world import World
from sglb.switch.wire import loop


class DataLock:
    """A lock that its thread may take again; use it in `with`. Stands in for `Switch.lock`.

    Waiting lets other Python threads run. Giving it back wakes the loop when what was done meanwhile
    (a frame sent, a timer started) is due before the loop would look.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._owner = 0
        self._depth = 0

    def __enter__(self) -> DataLock:
        me = threading.get_ident()
        if self._owner != me:
            loop.lock(self._world)
            self._owner = me
        self._depth += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = 0
            loop.unlock(self._world)
