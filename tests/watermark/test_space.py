"""What of a device's settings is worth a search."""

from __future__ import annotations

import dataclasses

import pytest

from sglb.watermark.device import DEVICES, Port, ecn_before_pfc_bytes
from sglb.watermark.errors import WatermarkError
from sglb.watermark.layout import Timing
from sglb.watermark.network import behind_uplink, incast
from sglb.watermark.objective import Weights, parts
from sglb.watermark.prune import Limits, Model, prune
from sglb.watermark.settings import Watermarks
from sglb.watermark.solve import solve
from sglb.watermark.space import SearchSpace, grid


def test_headroom_is_that_of_sonics_formula() -> None:
    """100G, 5 m and 300 m, lossless MTU 1,024, port MTU 9,100, cells of 96 bytes."""
    near = Port(100, 5, 1_024, 9_100).headroom(DEVICES["spectrum-1"])
    assert (near.xoff_bytes, near.size_bytes) == (72_704, 91_136)
    assert Port(100, 300, 1_024, 9_100).headroom(DEVICES["spectrum-1"]).xoff_bytes == 147_456


def test_ecn_before_pfc_is_the_dcqcn_papers_bound() -> None:
    """12 MB, 32 ports, 8 classes, headroom of 22.4 KB each, beta 8: 21.75 KB."""
    pool = 12e6 - 8 * 32 * 22.4e3
    assert ecn_before_pfc_bytes(8 / 8, pool, queues=32, classes=8) == pytest.approx(21_756, abs=1)


def _small() -> SearchSpace:
    levels = {"kmin_bytes": 3, "kmax_bytes": 3, "pmax": 2, "dynamic_th": 3}
    levels |= {"xon_offset_bytes": 2, "headroom_bytes": 3}
    return grid(DEVICES["simulated"], Port(40, 200, 1_086, 1_086, 32, 1), levels=levels)


def test_levels_are_what_the_device_takes() -> None:
    space = grid(DEVICES["dell"], Port())
    by_name = {p.name: p for p in space.parameters}
    assert (by_name["dynamic_th"].levels[0], by_name["dynamic_th"].levels[-1]) == (-6, 3)
    for name in ("kmin_bytes", "kmax_bytes", "xon_offset_bytes", "headroom_bytes"):
        assert all(level % 1_024 == 0 for level in by_name[name].levels)
    assert all(round(100 * level) == pytest.approx(100 * level) for level in by_name["pmax"].levels)
    assert by_name["pmax"].nearest(0.123) == pytest.approx(0.12)
    with pytest.raises(WatermarkError, match=r"pmax must be a multiple of 0\.01 probability"):
        by_name["pmax"].check(0.123)
    with pytest.raises(WatermarkError, match="dynamic_th must be from -6 to 3 exponent"):
        by_name["dynamic_th"].check(4)


def test_rules_name_what_they_forbid() -> None:
    space = _small()
    place = dict.fromkeys((p.name for p in space.parameters), 0)

    def why(**at: int) -> str | None:
        return space.why_not(tuple((place | {"headroom_bytes": 1, "dynamic_th": 2} | at).values()))

    assert why() is None
    assert why(kmin_bytes=2, kmax_bytes=1) == "Kmin above Kmax"
    assert why(headroom_bytes=0) == "headroom below what arrives after a pause"
    # alpha 2^-8 of a pool of 15 MB leaves XOFF at 60 KB, Kmin of 95 KB lies above.
    assert why(kmin_bytes=1, kmax_bytes=2, dynamic_th=0) == "PFC before ECN"
    crowded = dataclasses.replace(space, port=dataclasses.replace(space.port, ports=1_024))
    assert crowded.why_not((0, 0, 0, 2, 0, 1)) == "headroom leaves no shared pool"


def test_the_score_is_its_three_parts() -> None:
    """A port that is full all the time with an empty queue and no pauses scores 1."""
    network = incast(1, 40, feedback_us=10, buffer_bytes=1e6)
    found = solve(network, [Watermarks(1e9, 1e9, 0)], Timing(1_000, 1))
    assert parts(found).score(Weights())[0] == pytest.approx(1, abs=1e-3)
    # 8 senders at line rate behind a threshold of 10 KB: full, and paused 7/8 of the time.
    crowd = incast(8, 40, feedback_us=10, pause_delay_us=1)
    marks = Watermarks(1e9, 1e9, 0, xoff_bytes=1e4, headroom_bytes=1e5)
    score = parts(solve(crowd, [marks], Timing(4_000, 1, 1_000)))
    assert score.throughput[0] == pytest.approx(1, abs=1e-3)
    assert score.unpaused[0] == pytest.approx(1 / 8, rel=0.02)
    assert score.lossless[0]
    lost = solve(crowd, [dataclasses.replace(marks, headroom_bytes=0)], Timing(1_000, 1))
    assert parts(lost).score(Weights())[0] == 0
    with pytest.raises(WatermarkError, match="not all 0"):
        Weights(0, 0, 0)


def test_pruning_loses_no_setting_near_the_best() -> None:
    """Beside an exhaustive run of the same grid; every setting is accounted for."""
    space = _small()
    networks = (
        incast(8, 40, feedback_us=8, pause_delay_us=3, buffer_bytes=4e6),
        behind_uplink(8, 40, feedback_us=8, link_us=2, pause_delay_us=3, buffer_bytes=4e6),
    )
    model = Model(networks, Timing(3_000))
    found = prune(space, model)
    assert len(found.kept) + sum(found.cut.values()) == len(space)
    assert found.share_cut > 0.9
    assert found.kept == prune(space, model).kept
    valid = [p for p in space.places() if space.why_not(p) != "Kmin above Kmax"]
    scores = model.scores([space.watermarks(p) for p in valid])
    assert found.scores[0] == pytest.approx(scores.max())
    near = [p for p, s in zip(valid, scores, strict=True) if s >= 0.98 * scores.max()]
    assert near
    assert {found.stands_for(p) for p in near} <= set(found.kept)


def test_a_watermark_that_changes_nothing_is_not_searched() -> None:
    """Without a single pause neither XON nor headroom nor alpha can matter."""
    space = _small()
    network = incast(2, 40, feedback_us=8, start_gbps=20)
    found = prune(space, Model((network,), Timing(2_000)), Limits(draws=6))
    fixed = {s.name: s.fixed_at for s in found.sensitivities if not s.kept}
    assert {"dynamic_th", "xon_offset_bytes", "headroom_bytes"} <= set(fixed)
    assert fixed["headroom_bytes"] >= space.needed_headroom_bytes
    assert found.cut["makes no difference"] > 0


def test_errors() -> None:
    with pytest.raises(WatermarkError, match="there is no parameter 'kmn'"):
        grid(DEVICES["sonic"], Port(), levels={"kmn": 2})
    with pytest.raises(WatermarkError, match="cable_m must be 0 or more"):
        Port(cable_m=-1)
    kmin, *others = _small().parameters
    parameters = [dataclasses.replace(kmin, levels=kmin.levels[-1:])]
    parameters += [dataclasses.replace(p, levels=p.levels[:1]) for p in others]
    crossed = dataclasses.replace(_small(), parameters=tuple(parameters))
    with pytest.raises(WatermarkError, match="grid is feasible; most fail by: Kmin above Kmax"):
        prune(crossed, Model((incast(2),), Timing(100)))
