"""`sglb tune` on a scenario: what it writes, keeps and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sglb.cli import main

SMALL = """
name: small
engine: native
topology:
  leaf_spine: {leaves: 2, spines: 1, hosts_per_leaf: 2}
workload:
  incast: {to: h3, from: [h0, h1], bytes: 2000000}
switch:
  buffer:
    total_bytes: 4194304
    dynamic_th: -1
    classes: [{class: 3, lossless: true, scheduling: dwrr, weight: 1}]
  pfc: {enabled: true}
  ecn: {kmin_bytes: 100000, kmax_bytes: 400000, pmax: 0.2}
transport: {traffic_class: 3, window_packets: null, dcqcn: {enabled: true}}
policies: [ecmp]
stop_us: 20000
"""
Sglb = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sglb(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Sglb:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)

    def call(*options: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["tune", str(file), "--interval-us", "100", "--no-model", *map(str, options)])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def test_tables_and_a_page_of_two_seeds_and_nothing_run_twice(sglb: Sglb, tmp_path: Path) -> None:
    page, kept, numbers = (tmp_path / name for name in ("p.html", "kept.json", "n.json"))
    wanted = ("--repeat", 2, "--html", page, "--resume", kept, "--json", numbers)
    code, out, _ = sglb(*wanted)
    assert code == 0
    for heading in (
        "small, ecmp, seed 2",
        "steps taken, of ",
        "ports at last",
        "ports were paused for",
    ):
        assert heading in out
    drawn = page.read_text()
    assert drawn.count("<svg") == 4
    levels = json.loads(numbers.read_text())[0]["parameters"]["kmin_bytes"]["levels"]
    assert all(f">{level:,.0f}</text>" in drawn for level in levels)
    assert ("breaks a rule of the space" in out) == ("breaks a rule of the space" in drawn)
    first, second = json.loads(numbers.read_text())
    assert first["steps"] != second["steps"]
    assert len(first["ports"]) == 2 * 3 + 2
    told = numbers.read_text()
    assert sglb(*wanted)[0] == 0
    assert numbers.read_text() == told
    # Kept runs are shown as they are: a changed number comes back.
    document = json.loads(kept.read_text())
    document["runs"]["2"]["tuned"]["tuned"]["score"] = 0.125
    kept.write_text(json.dumps(document))
    assert "0.1250" in sglb(*wanted)[1]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--resume", "{tmp}/other"), "no results of sglb tune"),
        (("--policy", "glb"), "no policy glb"),
        (("--throughput", 0, "--delay", 0, "--pauses", 0), "not all 0"),
        (("--repeat", 0), "repeat"),
        (("--html", "{tmp}/none/p.html"), "p.html"),
        (("--resume", "/dev/zero"), "/dev/zero: no file"),
        (("--apply",), "--apply has no meaning with a simulated scenario"),
        (("--guard", "{tmp}/other"), "--guard has no meaning"),
        (("--on", "live", "--resume", "{tmp}/other"), "no results of sglb tune"),
        (("--on", "live", "--html", "{tmp}/none/p.html"), "p.html"),
        (("--on", "live", "--repeat", 2), "--repeat has no meaning with --on live"),
        (("--sonic", "127.0.0.1", "--repeat", 2), "--repeat has no meaning with --sonic"),
        (("--pool-bytes", 5), "--pool-bytes has no meaning"),
        (("--rtt-us", 5), "--rtt-us has no meaning"),
        (("--sonic", "127.0.0.1", "--pool-bytes", 0), "--pool-bytes"),
        (("--sonic", "127.0.0.1", "--pool-bytes", 1 << 60), "--pool-bytes"),
        (("--sonic", "127.0.0.1", "--rtt-us", 0), "--rtt-us"),
        (("--sonic", "127.0.0.1", "--rtt-us", "inf"), "--rtt-us"),
        (("--interval-us", "nan"), "--interval-us"),
        (("--interval-us", "inf"), "--interval-us"),
        (("--json", "{tmp}/x", "--html", "{tmp}/x"), "--json and --html are both"),
        (("--json", "{tmp}/x", "--html", "{tmp}/../{tmp.name}/x"), "--json and --html are both"),
        (("--json", "-", "--html", "-"), "--json and --html are both -"),
        (("--html", "{tmp}/x", "--resume", "{tmp}/x"), "--html and --resume are both"),
        (
            ("--on", "live", "--json", "{tmp}/x", "--resume", "{tmp}/x"),
            "--json and --resume are both",
        ),
        (("--sonic", "h", "--json", "{tmp}/x", "--html", "{tmp}/x"), "--json and --html are both"),
    ],
)
def test_what_is_refused(
    sglb: Sglb, tmp_path: Path, options: tuple[object, ...], text: str
) -> None:
    (tmp_path / "other").write_text("not ours")
    code, _, err = sglb(*(str(one).format(tmp=tmp_path) for one in options))
    assert code != 0
    assert text in err
    assert "Traceback" not in err


def test_an_interval_longer_than_the_run_is_told(sglb: Sglb, tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    code, out, err = sglb("--interval-us", 1_000_000, "--html", page)
    assert code == 0
    assert "nothing was tuned" in err
    drawn = page.read_text()
    assert "<svg" not in drawn
    for text in (out, drawn):
        assert text.count("no interval was measured") >= 2
        assert "0.0000" not in text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_told_with_its_file(sglb: Sglb) -> None:
    code, _, err = sglb("--json", "/dev/full")
    assert (code, err.splitlines()[-1]) == (1, "error: /dev/full: No space left on device")
