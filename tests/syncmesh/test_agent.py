"""One agent against messages made by hand: states, refusals, and the order of what crosses."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglb.syncmesh import dataplane as dp
from sglb.syncmesh import messages as m
from sglb.syncmesh.agent import Agent
from sglb.syncmesh.config import AgentConfig, AgentConfigError, FabricPort, Heard, Timers
from sglb.syncmesh.effects import (
    Cause,
    Effect,
    LinkDown,
    LinkRecovered,
    NeighbourChanged,
    NeighbourState,
    SendFrame,
    SendToPipeline,
    WriteListeners,
    WritePort,
    WriteProfile,
)

KEY = m.FabricKey(b"the fabric's key")
US = 1_000_000
MS = 1_000 * US
PORTS = {
    1: FabricPort(dp.Lane(0, 0), subject=4, neighbour=20),
    2: FabricPort(dp.Lane(0, 1), subject=5),
}
# Subjects 7 and 8 share profile 3 on port 1; 9 has profile 4 to itself on both ports.
HEARD = (
    Heard(7, 3, alone=False, relay=6, ports=(1,)),
    Heard(8, 3, alone=False, relay=0, ports=(1,)),
    Heard(9, 4, alone=True, relay=0, ports=(1, 2)),
)
CONFIG = AgentConfig(
    node=10, incarnation=5, mac=bytes(5) + b"\x0a", key=KEY, ports=PORTS, heard=HEARD
)


class Desk:
    """An agent and everything that it sent, with a neighbour's hand to write with."""

    def __init__(self, config: AgentConfig = CONFIG) -> None:
        self.agent = Agent(config, random.Random(1))
        self.now_ps = 0
        self.seq = 0
        self.nonce = 77
        self.incarnation = 3
        self.node = 20
        self.effects: list[Effect] = self.agent.start(0)

    def wait(self, time_ps: int) -> list[Effect]:
        """Time passes; timers run when they are due."""
        end_ps = self.now_ps + time_ps
        done: list[Effect] = []
        while self.agent.deadline_ps is not None and self.agent.deadline_ps <= end_ps:
            self.now_ps = self.agent.deadline_ps
            done += self.agent.timer(self.now_ps)
        self.now_ps = end_ps
        return done

    def give(self, message: Any, port: int = 1, reason: int = dp.REASON_AGENT) -> list[Effect]:
        signed = isinstance(message, m.AgentMessage)
        payload = message.encode(KEY) if signed else message.encode()
        return self.agent.packet_in(self.now_ps, port, reason, m.frame(bytes(6), payload))

    def head(self) -> dict[str, int]:
        self.seq += 1
        return {"origin": self.node, "incarnation": self.incarnation, "seq": self.seq}

    def hello(self, echo: m.Echo | None = None, **changes: Any) -> m.Hello:
        values = {"hold_us": 3500, "nonce": self.nonce, "wants_notes": True, **changes}
        return m.Hello(**self.head(), echo=echo or self.own(), **values)

    def own(self) -> m.Echo:
        """The agent as its HELLOs show it."""
        hello = next(x for x in sent(self.effects) if isinstance(x, m.Hello))
        return m.Echo(hello.origin, hello.incarnation, hello.nonce)

    def up(self, port: int = 1) -> list[Effect]:
        return self.give(self.hello(), port)

    def note(self, subject: int, code: int, seq: int, port: int = 1) -> list[Effect]:
        head = {"origin": self.node, "incarnation": self.incarnation, "seq": seq}
        note = m.Note(**head, subject=subject, code=code, capacity_mbps=100)
        return self.give(note, port, dp.REASON_NOTE)

    def own_note(self, subject: int, code: int, seq: int) -> list[Effect]:
        note = m.Note(
            origin=10, incarnation=5, seq=seq, subject=subject, code=code, capacity_mbps=1
        )
        return self.give(note, 0, dp.REASON_OWN_NOTE)

    def tell(self, *entries: tuple[int, int, int], full: bool = False) -> list[Effect]:
        """A DELTA or FULL of (subject, code, seq)."""
        found = tuple(m.Entry(subject, code, 100, seq) for subject, code, seq in entries)
        kind = m.Full if full else m.Delta
        return self.give(kind(**self.head(), entries=found))

    def carry_out(self, order: m.Set) -> list[Effect]:
        return self.give(order, order.port, dp.REASON_SET)

    def count(self, name: str) -> int:
        return self.agent.stats().counters.get(name, 0)

    def state(self, port: int = 1) -> NeighbourState:
        return next(v.state for v in self.agent.stats().neighbours if v.port == port)


