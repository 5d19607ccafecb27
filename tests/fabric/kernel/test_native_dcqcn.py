"""DCQCN in the native hosts: each transition by numbers worked out by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from host_kit import NativePipe

from sglb.fabric import roce
from sglb.fabric.dcqcn_config import DcqcnConfig, resolve
from sglb.fabric.kernel import dcqcn
from sglb.fabric.kernel import layout as k
from sglb.fabric.kernel.host_settings import HostSettings
from sglb.fabric.schema_lossless import DcqcnBlock
from sglb.fabric.workload import Flow
from sglb.switch.core import model as m
from sglb.switch.core.wires import set_carrier

GBPS = 1_000_000_000
US = 1_000_000
LINE = 100 * GBPS
FULL_PS = 334_240
BITS = (4096 + 58 + 24) * 8
ONE = 1 << 30  # alpha = 1
PAPER = resolve(DcqcnBlock(enabled=True))


class Sender:
    """A sender of its own, told of CNPs and timers directly."""

    def __init__(self, config: DcqcnConfig) -> None:
        settings = HostSettings(dcqcn=config)
        self.pipe = NativePipe(lambda f: [0], [Flow(0, 3, 4, 10**9, 10**12)], settings)
        self.host = int(self.pipe.world.w[m.HOSTS_AT])
        self.end = self.pipe.sender()

    def __getitem__(self, word: int) -> int:
        return int(self.pipe.world.w[self.end + word])

    def cnp(self, now_ps: int) -> None:
        dcqcn.congestion_notified(self.pipe.world, self.host, self.end, now_ps)

    def sent(self, now_ps: int, frame_bytes: int = 4154) -> None:
        dcqcn.frame_sent(self.pipe.world, self.host, self.end, frame_bytes, now_ps)

    def timer(self, now_ps: int) -> bool:
        return bool(dcqcn.timer_event(self.pipe.world, self.host, self.end, now_ps))


def test_a_cnp_halves_the_rate_when_alpha_is_one() -> None:
    sender = Sender(PAPER)
    sender.sent(0)
    assert (sender[k.D_ACTIVE], sender[k.D_PACED_AT]) == (0, 0)
    sender.cnp(7)
    assert (sender[k.D_RATE], sender[k.D_TARGET]) == (50 * GBPS, LINE)
    assert sender[k.D_ALPHA] == ONE  # (1 - g) x 1 + g
    # The next frame may begin two frame times after the last one began.
    assert sender[k.D_PACED_AT] == 2 * FULL_PS
    sender.cnp(8)
    assert (sender[k.D_RATE], sender[k.D_TARGET]) == (25 * GBPS, 50 * GBPS)


def test_alpha_decays_by_its_timer_and_rises_with_each_cnp() -> None:
    sender = Sender(PAPER)
    sender.cnp(0)
    # Two periods of 55 us have passed: alpha = (255/256)^2.
    sender.cnp(2 * 55 * US + 1)
    alpha = ONE * 255 * 255 // (256 * 256)
    rate = 50 * GBPS * (1 - alpha / ONE / 2)
    assert sender[k.D_RATE] == pytest.approx(rate, rel=2e-5)
    assert sender[k.D_ALPHA] == alpha + (ONE - alpha) // 256
    # A period less 1 ps from there on changes nothing.
    before = sender[k.D_ALPHA]
    sender.cnp(2 * 55 * US + 1 + 55 * US - 1)
    assert sender[k.D_ALPHA] == before + (ONE - before) // 256


def test_alpha_decays_to_nothing_within_a_second() -> None:
    sender = Sender(PAPER)
    sender.cnp(0)
    sender.cnp(10**12)
    # What is left is below 1/g units of 2^-30: the cut is nothing, then g is added.
    assert sender[k.D_RATE] == 50 * GBPS
    assert ONE // 256 <= sender[k.D_ALPHA] < ONE // 256 + 256


def test_the_timer_recovers_fast_then_raises_the_target() -> None:
    sender = Sender(replace(PAPER, byte_counter_bytes=0))
    sender.cnp(0)
    times = [55 * US * n for n in range(1, 8)]
    assert sender[k.D_TIMER_LIVE] == times[0]
    expected = 50 * GBPS
    for stage, now in enumerate(times, 1):
        # With no byte counter both stages are the timer's: after 5 stages it is hyper increase.
        target = LINE if stage <= 5 else min(LINE, LINE + 200_000_000)
        assert sender.timer(now)
        expected = (expected + target + 1) // 2
        assert sender[k.D_RATE] == expected
    # 99.2 Gbit/s after 7 halvings of the gap of 50.
    assert sender[k.D_RATE] == pytest.approx(LINE - 50 * GBPS / 2**7, abs=2)


def test_the_target_rises_by_ai_when_one_is_beyond_the_threshold_and_by_hai_when_both_are() -> None:
    config = replace(PAPER, threshold=1, byte_counter_bytes=10_000)
    sender = Sender(config)
    sender.cnp(0)
    sender.cnp(1)  # target 50, rate 25
    assert sender.timer(55 * US + 1)  # stage 1 of the timer: fast recovery
    assert (sender[k.D_TARGET], sender[k.D_RATE]) == (50 * GBPS, 37_500_000_000)
    assert sender.timer(110 * US + 1)  # stage 2 of the timer alone: + 40 Mbit/s
    assert (sender[k.D_TARGET], sender[k.D_RATE]) == (50_040_000_000, 43_770_000_000)
    for n in range(3):  # 12,462 bytes: one round of the byte counter, its stage 1: AI still
        sender.sent(120 * US + n)
    assert (sender[k.D_BYTE_STAGE], sender[k.D_COUNTED]) == (1, 2_462)
    assert sender[k.D_TARGET] == 50_080_000_000
    for n in range(2):  # 10,770 bytes: stage 2 as well: HAI
        sender.sent(130 * US + n)
    assert sender[k.D_BYTE_STAGE] == 2
    assert sender[k.D_TARGET] == 50_280_000_000


def test_a_rate_back_at_the_links_needs_no_timer() -> None:
    sender = Sender(replace(PAPER, byte_counter_bytes=0, rate_hai_bps=LINE, threshold=1))
    sender.cnp(0)
    now = 0
    while sender[k.D_ACTIVE]:
        now += 55 * US
        sender.timer(now)
    assert (sender[k.D_RATE], sender[k.D_TIMER_LIVE], sender[k.D_PACED_AT]) == (LINE, -1, 0)


def test_a_timer_that_a_cnp_put_off_waits_for_its_new_time() -> None:
    sender = Sender(PAPER)
    sender.cnp(0)
    sender.cnp(30 * US)
    assert not sender.timer(55 * US)
    assert (sender[k.D_TIME_STAGE], sender[k.D_TIMER_LIVE]) == (0, 85 * US)
    assert sender.timer(85 * US)
    assert sender[k.D_TIME_STAGE] == 1


def test_connectx_counts_one_cnp_an_interval_and_updates_alpha_by_its_timer() -> None:
    block = DcqcnBlock(
        enabled=True,
        defaults="connectx",
        dce_tcp_g=512,  # g = 1/2
        dce_tcp_rtt=10,
        initial_alpha_value=512,  # alpha = 1/2
        rate_reduce_monitor_period=4,
        rpg_min_dec_fac=90,
        clamp_tgt_rate=False,
    )
    sender = Sender(resolve(block))
    sender.cnp(0)
    # alpha / 2 would leave 75 %: the floor of 90 % holds. Nothing was increased: the target stays.
    assert (sender[k.D_RATE], sender[k.D_TARGET]) == (90 * GBPS, LINE)
    sender.cnp(4 * US - 1)  # within the interval
    assert sender[k.D_RATE] == 90 * GBPS
    sender.cnp(4 * US)
    assert (sender[k.D_RATE], sender[k.D_TARGET]) == (81 * GBPS, LINE)
    assert sender[k.D_ALPHA] == ONE // 2
    # One period with CNPs (1/2 -> 3/4), one without (-> 3/8): the cut is 3/16.
    relaxed = resolve(block.model_copy(update={"rpg_min_dec_fac": 0}))
    sender = Sender(relaxed)
    sender.cnp(0)
    assert sender[k.D_RATE] == 75 * GBPS
    sender.cnp(20 * US)
    assert sender[k.D_ALPHA] == ONE * 3 // 8
    assert sender[k.D_RATE] == 75 * GBPS * 13 // 16


def test_the_first_cnp_may_set_a_rate_and_no_cut_goes_below_the_least() -> None:
    sender = Sender(replace(PAPER, first_cnp_rate_bps=10 * GBPS, min_rate_bps=8 * GBPS))
    sender.cnp(0)
    assert (sender[k.D_RATE], sender[k.D_TARGET]) == (10 * GBPS, 10 * GBPS)
    sender.cnp(1)
    assert (sender[k.D_RATE], sender[k.D_TARGET]) == (8 * GBPS, 10 * GBPS)


def test_marked_frames_bring_cnps_an_interval_apart_and_slow_the_sender() -> None:
    settings = HostSettings(dcqcn=PAPER, window_packets=1_024)
    marked = iter(range(10**6))

    def mark(frame: bytes) -> bool:
        return frame[42] in roce.DATA_OPCODES and next(marked) in (0, 1, 200, 999)

    pipe = NativePipe(lambda f: [0], [Flow(0, 3, 4, 1_000 * 4096)], settings, mark=mark).run()
    cnps = [(t, f) for t, host, f in pipe.frames if host == 1 and f[42] == 0x81]
    # Packet 0 is marked, packet 1 too, within 50 us of it; 74 + 24 bytes take 7.84 ns.
    assert cnps[0][0] == FULL_PS + 2_000_000 + 7_840
    assert len(cnps) == 3
    frame = cnps[0][1]
    assert len(frame) == 74
    assert frame[15] == 6 * 8 << 2  # class 6, not ECN capable
    assert frame[46] == 0x40  # BECN
    assert roce.ipv4_checksum(frame[14:24] + b"\0\0" + frame[26:34]) == int.from_bytes(
        frame[24:26], "big"
    )
    begun = [
        t - roce.serialisation_ps(len(f), LINE)
        for t, host, f in pipe.frames
        if host == 0 and f[42] in roce.DATA_OPCODES
    ]
    gaps = [b - a for a, b in itertools.pairwise(begun)]
    told_ps = cnps[0][0] + 2_000_000
    first = next(i for i, t in enumerate(begun) if t > told_ps)
    # Line rate, half of it for 55 us (82 frames), then three quarters.
    assert set(gaps[: first - 1]) == {FULL_PS}
    assert gaps[first : first + 78] == [2 * FULL_PS] * 78
    assert -(-BITS * 1_000 // 75) in gaps
    assert pipe.hosts[0].cnps_received == 3
    (view,) = pipe.hosts[0].send_queues.values()
    assert view.cnps == 3
    assert len(pipe.completed()) == 1


def test_a_lost_cnp_counts_as_a_control_frame() -> None:
    pipe = NativePipe(
        lambda f: [0], [Flow(0, 3, 4, 4096)], HostSettings(dcqcn=PAPER), mark=lambda f: f[42] == 4
    )
    # The CNP has left (74 + 24 bytes, 7.84 ns), the ACK behind it is being sent: a cut takes both.
    cut_ps = FULL_PS + 2_000_000 + 7_841
    pipe.run(cut_ps)
    set_carrier(pipe.world, 1, False, cut_ps)
    pipe.run(10_000_000)
    assert pipe.lost() == [m.TRAFFIC_CONTROL]
    host = pipe.hosts[1]
    assert (host.cnps_sent, host.stats.acks_sent, host.stats.cut_acks) == (1, 1, 1)
