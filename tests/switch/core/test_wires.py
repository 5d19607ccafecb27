"""Wires: what becomes of a frame when something happens to the link, to the picosecond.

One link of two switches (0 and 1) with a delay of 1,000 ps; a frame begins at 0 and its last bit leaves
at 500, so it arrives at 1,500.
"""

from __future__ import annotations

import pytest

from sglb.p4.native import abi
from sglb.p4.random_stream import RandomStream
from sglb.switch.config import SwitchConfig
from sglb.switch.core import heap, rows, wires
from sglb.switch.core import model as m
from sglb.switch.core.memory import NodeSpec, PortSpec, Sizes, build

END, ARRIVES = 500, 1_500
DATA = bytes(12) + b"\x08\x00" + bytes(17) + b"\x00\x07" + bytes(9) + b"\x04" + bytes(20)
NOTE = bytes(12) + b"\x88\xb5\x08\x01\x00\x00\x00\x00\x01\x02" + bytes(6) + b"\x08" + bytes(20)
SENDER, RECEIVER = 0, 2  # global ports; 1 and 3 are the CPU ports


class Link:
    """The two switches, and frames by hand."""

    def __init__(self, *, sender_is_host: bool = False) -> None:
        config = SwitchConfig()
        ends = [
            NodeSpec(2, [PortSpec(5, 10**9, 1_000, (0, 4))], config),
            NodeSpec(1, [PortSpec(4, 10**9, 1_000, (0, 5))], config),
        ]
        specs = [NodeSpec(1, [PortSpec(4, 10**9, 1_000, (1, 5))], config), ends[0]]
        self.sender, self.receiver = SENDER, RECEIVER
        if sender_is_host:
            specs = [
                NodeSpec(2, [PortSpec(5, 10**9, 1_000, (1, 4))], config),
                NodeSpec(9, [PortSpec(4, 10**9, 1_000, (0, 5))]),
            ]
            self.sender, self.receiver = 2, 0
        self.memory = build(specs, Sizes(rows=20, frame_bytes=8, parse_bytes=64))
        self.world = self.memory.world
        self.record = int(self.world.w[m.PORTS_AT]) + self.sender * m.PORT_WORDS

    def launch(self, data: bytes = DATA, end: int = END) -> None:
        world = self.world
        row = rows.row_new(world)
        at = 8 * row + int(world.w[m.ROW_DATA])
        world.b[at : at + len(data)] = list(data)
        world.h[2 * row + abi.LENGTH] = world.h[2 * row + abi.STORED] = len(data)
        wires.launch(world, self.sender, row, end)

    def up(self, up: bool, now: int) -> None:
        wires.set_carrier(self.world, self.sender, up, now)

    def set(self, word: int, value: int, now: int) -> None:
        self.world.w[self.record + word] = value
        wires.wire_changed(self.world, self.sender, now)

    def arrivals(self, until: int = 10_000) -> list[int]:
        """When frames come out at the far end."""
        found = []
        while heap.peek(self.world, 0) <= until:
            time, order, _ = heap.pop(self.world, 0)
            assert heap.kind_of(order) == m.EV_WIRE
            row = wires.arrive(self.world, self.receiver, time)
            if row >= 0:
                found.append(time)
                rows.row_free(self.world, row)
        return found

    def log(self) -> list[tuple[int, ...]]:
        w = self.world.w
        at = int(w[m.LOG_AT])
        records = w[at : at + int(w[m.LOG_USED]) * m.LOG_WORDS].reshape(-1, m.LOG_WORDS)
        return [tuple(int(v) for v in record) for record in records]

    def counters(self, now: int) -> tuple[int, int]:
        """(frames sent, their bytes) at a time."""
        packets, size = wires.unsent(self.world, self.sender, now)
        w = self.world.w
        sent = int(w[self.record + m.P_TX_PACKETS]) - packets
        return sent, int(w[self.record + m.P_TX_BYTES]) - size

    def drops(self) -> dict[int, int]:
        at = int(self.world.w[self.record + m.P_DROPS])
        counts = self.world.w[at : at + m.DROP_REASONS]
        return {i: int(n) for i, n in enumerate(counts) if n}


LOST_DATA = (m.TRAFFIC_DATA << 32) + 7


def lost(time: int, reason: int) -> tuple[int, ...]:
    return (time, m.LOG_LOST, 0, SENDER, reason, LOST_DATA)


def test_a_frame_arrives_after_the_delay() -> None:
    link = Link()
    link.launch()
    link.launch(end=700)
    assert link.counters(499) == (0, 0)
    assert link.counters(END) == (1, len(DATA))
    assert link.arrivals() == [ARRIVES, 1_700]
    assert (link.log(), link.drops(), int(link.world.w[m.HOPS])) == ([], {}, 2)
    assert link.world.w[m.ROWS_USED] == 0


@pytest.mark.parametrize(
    ("changes", "reason", "at"),
    [
        ([(100, False)], m.DROP_CUT, END),  # while it is being sent
        ([(END, False)], m.DROP_CUT, END),  # a change comes before what else happens then
        ([(100, False), (200, True)], m.DROP_CUT, END),  # a splice doesn't mend the frame
        ([(501, False)], m.DROP_CARRIER, ARRIVES),  # in flight
        ([(501, False), (1_400, True)], 0, 0),  # there is light again as it arrives
        ([(100, False), (200, True), (600, False)], m.DROP_CUT, END),
    ],
)
def test_a_cut(changes: list[tuple[int, bool]], reason: int, at: int) -> None:
    link = Link()
    link.launch()
    for time, up in changes:
        link.up(up, time)
    assert link.arrivals() == ([] if reason else [ARRIVES])
    assert link.log() == ([lost(at, reason)] if reason else [])
    assert link.drops() == ({reason: 1} if reason else {})
    assert link.counters(2_000) == ((0, 0) if reason == m.DROP_CUT else (1, len(DATA)))
    assert link.world.w[m.ROWS_USED] == 0


