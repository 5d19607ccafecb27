"""Figures of a run, from what happened to packets and flows; nothing is added up from constants.

Times are integer picoseconds, counts are packets. Percentiles are by nearest rank: the smallest
value that at least p percent of all values do not exceed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Protocol

from sglb.fabric.events import EventLog, FlowCompleted, FlowStarted, LossReason, PacketLost, Traffic
from sglb.fabric.host import NicStats
from sglb.fabric.qp import ReceiveStats, SendStats
from sglb.fabric.workload import Workload


class SenderCounters(Protocol):
    """The sending side of a queue pair."""

    @property
    def stats(self) -> SendStats:
        """Its counts."""


class ReceiverCounters(Protocol):
    """The receiving side of a queue pair."""

    @property
    def stats(self) -> ReceiveStats:
        """Its counts."""


class HostCounters(Protocol):
    """A host, reference or native, as far as figures are concerned."""

    @property
    def stats(self) -> NicStats:
        """Counts of its NIC."""

    @property
    def send_queues(self) -> Mapping[int, SenderCounters]:
        """Senders by queue pair number."""

    @property
    def receive_queues(self) -> Mapping[int, ReceiverCounters]:
        """Receivers by queue pair number."""


class ConservationError(AssertionError):
    """More packets arrived or were lost than were sent: the simulation is wrong."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How values are spread; all 0 when there are none."""

    count: int = 0
    mean: float = 0.0
    p50: int | float = 0.0
    p90: int | float = 0.0
    p99: int | float = 0.0
    largest: int | float = 0.0


def spread(values: Sequence[float]) -> Spread:
    """Mean, nearest-rank percentiles and maximum."""
    if not values:
        return Spread()
    ranked = sorted(values)
    p50, p90, p99 = (percentile(ranked, p) for p in (50, 90, 99))
    return Spread(len(ranked), sum(ranked) / len(ranked), p50, p90, p99, ranked[-1])


def percentile(ranked: Sequence[float], percent: int) -> float:
    """Nearest-rank percentile (0 < percent <= 100) of values in ascending order."""
    return ranked[-(-percent * len(ranked) // 100) - 1]


@dataclass(frozen=True, slots=True)
class FlowStats:
    """Flow completion times (ps, from a flow's own start) and slowdowns (to the ideal)."""

    flows: int
    completed: int
    fct_ps: Spread
    slowdown: Spread


def completion_ps(log: EventLog, workload: Workload) -> int | None:
    """From the workload's start to its completion; None if a flow is not complete."""
    done = {e.flow_id: e.time_ps for e in log.of(FlowCompleted)}
    if len(done) < len(workload.flows):
        return None
    return max(done.values()) + workload.tail_ps - workload.start_ps


def flow_stats(log: EventLog, workload: Workload, ideal_fct_ps: Sequence[int]) -> FlowStats:
    """Completion times of the flows that completed; `ideal_fct_ps` by flow id (`bounds`)."""
    started = {e.flow_id: e.time_ps for e in log.of(FlowStarted)}
    fct = {e.flow_id: e.time_ps - started[e.flow_id] for e in log.of(FlowCompleted)}
    slowdown = [time_ps / ideal_fct_ps[flow_id] for flow_id, time_ps in fct.items()]
    return FlowStats(len(workload.flows), len(fct), spread(list(fct.values())), spread(slowdown))


@dataclass(frozen=True, slots=True)
class LossStats:
    """Packets that were sent and never arrived; `by_reason` counts data packets."""

    data: int
    acks: int
    control: int
    by_reason: Mapping[str, int] = field(default_factory=dict)


def losses(log: EventLog, hosts: Sequence[HostCounters] = ()) -> LossStats:
    """Losses in the log, and frames that hosts' NICs were sending when their link went down."""
    count = dict.fromkeys(Traffic, 0)
    reasons: dict[str, int] = {}
    for event in log.of(PacketLost):
        count[event.traffic] += 1
        if event.traffic is Traffic.DATA:
            reasons[str(event.reason)] = reasons.get(str(event.reason), 0) + 1
    cut = sum(h.stats.cut_data for h in hosts)
    if cut:
        reasons[str(LossReason.LINK_DOWN)] = reasons.get(str(LossReason.LINK_DOWN), 0) + cut
    count[Traffic.DATA] += cut
    count[Traffic.ACK] += sum(h.stats.cut_acks for h in hosts)
    ordered = dict(sorted(reasons.items()))
    return LossStats(count[Traffic.DATA], count[Traffic.ACK], count[Traffic.CONTROL], ordered)


@dataclass(frozen=True, slots=True)
class PauseStats:
    """What priority flow control and DCQCN did, over the whole fabric.

    `pause_frames` were sent (those that let go, too), `paused_us` is the time that ports were paused in
    some class, added up, `storms` how often a watchdog stepped in. `buffer_bytes` and `headroom_bytes`
    are the most that any switch used of its shared pool and of its headroom. `cnps` were sent.
    """

    pause_frames: int = 0
    paused_us: float = 0.0
    storms: int = 0
    buffer_bytes: int = 0
    headroom_bytes: int = 0
    cnps: int = 0


@dataclass(frozen=True, slots=True)
class TransportStats:
    """Sums over all hosts and queue pairs, in packets, but `reorder_extent`, a maximum.

    `data_arrived` counts duplicates too; `bad_frames` are those that a host dropped.
    """

    data_sent: int = 0
    data_arrived: int = 0
    duplicates: int = 0
    resent: int = 0
    timeouts: int = 0
    reordered: int = 0
    reorder_extent: int = 0
    ecn_marked: int = 0
    acks_sent: int = 0
    acks_arrived: int = 0
    bad_frames: int = 0


def transport_stats(hosts: Iterable[HostCounters]) -> TransportStats:
    """What the hosts counted."""
    total = dict.fromkeys((f.name for f in fields(TransportStats)), 0)
    for host in hosts:
        nic = host.stats
        total["data_sent"] += nic.data_sent
        total["data_arrived"] += nic.data_received
        total["acks_sent"] += nic.acks_sent
        total["acks_arrived"] += nic.acks_received
        total["bad_frames"] += sum(nic.dropped.values())
        for sender in host.send_queues.values():
            total["resent"] += sender.stats.resent
            total["timeouts"] += sender.stats.timeouts
        for queue in host.receive_queues.values():
            total["duplicates"] += queue.stats.duplicates
            total["reordered"] += queue.stats.reordered
            total["ecn_marked"] += queue.stats.ce_marked
            extent = queue.stats.reorder_extent
            total["reorder_extent"] = max(total["reorder_extent"], extent)
    return TransportStats(**total)


def in_flight(log: EventLog, hosts: Sequence[HostCounters]) -> int:
    """Data packets sent that have neither arrived nor been lost: still on their way.

    Raises `ConservationError` when that is negative. When all that was sent has had time to
    arrive, it must be 0 (but for frames that hosts dropped, see `TransportStats.bad_frames`).
    """
    stats = transport_stats(hosts)
    lost = losses(log, hosts).data
    left = stats.data_sent - stats.data_arrived - lost
    if left < 0:
        raise ConservationError(
            f"{stats.data_sent} data packets were sent, but {stats.data_arrived} arrived and "
            f"{lost} were lost"
        )
    return left
