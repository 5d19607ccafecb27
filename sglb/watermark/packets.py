"""The same scenario packet by packet, sampled, to hold the fluid model against.

The fabric is that of `sglb run` on the native engine; whoever controls it is watched from a control
plane around it, which reads the depth of every queue now and then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sglb import programs
from sglb.fabric.control import ControlPlane, FabricView, load_control_plane
from sglb.fabric.metrics import PauseStats
from sglb.fabric.scenario import Scenario
from sglb.p4.compiler import compile  # noqa: A004 - the documented name
from sglb.switch.clock import PS_PER_US
from sglb.switch.core.bind import CoreSwitch
from sglb.watermark.arrays import Floats


@dataclass(frozen=True, slots=True)
class PacketRun:
    """`queue_bytes` by queue's name (as `from_scenario` names them) at `time_us`; the rest at the end.

    `drops` counts by reason, control frames included.
    """

    time_us: Floats
    queue_bytes: Mapping[str, Floats]
    completed: bool
    end_us: float
    drops: Mapping[str, int]
    pauses: PauseStats


class _Watcher:
    """A control plane that passes everything on, and samples."""

    def __init__(self, view: FabricView, sample_ps: int) -> None:
        self._inner: ControlPlane = load_control_plane()(view)
        self._view = view
        self._sample_ps = sample_ps
        self.times_ps: list[int] = []
        self.depths: dict[str, list[int]] = {}

    def start(self) -> None:
        self._inner.start()
        self._view.clock.call_at(self._sample_ps, self._sample)

    def switch_restarted(self, switch_id: int) -> None:
        self._inner.switch_restarted(switch_id)

    def rate_changed(self, link_id: int, rate_bps: int) -> None:
        self._inner.rate_changed(link_id, rate_bps)

    def report(self) -> Mapping[str, object]:
        return self._inner.report()

    def _sample(self) -> None:
        topology = self._view.topology
        cls = self._view.scenario.model.transport.traffic_class
        self.times_ps.append(self._view.clock.now_ps)
        for switch_id, switch in self._view.switches.items():
            core = switch.core
            assert isinstance(core, CoreSwitch)
            core.collect()
            for number, link in topology.ports(switch_id).items():
                mark = link.name.partition("#")[2]
                other = topology.by_id(link.other(switch_id)).name
                name = f"{switch.name} to {other}" + (f"#{mark}" if mark else "")
                self.depths.setdefault(name, []).append(switch.ports[number].queues[cls].bytes)
        self._view.clock.call_later(self._sample_ps, self._sample)


def run_packets(scenario: Scenario, policy: str, sample_us: float) -> PacketRun:
    """Run a scenario under one policy on the native engine, sampling every `sample_us`."""
    # Here, as it loads a compiler.
    from sglb.fabric.kernel.simulation import NativeSimulation

    watchers: list[_Watcher] = []

    def watched(view: FabricView) -> ControlPlane:
        watchers.append(_Watcher(view, round(sample_us * PS_PER_US)))
        return watchers[0]

    found = NativeSimulation(scenario, policy, compile(programs.glb()), watched).run()
    (watcher,) = watchers
    return PacketRun(
        np.array(watcher.times_ps, dtype=np.float64) / PS_PER_US,
        {name: np.array(depths, dtype=np.float64) for name, depths in watcher.depths.items()},
        found.completed,
        found.end_ps / PS_PER_US,
        dict(found.drops),
        found.pauses,
    )
