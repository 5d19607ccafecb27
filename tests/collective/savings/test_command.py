"""`sglb savings` as a user types it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from command_kit import Command

FEW = ["--runs", "50", "--days", "5"]


@pytest.fixture
def savings(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys, "savings")


def test_it_prints_savings_beside_all_that_they_assume(savings: Command) -> None:
    code, out, err = savings(*FEW, "--restart-min", "68")
    assert (code, err) == (0, "")
    assert "failover saves 0." in out
    assert "failover pays from any restart time" in out
    assert "working again 68 min later" in out
    assert "35 in Llama 3 405B, 54 days on 16,384 H100, table 5" in out
    # Given, so no default; what was not given is marked.
    assert "16,384 GPUs for 5 days by the clock = 1.966 M GPU-hours [default: gpus]" in out


def test_every_kind_of_fault_has_its_source(savings: Command) -> None:
    _, out, _ = savings(*FEW)
    assert out.count("in Llama 3 405B, 54 days") == 18
    _, brief, _ = savings(*FEW, "--brief")
    assert "host memory" not in brief
    assert "one every 3.093 h (1.97e-05 per GPU-hour)" in brief


def test_a_file_and_options_over_it(savings: Command, tmp_path: Path) -> None:
    file, found = tmp_path / "run.yaml", tmp_path / "out.json"
    file.write_text(
        "gpus: 1024\ndays: 3\nruns: 20\ncheckpoint_interval_min: exact\nfailover_saves: [nic]\n"
        "faults:\n  fan: {per_gpu_hour: 1.0e-4, source: ours}\n"
    )
    code, _, err = savings(file, "--days", "4", "--failover-saves", "nic,switch", "--json", found)
    assert (code, err) == (0, "")
    data = json.loads(found.read_text())
    settings = data["settings"]
    assert (settings["gpus"], settings["days"], settings["runs"]) == (1024, 4, 20)
    assert settings["failover_saves"] == ["nic", "switch"]
    assert data["faults"]["fan"]["source"] == "ours"
    assert data["gpu_hours"] == 1024 * 96


def test_json_on_standard_output_is_nothing_but_json(savings: Command) -> None:
    code, out, err = savings(*FEW, "--json", "-")
    assert code == 0
    saved = json.loads(out)["saved_gpu_hours"]
    assert saved["low"] <= saved["mean"] <= saved["high"]
    assert "What this assumes" in err


def test_mistakes_of_a_file_name_its_line_and_key(savings: Command, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("gpus: 8\n\nrestart_min: -1\nfaults:\n  fan:\n    per_gpu_hour: often\n")
    assert savings.refused(file).splitlines() == [
        f"{file}:3: restart_min: should be greater than or equal to 0, got -1",
        f"{file}:6: faults.fan.per_gpu_hour: must be a number, got 'often'",
    ]
    file.write_text("gpus: [8\n")
    assert savings.refused(file).startswith(f"{file}:2: is not YAML")
    assert "cannot be read" in savings.refused(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--restart-min", "-1"], "--restart-min: should be greater than or equal to 0, got -1.0"),
        (["--failover-saves", "gpu"], "--failover-saves: must be one of nic, link, switch"),
        (["--checkpoint-interval-min", "soon"], "--checkpoint-interval-min: must be one of"),
        (["--checkpoint-interval-min", "nan"], "--checkpoint-interval-min: should be a finite"),
        (["--fault-scale", "9999"], "10,000 runs with about"),
        (["--sweep", "restart_min"], "--sweep restart_min: write KEY=FROM..TO"),
        (["--sweep", "repair_h=-1..5"], "--sweep repair_h: should be greater than or equal to 0"),
        (["--plot", "a.svg"], "--plot draws a sweep; say --sweep"),
        (["--sweep", "days=1..2", "--plot", "a.png"], "--plot a.png: draws SVG only"),
    ],
)
def test_mistakes_of_options_name_them(
    savings: Command, arguments: list[str], complaint: str
) -> None:
    said = savings.refused(*arguments)
    assert said.startswith(f"error: {complaint}")
    assert said.count("\n") == 1


def test_a_sweep_with_drawing_and_json(savings: Command, tmp_path: Path) -> None:
    drawing, found = tmp_path / "a.svg", tmp_path / "a.json"
    code, out, err = savings(
        *FEW, "--sweep", "repair_h=0..48:3", "--plot", drawing, "--json", found
    )
    assert (code, err) == (0, "")
    assert "failover pays up to repair_h = " in out
    assert ET.fromstring(drawing.read_text()).tag.endswith("svg")
    data = json.loads(found.read_text())
    assert data["sweep"] == [{"key": "repair_h", "values": [0, 24, 48]}]
    assert [p["at"]["repair_h"] for p in data["points"]] == [0, 24, 48]
    assert data["points"][0]["settings"]["runs"] == 50


def test_a_sweep_of_two_keys_is_a_table(savings: Command) -> None:
    _, out, _ = savings(
        *FEW, "--sweep", "restart_min=0,60", "--sweep", "reroute=balanced,neighbour"
    )
    rows = [line.split() for line in out.splitlines()]
    assert ["restart_min", "\\", "reroute", "balanced", "neighbour"] in rows
    assert any(row[:1] == ["60"] and len(row) == 5 for row in rows)


def test_a_sweep_that_fails_leaves_no_file(savings: Command, tmp_path: Path) -> None:
    drawing = tmp_path / "a.svg"
    savings.refused("--sweep", "exposed_communication=0..2", "--plot", drawing)
    assert not drawing.exists()


def test_what_never_comes_is_told_so(savings: Command) -> None:
    _, out, _ = savings(*FEW, "--network-fault-scale", "0")
    assert "failover takes none" in out
    assert "failover has nothing to save here" in out
