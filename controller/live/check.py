"""Whether the switches of a live fabric hold what they should: a process that only reads."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

from controller.agents import allocation_of
from controller.controller import Controller
from controller.layout import FabricLayout
from controller.live.identity import incarnation_of
from controller.paths import LinkState
from controller.plan import PlanInputs, Target
from sglb.fabric.live.control import LiveView
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.remote import RemoteService
from sglb.switch.wall_clock import WallClock
from sglb.whole_file import write_whole


@dataclass(frozen=True)
class TableCheck:
    """The target of a process: writes to `result` what differs from the healthy fabric's tables.

    That is a JSON object: switch -> lines; switches without a difference are left out.
    """

    view: LiveView
    result: Path

    def __call__(self) -> None:
        """Runs it."""
        found = asyncio.run(self._differences())
        write_whole(self.result, json.dumps(found))

    async def _differences(self) -> dict[str, list[str]]:
        view, topology = self.view, self.view.scenario.topology
        clock = WallClock(asyncio.get_running_loop())
        services = {
            node.id: RemoteService(node.name, node.id, view.addresses[node.id], clock)
            for node in topology.switches
        }
        tasks = [asyncio.create_task(service.run()) for service in services.values()]
        try:
            for service in services.values():
                await service.ready.wait()
            # Of all election ids the least: it changes nothing.
            clients = {i: InProcessClient(s, 1) for i, s in services.items()}  # type: ignore[arg-type]
            controller = Controller(self._inputs(), clients)
            found = {}
            for switch_id, client in clients.items():
                controller.adopted(switch_id, incarnation_of(client))
                repair = controller.inspect(switch_id)
                if repair.updates:
                    lines = [f"missing: {x}" for x in repair.inserted]
                    lines += [f"different: {x}" for x in repair.modified]
                    found[repair.switch] = lines + [f"too much: {x}" for x in repair.deleted]
            return found
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _inputs(self) -> PlanInputs:
        scenario, topology = self.view.scenario, self.view.scenario.topology
        fabric = FabricLayout(topology)
        policy = next(p for p in scenario.policies if p == self.view.policy)
        profiles = scenario.model.syncmesh.profiles
        allocations = {}
        if policy == "glb":
            allocations = {n.id: allocation_of(fabric, n.id, profiles) for n in topology.switches}
        target = Target(self.view.depth_unit_bytes, scenario.model.live.rate_scale or 1)
        healthy = LinkState.healthy(topology)
        return PlanInputs(fabric, scenario.model, policy, healthy, allocations, target)
