"""Recovery from logs written by hand."""

from __future__ import annotations

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
from sglb.fabric.faults import Fault, FaultKind
from sglb.fabric.generators import leaf_spine
from sglb.fabric.recovery import Recovery, Split, recoveries
from sglb.fabric.topology import LinkSpec

TOPO = leaf_spine(3, 2, 1, *[LinkSpec(10**11, 0)] * 2)
LEAF0, LEAF1, LEAF2, SPINE0, SPINE1 = (s.id for s in TOPO.switches)
# Leaf ports: 1 host, 2 spine0, 3 spine1. Spine ports: 1..3 to leaf0..2.
(LINK,) = TOPO.find_links("leaf0-spine1")
CUT = Fault(100, FaultKind.LINK_DOWN, "leaf0-spine1", (LINK,))
REPAIR = Fault(900, FaultKind.LINK_UP, "leaf0-spine1", (LINK,))


def _cut(fault: Fault = CUT) -> Event:
    return FaultInjected(fault.time_ps, fault)


def _lost(time_ps: int, node: int, port: int, dest: int, **kinds: str) -> PacketLost:
    reason = LossReason(kinds.get("reason", "link down"))
    return PacketLost(time_ps, node, port, reason, Traffic(kinds.get("traffic", "data")), dest)


def _measure(*events: Event) -> list[Recovery]:
    log = EventLog()
    for event in events:
        log.append(event)
    return recoveries(log, TOPO)


def test_remote_recovery_is_split_at_what_was_seen() -> None:
    (found,) = _measure(
        PacketSentIntoDeadPath(90, LEAF1, 3, LEAF0),  # before the cut: another fault's business
        _cut(),
        PacketSentIntoDeadPath(105, LEAF1, 3, LEAF0),
        _lost(106, SPINE1, 1, LEAF0),
        PortDownSeen(110, SPINE1, 1, "carrier"),
        PacketSentIntoDeadPath(113, LEAF2, 3, LEAF0),
        NotificationReceived(114, LEAF1, 3, SPINE1, True),
        NotificationReceived(116, LEAF2, 3, SPINE1, True),
        PacketSentIntoDeadPath(117, LEAF2, 3, LEAF0),
        _lost(119, SPINE1, 0, LEAF0, reason="dropped by the program"),
        NotificationReceived(120, LEAF2, 3, SPINE1, True),
    )
    remote = Split(19, 10, 6, 3, "data plane", 2, 3, "leaf2")
    assert (found.label, found.kind, found.cut_ps, found.repaired_ps) == (
        "leaf0-spine1",
        "link down",
        100,
        None,
    )
    assert found.remote == remote == found.overall
    assert found.local == Split(detected_by="data plane")


def test_local_recovery_needs_no_notification() -> None:
    (found,) = _measure(
        _cut(),
        _lost(101, LEAF0, 3, LEAF2),
        PacketSentIntoDeadPath(104, LEAF0, 3, LEAF1),
        _lost(104, LEAF0, 3, LEAF1, traffic="ack"),
        PortDownSeen(110, LEAF0, 3, "carrier"),
        _lost(111, LEAF0, 3, LEAF1),
        NotificationReceived(112, LEAF0, 2, SPINE0, True),
    )
    assert found.local == Split(11, 10, 0, 1, "data plane", 2, 1, "leaf0") == found.overall
    assert found.remote.total_ps == 0


def test_what_is_not_the_faults_doing_does_not_count() -> None:
    (found,) = _measure(
        _cut(),
        _lost(110, LEAF1, 2, LEAF2),  # on a link that is fine
        _lost(111, SPINE1, 1, LEAF0, reason="queue full"),
        _lost(112, LEAF0, 3, 0, traffic="control"),
        PacketSentIntoDeadPath(113, LEAF1, 2, LEAF0),  # through spine0, which reaches leaf0
    )
    assert found.overall == Split()


