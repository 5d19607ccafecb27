"""How long a fault kept hurting, from what happened to the packets.

A fault makes some next hops dead: what a switch sends there cannot reach its destination switch
(`faults.dead_hops`, the truth that no switch is told). Recovery from the fault lasts from the cut
to the last packet of a host that was sent to such a hop or lost there, and is split by what was
observed:

- detection: until a port of the cut was seen down by a data plane, or by routing, whichever first; a
  data plane that misses heartbeats shows by the first notification that it sends because of them;
- notification: from there until the switch that was the last to choose a dead hop received its
  first notification (for a switch at the cut itself: none, it detects);
- reaction: the rest, in which a told switch still sends, and packets under way still get lost.

The three add up to the total because they cut one measured span, each part where its event lies
within it.

A choice is *local* when the switch has another live next hop and the dead one is the cut link
itself; *remote* when it has another and the link is further on. Where a switch has no other next
hop, such as a spine above the leaf's cut link, the packets are charged to those who sent them
there: remote.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from sglb.fabric.events import (
    Event,
    EventLog,
    FaultInjected,
    LossReason,
    NotificationReceived,
    NotificationSent,
    PacketLost,
    PacketSentIntoDeadPath,
    PortDownSeen,
    SlowPathSaw,
    SlowPathTold,
    Traffic,
)
from sglb.fabric.faults import DeadHop, FabricState, Fault, FaultKind, dead_hops, next_hops
from sglb.fabric.topology import Topology

_ENDS = {
    FaultKind.LINK_DOWN: FaultKind.LINK_UP,
    FaultKind.SWITCH_DOWN: FaultKind.SWITCH_UP,
    FaultKind.BLACKHOLE: FaultKind.HEAL,
}
# Full queues and bad luck on a wire are no part of a recovery.
_OTHER_CAUSES = frozenset((LossReason.QUEUE_FULL, LossReason.RANDOM_LOSS, LossReason.HOST))


@dataclass(frozen=True, slots=True)
class Split:
    """One recovery in time (ps); `total_ps` is the sum of the three parts.

    `detected_by`: data plane, routing or nobody. `lost_packets` counts data packets,
    `sent_into_dead_path` all host packets at the switches that could have chosen otherwise.
    `last_switch` is the one that was last to do so, an empty string when none did.
    """

    total_ps: int = 0
    detection_ps: int = 0
    notification_ps: int = 0
    reaction_ps: int = 0
    detected_by: str = "nobody"
    lost_packets: int = 0
    sent_into_dead_path: int = 0
    last_switch: str = ""


@dataclass(frozen=True, slots=True)
class Recovery:
    """Recovery from one fault, over all packets and by role.

    `repaired_ps` is when the fault itself ended, None when it did not within the run: packets
    are counted up to then only.
    """

    label: str
    kind: str
    cut_ps: int
    repaired_ps: int | None
    overall: Split
    local: Split
    remote: Split


@dataclass(frozen=True, slots=True)
class _Harm:
    """A packet sent into, or lost in, the dead path: when, by which switch's choice, and role."""

    time_ps: int
    chooser: int
    local: bool
    lost_data: bool


def recoveries(log: EventLog, topology: Topology) -> list[Recovery]:
    """One record for each cut (link or switch down, black hole) in the log, in order of time."""
    hops = next_hops(topology)
    state = FabricState(topology)
    before: frozenset[DeadHop] = frozenset()
    injected = log.of(FaultInjected)
    found = []
    for n, event in enumerate(injected):
        state.apply(event.fault)
        after = dead_hops(state)
        if event.fault.kind in _ENDS:
            cut = _Cut(topology, event.fault, after - before, after, hops)
            repaired = _repair_ps(event.fault, injected[n + 1 :])
            found.append(cut.measure(log, event.time_ps, repaired))
        before = after
    return found


def _touched(fault: Fault) -> set[tuple[str, int]]:
    links = {("link", link.id) for link in fault.links}
    edges = {("link", edge.link.id) for edge in fault.edges}
    return links | edges | ({("switch", fault.switch_id)} if fault.switch_id else set())


def _repair_ps(fault: Fault, later: Iterable[FaultInjected]) -> int | None:
    for event in later:
        if event.fault.kind is _ENDS[fault.kind] and _touched(event.fault) & _touched(fault):
            return event.time_ps
    return None


def _own(note: NotificationSent) -> bool:
    return note.node == note.origin


