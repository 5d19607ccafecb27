"""The tuner as a process beside a live fabric's controller.

It hears what switches report on a datagram socket (BMv2's it asks), judges an interval by the mean of
what they said in it, and sets all switches alike. It is ready for traffic when its first setting is in
force everywhere.
A switch that refuses a setting ends it, and with it the run.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
import socket
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import networkx as nx
from finsy.proto import p4r

from sglb.fabric.live.control import LiveControlPlane, LiveControlPlaneFactory, LiveView
from sglb.fabric.live.processes import ProcessSpec
from sglb.fabric.roce import wire_bytes
from sglb.fabric.topology import NodeKind
from sglb.switch.clock import PS_PER_MS, PS_PER_S
from sglb.switch.live import LiveSwitch
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.remote import RemoteService
from sglb.switch.pktgen import TimerApp
from sglb.switch.wall_clock import WallClock
from sglb.watermark.live.actuator import BufferPaths, EcnTable, FabricActuator, SwitchActuator
from sglb.watermark.live.bmv2 import Bmv2Switches
from sglb.watermark.objective import Weights
from sglb.watermark.settings import Watermarks
from sglb.watermark.space import Place, SearchSpace
from sglb.watermark.telemetry.collector import Collector, SwitchView
from sglb.watermark.telemetry.errors import TelemetryError
from sglb.watermark.telemetry.live import Reporter, Reporting
from sglb.watermark.telemetry.view import FabricFacts, PortFacts, observation
from sglb.watermark.tuner.annealing import Annealer, Schedule
from sglb.watermark.tuner.fabric import PortSetting
from sglb.watermark.tuner.observation import Observation

_log = logging.getLogger(__name__)

NAME: Final = "tuner"
_ROLE: Final = "sglb.tuner"
_AGAIN_S: Final = 0.1
_LAST_WORD_S: Final = 0.5
_DATAGRAM_BYTES: Final = 1 << 16
#: Of an interval: reports in it; those of the first part are of the setting before.
REPORTS: Final = 5
_SETTLE: Final = 1
#: Packets through processes that share a machine, there and back.
_MACHINE_PS: Final = 5 * PS_PER_MS


@dataclass(frozen=True)
class LiveTuner:
    """What a live fabric's tuner does, as `sglb.fabric.live.run.Beside`.

    Attributes:
        space: None: it only watches, with the fabric's own setting.
        start: where it starts in the space.
        interval_s: between two settings; switches report `REPORTS` times in one.
    """

    space: SearchSpace | None
    start: Place
    interval_s: float
    seed: int
    weights: Weights = field(default_factory=Weights)
    schedule: Schedule = field(default_factory=Schedule)

    def within(self, view: LiveView, live: LiveSwitch) -> None:
        """Has a switch report."""
        Reporter(live, str(_socket(view)), Reporting(self.interval_s / REPORTS))

    def control(self, inner: LiveControlPlaneFactory) -> LiveControlPlaneFactory:
        """The fabric's own control plane, and this tuner beside it."""

        def made(view: LiveView) -> LiveControlPlane:
            return _Tuned(inner(view), view, self)

        return made


def _socket(view: LiveView) -> Path:
    return view.folder / f"{NAME}.sock"


class _Tuned:
    """See `LiveTuner.control`."""

    def __init__(self, inner: LiveControlPlane, view: LiveView, tuner: LiveTuner) -> None:
        self._inner = inner
        self._view = view
        self._tuner = tuner

    def timers(self, switch_id: int) -> tuple[TimerApp, ...]:
        """The inner one's."""
        return self._inner.timers(switch_id)

    def processes(self) -> Sequence[ProcessSpec]:
        """The inner one's, and the tuner."""
        inner = self._inner.processes()
        after: tuple[str, ...] = ()
        keep: tuple[int, ...] = ()
        if self._view.target == "bmv2":  # whose switches have no program until they are given one
            after = tuple(spec.name for spec in inner)
            keep = tuple(namespace.fd for namespace in self._view.namespaces.values())
        target = TunerProcess(self._view, self._tuner, after)
        return (*inner, ProcessSpec(NAME, target, keep=keep, nice=-10))

    def calm(self) -> bool:
        """The inner one's."""
        return self._inner.calm()

    def rate_changed(self, link_id: int, rate_bps: int) -> Mapping[str, Any]:
        """The inner one's."""
        return self._inner.rate_changed(link_id, rate_bps)

    @property
    def told(self) -> Sequence[str]:
        """The inner one's."""
        return self._inner.told


