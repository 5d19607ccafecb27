"""Workloads as flows that wait for a time and for other flows.

A flow is one message from one host to another. It starts when its start time has come *and* all
flows that it waits for are complete, that is when their receivers have every byte; the host in
between takes no time (compute is not modelled).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_FLOWS = 1_000_000


class WorkloadError(ValueError):
    """A workload that makes no sense, e.g. a ring of one host."""


@dataclass(frozen=True, slots=True)
class Flow:
    """`size_bytes` of payload from host `src` to host `dst` (node ids).

    It may start from `start_ps` on, once the flows numbered in `after` are complete. `step` is
    its place in a collective, for reports.
    """

    id: int
    src: int
    dst: int
    size_bytes: int
    start_ps: int = 0
    after: tuple[int, ...] = ()
    step: int = 0

    def __post_init__(self) -> None:
        if self.src == self.dst:
            raise WorkloadError(f"flow {self.id} goes from host {self.src} to itself")
        if self.size_bytes < 1:
            raise WorkloadError(f"flow {self.id} has {self.size_bytes} bytes, it needs at least 1")
        if self.start_ps < 0:
            raise WorkloadError(f"flow {self.id} starts before time 0")


@dataclass(frozen=True, slots=True)
class Workload:
    """Flows whose ids are their places in `flows`, and which only wait for earlier ones."""

    name: str
    flows: tuple[Flow, ...]

    def __post_init__(self) -> None:
        if not self.flows:
            raise WorkloadError(f"workload {self.name} has no flow")
        for place, flow in enumerate(self.flows):
            if flow.id != place or any(not 0 <= a < place for a in flow.after):
                raise WorkloadError(f"flow {flow.id} is out of order in workload {self.name}")

    @property
    def start_ps(self) -> int:
        """When the first flow may start: completion times count from here."""
        return min(f.start_ps for f in self.flows)

    @property
    def total_bytes(self) -> int:
        """Payload bytes of all flows."""
        return sum(f.size_bytes for f in self.flows)


def all_to_all(hosts: Sequence[int], bytes_per_pair: int, start_ps: int = 0) -> Workload:
    """Every host sends `bytes_per_pair` to every other one, all at once.

    The sends of host i are posted in the order i+1, i+2, .. (wrapping around), so that with a
    NIC that serves its queue pairs in turn the k-th packets of all hosts go to different hosts.
    """
    count = _members(hosts, "all_to_all", len(hosts) - 1)
    pairs = ((i, (i + k) % count) for i in range(count) for k in range(1, count))
    return Workload(
        "all_to_all",
        tuple(
            Flow(n, hosts[i], hosts[j], bytes_per_pair, start_ps) for n, (i, j) in enumerate(pairs)
        ),
    )


def ring_all_reduce(hosts: Sequence[int], size_bytes: int, start_ps: int = 0) -> Workload:
    """Ring all-reduce of a vector of `size_bytes` over N hosts: 2(N-1) dependent steps.

    In step s host i sends chunk (i - s) mod N to host i+1, after it has received that chunk in
    step s-1 (steps 0..N-2 reduce-scatter, the rest all-gather). Chunks are `size_bytes` / N, the
    first `size_bytes` mod N of them one byte longer.
    """
    count = _members(hosts, "ring_all_reduce", 2 * (len(hosts) - 1))
    if size_bytes < count:
        raise WorkloadError(f"ring_all_reduce of {size_bytes} bytes is less than a byte a host")
    chunks = [size_bytes // count + (c < size_bytes % count) for c in range(count)]
    flows: list[Flow] = []
    for step in range(2 * (count - 1)):
        for i in range(count):
            after = ((step - 1) * count + (i - 1) % count,) if step else ()
            size = chunks[(i - step) % count]
            dst = hosts[(i + 1) % count]
            flows.append(Flow(len(flows), hosts[i], dst, size, start_ps, after, step))
    return Workload("ring_all_reduce", tuple(flows))


def incast(to: int, senders: Sequence[int], size_bytes: int, start_ps: int = 0) -> Workload:
    """Every sender sends `size_bytes` to host `to`, all at once."""
    return Workload(
        "incast", tuple(Flow(n, s, to, size_bytes, start_ps) for n, s in enumerate(senders))
    )


def permutation(
    hosts: Sequence[int], size_bytes: int, rng: random.Random, start_ps: int = 0
) -> Workload:
    """Every host sends `size_bytes` to one other and receives from one other.

    The partners form one random cycle through all hosts (Sattolo's algorithm), uniformly chosen.
    """
    image = list(range(_members(hosts, "permutation", 1)))
    for i in range(len(image) - 1, 0, -1):
        j = rng.randrange(i)
        image[i], image[j] = image[j], image[i]
    return Workload(
        "permutation",
        tuple(Flow(n, hosts[n], hosts[image[n]], size_bytes, start_ps) for n in range(len(hosts))),
    )


def flow_list(entries: Iterable[tuple[int, int, int, int]]) -> Workload:
    """Independent flows from (src, dst, size_bytes, start_ps)."""
    return Workload("flows", tuple(Flow(n, *entry) for n, entry in enumerate(entries)))


def _members(hosts: Sequence[int], what: str, flows_each: int) -> int:
    """Number of hosts of a collective, once they are known to make one."""
    if len(hosts) < 2:
        raise WorkloadError(f"{what} needs at least 2 hosts, got {len(hosts)}")
    if len(set(hosts)) != len(hosts):
        raise WorkloadError(f"{what} names a host twice")
    if len(hosts) * flows_each > MAX_FLOWS:
        raise WorkloadError(f"{what} of {len(hosts)} hosts has more than {MAX_FLOWS} flows")
    return len(hosts)
