"""A switch running kitchen.p4 with its P4Runtime service, and short ways to write protobufs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from finsy.proto import U128, p4r

from sglb.p4.compiler import CompiledProgram
from sglb.p4.compiler import compile as compile_p4
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import PS_PER_US, VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.p4runtime.service import P4RuntimeService, ServiceOptions
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.switch import Switch

KITCHEN = Path(__file__).with_name("kitchen.p4")
DEVICE = 5
PORTS = range(1, 10)
CPU_PORT = 510
ETH = 48


@cache
def kitchen() -> CompiledProgram:
    return compile_p4(KITCHEN)


@cache
def compiled(text: str) -> CompiledProgram:
    return compile_p4(text)


class Bench:
    """A switch in virtual time, its service, and a primary with election id 1."""

    def __init__(
        self,
        program: CompiledProgram | None = None,
        *,
        empty: bool = False,
        options: ServiceOptions | None = None,
        device_id: int = DEVICE,
    ) -> None:
        self.clock = VirtualClock()
        self.program = None if empty else program or kitchen()
        self.switch = Switch(
            self.program,
            SwitchConfig(),
            self.clock,
            name="s1",
            device_id=device_id,
            rng=RandomStream(1),
        )
        for port in PORTS:
            self.switch.add_port(port, None)
        self.sent: list[tuple[int, bytes]] = []
        self.switch.on_transmit = lambda port, data, *_: self.sent.append((port, data))
        self.service = P4RuntimeService(self.switch, self.clock, options)
        self.heard: list[p4r.StreamMessageResponse] = []
        self.stream = self.service.open_stream(self.heard.append)
        self.stream.receive(arbitration(1, device_id=device_id))
        self.heard.clear()

    # --- names ---

    def id(self, alias: str) -> int:
        """The P4Info id of the one object with this alias (its kind in front if need be)."""
        info = self.service.switch.program.p4info
        objects = [
            o.preamble
            for field in info.DESCRIPTOR.fields
            if field.is_repeated
            for o in getattr(info, field.name)
            if hasattr(o, "preamble")
        ]
        (found,) = [p.id for p in objects if p.alias == alias]
        return found

    # --- requests ---

    def request(self, updates: list[p4r.Update], **kw: Any) -> p4r.WriteRequest:
        return p4r.WriteRequest(
            **{
                "device_id": self.service.device_id,
                "election_id": U128.encode(1),
                "updates": updates,
                **kw,
            }
        )

    def write(self, *updates: p4r.Update, **kw: Any) -> list[str]:
        """The code of each update, or of the RPC when it was refused as a whole."""
        failure = _failure(lambda: self.service.write(self.request(list(updates), **kw)))
        if failure is not None and not failure.details:
            return [failure.code.name]
        return _codes(failure, len(updates))

    def insert(self, *entities: p4r.Entity, **kw: Any) -> list[str]:
        return self.write(*(p4r.Update(type=p4r.Update.INSERT, entity=e) for e in entities), **kw)

    def modify(self, *entities: p4r.Entity, **kw: Any) -> list[str]:
        return self.write(*(p4r.Update(type=p4r.Update.MODIFY, entity=e) for e in entities), **kw)

    def delete(self, *entities: p4r.Entity, **kw: Any) -> list[str]:
        return self.write(*(p4r.Update(type=p4r.Update.DELETE, entity=e) for e in entities), **kw)

    def read(self, *entities: p4r.Entity) -> list[p4r.Entity]:
        request = p4r.ReadRequest(device_id=self.service.device_id, entities=entities)
        return [e for response in self.service.read(request) for e in response.entities]

    def read_code(self, *entities: p4r.Entity) -> list[str]:
        """The code of each read request."""
        return _codes(_failure(lambda: self.read(*entities)), len(entities))

    def everything(self) -> list[bytes]:
        """All state that can be read, as bytes, sorted."""
        requests = [
            table_entry(0, counter_data={}, meter_config={}),
            p4r.Entity(action_profile_member={}),
            p4r.Entity(action_profile_group={}),
            p4r.Entity(counter_entry={}),
            p4r.Entity(meter_entry={}),
            p4r.Entity(register_entry={}),
            p4r.Entity(value_set_entry={}),
            p4r.Entity(digest_entry={}),
            p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": {}}),
            p4r.Entity(packet_replication_engine_entry={"clone_session_entry": {}}),
        ]
        for table in self.switch.program.p4info.tables:
            has = {r >> 24 for r in table.direct_resource_ids}
            wanted: dict[str, Any] = {"is_default_action": True}
            if 0x13 in has:
                wanted["counter_data"] = {}
            if 0x15 in has:
                wanted["meter_config"] = {}
            requests.append(table_entry(table.preamble.id, **wanted))
        return sorted(e.SerializeToString(deterministic=True) for e in self.read(*requests))

    # --- packets ---

    def send(self, port: int, frame: bytes) -> None:
        self.switch.receive(port, frame)
        # Not to the end of events: an entry with an idle timeout re-arms for ever.
        self.clock.run(until_ps=self.clock.now_ps + 100 * PS_PER_US)


def _failure(call: Callable[[], object]) -> P4RuntimeError | None:
    try:
        call()
    except P4RuntimeError as error:
        return error
    return None


def _codes(failure: P4RuntimeError | None, count: int) -> list[str]:
    """The code of each element of a batch, from details that must be well formed."""
    if failure is None:
        return ["OK"] * count
    assert failure.code is Code.UNKNOWN
    assert len(failure.details) == count
    for detail in failure.details:
        assert bool(detail.message) is (detail.canonical_code != 0)
        assert "\n" not in detail.message
    return [Code(d.canonical_code).name for d in failure.details]


def arbitration(
    election_id: int | None, device_id: int = DEVICE, role: p4r.Role | None = None
) -> p4r.StreamMessageRequest:
    message = p4r.MasterArbitrationUpdate(device_id=device_id, role=role)
    if election_id is not None:
        message.election_id.CopyFrom(U128.encode(election_id))
    return p4r.StreamMessageRequest(arbitration=message)


def frame(dst: int = 0, src: int = 0x0200, etype: int = 0x9999, payload: bytes = b"") -> bytes:
    return dst.to_bytes(6, "big") + src.to_bytes(6, "big") + etype.to_bytes(2, "big") + payload


def action(action_id: int, *values: bytes) -> p4r.Action:
    """An action with parameters 1, 2 …"""
    params = [{"param_id": i, "value": v} for i, v in enumerate(values, 1)]
    return p4r.Action(action_id=action_id, params=params)


def exact(field_id: int, value: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=field_id, exact={"value": value})


def lpm(field_id: int, value: bytes, length: int) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=field_id, lpm={"value": value, "prefix_len": length})


def ternary(field_id: int, value: bytes, mask: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=field_id, ternary={"value": value, "mask": mask})


def ranged(field_id: int, low: bytes, high: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=field_id, range={"low": low, "high": high})


def optional(field_id: int, value: bytes) -> p4r.FieldMatch:
    return p4r.FieldMatch(field_id=field_id, optional={"value": value})


def table_entry(
    table_id: int,
    *match: p4r.FieldMatch,
    act: p4r.Action | None = None,
    **fields: Any,
) -> p4r.Entity:
    """A table entry; `act` is an action of its own."""
    if act is not None:
        fields["action"] = p4r.TableAction(action=act)
    return p4r.Entity(table_entry=p4r.TableEntry(table_id=table_id, match=match, **fields))