def sent(effects: list[Effect]) -> list[Any]:
    """The messages to neighbours among effects."""
    return [m.decode(m.payload(e.frame), KEY) for e in effects if isinstance(e, SendFrame)]


def sets(effects: list[Effect]) -> list[m.Set]:
    found = [m.decode(m.payload(e.frame), KEY) for e in effects if isinstance(e, SendToPipeline)]
    return [order for order in found if isinstance(order, m.Set)]


def brief(orders: list[m.Set]) -> list[tuple[int, int, int, int]]:
    return [(o.profile, o.port, o.code, o.subject) for o in orders]


def test_start_fills_tables_and_says_hello() -> None:
    effects = Desk().effects
    assert effects[:3] == [
        WriteProfile(HEARD[0], 0x80),
        WriteProfile(HEARD[1], 0x80),
        WriteProfile(HEARD[2], 0x8080),
    ]
    assert [e for e in effects if isinstance(e, WritePort)] == [
        WritePort(1, PORTS[1], 20, 0),
        WritePort(2, PORTS[2], 0, 0),
    ]
    assert effects[-1] == WriteListeners(())
    hellos = sent(effects)
    assert [(h.hold_us, h.echo, h.wants_notes) for h in hellos] == [(3500, m.NOBODY, True)] * 2
    assert hellos[0].nonce == hellos[1].nonce != 0


def test_hello_by_hello_to_a_two_way_adjacency() -> None:
    desk = Desk()
    effects = desk.give(desk.hello(m.NOBODY))
    assert NeighbourChanged(1, 20, NeighbourState.HEARD) in effects
    # It is answered at once, so that the neighbour knows that it is heard; the tables wait.
    assert [h.echo for h in sent(effects)] == [m.Echo(20, 3, 77)]
    assert not any(isinstance(e, WritePort | WriteListeners) for e in effects)
    effects = desk.up()
    assert effects == [
        NeighbourChanged(1, 20, NeighbourState.UP),
        WritePort(1, PORTS[1], 20, 3),
        WriteListeners((1,)),
    ]
    assert desk.up() == []
    # It forgot this side: one way again, but what it said stands.
    effects = desk.give(desk.hello(m.NOBODY))
    assert effects == [NeighbourChanged(1, 20, NeighbourState.HEARD)]


@pytest.mark.parametrize(
    "echo", [m.Echo(11, 5, 0), m.Echo(10, 4, 0), m.Echo(10, 5, 1)], ids=["node", "start", "nonce"]
)
def test_an_echo_of_somebody_else_is_none(echo: m.Echo) -> None:
    desk = Desk()
    own = desk.own()
    desk.give(desk.hello(replace(own, node=echo.node, incarnation=echo.incarnation)))
    if echo.nonce:
        desk.give(desk.hello(replace(own, nonce=own.nonce ^ 1)))
        assert desk.state() is NeighbourState.HEARD
    else:
        assert desk.state() is NeighbourState.HEARD


def test_the_neighbours_own_hold_time_counts() -> None:
    desk = Desk()
    desk.give(desk.hello(hold_us=700))
    desk.wait(699 * US)
    assert desk.state() is NeighbourState.UP
    effects = desk.wait(US)
    assert desk.state() is NeighbourState.DOWN
    # Both profiles of the port, for each announcement that may change.
    assert brief(sets(effects)) == [(3, 1, 0, 6), (3, 1, 0, 0), (4, 1, 0, 0)]
    assert not any(isinstance(e, WritePort | WriteListeners) for e in effects)


