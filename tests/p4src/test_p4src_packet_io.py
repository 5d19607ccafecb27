"""The controller's packets, generated packets, and anything at all on any port."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from p4src_kit import (
    BEAT,
    CPU,
    FABRIC_PORTS,
    GLB,
    HOST,
    HOST2,
    HOST_MAC,
    NOTE,
    ROUTER_MAC,
    SET,
    Bench,
    heard,
    ip4,
    ip6,
    mode,
    neighbour,
    note_body,
    notify,
    quality,
    routed,
    set_body,
    subject,
    sync,
    timer_group,
)

from sglb.switch.pktgen import KIND_PORT, KIND_TIMER, event_frame

STATE = ("remote_codes", "local_down", "beat_seen", "last_seen", "local_bad")
STEPS = (100, 200, 300, 400, 500, 600, 700)


def loaded():
    """Everything in use."""
    bench = Bench()
    bench.insert(
        mode(GLB),
        heard(20, FABRIC_PORTS, relay=1),
        [quality(p, STEPS, subject=1, scan=(1, 1)) for p in FABRIC_PORTS],
        subject(1, FABRIC_PORTS, names=20, copies=2),
        notify((3, 4)),
        timer_group(),
    )
    return bench


def state(bench):
    return [list(bench.register(name)) for name in STATE]


def packet_out(bench, payload, *, port=0, through=1):
    first = len(bench.sent)
    bench.client.packet_out(payload, egress_port=port, to_pipeline=through, pad=0)
    bench.run()
    return bench.sent[first:]


# --- packet-out and packet-in ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload",
    [bytes(ip4()), bytes(60), sync(1, bytes(40), origin=9, seq=1)],
    ids=["ip", "unknown", "hello"],
)
@pytest.mark.parametrize("port", [1, HOST])
def test_a_packet_out_leaves_as_it_is(payload, port):
    bench = loaded()
    assert [(s.port, s.data) for s in packet_out(bench, payload, port=port, through=0)] == [
        (port, payload)
    ]


@pytest.mark.parametrize(
    "payload",
    [
        event_frame(0x88B6, 0, KIND_PORT, False, 1, 0),
        event_frame(0x88B6, 2, KIND_TIMER, False, 0, 0),
        sync(SET, set_body(2, 8, 1), origin=9, seq=0),
    ],
    ids=["port event", "timer", "set"],
)
def test_what_is_for_a_port_is_not_for_this_switch(payload):
    bench = loaded()
    before = state(bench)
    assert [(s.port, s.data) for s in packet_out(bench, payload, port=HOST, through=0)] == [
        (HOST, payload)
    ]
    assert state(bench) == before
    assert bench.packet_ins == []


@pytest.mark.parametrize(("make", "to"), [(ip4, "10.0.9.11"), (ip6, "fd00:9::11")])
def test_a_packet_out_through_the_pipeline_is_routed(make, to):
    bench = loaded()
    [out] = packet_out(bench, bytes(make(to)))
    assert (out.port, out.data) == (HOST, routed(make(to), ROUTER_MAC, HOST_MAC))


def test_a_packet_out_to_the_controller_comes_back():
    bench = loaded()
    packet_out(bench, bytes(60), port=CPU, through=0)
    assert bench.packet_ins == [(CPU, 0, bytes(60))]


@pytest.mark.parametrize("size", [0, 1, 2, 15])
def test_a_packet_out_that_is_too_short_is_dropped(size):
    bench = loaded()
    bench.switch.packet_out(bytes(size))
    assert bench.run() == []


def test_the_controller_may_play_packet_generator():
    """Where the target has none, port events and timers come as packet-outs."""
    bench = loaded()
    sent = packet_out(bench, event_frame(0x88B6, 2, KIND_TIMER, False, 0, 0) + bytes(40))
    assert sorted(s.port for s in sent if s.data[14] == 0x19) == [1, 2, 3, 4]
    packet_out(bench, event_frame(0x88B6, 0, KIND_PORT, False, 2, 0))
    assert bench.register("local_down")[0] == 0x8000
    assert [(p.port, p.reason) for p in bench.packet_ins] == [(2, 4)]


def test_a_timer_without_application_goes_nowhere():
    bench = loaded()
    assert packet_out(bench, event_frame(0x88B6, 0, KIND_TIMER, False, 0, 0)) == []
    assert packet_out(bench, event_frame(0x88B6, 1, 7, False, 0, 0)) == []


# --- anything -------------------------------------------------------------------------------------


def cut_or_changed(frames: list[bytes]) -> st.SearchStrategy[bytes]:
    """Frames that mean something, with some bytes changed, cut off or added."""

    def damage(args: tuple[bytes, list[tuple[int, int]], int, bytes]) -> bytes:
        frame, changes, length, tail = args
        changed = bytearray(frame)
        for at, value in changes:
            changed[at % len(changed)] = value
        return bytes(changed[:length]) + tail

    change = st.tuples(st.integers(0, 100), st.integers(0, 255))
    return st.tuples(
        st.sampled_from(frames),
        st.lists(change, max_size=4),
        st.one_of(st.just(200), st.integers(0, 80)),
        st.one_of(st.just(b""), st.binary(max_size=20)),
    ).map(damage)


MEANINGFUL = [
    bytes(ip4()),
    bytes(ip6()),
    bytes(ip4("10.0.9.11")),
    *(sync(NOTE, note_body(20, 8), origin=neighbour(p), seq=100 + p) for p in FABRIC_PORTS),
    *(sync(BEAT, origin=neighbour(p), seq=100 + p, flags=1) for p in FABRIC_PORTS),
    sync(SET, set_body(1, 8, 1, profile=2), origin=9, seq=1),
    sync(SET, set_body(2, 8, 1), origin=9, seq=1),
    event_frame(0x88B6, 0, KIND_PORT, False, 1, 0),
    event_frame(0x88B6, 2, KIND_TIMER, False, 0, 0),
]
FRAMES = st.one_of(st.binary(max_size=120), cut_or_changed(MEANINGFUL))
TO_PIPELINE = b"\0\x40"  # a packet_out header: port 0, through the pipeline
FROM_CPU = st.tuples(st.just(CPU), st.one_of(FRAMES, FRAMES.map(lambda f: TO_PIPELINE + f)))
FROM_HOSTS = st.tuples(st.sampled_from((HOST, HOST2)), FRAMES)
FROM_FABRIC = st.tuples(st.sampled_from(FABRIC_PORTS), FRAMES)


def feed(bench: Bench, arrivals: list[tuple[int, bytes]]) -> None:
    for at, (port, frame) in enumerate(arrivals):
        bench.at(10 * (at + 1))
        bench.switch.receive(port, frame)
    bench.run(10 * len(arrivals) + 100)


@given(st.lists(st.one_of(FROM_HOSTS, FROM_FABRIC, FROM_CPU), max_size=25))
@settings(max_examples=40, deadline=None)
def test_nothing_breaks_the_switch(arrivals):
    bench = loaded()
    feed(bench, arrivals)
    # It works as before: whatever was marked down, the agent can undo, and packets flow again.
    for port in FABRIC_PORTS:
        bench.set(2, 0, port)
        for profile in (0, 2):
            bench.set(1, 0, port, profile=profile)
    for frame in (ip4(), ip6()):
        assert bench.out_port(frame) in FABRIC_PORTS


@given(st.lists(FROM_HOSTS, max_size=25))
@settings(max_examples=40, deadline=None)
def test_no_host_changes_what_the_switch_believes_of_links(arrivals):
    bench = loaded()
    for name in ("remote_codes", "local_down", "beat_seen", "last_seen"):
        bench.register(name)[0] = 0x0105  # no cell is all zero
    before = [list(bench.register(name)) for name in STATE[:4]]
    feed(bench, arrivals)
    assert [list(bench.register(name)) for name in STATE[:4]] == before
    assert all(p.reason == 3 for p in bench.packet_ins)  # its own notes: hosts do load ports


@given(
    arrivals=st.lists(FROM_FABRIC, max_size=25),
    incarnation=st.integers(0, 0xFFFF).filter(lambda i: i != 3),
)
@settings(max_examples=30, deadline=None)
def test_no_stranger_on_a_fabric_port_changes_it_either(arrivals, incarnation):
    """What has neither origin nor incarnation of the neighbour changes nothing."""
    bench = loaded()
    before = state(bench)[:4]
    wrong: list[Callable[[bytes], bytes]] = [
        lambda f: f[:18] + b"\0\0\0\1" + f[22:],  # the origin
        lambda f: f[:16] + incarnation.to_bytes(2, "big") + f[18:],
    ]
    for i, (port, frame) in enumerate(arrivals):
        if frame[12:14] == b"\x88\xb5" and len(frame) > 26:
            bench.put(wrong[i % 2](frame), port)
    assert state(bench)[:4] == before
