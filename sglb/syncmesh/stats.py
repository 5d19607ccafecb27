"""What an agent counted and how it stands."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from sglb.syncmesh.effects import NeighbourState


class Count(enum.StrEnum):
    """Counters. Those of `DROPPED` are messages that changed nothing."""

    HELLO_OUT = "hello_out"
    HELLO_IN = "hello_in"
    FULL_OUT = "full_out"
    FULL_IN = "full_in"
    DELTA_OUT = "delta_out"
    DELTA_IN = "delta_in"
    DELTA_AGAIN = "delta_again"  # a DELTA that repeats what was not acknowledged
    ACK_OUT = "ack_out"
    ACK_IN = "ack_in"
    BYE_OUT = "bye_out"
    BYE_IN = "bye_in"
    NOTE_IN = "note_in"  # urgent ones: of bands an agent hears nothing
    NOTE_OUT = "note_out"
    BEAT_ON_DOWN = "beat_on_down"  # a heartbeat on a link that is marked down
    SET_OUT = "set_out"
    SET_AGAIN = "set_again"  # a SET that was not confirmed in time
    SET_REDONE = "set_redone"  # a SET that ran over something newer
    REPAIRED = "repaired"  # a lost urgent notification made good
    STALE = "stale"  # an entry older than the last notification
    UNUSED_SUBJECT = "unused_subject"  # an entry about what this switch does not use
    HOLD_EXPIRED = "hold_expired"
    RESTART_SEEN = "restart_seen"  # a neighbour came back with a newer incarnation or nonce
    NEUTRALISED = "neutralised"  # a silent neighbour's lanes reset
    CLEAR_REFUSED = "clear_refused"  # clear_link of a link that is not good

    BAD_TAG = "bad_tag"
    MALFORMED = "malformed"
    UNKNOWN_PORT = "unknown_port"
    OWN_ORIGIN = "own_origin"
    UNEXPECTED_ORIGIN = "unexpected_origin"
    OLD_INCARNATION = "old_incarnation"
    OLD_SEQUENCE = "old_sequence"
    NOT_ADJACENT = "not_adjacent"
    BAD_VERSION = "bad_version"


DROPPED = frozenset(
    {
        Count.BAD_TAG,
        Count.MALFORMED,
        Count.UNKNOWN_PORT,
        Count.OWN_ORIGIN,
        Count.UNEXPECTED_ORIGIN,
        Count.OLD_INCARNATION,
        Count.OLD_SEQUENCE,
        Count.NOT_ADJACENT,
        Count.BAD_VERSION,
    }
)


@dataclass(frozen=True, slots=True)
class SubjectView:
    """What a neighbour said last about a subject that is down, or was.

    `code` is 8 when it is down; any other only says that it is not. `seq` None: nothing since it was
    (re)set.
    """

    code: int
    capacity_mbps: int
    seq: int | None


@dataclass(frozen=True, slots=True)
class NeighbourView:
    """One fabric port. `since_ps` is when `state` began."""

    port: int
    state: NeighbourState
    neighbour: int
    incarnation: int
    since_ps: int
    listens: bool
    link_marked_down: bool
    subjects: Mapping[int, SubjectView]


@dataclass(frozen=True, slots=True)
class AgentStats:
    """A snapshot at `now_ps`: all counters that are not 0, every port, SETs under way."""

    now_ps: int
    counters: Mapping[str, int]
    neighbours: tuple[NeighbourView, ...]
    sets_pending: int
    unacknowledged: int

    @property
    def dropped(self) -> int:
        """Messages that changed nothing, for whatever reason."""
        return sum(self.counters.get(c, 0) for c in DROPPED)
