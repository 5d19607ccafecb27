"""`sglb tune --on live` on veth: both runs complete, what is set is in force, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from sglb.cli import main
from sglb.fabric import scenario as scenarios
from sglb.fabric.live import namespaces
from sglb.fabric.live.errors import LiveError
from sglb.fabric.live.lossless import live_buffers
from sglb.fabric.live.scaled import check, scaled
from sglb.fabric.metrics import LossStats, Spread, TransportStats
from sglb.fabric.report import FlowsReport, PolicyReport
from sglb.watermark.errors import WatermarkError
from sglb.watermark.live.page import document, heads, page, price, rows
from sglb.watermark.live.process import mean
from sglb.watermark.live.session import LiveOptions, LiveRun, LiveTuned, live_space
from sglb.watermark.live.store import LiveResults
from sglb.watermark.objective import Weights
from sglb.watermark.tuner.observation import Observation
from sglb.watermark.tuner.spaces import nearest_feasible

EXAMPLE = Path(__file__).parents[3] / "examples" / "tune" / "live-incast.yaml"
WHY_NOT = namespaces.why_not()


def test_the_example_in_real_time() -> None:
    real = scaled(scenarios.load(EXAMPLE), 2_000)
    leaf = real.topology.node("leaf0").id
    found = live_buffers(real, leaf)
    assert found is not None
    assert found.lossless == (3,)
    # 20 ms at 50 Mbit/s are 125,000 bytes, beside what the scenario's own formula asks for.
    assert set(found.headroom_bytes) == {(port, 3) for port in real.topology.ports(leaf)}
    assert all(size > 125_000 for size in found.headroom_bytes.values())
    assert found.total_bytes == 4_194_304
    space, given = live_space(real)
    assert space.why_not(given) == "PFC before ECN"
    assert space.why_not(nearest_feasible(space, given)) is None
    headroom = space.values(given)["headroom_bytes"]
    assert headroom == max(found.headroom_bytes.values())


def test_what_cannot_be_lossless_live() -> None:
    scenario = scenarios.load(EXAMPLE)
    with pytest.raises(LiveError, match=r"switch.buffer.total_bytes: the live fabric does not"):
        check(scenario, "bmv2")
    with pytest.raises(LiveError, match="too little for pauses"):
        live_buffers(scaled(scenario, 200_000), scenario.topology.node("leaf0").id)
    with pytest.raises(LiveError, match="headroom alone takes"):
        live_buffers(scaled(scenario, 10), scenario.topology.node("leaf0").id)


def test_an_interval_is_the_mean_of_what_moved() -> None:
    idle = Observation(10, 0.0, 1.0, 1.0, 1, 0.0, 0.0)
    parts = [
        Observation(10, 0.5, 0.5, 1.0, 0, 2.0, 0.5),
        idle,
        Observation(10, 1.0, 0.3, 0.8, 2, 4.0, 0.5),
    ]
    assert mean(parts) == Observation(30, 0.75, 0.4, 0.9, 3, 3.0, 0.5)
    assert mean([idle, idle]).idle


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(EXAMPLE.read_text().replace("bytes: 50000000", "bytes: 3000000"))
    return path


def on_live(scenario: Path, *more: str) -> list[str]:
    return ["tune", str(scenario), "--on", "live", "--interval-us", "200000", *more]


@pytest.mark.live
@pytest.mark.alone  # links are shaped and rates controlled in real time
@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
def test_live_switches_are_tuned_while_packets_run(small: Path, tmp_path: Path, capsys) -> None:
    told, drawn, kept = tmp_path / "told.json", tmp_path / "page.html", tmp_path / "kept"
    command = on_live(small, "--json", str(told), "--html", str(drawn), "--resume", str(kept))
    with pytest.raises(SystemExit) as ended:
        main([*command, "-q"])
    assert not ended.value.code, capsys.readouterr().err
    found = json.loads(told.read_text())
    assert not found["partial"]
    for run in (found["fixed"], found["tuned"]):
        assert run["report"]["completed"]
        assert not run["partial"]
        assert run["report"]["lost_packets"] == 0
        assert run["tuner"]["telemetry_bytes"] > 0
        assert run["tuner"]["telemetry_bad"] == 0
    steps = found["tuned"]["tuner"]["steps"]
    assert len(steps) > 3
    assert len({tuple(step["place"]) for step in steps}) > 1
    assert found["fixed"]["tuner"]["steps"] == []
    # The senders were seen, and what had gone wrong: deep queues. On a busy machine they start apart.
    seen = [one for one in found["fixed"]["tuner"]["seen"] if one["load"]]
    assert max(one["fan_in"] for one in seen) > 1.0
    assert min(one["delay"] for one in seen) < 0.5
    # What the ports had, as read from the switches: in cells of 80 bytes, 4 ports at each leaf.
    ports = found["ports"]
    assert [p["switch"] for p in ports] == ["leaf0"] * 4 + ["leaf1"] * 4 + ["spine0"] * 2
    assert {p["towards"] for p in ports[:4]} == {"h0", "h1", "h2", "spine0"}
    last = found["last"]
    for port in ports:
        assert port["kmin_bytes"] == last["kmin_bytes"] // 80 * 80
        assert port["alpha"] == last["alpha"]
        assert port["headroom_bytes"] > 125_000
    before = found["fixed"]["tuner"]["ports"]
    assert {p["kmin_bytes"] for p in before} == {1_048_576 // 80 * 80}
    page = drawn.read_text()
    assert page.count("<svg") == 2
    assert "partial" not in page
    assert all(f"<td>{step['score']:.4f}</td>" in page for step in steps)
    # A second call shows what is kept and runs nothing.
    with pytest.raises(SystemExit) as ended:
        main(on_live(small, "--json", "-", "--resume", str(kept)))
    out, err = capsys.readouterr()
    assert not ended.value.code
    assert json.loads(out) == found
    assert "flow completion, 99 %" in err


@pytest.mark.live
@pytest.mark.alone
@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, "fixed"), (signal.SIGTERM, "tuned")])
def test_an_interrupted_run_keeps_what_it_has_measured(
    tmp_path: Path, number: signal.Signals, kind: str
) -> None:
    path, told, kept = tmp_path / "f.yaml", tmp_path / "told.json", tmp_path / "kept"
    # The first run is to be over soon, the second one not at all.
    path.write_text(
        EXAMPLE.read_text().replace("50000000", "9000000" if kind == "fixed" else "3000000")
    )
    process = started(tmp_path, on_live(path, "--json", str(told), "--resume", str(kept)))
    try:
        if kind == "tuned":
            until(kept.exists, process)
        until(lambda: list(tmp_path.glob("*/traffic.log")), process)
        time.sleep(1.0)  # four intervals or so
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 128 + number, err
    run = "as it is" if kind == "fixed" else "tuned"
    assert f"interrupted: in the run {run}, after " in err
    assert f"{run}, partial" in out
    found = json.loads(told.read_text())
    assert found["partial"]
    assert found[kind]["partial"]
    assert found[kind]["tuner"]["seen"]
    assert not found[kind]["report"]["completed"]
    assert kept.exists() == (kind == "tuned")  # only what ended is kept
    if kind == "tuned":
        assert not found["fixed"]["partial"]
        assert list(json.loads(kept.read_text())["runs"]["1"]) == ["fixed"]
    else:
        assert found["tuned"] is None
    assert processes_of(tmp_path) == []
    assert [p for p in tmp_path.iterdir() if p.is_dir()] == []


@pytest.mark.live
@pytest.mark.alone
@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
def test_what_a_new_controller_sets_back_is_put_in_force_again(tmp_path: Path) -> None:
    path, told, kept = tmp_path / "f.yaml", tmp_path / "told.json", tmp_path / "kept"
    path.write_text(EXAMPLE.read_text().replace("50000000", "16000000"))
    process = started(tmp_path, on_live(path, "--json", str(told), "--resume", str(kept)))
    try:
        until(kept.exists, process)
        until(lambda: list(tmp_path.glob("*/traffic.log")), process)
        time.sleep(2.0)  # in the middle of the tuned run
        (controller,) = (
            pid
            for pid in processes_of(tmp_path)
            if Path(f"/proc/{pid}/comm").read_text().strip() == "controller"
        )
        os.kill(controller, signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, err
    assert "A controller that took over had set it back" in out
    found = json.loads(told.read_text())
    assert found["tuned"]["report"]["live"]["restarts"]["controller"] == 1
    assert found["tuned"]["tuner"]["overwritten"] >= 1
    assert {p["kmin_bytes"] for p in found["ports"]} == {found["last"]["kmin_bytes"] // 80 * 80}


def started(folder: Path, command: list[str]) -> subprocess.Popen[str]:
    """The command in a process of its own, with its temporary files in a folder."""
    return subprocess.Popen(
        [sys.executable, "-c", "from sglb.cli import main; main()", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(folder)},
    )


def until(holds, process: subprocess.Popen[str]) -> None:
    end_s = time.monotonic() + 120
    while not holds():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end_s
        time.sleep(0.02)


def processes_of(folder: Path) -> list[int]:
    """Those that were started with this folder for temporary files; namespaces end with them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"TMPDIR={folder}\0".encode() in path.read_bytes() + b"\0":
                found.append(int(path.parent.name))
    return found


