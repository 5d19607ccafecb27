"""Lower bounds against formulas worked out by hand, and against what hosts really do."""

from __future__ import annotations

import random

import pytest
from fabric_pipe import Pipe
from hypothesis import given, settings
from hypothesis import strategies as st

from sglb.fabric import collectives, generators, workload
from sglb.fabric.bounds import BoundError, BoundViolation, LowerBound, lower_bound, wire_bits
from sglb.fabric.concurrent import best_lengths
from sglb.fabric.events import EventLog, FlowCompleted
from sglb.fabric.faults import Fault, FaultKind
from sglb.fabric.moe import MoeShape, moe
from sglb.fabric.qp import TransportConfig
from sglb.fabric.topology import LinkSpec, Topology, TopologyBuilder
from sglb.fabric.traffic import TrafficDriver
from sglb.fabric.workload import Flow, Workload

G = 1_000_000_000
FAST = LinkSpec(100 * G, 500_000)
PIPELINE_PS = 1_000_000
TRANSPORT = TransportConfig(mtu_bytes=4096)
# One packet: 4178 bytes on the wire, 334.24 ns; without the gap after it, 333.28 ns.
WIRE_PS, HOP_PS, GAP_PS = 334_240, 333_280, 960
# After the last bit left the NIC: 3 links more to send, 4 to fly, 3 pipelines.
TAIL_PS = 3 * HOP_PS + 4 * 500_000 + 3 * PIPELINE_PS


def _fabric(fabric: LinkSpec = FAST) -> Topology:
    return generators.leaf_spine(4, 4, 4, FAST, fabric)


def _all_to_all(topology: Topology, packets: int) -> Workload:
    return collectives.all_to_all([h.id for h in topology.hosts], packets * 4096)


def _bound(topology: Topology, work: Workload, *faults: Fault) -> LowerBound:
    return lower_bound(topology, faults, work, TRANSPORT, PIPELINE_PS)


def _of(bound: LowerBound, kind: str) -> int:
    (found,) = [b.time_ps for b in bound.bounds if b.kind == kind]
    return found


def _halved(topology: Topology, *names: str) -> list[Fault]:
    links = [link for name in names for link in topology.find_links(name)]
    return [Fault(0, FaultKind.LINK_RATE, "half", tuple(links), 50 * G)]


def test_wire_bits_by_hand() -> None:
    size = 2 * 4096 + 5
    # Last packet: 5 bytes padded to 8, 58 + 8 + 24 = 90 bytes.
    assert wire_bits(size, TRANSPORT) == 8 * (2 * 4178 + 90)
    assert wire_bits(size, TransportConfig(ip_version=6)) == 8 * (2 * 4198 + 110)


def test_healthy_all_to_all_is_bound_by_the_nic() -> None:
    topology = _fabric()
    bound = _bound(topology, _all_to_all(topology, 10))
    # 15 peers x 10 packets out of one NIC; the receiver of the last may sit on the same leaf:
    # then one link more to send, two to fly, one pipeline.
    same_leaf = HOP_PS + 2 * 500_000 + PIPELINE_PS
    assert _of(bound, "nic") == 150 * WIRE_PS - GAP_PS + same_leaf
    # A leaf: 4 hosts x 12 peers elsewhere over 4 uplinks, after the hop to the leaf.
    head = HOP_PS + 500_000 + PIPELINE_PS
    tail = 500_000 + PIPELINE_PS + (HOP_PS + 500_000 + PIPELINE_PS) + (HOP_PS + 500_000)
    assert _of(bound, "cut") == 120 * WIRE_PS - GAP_PS + head + tail
    assert bound.binding.kind == "nic"
    assert bound.completion_ps == bound.binding.time_ps
    # The textbook form, (N-1) m / (eta B), is just below.
    textbook = 15 * 40_960 * 8 / (100 * G) / (4096 / 4178)
    assert bound.completion_ps / 1e12 == pytest.approx(textbook, rel=0.06)
    assert bound.completion_ps / 1e12 > textbook


