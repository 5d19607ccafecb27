"""What an agent is told: who it is, its ports, what it hears, its timers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sglb.switch.clock import PS_PER_MS, PS_PER_US
from sglb.syncmesh.dataplane import PROFILES, Lane, lane_set
from sglb.syncmesh.messages import DEFAULT_MTU_BYTES, FabricKey, entries_per_message


class AgentConfigError(ValueError):
    """A configuration that no agent can run with; says which part."""


@dataclass(frozen=True, slots=True)
class FabricPort:
    """A port that leads to another switch.

    `subject` is the index of the announcement that hangs on this port alone, 0 for none. `neighbour` is
    the node id expected there; None takes whoever holds the fabric's key.
    """

    lane: Lane
    subject: int = 0
    neighbour: int | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """A subject that neighbours announce and this switch uses.

    `subject` is its name on the wire; `profile`, `alone` and `relay` are the data plane's (`relay` the
    index of the own announcement that depends on it, 0 for none); `ports` the members that reach it.
    """

    subject: int
    profile: int
    alone: bool
    relay: int
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Timers:
    """All in picoseconds, except `good_beats`.

    hello: between two HELLOs. hold: how long a neighbour may rely on the last one. full: between two
    FULLs. delta: how long changes are collected before a DELTA. retransmit: until an unacknowledged
    DELTA is sent again, doubled each time up to `retransmit_max`. set_timeout: until a SET that the data
    plane did not confirm is sent again. heartbeat: the data plane's. beat_gap: the data plane tells of
    heartbeats on a link that is marked down no more often than this (its `beats_told`; 0: of each).
    good_beats: so many in a row make such a link good again. settle: how long a neighbour must be UP
    before its link is used again, so that what it had to say has come.
    """

    hello_ps: int = PS_PER_MS
    hold_ps: int = 3_500 * PS_PER_US
    full_ps: int = 10 * PS_PER_MS
    delta_ps: int = 200 * PS_PER_US
    retransmit_ps: int = PS_PER_MS
    retransmit_max_ps: int = 16 * PS_PER_MS
    set_timeout_ps: int = 2 * PS_PER_MS
    heartbeat_ps: int = PS_PER_MS
    beat_gap_ps: int = 0
    good_beats: int = 3
    settle_ps: int = 20 * PS_PER_US

    def __post_init__(self) -> None:
        for name in ("hello_ps", "full_ps", "retransmit_ps", "set_timeout_ps", "heartbeat_ps"):
            if getattr(self, name) <= 0:
                raise AgentConfigError(f"{name} must be above 0, got {getattr(self, name)}")
        if self.hold_ps < self.hello_ps + PS_PER_US:
            raise AgentConfigError(
                f"hold_ps ({self.hold_ps}) must exceed hello_ps ({self.hello_ps}) by 1 us or more"
            )
        for name in ("delta_ps", "settle_ps", "beat_gap_ps"):
            if getattr(self, name) < 0:
                raise AgentConfigError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.retransmit_max_ps < self.retransmit_ps or self.good_beats < 1:
            raise AgentConfigError(
                "retransmit_max_ps must be not below retransmit_ps, good_beats at least 1"
            )


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """One switch's agent.

    `incarnation` (1 to 65535) must be newer than at any earlier start, and what the data plane's
    `switch_info` and `sender` say. `mac` is the source of its frames. `new_data_plane`: the program
    was loaded just now, so that every vector is neutral. `first_seq` is the number before its first
    message's: an agent that takes another's place in the same incarnation must go on above it.
    """

    node: int
    incarnation: int
    mac: bytes
    key: FabricKey
    ports: Mapping[int, FabricPort]
    heard: tuple[Heard, ...] = ()
    timers: Timers = field(default_factory=Timers)
    mtu_bytes: int = DEFAULT_MTU_BYTES
    new_data_plane: bool = True
    first_seq: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.node < 1 << 32:
            raise AgentConfigError(f"a node id is 1 to 2**32 - 1, got {self.node}")
        if not 0 < self.incarnation < 1 << 16:
            raise AgentConfigError(f"an incarnation is 1 to 65535, got {self.incarnation}")
        if len(self.mac) != 6:
            raise AgentConfigError(f"a MAC address has 6 bytes, got {len(self.mac)}")
        entries_per_message(self.mtu_bytes)
        names = [heard.subject for heard in self.heard]
        if len(set(names)) != len(names):
            raise AgentConfigError("a subject is heard under one name only, some are listed twice")
        for heard in self.heard:
            self._check(heard)

    def _check(self, heard: Heard) -> None:
        where = f"subject {heard.subject:#x}"
        if not 0 < heard.profile < PROFILES:
            raise AgentConfigError(
                f"{where}: profile {heard.profile} is not in 1 to {PROFILES - 1}"
            )
        unknown = [port for port in heard.ports if port not in self.ports]
        if unknown or not heard.ports:
            raise AgentConfigError(f"{where}: ports {list(heard.ports)} must be fabric ports")
        if len({self.ports[port].lane.bank for port in heard.ports}) > 1:
            raise AgentConfigError(f"{where}: its ports {list(heard.ports)} lie in several banks")

    def lanes(self, heard: Heard) -> int:
        """The members that reach a subject, as a lane set of their bank."""
        return lane_set(tuple(self.ports[port].lane for port in heard.ports))

    def wants_notes(self, port: int) -> bool:
        """Whether the neighbour on a port may know something of use."""
        return any(port in heard.ports for heard in self.heard)
