"""Scenario files: from YAML to a topology, flows and faults, or one line for each mistake."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sglb.fabric import generators, workload
from sglb.fabric.faults import Fault, FaultKind, Flap
from sglb.fabric.schema import (
    FAULT_KINDS,
    Explicit,
    ExplicitLink,
    FaultBlock,
    LinkDefaults,
    LinkOverride,
    Policy,
    ScenarioModel,
)
from sglb.fabric.schema_errors import schema_problems
from sglb.fabric.schema_workload import FlowEntry, Incast
from sglb.fabric.topology import (
    Edge,
    Link,
    LinkSpec,
    NodeKind,
    Topology,
    TopologyBuilder,
    TopologyError,
)
from sglb.fabric.workload import Workload, WorkloadError
from sglb.fabric.yaml_source import KeyPath, Problem, Source, SourceError, read, read_file
from sglb.switch.clock import PS_PER_NS, PS_PER_US


@dataclass(frozen=True, slots=True)
class LinkLoss:
    """Random loss in some directions during a span; `to_ps` None means to the end."""

    edges: tuple[Edge, ...]
    syncmesh: float
    data: float
    from_ps: int
    to_ps: int | None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A checked scenario. `model` has every key with its default filled in."""

    file: str
    model: ScenarioModel
    topology: Topology
    workload: Workload
    faults: tuple[Fault, ...]
    losses: tuple[LinkLoss, ...]

    @property
    def name(self) -> str:
        """The scenario's name, by default the file's."""
        return self.model.name or Path(self.file).stem

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Policies to compare, in the order of the file."""
        return tuple(self.model.policies)

    @property
    def stop_ps(self) -> int:
        """When a run is given up, in ps of virtual time."""
        return us_to_ps(self.model.stop_us)

    def rng(self, purpose: str) -> random.Random:
        """A generator for one purpose: the same for the same seed, unlike any other purpose's."""
        return random.Random(f"{self.model.seed}/{purpose}")


def us_to_ps(time_us: float) -> int:
    """Microseconds to integer picoseconds."""
    return round(time_us * PS_PER_US)


def ns_to_ps(time_ns: float) -> int:
    """Nanoseconds to integer picoseconds."""
    return round(time_ns * PS_PER_NS)


def gbps_to_bps(rate_gbps: float) -> int:
    """10^9 bit/s to bit/s."""
    return round(rate_gbps * 1_000_000_000)


def load(path: str | Path) -> Scenario:
    """Read and check a scenario file. Raises `SourceError` with one line for each problem."""
    return check(read_file(Path(path)))


def loads(text: str, file: str = "<text>") -> Scenario:
    """Like `load`, for text at hand."""
    return check(read(text, file))


def from_dict(data: Mapping[str, Any], file: str = "<scenario>") -> Scenario:
    """Like `load`, for data at hand; problems then name the key only."""
    return check(Source(file, dict(data)))


def check(source: Source) -> Scenario:
    """Turn a read file into a scenario. Raises `SourceError` with one line for each problem."""
    try:
        model = ScenarioModel.model_validate(source.data)
    except ValidationError as error:
        raise SourceError(schema_problems(source, error)) from None
    return _Resolver(source, model).scenario()


