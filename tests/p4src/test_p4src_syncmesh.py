"""Which SyncMesh frames are taken, which are refused, and where each is counted."""

import pytest
from p4src_kit import (
    BEAT,
    FABRIC_PORTS,
    HOST,
    NEIGHBOUR_INCARNATION,
    NOTE,
    PROFILE,
    SET,
    Bench,
    fabric,
    heard,
    lanes,
    neighbour,
    note_body,
    set_body,
    sync,
)
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

SUBJECT = 20
BANKS = 32
HELLO, FULL, DELTA, ACK, BYE, PROBE = 1, 2, 3, 4, 5, 6
TAKEN, FROM_HOST, UNKNOWN, INCARNATION, SEQUENCE, NO_PROFILE, MALFORMED = range(7)
TO_AGENT, TO_AGENT_NOTE, TO_PROBER = 1, 2, 7
STATE = ("remote_codes", "local_down", "beat_seen")


@pytest.fixture
def bench():
    bench = Bench()
    bench.insert(heard(SUBJECT, (1, 2, 3)))
    return bench


def counts(bench):
    """Cells of the counter that are not 0."""
    return {i: n for i in range(8) if (n := bench.count("sync_in", i))}


def state(bench):
    return [list(bench.register(name)) for name in STATE]


def code(bench, port):
    return bench.register("remote_codes")[PROFILE * BANKS] >> 8 * (port - 1) & 0xFF


def note(port, seq, value=0xD, **changes):
    fields = {"origin": neighbour(port), **changes}
    return sync(NOTE, note_body(SUBJECT, value), seq=seq, **fields)


def refused(bench, frame, port, why):
    """The frame changes nothing, reaches nobody, and is counted once, there."""
    before, counted = state(bench), bench.count("sync_in", why)
    assert bench.put(frame, port) == []
    assert bench.packet_ins == []
    assert state(bench) == before
    assert bench.count("sync_in", why) == counted + 1


# --- hosts ----------------------------------------------------------------------------------------

ALL_TYPES = [(kind, note_body(SUBJECT, 8)) for kind in range(16)] + [(SET, set_body(2, 8, 2))]


@pytest.mark.parametrize(("kind", "body"), ALL_TYPES)
def test_nothing_is_taken_from_a_host(bench, kind, body):
    frame = sync(kind, body, origin=neighbour(1), seq=1)
    refused(bench, frame, HOST, FROM_HOST)
    assert counts(bench) == {FROM_HOST: 1}


def tagged(frame):
    return bytes(Ether() / Dot1Q(vlan=1, type=0x88B5) / Raw(frame[14:]))


@pytest.mark.parametrize(("kind", "body"), ALL_TYPES)
def test_nothing_is_taken_behind_a_vlan_tag(bench, kind, body):
    frame = tagged(sync(kind, body, origin=neighbour(1), seq=1))
    refused(bench, frame, HOST, FROM_HOST)
    refused(bench, frame, 1, MALFORMED)
    assert counts(bench) == {FROM_HOST: 1, MALFORMED: 1}


def test_an_agents_order_has_no_vlan_tag(bench):
    before = state(bench)
    frame = tagged(sync(SET, set_body(2, 8, 2), origin=1, seq=1))
    bench.client.packet_out(frame, egress_port=0, to_pipeline=1, pad=0)
    bench.clock.run(bench.clock.now_ps)
    assert state(bench) == before
    assert counts(bench) == {MALFORMED: 1}


@pytest.mark.parametrize(
    "frame",
    [
        note(1, 1)[:20],
        bytes(12) + b"\x88\xb6" + bytes.fromhex("00 00 0002 0000".replace(" ", "")),
        bytes(12) + b"\x88\xb6" + bytes.fromhex("02 10 0002 0000".replace(" ", "")),
    ],
    ids=["cut short", "forged port event", "forged timer"],
)
@pytest.mark.parametrize("port", [HOST, 1])
def test_what_is_no_syncmesh_frame_is_dropped_too(bench, frame, port):
    before = state(bench)
    assert bench.put(frame, port) == []
    assert bench.packet_ins == []
    assert state(bench) == before


