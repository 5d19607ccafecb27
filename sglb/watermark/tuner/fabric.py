"""The simulated fabric as the tuner sees it: what its switches report, and how they are set.

A control plane around the fabric's own one. Thresholds and the chance of marking are entries of the P4
program's table `watermarks`, written through P4Runtime in a role of the tuner's own; alpha and XON are
the traffic manager's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import networkx as nx
import numpy as np
from finsy import Action, P4TableEntry
from finsy.proto import p4r

from sglb.fabric.control import ControlPlane, FabricView, load_control_plane
from sglb.fabric.topology import NodeKind
from sglb.switch.clock import PS_PER_S, PS_PER_US
from sglb.switch.core import model as m
from sglb.switch.core.bind import CoreSwitch
from sglb.switch.core.buffer import class_at, group_at, node_at
from sglb.switch.core.settings import retune_class, retune_headroom
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.ports import DropReason
from sglb.watermark.settings import Watermarks
from sglb.watermark.tuner.observation import Observation

_WATERMARKS = "FabricEgress.ecn.watermarks"
_SET = "FabricEgress.ecn.set_watermark"
_ROLE = "sglb.tuner"
_LOSSES = (DropReason.QUEUE_FULL, DropReason.BUFFER_FULL, DropReason.HEADROOM)
_Ints = np.typing.NDArray[np.int64]

#: Judges an interval and says what is to be in force in the next one.
Decide = Callable[[Observation], Watermarks]


@dataclass(frozen=True, slots=True)
class Timing:
    """Of an interval: `settle_us` after a change nothing is measured, then `measure_us` are.

    `samples` times in between, queue depths are read.
    """

    settle_us: float = 200.0
    measure_us: float = 800.0
    samples: int = 16


@dataclass(frozen=True, slots=True)
class PortSetting:
    """What a switch's port towards a neighbour has in force for the tuned class.

    None: the switch has no such thing (BMv2: neither pauses nor a shared buffer).
    """

    switch: str
    towards: str
    kmin_bytes: int
    kmax_bytes: int
    pmax: float
    alpha: float | None
    xon_offset_bytes: int | None
    headroom_bytes: int | None


class Watch(Protocol):
    """Sees an interval: `begin`, some `sample`s at even times, `end`."""

    def begin(self) -> None:
        """It begins."""

    def sample(self) -> None:
        """Some time within it."""

    def end(self) -> Observation:
        """It is over; what happened."""


class TunedFabric:
    """A control plane that tunes. `first` is in force from the start; `decide` is asked from then on.

    `watch` makes what sees the fabric; by default all counters are read, which takes no bytes.
    """

    def __init__(
        self,
        view: FabricView,
        first: Watermarks,
        decide: Decide,
        timing: Timing,
        watch: Callable[[FabricView], Watch] | None = None,
    ) -> None:
        self._inner: ControlPlane = load_control_plane()(view)
        self._view = view
        self._first = first
        self._decide = decide
        self._timing = timing
        self._class = view.scenario.model.transport.traffic_class
        self._switches = _Switches(view, self._class)
        self._watch: Watch = _Read(view, self._switches) if watch is None else watch(view)

    def start(self) -> None:
        """Has the switches filled, and the first setting put in force."""
        self._inner.start()
        self._switches.set(self._first)
        self._begin()

    def in_force(self) -> tuple[PortSetting, ...]:
        """What every port has now, read back from the switches."""
        return self._switches.in_force()

    def switch_restarted(self, switch_id: int) -> None:
        """Passed on."""
        self._inner.switch_restarted(switch_id)

    def rate_changed(self, link_id: int, rate_bps: int) -> None:
        """Passed on."""
        self._inner.rate_changed(link_id, rate_bps)

    def report(self) -> Mapping[str, object]:
        """The inner one's."""
        return self._inner.report()

    def _begin(self) -> None:
        self._view.clock.call_later(round(self._timing.settle_us * PS_PER_US), self._measure)

    def _measure(self) -> None:
        self._watch.begin()
        self._samples = 0
        self._wait()

    def _wait(self) -> None:
        step_ps = round(self._timing.measure_us * PS_PER_US / self._timing.samples)
        self._view.clock.call_later(step_ps, self._sample)

    def _sample(self) -> None:
        self._watch.sample()
        self._samples += 1
        if self._samples < self._timing.samples:
            self._wait()
            return
        self._switches.set(self._decide(self._watch.end()))
        self._begin()


