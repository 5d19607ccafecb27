"""Agents over switches that run the P4 program: what is lost heals, what is false changes nothing."""

from __future__ import annotations

import random

import pytest
from finsy import P4CloneSessionEntry, P4CounterEntry, P4MulticastGroupEntry
from hypothesis import given, settings
from hypothesis import strategies as st
from syncmesh_kit import KEY, MS, US, Chain, message_type

from sglb.syncmesh import dataplane as dp
from sglb.syncmesh import messages as m
from sglb.syncmesh.effects import Cause, LinkDown, LinkRecovered, NeighbourState

DOWN_LANE_1 = 0x0800  # lane 1 (port 2) with code 8
SET_LANE_1 = 0x8000  # lane 1 as a set


def cut(chain: Chain, node: int, port: int) -> None:
    """Both ends of a link lose carrier."""
    peer = chain.ports(node)[port]
    chain.switches[node].set_port_state(port, False)
    chain.switches[peer].set_port_state(3 - port, False)


def mend(chain: Chain, node: int, port: int) -> None:
    peer = chain.ports(node)[port]
    chain.switches[node].set_port_state(port, True)
    chain.switches[peer].set_port_state(3 - port, True)


def lose_types(chain: Chain, node: int, port: int, *types: int) -> None:
    """The wire from a node's port loses messages of these types."""
    chain.lose = lambda n, p, frame: (n, p) == (node, port) and message_type(frame) in types


def test_neighbours_find_each_other_and_open_the_data_plane() -> None:
    chain = Chain(3)
    chain.start()
    assert chain.table(2, dp.T_PORTS, "port")[1]["incarnation"] == 0
    chain.run(20 * US)
    views = chain.agents[2].stats().neighbours
    assert [(v.port, v.neighbour, v.state, v.incarnation) for v in views] == [
        (1, 1, NeighbourState.UP, 1),
        (2, 3, NeighbourState.UP, 1),
    ]
    assert chain.table(2, dp.T_PORTS, "port") == {
        1: {"neighbour": 1, "incarnation": 1, "bank": 0, "lane_shift": 0, "subject": 2},
        2: {"neighbour": 3, "incarnation": 1, "bank": 0, "lane_shift": 8, "subject": 1},
    }
    # Switch 1 uses what 2 says of 3, and 3 what 2 says of 1; 2 itself hears of nobody.
    assert chain.table(1, dp.T_PROFILES, "subject") == {
        3: {"index": 1, "lanes": SET_LANE_1, "alone": 1, "relay": 1}
    }
    client = chain.clients[2]
    assert client.read(P4MulticastGroupEntry(dp.NOTIFY_GROUP))[0].replicas == (1, 2)
    session = client.read(P4CloneSessionEntry(dp.NOTIFY_SESSION))[0]
    assert (session.replicas, session.class_of_service) == ((1, 2), 7)
    session = client.read(P4CloneSessionEntry(dp.URGENT_SESSION))[0]
    assert (session.replicas, session.class_of_service) == ((1, 2, 510), 7)
    assert chain.clients[1].read(P4CloneSessionEntry(dp.NOTIFY_SESSION))[0].replicas == ()
    assert chain.clients[1].read(P4CloneSessionEntry(dp.URGENT_SESSION))[0].replicas == (510,)


def test_a_cut_is_told_by_the_data_plane_alone() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    cut(chain, 2, 2)
    chain.run(15 * US)  # 10 us until the switch sees it, the rest for the notification
    assert chain.codes(1, 1) == DOWN_LANE_1
    chain.run(500 * US)
    assert chain.counters(1)["note_in"] == 1
    assert chain.counters(1)["delta_in"] == 1
    assert "repaired" not in chain.counters(1)
    view = chain.agents[1].stats().neighbours[0].subjects[3]
    assert (view.code, view.capacity_mbps) == (8, 200_000)
    assert chain.agents[2].stats().unacknowledged == 0