class _Resolver:
    """Looks up every name of a scenario; collects all problems before it gives up."""

    def __init__(self, source: Source, model: ScenarioModel) -> None:
        self._source = source
        self._model = model
        self._problems: list[Problem] = []

    def scenario(self) -> Scenario:
        # No name can be checked without a topology, so its problems end the check.
        topology = self._topology()
        if topology is None:
            raise self._error()
        faults = self._faults(topology)
        losses = self._losses(topology)
        flows = self._workload(topology)
        self._policies()
        if flows is None or self._problems:
            raise self._error()
        return Scenario(self._source.file, self._model, topology, flows, faults, losses)

    def _error(self) -> SourceError:
        return SourceError(sorted(self._problems, key=lambda p: p.line))

    def _bad(self, path: KeyPath, message: object) -> None:
        self._problems.append(self._source.problem(path, str(message)))

    def _policies(self) -> None:
        for i, policy in enumerate(self._model.policies):
            if policy in self._model.policies[:i]:
                self._bad(("policies", i), f"{policy} is named twice")

    def _topology(self) -> Topology | None:
        block = self._model.topology
        kind = next(k for k in ("leaf_spine", "clos3", "explicit") if getattr(block, k) is not None)
        try:
            plain = self._generate()
        except TopologyError as error:
            self._bad(("topology", kind), error)
        if self._problems:
            return None
        topology = self._override(plain)
        cut_off = topology.unreachable_hosts()
        for host in cut_off:
            first = topology.hosts[0]
            here, there = topology.switch_of(host.id).name, topology.switch_of(first.id).name
            self._bad(
                ("topology", kind, "links"),
                f"host {host.name} cannot be reached from {first.name}: "
                f"no links lead from {there} to {here}",
            )
        return None if cut_off else topology

    def _generate(self) -> Topology:
        block = self._model.topology
        host, fabric = (_spec(d) for d in (self._model.links.host, self._model.links.fabric))
        if block.leaf_spine is not None:
            ls = block.leaf_spine
            return generators.leaf_spine(
                ls.leaves, ls.spines, ls.hosts_per_leaf, host, fabric, ls.links_per_pair
            )
        if block.clos3 is not None:
            return generators.clos3(*block.clos3.sizes, host, fabric)
        assert block.explicit is not None
        return self._explicit(block.explicit)

    def _explicit(self, block: Explicit) -> Topology:
        build = TopologyBuilder()
        base: KeyPath = ("topology", "explicit")
        for i, switch in enumerate(block.switches):
            kind = NodeKind(switch.kind) if switch.kind is not None else None
            with self._blame((*base, "switches", i)):
                build.switch(switch.name, kind, switch.pod)
        for i, host in enumerate(block.hosts):
            with self._blame((*base, "hosts", i)):
                build.host(host)
        for i, link in enumerate(block.links):
            defaults = self._model.links.fabric
            if set(link.between) & set(block.hosts):
                defaults = self._model.links.host
            with self._blame((*base, "links", i)):
                for _ in range(link.count):
                    a, b = link.between
                    build.link(a, b, _changed(_spec(defaults), link))
        if self._problems:
            raise self._error()
        return build.build()

    @contextlib.contextmanager
    def _blame(self, path: KeyPath) -> Iterator[None]:
        """Turn a name or size error in the block into a problem at `path`."""
        try:
            yield
        except (TopologyError, WorkloadError) as error:
            self._bad(path, error)

    def _override(self, plain: Topology) -> Topology:
        specs = {link.id: link.spec for link in plain.links}
        for i, override in enumerate(self._model.links.overrides):
            with self._blame(("links", "overrides", i, "between")):
                for link in _overridden(plain, override):
                    specs[link.id] = _changed(specs[link.id], override)
        return Topology(plain.nodes, [replace(lk, spec=specs[lk.id]) for lk in plain.links])

    def _losses(self, topology: Topology) -> tuple[LinkLoss, ...]:
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
                with self._blame((*path, "direction")):
                    named = {e.key for e in topology.find_edges(loss.direction)}
                    edges = [e for e in edges if e.key in named]
                    if not edges or "->" not in loss.direction:
                        a, b = override.between
                        raise TopologyError(f"must be {a}->{b} or {b}->{a}")
            to_ps = None if loss.to_us is None else us_to_ps(loss.to_us)
            span = (us_to_ps(loss.from_us), to_ps)
            found.append(LinkLoss(tuple(edges), loss.syncmesh, loss.data, *span))
        return tuple(found)

    def _faults(self, topology: Topology) -> tuple[Fault, ...]:
        found: list[Fault] = []
        previous = 0.0
        for i, block in enumerate(self._model.faults):
            if block.start_us < previous:
                self._bad(
                    ("faults", i),
                    f"is at {block.start_us:g} us, before the fault above it ({previous:g} us); "
                    "put them in order of time",
                )
            previous = block.start_us
            try:
                found += _fault(topology, block)
            except TopologyError as error:
                key = next(k for k in FAULT_KINDS if getattr(block, k) is not None)
                deeper = ("link",) if key in ("rate", "flap") else ()
                self._bad(("faults", i, key, *deeper), error)
        found.sort(key=lambda f: f.time_ps)
        self._check_ups(found)
        return tuple(found)

    def _check_ups(self, faults: list[Fault]) -> None:
        """What comes up must have been down before: anything else is a slip of the pen."""
        opposite = {
            FaultKind.LINK_UP: FaultKind.LINK_DOWN,
            FaultKind.SWITCH_UP: FaultKind.SWITCH_DOWN,
            FaultKind.HEAL: FaultKind.BLACKHOLE,
        }
        for i, fault in enumerate(faults):
            wanted = opposite.get(fault.kind)
            if wanted is None:
                continue
            before = [_targets(f) for f in faults[:i] if f.kind is wanted]
            if not _targets(fault) <= set().union(*before):
                self._bad(
                    ("faults",),
                    f"{fault.label} at {fault.time_ps / PS_PER_US:g} us: {fault.kind} without "
                    f"{wanted} before it",
                )

    def _workload(self, topology: Topology) -> Workload | None:
        block = self._model.workload
        start_ps = us_to_ps(block.start_us)
        if block.flows is not None:
            return self._flow_list(topology, block.flows)
        hosts = [h.id for h in topology.hosts]
        if block.hosts is not None:
            hosts = []
            for i, name in enumerate(block.hosts):
                with self._blame(("workload", "hosts", i)):
                    hosts.append(topology.host(name).id)
        with self._blame(("workload",)):
            if block.all_to_all is not None and block.all_to_all.bytes_per_pair is not None:
                return workload.all_to_all(hosts, block.all_to_all.bytes_per_pair, start_ps)
            if block.ring_all_reduce is not None:
                return workload.ring_all_reduce(hosts, block.ring_all_reduce.bytes, start_ps)
            if block.permutation is not None:
                rng = random.Random(f"{self._model.seed}/permutation")
                return workload.permutation(hosts, block.permutation.bytes, rng, start_ps)
            assert block.incast is not None
            return self._incast(topology, block.incast, hosts, start_ps)
        return None

    def _incast(
        self, topology: Topology, block: Incast, hosts: list[int], start_ps: int
    ) -> Workload | None:
        path: KeyPath = ("workload", "incast")
        to, senders = 0, []
        with self._blame((*path, "to")):
            to = topology.host(block.to).id
        if block.senders is not None:
            for i, name in enumerate(block.senders):
                with self._blame((*path, "from", i)):
                    senders.append(topology.host(name).id)
                    if name == block.to or name in block.senders[:i]:
                        raise WorkloadError(f"host {name} cannot send here: it is named already")
        else:
            others = [h for h in hosts if h > to] + [h for h in hosts if h < to]
            fan_in = block.fan_in or 0
            if fan_in > len(others):
                self._bad((*path, "fan_in"), f"is {fan_in}, there are {len(others)} other hosts")
            senders = others[:fan_in]
        return None if self._problems else workload.incast(to, senders, block.bytes, start_ps)

    def _flow_list(self, topology: Topology, entries: list[FlowEntry]) -> Workload | None:
        flows = []
        for i, entry in enumerate(entries):
            ends = []
            for key, name in (("src", entry.src), ("dst", entry.dst)):
                with self._blame(("workload", "flows", i, key)):
                    ends.append(topology.host(name).id)
            if entry.src == entry.dst:
                self._bad(("workload", "flows", i, "dst"), f"is {entry.dst}, the same as src")
            elif len(ends) == 2:
                flows.append((ends[0], ends[1], entry.bytes, us_to_ps(entry.start_us)))
        return None if len(flows) < len(entries) else workload.flow_list(flows)


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


