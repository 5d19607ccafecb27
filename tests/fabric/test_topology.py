"""Topologies: numbering, addresses and names, against counts and layouts worked out by hand."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import networkx as nx
import pytest

from sglb.fabric.generators import clos3, fat_tree, leaf_spine, rail_optimised
from sglb.fabric.topology import LinkSpec, NodeKind, TopologyBuilder, TopologyError

FAST = LinkSpec(rate_bps=100_000_000_000, delay_ps=500_000)
SLOW = LinkSpec(rate_bps=25_000_000_000, delay_ps=100_000)


def test_leaf_spine_numbers_nodes_and_ports_as_documented() -> None:
    topo = leaf_spine(2, 3, 2, SLOW, FAST)
    assert [(n.id, n.name, n.kind) for n in topo.nodes] == [
        (1, "leaf0", NodeKind.LEAF),
        (2, "leaf1", NodeKind.LEAF),
        (3, "spine0", NodeKind.SPINE),
        (4, "spine1", NodeKind.SPINE),
        (5, "spine2", NodeKind.SPINE),
        (6, "h0", NodeKind.HOST),
        (7, "h1", NodeKind.HOST),
        (8, "h2", NodeKind.HOST),
        (9, "h3", NodeKind.HOST),
    ]
    leaf1 = topo.switch("leaf1").id
    assert {p: topo.by_id(link.other(leaf1)).name for p, link in topo.ports(leaf1).items()} == {
        1: "h2",
        2: "h3",
        3: "spine0",
        4: "spine1",
        5: "spine2",
    }
    spine2 = topo.switch("spine2").id
    assert [(p, lk.name) for p, lk in topo.ports(spine2).items()] == [
        (1, "leaf0-spine2"),
        (2, "leaf1-spine2"),
    ]
    assert (topo.link_at(leaf1, 1).spec, topo.link_at(leaf1, 3).spec) == (SLOW, FAST)
    assert topo.link_at(leaf1, 5).port(spine2) == 2


def test_host_addresses_come_from_the_switch_id_and_the_place_on_it() -> None:
    topo = leaf_spine(2, 1, 2, FAST, FAST)
    h3 = topo.host("h3")
    address = topo.address(h3.id)
    assert (h3.id, topo.switch_of(h3.id).id) == (7, 2)
    assert address.mac == bytes.fromhex("020000000007")
    assert address.ipv4 == IPv4Address("10.0.2.2")
    assert address.ipv6 == IPv6Address("fd53:474c:4200:2::2")
    assert address.ipv4 in topo.prefix4(2)
    assert str(topo.prefix4(0x0103)) == "10.1.3.0/24"
    assert str(topo.prefix6(2)) == "fd53:474c:4200:2::/64"


def test_fat_tree_has_the_published_counts_and_planes() -> None:
    topo = fat_tree(4, SLOW, FAST)
    kinds = [n.kind for n in topo.nodes]
    assert [kinds.count(k) for k in (NodeKind.LEAF, NodeKind.SPINE, NodeKind.CORE)] == [8, 8, 4]
    assert (len(topo.hosts), len(topo.links)) == (16, 16 + 16 + 16)
    # Spine 1 of every pod (spine1, spine3, ..) meets plane 1: core2 and core3.
    for j in (1, 3, 5, 7):
        peers = {
            topo.by_id(link.other(topo.switch(f"spine{j}").id)).name
            for link in topo.ports(topo.switch(f"spine{j}").id).values()
        }
        assert {p for p in peers if p.startswith("core")} == {"core2", "core3"}
    assert topo.switch("leaf5").pod == 2
    assert topo.switch("core0").pod is None
    assert nx.diameter(nx.Graph(topo.switch_graph())) == 4


def test_clos3_of_unequal_sizes() -> None:
    topo = clos3(3, 2, 4, 1, 5, SLOW, FAST)
    assert (len(topo.switches), len(topo.hosts)) == (6 + 12 + 4, 30)
    assert len(topo.links) == 30 + 6 * 4 + 12


def test_fat_tree_refuses_odd_k() -> None:
    with pytest.raises(TopologyError, match="k of a fat tree must be even and at least 2, got 5"):
        fat_tree(5, FAST, FAST)


def test_parallel_links_are_a_bundle_with_numbered_members() -> None:
    topo = leaf_spine(1, 1, 1, FAST, FAST, links_per_pair=2)
    assert [link.name for link in topo.find_links("spine0-leaf0")] == [
        "leaf0-spine0#1",
        "leaf0-spine0#2",
    ]
    (second,) = topo.find_links("leaf0-spine0#2")
    assert (second.a_port, second.b_port) == (3, 2)
    assert topo.graph().number_of_edges(1, 2) == 2
    assert [(e.src, e.dst, e.link.id) for e in topo.find_edges("spine0->leaf0")] == [
        (2, 1, 1),
        (2, 1, 2),
    ]
    assert [e.key for e in topo.find_edges("leaf0-spine0#1")] == [(1, 1), (1, 2)]


def test_names_that_are_not_there_name_their_nearest_neighbour() -> None:
    topo = leaf_spine(2, 2, 1, FAST, FAST)
    with pytest.raises(TopologyError, match=r"no link 'leaf0-spin1' .*did you mean leaf0-spine1\?"):
        topo.find_links("leaf0-spin1")
    with pytest.raises(TopologyError, match=r"no node 'lef1' .*did you mean leaf1\?"):
        topo.node("lef1")
    with pytest.raises(TopologyError, match="no host 'leaf0' in the topology; leaf0 is a leaf"):
        topo.host("leaf0")
    # Both nodes exist, so it is no slip of the pen: only the links that there are can help.
    of_leaf0 = r"'leaf0-leaf1' in the topology; leaf0 has leaf0-h0, leaf0-spine0, leaf0-spine1$"
    with pytest.raises(TopologyError, match=of_leaf0):
        topo.find_edges("leaf0->leaf1")
    with pytest.raises(TopologyError, match=r"'leaf0-x' in the topology; leaf0 has leaf0-h0, "):
        topo.find_links("leaf0-x")
    with pytest.raises(TopologyError, match=r"did you mean leaf0-spine1\?"):
        topo.find_links("leaf0-spine1#2")
    with pytest.raises(TopologyError, match=r"did you mean leaf0-spine1\?"):
        topo.find_links("laef0-spine1")
    with pytest.raises(TopologyError, match=r"'leaf0' in the topology; leaf0 has leaf0-h0, "):
        topo.find_links("leaf0")
    many = leaf_spine(1, 20, 1, FAST, FAST)
    with pytest.raises(TopologyError, match=r"; leaf0 has .*leaf0-spine14, and 5 more$"):
        many.find_links("leaf0-leaf0")


def test_explicit_topology_infers_tiers_and_finds_what_is_cut_off() -> None:
    build = TopologyBuilder()
    for name in ("a", "b", "c"):
        build.switch(name)
    for name in ("x", "y"):
        build.host(name)
    build.link("a", "b", FAST)
    build.link("x", "a", SLOW)
    build.link("c", "y", SLOW)
    topo = build.build()
    assert [n.kind for n in topo.switches] == [NodeKind.LEAF, NodeKind.SPINE, NodeKind.LEAF]
    assert [h.name for h in topo.unreachable_hosts()] == ["y"]


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([], "host 'x' cannot be reached: it has no link"),
        ([("x", "a"), ("x", "b")], "host 'x' has 2 links, to a, b; give it one"),
        ([("x", "y"), ("y", "x")], "host 'x' has 2 links"),
        ([("x", "y"), ("a", "b")], "host 'x' is linked to host 'y', not a switch"),
        ([("x", "a"), ("a", "a")], "node 'a' cannot be linked to itself"),
        ([("x", "q")], "there is no node 'q' in the topology"),
    ],
)
def test_what_no_fabric_can_be_is_refused(links: list[tuple[str, str]], message: str) -> None:
    build = TopologyBuilder()
    for name in ("a", "b"):
        build.switch(name)
    for name in ("x", "y"):
        build.host(name)

    def make() -> None:
        for a, b in links:
            build.link(a, b, FAST)
        build.build()

    with pytest.raises(TopologyError, match=message):
        make()


def test_names_are_checked_and_unique() -> None:
    build = TopologyBuilder()
    build.switch("a")
    with pytest.raises(TopologyError, match="'a' is used twice"):
        build.host("a")
    with pytest.raises(TopologyError, match="letters, digits, _ and"):
        build.switch("leaf-0")


def test_rates_must_be_positive() -> None:
    with pytest.raises(TopologyError, match="above 0, got 0 bit/s"):
        LinkSpec(0, 0)


def test_rail_optimised_has_a_leaf_a_rail_and_group() -> None:
    topo = rail_optimised(3, 2, 2, 2, SLOW, FAST)
    names = [h.name for h in topo.hosts]
    assert names == ["h0.nic0", "h0.nic1", "h1.nic0", "h1.nic1", "h2.nic0", "h2.nic1"]
    assert [topo.switch_of(h.id).name for h in topo.hosts] == [
        *("leaf0", "leaf1", "leaf0", "leaf1"),
        *("leaf2", "leaf3"),
    ]
    assert [s.pod for s in topo.switches] == [0, 0, 1, 1, None, None]
    assert len([lk for lk in topo.links if lk.spec == FAST]) == 4 * 2
    assert rail_optimised(2, 2, 2, 1, SLOW, FAST, 3).find_links("leaf1-spine0#3")
    assert [s.pod for s in rail_optimised(2, 2, 2, 1, SLOW, FAST).switches] == [None] * 3
    with pytest.raises(TopologyError, match="spines must be at least 1"):
        rail_optimised(1, 1, 1, 0, SLOW, FAST)


def test_port_numbers_can_be_asked_for() -> None:
    build = TopologyBuilder()
    for name in ("a", "b"):
        build.switch(name)
    build.host("h")
    build.link("a", "b", FAST, a_port=2)
    build.link("a", "h", FAST)
    build.link("a", "b", FAST)
    build.link("a", "b", FAST, a_port=1, b_port=9)
    topo = build.build()
    assert [(lk.name, lk.a_port, lk.b_port) for lk in topo.links] == [
        ("a-b#1", 2, 1),
        ("a-h", 3, 1),
        ("a-b#2", 4, 2),
        ("a-b#3", 1, 9),
    ]
    assert list(topo.ports(topo.switch("a").id)) == [1, 2, 3, 4]
