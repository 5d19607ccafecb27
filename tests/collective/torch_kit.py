"""Process groups whose ranks are threads of this process; their messages go over loopback sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from torch.distributed import HashStore

from sglb.collective.backend import ReCCL
from sglb.collective.transport import Settings

#: Generous: whoever is late was not given the processor.
LIMIT_S = 60.0


def outcomes(
    size: int, body: Callable[[ReCCL], Any], *, limit_s: float = LIMIT_S, **settings: Any
) -> list[Any]:
    """What `body` returned or raised on each rank."""
    store = HashStore()
    found: list[Any] = [None] * size
    all_done = threading.Barrier(size)
    options = {"rails": ("127.0.0.1",), "detection_s": 5.0} | settings

    def rank(number: int) -> None:
        group = None
        try:
            group = ReCCL(store, number, size, timedelta(seconds=limit_s), Settings(**options))
            found[number] = body(group)
        except Exception as error:
            found[number] = error
        all_done.wait(LIMIT_S)
        if group is not None:
            group.shutdown()

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def run(size: int, body: Callable[[ReCCL], Any], **settings: Any) -> list[Any]:
    """What `body` returned on each rank; raises the first error."""
    found = outcomes(size, body, **settings)
    for outcome in found:
        if isinstance(outcome, Exception):
            raise outcome
    return found
