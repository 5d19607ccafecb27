"""The control plane over BMv2: one process with the controller and all agents.

BMv2 has no roles, no packet generator, no port-event packets and (as usually built) no gNMI. So agents
and controller, those of the simulated fabric, share sessions here; timer packets and port events are
packet-outs into the pipeline; port states come from netlink in the switches' namespaces. A standby is
another such process: when the sessions of the one in charge end, BMv2 makes its own primary.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from finsy.proto import p4r

from controller.fabric_control import FabricControl
from controller.live.agent import PATIENCE_PS
from controller.live.control import FIRST
from controller.live.identity import incarnation_of
from controller.live.process import run_process, take_orders
from sglb import programs
from sglb.fabric.control import FabricView
from sglb.fabric.live.control import LiveView
from sglb.fabric.live.journal import Journal
from sglb.p4.compiler import compile as compile_p4
from sglb.switch.clock import Scheduler
from sglb.switch.config import SwitchConfig
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.remote import RemoteService
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.pktgen import KIND_PORT, KIND_TIMER, TimerApp, event_frame
from sglb.switch.wall_clock import WallClock
from sglb.switch.wire.netlink import changes, open_monitor
from sglb.switch.wire.sockets import has_carrier
from sglb.syncmesh.config import AgentConfig

_log = logging.getLogger(__name__)
_NETLINK_BYTES: Final = 1 << 16
_LOOK_S: Final = 0.1
#: So often in a row a standby has to be primary everywhere: one that is so for a moment is not alone.
_LOOKS: Final = 3
_ELECTION_BITS: Final = 62
_NS_PER_MS: Final = 1_000_000


class NetlinkPorts:
    """Ports of a switch by what netlink tells in its namespace, as `remote.PortSource`.

    To be made inside of that; `interfaces` are by port.
    """

    def __init__(self, interfaces: dict[int, str]) -> None:
        self._interfaces = interfaces
        self._monitor: socket.socket = open_monitor()
        self._states = {port: has_carrier(name) for port, name in interfaces.items()}
        self._tell: Callable[[int, bool], None] | None = None

    def states(self) -> dict[int, bool]:
        """See `PortSource`."""
        return dict(self._states)

    def listen(self, callback: Callable[[int, bool], None]) -> None:
        """See `PortSource`."""
        self._tell = callback
        asyncio.get_running_loop().add_reader(self._monitor.fileno(), self._changed)

    def told(self, port: int, up: bool) -> None:
        """A port is up or down, though its interface does not show it."""
        self._states[port] = up
        if self._tell is not None:
            self._tell(port, up)

    def _changed(self) -> None:
        with suppress(BlockingIOError):
            for change in changes(self._monitor.recv(_NETLINK_BYTES)):
                for port, name in self._interfaces.items():
                    if name == change.name and self._states[port] != change.up:
                        self._states[port] = change.up
                        if self._tell is not None:
                            self._tell(port, change.up)


class Bmv2Service(RemoteService):
    """A BMv2 switch. What it does not have, it calls an error to ask for."""

    def read(self, request: p4r.ReadRequest) -> Iterator[p4r.ReadResponse]:
        """The RPC, entity by entity; one that is not there is left out."""
        for entity in request.entities:
            one = p4r.ReadRequest(device_id=request.device_id, entities=[entity])
            try:
                yield from super().read(one)
            except P4RuntimeError as error:
                if error.code is not Code.NOT_FOUND:
                    raise

    def write(self, request: p4r.WriteRequest) -> p4r.WriteResponse:
        """The RPC; clones leave in class 0, as BMv2 gives them no other."""
        given = p4r.WriteRequest()
        given.CopyFrom(request)
        for update in given.updates:
            replication = update.entity.packet_replication_engine_entry
            if update.entity.HasField("packet_replication_engine_entry") and replication.HasField(
                "clone_session_entry"
            ):
                replication.clone_session_entry.class_of_service = 0
        return super().write(given)


class Ticker:
    """Timer packets by packet-out, in place of a packet generator; as `Switch.start_generator`."""

    def __init__(
        self, clock: Scheduler, config: SwitchConfig, send: Callable[[bytes], None]
    ) -> None:
        self.config = config
        self._clock = clock
        self._send = send
        self._batches: dict[int, int] = {}

    def start_generator(self, app: TimerApp) -> None:
        """Starts a timer, unless it runs."""
        if app.app_id not in self._batches:
            self._batches[app.app_id] = 0
            self._clock.call_later(app.start_ps, self._tick, app)

    def _tick(self, app: TimerApp) -> None:
        self._clock.call_later(app.period_ps, self._tick, app)
        batch = self._batches[app.app_id] = self._batches[app.app_id] + 1
        ethertype = self.config.event_ethertype
        head = event_frame(ethertype, app.app_id, KIND_TIMER, False, batch, 0)
        self._send(head + app.payload)


class Bmv2Control(FabricControl):
    """The simulated fabric's control plane on sessions that agents and controller share.

    `sessions` are these, by switch, `incarnations` the switches'.
    """

    def __init__(
        self,
        view: FabricView,
        sessions: dict[int, InProcessClient],
        incarnations: Mapping[int, int],
    ) -> None:
        self._given = sessions
        super().__init__(view)
        self._incarnations.update(incarnations)

    def _sessions(self) -> dict[int, InProcessClient]:
        return self._given

    def _clients_of_agents(self) -> dict[int, InProcessClient]:
        return self._given

    def _agent_config(self, switch_id: int) -> AgentConfig:
        config = super()._agent_config(switch_id)
        return replace(config, timers=replace(config.timers, **PATIENCE_PS))

    def start(self) -> None:
        """Fills all switches and starts to watch the links."""
        for switch_id, service in self._view.services.items():
            self._controller.adopted(switch_id, self._incarnations[switch_id])
            self._fill(switch_id)
            service.on_port_state(partial(self._slow_path.port_state, switch_id))
            service.on_power(partial(self._power, switch_id))
            self._power(switch_id, True)
        if self._policy != "glb":  # its probes would be one packet-in more for agents
            for switch_id, service in self._view.services.items():
                service.on_port_state(partial(self._prober.port_state, switch_id))
            self._prober.start()

    def _power(self, switch_id: int, on: bool) -> None:
        """What a switch's ports did while it was away nobody told."""
        if on:
            for port, up in self._view.services[switch_id].port_states().items():
                self._slow_path.port_state(switch_id, port, up)


