"""A P4Info bound to the state of a loaded program: a handler per entity kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from finsy.proto import p4i

from sglb.switch.clock import Scheduler
from sglb.switch.digests import DigestEngine
from sglb.switch.p4runtime.action_profiles import GroupHandler, MemberHandler, ProfileBinding
from sglb.switch.p4runtime.arrays import (
    CounterBinding,
    CounterHandler,
    MeterBinding,
    MeterHandler,
    RegisterBinding,
    RegisterHandler,
)
from sglb.switch.p4runtime.codecs import TranslationOptions as TranslationOptions
from sglb.switch.p4runtime.codecs import codecs_of
from sglb.switch.p4runtime.digest_entries import DigestHandler
from sglb.switch.p4runtime.direct_entries import DirectCounterHandler, DirectMeterHandler
from sglb.switch.p4runtime.entity import EntityHandler, ExternHandler, IndexMap
from sglb.switch.p4runtime.ports import PortCodec
from sglb.switch.p4runtime.pre_entries import PreHandler
from sglb.switch.p4runtime.table_entries import TableBinding, TableHandler
from sglb.switch.p4runtime.value_set_entries import ValueSetBinding, ValueSetHandler
from sglb.switch.pre import ReplicationEngine

if TYPE_CHECKING:
    from sglb.p4.compiler import CompiledProgram
    from sglb.switch.state import ProgramState


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a program's objects need of the switch."""

    clock: Scheduler
    replication: ReplicationEngine
    digests: DigestEngine
    has_port: Callable[[int], bool]
    cpu_port: int
    translation: TranslationOptions


class BoundPipeline:
    """Handlers for all entities of one program with its state.

    Raises ValueError when P4Info and program do not belong together, or when the translation
    options do not suit them.
    """

    def __init__(
        self, program: CompiledProgram, state: ProgramState, surroundings: Surroundings
    ) -> None:
        self.program = program
        self.state = state
        self.p4info: p4i.P4Info = program.p4info
        self._around = surroundings
        self.codecs = codecs_of(program, surroundings.translation)
        self._ports = self._port_codec()
        self.profiles = self._bind_profiles()
        self.tables = self._bind_tables()
        clock = surroundings.clock
        self.table_handler = TableHandler(self.tables, clock, self.codecs.known)
        digests = {d.preamble.id: d for d in self.p4info.digests}
        self.digest_handler = DigestHandler(digests, surroundings.digests, self.codecs.data)
        self.digest_ids = frozenset(digests)
        self.handlers: dict[str, EntityHandler] = {
            "action_profile_member": MemberHandler(self.profiles),
            "action_profile_group": GroupHandler(self.profiles),
            "table_entry": self.table_handler,
            "direct_counter_entry": DirectCounterHandler(self.tables),
            "direct_meter_entry": DirectMeterHandler(self.tables, clock),
            "counter_entry": CounterHandler(self._bind_counters()),
            "meter_entry": MeterHandler(self._bind_meters(), clock),
            "register_entry": RegisterHandler(self._bind_registers(), self.codecs.data),
            "value_set_entry": ValueSetHandler(self._bind_value_sets()),
            "packet_replication_engine_entry": PreHandler(surroundings.replication, self._ports),
            "digest_entry": self.digest_handler,
            "extern_entry": ExternHandler(),
        }

    # --- binding ----------------------------------------------------------------------------------

    def _port_codec(self) -> PortCodec:
        name = self._around.translation.port_type
        translator = self.codecs.translations.of(name) if name else None
        if name and translator is None:
            raise ValueError(f"port type {name!r} is no translated type of the program")
        return PortCodec(self._around.has_port, self._around.cpu_port, translator)

    def _bind_profiles(self) -> dict[int, ProfileBinding]:
        return {
            info.preamble.id: ProfileBinding(
                info,
                self.state.profile(info.preamble.id),
                self.codecs.profile_actions[info.preamble.id],
                self._ports,
            )
            for info in self.p4info.action_profiles
        }

    def _bind_tables(self) -> dict[int, TableBinding]:
        codecs, bound = self.codecs, {}
        for info in self.p4info.tables:
            table_id = info.preamble.id
            bound[table_id] = TableBinding(
                info,
                self.state.table(table_id),
                codecs.keys[table_id],
                codecs.table_actions[table_id],
                self.profiles.get(info.implementation_id),
                codecs.resources[table_id],
            )
        return bound

    def _indices(self, name: str, size: int, info: p4i.Counter | p4i.Register) -> IndexMap:
        translator = None
        if info.HasField("index_type_name"):
            translator = self.codecs.translations.of(info.index_type_name.name)
        return IndexMap(name, size, translator)

    def _bind_counters(self) -> dict[int, CounterBinding]:
        bound = {}
        for info in self.p4info.counters:
            state = self.state.counter(info.preamble.id)
            indices = self._indices(f"counter {state.name}", state.size, info)
            bound[info.preamble.id] = CounterBinding(info, state, indices)
        return bound

    def _bind_meters(self) -> dict[int, MeterBinding]:
        bound = {}
        for info in self.p4info.meters:
            state = self.state.meter(info.preamble.id)
            indices = self._indices(f"meter {state.name}", state.size, info)
            bound[info.preamble.id] = MeterBinding(info, state, indices)
        return bound

    def _bind_registers(self) -> dict[int, RegisterBinding]:
        bound = {}
        for info in self.p4info.registers:
            state = self.state.register(info.preamble.id)
            indices = self._indices(f"register {state.name}", state.size, info)
            bound[info.preamble.id] = RegisterBinding(info, state, indices)
        return bound

    def _bind_value_sets(self) -> dict[int, ValueSetBinding]:
        return {
            info.preamble.id: ValueSetBinding(
                info,
                self.state.value_set(info.preamble.id),
                self.codecs.value_sets[info.preamble.id],
            )
            for info in self.p4info.value_sets
        }
