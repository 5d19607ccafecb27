"""The least time that anything takes from here to there: base latency of a fabric.

Store and forward: a packet is sent whole on each link (`serialisation_ps` of the smallest packet
asked for, at the best rate that the link ever has, without the gap after it), flies for the
link's delay, and spends the pipeline latency in each switch. Queues are empty. Real packets take
at least this long on any path.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping

from sglb.fabric.faults import CapacityTimeline
from sglb.fabric.roce import WIRE_OVERHEAD_BYTES
from sglb.fabric.topology import Edge
from sglb.switch.clock import PS_PER_S

GAP_BYTES = 12


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
        self._out: dict[int, list[tuple[int, int]]] = {s.id: [] for s in self._topology.switches}
        self._in: dict[int, list[tuple[int, int]]] = {s.id: [] for s in self._topology.switches}
        for edge in self._topology.edges:
            rate = capacity.best_rate_bps(edge)
            sending = self._bits * PS_PER_S // rate if rate else 0
            hop = self._hop[edge.key] = sending + edge.link.spec.delay_ps
            if edge.src in self._out and edge.dst in self._out:
                self._out[edge.src].append((edge.dst, hop + pipeline_latency_ps))
                self._in[edge.dst].append((edge.src, hop + pipeline_latency_ps))
        self._cache: dict[tuple[bool, tuple[tuple[int, int], ...]], dict[int, int]] = {}

    def heads(self, sources: Iterable[int]) -> Mapping[int, int]:
        """Per switch: least time after which a packet of any of these hosts is ready there."""
        return self._spread(sources, self._up, self._out)

    def tails(self, dests: Iterable[int]) -> Mapping[int, int]:
        """Per switch: least time from ready there to arrival at any of these hosts."""
        return self._spread(dests, self._down, self._in)

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
        graph: dict[int, list[tuple[int, int]]],
    ) -> Mapping[int, int]:
        seeds: dict[int, int] = {}
        for host in hosts:
            switch = self._topology.switch_of(host).id
            seeds[switch] = min(first(host), seeds.get(switch, first(host)))
        key = (graph is self._out, tuple(sorted(seeds.items())))
        if key not in self._cache:
            self._cache[key] = _dijkstra(seeds, graph)
        return self._cache[key]

    def _up(self, host: int) -> int:
        """From a host's first bit to ready at its switch."""
        return self._hop[self._topology.attachment(host).id, host] + self._pipeline_ps

    def _down(self, host: int) -> int:
        """From ready at a host's switch to arrival at the host."""
        return self._hop[self._topology.attachment(host).id, self._topology.switch_of(host).id]


def _dijkstra(seeds: dict[int, int], graph: dict[int, list[tuple[int, int]]]) -> dict[int, int]:
    done: dict[int, int] = {}
    heap = [(distance, node) for node, distance in seeds.items()]
    heapq.heapify(heap)
    while heap:
        distance, node = heapq.heappop(heap)
        if node in done:
            continue
        done[node] = distance
        for peer, hop in graph[node]:
            if peer not in done:
                heapq.heappush(heap, (distance + hop, peer))
    return done