@dataclass(frozen=True)
class TunerProcess:
    """The target of the process: tunes until SIGTERM, and leaves its report.

    It begins once the processes named in `after` are ready.
    """

    view: LiveView
    tuner: LiveTuner
    after: tuple[str, ...] = ()

    def __call__(self) -> None:
        """Runs it."""
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
        asyncio.run(_Run(self.view, self.tuner, self.after).run())


class _Run:
    def __init__(self, view: LiveView, tuner: LiveTuner, after: Sequence[str]) -> None:
        self._view = view
        self._tuner = tuner
        self._after = after
        self._polled: Bmv2Switches | None = None
        self._collector = Collector()
        self._facts = facts(view)
        self._annealer = None
        if tuner.space is not None:
            rng = random.Random(f"{tuner.seed}/tuner")
            self._annealer = Annealer(tuner.space, tuner.start, rng, tuner.weights, tuner.schedule)
        self._seen: list[Observation] = []
        self._settings: list[dict[str, float]] = []
        self._ports: list[PortSetting] = []
        self._bad = 0
        self._actuator: FabricActuator | None = None
        self._messages = 0

    async def run(self) -> None:
        """See `TunerProcess`."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        hears = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        hears.bind(str(_socket(self._view)))
        loop.add_reader(hears.fileno(), self._hear, hears)
        tunes = asyncio.ensure_future(self._tune())
        stops = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((tunes, stops), return_when=asyncio.FIRST_COMPLETED)
            if tunes.done():
                # At the end switches may go first: that is told a moment later.
                await asyncio.wait((stops,), timeout=_LAST_WORD_S)
            if not stop.is_set():
                tunes.result()
            self._view.report(NAME).write_text(json.dumps(self._report()))
        finally:
            tunes.cancel()
            stops.cancel()
            await asyncio.gather(tunes, stops, return_exceptions=True)
            loop.remove_reader(hears.fileno())
            hears.close()

    def _hear(self, hears: socket.socket) -> None:
        with suppress(BlockingIOError):
            while True:
                data = hears.recv(_DATAGRAM_BYTES)
                self._messages += 1
                try:
                    self._collector.take(data)
                except TelemetryError as error:
                    self._bad += 1
                    _log.warning("telemetry: %s", error)

    # --- tuning ---

    async def _tune(self) -> None:
        while not all(self._view.ready(name).exists() for name in self._after):
            await asyncio.sleep(_AGAIN_S)
        if self._view.target == "bmv2":
            async with Bmv2Switches(self._view) as switches:
                self._polled = switches
                await self._rounds(switches.actuator)
        else:
            async with _connected(self._view) as actuator:
                await self._rounds(actuator)

    async def _rounds(self, actuator: FabricActuator) -> None:
        self._actuator = actuator
        if self._annealer is None:
            self._ports = actuator.in_force()
        else:
            self._put(actuator)
        if self._polled is not None:
            self._polled.begin()
        self._view.ready(NAME).touch()
        due_s = time.monotonic()
        while True:
            due_s, seen = await self._interval(due_s)
            self._judge(seen, actuator)

    async def _interval(self, due_s: float) -> tuple[float, Observation]:
        """The mean of what was reported, without the first part."""
        step_s = self._tuner.interval_s / REPORTS
        parts = []
        for number in range(REPORTS):
            due_s = max(due_s + step_s, time.monotonic())
            await asyncio.sleep(due_s - time.monotonic())
            views: Iterable[tuple[int, SwitchView]] = self._collector.switches.items()
            if self._polled is not None:
                views = self._polled.views()
            if number >= _SETTLE:
                parts.append(observation(self._facts, views))
        return due_s, mean(parts)

    def _judge(self, seen: Observation, actuator: FabricActuator) -> None:
        self._seen.append(seen)
        if self._annealer is None:
            return
        # A controller that takes over makes tables what the scenario says: nothing was measured.
        kept = actuator.keep()
        if seen.idle or not kept:
            return
        before = self._annealer.place
        if self._annealer.observed(seen) == before:
            return
        self._put(actuator)

    def _put(self, actuator: FabricActuator) -> None:
        """Puts the annealer's place in force, and notes it once it is."""
        found = self._wanted()
        actuator.set(found)
        self._ports = actuator.in_force()
        self._settings.append(asdict(found))

    def _wanted(self) -> Watermarks:
        assert self._annealer is not None
        assert self._tuner.space is not None
        return self._tuner.space.watermarks(self._annealer.place)

    def _report(self) -> dict[str, object]:
        views = self._collector.switches.values()
        return {
            "seen": [asdict(one) for one in self._seen],
            "score": [one.score(self._tuner.weights) for one in self._seen if not one.idle],
            "settings": self._settings,
            "overwritten": 0 if self._actuator is None else self._actuator.overwritten,
            "ports": [asdict(port) for port in self._ports],
            "steps": [asdict(step) for step in self._annealer.steps] if self._annealer else [],
            "searches": 0 if self._annealer is None else self._annealer.searches,
            "telemetry_bytes": self._collector.bytes
            + (0 if self._polled is None else self._polled.bytes),
            "telemetry_messages": self._messages,
            "telemetry_missed": sum(view.missed for view in views),
            "telemetry_bad": self._bad,
        }


