"""What to write so that a switch holds what is wanted: a comparison of P4Runtime entities.

Entities are compared in a normal form, so that it does not matter who encoded them. Each has an
identity (what INSERT creates and DELETE names) and a content (what MODIFY changes).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from finsy.proto import p4r

Update = p4r.Update


class Identity(NamedTuple):
    """What makes an entity the same one: its kind, P4Info or replication id, match and priority.

    A default entry has the match `DEFAULT`.
    """

    kind: str
    id: int
    match: bytes = b""
    priority: int = 0


TABLE = "table entry"
GROUP = "multicast group"
SESSION = "clone session"
DEFAULT = b"default"


class EntityKindError(ValueError):
    """An entity of a kind that the controller does not manage."""


def normal(entity: p4r.Entity) -> p4r.Entity:
    """The entity in normal form: fields in order of id, shortest byte strings, nothing volatile.

    Of a table entry, counters, meters, timers and the const flag are left out. Raises
    `EntityKindError` for what is neither a table entry, a multicast group nor a clone session.
    """
    match entity.WhichOneof("entity"):
        case "table_entry":
            return p4r.Entity(table_entry=_normal_table_entry(entity.table_entry))
        case "packet_replication_engine_entry":
            return _normal_replication(entity.packet_replication_engine_entry)
        case other:
            raise EntityKindError(f"the controller does not manage entities of kind {other}")


def _shortest(value: bytes) -> bytes:
    return value.lstrip(b"\0") or b"\0"


def _is_shortest(value: bytes) -> bool:
    return bool(value) and (value[0] != 0 or len(value) == 1)


def _is_normal(entry: p4r.TableEntry) -> bool:
    """Whether an entry is in normal form as it is, for those kinds of entries that are most."""
    if len(entry.match) > 2 or len(entry.ListFields()) > 2 + bool(entry.match):
        return False  # more than table, match and action
    at = 0
    for message in entry.match:
        if message.field_id <= at or message.WhichOneof("field_match_type") != "exact":
            return False
        if not _is_shortest(message.exact.value):
            return False
        at = message.field_id
    if entry.action.WhichOneof("type") != "action":
        return False
    at = 0
    for param in entry.action.action.params:
        if param.param_id <= at or not _is_shortest(param.value):
            return False
        at = param.param_id
    return entry.table_id != 0


def _normal_table_entry(entry: p4r.TableEntry) -> p4r.TableEntry:
    if _is_normal(entry):
        return entry
    made = p4r.TableEntry(
        table_id=entry.table_id,
        priority=entry.priority,
        is_default_action=entry.is_default_action,
        metadata=entry.metadata,
        controller_metadata=entry.controller_metadata,
        idle_timeout_ns=entry.idle_timeout_ns,
    )
    for message in sorted(entry.match, key=lambda m: m.field_id):
        copy = made.match.add()
        copy.CopyFrom(message)
        kind = copy.WhichOneof("field_match_type")
        part = getattr(copy, kind)
        for name in ("value", "mask", "low", "high"):
            if hasattr(part, name):
                setattr(part, name, _shortest(getattr(part, name)))
    if entry.HasField("action"):
        made.action.CopyFrom(entry.action)
        if entry.action.WhichOneof("type") == "action":
            made.action.action.CopyFrom(_normal_action(entry.action.action))
    return made


def _normal_action(action: p4r.Action) -> p4r.Action:
    made = p4r.Action(action_id=action.action_id)
    for param in sorted(action.params, key=lambda p: p.param_id):
        made.params.add(param_id=param.param_id, value=_shortest(param.value))
    return made


def _normal_replication(entry: p4r.PacketReplicationEngineEntry) -> p4r.Entity:
    made = p4r.PacketReplicationEngineEntry()
    made.CopyFrom(entry)
    kind = entry.WhichOneof("type")
    if kind is None:
        raise EntityKindError("a replication entry is neither a group nor a session")
    part = getattr(made, kind)
    replicas = sorted(part.replicas, key=lambda r: (_port(r), r.instance))
    del part.replicas[:]
    for replica in replicas:
        port = _port(replica)
        replica.port = _shortest(port.to_bytes(4, "big"))
        part.replicas.append(replica)
    return p4r.Entity(packet_replication_engine_entry=made)


def _port(replica: p4r.Replica) -> int:
    if replica.WhichOneof("port_kind") == "egress_port":
        return int(replica.egress_port)
    return int.from_bytes(replica.port, "big")


def identity(entity: p4r.Entity) -> Identity:
    """The identity of an entity in normal form."""
    if entity.WhichOneof("entity") == "table_entry":
        entry = entity.table_entry
        if entry.is_default_action:
            return Identity(TABLE, entry.table_id, DEFAULT)
        match = b"".join(m.SerializeToString(deterministic=True) for m in entry.match)
        return Identity(TABLE, entry.table_id, b"\x00" + match, entry.priority)
    replication = entity.packet_replication_engine_entry
    if replication.WhichOneof("type") == "multicast_group_entry":
        return Identity(GROUP, replication.multicast_group_entry.multicast_group_id)
    return Identity(SESSION, replication.clone_session_entry.session_id)


def packed(entity: p4r.Entity) -> bytes:
    """A message's bytes, which are equal for equal messages, and take much less memory."""
    data: bytes = entity.SerializeToString(deterministic=True)
    return data


