"""The least time that anything takes from here to there: base latency of a fabric.

Store and forward: a packet is sent whole on each link (`serialisation_ps` of the smallest packet
asked for, at the best rate that the link ever has, without the gap after it), flies for the
link's delay, and spends the pipeline latency in each switch. Queues are empty. Real packets take
at least this long on any path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from sglb.fabric.faults import CapacityTimeline
from sglb.fabric.roce import WIRE_OVERHEAD_BYTES
from sglb.fabric.topology import Edge
from sglb.switch.clock import PS_PER_S

GAP_BYTES = 12
_FAR_PS = 1 << 60


class BaseLatency:
    """Least latencies for packets of `frame_bytes` (without FCS) or more.

    "Ready at u" means received and through the pipeline of u, to be sent on.
    """

    def __init__(
        self, capacity: CapacityTimeline, frame_bytes: int, pipeline_latency_ps: int
    ) -> None:
        self._topology = capacity.topology
        self._pipeline_ps = pipeline_latency_ps
        self._bits = (frame_bytes + WIRE_OVERHEAD_BYTES - GAP_BYTES) * 8
        self._hop: dict[tuple[int, int], int] = {}
        self._place = {s.id: n for n, s in enumerate(self._topology.switches)}
        arcs: list[tuple[int, int, int]] = []
        for edge in self._topology.edges:
            rate = capacity.best_rate_bps(edge)
            sending = self._bits * PS_PER_S // rate if rate else 0
            hop = self._hop[edge.key] = sending + edge.link.spec.delay_ps
            if edge.src in self._place and edge.dst in self._place:
                ends = self._place[edge.src], self._place[edge.dst]
                arcs.append((*ends, hop + pipeline_latency_ps))
        leaves = {self._place[self._topology.switch_of(h.id).id] for h in self._topology.hosts}
        self._leaf = {place: n for n, place in enumerate(sorted(leaves))}
        self._from = _distances(len(self._place), sorted(leaves), arcs)
        self._to = _distances(len(self._place), sorted(leaves), [(b, a, t) for a, b, t in arcs])
        self._cache: dict[tuple[bool, tuple[tuple[int, int], ...]], dict[int, int]] = {}

    def heads(self, sources: Iterable[int]) -> Mapping[int, int]:
        """Per switch: least time after which a packet of any of these hosts is ready there."""
        return self._spread(sources, self._up, self._from)

    def tails(self, dests: Iterable[int]) -> Mapping[int, int]:
        """Per switch: least time from ready there to arrival at any of these hosts."""
        return self._spread(dests, self._down, self._to)

    def head(self, edge: Edge, heads: Mapping[int, int]) -> int:
        """Least time before a packet can be sent on `edge`; a host sends from time 0."""
        return heads.get(edge.src, 0)

    def tail(self, edge: Edge, tails: Mapping[int, int]) -> int:
        """Least time from a packet's last bit sent on `edge` to its arrival."""
        delay = edge.link.spec.delay_ps
        if edge.dst not in tails:  # the host itself
            return delay
        return delay + self._pipeline_ps + tails[edge.dst]

    def _spread(
        self,
        hosts: Iterable[int],
        first: Callable[[int], int],
        distances: npt.NDArray[np.int64],
    ) -> Mapping[int, int]:
        seeds: dict[int, int] = {}
        for host in hosts:
            switch = self._topology.switch_of(host).id
            seeds[switch] = min(first(host), seeds.get(switch, first(host)))
        key = (distances is self._from, tuple(sorted(seeds.items())))
        if key not in self._cache:
            rows = [self._leaf[self._place[switch]] for switch in seeds]
            offsets = np.array(list(seeds.values()), dtype=np.int64)
            least = (distances[rows] + offsets[:, None]).min(axis=0).tolist()
            found = zip(self._place, least, strict=True)
            self._cache[key] = {switch: t for switch, t in found if t < _FAR_PS}
        return self._cache[key]

    def _up(self, host: int) -> int:
        """From a host's first bit to ready at its switch."""
        return self._hop[self._topology.attachment(host).id, host] + self._pipeline_ps

    def _down(self, host: int) -> int:
        """From ready at a host's switch to arrival at the host."""
        return self._hop[self._topology.attachment(host).id, self._topology.switch_of(host).id]


def _distances(
    count: int, sources: list[int], arcs: list[tuple[int, int, int]]
) -> npt.NDArray[np.int64]:
    """[n, v]: least time from the n-th source to v over arcs (from, to, ps); `_FAR_PS` for no way.

    Relaxes all arcs at once until nothing changes, which fabrics of a few tiers are soon through.
    """
    found = np.full((len(sources), count), _FAR_PS, dtype=np.int64)
    found[np.arange(len(sources)), sources] = 0
    if not arcs:
        return found
    table = np.array(sorted(arcs, key=lambda arc: arc[1]), dtype=np.int64)
    ends, first = np.unique(table[:, 1], return_index=True)
    while True:
        through = np.minimum.reduceat(found[:, table[:, 0]] + table[:, 2], first, axis=1)
        better = np.minimum(found[:, ends], through)
        if (better == found[:, ends]).all():
            return found
        found[:, ends] = better
