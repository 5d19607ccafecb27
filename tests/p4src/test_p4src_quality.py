"""Load, queue and bands of a fabric port."""

import pytest
from p4src_kit import (
    FABRIC_PORTS,
    HOST,
    SPRAYING,
    Bench,
    group,
    ip4,
    mode,
    quality,
    slots,
    timer_group,
    vector,
)

EPOCH_US = 16
FRAME_BYTES = 74  # of ip4(): 14 + 20 + 8 + 32
FRAME_US = 74  # at 8 Mbit/s
RATE_BPS = 8_000_000
FAR = (1 << 30,) * 7
NO_LOAD = 31  # a shift that leaves nothing of the load
STEPS = (8, 16, 24, 32, 40, 48, 56)


def bench_with(*qualities, **settings):
    """Everything for destination 20 leaves by port 1."""
    bench = Bench(**settings)
    bench.client.delete(slots(FABRIC_PORTS))
    bench.insert(slots((1,)), mode(SPRAYING), timer_group(), list(qualities))
    return bench


def bands(bench):
    value = bench.register("local_bad")[0]
    return [value >> 8 * i & 0xFF for i in range(4)]


# --- past load ------------------------------------------------------------------------------------


def test_load_is_a_sum_of_bytes():
    bench = bench_with(quality(1, FAR))
    bench.put(ip4())
    bench.put(ip4())
    assert list(bench.register("load_bytes"))[:3] == [0, 2 * FRAME_BYTES, 0]


@pytest.mark.parametrize(
    ("epochs", "left"),
    [
        (0, 1_000_000),
        (1, 750_000),
        (2, 562_500),
        (3, 421_875),  # 750,000 / 2 + 750,000 / 16
        (4, 312_500),
        (8, 101_562),  # 62,500 + 31,250 + 7,812
        (15, 13_387),  # 750,000; 421,875; 105,468 + 26,367; 8,239 + 4,119 + 1,029
        (16, 0),
        (5000, 0),
    ],
)
@pytest.mark.parametrize("start_us", [0, 3 * EPOCH_US + 5])
def test_load_loses_a_quarter_every_16_us(epochs, left, start_us):
    bench = bench_with(quality(1, FAR))
    bench.at(start_us)
    bench.tick()
    bench.register("load_bytes")[1] = 1_000_000
    bench.at(start_us + epochs * EPOCH_US)
    bench.tick()
    assert bench.register("load_bytes")[1] == left
    if epochs < 16:
        assert left == pytest.approx(1_000_000 * 0.75**epochs, rel=0.02)


def test_a_constant_rate_settles_at_four_epochs_of_it():
    bench = bench_with(quality(1, FAR))
    for epoch in range(60):
        bench.at(epoch * EPOCH_US)
        bench.put(ip4())
    # Two shifts lose less than 2 bytes an epoch, 8 in all.
    assert 4 * FRAME_BYTES - 8 <= bench.register("load_bytes")[1] <= 4 * FRAME_BYTES


def test_timers_age_the_load_of_an_idle_port_to_nothing():
    bench = bench_with(quality(1, (100, 200, 300, 400, 500, 600, 700)))
    for _ in range(9):
        bench.put(ip4())
    assert bands(bench)[0] == 6  # 9 * 74 = 666
    seen = []
    for epoch in range(1, 25):
        bench.at(epoch * EPOCH_US)
        bench.tick()
        seen.append(bands(bench)[0])
    # 499 374 280 210 157 117 87 …
    assert seen[:8] == [4, 3, 2, 2, 1, 1, 0, 0]
    assert bench.register("load_bytes")[1] == 0


# --- bands ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "bad"),
    [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (39, 3), (40, 4), (59, 5), (69, 6), (70, 7)],
)
def test_seven_thresholds_make_eight_bands(score, bad):
    bench = bench_with(*(quality(p, (10, 20, 30, 40, 50, 60, 70)) for p in FABRIC_PORTS))
    bench.register("local_bad")[0] = vector(5, 5, 5, 5)
    bench.register("load_bytes")[3] = score
    bench.tick()
    assert bands(bench) == [0, 0, bad, 0]


def test_the_load_shift_weighs_the_load():
    bench = bench_with(quality(1, (10, 20, 30, 40, 50, 60, 70), load_shift=4))
    bench.register("load_bytes")[1] = 16 * 25 + 15
    bench.tick()
    assert bands(bench)[0] == 2


