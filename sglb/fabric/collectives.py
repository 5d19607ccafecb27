"""Collectives as flows: who sends what to whom, after what.

`hosts` are node ids of GPUs' NICs, N of them, in the collective's order. `per_machine` GPUs in a row
stand in one machine and reach one another over NVLink at `nvlink_bps` (payload bit/s a GPU and
direction): what they exchange there is a delay and no flow, and all of a step is done before the next
begins. Reducing takes no time.

Sizes that do not divide leave the first parts a byte longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sglb.fabric.workload import Flow, Workload, WorkloadError, members
from sglb.switch.clock import PS_PER_S


@dataclass(frozen=True, slots=True)
class Machines:
    """How GPUs stand in machines: `size` in a row in each, NVLink at `nvlink_bps`."""

    size: int = 1
    nvlink_bps: int = 3_600_000_000_000

    def count(self, hosts: int, what: str) -> int:
        """Machines of so many GPUs. Raises `WorkloadError` when they do not fill them."""
        if hosts % self.size:
            raise WorkloadError(
                f"{what}: {hosts} hosts do not fill machines of gpus_per_host: {self.size}"
            )
        if hosts == self.size:
            raise WorkloadError(f"{what}: all {hosts} hosts are in one machine, nothing to send")
        return hosts // self.size

    def nvlink_ps(self, size_bytes: int) -> int:
        """Time of so many bytes over NVLink, rounded up."""
        return -(-size_bytes * 8 * PS_PER_S // self.nvlink_bps)


ONE_GPU = Machines()


def split(size_bytes: int, parts: int) -> list[int]:
    """`size_bytes` in `parts`, the first ones a byte longer when it does not divide."""
    return [size_bytes // parts + (n < size_bytes % parts) for n in range(parts)]


# Rings


def ring_all_reduce(hosts: Sequence[int], size_bytes: int, start_ps: int = 0) -> Workload:
    """Ring all-reduce of a vector of `size_bytes`: 2(N-1) dependent steps.

    In step s host i sends chunk (i - s) mod N to host i+1, after it has received that chunk in
    step s-1 (steps 0..N-2 reduce-scatter, the rest all-gather).
    """
    count, steps = len(hosts), 2 * (len(hosts) - 1)
    flows = _ring("ring_all_reduce", hosts, size_bytes, steps, start_ps)
    return Workload("ring_all_reduce", flows, bus_bytes=size_bytes * 2 * (count - 1) / count)


def reduce_scatter(hosts: Sequence[int], size_bytes: int, start_ps: int = 0) -> Workload:
    """Ring reduce-scatter of a vector of `size_bytes`: the first N-1 steps of `ring_all_reduce`."""
    return _half_ring("reduce_scatter", hosts, size_bytes, start_ps)


def all_gather(hosts: Sequence[int], size_bytes: int, start_ps: int = 0) -> Workload:
    """Ring all-gather of `size_bytes` in all: in step s host i sends host (i - s)'s part to i+1."""
    return _half_ring("all_gather", hosts, size_bytes, start_ps)


def _half_ring(what: str, hosts: Sequence[int], size_bytes: int, start_ps: int) -> Workload:
    count = len(hosts)
    flows = _ring(what, hosts, size_bytes, count - 1, start_ps)
    return Workload(what, flows, bus_bytes=size_bytes * (count - 1) / count)


def _ring(
    what: str, hosts: Sequence[int], size_bytes: int, steps: int, start_ps: int
) -> tuple[Flow, ...]:
    count = members(hosts, what, steps)
    if size_bytes < count:
        raise WorkloadError(f"{what} of {size_bytes} bytes is less than a byte a host")
    chunks = split(size_bytes, count)
    flows: list[Flow] = []
    for step in range(steps):
        for i in range(count):
            after = ((step - 1) * count + (i - 1) % count,) if step else ()
            size = chunks[(i - step) % count]
            dst = hosts[(i + 1) % count]
            flows.append(Flow(len(flows), hosts[i], dst, size, start_ps, after, step))
    return tuple(flows)


