"""Profile allocation against counts and penalties worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglb.fabric.generators import clos3, fat_tree, leaf_spine
from sglb.fabric.topology import LinkSpec, Topology
from sglb.syncmesh.dataplane import POD_SUBJECT
from sglb.syncmesh.profiles import (
    Allocation,
    Assignment,
    HardwareMode,
    ProfileError,
    Unit,
    allocate,
    allocate_units,
    hardware_mode,
)

G = 1_000_000_000
LINK = LinkSpec(400 * G, 500_000)


def members_of(topology: Topology, here: int) -> dict[int, dict[int, int]]:
    """Destination -> port -> capacity in a healthy leaf-spine or fat tree, written down tier by tier."""
    node = topology.by_id(here)
    peers = {p: topology.by_id(lk.other(here)) for p, lk in topology.ports(here).items()}
    above = {"leaf": "spine", "spine": "core", "core": ""}[node.kind]
    up = {p: LINK.rate_bps for p, peer in peers.items() if peer.kind == above}
    found = {}
    for leaf in topology.switches:
        if leaf.kind != "leaf" or leaf.id == here:
            continue
        to_leaf = {p: LINK.rate_bps for p, peer in peers.items() if peer.id == leaf.id}
        to_pod = {p: LINK.rate_bps for p, peer in peers.items() if peer.pod == leaf.pod}
        found[leaf.id] = to_leaf or (to_pod if node.kind == "core" else up)
    return found


def of_switch(topology: Topology, name: str, profiles: int, by_pod: bool = True) -> Allocation:
    here = topology.switch(name).id
    members = members_of(topology, here)
    return allocate(topology, here, profiles=profiles, members=members, by_pod=by_pod)


def leaf_unit(name: int, *ports: int, capacity: int = 1) -> Unit:
    return Unit(name, (name,), dict.fromkeys(ports, capacity))


def test_small_leaf_spine_gives_each_leaf_its_own() -> None:
    topology = leaf_spine(4, 4, 4, LINK, LINK)
    found = of_switch(topology, "leaf0", 64)
    # The other three leaves are switches 2, 3, 4.
    assert [found.of(i) for i in (2, 3, 4)] == [
        Assignment(1, True),
        Assignment(2, True),
        Assignment(3, True),
    ]
    assert (found.used, found.merges, found.penalty) == (3, (), 0.0)


def test_neighbours_need_no_profile() -> None:
    found = of_switch(leaf_spine(4, 4, 4, LINK, LINK), "spine1", 64)
    assert [found.of(i) for i in (1, 2, 3, 4)] == [Assignment(0, True)] * 4
    assert found.used == 0


def test_128_leaves_fit_64_profiles() -> None:
    found = of_switch(leaf_spine(128, 4, 1, LINK, LINK), "leaf0", 64)
    # 127 leaves in 63 profiles: 62 pairs and 3 in one, 62 + 3 pairs of leaves. A path is one of 127 * 4;
    # each pair costs 4 ports * 2 * (1/127 of the destinations * 1/4 of the capacity).
    assert found.used == 63
    assert sorted(len(m.subjects) for m in found.merges) == [2] * 62 + [3]
    assert found.penalty == pytest.approx(float(Fraction(65 * 2, 127 * 127 * 4)))
    assert not any(found.of(leaf).alone for leaf in range(2, 129))
    assert found.summary() == (
        "127 units in 63 of 63 profiles; 127 units merged into 63 profiles, "
        "penalty 0.00202 of the capacity a remote failure"
    )


def test_128_leaves_degrade_in_8_profiles() -> None:
    found = of_switch(leaf_spine(128, 4, 1, LINK, LINK), "leaf0", 8)
    # 127 = 6 * 18 + 19: 6 * 153 + 171 = 1089 pairs.
    assert found.used == 7
    assert sorted(len(m.subjects) for m in found.merges) == [18] * 6 + [19]
    assert found.penalty == pytest.approx(float(Fraction(1089 * 2, 127 * 127 * 4)))


def test_clos_of_k_16_fits_at_every_tier() -> None:
    topology = fat_tree(16, LINK, LINK)
    leaf = of_switch(topology, "leaf0", 64)
    # 7 leaves of the own pod, 15 other pods.
    assert (leaf.units, leaf.used, leaf.penalty) == (22, 22, 0.0)
    assert leaf.of(2).alone
    assert leaf.of(POD_SUBJECT | 1) == Assignment(leaf.of(9).profile, True)
    # leaf8 to leaf15 (switches 9 to 16) are pod 1; one of them down is not the pod down.
    assert {leaf.of(i) for i in range(9, 17)} == {Assignment(leaf.of(9).profile, False)}
    assert len({leaf.of(POD_SUBJECT | pod).profile for pod in range(1, 16)}) == 15

    spine = of_switch(topology, "spine0", 64)
    assert (spine.units, spine.used, spine.penalty) == (15, 15, 0.0)
    assert spine.of(1) == Assignment(0, True)

    core = of_switch(topology, "core0", 64)
    # 128 leaves, each behind its pod's one port: 8 profiles, and each leaf alone on its port.
    assert (core.units, core.used, core.penalty) == (128, 8, 0.0)
    assert all(core.of(i).alone for i in range(1, 129))


def test_clos_of_k_16_degrades_in_8_profiles() -> None:
    found = of_switch(fat_tree(16, LINK, LINK), "leaf0", 8)
    # All 22 units use all 8 ports, so n units that stand for m leaves cost (n - 1) * m / 127 / (22 * 8).
    # Least: the 7 leaves in one profile (6 * 7), the pods as 3+3+3+2+2+2 (3 * 2 * 24 + 3 * 1 * 16).
    assert found.used == 7
    assert found.penalty == pytest.approx(float(Fraction(42 + 144 + 48, 127 * 176)))


def test_core_degrades_in_4_profiles() -> None:
    found = of_switch(clos3(4, 4, 2, 2, 1, LINK, LINK), "core0", 4)
    # 4 pods of 4 leaves in 3 profiles: in each pod one pair of leaves shares its single port.
    assert found.used == 3
    assert found.penalty == pytest.approx(4 * 2 / 16 / 16)
    assert sum(found.of(leaf).alone for leaf in range(1, 17)) == 8


def test_pods_can_be_taken_apart() -> None:
    found = of_switch(clos3(2, 2, 2, 2, 1, LINK, LINK), "leaf0", 64, by_pod=False)
    assert [found.of(i) for i in (2, 3, 4)] == [
        Assignment(1, True),
        Assignment(2, True),
        Assignment(3, True),
    ]
    with pytest.raises(ProfileError, match="no profile was allocated for pod 1"):
        found.of(POD_SUBJECT | 1)


def test_unequal_paths_weigh_what_they_carry() -> None:
    units = [
        Unit(1, (1,), {1: 300, 2: 100}),
        Unit(2, (2,), {1: 300, 2: 100}),
        Unit(3, (3,), {2: 100, 3: 300}),
    ]
    found = allocate_units(units, profiles=3)
    # 6 paths. 1 and 2 share both ports: 2/3/6. Either with 3 shares port 2 only: 2 * (1/4)/3/6.
    assert found.penalty == pytest.approx(2 / 4 / 3 / 6)
    assert found.of(1).profile != found.of(2).profile
    assert found.merges[0].subjects in ((1, 3), (2, 3))


def test_leaves_wired_otherwise_stand_for_themselves() -> None:
    topology = clos3(2, 3, 2, 1, 1, LINK, LINK)
    # Switches 4, 5, 6 are pod 1; 6 is reached through one port only.
    both, one = {2: G, 3: G}, {2: G}
    found = allocate(topology, 1, profiles=8, members={2: both, 3: both, 4: both, 5: both, 6: one})
    assert found.of(POD_SUBJECT | 1).profile == found.of(4).profile == found.of(5).profile
    assert found.of(6).profile not in (0, found.of(4).profile)
    assert found.of(6).alone


def test_with_the_neutral_profile_alone_nothing_is_kept() -> None:
    found = of_switch(leaf_spine(4, 2, 1, LINK, LINK), "leaf0", 1)
    assert found.unheard == (2, 3, 4)
    assert found.of(2) == Assignment(0, False)
    assert found.summary().endswith("no room for remote state at all")


@pytest.mark.parametrize(
    ("ports", "mode"),
    [
        (32, HardwareMode(2048, 32)),
        (33, HardwareMode(1024, 64)),
        (64, HardwareMode(1024, 64)),
        (65, HardwareMode(64, 512)),
        (512, HardwareMode(64, 512)),
    ],
)
def test_hardware_modes(ports: int, mode: HardwareMode) -> None:
    assert hardware_mode(ports) == mode


def test_what_cannot_be_allocated() -> None:
    with pytest.raises(ProfileError, match="for 513 ports"):
        hardware_mode(513)
    with pytest.raises(ProfileError, match="at least the neutral profile, got 0"):
        allocate_units([], profiles=0)
    with pytest.raises(ProfileError, match="switch id 32768 is too large"):
        allocate(leaf_spine(2, 1, 1, LINK, LINK), 1, profiles=4, members={32768: {2: G}})
    with pytest.raises(ProfileError, match="switch 7 has a member without capacity"):
        allocate_units([leaf_unit(7, 1, capacity=0)], profiles=4)


def pair_cost(a: Unit, b: Unit, destinations: int, paths: int) -> Fraction:
    """The formula of the module's text, once more and plainly."""
    total = Fraction()
    for u in (a, b):
        for port in a.capacity_bps.keys() & b.capacity_bps.keys():
            share = Fraction(u.capacity_bps[port], sum(u.capacity_bps.values()))
            total += share * Fraction(len(u.leaves), destinations) / paths
    return total


