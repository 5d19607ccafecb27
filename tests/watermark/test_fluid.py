"""Solving the fluid model: what must hold whatever the setting, and what others found."""

from __future__ import annotations

import dataclasses
import itertools
import math
import signal
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglb.watermark import kernel
from sglb.watermark.arrays import Floats
from sglb.watermark.errors import WatermarkError
from sglb.watermark.layout import Setting
from sglb.watermark.network import behind_uplink, incast, paper_dcqcn
from sglb.watermark.settings import Watermarks
from sglb.watermark.solve import FluidResult, Timing, solve


def _plain(flows: int, marks: Watermarks, steps: int, delay: int) -> list[float]:
    """The published equations by Euler's method, steps of 1 us, alike flows at 40 Gbit/s: the queue.

    Nothing here is shared with the solver; units are packets of 1 KB and microseconds.
    """
    line, g, tau, tau2, timer, counter, f = 5.0, 1 / 256, 50.0, 55.0, 55.0, 10_000.0, 5
    rate, target, alpha, queue, add = line / flows, line / flows, 1.0, 0.0, 40 / 8_000
    rates, chances, depths = [rate] * (delay + 1), [0.0] * (delay + 1), []
    for _ in range(steps):
        p, r = chances[-delay - 1], rates[-delay - 1]
        left = 1 - p
        if p == 0:
            a, b, c, d, e, goal = (
                0.0,
                1 / counter,
                1 / counter,
                1 / (timer * r),
                1 / (timer * r),
                0.0,
            )
        else:
            a, goal = 1 - left ** (tau * r), 1 - left ** (tau2 * r)
            b = p / (left**-counter - 1)
            c = b * left ** (f * counter)
            d = p / (left ** (-timer * r) - 1)
            e = d * left ** (f * timer * r)
        d_rate = -rate * alpha * a / (2 * tau) + (target - rate) / 2 * r * (b + d)
        d_target = -(target - rate) * a / tau + add * r * (c + e)
        alpha += g / tau2 * (goal - alpha)
        queue = max(queue + flows * rate - line, 0.0)
        rate, target = min(rate + d_rate, line), min(target + d_target, line)
        rates.append(rate)
        ramp = marks.pmax * (queue * 1_000 - marks.kmin_bytes)
        ramp /= marks.kmax_bytes - marks.kmin_bytes
        chances.append(0.999999 if queue * 1_000 > marks.kmax_bytes else max(ramp, 0.0))
        depths.append(queue * 1_000)
    return depths


def test_agrees_with_the_published_equations_written_out() -> None:
    marks = Watermarks(5_000, 400_000, 0.02)
    network = incast(8, 40, feedback_us=20, start_gbps=5)
    found = solve(network, [marks], Timing(20_000, 1, 0, 1), trace=True)
    assert found.trace is not None
    plain = np.array(_plain(8, marks, 20_000, 20))
    depth = found.trace.queue_bytes[0, :, 0]
    assert plain.max() > 40_000
    # Euler's own error at this step is some tens of bytes.
    assert np.abs(depth - plain).max() < 0.01 * plain.max()


def _grid() -> list[Setting]:
    return [
        Watermarks(kmin, 4 * kmin, pmax, xoff_bytes=xoff, headroom_bytes=60_000)
        for kmin, pmax, xoff in itertools.product((5e3, 5e4), (0.01, 0.2), (4e4, 4e5))
    ]


def test_a_setting_does_not_depend_on_its_batch_or_on_threads() -> None:
    network = behind_uplink(4)
    timing = Timing(3_000, 1, 500, 10)
    grid = _grid() * 5  # more than a block
    whole = solve(network, grid, timing, workers=2, trace=True)
    for at in (0, 3, 7, 39):
        alone = solve(network, [grid[at]], timing, workers=1, trace=True)
        for field in dataclasses.fields(FluidResult):
            one, many = getattr(alone, field.name), getattr(whole, field.name)
            if isinstance(one, np.ndarray):
                assert np.array_equal(one[0], many[at], equal_nan=True), field.name
        assert alone.trace is not None
        assert whole.trace is not None
        assert np.array_equal(alone.trace.queue_bytes[0], whole.trace.queue_bytes[at])


def test_alike_flows_as_one_are_the_same_flows_apart() -> None:
    timing = Timing(5_000, 1)
    one = solve(incast(8, buffer_bytes=2e6), _grid(), timing)
    eight = solve(incast(8, buffer_bytes=2e6, apart=True), _grid(), timing)
    assert eight.throughput_gbps.shape == (8, 8)
    assert np.allclose(eight.throughput_gbps, one.throughput_gbps, rtol=1e-9)
    assert np.allclose(eight.queue_max_bytes, one.queue_max_bytes, rtol=1e-9)
    assert np.allclose(eight.paused_share, one.paused_share)


