"""finsy's entities as protobuf messages in normal form, packed; what repeats is encoded once.

A plan names the same actions and match values over and over: 64 slots of a group, the same shares in
every group, the same thresholds on every port.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from finsy import Match, P4Schema, P4TableAction, P4TableEntry
from finsy.proto import p4r

from controller.diff import DEFAULT, TABLE, Holdings, Identity, identity, normal, packed
from controller.plan import Entity, Part

_Field = tuple[int, p4r.FieldMatch, bytes]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class HeldPart:
    """A part of the plan, encoded, and what it followed from (see `plan.Part`)."""

    key: Hashable
    basis: Hashable
    entities: Holdings


class Encoder:
    """For the switches of one fabric whose programs have this schema's P4Info."""

    def __init__(self, schema: P4Schema) -> None:
        self._schema = schema
        self._ids: dict[str, int] = {}
        self._fields: dict[tuple[str, str, Any], _Field | None] = {}
        self._actions: dict[tuple[Any, ...], p4r.TableAction] = {}
        self._common: WeakValueDictionary[tuple[Hashable, Hashable], HeldPart] = (
            WeakValueDictionary()
        )

    def part(self, part: Part) -> HeldPart:
        """A part, the same object for all switches that hold a common one. Raises as `holdings`."""
        name = (part.key, part.basis)
        found = self._common.get(name) if part.common else None
        if found is None:
            found = HeldPart(part.key, part.basis, self.holdings(part.entities()))
            if part.common:
                self._common[name] = found
        return found

    def holdings(self, entities: Iterable[Entity]) -> Holdings:
        """The entities by identity. Raises ValueError for what the program does not have."""
        return Holdings.of_normal(self._encode(entity) for entity in entities)

    def _encode(self, entity: Entity) -> tuple[Identity, bytes]:
        if not isinstance(entity, P4TableEntry) or not _is_plain(entity):
            made = normal(entity.encode(self._schema))
            return identity(made), packed(made)
        table = entity.table_id
        if table not in self._ids:
            self._ids[table] = self._schema.tables[table].id
        table_id = self._ids[table]
        action = self._action(table, entity.action)
        if entity.is_default_action:
            message = p4r.TableEntry(table_id=table_id, action=action, is_default_action=True)
            return Identity(TABLE, table_id, DEFAULT), packed(p4r.Entity(table_entry=message))
        found = [self._field(table, name, value) for name, value in (entity.match or {}).items()]
        fields = sorted((f for f in found if f is not None), key=_field_id)
        message = p4r.TableEntry(table_id=table_id, match=[f[1] for f in fields], action=action)
        match = b"\x00" + b"".join(f[2] for f in fields)
        return Identity(TABLE, table_id, match), packed(p4r.Entity(table_entry=message))

    def _field(self, table: str, name: str, value: Any) -> _Field | None:
        key = (table, name, value)
        if key not in self._fields:
            self._fields[key] = self._new_field(table, name, value)
        return self._fields[key]

    def _new_field(self, table: str, name: str, value: Any) -> _Field | None:
        entry = P4TableEntry(table, match=Match({name: value}))
        made = normal(entry.encode(self._schema)).table_entry.match
        if not made:
            return None  # does not matter
        return made[0].field_id, made[0], made[0].SerializeToString(deterministic=True)

    def _action(self, table: str, action: Any) -> p4r.TableAction:
        key = (table, action.name, *action.args.items())
        if key not in self._actions:
            entry = P4TableEntry(table, action=action)
            self._actions[key] = normal(entry.encode(self._schema)).table_entry.action
        return self._actions[key]


def _field_id(field: _Field) -> int:
    return field[0]


def _is_plain(entry: P4TableEntry) -> bool:
    """Whether a table, a match and an action of its own are all that an entry has."""
    return isinstance(entry.action, P4TableAction) and not (
        entry.priority or entry.metadata or entry.controller_metadata or entry.idle_timeout_ns
    )
