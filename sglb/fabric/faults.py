"""Faults in time: what is up, how fast, and which next hops lead nowhere.

This is the ground truth that bounds and metrics compare with. No switch, agent or controller
may read it: they learn of a fault by what reaches them.
"""

from __future__ import annotations

import bisect
import enum
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sglb.fabric.topology import Edge, Link, Topology

_FCS_BYTES = 4


class FaultKind(enum.StrEnum):
    """What happens to the fabric."""

    LINK_DOWN = "link down"
    LINK_UP = "link up"
    LINK_RATE = "link rate"
    SWITCH_DOWN = "switch down"
    SWITCH_UP = "switch up"
    BLACKHOLE = "black hole"
    HEAL = "black hole healed"
    LOSS = "random loss"
    BIT_ERRORS = "bit errors"


@dataclass(frozen=True, slots=True)
class Fault:
    """One change at one time.

    `links`: the links of LINK_DOWN, LINK_UP and LINK_RATE; `rate_bps` is the new rate of each.
    `switch_id`: the switch of SWITCH_DOWN and SWITCH_UP; its links lose carrier with it.
    `edges`: the directions that BLACKHOLE makes swallow every frame while both ends still see
    carrier, until HEAL; also those of LOSS and BIT_ERRORS. `loss`: probability that a frame is lost,
    first for all but SyncMesh's, then for those; `ber`: bit error rate. Both 0 end it.
    """

    time_ps: int
    kind: FaultKind
    label: str
    links: tuple[Link, ...] = ()
    rate_bps: int = 0
    switch_id: int = 0
    edges: tuple[Edge, ...] = ()
    loss: tuple[float, float] = (0.0, 0.0)
    ber: float = 0.0


@dataclass(frozen=True, slots=True)
class LinkLoss:
    """Random loss in some directions during a span; `to_ps` None means to the end.

    `syncmesh` and `data` are probabilities a frame (SyncMesh's, and all others), `ber` is a bit error
    rate: see `frame_loss`.
    """

    edges: tuple[Edge, ...]
    syncmesh: float
    data: float
    from_ps: int
    to_ps: int | None
    ber: float = 0.0


def frame_loss(ber: float, frame_bytes: int) -> float:
    """Probability that a bit error hits a frame of so many bytes, its FCS (4 bytes more) included.

    1 - (1 - ber)^bits, without the rounding that this has for small rates.
    """
    return -math.expm1(8 * (frame_bytes + _FCS_BYTES) * math.log1p(-ber))


@dataclass(frozen=True, slots=True)
class Flap:
    """A link that goes down and up `count` times: down for `down_ps`, then up for `up_ps`."""

    label: str
    links: tuple[Link, ...]
    start_ps: int
    down_ps: int
    up_ps: int
    count: int

    def faults(self) -> list[Fault]:
        """The single changes, in order."""
        period = self.down_ps + self.up_ps
        found = []
        for n in range(self.count):
            start = self.start_ps + n * period
            found.append(Fault(start, FaultKind.LINK_DOWN, self.label, self.links))
            end = start + self.down_ps
            found.append(Fault(end, FaultKind.LINK_UP, self.label, self.links))
        return found


