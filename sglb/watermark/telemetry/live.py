"""Telemetry of a live switch: its agent runs in the switch's process and sends datagrams."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import suppress
from dataclasses import dataclass

from sglb.switch.live import LiveSwitch
from sglb.watermark.telemetry.agent import Agent, Deadband
from sglb.watermark.telemetry.errors import TelemetryError
from sglb.watermark.telemetry.kernel import KernelSource

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reporting:
    """How often a switch reports (`interval_s`), and how often it looks at its queues meanwhile."""

    interval_s: float
    samples: int = 10

    def __post_init__(self) -> None:
        if self.interval_s <= 0 or self.samples < 1:
            raise TelemetryError("a switch reports in intervals above 0, with 1 sample or more")


class Reporter:
    """Reports of one live switch to `address`: the path of a Unix datagram socket, or (host, port).

    A datagram that finds nobody is lost; a full message heals that. `close` ends it.
    """

    def __init__(
        self, live: LiveSwitch, address: str | tuple[str, int], reporting: Reporting
    ) -> None:
        assert live.interfaces is not None
        core = live.switch.core
        cpu_port = live.switch.config.cpu_port
        ports = tuple(n for n in live.switch.ports if n != cpu_port)
        self._lock = live.interfaces.lock
        self._source = KernelSource(core, ports)  # type: ignore[arg-type]
        fastest_bps = max((live.switch.ports[n].rate_bps or 0 for n in ports), default=0)
        deadband = Deadband.for_rate(max(fastest_bps, 1), reporting.interval_s * 1e6, 1_024)
        # Newer than whatever ran here before.
        self._agent = Agent(live.switch.device_id, int(time.time()), deadband)
        self._reporting = reporting
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self._address = address
        self._out = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(_ended)

    def close(self) -> None:
        """No report any more."""
        self._task.cancel()
        self._out.close()

    async def _run(self) -> None:
        with self._lock:
            self._source.begin()
            self._agent.begin(self._source.read())
        step_s = self._reporting.interval_s / self._reporting.samples
        due_s = time.monotonic()
        while True:
            for _ in range(self._reporting.samples):
                due_s = max(due_s + step_s, time.monotonic())
                await asyncio.sleep(due_s - time.monotonic())
                with self._lock:
                    self._source.sample()
            with self._lock:
                reading = self._source.read()
                self._source.begin()
            message = self._agent.report(reading)
            if message is not None:
                with suppress(OSError):  # nobody listens, or slowly
                    self._out.sendto(message, self._address)


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("telemetry has ended: %s", task.exception())
