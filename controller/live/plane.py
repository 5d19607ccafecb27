"""The default live control plane: an agent a switch (policy glb), a controller and a standby."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from controller.agents import named_key_file
from controller.live.agent import AgentProcess, agent_name, key_path
from controller.live.bmv2 import Bmv2ControlProcess
from controller.live.control import FIRST, ControlProcess, calm_file
from controller.timers import timers_of
from sglb.fabric.live.control import LiveView
from sglb.fabric.live.processes import ProcessSpec
from sglb.switch.pktgen import TimerApp
from sglb.syncmesh.key_file import read_key, write_fresh_key

CONTROLLERS = (FIRST, "standby")


class LivePlane:
    """Implements `sglb.fabric.live.control.LiveControlPlane`; see there."""

    told: Sequence[str] = CONTROLLERS

    def __init__(self, view: LiveView) -> None:
        self._view = view
        self._switches = view.scenario.topology.switches
        self._policy = next(p for p in view.scenario.policies if p == view.policy)
        if self._policy == "glb":
            self._have_key()

    def timers(self, switch_id: int) -> tuple[TimerApp, ...]:
        """See the protocol."""
        index = [node.id for node in self._switches].index(switch_id)
        return timers_of(self._view.scenario.model, self._policy, index, len(self._switches))

    def processes(self) -> list[ProcessSpec]:
        """Controllers first: agents wait for what these fill in."""
        if self._view.target == "bmv2":
            keep = tuple(namespace.fd for namespace in self._view.namespaces.values())
            return [
                ProcessSpec(name, Bmv2ControlProcess(self._view, name), restart=True, keep=keep)
                for name in CONTROLLERS
            ]
        found = [
            ProcessSpec(
                name, ControlProcess(self._view, name, first=name == CONTROLLERS[0]), restart=True
            )
            for name in CONTROLLERS
        ]
        if self._policy == "glb":
            found += [
                ProcessSpec(agent_name(node.name), AgentProcess(self._view, node.id), restart=True)
                for node in self._switches
            ]
        return found

    def _have_key(self) -> None:
        """The key that the scenario names is checked here, once; without one, all share a fresh one."""
        path = key_path(self._view)
        if named_key_file(self._view.scenario) is None:
            write_fresh_key(path)
        read_key(path)

    def calm(self) -> bool:
        """See the protocol."""
        return self._view.target == "bmv2" or calm_file(self._view).exists()

    @staticmethod
    def rate_changed(link_id: int, rate_bps: int) -> Mapping[str, Any]:
        """See the protocol."""
        return {"rate": [link_id, rate_bps]}
