"""Heartbeats, links that fall silent, and how a link is marked down and good again."""

import pytest
from p4src_kit import (
    BEAT,
    DLB,
    FABRIC_PORTS,
    Bench,
    fabric,
    ip4,
    lanes,
    mode,
    neighbour,
    notify,
    quality,
    set_body,
    subject,
    sync,
    timer_group,
)

FAR = (1 << 30,) * 7
QUALITY, HEARTBEAT = 1, 2
TIMEOUT_US = 100
LINK, DOWN, UP = 2, 8, 0
FROM_PORT, ON_DOWN, CARRIED_OUT = 4, 5, 6


@pytest.fixture
def bench():
    """Subject 1 names switch 30 and hangs on port 2; ports 3 and 4 want to know."""
    bench = Bench()
    bench.modify(fabric(2, subject=1))
    bench.insert(
        [
            quality(p, FAR, subject=int(p == 2), beat_timeout_us=TIMEOUT_US, scan=(1, 1))
            for p in FABRIC_PORTS
        ],
        subject(1, [2], names=30),
        notify((3, 4)),
        timer_group(),
    )
    return bench


def beat_frame(seq, *, lost=False):
    head = bytes.fromhex("0180c200000e 020000000009 88b5 19".replace(" ", ""))
    return head + bytes((lost,)) + bytes.fromhex("0005 00000009") + seq.to_bytes(4, "big")


def beats(sent):
    return {s.port: s.data for s in sent if s.data[12:15] == b"\x88\xb5\x19"}


def hear(bench, port, seq, *, lost=False):
    return bench.put(sync(BEAT, origin=neighbour(port), seq=seq, flags=int(lost)), port)


def down(bench):
    return bench.register("local_down")[0]


def test_every_fabric_port_sends_a_heartbeat(bench):
    sent = bench.tick(HEARTBEAT)
    assert {s.port: s.data for s in sent} == {p: beat_frame(p) for p in FABRIC_PORTS}
    assert beats(bench.tick(HEARTBEAT)) == {p: beat_frame(p + 4) for p in FABRIC_PORTS}


def test_no_other_timer_sends_anything(bench):
    for app in (0, QUALITY, 3, 7):
        assert bench.tick(app) == []
    assert bench.packet_ins == []


def test_a_port_without_quality_sends_no_heartbeat(bench):
    bench.client.delete([quality(3, FAR)])
    assert sorted(beats(bench.tick(HEARTBEAT))) == [1, 2, 4]


def test_a_heartbeat_is_taken_and_forgotten(bench):
    bench.at(10)
    assert hear(bench, 2, 1) == []
    assert bench.packet_ins == []
    assert bench.register("beat_seen")[2] == 10


def test_silence_marks_the_link_and_tells(bench):
    bench.at(10)
    hear(bench, 2, 1)
    bench.at(110)
    sent = bench.tick(HEARTBEAT)
    assert not any(frame[15] for frame in beats(sent).values())
    assert down(bench) == 0
    bench.at(111)
    sent = bench.tick(HEARTBEAT)
    assert {port: frame[15] for port, frame in beats(sent).items()} == {1: 0, 2: 1, 3: 0, 4: 0}
    assert down(bench) == lanes(2)
    assert bench.notes(sent) == [(3, 30, DOWN), (4, 30, DOWN)]
    sent = bench.tick(HEARTBEAT)
    assert beats(sent)[2][15] == 1
    assert bench.notes(sent) == []


def test_silence_is_told_at_once_not_when_its_turn_comes(bench):
    many = (1, 100)  # only the first is a subject; port 1's timer packet looks at it before
    bench.modify(
        *(
            quality(p, FAR, subject=int(p == 2), beat_timeout_us=TIMEOUT_US, scan=many)
            for p in FABRIC_PORTS
        )
    )
    bench.at(10)
    hear(bench, 2, 1)
    bench.at(111)
    assert bench.notes(bench.tick(HEARTBEAT)) == [(3, 30, DOWN), (4, 30, DOWN)]


def test_who_was_never_heard_is_not_missed(bench):
    bench.at(1_000_000)
    assert not any(frame[15] for frame in beats(bench.tick(HEARTBEAT)).values())
    assert down(bench) == 0


def test_quality_timers_check_no_heartbeats(bench):
    bench.at(10)
    hear(bench, 2, 1)
    bench.at(1000)
    assert bench.tick(QUALITY) == []
    assert down(bench) == 0


def test_a_link_is_not_good_again_by_heartbeats_alone(bench):
    bench.at(10)
    hear(bench, 2, 1)
    bench.at(200)
    bench.tick(HEARTBEAT)
    bench.packet_ins.clear()
    bench.at(210)
    frame = sync(BEAT, origin=neighbour(2), seq=2)
    assert bench.put(frame, 2) == []
    assert bench.packet_ins == [(2, ON_DOWN, frame)]
    assert down(bench) == lanes(2)
    assert beats(bench.tick(HEARTBEAT))[2][15] == 0  # the neighbour is told that it is heard