def hierarchical_all_reduce(
    hosts: Sequence[int], size_bytes: int, machines: Machines, start_ps: int = 0
) -> Workload:
    """All-reduce in three stages: reduce-scatter inside, a ring a rail, all-gather inside.

    With g GPUs in each of M machines the stages inside take (g-1)/g x `size_bytes` over NVLink each;
    between them rail r all-reduces its part of the vector in a ring of its M GPUs.
    """
    what = "hierarchical_all_reduce"
    ring = machines.count(len(hosts), what)
    rails, steps = machines.size, 2 * (ring - 1)
    members(hosts, what, steps)
    if size_bytes < len(hosts):
        raise WorkloadError(f"{what} of {size_bytes} bytes is less than a byte a host")
    shards = split(size_bytes, rails)
    inside_ps = machines.nvlink_ps(size_bytes - shards[-1])
    chunks = [split(shard, ring) for shard in shards]
    flows: list[Flow] = []
    for step in range(steps):
        for n, src in enumerate(hosts):
            machine, rail = divmod(n, rails)
            before = (machine - 1) % ring * rails + rail
            after = ((step - 1) * len(hosts) + before,) if step else ()
            size = chunks[rail][(machine - step) % ring]
            dst = hosts[(machine + 1) % ring * rails + rail]
            flows.append(Flow(len(flows), src, dst, size, start_ps + inside_ps, after, step))
    bus = size_bytes * 2 * (len(hosts) - 1) / len(hosts)
    return Workload(what, tuple(flows), inside_ps, inside_ps, bus)


# Trees and chains


def double_binary_tree(count: int) -> tuple[list[int], list[int]]:
    """Parents (-1: the root) of ranks 0..`count`-1 in two trees, in none of which all are busy.

    In the first tree rank r > 0 stands as high as r has trailing zero bits, so odd ranks are leaves;
    its parent moves its lowest one bit up by one place (or only drops it where that rank is not there),
    and rank 0 is the root above all. The second is the same tree with ranks in reverse order (an even
    count) or moved on by one (an odd one), so that leaves of one are inner nodes of the other (Sanders,
    Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009).
    """

    def parent(rank: int) -> int:
        if not rank:
            return -1
        low = rank & -rank
        up = (rank ^ low) | low << 1
        return up if up < count else rank ^ low

    first = [parent(r) for r in range(count)]
    if count % 2 == 0:
        place = [count - 1 - r for r in range(count)]
    else:
        place = [(r - 1) % count for r in range(count)]
    rank_at = {virtual: rank for rank, virtual in enumerate(place)}
    second = [rank_at[first[v]] if first[v] >= 0 else -1 for v in place]
    return first, second


def tree_all_reduce(
    hosts: Sequence[int], size_bytes: int, chunk_bytes: int, start_ps: int = 0
) -> Workload:
    """Double binary tree all-reduce of a vector of `size_bytes`, half of it in each tree.

    A half goes in chunks of `chunk_bytes`: a rank sends a chunk to its parent when it has come from
    all its children, the root sends it back down at once, a rank passes it on as it comes.
    """
    what = "tree_all_reduce"
    if size_bytes < 2:
        raise WorkloadError(f"{what} of {size_bytes} byte leaves nothing for the second tree")
    halves = [_chunks(half, chunk_bytes) for half in split(size_bytes, 2)]
    count = members(hosts, what, 2 * (len(halves[0]) + len(halves[1])))
    trees = [_Tree(parents) for parents in double_binary_tree(count)]
    flows: list[Flow] = []
    for n in range(len(halves[0])):
        for tree, half in zip(trees, halves, strict=True):
            if n < len(half):
                tree.add_chunk(flows, hosts, half[n], start_ps)
    bus = size_bytes * 2 * (count - 1) / count
    return Workload(what, tuple(flows), bus_bytes=bus)


class _Tree:
    """One tree: ranks in order from the root down."""

    def __init__(self, parents: Sequence[int]) -> None:
        self._parents = parents
        self._children: list[list[int]] = [[] for _ in parents]
        for rank, parent in enumerate(parents):
            if parent >= 0:
                self._children[parent].append(rank)
        self._order = [parents.index(-1)]
        for rank in self._order:
            self._order += self._children[rank]
        self._height = [0] * len(parents)
        for rank in reversed(self._order):
            self._height[rank] = max([1 + self._height[c] for c in self._children[rank]], default=0)

    def add_chunk(self, flows: list[Flow], hosts: Sequence[int], size: int, start_ps: int) -> None:
        """Append one chunk's way up and down; leaves send at the start."""
        into: list[list[int]] = [[] for _ in hosts]

        def send(src: int, dst: int, after: Sequence[int], step: int) -> None:
            into[dst].append(len(flows))
            flow = Flow(len(flows), hosts[src], hosts[dst], size, start_ps, tuple(after), step)
            flows.append(flow)

        root = self._order[0]
        for rank in reversed(self._order[1:]):
            send(rank, self._parents[rank], into[rank], self._height[rank])
        reduced = list(into[root])
        depth = {root: 0}
        for rank in self._order:
            after = reduced if rank == root else into[rank][-1:]
            for child in self._children[rank]:
                depth[child] = depth[rank] + 1
                send(rank, child, after, self._height[root] + depth[rank])


