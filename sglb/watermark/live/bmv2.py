"""BMv2 switches as the tuner sees and sets them.

What BMv2 has: the P4 program's own marking (table `watermarks`) and counters, by P4Runtime; queue rates
and registers, by its Thrift interface; bytes and packets of its interfaces, which Linux counts. It has
neither pauses nor a shared buffer, and does not tell what it drops for want of room: queues are made
deep enough to hold a buffer's worth each.

It knows no roles: writes go under the election id of the controller that is primary, which sets
watermarks once, before the tuner begins.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any, Final

import grpc
import numpy as np
from finsy import P4CounterData, P4TableEntry
from finsy.proto import U128, p4r, p4r_grpc

from sglb.fabric.live.control import LiveView
from sglb.fabric.live.namespaces import Namespace
from sglb.fabric.roce import wire_bytes
from sglb.switch.p4runtime.client import InProcessClient
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.watermark.live.actuator import WATERMARKS, EcnTable, FabricActuator, SwitchActuator
from sglb.watermark.live.thrift import I64, ThriftClient
from sglb.watermark.telemetry.collector import SwitchView
from sglb.watermark.telemetry.reading import FIELDS, ROWS, WHOLE, Field, Values

_THRIFT_PORT: Final = 9090
_REGISTER: Final = "FabricEgress.ecn.waited"
_RPC_S: Final = 20.0
_AGAIN_S: Final = 0.1
_PATIENCE_S: Final = 5.0
#: Below that of every controller, and not that of a check (`controller.live.check`).
_LEAST_ID: Final = 2
_SET_FLAGS, _UP = 0x8914, 0x1 | 0x8 | 0x40  # up, loopback, running
_INTERFACES: Final = "/proc/thread-self/net/dev"
_RX_BYTES, _RX_PACKETS, _TX_BYTES, _TX_PACKETS = 0, 1, 8, 9


class UnaryService:
    """P4Runtime without a session, for `InProcessClient`: reads, and writes as the primary does.

    Raises `P4RuntimeError`; writes wait a while for a primary where there is none.
    """

    def __init__(self, name: str, device_id: int, address: str) -> None:
        self.switch = _Named(name)
        self.device_id = device_id
        self._channel = grpc.insecure_channel(address)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()

    def open_stream(self, _send: Callable[[p4r.StreamMessageResponse], None]) -> _NoStream:
        """None."""
        return _NoStream()

    def on_power(self, callback: Callable[[bool], None]) -> None:
        """A switch that goes away ends the run."""

    def read(self, request: p4r.ReadRequest) -> Iterator[p4r.ReadResponse]:
        """The RPC."""
        try:
            yield from self._stub.Read(request, timeout=_RPC_S)
        except grpc.RpcError as error:
            raise _error(error) from error

    def write(self, request: p4r.WriteRequest) -> p4r.WriteResponse:
        """The RPC, under the primary's election id."""
        given = p4r.WriteRequest()
        given.CopyFrom(request)
        end_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                given.election_id.CopyFrom(self._primary_id())
                found: p4r.WriteResponse = self._call(self._stub.Write, given)
                return found
            except P4RuntimeError as error:
                # Another controller takes over at this moment.
                if error.code is not Code.PERMISSION_DENIED or time.monotonic() >= end_s:
                    raise
                time.sleep(_AGAIN_S)

    def _primary_id(self) -> p4r.Uint128:
        """Asks to be primary with the least of all ids: the answer names who is."""
        asked = p4r.MasterArbitrationUpdate(
            device_id=self.device_id, election_id=U128.encode(_LEAST_ID)
        )
        stream = self._stub.StreamChannel(
            iter([p4r.StreamMessageRequest(arbitration=asked)]), timeout=_RPC_S
        )
        try:
            answer = next(stream).arbitration
        except grpc.RpcError as error:
            raise _error(error) from error
        finally:
            stream.cancel()
        if answer.status.code == Code.OK:
            raise P4RuntimeError(Code.PERMISSION_DENIED, "no controller is primary")
        found: p4r.Uint128 = answer.election_id
        return found

    def get_forwarding_pipeline_config(
        self, request: p4r.GetForwardingPipelineConfigRequest
    ) -> p4r.GetForwardingPipelineConfigResponse:
        """The RPC."""
        found: p4r.GetForwardingPipelineConfigResponse = self._call(
            self._stub.GetForwardingPipelineConfig, request
        )
        return found

    def _call(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=_RPC_S)
        except grpc.RpcError as error:
            raise _error(error) from error


