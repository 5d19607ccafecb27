"""Hosts in real time that obey pauses and marks: DCQCN by hand, frames on a wire between two hosts."""

from __future__ import annotations

import random
from ipaddress import IPv4Address, IPv6Address

import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from sglb.fabric import roce
from sglb.fabric.dcqcn_config import resolve
from sglb.fabric.host import Host, connect
from sglb.fabric.live.lossless import slower_dcqcn
from sglb.fabric.lossless_host import LosslessConfig, LosslessHost
from sglb.fabric.qp import TransportConfig
from sglb.fabric.rate_control import RateControl
from sglb.fabric.schema_lossless import DcqcnBlock
from sglb.fabric.topology import HostAddress
from sglb.switch.clock import PS_PER_US, VirtualClock

LINE = 100 * 10**9
#: The paper's: alpha 1 at first, so a first CNP halves the rate; g 1/256.
PAPER = resolve(DcqcnBlock(enabled=True))


def control(config=PAPER) -> tuple[RateControl, VirtualClock]:
    clock = VirtualClock()
    return RateControl(config, clock, lambda: LINE, lambda: None), clock


def test_a_cnp_halves_and_five_timers_bring_it_back_near() -> None:
    rate, clock = control()
    rate.notified()
    assert rate.rate_bps == LINE // 2
    # Fast recovery: half of what is missing at each of five stages.
    for stage in range(1, 6):
        clock.run(stage * PAPER.timer_ps)
        assert rate.rate_bps == pytest.approx(LINE - LINE / 2 ** (stage + 1), abs=1)


def test_a_second_cnp_takes_less_once_alpha_has_decayed() -> None:
    rate, clock = control()
    rate.notified()
    clock.run(256 * PAPER.alpha_timer_ps + 1)
    before = rate.rate_bps
    rate.notified()
    # alpha = (1 - 1/256)^256; the cut is half of that.
    alpha = (1 - 1 / 256) ** 256
    assert rate.rate_bps == pytest.approx(before * (1 - alpha / 2), rel=1e-6)


def test_cnps_count_once_an_interval() -> None:
    config = resolve(DcqcnBlock(enabled=True, decrease_interval_us=50))
    rate, _ = control(config)
    rate.notified()
    rate.notified()
    assert rate.rate_bps == LINE // 2
    assert rate.cnps == 2


def test_the_byte_counter_raises_too_and_frames_are_spaced() -> None:
    config = resolve(DcqcnBlock(enabled=True, byte_counter_bytes=3_000))
    rate, clock = control(config)
    assert rate.next_ps == 0
    rate.notified()
    rate.sent(1_000)
    # 1024 bytes with preamble, gap and FCS at 50 Gbit/s.
    assert rate.next_ps == clock.now_ps + 1_024 * 8 * 20
    rate.sent(1_000)
    rate.sent(1_000)
    assert rate.rate_bps == LINE * 3 // 4


def test_slower_rates_and_longer_times() -> None:
    slow = resolve(slower_dcqcn(DcqcnBlock(enabled=True), 1_000))
    assert slow.timer_ps == 1_000 * PAPER.timer_ps
    assert slow.alpha_timer_ps == 1_000 * PAPER.alpha_timer_ps
    assert slow.cnp_interval_ps == 1_000 * PAPER.cnp_interval_ps
    assert slow.rate_ai_bps == PAPER.rate_ai_bps // 1_000
    assert (slow.g, slow.byte_counter_bytes) == (PAPER.g, PAPER.byte_counter_bytes)


class Pair:
    """Two hosts on one wire: h0 sends to h1."""

    def __init__(self, ip_version: int = 4, dcqcn=PAPER) -> None:
        self.clock = VirtualClock()
        self.frames: list[list[bytes]] = [[], []]
        self.mark = False
        self.times: list[int] = []
        config = TransportConfig(mtu_bytes=1_024, window_packets=64, ip_version=ip_version)
        lossless = LosslessConfig(3, 6, dcqcn)
        self.hosts = [
            LosslessHost(
                f"h{n}",
                HostAddress(
                    bytes((2, 0, 0, 0, 0, n)),
                    IPv4Address(f"10.0.0.{n + 1}"),
                    IPv6Address(f"fd00::{n + 1}"),
                ),
                bytes((2, 0, 0, 0, 0, 1 - n)),
                LINE,
                config,
                lossless,
                self.clock,
                lambda frame, n=n: self.carry(n, frame),
                random.Random(n),
            )
            for n in (0, 1)
        ]
        self.done: list[int] = []
        self.queue = connect(self.hosts[0], self.hosts[1], self.done.append)

    def carry(self, sender: int, frame: bytes) -> None:
        self.frames[sender].append(frame)
        if sender == 0:
            self.times.append(self.clock.now_ps)
            if self.mark and len(frame) > 600:
                packet = Ether(frame)
                packet[IP].tos |= 3
                del packet[IP].chksum
                frame = bytes(packet)
        self.clock.call_later(PS_PER_US, self.hosts[1 - sender].receive, frame)


