"""PacketReplicationEngineEntry: multicast groups and clone sessions.

P4Runtime 1.5, "PacketReplicationEngineEntry". Ports may be given as bytes (`port`) or as the older
number (`egress_port`); what is read back is what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from finsy.proto import p4r

from sglb.switch.p4runtime.entity import Undo, UpdateType
from sglb.switch.p4runtime.ports import PortCodec
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.pre import CloneSession, MulticastGroup, Replica, ReplicationEngine

#: egress_rid is 16 bits wide in v1model.
MAX_INSTANCE = (1 << 16) - 1
#: So is mcast_grp; a clone session keeps 15 bits of the number that the program gives.
MAX_GROUP = (1 << 16) - 1
MAX_SESSION = (1 << 15) - 1
#: standard_metadata.priority is 3 bits wide.
MAX_CLASS = 7


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Store(Generic[_T]):
    """Where the engine keeps one kind of object."""

    insert: Callable[[_T], None]
    modify: Callable[[_T], None]
    delete: Callable[[int], None]

    def write(
        self, update: UpdateType, number: int, before: _T | None, make: Callable[[], _T]
    ) -> Undo:
        """Carries out one update of object `number`; `make` is not called for a DELETE."""
        if update is UpdateType.DELETE:
            self.delete(number)
        elif update is UpdateType.INSERT:
            self.insert(make())
        else:
            self.modify(make())

        def undo() -> None:
            if before is None:
                self.delete(number)
            elif update is UpdateType.DELETE:
                self.insert(before)
            else:
                self.modify(before)

        return undo


@dataclass(frozen=True, slots=True)
class WrittenReplica(Replica):
    """A replica with the (canonical) message that is read back for it."""

    message: p4r.Replica = field(kw_only=True, compare=False)


class PreHandler:
    """Multicast groups and clone sessions of one switch."""

    def __init__(self, engine: ReplicationEngine, ports: PortCodec) -> None:
        self._engine = engine
        self._ports = ports

    def object_id(self, entity: p4r.Entity) -> int:  # noqa: ARG002 (the handlers' protocol)
        """0: replication has no P4Info objects."""
        return 0

    def write(self, update: UpdateType, entity: p4r.Entity) -> Undo:
        """Inserts, replaces or deletes a group or session."""
        entry = entity.packet_replication_engine_entry
        match entry.WhichOneof("type"):
            case "multicast_group_entry":
                return self._write_group(update, entry.multicast_group_entry)
            case "clone_session_entry":
                return self._write_session(update, entry.clone_session_entry)
            case _:
                raise _unset()

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """The group or session with the id, or all for id 0."""
        entry = entity.packet_replication_engine_entry
        match entry.WhichOneof("type"):
            case "multicast_group_entry":
                wanted = entry.multicast_group_entry.multicast_group_id
                for group in self._engine.groups():
                    if wanted in (0, group.id):
                        yield self._group_message(group)
            case "clone_session_entry":
                wanted = entry.clone_session_entry.session_id
                for session in self._engine.sessions():
                    if wanted in (0, session.id):
                        yield self._session_message(session)
            case _:
                raise _unset()

    # --- multicast groups -------------------------------------------------------------------------

    def _write_group(self, update: UpdateType, entry: p4r.MulticastGroupEntry) -> Undo:
        what = f"multicast group {entry.multicast_group_id}"
        _check_id(entry.multicast_group_id, MAX_GROUP, what)
        engine = self._engine
        store = _Store(engine.insert_group, engine.modify_group, engine.delete_group)
        return store.write(
            update,
            entry.multicast_group_id,
            engine.group(entry.multicast_group_id),
            lambda: MulticastGroup(
                entry.multicast_group_id, self._replicas(entry.replicas, what), entry.metadata
            ),
        )

    def _group_message(self, group: MulticastGroup) -> p4r.Entity:
        message = p4r.MulticastGroupEntry(multicast_group_id=group.id, metadata=group.metadata)
        message.replicas.extend(self._replica_message(r) for r in group.replicas)
        return p4r.Entity(
            packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
                multicast_group_entry=message
            )
        )

    # --- clone sessions ---------------------------------------------------------------------------

    def _write_session(self, update: UpdateType, entry: p4r.CloneSessionEntry) -> Undo:
        what = f"clone session {entry.session_id}"
        _check_id(entry.session_id, MAX_SESSION, what)
        engine = self._engine
        store = _Store(engine.insert_session, engine.modify_session, engine.delete_session)
        return store.write(
            update,
            entry.session_id,
            engine.session(entry.session_id),
            lambda: self._session(entry, what),
        )

    def _session(self, entry: p4r.CloneSessionEntry, what: str) -> CloneSession:
        if entry.class_of_service > MAX_CLASS:
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT,
                f"{what}: class_of_service {entry.class_of_service} is not in 0..{MAX_CLASS}",
            )
        return CloneSession(
            entry.session_id,
            self._replicas(entry.replicas, what),
            entry.class_of_service,
            entry.packet_length_bytes,
        )

    def _session_message(self, session: CloneSession) -> p4r.Entity:
        message = p4r.CloneSessionEntry(
            session_id=session.id,
            class_of_service=session.class_of_service,
            packet_length_bytes=session.packet_length_bytes,
        )
        message.replicas.extend(self._replica_message(r) for r in session.replicas)
        return p4r.Entity(
            packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
                clone_session_entry=message
            )
        )

    # --- replicas ---------------------------------------------------------------------------------

    def _replicas(self, messages: Sequence[p4r.Replica], what: str) -> tuple[Replica, ...]:
        return tuple(self._replica(message, what) for message in messages)

    def _replica(self, message: p4r.Replica, what: str) -> Replica:
        written = p4r.Replica()
        written.CopyFrom(message)
        if message.WhichOneof("port_kind") == "egress_port":
            port = self._ports.check(message.egress_port, what)
        else:
            port = self._ports.decode(message.port, what)
            written.port = self._ports.canonical(message.port)
        _check_instance(message.instance, what)
        backups = []
        for backup in written.backup_replicas:
            other = self._ports.decode(backup.port, f"{what}, backup replica")
            backup.port = self._ports.canonical(backup.port)
            if other == port:
                raise P4RuntimeError(
                    Code.INVALID_ARGUMENT, f"{what}: port {port} is given as its own backup"
                )
            _check_instance(backup.instance, what)
            backups.append((other, backup.instance))
        return WrittenReplica(port, message.instance, tuple(backups), message=written)

    def _replica_message(self, replica: Replica) -> p4r.Replica:
        if isinstance(replica, WrittenReplica):
            return replica.message
        message = p4r.Replica(port=self._ports.encode(replica.port), instance=replica.instance)
        for port, instance in replica.backups:
            message.backup_replicas.add(port=self._ports.encode(port), instance=instance)
        return message


def _unset() -> P4RuntimeError:
    return P4RuntimeError(
        Code.INVALID_ARGUMENT,
        "packet_replication_engine_entry: set multicast_group_entry or clone_session_entry",
    )


def _check_id(number: int, limit: int, what: str) -> None:
    if not 0 < number <= limit:
        raise P4RuntimeError(Code.INVALID_ARGUMENT, f"{what}: the id must be in 1..{limit}")


def _check_instance(instance: int, what: str) -> None:
    if instance > MAX_INSTANCE:
        raise P4RuntimeError(
            Code.INVALID_ARGUMENT, f"{what}: instance {instance} exceeds {MAX_INSTANCE}"
        )