def broadcast(
    hosts: Sequence[int], root: int, size_bytes: int, chunk_bytes: int, start_ps: int = 0
) -> Workload:
    """`size_bytes` from `root` along the chain of the hosts after it, in chunks, each passed on."""
    what = "broadcast"
    if root not in hosts:
        raise WorkloadError(f"{what}: the root is not among its hosts")
    chunks = _chunks(size_bytes, chunk_bytes)
    count = members(hosts, what, len(chunks))
    first = list(hosts).index(root)
    chain = [hosts[(first + n) % count] for n in range(count)]
    flows: list[Flow] = []
    for size in chunks:
        for n in range(count - 1):
            after = (len(flows) - 1,) if n else ()
            flows.append(Flow(len(flows), chain[n], chain[n + 1], size, start_ps, after, n))
    return Workload(what, tuple(flows), bus_bytes=float(size_bytes))


def _chunks(size_bytes: int, chunk_bytes: int) -> list[int]:
    full, rest = divmod(size_bytes, chunk_bytes)
    return [chunk_bytes] * full + ([rest] if rest else [])


# All-to-all


def all_to_all(
    hosts: Sequence[int],
    bytes_per_pair: int | Sequence[Sequence[int]],
    start_ps: int = 0,
    machines: Machines = ONE_GPU,
    rail_aware: bool = False,
) -> Workload:
    """Every host sends to every other one, all at once: `bytes_per_pair`, or row i, column j of them.

    The sends of host i are posted in the order i+1, i+2, .. (wrapping around), so that with a
    NIC that serves its queue pairs in turn the k-th packets of all hosts go to different hosts.

    Pairs in one machine use NVLink beside the fabric and are left out. With `rail_aware` GPUs hand
    what is for rail r of other machines to rail r of their own over NVLink first; a flow then carries
    a whole machine's bytes to its rail's GPU in another one, and starts when NVLink is done.
    """
    what = "all_to_all"
    count = members(hosts, what, len(hosts) - 1)
    size = _sizes(what, count, bytes_per_pair)
    if machines.size > 1:
        machines.count(count, what)
    g = machines.size
    total = sum(size(i, j) for i in range(count) for j in range(count) if i != j)
    lead_ps = _to_rails(count, size, machines) if rail_aware else 0

    def sent(i: int, j: int) -> int:
        if i // g == j // g:
            return 0
        if not rail_aware:
            return size(i, j)
        first = i // g * g
        return 0 if i % g != j % g else sum(size(n, j) for n in range(first, first + g))

    flows: list[Flow] = []
    for i in range(count):
        for k in range(1, count):
            j = (i + k) % count
            if part := sent(i, j):
                flows.append(Flow(len(flows), hosts[i], hosts[j], part, start_ps + lead_ps))
    return Workload(what, tuple(flows), lead_ps, bus_bytes=total / count)


def _sizes(
    what: str, count: int, given: int | Sequence[Sequence[int]]
) -> Callable[[int, int], int]:
    if isinstance(given, int):
        return lambda _i, _j: given
    if len(given) != count:
        raise WorkloadError(f"{what}: bytes_matrix has {len(given)} rows for {count} hosts")
    for i, row in enumerate(given):
        if len(row) != count:
            raise WorkloadError(
                f"{what}: row {i} of bytes_matrix has {len(row)} entries for {count} hosts"
            )
    return lambda i, j: given[i][j]


def _to_rails(count: int, size: Callable[[int, int], int], machines: Machines) -> int:
    """Time until every GPU's bytes are with the rails, or the GPUs of its machine, they are for.

    The busiest GPU, sending or receiving, decides: a GPU sends what is for another rail number, of any
    machine, its own included, over NVLink.
    """
    g = machines.size
    out, into = [0] * count, [0] * count
    for i in range(count):
        for j in range(count):
            if i % g != j % g:
                out[i] += size(i, j)
                into[i // g * g + j % g] += size(i, j)
    return machines.nvlink_ps(max(*out, *into))
