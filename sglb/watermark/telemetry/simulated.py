"""A simulated fabric as its switches' messages tell it, and the bytes that these take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sglb.fabric.control import FabricView
from sglb.fabric.topology import NodeKind
from sglb.switch.core.bind import CoreSwitch
from sglb.watermark.telemetry.agent import Agent, Deadband
from sglb.watermark.telemetry.collector import Collector
from sglb.watermark.telemetry.kernel import KernelSource
from sglb.watermark.telemetry.reading import CLASSES
from sglb.watermark.telemetry.view import FabricFacts, PortFacts, observation
from sglb.watermark.tuner.fabric import Timing, longest_ps
from sglb.watermark.tuner.observation import Observation

#: A value as it comes to pollers, without anything around it.
POLLED_BYTES: Final = 8
#: Values of a class, and of a whole port, that switches tell of.
CLASS_VALUES: Final = 7
WHOLE_VALUES: Final = 5


@dataclass(slots=True)
class Cost:
    """What telemetry has taken.

    Attributes:
        bytes, messages: that were sent.
        intervals: of all switches together.
        polled_bytes: of as many polls of the same values, all classes.
        polled_class_bytes: the same of the tuned class alone.
    """

    bytes: int = 0
    messages: int = 0
    intervals: int = 0
    polled_bytes: int = 0
    polled_class_bytes: int = 0


class ReportedFabric:
    """What switches report of a fabric, as its tuner sees it: a `sglb.watermark.tuner.fabric.Watch`."""

    def __init__(self, view: FabricView, deadband: Deadband, cost: Cost) -> None:
        self._cost = cost
        self._collector = Collector()
        self._facts = facts(view)
        self._sources: dict[int, KernelSource] = {}
        self._agents: dict[int, Agent] = {}
        for switch_id, switch in view.switches.items():
            core = switch.core
            assert isinstance(core, CoreSwitch)
            self._sources[switch_id] = KernelSource(core, tuple(view.topology.ports(switch_id)))
            self._agents[switch_id] = Agent(switch_id, deadband=deadband)

    def begin(self) -> None:
        """An interval begins."""
        for switch_id, source in self._sources.items():
            source.begin()
            self._agents[switch_id].begin(source.read())

    def sample(self) -> None:
        """Some time within it."""
        for source in self._sources.values():
            source.sample()

    def end(self) -> Observation:
        """It is over: every switch tells what moved."""
        cost = self._cost
        for switch_id, source in self._sources.items():
            message = self._agents[switch_id].report(source.read())
            ports = len(source.ports)
            cost.intervals += 1
            cost.polled_bytes += POLLED_BYTES * ports * (CLASSES * CLASS_VALUES + WHOLE_VALUES)
            cost.polled_class_bytes += POLLED_BYTES * ports * (CLASS_VALUES + WHOLE_VALUES)
            if message is not None:
                cost.bytes += len(message)
                cost.messages += 1
                self._collector.take(message)
        return observation(self._facts, self._collector.switches.items())


def facts(view: FabricView) -> FabricFacts:
    """What its tuner knows of a simulated fabric beforehand."""
    topology, transport = view.topology, view.scenario.model.transport
    ports = {}
    for switch_id in view.switches:
        for number, link in topology.ports(switch_id).items():
            is_host = topology.by_id(link.other(switch_id)).kind is NodeKind.HOST
            ports[switch_id, number] = PortFacts(link.spec.rate_bps, is_host)
    return FabricFacts(
        ports, transport.traffic_class, 2 * longest_ps(view), transport.mtu_bytes // 4
    )


def reported(
    timing: Timing, cost: Cost, deadband: Deadband | None = None
) -> Callable[[FabricView], ReportedFabric]:
    """For `Options.watch` of a tuner: switches report; `cost` counts what that takes.

    Without a deadband it is that of the fastest port (`Deadband.for_rate`).
    """

    def watch(view: FabricView) -> ReportedFabric:
        rate_bps = max(link.spec.rate_bps for link in view.topology.links)
        mtu_bytes = view.scenario.model.transport.mtu_bytes
        band = deadband or Deadband.for_rate(rate_bps, timing.measure_us, mtu_bytes)
        return ReportedFabric(view, band, cost)

    return watch