@pytest.mark.parametrize("lost", [False, True], ids=["heard", "lost"])
def test_down_is_softened_in_a_shared_profile_and_taken_back(lost: bool) -> None:
    chain = Chain(3, alone=False)
    chain.start()
    chain.run(100 * US)
    if lost:
        lose_types(chain, 2, 1, m.NOTE)
    cut(chain, 2, 2)
    chain.run(MS)
    assert chain.codes(1, 1) == 0x0900  # worst, by the agent as by the data plane
    mend(chain, 2, 2)
    chain.run(100 * US)
    chain.agents[2].clear_link(2)
    chain.run(MS)
    assert chain.codes(1, 1) == 0


def test_a_lost_note_is_repaired_by_a_delta() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    lose_types(chain, 2, 1, m.NOTE)
    cut(chain, 2, 2)
    chain.run(100 * US)
    assert chain.codes(1, 1) == 0
    chain.run(200 * US)
    assert chain.codes(1, 1) == DOWN_LANE_1
    assert chain.counters(1)["repaired"] == 1
    assert "note_in" not in chain.counters(1)


def test_lost_deltas_are_sent_again_until_they_are_acknowledged() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    lose_types(chain, 2, 1, m.NOTE, m.DELTA)
    cut(chain, 2, 2)
    chain.run(4 * MS)
    # At 0.2, 1.2, 3.2 and 7.2 ms after the notification: each wait twice the last.
    assert chain.counters(2)["delta_out"] == 3
    assert chain.codes(1, 1) == 0
    chain.lose = lambda node, port, frame: False
    chain.run(4 * MS)
    assert chain.codes(1, 1) == DOWN_LANE_1
    assert chain.counters(2)["delta_out"] == 4
    chain.run(20 * MS)
    assert chain.counters(2)["delta_out"] == 4
    assert chain.agents[2].stats().unacknowledged == 0


def test_a_full_repairs_what_deltas_could_not() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    lose_types(chain, 2, 1, m.NOTE, m.DELTA)
    cut(chain, 2, 2)
    chain.run(12 * MS)
    assert chain.counters(1)["full_in"] == 1
    assert chain.counters(1)["repaired"] == 1
    assert chain.codes(1, 1) == DOWN_LANE_1


def test_relays_follow_a_repair() -> None:
    chain = Chain(4)
    chain.start()
    chain.run(100 * US)
    lose_types(chain, 3, 1, m.NOTE)
    cut(chain, 3, 2)
    chain.run(100 * US)
    assert (chain.codes(2, 1), chain.codes(1, 1)) == (0, 0)
    chain.run(200 * US)
    # Switch 2's agent repairs it; its data plane announces that to switch 1 by itself.
    assert (chain.codes(2, 1), chain.codes(1, 1)) == (DOWN_LANE_1, DOWN_LANE_1)
    assert "repaired" not in chain.counters(1)
    assert chain.counters(1)["note_in"] == 1


def test_a_silent_neighbours_quality_becomes_neutral() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    cut(chain, 2, 2)
    chain.run(200 * US)
    assert chain.codes(1, 1) == DOWN_LANE_1
    ports = chain.table(1, dp.T_PORTS, "port")
    chain.agents[2].kill()
    chain.run(3 * MS)
    assert chain.codes(1, 1) == DOWN_LANE_1  # HELLOs come every ms and hold for 3.5
    chain.run(MS)
    assert chain.codes(1, 1) == 0
    assert chain.down(1) == 0
    assert chain.table(1, dp.T_PORTS, "port") == ports
    assert chain.agents[1].stats().neighbours[0].state is NeighbourState.DOWN
    assert chain.counters(1)["hold_expired"] == 1


def test_what_a_dead_agents_data_plane_says_counts() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    chain.agents[2].kill()
    chain.run(5 * MS)
    cut(chain, 2, 2)
    chain.run(20 * US)
    assert chain.codes(1, 1) == DOWN_LANE_1
    chain.run(20 * MS)
    assert chain.codes(1, 1) == DOWN_LANE_1


