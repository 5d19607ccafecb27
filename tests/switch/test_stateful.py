"""Registers, counters, meters and value sets."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.p4 import ir
from sglb.p4.ir import InstanceKind
from sglb.p4.runtime import Colour
from sglb.switch.clock import PS_PER_MS, PS_PER_S, PS_PER_US
from sglb.switch.counters import CounterArray
from sglb.switch.errors import BadValue, EntryExists, SwitchError, TableFull, ValueTooLarge
from sglb.switch.keys import MatchField
from sglb.switch.meters import Meter, MeterArray, MeterConfig
from sglb.switch.registers import RegisterArray
from sglb.switch.value_sets import ValueSetTable

GREEN, YELLOW, RED = Colour.GREEN, Colour.YELLOW, Colour.RED


def register(*elements: int, size: int = 4, initial: int = 0) -> RegisterArray:
    return RegisterArray(
        ir.Instance(InstanceKind.REGISTER, "C.r", size=size, elements=elements, initial=initial)
    )


def test_registers_start_at_their_initial_value_and_reset_in_place() -> None:
    array = register(8, initial=7)
    values = array.values
    array.write(2, 255)
    assert list(values) == [7, 7, 255, 7]
    assert array.read(2) == 255
    array.reset()
    assert list(values) == [7, 7, 7, 7]
    assert array.values is values


def test_struct_registers_hold_tuples() -> None:
    array = register(8, 32)
    assert array.read(0) == (0, 0)
    array.write(0, (255, 1 << 31))
    assert array.read(0) == (255, 1 << 31)
    with pytest.raises(BadValue, match=r"register C\.r takes 2 value"):
        array.write(0, 3)
    with pytest.raises(ValueTooLarge, match=r"C\.r\[1\]: 256 exceeds 8 bits"):
        array.write(1, (256, 0))


@pytest.mark.parametrize(
    ("index", "error"), [(-1, BadValue), (4, ValueTooLarge), (1 << 40, ValueTooLarge)]
)
def test_bad_indices_are_refused(index: int, error: type[SwitchError]) -> None:
    counters = CounterArray(ir.Instance(InstanceKind.COUNTER, "C.c", size=4, counts="both"))
    meters = MeterArray(ir.Instance(InstanceKind.METER, "C.m", size=4, counts="bytes"))
    array = register(8)
    for do in (array.read, counters.cell, meters.cell, lambda i: array.write(i, 0)):
        with pytest.raises(error, match=f"index {index}"):
            do(index)
    assert meters.execute(index, 60, 0) is None
    counters.count(index, 60)
    assert all(counters.cell(i).packets == 0 for i in range(4))


@pytest.mark.parametrize("unit", ["packets", "bytes", "both"])
def test_counters_keep_packets_and_bytes_of_any_type(unit: str) -> None:
    counters = CounterArray(ir.Instance(InstanceKind.COUNTER, "C.c", size=2, counts=unit))
    counters.count(1, 60)
    counters.count(1, 1500)
    assert (counters.cell(1).packets, counters.cell(1).bytes) == (2, 1560)
    counters.cell(1).set(5, 6)
    counters.count(1, 1)
    assert (counters.cell(1).packets, counters.cell(1).bytes) == (6, 7)
    counters.reset()
    assert (counters.cell(1).packets, counters.cell(1).bytes) == (0, 0)


def test_an_unconfigured_meter_is_green_and_so_is_one_reset() -> None:
    meter = Meter(packets=True)
    assert [meter.execute(60, 0) for _ in range(3)] == [GREEN] * 3
    meter.configure(MeterConfig(0, 0, 0, 0), 0)
    assert meter.execute(60, 0) is RED
    meter.configure(None, 0)
    assert meter.execute(60, 0) is GREEN


def test_a_burst_is_green_up_to_cburst_and_yellow_up_to_pburst() -> None:
    meter = Meter(packets=True)
    meter.configure(MeterConfig(0, 3, 0, 5), 0)
    assert [meter.execute(60, 0) for _ in range(7)] == [GREEN] * 3 + [YELLOW] * 2 + [RED] * 2


def test_a_red_packet_takes_no_tokens_and_a_yellow_one_only_peak_tokens() -> None:
    meter = Meter(packets=False)
    meter.configure(MeterConfig(0, 100, 0, 150), 0)
    # 120 > 100 sure tokens but <= 150: yellow, peak 30 left. 40 is then red. 30 is green: 100 sure.
    assert [meter.execute(size, 0) for size in (120, 40, 30, 1)] == [YELLOW, RED, GREEN, RED]


def test_tokens_come_back_at_the_stated_rates() -> None:
    meter = Meter(packets=True)
    meter.configure(MeterConfig(1000, 1, 2000, 1), 0)  # one sure packet a ms, one peak in 0.5 ms
    assert meter.execute(60, 0) is GREEN
    assert meter.execute(60, PS_PER_MS // 2 - 1) is RED
    assert meter.execute(60, PS_PER_MS // 2) is YELLOW
    assert meter.execute(60, PS_PER_MS) is GREEN
    assert meter.execute(60, 100 * PS_PER_S) is GREEN  # buckets do not grow beyond their bursts
    assert meter.execute(60, 100 * PS_PER_S) is RED


def test_no_token_is_lost_to_rounding() -> None:
    meter = Meter(packets=True)
    meter.configure(MeterConfig(3, 1, 3, 1), 0)  # one packet in a third of a second
    assert meter.execute(60, 0) is GREEN
    for step in range(1, 334):  # looks every millisecond and takes nothing
        assert meter.execute(60, step * PS_PER_MS) is RED
    assert meter.execute(60, 334 * PS_PER_MS) is GREEN


class FractionMeter:
    """RFC 2698, colour blind, in exact fractions."""

    def __init__(self, c: MeterConfig) -> None:
        self.c, self.last = c, 0
        self.tc, self.tp = Fraction(c.cburst), Fraction(c.pburst)

    def execute(self, size: int, now: int) -> Colour:
        past = Fraction(now - self.last, PS_PER_S)
        self.last = now
        self.tc = min(self.tc + past * self.c.cir, Fraction(self.c.cburst))
        self.tp = min(self.tp + past * self.c.pir, Fraction(self.c.pburst))
        if self.tp < size:
            return RED
        self.tp -= size
        if self.tc < size:
            return YELLOW
        self.tc -= size
        return GREEN


@given(
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.integers(0, 3000),
    st.integers(0, 3000),
    st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 20 * PS_PER_US)), max_size=30),
)
def test_byte_meters_follow_rfc_2698(
    cir: int, more: int, cburst: int, pburst: int, packets: list[tuple[int, int]]
) -> None:
    config = MeterConfig(cir, cburst, cir + more, pburst)
    meter, model, now = Meter(packets=False), FractionMeter(config), 0
    meter.configure(config, 0)
    for size, gap in packets:
        now += gap
        assert meter.execute(size, now) is model.execute(size, now)


class OneRateMeter:
    """RFC 2697, colour blind, in exact fractions: what overflows one bucket fills the other."""

    def __init__(self, c: MeterConfig) -> None:
        self.c, self.last = c, 0
        self.tc, self.te = Fraction(c.cburst), Fraction(c.eburst)

    def execute(self, size: int, now: int) -> Colour:
        tokens = self.tc + Fraction(now - self.last, PS_PER_S) * self.c.cir
        self.last = now
        self.tc = min(tokens, Fraction(self.c.cburst))
        self.te = min(self.te + tokens - self.tc, Fraction(self.c.eburst))
        if self.tc >= size:
            self.tc -= size
            return GREEN
        if self.te >= size:
            self.te -= size
            return YELLOW
        return RED


@given(
    st.integers(0, 10**9),
    st.integers(0, 3000),
    st.integers(1, 3000),
    st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 20 * PS_PER_US)), max_size=30),
)
def test_byte_meters_with_an_excess_burst_follow_rfc_2697(
    cir: int, cburst: int, eburst: int, packets: list[tuple[int, int]]
) -> None:
    config = MeterConfig(cir, cburst, cir, cburst, eburst)
    meter, model, now = Meter(packets=False), OneRateMeter(config), 0
    meter.configure(config, 0)
    assert meter.config == config
    for size, gap in packets:
        now += gap
        assert meter.execute(size, now) is model.execute(size, now)


def test_the_excess_bucket_fills_with_what_the_committed_one_cannot_hold() -> None:
    meter = Meter(packets=True)
    meter.configure(MeterConfig(1000, 2, 1000, 2, 1), 0)  # one packet a ms
    assert [meter.execute(60, 0) for _ in range(4)] == [GREEN, GREEN, YELLOW, RED]
    # 2 ms fill the committed bucket, and nothing is left for yellow.
    assert [meter.execute(60, 2 * PS_PER_MS) for _ in range(3)] == [GREEN, GREEN, RED]
    # 3 ms later there is one more than it holds.
    assert [meter.execute(60, 5 * PS_PER_MS) for _ in range(4)] == [GREEN, GREEN, YELLOW, RED]


@pytest.mark.parametrize(
    "values",
    [
        (2, 1, 1, 1),
        (-1, 1, 1, 1),
        (1, 1, 1, -1),
        (1, 1, 1, 1, -1),
        (1, 1, 2, 1, 1),
        (1, 1, 1, 2, 1),
        (1, 1, 1, 1, (1 << 63) - 1),
    ],
)
def test_bad_meter_rates_are_refused(values: tuple[int, ...]) -> None:
    with pytest.raises(BadValue, match="meter"):
        MeterConfig(*values)


def value_set(*leaves: tuple[str, int], size: int = 4) -> ValueSetTable:
    kinds, widths = zip(*leaves, strict=True)
    return ValueSetTable(ir.ValueSet("P.vs", tuple(widths), tuple(kinds), size))


def test_an_exact_value_set() -> None:
    values = value_set(("exact", 8), ("exact", 16))
    assert not values.contains((5, 1))
    values.replace([(5, 1), (6, 2)])
    assert values.contains((5, 1))
    assert values.contains((6, 2))
    assert not values.contains((5, 2))
    values.replace([])
    assert not values.contains((5, 1))


def test_a_value_set_with_masks_and_ranges() -> None:
    values = value_set(("ternary", 8), ("range", 8), ("lpm", 8))
    values.replace([((0x1F, 0xF0), (3, 5), (0x80, 1))])
    assert values.contains((0x10, 3, 0xFF))
    assert not values.contains((0x20, 3, 0xFF))
    assert not values.contains((0x10, 6, 0xFF))
    assert not values.contains((0x10, 3, 0x7F))
    assert values.members == (((0x10, 0xF0), (3, 5), (0x80, 1)),)


@pytest.mark.parametrize(
    ("members", "error", "text"),
    [
        ([(1,)] * 2, EntryExists, "twice"),
        ([(i,) for i in range(5)], TableFull, "value set P.vs is full: its size is 4"),
        ([(256,)], ValueTooLarge, "P.vs: 0x100 does not fit 8 bits"),
        ([(1, 2)], BadValue, "a member has 1 value"),
    ],
)
def test_a_bad_replacement_changes_nothing(
    members: list[tuple[MatchField, ...]], error: type[SwitchError], text: str
) -> None:
    values: Any = value_set(("exact", 8))
    values.replace([(9,)])
    with pytest.raises(error, match=text):
        values.replace(members)
    assert values.members == ((9,),)
    assert values.contains((9,))