def test_half_rate_uplinks_make_the_leaf_bind() -> None:
    topology = _fabric()
    faults = _halved(topology, "leaf0-spine0", "leaf0-spine1", "leaf0-spine2")
    bound = _bound(topology, _all_to_all(topology, 100), *faults)
    # 48 pairs x 100 packets over 1 + 3 x 0.5 links, instead of 1500 packets over a NIC; each of
    # the four links may save a gap of 12 bytes. 250 Gbit/s take 4 ps a bit.
    sending = (4800 * 4178 - 4 * 12) * 8 * 4
    head = HOP_PS + 500_000 + PIPELINE_PS
    tail = 500_000 + PIPELINE_PS + (HOP_PS + 500_000 + PIPELINE_PS) + (HOP_PS + 500_000)
    assert _of(bound, "cut") == head + sending + tail
    assert bound.binding.kind == "cut"
    assert bound.binding.what in ("leaf0 sends", "leaf0 receives")


def test_one_half_rate_link_leaves_the_nic_binding() -> None:
    topology = _fabric()
    bound = _bound(topology, _all_to_all(topology, 10), *_halved(topology, "leaf0-spine1"))
    # 48 pairs over 3.5 links = 13.7 NIC times, less than 15.
    assert bound.binding.kind == "nic"


def test_a_cut_counts_only_while_it_lasts() -> None:
    topology = generators.leaf_spine(2, 1, 1, FAST, FAST)
    h0, h1 = (h.id for h in topology.hosts)
    work = Workload("w", (Flow(0, h0, h1, 100 * 4096),))
    (link,) = topology.find_links("leaf0-spine0")
    down = Fault(10_000_000, FaultKind.LINK_DOWN, "x", (link,))
    up = Fault(60_000_000, FaultKind.LINK_UP, "x", (link,))
    healthy = _bound(topology, work).completion_ps
    assert healthy == 100 * WIRE_PS - GAP_PS + TAIL_PS
    # 50 us of outage on the only path; one frame under way may slip through.
    faulty = _bound(topology, work, down, up).completion_ps
    assert healthy + 50_000_000 - WIRE_PS - GAP_PS <= faulty <= healthy + 50_000_000
    with pytest.raises(BoundError, match="flow from h0 to h1 is cut off for good"):
        _bound(topology, work, down)


def test_ring_all_reduce_is_a_chain() -> None:
    topology = _fabric()
    hosts = [h.id for h in topology.hosts]
    bound = _bound(topology, collectives.ring_all_reduce(hosts, 16 * 4096))
    # 30 steps; along a ring through 4 leaves of 4 a chunk crosses between leaves every fourth
    # time, but some other chunk does in every step, so the longest chain takes what its own
    # links are: 30 steps hold 7 or 8 crossings, 8 at best for the slowest.
    near = WIRE_PS - GAP_PS + HOP_PS + 2 * 500_000 + PIPELINE_PS
    far = WIRE_PS - GAP_PS + TAIL_PS
    assert _of(bound, "chain") == 22 * near + 8 * far
    assert bound.binding.kind == "chain"
    assert "30 flows in a row" in bound.binding.what


def test_a_delay_after_a_flow_and_a_tail_count() -> None:
    topology = _fabric()
    a, b = (h.id for h in topology.hosts[:2])
    flows = (Flow(0, a, b, 4096, 50), Flow(1, b, a, 4096, 50, (0,), 1, 3_000))
    bound = _bound(topology, Workload("w", flows, lead_ps=40, tail_ps=500))
    once = WIRE_PS - GAP_PS + HOP_PS + 2 * 500_000 + PIPELINE_PS
    assert bound.start_ps == 10
    assert bound.completion_ps == 40 + 2 * once + 3_000 + 500


def test_double_tree_is_bound_by_inner_ranks() -> None:
    """An inner rank sends to a parent and two children in one tree, and as a leaf in the other."""
    topology = _fabric()
    hosts = [h.id for h in topology.hosts]
    chunks = 50
    work = collectives.tree_all_reduce(hosts, 2 * chunks * 4096, 4096)
    bound = _bound(topology, work)
    # 4 halves of 50 chunks: one up, two down, one as a leaf. Rank 2 hangs on leaf0 as does its parent.
    assert chunks * 4 * WIRE_PS < bound.completion_ps < chunks * 4 * WIRE_PS + 20 * TAIL_PS