def test_bye_resets_at_once_and_ends_the_wish_for_notes() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    cut(chain, 2, 2)
    chain.run(200 * US)
    chain.agents[1].stop()
    chain.agents[2].stop()
    chain.run(20 * US)
    assert chain.codes(1, 1) == DOWN_LANE_1  # agent 1 is gone, it does nothing more
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    cut(chain, 2, 2)
    chain.run(200 * US)
    chain.agents[2].stop()
    chain.run(20 * US)
    assert chain.codes(1, 1) == 0
    assert chain.counters(1)["bye_in"] == 1
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    chain.agents[1].stop()
    chain.run(20 * US)
    assert chain.clients[2].read(P4CloneSessionEntry(dp.NOTIFY_SESSION))[0].replicas == (2,)
    assert chain.clients[2].read(P4CloneSessionEntry(dp.URGENT_SESSION))[0].replicas == (2, 510)


def test_a_newer_incarnation_takes_over() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    cut(chain, 2, 2)
    chain.run(200 * US)
    chain.agents[2].kill()
    chain.switches[2].load(chain.switches[2].program)
    mend(chain, 2, 2)
    chain.run(20 * US)
    assert chain.codes(1, 1) == DOWN_LANE_1
    chain.install(2, 2)
    chain.start_agent(chain.config(2, incarnation=2))
    chain.run(100 * US)
    assert chain.codes(1, 1) == 0  # what incarnation 1 said went with it
    assert chain.table(1, dp.T_PORTS, "port")[2]["incarnation"] == 2
    view = chain.agents[1].stats().neighbours[0]
    assert (view.state, view.incarnation) == (NeighbourState.UP, 2)
    cut(chain, 2, 2)
    chain.run(20 * US)
    assert chain.codes(1, 1) == DOWN_LANE_1


def test_a_restarted_agent_recalls_what_its_data_plane_announced() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    cut(chain, 2, 2)
    chain.run(200 * US)
    chain.agents[2].kill()
    chain.identify(2, 2)  # the controller raises the incarnation with every start of an agent
    chain.start_agent(chain.config(2, incarnation=2, new_data_plane=False))
    chain.run(100 * US)
    assert chain.codes(1, 1) == DOWN_LANE_1
    assert chain.counters(1)["repaired"] == 1


def test_forged_replayed_and_misplaced_messages_change_nothing() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(2 * MS)
    recorded = [f for n, p, f in chain.sent if (n, p) == (2, 1) and message_type(f) <= 5]
    assert len(recorded) >= 3
    before = chain.table(1, dp.T_PORTS, "port"), chain.codes(1, 1)
    head = {"origin": 2, "incarnation": 1, "seq": 1 << 20}
    entries = (m.Entry(3, 8, 0, 1 << 20),)
    forged = m.Delta(**head, entries=entries).encode(m.FabricKey(b"some other key, no use"))
    for frame in recorded:
        chain.inject(1, 2, frame)
    chain.inject(1, 2, m.frame(bytes(6), forged))
    genuine = m.frame(bytes(6), m.Delta(**head, entries=entries).encode(KEY))
    chain.inject(1, 3, genuine)  # a host that has the key still is a host
    chain.inject(1, 3, recorded[0])
    chain.run(50 * US)
    counters = chain.counters(1)
    assert counters["old_sequence"] == len(recorded)
    assert counters["bad_tag"] == 1
    assert chain.agents[1].stats().dropped == len(recorded) + 1
    assert (chain.table(1, dp.T_PORTS, "port"), chain.codes(1, 1)) == before
    from_host = P4CounterEntry("FabricIngress.syncmesh.sync_in", index=1)
    assert chain.clients[1].read(from_host)[0].packet_count == 2


