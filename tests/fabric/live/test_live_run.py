"""A scenario on real packets: cuts heal, who is killed is replaced, and nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sglb.cli.app import app
from sglb.fabric import scenario as scenarios
from sglb.fabric.live.errors import LiveError
from sglb.fabric.live.folders import PREFIX
from sglb.fabric.live.namespaces import why_not
from sglb.fabric.report import RunReport
from sglb.fabric.run import LiveOptions, run

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,  # heartbeats are due every few ms, in ten processes
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]

SGLB = Path(sys.executable).with_name("sglb")
SCENARIO: dict[str, Any] = {
    "name": "live",
    "topology": {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 1}},
    # Two seconds at 20 Mbit/s, however slow the machine is.
    "workload": {"flows": [{"src": "h0", "dst": "h1", "bytes": 1024, "start_us": 400}]},
    "transport": {"mtu_bytes": 1024},
    "live": {"rate_scale": 5_000, "probes_per_s": 500, "missed_count": 10, "stop_s": 40},
    "policies": ["glb"],
}
LONG: dict[str, Any] = SCENARIO | {
    "workload": {"flows": [{"src": "h0", "dst": "h1", "bytes": 1024, "start_us": 6_000}]}
}


def children(marker: str) -> list[int]:
    """Processes with a file of this folder's open, or in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def until(condition: Callable[[], object], what: str, seconds: float = 150) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.05)


@contextmanager
def command(
    tmp_path: Path, data: dict[str, Any], on: str = "live"
) -> Iterator[subprocess.Popen[str]]:
    """`sglb run --on live`, or bmv2, in a temporary folder of its own, which marks its processes."""
    file = tmp_path / "live.yaml"
    file.write_text(json.dumps(data))
    process = subprocess.Popen(
        [SGLB, "run", str(file), "--on", on, "--json", str(tmp_path / "live.json"), "-q"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def all_named(tmp_path: Path, name: str) -> list[int]:
    """The processes of a fabric with that name."""
    found = []
    for pid in children(f"TMPDIR={tmp_path}"):
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() == name[:15]:
                found.append(pid)
    return found


def named(tmp_path: Path, name: str) -> int:
    """The process of a fabric with that name; 0 without one."""
    return next(iter(all_named(tmp_path, name)), 0)


def nothing_left(tmp_path: Path) -> bool:
    return not list(tmp_path.glob(f"{PREFIX}*")) and not children(f"TMPDIR={tmp_path}")


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunReport, Path]:
    """A link is cut, comes back, and turns into a black hole in one direction."""
    logs = tmp_path_factory.mktemp("logs")
    faults = [
        {"at_us": 100, "down": "leaf1-spine1"},
        {"at_us": 160, "up": "leaf1-spine1"},
        {"at_us": 300, "blackhole": "spine0->leaf1"},
    ]
    given = scenarios.from_dict(SCENARIO | {"faults": faults})
    return run(given, on="live", live=LiveOptions(logs=logs)), logs


def test_a_cut_is_found_and_told_by_data_planes_and_traffic_goes_on(
    cut: tuple[RunReport, Path],
) -> None:
    found = cut[0].policies["glb"]
    assert found.completed
    assert found.live is not None
    down, hole = found.recoveries
    assert (down.kind, hole.kind) == ("link down", "black hole")
    for window in found.live.windows:
        assert window.told_us is not None  # how soon, bench/convergence.py says
    # A third of all probes would be lost if nobody had found another way.
    assert found.live.probes > 500
    assert found.live.probes_lost < found.live.probes / 4
    assert found.live.restarts == {}


def test_what_a_live_run_cannot_know_is_not_zero(cut: tuple[RunReport, Path]) -> None:
    found = cut[0].policies["glb"]
    assert found.recovery is not None
    assert found.recovery.sent_into_dead_path is None
    assert found.max_queue_bytes
    assert RunReport.from_json(cut[0].to_json()) == cut[0]


def test_logs_of_all_processes_are_kept_where_asked_for(cut: tuple[RunReport, Path]) -> None:
    names = {path.stem for path in (cut[1] / "glb").glob("*.log")}
    switches = {"leaf0", "leaf1", "spine0", "spine1"}
    agents = {f"agent-{name}" for name in switches}
    assert names == switches | agents | {"controller", "standby", "traffic"}


def test_a_standby_takes_over_and_killed_processes_are_replaced(tmp_path: Path) -> None:
    with command(tmp_path, LONG) as process:
        until(lambda: named(tmp_path, "traffic"), "the traffic's start")
        os.kill(named(tmp_path, "controller"), signal.SIGKILL)
        os.kill(named(tmp_path, "agent-leaf0"), signal.SIGKILL)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    found = RunReport.from_json((tmp_path / "live.json").read_text()).policies["glb"]
    assert found.live is not None
    assert found.live.restarts == {"agent-leaf0": 1, "controller": 1}
    assert found.control["standby"]["takeovers"] >= 4
    assert nothing_left(tmp_path)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_nothing_is_left_of_a_command_that_is_interrupted(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    with command(tmp_path, LONG) as process:
        until(lambda: named(tmp_path, "spine1"), "the last switch")
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == status
    until(lambda: nothing_left(tmp_path), "the fabric's end", 30)


def test_nothing_is_left_of_a_fabric_whose_supervisor_is_killed(tmp_path: Path) -> None:
    with command(tmp_path, LONG) as process:
        until(lambda: named(tmp_path, "spine1"), "the last switch")
        leaf = named(tmp_path, "leaf0")
        supervisor = int(Path(f"/proc/{leaf}/stat").read_text().split()[3])
        os.kill(supervisor, signal.SIGKILL)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the live fabric's supervisor ended without a result" in output
    until(lambda: nothing_left(tmp_path), "the fabric's end", 30)


def test_a_switch_that_dies_ends_the_run_with_a_line_that_names_it(tmp_path: Path) -> None:
    with command(tmp_path, LONG) as process:
        until(lambda: named(tmp_path, "spine1"), "the last switch")
        os.kill(named(tmp_path, "spine1"), signal.SIGKILL)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "spine1 ended with signal 9" in output
    until(lambda: nothing_left(tmp_path), "the fabric's end", 30)


def test_a_trace_is_refused() -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(SCENARIO, file)
        file.flush()
        result = CliRunner().invoke(app, ["run", file.name, "--on", "live", "--trace"])
    assert "traced on --on sim" in str(result.exception)


BMV2 = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in ("p4c-bm2-ss", "simple_switch_grpc")),
    reason="needs simple_switch_grpc and p4c-bm2-ss on PATH",
)