# --- neighbours -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [HELLO, FULL, DELTA, ACK, BYE])
def test_agents_messages_pass_to_the_agent(bench, kind):
    frame = sync(kind, bytes(range(60)), origin=neighbour(2), seq=7, incarnation=99)
    assert bench.put(frame, 2) == []
    assert bench.packet_ins == [(2, TO_AGENT, frame)]
    assert counts(bench) == {TAKEN: 1}


def test_probes_pass_to_routing(bench):
    frame = sync(PROBE, bytes(8), origin=neighbour(2), seq=7, incarnation=99)
    bench.put(frame, 2)
    assert bench.packet_ins == [(2, TO_PROBER, frame)]


def test_an_unknown_origin_may_only_say_hello(bench):
    frame = sync(HELLO, bytes(48), origin=77, seq=1)
    bench.put(frame, 2)
    assert bench.packet_ins == [(2, TO_AGENT, frame)]
    bench.packet_ins.clear()
    for kind in (FULL, DELTA, ACK, BYE, PROBE, NOTE, BEAT, SET):
        refused(bench, sync(kind, note_body(SUBJECT, 8), origin=77, seq=2), 2, UNKNOWN)


def test_a_neighbour_is_known_at_its_own_port_only(bench):
    refused(bench, note(1, 1), 2, UNKNOWN)


@pytest.mark.parametrize("version", [0, 2, 15])
@pytest.mark.parametrize("kind", [HELLO, NOTE, BEAT])
def test_another_version_is_refused(bench, kind, version):
    frame = sync(kind, note_body(SUBJECT, 8), origin=neighbour(1), seq=1, version=version)
    refused(bench, frame, 1, UNKNOWN)


def test_a_note_is_taken_and_the_agent_hears_of_an_urgent_one(bench):
    assert bench.put(note(1, 1), 1) == []
    assert bench.packet_ins == []
    assert code(bench, 1) == 0xD
    assert counts(bench) == {TAKEN: 1}
    frame = note(1, 2, value=0xE, flags=1)
    assert bench.put(frame, 1) == []
    assert bench.packet_ins == [(1, TO_AGENT_NOTE, frame)]
    assert code(bench, 1) == 0xE
    assert counts(bench) == {TAKEN: 2}


def test_the_high_bits_of_a_code_are_cut_off(bench):
    bench.put(note(1, 1, value=0xF9), 1)
    assert code(bench, 1) == 9
    assert bench.register("remote_codes")[PROFILE * BANKS] == 9


@pytest.mark.parametrize("incarnation", [NEIGHBOUR_INCARNATION - 1, NEIGHBOUR_INCARNATION + 1, 0])
@pytest.mark.parametrize("kind", [NOTE, BEAT])
def test_another_incarnation_is_refused(bench, kind, incarnation):
    frame = sync(kind, note_body(SUBJECT, 8), origin=neighbour(1), seq=1, incarnation=incarnation)
    refused(bench, frame, 1, INCARNATION)


def test_a_restarted_neighbour_counts_from_the_start(bench):
    bench.put(note(1, 5000), 1)
    bench.packet_ins.clear()
    restarted = {"incarnation": NEIGHBOUR_INCARNATION + 1}
    refused(bench, note(1, 1, value=0xC, **restarted), 1, INCARNATION)
    bench.modify(fabric(1, **restarted))  # the agent, having heard its HELLO
    bench.put(note(1, 1, value=0xC, **restarted), 1)
    assert code(bench, 1) == 0xC
    bench.packet_ins.clear()
    refused(bench, note(1, 5001), 1, INCARNATION)  # late from before


@pytest.mark.parametrize(
    ("last", "next_", "is_new"),
    [
        (10, 11, True),
        (10, 10, False),
        (10, 9, False),
        (10, 5000, True),
        (0xFFFFFFFF, 0, True),
        (0xFFFFFFFF, 5, True),
        (5, 0xFFFFFFFF, False),
        (10, 10 + 0x7FFFFFFF, True),
        (10, 10 + 0x80000000, False),
    ],
)
def test_sequence_numbers_go_on_around_the_circle(bench, last, next_, is_new):
    bench.register("last_seen")[1] = NEIGHBOUR_INCARNATION << 32 | last
    if is_new:
        bench.put(note(1, next_), 1)
        assert code(bench, 1) == 0xD
        assert bench.register("last_seen")[1] == NEIGHBOUR_INCARNATION << 32 | next_
    else:
        refused(bench, note(1, next_), 1, SEQUENCE)
        assert bench.register("last_seen")[1] == NEIGHBOUR_INCARNATION << 32 | last


