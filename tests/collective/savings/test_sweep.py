"""Sweeps: what users write, the points they get, and the drawing."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from contextlib import suppress
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st
from rich.console import Console

from sglb.collective.savings.plot import draw
from sglb.collective.savings.settings import Settings, SettingsError
from sglb.collective.savings.show import show_sweep
from sglb.collective.savings.sweep import Axis, Sweep, parse, sweep

FEW = Settings(runs=40, days=10.0)
SVG = "{http://www.w3.org/2000/svg}"


def _refused(*texts: str) -> str:
    with pytest.raises(SettingsError) as found:
        parse(texts)
    return str(found.value)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("restart_min=0..60:4", (0, 20, 40, 60)),
        ("restart-min=1..100:3:log", (1, 10, 100)),
        ("gpus=1..4:9", (1, 2, 3, 4)),
        ("restart_min=5,68", (5, 68)),
        ("repair_h=24,0,12.5,0", (0, 12.5, 24)),
        ("reroute=balanced,dual-homed", ("balanced", "dual-homed")),
        ("failover_saves=nic,nic+link", (("nic",), ("nic", "link"))),
        ("restart_replaces=true,false", (True, False)),
    ],
)
def test_axes(text: str, values: tuple[object, ...]) -> None:
    (axis,) = parse([text])
    assert axis.values == values


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["restart_min"], "restart_min: write KEY=FROM..TO"),
        (["restart_min=1..x"], "restart_min=1..x: write KEY=FROM..TO"),
        (["restart_min=1..inf"], "write KEY=FROM..TO"),
        (["restart_min=1..9:4:lin"], "write KEY=FROM..TO"),
        (["restart_min=9..1"], "the range must go up"),
        (["restart_min=0..9:4:log"], "must begin above 0"),
        (["restart_min=0..9:1"], "needs 2 to 400 points, got 1"),
        (["restart=0..9"], "restart is no key to sweep; those are gpus, days"),
        (["seed=1..9"], "seed is no key to sweep"),
        (["days=1..9", "days=1..3"], "days is swept twice"),
        (["days=1..9:21", "gpus=1..90:21"], "441 points are too many"),
        (["days=1..2"] * 3, "over one or two keys, not 3"),
    ],
)
def test_what_is_no_sweep(texts: list[str], complaint: str) -> None:
    assert complaint in _refused(*texts)


def test_a_value_out_of_bounds_is_told_before_anything_runs() -> None:
    with pytest.raises(SettingsError, match="exposed_communication: should be less"):
        sweep(FEW, parse(["exposed_communication=0..2"]))


@tries(max_examples=300, deadline=None)
@given(
    st.text(max_size=12)
    | st.builds(
        "{}={}..{}:{}:{}".format,
        st.sampled_from(list(Settings.model_fields)),
        st.floats() | st.text(max_size=3),
        st.floats() | st.integers(),
        st.integers(-2, 500) | st.text(max_size=3),
        st.sampled_from(["log", "", "x"]),
    )
)
def test_any_text_is_an_axis_or_a_complaint(text: str) -> None:
    with suppress(SettingsError):
        (axis,) = parse([text])
        assert axis.values


def _one() -> Sweep:
    return sweep(FEW, parse(["repair_h=0,40"]))


def test_points_have_the_swept_value_and_all_else() -> None:
    found = sweep(FEW, parse(["repair_h=1,2", "reroute=balanced,neighbour"]))
    settings = [p.found.settings for p in found.points]
    assert [(s.repair_h, s.reroute) for s in settings] == [
        (1, "balanced"),
        (1, "neighbour"),
        (2, "balanced"),
        (2, "neighbour"),
    ]
    assert {(s.days, s.runs, s.seed) for s in settings} == {(10, 40, 1)}
    assert found.as_dict()["points"][3]["at"] == {"repair_h": 2, "reroute": "neighbour"}


def test_progress_is_told_before_each_point() -> None:
    seen: list[tuple[int, int]] = []
    sweep(FEW, parse(["repair_h=1,2"]), lambda done, of: seen.append((done, of)))
    assert seen == [(0, 2), (1, 2)]


def test_the_crossing_lies_on_the_line_between_two_points() -> None:
    found = _one()
    a, b = (p.found.saved_gpu_hours.mean for p in found.points)
    assert a > 0 > b
    ((at, pays_above),) = found.crossings()
    assert a + (b - a) * at / 40 == pytest.approx(0, abs=1e-6 * a)
    assert not pays_above


def test_the_order_in_which_values_were_written_does_not_matter() -> None:
    assert sweep(FEW, parse(["repair_h=40,0"])).crossings() == _one().crossings()


def test_titles_name_the_span_of_what_is_swept() -> None:
    found = sweep(FEW, parse(["gpus=1000,3000"]))
    assert any("1,000 to 3,000 GPUs, 10 days, 40 runs" in text for text in _texts(draw(found)))
    with StringIO() as out:
        show_sweep(found, Console(file=out, width=120))
        assert "40 simulated runs of 10 days on 1,000 to 3,000 GPUs" in out.getvalue()


def test_words_have_no_crossing() -> None:
    assert sweep(FEW, parse(["reroute=balanced,neighbour"])).crossings() == []


def _elements(svg: str) -> list[ET.Element]:
    return list(ET.fromstring(svg).iter(f"{SVG}text"))


def _texts(svg: str) -> list[str]:
    return [e.text or "" for e in _elements(svg)]


def test_a_drawing_of_one_key_marks_where_it_turns() -> None:
    svg = draw(_one())
    texts = _texts(svg)
    assert {"repair_h", "0", "40", "0 %"} <= set(texts)
    assert any(text.startswith("pays up to ") for text in texts)
    root = ET.fromstring(svg)
    lines = [e.get("points", "").split() for e in root.iter(f"{SVG}polyline")]
    assert [len(points) for points in lines] == [2, 2]
    # The saving falls: in a drawing, y grows downward.
    (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in lines[1])
    assert x1 < x2
    assert y1 < y2


def test_a_drawing_of_two_keys_has_a_cell_for_each_point() -> None:
    found = sweep(FEW, parse(["repair_h=0,40", "restart_min=1,10,60"]))
    svg = draw(found)
    # The background is one more.
    assert len(list(ET.fromstring(svg).iter(f"{SVG}rect"))) == 7
    shares = [100 * p.found.saved_gpu_hours.mean / p.found.settings.gpu_hours for p in found.points]
    assert {f"{share:.2f}" for share in shares} <= set(_texts(svg))
    # The first key goes up, the second to the right.
    at = {e.text: (float(e.get("x", 0)), float(e.get("y", 0))) for e in _elements(svg)}
    for number, share in enumerate(shares):
        x, y = at[f"{share:.2f}"]
        assert x == at[("1", "10", "60")[number % 3]][0]
        assert abs(y - at[("0", "40")[number // 3]][1]) < 1


def test_a_drawing_of_words_and_of_a_single_value() -> None:
    assert "neighbour" in _texts(draw(sweep(FEW, parse(["reroute=balanced,neighbour"]))))
    assert "7" in _texts(draw(sweep(FEW, parse(["repair_h=7"]))))


def test_nothing_saved_anywhere_can_be_drawn() -> None:
    nothing = FEW.model_copy(update={"fault_scale": 0.0, "checkpoint_interval_min": 60.0})
    assert "0 %" in _texts(draw(sweep(nothing, [Axis("repair_h", (1.0, 2.0))])))
    two = [Axis("repair_h", (1.0, 2.0)), Axis("restart_min", (1.0, 2.0))]
    assert "0.00" in _texts(draw(sweep(nothing, two)))
