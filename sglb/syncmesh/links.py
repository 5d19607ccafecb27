"""Links that the data plane marked down: why, and when they are good again.

The mark is the data plane's; it is cleared by a SET, and only after the controller, told that the link
recovered, has restored the routes. A neighbour that has just come up is given the time to say what
is wrong behind it before its link is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sglb.syncmesh.dataplane import CODE_BEST, CODE_DOWN
from sglb.syncmesh.effects import Cause, LinkDown, LinkRecovered
from sglb.syncmesh.outbox import Outbox, earliest
from sglb.syncmesh.stats import Count


@dataclass(slots=True)
class _Link:
    marked: bool = False
    carrier: bool = True
    good_beats: int = 0
    beat_ps: int = 0
    reported: bool = False
    clearing: bool = False
    wait_until_ps: int | None = None  # to be cleared: by then at the latest


class Links:
    """All fabric ports.

    `set_link(port, code)` sends a SET_LINK and sees that it is carried out. `settled_ps(port)` is when
    the neighbour has had its say, None as long as it is not UP.
    """

    def __init__(
        self,
        out: Outbox,
        set_link: Callable[[int, int], None],
        settled_ps: Callable[[int], int | None],
    ) -> None:
        self._out = out
        self._set_link = set_link
        self._settled_ps = settled_ps
        self._links = {port: _Link() for port in out.config.ports}

    def marked_down(self, port: int) -> bool:
        """Whether the data plane has the link marked down, as far as the agent knows."""
        return self._links[port].marked

    def carrier(self, port: int, up: bool) -> None:
        """A port event. Down marks the link; up tells that it is good again."""
        link = self._links[port]
        link.carrier = up
        if up:
            link.marked = True  # the data plane clears no mark by itself
            self._recovered(port, link)
        else:
            self._mark(port, link, Cause.CARRIER)

    def without_carrier(self, port: int) -> None:
        """The link is down and the data plane may have had no event of it: it is told."""
        self.carrier(port, False)
        self._set_link(port, CODE_DOWN)

    def beat(self, port: int, lost: bool) -> None:
        """A heartbeat on a link that the data plane has marked down.

        `lost`: its sender does not hear this side.
        """
        link = self._links[port]
        if link.clearing:
            return  # sent up before the SET was carried out
        self._out.count(Count.BEAT_ON_DOWN)
        if not link.marked:
            self._mark(port, link, Cause.BEATS)
        if lost:
            link.good_beats = 0
            link.reported = False
            link.wait_until_ps = None
            return
        timers = self._out.config.timers
        gap_ps = max(timers.heartbeat_ps, timers.beat_gap_ps)
        in_a_row = self._out.now_ps - link.beat_ps < 2 * gap_ps
        link.good_beats = link.good_beats + 1 if in_a_row and link.good_beats else 1
        link.beat_ps = self._out.now_ps
        if link.good_beats >= timers.good_beats:
            self._recovered(port, link)

    def clear(self, port: int) -> None:
        """The routes stand: take the mark away, once the neighbour has had its say.

        One that does not come UP is waited for as long as it could be silent. Refused when the link
        is not good (any more); not done when it dies while this waits.
        """
        link = self._links[port]
        if not link.reported or not link.carrier:
            self._out.count(Count.CLEAR_REFUSED)
            return
        link.wait_until_ps = self._out.now_ps + self._out.config.timers.hold_ps
        self.timer()

    @property
    def deadline_ps(self) -> int | None:
        """When `timer` must be called."""
        return earliest(*(self._clear_due_ps(port) for port in self._links))

    def timer(self) -> None:
        """Clears the links whose time has come."""
        for port, link in self._links.items():
            due_ps = self._clear_due_ps(port)
            if due_ps is not None and due_ps <= self._out.now_ps:
                link.wait_until_ps = None
                link.marked = link.reported = False
                link.good_beats = 0
                link.clearing = True
                self._set_link(port, CODE_BEST)

    def _clear_due_ps(self, port: int) -> int | None:
        latest_ps = self._links[port].wait_until_ps
        return None if latest_ps is None else earliest(latest_ps, self._settled_ps(port))

    def cleared(self, port: int) -> None:
        """The data plane carried out a SET_LINK. If the link died meanwhile, that undid its mark."""
        link = self._links[port]
        if link.clearing:
            link.clearing = False
            if link.marked:
                self._set_link(port, CODE_DOWN)

    def again(self, port: int) -> None:
        """A SET_LINK was not confirmed in time."""
        self._set_link(port, CODE_DOWN if self._links[port].marked else CODE_BEST)

    def _mark(self, port: int, link: _Link, cause: Cause) -> None:
        link.reported = False
        link.wait_until_ps = None
        link.good_beats = 0
        if not link.marked:
            link.marked = True
            self._out.emit(LinkDown(port, cause))

    def _recovered(self, port: int, link: _Link) -> None:
        if not link.reported and link.carrier:
            link.reported = True
            self._out.emit(LinkRecovered(port))
