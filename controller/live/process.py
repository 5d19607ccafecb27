"""The loop of a process of the control plane, and the orders that it takes from its supervisor."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_DATAGRAM_BYTES: Final = 1 << 12


async def run_process(
    tasks: Iterable[Coroutine[Any, Any, None]],
    report: Callable[[], None],
    start: Coroutine[Any, Any, None] | None = None,
    started: Callable[[], object] = lambda: None,
    *,
    callbacks_may_fail: bool = False,
) -> None:
    """Runs `tasks`, and beside them `start` and then `started`, until SIGTERM; at the end `report`.

    Raises what one of them raises, or a callback of the loop, unless these may fail: then it is logged.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    failed: asyncio.Future[None] = loop.create_future()

    def on_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, Exception) and not failed.done():
            failed.set_exception(error)

    if not callbacks_may_fail:
        loop.set_exception_handler(on_error)
    ending = asyncio.create_task(stop.wait())
    running = [ending, *(asyncio.create_task(task) for task in tasks)]
    waits: set[asyncio.Future[Any]] = {failed, *running}
    starting = None if start is None else asyncio.create_task(start)
    if starting is not None:
        running.append(starting)
    try:
        if starting is not None:
            done, _ = await asyncio.wait({starting, *waits}, return_when=asyncio.FIRST_COMPLETED)
            _raise_of(done)
        if starting is None or starting.done():
            started()
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            _raise_of(done)
    finally:
        report()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _raise_of(done: Iterable[asyncio.Future[Any]]) -> None:
    for one in done:
        one.result()


async def take_orders(path: Path, take: Callable[[Any], None]) -> None:
    """Calls `take` with each JSON datagram that comes to a socket at `path`, until it is cancelled."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as orders:
        orders.bind(str(path))
        loop = asyncio.get_running_loop()
        while True:
            data = await loop.sock_recv(orders, _DATAGRAM_BYTES)
            with suppress(ValueError):
                take(json.loads(data))