def test_a_port_that_comes_up_is_cleared_when_the_controller_says_so() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    cut(chain, 2, 2)
    chain.run(100 * US)
    assert (
        chain.events[2][-1] == LinkDown(2, Cause.CARRIER)
        or LinkDown(2, Cause.CARRIER) in (chain.events[2])
    )
    assert chain.down(2) == SET_LANE_1
    chain.agents[2].clear_link(2)
    chain.run(50 * US)
    assert chain.down(2) == SET_LANE_1  # refused: it is dead
    assert chain.counters(2)["clear_refused"] == 1
    mend(chain, 2, 2)
    chain.run(200 * US)
    assert chain.events[2].count(LinkRecovered(2)) == 1
    assert chain.down(2) == SET_LANE_1
    assert chain.codes(1, 1) == DOWN_LANE_1
    chain.agents[2].clear_link(2)
    chain.run(50 * US)
    assert chain.down(2) == 0
    assert chain.codes(1, 1) == 0  # told by the data plane, since the SET names the port's subject


def test_an_agent_tells_its_data_plane_of_a_link_that_was_dead_before() -> None:
    chain = Chain(3)
    cut(chain, 2, 2)
    chain.switches[2].set_port_state(3, False)  # a host's port: none of the agent's business
    chain.run(100 * US)
    assert chain.down(2) == 0  # the event found no table
    chain.start()
    chain.run(20 * US)
    assert chain.down(2) == SET_LANE_1
    assert chain.codes(1, 1) == DOWN_LANE_1
    assert chain.agents[2].stats().neighbours[1].link_marked_down
    chain.agents[2].clear_link(2)
    assert chain.counters(2)["clear_refused"] == 1
    mend(chain, 2, 2)
    chain.run(100 * US)
    assert LinkRecovered(2) in chain.events[2]
    chain.agents[2].clear_link(2)
    chain.run(20 * US)
    assert (chain.down(2), chain.codes(1, 1)) == (0, 0)


def test_a_link_is_used_again_when_its_neighbour_has_had_its_say() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    cut(chain, 2, 2)
    chain.run(100 * US)
    mend(chain, 2, 2)
    chain.run(12 * US)  # seen just now: the neighbour has said nothing yet
    chain.agents[2].clear_link(2)
    chain.run(20 * US)
    assert chain.down(2) == SET_LANE_1
    chain.run(20 * US)
    assert chain.down(2) == 0


def test_a_silent_neighbour_is_waited_for_as_long_as_it_may_be_silent() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    cut(chain, 2, 2)
    chain.run(100 * US)
    chain.agents[3].kill()
    mend(chain, 2, 2)
    chain.run(100 * US)
    chain.agents[2].clear_link(2)
    chain.run(3_400 * US)
    assert chain.down(2) == SET_LANE_1
    chain.run(200 * US)
    assert chain.down(2) == 0


def test_a_link_that_dies_while_its_neighbour_is_waited_for_stays_down() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    cut(chain, 2, 2)
    chain.run(100 * US)
    mend(chain, 2, 2)
    chain.run(12 * US)
    chain.agents[2].clear_link(2)
    cut(chain, 2, 2)
    chain.run(15 * US)
    mend(chain, 2, 2)
    chain.run(200 * US)
    assert chain.down(2) == SET_LANE_1  # the controller has to say so anew
    assert chain.events[2].count(LinkRecovered(2)) == 2


def test_a_link_that_dies_while_it_is_cleared_stays_down() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    cut(chain, 2, 2)
    chain.run(100 * US)
    mend(chain, 2, 2)
    chain.run(100 * US)
    cut(chain, 2, 2)
    # The port event enters 10 us after the cut; the agent's SET, sent just after that and before the
    # event reaches it, undoes the mark.
    chain.run(10 * US + 1)
    assert chain.down(2) == SET_LANE_1
    chain.agents[2].clear_link(2)
    assert chain.down(2) == 0
    chain.run(50 * US)
    assert chain.down(2) == SET_LANE_1
    assert chain.agents[2].stats().neighbours[1].link_marked_down