@pytest.mark.parametrize(
    ("back", "arrives"), [(300, [ARRIVES]), (END, [ARRIVES]), (501, []), (None, [])]
)
def test_a_frame_begun_without_light(back: int | None, arrives: list[int]) -> None:
    link = Link()
    link.up(False, 0)
    link.launch()
    if back is not None:
        link.up(True, back)
    assert link.arrivals() == arrives
    assert link.log() == ([] if arrives else [lost(END, m.DROP_CUT)])


def test_a_cut_nic_counts_and_tells_nobody() -> None:
    link = Link(sender_is_host=True)
    link.launch()
    link.up(False, 100)
    assert link.arrivals() == []
    assert (link.log(), link.drops()) == ([], {m.DROP_CUT: 1})


@pytest.mark.parametrize(
    ("on", "off", "is_lost"), [(100, None, True), (501, None, False), (0, 300, False)]
)
def test_a_black_hole_swallows_what_leaves_while_it_lasts(
    on: int, off: int | None, is_lost: bool
) -> None:
    link = Link()
    link.launch()
    link.set(m.P_BLACKHOLE, 1, on)
    if off is not None:
        link.set(m.P_BLACKHOLE, 0, off)
    assert link.arrivals() == ([] if is_lost else [ARRIVES])
    assert link.log() == ([lost(END, m.DROP_BLACKHOLE)] if is_lost else [])
    assert link.counters(END) == (1, len(DATA))  # the switch has sent it


def test_certain_loss_is_for_its_kind_of_frame() -> None:
    link = Link()
    link.set(m.P_LOSS, 1 << 32, 0)
    link.launch()
    link.launch(NOTE, 600)
    assert link.arrivals() == [1_600]
    assert link.log()[0] == lost(END, m.DROP_RANDOM)
    link.set(m.P_LOSS, 0, 2_000)
    link.set(m.P_LOSS_SYNC, 1 << 32, 2_000)
    link.launch(NOTE, 2_500)
    link.launch(DATA, 2_600)
    assert link.arrivals() == [3_600]


def test_loss_takes_its_share() -> None:
    link = Link()
    link.set(m.P_LOSS, (1 << 32) // 4, 0)
    arrived = 0
    for i in range(4_000):
        link.launch(end=i * 10_000)
        arrived += len(link.arrivals(i * 10_000 + 5_000))
    assert 2_900 < arrived < 3_100  # 3,000 +- 3.6 standard deviations


def test_bit_errors_hit_long_frames_more_often() -> None:
    # (1 - 2**-62 e) ** bits by repeated squaring, rounded down, against fractions.
    rate = (1 << 62) // 1000
    for bits in (1, 8, 500, 12_000):
        exact = ((1 << 62) - rate) ** bits >> 62 * (bits - 1)
        assert 0 <= exact - wires.intact(rate, bits) <= 2 * bits
    assert wires.intact(0, 12_000) == 1 << 62
    assert wires.intact(1 << 62, 1) == 0
    link = Link()
    link.set(m.P_BER, 1 << 62, 0)
    link.launch()
    assert link.arrivals() == []
    assert link.log() == [lost(END, m.DROP_BITS)]


def test_chance_is_a_splitmix_stream() -> None:
    world, stream = Link().world, RandomStream("wire")
    world.w[7] = (stream.state + 2**63) % 2**64 - 2**63
    draws = [wires.next64(world, 7) % 2**64 for _ in range(5)]
    assert draws == [stream.next64() for _ in range(5)]


def test_urgent_notifications_are_told_as_they_leave() -> None:
    link = Link()
    link.launch(NOTE)
    wires.settle(link.world, 499)
    assert link.log() == []
    wires.settle(link.world, END)
    told = [(END, m.LOG_NOTE_SENT, 0, SENDER, 0x0102, 1)]
    assert link.log() == told
    assert link.arrivals() == [ARRIVES]
    assert link.log() == told  # once


def test_notifications_of_bands_are_not_told() -> None:
    link = Link()
    link.launch(NOTE[:15] + b"\0" + NOTE[16:])
    assert link.arrivals() == [ARRIVES]
    assert link.log() == []


@pytest.mark.parametrize(
    ("dead", "alive", "told"), [(0, None, True), (501, None, False), (0, 400, False)]
)
def test_frames_into_a_dead_path(dead: int, alive: int | None, told: bool) -> None:
    link = Link()
    link.launch()
    link.world.w[m.DEAD_ANY] = 1
    link.world.w[link.world.w[m.DEAD_AT]] = 1 << 7
    wires.dead_changed(link.world, dead)
    if alive is not None:
        link.world.w[m.DEAD_ANY] = 0
        wires.dead_changed(link.world, alive)
    assert link.arrivals() == [ARRIVES]
    assert link.log() == ([(END, m.LOG_DEAD_PATH, 0, SENDER, 7, 0)] if told else [])


def test_a_nearly_full_log_halts() -> None:
    link = Link()
    link.world.w[m.LOG_CAPACITY] = 4
    link.up(False, 0)
    for i in range(6):
        link.launch(end=END + i)
    link.arrivals()
    assert link.world.w[m.HALT] == m.HALT_LOG
    assert (int(link.world.w[m.LOG_USED]), int(link.world.w[m.LOG_OVERRUN])) == (4, 2)
