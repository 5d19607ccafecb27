"""Lower bounds on the completion time of a workload: no routing, no transport can beat them.

Every bound is of one form. For a set of link directions with lengths l and a set of flows whose
packets must spend at least `need` of length x bits on them, whatever the routing,

    sum over directions of  l x (bits sent from start + head until T - tail)  >=  need

where `bits sent` is at most the integral of the live capacity (piecewise constant under the
scenario's faults: a direction that is down carries nothing, one that a black hole swallows
neither), `head` the least latency from a source until a packet can be sent there, and `tail` the
least latency from there to a destination. The least T that satisfies it is a bound.

- `nic`: one host's link, out or in; all its flows must cross it.
- `cut`: all links that leave (or enter) a leaf with its hosts, or a pod; likewise.
- `paths`: all switch-to-switch links, with the lengths of `concurrent` (the dual of the maximum
  concurrent flow linear program: what cuts alone cannot see).
- `chain`: flows that wait for each other, each at the speed of its own NICs.

With equal rates B, eta = payload / wire bytes and T0 the base latency these are, for N hosts in
leaves of h with U uplinks of rate Bu, the familiar

    all-to-all, m bytes a pair      T0 + (N-1) m / (eta B)  and  T0 + h (N-h) m / (eta U Bu)
    ring all-reduce of S bytes      2 (N-1) (S / (N eta B) + T0)
    incast of n x m bytes           T0 + n m / (eta B)

Bits are wire bits: headers, ICRC, FCS, preamble and gap of every data packet, sent once.
Acknowledges and retransmissions are left out, which only lowers the bounds. Where a capacity
falls, a frame under way may end at the old rate: one frame for each fall is allowed on top.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sglb.fabric.concurrent import best_lengths
from sglb.fabric.faults import CapacityTimeline, Fault
from sglb.fabric.latency import GAP_BYTES, BaseLatency
from sglb.fabric.qp import TransportConfig
from sglb.fabric.roce import frame_bytes, packet_count, wire_bytes
from sglb.fabric.topology import Edge, Topology
from sglb.fabric.workload import Flow, Workload
from sglb.switch.clock import PS_PER_S

_MAX_STARTS = 32
_NEVER_PS = 10 * 86_400 * PS_PER_S


class BoundError(ValueError):
    """A workload that can never complete, because `flow` is cut off for good."""

    def __init__(self, message: str, flow: Flow) -> None:
        super().__init__(message)
        self.flow = flow


class BoundViolation(AssertionError):  # noqa: N818 - it is not a user's error but a bug of ours
    """A measured completion below the lower bound: the simulation is wrong."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One bound: no run can complete before `time_ps` (absolute), because of `what`."""

    kind: str
    what: str
    time_ps: int


@dataclass(frozen=True, slots=True)
class LowerBound:
    """The strongest bound of each kind, strongest first; times count from `start_ps`."""

    start_ps: int
    bounds: tuple[Bound, ...]

    @property
    def binding(self) -> Bound:
        """The strongest bound."""
        return self.bounds[0]

    @property
    def completion_ps(self) -> int:
        """Least possible time from the first flow's start to the last one's completion."""
        return self.binding.time_ps - self.start_ps

    def check(self, completion_ps: int) -> None:
        """Raises `BoundViolation` for a measured completion time below the bound."""
        if completion_ps < self.completion_ps:
            raise BoundViolation(
                f"completion after {completion_ps} ps is below the lower bound of "
                f"{self.completion_ps} ps ({self.binding.kind}: {self.binding.what})"
            )


def lower_bound(
    topology: Topology,
    faults: Iterable[Fault],
    workload: Workload,
    transport: TransportConfig,
    pipeline_latency_ps: int,
) -> LowerBound:
    """The lower bounds of a workload on a faulty fabric, see the module's text.

    Raises `BoundError` when the workload can never complete.
    """
    return _Bounds(topology, faults, workload, transport, pipeline_latency_ps).find()


def ideal_fct_ps(
    topology: Topology,
    workload: Workload,
    transport: TransportConfig,
    pipeline_latency_ps: int,
) -> list[int]:
    """Per flow: the least time from its start to its completion, alone on the healthy fabric.

    Limited by its hosts' NICs and the base latency; the denominator of a slowdown.
    """
    return _Bounds(topology, (), workload, transport, pipeline_latency_ps).alone()