def test_a_one_way_black_hole_is_found_and_reported_when_it_heals() -> None:
    chain = Chain(3)
    chain.start()
    chain.beat()
    chain.run(3 * MS)
    chain.lose = lambda node, port, frame: (node, port) == (3, 1)  # 2 hears nothing from 3
    chain.run(6 * MS)
    # 3.5 ms without a heartbeat and 2 marks the link; its heartbeats tell 3, which marks it too.
    assert chain.down(2) == SET_LANE_1
    assert chain.down(3) == 0x80
    assert chain.codes(1, 1) == DOWN_LANE_1
    assert LinkDown(1, Cause.BEATS) in chain.events[3]
    chain.lose = lambda node, port, frame: False
    chain.run(2 * MS)
    assert LinkRecovered(2) not in chain.events[2]
    chain.run(3 * MS)
    assert chain.events[2].count(LinkRecovered(2)) == 1
    assert chain.events[3].count(LinkRecovered(1)) == 1
    for node, port in ((2, 2), (3, 1)):
        chain.agents[node].clear_link(port)
    chain.run(5 * MS)
    assert (chain.down(2), chain.down(3), chain.codes(1, 1)) == (0, 0, 0)
    assert chain.events[2].count(LinkRecovered(2)) == 1


def test_a_lost_set_is_sent_again() -> None:
    chain = Chain(3)
    chain.start()
    chain.run(100 * US)
    lose_types(chain, 2, 1, m.NOTE)
    cut(chain, 2, 2)
    chain.run(150 * US)
    packet_out = chain.switches[1].packet_out
    chain.switches[1].packet_out = lambda data: None  # type: ignore[method-assign]
    chain.run(400 * US)
    assert chain.codes(1, 1) == 0
    assert chain.agents[1].stats().sets_pending == 1
    chain.switches[1].packet_out = packet_out  # type: ignore[method-assign]
    chain.run(2 * MS)
    assert chain.codes(1, 1) == DOWN_LANE_1
    assert chain.counters(1)["set_again"] == 1
    assert chain.agents[1].stats().sets_pending == 0


def test_same_seed_same_frames() -> None:
    def frames() -> list[tuple[int, int, bytes]]:
        chain = Chain(3)
        chain.start()
        chain.beat()
        chain.run(MS)
        cut(chain, 2, 2)
        chain.run(5 * MS)
        return chain.sent

    assert frames() == frames()


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.tuples(st.integers(2, 3), st.booleans()), max_size=6))
def test_whatever_is_lost_everybody_agrees_in_the_end(
    seed: int, changes: list[tuple[int, bool]]
) -> None:
    chain = Chain(4)
    rng = random.Random(seed)
    chain.lose = lambda node, port, frame: rng.random() < 0.4
    chain.start()
    chain.run(2 * MS)
    for node, up in changes:
        if up:
            mend(chain, node, 2)
            chain.run(200 * US)
            for end, port in ((node, 2), (node + 1, 1)):
                chain.agents[end].clear_link(port)
        else:
            cut(chain, node, 2)
        chain.run(rng.randrange(3 * MS))
    chain.lose = lambda node, port, frame: False
    chain.run(30 * MS)
    # Links 2-3 and 3-4 as their ends have them marked: lane 1 of switches 2 and 3.
    dead = {node: bool(chain.down(node) & SET_LANE_1) for node in (2, 3)}
    hears_3 = chain.switches[2].port(2).up  # else its agent let go of what 3 had said
    toward_last = {2: DOWN_LANE_1 if dead[3] and hears_3 else 0}
    toward_last[1] = DOWN_LANE_1 if dead[2] or toward_last[2] else 0
    assert {node: chain.codes(node, 1) for node in (1, 2)} == toward_last
    assert all(agent.stats().sets_pending == 0 for agent in chain.agents.values())
    assert all(agent.stats().unacknowledged == 0 for agent in chain.agents.values())
