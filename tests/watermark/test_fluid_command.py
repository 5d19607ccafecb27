"""`sglb fluid` as a user types it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from command_kit import Command

LOSSLESS = str(Path(__file__).parents[2] / "examples" / "lossless.yaml")
SHORT = ["--duration-us", "2000"]


@pytest.fixture
def fluid(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys, "fluid")


def test_it_tells_queues_and_the_fixed_point(fluid: Command) -> None:
    marks = ["--kmin-bytes", "5e3", "--kmax-bytes", "2e5", "--pmax", "0.1"]
    code, out, err = fluid(*SHORT, *marks)
    assert (code, err) == (0, "")
    assert "8 flows to one host, on one switch, 40 Gbit/s" in out
    # 5 KB + .00455 / .1 x 195 KB
    assert "fixed point: 0.455 % marked, queue at 13.9 kB" in out


def test_a_sweep_is_a_table_a_drawing_and_json(fluid: Command, tmp_path: Path) -> None:
    drawing, numbers = tmp_path / "sweep.svg", tmp_path / "sweep.json"
    sweeps = ["--sweep", "flows=2,8", "--sweep", "kmin_bytes=5e3..5e4:3:log"]
    code, out, _ = fluid(*SHORT, *sweeps, "--plot", drawing, "--json", numbers)
    assert code == 0
    rows = [line.split() for line in out.splitlines() if line[:2] in ("2 ", "8 ")]
    # The geometric mean of 5,000 and 50,000 is 15,811.
    assert [(r[0], r[1]) for r in rows] == [
        (n, k) for n in ("2", "8") for k in ("5000", "15811.4", "50000")
    ]
    points = json.loads(numbers.read_text())
    assert [p["flows"] for p in points] == [2, 2, 2, 8, 8, 8]
    assert points[3]["queue_max_bytes"] > points[0]["queue_max_bytes"] > 0
    root = ET.fromstring(drawing.read_text())
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 4 * 2


def test_a_run_is_drawn(fluid: Command, tmp_path: Path) -> None:
    drawing = tmp_path / "run.svg"
    code, _, _ = fluid(*SHORT, "--uplink", "--buffer-bytes", "2e6", "--plot", drawing)
    assert code == 0
    root = ET.fromstring(drawing.read_text())
    words = "".join(root.itertext())
    assert "uplink" in words
    assert "queues, kB" in words


def test_a_scenario_is_solved(fluid: Command) -> None:
    code, out, _ = fluid(LOSSLESS, "--duration-us", "400", "--json", "-")
    assert code == 0
    found = json.loads(out)
    assert found["watermarks"]["alpha"] == 0.5
    assert len(found["flows"]) == 56
    assert all(flow["lost_bytes"] == 0 for flow in found["flows"].values())


def test_a_space_is_pruned(fluid: Command, tmp_path: Path) -> None:
    numbers = tmp_path / "space.json"
    options = ["--space", "sonic", "--feedback-us", "8", "--duration-us", "200"]
    code, out, _ = fluid(*options, "--flows", "2", "--start-gbps", "20", "--json", numbers)
    assert code == 0
    assert "headroom that a port needs" in out
    found = json.loads(numbers.read_text())
    assert sum(found["cut"].values()) + len(found["kept"]) == found["settings"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--kmin-bytes", "5e5"], "kmin_bytes (500,000) must not exceed kmax_bytes (400,000)"),
        (["--flows", "0"], "at least 1 flow"),
        (["--feedback-us", "0"], "feedback_us must be above 0"),
        (["--step-us", "100"], "longer than feedback_us of the hop into 'port' (85 us)"),
        (["--sweep", "kmn=1"], "cannot sweep 'kmn'"),
        (["--sweep", "pmax=0.5..2:3"], "at pmax=1.25: pmax is a probability"),
        (["--sweep", "flows=2.5"], "flows must be whole"),
        (["--sweep", "kmin_bytes=5..1"], "the range must go up"),
        (["--sweep", "kmin_bytes=a"], "write KEY=A..B"),
        (["--plot", "a.png"], "draws SVG only"),
        (["--space", "abacus"], "no such device; known: sonic"),
        (["--space", "sonic", "--sweep", "pmax=0.1"], "neither --sweep nor --plot"),
        ([LOSSLESS, "--flows", "3"], "give one"),
    ],
)
def test_mistakes_are_told_in_one_line(fluid: Command, arguments: list[str], text: str) -> None:
    error = fluid.refused(*arguments)
    assert text in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1
