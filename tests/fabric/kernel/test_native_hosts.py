"""Native hosts alone: go-back-N, acknowledge timer, pauses, links, gates, and frames of any kind."""

from __future__ import annotations

import random

import pytest
from host_kit import NativePipe
from hypothesis import given, settings
from hypothesis import strategies as st

from sglb.fabric import roce
from sglb.fabric.kernel import layout as k
from sglb.fabric.kernel.host_settings import HostSettings
from sglb.fabric.kernel.hosts import host_link_changed, host_receive
from sglb.fabric.metrics import transport_stats
from sglb.fabric.workload import Flow, WorkloadError
from sglb.switch.core import model as m
from sglb.switch.core.pfc import pause_received, write_pause
from sglb.switch.core.rows import row_free
from sglb.switch.core.wires import set_carrier

FULL_PS = 334_240  # (4096 + 58 + 24) bytes at 100 Gbit/s
ACK_PS = 6_880  # (62 + 24) bytes
DELAY_PS = 2_000_000
A, B = 3, 4  # host ids of `leaf_spine(1, 1, 2)`
GO_BACK_N = HostSettings(go_back_n=True, window_packets=None)


def _all(frame: bytes) -> list[int]:
    return [0]


def _data(pipe: NativePipe, host: int = 0) -> list[tuple[int, int]]:
    """(time that it began, packet number) of a host's data frames."""
    found = [(t, f) for t, h, f in pipe.frames if h == host and f[42] in roce.DATA_OPCODES]
    first = int.from_bytes(found[0][1][51:54], "big")
    return [
        (t - roce.serialisation_ps(len(f), 10**11), int.from_bytes(f[51:54], "big") - first)
        for t, f in found
    ]


def _acks(pipe: NativePipe, host: int = 1) -> list[tuple[int, int, int]]:
    """(time that it began, syndrome, packet that its PSN names) of a host's acknowledges."""
    first = next(int.from_bytes(f[51:54], "big") for _, h, f in pipe.frames if h != host)
    return [
        (t - ACK_PS, f[54], int.from_bytes(f[51:54], "big") - first)
        for t, h, f in pipe.frames
        if h == host and f[42] == roce.ACKNOWLEDGE
    ]


def _losing(*lost: int):  # type: ignore[no-untyped-def]
    sent = iter(range(10**6))

    def fate(frame: bytes) -> list[int]:
        return [] if frame[42] in roce.DATA_OPCODES and next(sent) in lost else [0]

    return fate


# --- go-back-N ---


def test_go_back_n_sends_all_again_from_the_hole_that_a_nak_names() -> None:
    pipe = NativePipe(_losing(2), [Flow(0, A, B, 30 * 4096)], GO_BACK_N).run()
    # Packet 3 is whole at 4 x FULL + DELAY; the NAK for 2 is back an ACK and a DELAY later.
    nak_ps = 4 * FULL_PS + DELAY_PS
    assert (nak_ps, 0x60, 2) in _acks(pipe)
    back_ps = nak_ps + ACK_PS + DELAY_PS
    # What is on the wire then goes on; packets 0..n had left, and 2 follows.
    before = -(-back_ps // FULL_PS)
    order = [n for _, n in _data(pipe)]
    assert order == [*range(before), *range(2, 30)]
    assert [t for t, _ in _data(pipe)] == [n * FULL_PS for n in range(before + 28)]
    stats = transport_stats(pipe.hosts)  # type: ignore[arg-type]
    # Packets from 2 on that had been sent once are sent again; all after 2 were dropped.
    assert stats.resent == before - 2
    assert (stats.timeouts, stats.bad_frames) == (0, 0)
    (queue,) = pipe.hosts[1].receive_queues.values()
    assert (queue.naks, queue.stats.out_of_range, queue.stats.received) == (1, before - 3, 30)
    assert pipe.completed() == {0: (before + 28) * FULL_PS + DELAY_PS}


def test_go_back_n_without_naks_waits_for_the_timeout() -> None:
    quiet = HostSettings(go_back_n=True, window_packets=None, nack=False, ack_every=64)
    pipe = NativePipe(_losing(1), [Flow(0, A, B, 3 * 4096)], quiet).run()
    # Nothing is acknowledged: the timeout runs from packet 0, then the probe (0) frees the rest.
    rto = quiet.rto_ps
    probed = rto + FULL_PS + DELAY_PS + ACK_PS + DELAY_PS
    assert _data(pipe) == [
        (0, 0),
        (FULL_PS, 1),
        (2 * FULL_PS, 2),
        (rto, 0),
        (probed, 1),
        (probed + FULL_PS, 2),
    ]
    assert pipe.completed() == {0: probed + 2 * FULL_PS + DELAY_PS}


def test_go_back_n_has_no_window_but_the_one_it_is_given() -> None:
    pipe = NativePipe(_all, [Flow(0, A, B, 3_000 * 4096)], GO_BACK_N).run()
    assert [t for t, _ in _data(pipe)] == [n * FULL_PS for n in range(3_000)]
    windowed = HostSettings(go_back_n=True, window_packets=2)
    pipe = NativePipe(_all, [Flow(0, A, B, 4 * 4096)], windowed).run()
    # The second packet fills the window and asks; its ACK frees two more.
    freed = 2 * FULL_PS + DELAY_PS + ACK_PS + DELAY_PS
    assert [t for t, _ in _data(pipe)] == [0, FULL_PS, freed, freed + FULL_PS]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.01, 0.2]), st.booleans(), st.booleans())
