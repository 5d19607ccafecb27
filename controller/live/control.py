"""The fabric's controller as a process: active as long as it is primary, else a standby that watches.

What it does is `fabric_control`'s: the same plan, the same slow path. Agents are processes that it
reaches by `news`. A standby sees ports and agents' news like the active one, so it knows the links when
it takes over: a switch tells that nobody is primary, it asks with a higher election id, reads back
what each switch holds and repairs what differs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from finsy import P4TableEntry

from controller.agents import allocation_of, static_ports
from controller.controller import Controller, ControllerError, SwitchUnavailableError
from controller.fabric_control import delays_of
from controller.layout import FabricLayout
from controller.live.agent import agent_name
from controller.live.identity import incarnation_of
from controller.live.news import NewsLink
from controller.live.process import run_process, take_orders
from controller.paths import LinkState
from controller.plan import PlanInputs, Target
from controller.probes import Prober
from controller.reactions import PROBE, Delays, SlowPath
from sglb.fabric.events import TableWritten
from sglb.fabric.live.control import LiveView
from sglb.fabric.live.journal import Journal
from sglb.switch.clock import PS_PER_MS
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.remote import RemoteService
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.wall_clock import WallClock
from sglb.syncmesh import messages
from sglb.syncmesh.dataplane import CODE_BEST, CODE_DOWN, T_PORTS

_log = logging.getLogger(__name__)

#: The controller that is active from the start.
FIRST: Final = "controller"
_AGAIN_S: Final = 0.05
_TERM_BITS: Final = 32
#: A controller in Python that probes every port by packet-out keeps up with so much, no more.
_LEAST_DETECTION_PS: Final = 300 * PS_PER_MS
_INCARNATIONS: Final = 0xFFFF


def calm_file(view: LiveView) -> Path:
    """The file that is there while the first controller knows all links to be in plain use."""
    return view.folder / f"{FIRST}.calm"


@dataclass(frozen=True)
class ControlProcess:
    """The target of a process: a controller, until SIGTERM. `first` is active from the start."""

    view: LiveView
    name: str
    first: bool

    def __call__(self) -> None:
        """Runs it."""
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
        asyncio.run(self._run())

    async def _run(self) -> None:
        control = LiveControl(self.view, self.name, self.first)

        def report() -> None:
            self.view.report(self.name).write_text(json.dumps(control.report()))

        ready = self.view.ready(self.name)
        try:
            await run_process(control.tasks(), report, control.start(), ready.touch)
        finally:
            control.log.close()


class LiveControl:
    """One controller over the switches of a live fabric; `tasks` must run beside it."""

    def __init__(self, view: LiveView, name: str, first: bool) -> None:
        self._view = view
        self._name = name
        self._model = view.scenario.model
        self._policy = next(p for p in view.scenario.policies if p == view.policy)
        self._topology = view.scenario.topology
        self._fabric = FabricLayout(self._topology)
        self.clock = WallClock(asyncio.get_running_loop())
        self.log = Journal(view.journal(name), self.clock.start_ns)
        self._services = {
            node.id: RemoteService(node.name, node.id, view.addresses[node.id], self.clock)
            for node in self._topology.switches
        }
        # Unlike any other's: of two ids with the same term the larger one wins.
        self._identity = os.getpid()
        self._term = int(first)
        self._first = first
        self._clients: dict[int, InProcessClient] = {}
        self._controller: Controller | None = None
        delays = _delays(self._model.control_plane, self._policy)
        self._detection_ps = delays.detection_ps
        self._slow_path = SlowPath(self._topology, self.clock, delays, self, self.log)
        self._prober: Prober | None = None
        self._links = self._news_links()
        self._incarnations: dict[int, int] = {}
        self._updates = 0
        self._takeovers = 0
        self._filled: set[int] = set()
        self._settled = asyncio.Event()

    def _news_links(self) -> dict[int, NewsLink]:
        if self._policy != "glb":
            return {}
        return {
            node.id: NewsLink(
                self._view.folder / f"{agent_name(node.name)}.sock",
                partial(self._slow_path.agent_said, node.id),
            )
            for node in self._topology.switches
        }

    def tasks(self) -> list[Any]:
        """What has to run while this does."""
        services = [service.run() for service in self._services.values()]
        own = [self._orders(), self._tell_calm()]
        return [*services, *(link.run() for link in self._links.values()), *own]

    async def _tell_calm(self) -> None:
        """Keeps a file for as long as all links are in plain use; the first controller's business."""
        path = calm_file(self._view)
        while self._first:
            if self._settled.is_set() and not self._slow_path.phases():
                path.touch()
            else:
                path.unlink(missing_ok=True)
            await asyncio.sleep(_AGAIN_S)
        await asyncio.Event().wait()

    async def start(self) -> None:
        """Meets all switches; the first controller fills them, others come later."""
        while not (self._first or self._view.ready(FIRST).exists()):
            await asyncio.sleep(_AGAIN_S)
        for service in self._services.values():
            await service.ready.wait()
        for switch_id, service in self._services.items():
            client = InProcessClient(service, self._election_id())  # type: ignore[arg-type]
            self._clients[switch_id] = client
            client.on_error(partial(self._stream_error, switch_id))
        self._controller = Controller(self._inputs(), self._clients)
        for switch_id, client in self._clients.items():
            self._controller.restarted(switch_id, 1)  # nobody's to write yet
            service = self._services[switch_id]
            service.on_port_state(partial(self._port_state, switch_id))
            service.on_power(partial(self._power, switch_id))
            for port, up in service.port_states().items():
                self._port_state(switch_id, port, up)
            client.on_primary(partial(self._primary, switch_id))
            client.on_vacant(partial(self._vacant, switch_id))
            if client.is_primary:
                self._primary(switch_id, True)
        if self._first:
            await self._settled.wait()

    def report(self) -> dict[str, object]:
        """As `FabricControl.report`, without what only agents know."""
        return {
            "table_updates": self._updates,
            "links": dict(self._slow_path.phases()),
            "takeovers": self._takeovers,
        }

    # --- who is in charge -------------------------------------------------------------------------

    def _election_id(self) -> int:
        return self._term << _TERM_BITS | self._identity

    def _vacant(self, switch_id: int) -> None:
        """Nobody is primary: the one that was has died."""
        client = self._clients[switch_id]
        highest = (client.primary_id or 0) >> _TERM_BITS
        self._term = max(self._term, highest) + 1
        self._takeovers += 1
        client.ask_primary(self._election_id())

    def _primary(self, switch_id: int, is_primary: bool) -> None:
        if not is_primary:
            if self._controller is not None:
                self._controller.restarted(switch_id, self._incarnations.get(switch_id, 1))
            return
        self._attempt(switch_id, partial(self._fill, switch_id))
        for link in self._links.values():
            link.again()

    def _is_primary(self, switch_id: int) -> bool:
        client = self._clients.get(switch_id)
        return client is not None and client.is_primary

    def _attempt(self, switch_id: int, what: Callable[[], None]) -> None:
        """What may fail because the switch goes away, or another one took over."""
        try:
            what()
        except SwitchUnavailableError:
            _log.warning("switch %d is away", switch_id)
        except (ControllerError, P4RuntimeError) as error:
            if not _ours_no_more(error):
                raise
            _log.warning("switch %d: %s", switch_id, error)

    def _stream_error(self, switch_id: int, error: Any) -> None:
        _log.warning("switch %d refused a message: %s", switch_id, error.message)

    # --- filling a switch -------------------------------------------------------------------------

    def _inputs(self) -> PlanInputs:
        profiles = self._model.syncmesh.profiles
        allocations = {}
        if self._policy == "glb":
            allocations = {i: allocation_of(self._fabric, i, profiles) for i in self._services}
        return PlanInputs(
            self._fabric,
            self._model,
            self._policy,
            LinkState.healthy(self._topology),
            allocations,
            Target(self._view.depth_unit_bytes, self._model.live.rate_scale or 1),
        )

    def _fill(self, switch_id: int) -> None:
        """Brings a switch to its plan, whoever filled it before."""
        assert self._controller is not None
        client = self._clients[switch_id]
        found = incarnation_of(client)
        if not found:
            before = self._incarnations.get(switch_id, 0)
            # Without a memory of those before: seconds grow from start to start.
            found = max(int(time.time()) % _INCARNATIONS, before) + 1
        self._incarnations[switch_id] = found
        self._controller.restarted(switch_id, found)
        self._controller.sees(self._slow_path.state)
        repair = self._controller.reconcile(switch_id)
        self._wrote(switch_id, repair.updates)
        if self._policy != "glb":
            self._fill_ports(switch_id)
        self._filled.add(switch_id)
        if len(self._filled) == len(self._services):
            self._watch_links()
            self._settled.set()

    def _fill_ports(self, switch_id: int) -> None:
        """The table that an agent would fill, and marks of links that are down."""
        client = self._clients[switch_id]
        if not client.read(P4TableEntry(T_PORTS)):
            ports = list(static_ports(self._fabric.layout(switch_id)))
            client.insert(ports)
            self._wrote(switch_id, len(ports))
        states = self._services[switch_id].port_states()
        for port in self._fabric.layout(switch_id).neighbours:
            if not states.get(port, False):
                self._set_link(switch_id, port, CODE_DOWN)

    def _watch_links(self) -> None:
        """Routing's own probes; where agents run, the data planes' heartbeats are better."""
        if self._prober is None and self._policy != "glb" and self._detection_ps:
            self._prober = Prober(
                self._topology,
                self.clock,
                self._clients,
                self._detection_ps,
                partial(self._slow_path.hearing, PROBE),
            )
            self._prober.start()

    def _wrote(self, switch_id: int, updates: int) -> None:
        self._updates += updates
        self.log.append(TableWritten(self.clock.now_ps, switch_id, "controller", updates))

    # --- what the slow path acts on (`reactions.Writer`) ------------------------------------------

    def rewrite(self, state: LinkState) -> None:
        """Writes what a new state of the links changes, to the switches that are ours."""
        if self._controller is None:
            return
        for switch_id, updates in self._controller.update(state).items():
            self._wrote(switch_id, updates)

    def clear(self, switch_id: int, port: int) -> None:
        """Tells a data plane of ours that a link may be used again, through its agent if it has one."""
        if not self._is_primary(switch_id):
            return
        if switch_id in self._links:
            self._links[switch_id].clear(port)
        else:
            self._set_link(switch_id, port, CODE_BEST)

    # --- what is seen -----------------------------------------------------------------------------

    def _port_state(self, switch_id: int, port: int, up: bool) -> None:
        self._slow_path.port_state(switch_id, port, up)
        if self._prober is not None:
            self._prober.port_state(switch_id, port, up)

    def _power(self, switch_id: int, on: bool) -> None:
        if not on:
            if self._controller is not None:
                self._controller.restarted(switch_id, self._incarnations.get(switch_id, 1))
            return
        for port, up in self._services[switch_id].port_states().items():
            self._port_state(switch_id, port, up)

    def _set_link(self, switch_id: int, port: int, code: int) -> None:
        """Marks a link in a data plane that has no agent, or takes the mark away."""
        frame = messages.link_order(self._topology.by_id(switch_id).mac, switch_id, port, code)
        self._attempt(
            switch_id,
            partial(
                self._clients[switch_id].packet_out, frame, egress_port=0, to_pipeline=1, pad=0
            ),
        )

    # --- orders of the supervisor -----------------------------------------------------------------

    async def _orders(self) -> None:
        """Takes `{"rate": [LINK, BIT/S]}`: what a port-speed event tells a network OS."""

        def take(order: Any) -> None:
            match order:
                case {"rate": [int(link_id), int(rate_bps)]}:
                    self._slow_path.rate_changed(link_id, rate_bps)

        await take_orders(self._view.control(self._name), take)


def _ours_no_more(error: BaseException | None) -> bool:
    """Whether a switch refused something because another controller is in charge, or was away."""
    while error is not None:
        if isinstance(error, P4RuntimeError):
            return error.code in (Code.PERMISSION_DENIED, Code.UNAVAILABLE)
        error = error.__cause__
    return False


def _delays(block: Any, policy: str) -> Delays:
    found = delays_of(block)
    if policy == "glb" or not found.detection_ps:
        return found
    detection_ps = max(found.detection_ps, _LEAST_DETECTION_PS)
    return Delays(detection_ps, found.reaction_ps, found.restore_ps, found.notification_ps)