@pytest.mark.parametrize("ip_version", [4, 6])
def test_data_and_acknowledges_are_of_the_class(ip_version: int) -> None:
    pair = Pair(ip_version)
    pair.queue.post(10_000)
    pair.clock.run(100 * PS_PER_US)
    assert pair.done == [0]
    for frame in (*pair.frames[0], *pair.frames[1]):
        tos = frame[15] if ip_version == 4 else (frame[14] & 15) << 4 | frame[15] >> 4
        assert tos == 3 << 5 | 2
        roce.parse(frame)


def test_marks_come_back_as_cnps_and_slow_the_sender() -> None:
    pair = Pair()
    pair.mark = True
    pair.queue.post(200_000)
    pair.clock.run(45 * PS_PER_US)
    cnps = [f for f in pair.frames[1] if roce.parse(f).opcode == roce.CNP]
    assert len(cnps) == 1  # one an interval of 50 us
    assert cnps[0][15] >> 5 == 6
    assert cnps[0][14 + 20 + 8 + 4] == 0x40  # BECN
    assert roce.parse(cnps[0]).payload == bytes(16)
    gaps = [b - a for a, b in zip(pair.times, pair.times[1:], strict=False)]
    assert max(gaps[-5:]) == pytest.approx(2 * min(gaps), rel=0.05)
    pair.mark = False
    pair.clock.run(2_000 * PS_PER_US)
    assert pair.done == [0]


def pause(quanta: int, cls: int = 3) -> bytes:
    times = [0] * 8
    times[cls] = quanta
    return (
        bytes.fromhex("0180c2000001 020000000001 8808 0101")
        + (1 << cls).to_bytes(2, "big")
        + b"".join(t.to_bytes(2, "big") for t in times)
        + bytes(26)
    )


def test_pauses_hold_data_back_for_as_long_as_they_say() -> None:
    pair = Pair()
    sender = pair.hosts[0]
    sender.receive(pause(1_000, cls=2))  # of another class
    sender.receive(pause(1_000))  # 1000 x 512 bits at 100 Gbit/s: 5.12 us
    pair.queue.post(5_000)
    pair.clock.run(5 * PS_PER_US)
    assert pair.frames[0] == []
    pair.clock.run(6 * PS_PER_US)
    assert pair.frames[0]
    sender.receive(pause(0xFFFF))
    count = len(pair.frames[0]) + 1  # the one that is under way
    pair.clock.run(20 * PS_PER_US)
    assert len(pair.frames[0]) <= count
    sender.receive(pause(0))
    pair.clock.run(60 * PS_PER_US)
    assert pair.done == [0]
    assert sender.pauses == 2


@pytest.mark.parametrize("cut", [0, 12, 17, 18, 25])
def test_damaged_pauses_do_nothing(cut: int) -> None:
    pair = Pair()
    pair.hosts[0].receive(pause(0xFFFF)[:cut])
    pair.queue.post(1_000)
    pair.clock.run(20 * PS_PER_US)
    assert pair.done == [0]


def test_a_plain_host_takes_no_cnp() -> None:
    pair = Pair()
    found = Host(
        "plain",
        pair.hosts[0].address,
        b"\2\0\0\0\0\1",
        LINE,
        TransportConfig(),
        pair.clock,
        lambda frame: None,
        random.Random(1),
    )
    framer = roce.Framer(pair.hosts[1]._path_to(pair.hosts[0]), 5)
    found.receive(pair.hosts[0].address.mac + framer.cnp()[6:])
    assert found.stats.dropped == {"unexpected opcode": 1}