def test_whatever_is_lost_every_flow_is_complete(
    seed: int, loss: float, go_back_n: bool, nack: bool
) -> None:
    rng = random.Random(seed)
    config = HostSettings(
        go_back_n=go_back_n,
        nack=nack,
        window_packets=rng.choice([None, 1, 16]),
        ack_timer_ps=rng.choice([0, 3_000_000]),
        ip_version=rng.choice([4, 6]),
        mtu_bytes=1_024,
    )
    flows = [Flow(n, *rng.sample([A, B], 2), rng.randrange(1, 60_000), n * 7) for n in range(8)]
    late = [0, 0, 0, 40_000_000]
    pipe = NativePipe(
        lambda f: [] if rng.random() < loss else [rng.choice(late)], flows, config, qps=2
    )
    pipe.run(10**14)
    assert len(pipe.completed()) == 8
    assert pipe.world.w[m.ROWS_USED] == 0
    assert pipe.world.w[m.HALT] & m.HALT_DONE


# --- acknowledges by the timer ---


def test_the_acknowledge_timer_covers_what_nobody_asked_about() -> None:
    timed = HostSettings(ack_every=64, window_packets=64, ack_timer_ps=1_000_000)
    pipe = NativePipe(_all, [Flow(0, A, B, 8 * 4096)], timed).run()
    # Armed by packet 0; at the timer 2.99 frames more have come. Then armed by packet 3, and by 6;
    # packet 7, the last, asks itself before that is due.
    first = FULL_PS + DELAY_PS
    assert _acks(pipe) == [
        (first + 1_000_000, 0x1F, 2),
        (first + 3 * FULL_PS + 1_000_000, 0x1F, 5),
        (8 * FULL_PS + DELAY_PS, 0x1F, 7),
    ]


# --- pauses and links ---


def _pause(pipe: NativePipe, host: int, cls: int, quanta: int) -> None:
    row = pipe.row_of(bytes(60))
    write_pause(pipe.world, row, host, cls, quanta)
    pause_received(pipe.world, host, row, pipe.now_ps)
    row_free(pipe.world, row)


def test_a_paused_class_waits_with_data_and_acknowledges() -> None:
    config = HostSettings(traffic_class=3)
    flows = [Flow(0, A, B, 10 * 4096), Flow(1, B, A, 4096)]
    pipe = NativePipe(_all, flows, config)
    pipe.run(FULL_PS)
    _pause(pipe, 0, 3, 2_000)  # 2,000 x 512 bits at 100 Gbit/s: 10.24 us
    pipe.run()
    begun = [t for t, _ in _data(pipe)]
    # The second frame has begun at FULL; the ACK for flow 1 and the third wait for the pause's end.
    assert _acks(pipe, 0) == [(FULL_PS + 10_240_000, 0x1F, 0)]
    assert begun[:3] == [0, FULL_PS, FULL_PS + 10_240_000 + ACK_PS]
    assert len(pipe.completed()) == 2
    assert pipe.frames[0][2][15] == 3 * 8 << 2 | roce.ECT0


def test_a_cut_takes_the_frame_being_sent_and_the_rest_waits_for_the_carrier() -> None:
    pipe = NativePipe(_all, [Flow(0, A, B, 4 * 4096)]).run(0)
    set_carrier(pipe.world, 0, False, 1)
    pipe.run(5_000_000)
    assert pipe.frames == []
    set_carrier(pipe.world, 0, True, 5_000_000)
    host_link_changed(pipe.world, 0, 5_000_000)
    pipe.run()
    # The NIC goes on with packet 1; packet 0 is found missing when the ACK for 3 is back.
    assert [(t, n + 1) for t, n in _data(pipe)][:3] == [
        (5_000_000 + n * FULL_PS, n + 1) for n in range(3)
    ]
    assert len(pipe.completed()) == 1
    stats = pipe.hosts[0].stats
    assert (stats.data_sent, stats.cut_data, stats.cut_acks) == (5, 1, 0)


# --- flows that wait ---


