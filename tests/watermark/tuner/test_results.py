"""What `sglb tune` keeps, shows and draws."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from sglb.fabric import scenario as scenarios
from sglb.watermark.errors import WatermarkError
from sglb.watermark.from_scenario import watermarks
from sglb.watermark.objective import Weights
from sglb.watermark.tuner.fabric import PortSetting, Timing
from sglb.watermark.tuner.observation import Observation
from sglb.watermark.tuner.page import page, port_groups, price, price_of
from sglb.watermark.tuner.session import Options, hold, tune
from sglb.watermark.tuner.spaces import nearest_feasible, search_space
from sglb.watermark.tuner.store import Results

EXAMPLES = Path(__file__).parents[3] / "examples" / "tune"
OPTIONS = Options(timing=Timing(100, 400, 8), use_model=False)


def example(name: str, **workload: object) -> scenarios.Scenario:
    model = YAML(typ="safe").load(EXAMPLES / f"{name}.yaml")
    return scenarios.from_dict(model | {"workload": model["workload"] | workload})


def small() -> scenarios.Scenario:
    return example("headroom-too-small", times=3)


@pytest.fixture(scope="module")
def tuned():
    return tune(small(), "ecmp", OPTIONS)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_has_a_place_to_start_from(path: Path) -> None:
    space, given = search_space(scenarios.load(path))
    start = nearest_feasible(space, given)
    assert space.why_not(start) is None
    broken = {
        "ecn-above-pfc": "PFC before ECN",
        "headroom-too-small": "headroom below what arrives after a pause",
    }
    assert broken.get(path.stem) in (None, space.why_not(given))


def test_too_small_a_headroom_is_left_before_the_first_packet(tuned) -> None:
    assert tuned.fixed.losses.data > 0
    assert tuned.fixed.score == 0.0
    assert tuned.tuned.losses.data == 0
    assert tuned.tuned.score > 0.5
    assert {port.headroom_bytes for port in tuned.before} == {4_300}
    (room,) = {port.headroom_bytes for port in tuned.after}
    assert room >= tuned.space.needed_headroom_bytes > 4_300
    at = [p.name for p in tuned.space.parameters].index("headroom_bytes")
    rooms = tuned.space.parameters[at].levels
    assert {rooms[step.place[at]] for step in tuned.steps} == {float(room)}


def test_ports_tell_what_is_in_force(tuned) -> None:
    assert len(tuned.after) == 2 * (4 + 4) + 4 * 2
    for port in tuned.after:
        # Sizes are whole cells of 80 bytes in the switch.
        assert 0 <= tuned.last.kmin_bytes - port.kmin_bytes < 80
        assert 0 <= tuned.last.kmax_bytes - port.kmax_bytes < 80
        assert port.pmax == pytest.approx(tuned.last.pmax, abs=1e-5)
        assert (port.alpha, port.xon_offset_bytes) == (tuned.last.alpha, 3_072)
    assert [p.towards for p in tuned.after if p.switch == "spine1"] == ["leaf0", "leaf1"]


def test_ports_of_one_setting_make_a_line() -> None:
    def port(switch: str, towards: str, kmin: int) -> PortSetting:
        return PortSetting(switch, towards, kmin, 9, 0.5, 1.0, 3, 4)

    found = port_groups(
        [port("a", "x", 1), port("a", "y", 1), port("a", "z", 2), port("b", "x", 1)]
    )
    assert [(towards, one.switch) for towards, one in found] == [
        ("x, y", "a"),
        ("z", "a"),
        ("x", "b"),
    ]


def test_kept_runs_are_the_same_and_are_not_run_again(tuned, tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    results = Results(path, small(), "ecmp", OPTIONS)
    assert results.fixed(1) is None
    held = hold(small(), "ecmp", watermarks(small()), OPTIONS)
    results.keep(1, held)
    results.keep(1, tuned)
    again = Results(path, small(), "ecmp", OPTIONS)
    assert again.fixed(1) == held
    assert again.tuned(1) == tuned
    assert again.tuned(2) is None
    # A fixed run that is known gives the same as one that is run.
    assert tune(small(), "ecmp", OPTIONS, fixed=again.fixed(1)) == tuned


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no results of sglb tune"),
        ("[]", "no results of sglb tune"),
        ('{"format": "sglb tune results 1", "of": "x"}', "of another scenario"),
        (None, r"damaged at runs\.1\.fixed"),
    ],
)
def test_a_file_that_is_none_of_ours(text: str | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    if text is None:
        results = Results(path, small(), "ecmp", OPTIONS)
        results.keep(1, hold(small(), "ecmp", watermarks(small()), OPTIONS))
        document = json.loads(path.read_text())
        document["runs"]["1"]["fixed"]["seen"] = "nothing"
        text = json.dumps(document)
    path.write_text(text)
    with pytest.raises(WatermarkError, match=says):
        Results(path, small(), "ecmp", OPTIONS).fixed(1)


def test_other_options_are_refused(tmp_path: Path, tuned) -> None:
    path = tmp_path / "runs.json"
    Results(path, small(), "ecmp", OPTIONS).keep(1, tuned)
    other = Options(Weights(1, 0, 0), timing=OPTIONS.timing, use_model=False)
    with pytest.raises(WatermarkError, match="another scenario, policy or options"):
        Results(path, small(), "ecmp", other)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_are_results_or_a_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "runs.json"
    path.write_bytes(content)
    with pytest.raises(WatermarkError, match=r"runs\.json"):
        Results(path, small(), "ecmp", OPTIONS)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs) -> None:
        self.seen.append(tag)
        self.links += [value for key, value in attrs if key in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else(tuned) -> None:
    text = page("a <b> & c", [(1, tuned)], Weights(), 500)
    read = _Page()
    read.feed(text)
    assert read.open == []
    assert read.links == []
    assert read.seen.count("svg") == 2
    assert "a &lt;b&gt; &amp; c" in text
    assert f"{tuned.tuned.score:.4f}" in text
    assert len(re.findall("<tr", text)) > len(tuned.steps)


def seen(throughput: float, delay: float, unpaused: float) -> Observation:
    return Observation(1_000, throughput, delay, unpaused, 0, 1.0, 0.5)


def test_what_got_worse_is_told_with_the_weight_that_counts_it() -> None:
    before, after = [seen(0.9, 0.3, 0.99)], [seen(0.8, 0.9, 0.69), seen(0.8, 0.9, 0.69)]
    (line,) = price_of(["x is 2, not 1"], before, after, Weights(0.4, 0.4, 0.25))
    assert line == (
        "The score is higher, but x is 2, not 1: time without pauses fell from 0.99 to 0.69, which its "
        "weight allows; give it more (--pauses 0.5)."
    )
    (line,) = price_of(["x"], before, after, Weights(0.5, 0.5, 0.0))
    assert "(--pauses 1)" in line  # twice nothing is nothing
    (line,) = price_of(["x"], before, before, Weights())
    assert "no part of the score shows it" in line
    assert price_of([], before, after, Weights()) == []


def test_only_a_higher_score_has_a_price(tuned) -> None:
    def ended(score: float, completion_us: float | None) -> object:
        return replace(tuned.tuned, score=score, completion_us=completion_us)

    def lines(fixed: object, new: object) -> list[str]:
        return price(replace(tuned, fixed=fixed, tuned=new), Weights())

    (line,) = lines(ended(0.5, 10_000.0), ended(0.6, 12_000.0))
    assert "The score is higher, but completion is 12,000 us, not 10,000 us: " in line
    assert "completion is none, not 10,000 us" in lines(ended(0.5, 10_000.0), ended(0.6, None))[0]
    assert lines(ended(0.6, 10_000.0), ended(0.5, 12_000.0)) == []
    assert lines(ended(0.5, 12_000.0), ended(0.6, 10_000.0)) == []
