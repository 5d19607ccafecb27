"""What this switch announced as down, and as down no longer, told again by the agent.

A DELTA is repeated until it is acknowledged, a FULL goes out now and then. Of bands the agent knows
nothing: the data plane tells them again by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sglb.syncmesh import messages as m
from sglb.syncmesh.dataplane import CODE_DOWN
from sglb.syncmesh.neighbours import Neighbours
from sglb.syncmesh.outbox import Outbox, earliest
from sglb.syncmesh.serial import SEQ_BITS, newer
from sglb.syncmesh.stats import Count


@dataclass(slots=True)
class _Listener:
    """One neighbour: subjects it has not acknowledged, with their version, and DELTAs under way."""

    full_due_ps: int
    backoff_ps: int
    unacked: dict[int, int] = field(default_factory=dict)
    under_way: dict[int, dict[int, int]] = field(default_factory=dict)
    delta_due_ps: int | None = None
    again_due_ps: int | None = None


class Announcer:
    """Copies of the own data plane's urgent notifications, and who has them."""

    def __init__(self, out: Outbox, neighbours: Neighbours) -> None:
        self._out = out
        self._neighbours = neighbours
        self._own: dict[int, m.Entry] = {}
        self._version: dict[int, int] = {}
        self._listeners: dict[int, _Listener] = {}

    def start(self, announced: Mapping[int, int]) -> None:
        """`announced`: codes by subject that the data plane sent before this agent started."""
        for subject, code in sorted(announced.items()):
            if code == CODE_DOWN:
                self._own[subject] = m.Entry(subject, code, 0, 0)

    @property
    def unacknowledged(self) -> int:
        """Subjects that some neighbour has not acknowledged."""
        return sum(len(listener.unacked) for listener in self._listeners.values())

    @property
    def deadline_ps(self) -> int | None:
        """When `timer` must be called."""
        return earliest(
            *(
                due
                for lsn in self._listeners.values()
                for due in (lsn.full_due_ps, lsn.delta_due_ps, lsn.again_due_ps)
            )
        )

    def note(self, note: m.Note) -> None:
        """The own data plane sent an urgent notification."""
        self._out.count(Count.NOTE_OUT)
        before = self._own.get(note.subject)
        if before is not None and before.seq and not newer(note.seq, before.seq, SEQ_BITS):
            return
        self._own[note.subject] = m.Entry(note.subject, note.code, note.capacity_mbps, note.seq)
        if before is not None and (before.code == CODE_DOWN) == (note.code == CODE_DOWN):
            return  # a repetition
        self._version[note.subject] = self._version.get(note.subject, 0) + 1
        for port, listener in self._listeners.items():
            if self._neighbours.by_port[port].listens:
                listener.unacked[note.subject] = self._version[note.subject]
                if listener.delta_due_ps is None:
                    listener.delta_due_ps = self._out.now_ps + self._out.config.timers.delta_ps

    def neighbour_up(self, port: int) -> None:
        """A neighbour knows nothing yet: it is told what is down."""
        timers, now_ps = self._out.config.timers, self._out.now_ps
        listener = _Listener(now_ps + timers.full_ps, timers.retransmit_ps)
        for subject, entry in self._own.items():
            if entry.code == CODE_DOWN:
                listener.unacked[subject] = self._version.get(subject, 0)
        if listener.unacked:
            listener.delta_due_ps = now_ps
        self._listeners[port] = listener

    def neighbour_unheard(self, port: int) -> None:
        """A neighbour that does not hear this side gets nothing."""
        self._listeners.pop(port, None)

    def ack(self, port: int, ack: m.Ack) -> None:
        """A neighbour has a DELTA."""
        self._out.count(Count.ACK_IN)
        listener = self._listeners.get(port)
        config = self._out.config
        if listener is None or (ack.acked_node, ack.acked_incarnation) != (
            config.node,
            config.incarnation,
        ):
            return
        for subject, version in listener.under_way.pop(ack.acked_seq, {}).items():
            if listener.unacked.get(subject) == version:
                del listener.unacked[subject]
        if not listener.unacked:
            listener.under_way.clear()
            listener.again_due_ps = None
            listener.backoff_ps = config.timers.retransmit_ps

    def timer(self) -> None:
        """Sends what is due."""
        now_ps, timers = self._out.now_ps, self._out.config.timers
        for port, listener in self._listeners.items():
            if listener.delta_due_ps is not None and listener.delta_due_ps <= now_ps:
                self._send_delta(port, listener)
            elif listener.again_due_ps is not None and listener.again_due_ps <= now_ps:
                self._out.count(Count.DELTA_AGAIN)
                listener.backoff_ps = min(2 * listener.backoff_ps, timers.retransmit_max_ps)
                self._send_delta(port, listener)
            if listener.full_due_ps <= now_ps:
                self._send_full(port)
                listener.full_due_ps = now_ps + timers.full_ps

    def _send_delta(self, port: int, listener: _Listener) -> None:
        listener.delta_due_ps = None
        if not self._neighbours.by_port[port].listens:
            listener.unacked.clear()
            listener.again_due_ps = None
            return
        entries = [self._own[subject] for subject in sorted(listener.unacked)]
        for part in m.split(entries, self._out.config.mtu_bytes):
            seq = self._out.send(
                port,
                lambda origin, incarnation, seq, part=part: m.Delta(  # type: ignore[misc]
                    origin=origin, incarnation=incarnation, seq=seq, entries=part
                ),
            )
            self._out.count(Count.DELTA_OUT)
            listener.under_way[seq] = {e.subject: listener.unacked[e.subject] for e in part}
        listener.again_due_ps = self._out.now_ps + listener.backoff_ps

    def _send_full(self, port: int) -> None:
        if not self._own or not self._neighbours.by_port[port].listens:
            return
        parts = m.split(sorted(self._own.values(), key=lambda e: e.subject), self._mtu_bytes)
        for index, part in enumerate(parts):
            self._out.send(
                port,
                lambda origin, incarnation, seq, part=part, index=index: m.Full(  # type: ignore[misc]
                    origin=origin,
                    incarnation=incarnation,
                    seq=seq,
                    entries=part,
                    index=index,
                    count=len(parts),
                ),
            )
            self._out.count(Count.FULL_OUT)

    @property
    def _mtu_bytes(self) -> int:
        return self._out.config.mtu_bytes
