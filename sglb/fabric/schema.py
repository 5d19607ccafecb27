"""The keys of a scenario file, their units and their defaults.

Times are in the unit that the key's name ends in; rates are 10^9 bit/s; sizes are bytes. Only
what can be said of one value or one block alone is checked here; `scenario` checks names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from sglb.fabric.schema_lossless import BufferBlock, DcqcnBlock, Ecn, PfcBlock
from sglb.fabric.schema_types import (
    Bytes,
    Count,
    Model,
    PositiveTime,
    Probability,
    Rate,
    Time,
    TrafficClass,
    exactly_one,
)
from sglb.fabric.schema_workload import WorkloadBlock

Policy = Literal["ecmp", "flowlet", "spray", "dlb", "glb"]
POLICIES: tuple[Policy, ...] = ("ecmp", "flowlet", "spray", "dlb", "glb")

#: `native` runs compiled switches and hosts, `reference` the interpreter (see `engines`).
Engine = Literal["native", "reference"]
DEFAULT_ENGINE: Engine = "native"


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


class RailOptimised(Model):
    """Leaves by rail: NIC n of every machine of a group on the group's leaf n, leaves on all spines.

    A NIC is a node of its own, `h0.nic3`, in the order of the machines, so that `gpus_per_host` equal
    to `nics_per_host` finds them together. `hosts_per_group` is all machines by default.
    """

    hosts: Count
    nics_per_host: Annotated[int, Field(ge=1, le=64)]
    hosts_per_group: Count | None = None
    spines: Count
    links_per_pair: Count = 1


TOPOLOGIES = ("leaf_spine", "clos3", "rail_optimised", "explicit", "file")


class TopologyBlock(Model):
    """One generator, an explicit topology, or a file of another tool's.

    `file` is a path (from the scenario's folder) to a `topology.json` of the P4 tutorials (`.json`) or
    to a topology of HPCC's ns-3 (any other ending); see `sglb.fabric.topology_files`.
    """

    leaf_spine: LeafSpine | None = None
    clos3: Clos3 | None = None
    rail_optimised: RailOptimised | None = None
    explicit: Explicit | None = None
    file: str | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        exactly_one(self, TOPOLOGIES)
        return self

    @property
    def kind(self) -> str:
        """Which of `TOPOLOGIES` this is."""
        return next(k for k in TOPOLOGIES if getattr(self, k) is not None)


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
    overrides: list[LinkOverride] = Field(default_factory=list)


class SwitchBlock(Model):
    """Timing, buffers and balancing of every switch.

    `queue_bytes` bounds each lossy queue of a port. `buffer` and `pfc` are the shared buffer and the
    lossless classes. `capacity_slots: false` gives every path the same share whatever its capacity
    (the suppression that unequal paths cause then shows). `adaptive_per` is what dlb and glb choose a
    path for. `cpu_latency_ns` lies between a frame's leaving by the CPU port and the control plane.
    """

    pipeline_latency_ns: Time = 1_000.0
    cpu_latency_ns: PositiveTime = 1_000.0
    port_down_detection_us: Time = 10.0
    queue_bytes: Bytes = 2_000_000
    buffer: BufferBlock = BufferBlock()
    pfc: PfcBlock = PfcBlock()
    ecn: Ecn = Ecn()
    capacity_slots: bool = True
    adaptive_per: Literal["packet", "flowlet"] = "packet"
    flowlet_idle_us: PositiveTime = 256.0
    quality_sample_us: PositiveTime = 16.0

    @model_validator(mode="after")
    def _fits(self) -> Self:
        lossless = [c.number for c in self.buffer.classes if c.lossless]
        if self.pfc.enabled and not lossless:
            raise ValueError(
                "pfc.enabled needs a lossless class, e.g. "
                "buffer: {total_bytes: 33554432, classes: [{class: 3, lossless: true}]}"
            )
        return self

    def ecn_of(self, traffic_class: int) -> Ecn:
        """The watermarks of a class."""
        return self.buffer.of(traffic_class).ecn or self.ecn


class ControlPlaneBlock(Model):
    """The slow path (routing): how long it takes to notice, to reroute and to restore.

    `failure_detection_ms` from a port seen down until routing takes the link for down,
    `notification_ms` from there until all switches have been told, `programming_ms` from there until
    their tables are written. `reaction_ms` is the sum of the last two and may be given instead of
    either; a part that nothing is said of is 0, the whole is programming by default.

    The defaults are BFD at 3 x 50 ms, and 61 ms from the withdraw to the kernel route as measured
    with FRR 8.4 in network namespaces.
    """

    failure_detection_ms: Time = 150.0
    reaction_ms: Time = 61.0
    notification_ms: Time = 0.0
    programming_ms: Time = 61.0
    restore_ms: Time = 61.0

    @model_validator(mode="before")
    @classmethod
    def _split(cls, data: Any) -> Any:
        """Fill in whichever of the three reaction times follows from the others."""
        if not isinstance(data, dict):
            return data
        parts = [data.get(k) for k in ("reaction_ms", "notification_ms", "programming_ms")]
        if any(not isinstance(p, int | float | None) or isinstance(p, bool) for p in parts):
            return data
        reaction, notification, programming = parts
        if programming is None:
            whole = 61.0 if reaction is None else reaction
            programming = whole - (notification or 0)
            if programming < 0:
                raise ValueError(
                    f"notification_ms ({notification:g}) must not exceed reaction_ms ({whole:g})"
                )
        if notification is None:
            notification = 0 if reaction is None else max(0, reaction - programming)
        filled = {"notification_ms": notification, "programming_ms": programming}
        return {"reaction_ms": notification + programming, **data, **filled}

    @model_validator(mode="after")
    def _sum(self) -> Self:
        total = self.notification_ms + self.programming_ms
        if abs(total - self.reaction_ms) > 1e-9 * total:
            raise ValueError(
                f"reaction_ms ({self.reaction_ms:g}) must be notification_ms + programming_ms "
                f"({total:g})"
            )
        return self


class SyncMeshBlock(Model):
    """Timers and limits of the SyncMesh agents and of the notifications of the data plane.

    `key_file` holds the secret that agents share (`sglb.syncmesh.key_file`), relative to the scenario's
    folder. Without one a simulated fabric has a key that follows from the seed, a live one a fresh key.
    """

    hello_us: PositiveTime = 1_000.0
    hold_us: PositiveTime = 3_500.0
    full_us: PositiveTime = 10_000.0
    refresh_us: PositiveTime = 10_000.0
    heartbeat_us: PositiveTime = 1_000.0
    missed_count: Annotated[int, Field(ge=1, le=255)] = 3
    notify_gap_us: Time = 5.0
    down_repeats: Annotated[int, Field(ge=1, le=16)] = 3
    profiles: Annotated[int, Field(ge=1, le=2_048)] = 64
    key_file: str | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.hold_us <= self.hello_us:
            raise ValueError(f"hold_us ({self.hold_us:g}) must exceed hello_us ({self.hello_us:g})")
        return self


class TransportBlock(Model):
    """RoCEv2 senders and receivers; see `sglb.fabric.host` for what each number does.

    `recovery`: `selective_repeat` keeps packets that overtake others and sends again what is lost,
    `go_back_n` sends everything again from the first hole, told by a NAK if `nack` is on, else found
    by the timeout. `window_packets: null` sets no limit (the span of the receiver's bitmap still does
    for selective repeat). A receiver acknowledges every `ack_every`-th packet, and what is left
    `ack_timer_us` after it came (0: no timer, the sender asks with a message's last packet).
    `traffic_class` is what data and acknowledges travel in (DSCP 8 x class), `cnp_class` is for
    DCQCN's notifications; 6 is where ConnectX puts them.
    """

    mtu_bytes: Annotated[int, Field(ge=64, le=9_000, multiple_of=4)] = 4_096
    recovery: Literal["selective_repeat", "go_back_n"] = "selective_repeat"
    nack: bool = True
    window_packets: Annotated[int, Field(ge=1, le=1_024)] | None = 32
    ack_every: Annotated[int, Field(ge=1, le=64)] = 4
    ack_timer_us: Time = 0.0
    rto_us: PositiveTime = 200.0
    rto_max_us: PositiveTime = 20_000.0
    reorder_us: Time = 50.0
    qps_per_pair: Annotated[int, Field(ge=1, le=64)] = 1
    ip_version: Literal[4, 6] = 4
    traffic_class: TrafficClass = 0
    cnp_class: TrafficClass = 6
    dcqcn: DcqcnBlock = DcqcnBlock()

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


class LossFault(Model):
    """Frames lost at random from now on: of a link `a-b`, or of one direction `a->b`. 0 ends it.

    `data` is for all frames but SyncMesh's, which `syncmesh` is for (by default the same).
    """

    link: str
    data: Probability
    syncmesh: Probability | None = None


class BitErrors(Model):
    """Bit errors from now on: a frame of n bits is lost with probability 1 - (1 - ber)^n. 0 ends it.

    Of a link `a-b`, or of one direction `a->b`. n counts the frame with its FCS, without preamble.
    """

    link: str
    ber: Annotated[float, Field(ge=0, le=0.5)]


class FlapBlock(Model):
    """A link that goes down and up `count` times."""

    link: str
    start_us: Time
    down_us: PositiveTime
    up_us: PositiveTime
    count: Annotated[int, Field(ge=1, le=10_000)]


FAULT_KINDS = (
    "down",
    "up",
    "rate",
    "flap",
    "down_switch",
    "up_switch",
    "blackhole",
    "heal",
    "loss",
    "bit_errors",
)


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
    loss: LossFault | None = None
    bit_errors: BitErrors | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        exactly_one(self, FAULT_KINDS)
        if self.flap is None and self.at_us is None:
            raise ValueError("needs at_us, the time of the fault")
        if self.flap is not None and self.at_us is not None:
            raise ValueError("flap has its own start_us, at_us does not go with it")
        return self

    @property
    def start_us(self) -> float:
        """When the fault (first) happens."""
        return self.flap.start_us if self.flap is not None else self.at_us or 0.0


class LiveBlock(Model):
    """What is different on real packets (`--on live`, `--on bmv2`); nothing of it concerns `--on sim`.

    Rates are divided by `rate_scale`, times that go with them multiplied (`sglb.fabric.live.scaled`);
    by default as far as one machine can follow. The rest is in real time: it takes the place of the
    `syncmesh` and `switch` keys of the same name, whose defaults no computer keeps. `realtime`: data
    planes are real-time threads. `probes_per_s`: small packets between hosts beside the workload, which
    show how long a loss lasted. `stop_s`: when a run is given up.
    """

    rate_scale: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    hello_us: PositiveTime = 250_000.0
    hold_us: PositiveTime = 1_000_000.0
    full_us: PositiveTime = 1_000_000.0
    heartbeat_us: Annotated[float, Field(ge=100)] = 2_000.0
    missed_count: Annotated[int, Field(ge=1, le=255)] = 5
    notify_gap_us: Time = 20_000.0
    quality_sample_us: Annotated[float, Field(ge=1_000)] = 10_000.0
    probes_per_s: Annotated[int, Field(ge=0, le=20_000)] = 1_000
    realtime: bool = True
    stop_s: Annotated[float, Field(gt=0, le=86_400)] = 60.0

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.hold_us <= self.hello_us:
            raise ValueError(f"hold_us ({self.hold_us:g}) must exceed hello_us ({self.hello_us:g})")
        return self


class ScenarioModel(Model):
    """A whole scenario file."""

    name: str = ""
    engine: Engine = DEFAULT_ENGINE
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    topology: TopologyBlock
    links: LinksBlock = LinksBlock()
    switch: SwitchBlock = SwitchBlock()
    control_plane: ControlPlaneBlock = ControlPlaneBlock()
    syncmesh: SyncMeshBlock = SyncMeshBlock()
    workload: WorkloadBlock
    transport: TransportBlock = TransportBlock()
    faults: list[FaultBlock] = Field(default_factory=list)
    live: LiveBlock = LiveBlock()
    policies: Annotated[list[Policy], Field(min_length=1)] = Field(
        default_factory=lambda: list(POLICIES)
    )
    stop_us: PositiveTime = 1_000_000.0
