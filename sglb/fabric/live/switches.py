"""A switch of a live fabric as a process: what `sglb switch` runs, with its faults and its counts."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from sglb.fabric.live.control import LiveView
from sglb.p4.compiler import CompiledProgram
from sglb.p4.native.program import compile_native
from sglb.switch.buffers import BufferSettings
from sglb.switch.clock import PS_PER_US
from sglb.switch.config import SwitchConfig
from sglb.switch.live import LiveSwitch, ServeOptions, serve
from sglb.switch.p4runtime.service import ServiceOptions
from sglb.switch.pktgen import TimerApp
from sglb.switch.wire import layout as s
from sglb.switch.wire.port import InterfacePort

_log = logging.getLogger(__name__)

#: Above whatever else is real time here, below the kernel's own.
PRIORITY: Final = 20
_READ_CHUNK: Final = 4
_DATAGRAM_BYTES: Final = 1 << 12


#: Called in a switch's process, on its loop, once it serves.
Aside = Callable[[LiveView, LiveSwitch], None]


def live_config(queue_limit_bytes: int) -> SwitchConfig:
    """What a live switch is built like: its delays are those of the machine."""
    return replace(
        SwitchConfig(),
        ingress_latency_ps=0,
        egress_latency_ps=0,
        port_down_detection_ps=0,
        port_up_detection_ps=0,
        queue_limit_bytes=queue_limit_bytes,
        depth_unit="cells",
        port_events=True,
    )


def warm_up(program: CompiledProgram) -> None:
    """Compiles all that switches run, so that forks have it."""
    # Here, as this module is loaded by processes that need none of it.
    from sglb.switch.core.jit import compile_all
    from sglb.switch.wire import interfaces

    compile_native(program.ir)
    # A function that is compiled when it is first called is so under the data plane's lock.
    count = compile_all(("sglb.switch.core.", "sglb.switch.wire."))
    _log.debug("%s: %d functions", interfaces.__name__, count)


@dataclass(frozen=True)
class SwitchProcess:
    """The target of a process: one switch, until SIGTERM.

    `aside` is called once it serves, on its loop: for whoever wants to watch it from within.

    Its control socket takes `{"rate": [PORT, BIT/S]}`, and `{"begin": true}` when the traffic starts.
    At its end it writes its counts: drops by reason, the deepest queue in bytes and its port, and how
    long events had to wait since the beginning.
    """

    view: LiveView
    name: str
    device_id: int
    program: CompiledProgram
    ports: tuple[InterfacePort, ...]
    timers: tuple[TimerApp, ...]
    config: SwitchConfig
    capture: Path | None = None
    buffers: BufferSettings | None = None
    aside: Aside | None = None

    def __call__(self) -> None:
        """Runs it."""
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
        Path(self.view.addresses[self.device_id].removeprefix("unix:")).unlink(missing_ok=True)
        running: list[LiveSwitch] = []

        def on_ready(live: LiveSwitch) -> None:
            running.append(live)
            self._listen(live)
            if self.aside is not None:
                self.aside(self.view, live)
            self.view.ready(self.name).touch()

        options = ServeOptions(
            grpc=self.view.addresses[self.device_id],
            interfaces=self.ports,
            capture_dir=self.capture,
            timers=self.timers,
            realtime=PRIORITY if self.view.scenario.model.live.realtime else 0,
            seed=self.view.scenario.model.seed,
            device_id=self.device_id,
            name=self.name,
            switch=self.config,
            buffers=self.buffers,
            # A piece of an answer holds up packets, and heartbeats among them.
            service=ServiceOptions(read_chunk=_READ_CHUNK),
            on_ready=on_ready,
        )
        serve(self.program, options)
        for live in running:
            self.view.report(self.name).write_text(json.dumps(_counts(live)))

    def _listen(self, live: LiveSwitch) -> None:
        path = self.view.control(self.name)
        path.unlink(missing_ok=True)
        orders = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        orders.bind(str(path))

        def take() -> None:
            with suppress(ValueError):
                match json.loads(orders.recv(_DATAGRAM_BYTES)):
                    case {"rate": [int(port), int(rate_bps)]}:
                        live.switch.set_port_rate(port, rate_bps)
                    case {"begin": True} if live.interfaces is not None:
                        live.interfaces.node.forget_waits()

        asyncio.get_running_loop().add_reader(orders.fileno(), take)


def _counts(live: LiveSwitch) -> dict[str, Any]:
    switch = live.switch
    deepest, at = 0, 0
    for number, port in switch.ports.items():
        if number != switch.config.cpu_port:
            most = max(queue.max_bytes for queue in port.queues)
            if most > deepest:
                deepest, at = most, number
    drops = {str(reason): count for reason, count in switch.drops.items()}
    found = {"drops": drops, "max_queue_bytes": deepest, "max_queue_port": at}
    if live.interfaces is not None:
        node = live.interfaces.node
        found["longest_wait_us"] = node.word(s.S_LATEST) / PS_PER_US
        found["waits_over_1_ms"] = node.word(s.S_LATE)
        found["longest_locked_out_us"] = node.word(s.S_LOCKED_OUT) / PS_PER_US
    return found