SEEN = {
    "duration_us": 2e5,
    "throughput": 0.5,
    "delay": 0.25,
    "unpaused": 1.0,
    "lost_packets": 0,
    "fan_in": 3.0,
    "load": 0.5,
}


def run_of(score: float, seconds: float, **seen: float) -> LiveRun:
    """A run of one interval, as a report and a tuner's process would tell it."""
    spread = Spread(1, *([seconds * 1e6] * 5))
    flows = FlowsReport(3, 3, spread, spread)
    report = PolicyReport(
        *("ecmp", True, seconds * 1e6, 1.0, 1.0, 0, 9, "leaf0", None, ()),
        *(flows, LossStats(0, 0, 0), TransportStats(), {}, {}, seconds * 1e6, 1),
    )
    said = {
        "seen": [SEEN | seen],
        "score": [score],
        "settings": [],
        "ports": [],
        "steps": [],
        "searches": 0,
        "telemetry_bytes": 100,
    }
    return LiveRun(report, said)


def pair(fixed: LiveRun | None, tuned: LiveRun | None, interrupted: bool = False) -> LiveTuned:
    space, given = live_space(scaled(scenarios.load(EXAMPLE), 2_000))
    first = space.watermarks(given)
    return LiveTuned(fixed, tuned, first, first, space, 2_000, interrupted)


