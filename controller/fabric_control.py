"""The control plane of a simulated fabric: controller, SyncMesh agents, timers and the slow path.

It reaches the switches through their P4Runtime services, in process and in virtual time, and knows of
the fabric what reaches it that way. Only packet generators are started directly: P4Runtime has no
word for them.

`glb` runs an agent on every switch. The other policies have none: their switches know their neighbours
from table entries of the controller, which also tells their data planes that a link is back.
Agents and controller take no time to act once a message has reached them; the slow path's delays are
`reactions`'.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from finsy import P4TableEntry
from finsy.proto import p4r

from controller.agents import agent_config, allocation_of, simulated_key, static_ports
from controller.controller import Controller, SwitchUnavailableError
from controller.layout import FabricLayout
from controller.paths import LinkState
from controller.plan import PlanInputs, Target
from controller.probes import Prober
from controller.reactions import HEARTBEAT, PROBE, Delays, SlowPath
from controller.timers import timers_of
from sglb.fabric.control import FabricView
from sglb.fabric.events import PortDownSeen, TableWritten
from sglb.fabric.schema import ControlPlaneBlock
from sglb.switch.clock import PS_PER_MS, Handle
from sglb.switch.config import SwitchConfig
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.syncmesh import messages
from sglb.syncmesh.config import AgentConfig
from sglb.syncmesh.dataplane import CODE_BEST, CODE_DOWN, T_PORTS
from sglb.syncmesh.driver import Event, ScheduledAgent
from sglb.syncmesh.effects import Cause, LinkDown
from sglb.syncmesh.profiles import Allocation

_AGENT_ROLE = "syncmesh"


class FabricControl:
    """Implements `sglb.fabric.control.ControlPlane`; see there."""

    def __init__(self, view: FabricView) -> None:
        self._view = view
        self._model = view.scenario.model
        self._policy = next(p for p in view.scenario.policies if p == view.policy)
        self._fabric = FabricLayout(view.topology)
        self._clients = self._sessions()
        self._agent_clients = self._clients_of_agents()
        self._agents: dict[int, ScheduledAgent] = {}
        self._allocations = self._allocate()
        self._key = simulated_key(view.scenario)
        self._incarnations = dict.fromkeys(view.services, 1)
        self._controller = Controller(self._inputs(), self._clients)
        delays = delays_of(self._model.control_plane)
        self._slow_path = SlowPath(view.topology, view.clock, delays, self, view.log)
        self._prober = Prober(
            view.topology,
            view.clock,
            self._clients,
            delays.detection_ps,
            partial(self._slow_path.hearing, PROBE),
        )
        self._refills: dict[int, Handle] = {}
        self._updates = 0
        self._agent_updates = 0

    @property
    def clients(self) -> Mapping[int, InProcessClient]:
        """The controller's sessions, by switch."""
        return self._clients

    def _sessions(self) -> dict[int, InProcessClient]:
        """The controller's."""
        return {i: InProcessClient(service) for i, service in self._view.services.items()}

    def _clients_of_agents(self) -> dict[int, InProcessClient]:
        """Sessions of their own."""
        return {
            i: InProcessClient(service, role=p4r.Role(name=_AGENT_ROLE))
            for i, service in self._view.services.items()
        }

    def _allocate(self) -> dict[int, Allocation]:
        if self._policy != "glb":
            return {}
        profiles = self._model.syncmesh.profiles
        return {i: allocation_of(self._fabric, i, profiles) for i in self._view.services}

    def _inputs(self) -> PlanInputs:
        config = next(iter(self._view.switches.values())).config
        return PlanInputs(
            self._fabric,
            self._model,
            self._policy,
            LinkState.healthy(self._view.topology),
            self._allocations,
            Target(_depth_unit_bytes(config, self._model.transport.mtu_bytes)),
        )

    # --- ControlPlane -----------------------------------------------------------------------------

    def start(self) -> None:
        """Fills all switches, before the first packet, and starts to watch the links."""
        for switch_id, service in self._view.services.items():
            self._fill(switch_id)
            service.on_port_state(partial(self._slow_path.port_state, switch_id))
            service.on_port_state(partial(self._prober.port_state, switch_id))
        self._prober.start()

    def switch_restarted(self, switch_id: int) -> None:
        """Fills the switch again, `restore_ms` after it came back, unless it is down again by then.

        It has a new incarnation, so that nobody takes old frames of it for new ones.
        """
        self._incarnations[switch_id] += 1
        self._controller.restarted(switch_id, self._incarnations[switch_id])
        if switch_id in self._agents:
            self._agents[switch_id].kill()
        delay_ps = delays_of(self._model.control_plane).restore_ps
        if switch_id in self._refills:
            self._refills[switch_id].cancel()
        self._refills[switch_id] = self._view.clock.call_later(delay_ps, self._refill, switch_id)

    def rate_changed(self, link_id: int, rate_bps: int) -> None:
        """Weights and thresholds follow `reaction_ms` later."""
        self._slow_path.rate_changed(link_id, rate_bps)

    def report(self) -> Mapping[str, object]:
        """Updates written, links that are not in plain use, profiles and counters of the agents."""
        names = {n.id: n.name for n in self._view.topology.switches}
        return {
            "table_updates": self._updates,
            "agent_table_updates": self._agent_updates,
            "links": dict(self._slow_path.phases()),
            "profiles": {names[i]: a.summary() for i, a in self._allocations.items()},
            "agents": {names[i]: dict(a.stats().counters) for i, a in self._agents.items()},
        }

    # --- what the slow path acts on (`reactions.Writer`) ------------------------------------------

    def rewrite(self, state: LinkState) -> None:
        """Writes what a new state of the links changes."""
        for switch_id, updates in self._controller.update(state).items():
            self._wrote(switch_id, updates)

    def clear(self, switch_id: int, port: int) -> None:
        """Tells a data plane that a link may be used again, through its agent if it has one."""
        if switch_id in self._agents:
            self._agents[switch_id].clear_link(port)
        else:
            self._set_link(switch_id, port, CODE_BEST)

    # --- inside -----------------------------------------------------------------------------------

    def _refill(self, switch_id: int) -> None:
        try:
            self._fill(switch_id)
        except SwitchUnavailableError:
            return  # `switch_restarted` comes again

    def _fill(self, switch_id: int) -> None:
        """Brings a switch to its plan, starts its agent and its timers."""
        repair = self._controller.reconcile(switch_id)
        self._wrote(switch_id, repair.updates)
        if self._policy == "glb":
            self._start_agent(switch_id)
        else:
            client = self._agent_clients[switch_id]
            if not client.read(P4TableEntry(T_PORTS)):
                ports = list(static_ports(self._fabric.layout(switch_id)))
                client.insert(ports)
                self._wrote(switch_id, len(ports))
            for port in self._ports_down(switch_id):
                self._set_link(switch_id, port, CODE_DOWN)
        index = list(self._view.switches).index(switch_id)
        for app in timers_of(self._model, self._policy, index, len(self._view.switches)):
            self._view.switches[switch_id].start_generator(app)

    def _agent_config(self, switch_id: int) -> AgentConfig:
        """What a switch's agent is told."""
        return agent_config(
            self._fabric.layout(switch_id),
            self._allocations[switch_id],
            self._view.scenario,
            self._incarnations[switch_id],
            self._key,
        )

    def _start_agent(self, switch_id: int) -> None:
        incarnation = self._incarnations[switch_id]
        scenario = self._view.scenario
        self._agents[switch_id] = ScheduledAgent(
            self._agent_config(switch_id),
            self._agent_clients[switch_id],
            self._view.clock,
            scenario.rng(f"agent {switch_id} {incarnation}"),
            partial(self._agent_event, switch_id),
            partial(self._ports_down, switch_id),
            partial(self._agent_wrote, switch_id),
        )
        self._agents[switch_id].start()

    def _ports_down(self, switch_id: int) -> list[int]:
        """Fabric ports that the switch knows to be down."""
        states = self._view.services[switch_id].port_states()
        return [p for p in self._fabric.layout(switch_id).neighbours if not states[p]]

    def _wrote(self, switch_id: int, updates: int) -> None:
        self._updates += updates
        now_ps = self._view.clock.now_ps
        self._view.log.append(TableWritten(now_ps, switch_id, "controller", updates))

    def _agent_wrote(self, switch_id: int, updates: int) -> None:
        self._agent_updates += updates
        self._view.log.append(TableWritten(self._view.clock.now_ps, switch_id, "agent", updates))

    def _agent_event(self, switch_id: int, event: Event) -> None:
        if isinstance(event, LinkDown) and event.cause is Cause.BEATS:
            now_ps = self._view.clock.now_ps
            self._view.log.append(PortDownSeen(now_ps, switch_id, event.port, HEARTBEAT))
        self._slow_path.agent_said(switch_id, event)

    def _set_link(self, switch_id: int, port: int, code: int) -> None:
        """Marks a link in a data plane that has no agent, or takes the mark away."""
        frame = messages.link_order(self._view.topology.by_id(switch_id).mac, switch_id, port, code)
        try:
            self._agent_clients[switch_id].packet_out(frame, egress_port=0, to_pipeline=1, pad=0)
        except P4RuntimeError as error:
            if error.code is not Code.UNAVAILABLE:
                raise  # a switch that is down starts with no mark


def _depth_unit_bytes(config: SwitchConfig, mtu_bytes: int) -> int:
    return {"bytes": 1, "cells": config.cell_bytes, "packets": mtu_bytes}[config.depth_unit]


def delays_of(block: ControlPlaneBlock) -> Delays:
    """The delays of a scenario's slow path."""
    return Delays(
        round(block.failure_detection_ms * PS_PER_MS),
        round(block.reaction_ms * PS_PER_MS),
        round(block.restore_ms * PS_PER_MS),
        round(block.notification_ms * PS_PER_MS),
    )
