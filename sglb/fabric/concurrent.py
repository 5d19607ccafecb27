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

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Arc = tuple[int, int, int]  # link id, from switch, to switch
_STEP = 0.1
# Arcs loaded a little less than the worst must fall behind it within a hundred rounds or so.
_SHARPNESS = 50.0
# Work allowed, in arcs looked at, each once a source and round; about a second.
_WORK = 4_000_000
# What a round costs at least, in the same unit.
_ROUND = 3_800
# Arcs x sources that are looked at together: bounds the memory.
_BATCH = 1 << 20
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
    # Arcs that carry nothing by then may still do so later: long, but not infinitely so.
    some = max(capacity_bits.values(), default=0.0)
    if not some:
        return None
    router = _Router(arcs, demand_bits)
    capacity = [capacity_bits[arc] for arc in arcs]
    usable = [max(bits, some * 1e-3) for bits in capacity]
    lengths = [1.0 / bits for bits in usable]
    average = [0.0] * len(arcs)
    best: Certificate | None = None
    best_ratio = 0.0
    rounds = max(4, min(_MAX_ROUNDS, _WORK // (router.work + _ROUND)))
    for n in range(rounds):
        found = router.route(lengths)
        if found is None:
            return None
        needed, load = found
        ratio = needed / sum(x * c for x, c in zip(lengths, capacity, strict=True))
        if ratio > best_ratio:
            best_ratio = ratio
            best = Certificate(dict(zip(arcs, lengths, strict=True)), needed)
        step = 2 / (n + 2)
        average = [a + step * (x - a) for a, x in zip(average, load, strict=True)]
        used = [a / c for a, c in zip(average, usable, strict=True)]
        worst = max(used)
        sharpness = _SHARPNESS * (n + 1) / rounds
        lengths = [
            math.exp(sharpness * (u / worst - 1)) / c for u, c in zip(used, usable, strict=True)
        ]
    return best


_Floats = npt.NDArray[np.float64]


class _Router:
    """Routes all demands on shortest paths, many sources at a time.

    Only additions in a fixed order and comparisons are left to numpy, so that results are the same on
    every machine.
    """

    def __init__(self, arcs: list[Arc], demand_bits: Mapping[tuple[int, int], int]) -> None:
        names = {arc[1] for arc in arcs} | {arc[2] for arc in arcs}
        place = {
            name: n for n, name in enumerate(sorted(names | {n for d in demand_bits for n in d}))
        }
        by_end = sorted(range(len(arcs)), key=lambda n: (arcs[n][2], n))
        self._original = np.array(by_end)
        self._tail = np.array([place[arcs[n][1]] for n in by_end])
        self._end = np.array([place[arcs[n][2]] for n in by_end])
        self._ends, self._first = np.unique(self._end, return_index=True)
        self._sources = sorted({place[src] for src, _ in demand_bits})
        row = {src: n for n, src in enumerate(self._sources)}
        self._demand = np.zeros((len(row), len(place)))
        for (src, dst), bits in demand_bits.items():
            self._demand[row[place[src]], place[dst]] += bits
        self.work = len(row) * len(arcs)

    def route(self, lengths: list[float]) -> tuple[float, list[float]] | None:
        """Sum of demand x distance, and the load of each arc; None when a demand has no path."""
        along = np.array(lengths)[self._original]
        load = np.zeros(len(along))
        needed: list[float] = []
        batch = max(1, _BATCH // len(along))
        for at in range(0, len(self._sources), batch):
            demand = self._demand[at : at + batch]
            distance = self._distances(self._sources[at : at + batch], along)
            far = distance[demand > 0]
            if np.isinf(far).any():
                return None
            needed += (demand[demand > 0] * far).tolist()
            load += self._loads(demand, distance, along)
        ordered = np.empty_like(load)
        ordered[self._original] = load
        return math.fsum(needed), ordered.tolist()

    def _distances(self, sources: list[int], along: _Floats) -> _Floats:
        found = np.full((len(sources), self._demand.shape[1]), np.inf)
        found[np.arange(len(sources)), sources] = 0.0
        while True:
            through = np.minimum.reduceat(found[:, self._tail] + along, self._first, axis=1)
            better = np.minimum(found[:, self._ends], through)
            if (better == found[:, self._ends]).all():
                return found
            found[:, self._ends] = better

    def _loads(self, demand: _Floats, distance: _Floats, along: _Floats) -> _Floats:
        """Load of each arc, in the order of ends.

        At a node that several shortest paths reach, the load is shared among their last arcs.
        """
        before, after = distance[:, self._tail], distance[:, self._end]
        shortest = (before < after) & (before + along <= after * (1 + 1e-9))
        share = shortest / np.maximum(1, self._per_node(shortest, self._end))[:, self._end]
        through = demand
        # Once for every arc of the longest shortest path, from the ends of demands back.
        for _ in range(demand.shape[1]):
            carried = share * through[:, self._end]
            passed = demand + self._per_node(carried, self._tail)
            if (passed == through).all():
                break
            through = passed
        load: _Floats = (share * through[:, self._end]).sum(axis=0)
        return load

    def _per_node(self, values: npt.NDArray[Any], node: npt.NDArray[np.int64]) -> _Floats:
        """Sums of arcs' values, in the arcs' order, at their nodes."""
        rows, nodes = len(values), self._demand.shape[1]
        at = (np.arange(rows)[:, None] * nodes + node).ravel()
        sums = np.bincount(at, values.ravel().astype(np.float64), rows * nodes)
        return sums.reshape(rows, nodes).astype(np.float64, copy=False)