class _Cut:
    """One fault: which hops it killed, and what the log says about them."""

    def __init__(
        self,
        topology: Topology,
        fault: Fault,
        killed: frozenset[DeadHop],
        dead: frozenset[DeadHop],
        hops: dict[tuple[int, int], frozenset[int]],
    ) -> None:
        self._topology = topology
        self._fault = fault
        self._killed = killed
        self._pairs = {(hop.switch_id, hop.dest_switch_id) for hop in killed}
        links = list(fault.links) + [edge.link for edge in fault.edges]
        if fault.switch_id:
            links += topology.ports(fault.switch_id).values()
        self._links = {link.id for link in links}
        self._ends = {(end, link.port(end)) for link in links for end in (link.a, link.b)}
        lost: dict[tuple[int, int], set[int]] = {}
        for hop in dead:
            lost.setdefault((hop.switch_id, hop.dest_switch_id), set()).add(hop.port)
        # Who still has a live next hop could have chosen it.
        self._choosers = {pair for pair in self._pairs if hops[pair] - lost[pair]}

    def measure(self, log: EventLog, cut_ps: int, repaired_ps: int | None) -> Recovery:
        span = [
            e
            for e in log
            if e.time_ps >= cut_ps and (repaired_ps is None or e.time_ps <= repaired_ps)
        ]
        harms = [h for e in span for h in self._harm(e)]
        before = takewhile(lambda e: e.time_ps < cut_ps, log)
        detected_ps, by = self._detected(before, span)
        told: dict[int, int] = {}
        for e in span:
            if isinstance(e, NotificationReceived) and e.down and e.time_ps >= detected_ps:
                told.setdefault(e.node, e.time_ps)
            elif isinstance(e, SlowPathTold) and e.link_id in self._links:
                for switch in self._topology.switches:
                    told.setdefault(switch.id, e.time_ps)

        def split(some: Sequence[_Harm]) -> Split:
            return self._split(some, cut_ps, detected_ps, by, told)

        return Recovery(
            self._fault.label,
            str(self._fault.kind),
            cut_ps,
            repaired_ps,
            split(harms),
            split([h for h in harms if h.local]),
            split([h for h in harms if not h.local]),
        )

    def _detected(self, before: Iterable[Event], span: Iterable[Event]) -> tuple[int, str]:
        """When, by whom. Missing heartbeats show as the first word of what an end can't reach."""
        said = {e.node: e.down for e in before if isinstance(e, NotificationSent) and _own(e)}
        new = {node for node, _ in self._ends if not said.get(node)}
        for e in span:
            if isinstance(e, PortDownSeen) and (e.node, e.port) in self._ends:
                return e.time_ps, "data plane"
            if isinstance(e, NotificationSent) and _own(e) and e.down and e.node in new:
                return e.time_ps, "data plane"
            if isinstance(e, SlowPathSaw) and not e.up and e.link_id in self._links:
                return e.time_ps, "routing"
        return -1, "nobody"

    def _harm(self, event: object) -> list[_Harm]:
        if isinstance(event, PacketSentIntoDeadPath):
            if DeadHop(event.node, event.port, event.dest_switch) not in self._killed:
                return []
            chooser, local = self._role(event.node, event.port, event.dest_switch)
            return [_Harm(event.time_ps, chooser, local, False)]
        if isinstance(event, PacketLost) and self._is_ours(event):
            _, local = self._role(event.node, event.port, event.dest_switch)
            return [_Harm(event.time_ps, 0, local, event.traffic is Traffic.DATA)]
        return []

    def _is_ours(self, event: PacketLost) -> bool:
        if event.traffic is Traffic.CONTROL or event.reason in _OTHER_CAUSES:
            return False
        at = (event.node, event.port)
        return at in self._ends or (event.node, event.dest_switch) in self._pairs

    def _role(self, node: int, port: int, dest: int) -> tuple[int, bool]:
        """Whose choice it was (0 when `node` had none), and whether the fault is local to it."""
        if (node, dest) not in self._choosers:
            return 0, False
        return node, (node, port) in self._ends

    def _split(
        self,
        harms: Sequence[_Harm],
        cut_ps: int,
        detected_ps: int,
        by: str,
        told: dict[int, int],
    ) -> Split:
        if not harms:
            return Split(detected_by=by)
        end_ps = harms[-1].time_ps
        chosen = [h for h in harms if h.chooser]
        last = chosen[-1] if chosen else None
        # Without a detection or notification inside the span its part takes no time.
        seen_ps = min(max(detected_ps, cut_ps), end_ps)
        told_ps = seen_ps
        if last is not None and not last.local and last.chooser in told:
            told_ps = min(max(told[last.chooser], seen_ps), end_ps)
        return Split(
            end_ps - cut_ps,
            seen_ps - cut_ps,
            told_ps - seen_ps,
            end_ps - told_ps,
            by,
            sum(h.lost_data for h in harms),
            len(chosen),
            self._topology.by_id(last.chooser).name if last is not None else "",
        )
