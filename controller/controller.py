"""The fabric controller: brings every switch to what its plan says, and keeps it there.

It does no I/O of its own and knows no time: it is given a P4Runtime client per switch and told what the
links are like. When to react, and with what delay, is `reactions`' business.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from finsy import P4CloneSessionEntry, P4MulticastGroupEntry, P4Schema, P4TableEntry
from finsy.proto import p4i, p4r

from controller.diff import (
    GROUP,
    SESSION,
    Difference,
    Holdings,
    Identity,
    Stages,
    difference,
    identity,
    normal,
)
from controller.encode import Encoder, HeldPart
from controller.paths import LinkState
from controller.plan import OWNED_TABLES, PlanInputs, plan_parts
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.syncmesh.dataplane import NOTIFY_GROUP, NOTIFY_SESSION, URGENT_SESSION

#: What the SyncMesh agents own on every switch; the controller neither reads nor touches it.
FOREIGN = frozenset(
    {
        Identity(GROUP, NOTIFY_GROUP),
        Identity(SESSION, NOTIFY_SESSION),
        Identity(SESSION, URGENT_SESSION),
    }
)


class ControllerError(RuntimeError):
    """A switch did not take what the controller wrote; says which, and which entries."""


class SwitchUnavailableError(ControllerError):
    """A switch is down: it has to be reconciled when it is back."""


class Client(Protocol):
    """What the controller needs of a P4Runtime session; `InProcessClient` is one."""

    @property
    def schema(self) -> P4Schema:
        """The schema of the switch's program."""

    def write(self, updates: Any) -> None:
        """Carries out protobuf updates; raises with a text that names those that failed."""

    def read_messages(self, entities: Any) -> list[p4r.Entity]:
        """What finsy entities select."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What was written to one switch; `change` is empty when all was as it should be."""

    switch: str
    change: Difference
    schema: P4Schema

    @property
    def inserted(self) -> tuple[str, ...]:
        """What was missing, a line each."""
        return self._texts(self.change.inserts)

    @property
    def modified(self) -> tuple[str, ...]:
        """What was different, as it is now, a line each."""
        return self._texts(self.change.modifies)

    @property
    def deleted(self) -> tuple[str, ...]:
        """What should not have been there, a line each."""
        return self._texts(self.change.deletes)

    @property
    def updates(self) -> int:
        """The number of updates."""
        return len(self.change)

    def _texts(self, entities: Sequence[p4r.Entity]) -> tuple[str, ...]:
        return tuple(describe(e, self.schema) for e in entities)


@dataclass(slots=True)
class _Known:
    """What the controller knows of one switch; `held` None: to be read back first."""

    client: Client
    schema: P4Schema
    encoder: Encoder
    order: dict[int, int] = field(default_factory=dict)
    initial: dict[int, p4r.Action] = field(default_factory=dict)
    held: dict[Hashable, HeldPart] | None = None


