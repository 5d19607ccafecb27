"""What happened in a run, as typed records in order of time: the source of every metric.

Whoever observes something appends a record: the runner for faults, wires and drops, the control
plane and the agents for what they see and write. Nodes and links are ids of the `Topology`.
"""

from __future__ import annotations

import bisect
import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from sglb.fabric.faults import Fault


class Traffic(enum.StrEnum):
    """Kind of a frame."""

    DATA = "data"
    ACK = "ack"
    CONTROL = "control"


class LossReason(enum.StrEnum):
    """Why a frame never arrived."""

    LINK_DOWN = "link down"
    BLACKHOLE = "black hole"
    RANDOM_LOSS = "random loss"
    BIT_ERRORS = "bit errors"
    QUEUE_FULL = "queue full"
    HEADROOM = "headroom exceeded"
    STORM = "pause storm"
    NO_PATH = "no live path"
    PROGRAM = "dropped by the program"
    SWITCH_DOWN = "switch down"
    HOST = "dropped by the host"


@dataclass(frozen=True, slots=True)
class Event:
    """Anything that happened at `time_ps`."""

    time_ps: int


@dataclass(frozen=True, slots=True)
class FaultInjected(Event):
    """The scenario changed the fabric."""

    fault: Fault


@dataclass(frozen=True, slots=True)
class PortDownSeen(Event):
    """The data plane of switch `node` learned that a port is dead; `cause`: carrier, heartbeat."""

    node: int
    port: int
    cause: str


@dataclass(frozen=True, slots=True)
class PortUpSeen(Event):
    """The data plane of switch `node` learned that a port is alive again."""

    node: int
    port: int


@dataclass(frozen=True, slots=True)
class NotificationSent(Event):
    """An urgent SyncMesh notification left switch `node` through `port`.

    `origin` is the switch that it speaks for; `down` says whether it reports lost reachability, or that
    it is over. Those of bands are not logged: there are millions.
    """

    node: int
    port: int
    origin: int
    down: bool


@dataclass(frozen=True, slots=True)
class NotificationReceived(Event):
    """An urgent SyncMesh notification reached the data plane of a switch; see `NotificationSent`."""

    node: int
    port: int
    origin: int
    down: bool


@dataclass(frozen=True, slots=True)
class SlowPathSaw(Event):
    """Routing learned that a link went down or came up."""

    link_id: int
    up: bool


@dataclass(frozen=True, slots=True)
class SlowPathTold(Event):
    """Routing's news of a dead link has reached every switch; not logged when that takes no time."""

    link_id: int


@dataclass(frozen=True, slots=True)
class TableWritten(Event):
    """`writer` (controller, agent) changed `updates` entries of switch `node`."""

    node: int
    writer: str
    updates: int


@dataclass(frozen=True, slots=True)
class PacketSentIntoDeadPath(Event):
    """Switch `node` sent host traffic to a next hop that cannot reach the destination switch."""

    node: int
    port: int
    dest_switch: int


@dataclass(frozen=True, slots=True)
class PacketLost(Event):
    """A frame ended at `node`: on the link at `port` (0: inside the node), for `reason`.

    `dest_switch` is the destination switch of host traffic, 0 for control frames.
    """

    node: int
    port: int
    reason: LossReason
    traffic: Traffic
    dest_switch: int = 0


@dataclass(frozen=True, slots=True)
class FlowStarted(Event):
    """A flow's conditions were met and its bytes were handed to its host."""

    flow_id: int


@dataclass(frozen=True, slots=True)
class FlowCompleted(Event):
    """The receiver of a flow has every byte."""

    flow_id: int


@dataclass(frozen=True, slots=True)
class PauseSent(Event):
    """Node `node` told the peer at `port` to stop (`xoff`) sending a class, or to go on."""

    node: int
    port: int
    traffic_class: int
    xoff: bool


@dataclass(frozen=True, slots=True)
class PauseStorm(Event):
    """The watchdog of a paused queue has stepped in (`begins`), or sees no more pauses."""

    node: int
    port: int
    traffic_class: int
    begins: bool


E = TypeVar("E", bound=Event)


#: So few records are put in their places one by one.
_FEW: Final = 16


class EventLog:
    """Records in order of time."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def append(self, event: Event) -> None:
        """Add a record; ValueError when it is older than the last one."""
        if self._events and event.time_ps < self._events[-1].time_ps:
            raise ValueError(
                f"{event} is older than the record before it, at {self._events[-1].time_ps} ps"
            )
        self._events.append(event)

    def merge(self, events: Sequence[Event]) -> None:
        """Add records in order of time, the first of which may be older than the last ones here."""
        if len(events) < _FEW:
            for event in events:
                bisect.insort_right(self._events, event, key=lambda e: e.time_ps)
            return
        place = bisect.bisect_right(self._events, events[0].time_ps, key=lambda e: e.time_ps)
        tail = self._events[place:]
        if tail:
            events = sorted([*tail, *events], key=lambda e: e.time_ps)
        self._events[place:] = events

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events)

    def __len__(self) -> int:
        return len(self._events)

    def since(self, number: int) -> list[Event]:
        """The records after the first `number`."""
        return self._events[number:]

    def of(self, kind: type[E]) -> list[E]:
        """All records of one kind."""
        return [e for e in self._events if isinstance(e, kind)]
