"""From the keys of `workload` to flows."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from sglb.fabric import arrivals, collectives, flow_file, workload
from sglb.fabric.collectives import Machines
from sglb.fabric.moe import MoeShape, moe
from sglb.fabric.problems import Problems
from sglb.fabric.schema_workload import Arrivals, FlowEntry, FlowFile, Incast, WorkloadBlock
from sglb.fabric.topology import Topology, TopologyError
from sglb.fabric.units import gbps_to_bps, us_to_ps
from sglb.fabric.workload import Workload, WorkloadError
from sglb.fabric.yaml_source import KeyPath


class WorkloadKeys:
    """Makes a block's workload on a topology; `rng(purpose)` is the scenario's."""

    def __init__(
        self,
        block: WorkloadBlock,
        topology: Topology,
        problems: Problems,
        rng: Callable[[str], random.Random],
        path: KeyPath = ("workload",),
    ) -> None:
        self._block = block
        self._topology = topology
        self._problems = problems
        self._rng = rng
        self._path = path
        self._start_ps = us_to_ps(block.start_us)

    def build(self) -> Workload | None:
        """The workload, None when something is wrong with it. Raises `SourceError` for a flow file."""
        once = self._once()
        every_us = self._block.every_us
        if once is None or every_us is None:
            return once
        with self._problems.blame(self._path):
            return workload.repeated(once, self._block.times, us_to_ps(every_us))
        return None

    def _once(self) -> Workload | None:
        block = self._block
        if block.mix is not None:
            return self._mix(block.mix)
        if block.flows is not None:
            return self._flow_list(block.flows)
        if block.flow_file is not None:
            return self._flow_file(block.flow_file)
        before = len(self._problems.found)
        hosts = self._hosts()
        if len(self._problems.found) > before:
            return None
        with self._problems.blame(self._path):
            if block.incast is not None:
                return self._incast(block.incast, hosts)
            if block.arrivals is not None:
                return self._arrivals(block.arrivals, hosts)
            return self._collective(hosts)
        return None

    def _mix(self, parts: list[WorkloadBlock]) -> Workload | None:
        made = []
        for i, part in enumerate(parts):
            # Parts of one kind must not draw the same.
            def rng(purpose: str, i: int = i) -> random.Random:
                return self._rng(f"{purpose}/{i}")

            path = (*self._path, "mix", i)
            found = WorkloadKeys(part, self._topology, self._problems, rng, path).build()
            if found is not None:
                made.append(found)
        if len(made) < len(parts):
            return None
        with self._problems.blame((*self._path, "mix")):
            return workload.mixed(made)
        return None

    def _hosts(self) -> list[int]:
        names = self._block.hosts
        if names is None:
            return [h.id for h in self._topology.hosts]
        found = []
        for i, name in enumerate(names):
            with self._problems.blame((*self._path, "hosts", i)):
                found.append(self._topology.host(name).id)
        return found

    def _collective(self, hosts: list[int]) -> Workload:
        block, at = self._block, self._start_ps
        machines = Machines(block.gpus_per_host, gbps_to_bps(block.nvlink_gbps))
        if (a2a := block.all_to_all) is not None:
            size = a2a.bytes_per_pair if a2a.bytes_matrix is None else a2a.bytes_matrix
            assert size is not None
            return collectives.all_to_all(hosts, size, at, machines, block.rail_aware)
        if (shape := block.moe) is not None:
            sizes = (shape.tokens, shape.token_bytes, shape.experts, shape.top_k)
            shaped = MoeShape(*sizes, shape.skew, shape.combine)
            return moe(hosts, shaped, self._rng("moe"), at, machines, block.rail_aware)
        if (hier := block.hierarchical_all_reduce) is not None:
            return collectives.hierarchical_all_reduce(hosts, hier.bytes, machines, at)
        if (tree := block.tree_all_reduce) is not None:
            return collectives.tree_all_reduce(hosts, tree.bytes, tree.chunk_bytes, at)
        if (cast := block.broadcast) is not None:
            root = hosts[0] if cast.root is None else self._topology.host(cast.root).id
            return collectives.broadcast(hosts, root, cast.bytes, cast.chunk_bytes, at)
        if block.permutation is not None:
            rng = self._rng("permutation")
            return workload.permutation(hosts, block.permutation.bytes, rng, at)
        if block.reduce_scatter is not None:
            return collectives.reduce_scatter(hosts, block.reduce_scatter.bytes, at)
        if block.all_gather is not None:
            return collectives.all_gather(hosts, block.all_gather.bytes, at)
        assert block.ring_all_reduce is not None
        return collectives.ring_all_reduce(hosts, block.ring_all_reduce.bytes, at)

    def _incast(self, block: Incast, hosts: list[int]) -> Workload | None:
        path: KeyPath = (*self._path, "incast")
        before = len(self._problems.found)
        blame = self._problems.blame
        to, senders = 0, []
        with blame((*path, "to")):
            to = self._topology.host(block.to).id
        if block.senders is not None:
            for i, name in enumerate(block.senders):
                with blame((*path, "from", i)):
                    senders.append(self._topology.host(name).id)
                    if name == block.to or name in block.senders[:i]:
                        raise WorkloadError(f"host {name} cannot send here: it is named already")
        else:
            others = [h for h in hosts if h > to] + [h for h in hosts if h < to]
            fan_in = block.fan_in or 0
            if fan_in > len(others):
                what = f"is {fan_in}, there are {len(others)} other hosts"
                self._problems.bad((*path, "fan_in"), what)
            senders = others[:fan_in]
        if len(self._problems.found) > before:
            return None
        return workload.incast(to, senders, block.bytes, self._start_ps)

    def _arrivals(self, block: Arrivals, hosts: list[int]) -> Workload:
        if isinstance(block.sizes, str):
            cdf = arrivals.KNOWN[block.sizes]
        else:
            cdf = arrivals.checked([(p.bytes, p.percent) for p in block.sizes])
        rates = {h: self._topology.attachment(h).spec.rate_bps for h in hosts}
        span = (us_to_ps(block.duration_us), self._rng("arrivals"), self._start_ps)
        return arrivals.arrivals(rates, cdf, block.load, *span)

    def _flow_list(self, entries: list[FlowEntry]) -> Workload | None:
        if not entries:  # no file can say so
            return workload.NOTHING
        flows = []
        for i, entry in enumerate(entries):
            ends = []
            for key, name in (("src", entry.src), ("dst", entry.dst)):
                with self._problems.blame((*self._path, "flows", i, key)):
                    ends.append(self._topology.host(name).id)
            if entry.src == entry.dst:
                what = f"is {entry.dst}, the same as src"
                self._problems.bad((*self._path, "flows", i, "dst"), what)
            elif len(ends) == 2:
                start_ps = self._start_ps + us_to_ps(entry.start_us)
                flows.append((ends[0], ends[1], entry.bytes, start_ps))
        return None if len(flows) < len(entries) else workload.flow_list(flows)

    def _flow_file(self, block: FlowFile) -> Workload | None:
        path = self._problems.path(block.path)
        lines = flow_file.read_flow_file(path)
        first_ps = min(flow.start_ps for flow in lines)
        host = _numbered_hosts(self._topology)
        with self._problems.blame((*self._path, "flow_file")):
            flows = []
            for n, flow in enumerate(lines, 1):
                if flow.src == flow.dst:
                    raise WorkloadError(f"{path}: flow {n} goes from node {flow.src} to itself")
                ends = (host(flow.src), host(flow.dst))
                start_ps = self._start_ps + flow.start_ps - first_ps
                flows.append((*ends, flow.size_bytes, start_ps))
            return workload.flow_list(flows)
        return None


def _numbered_hosts(topology: Topology) -> Callable[[int], int]:
    """Node number of a flow file -> host id: `h<number>` where hosts are so named, else in order."""
    named = {h.name: h.id for h in topology.hosts}
    by_name = any(re.fullmatch(r"h\d+", name) for name in named)
    ordered = {} if by_name else {n: h.id for n, h in enumerate(topology.hosts)}
    numbers = {f"h{n}": host for n, host in ordered.items()} or named

    def host(number: int) -> int:
        found = numbers.get(f"h{number}")
        if found is None:
            raise TopologyError(f"the flow file's node {number} is no host of the topology")
        return found

    return host
