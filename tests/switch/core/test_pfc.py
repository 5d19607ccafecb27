"""Priority flow control: frames on the wire, pauses in time, exact headroom, the watchdog."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tm_kit import GBPS, NS, Fabric, classes

from sglb.fabric.headroom import headroom, least_headroom_bytes
from sglb.p4.native import abi
from sglb.switch.core import model, pfc, rows, tm
from sglb.switch.core.pause_frames import pause_frame_received, take_pause_frames
from sglb.switch.core.settings import (
    ClassSettings,
    TrafficSettings,
    set_headroom,
    set_response,
)
from sglb.switch.core.wires import launch, wire_changed

QUANTUM_NS = 64  # 512 bits at 8 Gbit/s
LINK = (((0, 0), (1, 0)),)


def two_nodes(one: ClassSettings, *, delay_ns: int = 0, room: int = 10**6) -> Fabric:
    """Port 0 of node 0 (the sender) is linked to port 0 of node 1; 24 bytes around each frame."""
    fabric = Fabric(
        TrafficSettings(classes(c3=one)),
        nodes=2,
        links=LINK,
        delay_ps=delay_ns * NS,
        wire_overhead_bytes=24,
    )
    set_headroom(fabric.world, fabric.number(1, 0), 3, room)
    return fabric


def stopping(**change: Any) -> ClassSettings:
    return ClassSettings(**{"lossless": True, "xoff_bytes": 1_000, "pause_quanta": 1_000, **change})


def logged(fabric: Fabric) -> list[tuple[int, int, int, int, int]]:
    w = fabric.world.w
    found = []
    for n in range(w[model.LOG_USED]):
        at = w[model.LOG_AT] + n * model.LOG_WORDS
        words = (model.L_TIME, model.L_KIND, model.L_PORT, model.L_A, model.L_B)
        found.append(tuple(int(w[at + word]) for word in words))
    return found  # type: ignore[return-value]


# --- frames ---


def test_the_bytes_of_a_pause_frame() -> None:
    fabric = Fabric(ports=1)
    row = rows.row_new(fabric.world)
    pfc.write_pause(fabric.world, row, 0x0102, 3, 0x1234)
    at = rows.data_at(fabric.world, row)
    frame = bytes(fabric.world.b[at + i] for i in range(60))
    parts = (
        "0180c2000001",  # the MAC control group address
        "020000000102",
        "8808",  # MAC control
        "0101",  # class-based flow control
        "0008",  # class 3
        "00000000000012340000000000000000",
    )
    assert frame.hex() == "".join(parts).ljust(120, "0")
    assert fabric.half(row, abi.LENGTH) == fabric.half(row, abi.STORED) == 60
    assert pfc.is_pause(fabric.world, row)


@settings(deadline=None, max_examples=60)
@given(st.binary(min_size=60, max_size=60), st.integers(0, 60), st.booleans())
def test_any_bytes_are_read_as_the_standard_says(data: bytes, stored: int, control: bool) -> None:
    if control:
        data = data[:12] + b"\x88\x08\x01\x01" + data[16:]
    fabric = Fabric(ports=1)
    fabric.now = 1
    row = rows.row_new(fabric.world)
    at = rows.data_at(fabric.world, row)
    for i, byte in enumerate(data):
        fabric.world.b[at + i] = byte
    fabric.world.h[2 * row + abi.STORED] = stored
    known = stored >= 34 and data[12:16] == b"\x88\x08\x01\x01"
    assert pfc.is_pause(fabric.world, row) == known
    pfc.pause_received(fabric.world, 0, row, fabric.now)
    for cls in range(8):
        quanta = int.from_bytes(data[18 + 2 * cls : 20 + 2 * cls])
        asked = data[17] >> cls & 1 and quanta > 0
        assert bool(fabric.port(0, "PAUSED") >> cls & 1) == bool(asked)
        if asked:
            assert fabric.queue(0, cls, "PAUSE_UNTIL") == 1 + quanta * QUANTUM_NS * NS


@pytest.mark.parametrize(
    ("rate", "quanta", "time_ps"),
    [
        (100 * GBPS, 65_535, 335_539_200),
        (40 * GBPS, 65_535, 838_848_000),
        (3 * GBPS, 3, 512_000),
        (3 * GBPS, 1, 170_666),  # rounded down
        (1_000_000, 65_535, 33_553_920_000_000),
        (0, 65_535, 0),
    ],
)
def test_quanta_are_512_bit_times_of_the_port(rate: int, quanta: int, time_ps: int) -> None:
    assert pfc.pause_ps(rate, quanta) == time_ps


def test_a_pause_frame_waits_for_the_frame_on_the_wire_and_for_nothing_else() -> None:
    fabric = two_nodes(stopping(), delay_ns=500)
    sender, receiver = fabric.number(0, 0), fabric.number(1, 0)
    set_response(fabric.world, sender, 10)
    fabric.put(200, out=receiver, cls=7)  # waits behind it, although it was first
    fabric.set_port(receiver, "FREE", 1_000 * NS)
    fabric.now = 400 * NS
    pfc.send_pause(fabric.world, receiver, 3, 500, fabric.now)
    # From 1,000 to 1,084 ns on the wire: 60 + 24 bytes.
    assert fabric.port(receiver, "FREE") == 1_084 * NS
    assert fabric.step() == (1_084 * NS + 500 * NS + 640 * NS, model.EV_PAUSE, sender)
    assert fabric.port(sender, "PAUSED") == 1 << 3
    assert fabric.port(sender, "PAUSE_RX") == fabric.port(receiver, "PAUSE_TX") == 1
    assert fabric.queue(sender, 3, "PAUSE_UNTIL") == (2_224 + 500 * QUANTUM_NS) * NS
    assert fabric.port(receiver, "TX_PACKETS") == 0  # no data frame
    # Neither does the port's own pause hold it back.
    fabric.pause(receiver, dict.fromkeys(range(8), 60_000))
    pfc.send_pause(fabric.world, receiver, 3, 0, fabric.now)
    assert fabric.step() == ((2_224 + 84 + 500 + 640) * NS, model.EV_PAUSE, sender)
    assert fabric.port(sender, "PAUSED") == 0


# --- at the paused port ---


def test_a_pause_holds_its_class_until_it_runs_out_and_then_the_port_looks() -> None:
    fabric = Fabric()
    fabric.put(100, cls=3)
    fabric.put(101, cls=2)
    fabric.now = 10 * NS
    fabric.pause(0, {3: 2})
    assert fabric.serve() == (2, 101)
    assert fabric.serve() is None
    assert fabric.port(0, "READY") == 1 << 3
    fabric.set_port(0, "FREE", 200 * NS)
    assert fabric.step() == ((10 + 128) * NS, model.EV_PAUSE_END, 0)
    assert fabric.port(0, "PAUSED") == 0
    assert fabric.step() == (200 * NS, model.EV_FREE, 0)
    assert fabric.serve() == (3, 100)


def test_a_later_pause_takes_the_place_of_the_one_before_longer_or_shorter() -> None:
    fabric = Fabric()
    fabric.pause(0, {3: 10})
    fabric.now = 100 * NS
    fabric.pause(0, {3: 20})
    fabric.run_until(1_379 * NS)
    assert fabric.port(0, "PAUSED") == 1 << 3
    fabric.run_until(1_380 * NS)
    assert fabric.port(0, "PAUSED") == 0
    fabric.pause(0, {3: 1_000})
    fabric.now += 10 * NS
    fabric.pause(0, {3: 1})
    fabric.run_until(1_454 * NS)
    assert fabric.port(0, "PAUSED") == 0


def test_paused_time_is_counted_once_for_the_port_and_for_each_class() -> None:
    fabric = Fabric()
    fabric.pause(0, {3: 100})
    fabric.now = 10 * NS
    fabric.pause(0, {3: 100, 4: 100})
    fabric.now = 30 * NS
    fabric.pause(0, {3: 0})
    fabric.now = 50 * NS
    fabric.pause(0, {4: 0, 5: 0})
    assert fabric.port(0, "PAUSED_PS") == 50 * NS
    assert [fabric.queue(0, cls, "PAUSED_PS") // NS for cls in (3, 4, 5)] == [30, 40, 0]
    assert [fabric.queue(0, cls, "PAUSE_RX") for cls in (3, 4, 5)] == [2, 1, 0]
    assert fabric.port(0, "PAUSE_RX") == 4


def test_pauses_leave_no_pile_of_events() -> None:
    fabric = Fabric()
    for turn in range(1_000):
        fabric.now += NS
        fabric.pause(0, {3: 60_000 if turn % 2 else 1, 4: 0 if turn % 2 else 60_000})
        assert fabric.world.w[fabric.world.w[model.HEAPS_AT] + model.HEAP_SIZE] <= 3


# --- XOFF, renewal, XON ---


def test_a_pause_is_renewed_at_half_its_time_and_ended_by_xon() -> None:
    fabric = two_nodes(stopping(pause_quanta=100), delay_ns=50)
    sender, receiver = fabric.number(0, 0), fabric.number(1, 0)
    assert fabric.put(1_000, out=fabric.number(1, 1), cls=3, origin=receiver) == 0
    assert fabric.port(receiver, "SENT_XOFF") == 1 << 3
    # Renewed every 3,200 ns; frames take 84 + 50 ns.
    events = fabric.run_until(10_000 * NS)
    arrivals = [time // NS for time, kind, _ in events if kind == model.EV_PAUSE]
    assert arrivals == [134, 3_334, 6_534, 9_734]
    assert fabric.port(sender, "PAUSED") == 1 << 3
    assert fabric.serve(fabric.number(1, 1)) == (3, 1_000)
    assert fabric.port(receiver, "SENT_XOFF") == 0
    fabric.run_until(11_000 * NS)
    assert fabric.port(sender, "PAUSED") == 0
    assert fabric.port(sender, "PAUSED_PS") == 10_000 * NS
    fabric.run_until(10**9)
    assert fabric.port(receiver, "PAUSE_TX") == 5
    assert logged(fabric) == [
        (0, model.LOG_PAUSE, receiver, 3, 1),
        (10_000 * NS, model.LOG_PAUSE, receiver, 3, 0),
    ]
    assert fabric.rows_used == 0


def test_a_lost_pause_frame_is_made_up_for_by_the_next() -> None:
    fabric = two_nodes(stopping(pause_quanta=100), delay_ns=50)
    sender, receiver = fabric.number(0, 0), fabric.number(1, 0)
    fabric.set_port(receiver, "BLACKHOLE", 1)
    wire_changed(fabric.world, receiver, 0)
    fabric.put(1_000, out=fabric.number(1, 1), cls=3, origin=receiver)
    fabric.run_until(3_000 * NS)
    assert fabric.port(sender, "PAUSED") == 0
    fabric.set_port(receiver, "BLACKHOLE", 0)
    wire_changed(fabric.world, receiver, fabric.now)
    fabric.run_until(3_334 * NS)
    assert fabric.port(sender, "PAUSED") == 1 << 3


def test_a_port_known_to_be_down_forgets_all_pauses() -> None:
    fabric = two_nodes(stopping(), delay_ns=50)
    receiver = fabric.number(1, 0)
    fabric.put(1_000, out=fabric.number(1, 1), cls=3, origin=receiver)
    fabric.pause(receiver, {0: 1_000})
    fabric.set_port(receiver, "LIVE", 0)
    tm.flush(fabric.world, receiver, model.DROP_PORT_DOWN, fabric.now)
    assert fabric.port(receiver, "SENT_XOFF") == fabric.port(receiver, "PAUSED") == 0
    assert fabric.group(receiver, 3, "XOFF") == 0
    fabric.run_until(10**9)
    assert fabric.port(receiver, "PAUSE_TX") == 1  # none is renewed


# --- two nodes: headroom, to the byte ---

FRAME = 1_000
WIRE_NS = 1_024
FRAMES = 60
THRESHOLD = 10  # frames


def stopped_receiver(delay_ns: int, quanta: int, room: int) -> Fabric:
    """A sender at line rate into a receiver that serves nothing, until both are still.

    Just as the receiver takes a frame, its own port has begun to send one.
    """
    fabric = two_nodes(
        stopping(xoff_bytes=THRESHOLD * FRAME, pause_quanta=65_535), delay_ns=delay_ns, room=room
    )
    sender, receiver, out = fabric.number(0, 0), fabric.number(1, 0), fabric.number(1, 1)
    set_response(fabric.world, sender, quanta)
    for _ in range(FRAMES):
        assert fabric.put(FRAME, out=sender, cls=3) == 0
    pfc.kick(fabric.world, sender, 0)
    while fabric.now < 2_000_000 * NS:
        event = fabric.step()
        if event is None:
            break
        _, kind, port = event
        if kind == model.EV_FREE and port == sender:
            send(fabric, sender)
        elif kind == model.EV_WIRE:
            fabric.set_port(receiver, "FREE", fabric.now + WIRE_NS * NS)
            row = fabric.arrive(receiver)
            fabric.world.h[2 * row + model.RH_IN_PORT] = receiver
            fabric.world.h[2 * row + model.RH_OUT_PORT] = out
            why = fabric.admit(row)
            assert why in (0, model.DROP_HEADROOM)
    return fabric


def send(fabric: Fabric, port: int) -> None:
    row = fabric.pick(port)
    if row >= 0:
        tm.release(fabric.world, row, fabric.now)
        end = fabric.now + WIRE_NS * NS
        fabric.set_port(port, "FREE", end)
        launch(fabric.world, port, row, end)
        pfc.kick(fabric.world, port, fabric.now)


def test_headroom_is_used_to_the_byte_and_a_frame_less_loses_a_frame() -> None:
    # XOFF is decided as frame 9 arrives, 5000 ns after frame 10 began to leave. The pause waits 1024 ns,
    # takes 84, 5000 on the way and 640 to work: until then, in 11,748 ns, the sender has begun
    # ceil(11748 / 1024) = 12 frames, number 10 to 21.
    exact = 12 * FRAME
    for room, lost in ((exact, 0), (exact - 1, 1), (exact - FRAME, 1), (exact - 2 * FRAME, 2)):
        fabric = stopped_receiver(5_000, 10, room)
        receiver, out = fabric.number(1, 0), fabric.number(1, 1)
        assert fabric.group(receiver, 3, "DROPS") == lost
        assert fabric.group(receiver, 3, "BYTES") == THRESHOLD * FRAME
        assert fabric.group(receiver, 3, "HEADROOM") == exact - lost * FRAME
        assert fabric.queue(out, 3, "PACKETS") == THRESHOLD + 12 - lost


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 12_000), st.integers(0, 60))
def test_the_formulas_headroom_loses_nothing(delay_ns: int, quanta: int) -> None:
    rate, response_ns = 8 * GBPS, quanta * QUANTUM_NS
    fabric = stopped_receiver(delay_ns, quanta, 10**6)
    receiver = fabric.number(1, 0)
    used = fabric.group(receiver, 3, "MAX_HEADROOM")
    span_ns = WIRE_NS + 84 + 2 * delay_ns + response_ns
    assert used == -(-span_ns // WIRE_NS) * FRAME
    assert used <= least_headroom_bytes(rate, delay_ns * NS, WIRE_NS, response_ns * NS, 0)
    sonic = headroom(rate, delay_ns, FRAME, FRAME, response_quanta=quanta, cell_bytes=1)
    assert used <= sonic.size_bytes


def test_when_the_receiver_serves_again_every_frame_gets_through() -> None:
    fabric = stopped_receiver(5_000, 10, 12 * FRAME)
    sender, receiver, out = (fabric.number(*at) for at in ((0, 0), (1, 0), (1, 1)))
    served = 0
    while True:
        while fabric.serve(out) is not None:
            served += 1
        event = fabric.step()
        if event is None:
            break
        if event[1] == model.EV_FREE and event[2] == sender:
            send(fabric, sender)
        elif event[1] == model.EV_WIRE:
            row = fabric.arrive(receiver)
            fabric.world.h[2 * row + model.RH_IN_PORT] = receiver
            fabric.world.h[2 * row + model.RH_OUT_PORT] = out
            assert fabric.admit(row) == 0
    assert served == FRAMES
    assert fabric.rows_used == 0
    assert fabric.group(receiver, 3, "BYTES") == fabric.node("HEADROOM_USED", 1) == 0
    assert fabric.port(sender, "PAUSED") == 0


# --- the watchdog ---


def watched(drops: bool) -> Fabric:
    one = ClassSettings(watchdog_ps=1_000 * NS, restore_ps=2_000 * NS, watchdog_drops=drops)
    return Fabric(TrafficSettings(classes(c3=one)))


def storms(fabric: Fabric) -> list[tuple[int, int]]:
    """(time in ns, 1 begins or 0 ends)."""
    return [(t // NS, b) for t, kind, _, _, b in logged(fabric) if kind == model.LOG_WATCHDOG]


def test_a_storm_drops_what_waits_and_what_comes_until_no_pause_came_for_the_restore_time() -> None:
    fabric = watched(drops=True)
    fabric.pause(0, {3: 10_000})
    fabric.now = 500 * NS
    fabric.put(100, cls=3)  # paused and waiting from here on
    fabric.put(100, cls=2)
    fabric.run_until(1_499 * NS)
    assert (fabric.queue(0, 3, "PACKETS"), storms(fabric)) == (1, [])
    fabric.run_until(1_500 * NS)
    assert (fabric.queue(0, 3, "PACKETS"), storms(fabric)) == (0, [(1_500, 1)])
    assert fabric.drops(0, model.DROP_STORM) == 1
    assert fabric.put(100, cls=3) == model.DROP_STORM
    assert fabric.serve() == (2, 100)
    fabric.run_until(3_000 * NS)
    fabric.pause(0, {3: 10_000})
    fabric.run_until(4_000 * NS)
    fabric.pause(0, {3: 0})
    fabric.run_until(4_999 * NS)  # the last pause came at 3,000
    assert fabric.put(100, cls=3) == model.DROP_STORM
    fabric.run_until(5_000 * NS)
    assert storms(fabric) == [(1_500, 1), (5_000, 0)]
    assert fabric.put(100, cls=3) == 0
    assert fabric.queue(0, 3, "STORMS") == 1


def test_a_storm_may_forward_instead() -> None:
    fabric = watched(drops=False)
    fabric.put(100, cls=3)
    fabric.pause(0, {3: 10_000})
    assert fabric.serve() is None
    fabric.run_until(1_000 * NS)
    assert fabric.serve() == (3, 100)
    assert fabric.put(101, cls=3) == 0
    assert fabric.serve() == (3, 101)
    # The pause runs out at 640,000 ns; nothing came for longer than the restore time then.
    fabric.run_until(639_999 * NS)
    assert storms(fabric) == [(1_000, 1)]
    fabric.run_until(640_000 * NS)
    assert storms(fabric) == [(1_000, 1), (640_000, 0)]
    fabric.pause(0, {3: 10})
    fabric.put(102, cls=3)
    assert fabric.serve() is None


@pytest.mark.parametrize("breaks", ["xon", "expiry", "flush"])
def test_a_break_in_the_pause_or_nothing_waiting_is_no_storm(breaks: str) -> None:
    fabric = watched(drops=True)
    fabric.put(100, cls=3)
    fabric.pause(0, {3: 14 if breaks == "expiry" else 10_000})  # 14 quanta are 896 ns
    fabric.run_until(900 * NS)
    if breaks == "xon":
        fabric.pause(0, {3: 0})
    elif breaks == "flush":
        tm.flush(fabric.world, 0, model.DROP_RELOADED, fabric.now)
    fabric.pause(0, {3: 10_000})
    if breaks == "flush":
        fabric.put(100, cls=3)
    fabric.run_until(1_899 * NS)
    assert storms(fabric) == []
    fabric.run_until(1_900 * NS)
    assert storms(fabric) == [(1_900, 1)]


def test_unwatched_classes_wait_for_ever() -> None:
    fabric = watched(drops=True)
    fabric.put(100, cls=2)
    for turn in range(10):
        fabric.pause(0, {2: 1_000})
        fabric.run_until((turn + 1) * 10_000 * NS)
    assert (storms(fabric), fabric.queue(0, 2, "PACKETS")) == ([], 1)


def test_ports_without_peers_speak_through_bytes_as_live_switches_do() -> None:
    one, other = (Fabric(TrafficSettings(classes(c3=stopping(pause_quanta=10)))) for _ in range(2))
    one.now = other.now = 10**18  # picoseconds of a wall clock
    one.put(1_000, out=1, cls=3, origin=0)
    one.run_until(one.now + 320 * NS)  # renewed once
    frames = take_pause_frames(one.world, 0)
    assert [frame[16:26].hex() for frame in frames] == ["0008000000000000000a"] * 2
    assert one.rows_used == 1
    for frame in frames:
        assert pause_frame_received(other.world, 2, frame, other.now)
    assert (other.port(2, "PAUSED"), other.port(2, "PAUSE_RX")) == (1 << 3, 2)
    other.run_until(other.now + 640 * NS)
    assert other.port(2, "PAUSED") == 0
    assert not pause_frame_received(other.world, 2, b"", other.now)
    assert not pause_frame_received(other.world, 2, bytes(1_500), other.now)
    assert other.rows_used == 0