def test_the_slow_path_recovers_a_black_hole() -> None:
    hole = Fault(100, FaultKind.BLACKHOLE, "x", edges=TOPO.find_edges("spine1->leaf0"))
    (found,) = _measure(
        _cut(hole),
        PacketSentIntoDeadPath(120, LEAF1, 3, LEAF0),
        _lost(121, SPINE1, 1, LEAF0, reason="black hole"),
        SlowPathSaw(200, LINK.id, False),
        PacketSentIntoDeadPath(260, LEAF1, 3, LEAF0),
        _lost(261, SPINE1, 1, LEAF0, reason="black hole"),
    )
    assert found.overall == Split(161, 100, 0, 61, "routing", 2, 2, "leaf1")


def test_the_slow_path_s_notification_is_a_part_of_its_own() -> None:
    (found,) = _measure(
        _cut(),
        SlowPathSaw(200, LINK.id, False),
        SlowPathTold(230, LINK.id),
        PacketSentIntoDeadPath(260, LEAF1, 3, LEAF0),
    )
    assert found.overall == Split(160, 100, 30, 30, "routing", 0, 1, "leaf1")


def test_missing_heartbeats_show_by_the_first_word_of_an_end() -> None:
    hole = Fault(100, FaultKind.BLACKHOLE, "x", edges=TOPO.find_edges("spine1->leaf0"))
    (found,) = _measure(
        NotificationSent(90, LEAF0, 1, LEAF0, True),  # of something else, and so is the next
        _cut(hole),
        NotificationSent(110, LEAF0, 1, LEAF0, True),
        NotificationSent(115, LEAF1, 1, LEAF1, True),  # no end of the link
        PacketSentIntoDeadPath(120, LEAF1, 3, LEAF0),
        NotificationSent(130, SPINE1, 1, LEAF0, True),  # handed on
        NotificationSent(140, SPINE1, 1, SPINE1, True),
        NotificationReceived(150, LEAF1, 3, SPINE1, True),
        _lost(155, SPINE1, 1, LEAF0, reason="black hole"),
    )
    assert found.overall == Split(55, 40, 10, 5, "data plane", 1, 1, "leaf1")


def test_an_undetected_fault_is_all_reaction_and_repair_ends_the_count() -> None:
    (found,) = _measure(
        _cut(),
        PacketSentIntoDeadPath(800, LEAF1, 3, LEAF0),
        _cut(REPAIR),
        PacketSentIntoDeadPath(950, LEAF1, 3, LEAF0),
    )
    assert (found.repaired_ps, found.overall) == (
        900,
        Split(700, 0, 0, 700, "nobody", 0, 1, "leaf1"),
    )


def test_each_fault_is_charged_with_what_it_killed() -> None:
    (second_link,) = TOPO.find_links("leaf1-spine1")
    second = Fault(200, FaultKind.LINK_DOWN, "leaf1-spine1", (second_link,))
    first, then = _measure(
        _cut(),
        _cut(second),
        PacketSentIntoDeadPath(210, LEAF2, 3, LEAF1),
        PacketSentIntoDeadPath(220, LEAF2, 3, LEAF0),
    )
    assert (first.overall.total_ps, then.overall.total_ps) == (120, 10)


def test_a_dead_switch_is_remote_to_no_one_when_all_are_next_to_it() -> None:
    dead = Fault(100, FaultKind.SWITCH_DOWN, "spine1", switch_id=SPINE1)
    (found,) = _measure(
        _cut(dead),
        _lost(103, SPINE1, 0, LEAF0, reason="switch down"),
        PacketSentIntoDeadPath(105, LEAF1, 3, LEAF0),
        PortDownSeen(110, LEAF1, 3, "carrier"),
    )
    assert found.local == Split(5, 5, 0, 0, "data plane", 0, 1, "leaf1")
    assert found.remote == Split(3, 3, 0, 0, "data plane", 1, 0, "")
