"""Hosts on a wire with chosen delays and losses: exact times, and completion whatever happens."""

from __future__ import annotations

import pytest
from fabric_pipe import GATEWAY, Pipe
from hypothesis import given, settings
from hypothesis import strategies as st

from sglb.fabric import roce
from sglb.fabric.host import Host, connect
from sglb.fabric.qp import SendQueue, TransportConfig
from sglb.switch.clock import PS_PER_US

# A full data packet takes 334.24 ns at 100 Gbit/s, a plain ACK (62 + 24 bytes) 6.88 ns.
FULL_PS = 334_240
DELAY_PS = 2 * PS_PER_US
RTO_PS = 200 * PS_PER_US


def _straight(frame: bytes) -> list[int]:
    return [DELAY_PS]


class Pair:
    """Two hosts, a queue pair from the first to the second, and what was delivered when."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.a, self.b = pipe.hosts.values()
        self.delivered: list[tuple[int, int]] = []
        self.queue: SendQueue = connect(self.a, self.b, self._on_message)

    def _on_message(self, number: int) -> None:
        self.delivered.append((number, self.pipe.clock.now_ps))

    def run(self, *sizes: int) -> Pair:
        for size in sizes:
            self.queue.post(size)
        self.pipe.clock.run(until_ps=10**13)
        return self

    @property
    def received(self):  # type: ignore[no-untyped-def]
        (queue,) = self.b.receive_queues.values()
        return queue.stats

    def data(self) -> list[tuple[int, roce.RocePacket]]:
        """Time sent and content of every data frame."""
        frames = [(t, roce.parse(f)) for t, name, f in self.pipe.frames if name == self.a.name]
        return [(t, p) for t, p in frames if p.opcode in roce.DATA_OPCODES]


def _losing(*lost: int) -> Pair:
    """A pair whose data frames with these numbers (in order of sending, from 0) vanish."""
    sent = iter(range(10**6))

    def fate(frame: bytes) -> list[int]:
        is_data = roce.parse(frame).opcode in roce.DATA_OPCODES
        return [] if is_data and next(sent) in lost else [DELAY_PS]

    return Pair(Pipe(fate))


def test_a_message_takes_serialisation_and_delay() -> None:
    pair = Pair(Pipe(_straight)).run(2 * 4096 + 6)
    # Third packet: 6 bytes padded to 8: 58 + 8 + 24 = 90 bytes, 7.2 ns.
    assert pair.delivered == [(0, 2 * FULL_PS + 7_200 + DELAY_PS)]
    sent = pair.data()
    assert [t for t, _ in sent] == [FULL_PS, 2 * FULL_PS, 2 * FULL_PS + 7_200]
    assert [(p.opcode, len(p.payload)) for _, p in sent] == [
        (roce.SEND_FIRST, 4096),
        (roce.SEND_MIDDLE, 4096),
        (roce.SEND_LAST, 6),
    ]
    psns = [p.psn for _, p in sent]
    assert [(n - psns[0]) % roce.PSN_MOD for n in psns] == [0, 1, 2]
    assert pair.queue.idle


def test_acks_come_every_ack_every_packets_and_at_the_end() -> None:
    pair = Pair(Pipe(_straight)).run(10 * 4096)
    assert pair.b.stats.acks_sent == 3  # after packets 4, 8 and 10
    acks = [roce.parse(f) for _, name, f in pair.pipe.frames if name == pair.b.name]
    first = pair.data()[0][1].psn
    assert [(a.psn - first) % roce.PSN_MOD for a in acks] == [3, 7, 9]
    assert [roce.parse_ack(a) for a in acks] == [(0, 0), (0, 0), (1, 0)]


def test_the_nic_serves_queue_pairs_in_turn() -> None:
    pipe = Pipe(_straight, count=3)
    a, b, c = pipe.hosts.values()
    for peer in (b, c):
        connect(a, peer, lambda n: None).post(3 * 4096)
    pipe.clock.run()
    to = [f[30:34] for _, name, f in pipe.frames if name == a.name]
    assert to == [b.address.ipv4.packed, c.address.ipv4.packed] * 3


def test_one_loss_is_repaired_by_one_retransmission_well_before_the_timeout() -> None:
    pair = _losing(1).run(20 * 4096)
    assert (pair.queue.stats.resent, pair.queue.stats.timeouts) == (1, 0)
    assert (pair.received.duplicates, pair.received.received) == (0, 20)
    # Packet 1 left at 1 x FULL. The ACK for packets 0..3 (asked by packet 3, sent at 3 x FULL,
    # so a round trip of FULL + DELAY there, and back) puts packet 1 overdue one round trip and
    # 50 us after it was sent, by the newest ACK's round trip: that of the last, packet 19.
    ack_ps = roce.serialisation_ps(66, 100_000_000_000)  # one word of bitmap
    overdue = FULL_PS + (FULL_PS + DELAY_PS + ack_ps + DELAY_PS) + 50 * PS_PER_US
    assert pair.data()[-1][0] == overdue + FULL_PS
    assert pair.delivered == [(0, overdue + FULL_PS + DELAY_PS)]


def test_a_lost_tail_waits_for_the_timeout() -> None:
    pair = _losing(1).run(2 * 4096)
    # Neither packet has been acknowledged when the first one's timeout comes. The probe is packet
    # 0, a duplicate; its ACK (6.88 ns) frees packet 1.
    assert (pair.queue.stats.resent, pair.queue.stats.timeouts) == (2, 1)
    probed = RTO_PS + FULL_PS + DELAY_PS + 6_880 + DELAY_PS
    assert pair.delivered == [(0, probed + FULL_PS + DELAY_PS)]
    assert pair.received.duplicates == 1


def test_a_dead_path_is_probed_with_one_packet_and_doubling_timeouts() -> None:
    pair = Pair(Pipe(lambda frame: [], TransportConfig(window_packets=8)))
    pair.queue.post(100 * 4096)
    pair.pipe.clock.run(until_ps=12 * RTO_PS)
    times = [t for t, _ in pair.data()]
    assert times[:8] == [(n + 1) * FULL_PS for n in range(8)]
    # One probe when the first packet of the window times out, then after 2, 4, 8.. timeouts more.
    assert times[8:] == [n * RTO_PS + FULL_PS for n in (1, 3, 7)]
    assert pair.queue.stats.timeouts == 3
    pair.pipe.fate = _straight
    pair.pipe.clock.run(until_ps=10**12)
    assert [n for n, _ in pair.delivered] == [0]
    assert pair.queue.idle


def test_overtaking_within_the_tolerance_sends_nothing_twice() -> None:
    turn = iter(range(10**6))

    def fate(frame: bytes) -> list[int]:
        # Every third frame takes 40 us longer than the others.
        return [DELAY_PS + (40 * PS_PER_US if next(turn) % 3 == 0 else 0)]

    pair = Pair(Pipe(fate)).run(64 * 4096)
    assert (pair.queue.stats.resent, pair.received.duplicates) == (0, 0)
    assert pair.received.reordered > 10
    assert pair.received.reorder_extent >= 2


def test_duplicates_are_dropped_and_counted() -> None:
    pair = Pair(Pipe(lambda frame: [DELAY_PS, 2 * DELAY_PS])).run(5 * 4096, 100)
    assert [n for n, _ in pair.delivered] == [0, 1]
    assert (pair.received.received, pair.received.duplicates) == (6, 6)


def test_ce_marks_are_counted_at_the_receiver() -> None:
    pair = Pair(Pipe(_straight))
    original = pair.b.receive

    def mark(frame: bytes) -> None:
        header = bytearray(frame[14:34])
        header[1] |= 3
        header[10:12] = b"\x00\x00"
        header[10:12] = roce.ipv4_checksum(bytes(header)).to_bytes(2, "big")
        original(frame[:14] + bytes(header) + frame[34:])

    pair.b.receive = mark  # type: ignore[method-assign]
    pair.run(3 * 4096)
    assert (pair.received.ce_marked, pair.received.received) == (3, 3)


def test_a_link_that_goes_down_cuts_the_frame_being_sent_and_keeps_the_rest() -> None:
    pair = Pair(Pipe(_straight))
    clock = pair.pipe.clock
    pair.queue.post(3 * 4096)
    clock.run(until_ps=FULL_PS + 1)  # the second packet is on the wire
    pair.a.set_link(False)
    clock.run(until_ps=50 * PS_PER_US)
    assert (pair.a.stats.data_sent, pair.a.stats.cut_data, len(pair.data())) == (2, 1, 1)
    pair.a.set_link(True)
    clock.run()
    assert [n for n, _ in pair.delivered] == [0]
    assert pair.queue.stats.resent == 1


def test_a_new_rate_holds_from_the_next_frame() -> None:
    pair = Pair(Pipe(_straight))
    pair.queue.post(2 * 4096)
    pair.a.set_rate(50_000_000_000)
    pair.pipe.clock.run()
    assert [t for t, _ in pair.data()] == [FULL_PS, 3 * FULL_PS]


def test_frames_that_are_not_for_it_are_counted_by_reason() -> None:
    pair = Pair(Pipe(_straight))
    framer = roce.Framer(roce.Path(pair.a.address, pair.b.address, GATEWAY, 50_000), 0xFFF)
    good = framer.data(roce.SEND_ONLY, 0, b"x", False)
    mine = pair.b.address.mac
    other = roce.Framer(roce.Path(pair.a.address, pair.a.address, mine, 50_000), 0x100)
    for frame in (
        good,
        mine + good[6:],
        other.data(roce.SEND_ONLY, 0, b"x", False),
        mine + good[6:-1] + b"\x00\x00",
        mine + b"\x00" * 60,
    ):
        pair.b.receive(frame)
    assert pair.b.stats.dropped == {
        "for another MAC address": 1,
        "no such queue pair": 1,
        "for another IP address": 1,
        "bad ICRC": 1,
        "not IP": 1,
    }
    assert pair.b.stats.data_received == 0


def test_configurations_must_agree() -> None:
    a, _ = Pipe(_straight).hosts.values()
    _, b = Pipe(_straight, TransportConfig(mtu_bytes=1024)).hosts.values()
    with pytest.raises(ValueError, match="h0 and h1 differ in their transport configuration"):
        connect(a, b, lambda n: None)


@given(st.binary(max_size=150))
def test_a_host_survives_any_frame(junk: bytes) -> None:
    pair = Pair(Pipe(_straight))
    host: Host = pair.b
    host.receive(host.address.mac + junk)
    host.receive(junk)
    assert sum(host.stats.dropped.values()) == 2


_FATES = st.lists(
    st.one_of(
        st.just([]),
        st.lists(st.integers(0, 300 * PS_PER_US), min_size=1, max_size=2),
    ),
    max_size=120,
)


@settings(max_examples=150, deadline=None)
@given(
    fates=_FATES,
    sizes=st.lists(st.integers(1, 20_000), min_size=1, max_size=4),
    window=st.integers(1, 12),
    ack_every=st.integers(1, 8),
    reorder_us=st.integers(0, 60),
    first_psn=st.sampled_from([0, 5, roce.PSN_MOD - 3, roce.PSN_MOD - 1]),
)
def test_every_message_arrives_once_and_in_order_whatever_the_wire_does(
    fates: list[list[int]],
    sizes: list[int],
    window: int,
    ack_every: int,
    reorder_us: int,
    first_psn: int,
) -> None:
    config = TransportConfig(
        mtu_bytes=1024,
        window_packets=window,
        ack_every=ack_every,
        reorder_ps=reorder_us * PS_PER_US,
    )
    coming = iter(fates)
    pair = Pair(Pipe(lambda frame: next(coming, [DELAY_PS]), config, first_psn=first_psn))
    pair.run(*sizes)
    assert [n for n, _ in pair.delivered] == list(range(len(sizes)))
    assert pair.queue.idle
    # Bytes, not only packets: the payloads of the first copies add up to the messages.
    seen: dict[int, int] = {}
    for _, packet in pair.data():
        seen.setdefault(packet.psn, len(packet.payload))
    assert sum(seen.values()) == sum(sizes)
    assert pair.received.received == sum(-(-s // 1024) for s in sizes)
    assert not pair.a.stats.dropped
    assert not pair.b.stats.dropped