def test_rails_spread_an_all_to_all_over_their_leaves() -> None:
    topology = generators.rail_optimised(4, 2, 4, 1, FAST, FAST)
    hosts = [h.id for h in topology.hosts]
    machines = collectives.Machines(2, 8_000_000_000_000)
    work = collectives.all_to_all(hosts, 10 * 4096, 0, machines, rail_aware=True)
    bound = _bound(topology, work)
    # (N - g) m through each NIC, (g-1) (N/g) m over NVLink first; every rail has one leaf.
    lead = 4 * 10 * 4096
    assert bound.completion_ps == lead + 60 * WIRE_PS - GAP_PS + HOP_PS + 2 * 500_000 + PIPELINE_PS
    assert bound.binding.kind == "nic"


def test_broadcast_is_a_chain_of_chunks() -> None:
    topology = generators.leaf_spine(1, 1, 3, FAST, FAST)
    hosts = [h.id for h in topology.hosts]
    bound = _bound(topology, collectives.broadcast(hosts, hosts[0], 10 * 4096, 4096))
    hop = HOP_PS + 2 * 500_000 + PIPELINE_PS
    # The last host cannot receive before the first chunk has gone two hops; then 9 more chunks come.
    once = WIRE_PS - GAP_PS + hop
    assert bound.completion_ps == once + 10 * WIRE_PS - GAP_PS + hop


def test_incast_is_bound_by_the_receiver() -> None:
    topology = _fabric()
    h = [host.id for host in topology.hosts]
    bound = _bound(topology, workload.incast(h[0], h[4:12], 10 * 4096))
    # 8 senders x 10 packets into one NIC, the first after three hops to h0's leaf.
    head = 3 * (HOP_PS + 500_000 + PIPELINE_PS)
    assert _of(bound, "nic") == head + 80 * WIRE_PS - GAP_PS + 500_000
    assert bound.binding.what == "h0 receives"


def test_later_flows_cannot_use_earlier_time() -> None:
    topology = _fabric()
    h = [host.id for host in topology.hosts]
    late = 1_000_000_000
    work = workload.flow_list([(h[0], h[1], 4096, 0), (h[0], h[2], 40_960, late)])
    bound = _bound(topology, work)
    assert bound.start_ps == 0
    same_leaf = HOP_PS + 2 * 500_000 + PIPELINE_PS
    assert bound.completion_ps == late + 10 * WIRE_PS - GAP_PS + same_leaf


def test_path_lengths_see_what_no_cut_sees() -> None:
    # K2,3 with demands between all pairs of one side's three and the other side's two: every cut
    # could do it in time 1, but 8 demands (with both directions 8 x 2 hops) over 12 directions
    # of capacity 1 need 16/12 (Okamura and Seymour, J. Comb. Theory B 31, 1981).
    build = TopologyBuilder()
    names = {"a": ["s", "t"], "b": ["s", "t"], "c": ["s", "t"]}
    for name in "abcst":
        build.switch(name)
        build.host(f"h{name}")
        build.link(f"h{name}", name, LinkSpec(1000 * G, 0))
    for name, peers in names.items():
        for peer in peers:
            build.link(name, peer, LinkSpec(100 * G, 0))
    topology = build.build()
    pairs = [("s", "t"), ("a", "b"), ("b", "c"), ("a", "c")]
    both = pairs + [(y, x) for x, y in pairs]
    ids = [(topology.host(f"h{x}").id, topology.host(f"h{y}").id) for x, y in both]
    work = workload.flow_list((x, y, 1000 * 4096, 0) for x, y in ids)
    bound = lower_bound(topology, [], work, TRANSPORT, 0)
    unit = 1000 * WIRE_PS
    assert _of(bound, "cut") == pytest.approx(unit, rel=0.003)
    assert _of(bound, "paths") == pytest.approx(unit * 4 / 3, rel=0.003)
    assert bound.binding.kind == "paths"