def test_a_higher_score_that_costs_time_is_told() -> None:
    found = pair(run_of(0.6, 2.0, throughput=0.9), run_of(0.7, 3.0, throughput=0.5))
    (line,) = price(found, Weights(0.3, 0.5, 0.2))
    assert line == (
        "The score is higher, but completion is 3.00 s, not 2.00 s and flow completion, 99 %, is 3.00 "
        "s, not 2.00 s: throughput fell from 0.90 to 0.50, which its weight allows; give it more "
        "(--throughput 0.6)."
    )
    assert line.replace("<", "&lt;") in page("t", found, Weights(0.3, 0.5, 0.2), 0.2)
    assert price(pair(run_of(0.7, 2.0), run_of(0.6, 3.0)), Weights()) == []
    assert price(pair(run_of(0.6, 3.0), run_of(0.7, 2.0)), Weights()) == []


def test_a_comparison_that_was_cut_off_is_drawn_as_partial() -> None:
    cut = replace(run_of(0.6, 2.0), report=replace(run_of(0.6, 2.0).report, interrupted=True))
    found = pair(cut, None, interrupted=True)
    assert heads(found) == ("", "as it is, partial", "tuned")
    assert rows(found)[0] == ("score", "0.6000", "-")
    assert ("data packets lost", "0, or on the way", "-") in rows(found)
    drawn = page("t", found, Weights(), 0.2)
    assert "Interrupted: what is here is partial." in drawn
    assert document(found)["tuned"] is None


def test_what_is_kept_belongs_to_one_target_and_interval(tmp_path: Path) -> None:
    path, scenario = tmp_path / "kept", scenarios.load(EXAMPLE)
    run = run_of(0.6, 2.0)
    LiveResults(path, scenario, "ecmp", LiveOptions()).keep("fixed", run)
    again = LiveResults(path, scenario, "ecmp", LiveOptions())
    assert again.run("fixed") == run
    assert again.run("tuned") is None
    with pytest.raises(WatermarkError, match="results of another scenario, policy or options"):
        LiveResults(path, scenario, "ecmp", LiveOptions(0.25))
    path.write_text(path.read_text().replace('"completed": true', '"completed": "perhaps"'))
    with pytest.raises(WatermarkError, match=r"damaged at runs.1.fixed.report.completed; name"):
        LiveResults(path, scenario, "ecmp", LiveOptions()).run("fixed")


def test_where_it_cannot_run(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["tune", str(EXAMPLE), "--on", "mars"])
    assert "--on is sim, live or bmv2, not mars" in capsys.readouterr().err
