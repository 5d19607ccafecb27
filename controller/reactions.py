"""The slow path: when routing notices what happened to a link, and when its tables follow.

What happened is learned from the switches' ports and from who listens there (`hearing`), never from the
fabric's truth. The delays, all from the scenario's `control_plane`:

- `failure_detection_ms` runs from the moment a switch sees a port of the link down (which is the
  port-down detection time after the cut) until routing takes the link for down (`SlowPathSaw`). A link
  that both ends see up again before that was never down for routing. A link that fails silently, with
  its ports up, is down for routing as soon as an end is told not to hear the other any more.
- `notification_ms` runs from there until all switches have been told (`SlowPathTold`), `programming_ms`
  from there until their tables are written (`TableWritten`); the two are `reaction_ms`. A changed port
  speed waits for both.
- `restore_ms` runs from the moment both ends see a link up again (`SlowPathSaw`) until it is back in
  the tables. A link that goes down in the meantime stays out, and waits anew when it is back.

All switches are written at one moment: the spread of a routing protocol over them is part of the delay.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from controller.paths import LinkState
from sglb.fabric.events import EventLog, SlowPathSaw, SlowPathTold
from sglb.fabric.topology import Topology
from sglb.switch.clock import Handle, Scheduler
from sglb.syncmesh.effects import Cause, LinkDown, LinkRecovered

#: Who finds out that an end no longer hears the other (`SlowPath.hearing`).
PROBE: Final = "probe"
HEARTBEAT: Final = "heartbeat"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Delays:
    """Delays of the slow path in ps; see the module's text. Notification is part of the reaction."""

    detection_ps: int
    reaction_ps: int
    restore_ps: int
    notification_ps: int = 0


class Writer(Protocol):
    """What the slow path acts on."""

    def rewrite(self, state: LinkState) -> None:
        """Writes tables for this state of the links, now."""

    def clear(self, switch_id: int, port: int) -> None:
        """The link is in the tables of all switches: this end's data plane may use it again."""


class _Phase(enum.Enum):
    IN_USE = "in use"
    NOTICING = "seen down by a switch, not yet by routing"
    REROUTING = "known to be down, still in the tables"
    OUT = "out of the tables"
    RETURNING = "up again, not yet in use"


@dataclass(slots=True)
class _Link:
    phase: _Phase = _Phase.IN_USE
    out: bool = False  # of the tables
    down_ends: set[int] = field(default_factory=set)
    silent_ends: set[tuple[str, int]] = field(default_factory=set)
    timer: Handle | None = None

    @property
    def dead(self) -> bool:
        return bool(self.down_ends or self.silent_ends)


