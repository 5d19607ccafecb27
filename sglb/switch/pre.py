"""The packet replication engine: multicast groups and clone sessions, with backup replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sglb.switch.errors import BadValue, EntryExists, NoSuchEntry


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy: to `port` with `instance` (the copy's egress_rid).

    `backups` are (port, instance) pairs to use in order when `port` is down: the first live one
    wins; with none alive there is no copy.
    """

    port: int
    instance: int = 0
    backups: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class MulticastGroup:
    """A group; `metadata` is the control plane's, kept and given back."""

    id: int
    replicas: tuple[Replica, ...] = ()
    metadata: bytes = b""


@dataclass(frozen=True, slots=True)
class CloneSession:
    """A clone session.

    `class_of_service` is the queue of the copies. `packet_length_bytes` > 0 cuts them to that length
    where they leave, like `truncate`.
    """

    id: int
    replicas: tuple[Replica, ...] = ()
    class_of_service: int = 0
    packet_length_bytes: int = 0


class ReplicationEngine:
    """Groups and sessions; `port_up` says whether a port is alive as far as the switch knows.

    Copies are resolved once and kept until a group or a port changes.
    """

    def __init__(self, port_up: Callable[[int], bool]) -> None:
        #: Called after a group (True) or session (False) of that id has changed; with None, all have.
        self.on_change: Callable[[bool, int | None], None] | None = None
        self._port_up = port_up
        self._groups: dict[int, MulticastGroup] = {}
        self._sessions: dict[int, CloneSession] = {}
        self._copies: dict[int, tuple[tuple[int, int], ...]] = {}
        self._session_copies: dict[int, tuple[tuple[int, int], ...]] = {}

    # --- data plane ---

    def copies(self, group_id: int) -> tuple[tuple[int, int], ...] | None:
        """(port, instance) of each copy of a group, in the order given; None for an unknown group."""
        known = self._copies.get(group_id)
        if known is None:
            group = self._groups.get(group_id)
            if group is None:
                return None
            known = self._copies[group_id] = self._resolve(group.replicas)
        return known

    def session(self, session_id: int) -> CloneSession | None:
        """The session, None when not configured."""
        return self._sessions.get(session_id)

    def session_copies(self, session_id: int) -> tuple[tuple[int, int], ...]:
        """(port, instance) of each copy of a configured session."""
        known = self._session_copies.get(session_id)
        if known is None:
            known = self._resolve(self._sessions[session_id].replicas)
            self._session_copies[session_id] = known
        return known

    def ports_changed(self) -> None:
        """A port went up or down: the choice among backups is made anew."""
        self._copies.clear()
        self._session_copies.clear()
        self._changed(True, None)
        self._changed(False, None)

    # --- control plane ---

    def groups(self) -> tuple[MulticastGroup, ...]:
        """All groups, by id."""
        return tuple(self._groups[i] for i in sorted(self._groups))

    def sessions(self) -> tuple[CloneSession, ...]:
        """All sessions, by id."""
        return tuple(self._sessions[i] for i in sorted(self._sessions))

    def group(self, group_id: int) -> MulticastGroup | None:
        """The group, None when unknown."""
        return self._groups.get(group_id)

    def insert_group(self, group: MulticastGroup) -> None:
        """Adds a group. Raises `EntryExists`, or `BadValue` (id 0, a copy given twice)."""
        if group.id in self._groups:
            raise EntryExists(f"multicast group {group.id} exists already")
        self._put_group(group)

    def modify_group(self, group: MulticastGroup) -> None:
        """Replaces a group. Raises `NoSuchEntry`, or `BadValue` as above."""
        if group.id not in self._groups:
            raise NoSuchEntry(f"there is no multicast group {group.id}")
        self._put_group(group)

    def delete_group(self, group_id: int) -> None:
        """Removes a group. Raises `NoSuchEntry`."""
        if self._groups.pop(group_id, None) is None:
            raise NoSuchEntry(f"there is no multicast group {group_id}")
        self._copies.pop(group_id, None)
        self._changed(True, group_id)

    def insert_session(self, session: CloneSession) -> None:
        """Adds a session. Raises `EntryExists`, or `BadValue` (a copy given twice, a bad length)."""
        if session.id in self._sessions:
            raise EntryExists(f"clone session {session.id} exists already")
        self._put_session(session)

    def modify_session(self, session: CloneSession) -> None:
        """Replaces a session. Raises `NoSuchEntry`, or `BadValue` as above."""
        if session.id not in self._sessions:
            raise NoSuchEntry(f"there is no clone session {session.id}")
        self._put_session(session)

    def delete_session(self, session_id: int) -> None:
        """Removes a session. Raises `NoSuchEntry`."""
        if self._sessions.pop(session_id, None) is None:
            raise NoSuchEntry(f"there is no clone session {session_id}")
        self._session_copies.pop(session_id, None)
        self._changed(False, session_id)

    def reset(self) -> None:
        """Forgets everything."""
        self._groups.clear()
        self._sessions.clear()
        self.ports_changed()

    # --- inside ---

    def _changed(self, is_group: bool, number: int | None) -> None:
        if self.on_change is not None:
            self.on_change(is_group, number)

    def _put_group(self, group: MulticastGroup) -> None:
        if group.id <= 0:
            raise BadValue(f"multicast group id {group.id}: ids start at 1 (0 means no multicast)")
        self._check(f"multicast group {group.id}", group.replicas)
        self._groups[group.id] = group
        self._copies.pop(group.id, None)
        self._changed(True, group.id)

    def _put_session(self, session: CloneSession) -> None:
        where = f"clone session {session.id}"
        if session.id < 0:
            raise BadValue(f"{where}: a session id must not be negative")
        if session.packet_length_bytes < 0 or session.class_of_service < 0:
            raise BadValue(f"{where}: length and class of service must not be negative")
        self._check(where, session.replicas)
        self._sessions[session.id] = session
        self._session_copies.pop(session.id, None)
        self._changed(False, session.id)

    @staticmethod
    def _check(where: str, replicas: Iterable[Replica]) -> None:
        seen: set[tuple[int, int]] = set()
        for replica in replicas:
            for pair in ((replica.port, replica.instance), *replica.backups):
                if pair in seen:
                    raise BadValue(f"{where}: port {pair[0]}, instance {pair[1]} is given twice")
                seen.add(pair)

    def _resolve(self, replicas: Iterable[Replica]) -> tuple[tuple[int, int], ...]:
        """Live copies; a replica without backups is always made (its port drops it if down)."""
        out: list[tuple[int, int]] = []
        for replica in replicas:
            first = (replica.port, replica.instance)
            if not replica.backups:
                out.append(first)
                continue
            live = next((p for p in (first, *replica.backups) if self._port_up(p[0])), None)
            if live is not None:
                out.append(live)
        return tuple(out)
