"""The mirror of what neighbours said, and the making good of what was lost on the way.

The data plane takes notifications in by itself and passes a copy of each to the agent. What a DELTA or
FULL says otherwise is a notification that got lost, if it is newer: then a SET writes what it
would have written, with the announcement that depends on it, so that relays follow.

Sequence numbers of a neighbour's data plane tell newer from older. A notification leaves in copies, to
each listener and to its agent, numbered as they leave their queues, so the agent's copy of a newer
notification may bear a lower number than a listener's copy of the one before. Hence an entry that looks
old but stands in two FULLs, with nothing heard in between, is believed as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sglb.syncmesh import messages as m
from sglb.syncmesh.config import Heard
from sglb.syncmesh.dataplane import CODE_BEST, CODE_DOWN, CODE_WORST
from sglb.syncmesh.orders import Orders, Target
from sglb.syncmesh.outbox import Outbox
from sglb.syncmesh.serial import SEQ_BITS, newer
from sglb.syncmesh.stats import Count, SubjectView

_UNHEARD = SubjectView(CODE_BEST, 0, None)


@dataclass(frozen=True, slots=True)
class _Said:
    """Who wrote a lane of a profile last: subject and sequence number (None: a reset)."""

    subject: int
    seq: int | None


class Repair:
    """What every neighbour said about every subject that this switch uses."""

    def __init__(self, out: Outbox, orders: Orders) -> None:
        self._out = out
        self._orders = orders
        self._heard = {heard.subject: heard for heard in out.config.heard}
        self._known: dict[tuple[int, int], SubjectView] = {}
        self._wanted: dict[tuple[int, int], int] = {}
        self._writer: dict[tuple[int, int], _Said] = {}
        self._suspect: dict[tuple[int, int], tuple[m.Entry, int | None]] = {}
        self._unknown = set() if out.config.new_data_plane else set(out.config.ports)

    def known(self, port: int) -> Mapping[int, SubjectView]:
        """What the neighbour on a port said, by subject."""
        return {s: view for (p, s), view in sorted(self._known.items()) if p == port}

    def neighbour_up(self, port: int) -> None:
        """Before a neighbour tells what it knows, what an earlier agent left behind goes."""
        if port in self._unknown:
            self.neutralise(port)

    def note(self, port: int, note: m.Note) -> None:
        """The data plane took a notification in."""
        heard = self._using(note.subject, port)
        if heard is None:
            return
        self._know(port, note.subject, SubjectView(note.code, note.capacity_mbps, note.seq))
        lane = (heard.profile, port)
        self._writer[lane] = _Said(note.subject, note.seq)
        self._wanted[lane] = _written(heard, note.code)

    def entries(self, port: int, entries: Iterable[m.Entry], full: bool) -> None:
        """A FULL or DELTA of the neighbour on a port."""
        for entry in entries:
            heard = self._using(entry.subject, port)
            if heard is not None:
                self._compare(heard, port, entry, full)

    def neutralise(self, port: int) -> None:
        """Resets the port's lane in every profile: no change, neither frozen nor down."""
        self._out.count(Count.NEUTRALISED)
        self._unknown.discard(port)
        for heard in self._heard.values():
            if port in heard.ports:
                self._known.pop((port, heard.subject), None)
                self._suspect.pop((port, heard.subject), None)
                self._writer.pop((heard.profile, port), None)
                self._wanted[(heard.profile, port)] = CODE_BEST
                self._orders.give(_target(heard, port), CODE_BEST)

    def confirmed(self, target: Target, code: int) -> None:
        """The data plane carried out a SET_REMOTE. A notification that it ran over is put back."""
        wanted = self._wanted.get((target.profile, target.port), code)
        if wanted != code and not self._orders.under_way(target):
            self._out.count(Count.SET_REDONE)
            self._orders.give(target, wanted)

    # --- inside ---

    def _using(self, subject: int, port: int) -> Heard | None:
        heard = self._heard.get(subject)
        if heard is None or port not in heard.ports:
            self._out.count(Count.UNUSED_SUBJECT)
            return None
        return heard

    def _know(self, port: int, subject: int, view: SubjectView) -> None:
        self._known[(port, subject)] = view
        self._suspect.pop((port, subject), None)

    def _compare(self, heard: Heard, port: int, entry: m.Entry, full: bool) -> None:
        known = self._known.get((port, heard.subject), _UNHEARD)
        # 0 is no number: what the neighbour's agent found when it started, whenever that was said.
        view = SubjectView(entry.code, entry.capacity_mbps, entry.seq or None)
        fresh = known.seq is None or (view.seq is not None and newer(view.seq, known.seq, SEQ_BITS))
        if entry.code == known.code:
            if fresh:
                self._know(port, heard.subject, view)
            return
        if not fresh:
            seen_before = self._suspect.get((port, heard.subject))
            if not full or seen_before != (entry, known.seq):
                self._out.count(Count.STALE)
                if full:
                    self._suspect[(port, heard.subject)] = (entry, known.seq)
                return
        self._know(port, heard.subject, view)
        self._write(heard, port, view)

    def _write(self, heard: Heard, port: int, view: SubjectView) -> None:
        self._out.count(Count.REPAIRED)
        lane = (heard.profile, port)
        last = self._writer.get(lane)
        if (
            last is not None
            and last.subject != heard.subject
            and last.seq is not None
            and view.seq is not None
            and newer(last.seq, view.seq, SEQ_BITS)
        ):
            return  # another subject of a shared profile would have written over it
        self._writer[lane] = _Said(heard.subject, view.seq)
        self._wanted[lane] = _written(heard, view.code)
        self._orders.give(_target(heard, port), self._wanted[lane])


def _target(heard: Heard, port: int) -> Target:
    return Target(m.SET_REMOTE, heard.profile, port, heard.relay)


def _written(heard: Heard, code: int) -> int:
    """What the data plane makes of a code: "down" is "worst" where others share the profile."""
    return CODE_WORST if code == CODE_DOWN and not heard.alone else code