def test_hellos_come_within_their_interval() -> None:
    desk = Desk()
    desk.wait(100 * MS)
    # Every 875 to 1000 us on each of two ports, and one at the start.
    assert 2 * 101 <= desk.count("hello_out") <= 2 * 115


@pytest.mark.parametrize(
    ("changes", "counter"),
    [
        ({"origin": 10}, "own_origin"),
        ({"origin": 21}, "unexpected_origin"),
        ({"incarnation": 2}, "old_incarnation"),
        ({"incarnation": 0}, "old_incarnation"),
        ({"seq": 1}, "old_sequence"),
        ({"version_min": 2, "version_max": 3}, "bad_version"),
        ({"hold_us": 0}, "malformed"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value,
)
def test_hellos_that_are_refused(changes: dict[str, int], counter: str) -> None:
    desk = Desk()
    desk.up()
    before = replace(desk.agent.stats(), counters={})
    assert desk.give(replace(desk.hello(), **changes)) == []
    assert desk.count(counter) == 1
    assert replace(desk.agent.stats(), counters={}) == before
    desk.up()
    assert desk.count("hello_in") == 2


def test_what_only_neighbours_may_say() -> None:
    desk = Desk()
    desk.tell((7, 9, 1))
    desk.give(desk.hello(m.NOBODY))
    desk.tell((7, 9, 1))
    assert desk.count("not_adjacent") == 2
    desk.up()
    desk.incarnation = 4
    desk.tell((7, 9, 1))
    assert desk.count("not_adjacent") == 3
    assert desk.count("repaired") == 0
    assert desk.give(desk.hello(), port=3) == []
    assert desk.count("unknown_port") == 1


def test_an_open_port_takes_whoever_has_the_key_and_one_at_a_time() -> None:
    desk = Desk()
    desk.node = 33
    assert WritePort(2, PORTS[2], 33, 3) in desk.up(port=2)
    desk.node = 34
    assert desk.up(port=2) == []
    assert desk.count("unexpected_origin") == 1
    desk.wait(4 * MS)
    assert WritePort(2, PORTS[2], 34, 3) in desk.up(port=2)


def test_a_restart_by_incarnation_or_by_nonce_resets() -> None:
    desk = Desk()
    for step in ("incarnation", "nonce"):
        desk.up()
        desk.note(9, 8, seq=50)
        setattr(desk, step, getattr(desk, step) + 1)
        effects = desk.give(desk.hello(m.NOBODY))
        assert (4, 1, 0, 0) in brief(sets(effects))
        assert desk.agent.stats().neighbours[0].subjects == {}
        for order in sets(effects):
            desk.carry_out(order)
    assert desk.count("restart_seen") == 2


def test_incarnations_and_sequence_numbers_wrap() -> None:
    desk = Desk()
    desk.incarnation, desk.seq = 0xFFFF, 0xFFFFFFFE
    desk.up()
    desk.give(replace(desk.hello(), seq=1))  # after 0xFFFFFFFF
    desk.incarnation = 1
    desk.give(replace(desk.hello(), seq=2))
    assert desk.count("hello_in") == 3
    assert desk.agent.stats().neighbours[0].incarnation == 1


def test_only_what_is_newer_is_repaired() -> None:
    desk = Desk()
    desk.up()
    desk.note(9, 13, seq=100)
    assert sets(desk.tell((9, 13, 99))) == []  # the same
    assert sets(desk.tell((9, 8, 99))) == []  # older
    assert desk.count("stale") == 1
    assert brief(sets(desk.tell((9, 8, 101)))) == [(4, 1, 8, 0)]
    assert desk.count("repaired") == 1
    assert sets(desk.tell((9, 8, 101))) == []
    assert sets(desk.tell((55, 8, 102))) == []
    assert desk.count("unused_subject") == 1
    assert brief(sets(desk.tell((7, 8, 103)))) == [(3, 1, 9, 6)]  # shared: down is worst


def test_an_old_number_that_two_fulls_repeat_is_believed() -> None:
    desk = Desk()
    desk.up()
    desk.note(9, 13, seq=100)
    assert sets(desk.tell((9, 8, 99), full=True)) == []
    desk.note(9, 12, seq=101)  # something was heard in between
    assert sets(desk.tell((9, 8, 99), full=True)) == []
    assert sets(desk.tell((9, 8, 99))) == []  # a DELTA is no proof
    assert brief(sets(desk.tell((9, 8, 99), full=True))) == [(4, 1, 8, 0)]


def test_a_shared_profile_is_worst_while_one_is_down_and_down_when_all_are() -> None:
    desk = Desk()
    desk.up()
    # The data plane writes "worst" by itself, and takes no other code.
    assert sets(desk.note(7, 8, seq=1)) == []
    assert sets(desk.note(8, 13, seq=2)) == []
    (all_down,) = sets(desk.note(8, 8, seq=3))
    assert brief([all_down]) == [(3, 1, 8, 0)]
    desk.carry_out(all_down)
    (one_down,) = sets(desk.note(7, 0, seq=4))
    assert brief([one_down]) == [(3, 1, 9, 6)]
    desk.carry_out(one_down)
    (none,) = sets(desk.note(8, 12, seq=5))
    assert brief([none]) == [(3, 1, 0, 0)]
    assert sets(desk.carry_out(none)) == []


def test_a_leaf_that_is_down_is_not_run_over_by_its_pod() -> None:
    pod = Heard(dp.POD_SUBJECT | 2, 5, alone=True, relay=9, ports=(1,))
    leaves = tuple(Heard(i, 5, alone=False, relay=9, ports=(1,)) for i in (31, 32))
    desk = Desk(replace(CONFIG, heard=(pod, *leaves)))
    desk.up()
    assert sets(desk.note(pod.subject, 13, seq=1)) == []
    assert sets(desk.note(31, 15, seq=2)) == []  # a leaf's band is not the pod's
    assert sets(desk.note(31, 8, seq=3)) == []  # the data plane writes "worst"
    assert sets(desk.note(pod.subject, 14, seq=4)) == []  # and keeps it
    # Only "down" of the whole pod runs over that, and what the pod says next.
    assert sets(desk.note(pod.subject, 8, seq=5)) == []
    (again,) = sets(desk.note(pod.subject, 14, seq=6))
    assert brief([again]) == [(5, 1, 9, 9)]
    desk.carry_out(again)
    (back,) = sets(desk.note(31, 0, seq=7))
    assert brief([back]) == [(5, 1, 0, 9)]
    desk.carry_out(back)
    assert sets(desk.note(pod.subject, 13, seq=8)) == []


def test_a_set_that_a_newer_note_crosses_is_followed_by_another() -> None:
    desk = Desk()
    desk.up()
    (order,) = sets(desk.tell((9, 8, 10)))
    # Whether the data plane takes the notification in before the SET or after it.
    (after,) = sets(desk.note(9, 15, seq=11))
    assert brief([after]) == [(4, 1, 0, 0)]
    assert sets(desk.carry_out(order)) == []
    assert sets(desk.carry_out(after)) == []
    assert desk.agent.stats().sets_pending == 0


def test_a_set_of_another_announcement_that_ran_over_a_lane_is_redone() -> None:
    desk = Desk()
    desk.up()
    desk.note(7, 8, seq=1)
    stray = m.Set(**desk.head(), what=m.SET_REMOTE, code=0, profile=3, port=1, subject=0)
    (redone,) = sets(desk.carry_out(stray))
    assert brief([redone]) == [(3, 1, 9, 0)]
    assert desk.count("set_redone") == 1


def test_a_note_after_the_set_stands() -> None:
    desk = Desk()
    desk.up()
    (order,) = sets(desk.tell((9, 8, 10)))
    assert sets(desk.carry_out(order)) == []
    assert sets(desk.note(9, 15, seq=11)) == []
    assert sets(desk.wait(3 * MS)) == []


def test_sets_are_repeated_until_confirmed() -> None:
    desk = Desk()
    desk.up()
    (order,) = sets(desk.tell((9, 8, 10)))
    (again,) = sets(desk.wait(2 * MS))
    assert brief([again]) == brief([order])
    desk.carry_out(again)
    assert sets(desk.wait(MS)) == []
    assert desk.agent.stats().sets_pending == 0


def test_a_delta_is_acknowledged_whatever_it_says() -> None:
    desk = Desk()
    desk.up()
    (ack,) = sent(desk.tell((55, 1, 1)))
    assert (ack.acked_node, ack.acked_incarnation, ack.acked_seq) == (20, 3, desk.seq)
    assert sent(desk.tell((55, 1, 1), full=True)) == []


def deltas(effects: list[Effect]) -> list[m.Delta]:
    return [x for x in sent(effects) if isinstance(x, m.Delta)]


def test_changes_are_collected_and_repeated_until_acknowledged() -> None:
    desk = Desk()
    desk.up()
    assert desk.own_note(1, 15, seq=5) == []
    desk.own_note(2, 8, seq=6)
    desk.own_note(1, 14, seq=7)
    assert deltas(desk.wait(199 * US)) == []
    (delta,) = deltas(desk.wait(US))
    assert delta.entries == (m.Entry(1, 14, 1, 7), m.Entry(2, 8, 1, 6))
    desk.own_note(2, 8, seq=8)  # the data plane repeats it
    desk.own_note(1, 8, seq=9)
    (second,) = deltas(desk.wait(200 * US))
    ack = {"acked_node": 10, "acked_incarnation": 5}
    desk.give(m.Ack(**desk.head(), **ack, acked_seq=delta.seq))
    # Subject 1 changed since; 2 is done with.
    assert desk.agent.stats().unacknowledged == 1
    desk.give(m.Ack(**desk.head(), acked_node=11, acked_incarnation=5, acked_seq=second.seq))
    assert desk.agent.stats().unacknowledged == 1
    desk.give(desk.hello())
    (third,) = deltas(desk.wait(MS))
    assert third.entries == (m.Entry(1, 8, 1, 9),)
    desk.give(m.Ack(**desk.head(), **ack, acked_seq=third.seq))
    assert desk.agent.stats().unacknowledged == 0
    desk.give(desk.hello())
    assert deltas(desk.wait(2 * MS)) == []


def test_nobody_who_did_not_ask_is_told() -> None:
    desk = Desk()
    desk.give(desk.hello(wants_notes=False))
    desk.own_note(1, 8, seq=5)
    effects = []
    for _ in range(12):
        effects += desk.give(desk.hello(wants_notes=False)) + desk.wait(MS)
    assert {type(x) for x in sent(effects)} == {m.Hello}
    assert not any(isinstance(e, WriteListeners) for e in effects)
    assert WriteListeners((1,)) in desk.give(desk.hello())
    assert WriteListeners(()) in desk.give(desk.hello(wants_notes=False))


def test_fulls_are_split_by_the_mtu() -> None:
    desk = Desk(replace(CONFIG, mtu_bytes=100))  # 54 bytes: 4 entries
    desk.up()
    for subject in range(1, 11):
        desk.own_note(subject, 15, seq=subject)
    effects = []
    for _ in range(10):
        effects += desk.give(desk.hello()) + desk.wait(MS)
    fulls = [x for x in sent(effects) if isinstance(x, m.Full)]
    assert [(f.index, f.count, len(f.entries)) for f in fulls] == [(0, 3, 4), (1, 3, 4), (2, 3, 2)]
    assert [e.subject for f in fulls for e in f.entries] == list(range(1, 11))
    frames = [e.frame for e in effects if isinstance(e, SendFrame)]
    assert max(len(frame) for frame in frames) <= 100


def test_a_new_neighbour_is_told_what_is_down() -> None:
    desk = Desk()
    desk.own_note(1, 8, seq=5)
    desk.own_note(2, 15, seq=6)
    desk.up()
    (delta,) = deltas(desk.wait(0))
    assert delta.entries == (m.Entry(1, 8, 1, 5),)


def test_an_agent_on_an_old_data_plane_clears_what_it_cannot_know() -> None:
    desk = Desk(replace(CONFIG, new_data_plane=False))
    effects = desk.up()
    assert brief(sets(effects)) == [(3, 1, 0, 6), (3, 1, 0, 0), (4, 1, 0, 0)]
    assert brief(sets(desk.wait(3500 * US)))[-1] == (4, 2, 0, 0)  # nobody came on port 2


def test_an_agent_on_an_old_data_plane_lets_it_hear_its_neighbours() -> None:
    def written(heard: dict[int, tuple[int, int]]) -> list[Effect]:
        effects = Agent(CONFIG, random.Random(1)).start(0, {}, heard)
        return [e for e in effects if isinstance(e, WritePort)]

    # Port 1 must be node 20's, port 2 may be anybody's.
    assert written({1: (20, 3), 2: (30, 1)}) == [
        WritePort(1, PORTS[1], 20, 3),
        WritePort(2, PORTS[2], 30, 1),
    ]
    assert written({1: (21, 3)}) == [WritePort(1, PORTS[1], 20, 0), WritePort(2, PORTS[2], 0, 0)]


def test_what_was_announced_before_has_no_number() -> None:
    agent = Agent(CONFIG, random.Random(1))
    desk = Desk()
    desk.agent, desk.effects = agent, agent.start(0, {1: 8, 2: 0})
    desk.up()
    (delta,) = deltas(desk.wait(0))
    assert delta.entries == (m.Entry(1, 8, 0, 0),)
    other = Desk()
    other.up()
    assert brief(sets(other.tell((9, 8, 0)))) == [(4, 1, 8, 0)]
    assert brief(sets(other.tell((9, 0, 0)))) == [(4, 1, 0, 0)]
    other.note(9, 13, seq=0xF0000000)
    assert sets(other.tell((9, 8, 0))) == []  # a number always beats none


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 2, 3, 300]),
            st.integers(0, 8),
            st.sampled_from(["hello", "delta", "full", "note", "beat", "set", "event", "raw"]),
            st.binary(max_size=40),
            st.integers(0, 60),
            st.integers(0, 255),
        ),
        max_size=25,
    )
)
def test_no_packet_in_makes_it_fail(
    packets: list[tuple[int, int, str, bytes, int, int]],
) -> None:
    desk = Desk()
    for port, reason, kind, junk, at, flip in packets:
        frame = bytearray(_frame(desk, kind, junk))
        if flip and at < len(frame):
            frame[at] ^= flip
        desk.agent.packet_in(desk.now_ps, port, reason, bytes(frame))
        desk.wait(at * US)
        desk.agent.stats()
    desk.wait(5 * MS)


