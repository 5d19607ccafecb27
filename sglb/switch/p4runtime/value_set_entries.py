"""ValueSetEntry: the members of parser value sets (P4Runtime 1.5, "ValueSetEntry")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from finsy.proto import p4i, p4r

from sglb.switch.p4runtime.entity import Undo, UpdateType, find, modify_only
from sglb.switch.p4runtime.match_fields import MatchCodec
from sglb.switch.value_sets import ValueSetTable


@dataclass(frozen=True, slots=True)
class ValueSetBinding:
    """A value set of P4Info and its state."""

    info: p4i.ValueSet
    state: ValueSetTable
    codec: MatchCodec


class ValueSetHandler:
    """ValueSetEntry."""

    def __init__(self, value_sets: Mapping[int, ValueSetBinding]) -> None:
        self._value_sets = value_sets

    def object_id(self, entity: p4r.Entity) -> int:
        """The value set's id."""
        return int(entity.value_set_entry.value_set_id)

    def write(self, update: UpdateType, entity: p4r.Entity) -> Undo:
        """Replaces all members at once."""
        entry = entity.value_set_entry
        value_set = find(self._value_sets, "value set", entry.value_set_id)
        state = value_set.state
        modify_only(update, "value set", state.name)
        before = state.members
        state.replace([value_set.codec.decode(member.match) for member in entry.members])
        return lambda: state.replace(before)

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """The sets chosen, with their members."""
        wanted = entity.value_set_entry.value_set_id
        if wanted:
            chosen = [find(self._value_sets, "value set", wanted)]
        else:
            chosen = list(self._value_sets.values())
        for value_set in chosen:
            message = p4r.ValueSetEntry(value_set_id=value_set.info.preamble.id)
            for member in value_set.state.members:
                value_set.codec.fill(message.members.add().match, member)
            yield p4r.Entity(value_set_entry=message)
