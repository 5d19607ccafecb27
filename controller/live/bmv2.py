"""The control plane over BMv2: one process with the controller and all agents.

BMv2 has one controller session a switch, no packet generator, no port-event packets and (as usually
built) no gNMI. So agents and controller, those of the simulated fabric, share sessions here; timer
packets and port events are packet-outs into the pipeline; port states come from netlink in the switches'
namespaces. There is no standby.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from finsy.proto import p4r

from controller.fabric_control import FabricControl
from controller.live.agent import PATIENCE_PS
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
_DATAGRAM_BYTES: Final = 1 << 12


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
    """The simulated fabric's control plane on sessions that agents and controller share."""

    def _clients_of_agents(self) -> dict[int, InProcessClient]:
        return self._clients

    def _agent_config(self, switch_id: int) -> AgentConfig:
        config = super()._agent_config(switch_id)
        return replace(config, timers=replace(config.timers, **PATIENCE_PS))

    def start(self) -> None:
        """Fills all switches and starts to watch the links."""
        for switch_id, service in self._view.services.items():
            self._fill(switch_id)
            service.on_port_state(partial(self._slow_path.port_state, switch_id))
        if self._policy != "glb":  # its probes would be one packet-in more for agents
            for switch_id, service in self._view.services.items():
                service.on_port_state(partial(self._prober.port_state, switch_id))
            self._prober.start()


@dataclass(frozen=True)
class Bmv2ControlProcess:
    """The target of a process, until SIGTERM."""

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
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        failed: asyncio.Future[None] = loop.create_future()

        def on_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception")
            if isinstance(error, Exception) and not failed.done():
                failed.set_exception(error)

        loop.set_exception_handler(on_error)
        clock = WallClock(loop)
        topology = self.view.scenario.topology
        services = {
            n.id: Bmv2Service(n.name, n.id, self.view.addresses[n.id], clock, ports[n.id])
            for n in topology.switches
        }
        tasks = [asyncio.create_task(service.run()) for service in services.values()]
        tasks.append(asyncio.create_task(self._orders(ports)))
        journal = Journal(self.view.journal(self.name), clock.start_ns)
        control: FabricControl | None = None
        try:
            for service in services.values():
                await service.ready.wait()
            await self._load(services)
            control = self._control(services, clock, journal)
            while not all(client.is_primary for client in control.clients.values()):
                await asyncio.sleep(_LOOK_S)
            control.start()
            self.view.ready(self.name).touch()
            ending = asyncio.create_task(stop.wait())
            waits: set[asyncio.Future[Any]] = {failed, ending, *tasks}
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                ended.result()
        finally:
            if control is not None:
                self.view.report(self.name).write_text(json.dumps(control.report()))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            journal.close()

    async def _orders(self, ports: dict[int, NetlinkPorts]) -> None:
        """Takes `{"port": [SWITCH, PORT, UP]}` of the supervisor, in place of carriers."""
        path = self.view.control(self.name)
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as orders:
            orders.bind(str(path))
            loop = asyncio.get_running_loop()
            while True:
                data = await loop.sock_recv(orders, _DATAGRAM_BYTES)
                with suppress(ValueError, KeyError):
                    match json.loads(data):
                        case {"port": [int(switch_id), int(port), bool(up)]}:
                            ports[switch_id].told(port, up)

    async def _load(self, services: Mapping[int, RemoteService]) -> None:
        assert self.view.program is not None
        device_config = self.view.program.read_text()
        p4info = compile_p4(programs.glb()).p4info
        for service in services.values():
            client = InProcessClient(service)  # type: ignore[arg-type]
            while not client.is_primary:
                await asyncio.sleep(_LOOK_S)
            client.set_pipeline(p4info, device_config)
            client.close()
            await asyncio.sleep(_LOOK_S)

    def _control(
        self, services: Mapping[int, RemoteService], clock: WallClock, journal: Journal
    ) -> FabricControl:
        config = SwitchConfig(depth_unit="packets")
        outs: dict[int, InProcessClient] = {}

        def send(switch_id: int, frame: bytes) -> None:
            outs[switch_id].packet_out(frame, egress_port=0, to_pipeline=1, pad=0)

        switches = {i: Ticker(clock, config, partial(send, i)) for i in services}
        view = FabricView(
            self.view.scenario.topology,
            self.view.scenario,
            self.view.policy,
            clock,  # type: ignore[arg-type]
            switches,  # type: ignore[arg-type]
            services,  # type: ignore[arg-type]
            journal,
        )
        control = Bmv2Control(view)
        outs.update(control.clients)
        for switch_id, service in services.items():
            service.on_port_state(partial(self._port_event, config, partial(send, switch_id)))
        return control

    @staticmethod
    def _port_event(
        config: SwitchConfig, send: Callable[[bytes], None], port: int, up: bool
    ) -> None:
        send(event_frame(config.event_ethertype, config.event_app_id, KIND_PORT, up, port, 0))