def mean(parts: Sequence[Observation]) -> Observation:
    """What was seen in several parts of an interval: the mean of those in which something moved.

    Losses add up.
    """
    moved = [one for one in parts if not one.idle]
    lost = sum(one.lost_packets for one in parts)
    duration_us = sum(one.duration_us for one in parts)
    if not moved:
        return Observation(duration_us, 0.0, 1.0, 1.0, lost, 0.0, 0.0)
    count = len(moved)
    return Observation(
        duration_us=duration_us,
        throughput=sum(one.throughput for one in moved) / count,
        delay=sum(one.delay for one in moved) / count,
        unpaused=sum(one.unpaused for one in moved) / count,
        lost_packets=lost,
        fan_in=sum(one.fan_in for one in moved) / count,
        load=sum(one.load for one in moved) / count,
    )


def facts(view: LiveView) -> FabricFacts:
    """What a live fabric's tuner knows beforehand.

    A round trip without queues is one frame's time on every link of the longest way, there and back,
    and what the machine takes.
    """
    topology, transport = view.scenario.topology, view.scenario.model.transport
    ports = {}
    for node in topology.switches:
        for number, link in topology.ports(node.id).items():
            is_host = topology.by_id(link.other(node.id)).kind is NodeKind.HOST
            ports[node.id, number] = PortFacts(link.spec.rate_bps, is_host)
    slowest_bps = min(link.spec.rate_bps for link in topology.links)
    frame_ps = wire_bytes(transport.mtu_bytes) * 8 * PS_PER_S // slowest_bps
    graph = nx.Graph((link.a, link.b) for link in topology.links)
    links = 2 * nx.diameter(graph)
    return FabricFacts(
        ports, transport.traffic_class, links * frame_ps + _MACHINE_PS, transport.mtu_bytes // 4
    )


class _connected:  # noqa: N801 - used like a function
    """All switches of a fabric, once the controller has given their ports watermarks."""

    def __init__(self, view: LiveView) -> None:
        self._view = view
        clock = WallClock(asyncio.get_running_loop())
        self._services = {
            node.id: RemoteService(node.name, node.id, view.addresses[node.id], clock)
            for node in view.scenario.topology.switches
        }
        self._channels = {i: grpc.insecure_channel(a) for i, a in view.addresses.items()}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> FabricActuator:
        cls = self._view.scenario.model.transport.traffic_class
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(service.run()) for service in self._services.values()]
        switches = []
        now_ms = time.monotonic_ns() // 1_000_000
        for switch_id, service in self._services.items():
            await service.ready.wait()
            role = p4r.Role(name=_ROLE)
            client = InProcessClient(service, now_ms, role=role)  # type: ignore[arg-type]
            ecn = EcnTable(service.switch.name, client, cls)
            topology = self._view.scenario.topology
            ports = topology.ports(switch_id)
            towards = {n: topology.by_id(link.other(switch_id)).name for n, link in ports.items()}
            while not client.is_primary or ecn.read().keys() < ports.keys():
                await asyncio.sleep(_AGAIN_S)
            buffers = BufferPaths(service.switch.name, self._channels[switch_id], cls)
            buffers.read()
            unit = self._view.depth_unit_bytes
            switches.append(SwitchActuator(service.switch.name, ecn, buffers, unit, towards))
        return FabricActuator(switches)

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for channel in self._channels.values():
            channel.close()