def _targets(fault: Fault) -> set[object]:
    links: set[object] = {link.id for link in fault.links}
    return links | {edge.key for edge in fault.edges} | ({fault.switch_id} - {0})


def _fault(topology: Topology, block: FaultBlock) -> list[Fault]:
    at_ps = us_to_ps(block.start_us)
    if block.flap is not None:
        flap = block.flap
        links = topology.find_links(flap.link)
        spans = (us_to_ps(flap.down_us), us_to_ps(flap.up_us))
        return Flap(flap.link, links, at_ps, *spans, flap.count).faults()
    if block.rate is not None:
        links = topology.find_links(block.rate.link)
        rate = gbps_to_bps(block.rate.gbps)
        return [Fault(at_ps, FaultKind.LINK_RATE, block.rate.link, links, rate)]
    for name, kind in ((block.down, FaultKind.LINK_DOWN), (block.up, FaultKind.LINK_UP)):
        if name is not None:
            return [Fault(at_ps, kind, name, topology.find_links(name))]
    for name, kind in ((block.blackhole, FaultKind.BLACKHOLE), (block.heal, FaultKind.HEAL)):
        if name is not None:
            return [Fault(at_ps, kind, name, edges=topology.find_edges(name))]
    for name, kind in (
        (block.down_switch, FaultKind.SWITCH_DOWN),
        (block.up_switch, FaultKind.SWITCH_UP),
    ):
        if name is not None:
            switch = topology.switch(name)
            return [Fault(at_ps, kind, name, switch_id=switch.id)]
    raise AssertionError("the schema lets no fault through without a kind")
