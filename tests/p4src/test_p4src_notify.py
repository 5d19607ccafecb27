"""Notifications: what leaves, when, byte for byte; relays; profiles that several subjects share."""

import pytest
from p4src_kit import (
    FABRIC_PORTS,
    GLB,
    HOST,
    NEVER_US,
    NOTE,
    PROFILE,
    Bench,
    fabric,
    heard,
    ip4,
    ip6,
    lanes,
    mode,
    neighbour,
    note_body,
    notify,
    quality,
    slots,
    subject,
    sync,
    timer_group,
    vector,
)
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

BANKS = 32
OWN_NOTE, FROM_NEIGHBOUR, PORT_EVENT = 3, 2, 4
STEPS = (100, 200, 300, 400, 500, 600, 700)
FAR = (1 << 30,) * 7
#: Codes of bands 7 to 0: 0, -1 … -7 in four bits; and of "down".
CODES = (0, 15, 14, 13, 12, 11, 10, 9)
DOWN = 8


def bench_with(*, spacing_us=0, refresh_us=NEVER_US, copies=0, edges=STEPS, scan=(1, 1)):
    """Subject 1 names switch 30 and hangs on port 2, by which all traffic to switch 20 leaves."""
    bench = Bench()
    bench.client.delete(slots(FABRIC_PORTS))
    bench.modify(fabric(2, subject=1))
    bench.insert(
        slots((2,)),
        mode(GLB),
        [quality(p, edges, subject=1 if p == 2 else 0, scan=scan) for p in FABRIC_PORTS],
        subject(
            1,
            [2],
            names=30,
            spacing_us=spacing_us,
            refresh_us=refresh_us,
            copies=copies,
            capacity_mbps=400_000,
        ),
        notify((3, 4)),
        timer_group(),
    )
    return bench


def note_frame(code, seq, *, names=30, capacity_mbps=400_000, urgent=False):
    """Group address, own address, EtherType; version 1 type 8, flags, incarnation 5, node 9, seq."""
    flags = "01" if urgent else "00"
    head = bytes.fromhex(f"0180c200000e020000000009 88b5 18{flags} 0005 00000009".replace(" ", ""))
    return head + seq.to_bytes(4, "big") + note_body(names, code, capacity_mbps)


def load(bench, value):
    """Port 2's score becomes this, by the next packet that leaves."""
    bench.register("load_epoch")[2] = bench.clock.now_ps // 16_000_000
    bench.register("load_bytes")[2] = value


def event(bench, port, up):
    """Carrier of a port goes or comes; what left because of it."""
    first = len(bench.sent)
    bench.switch.set_port_state(port, up)
    bench.clock.run(bench.clock.now_ps)
    return bench.sent[first:]


# --- a change of band -----------------------------------------------------------------------------

CARRIERS = {
    "v4": ip4(),
    "v6": ip6(),
    "long": ip4() / Raw(bytes(900)),
    "vlan": Ether(src="02:00:00:00:0b:0b") / Dot1Q(vlan=5) / ip4().payload,
    "no l4": ip4(frag=3),
}