class FabricState:
    """The fabric as it is at one moment; `apply` moves it on."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._down_links: set[int] = set()
        self._down_switches: set[int] = set()
        self._swallowing: set[tuple[int, int]] = set()
        self._rate_bps = {link.id: link.spec.rate_bps for link in topology.links}

    def apply(self, fault: Fault) -> None:
        """Take over one change. Doing it twice changes nothing."""
        ids = {link.id for link in fault.links}
        keys = {edge.key for edge in fault.edges}
        match fault.kind:
            case FaultKind.LINK_DOWN:
                self._down_links |= ids
            case FaultKind.LINK_UP:
                self._down_links -= ids
            case FaultKind.LINK_RATE:
                self._rate_bps |= dict.fromkeys(ids, fault.rate_bps)
            case FaultKind.SWITCH_DOWN:
                self._down_switches.add(fault.switch_id)
            case FaultKind.SWITCH_UP:
                self._down_switches.discard(fault.switch_id)
            case FaultKind.BLACKHOLE:
                self._swallowing |= keys
            case FaultKind.HEAL:
                self._swallowing -= keys

    def switch_up(self, switch_id: int) -> bool:
        """Whether a switch runs."""
        return switch_id not in self._down_switches

    def carrier(self, link: Link) -> bool:
        """Whether both ends of a link see light."""
        down = self._down_switches
        return link.id not in self._down_links and link.a not in down and link.b not in down

    def delivers(self, edge: Edge) -> bool:
        """Whether a frame sent in this direction arrives."""
        return self.carrier(edge.link) and edge.key not in self._swallowing

    def link_rate_bps(self, link: Link) -> int:
        """The rate that a link has while it is up."""
        return self._rate_bps[link.id]

    def edge_rate_bps(self, edge: Edge) -> int:
        """What a direction can deliver now, 0 when it is down or swallows."""
        return self._rate_bps[edge.link.id] if self.delivers(edge) else 0


def state_at(topology: Topology, faults: Iterable[Fault], time_ps: int) -> FabricState:
    """The fabric after all faults up to and including `time_ps`."""
    state = FabricState(topology)
    for fault in sorted(faults, key=lambda f: f.time_ps):
        if fault.time_ps > time_ps:
            break
        state.apply(fault)
    return state


class CapacityTimeline:
    """Piecewise constant capacity of every direction of every link, under a list of faults."""

    def __init__(self, topology: Topology, faults: Iterable[Fault]) -> None:
        self.topology = topology
        state = FabricState(topology)
        self._steps: dict[tuple[int, int], list[tuple[int, int]]] = {
            edge.key: [(0, edge.link.spec.rate_bps)] for edge in topology.edges
        }
        for fault in sorted(faults, key=lambda f: f.time_ps):
            state.apply(fault)
            for edge in topology.edges:
                steps = self._steps[edge.key]
                rate = state.edge_rate_bps(edge)
                if rate == steps[-1][1]:
                    continue
                if steps[-1][0] == fault.time_ps:
                    steps.pop()
                steps.append((fault.time_ps, rate))

    def steps(self, edge: Edge) -> Mapping[int, int]:
        """From time (ps) -> capacity (bit/s) of a direction."""
        return dict(self._steps[edge.key])

    def profile(self, edge: Edge) -> tuple[tuple[int, int], ...]:
        """The steps of a direction: equal for directions that are alike at all times."""
        return tuple(self._steps[edge.key])

    def rate_bps(self, edge: Edge, time_ps: int) -> int:
        """Capacity of a direction at a time."""
        steps = self._steps[edge.key]
        return steps[bisect.bisect_right(steps, time_ps, key=lambda s: s[0]) - 1][1]

    def best_rate_bps(self, edge: Edge) -> int:
        """The highest capacity that a direction ever has."""
        return max(rate for _, rate in self._steps[edge.key])

    def decreases(self, edge: Edge, until_ps: int) -> int:
        """How often capacity falls up to a time."""
        steps = self._steps[edge.key]
        pairs = itertools.pairwise(steps)
        return sum(1 for (_, old), (at, new) in pairs if new < old and at <= until_ps)

    def bit_ps(self, edge: Edge, from_ps: int, to_ps: int) -> int:
        """Integral of capacity over a span, in bit/s x ps (divide by 10^12 for bits), exact."""
        total = 0
        steps = self._steps[edge.key]
        for n, (start, rate) in enumerate(steps):
            end = steps[n + 1][0] if n + 1 < len(steps) else to_ps
            span = min(end, to_ps) - max(start, from_ps)
            if span > 0:
                total += rate * span
        return total

    def time_to_carry(self, edge: Edge, from_ps: int, bit_ps: int) -> int | None:
        """Earliest time by which a direction, busy from `from_ps`, has carried `bit_ps`.

        None when it never does; see `bit_ps` for the unit.
        """
        steps = self._steps[edge.key]
        left = bit_ps
        for n, (start, rate) in enumerate(steps):
            begin = max(start, from_ps)
            end = steps[n + 1][0] if n + 1 < len(steps) else None
            if end is not None and end <= begin:
                continue
            if rate:
                done = begin - (-left // rate)
                if end is None or done <= end:
                    return done
                left -= rate * (end - begin)
        return None

    def changes_ps(self) -> list[int]:
        """All times at which any capacity changes, in order."""
        return sorted({at for steps in self._steps.values() for at, _ in steps})


@dataclass(frozen=True, slots=True)
class DeadHop:
    """A next hop that a switch may still use though it cannot reach the destination switch."""

    switch_id: int
    port: int
    dest_switch_id: int


def next_hops(topology: Topology) -> dict[tuple[int, int], frozenset[int]]:
    """(switch id, destination switch id) -> ports on shortest paths of the healthy fabric."""
    found: dict[tuple[int, int], frozenset[int]] = {}
    for dest in topology.switches:
        if topology.hosts_of(dest.id):
            for node, hops in _hops_toward(topology, dest.id):
                found[node, dest.id] = frozenset(port for port, _ in hops)
    return found


def dead_hops(state: FabricState) -> frozenset[DeadHop]:
    """Next hops on shortest paths of the healthy fabric that lead nowhere in this state.

    A next hop from u over a link to v toward switch d is dead when the link delivers nothing or
    when v has no live shortest path to d itself: what u sends there is lost unless v has some
    detour. Hosts' own links are left out, as no choice of path can avoid them.
    """
    topology = state.topology
    found: set[DeadHop] = set()
    for dest in topology.switches:
        if not topology.hosts_of(dest.id):
            continue
        live = {dest.id} if state.switch_up(dest.id) else set()
        for node, hops in _hops_toward(topology, dest.id):
            for port, edge in hops:
                if edge.dst in live and state.delivers(edge):
                    live.add(node)
                else:
                    found.add(DeadHop(node, port, dest.id))
    return frozenset(found)


def _hops_toward(topology: Topology, dest: int) -> list[tuple[int, list[tuple[int, Edge]]]]:
    """For each other switch, nearest to `dest` first: its shortest next hops (port, direction)."""
    distance = {dest: 0}
    order = [dest]
    for node in order:
        for link in topology.ports(node).values():
            peer = link.other(node)
            if peer not in distance and not topology.by_id(peer).is_host:
                distance[peer] = distance[node] + 1
                order.append(peer)
    return [
        (
            node,
            [
                (port, Edge(link, node, link.other(node)))
                for port, link in topology.ports(node).items()
                if distance.get(link.other(node), -1) == distance[node] - 1
            ],
        )
        for node in order[1:]
    ]