def earliest_ends_ps(
    topology: Topology,
    faults: Iterable[Fault],
    workload: Workload,
    transport: TransportConfig,
    pipeline_latency_ps: int,
) -> list[int]:
    """Per flow: no run can have it complete before this time (absolute).

    Limited by its hosts' NICs, the base latency and the flows that it waits for, each alone on the
    faulty fabric. Raises `BoundError` for a flow that can never complete.
    """
    return _Bounds(topology, faults, workload, transport, pipeline_latency_ps).earliest()[1]


def wire_bits(size_bytes: int, transport: TransportConfig) -> int:
    """Bits that a flow's packets take on each link, sent once."""
    mtu, version = transport.mtu_bytes, transport.ip_version
    packets = packet_count(size_bytes, mtu)
    last = size_bytes - (packets - 1) * mtu
    return 8 * ((packets - 1) * wire_bytes(mtu, version) + wire_bytes(last, version))


@dataclass(frozen=True, slots=True)
class _Window:
    """A direction, its length, and when it can be of use: from start + head to T - tail."""

    edge: Edge
    length: float
    head_ps: int
    tail_ps: int


class _Bounds:
    def __init__(
        self,
        topology: Topology,
        faults: Iterable[Fault],
        workload: Workload,
        transport: TransportConfig,
        pipeline_latency_ps: int,
    ) -> None:
        self._topology = topology
        self._flows = workload.flows
        self._workload = workload
        self._capacity = CapacityTimeline(topology, faults)
        self._edges = {edge.key: edge for edge in topology.edges}
        mtu, version = transport.mtu_bytes, transport.ip_version
        # A flow's last packet is its smallest, and any packet may be the last to arrive.
        smallest = min((f.size_bytes - 1) % mtu + 1 for f in self._flows)
        self._latency = BaseLatency(
            self._capacity, frame_bytes(smallest, version), pipeline_latency_ps
        )
        self._frame_bits = 8 * wire_bytes(mtu, version)
        of_size = {size: wire_bits(size, transport) for size in {f.size_bytes for f in self._flows}}
        self._bits = [of_size[f.size_bytes] for f in self._flows]
        self._horizon = self._capacity.changes_ps()[-1]
        self._alike: dict[int, tuple[object, ...]] = {}
        self._alone_ps: dict[tuple[object, ...], int] = {}
        self._sent: dict[int, list[Flow]] = {}
        self._received: dict[int, list[Flow]] = {}
        for flow in self._flows:
            self._sent.setdefault(flow.src, []).append(flow)
            self._received.setdefault(flow.dst, []).append(flow)

    def find(self) -> LowerBound:
        starts, chain = self._chain()
        best = {"chain": chain}
        for bound in self._all_cuts(starts):
            if bound.kind not in best or bound.time_ps > best[bound.kind].time_ps:
                best[bound.kind] = bound
        strongest = max(b.time_ps for b in best.values())
        paths = self._paths(starts, strongest)
        if paths is not None:
            best["paths"] = paths
        tail_ps = self._workload.tail_ps
        late = [replace(bound, time_ps=bound.time_ps + tail_ps) for bound in best.values()]
        ranked = sorted(late, key=lambda b: -b.time_ps)
        return LowerBound(self._workload.start_ps, tuple(ranked))

    def alone(self) -> list[int]:
        """Least time of each flow, had it the fabric to itself from time 0."""
        return [self._earliest(flow, 0) for flow in self._flows]

    # Chains

    def earliest(self) -> tuple[list[int], list[int]]:
        """Earliest start and end of each flow."""
        starts: list[int] = []
        ends: list[int] = []
        gates = self._workload.gates()
        opened: dict[int, int] = {}
        for flow, gate in zip(self._flows, gates.of_flow, strict=True):
            start = flow.start_ps
            if gate >= 0:
                if gate not in opened:
                    opened[gate] = max(ends[before] for before in gates.members[gate])
                start = max(start, opened[gate] + flow.delay_ps)
            starts.append(start)
            ends.append(self._earliest(flow, start))
        return starts, ends

    def _earliest(self, flow: Flow, start: int) -> int:
        """Least time by which a flow alone is complete, from what its two hosts' links can do."""
        bits = self._bits[flow.id]
        key = (self._like(flow.src), self._like(flow.dst), bits, start)
        if key not in self._alone_ps:
            ends = [self._alone(flow, bits, start, out) for out in (True, False)]
            self._alone_ps[key] = max(ends)
        return self._alone_ps[key]

    def _like(self, host: int) -> tuple[object, ...]:
        """Equal for hosts that hang on one switch by links that are alike at all times."""
        if host not in self._alike:
            link = self._topology.attachment(host)
            switch = link.other(host)
            both = (self._edges[link.id, host], self._edges[link.id, switch])
            profiles = [self._capacity.profile(edge) for edge in both]
            self._alike[host] = (switch, link.spec.delay_ps, *profiles)
        return self._alike[host]

    def _chain(self) -> tuple[list[int], Bound]:
        """Earliest start of each flow, and the latest of their earliest ends."""
        starts, ends = self.earliest()
        last = max(range(len(ends)), key=lambda n: ends[n])
        steps, at = 1, last
        while self._flows[at].after:
            at = max(self._flows[at].after, key=lambda a: ends[a])
            steps += 1
        dst = self._topology.by_id(self._flows[last].dst).name
        chain = f"{steps} flows in a row, the last " if steps > 1 else "a flow "
        return starts, Bound("chain", f"{chain}to {dst}", ends[last])

    def _alone(self, flow: Flow, bits: int, start: int, out: bool) -> int:
        window = self._nic(flow.src if out else flow.dst, out, [flow])
        begin = start + window.head_ps
        end = self._capacity.time_to_carry(window.edge, begin, bits * PS_PER_S)
        if end is None:
            raise self._never([flow])
        less = max(0, bits * PS_PER_S - self._slack(window.edge, end))
        end = self._capacity.time_to_carry(window.edge, begin, less)
        return (begin if end is None else end) + window.tail_ps

    def _never(self, flows: Sequence[Flow]) -> BoundError:
        names = [self._topology.by_id(n).name for n in (flows[0].src, flows[0].dst)]
        return BoundError(
            f"the workload can never complete: the flow from {names[0]} to {names[1]} is cut off "
            "for good by the faults",
            flows[0],
        )

    def _slack(self, edge: Edge, until_ps: int) -> int:
        """Bits (x ps / s) that may exceed the integral: the last gap, and a frame a fall."""
        falls = self._capacity.decreases(edge, until_ps)
        return (8 * GAP_BYTES + falls * self._frame_bits) * PS_PER_S

    # Cuts

    def _nic(self, host: int, out: bool, flows: Sequence[Flow]) -> _Window:
        link = self._topology.attachment(host)
        edge = self._edges[link.id, host if out else link.other(host)]
        return self._windows([edge], flows)[0]

    def _windows(
        self, edges: Iterable[Edge], flows: Sequence[Flow], length: float = 1
    ) -> list[_Window]:
        """Windows in which some of the flows can use the directions."""
        heads = self._latency.heads({f.src for f in flows})
        tails = self._latency.tails({f.dst for f in flows})
        latency = self._latency
        return [_Window(e, length, latency.head(e, heads), latency.tail(e, tails)) for e in edges]

    def _all_cuts(self, starts: list[int]) -> Iterable[Bound]:
        topology = self._topology
        for out in (True, False):
            verb = "sends" if out else "receives"
            for host in topology.hosts:
                flows = self._crossing({host.id}, out)
                if flows:
                    window = self._nic(host.id, out, flows)
                    yield self._cut("nic", f"{host.name} {verb}", [window], flows, starts)
            for name, switches in self._groups():
                inside = {h.id for s in switches for h in topology.hosts_of(s)}
                flows = self._crossing(inside, out)
                if flows:
                    windows = self._windows(self._boundary(switches, out), flows)
                    yield self._cut("cut", f"{name} {verb}", windows, flows, starts)

    def _groups(self) -> list[tuple[str, set[int]]]:
        groups = [(s.name, {s.id}) for s in self._topology.switches]
        pods: dict[int, set[int]] = {}
        for switch in self._topology.switches:
            if switch.pod is not None:
                pods.setdefault(switch.pod, set()).add(switch.id)
        return groups + [(f"pod {pod}", pods[pod]) for pod in sorted(pods)]

    def _crossing(self, hosts: set[int], out: bool) -> list[Flow]:
        touching = self._sent if out else self._received
        return [
            flow
            for host in sorted(hosts)
            for flow in touching.get(host, ())
            if (flow.dst if out else flow.src) not in hosts
        ]

    def _boundary(self, switches: set[int], out: bool) -> list[Edge]:
        found = []
        for inner in sorted(switches):
            for link in self._topology.ports(inner).values():
                outer = link.other(inner)
                if outer not in switches and not self._topology.by_id(outer).is_host:
                    found.append(self._edges[link.id, inner if out else outer])
        return found

    def _cut(
        self, kind: str, what: str, windows: list[_Window], flows: list[Flow], starts: list[int]
    ) -> Bound:
        """The bound of one cut: for flows that start at or after each time, from then on."""
        times = sorted({starts[f.id] for f in flows})
        if len(times) > _MAX_STARTS:
            times = [times[n * len(times) // _MAX_STARTS] for n in range(_MAX_STARTS)]
        best = 0
        for start in times:
            need = sum(self._bits[f.id] for f in flows if starts[f.id] >= start)
            end = self._solve(windows, start, need * PS_PER_S)
            if end is None:
                raise self._never(flows)
            best = max(best, end)
        return Bound(kind, what, best)

    # Paths

    def _paths(self, starts: list[int], at_least_ps: int) -> Bound | None:
        """The bound by path lengths, chosen for the capacities up to the other bounds' time."""
        topology = self._topology
        demand: dict[tuple[int, int], int] = {}
        flows = []
        for flow in self._flows:
            pair = (topology.switch_of(flow.src).id, topology.switch_of(flow.dst).id)
            if pair[0] != pair[1]:
                demand[pair] = demand.get(pair, 0) + self._bits[flow.id]
                flows.append(flow)
        if not flows:
            return None
        start = min(starts[f.id] for f in flows)
        edges = [e for e in topology.edges if not self._touches_host(e)]
        windows = {(w.edge.link.id, w.edge.src, w.edge.dst): w for w in self._windows(edges, flows)}
        kinds = {arc: self._kind(w) for arc, w in windows.items()}
        some = {kinds[arc]: w for arc, w in windows.items()}
        best: int | None = None
        time_ps = at_least_ps
        # Lengths fit capacities up to a time; a later bound asks for lengths that fit it.
        for _ in range(3):
            carried = {k: self._carried(w, start, time_ps) for k, w in some.items()}
            capacity = {arc: carried[kind] / PS_PER_S for arc, kind in kinds.items()}
            found = best_lengths(capacity, demand)
            if found is None:
                break
            weighted = [replace(w, length=found.lengths[arc]) for arc, w in windows.items()]
            # The factor covers rounding in sums of floats.
            end = self._solve(weighted, start, found.needed * PS_PER_S * (1 - 1e-9))
            if end is None or (best is not None and end <= best):
                break
            best = end
            if end <= time_ps:
                break
            time_ps = end
        return None if best is None else Bound("paths", "all links between switches", best)

    def _touches_host(self, edge: Edge) -> bool:
        return any(self._topology.by_id(n).is_host for n in (edge.src, edge.dst))

    # The common form

    def _carried(self, window: _Window, start: int, time_ps: int) -> int:
        """Most bits x ps / s that a direction can have carried for arrivals by `time_ps`."""
        span = (start + window.head_ps, time_ps - window.tail_ps)
        if span[1] <= span[0]:
            return 0
        return self._capacity.bit_ps(window.edge, *span) + self._slack(window.edge, span[1])

    def _kind(self, window: _Window) -> tuple[object, ...]:
        """Equal for windows that carry the same at all times."""
        return (self._capacity.profile(window.edge), window.head_ps, window.tail_ps)

    def _solve(self, windows: Sequence[_Window], start: int, need: float) -> int | None:
        """Least time by which the directions can have carried `need`; None for never."""
        lengths: dict[tuple[object, ...], list[float]] = {}
        some: dict[tuple[object, ...], _Window] = {}
        for window in windows:
            kind = self._kind(window)
            some.setdefault(kind, window)
            lengths.setdefault(kind, []).append(window.length)
        # Whole sums of ones keep the integers of plain cuts exact.
        weighed = [(_total(lengths[kind]), window) for kind, window in some.items()]

        def enough(time_ps: int) -> bool:
            return sum(n * self._carried(w, start, time_ps) for n, w in weighed) >= need

        low, high = start, max(start, self._horizon) + 1
        # From the horizon on capacity is constant: none at all if days are not enough.
        step = 1_000_000
        while not enough(high):
            if step > _NEVER_PS:
                return None
            low, high, step = high, high + step, step * 2
        while low < high:
            middle = (low + high) // 2
            if enough(middle):
                high = middle
            else:
                low = middle + 1
        return low


def _total(lengths: Sequence[float]) -> float:
    return len(lengths) if set(lengths) == {1} else math.fsum(lengths)
