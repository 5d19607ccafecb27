"""Sweeps as users spell them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.watermark.errors import WatermarkError
from sglb.watermark.layout import Timing
from sglb.watermark.network import Network, incast
from sglb.watermark.settings import Watermarks
from sglb.watermark.solve import solve
from sglb.watermark.sweep import KEYS, MAX_POINTS, parse, sweep


@given(
    st.lists(
        st.text(max_size=20)
        | st.builds(
            "{}={}".format, st.sampled_from(KEYS), st.text("0123456789.,:elog-inf", max_size=16)
        ),
        max_size=3,
    )
)
def test_any_text_is_axes_or_refused(texts: list[str]) -> None:
    try:
        axes = parse(texts)
    except WatermarkError:
        return
    assert all(1 <= len(axis.values) <= MAX_POINTS for axis in axes)


def test_spellings() -> None:
    (even,) = parse(["pmax=0.1..0.5:3"])
    assert even.values == (0.1, 0.3, 0.5)
    (log,) = parse(["kmin_bytes=1e3..1e5:3:log"])
    assert (log.values, log.log) == ((1e3, 1e4, 1e5), True)
    (whole,) = parse(["flows=1..4:9"])
    assert whole.values == (1, 2, 3, 4)
    with pytest.raises(WatermarkError, match="swept twice"):
        parse(["pmax=0.1", "pmax=0.2"])
    with pytest.raises(WatermarkError, match="at most two keys"):
        parse(["pmax=0.1", "alpha=1", "flows=2"])
    with pytest.raises(WatermarkError, match="40,000 points are more than 20,000"):
        parse(["pmax=0..1:200", "alpha=1..2:200"])


def test_points_are_those_settings_on_those_networks() -> None:
    def network(at: dict[str, float]) -> Network:
        return incast(int(at.get("flows", 1)))

    timing = Timing(500)
    axes = parse(["kmin_bytes=1e3,1e5", "flows=2,4"])
    points = sweep(axes, Watermarks(), network, timing)  # type: ignore[arg-type]
    assert [tuple(p.at.values()) for p in points] == [(1e3, 2), (1e3, 4), (1e5, 2), (1e5, 4)]
    for point in points:
        alone = solve(incast(int(point.at["flows"])), [Watermarks(point.at["kmin_bytes"])], timing)
        assert (point.result.queue_mean_bytes[point.place] == alone.queue_mean_bytes[0]).all()
