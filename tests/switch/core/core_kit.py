"""A switch twice: in Python, and in a native fabric of one node; and what both of them do."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from sglb.p4.compiler import CompiledProgram
from sglb.p4.compiler import compile as compile_p4
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.core import bind as bind_module
from sglb.switch.core import memory
from sglb.switch.core import model as m
from sglb.switch.core.heap import NEVER, index_of, kind_of, node_of, peek, pop
from sglb.switch.core.jit import compiled
from sglb.switch.core.settings import TrafficSettings, write_settings
from sglb.switch.core.switch import switch_event
from sglb.switch.core.world import World
from sglb.switch.ports import Drop
from sglb.switch.switch import Switch

GBPS = 10**9


@cache
def copies_program() -> CompiledProgram:
    return compile_p4(Path(__file__).with_name("copies.p4"))


@compiled
def run_events(world: World, end: int) -> int:
    """Runs the events of heap 0 before `end`; stops early at a HALT. The next event's time."""
    w = world.w
    while peek(world, 0) < end and not w[m.HALT]:
        time, order, _ = pop(world, 0)
        w[m.NOW] = time
        w[m.EVENTS_RUN] += 1
        switch_event(world, node_of(order), kind_of(order), index_of(order), time)
    return peek(world, 0)


class Bench:
    """A switch with ports 1..4 and all it says; subclasses say what its data plane is."""

    def __init__(self, program: CompiledProgram, rate_bps: int | None = 8 * GBPS, **settings: Any):
        self.clock = VirtualClock()
        self.config = SwitchConfig(**settings)
        self.switch = Switch(None, self.config, self.clock, rng=RandomStream(1))
        for number in range(1, 5):
            self.switch.add_port(number, rate_bps)
        self.sent: list[tuple[int, bytes, int, int]] = []
        self.cpu: list[tuple[int, bytes]] = []
        self.drops: list[Drop] = []
        self.digests: list[tuple[int, ...]] = []
        self.switch.on_transmit = lambda *frame: self.sent.append(frame)
        self.switch.on_cpu = lambda data: self.cpu.append((self.clock.now_ps, data))
        self.switch.on_drop = self.drops.append
        self.switch.digests.push = lambda _, values: self.digests.append(values)  # type: ignore[method-assign]
        self.attach()
        self.switch.load(program)

    def attach(self) -> None:
        """Gives the switch its data plane."""

    def run(self, until_ps: int) -> None:
        """Runs until that time."""
        self.clock.run(until_ps)


class CoreBench(Bench):
    """The same, in a native fabric of one node."""

    sizes = memory.Sizes(rows=4000, frame_bytes=512, blobs=64, blob_bytes=2048, parse_bytes=64)
    links: dict[int, tuple[int, int]] = {}  # noqa: RUF012

    def attach(self) -> None:
        ports = [
            memory.PortSpec(n, p.rate_bps, 0, self.links.get(n))
            for n, p in self.switch.ports.items()
            if n != self.config.cpu_port
        ]
        self.memory = memory.build([memory.NodeSpec(1, ports, self.config)], self.sizes)
        self.world = self.memory.world
        write_settings(self.world, 0, 0, TrafficSettings.of_config(self.config))
        self.core = bind_module.bind(self.memory, 0, self.switch)

    def run(self, until_ps: int) -> None:
        while True:
            soonest = self.clock.next_ps()
            end = until_ps + 1 if soonest is None else min(soonest, until_ps + 1)
            following = run_events(self.world, end)
            if self.world.w[m.HALT]:
                self._halted()
            elif soonest is not None and soonest <= until_ps:
                self.clock.run(soonest)
            elif following > until_ps:
                break
        self.clock.run(until_ps)
        assert following == NEVER or following > until_ps

    def _halted(self) -> None:
        w = self.world.w
        self.clock.now_ps = int(w[m.NOW])
        if w[m.HALT] & m.HALT_CPU:
            bind_module.deliver(self.memory, {0: self.core})
        if w[m.HALT] & m.HALT_DIGEST:
            self.core.take_digests()
        w[m.HALT] &= ~(m.HALT_DIGEST | m.HALT_LOG)
        assert not w[m.HALT], w[m.HALT]