class Controller:
    """Plans, compares and writes, for all switches of a fabric.

    `clients` are by switch id. `inputs.state` is the state of the links to begin with. Nothing is
    written before `reconcile` or `update`.
    """

    def __init__(self, inputs: PlanInputs, clients: Mapping[int, Client]) -> None:
        self._inputs = inputs
        self._away: set[int] = set()
        self._encoders: dict[bytes, Encoder] = {}
        self._known = {
            switch_id: self._introduce(switch_id, client) for switch_id, client in clients.items()
        }

    @property
    def state(self) -> LinkState:
        """The links as the tables take them to be."""
        return self._inputs.state

    def _name(self, switch_id: int) -> str:
        return self._inputs.fabric.topology.by_id(switch_id).name

    def _introduce(self, switch_id: int, client: Client) -> _Known:
        """Rank and initial default action of each owned table of the switch's program."""
        schema = client.schema
        program = schema.p4info.SerializeToString(deterministic=True)
        encoder = self._encoders.setdefault(program, Encoder(schema))
        known = _Known(client, schema, encoder)
        for rank, name in enumerate(OWNED_TABLES):
            found = schema.tables.get(name)
            if found is None:
                raise ControllerError(
                    f"switch {self._name(switch_id)}: its program has no table {name}; "
                    "load p4src/v1model/glb.p4"
                )
            table = found.pbuf
            known.order[table.preamble.id] = rank
            known.initial[table.preamble.id] = _initial_action(table)
        return known

    # --- writing ----------------------------------------------------------------------------------

    def update(self, state: LinkState) -> dict[int, int]:
        """Writes what a new state of the links changes; switch id -> number of updates.

        Switches that need none are left out, and so are those that are down, until `reconcile`.
        Raises `ControllerError` after all switches were tried; one that failed is read back before
        it is written again.
        """
        self._inputs = replace(self._inputs, state=state)
        found: dict[int, int] = {}
        failures: list[str] = []
        for switch_id in self._known:
            if switch_id in self._away:
                continue
            try:
                change = self._bring(switch_id)
            except SwitchUnavailableError:
                self._away.add(switch_id)
                continue
            except ControllerError as error:
                failures.append(str(error))
                continue
            if change:
                found[switch_id] = len(change)
        if failures:
            raise ControllerError("\n".join(failures))
        return found

    def sees(self, state: LinkState) -> None:
        """Plans for this state of the links from now on; writes nothing."""
        self._inputs = replace(self._inputs, state=state)

    def reconcile(self, switch_id: int) -> Repair:
        """Reads back what the switch holds and repairs only what differs from the plan.

        This is also how an empty switch is filled. Entries of other owners' tables, their group
        and their session are left alone; const entries are the program's. Raises
        `ControllerError`, `SwitchUnavailableError` of it for a switch that is down.
        """
        known = self._known[switch_id]
        known.held = None
        change = self._bring(switch_id)
        self._away.discard(switch_id)
        return Repair(self._name(switch_id), change, known.schema)

    def inspect(self, switch_id: int) -> Repair:
        """What `reconcile` would do, without doing it. Raises as that."""
        known = self._known[switch_id]
        parts = [known.encoder.part(part) for part in plan_parts(self._inputs, switch_id)]
        wanted = Holdings.union([part.entities for part in parts])
        change = difference(self._read(switch_id), wanted, known.initial)
        return Repair(self._name(switch_id), change, known.schema)

    def adopted(self, switch_id: int, incarnation: int) -> None:
        """The switch is known to run in this incarnation."""
        incarnations = {**self._inputs.incarnations, switch_id: incarnation}
        self._inputs = replace(self._inputs, incarnations=incarnations)

    def restarted(self, switch_id: int, incarnation: int) -> None:
        """The switch has started anew: `update` leaves it alone until `reconcile` has filled it."""
        self.adopted(switch_id, incarnation)
        self._away.add(switch_id)

    def reconcile_all(self) -> dict[int, Repair]:
        """`reconcile` for every switch."""
        return {switch_id: self.reconcile(switch_id) for switch_id in self._known}

    def _bring(self, switch_id: int) -> Difference:
        """Brings a switch to its plan; what that took."""
        known = self._known[switch_id]
        parts = plan_parts(self._inputs, switch_id)
        before = known.held or {}
        # Only what follows from something else than before is worked out and compared.
        desired: dict[Hashable, HeldPart] = {}
        for part in parts:
            same = before.get(part.key)
            if same is None or same.basis != part.basis:
                same = known.encoder.part(part)
            desired[same.key] = same
        old = [held.entities for key, held in before.items() if desired.get(key) is not held]
        new = [part.entities for key, part in desired.items() if before.get(key) is not part]
        held = self._read(switch_id) if known.held is None else Holdings.union(old)
        change = difference(held, Holdings.union(new), known.initial)
        known.held = None  # unknown while writes are under way, and after one has failed
        written = 0
        for batch in Stages.of(change, known.order).batches:
            try:
                known.client.write(list(batch))
            except P4RuntimeError as error:
                where = f"after {written} of {len(change)} updates"
                raise self._failure(switch_id, where, error) from error
            written += len(batch)
        known.held = desired
        return change

    # --- reading ----------------------------------------------------------------------------------

    def _failure(self, switch_id: int, where: str, error: P4RuntimeError) -> ControllerError:
        down = error.code is Code.UNAVAILABLE
        kind = SwitchUnavailableError if down else ControllerError
        return kind(f"switch {self._name(switch_id)}: {where}: {error}")

    def _read(self, switch_id: int) -> Holdings:
        """What the switch holds of the controller's."""
        known = self._known[switch_id]
        wanted: list[Any] = [P4MulticastGroupEntry(), P4CloneSessionEntry()]
        for name in OWNED_TABLES:
            wanted.append(P4TableEntry(name))
            if not known.schema.tables[name].pbuf.const_default_action_id:
                wanted.append(P4TableEntry(name, is_default_action=True))
        try:
            found = known.client.read_messages(wanted)
        except P4RuntimeError as error:
            raise self._failure(switch_id, "reading back", error) from error
        return Holdings(
            entity
            for entity in found
            if not entity.table_entry.is_const and identity(normal(entity)) not in FOREIGN
        )


def _initial_action(table: p4i.Table) -> p4r.Action:
    initial = table.initial_default_action
    action = p4r.Action(action_id=initial.action_id)
    for argument in initial.arguments:
        action.params.add(param_id=argument.param_id, value=argument.value)
    made = p4r.Entity()
    made.table_entry.action.action.CopyFrom(action)
    return normal(made).table_entry.action.action


def describe(entity: p4r.Entity, schema: P4Schema) -> str:
    """An entity as one line: `table [match] -> action`, `multicast group 1 -> ports 3, 4`."""
    if entity.WhichOneof("entity") == "table_entry":
        entry = P4TableEntry.decode(entity, schema)
        table = schema.tables[entry.table_id]
        what = "default" if entry.is_default_action else entry.match_str(schema)
        action = entry.action_str(schema) if entry.action is not None else "its initial action"
        return f"{table.alias} [{what}] -> {action}"
    replication = entity.packet_replication_engine_entry
    if replication.WhichOneof("type") == "multicast_group_entry":
        group = replication.multicast_group_entry
        return f"multicast group {group.multicast_group_id} -> {_ports(group.replicas)}"
    session = replication.clone_session_entry
    return f"clone session {session.session_id} -> {_ports(session.replicas)}"


def _ports(replicas: Iterable[p4r.Replica]) -> str:
    ports = ", ".join(str(int.from_bytes(r.port, "big")) for r in replicas)
    return f"ports {ports}" if ports else "no ports"
