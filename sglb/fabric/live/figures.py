"""Figures of a live run, from what the packets did.

A packet is lost that was sent and never came; of a data packet that was sent several times, an arrival
stands for the last copy sent before it. How long a fault hurt is the time from the cut to the last lost
packet that was sent where the fault could touch it: from a switch that had a dead next hop toward the
packet's destination (`faults.dead_hops`). It is split by notifications that something is down, as they
came in at the switches:

- detection: until the first that came from a switch at the cut, which sends it as it finds out;
- notification: until the last switch that had a dead next hop further on got its first;
- reaction: the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sglb.fabric import metrics
from sglb.fabric.bounds import LowerBound
from sglb.fabric.events import EventLog, FaultInjected, NotificationReceived, SlowPathSaw
from sglb.fabric.faults import DeadHop, FabricState, Fault, FaultKind, dead_hops
from sglb.fabric.live.fabric import LiveRun
from sglb.fabric.live.scaled import packet_ps
from sglb.fabric.live.traffic import Sent, TrafficResult
from sglb.fabric.metrics import LossStats
from sglb.fabric.report import (
    FlowsReport,
    LiveReport,
    LossWindow,
    PolicyReport,
    RecoveryReport,
    SplitReport,
    to_us,
    worst,
)
from sglb.fabric.scenario import Scenario
from sglb.fabric.topology import Link, Topology
from sglb.switch.clock import PS_PER_S

_CUTS: Final = {
    FaultKind.LINK_DOWN: FaultKind.LINK_UP,
    FaultKind.SWITCH_DOWN: FaultKind.SWITCH_UP,
    FaultKind.BLACKHOLE: FaultKind.HEAL,
}
#: Packets this old when something is cut may still be in a queue.
_UNDER_WAY_PS: Final = PS_PER_S
_ON_THE_WAY: Final = "on the way"
_REFUSED: Final = "not taken by the host's interface"
_LATE: Final = 100  #: of a bound: how early a live run may seem to have ended


@dataclass(frozen=True, slots=True)
class Lost:
    """A packet that never came."""

    sent: Sent
    data: bool


def lost_packets(traffic: TrafficResult) -> list[Lost]:
    """All that never came, in order of sending."""
    found = [
        Lost(sent, False)
        for number, sent in enumerate(traffic.probes)
        if number not in traffic.probe_arrivals
    ]
    copies: dict[bytes, list[Sent]] = defaultdict(list)
    for identity, sent in traffic.copies:
        copies[identity].append(sent)
    for identity, time_ps in traffic.arrivals:
        waiting = copies.get(identity)
        if waiting:
            before = [i for i, sent in enumerate(waiting) if sent.time_ps <= time_ps]
            waiting.pop(before[-1] if before else 0)
    found += [Lost(sent, True) for left in copies.values() for sent in left]
    return sorted(found, key=lambda lost: lost.sent.time_ps)


@dataclass(frozen=True, slots=True)
class _Cut:
    """A fault that cuts: when, until when, and the next hops that it made dead."""

    fault: Fault
    cut_ps: int
    repaired_ps: int | None
    killed: frozenset[DeadHop]

    def links(self, topology: Topology) -> list[Link]:
        """The links that it is about."""
        links = [*self.fault.links, *(edge.link for edge in self.fault.edges)]
        if self.fault.switch_id:
            links += topology.ports(self.fault.switch_id).values()
        return links

    def ends(self, topology: Topology) -> set[int]:
        """The switches and hosts at these links."""
        return {end for link in self.links(topology) for end in (link.a, link.b)}


def _cuts(topology: Topology, log: EventLog) -> Iterator[_Cut]:
    state = FabricState(topology)
    before: frozenset[DeadHop] = frozenset()
    injected = log.of(FaultInjected)
    for n, event in enumerate(injected):
        state.apply(event.fault)
        after = dead_hops(state)
        if event.fault.kind in _CUTS:
            repaired = _repaired(event.fault, injected[n + 1 :])
            yield _Cut(event.fault, event.time_ps, repaired, after - before)
        before = after


def _touched(fault: Fault) -> set[tuple[str, int]]:
    links = [*fault.links, *(edge.link for edge in fault.edges)]
    switch = {("switch", fault.switch_id)} if fault.switch_id else set()
    return {("link", link.id) for link in links} | switch


def _repaired(fault: Fault, later: Iterable[FaultInjected]) -> int | None:
    for event in later:
        ends = event.fault.kind is _CUTS[fault.kind]
        if ends and _touched(event.fault) & _touched(fault):
            return event.time_ps
    return None


class _Harm:
    """What one cut did to the packets."""

    def __init__(self, topology: Topology, cut: _Cut, log: EventLog, run: TrafficResult) -> None:
        self._topology = topology
        self._cut = cut
        self._run = run
        self._pairs = {(hop.switch_id, hop.dest_switch_id) for hop in cut.killed}
        self._links = {link.id for link in cut.links(topology)}
        self._ends = cut.ends(topology)
        self._remote = {switch for switch, _ in self._pairs} - self._ends
        end_ps = cut.repaired_ps
        self._events = [
            e for e in log if e.time_ps >= cut.cut_ps and (end_ps is None or e.time_ps <= end_ps)
        ]

    def _exposed(self, sent: Sent) -> tuple[int, int] | None:
        pair = (
            self._topology.switch_of(sent.src).id,
            self._topology.switch_of(sent.dst).id,
        )
        return pair if pair in self._pairs else None

    def lost(self, packets: Sequence[Lost]) -> list[Lost]:
        """Those of the lost packets that the cut could touch."""
        first_ps, end_ps = self._cut.cut_ps - _UNDER_WAY_PS, self._cut.repaired_ps
        return [
            lost
            for lost in packets
            if lost.sent.time_ps >= first_ps
            and (end_ps is None or lost.sent.time_ps < end_ps)
            and self._exposed(lost.sent)
        ]

    def recovery(self, lost: Sequence[Lost]) -> RecoveryReport:
        """How long it took, of all, of switches at the cut and of others."""
        local = [one for one in lost if self._local(one.sent)]
        remote = [one for one in lost if not self._local(one.sent)]
        cut = self._cut
        return RecoveryReport(
            cut.fault.label,
            str(cut.fault.kind),
            to_us(cut.cut_ps),
            None if cut.repaired_ps is None else to_us(cut.repaired_ps),
            *(self._split(some) for some in (lost, local, remote)),
        )

    def _split(self, lost: Sequence[Lost]) -> SplitReport:
        cut_ps = self._cut.cut_ps
        seen_ps, by = self._detected()
        end_ps = max((one.sent.time_ps for one in lost), default=cut_ps)
        total_ps = max(0, end_ps - cut_ps)
        detected_ps = min(max(0, seen_ps - cut_ps), total_ps)
        told_ps = min(max(0, self._told(seen_ps) - cut_ps), total_ps)
        told_ps = max(told_ps, detected_ps)
        return SplitReport(
            to_us(total_ps),
            to_us(detected_ps),
            to_us(told_ps - detected_ps),
            to_us(total_ps - told_ps),
            by,
            sum(one.data for one in lost),
            None,
            "",
        )

    def _detected(self) -> tuple[int, str]:
        for event in self._events:
            if (
                isinstance(event, NotificationReceived)
                and event.down
                and event.origin in self._ends
            ):
                return event.time_ps, "data plane"
            if isinstance(event, SlowPathSaw) and not event.up and event.link_id in self._links:
                return event.time_ps, "routing"
        return -1, "nobody"

    def _told(self, seen_ps: int) -> int:
        """When the last switch further on that had a dead next hop got its first notification."""
        return max(self._first_told().values(), default=seen_ps)

    def _first_told(self) -> dict[int, int]:
        """By switch further on, when it got its first notification."""
        first: dict[int, int] = {}
        for event in self._events:
            if (
                isinstance(event, NotificationReceived)
                and event.down
                and event.node in self._remote
            ):
                first.setdefault(event.node, event.time_ps)
        return first

    def _local(self, sent: Sent) -> bool:
        return self._topology.switch_of(sent.src).id in self._ends

    def window(self, lost: Sequence[Lost], remote_only: bool) -> LossWindow:
        """The span of the losses, and how finely packets saw it."""
        cut_ps = self._cut.cut_ps
        lost = [one for one in lost if not (remote_only and self._local(one.sent))]
        times = [one.sent.time_ps - cut_ps for one in lost]
        told = self._first_told()
        return LossWindow(
            self._cut.fault.label,
            to_us(times[0]) if times else None,
            to_us(times[-1]) if times else None,
            sum(one.data for one in lost),
            sum(not one.data for one in lost),
            self._step_us(remote_only),
            to_us(max(told.values()) - cut_ps) if len(told) == len(self._remote) > 0 else None,
        )

    def _step_us(self, remote_only: bool) -> float | None:
        """Mean time between packets, probes and data, that the cut could touch."""
        run = self._run
        sent = [*run.probes, *(one for _, one in run.copies)]
        touched = sum(
            1 for one in sent if self._exposed(one) and not (remote_only and self._local(one))
        )
        return to_us(run.end_ps) / touched if touched else None


def summary(
    scenario: Scenario,
    run: LiveRun,
    bound: LowerBound,
    ideal_fct_ps: Sequence[int],
    target: str,
    interrupted: bool,
) -> PolicyReport:
    """The report of one policy's live run. Raises `BoundViolation`.

    A bound is held to but for one packet on the slowest link and a hundredth: a busy processor records a
    start late, while rates hold from when it was due. BMv2's ports have no rate: hosts may get more than
    their links carry, so none holds there.
    """
    log = EventLog()
    log.merge(run.events)
    traffic, hosts = run.traffic, list(run.traffic.hosts.values())
    completion_ps = metrics.completion_ps(log, scenario.workload)
    ratio = None
    if completion_ps is not None and target != "bmv2":
        grain_ps = packet_ps(scenario.topology, scenario.model.transport.mtu_bytes)
        bound.check(completion_ps + grain_ps + bound.completion_ps // _LATE)
        ratio = completion_ps / bound.completion_ps
    lost = lost_packets(traffic)
    recoveries, windows, remote = [], [], []
    cuts = list(_cuts(scenario.topology, log))
    for cut in cuts:
        harm = _Harm(scenario.topology, cut, log, traffic)
        its = harm.lost(lost)
        recoveries.append(harm.recovery(its))
        windows.append(harm.window(its, remote_only=False))
        remote.append(harm.window(its, remote_only=True))
    transport = metrics.transport_stats(hosts)
    drops, depth, at = _switches(scenario.topology, run.switches)
    data_lost = sum(one.data for one in lost)
    scale = scenario.model.live.rate_scale or 1
    return PolicyReport(
        policy=run.policy,
        completed=completion_ps is not None,
        completion_us=None if completion_ps is None else to_us(completion_ps),
        lower_bound_us=to_us(bound.completion_ps),
        ratio=ratio,
        lost_packets=data_lost,
        max_queue_bytes=depth,
        max_queue_at=at,
        recovery=worst(recoveries),
        recoveries=tuple(recoveries),
        flows=FlowsReport.of(metrics.flow_stats(log, scenario.workload, ideal_fct_ps)),
        losses=LossStats(
            data_lost,
            max(0, transport.acks_sent - transport.acks_arrived),
            0,
            _reasons(data_lost, traffic.refused),
        ),
        transport=transport,
        drops=drops,
        control=run.control,
        end_us=to_us(traffic.end_ps),
        wire_frames=len(traffic.copies) + len(traffic.probes) + transport.acks_sent,
        interrupted=interrupted,
        bus_gbps=(completion_ps and scenario.workload.bus_gbps(completion_ps)) or None,
        live=LiveReport(
            target,
            scale,
            len(traffic.probes),
            len(traffic.probes) - len(traffic.probe_arrivals),
            tuple(windows),
            tuple(remote),
            run.restarts,
            _false_alarms(scenario.topology, log, cuts),
        ),
    )


def _false_alarms(topology: Topology, log: EventLog, cuts: Sequence[_Cut]) -> int:
    """Notifications of something down from switches that are at no cut so far."""
    count = 0
    for event in log.of(NotificationReceived):
        if event.down and event.time_ps >= 0:
            so_far = [cut for cut in cuts if cut.cut_ps <= event.time_ps]
            count += not any(event.origin in cut.ends(topology) for cut in so_far)
    return count


def _reasons(lost: int, refused: int) -> dict[str, int]:
    """Where data packets were lost; what interfaces refused may be acknowledges and probes, too."""
    refused = min(lost, refused)
    found = {_ON_THE_WAY: lost - refused, _REFUSED: refused}
    return {reason: count for reason, count in found.items() if count}


def _switches(
    topology: Topology, counts: Mapping[str, Mapping[str, object]]
) -> tuple[dict[str, int], int | None, str]:
    """Drops by reason over all switches, the deepest queue (None: no switch told) and its place."""
    drops: dict[str, int] = {}
    depth: int | None = None
    at = ""
    for name, found in counts.items():
        given = found.get("drops")
        if isinstance(given, dict):
            for reason, number in given.items():
                drops[reason] = drops.get(reason, 0) + int(number)
        deepest, port = found.get("max_queue_bytes"), found.get("max_queue_port")
        if isinstance(deepest, int) and isinstance(port, int) and deepest > (depth or -1):
            depth = deepest
            if port:
                switch = topology.node(name).id
                other = topology.link_at(switch, port).other(switch)
                at = f"{name} to {topology.by_id(other).name}"
    return dict(sorted(drops.items())), depth, at