def test_lengths_converge_where_the_thin_arc_decides() -> None:
    # 1 -> 2 directly (capacity 1) or over 3 (capacity 3): 8 bits need time 2 = 8 / (1 + 3).
    capacity = {(0, 1, 2): 1.0, (1, 1, 3): 3.0, (2, 3, 2): 30.0}
    found = best_lengths(capacity, {(1, 2): 8})
    assert found is not None
    ratio = found.needed / sum(found.lengths[a] * c for a, c in capacity.items())
    assert ratio == pytest.approx(2.0, rel=0.03)
    assert ratio <= 2.0 + 1e-9
    assert best_lengths(capacity, {(2, 1): 8}) is None


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_no_lengths_ever_claim_more_than_a_routing_that_exists(seed: int) -> None:
    """Weak duality: shortest-path routing in one piece takes at least as long as the claim."""
    rng = random.Random(seed)
    nodes = range(1, 7)
    arcs = [(i, *rng.sample(nodes, 2)) for i in range(14)]
    capacity = {arc: rng.choice([0.5, 1.0, 4.0]) for arc in arcs}
    demand = {tuple(rng.sample(nodes, 2)): rng.randint(1, 9) for _ in range(4)}
    found = best_lengths(capacity, demand)
    if found is None:
        return
    hops: dict[int, list[tuple[int, int, int]]] = {}
    for arc in arcs:
        hops.setdefault(arc[1], []).append(arc)
    load = dict.fromkeys(arcs, 0.0)
    for (src, dst), bits in demand.items():
        paths: list[list[tuple[int, int, int]]] = [[]]
        ends = {src}
        queue = [(src, paths[0])]
        while queue:
            at, path = queue.pop(0)
            if at == dst:
                for arc in path:
                    load[arc] += bits
                break
            for arc in hops.get(at, []):
                if arc[2] not in ends:
                    ends.add(arc[2])
                    queue.append((arc[2], [*path, arc]))
    took = max(load[arc] / capacity[arc] for arc in arcs)
    claim = found.needed / sum(found.lengths[a] * capacity[a] for a in arcs)
    assert claim <= took * (1 + 1e-9)


def test_a_measurement_below_the_bound_is_an_error() -> None:
    topology = _fabric()
    bound = _bound(topology, _all_to_all(topology, 10))
    bound.check(bound.completion_ps)
    with pytest.raises(BoundViolation, match=r"is below the lower bound of \d+ ps \(nic: h\d+"):
        bound.check(bound.completion_ps - 1)


_KINDS = ("a2a", "ring", "incast", "perm", "tree", "broadcast", "moe")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(_KINDS))
def test_hosts_on_a_perfect_wire_come_close_but_never_below(seed: int, kind: str) -> None:
    """Hosts on one switch: an ideal pipe takes as long as that switch would at the least."""
    rng = random.Random(seed)
    count = rng.randint(2, 5)
    size = rng.randint(count, 60_000)
    topology = generators.leaf_spine(1, 1, count, FAST, FAST)
    hosts = [h.id for h in topology.hosts]
    work = {
        "a2a": lambda: collectives.all_to_all(hosts, size),
        "ring": lambda: collectives.ring_all_reduce(hosts, size),
        "incast": lambda: workload.incast(hosts[0], hosts[1:], size),
        "perm": lambda: workload.permutation(hosts, size, rng),
        "tree": lambda: collectives.tree_all_reduce(hosts, size, 5_000),
        "broadcast": lambda: collectives.broadcast(hosts, hosts[-1], size, 5_000),
        "moe": lambda: moe(hosts, MoeShape(40, 300, count, 1), rng),
    }[kind]()
    bound = _bound(topology, work)
    smallest = min((f.size_bytes - 1) % 4096 + 1 for f in work.flows)
    hop = -(-(58 + smallest + -smallest % 4 + 12) * 80 // 1)  # ps at 100 Gbit/s
    latency = hop + 2 * 500_000 + PIPELINE_PS
    pipe = Pipe(lambda frame: [latency], TRANSPORT, count=count)
    log = EventLog()
    driver = TrafficDriver(work, pipe.hosts, pipe.clock, log)
    driver.start()
    pipe.clock.run(until_ps=10**12)
    measured = max(e.time_ps for e in log.of(FlowCompleted))
    if kind not in ("incast", "tree", "moe"):  # the pipe lets many senders at a receiver at once
        bound.check(measured)
    assert measured > 0


def test_large_fabrics_take_no_time() -> None:
    topology = generators.fat_tree(6, FAST, FAST)
    hosts = [h.id for h in topology.hosts]
    bound = _bound(topology, workload.permutation(hosts, 4096, random.Random(1)))
    assert {b.kind for b in bound.bounds} == {"nic", "cut", "paths", "chain"}
