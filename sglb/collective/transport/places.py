"""Who is where: hosts, pairs of rails, and the channels that there should be."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sglb.collective.transport.channel import Channel
from sglb.collective.transport.failback import Comeback
from sglb.collective.transport.rails import Rail
from sglb.collective.transport.rendezvous import Met, RailRecord
from sglb.collective.transport.settings import Settings

if TYPE_CHECKING:
    from sglb.collective.transport.connections import Greeting

NO_RAIL = -1


@dataclass(slots=True)
class Slot:
    """A channel that should be: `index` toward `peer`, from own rail to one of its, or without one."""

    peer: int
    index: int
    rail: int  # NO_RAIL: over memory or through `via`
    remote: int
    comeback: Comeback
    via: int | None = None
    epoch: int = 0
    channel: Channel | None = None
    greeting: Greeting | None = None
    attempts: int = 0  # since it last stood
    last_error: str = ""
    last_progress: float = field(default_factory=time.monotonic)
    home: int = field(init=False)  # the remote rail that is tried first

    def __post_init__(self) -> None:
        self.home = self.remote


def pair_rails(mine: list[Rail], theirs: tuple[RailRecord, ...]) -> list[tuple[int, int]]:
    """(own, remote) rails of the channels: each rail of the side that has more stands in one."""
    left = set(range(len(theirs)))
    pairs = []
    for own, rail in enumerate(mine):
        near = [r for r in sorted(left) if rail.shares_network(theirs[r].address)]
        same = [own] if own in left else []
        choice = same if same and (own in near or not near) else near
        remote = choice[0] if choice else own % len(theirs)
        left.discard(remote)
        pairs.append((own, remote))
    return pairs + [(remote % len(mine), remote) for remote in sorted(left)]


class Places:
    """What the records of all ranks say, as one of them sees it."""

    def __init__(self, rank: int, rails: list[Rail], settings: Settings, met: Met) -> None:
        self._rank = rank
        self._rails = rails
        self._settings = settings
        self._records = met.records

    def is_remote(self, rank: int) -> bool:
        """Whether a rank is on another host."""
        return self._records[rank].host != self._records[self._rank].host

    def shares_memory(self, rank: int) -> bool:
        """Whether a rank can be reached over shared memory."""
        mine, theirs = self._records[self._rank], self._records[rank]
        return mine.host == theirs.host and bool(mine.door and theirs.door)

    def neighbours(self, rank: int) -> list[int]:
        """Ranks that share memory with this one or with a peer, and may pass on between them."""
        records = self._records
        doors = {r.rank for r in records if r.door} - {self._rank, rank}
        hosts = (records[self._rank].host, records[rank].host)
        here = bool(records[self._rank].door)
        there = bool(records[rank].door)
        return [
            r
            for r in sorted(doors)
            if (records[r].host == hosts[0] and here) or (records[r].host == hosts[1] and there)
        ]

    def pairs_to(self, rank: int) -> list[tuple[int, int]]:
        """(own, remote) rails of channels to a rank."""
        return pair_rails(self._rails, self._records[rank].rails)

    def device_toward(self, rank: int, rail: int) -> str:
        """The interface to tie a connection to, or ''."""
        if not self._settings.bind_device or not self.is_remote(rank):
            return ""
        return self._rails[rail].device

    def names(self, slot: Slot) -> tuple[str, str]:
        """How the two ends of a slot are called."""
        if slot.via is not None:
            return (f"through rank {slot.via}",) * 2
        if slot.rail == NO_RAIL:
            return "local", "local"
        remote = self._records[slot.peer].rails[slot.remote]
        return self._rails[slot.rail].name, remote.name
