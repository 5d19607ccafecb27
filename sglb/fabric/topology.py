"""The fabric as a typed graph: nodes, ports, links and addresses, all deterministic.

Switches get the ids 1..S and hosts S+1.., in the order in which they were added; the ports of
a node are numbered from 1 in the order of its links. An id is also the switch's P4Runtime
device id and its SyncMesh node id. 0 is no node.
"""

from __future__ import annotations

import difflib
import enum
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import networkx as nx

MAX_NODES = 0xFFFF
# v1model has 9 bit port numbers; 509 to 511 are the event, CPU and drop ports (SwitchConfig).
MAX_PORTS = 508
MAX_HOSTS_PER_SWITCH = 254
_MAX_LINKS_TOLD = 16
_IPV6_SITE = 0xFD53_474C_4200 << 80
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")


class TopologyError(ValueError):
    """A topology that cannot be built or a name that is not in it."""


class NodeKind(enum.StrEnum):
    """What a node is; the tiers of switches from the hosts upward."""

    HOST = "host"
    LEAF = "leaf"
    SPINE = "spine"
    CORE = "core"


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """Rate and delay of a link: `rate_bps` in bit/s in each direction, `delay_ps` one way."""

    rate_bps: int
    delay_ps: int

    def __post_init__(self) -> None:
        if self.rate_bps <= 0:
            raise TopologyError(f"a link's rate must be above 0, got {self.rate_bps} bit/s")
        if self.delay_ps < 0:
            raise TopologyError(f"a link's delay must not be negative, got {self.delay_ps} ps")


@dataclass(frozen=True, slots=True)
class Link:
    """A full-duplex link. `name` is `a-b`, with `#1`, `#2`.. when several join the same nodes."""

    id: int
    name: str
    a: int
    a_port: int
    b: int
    b_port: int
    spec: LinkSpec

    def other(self, node_id: int) -> int:
        """The node at the far end from `node_id`."""
        return self.b if node_id == self.a else self.a

    def port(self, node_id: int) -> int:
        """The port number of this link at `node_id`."""
        return self.a_port if node_id == self.a else self.b_port


@dataclass(frozen=True, slots=True)
class Edge:
    """One direction of a link: what node `src` sends to node `dst`."""

    link: Link
    src: int
    dst: int

    @property
    def key(self) -> tuple[int, int]:
        """(link id, sending node id): the identity of the direction."""
        return (self.link.id, self.src)


@dataclass(frozen=True, slots=True)
class Node:
    """A host or a switch; `pod` is None where the topology has no pods (and for cores)."""

    id: int
    name: str
    kind: NodeKind
    pod: int | None = None

    @property
    def is_host(self) -> bool:
        """Whether this is a host."""
        return self.kind is NodeKind.HOST

    @property
    def mac(self) -> bytes:
        """A locally administered address made of the id, 6 bytes."""
        return bytes((0x02, 0x00, 0x00)) + self.id.to_bytes(3, "big")


@dataclass(frozen=True, slots=True)
class HostAddress:
    """Addresses of a host; its switch owns the whole `/24` and `/64` around them."""

    mac: bytes
    ipv4: ipaddress.IPv4Address
    ipv6: ipaddress.IPv6Address


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is nearest to a misspelt one, "" when none is near."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)), "")


