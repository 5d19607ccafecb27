from controller.paths import LinkState, Paths
from sglb.fabric import generators
from sglb.fabric.topology import LinkSpec, Topology

SPEC = LinkSpec(100, 0)


def names(topology: Topology, switch: str, paths: Paths) -> list[tuple[str, int]]:
    found = paths.members(topology.node(switch).id)
    return [(topology.by_id(m.neighbour).name, m.capacity_bps) for m in found]


def leaf_spine() -> Topology:
    return generators.leaf_spine(3, 2, 1, SPEC, SPEC, 1)


def link(topology: Topology, name: str) -> int:
    return topology.find_links(name)[0].id


def test_leaf_spine_members_and_bottleneck() -> None:
    t = leaf_spine()
    state = LinkState({**LinkState.healthy(t).rate_bps, link(t, "leaf2-spine1"): 50})
    paths = Paths(t, state, t.node("leaf2").id)
    assert names(t, "leaf0", paths) == [("spine0", 100), ("spine1", 50)]
    assert names(t, "spine1", paths) == [("leaf2", 50)]
    assert paths.members(t.node("leaf2").id) == ()


def test_a_spine_without_its_link_is_no_member_and_does_not_go_up_again() -> None:
    t = leaf_spine()
    state = LinkState.healthy(t).without(frozenset({link(t, "leaf2-spine1")}))
    paths = Paths(t, state, t.node("leaf2").id)
    assert names(t, "leaf0", paths) == [("spine0", 100)]
    assert names(t, "spine1", paths) == []
    assert not paths.reachable(t.node("spine1").id)


def test_unreachable() -> None:
    t = leaf_spine()
    cut = frozenset(link(t, f"leaf2-spine{i}") for i in range(2))
    paths = Paths(t, LinkState.healthy(t).without(cut), t.node("leaf2").id)
    assert not paths.reachable(t.node("leaf0").id)
    assert names(t, "leaf0", paths) == []


def test_parallel_links_are_members_each() -> None:
    t = generators.leaf_spine(2, 1, 1, SPEC, SPEC, 2)
    paths = Paths(t, LinkState.healthy(t), t.node("leaf1").id)
    # the spine has 200 toward leaf1, each of leaf0's links carries 100
    assert names(t, "leaf0", paths) == [("spine0", 100), ("spine0", 100)]


def test_clos_goes_up_only_where_it_must() -> None:
    t = generators.clos3(2, 2, 2, 2, 1, SPEC, SPEC)
    leaves = [n for n in t.switches if str(n.kind) == "leaf"]
    same_pod = next(n for n in leaves[1:] if n.pod == leaves[0].pod)
    other_pod = next(n for n in leaves if n.pod != leaves[0].pod)
    near = Paths(t, LinkState.healthy(t), same_pod.id)
    far = Paths(t, LinkState.healthy(t), other_pod.id)
    assert len(near.members(leaves[0].id)) == 2
    spine = near.members(leaves[0].id)[0].neighbour
    assert [m.neighbour for m in near.members(spine)] == [same_pod.id]
    assert len(far.members(spine)) == 2  # its two cores
    core = far.members(spine)[0].neighbour
    assert len(far.members(core)) == 1
    # a leaf's link (100) is the bottleneck of each path through a spine with two cores
    assert [m.capacity_bps for m in far.members(leaves[0].id)] == [100, 100]
