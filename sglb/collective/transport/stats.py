"""Counters of a transport and what `Transport.stats` makes of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class PeerStats:
    """Counted toward one peer."""

    messages_sent: int = 0
    messages_received: int = 0
    duplicates: int = 0
    replayed_frames: int = 0
    replayed_bytes: int = 0
    failovers: int = 0
    failbacks: int = 0


@dataclass(frozen=True, slots=True)
class ChannelStats:
    """One connection now; `rate` in bytes a second as acknowledged, 0 before it is known."""

    peer: int
    index: int
    epoch: int
    rail: str
    remote_rail: str
    up: bool
    rate: float
    inflight_bytes: int
    sent_bytes: int
    received_bytes: int


@dataclass(frozen=True, slots=True)
class RailStats:
    """One local rail over all peers: bytes of all its connections so far, and faults on it.

    Also `local`, and `through rank N`, which have no address.
    """

    name: str
    address: str
    carrier: bool
    channels_up: int
    channels_down: int
    rate: float
    sent_bytes: int
    received_bytes: int
    failovers: int


@dataclass(frozen=True, slots=True)
class Stats:
    """A snapshot of a transport.

    relayed_bytes: passed on for neighbours. shared_bytes: taken from the memory of ranks of this host
    in operations that need no messages.
    """

    rank: int
    size: int
    group: str
    state: str
    detection_bound_s: float
    relayed_bytes: int = 0
    shared_bytes: int = 0
    rails: list[RailStats] = field(default_factory=list)
    channels: list[ChannelStats] = field(default_factory=list)
    peers: dict[int, PeerStats] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)

    @property
    def failovers(self) -> int:
        """Connections given up, all peers."""
        return sum(peer.failovers for peer in self.peers.values())

    @property
    def replayed_bytes(self) -> int:
        """Payload sent a second time, all peers."""
        return sum(peer.replayed_bytes for peer in self.peers.values())

    @property
    def duplicates(self) -> int:
        """Frames that came twice and were dropped."""
        return sum(peer.duplicates for peer in self.peers.values())

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)