def test_a_replayed_note_and_heartbeat_are_refused(bench):
    down, up = note(1, 1, value=8), note(1, 2, value=0)
    for frame in (down, up):
        bench.put(frame, 1)
    bench.packet_ins.clear()
    refused(bench, down, 1, SEQUENCE)
    refused(bench, up, 1, SEQUENCE)
    refused(bench, sync(BEAT, origin=neighbour(1), seq=2), 1, SEQUENCE)
    assert code(bench, 1) == 0


def test_ports_count_apart(bench):
    bench.put(note(1, 100), 1)
    bench.put(note(2, 1), 2)
    assert (code(bench, 1), code(bench, 2)) == (0xD, 0xD)


def test_a_subject_without_a_profile_is_refused(bench):
    frame = sync(NOTE, note_body(SUBJECT + 1, 8), origin=neighbour(1), seq=1)
    refused(bench, frame, 1, NO_PROFILE)


def test_a_subject_that_the_port_does_not_lead_to_is_refused(bench):
    refused(bench, note(4, 1), 4, NO_PROFILE)


@pytest.mark.parametrize(
    "frame",
    [
        sync(NOTE, note_body(SUBJECT, 8)[:-1], origin=neighbour(1), seq=1),
        sync(SET, set_body(2, 8, 1), origin=neighbour(1), seq=1),
        *(sync(kind, bytes(20), origin=neighbour(1), seq=1) for kind in (7, 11, 15)),
    ],
    ids=["short note", "set", "7", "11", "15"],
)
def test_what_makes_no_sense_is_refused(bench, frame):
    refused(bench, frame, 1, MALFORMED)


def test_an_unknown_fabric_port_is_a_host_port(bench):
    bench.client.delete([fabric(3)])
    refused(bench, note(3, 1), 3, FROM_HOST)


# --- the agent's own orders -----------------------------------------------------------------------

REMOTE, LINK = 1, 2


@pytest.mark.parametrize("profile", [0, 1, 63])
@pytest.mark.parametrize("port", FABRIC_PORTS)
def test_set_remote_writes_one_lane(bench, profile, port):
    cell = profile * BANKS
    bench.register("remote_codes")[cell] = 0x0101010101
    bench.set(REMOTE, 0xF9, port, profile=profile)
    expected = bytearray(0x0101010101.to_bytes(5, "little"))
    expected[port - 1] = 9
    assert bench.register("remote_codes")[cell] == int.from_bytes(expected, "little")


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (set_body(REMOTE, 8, 1, profile=64), 1),
        (set_body(REMOTE, 8, 1, profile=0x8002), 1),
        (set_body(REMOTE, 8, HOST), 1),
        (set_body(LINK, 8, HOST), 1),
        (set_body(LINK, 8, 512 + 1), 1),
        (set_body(0, 8, 1), 1),
        (set_body(3, 0, 1), 1),
        (set_body(LINK, 8, 1)[:-1], 1),
        (set_body(LINK, 8, 1), 2),
    ],
    ids=["profile", "profile_", "host", "host_", "port", "what 0", "what 3", "short", "version"],
)
def test_an_order_that_makes_no_sense_is_refused(bench, body, version):
    bench.register("local_down")[0] = lanes(1)
    before = state(bench)
    frame = sync(SET, body, origin=9, seq=0, version=version)
    bench.client.packet_out(frame, egress_port=0, to_pipeline=1, pad=0)
    bench.run()
    assert state(bench) == before
    assert bench.packet_ins == []
    assert counts(bench) == {MALFORMED: 1}


def test_other_messages_of_the_own_agent_go_nowhere_through_the_pipeline(bench):
    bench.client.packet_out(
        sync(HELLO, bytes(48), origin=9, seq=1), egress_port=0, to_pipeline=1, pad=0
    )
    bench.run()
    assert bench.sent == []
    assert counts(bench) == {MALFORMED: 1}