_marks = st.builds(
    lambda kmin, span, pmax, alpha, xoff, xon, room: Watermarks(
        kmin, kmin + span, pmax, alpha, xoff, xon, room
    ),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.floats(0, 1),
    st.floats(1 / 256, 256),
    st.none() | st.floats(1, 1e6),
    st.floats(0, 1e6),
    st.floats(0, 1e5),
)


@settings(max_examples=40, deadline=None)
@given(_marks, st.integers(1, 9), st.booleans(), st.floats(0, 30), st.floats(1, 90))
def test_nothing_is_made_up_or_lost_from_sight(
    marks: Watermarks, flows: int, uplink: bool, link: float, feedback: float
) -> None:
    network = incast(flows, feedback_us=feedback, buffer_bytes=4e6)
    if uplink:
        network = behind_uplink(flows, link_us=max(link, 1), feedback_us=feedback, buffer_bytes=4e6)
    found = solve(network, [marks], Timing(2_000, 1, 0, 1), trace=True)
    parts = found.delivered_bytes + found.queued_bytes + found.in_flight_bytes
    parts += found.lost_total_bytes
    assert found.sent_bytes[0] == pytest.approx(parts[0], rel=1e-9)
    for field in dataclasses.fields(FluidResult):
        value = getattr(found, field.name)
        if isinstance(value, np.ndarray) and field.name != "completion_us":
            assert np.all(np.isfinite(value)), field.name
            assert np.all(value >= -1e-6), field.name
    assert found.trace is not None
    assert found.trace.queue_bytes.min() >= 0
    assert found.utilisation.max() <= 1 + 1e-9
    assert found.paused_share.max() <= 1
    assert found.headroom_max_bytes.max() <= marks.headroom_bytes
    assert found.trace.rate_gbps.max() <= 40 + 1e-9


def _depths(step_us: float) -> Floats:
    network = incast(8, start_gbps=6, feedback_us=16)
    found = solve(
        network, [Watermarks(0, 400_000, 0.02)], Timing(10_000, step_us, 0, 80), trace=True
    )
    assert found.trace is not None
    return found.trace.queue_bytes


def test_the_error_falls_with_the_square_of_the_step_where_marking_has_no_jump() -> None:
    exact = _depths(1 / 8)
    coarse, half, fine = (
        float(np.sqrt(np.mean((_depths(step_us) - exact) ** 2))) for step_us in (4, 2, 1)
    )
    assert 1.8 < math.log2(coarse / half) < 2.2
    assert 1.8 < math.log2(half / fine) < 2.2


#: Kmin, Kmax, Pmax, XOFF of the published fluid model's configurations.
AUTHORS = (
    (5e3, 2e5, 0.1, 3e5),
    (5e3, 2e5, 0.1, 8e5),
    (2e5, 4e5, 0.1, 8e5),
    (2e5, 4e5, 0.5, 8e5),
)


def _authors(flows: int, start_gbps: float | None, measure_from_us: float = 25_000) -> FluidResult:
    """Two queues in a row; the second pauses the first for 65,535 quanta; the first drops at 1 MB."""
    network = behind_uplink(
        flows, 40, uplink_gbps=40 * flows, start_gbps=start_gbps, pause_delay_us=0
    )
    lossy = dataclasses.replace(network.ingresses[0], pfc=False)
    network = dataclasses.replace(
        network, pause_us=65_535 * 512 / 40e3, ingresses=(lossy, network.ingresses[1])
    )
    near = Watermarks(1e12, 1e12, 0, xoff_bytes=1e6 / flows)
    grid = [
        {"near": near, "far": Watermarks(a, b, p, xoff_bytes=x, headroom_bytes=1e9)}
        for a, b, p, x in AUTHORS
    ]
    return solve(network, grid, Timing(50_000, 1, measure_from_us))


@pytest.mark.parametrize("flows", [2, 4, 8])
def test_from_the_fair_share_none_of_the_authors_configurations_pauses(flows: int) -> None:
    assert _authors(flows, 40 / flows, 0).pauses.max() == 0


def test_the_authors_configurations_have_the_queues_that_another_solver_finds() -> None:
    """Indicative values of the published equations by Euler's method, last 25 ms, 8 flows, in KB."""
    depth = _authors(8, 5).queue_p99_bytes[:, 1] / 1_000
    assert depth == pytest.approx([41, 41, 319, 286], rel=0.02)


def test_from_line_rate_the_lower_xoff_pauses_more() -> None:
    pauses = _authors(8, None, 0).pauses[:, 1]
    assert pauses[0] > pauses[1] > 0