def test_the_agent_makes_it_good_and_silence_counts_anew(bench):
    bench.at(10)
    hear(bench, 2, 1)
    bench.at(200)
    bench.tick(HEARTBEAT)
    bench.at(210)
    assert bench.notes(bench.set(LINK, UP, 2)) == [(3, 30, UP), (4, 30, UP)]
    assert down(bench) == 0
    bench.at(310)
    bench.tick(HEARTBEAT)
    assert down(bench) == 0
    bench.at(311)
    bench.tick(HEARTBEAT)
    assert down(bench) == lanes(2)


def test_a_neighbour_that_does_not_hear_us_marks_the_link(bench):
    bench.at(10)
    frame = sync(BEAT, origin=neighbour(2), seq=1, flags=1)
    assert bench.notes(bench.put(frame, 2)) == [(3, 30, DOWN), (4, 30, DOWN)]
    assert down(bench) == lanes(2)
    assert (2, ON_DOWN, frame) in bench.packet_ins
    assert bench.register("beat_seen")[2] == 10
    bench.packet_ins.clear()
    assert bench.notes(hear(bench, 2, 2, lost=True)) == []
    assert [(p.port, p.reason) for p in bench.packet_ins] == [(2, ON_DOWN)]


def test_a_one_way_cut_is_known_at_both_ends_and_ends_at_both():
    """Two switches; what the left one sends is lost from 500 us to 1500 us."""
    left, right = Bench(), Bench()
    for bench in (left, right):
        bench.modify(fabric(1, node=9, incarnation=5))
        bench.insert([quality(1, FAR, beat_timeout_us=TIMEOUT_US)], timer_group([1]))
    seen = {}
    for time_us in range(50, 2050, 50):
        for bench in (left, right):
            bench.at(time_us)
        to_right, to_left = left.tick(HEARTBEAT), right.tick(HEARTBEAT)
        if not 500 <= time_us < 1500:
            for sent in to_right:
                right.put(sent.data, 1)
        for sent in to_left:
            left.put(sent.data, 1)
        if time_us == 1700:  # the agents: heartbeats are back, the routes stand
            assert left.packet_ins[-1].reason == right.packet_ins[-1].reason == ON_DOWN
            assert left.packet_ins[-1].payload[15] == 0
            left.set(LINK, UP, 1)
            right.set(LINK, UP, 1)
        seen[time_us] = (down(left), down(right))
    one = lanes(1)
    # The right one is silent for more than 100 us at 600, and says so at once.
    assert {t for t, s in seen.items() if s == (one, one)} == set(range(600, 1700, 50))
    assert {s for t, s in seen.items() if not 600 <= t < 1700} == {(0, 0)}


# --- what the agent orders ------------------------------------------------------------------------


def test_the_agent_marks_a_link_and_hears_that_it_was_done(bench):
    order = bench.set(LINK, DOWN, 2)
    assert bench.notes(order) == [(3, 30, DOWN), (4, 30, DOWN)]
    assert down(bench) == lanes(2)
    payload = sync(10, set_body(LINK, DOWN, 2), origin=9, seq=0, incarnation=0)
    assert (2, CARRIED_OUT, payload) in bench.packet_ins
    bench.set(LINK, UP, 2)
    assert down(bench) == 0


def test_marks_of_other_links_stay(bench):
    for port in (1, 2, 4):
        bench.set(LINK, DOWN, port)
    bench.set(LINK, UP, 2)
    assert down(bench) == lanes(1, 4)


# --- carrier --------------------------------------------------------------------------------------


@pytest.mark.parametrize("detection_us", [0, 10])
def test_a_cut_is_avoided_as_soon_as_it_is_detected(detection_us):
    bench = Bench(port_down_detection_ps=detection_us * 1_000_000)
    bench.insert(mode(DLB))
    bench.switch.set_port_state(2, up=False)
    if detection_us:
        bench.at(detection_us - 0.001)
        assert [bench.out_port(ip4()) for _ in range(4)] == [1, 0, 3, 4]
    bench.at(detection_us)
    assert [bench.out_port(ip4()) for _ in range(4)] == [1, 3, 3, 4]
    assert [(p.port, p.reason) for p in bench.packet_ins] == [(2, FROM_PORT)]


def test_a_returned_carrier_changes_nothing_until_the_agent_says_so(bench):
    bench.insert(mode(DLB))
    for up in (False, True):
        bench.switch.set_port_state(2, up)
        bench.run()
    assert [bench.out_port(ip4()) for _ in range(4)] == [1, 3, 3, 4]
    assert [(p.port, p.reason) for p in bench.packet_ins if p.reason == FROM_PORT] == [
        (2, FROM_PORT),
        (2, FROM_PORT),
    ]
    bench.set(LINK, UP, 2)
    assert [bench.out_port(ip4()) for _ in range(4)] == [1, 2, 3, 4]
