"""The search for the best band over 16 lanes at once, against one lane after the other."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from p4src_kit import lane_bit, vector

from sglb.p4.compiler import compile as compile_p4
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.switch import Switch

LANES = 16


@cache
def probe() -> Switch:
    program = compile_p4(Path(__file__).with_name("best_probe.p4"))
    config = SwitchConfig(ingress_latency_ps=0, egress_latency_ps=0)
    switch = Switch(program, config, VirtualClock(), rng=RandomStream(1))
    switch.add_port(1, None)
    return switch


def best(
    bad: Sequence[int], codes: Sequence[int], live: Sequence[bool], lenient: bool
) -> tuple[int, int]:
    """What the program finds: the set of best lanes, and how bad they are."""
    fields = [vector(*bad), vector(*(c & 0xF for c in codes)), in_set(live)]
    frame = b"".join(f.to_bytes(16, "big") for f in fields) + bytes((lenient,)) + bytes(17)
    switch, out = probe(), []
    switch.on_transmit = lambda _port, data, _start, _end: out.append(data)
    switch.receive(1, frame)
    return int.from_bytes(out[0][49:65], "big"), out[0][65]


def in_set(member: Sequence[bool]) -> int:
    return sum(lane_bit(i) for i, is_in in enumerate(member) if is_in)


def model(
    bad: Sequence[int], codes: Sequence[int], live: Sequence[bool], lenient: bool
) -> tuple[int, int]:
    """Path band = clamp(7 - bad + code, 0, 7); code -8 is down."""
    bands = {
        i: min(7, max(0, 7 - bad[i] + codes[i])) for i in range(LANES) if live[i] and codes[i] != -8
    }
    if not bands:
        return 0, 8
    top = max(bands.values())
    least = top - lenient
    return in_set([bands.get(i, -9) >= least for i in range(LANES)]), 7 - top


def sixteen(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(values, min_size=LANES, max_size=LANES)


FEW = [True] * 2 + [False] * 14


@given(
    bad=sixteen(st.integers(0, 7)),
    codes=sixteen(st.integers(-8, 7)),
    live=sixteen(st.booleans()),
    lenient=st.booleans(),
)
@example(bad=[6] + [7] * 15, codes=[0] + [-7] * 15, live=FEW, lenient=True)  # band 1; clamped 0
@example(bad=[7] * 16, codes=[-7] * 16, live=FEW, lenient=True)
@example(bad=[0] * 16, codes=[7] * 16, live=FEW, lenient=True)
@example(bad=[0] * 16, codes=[-8] * 16, live=[True] * 16, lenient=True)
@example(bad=[0] * 16, codes=[0] * 16, live=[False] * 16, lenient=False)
@settings(deadline=None, max_examples=200)
def test_best_is_the_best(bad, codes, live, lenient):
    assert best(bad, codes, live, lenient) == model(bad, codes, live, lenient)


def test_every_band_of_every_lane_against_every_other():
    """All 8 x 16 states of a lane, beside one neighbour of each band: no lane borrows."""
    for own in range(8):
        for code in range(-8, 8):
            bad = [own if i % 2 else i // 2 for i in range(LANES)]
            codes = [code if i % 2 else 0 for i in range(LANES)]
            for lenient in (False, True):
                live = [i % 4 != 2 for i in range(LANES)]
                args = (bad, codes, live, lenient)
                assert best(*args) == model(*args), (own, code, lenient)
