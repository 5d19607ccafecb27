"""Path lengths that prove how little a fabric can carry: the dual of maximum concurrent flow.

For *any* non-negative length of each direction of each link, the bits of a demand from s to t
travel at least dist(s, t) of length each, and a link of length l that carries at most C bits
provides l x C. So sum of demand x dist <= sum of l x C is necessary, whatever the routing, and
the lengths that violate it the most give the linear program's optimum, and grow exponentially
with the use of the links (Shahrokhi and Matula, J. ACM 37(2), 1990). They are sought by the
method of Frank and Wolfe: route all demands on shortest paths, average the loads over the
rounds, take lengths exponential in the average. A poor choice makes the bound weak, never wrong.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass

Arc = tuple[int, int, int]  # link id, from switch, to switch
_STEP = 0.1
# Arcs loaded a little less than the worst must fall behind it within a hundred rounds or so.
_SHARPNESS = 50.0
# Work allowed, in arcs looked at; about a second of Python.
_WORK = 1_000_000
_MAX_ROUNDS = 1_000


@dataclass(frozen=True, slots=True)
class Certificate:
    """Lengths of arcs, and the sum of demand x distance that they imply (same unit x bits)."""

    lengths: Mapping[Arc, float]
    needed: float


def best_lengths(
    capacity_bits: Mapping[Arc, float], demand_bits: Mapping[tuple[int, int], int]
) -> Certificate | None:
    """Lengths under which the demands need the most of what the capacities provide.

    `demand_bits` by (source switch, destination switch), source and destination different. None
    when some demand has no path of arcs at all.
    """
    arcs = sorted(capacity_bits)
    by_source: dict[int, dict[int, int]] = {}
    for (src, dst), bits in sorted(demand_bits.items()):
        by_source.setdefault(src, {})[dst] = bits
    out: dict[int, list[Arc]] = {}
    for arc in arcs:
        out.setdefault(arc[1], []).append(arc)
    # Arcs that carry nothing by then may still do so later: long, but not infinitely so.
    some = max(capacity_bits.values(), default=0.0)
    usable = {arc: max(capacity_bits[arc], some * 1e-3) for arc in arcs}
    if not some:
        return None
    lengths = {arc: 1.0 / usable[arc] for arc in arcs}
    average = dict.fromkeys(arcs, 0.0)
    best: Certificate | None = None
    best_ratio = 0.0
    rounds = max(4, min(_MAX_ROUNDS, _WORK // (len(by_source) * len(arcs) + 1)))
    for n in range(rounds):
        needed = 0.0
        load = dict.fromkeys(arcs, 0.0)
        for src, demands in by_source.items():
            found = _route(src, demands, out, lengths, load)
            if found is None:
                return None
            needed += found
        ratio = needed / sum(lengths[arc] * capacity_bits[arc] for arc in arcs)
        if ratio > best_ratio:
            best_ratio = ratio
            best = Certificate(dict(lengths), needed)
        step = 2 / (n + 2)
        for arc in arcs:
            average[arc] += step * (load[arc] - average[arc])
        used = {arc: average[arc] / usable[arc] for arc in arcs}
        worst = max(used.values())
        sharpness = _SHARPNESS * (n + 1) / rounds
        for arc in arcs:
            lengths[arc] = math.exp(sharpness * (used[arc] / worst - 1)) / usable[arc]
    return best


def _route(
    src: int,
    demands: Mapping[int, int],
    out: Mapping[int, list[Arc]],
    lengths: Mapping[Arc, float],
    load: dict[Arc, float],
) -> float | None:
    """Sum of demand x distance from one source; adds the demands to `load`.

    At a node that several shortest paths reach, the load is shared among their last arcs.
    """
    distance: dict[int, float] = {}
    order: list[int] = []
    into: dict[int, list[Arc]] = {src: []}
    heap = [(0.0, src)]
    reached = {src: 0.0}
    while heap:
        length, node = heapq.heappop(heap)
        if node in distance:
            continue
        distance[node] = length
        order.append(node)
        for arc in out.get(node, ()):
            peer, via = arc[2], length + lengths[arc]
            known = reached.get(peer)
            if known is None or via < known * (1 - 1e-9):
                reached[peer] = via
                into[peer] = [arc]
                heapq.heappush(heap, (via, peer))
            elif peer not in distance and via <= known * (1 + 1e-9):
                into[peer].append(arc)
    if any(dst not in distance for dst in demands):
        return None
    through = {dst: float(bits) for dst, bits in demands.items()}
    for node in reversed(order):
        bits = through.get(node, 0.0)
        if bits and node != src:
            share = bits / len(into[node])
            for arc in into[node]:
                load[arc] += share
                through[arc[1]] = through.get(arc[1], 0.0) + share
    return sum(bits * distance[dst] for dst, bits in demands.items())
