"""Workloads as flows that wait for a time and for other flows.

A flow is one message from one host to another. It starts when its start time has come *and* all
flows that it waits for are complete, that is when their receivers have every byte, and `delay_ps`
have passed since; compute takes no time, steps over NVLink are such delays.

This module has the plain workloads; `collectives`, `moe` and `arrivals` have the others.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sglb.switch.clock import PS_PER_S

#: Enough for an all-to-all of 1,024 hosts; a flow takes some 250 bytes here.
MAX_FLOWS = 1 << 21


class WorkloadError(ValueError):
    """A workload that makes no sense, e.g. a ring of one host."""


@dataclass(frozen=True, slots=True)
class Flow:
    """`size_bytes` of payload from host `src` to host `dst` (node ids).

    It may start from `start_ps` on, `delay_ps` after the last of the flows numbered in `after` is
    complete: max(`start_ps`, last completion + `delay_ps`). `step` is its place in a collective, for
    reports.
    """

    id: int
    src: int
    dst: int
    size_bytes: int
    start_ps: int = 0
    after: tuple[int, ...] = ()
    step: int = 0
    delay_ps: int = 0

    def __post_init__(self) -> None:
        if self.src == self.dst:
            raise WorkloadError(f"flow {self.id} goes from host {self.src} to itself")
        if self.size_bytes < 1:
            raise WorkloadError(f"flow {self.id} has {self.size_bytes} bytes, it needs at least 1")
        if self.start_ps < 0:
            raise WorkloadError(f"flow {self.id} starts before time 0")
        if self.delay_ps < 0 or (self.delay_ps and not self.after):
            raise WorkloadError(f"flow {self.id} has a delay after nothing")


@dataclass(frozen=True, slots=True)
class Gates:
    """Gate n opens when all flows in `members[n]` are complete.

    `of_flow[f]` is the gate that flow f waits for (and then its `delay_ps`), -1 for none. Flows that
    were given the same tuple in `after` share a gate, so a barrier of N flows before N costs 2N.
    """

    members: tuple[tuple[int, ...], ...]
    of_flow: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """Flows whose ids are their places in `flows`, and which only wait for earlier ones.

    `tail_ps` passes from the last flow's completion until the workload is complete (a last step over
    NVLink); `lead_ps` did so before the first flows, whose start times it is part of. `bus_bytes` are
    what nccl-tests counts for its bus bandwidth: the bytes that each GPU must at least send, 0 where
    there is no such definition.
    """

    name: str
    flows: tuple[Flow, ...]
    lead_ps: int = 0
    tail_ps: int = 0
    bus_bytes: float = 0.0

    def __post_init__(self) -> None:
        if not self.flows and self.name:
            raise WorkloadError(f"workload {self.name} has no flow")
        seen: set[int] = set()
        for place, flow in enumerate(self.flows):
            if flow.id != place:
                raise WorkloadError(f"flow {flow.id} is out of order in workload {self.name}")
            if flow.after and id(flow.after) not in seen:
                seen.add(id(flow.after))
                if min(flow.after) < 0 or max(flow.after) >= place:
                    raise WorkloadError(f"flow {flow.id} waits for one that is not before it")

    def gates(self) -> Gates:
        """What flows wait for, as gates that many may share."""
        number: dict[int, int] = {}
        members: list[tuple[int, ...]] = []
        of_flow = []
        for flow in self.flows:
            if not flow.after:
                of_flow.append(-1)
                continue
            gate = number.setdefault(id(flow.after), len(members))
            if gate == len(members):
                members.append(flow.after)
            of_flow.append(gate)
        return Gates(tuple(members), tuple(of_flow))

    @property
    def start_ps(self) -> int:
        """When the workload starts: completion times count from here."""
        return min(f.start_ps for f in self.flows) - self.lead_ps

    @property
    def total_bytes(self) -> int:
        """Payload bytes of all flows."""
        return sum(f.size_bytes for f in self.flows)

    def bus_gbps(self, completion_ps: int) -> float:
        """Bus bandwidth of nccl-tests in 10^9 bit/s (they print bytes): comparable to a NIC's rate.

        Size / time x 2(N-1)/N for all-reduce, (N-1)/N for reduce-scatter, all-gather and all-to-all, 1
        for broadcast (nccl-tests' PERFORMANCE.md); 0 for workloads without one.
        """
        return self.bus_bytes * 8 * PS_PER_S / completion_ps / 1e9 if completion_ps else 0.0


#: Of fabrics that others send over; any other workload has flows, and a name.
NOTHING = Workload("", ())


def incast(to: int, senders: Sequence[int], size_bytes: int, start_ps: int = 0) -> Workload:
    """Every sender sends `size_bytes` to host `to`, all at once."""
    return Workload(
        "incast", tuple(Flow(n, s, to, size_bytes, start_ps) for n, s in enumerate(senders))
    )


def mixed(parts: Sequence[Workload]) -> Workload:
    """Several workloads in one run, each at its own times. Raises `WorkloadError` for too many flows.

    Flows keep the order of the parts; there is no bus bandwidth.
    """
    flows: list[Flow] = []
    for part in parts:
        base = len(flows)
        shifted: dict[int, tuple[int, ...]] = {}
        for flow in part.flows:
            # Flows that share a tuple share a gate; they still do.
            after = shifted.setdefault(id(flow.after), tuple(base + n for n in flow.after))
            flows.append(replace(flow, id=base + flow.id, after=after))
    if len(flows) > MAX_FLOWS:
        raise WorkloadError(f"{len(flows)} flows are more than {MAX_FLOWS}")
    start_ps = min(part.start_ps for part in parts)
    return Workload(
        "mix",
        tuple(flows),
        lead_ps=min(flow.start_ps for flow in flows) - start_ps,
        tail_ps=max(part.tail_ps for part in parts),
    )


def repeated(once: Workload, times: int, every_ps: int) -> Workload:
    """The same flows `times` over, each time `every_ps` later. Raises `WorkloadError` for too many."""
    if times * len(once.flows) > MAX_FLOWS:
        raise WorkloadError(f"{times} times {len(once.flows)} flows are more than {MAX_FLOWS}")
    rounds = (
        replace(
            once,
            flows=tuple(replace(f, start_ps=f.start_ps + n * every_ps) for f in once.flows),
        )
        for n in range(times)
    )
    return replace(mixed(list(rounds)), name=once.name)


def permutation(
    hosts: Sequence[int], size_bytes: int, rng: random.Random, start_ps: int = 0
) -> Workload:
    """Every host sends `size_bytes` to one other and receives from one other.

    The partners form one random cycle through all hosts (Sattolo's algorithm), uniformly chosen.
    """
    image = list(range(members(hosts, "permutation", 1)))
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


def members(hosts: Sequence[int], what: str, flows_each: int) -> int:
    """Number of hosts of a collective; `WorkloadError` unless they make one of bounded size."""
    if len(hosts) < 2:
        raise WorkloadError(f"{what} needs at least 2 hosts, got {len(hosts)}")
    if len(set(hosts)) != len(hosts):
        raise WorkloadError(f"{what} names a host twice")
    if len(hosts) * flows_each > MAX_FLOWS:
        raise WorkloadError(f"{what} of {len(hosts)} hosts has more than {MAX_FLOWS} flows")
    return len(hosts)
