"""A fabric's controllers and agents for switches that somebody else has started."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from controller.live.plane import LivePlane
from sglb.fabric.live.control import LiveView
from sglb.fabric.live.errors import LiveError
from sglb.fabric.live.processes import Process, ProcessSpec, end_all, failed, start
from sglb.fabric.scenario import Scenario

_LOOK_S: Final = 0.05
_RESTART_S: Final = 0.2
_SLOW_S: Final = 10.0
_ANSWER_S: Final = 1.0


class _Supervisor:
    """Starts processes, anew if they end; the kernel ends them when this process is gone.

    `on_ended` is called with how one ended; `failed` is the first that did with another status than 0.
    """

    def __init__(self, view: LiveView, on_ended: Callable[[str], None]) -> None:
        self._view = view
        self._on_ended = on_ended
        self.failed: LiveError | None = None
        self._processes: dict[str, Process] = {}
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def run(self, spec: ProcessSpec) -> None:
        process = start(spec, self._view.folder / f"{spec.name}.log")
        self._processes[spec.name] = process
        asyncio.get_running_loop().add_reader(process.pidfd, self._ended, process)

    def _ended(self, process: Process) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(process.pidfd)
        del self._processes[process.spec.name]
        status = process.reap()
        error = failed(process, status)
        if not process.spec.restart:
            if not self.failure.done():
                self.failure.set_exception(error)
            return
        if status > 0 and self.failed is None:
            self.failed = error
        loop.call_later(_RESTART_S, self.run, process.spec)
        self._on_ended(str(error))

    async def until_ready(self, names: list[str]) -> None:
        while not all(self._view.ready(name).exists() for name in names):
            await asyncio.sleep(_LOOK_S)

    def close(self) -> None:
        for process in self._processes.values():
            asyncio.get_running_loop().remove_reader(process.pidfd)
        end_all(list(self._processes.values()))


async def control(
    scenario: Scenario,
    policy: str,
    addresses: Mapping[int, str],
    folder: Path,
    depth_unit_bytes: int,
    on_ready: Callable[[], None],
    on_slow: Callable[[list[str]], None],
    on_ended: Callable[[str], None],
) -> None:
    """Controls switches until SIGINT or SIGTERM.

    `scenario` is in real time (`sglb.fabric.live.scaled`), `addresses` are the switches' P4Runtime
    servers by id, `folder` is a private one. `on_ready` is called when all are filled and all agents
    know their neighbours, `on_slow` once when that takes long, with those switches where nobody listens,
    `on_ended` whenever a process has ended and is started anew. This process must have no threads and no
    gRPC channel. Raises `LiveError`, at the end for the first process that had ended with a status.
    """
    view = LiveView(scenario, policy, folder, addresses, depth_unit_bytes)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    specs = LivePlane(view).processes()
    supervisor = _Supervisor(view, on_ended)
    try:
        for spec in specs:
            supervisor.run(spec)
        ready = asyncio.ensure_future(supervisor.until_ready([spec.name for spec in specs]))
        slow = asyncio.ensure_future(_when_slow(view, on_slow))
        ready.add_done_callback(lambda _: slow.cancel())
        ready.add_done_callback(lambda done: None if done.cancelled() else on_ready())
        ending = asyncio.ensure_future(stop.wait())
        waits: set[asyncio.Future[Any]] = {ending, supervisor.failure}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        ending.cancel()
        if supervisor.failure.done():
            supervisor.failure.result()
        if supervisor.failed is not None:
            raise supervisor.failed
    finally:
        supervisor.close()


async def _when_slow(view: LiveView, tell: Callable[[list[str]], None]) -> None:
    await asyncio.sleep(_SLOW_S)
    silent = []
    for node in view.scenario.topology.switches:
        address = view.addresses[node.id]
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(_ANSWER_S):
                if host == "unix":
                    _, writer = await asyncio.open_unix_connection(port)
                else:
                    _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            writer.close()
        except OSError:  # TimeoutError is one
            silent.append(f"{node.name} ({address})")
    tell(silent)


def keep_logs(folder: Path, to: Path) -> None:
    """Copies the processes' logs."""
    for log in folder.glob("*.log"):
        with suppress(OSError):
            shutil.copy2(log, to / log.name)
