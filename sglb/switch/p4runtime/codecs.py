"""What P4Runtime messages about a program's objects mean, whatever state the objects are in.

The switches of a fabric, which all run one program, share this: it is much larger than what it takes to
tie it to a switch's state (`bound`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from finsy.proto import p4i

from sglb.p4.identity import once_for_each
from sglb.switch.p4runtime.actions import ActionCodec, ActionSet
from sglb.switch.p4runtime.direct import DirectResources
from sglb.switch.p4runtime.match_fields import MatchCodec
from sglb.switch.p4runtime.p4data import P4DataCodec
from sglb.switch.p4runtime.packet_io import ControllerHeader
from sglb.switch.p4runtime.table_entries import KnownEntries
from sglb.switch.p4runtime.translation import Translations

if TYPE_CHECKING:
    from sglb.p4.compiler import CompiledProgram


@dataclass(frozen=True, slots=True)
class TranslationOptions:
    """How values of translated types map to the device's.

    `tables` are keyed by type name or URI and map controller values to device values (see
    `translation`). `port_type` names the type that ports in replicas and watch ports have, if the
    program gives them a translated one.
    """

    tables: Mapping[str, Mapping[int | str, int]] = field(default_factory=dict)
    port_type: str = ""


class Codecs:
    """The codecs of one program's tables, action profiles, value sets and controller headers, by id.

    Raises ValueError when P4Info and program do not belong together, or when the translation
    options do not suit them.
    """

    def __init__(self, program: CompiledProgram, options: TranslationOptions) -> None:
        self.program = program
        self.p4info: p4i.P4Info = program.p4info
        self.translations = Translations(self.p4info, options.tables)
        self.data = P4DataCodec(self.p4info, self.translations)
        self._actions = self._action_codecs()
        self.table_actions = {
            t.preamble.id: self._action_set(f"table {t.preamble.name}", t.action_refs)
            for t in self.p4info.tables
        }
        self.profile_actions = self._profile_actions()
        self.keys = self._keys()
        self.resources = self._resources()
        self.value_sets = self._value_sets()
        self.known = KnownEntries()
        self.packet_in = self._controller_header("packet_in")
        self.packet_out = self._controller_header("packet_out")

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
                self.translations,
            )
            for info in self.p4info.actions
        }

    def _action_set(self, where: str, refs: Iterable[p4i.ActionRef]) -> ActionSet:
        return ActionSet(where, list(refs), self._actions)

    def _profile_actions(self) -> dict[int, ActionSet]:
        by_id = {t.preamble.id: t for t in self.p4info.tables}
        found = {}
        for info in self.p4info.action_profiles:
            # All tables of a profile have the same actions; one without tables takes no member.
            refs = by_id[info.table_ids[0]].action_refs if info.table_ids else ()
            where = f"action profile {info.preamble.name}"
            found[info.preamble.id] = self._action_set(where, refs)
        return found

    def _keys(self) -> dict[int, MatchCodec]:
        declared = {table.p4info_id: table for table in self.program.ir.tables}
        return {
            info.preamble.id: MatchCodec(
                info.match_fields,
                [key.width for key in declared[info.preamble.id].keys],
                self.translations,
                f"table {info.preamble.name}",
            )
            for info in self.p4info.tables
        }

    def _resources(self) -> dict[int, DirectResources]:
        counters = {c.direct_table_id: c for c in self.p4info.direct_counters}
        meters = {m.direct_table_id: m for m in self.p4info.direct_meters}
        return {
            t.preamble.id: DirectResources(
                t.preamble.name, counters.get(t.preamble.id), meters.get(t.preamble.id)
            )
            for t in self.p4info.tables
        }

    def _value_sets(self) -> dict[int, MatchCodec]:
        declared = {decl.p4info_id: decl for decl in self.program.ir.value_sets}
        found = {}
        for info in self.p4info.value_sets:
            decl = declared[info.preamble.id]
            where = f"value set {decl.name}"
            codec = MatchCodec(info.match, decl.widths, self.translations, where)
            found[info.preamble.id] = codec
        return found

    def _controller_header(self, name: str) -> ControllerHeader:
        for info in self.p4info.controller_packet_metadata:
            if info.preamble.name == name:
                return ControllerHeader(name, info, self.translations, self._widths(info))
        return ControllerHeader(name, None, self.translations)

    def _widths(self, info: p4i.ControllerPacketMetadata) -> list[int]:
        """The fields' widths in the program, which P4Info hides for translated types."""
        widths = [m.bitwidth for m in info.metadata]
        if not any(
            m.HasField("type_name") and self.translations.of(m.type_name.name)
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


_PLAIN = TranslationOptions()


@once_for_each(16)
def _plain_codecs(program: CompiledProgram) -> Codecs:
    return Codecs(program, _PLAIN)


def codecs_of(program: CompiledProgram, options: TranslationOptions) -> Codecs:
    """A program's codecs, its own where types are translated; raises as `Codecs`.

    (A translation may learn names as they come, each switch its own.)
    """
    types = program.p4info.type_info.new_types.values()
    if any(spec.WhichOneof("representation") == "translated_type" for spec in types):
        return Codecs(program, options)
    return _plain_codecs(program)
