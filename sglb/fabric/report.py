"""What a run found out, as typed records that print to the same JSON bytes for the same seed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from sglb.fabric.bounds import LowerBound
from sglb.fabric.metrics import FlowStats, LossStats, PauseStats, Spread, TransportStats
from sglb.fabric.recovery import Recovery, Split
from sglb.switch.clock import PS_PER_US


def to_us(time_ps: int) -> float:
    """Picoseconds to microseconds."""
    return time_ps / PS_PER_US


@dataclass(frozen=True, slots=True)
class SplitReport:
    """A recovery in us; see `sglb.fabric.recovery.Split`."""

    total_us: float
    detection_us: float
    notification_us: float
    reaction_us: float
    detected_by: str
    lost_packets: int
    sent_into_dead_path: int | None
    last_switch: str

    @classmethod
    def of(cls, split: Split) -> SplitReport:
        """From picoseconds."""
        return cls(
            to_us(split.total_ps),
            to_us(split.detection_ps),
            to_us(split.notification_ps),
            to_us(split.reaction_ps),
            split.detected_by,
            split.lost_packets,
            split.sent_into_dead_path,
            split.last_switch,
        )


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """Recovery from one fault; see `sglb.fabric.recovery.Recovery`. Times in us."""

    fault: str
    kind: str
    cut_us: float
    repaired_us: float | None
    overall: SplitReport
    local: SplitReport
    remote: SplitReport

    @classmethod
    def of(cls, found: Recovery) -> RecoveryReport:
        """From picoseconds."""
        return cls(
            found.label,
            found.kind,
            to_us(found.cut_ps),
            None if found.repaired_ps is None else to_us(found.repaired_ps),
            *(SplitReport.of(split) for split in (found.overall, found.local, found.remote)),
        )


def worst(recoveries: Sequence[RecoveryReport]) -> SplitReport | None:
    """The longest of all recoveries, the first of equals; None without any fault that cuts."""
    return max((r.overall for r in recoveries), key=lambda s: s.total_us, default=None)


@dataclass(frozen=True, slots=True)
class FlowsReport:
    """Flow completion times in us and slowdowns (to the flow alone on the healthy fabric)."""

    all: int
    completed: int
    fct_us: Spread
    slowdown: Spread

    @classmethod
    def of(cls, stats: FlowStats) -> FlowsReport:
        """From picoseconds."""
        fct = stats.fct_ps
        times = (fct.mean, fct.p50, fct.p90, fct.p99, fct.largest)
        us = Spread(fct.count, *(t / PS_PER_US for t in times))
        return cls(stats.flows, stats.completed, us, stats.slowdown)


@dataclass(frozen=True, slots=True)
class BoundReport:
    """One lower bound on the completion time, and what causes it."""

    kind: str
    what: str
    completion_us: float

    @classmethod
    def all_of(cls, bound: LowerBound) -> tuple[BoundReport, ...]:
        """The strongest of each kind, strongest first."""
        return tuple(cls(b.kind, b.what, to_us(b.time_ps - bound.start_ps)) for b in bound.bounds)


@dataclass(frozen=True, slots=True)
class TracedPacket:
    """One packet's way through the fabric.

    `why` says which packet it is, `hops` are the records of `PacketTrace.to_json`, `text` is for
    people. `hops` is empty when no packet fitted.
    """

    policy: str
    why: str
    hops: tuple[Mapping[str, Any], ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class LossWindow:
    """What a fault cost on a live fabric: packets that were sent then and could not come through.

    `first_us` and `last_us` are when the first and the last of them was sent, after the cut; None
    without any. `data_lost` counts data packets of the workload, `probes_lost` probes.
    `step_us` is how far apart probes into the affected paths were: losses shorter than that
    can be missed, and none is known more exactly. `told_us` is when the last switch further on that had
    a dead next hop was told of it by a data plane, None if not all were.
    """

    fault: str
    first_us: float | None
    last_us: float | None
    data_lost: int
    probes_lost: int
    step_us: float | None
    told_us: float | None = None


@dataclass(frozen=True, slots=True)
class LiveReport:
    """What only a run on real packets has to tell.

    `target` ran the switches (`live` or `bmv2`), at rates divided by `rate_scale`. `probes` were sent,
    `probes_lost` never came. `windows` are the faults' that cut, `remote` the same of packets from
    switches that are not at the cut. `false_alarms` counts notifications of something down that no fault
    explains: the machine was too busy for heartbeats. `restarts` counts, by name, processes that ended
    and were started anew.
    """

    target: str
    rate_scale: int
    probes: int
    probes_lost: int
    windows: tuple[LossWindow, ...]
    remote: tuple[LossWindow, ...]
    restarts: Mapping[str, int]
    false_alarms: int = 0


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """What one policy did. Times in us from the workload's start, `end_us` from the run's.

    `completion_us` and `ratio` (to the lower bound) are None when the workload did not complete by
    `stop_us`; `flows.all - flows.completed` are still open then. `lost_packets` counts data packets.
    `bus_gbps` is a collective's bus bandwidth as nccl-tests defines it, None for what is none.
    `recovery` is the longest of `recoveries`, None when nothing was cut. `max_queue_at` names switch
    and port. `drops` counts what switches dropped, by reason and control frames included. `control`
    is the control plane's own report. One that was `interrupted` says what had happened by `end_us`.
    `live` is there for runs on real packets, whose times are real; what they cannot know is None.
    """

    policy: str
    completed: bool
    completion_us: float | None
    lower_bound_us: float
    ratio: float | None
    lost_packets: int
    max_queue_bytes: int | None
    max_queue_at: str
    recovery: SplitReport | None
    recoveries: tuple[RecoveryReport, ...]
    flows: FlowsReport
    losses: LossStats
    transport: TransportStats
    drops: Mapping[str, int]
    control: Mapping[str, Any]
    end_us: float
    wire_frames: int
    trace: TracedPacket | None = None
    interrupted: bool = False
    pauses: PauseStats = field(default_factory=PauseStats)
    bus_gbps: float | None = None
    live: LiveReport | None = None


@dataclass(frozen=True, slots=True)
class RunReport:
    """A whole run. `scenario` has every key with its default; `faults` are in words.

    `versions` are those of sglb and what it stands on, and the digest of the P4 program. A run that
    was `interrupted` has only the policies that had finished or begun by then.
    """

    scenario: Mapping[str, Any]
    name: str
    seed: int
    versions: Mapping[str, str]
    lower_bounds: tuple[BoundReport, ...]
    policies: Mapping[str, PolicyReport]
    interrupted: bool = False

    @property
    def completed(self) -> bool:
        """Whether every policy ran and completed."""
        return not self.interrupted and all(p.completed for p in self.policies.values())

    @property
    def lower_bound_us(self) -> float:
        """The strongest lower bound on the completion time."""
        return self.lower_bounds[0].completion_us

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as in the JSON."""
        data: dict[str, Any] = dataclasses.asdict(self)
        for policy in data["policies"].values():
            if policy["trace"] is not None:
                del policy["trace"]["text"]
        return data

    @classmethod
    def from_json(cls, text: str) -> RunReport:
        """What `to_json` wrote, but for a trace's text. Raises ValueError for anything else."""
        report = TypeAdapter(cls).validate_json(text)
        names = report.scenario.get("policies")
        order = names if isinstance(names, list) else []  # JSON has sorted them by name
        policies = sorted(
            report.policies.items(),
            key=lambda item: order.index(item[0]) if item[0] in order else len(order),
        )
        return dataclasses.replace(report, policies=dict(policies))

    def to_json(self) -> str:
        """JSON with sorted keys: the same bytes for the same scenario, seed and versions."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