class SlowPath:
    """One routing domain over a fabric. `rates_bps` are the links' rates to begin with, by id."""

    def __init__(
        self,
        topology: Topology,
        clock: Scheduler,
        delays: Delays,
        writer: Writer,
        log: EventLog,
    ) -> None:
        self._topology = topology
        self._clock = clock
        self._delays = delays
        self._writer = writer
        self._log = log
        self._rate_bps = {link.id: link.spec.rate_bps for link in topology.links}
        self._links = {
            link.id: _Link()
            for link in topology.links
            if not any(topology.by_id(end).is_host for end in (link.a, link.b))
        }

    @property
    def state(self) -> LinkState:
        """The links as tables written now would take them to be."""
        out = frozenset(i for i, link in self._links.items() if link.out)
        return LinkState(self._rate_bps).without(out)

    def phases(self) -> Mapping[str, str]:
        """Link name -> what routing thinks of it, for links that are not in plain use."""
        return {
            link.name: self._links[link.id].phase.value
            for link in self._topology.links
            if link.id in self._links and self._links[link.id].phase is not _Phase.IN_USE
        }

    # --- what is seen ---

    def port_state(self, switch_id: int, port: int, up: bool) -> None:
        """A switch saw a port go down or come up. Ports to hosts are ignored: no other way exists."""
        link_id = self._topology.link_at(switch_id, port).id
        link = self._links.get(link_id)
        if link is not None:
            _note(link.down_ends, switch_id, not up)
            self._changed(link_id, link)

    def hearing(self, witness: str, switch_id: int, port: int, hears: bool) -> None:
        """A switch no longer hears its neighbour on a port that is up, or hears it again.

        `witness` says who found out: the link is good when all who called it silent say so. Finding
        out took its time already: routing takes the link for down at once.
        """
        link_id = self._topology.link_at(switch_id, port).id
        link = self._links[link_id]
        _note(link.silent_ends, (witness, switch_id), not hears)
        self._changed(link_id, link)

    def agent_said(self, switch_id: int, said: object) -> None:
        """A switch's agent misses heartbeats on a link, or has them again; it may say other things."""
        match said:
            case LinkDown(port, Cause.BEATS):
                self.hearing(HEARTBEAT, switch_id, port, False)
            case LinkRecovered(port):
                self.hearing(HEARTBEAT, switch_id, port, True)
                if self._links[self._topology.link_at(switch_id, port).id].phase is _Phase.IN_USE:
                    self._writer.clear(switch_id, port)  # its routes stand already

    def rate_changed(self, link_id: int, rate_bps: int) -> None:
        """The ports of a link run at another rate (bit/s) from now on."""
        self._rate_bps = {**self._rate_bps, link_id: rate_bps}
        self._clock.call_later(self._delays.reaction_ps, self._rewrite)

    # --- what follows ---

    def _changed(self, link_id: int, link: _Link) -> None:
        phase = link.phase
        if link.dead:
            if phase is _Phase.RETURNING:
                self._gone_again(link_id, link)
            elif phase in (_Phase.IN_USE, _Phase.NOTICING) and link.silent_ends:
                self._noticed(link_id, link)
            elif phase is _Phase.IN_USE:
                delay_ps = self._delays.detection_ps
                self._wait(link, _Phase.NOTICING, delay_ps, self._noticed, link_id, link)
        elif phase in (_Phase.NOTICING, _Phase.OUT):
            self._returning(link_id, link)

    def _gone_again(self, link_id: int, link: _Link) -> None:
        if link.out:
            self._wait(link, _Phase.OUT)
        else:
            self._wait(link, _Phase.IN_USE)
            self._changed(link_id, link)

    def _wait(
        self,
        link: _Link,
        phase: _Phase,
        delay_ps: int = 0,
        then: Callable[..., object] | None = None,
        *args: object,
    ) -> None:
        if link.timer is not None:
            link.timer.cancel()
        link.phase = phase
        link.timer = None if then is None else self._clock.call_later(delay_ps, then, *args)

    def _noticed(self, link_id: int, link: _Link) -> None:
        self._log.append(SlowPathSaw(self._clock.now_ps, link_id, False))
        notification_ps = self._delays.notification_ps
        if notification_ps:
            self._wait(link, _Phase.REROUTING, notification_ps, self._told, link_id, link)
        else:
            self._program(link_id, link)

    def _told(self, link_id: int, link: _Link) -> None:
        self._log.append(SlowPathTold(self._clock.now_ps, link_id))
        self._program(link_id, link)

    def _program(self, link_id: int, link: _Link) -> None:
        left_ps = self._delays.reaction_ps - self._delays.notification_ps
        self._wait(link, _Phase.REROUTING, left_ps, self._rerouted, link_id, link)

    def _rerouted(self, link_id: int, link: _Link) -> None:
        self._wait(link, _Phase.OUT)
        link.out = True
        self._rewrite()
        if not link.dead:
            self._returning(link_id, link)

    def _returning(self, link_id: int, link: _Link) -> None:
        # A link that was back before routing noticed is in the tables, but the data planes have
        # taken it for down: it too has to hold for a while before they are told otherwise.
        if link.out:
            self._log.append(SlowPathSaw(self._clock.now_ps, link_id, True))
        self._wait(link, _Phase.RETURNING, self._delays.restore_ps, self._restored, link_id, link)

    def _restored(self, link_id: int, link: _Link) -> None:
        self._wait(link, _Phase.IN_USE)
        link.out = False
        self._rewrite()
        ends = self._topology.links[link_id]
        for switch_id in (ends.a, ends.b):
            self._writer.clear(switch_id, ends.port(switch_id))

    def _rewrite(self) -> None:
        self._writer.rewrite(self.state)


def _note(ends: set[_T], end: _T, present: bool) -> None:
    if present:
        ends.add(end)
    else:
        ends.discard(end)
