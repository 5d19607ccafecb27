"""The keys of a scenario file, their units and their defaults.

Times are in the unit that the key's name ends in; rates are 10^9 bit/s; sizes are bytes. Only
what can be said of one value or one block alone is checked here; `scenario` checks names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Policy = Literal["ecmp", "flowlet", "spray", "dlb", "glb"]
MAX_SEED = (1 << 63) - 1
POLICIES: tuple[Policy, ...] = ("ecmp", "flowlet", "spray", "dlb", "glb")

# A day in virtual time, far beyond any run; keeps float-to-picosecond rounding exact enough.
_MAX_US = 86_400_000_000.0
Time = Annotated[float, Field(ge=0, le=_MAX_US)]
PositiveTime = Annotated[float, Field(gt=0, le=_MAX_US)]
Rate = Annotated[float, Field(gt=0, le=100_000)]
Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=65_535)]
Bytes = Annotated[int, Field(ge=1, le=1 << 40)]


class Model(BaseModel):
    """A block of the file: no unknown key, no silent conversion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def _exactly_one(block: BaseModel, names: tuple[str, ...]) -> None:
    given = [n for n in names if getattr(block, n) is not None]
    if len(given) != 1:
        said = f"got {' and '.join(given)}" if given else "got none"
        raise ValueError(f"needs exactly one of {', '.join(names)}; {said}")


class LeafSpine(Model):
    """Every leaf joined to every spine."""

    leaves: Count
    spines: Count
    hosts_per_leaf: Count
    links_per_pair: Count = 1


class Clos3(Model):
    """Three tiers: `k` for the k-ary fat tree, or all five sizes."""

    k: Annotated[int, Field(ge=2, le=64)] | None = None
    pods: Count | None = None
    leaves_per_pod: Count | None = None
    spines_per_pod: Count | None = None
    cores_per_spine: Count | None = None
    hosts_per_leaf: Count | None = None

    @model_validator(mode="after")
    def _k_or_sizes(self) -> Self:
        sizes = ("pods", "leaves_per_pod", "spines_per_pod", "cores_per_spine", "hosts_per_leaf")
        missing = [s for s in sizes if getattr(self, s) is None]
        if self.k is not None and len(missing) < len(sizes):
            raise ValueError("takes k or the five sizes, not both")
        if self.k is None and missing:
            raise ValueError(f"needs k, or all five sizes; missing: {', '.join(missing)}")
        if self.k is not None and self.k % 2:
            raise ValueError(f"k must be even, got {self.k}")
        return self

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """Pods, leaves and spines a pod, cores a spine, hosts a leaf."""
        if self.k is not None:
            half = self.k // 2
            return (self.k, half, half, half, half)
        sizes = (
            self.pods,
            self.leaves_per_pod,
            self.spines_per_pod,
            self.cores_per_spine,
            self.hosts_per_leaf,
        )
        pods, leaves, spines, cores, hosts = (s or 0 for s in sizes)
        return (pods, leaves, spines, cores, hosts)


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class ExplicitSwitch(Model):
    """A switch: its name alone, or with tier and pod."""

    name: str
    kind: Literal["leaf", "spine", "core"] | None = None
    pod: Annotated[int, Field(ge=0)] | None = None


class ExplicitLink(Model):
    """A link, or `count` parallel ones, of an explicit topology."""

    between: Annotated[list[str], Field(min_length=2, max_length=2)]
    rate_gbps: Rate | None = None
    delay_ns: Time | None = None
    count: Annotated[int, Field(ge=1, le=64)] = 1


class Explicit(Model):
    """A topology written out."""

    switches: Annotated[
        list[Annotated[ExplicitSwitch, BeforeValidator(_named)]], Field(min_length=1)
    ]
    hosts: Annotated[list[str], Field(min_length=1)]
    links: Annotated[list[ExplicitLink], Field(min_length=1)]