def _frame(desk: Desk, kind: str, junk: bytes) -> bytes:
    if kind == "event":
        return bytes(12) + b"\x88\xb6" + (junk + bytes(6))[:6]
    if kind == "raw":
        return bytes(12) + b"\x88\xb5" + junk
    head = desk.head()
    entries = (m.Entry(9, len(junk) % 16, 1, len(junk)),)
    message = {
        "hello": lambda: desk.hello().encode(KEY),
        "delta": lambda: m.Delta(**head, entries=entries).encode(KEY),
        "full": lambda: m.Full(**head, entries=entries).encode(KEY),
        "note": lambda: m.Note(**head, subject=9, code=8, capacity_mbps=1).encode(),
        "beat": lambda: m.Beat(**head, lost=len(junk) % 2 == 1).encode(),
        "set": lambda: m.Set(**head, what=2, code=8, profile=0, port=1, subject=0).encode(),
    }[kind]
    return m.frame(bytes(6), message())


def test_what_packet_in_makes_no_sense_is_counted() -> None:
    desk = Desk()
    desk.up()
    beat = m.Beat(**desk.head())
    desk.give(beat, 1, dp.REASON_NOTE)
    desk.give(beat, 1, 99)
    desk.agent.packet_in(0, 1, dp.REASON_AGENT, b"short")
    desk.agent.packet_in(0, 1, dp.REASON_PORT_EVENT, bytes(12) + b"\x88\xb6")
    assert desk.count("malformed") == 4
    desk.give(beat, 9, dp.REASON_BEAT)
    assert desk.count("unknown_port") == 1
    host_port = bytes(12) + b"\x88\xb6" + bytes((0, 0, 0, 44, 0, 0))
    assert desk.agent.packet_in(0, 44, dp.REASON_PORT_EVENT, host_port) == []