@dataclass(frozen=True)
class Bmv2ControlProcess:
    """The target of a process, until SIGTERM: in charge of all switches, or ready to be."""

    view: LiveView
    name: str

    def __call__(self) -> None:
        """Runs it."""
        logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
        ports = {}
        for node in self.view.scenario.topology.switches:
            names = {p: f"p{p}" for p in self.view.scenario.topology.ports(node.id)}
            with self.view.namespaces[node.id].inside():
                ports[node.id] = NetlinkPorts(names)
        asyncio.run(self._run(ports))

    async def _run(self, ports: dict[int, NetlinkPorts]) -> None:
        plane = _Plane(self.view, self.name, ports)

        def report() -> None:
            self.view.report(self.name).write_text(json.dumps(plane.report()))

        ready = self.view.ready(self.name)
        try:
            await run_process(plane.tasks(), report, plane.start(), ready.touch)
        finally:
            plane.journal.close()


class _Plane:
    """Sessions with all switches, and the control plane over them once these are primary."""

    def __init__(self, view: LiveView, name: str, ports: dict[int, NetlinkPorts]) -> None:
        assert view.program is not None
        self._view = view
        self._name = name
        self._ports = ports
        self._clock = WallClock(asyncio.get_running_loop())
        self.journal = Journal(view.journal(name), self._clock.start_ns)
        self._services = {
            n.id: Bmv2Service(n.name, n.id, view.addresses[n.id], self._clock, ports[n.id])
            for n in view.scenario.topology.switches
        }
        self._clients: dict[int, InProcessClient] = {}
        self._p4info = compile_p4(programs.glb()).p4info
        self._device_config = view.program.read_text()
        self._control: Bmv2Control | None = None
        self._standing_by = asyncio.Event()
        self._takeovers = 0

    def tasks(self) -> list[Coroutine[Any, Any, None]]:
        """What has to run while this does."""
        orders = take_orders(self._view.control(self._name), self._order)
        return [*(service.run() for service in self._services.values()), orders, self._stand_by()]

    def report(self) -> dict[str, object]:
        """As `FabricControl.report`, once it is in charge."""
        found = {} if self._control is None else dict(self._control.report())
        return found | {"takeovers": self._takeovers}

    async def start(self) -> None:
        """Meets all switches; the first one takes charge of them, others wait for its end."""
        with suppress(FileNotFoundError):  # as nothing is cut yet
            for switch_id, port in json.loads(self._view.cut_ports.read_text()):
                self._ports[switch_id].told(port, False)
        ready = self._view.ready(FIRST)
        first = self._name == FIRST and not ready.exists()
        while not (first or ready.exists()):
            await asyncio.sleep(_LOOK_S)
        for service in self._services.values():
            await service.ready.wait()
        # BMv2 has whoever asked with the highest id be primary: of those that are there, the oldest.
        election_id = (1 << _ELECTION_BITS) - time.monotonic_ns() // _NS_PER_MS
        for switch_id, service in self._services.items():
            client = InProcessClient(service, election_id)  # type: ignore[arg-type]
            client.on_error(partial(self._refused, switch_id))
            self._clients[switch_id] = client
        if not first:
            self._standing_by.set()
            return
        while not self._is_primary():
            await asyncio.sleep(_LOOK_S)
        self._take_charge()

    async def _stand_by(self) -> None:
        """Takes charge once nobody older is there, at any switch."""
        await self._standing_by.wait()
        looks = 0
        while looks < _LOOKS:
            await asyncio.sleep(_LOOK_S)
            looks = looks + 1 if self._is_primary() else 0
        self._takeovers += 1
        self._take_charge()
        await asyncio.Event().wait()

    def _is_primary(self) -> bool:
        return all(client.is_primary for client in self._clients.values())

    def _loaded(self, switch_id: int) -> int:
        """Sees to it that a switch runs the program; its incarnation.

        Under glb it starts anew with new agents: what those before had it announce is in registers,
        which P4Runtime does not show on BMv2.
        """
        client = self._clients[switch_id]
        running = client.has_program()
        before = incarnation_of(client) if running else 0
        if running and self._view.policy != "glb":
            return max(before, 1)
        client.set_pipeline(self._p4info, self._device_config)
        return before + 1

    def _take_charge(self) -> None:
        incarnations = {switch_id: self._loaded(switch_id) for switch_id in self._clients}
        config = SwitchConfig(depth_unit="packets")
        switches = {i: Ticker(self._clock, config, partial(self._send, i)) for i in self._services}
        view = FabricView(
            self._view.scenario.topology,
            self._view.scenario,
            self._view.policy,
            self._clock,  # type: ignore[arg-type]
            switches,  # type: ignore[arg-type]
            self._services,  # type: ignore[arg-type]
            self.journal,
        )
        self._control = Bmv2Control(view, self._clients, incarnations)
        for switch_id, service in self._services.items():
            service.on_port_state(partial(self._port_event, config, switch_id))
            self._clients[switch_id].on_primary(partial(self._primary, switch_id))
        self._control.start()

    def _send(self, switch_id: int, frame: bytes) -> None:
        """A frame into the pipeline of a switch; lost where there is none."""
        client = self._clients[switch_id]
        if client.is_primary:
            client.packet_out(frame, egress_port=0, to_pipeline=1, pad=0)

    def _port_event(self, config: SwitchConfig, switch_id: int, port: int, up: bool) -> None:
        frame = event_frame(config.event_ethertype, config.event_app_id, KIND_PORT, up, port, 0)
        self._send(switch_id, frame)

    def _primary(self, switch_id: int, is_primary: bool) -> None:
        """A switch is back: one that has lost its program has started anew."""
        client = self._clients[switch_id]
        if self._control is None or not is_primary or client.has_program():
            return
        client.set_pipeline(self._p4info, self._device_config)
        self._control.switch_restarted(switch_id)

    def _refused(self, switch_id: int, error: p4r.StreamError) -> None:
        _log.warning("switch %d refused a message: %s", switch_id, error.message)

    def _order(self, order: Any) -> None:
        """`{"port": [SWITCH, PORT, UP]}` of the supervisor, in place of carriers."""
        match order:
            case {"port": [int(switch_id), int(port), bool(up)]} if switch_id in self._ports:
                self._ports[switch_id].told(port, up)