@dataclass(frozen=True, slots=True)
class _Counters:
    """At `time_ps`: bytes and packets sent and received by switch port, the time for which a port with
    a peer was paused on average, losses."""

    time_ps: int
    sent: _Ints
    received: _Ints
    sent_packets: _Ints
    received_packets: _Ints
    paused_ps: int
    lost: int


class _Switches:
    """All switches of a fabric on the native engine, by arrays over their ports."""

    def __init__(self, view: FabricView, traffic_class: int) -> None:
        self._class = traffic_class
        self._cores: list[CoreSwitch] = []
        self._ports_of: list[list[int]] = []
        self._names: list[tuple[str, str]] = []
        ports, to_host = [], []
        for switch_id, switch in view.switches.items():
            core = switch.core
            assert isinstance(core, CoreSwitch)
            self._cores.append(core)
            own = [core.memory.port(core.node, n) for n in view.topology.ports(switch_id)]
            self._ports_of.append(own)
            self._names += [
                (
                    view.topology.by_id(switch_id).name,
                    view.topology.by_id(link.other(switch_id)).name,
                )
                for link in view.topology.ports(switch_id).values()
            ]
            for number, link in view.topology.ports(switch_id).items():
                ports.append(core.memory.port(core.node, number))
                other = view.topology.by_id(link.other(switch_id))
                to_host.append(other.kind is NodeKind.HOST)
        self._ports = np.array(ports, dtype=np.int64)
        self._to_host = np.array(to_host, dtype=bool)
        self._world = self._cores[0].memory.world
        role = p4r.Role(name=_ROLE)
        self._clients = [InProcessClient(s, role=role) for s in view.services.values()]
        self._entries: list[list[Any]] = []
        self._unit = {"bytes": 1, "cells": view.switches[self._some(view)].config.cell_bytes}.get(
            view.switches[self._some(view)].config.depth_unit,
            view.scenario.model.transport.mtu_bytes,
        )
        self._data_bytes = view.scenario.model.transport.mtu_bytes // 4
        self._base_ps = 2 * longest_ps(view)

    @staticmethod
    def _some(view: FabricView) -> int:
        return next(iter(view.switches))

    # --- setting ---

    def set(self, watermarks: Watermarks) -> None:
        """Puts a setting in force on every port, at once."""
        kmin = int(watermarks.kmin_bytes) // self._unit
        kmax = int(watermarks.kmax_bytes) // self._unit
        slope = min(round(watermarks.pmax * 2**32) // max(1, kmax - kmin), 2**32 - 1)
        if not self._entries:
            self._entries = [self._own(client) for client in self._clients]
        action = Action(_SET, kmin=kmin, kmax=kmax, slope=slope)
        for client, entries in zip(self._clients, self._entries, strict=True):
            client.modify(
                [P4TableEntry(_WATERMARKS, match=e.match, action=action) for e in entries]
            )
        alpha = Fraction(watermarks.alpha).limit_denominator(1 << 16)
        for core, ports in zip(self._cores, self._ports_of, strict=True):
            if watermarks.headroom_bytes is not None:
                room = int(watermarks.headroom_bytes)
                retune_headroom(self._world, core.node, ports, self._class, room)
            retune_class(
                self._world, core.node, self._class, alpha, int(watermarks.xon_offset_bytes)
            )

    def in_force(self) -> tuple[PortSetting, ...]:
        """What every port has, read back: from the P4 program's table, and from the traffic manager."""
        found = []
        w = self._world.w
        names = iter(self._names)
        for core, client, ports in zip(self._cores, self._clients, self._ports_of, strict=True):
            entries = {int(e.match["port"]): e for e in self._own(client)}
            at = class_at(self._world, node_at(self._world, core.node), self._class)
            for number, port in enumerate(ports, 1):
                args = {name: int(value) for name, value in entries[number].action.args.items()}
                switch, towards = next(names)
                group = group_at(self._world, port, self._class)
                found.append(
                    PortSetting(
                        switch=switch,
                        towards=towards,
                        kmin_bytes=args["kmin"] * self._unit,
                        kmax_bytes=args["kmax"] * self._unit,
                        pmax=args["slope"] * max(1, args["kmax"] - args["kmin"]) / 2**32,
                        alpha=int(w[at + m.C_ALPHA_NUM]) / int(w[at + m.C_ALPHA_DEN]),
                        xon_offset_bytes=int(w[at + m.C_XON_OFFSET]),
                        headroom_bytes=int(w[group + m.G_ROOM]),
                    )
                )
        return tuple(found)

    def _own(self, client: InProcessClient) -> list[Any]:
        """The entries of the tuned class that the controller has installed."""
        return [
            e for e in client.read(P4TableEntry(_WATERMARKS)) if e.match["class"] == self._class
        ]

    # --- telemetry ---

    def depths(self) -> _Ints:
        """Bytes in the tuned class's queue, by port."""
        at = int(self._world.w[m.QUEUES_AT])
        queues = (self._ports * m.CLASSES + self._class) * m.QUEUE_WORDS
        found: _Ints = self._world.w[at + queues + m.Q_BYTES]
        return found

    def counters(self, now_ps: int) -> _Counters:
        """What all ports have counted so far."""
        w = self._world.w
        records = int(w[m.PORTS_AT]) + self._ports * m.PORT_WORDS
        every = int(w[m.PORTS_AT]) + np.arange(int(w[m.PORTS])) * m.PORT_WORDS
        every = every[w[every + m.P_PEER] >= 0]
        since = np.where(w[every + m.P_PAUSED] != 0, now_ps - w[every + m.P_PAUSED_SINCE], 0)
        paused = int((w[every + m.P_PAUSED_PS] + since).sum()) // len(every)
        lost = 0
        for core in self._cores:
            core.collect()
            lost += sum(core.switch.drops[reason] for reason in _LOSSES)
        return _Counters(
            time_ps=now_ps,
            sent=w[records + m.P_TX_BYTES],
            received=w[records + m.P_RX_BYTES],
            sent_packets=w[records + m.P_TX_PACKETS],
            received_packets=w[records + m.P_RX_PACKETS],
            paused_ps=paused,
            lost=lost,
        )

    def _carries_data(
        self, count_bytes: np.typing.NDArray[Any], packets: _Ints
    ) -> np.typing.NDArray[np.bool_]:
        return count_bytes > packets * self._data_bytes

    def observation(
        self, before: _Counters, after: _Counters, depth_bytes: np.typing.NDArray[np.float64]
    ) -> Observation:
        """What happened between two readings, with the mean depth of each queue meanwhile."""
        w = self._world.w
        rates = w[int(w[m.PORTS_AT]) + self._ports * m.PORT_WORDS + m.P_RATE].astype(np.float64)
        span_ps = after.time_ps - before.time_ps
        sent = (after.sent - before.sent).astype(np.float64)
        received = after.received - before.received
        # Acknowledges alone make no port one of the busy.
        busy = self._to_host & self._carries_data(sent, after.sent_packets - before.sent_packets)
        sending = self._carries_data(received, after.received_packets - before.received_packets)
        senders = int((self._to_host & sending).sum())
        delivered = float(sent[busy].sum())
        could = float(rates[busy].sum()) * span_ps / PS_PER_S / 8
        waits_ps = depth_bytes * 8 * PS_PER_S / rates
        queued_ps = float((waits_ps * sent).sum()) / delivered if delivered else 0.0
        receivers = int(busy.sum())
        hosts = int(self._to_host.sum())
        return Observation(
            duration_us=span_ps / PS_PER_US,
            throughput=min(1.0, delivered / could) if could else 0.0,
            delay=self._base_ps / (self._base_ps + queued_ps),
            unpaused=1.0 - min(1.0, (after.paused_ps - before.paused_ps) / span_ps),
            lost_packets=after.lost - before.lost,
            fan_in=senders / receivers if receivers else 0.0,
            load=(senders + receivers) / (2 * hosts),
        )


class _Read:
    """Reads all counters, as `Watch`."""

    def __init__(self, view: FabricView, switches: _Switches) -> None:
        self._clock = view.clock
        self._switches = switches
        self._depths: list[_Ints] = []

    def begin(self) -> None:
        self._before = self._switches.counters(self._clock.now_ps)
        self._depths = []

    def sample(self) -> None:
        self._depths.append(self._switches.depths())

    def end(self) -> Observation:
        after = self._switches.counters(self._clock.now_ps)
        return self._switches.observation(self._before, after, np.mean(self._depths, axis=0))


def longest_ps(view: FabricView) -> int:
    """The longest way from the first host to another: its wires and pipelines, without queues."""
    graph = nx.Graph()
    pipeline_ps = round(view.scenario.model.switch.pipeline_latency_ns * 1000)
    for link in view.topology.links:
        graph.add_edge(link.a, link.b, delay=link.spec.delay_ps + pipeline_ps)
    first = view.topology.hosts[0].id
    reach = nx.single_source_dijkstra_path_length(graph, first, weight="delay")
    return int(max(reach[host.id] for host in view.topology.hosts))
