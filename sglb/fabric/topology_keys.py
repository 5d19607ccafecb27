"""From the keys of `topology` and `links` to a topology."""

from __future__ import annotations

from dataclasses import replace

from sglb.fabric import generators, topology_files
from sglb.fabric.faults import LinkLoss
from sglb.fabric.problems import Problems
from sglb.fabric.schema import Explicit, ExplicitLink, LinkDefaults, LinkOverride, ScenarioModel
from sglb.fabric.topology import (
    Edge,
    Link,
    LinkSpec,
    NodeKind,
    Topology,
    TopologyBuilder,
    TopologyError,
)
from sglb.fabric.units import gbps_to_bps, ns_to_ps, us_to_ps
from sglb.fabric.yaml_source import KeyPath


class TopologyKeys:
    """Builds a model's topology; `problems` hears of everything that is wrong.

    `losses` are the random losses that links have from the start.
    """

    def __init__(self, model: ScenarioModel, problems: Problems) -> None:
        self.losses: tuple[LinkLoss, ...] = ()
        self._model = model
        self._problems = problems
        links = model.links
        self._host, self._fabric = _spec(links.host), _spec(links.fabric)

    def build(self) -> Topology | None:
        """The topology with all overrides, None when there is none. Raises `SourceError` for a file."""
        kind = self._model.topology.kind
        plain = None
        with self._problems.blame(("topology", kind)):
            plain = self._generate()
        if plain is None or self._problems.found:
            return None
        topology = self._override(plain)
        cut_off = topology.unreachable_hosts()
        for host in cut_off:
            first = topology.hosts[0]
            here, there = topology.switch_of(host.id).name, topology.switch_of(first.id).name
            self._problems.bad(
                ("topology", kind, "links"),
                f"host {host.name} cannot be reached from {first.name}: "
                f"no links lead from {there} to {here}",
            )
        self.losses += self._override_losses(topology)
        return None if cut_off else topology

    def _generate(self) -> Topology:
        block = self._model.topology
        specs = (self._host, self._fabric)
        if block.leaf_spine is not None:
            ls = block.leaf_spine
            sizes = (ls.leaves, ls.spines, ls.hosts_per_leaf)
            return generators.leaf_spine(*sizes, *specs, ls.links_per_pair)
        if block.clos3 is not None:
            return generators.clos3(*block.clos3.sizes, *specs)
        if block.rail_optimised is not None:
            rail = block.rail_optimised
            group = rail.hosts_per_group or rail.hosts
            shape = (rail.hosts, rail.nics_per_host, group, rail.spines)
            return generators.rail_optimised(*shape, *specs, rail.links_per_pair)
        if block.file is not None:
            read = topology_files.read(self._problems.path(block.file), *specs)
            self.losses = read.losses
            return read.topology
        assert block.explicit is not None
        return self._explicit(block.explicit)

    def _explicit(self, block: Explicit) -> Topology:
        build = TopologyBuilder()
        base: KeyPath = ("topology", "explicit")
        blame = self._problems.blame
        for i, switch in enumerate(block.switches):
            kind = NodeKind(switch.kind) if switch.kind is not None else None
            with blame((*base, "switches", i)):
                build.switch(switch.name, kind, switch.pod)
        for i, host in enumerate(block.hosts):
            with blame((*base, "hosts", i)):
                build.host(host)
        hosts = set(block.hosts)
        for i, link in enumerate(block.links):
            defaults = self._host if set(link.between) & hosts else self._fabric
            with blame((*base, "links", i)):
                for _ in range(link.count):
                    a, b = link.between
                    build.link(a, b, _changed(defaults, link))
        if self._problems.found:
            raise self._problems.error()
        return build.build()

    def _override(self, plain: Topology) -> Topology:
        overrides = self._model.links.overrides
        if not overrides:
            return plain
        specs = {link.id: link.spec for link in plain.links}
        for i, override in enumerate(overrides):
            with self._problems.blame(("links", "overrides", i, "between")):
                for link in _overridden(plain, override):
                    specs[link.id] = _changed(specs[link.id], override)
        return Topology(plain.nodes, [replace(lk, spec=specs[lk.id]) for lk in plain.links])

    def _override_losses(self, topology: Topology) -> tuple[LinkLoss, ...]:
        found = []
        for i, override in enumerate(self._model.links.overrides):
            loss = override.loss
            if loss is None:
                continue
            path: KeyPath = ("links", "overrides", i, "loss")
            try:
                links = _overridden(topology, override)
            except TopologyError:
                continue  # `_override` has said so already
            edges = [Edge(lk, end, lk.other(end)) for lk in links for end in (lk.a, lk.b)]
            if loss.direction is not None:
                with self._problems.blame((*path, "direction")):
                    named = {e.key for e in topology.find_edges(loss.direction)}
                    edges = [e for e in edges if e.key in named]
                    if not edges or "->" not in loss.direction:
                        a, b = override.between
                        raise TopologyError(f"must be {a}->{b} or {b}->{a}")
            to_ps = None if loss.to_us is None else us_to_ps(loss.to_us)
            span = (us_to_ps(loss.from_us), to_ps)
            found.append(LinkLoss(tuple(edges), loss.syncmesh, loss.data, *span))
        return tuple(found)


def _spec(defaults: LinkDefaults) -> LinkSpec:
    return LinkSpec(gbps_to_bps(defaults.rate_gbps), ns_to_ps(defaults.delay_ns))


def _changed(spec: LinkSpec, by: LinkOverride | ExplicitLink) -> LinkSpec:
    rate = spec.rate_bps if by.rate_gbps is None else gbps_to_bps(by.rate_gbps)
    return LinkSpec(rate, spec.delay_ps if by.delay_ns is None else ns_to_ps(by.delay_ns))


def _overridden(topology: Topology, override: LinkOverride) -> tuple[Link, ...]:
    a, b = override.between
    for name in (a, b):
        topology.node(name)
    number = "" if override.index is None else f"#{override.index}"
    return topology.find_links(f"{a}-{b}{number}")