def test_headroom_of_what_is_under_way_loses_nothing_and_less_does() -> None:
    """The uplink sends 10 KB/us and obeys 6 us after: 40 KB more than the port takes in that time.

    What was on the link (1 us) at the decision is in them.
    """
    network = behind_uplink(8, 40, link_us=1, pause_delay_us=5)
    rooms = [40_000.0, 60_000.0]
    grid = [Watermarks(1e9, 1e9, 0, xoff_bytes=1e5, headroom_bytes=room) for room in rooms]
    found = solve(network, grid, Timing(2_000, 0.25))
    used = found.headroom_max_bytes[1, 1]
    # Both sides of the threshold count: what arrives in 6 us is 60 KB, of which 30 KB leave again.
    assert 28_000 < used < 42_000
    assert found.lost_bytes[1].max() == 0
    less = [Watermarks(1e9, 1e9, 0, xoff_bytes=1e5, headroom_bytes=used * 0.9)]
    assert solve(network, less, Timing(2_000, 0.25)).lost_bytes.max() > 0


def test_a_dynamic_threshold_leaves_what_choudhury_and_hahne_say() -> None:
    """n ingresses that stay full hold alpha B / (1 + n alpha) each, without DCQCN in the way."""
    slow = dataclasses.replace(paper_dcqcn(), cnp_interval_ps=10**15)
    flows, alpha, pool = 8, 0.25, 1e6
    network = incast(flows, 40, dcqcn=slow, buffer_bytes=pool, pfc=False)
    marks = Watermarks(1e9, 1e9, 0, alpha=alpha, headroom_bytes=0)
    found = solve(network, [marks], Timing(2_000, 1, 1_000))
    assert found.queue_mean_bytes[0, 0] == pytest.approx(
        flows * alpha * pool / (1 + flows * alpha), rel=0.02
    )


def test_flows_of_a_size_are_done_when_the_link_has_carried_them() -> None:
    """8 x 1 MB over 40 Gbit/s take 1.6 ms; nobody slows down, as nothing is marked."""
    network = incast(8, 40, size_bytes=1e6, feedback_us=10)
    found = solve(network, [Watermarks(1e9, 1e9, 0)], Timing(3_000, 1))
    assert found.completion_us[0, 0] == pytest.approx(1_600, abs=3)
    assert found.sent_bytes[0] == pytest.approx(8e6)
    endless = solve(incast(8), [Watermarks()], Timing(100))
    assert np.isnan(endless.completion_us).all()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Watermarks(2, 1), "kmin_bytes (2) must not exceed kmax_bytes (1)"),
        (lambda: Watermarks(pmax=1.5), "pmax is a probability"),
        (lambda: Watermarks(alpha=0), "alpha must be above 0"),
        (lambda: Watermarks(xoff_bytes=math.nan), "xoff_bytes must be above 0"),
        (lambda: Watermarks(headroom_bytes=-1), "headroom_bytes must be 0 or more"),
        (lambda: Timing(step_us=0), "step_us must be above 0"),
        (lambda: Timing(10, 1, 10), "measure_from_us must be from 0 to below 10"),
        (lambda: solve(incast(2), []), "no setting"),
        (lambda: incast(0), "at least 1 flow"),
        (lambda: incast(2, feedback_us=0), "feedback_us must be above 0"),
        (lambda: solve(incast(2), [{"swich": Watermarks()}]), "no watermarks for switch 'switch'"),
        (
            lambda: solve(incast(2, feedback_us=1), [Watermarks()], Timing(100, 2)),
            "a step of 2 us is longer than feedback_us of the hop into 'port' (1 us)",
        ),
        (
            lambda: solve(incast(2, feedback_us=1e9), [Watermarks()]),
            "the longest delay is 1,000,000,004 steps",
        ),
        (
            lambda: solve(incast(9, buffer_bytes=1e5), [Watermarks(headroom_bytes=2e4)]),
            "headroom of 180,000 bytes leaves nothing",
        ),
        (
            lambda: dataclasses.replace(
                incast(2), dcqcn=dataclasses.replace(paper_dcqcn(), enabled=False)
            ),
            "enable it",
        ),
    ],
)
def test_errors_say_what_and_where(make: object, text: str) -> None:
    assert callable(make)
    with pytest.raises(WatermarkError) as caught:
        make()
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_interruption_ends_what_is_being_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    real, begun = kernel.advance, []

    def interrupted(*given: object) -> None:
        real(*given)  # type: ignore[arg-type]
        begun.append(given[-1])
        if len(begun) == 2:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    monkeypatch.setattr(kernel, "advance", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            solve(incast(2), [Watermarks()], Timing(1e12))  # years
    finally:
        signal.signal(signal.SIGINT, before)
    assert begun[:2] == [4096, 8192]
