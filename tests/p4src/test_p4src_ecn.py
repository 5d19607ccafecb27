"""ECN marks from the watermark table, depth in packets."""

from math import sqrt

import pytest
from p4src_kit import HOST, HOST_MAC, ROUTER_MAC, Bench, ip4, ip6, routed, watermark
from scapy.layers.inet import IP, UDP, IPOption_Timestamp
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from sglb.p4.random_stream import RandomStream

NOT_ECT, ECT1, ECT0, CE = range(4)
FRAME_US = 74  # of ip4() at 8 Mbit/s
KMIN, KMAX = 2, 5
#: Pmax * 2**32 / (KMAX - KMIN)
HALF, ALWAYS = 715_827_882, 1_431_655_765


def bench_with(*entries, seed=1):
    """A slow port to a host."""
    bench = Bench(rng=RandomStream(seed))
    bench.switch.set_port_rate(HOST, 8_000_000)
    bench.insert(list(entries))
    return bench


def v4(ecn, **fields):
    return ip4("10.0.9.11", tos=ecn, **fields)


def v6(ecn, **fields):
    return ip6("fd00:9::11", tc=ecn, **fields)


def ecn_of(frame):
    packet = Ether(frame)
    return packet[IP].tos & 3 if IP in packet else packet[IPv6].tc & 3


def queued(bench, frames):
    """All come at once; the ECN fields as they leave. The first finds nobody before it."""
    first = len(bench.sent)
    for frame in frames:
        bench.switch.receive(1, bytes(frame))
    bench.run()
    return [ecn_of(s.data) for s in bench.sent[first:]]


@pytest.mark.parametrize("make", [v4, v6])
@pytest.mark.parametrize("ect", [ECT0, ECT1])
def test_from_kmax_on_every_packet_is_marked(make, ect):
    bench = bench_with(watermark(HOST, 0, 4, KMAX, 0))
    # 0 wait behind the first as it leaves; then 7, 6, 5, 4, 3, 2, 1, 0.
    assert queued(bench, [make(ect)] * 9) == [ect, CE, CE, CE, ect, ect, ect, ect, ect]
    assert bench.count("marked", HOST) == 3


@pytest.mark.parametrize("make", [v4, v6])
def test_up_to_kmin_no_packet_is_marked(make):
    bench = bench_with(watermark(HOST, 0, KMIN, KMIN + 1, 0xFFFFFFFF))
    assert queued(bench, [make(ECT0)] * 4) == [ECT0] * 4
    assert bench.count("marked", HOST) == 0


@pytest.mark.parametrize("make", [v4, v6])
def test_what_is_not_capable_is_never_marked(make):
    bench = bench_with(watermark(HOST, 0, 0, 1, 0))
    frames = [make(NOT_ECT), make(NOT_ECT), make(ECT0), make(CE), make(NOT_ECT), make(ECT1)]
    assert queued(bench, frames) == [NOT_ECT, NOT_ECT, CE, CE, NOT_ECT, ECT1]


def test_a_marked_header_has_a_right_checksum_and_nothing_else_changes():
    bench = bench_with(watermark(HOST, 0, 0, 1, 0))
    queued(bench, [v4(ECT0)] * 3)
    marked = bench.sent[1].data
    assert marked == routed(v4(CE), ROUTER_MAC, HOST_MAC)


def test_a_header_with_options_is_not_marked():
    packet = (
        Ether(src=HOST_MAC, dst=ROUTER_MAC)
        / IP(src="10.0.20.5", dst="10.0.9.11", tos=ECT0, options=[IPOption_Timestamp()])
        / UDP()
    )
    bench = bench_with(watermark(HOST, 0, 0, 1, 0))
    assert queued(bench, [packet] * 3) == [ECT0] * 3
    assert bench.sent[1].data == routed(packet, ROUTER_MAC, HOST_MAC)


def test_watermarks_are_those_of_port_and_class():
    bench = bench_with(watermark(HOST, 3, 0, 1, 0), watermark(HOST + 1, 0, 0, 1, 0))
    in_class_3 = ip4("10.0.9.11", tos=24 << 2 | ECT0)
    low, high = queued(bench, [v4(ECT0)] * 3), queued(bench, [in_class_3] * 3)
    assert (low, high) == ([ECT0] * 3, [ECT0, CE, ECT0])


def test_a_port_without_watermarks_marks_nothing():
    assert queued(bench_with(), [v4(ECT0)] * 20) == [ECT0] * 20


@pytest.mark.parametrize(
    ("depth", "slope", "chance"),
    [(3, HALF, 1 / 6), (4, HALF, 1 / 3), (3, ALWAYS, 1 / 3), (4, ALWAYS, 2 / 3), (3, 0, 0)],
)
def test_between_them_the_chance_grows_linearly(depth, slope, chance):
    packets = 1000
    bench = bench_with(watermark(HOST, 0, KMIN, KMAX, slope))
    for _ in range(depth + 1):
        bench.switch.receive(1, bytes(v4(ECT0)))
    for i in range(packets):  # one leaves, one comes: `depth` stay behind each
        bench.at(i * FRAME_US + 10)
        bench.switch.receive(1, bytes(v4(ECT0)))
    bench.at(packets * FRAME_US + 1)
    assert len(bench.switch.ports[HOST].queues[0].packets) == depth
    marked = sum(s.data[15] & 3 == CE for s in bench.sent)
    deviation = sqrt(packets * chance * (1 - chance))
    assert abs(marked - packets * chance) <= 5 * deviation
    assert abs(bench.count("marked", HOST) - marked) <= 1  # one may be on the wire


def test_the_same_seed_marks_the_same_packets():
    def run(seed):
        bench = bench_with(watermark(HOST, 0, KMIN, 100, 1 << 26), seed=seed)
        return queued(bench, [v4(ECT0)] * 90)

    assert run(5) == run(5)
    assert run(5) != run(6)
