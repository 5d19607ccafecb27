"""A P4Info bound to the state of a loaded program: a handler per entity kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from finsy.proto import p4i

from sglb.switch.clock import Scheduler
from sglb.switch.digests import DigestEngine
from sglb.switch.p4runtime.action_profiles import GroupHandler, MemberHandler, ProfileBinding
from sglb.switch.p4runtime.actions import ActionCodec, ActionSet
from sglb.switch.p4runtime.arrays import (
    CounterBinding,
    CounterHandler,
    MeterBinding,
    MeterHandler,
    RegisterBinding,
    RegisterHandler,
)
from sglb.switch.p4runtime.digest_entries import DigestHandler
from sglb.switch.p4runtime.direct import DirectResources
from sglb.switch.p4runtime.direct_entries import DirectCounterHandler, DirectMeterHandler
from sglb.switch.p4runtime.entity import EntityHandler, ExternHandler, IndexMap
from sglb.switch.p4runtime.match_fields import MatchCodec
from sglb.switch.p4runtime.p4data import P4DataCodec
from sglb.switch.p4runtime.packet_io import ControllerHeader
from sglb.switch.p4runtime.ports import PortCodec
from sglb.switch.p4runtime.pre_entries import PreHandler
from sglb.switch.p4runtime.table_entries import TableBinding, TableHandler
from sglb.switch.p4runtime.translation import Translations
from sglb.switch.p4runtime.value_set_entries import ValueSetBinding, ValueSetHandler
from sglb.switch.pre import ReplicationEngine

if TYPE_CHECKING:
    from sglb.p4.compiler import CompiledProgram
    from sglb.switch.state import ProgramState


@dataclass(frozen=True, slots=True)
class TranslationOptions:
    """How values of translated types map to the device's.

    `tables` are keyed by type name or URI and map controller values to device values (see
    `translation`). `port_type` names the type that ports in replicas and watch ports have, if the
    program gives them a translated one.
    """

    tables: Mapping[str, Mapping[int | str, int]] = field(default_factory=dict)
    port_type: str = ""


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
        self._translations = Translations(self.p4info, surroundings.translation.tables)
        self.codec = P4DataCodec(self.p4info, self._translations)
        self._ports = self._port_codec()
        self._actions = self._action_codecs()
        self.profiles = self._bind_profiles()
        self.tables = self._bind_tables()
        clock = surroundings.clock
        self.table_handler = TableHandler(self.tables, clock)
        digests = {d.preamble.id: d for d in self.p4info.digests}
        self.digest_handler = DigestHandler(digests, surroundings.digests, self.codec)
        self.digest_ids = frozenset(digests)
        self.handlers: dict[str, EntityHandler] = {
            "action_profile_member": MemberHandler(self.profiles),
            "action_profile_group": GroupHandler(self.profiles),
            "table_entry": self.table_handler,
            "direct_counter_entry": DirectCounterHandler(self.tables),
            "direct_meter_entry": DirectMeterHandler(self.tables, clock),
            "counter_entry": CounterHandler(self._bind_counters()),
            "meter_entry": MeterHandler(self._bind_meters(), clock),
            "register_entry": RegisterHandler(self._bind_registers(), self.codec),
            "value_set_entry": ValueSetHandler(self._bind_value_sets()),
            "packet_replication_engine_entry": PreHandler(surroundings.replication, self._ports),
            "digest_entry": self.digest_handler,
            "extern_entry": ExternHandler(),
        }
        self.packet_in = self._controller_header("packet_in")
        self.packet_out = self._controller_header("packet_out")

    # --- binding ----------------------------------------------------------------------------------

    def _port_codec(self) -> PortCodec:
        name = self._around.translation.port_type
        translator = self._translations.of(name) if name else None
        if name and translator is None:
            raise ValueError(f"port type {name!r} is no translated type of the program")
        return PortCodec(self._around.has_port, self._around.cpu_port, translator)

    def _action_codecs(self) -> dict[int, ActionCodec]:
        widths = {
            action.p4info_id: [width for _, width in action.params]
            for table in self.program.ir.tables
            for action in table.actions
        }
        return {
            info.preamble.id: ActionCodec(
                info,
                # Actions that no table lists can't be called: any width will do.
                widths.get(info.preamble.id, [p.bitwidth for p in info.params]),
                self._translations,
            )
            for info in self.p4info.actions
        }

    def _action_set(self, where: str, refs: Iterable[p4i.ActionRef]) -> ActionSet:
        return ActionSet(where, list(refs), self._actions)

    def _bind_profiles(self) -> dict[int, ProfileBinding]:
        by_id = {t.preamble.id: t for t in self.p4info.tables}
        bound = {}
        for info in self.p4info.action_profiles:
            # All tables of a profile have the same actions; one without tables takes no member.
            refs = by_id[info.table_ids[0]].action_refs if info.table_ids else ()
            bound[info.preamble.id] = ProfileBinding(
                info,
                self.state.profile(info.preamble.id),
                self._action_set(f"action profile {info.preamble.name}", refs),
                self._ports,
            )
        return bound

    def _bind_tables(self) -> dict[int, TableBinding]:
        counters = {c.direct_table_id: c for c in self.p4info.direct_counters}
        meters = {m.direct_table_id: m for m in self.p4info.direct_meters}
        bound = {}
        for info in self.p4info.tables:
            name, table_id = info.preamble.name, info.preamble.id
            state = self.state.table(table_id)
            where = f"table {name}"
            bound[table_id] = TableBinding(
                info,
                state,
                MatchCodec(
                    info.match_fields,
                    [key.width for key in state.decl.keys],
                    self._translations,
                    where,
                ),
                self._action_set(where, info.action_refs),
                self.profiles.get(info.implementation_id),
                DirectResources(name, counters.get(table_id), meters.get(table_id)),
            )
        return bound

    def _indices(self, name: str, size: int, info: p4i.Counter | p4i.Register) -> IndexMap:
        translator = None
        if info.HasField("index_type_name"):
            translator = self._translations.of(info.index_type_name.name)
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
        bound = {}
        for info in self.p4info.value_sets:
            state = self.state.value_set(info.preamble.id)
            codec = MatchCodec(
                info.match, state.widths, self._translations, f"value set {state.name}"
            )
            bound[info.preamble.id] = ValueSetBinding(info, state, codec)
        return bound

    def _controller_header(self, name: str) -> ControllerHeader:
        for info in self.p4info.controller_packet_metadata:
            if info.preamble.name == name:
                return ControllerHeader(name, info, self._translations, self._widths(info))
        return ControllerHeader(name, None, self._translations)

    def _widths(self, info: p4i.ControllerPacketMetadata) -> list[int]:
        """The fields' widths in the program, which P4Info hides for translated types."""
        widths = [m.bitwidth for m in info.metadata]
        if not any(
            m.HasField("type_name") and self._translations.of(m.type_name.name)
            for m in info.metadata
        ):
            return widths
        names = [m.name for m in info.metadata]
        found = {
            tuple(f.width for f in header.fields)
            for header in self.program.ir.headers
            if [f.name for f in header.fields] == names
        }
        if len(found) != 1:
            raise ValueError(
                f"controller header {info.preamble.name}: the widths of its translated fields are "
                f"{'ambiguous' if found else 'unknown'}, since {len(found)} headers of the program "
                f"have the fields {', '.join(names)}"
            )
        return list(found.pop())