@pytest.mark.parametrize(
    ("gap_ms", "beats_ms", "recovered"),
    [
        (0, (1, 2, 3), True),
        (0, (1, 2, 4), False),  # one in between stayed away
        (0, (20, 40, 60, 80), False),
        (20, (20, 40, 60), True),
        (20, (1, 2, 3), True),  # a burst that the data plane's meter lets through
        (20, (20, 60, 100), False),
    ],
)
def test_beats_in_a_row_are_as_far_apart_as_the_data_plane_tells_of_them(
    gap_ms: int, beats_ms: tuple[int, ...], recovered: bool
) -> None:
    timers = Timers(hold_ps=1_000 * MS, good_beats=3, beat_gap_ps=gap_ms * MS)
    desk = Desk(replace(CONFIG, timers=timers))
    desk.up()
    found = desk.give(m.Beat(**desk.head(), lost=True), 1, dp.REASON_BEAT)
    assert found == [LinkDown(1, Cause.BEATS)]
    for at_ms in beats_ms:
        desk.wait(at_ms * MS - desk.now_ps)
        found = desk.give(m.Beat(**desk.head()), 1, dp.REASON_BEAT)
    assert (found == [LinkRecovered(1)]) is recovered


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"node": 0}, "node id"),
        ({"incarnation": 0}, "incarnation is 1 to 65535"),
        ({"incarnation": 65536}, "incarnation is 1 to 65535"),
        ({"mac": b""}, "6 bytes, got 0"),
        ({"heard": (replace(HEARD[0], profile=64),)}, "subject 0x7: profile 64 is not in 1 to 63"),
        ({"heard": (replace(HEARD[0], profile=0),)}, "profile 0"),
        ({"heard": (replace(HEARD[0], ports=(1, 3)),)}, r"ports \[1, 3\] must be fabric ports"),
        ({"heard": (HEARD[0], HEARD[0])}, "listed twice"),
        (
            {"ports": {1: PORTS[1], 2: FabricPort(dp.Lane(1, 0))}},
            r"subject 0x9: its ports \[1, 2\] lie in several banks",
        ),
    ],
)
def test_configurations_that_cannot_be(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(AgentConfigError, match=text):
        replace(CONFIG, **changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"hold_ps": MS}, "must exceed hello_ps"),
        ({"hello_ps": 0}, "hello_ps must be above 0"),
        ({"good_beats": 0}, "good_beats at least 1"),
        ({"beat_gap_ps": -1}, "beat_gap_ps must not be negative"),
        ({"retransmit_max_ps": US}, "not below retransmit_ps"),
    ],
)
def test_timers_that_cannot_be(changes: dict[str, int], text: str) -> None:
    with pytest.raises(AgentConfigError, match=text):
        Timers(**changes)