def test_a_half_rate_port_is_judged_by_its_own_rate():
    full = (25_000, 75_000, 100_000, 137_500, 187_500, 262_500, 375_000)  # 2 … 30 us at 100 Gbit/s
    half = tuple(edge // 2 for edge in full)
    bench = bench_with(quality(1, full), quality(2, half))
    for load in (0, 60_000, 90_000, 130_000, 400_000):
        bench.register("load_bytes")[1] = load
        bench.register("load_bytes")[2] = load // 2
        bench.tick()
        assert bands(bench)[0] == bands(bench)[1], load
    for port in (1, 2):
        bench.register("load_bytes")[port] = 60_000
    bench.tick()
    assert bands(bench)[:2] == [1, 3]


def test_ports_to_hosts_and_unknown_ports_are_not_measured():
    bench = bench_with(quality(2, (1,) * 7))
    bench.put(ip4())
    bench.put(ip4("10.0.9.11"))
    assert bench.register("local_bad")[0] == 0
    assert not any(bench.register("load_bytes"))


# --- queues ---------------------------------------------------------------------------------------


def queueing(*qualities):
    bench = bench_with(*qualities)
    for port in (1, HOST):
        bench.switch.set_port_rate(port, RATE_BPS)
    return bench


def after(bench, frames):
    """Microseconds when so many frames have left."""
    bench.at(frames * FRAME_US + 1)
    return bands(bench)[0]


def test_the_queue_behind_a_packet_is_its_score():
    bench = queueing(quality(1, STEPS, load_shift=NO_LOAD, queue_shift=3))
    for _ in range(7):
        bench.put(ip4())
    # The first found no queue; the next leave 5, 4, … packets behind, 8 points each.
    assert [after(bench, n) for n in range(7)] == [0, 5, 4, 3, 2, 1, 0]


def test_a_timer_packet_does_not_take_a_full_port_for_an_empty_one():
    bench = queueing(quality(1, STEPS, load_shift=NO_LOAD, queue_shift=3))
    for _ in range(7):
        bench.put(ip4())
    assert after(bench, 1) == 5
    bench.tick(2)  # a heartbeat: overtakes the frames that wait, and its own queue is empty
    bench.at(2 * FRAME_US + 1)
    assert len(bench.switch.ports[1].queues[0].packets) == 5  # it is on the wire, they wait
    assert bands(bench)[0] == 5


def test_the_queues_of_all_classes_count():
    bench = queueing(quality(1, STEPS, load_shift=NO_LOAD, queue_shift=3))
    low, high = ip4(), ip4(tos=0b110000 << 2)
    for frame in (low, low, low, high, high, high):
        bench.put(frame)
    # low; then high (2, 1, 0 behind it), while low's queue was last seen empty; then low (1, 0).
    assert [after(bench, n) for n in range(6)] == [0, 2, 1, 0, 1, 0]
    bench = queueing(quality(1, STEPS, load_shift=NO_LOAD, queue_shift=3))
    for frame in (low, low, low, low):
        bench.put(frame)
    assert after(bench, 1) == 2
    bench.put(high)
    bench.put(high)
    # Behind the first high packet is one of its own class; two low ones were seen before.
    assert [after(bench, n) for n in (2, 3)] == [3, 2]


@pytest.mark.parametrize(("marked", "epochs"), [(True, 0), (False, 16)])
def test_a_queue_that_was_lost_with_its_link_is_forgotten(marked, epochs):
    """By the next timer packet while the link is marked down, else when the load is gone too."""
    bench = queueing(quality(1, STEPS, load_shift=NO_LOAD, queue_shift=3))
    for _ in range(7):
        bench.put(ip4())
    assert after(bench, 1) == 5
    for up in (False, True):
        bench.switch.set_port_state(1, up)  # the queue is flushed
        bench.run(100)
    if not marked:
        bench.set(2, 0, 1)
        bench.tick()
        bench.run(200)
        assert bands(bench)[0] == 5
    bench.at(200 + epochs * EPOCH_US)
    bench.tick()
    bench.run(300 + epochs * EPOCH_US)
    assert bands(bench)[0] == 0


def test_control_frames_are_no_queue_that_stays():
    bench = queueing(quality(1, STEPS, load_shift=NO_LOAD, queue_shift=3))
    for _ in range(2):
        bench.client.packet_out(bytes(60), egress_port=1, to_pipeline=0, pad=0)
    bench.tick(2)  # a heartbeat waits behind the agent's frames, and is no packet that would tell
    bench.run(1000)
    assert bands(bench)[0] == 0


def test_lanes_of_other_ports_stay():
    bench = bench_with(quality(1, (10, 20, 30, 40, 50, 60, 70)))
    bench.register("local_bad")[0] = vector(0, 1, 2, 3)
    bench.put(ip4())
    assert bands(bench) == [7, 1, 2, 3]


def test_group_of_another_bank_is_another_vector():
    bench = bench_with(quality(1, (1,) * 7))
    bench.modify(group((1,)))
    bench.put(ip4())
    assert bench.register("local_bad")[0] == 7
    assert not any(list(bench.register("local_bad"))[1:])
