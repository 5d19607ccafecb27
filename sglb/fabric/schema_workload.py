"""Keys of `workload`: one collective, an arrival process, flows one by one, or a mix of those."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sglb.fabric.schema_types import (
    Bytes,
    BytesOrNone,
    Count,
    Model,
    PositiveTime,
    Rate,
    Time,
    exactly_one,
    word_or,
)

_WORD, _POINTS, _CHOICE = word_or("a list of points")


class AllToAll(Model):
    """Every host to every other host: the same to all, or a matrix.

    `bytes_matrix[i][j]` is what host i sends to host j (0: nothing); the diagonal stays at home.
    """

    bytes_per_pair: Bytes | None = None
    bytes_matrix: list[list[BytesOrNone]] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        exactly_one(self, ("bytes_per_pair", "bytes_matrix"))
        return self


class SizedCollective(Model):
    """A collective of a vector, or a message, of `bytes` a host; see `sglb.fabric.collectives`."""

    bytes: Bytes


class TreeAllReduce(Model):
    """Double binary tree all-reduce of a vector of `bytes`, in chunks of `chunk_bytes`.

    512 KiB is the slot of NCCL's Simple protocol.
    """

    bytes: Bytes
    chunk_bytes: Bytes = 524_288


class Broadcast(Model):
    """`bytes` from `root` (by default the first host) to all others, along a chain, in chunks."""

    bytes: Bytes
    root: str | None = None
    chunk_bytes: Bytes = 524_288


class Moe(Model):
    """Mixture of experts: tokens to their experts (dispatch), and the results back (combine).

    Each host has `tokens` tokens of `token_bytes` (7168 hidden values of bf16 by default) and
    `experts` / hosts of the experts. A token goes to `top_k` different experts, drawn from the seed with
    the weight 1 / rank^`skew` (0: evenly), ranks dealt to the experts at random. It travels once to a
    host, however many of its experts are there. A host sends results back when all tokens are in.
    """

    tokens: Count
    token_bytes: Bytes = 14_336
    experts: Count
    top_k: Annotated[int, Field(ge=1, le=64)] = 8
    skew: Annotated[float, Field(ge=0, le=10)] = 0.0
    combine: bool = True


class Incast(Model):
    """Many to one: the senders by name, or the first `fan_in` hosts after `to`."""

    to: str
    senders: Annotated[list[str], Field(min_length=1)] | None = Field(None, alias="from")
    fan_in: Count | None = None
    bytes: Bytes

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.senders is None) == (self.fan_in is None):
            raise ValueError("needs exactly one of from, fan_in")
        return self


class CdfPoint(Model):
    """`percent` of all flows have at most `bytes`."""

    bytes: Bytes
    percent: Annotated[float, Field(ge=0, le=100)]


class Arrivals(Model):
    """Flows between random pairs of hosts, sizes from a distribution, arrivals Poisson.

    `load` is the mean share of each host's own link that payload takes. `sizes` is a known
    distribution (`web_search`, `fb_hdp`: the tables of HPCC's traffic generator), or points of one:
    between points it is linear, as there. Flows start within `duration_us`.
    """

    load: Annotated[float, Field(gt=0, le=1)]
    sizes: Annotated[
        Annotated[Literal["web_search", "fb_hdp"], _WORD]
        | Annotated[list[CdfPoint], Field(min_length=2), _POINTS],
        _CHOICE,
    ]
    duration_us: Time


class FlowFile(Model):
    """Flows from a file in HPCC's format: a count, then lines `src dst class port bytes start`.

    Nodes are HPCC's numbers: hosts in the order of `topology.file`, else in that of the scenario's
    hosts, from 0; `start` in seconds. The class and port of a line are read and not used.
    """

    path: str


class FlowEntry(Model):
    """One flow."""

    src: str
    dst: str
    bytes: Bytes
    start_us: Time = 0.0


COLLECTIVES = (
    "all_to_all",
    "ring_all_reduce",
    "tree_all_reduce",
    "hierarchical_all_reduce",
    "reduce_scatter",
    "all_gather",
    "broadcast",
    "moe",
    "permutation",
)
WORKLOADS = (*COLLECTIVES, "incast", "arrivals", "flows", "flow_file", "mix")


class WorkloadBlock(Model):
    """One collective, an incast, arrivals, flows, or a mix; `hosts` limits it to some, in order.

    A host here is a GPU with its NIC. `gpus_per_host` says how many in a row (of `hosts`, or of all)
    stand in one machine; a GPU's number in it is its rail. What they exchange inside takes time at
    `nvlink_gbps` (3600: NVLink 4, 450 GB/s a direction) and is no flow of the fabric. `rail_aware`
    makes GPUs send to their own rail only, the rest of the way is NVLink's (all-to-all, MoE).

    `mix` is several workloads in one run, each with its own `start_us` (of flows: what all their own
    are counted from) and `hosts`; the flows of one do not wait for those of another. `times` with
    `every_us` starts the same flows anew so often, each time so much later, whether or not those before
    are complete.
    """

    all_to_all: AllToAll | None = None
    ring_all_reduce: SizedCollective | None = None
    tree_all_reduce: TreeAllReduce | None = None
    hierarchical_all_reduce: SizedCollective | None = None
    reduce_scatter: SizedCollective | None = None
    all_gather: SizedCollective | None = None
    broadcast: Broadcast | None = None
    moe: Moe | None = None
    incast: Incast | None = None
    permutation: SizedCollective | None = None
    arrivals: Arrivals | None = None
    flows: Annotated[list[FlowEntry], Field(min_length=1)] | None = None
    flow_file: FlowFile | None = None
    mix: Annotated[list[WorkloadBlock], Field(min_length=2)] | None = None
    hosts: Annotated[list[str], Field(min_length=2)] | None = None
    gpus_per_host: Annotated[int, Field(ge=1, le=64)] = 1
    rail_aware: bool = False
    nvlink_gbps: Rate = 3_600.0
    start_us: Time = 0.0
    times: Annotated[int, Field(ge=1, le=100_000)] = 1
    every_us: PositiveTime | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        exactly_one(self, WORKLOADS)
        if (self.times > 1) != (self.every_us is not None):
            raise ValueError("times and every_us go together, times from 2 on")
        if (self.flows is not None or self.flow_file is not None) and self.hosts is not None:
            raise ValueError("hosts goes with a collective, flows name their own")
        if self.mix is not None:
            if self.hosts is not None or self.start_us:
                raise ValueError("hosts and start_us go with the parts of a mix")
            if any(part.mix is not None for part in self.mix):
                raise ValueError("a mix can't be part of a mix")
        if self.rail_aware and self.kind not in ("all_to_all", "moe"):
            raise ValueError("rail_aware goes with all_to_all or moe")
        machines = ("all_to_all", "moe", "hierarchical_all_reduce")
        if self.gpus_per_host > 1 and self.kind not in machines:
            raise ValueError(f"gpus_per_host goes with {', '.join(machines)}")
        if self.gpus_per_host == 1 and (self.rail_aware or self.hierarchical_all_reduce):
            raise ValueError("gpus_per_host must be at least 2 for rails in a machine")
        return self

    @property
    def kind(self) -> str:
        """Which of `WORKLOADS` this is."""
        return next(k for k in WORKLOADS if getattr(self, k) is not None)
