"""The traffic manager: service order, times on the wire, depths, tail drop, cuts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.p4.runtime import PacketContext
from sglb.switch.clock import PS_PER_NS, VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.errors import ConfigError
from sglb.switch.packet import Packet
from sglb.switch.ports import DropReason, Port
from sglb.switch.traffic import TrafficManager

GBPS = 10**9
NS = PS_PER_NS


class Bench:
    """A traffic manager whose egress pipeline passes packets on, or drops those marked so."""

    def __init__(self, rate_bps: int | None = 8 * GBPS, **settings: Any) -> None:
        settings = {"egress_latency_ps": 0, **settings}
        config = SwitchConfig(**settings)
        self.clock = VirtualClock()
        self.traffic = TrafficManager(self.clock, config)
        self.traffic.egress = self
        self.port = Port(1, rate_bps, config.queues)
        self.on_sent: list[tuple[bytes, int, int]] = []
        self.lost: list[tuple[bytes, DropReason]] = []
        self.depths: list[tuple[bytes, int, int]] = []
        self.mark: Callable[[bytes], bytes | None] = lambda data: data

    def run_egress(self, packet: Packet, port: Port, queue: int, depth: int) -> bytes | None:
        self.depths.append((packet.ctx.data[:1], packet.enq_depth, depth))
        return self.mark(packet.ctx.data)

    def sent(self, packet: Packet, port: Port, data: bytes, start_ps: int, end_ps: int) -> None:
        assert end_ps == self.clock.now_ps
        self.on_sent.append((data[:1], start_ps, end_ps))

    def lose(self, packet: Packet, port: Port | None, reason: DropReason, data: bytes) -> None:
        self.lost.append((data[:1], reason))

    def put(self, name: bytes, size: int = 100, queue: int = 0) -> None:
        packet = Packet(PacketContext([], name.ljust(size, b"\0")), 0, 1, [0])
        packet.length_bytes = size
        self.traffic.enqueue(packet, self.port, queue)

    def names(self) -> bytes:
        return b"".join(name for name, _, _ in self.on_sent)


def test_frames_follow_each_other_at_the_ports_rate() -> None:
    bench = Bench()  # 8 Gbit/s: a byte a nanosecond
    bench.put(b"a", 100)
    bench.put(b"b", 60)
    bench.clock.run()
    assert bench.on_sent == [(b"a", 0, 100 * NS), (b"b", 100 * NS, 160 * NS)]
    bench.clock.run(until_ps=1000 * NS)
    bench.put(b"c", 10)
    bench.clock.run()
    assert bench.on_sent[2] == (b"c", 1000 * NS, 1010 * NS)


def test_egress_latency_shifts_and_does_not_slow() -> None:
    bench = Bench(egress_latency_ps=500 * NS)
    bench.put(b"a", 100)
    bench.put(b"b", 100)
    bench.clock.run()
    assert bench.on_sent == [(b"a", 500 * NS, 600 * NS), (b"b", 600 * NS, 700 * NS)]


def test_wire_time_is_rounded_up_and_counts_overhead() -> None:
    bench = Bench(rate_bps=3 * GBPS, wire_overhead_bytes=24)
    bench.put(b"a", 64)  # 88 bytes are 704 bits: 234666.67 ps
    bench.clock.run()
    assert bench.on_sent == [(b"a", 0, 234_667)]


def test_a_higher_class_goes_first_but_never_interrupts() -> None:
    bench = Bench()
    for name, queue in [(b"a", 0), (b"b", 0), (b"c", 7), (b"d", 3), (b"e", 7)]:
        bench.put(name, queue=queue)
    bench.clock.run()
    assert bench.names() == b"acedb"


def test_a_queue_beyond_the_last_is_a_drop() -> None:
    bench = Bench(queues=2)
    bench.put(b"a", queue=2)
    assert bench.lost == [(b"a", DropReason.NO_QUEUE)]


def test_tail_drop_at_the_byte_limit_of_the_queue() -> None:
    bench = Bench(queue_limit_bytes=250)
    for name, queue in [(b"a", 0), (b"b", 0), (b"c", 0), (b"d", 0), (b"e", 1)]:
        bench.put(name, 100, queue)  # a is on the wire at once, b and c wait, d does not fit
    bench.put(b"f", 50)  # exactly 250
    assert bench.lost == [(b"d", DropReason.QUEUE_FULL)]
    queue = bench.port.queues[0]
    assert (queue.bytes, queue.max_bytes, queue.max_packets) == (250, 250, 3)
    assert (bench.port.depth_bytes, bench.port.depth_packets) == (350, 4)
    bench.clock.run()
    assert bench.names() == b"aebcf"
    assert (queue.bytes, queue.cells, bench.port.depth_packets) == (0, 0, 0)


def test_tail_drop_at_a_packet_limit() -> None:
    bench = Bench(queue_limit_packets=1)
    for name in (b"a", b"b", b"c"):
        bench.put(name)
    assert bench.lost == [(b"c", DropReason.QUEUE_FULL)]


@pytest.mark.parametrize(
    ("unit", "depths"),
    [
        # a leaves at once; b, c, d then find and leave behind what the others occupy.
        ("packets", [(b"a", 0, 0), (b"b", 0, 2), (b"c", 1, 1), (b"d", 2, 0)]),
        ("bytes", [(b"a", 0, 0), (b"b", 0, 181), (b"c", 100, 81), (b"d", 200, 0)]),
        # 100 bytes take two cells of 80, 81 bytes two as well.
        ("cells", [(b"a", 0, 0), (b"b", 0, 4), (b"c", 2, 2), (b"d", 4, 0)]),
    ],
)
def test_depths_at_enqueue_and_dequeue(unit: str, depths: list[tuple[bytes, int, int]]) -> None:
    bench = Bench(depth_unit=unit)
    for name, size in [(b"a", 100), (b"b", 100), (b"c", 100), (b"d", 81)]:
        bench.put(name, size)
    bench.clock.run()
    assert bench.depths == depths


def test_what_egress_drops_takes_no_time() -> None:
    bench = Bench()
    bench.mark = lambda data: None if data[:1] in b"bc" else data
    for name in (b"a", b"b", b"c", b"d"):
        bench.put(name)
    bench.clock.run()
    assert bench.on_sent == [(b"a", 0, 100 * NS), (b"d", 100 * NS, 200 * NS)]


def test_egress_decides_the_length_on_the_wire() -> None:
    bench = Bench()
    bench.mark = lambda data: data + bytes(50)
    bench.put(b"a", 100)
    bench.clock.run()
    assert bench.on_sent == [(b"a", 0, 150 * NS)]


def test_a_port_without_rate_sends_in_no_time() -> None:
    bench = Bench(rate_bps=None)
    bench.put(b"a")
    bench.put(b"b")
    assert bench.on_sent == [(b"a", 0, 0), (b"b", 0, 0)]


def test_a_new_rate_holds_from_the_next_frame() -> None:
    bench = Bench()
    bench.put(b"a", 100)
    bench.put(b"b", 100)
    bench.port.set_rate(4 * GBPS)
    bench.clock.run()
    assert bench.on_sent == [(b"a", 0, 100 * NS), (b"b", 100 * NS, 300 * NS)]
    with pytest.raises(ConfigError, match="port 1: the rate must be above 0"):
        bench.port.set_rate(0)


def test_a_cut_loses_frames_on_the_wire_and_later_ones_until_it_is_known() -> None:
    bench = Bench(egress_latency_ps=10 * NS)
    for name in (b"a", b"b", b"c", b"d"):
        bench.put(name)  # a is on the wire from 10 to 110 ns, b from 110, c from 210, d from 310
    bench.clock.run(until_ps=150 * NS)
    bench.port.up = False
    bench.port.cuts += 1
    bench.clock.run(until_ps=250 * NS)  # c left its queue at 200 ns
    bench.port.live = False
    bench.traffic.flush(bench.port, DropReason.PORT_DOWN)
    bench.put(b"e")
    bench.clock.run()
    assert bench.names() == b"a"
    assert sorted(bench.lost) == [
        (b"b", DropReason.CUT),
        (b"c", DropReason.CUT),
        (b"d", DropReason.PORT_DOWN),
        (b"e", DropReason.PORT_DOWN),
    ]


def test_a_frame_cut_in_the_middle_is_lost_although_the_link_is_back() -> None:
    bench = Bench()
    bench.put(b"a")
    bench.put(b"b")
    bench.clock.run(until_ps=50 * NS)
    bench.port.cuts += 1  # down and up again at 50 ns
    bench.clock.run()
    assert (bench.names(), bench.lost) == (b"b", [(b"a", DropReason.CUT)])


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 200), st.integers(0, 7)), max_size=40)
)
def test_every_packet_is_sent_once_or_lost_and_the_wire_is_never_shared(
    arrivals: list[tuple[int, int, int]],
) -> None:
    bench = Bench(queue_limit_bytes=500)
    for number, (gap_ns, size, queue) in enumerate(arrivals):
        bench.clock.run(until_ps=bench.clock.now_ps + gap_ns * NS)
        bench.put(bytes([number]), size, queue)
    bench.clock.run()
    sent = [name for name, _, _ in bench.on_sent]
    assert sorted(sent + [name for name, _ in bench.lost]) == [
        bytes([number]) for number in range(len(arrivals))
    ]
    for (_, _, end), (_, start, _) in zip(bench.on_sent, bench.on_sent[1:], strict=False):
        assert start >= end
    for name, start, end in bench.on_sent:
        assert end - start == arrivals[name[0]][1] * NS
    assert bench.port.depth_bytes == bench.port.depth_packets == 0
