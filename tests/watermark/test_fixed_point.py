"""DCQCN's fixed point: values worked out by hand from the published equations, and solving."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sglb.watermark.errors import WatermarkError
from sglb.watermark.fixed_point import marking_probability, queue_bytes
from sglb.watermark.network import incast, paper_dcqcn
from sglb.watermark.settings import Watermarks
from sglb.watermark.solve import Timing, solve

#: 40 Gbit/s, packets of 1 KB, the paper's constants; p to three digits.
EXACT = {2: 0.00078, 4: 0.00189, 8: 0.00455, 16: 0.0109, 32: 0.0256, 64: 0.0591}
MARKS = Watermarks(5_000, 200_000, 0.1)


@pytest.mark.parametrize("flows", EXACT)
def test_p_is_that_of_the_published_equations(flows: int) -> None:
    found = marking_probability(flows, 40, paper_dcqcn())
    assert float(f"{found:.{2 if flows == 2 else 3}g}") == EXACT[flows]


def test_the_queue_rests_where_it_is_marked_so() -> None:
    # 5 KB + .00455 / .1 x 195 KB, and for 64 flows 5 KB + .0591 / .1 x 195 KB
    assert queue_bytes(EXACT[8], MARKS) == pytest.approx(13_872.5)
    assert queue_bytes(EXACT[64], MARKS) == pytest.approx(120_245)
    assert math.isnan(queue_bytes(EXACT[64], Watermarks(5_000, 200_000, 0.01)))


@pytest.mark.parametrize("flows", EXACT)
def test_with_short_feedback_solving_ends_at_the_fixed_point(flows: int) -> None:
    """Without much delay the loop is stable, so that the end of a long run is the fixed point."""
    network = incast(flows, 40, feedback_us=4, start_gbps=40 / flows)
    found = solve(network, [MARKS], Timing(400_000, 2, 390_000))
    p = marking_probability(flows, 40, paper_dcqcn())
    assert found.marked_share[0, 0] == pytest.approx(p, rel=1e-3)
    assert found.queue_mean_bytes[0, 0] == pytest.approx(queue_bytes(p, MARKS), rel=1e-3)
    assert found.throughput_gbps[0, 0] * flows == pytest.approx(40, rel=1e-6)


def test_stability_is_not_monotonic_in_the_number_of_flows() -> None:
    """At a feedback delay of 85 us few flows and many come to rest, some number between does not.

    This is what "ECN or Delay" (CoNEXT 2016) shows of DCQCN, with marking that has no cliff at Kmax:
    here the slope of Kmin 5 KB, Kmax 200 KB, Pmax 1 %, twenty times as long.
    """
    marks = Watermarks(5_000, 5_000 + 20 * 195_000, 0.2)
    swing = {}
    for flows in (2, 10, 64):
        network = incast(flows, 40, feedback_us=85, start_gbps=40 / flows)
        found = solve(network, [marks], Timing(400_000, 1, 300_000))
        swing[flows] = float(found.queue_std_bytes[0, 0] / found.queue_mean_bytes[0, 0])
    assert swing[2] < 0.05
    assert swing[10] > 0.5
    assert swing[64] < 0.05


def test_errors() -> None:
    with pytest.raises(WatermarkError, match="at least 1 flow"):
        marking_probability(0, 40, paper_dcqcn())
    assert marking_probability(1, 40, paper_dcqcn()) == 0
    assert np.isfinite(marking_probability(1_000, 40, paper_dcqcn()))