def test_flows_wait_for_what_their_host_received_or_had_acknowledged() -> None:
    flows = [
        Flow(0, A, B, 4096),
        Flow(1, B, A, 4096, 0, (0,)),  # B has received it
        Flow(2, A, B, 4096, 0, (0,)),  # A hears so from the ACK
        Flow(3, B, A, 4096, 0, (0,), 0, 77),
        Flow(4, A, B, 4096, 10**9, (3,)),  # its start time comes later
    ]
    pipe = NativePipe(_all, flows, HostSettings(window_packets=8)).run()
    started = {flow: t for t, kind, flow in pipe.log if kind == m.LOG_FLOW_STARTED}
    done = FULL_PS + DELAY_PS
    # The dependent's first frame goes before the ACK: it was there first.
    acked = done + FULL_PS + ACK_PS + DELAY_PS
    assert started == {0: 0, 1: done, 2: acked, 3: done + 77, 4: 10**9}


def test_a_flow_far_away_needs_a_delay_of_a_link() -> None:
    flows = [Flow(0, 3, 4, 10), Flow(1, 5, 6, 10, 0, (0,), 0, DELAY_PS - 1)]
    with pytest.raises(WorkloadError, match="flow 1 starts at host 5 but waits for flow 0 from"):
        NativePipe(_all, flows, count=4)
    flows[1] = Flow(1, 5, 6, 10, 0, (0,), 0, DELAY_PS)
    pipe = NativePipe(_all, flows, count=4).run()
    started = {flow: t for t, kind, flow in pipe.log if kind == m.LOG_FLOW_STARTED}
    assert started[1] == pipe.completed()[0] + DELAY_PS


# --- frames of any kind ---


def _forged(pipe: NativePipe, frame: bytes) -> None:
    host_receive(pipe.world, 1, 0, pipe.row_of(frame), pipe.now_ps)


def _sound(version: int = 4) -> tuple[NativePipe, list[bytes]]:
    config = HostSettings(ip_version=version)
    pipe = NativePipe(_all, [Flow(0, A, B, 4096), Flow(1, B, A, 9_000)], config).run()
    mac = pipe.addresses[1].mac
    return pipe, [mac + f[6:] for _, host, f in pipe.frames if host == 0]


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (5, 9, k.BAD_MAC),
        (13, 6, k.BAD_ETHERTYPE),
        (14, 0x46, k.BAD_ROCE),
        (23, 6, k.BAD_ROCE),
        (22, 63, k.BAD_CHECKSUM),
        (37, 1, k.BAD_ROCE),
        (38, 0xFF, k.BAD_LENGTH),
        (34, 1, k.BAD_PATH),
        (42, 3, k.BAD_OPCODE),
        (48, 9, k.BAD_QP),
        (42, roce.ACKNOWLEDGE, k.BAD_QP),
    ],
)
def test_a_frame_that_is_not_sound_is_dropped_and_counted(at: int, value: int, reason: int) -> None:
    pipe, frames = _sound()
    frame = bytearray(frames[0])
    frame[at] = value
    _forged(pipe, bytes(frame))
    assert pipe.hosts[1].stats.dropped == {k.BAD_REASONS[reason]: 1}


def test_another_hosts_address_is_not_taken() -> None:
    pipe, frames = _sound()
    frame = bytearray(frames[0])
    frame[33] ^= 1
    frame[25] -= 1 if frame[33] & 1 else -1  # the checksum is right for it
    _forged(pipe, bytes(frame))
    assert pipe.hosts[1].stats.dropped == {"for another IP address": 1}


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([4, 6]),
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), max_size=4),
            st.integers(0, 200),
        ),
        max_size=30,
    ),
    st.lists(st.binary(max_size=200), max_size=5),
)
def test_mutated_frames_do_no_harm(
    version: int, changes: list[tuple[int, list[tuple[int, int]], int]], noise: list[bytes]
) -> None:
    pipe, frames = _sound(version)
    before = pipe.hosts[1].stats
    count = 0
    for number, spots, length in changes:
        frame = bytearray(frames[number % len(frames)][:300])
        for at, value in spots:
            frame[at % len(frame)] = value
        _fix_checksum(frame)
        _forged(pipe, bytes(frame[:length]))
        count += 1
    for frame_bytes in noise:
        _forged(pipe, pipe.addresses[1].mac + frame_bytes)
        count += 1
    pipe.run()
    after = pipe.hosts[1].stats
    taken = after.data_received + after.acks_received + pipe.hosts[1].cnps_received
    taken -= before.data_received + before.acks_received
    assert taken + sum(after.dropped.values()) >= count
    assert pipe.world.w[m.ROWS_USED] == 0


def _fix_checksum(frame: bytearray) -> None:
    """So that what lies behind the IPv4 header is looked at."""
    if frame[12] == 8:
        frame[24:26] = b"\0\0"
        frame[24:26] = roce.ipv4_checksum(bytes(frame[14:34])).to_bytes(2, "big")