@pytest.mark.parametrize("carrier", CARRIERS.values(), ids=CARRIERS)
def test_the_packet_that_changes_a_band_sends_the_news(carrier):
    bench = bench_with()
    load(bench, 300)
    sent = bench.put(carrier)
    bad = min(7, (300 + len(carrier)) // 100)
    assert [s.port for s in sent] == [3, 4, 2] or [s.port for s in sent] == [2, 3, 4]
    notes = {s.port: s.data for s in sent if s.port != 2}
    assert notes == {3: note_frame(CODES[bad], 1), 4: note_frame(CODES[bad], 2)}
    assert bench.packet_ins == []  # no agent keeps pace with bands
    assert len(next(s for s in sent if s.port == 2).data) == len(carrier)


@pytest.mark.parametrize("bad", range(1, 8))
def test_the_code_is_the_band_below_the_best(bad):
    bench = bench_with()
    load(bench, 100 * bad)
    assert bench.notes(bench.tick()) == [(3, 30, CODES[bad]), (4, 30, CODES[bad])]


def test_no_change_no_note():
    bench = bench_with()
    load(bench, 300)
    bench.put(ip4())
    assert bench.notes(bench.put(ip4("10.0.9.11"))) == []
    load(bench, 305)
    assert bench.notes(bench.put(ip4())) == []
    assert bench.notes(bench.tick()) == []


def test_without_a_subject_nothing_is_said():
    bench = bench_with()
    bench.register("load_bytes")[1] = 500
    sent = bench.tick()
    assert bench.register("local_bad")[0] == vector(5)
    assert bench.notes(sent) == []


def test_each_subject_is_announced_by_its_own_members():
    bench = bench_with()
    bench.insert(subject(2, (1, 2, 4), names=31))
    bench.modify(*(quality(p, STEPS, subject=int(p == 2), scan=(1, 2)) for p in FABRIC_PORTS))
    load(bench, 500)
    assert bench.notes(bench.tick()) == [(3, 30, CODES[5]), (4, 30, CODES[5])]
    bench.register("load_bytes")[1] = 300
    bench.register("load_bytes")[4] = 600
    # Ports look in turn; whichever comes to subject 2 when all are measured tells, once.
    assert bench.notes(bench.tick() + bench.tick()) == [(3, 31, CODES[3]), (4, 31, CODES[3])]


# --- the rate limit -------------------------------------------------------------------------------


def test_bands_are_announced_no_closer_than_the_spacing():
    bench = bench_with(spacing_us=50, edges=STEPS)
    bench.at(100)
    load(bench, 100)
    assert bench.notes(bench.tick()) == [(3, 30, CODES[1]), (4, 30, CODES[1])]
    load(bench, 350)
    for time_us in (101, 110):
        bench.at(time_us)
        assert bench.notes(bench.tick()) == []
    hold(bench, 149, 350)
    assert bench.notes(bench.tick()) == []
    hold(bench, 150, 350)
    assert bench.notes(bench.tick()) == [(3, 30, CODES[3]), (4, 30, CODES[3])]


def hold(bench, time_us, value):
    bench.at(time_us)
    load(bench, value)


def test_a_change_that_was_held_back_and_undone_is_never_told():
    bench = bench_with(spacing_us=50)
    hold(bench, 100, 100)
    bench.tick()
    hold(bench, 110, 500)
    assert bench.notes(bench.tick()) == []
    hold(bench, 120, 100)
    assert bench.notes(bench.tick()) == []
    hold(bench, 200, 100)
    assert bench.notes(bench.tick()) == []


# --- told again -----------------------------------------------------------------------------------


@pytest.mark.parametrize("band", [0, 3])
def test_what_does_not_change_is_told_again_by_timer_packets(band):
    bench = bench_with(refresh_us=1000)
    hold(bench, 100, 100 * band)
    told = [(3, 30, CODES[band]), (4, 30, CODES[band])]
    assert bench.notes(bench.tick()) == (told if band else [])
    since = 100 if band else 0
    for time_us, due in ((999, False), (1000, True), (1999, False), (2000, True)):
        hold(bench, since + time_us, 100 * band)
        assert bench.notes(bench.tick()) == (told if due else []), time_us
    assert bench.packet_ins == []


def test_a_change_starts_the_wait_anew():
    bench = bench_with(refresh_us=1000)
    hold(bench, 900, 300)
    assert len(bench.notes(bench.tick())) == 2
    hold(bench, 1899, 300)
    assert bench.notes(bench.tick()) == []
    hold(bench, 1900, 300)
    assert len(bench.notes(bench.tick())) == 2


def test_only_timer_packets_tell_again():
    bench = bench_with(refresh_us=1000)
    bench.at(5000)
    assert bench.notes(bench.put(ip4())) == []


def test_down_is_urgent_each_time_it_is_told():
    bench = bench_with(refresh_us=1000)
    bench.at(10)
    event(bench, 2, up=False)
    bench.at(1010)
    sent = bench.tick()
    assert [s.data for s in sent] == [note_frame(DOWN, n, urgent=True) for n in (4, 5)]
    assert bench.packet_ins[-1] == (0, OWN_NOTE, note_frame(DOWN, 6, urgent=True))


# --- links ----------------------------------------------------------------------------------------


def test_a_link_that_goes_down_is_told_at_once_and_first():
    bench = bench_with(spacing_us=1000)
    bench.at(2000)
    load(bench, 300)
    bench.tick()
    sent = event(bench, 2, up=False)
    assert {s.port: s.data for s in sent} == {
        3: note_frame(DOWN, 3, urgent=True),
        4: note_frame(DOWN, 4, urgent=True),
    }
    assert bench.register("local_down")[0] == lanes(2)
    own, told = sorted(bench.packet_ins[-2:], key=lambda p: p.reason)
    assert own == (0, OWN_NOTE, note_frame(DOWN, 5, urgent=True))
    assert (told.port, told.reason) == (2, PORT_EVENT)
    # 12 zero bytes, EtherType, application 0, kind 0 and down, port 2, packet 0
    assert told.payload == bytes(12) + bytes.fromhex("88b6 00 00 0002 0000".replace(" ", ""))


def test_a_link_that_comes_back_is_told_when_the_agent_says_so():
    bench = bench_with(spacing_us=1000)
    bench.at(2000)
    event(bench, 2, up=False)
    assert bench.notes(event(bench, 2, up=True)) == []
    assert bench.register("local_down")[0] == lanes(2)
    sent = bench.set(2, 0, 2)
    assert [s.data for s in sent] == [note_frame(0, n, urgent=True) for n in (4, 5)]
    assert bench.register("local_down")[0] == 0


@pytest.mark.parametrize("copies", [0, 1, 3])
def test_down_is_repeated_by_timer_packets_though_its_port_sends_none(copies):
    bench = bench_with(copies=copies)
    bench.at(10)
    assert len(bench.notes(event(bench, 2, up=False))) == 2
    assert bench.notes(bench.set(1, 0, 2, subject=1)) == []  # no timer packet
    repeats = [bench.notes(bench.tick()) for _ in range(4)]
    flat = [note for tick in repeats for note in tick]
    assert flat == [(3, 30, DOWN), (4, 30, DOWN)] * copies
    assert bench.notes(bench.put(ip4())) == []


def test_a_link_that_comes_back_is_repeated_too():
    bench = bench_with(copies=2)
    event(bench, 2, up=False)
    for _ in range(3):
        bench.tick()
    event(bench, 2, up=True)
    bench.set(2, 0, 2)
    flat = [note for _ in range(3) for note in bench.notes(bench.tick())]
    assert flat == [(3, 30, 0), (4, 30, 0)] * 2


def test_a_bundle_is_down_when_its_last_member_is():
    bench = bench_with()
    bench.modify(*subject(1, (1, 2), names=30)[:1])
    bench.modify(fabric(1, subject=1))
    load(bench, 300)
    assert bench.notes(bench.tick()) == []  # member 1 is as good as ever
    assert bench.notes(event(bench, 1, up=False)) == [(3, 30, CODES[3]), (4, 30, CODES[3])]
    assert bench.notes(event(bench, 2, up=False)) == [(3, 30, DOWN), (4, 30, DOWN)]
    event(bench, 1, up=True)
    assert bench.notes(bench.set(2, 0, 1)) == [(3, 30, 0), (4, 30, 0)]


def test_a_host_port_event_is_told_to_the_controller_alone():
    bench = bench_with()
    assert event(bench, HOST, up=False) == []
    assert [(p.port, p.reason) for p in bench.packet_ins] == [(HOST, PORT_EVENT)]
    assert bench.register("local_down")[0] == 0


# --- notes that come in, and relays ---------------------------------------------------------------

POD = 0x8001


def transit(*, alone=1):
    """A switch in the middle: pod 1 is reached by ports 1 and 2, ports 3 and 4 want to know."""
    bench = Bench()
    bench.insert(
        heard(POD, (1, 2), alone=alone, relay=5),
        [quality(p, FAR, scan=(5, 1)) for p in FABRIC_PORTS],
        subject(5, (1, 2), names=POD, profile=PROFILE, copies=1),
        notify((3, 4)),
        timer_group(),
    )
    return bench


def hear(bench, port, code, seq, names=POD, flags=0):
    frame = sync(NOTE, note_body(names, code), origin=neighbour(port), seq=seq, flags=flags)
    return bench.notes(bench.put(frame, port))


def codes(bench, profile=PROFILE):
    value = bench.register("remote_codes")[profile * BANKS]
    return [value >> 8 * i & 0xFF for i in range(4)]


@pytest.mark.parametrize("relay", [0, 5])
@pytest.mark.parametrize(
    ("before", "code", "flags", "told"),
    [
        (0, 0xD, 0, False),
        (0, 0xD, 1, True),
        (0, 8, 1, True),
        (8, 8, 1, True),
        # Without the flag: the notification that bore it was lost.
        (0, 8, 0, True),
        (8, 0xD, 0, True),
        (8, 0xD, 1, True),
    ],
)
def test_a_note_becomes_a_code_of_its_lane_and_the_agent_hears_of_down(
    before, code, flags, told, relay
):
    bench = transit()
    bench.modify(heard(POD, (1, 2), relay=relay))
    bench.register("remote_codes")[PROFILE * BANKS] = vector(0, before)
    frame = sync(NOTE, note_body(POD, code, 100), origin=neighbour(2), seq=1, flags=flags)
    assert bench.put(frame, 2) == []  # port 1 is still best
    assert codes(bench) == [0, code, 0, 0]
    assert bench.packet_ins == ([(2, FROM_NEIGHBOUR, frame)] if told else [])


def test_what_is_best_is_relayed_when_it_changes():
    bench = transit()
    assert hear(bench, 1, 0xD, 1) == []  # port 2 is still best
    assert hear(bench, 2, 0xB, 1) == [(3, POD, 0xD), (4, POD, 0xD)]
    assert hear(bench, 1, 8, 2) == [(3, POD, 0xB), (4, POD, 0xB)]
    assert hear(bench, 2, 8, 2) == [(3, POD, 8), (4, POD, 8)]
    assert bench.notes(bench.tick()) == [(3, POD, 8), (4, POD, 8)]  # the repeat
    assert hear(bench, 2, 0, 3) == [(3, POD, 0), (4, POD, 0)]


def test_a_relay_adds_its_own_band():
    bench = transit()
    bench.register("local_bad")[0] = vector(2, 7)
    assert hear(bench, 1, 0xD, 1) == [(3, POD, CODES[5]), (4, POD, CODES[5])]


def test_a_set_of_the_agent_is_relayed_as_a_note_is():
    bench = transit()
    bench.set(1, 8, 1, profile=PROFILE, subject=5)
    assert codes(bench) == [8, 0, 0, 0]
    sent = bench.set(1, 8, 2, profile=PROFILE, subject=5)
    assert bench.notes(sent) == [(3, POD, 8), (4, POD, 8)]
    assert bench.notes(bench.set(1, 0xE, 2, profile=PROFILE)) == []  # no subject named
    assert codes(bench) == [8, 0xE, 0, 0]


@pytest.mark.parametrize(
    ("before", "told", "after"),
    [(0, 0xD, 0), (0, 8, 9), (0xD, 8, 9), (8, 8, 8), (9, 0, 9), (9, 5, 9), (8, 0, 8)],
)
def test_a_shared_profile_takes_down_as_worst_and_nothing_else(before, told, after):
    bench = transit(alone=0)
    bench.register("remote_codes")[PROFILE * BANKS] = vector(0, before)
    hear(bench, 2, told, 1)
    assert codes(bench) == [0, after, 0, 0]
    assert bench.packet_ins == []
    hear(bench, 2, told, 2, flags=1)
    assert codes(bench) == [0, after, 0, 0]
    assert [p.reason for p in bench.packet_ins] == [FROM_NEIGHBOUR]


def test_worst_is_not_run_over_by_the_pods_band():
    """A leaf that is down beside its pod, which has the profile's other codes."""
    bench, leaf = transit(), 31
    bench.insert(heard(leaf, (1, 2), alone=0, relay=5))
    hear(bench, 2, 0xD, 1)
    assert codes(bench) == [0, 0xD, 0, 0]
    hear(bench, 2, 8, 2, names=leaf, flags=1)
    assert codes(bench) == [0, 9, 0, 0]
    hear(bench, 2, 0xE, 3)
    assert codes(bench) == [0, 9, 0, 0]
    hear(bench, 1, 0xE, 1)
    assert codes(bench) == [0xE, 9, 0, 0]  # another lane
    hear(bench, 2, 8, 4, flags=1)
    assert codes(bench) == [0xE, 8, 0, 0]
    hear(bench, 2, 0xC, 5, flags=1)
    assert codes(bench) == [0xE, 0xC, 0, 0]
    bench.set(1, 9, 2, profile=PROFILE, subject=5)
    hear(bench, 2, 0xD, 6)
    assert codes(bench) == [0xE, 9, 0, 0]
    bench.set(1, 0, 2, profile=PROFILE, subject=5)
    hear(bench, 2, 0xD, 7)
    assert codes(bench) == [0xE, 0xD, 0, 0]


def test_worst_that_a_neighbour_announces_is_a_band_like_others():
    bench = transit()
    hear(bench, 2, 9, 1)
    hear(bench, 2, 0xD, 2)
    assert codes(bench) == [0, 0xD, 0, 0]


def test_three_tiers_hear_of_a_cut_two_hops_away():
    """A core's NOTE makes an aggregation switch tell, and that one's NOTE turns a leaf's traffic."""
    middle, leaf = transit(), Bench()
    leaf.insert(mode(GLB), heard(POD, FABRIC_PORTS))
    hear(middle, 1, 8, 1)
    told = middle.put(sync(NOTE, note_body(POD, 8), origin=102, seq=1), 2)
    frame = next(s.data for s in told if s.port == 3)
    leaf.modify(fabric(4, node=9, incarnation=5))
    assert {leaf.out_port(ip4()) for _ in range(8)} == {1, 2, 3, 4}
    leaf.put(frame, 4)
    assert {leaf.out_port(ip4()) for _ in range(8)} == {1, 2, 3}
