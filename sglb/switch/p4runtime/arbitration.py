"""Who may write: primaries and backups per role, P4Runtime 1.5 "Client Arbitration and Controller
Replication".

One `Arbitration` serves one device. It knows sessions (one per stream that sent an accepted
`MasterArbitrationUpdate`), decides who is primary and tells every session of a role about
changes. Requests run one at a time: no write of an old primary is in flight when the primary
changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from finsy.proto import U128, p4r, rpc_status

from sglb.switch.p4runtime.roles import RoleScope
from sglb.switch.p4runtime.status import Code, P4RuntimeError

Send = Callable[[p4r.StreamMessageResponse], None]


@dataclass(slots=True, eq=False)
class Session:
    """A live controller: one stream. `election_id` None was left unset and never wins."""

    send: Send
    role: str
    names_role: bool
    election_id: int | None = None


@dataclass(slots=True, eq=False)
class RoleState:
    """What the server remembers per role, sessions in the order in which they came.

    `highest` is the highest election id of any primary so far; it outlives the sessions. `config`
    is the role configuration that the last primary sent, `scope` what it allows.
    """

    name: str
    sessions: list[Session] = field(default_factory=list)
    primary: Session | None = None
    highest: int | None = None
    config: p4r.Role | None = None
    scope: RoleScope = field(default_factory=RoleScope)


class Arbitration:
    """Sessions and primaries of one device.

    `max_sessions` limits the streams of one role.
    """

    def __init__(self, device_id: int, *, max_sessions: int = 32) -> None:
        self.device_id = device_id
        self.max_sessions = max_sessions
        self._roles: dict[str, RoleState] = {"": RoleState("")}

    def role(self, name: str) -> RoleState:
        """The role's state; NOT_FOUND for a role that no controller has ever taken."""
        state = self._roles.get(name)
        if state is None:
            known = ", ".join(repr(n) for n in self._roles)
            raise P4RuntimeError(
                Code.NOT_FOUND,
                f"role {name!r} is unknown to device {self.device_id} (known: {known})",
            )
        return state

    def roles(self) -> list[RoleState]:
        """All roles, the default role first."""
        return list(self._roles.values())

    def check_device(self, device_id: int) -> None:
        """NOT_FOUND for a device that is not this one."""
        if device_id != self.device_id:
            raise P4RuntimeError(
                Code.NOT_FOUND,
                f"device_id {device_id} is unknown (this server has device {self.device_id})",
            )

    def check_primary(
        self, device_id: int, role: str, election_id: p4r.Uint128 | None
    ) -> RoleState:
        """Checks device, role, then that the id is the primary's; returns the role.

        Raises NOT_FOUND or PERMISSION_DENIED. `election_id` None is one left unset.
        """
        self.check_device(device_id)
        state = self.role(role)
        wanted = None if election_id is None else U128.decode(election_id)
        if state.primary is None:
            raise P4RuntimeError(
                Code.PERMISSION_DENIED,
                f"role {role!r} has no primary: open a stream and send a MasterArbitrationUpdate"
                + (f" with an election_id of at least {state.highest}" if state.highest else ""),
            )
        if wanted is None or wanted != state.primary.election_id:
            raise P4RuntimeError(
                Code.PERMISSION_DENIED,
                f"election_id {wanted} is not the primary's ({state.primary.election_id}) "
                f"for role {role!r}",
            )
        return state

    # --- streams ----------------------------------------------------------------------------------

    def update(
        self, session: Session | None, send: Send, message: p4r.MasterArbitrationUpdate
    ) -> Session:
        """Handles a `MasterArbitrationUpdate`; `session` is None for the first one of a stream.

        Returns the stream's session. Raises the error with which the stream has to be ended.
        """
        election_id = U128.decode(message.election_id) if message.HasField("election_id") else None
        if session is None:
            self.check_device(message.device_id)
            scope = RoleScope.parse(message.role)
            state = self._roles.get(message.role.name) or RoleState(message.role.name)
            self._check_unique(state, None, election_id)
            if len(state.sessions) >= self.max_sessions:
                raise P4RuntimeError(
                    Code.RESOURCE_EXHAUSTED,
                    f"role {state.name!r} already has {len(state.sessions)} streams, the limit",
                )
            session = Session(send, state.name, message.HasField("role"))
            self._roles[state.name] = state
            state.sessions.append(session)
        else:
            state = self._roles[session.role]
            self._check_unchanged(session, message)
            scope = RoleScope.parse(message.role)
            self._check_unique(state, session, election_id)
        session.election_id = election_id
        self._elect(state, session, message.role, scope)
        return session

    def _check_unchanged(self, session: Session, message: p4r.MasterArbitrationUpdate) -> None:
        if message.device_id != self.device_id:
            raise P4RuntimeError(
                Code.FAILED_PRECONDITION,
                f"device_id {message.device_id}: this stream is for device {self.device_id}; "
                "open another stream for another device",
            )
        if message.role.name != session.role:
            raise P4RuntimeError(
                Code.FAILED_PRECONDITION,
                f"role {message.role.name!r}: this stream has role {session.role!r}; "
                "open another stream for another role",
            )

    def _check_unique(
        self, state: RoleState, session: Session | None, election_id: int | None
    ) -> None:
        if election_id is None:
            return
        for other in state.sessions:
            if other is not session and other.election_id == election_id:
                raise P4RuntimeError(
                    Code.INVALID_ARGUMENT,
                    f"election id {election_id} is already used by another live controller "
                    f"of role {state.name!r}",
                )

    def _elect(self, state: RoleState, session: Session, role: p4r.Role, scope: RoleScope) -> None:
        was_primary = state.primary is session
        election_id = session.election_id
        if election_id is not None and (state.highest is None or election_id >= state.highest):
            state.config = p4r.Role()
            state.config.CopyFrom(role)
            state.scope = scope
            state.highest = election_id
            state.primary = session
            # Everybody else hears of it before the new primary may write.
            for other in state.sessions:
                if other is not session:
                    self._notify(state, other)
            self._notify(state, session)
        elif was_primary:
            state.primary = None
            for other in state.sessions:
                self._notify(state, other)
        else:
            self._notify(state, session)

    def close(self, session: Session) -> None:
        """The stream is gone. Nobody is promoted: the role waits for somebody's next update."""
        state = self._roles[session.role]
        if session not in state.sessions:
            return
        state.sessions.remove(session)
        if state.primary is session:
            state.primary = None
            for other in state.sessions:
                self._notify(state, other)

    def _notify(self, state: RoleState, session: Session) -> None:
        update = p4r.MasterArbitrationUpdate(device_id=self.device_id)
        has_config = state.config is not None and state.config.HasField("config")
        if session.names_role or has_config:
            update.role.name = state.name
            if state.config is not None and has_config:
                update.role.config.CopyFrom(state.config.config)
        if state.highest is not None:
            update.election_id.CopyFrom(U128.encode(state.highest))
        update.status.CopyFrom(self._status(state, session))
        session.send(p4r.StreamMessageResponse(arbitration=update))

    def _status(self, state: RoleState, session: Session) -> rpc_status.Status:
        if state.primary is session:
            return rpc_status.Status(code=Code.OK, message="you are the primary")
        if state.primary is not None:
            return rpc_status.Status(code=Code.ALREADY_EXISTS, message="you are a backup")
        return rpc_status.Status(code=Code.NOT_FOUND, message="there is no primary")
