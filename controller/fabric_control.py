"""The control plane of a simulated fabric: controller, SyncMesh state, timers and the slow path.

It reaches the switches through their P4Runtime services, in process and in virtual time, and knows of
the fabric what reaches it that way. Only packet generators are started directly: P4Runtime has no
word for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from finsy.proto import p4r

from controller.agent_entries import agent_entities
from controller.controller import Controller, Repair
from controller.layout import FabricLayout
from controller.paths import LinkState
from controller.plan import PlanInputs, Target
from controller.reactions import Delays, SlowPath
from controller.timers import timers_of
from sglb.fabric.control import FabricView
from sglb.fabric.events import TableWritten
from sglb.fabric.schema import ControlPlaneBlock
from sglb.switch.clock import PS_PER_MS
from sglb.switch.p4runtime.client import InProcessClient
from sglb.syncmesh.profiles import Allocation, allocate

_AGENT_ROLE = "syncmesh"


class FabricControl:
    """Implements `sglb.fabric.control.ControlPlane`; see there."""

    def __init__(self, view: FabricView) -> None:
        self._view = view
        self._model = view.scenario.model
        self._policy = next(p for p in view.scenario.policies if p == view.policy)
        self._fabric = FabricLayout(view.topology)
        self._clients = {i: InProcessClient(service) for i, service in view.services.items()}
        self._agents = {
            i: InProcessClient(service, role=p4r.Role(name=_AGENT_ROLE))
            for i, service in view.services.items()
        }
        self._allocations = self._allocate() if self._policy == "glb" else {}
        self._incarnations = dict.fromkeys(view.services, 1)
        self._controller = Controller(self._inputs(), self._clients)
        self._slow_path = SlowPath(
            view.topology, view.clock, _delays(self._model.control_plane), self, view.log
        )
        self._writes = 0

    def _allocate(self) -> dict[int, Allocation]:
        return {
            switch_id: allocate(
                self._view.topology,
                switch_id,
                profiles=self._model.syncmesh.profiles,
                members={
                    d: {m.port: m.capacity_bps for m in self._fabric.healthy(d).members(switch_id)}
                    for d in self._fabric.layout(switch_id).members
                },
            )
            for switch_id in self._view.services
        }

    def _inputs(self) -> PlanInputs:
        config = next(iter(self._view.switches.values())).config
        unit_bytes = {"bytes": 1, "cells": config.cell_bytes, "packets": 0}[config.depth_unit]
        return PlanInputs(
            self._fabric,
            self._model,
            self._policy,
            LinkState.healthy(self._view.topology),
            self._allocations,
            Target(unit_bytes),
        )

    # --- ControlPlane -----------------------------------------------------------------------------

    def start(self) -> None:
        """Fills all switches, before the first packet."""
        for switch_id, service in self._view.services.items():
            self._fill(switch_id)
            service.on_port_state(partial(self._slow_path.port_state, switch_id))

    def switch_restarted(self, switch_id: int) -> None:
        """Fills the switch again, `restore_ms` after it came back."""
        self._view.clock.call_later(
            round(self._model.control_plane.restore_ms * PS_PER_MS), self._refill, switch_id
        )

    def rate_changed(self, link_id: int, rate_bps: int) -> None:
        """Weights follow `reaction_ms` later."""
        self._slow_path.rate_changed(link_id, rate_bps)

    def report(self) -> Mapping[str, object]:
        """Updates written, links that are not in plain use, profiles of each switch."""
        names = {n.id: n.name for n in self._view.topology.switches}
        return {
            "table_updates": self._writes,
            "links": dict(self._slow_path.phases()),
            "profiles": {names[i]: a.summary() for i, a in self._allocations.items()},
        }

    # --- Writer -----------------------------------------------------------------------------------

    def rewrite(self, state: LinkState) -> None:
        """Writes what a new state of the links changes."""
        for switch_id, updates in self._controller.update(state).items():
            self._wrote(switch_id, updates)

    def returned(self, link_id: int) -> None:
        """Tells both ends' data planes that the link may be used again."""
        link = next(lk for lk in self._view.topology.links if lk.id == link_id)
        for switch_id in (link.a, link.b):
            self._clear(switch_id, link.port(switch_id))

    # --- inside -----------------------------------------------------------------------------------

    def _fill(self, switch_id: int) -> None:
        repair: Repair = self._controller.reconcile(switch_id)
        layout = self._fabric.layout(switch_id)
        agent = self._agents[switch_id]
        entities = list(
            agent_entities(layout, self._allocations.get(switch_id), self._incarnations)
        )
        agent.insert(entities)
        self._wrote(switch_id, repair.updates + len(entities))
        index = list(self._view.switches).index(switch_id)
        for app in timers_of(self._model, self._policy, index, len(self._view.switches)):
            self._view.switches[switch_id].start_generator(app)

    def _refill(self, switch_id: int) -> None:
        client = self._clients[switch_id]
        client.set_pipeline(client.schema.p4info)
        self._fill(switch_id)

    def _wrote(self, switch_id: int, updates: int) -> None:
        self._writes += updates
        now_ps = self._view.clock.now_ps
        self._view.log.append(TableWritten(now_ps, switch_id, "controller", updates))

    def _clear(self, switch_id: int, port: int) -> None:
        ethernet = bytes(12) + b"\x88\xb5"
        sync = bytes((0x1A, 0)) + bytes(2) + bytes(4) + bytes(4)
        command = bytes((2, 0, 0, 0)) + port.to_bytes(2, "big") + bytes(2)
        self._agents[switch_id].packet_out(
            ethernet + sync + command, egress_port=0, to_pipeline=1, pad=0
        )


def _delays(block: ControlPlaneBlock) -> Delays:
    return Delays(
        round(block.failure_detection_ms * PS_PER_MS),
        round(block.reaction_ms * PS_PER_MS),
        round(block.restore_ms * PS_PER_MS),
    )
