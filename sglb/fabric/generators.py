"""Regular fabrics: leaf-spine, three-tier Clos (Al-Fares et al., SIGCOMM 2008, for k-ary), by rail."""

from __future__ import annotations

from sglb.fabric.topology import (
    MAX_NODES,
    LinkSpec,
    NodeKind,
    Topology,
    TopologyBuilder,
    TopologyError,
)

MAX_LINKS = 262_144
#: For a sense of size only: what a packet simulation of 1,024 hosts takes, a host.
_MEMORY_A_HOST_BYTES = 200_000


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
    _limit(leaves * hosts_per_leaf, leaves + spines, leaves * spines * links_per_pair)
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
    cores = spines_per_pod * cores_per_spine
    _limit(
        leaves * hosts_per_leaf,
        leaves + spines + cores,
        leaves * spines_per_pod + spines * cores_per_spine,
    )
    build = TopologyBuilder()
    for i in range(leaves):
        build.switch(f"leaf{i}", NodeKind.LEAF, pod=i // leaves_per_pod)
    for j in range(spines):
        build.switch(f"spine{j}", NodeKind.SPINE, pod=j // spines_per_pod)
    for c in range(cores):
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


def rail_optimised(
    hosts: int,
    nics_per_host: int,
    hosts_per_group: int,
    spines: int,
    host: LinkSpec,
    fabric: LinkSpec,
    links_per_pair: int = 1,
) -> Topology:
    """Leaves by rail: NIC r of all machines of a group hangs on the group's leaf r.

    A NIC is a node, `h{machine}.nic{r}`, with an address of its own; nothing joins the NICs of a machine
    in the fabric. Leaf r of group q is `leaf{q * nics_per_host + r}`; its group is its pod. Every
    leaf is joined to every spine by `links_per_pair` links. The last group may have fewer machines.
    """
    _positive(
        hosts=hosts,
        nics_per_host=nics_per_host,
        hosts_per_group=hosts_per_group,
        spines=spines,
        links=links_per_pair,
    )
    groups = -(-hosts // hosts_per_group)
    leaves = groups * nics_per_host
    _limit(hosts * nics_per_host, leaves + spines, leaves * spines * links_per_pair)
    build = TopologyBuilder()
    for i in range(leaves):
        build.switch(f"leaf{i}", NodeKind.LEAF, pod=i // nics_per_host if groups > 1 else None)
    for j in range(spines):
        build.switch(f"spine{j}", NodeKind.SPINE)
    for machine in range(hosts):
        first = machine // hosts_per_group * nics_per_host
        for rail in range(nics_per_host):
            build.host(f"h{machine}.nic{rail}")
            build.link(f"leaf{first + rail}", f"h{machine}.nic{rail}", host)
    for i in range(leaves):
        for j in range(spines):
            for _ in range(links_per_pair):
                build.link(f"leaf{i}", f"spine{j}", fabric)
    return build.build()


def _add_hosts(build: TopologyBuilder, leaves: int, hosts_per_leaf: int, spec: LinkSpec) -> None:
    for i in range(leaves):
        for h in range(i * hosts_per_leaf, (i + 1) * hosts_per_leaf):
            build.host(f"h{h}")
            build.link(f"leaf{i}", f"h{h}", spec)


def _positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise TopologyError(f"{name} must be at least 1, got {size}")


def _limit(hosts: int, switches: int, links: int) -> None:
    """Refuses what is too large before any of it is built."""
    if hosts + switches > MAX_NODES:
        gib = hosts * _MEMORY_A_HOST_BYTES / 2**30
        raise TopologyError(
            f"{hosts} hosts and {switches} switches are more than {MAX_NODES} nodes, the limit of a "
            f"fabric (a simulation would take some {gib:.0f} GiB)"
        )
    if hosts + links > MAX_LINKS:
        raise TopologyError(f"{hosts + links} links are more than {MAX_LINKS}")