def closest(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for the nearest known name, or an empty string."""
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else ""


class Topology:
    """An immutable fabric; make one with `TopologyBuilder` or a generator of this module."""

    def __init__(self, nodes: Iterable[Node], links: Iterable[Link]) -> None:
        self.nodes = tuple(nodes)
        self.links = tuple(links)
        self._by_name = {n.name: n for n in self.nodes}
        self._by_id = {n.id: n for n in self.nodes}
        self._ports: dict[int, dict[int, Link]] = {n.id: {} for n in self.nodes}
        for link in self.links:
            self._ports[link.a][link.a_port] = link
            self._ports[link.b][link.b_port] = link
        for node, ports in self._ports.items():
            if list(ports) != sorted(ports):  # numbers were chosen, not counted
                self._ports[node] = dict(sorted(ports.items()))

    @cached_property
    def switches(self) -> tuple[Node, ...]:
        """All switches, by id."""
        return tuple(n for n in self.nodes if not n.is_host)

    @cached_property
    def hosts(self) -> tuple[Node, ...]:
        """All hosts, by id."""
        return tuple(n for n in self.nodes if n.is_host)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Both directions of every link, in order of the links."""
        return tuple(
            Edge(link, src, link.other(src)) for link in self.links for src in (link.a, link.b)
        )

    def node(self, name: str) -> Node:
        """The node called `name`; `TopologyError` with the nearest name when there is none."""
        try:
            return self._by_name[name]
        except KeyError:
            raise TopologyError(
                f"there is no node {name!r} in the topology{closest(name, self._by_name)}"
            ) from None

    def host(self, name: str) -> Node:
        """The host called `name`, see `node`."""
        return self._of_kind(name, "host", self.hosts)

    def switch(self, name: str) -> Node:
        """The switch called `name`, see `node`."""
        return self._of_kind(name, "switch", self.switches)

    def _of_kind(self, name: str, what: str, among: tuple[Node, ...]) -> Node:
        node = self._by_name.get(name)
        if node is not None and node.is_host == (what == "host"):
            return node
        hint = closest(name, [n.name for n in among])
        if node is not None:
            hint = f"; {name} is a {node.kind}"
        raise TopologyError(f"there is no {what} {name!r} in the topology{hint}")

    def by_id(self, node_id: int) -> Node:
        """The node with this id; KeyError when there is none."""
        return self._by_id[node_id]

    def ports(self, node_id: int) -> Mapping[int, Link]:
        """Port number -> link of a node, in order of port numbers."""
        return self._ports[node_id]

    def link_at(self, node_id: int, port: int) -> Link:
        """The link on a port; KeyError when the port has none."""
        return self._ports[node_id][port]

    @cached_property
    def _bundles(self) -> dict[str, tuple[Link, ...]]:
        found: dict[str, tuple[Link, ...]] = {}
        for link in self.links:
            a, b = self._by_id[link.a].name, self._by_id[link.b].name
            for name in (f"{a}-{b}", f"{b}-{a}"):
                found[name] = (*found.get(name, ()), link)
                if "#" in link.name:
                    found[f"{name}#{link.name.rpartition('#')[2]}"] = (link,)
        return found

    def find_links(self, name: str) -> tuple[Link, ...]:
        """Links by name: `a-b` in either order (all parallel ones) or `a-b#2` (one of them).

        Raises `TopologyError` with the nearest name, or the links of a node that it names, when there
        is none.
        """
        try:
            return self._bundles[name]
        except KeyError:
            raise TopologyError(
                f"there is no link {name!r} in the topology{self._link_hint(name)}"
            ) from None

    def _link_hint(self, name: str) -> str:
        ends = name.partition("#")[0].split("-")
        known = [self._by_name[end] for end in ends if end in self._by_name]
        if not known:
            return closest(name, self._bundles)
        links = self._ports[known[0].id].values()
        if "-".join(ends) in self._bundles:
            return closest(name, self._bundles)  # no parallel link has that number
        if len(known) == 1 and len(ends) == 2:
            wrong = ends[1] if ends[0] == known[0].name else ends[0]
            peers = {self._by_id[lk.other(known[0].id)].name: lk.name for lk in links}
            near = nearest(wrong, peers)
            if near:
                return f"; did you mean {peers[near].partition('#')[0]}?"
        names = [link.name for link in links]
        if len(names) > _MAX_LINKS_TOLD:
            names[_MAX_LINKS_TOLD:] = [f"and {len(names) - _MAX_LINKS_TOLD} more"]
        return f"; {known[0].name} has {', '.join(names) or 'no links'}"

    def find_edges(self, name: str) -> tuple[Edge, ...]:
        """Directions by name: `a->b` is one way, `a-b` both ways; see `find_links`."""
        src, arrow, dst = name.partition("->")
        if not arrow:
            return tuple(
                Edge(link, src_id, link.other(src_id))
                for link in self.find_links(name)
                for src_id in (link.a, link.b)
            )
        links = self.find_links(f"{src.strip()}-{dst.strip()}")
        start = self.node(src.strip()).id
        return tuple(Edge(link, start, link.other(start)) for link in links)

    @cached_property
    def _attachments(self) -> dict[int, Link]:
        return {h.id: next(iter(self._ports[h.id].values())) for h in self.hosts}

    def attachment(self, host_id: int) -> Link:
        """The link that joins a host to its switch."""
        return self._attachments[host_id]

    def switch_of(self, host_id: int) -> Node:
        """The switch that a host hangs on: the *destination switch* of its traffic."""
        return self._by_id[self._attachments[host_id].other(host_id)]

    def hosts_of(self, switch_id: int) -> tuple[Node, ...]:
        """Hosts on a switch, by port number."""
        peers = (self._by_id[link.other(switch_id)] for link in self._ports[switch_id].values())
        return tuple(n for n in peers if n.is_host)

    def prefix4(self, switch_id: int) -> ipaddress.IPv4Network:
        """The IPv4 prefix of a switch's hosts: 10.(id high byte).(id low byte).0/24."""
        return ipaddress.IPv4Network(((10 << 24) | (switch_id << 8), 24))

    def prefix6(self, switch_id: int) -> ipaddress.IPv6Network:
        """The IPv6 prefix of a switch's hosts: fd53:474c:4200:(id)::/64."""
        return ipaddress.IPv6Network((_IPV6_SITE | (switch_id << 64), 64))

    @cached_property
    def _addresses(self) -> dict[int, HostAddress]:
        found = {}
        for switch in self.switches:
            for n, host in enumerate(self.hosts_of(switch.id), start=1):
                v4, v6 = self.prefix4(switch.id)[n], self.prefix6(switch.id)[n]
                found[host.id] = HostAddress(host.mac, v4, v6)
        return found

    def address(self, host_id: int) -> HostAddress:
        """Addresses of a host: number n on switch s has 10.s.n and fd53:474c:4200:s::n."""
        return self._addresses[host_id]

    def graph(self) -> nx.MultiGraph:
        """A networkx view: nodes are ids (name, kind, pod), edges keyed by link id.

        Edges carry `rate_bps`, `delay_ps` and `name`.
        """
        graph = nx.MultiGraph()
        for node in self.nodes:
            graph.add_node(node.id, name=node.name, kind=str(node.kind), pod=node.pod)
        for link in self.links:
            graph.add_edge(
                link.a,
                link.b,
                key=link.id,
                name=link.name,
                rate_bps=link.spec.rate_bps,
                delay_ps=link.spec.delay_ps,
            )
        return graph

    def switch_graph(self) -> nx.MultiGraph:
        """`graph()` without the hosts, which forward nothing."""
        graph = self.graph()
        graph.remove_nodes_from([h.id for h in self.hosts])
        return graph

    def unreachable_hosts(self) -> tuple[Node, ...]:
        """Hosts that the first host cannot reach through switches."""
        if not self.hosts:
            return ()
        home = self.switch_of(self.hosts[0].id).id
        reached = nx.node_connected_component(self.switch_graph(), home)
        return tuple(h for h in self.hosts if self.switch_of(h.id).id not in reached)


class TopologyBuilder:
    """Collects nodes and links; `build` numbers and checks them."""

    def __init__(self) -> None:
        self._switches: list[tuple[str, NodeKind | None, int | None]] = []
        self._hosts: list[str] = []
        self._links: list[tuple[str, str, LinkSpec]] = []
        self._wanted: list[tuple[int | None, int | None]] = []
        self._names: set[str] = set()

    def switch(self, name: str, kind: NodeKind | None = None, pod: int | None = None) -> None:
        """Add a switch; without `kind` it is a leaf if it has hosts, else a spine."""
        self._claim(name)
        self._switches.append((name, kind, pod))

    def host(self, name: str) -> None:
        """Add a host."""
        self._claim(name)
        self._hosts.append(name)

    def link(
        self,
        a: str,
        b: str,
        spec: LinkSpec,
        a_port: int | None = None,
        b_port: int | None = None,
    ) -> None:
        """Join two nodes; joining them again makes a parallel link.

        `a_port` and `b_port` ask for port numbers; by default a node's links get the next free ones.
        """
        for name in (a, b):
            if name not in self._names:
                hint = closest(name, sorted(self._names))
                raise TopologyError(f"there is no node {name!r} in the topology{hint}")
        if a == b:
            raise TopologyError(f"node {a!r} cannot be linked to itself")
        self._links.append((a, b, spec))
        self._wanted.append((a_port, b_port))

    def build(self) -> Topology:
        """Number nodes and ports. Raises `TopologyError` for what no fabric can be."""
        if len(self._names) > MAX_NODES:
            raise TopologyError(f"{len(self._names)} nodes are more than {MAX_NODES}")
        switch_of = self._attach_hosts()
        with_hosts = set(switch_of.values())
        nodes = [
            Node(i, name, kind or (NodeKind.LEAF if name in with_hosts else NodeKind.SPINE), pod)
            for i, (name, kind, pod) in enumerate(self._switches, start=1)
        ]
        first_host = len(nodes) + 1
        nodes += [Node(i, h, NodeKind.HOST) for i, h in enumerate(self._hosts, start=first_host)]
        return Topology(nodes, self._number_links({n.name: n.id for n in nodes}))

    def _claim(self, name: str) -> None:
        if not _NAME.match(name):
            raise TopologyError(
                f"node name {name!r} must be letters, digits, _ and . and start with a letter"
            )
        if name in self._names:
            raise TopologyError(f"node name {name!r} is used twice")
        self._names.add(name)

    def _attach_hosts(self) -> dict[str, str]:
        """Host name -> switch name, each host having exactly one link."""
        peers: dict[str, list[str]] = {h: [] for h in self._hosts}
        for a, b, _ in self._links:
            for host, peer in ((a, b), (b, a)):
                if host in peers:
                    peers[host].append(peer)
        per_switch: dict[str, int] = {}
        for host, joined in peers.items():
            if not joined:
                raise TopologyError(f"host {host!r} cannot be reached: it has no link")
            if len(joined) > 1:
                raise TopologyError(
                    f"host {host!r} has {len(joined)} links, to {', '.join(joined)}; "
                    "give it one (several rails are not supported)"
                )
            if joined[0] in peers:
                raise TopologyError(f"host {host!r} is linked to host {joined[0]!r}, not a switch")
            per_switch[joined[0]] = per_switch.get(joined[0], 0) + 1
        for switch, count in per_switch.items():
            if count > MAX_HOSTS_PER_SWITCH:
                raise TopologyError(
                    f"switch {switch!r} has {count} hosts, its /24 has room for "
                    f"{MAX_HOSTS_PER_SWITCH}"
                )
        return {host: joined[0] for host, joined in peers.items()}

    def _number_links(self, ids: Mapping[str, int]) -> list[Link]:
        parallel: dict[tuple[str, str], int] = {}
        for a, b, _ in self._links:
            pair = (min(a, b), max(a, b))
            parallel[pair] = parallel.get(pair, 0) + 1
        seen: dict[tuple[str, str], int] = {}
        ports = self._number_ports(ids)
        links = []
        for link_id, (a, b, spec) in enumerate(self._links):
            pair = (min(a, b), max(a, b))
            seen[pair] = seen.get(pair, 0) + 1
            name = f"{a}-{b}#{seen[pair]}" if parallel[pair] > 1 else f"{a}-{b}"
            a_port, b_port = ports[link_id]
            links.append(Link(link_id, name, ids[a], a_port, ids[b], b_port, spec))
        return links

    def _number_ports(self, ids: Mapping[str, int]) -> list[tuple[int, int]]:
        """Port numbers of both ends of every link: those asked for, else the next free ones."""
        taken: dict[str, set[int]] = {name: set() for name in ids}
        for (a, b, _), wanted in zip(self._links, self._wanted, strict=True):
            for end, port in zip((a, b), wanted, strict=True):
                if port is None:
                    continue
                if port in taken[end]:
                    raise TopologyError(f"port {port} of node {end!r} is used twice")
                if not 1 <= port <= MAX_PORTS:
                    raise TopologyError(f"port {port} of node {end!r} must be 1 to {MAX_PORTS}")
                taken[end].add(port)
        counted = dict.fromkeys(ids, 0)

        def number(end: str, port: int | None) -> int:
            if port is not None:
                return port
            counted[end] += 1
            while counted[end] in taken[end]:
                counted[end] += 1
            if counted[end] > MAX_PORTS:
                raise TopologyError(f"node {end!r} has more than {MAX_PORTS} links")
            return counted[end]

        return [
            (number(a, wanted[0]), number(b, wanted[1]))
            for (a, b, _), wanted in zip(self._links, self._wanted, strict=True)
        ]