@BMV2
def test_the_same_scenario_on_bmv2() -> None:
    data = SCENARIO | {
        "faults": [{"at_us": 200, "down": "leaf1-spine1"}],
        "policies": ["ecmp", "glb"],
    }
    report = run(scenarios.from_dict(data), on="bmv2")
    for found in report.policies.values():
        assert found.completed
        assert found.max_queue_bytes is None
        assert found.live is not None
        assert found.live.target == "bmv2"
        # Half of all probes would be lost for the half of the run after the cut.
        assert found.live.probes_lost < found.live.probes / 4
    glb = report.policies["glb"].recovery
    assert glb is not None
    assert glb.detected_by == "data plane"


@BMV2
@pytest.mark.parametrize("policy", ["ecmp", "glb"])
def test_a_bmv2_starts_anew_and_a_standby_takes_over(policy: str, tmp_path: Path) -> None:
    # At 1/50,000 a microsecond is 50 ms: a second without the spine, then ten more.
    faults = [{"at_us": 40, "down_switch": "spine1"}, {"at_us": 60, "up_switch": "spine1"}]
    flows = [{"src": "h0", "dst": "h1", "bytes": 1024, "start_us": 260}]
    data = SCENARIO | {"faults": faults, "workload": {"flows": flows}, "policies": [policy]}
    data["live"] = {"rate_scale": 50_000, "stop_s": 60}

    def switches() -> int:
        return len(all_named(tmp_path, "simple_switch_grpc"))

    with command(tmp_path, data, on="bmv2") as process:
        until(lambda: named(tmp_path, "traffic"), "the traffic's start")
        until(lambda: switches() == 3, "the end of a switch")
        until(lambda: switches() == 4, "its return")
        os.kill(named(tmp_path, "controller"), signal.SIGKILL)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    found = RunReport.from_json((tmp_path / "live.json").read_text()).policies[policy]
    assert found.live is not None
    assert found.live.restarts == {"controller": 1}
    assert found.control["standby"]["takeovers"] == 1
    assert found.control["controller"]["takeovers"] == 0
    assert found.control["standby"]["links"] == {}  # all switches forward, the new one as well
    assert found.live.probes_lost < found.live.probes / 4
    assert nothing_left(tmp_path)


def test_without_bmv2_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LiveError, match="p4c-bm2-ss is not on PATH"):
        run(scenarios.from_dict(SCENARIO), on="bmv2")