class TopologyBlock(Model):
    """One generator, or an explicit topology."""

    leaf_spine: LeafSpine | None = None
    clos3: Clos3 | None = None
    explicit: Explicit | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        _exactly_one(self, ("leaf_spine", "clos3", "explicit"))
        return self


class LinkDefaults(Model):
    """Rate and one-way delay of a class of links."""

    rate_gbps: Rate = 100.0
    delay_ns: Time = 500.0


class Loss(Model):
    """Random loss on a link: a probability a frame, for SyncMesh frames and for all others.

    Both directions, unless `direction` (`a->b`) names one; from `from_us` until `to_us`.
    """

    syncmesh: Probability = 0.0
    data: Probability = 0.0
    from_us: Time = 0.0
    to_us: Time | None = None
    direction: str | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.to_us is not None and self.to_us <= self.from_us:
            raise ValueError(f"to_us ({self.to_us:g}) must be after from_us ({self.from_us:g})")
        return self


class LinkOverride(Model):
    """What is special about one link (or bundle of parallel links; `index` picks one, from 1)."""

    between: Annotated[list[str], Field(min_length=2, max_length=2)]
    index: Count | None = None
    rate_gbps: Rate | None = None
    delay_ns: Time | None = None
    loss: Loss | None = None


class LinksBlock(Model):
    """Links of hosts, links of the fabric, and exceptions."""

    host: LinkDefaults = LinkDefaults()
    fabric: LinkDefaults = LinkDefaults()
    overrides: list[LinkOverride] = []


class Ecn(Model):
    """Marking by queue depth: never below kmin, always above kmax, up to pmax in between."""

    kmin_bytes: Bytes = 100_000
    kmax_bytes: Bytes = 400_000
    pmax: Probability = 0.2

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.kmin_bytes > self.kmax_bytes:
            raise ValueError(
                f"kmin_bytes ({self.kmin_bytes}) must not exceed kmax_bytes ({self.kmax_bytes})"
            )
        return self


class SwitchBlock(Model):
    """Timing, buffers and balancing of every switch.

    `capacity_slots: false` gives every path the same share whatever its capacity (the suppression
    that unequal paths cause then shows). `adaptive_per` is what dlb and glb choose a path for.
    """

    pipeline_latency_ns: Time = 1_000.0
    port_down_detection_us: Time = 10.0
    queue_bytes: Bytes = 2_000_000
    ecn: Ecn = Ecn()
    capacity_slots: bool = True
    adaptive_per: Literal["packet", "flowlet"] = "packet"
    flowlet_idle_us: PositiveTime = 256.0
    quality_sample_us: PositiveTime = 16.0


class ControlPlaneBlock(Model):
    """The slow path (routing): how long it takes to notice, to reroute and to restore.

    The defaults are BFD at 3 x 50 ms, and 61 ms from the withdraw to the kernel route as measured
    with FRR 8.4 in network namespaces.
    """

    failure_detection_ms: Time = 150.0
    reaction_ms: Time = 61.0
    restore_ms: Time = 61.0


class SyncMeshBlock(Model):
    """Timers and limits of the SyncMesh agents and of the notifications of the data plane."""

    hello_us: PositiveTime = 1_000.0
    hold_us: PositiveTime = 3_500.0
    full_us: PositiveTime = 10_000.0
    heartbeat_us: PositiveTime = 1_000.0
    missed_count: Annotated[int, Field(ge=1, le=255)] = 3
    notify_gap_us: Time = 5.0
    down_repeats: Annotated[int, Field(ge=1, le=16)] = 3
    profiles: Annotated[int, Field(ge=1, le=2_048)] = 64

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.hold_us <= self.hello_us:
            raise ValueError(f"hold_us ({self.hold_us:g}) must exceed hello_us ({self.hello_us:g})")
        return self


class AllToAll(Model):
    """Every host to every other host."""

    bytes_per_pair: Bytes


class SizedCollective(Model):
    """A collective of a vector (all-reduce) or a message (permutation) of `bytes` a host."""

    bytes: Bytes


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


