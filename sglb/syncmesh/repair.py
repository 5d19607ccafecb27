"""The mirror of what neighbours said is down, and the making good of what the data plane missed.

The data plane takes notifications in by itself and passes those on to the agent that tell of "down"
or of its end. What a DELTA or FULL says otherwise is a notification that got lost, if it is newer.
Besides, a profile that several subjects share takes nothing of them but "down", as "worst", and
never takes that back: that is the agent's to do, as it knows what each subject stands at. Either
way the agent compares what a lane should hold with what it does hold, and a SET writes the
difference, with the announcement that depends on it, so that relays follow. What is neither down
nor worst is a band: the agent does not follow it, and where it has to end "down" or "worst" it
writes the neutral one, which the next notification replaces.

Sequence numbers of a neighbour's data plane tell newer from older. A notification leaves in copies, to
each listener and to its agent, numbered as they leave their queues, so the agent's copy of a newer
notification may bear a lower number than a listener's copy of the one before. Hence an entry that looks
old but stands in two FULLs, with nothing heard in between, is believed as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sglb.syncmesh import messages as m
from sglb.syncmesh.config import Heard
from sglb.syncmesh.dataplane import CODE_BEST, CODE_DOWN, CODE_WORST
from sglb.syncmesh.orders import Orders, Target
from sglb.syncmesh.outbox import Outbox
from sglb.syncmesh.serial import SEQ_BITS, newer
from sglb.syncmesh.stats import Count, SubjectView

_UNHEARD = SubjectView(CODE_BEST, 0, None)
_Lane = tuple[int, int]  # profile, port


class Repair:
    """What every neighbour said about every subject that this switch uses."""

    def __init__(self, out: Outbox, orders: Orders) -> None:
        self._out = out
        self._orders = orders
        self._heard = {heard.subject: heard for heard in out.config.heard}
        self._sharers: dict[_Lane, list[Heard]] = {}
        for heard in out.config.heard:
            for port in heard.ports:
                self._sharers.setdefault((heard.profile, port), []).append(heard)
        self._known: dict[tuple[int, int], SubjectView] = {}
        self._holds: dict[_Lane, int] = {}  # down, worst, or best for any band
        self._last_alone: dict[_Lane, int] = {}
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
        """The data plane took a notification in that is urgent, or that ended what was down."""
        heard = self._using(note.subject, port)
        if heard is None:
            return
        self._know(port, heard, SubjectView(note.code, note.capacity_mbps, note.seq))
        lane = (heard.profile, port)
        before, down = self._holds.get(lane, CODE_BEST), note.code == CODE_DOWN
        if heard.alone and (down or before != CODE_WORST):
            self._holds[lane] = CODE_DOWN if down else CODE_BEST
        elif not heard.alone and down and before != CODE_DOWN:
            self._holds[lane] = CODE_WORST
        self._settle(heard, port)

    def entries(self, port: int, entries: Iterable[m.Entry], full: bool) -> None:
        """A FULL or DELTA of the neighbour on a port."""
        for entry in entries:
            heard = self._using(entry.subject, port)
            if heard is not None and self._is_news(heard, port, entry, full):
                self._out.count(Count.REPAIRED)
                self._know(port, heard, _view(entry))
                self._settle(heard, port)

    def neutralise(self, port: int) -> None:
        """Resets the port's lane in every profile: no change, neither frozen nor down."""
        self._out.count(Count.NEUTRALISED)
        self._unknown.discard(port)
        for heard in self._heard.values():
            if port in heard.ports:
                self._known.pop((port, heard.subject), None)
                self._suspect.pop((port, heard.subject), None)
                self._last_alone.pop((heard.profile, port), None)
                self._orders.give(_target(heard, port), CODE_BEST)

    def confirmed(self, target: Target, code: int) -> None:
        """The data plane carried out a SET_REMOTE. What it should not have run over is put back."""
        lane = (target.profile, target.port)
        if lane in self._sharers:
            self._holds[lane] = code
            wanted = self._wanted(lane)
            if wanted != code and self._orders.give(target, wanted):
                self._out.count(Count.SET_REDONE)

    def again(self, target: Target) -> None:
        """A SET_REMOTE was not confirmed in time."""
        self._orders.give(target, self._wanted((target.profile, target.port)))

    # --- inside ---

    def _using(self, subject: int, port: int) -> Heard | None:
        heard = self._heard.get(subject)
        if heard is None or port not in heard.ports:
            self._out.count(Count.UNUSED_SUBJECT)
            return None
        return heard

    def _know(self, port: int, heard: Heard, view: SubjectView) -> None:
        self._known[(port, heard.subject)] = view
        self._suspect.pop((port, heard.subject), None)
        if heard.alone:
            self._last_alone[(heard.profile, port)] = heard.subject

    def _is_news(self, heard: Heard, port: int, entry: m.Entry, full: bool) -> bool:
        """Whether an entry tells of a notification that was lost."""
        key = (port, heard.subject)
        known, view = self._known.get(key, _UNHEARD), _view(entry)
        fresh = known.seq is None or (view.seq is not None and newer(view.seq, known.seq, SEQ_BITS))
        if (view.code == CODE_DOWN) == (known.code == CODE_DOWN):
            if fresh:
                self._know(port, heard, view)
            return False
        if fresh or (full and self._suspect.get(key) == (entry, known.seq)):
            return True
        self._out.count(Count.STALE)
        if full:
            self._suspect[key] = (entry, known.seq)
        return False

    def _settle(self, heard: Heard, port: int) -> None:
        """Has a lane written that holds, or is about to hold, what it should not.

        A SET under way may run over the notification that came in just now.
        """
        lane, target = (heard.profile, port), _target(heard, port)
        coming = self._orders.last(target)
        holds = self._holds.get(lane, CODE_BEST) if coming is None else coming
        wanted = self._wanted(lane)
        if holds != wanted:
            self._orders.give(target, wanted)

    def _wanted(self, lane: _Lane) -> int:
        """What a lane should hold, by all that is known of its subjects.

        Down if they all are, or if the one that has the lane to itself said so last (a pod's name
        beside those of its leaves); worst if one of several is; else a band, the neutral one here.
        """
        port = lane[1]
        codes = {h: self._known.get((port, h.subject), _UNHEARD).code for h in self._sharers[lane]}
        shared = [code for h, code in codes.items() if not h.alone]
        alone = {h.subject: code for h, code in codes.items() if h.alone}
        own = alone.get(self._last_alone.get(lane, 0), CODE_BEST)
        if own == CODE_DOWN or (shared and all(code == CODE_DOWN for code in shared)):
            return CODE_DOWN
        return CODE_WORST if CODE_DOWN in shared else CODE_BEST


def _view(entry: m.Entry) -> SubjectView:
    # 0 is no number: what the neighbour's agent found when it started, whenever that was said.
    return SubjectView(entry.code, entry.capacity_mbps, entry.seq or None)


def _target(heard: Heard, port: int) -> Target:
    return Target(m.SET_REMOTE, heard.profile, port, heard.relay)