class Holdings:
    """Entities of one switch by identity, in normal form, in order of insertion."""

    __slots__ = ("_held",)

    def __init__(self, entities: Iterable[p4r.Entity] = ()) -> None:
        self._held: dict[Identity, bytes] = {}
        for entity in entities:
            self.put(entity)

    @classmethod
    def of_normal(cls, named: Iterable[tuple[Identity, bytes]]) -> Holdings:
        """Entities (`packed`) that are known to be in normal form, with their identities."""
        made = cls()
        made._held.update(named)
        return made

    @classmethod
    def union(cls, parts: Iterable[Holdings]) -> Holdings:
        """All of several parts that share no identity."""
        made = cls()
        for part in parts:
            made._held.update(part._held)
        return made

    def put(self, entity: p4r.Entity) -> None:
        """Adds or replaces an entity; raises as `normal`."""
        made = normal(entity)
        self._held[identity(made)] = packed(made)

    @property
    def by_identity(self) -> Mapping[Identity, bytes]:
        """All of them, each `packed`."""
        return self._held

    def __len__(self) -> int:
        return len(self._held)


@dataclass(frozen=True, slots=True)
class Difference:
    """Entities to insert, to modify (with their new content) and to delete (with their old)."""

    inserts: tuple[p4r.Entity, ...] = ()
    modifies: tuple[p4r.Entity, ...] = ()
    deletes: tuple[p4r.Entity, ...] = ()

    def __len__(self) -> int:
        return len(self.inserts) + len(self.modifies) + len(self.deletes)

    def __bool__(self) -> bool:
        return len(self) > 0


def difference(
    installed: Holdings, desired: Holdings, initial: Mapping[int, p4r.Action]
) -> Difference:
    """What turns `installed` into `desired`.

    `initial` gives the program's own default action of tables by id: a default entry is never
    inserted or deleted but modified, back to nothing (a MODIFY without an action) when unwanted,
    and one that stands at its initial action is as good as none.
    """
    have, want = installed.by_identity, desired.by_identity
    inserts: list[p4r.Entity] = []
    modifies: list[p4r.Entity] = []
    deletes: list[p4r.Entity] = []
    for name, content in want.items():
        before = have.get(name)
        if before is None and name.match != DEFAULT:
            inserts.append(p4r.Entity.FromString(content))
        elif before != content:
            modifies.append(p4r.Entity.FromString(content))
    for name, content in have.items():
        if name in want:
            continue
        entity = p4r.Entity.FromString(content)
        if name.match != DEFAULT:
            deletes.append(entity)
        elif entity.table_entry.action.action != initial.get(name.id):
            reset = p4r.TableEntry(table_id=name.id, is_default_action=True)
            modifies.append(p4r.Entity(table_entry=reset))
    return Difference(tuple(inserts), tuple(modifies), tuple(deletes))


@dataclass(frozen=True, slots=True)
class Stages:
    """Batches that carry a difference out, one WriteRequest each, in this order.

    A server may carry out the updates of one request in any order, so what must come first
    stands in an earlier request: make before break. `order` ranks tables: groups and sessions go
    first, then entries of lower rank; deletions come last, highest rank first.
    """

    batches: tuple[tuple[p4r.Update, ...], ...] = field(default=())

    @classmethod
    def of(cls, change: Difference, order: Mapping[int, int]) -> Stages:
        """The batches of a difference; `order` gives the rank of each table id."""

        def rank(entity: p4r.Entity) -> int:
            if entity.WhichOneof("entity") != "table_entry":
                return -1
            return order[entity.table_entry.table_id]

        forward: dict[int, list[p4r.Update]] = {}
        for kind, entities in (
            (Update.INSERT, change.inserts),
            (Update.MODIFY, change.modifies),
        ):
            for entity in entities:
                forward.setdefault(rank(entity), []).append(Update(type=kind, entity=entity))
        backward: dict[int, list[p4r.Update]] = {}
        for entity in change.deletes:
            update = Update(type=Update.DELETE, entity=entity)
            backward.setdefault(rank(entity), []).append(update)
        stages: Sequence[list[p4r.Update]] = [
            *(forward[r] for r in sorted(forward)),
            *(backward[r] for r in sorted(backward, reverse=True)),
        ]
        return cls(tuple(tuple(batch) for batch in stages))