units_strategy = st.lists(
    st.dictionaries(st.integers(1, 12), st.integers(1, 4), min_size=1, max_size=5),
    min_size=1,
    max_size=14,
).map(lambda lists: [Unit(i, (i,), ports) for i, ports in enumerate(lists, start=1)])


@settings(deadline=None)
@given(units_strategy, st.integers(2, 8))
def test_invariants(units: list[Unit], profiles: int) -> None:
    found = allocate_units(units, profiles=profiles)
    by_profile: dict[int, list[Unit]] = {}
    for unit in units:
        by_profile.setdefault(found.of(unit.name).profile, []).append(unit)
    assert set(by_profile) == set(range(1, found.used + 1))
    assert found.used <= profiles - 1
    paths = sum(len(u.capacity_bps) for u in units)
    penalty = Fraction()
    for profile, group in by_profile.items():
        for unit in group:
            others = [o for o in group if o is not unit]
            meets = any(o.capacity_bps.keys() & unit.capacity_bps.keys() for o in others)
            assert found.of(unit.name).alone is not meets
            penalty += sum(pair_cost(unit, o, len(units), paths) for o in others) / 2
        assert any(m.profile == profile for m in found.merges) is not all(
            found.of(u.name).alone for u in group
        )
    assert found.penalty == pytest.approx(float(penalty))
    assert allocate_units(list(reversed(units)), profiles=profiles) == found


@settings(deadline=None)
@given(units_strategy)
def test_more_profiles_never_cost_more_than_one(units: list[Unit]) -> None:
    most = allocate_units(units, profiles=2).penalty
    assert all(allocate_units(units, profiles=k).penalty <= most + 1e-12 for k in (3, 5, 9))
    busiest = max(sum(p in u.capacity_bps for u in units) for p in range(1, 13))
    assert allocate_units(units, profiles=len(units) + 1).penalty == 0.0
    assert allocate_units(units, profiles=len(units) + 1).used >= busiest
