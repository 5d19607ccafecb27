"""Faults, capacities over time and dead next hops, against values worked out by hand."""

from __future__ import annotations

from sglb.fabric.faults import (
    CapacityTimeline,
    DeadHop,
    FabricState,
    Fault,
    FaultKind,
    Flap,
    dead_hops,
    next_hops,
    state_at,
)
from sglb.fabric.generators import fat_tree, leaf_spine
from sglb.fabric.topology import LinkSpec, Topology

G = 1_000_000_000
FAST = LinkSpec(100 * G, 500_000)


def _small() -> Topology:
    return leaf_spine(2, 2, 1, FAST, FAST)


def _down(topo: Topology, at_ps: int, name: str) -> Fault:
    return Fault(at_ps, FaultKind.LINK_DOWN, name, topo.find_links(name))


def _up(topo: Topology, at_ps: int, name: str) -> Fault:
    return Fault(at_ps, FaultKind.LINK_UP, name, topo.find_links(name))


def test_link_and_switch_faults_overlap_without_forgetting_each_other() -> None:
    topo = _small()
    (link,) = topo.find_links("leaf0-spine0")
    spine = topo.switch("spine0").id
    faults = [
        _down(topo, 10, "leaf0-spine0"),
        Fault(20, FaultKind.SWITCH_DOWN, "spine0", switch_id=spine),
        Fault(30, FaultKind.SWITCH_UP, "spine0", switch_id=spine),
        _up(topo, 40, "leaf0-spine0"),
    ]
    assert [state_at(topo, faults, t).carrier(link) for t in (9, 10, 25, 35, 40)] == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert not state_at(topo, faults, 20).switch_up(spine)
    (other,) = topo.find_links("leaf1-spine0")
    assert [state_at(topo, faults, t).carrier(other) for t in (15, 25, 35)] == [True, False, True]


def test_black_hole_swallows_one_way_and_leaves_carrier() -> None:
    topo = _small()
    there, back = topo.find_edges("leaf0-spine0")
    faults = [
        Fault(5, FaultKind.BLACKHOLE, "x", edges=topo.find_edges("leaf0->spine0")),
        Fault(9, FaultKind.HEAL, "x", edges=topo.find_edges("leaf0->spine0")),
    ]
    state = state_at(topo, faults, 5)
    assert (state.carrier(there.link), state.delivers(there), state.delivers(back)) == (
        True,
        False,
        True,
    )
    assert (state.edge_rate_bps(there), state.edge_rate_bps(back)) == (0, 100 * G)
    assert state_at(topo, faults, 9).delivers(there)


def test_capacity_over_time_is_exact() -> None:
    topo = _small()
    there, back = topo.find_edges("leaf0-spine0")
    (link,) = topo.find_links("leaf0-spine0")
    capacity = CapacityTimeline(
        topo,
        [
            Fault(0, FaultKind.LINK_RATE, "r", (link,), 50 * G),
            _down(topo, 100, "leaf0-spine0"),
            Fault(150, FaultKind.LINK_RATE, "r", (link,), 25 * G),
            _up(topo, 200, "leaf0-spine0"),
        ],
    )
    assert capacity.steps(there) == {0: 50 * G, 100: 0, 200: 25 * G}
    assert capacity.bit_ps(back, 40, 260) == 60 * 50 * G + 60 * 25 * G
    assert [capacity.rate_bps(there, t) // G for t in (0, 99, 100, 199, 200)] == [50, 50, 0, 0, 25]
    assert (capacity.decreases(there, 99), capacity.decreases(there, 100)) == (0, 1)
    assert capacity.best_rate_bps(there) == 50 * G
    assert capacity.changes_ps() == [0, 100, 200]


def test_time_to_carry_waits_through_outages() -> None:
    topo = _small()
    there, _ = topo.find_edges("leaf0-spine0")
    faults = [_down(topo, 100, "leaf0-spine0"), _up(topo, 200, "leaf0-spine0")]
    capacity = CapacityTimeline(topo, faults)
    per_ps = 100 * G
    assert capacity.time_to_carry(there, 0, 100 * per_ps) == 100
    assert capacity.time_to_carry(there, 40, 60 * per_ps) == 100
    assert capacity.time_to_carry(there, 40, 60 * per_ps + 1) == 201
    assert capacity.time_to_carry(there, 150, per_ps) == 201
    assert capacity.time_to_carry(there, 300, 7 * per_ps) == 307
    assert CapacityTimeline(topo, faults[:1]).time_to_carry(there, 99, 2 * per_ps) is None


def test_next_hops_of_leaf_spine() -> None:
    topo = leaf_spine(3, 2, 1, FAST, FAST)
    hops = next_hops(topo)
    leaf0, leaf1, leaf2, spine0, spine1 = (s.id for s in topo.switches)
    assert hops[leaf0, leaf2] == {2, 3}
    assert hops[spine0, leaf1] == {2}
    assert len(hops) == 3 * 4
    assert (leaf0, spine1) not in hops


def test_flap_spelled_out() -> None:
    topo = _small()
    links = topo.find_links("leaf0-spine0")
    assert [(f.time_ps, f.kind) for f in Flap("x", links, 100, 7, 13, 2).faults()] == [
        (100, FaultKind.LINK_DOWN),
        (107, FaultKind.LINK_UP),
        (120, FaultKind.LINK_DOWN),
        (127, FaultKind.LINK_UP),
    ]


def test_dead_hops_of_a_cut_in_leaf_spine() -> None:
    topo = leaf_spine(3, 2, 1, FAST, FAST)
    leaf0, leaf1, leaf2, spine0, _ = (s.id for s in topo.switches)
    assert dead_hops(FabricState(topo)) == frozenset()
    # Leaf ports: 1 host, 2 spine0, 3 spine1; spine ports: 1..3 to leaf0..2.
    assert dead_hops(state_at(topo, [_down(topo, 0, "leaf1-spine0")], 0)) == {
        DeadHop(spine0, 2, leaf1),  # the far end of the cut
        DeadHop(leaf0, 2, leaf1),  # remote: through spine0 there is no way to leaf1 any more
        DeadHop(leaf2, 2, leaf1),
        DeadHop(leaf1, 2, leaf0),  # local: leaf1's own uplink
        DeadHop(leaf1, 2, leaf2),
    }


def test_dead_hops_of_a_core_cut_reach_other_pods_only_through_it() -> None:
    topo = fat_tree(4, FAST, FAST)
    dead = dead_hops(state_at(topo, [_down(topo, 0, "spine0-core0")], 0))
    name = {s.id: s.name for s in topo.switches}
    # spine0 has core1 left, so no leaf of its pod loses a next hop; core0 cannot reach pod 0,
    # and the spines of plane 0 in pods 1..3 must not use core0 for pod 0's leaves.
    assert {name[d.switch_id] for d in dead} == {"spine0", "core0", "spine2", "spine4", "spine6"}
    from_spine2 = {name[d.dest_switch_id] for d in dead if name[d.switch_id] == "spine2"}
    assert from_spine2 == {"leaf0", "leaf1"}
    from_spine0 = {name[d.dest_switch_id] for d in dead if name[d.switch_id] == "spine0"}
    assert from_spine0 == {f"leaf{i}" for i in range(2, 8)}
