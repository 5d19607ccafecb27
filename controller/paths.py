"""Which ports of a switch lead toward a destination leaf, and how much the paths behind each can carry.

Paths are valley-free, as in every Clos fabric: up the tiers, then down, never up again. A switch that
has a way down uses only the shortest such ways; one that has none goes up (or sideways, in explicit
topologies that join switches of one tier). What is left shrinks by one at every hop, so forwarding by
destination cannot loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import networkx as nx

from sglb.fabric.topology import Link, NodeKind, Topology

_TIER = {NodeKind.LEAF: 0, NodeKind.SPINE: 1, NodeKind.CORE: 2}


@dataclass(frozen=True, slots=True)
class Member:
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


class Paths:
    """Members toward one destination switch, for every switch, under one link state."""

    def __init__(self, topology: Topology, state: LinkState, destination: int) -> None:
        self._topology = topology
        self._state = state
        self._destination = destination
        self._tier = {n.id: _TIER[n.kind] for n in topology.switches}
        self._below = self._distances_below()
        self._left = self._distances()
        self._capacity: dict[int, int] = {}

    def _hops(self, switch: int) -> Iterator[tuple[int, Link, int]]:
        """(port, link, neighbour) for every live link to a switch, in port order."""
        for port, link in self._topology.ports(switch).items():
            other = link.other(switch)
            if other in self._tier and link.id in self._state.rate_bps:
                yield port, link, other

    def _distances_below(self) -> dict[int, int]:
        """Hops to the destination by descending alone, for the switches that can."""
        graph = nx.DiGraph()
        graph.add_node(self._destination)
        for switch in self._tier:
            for _, _, other in self._hops(switch):
                if self._tier[other] < self._tier[switch]:
                    graph.add_edge(other, switch)
        found: dict[int, int] = nx.single_source_shortest_path_length(graph, self._destination)
        return found

    def _distances(self) -> dict[int, int]:
        """Hops to the destination, for every switch with a path; `_below` where there is one."""
        left = dict(self._below)
        frontier = sorted(left, key=lambda s: (left[s], s))
        while frontier:
            reached: dict[int, int] = {}
            for switch in frontier:
                for _, _, other in self._hops(switch):
                    if other not in self._below and self._tier[other] <= self._tier[switch]:
                        distance = left[switch] + 1
                        if distance < min(left.get(other, 1 << 30), reached.get(other, 1 << 30)):
                            reached[other] = distance
            left.update(reached)
            frontier = sorted(reached, key=lambda s: (left[s], s))
        return left

    def reachable(self, switch: int) -> bool:
        """Whether the switch has a path."""
        return switch in self._left

    def members(self, switch: int) -> tuple[Member, ...]:
        """The switch's members in port order; empty at the destination and where there is no path."""
        if switch == self._destination or switch not in self._left:
            return ()
        found = []
        for port, link, other in self._hops(switch):
            descends = self._tier[other] < self._tier[switch]
            if descends == (switch in self._below) and (
                self._left.get(other, -1) == self._left[switch] - 1
            ):
                rate = self._state.rate_bps[link.id]
                onward = self.capacity_bps(other)
                found.append(Member(port, other, rate if onward is None else min(rate, onward)))
        return tuple(found)

    def capacity_bps(self, switch: int) -> int | None:
        """What the switch can send on toward the destination; None at the destination itself."""
        if switch == self._destination:
            return None
        if switch not in self._capacity:
            self._capacity[switch] = sum(m.capacity_bps for m in self.members(switch))
        return self._capacity[switch]
