"""Which ports of a switch lead toward a destination leaf, and how much the paths behind each can carry.

Paths are valley-free, as in every Clos fabric: up the tiers, then down, never up again. A switch that
has a way down uses only the shortest such ways; one that has none goes up (or sideways, in explicit
topologies that join switches of one tier). What is left shrinks by one at every hop, so forwarding by
destination cannot loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sglb.fabric.topology import NodeKind, Topology

_TIER = {NodeKind.LEAF: 0, NodeKind.SPINE: 1, NodeKind.CORE: 2}


class Member(NamedTuple):
    """A port of a group and the capacity of the paths behind it, in bit/s.

    The capacity is min(link, what the neighbour can send on toward the destination), the neighbour's
    being the sum over its own members: what survives behind the port when nobody else uses it.
    """

    port: int
    neighbour: int
    capacity_bps: int


@dataclass(frozen=True, slots=True)
class LinkState:
    """Live rates by link id, in bit/s; a link that is missing is down."""

    rate_bps: Mapping[int, int]

    @classmethod
    def healthy(cls, topology: Topology) -> LinkState:
        """Every link at its nominal rate."""
        return cls({link.id: link.spec.rate_bps for link in topology.links})

    def without(self, link_ids: frozenset[int]) -> LinkState:
        """The same with some links down."""
        return LinkState({i: r for i, r in self.rate_bps.items() if i not in link_ids})


class LiveLinks:
    """What every destination's paths follow from: the live links between switches, in one state."""

    def __init__(self, topology: Topology, state: LinkState) -> None:
        tier = {n.id: _TIER[n.kind] for n in topology.switches}
        #: Switch -> (port, neighbour, rate in bit/s, tiers up to the neighbour), in port order.
        self.hops: dict[int, tuple[tuple[int, int, int, int], ...]] = {
            switch: tuple(
                (port, other, state.rate_bps[link.id], tier[other] - tier[switch])
                for port, link in topology.ports(switch).items()
                if (other := link.other(switch)) in tier and link.id in state.rate_bps
            )
            for switch in tier
        }
        #: Equal members of different switches and destinations are kept once.
        self.known: dict[tuple[Member, ...], tuple[Member, ...]] = {}


class Paths:
    """Members toward one destination switch, for every switch, under one link state.

    `live` is that of the same topology and state, if there is one already.
    """

    def __init__(
        self,
        topology: Topology,
        state: LinkState,
        destination: int,
        live: LiveLinks | None = None,
    ) -> None:
        self._live = live or LiveLinks(topology, state)
        self._destination = destination
        below = self._distances_below()
        self._below = frozenset(below)
        self._left = self._distances(below)
        self._capacity: dict[int, int] = {}
        self._members: dict[int, tuple[Member, ...]] = {}

    def _distances_below(self) -> dict[int, int]:
        """Hops to the destination by descending alone, for the switches that can."""
        hops = self._live.hops
        found = {self._destination: 0}
        frontier = [self._destination]
        while frontier:
            higher = []
            for switch in frontier:
                for _, other, _, up in hops[switch]:
                    if up > 0 and other not in found:
                        found[other] = found[switch] + 1
                        higher.append(other)
            frontier = higher
        return found

    def _distances(self, below: dict[int, int]) -> dict[int, int]:
        """Hops to the destination, for every switch with a path; `below` where there is one."""
        hops = self._live.hops
        left = dict(below)
        frontier = sorted(left, key=lambda s: (left[s], s))
        while frontier:
            reached: dict[int, int] = {}
            for switch in frontier:
                distance = left[switch] + 1
                for _, other, _, up in hops[switch]:
                    if up <= 0 and other not in below:
                        nearest = min(left.get(other, 1 << 30), reached.get(other, 1 << 30))
                        if distance < nearest:
                            reached[other] = distance
            left.update(reached)
            frontier = sorted(reached, key=lambda s: (left[s], s))
        return left

    def reachable(self, switch: int) -> bool:
        """Whether the switch has a path."""
        return switch in self._left

    def members(self, switch: int) -> tuple[Member, ...]:
        """The switch's members in port order; empty at the destination and where there is no path."""
        found = self._members.get(switch)
        if found is None:
            found = self._members[switch] = self._find_members(switch)
        return found

    def _find_members(self, switch: int) -> tuple[Member, ...]:
        left = self._left
        if switch == self._destination or switch not in left:
            return ()
        descends, nearer = switch in self._below, left[switch] - 1
        found = []
        for port, other, rate, up in self._live.hops[switch]:
            if (up < 0) == descends and left.get(other, -1) == nearer:
                onward = self.capacity_bps(other)
                found.append(Member(port, other, rate if onward is None else min(rate, onward)))
        members = tuple(found)
        return self._live.known.setdefault(members, members)

    def capacity_bps(self, switch: int) -> int | None:
        """What the switch can send on toward the destination; None at the destination itself."""
        if switch == self._destination:
            return None
        if switch not in self._capacity:
            self._capacity[switch] = sum(m.capacity_bps for m in self.members(switch))
        return self._capacity[switch]