class FlowEntry(Model):
    """One flow."""

    src: str
    dst: str
    bytes: Bytes
    start_us: Time = 0.0


class WorkloadBlock(Model):
    """One collective or a list of flows; `hosts` limits a collective to some hosts, in order."""

    all_to_all: AllToAll | None = None
    ring_all_reduce: SizedCollective | None = None
    incast: Incast | None = None
    permutation: SizedCollective | None = None
    flows: Annotated[list[FlowEntry], Field(min_length=1)] | None = None
    hosts: Annotated[list[str], Field(min_length=2)] | None = None
    start_us: Time = 0.0

    @model_validator(mode="after")
    def _one(self) -> Self:
        kinds = ("all_to_all", "ring_all_reduce", "incast", "permutation", "flows")
        _exactly_one(self, kinds)
        if self.flows is not None and self.hosts is not None:
            raise ValueError("hosts goes with a collective, flows name their own")
        if self.flows is not None and self.start_us:
            raise ValueError("start_us goes with a collective, each flow has its own")
        return self


class TransportBlock(Model):
    """RoCEv2 senders and receivers; see `sglb.fabric.host` for what each number does."""

    mtu_bytes: Annotated[int, Field(ge=64, le=9_000, multiple_of=4)] = 4_096
    window_packets: Annotated[int, Field(ge=1, le=256)] = 32
    ack_every: Annotated[int, Field(ge=1, le=64)] = 4
    rto_us: PositiveTime = 200.0
    rto_max_us: PositiveTime = 20_000.0
    reorder_us: Time = 50.0
    qps_per_pair: Annotated[int, Field(ge=1, le=64)] = 1
    ip_version: Literal[4, 6] = 4

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.rto_max_us < self.rto_us:
            raise ValueError(
                f"rto_max_us ({self.rto_max_us:g}) must not be below rto_us ({self.rto_us:g})"
            )
        return self


class RateChange(Model):
    """A link's new rate."""

    link: str
    gbps: Rate


class FlapBlock(Model):
    """A link that goes down and up `count` times."""

    link: str
    start_us: Time
    down_us: PositiveTime
    up_us: PositiveTime
    count: Annotated[int, Field(ge=1, le=10_000)]


FAULT_KINDS = ("down", "up", "rate", "flap", "down_switch", "up_switch", "blackhole", "heal")


class FaultBlock(Model):
    """One fault: `down`, `up`, `blackhole` and `heal` name a link (`a-b`; the last two also one
    direction `a->b`), `down_switch` and `up_switch` a switch.
    """

    at_us: Time | None = None
    down: str | None = None
    up: str | None = None
    rate: RateChange | None = None
    flap: FlapBlock | None = None
    down_switch: str | None = None
    up_switch: str | None = None
    blackhole: str | None = None
    heal: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        _exactly_one(self, FAULT_KINDS)
        if self.flap is None and self.at_us is None:
            raise ValueError("needs at_us, the time of the fault")
        if self.flap is not None and self.at_us is not None:
            raise ValueError("flap has its own start_us, at_us does not go with it")
        return self

    @property
    def start_us(self) -> float:
        """When the fault (first) happens."""
        return self.flap.start_us if self.flap is not None else self.at_us or 0.0


class ScenarioModel(Model):
    """A whole scenario file."""

    name: str = ""
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] = 1
    topology: TopologyBlock
    links: LinksBlock = LinksBlock()
    switch: SwitchBlock = SwitchBlock()
    control_plane: ControlPlaneBlock = ControlPlaneBlock()
    syncmesh: SyncMeshBlock = SyncMeshBlock()
    workload: WorkloadBlock
    transport: TransportBlock = TransportBlock()
    faults: list[FaultBlock] = []
    policies: Annotated[list[Policy], Field(min_length=1)] = list(POLICIES)
    stop_us: PositiveTime = 1_000_000.0