def _error(error: Any) -> P4RuntimeError:
    code = Code(error.code().value[0])
    return P4RuntimeError(code, error.details() or code.name)


@dataclass(frozen=True, slots=True)
class _Named:
    name: str


class _NoStream:
    def receive(self, request: p4r.StreamMessageRequest) -> None:
        """Nobody is asked."""

    def close(self) -> None:
        """Nothing was opened."""


class Interfaces:
    """What Linux has counted at a switch's ports, `p1` and so on in its namespace."""

    def __init__(self, file: IO[str], ports: tuple[int, ...]) -> None:
        self._file = file
        self._ports = ports

    def read(self) -> Values:
        """Bytes and packets, received and sent: shape (ports, 4)."""
        self._file.seek(0)
        return counted(self._file.read(), self._ports)


def counted(text: str, ports: tuple[int, ...]) -> Values:
    """The lines of `p1`, `p2` ... of /proc/net/dev: received bytes, packets, sent bytes, packets."""
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        if colon:
            found[name.strip()] = [int(word) for word in rest.split()]
    wanted = (_RX_BYTES, _RX_PACKETS, _TX_BYTES, _TX_PACKETS)
    return np.array([[found[f"p{port}"][at] for at in wanted] for port in ports], dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class _Counts:
    """As of `time_us`: interfaces' counts, and by port the packets of the class and their depths."""

    time_us: int
    interfaces: Values
    queued: Values
    waited: Values


class Bmv2Switch:
    """One switch."""

    def __init__(
        self,
        name: str,
        client: InProcessClient,
        thrift: ThriftClient,
        interfaces: Interfaces,
        ports: tuple[int, ...],
        traffic_class: int,
    ) -> None:
        self.name = name
        self.thrift = thrift
        self._client = client
        self._interfaces = interfaces
        self._ports = ports
        self._class = traffic_class
        self._before: _Counts | None = None

    def shape(self, rates_pps: dict[int, int], depth_packets: int) -> None:
        """Gives ports their rates, in packets a second, and each queue its room."""
        for port, rate in rates_pps.items():
            self.thrift.call("simple_switch:set_egress_queue_depth", port, depth_packets)
            self.thrift.call("simple_switch:set_egress_queue_rate", port, I64(rate))

    def begin(self) -> None:
        """What is counted is from now on."""
        self._before = self._read()

    def view(self, packet_bytes: int) -> SwitchView:
        """What was counted since `begin`, or the last of these; depths as `packet_bytes` each."""
        assert self._before is not None
        now, before = self._read(), self._before
        self._before = now
        values = np.zeros((len(self._ports), ROWS, FIELDS), dtype=np.uint64)
        grown = now.interfaces - before.interfaces
        queued, waited = now.queued - before.queued, now.waited - before.waited
        values[:, WHOLE, Field.RECEIVED_BYTES] = grown[:, 0]
        values[:, WHOLE, Field.RECEIVED_PACKETS] = grown[:, 1]
        values[:, self._class, Field.SENT_BYTES] = grown[:, 2]
        values[:, WHOLE, Field.SENT_PACKETS] = grown[:, 3]
        values[:, self._class, Field.QUEUE_MEAN_BYTES] = (
            waited * np.uint64(packet_bytes) // np.maximum(queued, np.uint64(1))
        )
        span_us = max(1, now.time_us - before.time_us)
        return SwitchView(0, 0, now.time_us, span_us, self._ports, values=values)

    def _read(self) -> _Counts:
        entries = self._client.read(P4TableEntry(WATERMARKS, counter_data=P4CounterData()))
        queued = dict.fromkeys(self._ports, 0)
        for entry in entries:
            if entry.match["class"] == self._class and entry.counter_data is not None:
                queued[int(entry.match["port"])] = entry.counter_data.packet_count
        waited = [
            self.thrift.call("standard:bm_register_read", 0, _REGISTER, port) or 0
            for port in self._ports
        ]
        return _Counts(
            time.monotonic_ns() // 1_000,
            self._interfaces.read(),
            np.array([queued[port] for port in self._ports], dtype=np.uint64),
            np.array(waited, dtype=np.uint64),
        )


class Bmv2Switches:
    """All switches of a fabric, once its controller has given their ports watermarks.

    In `async with`: `actuator` sets them, `views` are of what was counted since `begin`.
    """

    def __init__(self, view: LiveView) -> None:
        self._view = view
        self._stack = ExitStack()
        self._switches: dict[int, Bmv2Switch] = {}
        self._mtu_bytes = view.scenario.model.transport.mtu_bytes

    async def __aenter__(self) -> Bmv2Switches:
        view = self._view
        topology, model = view.scenario.topology, view.scenario.model
        cls = model.transport.traffic_class
        actuators = []
        for node in topology.switches:
            service = UnaryService(node.name, node.id, view.addresses[node.id])
            self._stack.callback(service.close)
            client = InProcessClient(service)  # type: ignore[arg-type]
            links = topology.ports(node.id)
            ecn = EcnTable(node.name, client, cls)
            while ecn.read().keys() < links.keys():
                await asyncio.sleep(_AGAIN_S)
            ports = tuple(sorted(links))
            interfaces, thrift = self._inside(view.namespaces[node.id], node.name, ports)
            switch = Bmv2Switch(node.name, client, thrift, interfaces, ports, cls)
            packet_bits = 8 * wire_bytes(self._mtu_bytes)
            rates = {n: max(1, round(x.spec.rate_bps / packet_bits)) for n, x in links.items()}
            switch.shape(rates, room_packets(view))
            self._switches[node.id] = switch
            towards = {n: topology.by_id(link.other(node.id)).name for n, link in links.items()}
            unit = view.depth_unit_bytes
            actuators.append(SwitchActuator(node.name, ecn, None, unit, towards))
        self.actuator = FabricActuator(actuators)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stack.close()

    def _inside(
        self, namespace: Namespace, name: str, ports: tuple[int, ...]
    ) -> tuple[Interfaces, ThriftClient]:
        """What has to be opened in a switch's namespace."""
        with namespace.inside():
            _loopback_up()
            file = self._stack.enter_context(open(_INTERFACES))  # noqa: SIM115, PTH123
            connection = socket.create_connection(("127.0.0.1", _THRIFT_PORT), _RPC_S)
        thrift = ThriftClient(name, connection)
        self._stack.callback(thrift.close)
        return Interfaces(file, ports), thrift

    @property
    def bytes(self) -> int:
        """Of all Thrift calls and answers."""
        return sum(switch.thrift.bytes for switch in self._switches.values())

    def begin(self) -> None:
        """What is counted is from now on."""
        for switch in self._switches.values():
            switch.begin()

    def views(self) -> list[tuple[int, SwitchView]]:
        """What was counted since the last time."""
        return [(i, switch.view(self._mtu_bytes)) for i, switch in self._switches.items()]


def room_packets(view: LiveView) -> int:
    """Packets that a queue has room for: the buffer's bytes, as BMv2 has no buffer to share."""
    model = view.scenario.model
    return max(64, model.switch.queue_bytes // model.transport.mtu_bytes)


def _loopback_up() -> None:
    """The namespace's own, where BMv2 serves Thrift."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))
