"""Regular fabrics: leaf-spine and three-tier Clos (Al-Fares et al., SIGCOMM 2008, for k-ary)."""

from __future__ import annotations

from sglb.fabric.topology import LinkSpec, NodeKind, Topology, TopologyBuilder, TopologyError

MAX_LINKS = 262_144


def leaf_spine(
    leaves: int,
    spines: int,
    hosts_per_leaf: int,
    host: LinkSpec,
    fabric: LinkSpec,
    links_per_pair: int = 1,
) -> Topology:
    """Every leaf joined to every spine by `links_per_pair` links.

    Leaf i is `leaf{i}`, its hosts are `h{i * hosts_per_leaf}`..; spines are `spine{j}`. On a leaf
    ports 1..hosts_per_leaf go to hosts and the next ones up; on a spine port i + 1 goes to leaf i
    (with one link a pair).
    """
    _positive(leaves=leaves, spines=spines, hosts_per_leaf=hosts_per_leaf, links=links_per_pair)
    _limit(leaves * (hosts_per_leaf + spines * links_per_pair))
    build = TopologyBuilder()
    for i in range(leaves):
        build.switch(f"leaf{i}", NodeKind.LEAF)
    for j in range(spines):
        build.switch(f"spine{j}", NodeKind.SPINE)
    _add_hosts(build, leaves, hosts_per_leaf, host)
    for i in range(leaves):
        for j in range(spines):
            for _ in range(links_per_pair):
                build.link(f"leaf{i}", f"spine{j}", fabric)
    return build.build()


def clos3(
    pods: int,
    leaves_per_pod: int,
    spines_per_pod: int,
    cores_per_spine: int,
    hosts_per_leaf: int,
    host: LinkSpec,
    fabric: LinkSpec,
) -> Topology:
    """Three tiers: in a pod every leaf meets every spine; spine j of each pod meets plane j.

    Plane j has `cores_per_spine` cores, `core{j * cores_per_spine}`... Leaves, spines and hosts
    are numbered through the pods: pod p has `leaf{p * leaves_per_pod}`...
    """
    _positive(
        pods=pods,
        leaves_per_pod=leaves_per_pod,
        spines_per_pod=spines_per_pod,
        cores_per_spine=cores_per_spine,
        hosts_per_leaf=hosts_per_leaf,
    )
    leaves, spines = pods * leaves_per_pod, pods * spines_per_pod
    _limit(leaves * (hosts_per_leaf + spines_per_pod) + spines * cores_per_spine)
    build = TopologyBuilder()
    for i in range(leaves):
        build.switch(f"leaf{i}", NodeKind.LEAF, pod=i // leaves_per_pod)
    for j in range(spines):
        build.switch(f"spine{j}", NodeKind.SPINE, pod=j // spines_per_pod)
    for c in range(spines_per_pod * cores_per_spine):
        build.switch(f"core{c}", NodeKind.CORE)
    _add_hosts(build, leaves, hosts_per_leaf, host)
    for i in range(leaves):
        first = i // leaves_per_pod * spines_per_pod
        for j in range(first, first + spines_per_pod):
            build.link(f"leaf{i}", f"spine{j}", fabric)
    for j in range(spines):
        first = j % spines_per_pod * cores_per_spine
        for c in range(first, first + cores_per_spine):
            build.link(f"spine{j}", f"core{c}", fabric)
    return build.build()


def fat_tree(k: int, host: LinkSpec, fabric: LinkSpec) -> Topology:
    """The k-ary fat tree: k pods of k/2 leaves and k/2 spines, (k/2)^2 cores, k^3/4 hosts."""
    if k < 2 or k % 2:
        raise TopologyError(f"k of a fat tree must be even and at least 2, got {k}")
    half = k // 2
    return clos3(k, half, half, half, half, host, fabric)


def _add_hosts(build: TopologyBuilder, leaves: int, hosts_per_leaf: int, spec: LinkSpec) -> None:
    for i in range(leaves):
        for h in range(i * hosts_per_leaf, (i + 1) * hosts_per_leaf):
            build.host(f"h{h}")
            build.link(f"leaf{i}", f"h{h}", spec)


def _positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise TopologyError(f"{name} must be at least 1, got {size}")


def _limit(links: int) -> None:
    if links > MAX_LINKS:
        raise TopologyError(f"{links} links are more than {MAX_LINKS}")
