"""`sglb tune --on live` on veth: both runs complete, what is set is in force, nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sglb.cli import main
from sglb.fabric import scenario as scenarios
from sglb.fabric.live import namespaces
from sglb.fabric.live.errors import LiveError
from sglb.fabric.live.lossless import live_buffers
from sglb.fabric.live.scaled import check, scaled
from sglb.watermark.live.process import mean
from sglb.watermark.live.session import live_space
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


@pytest.mark.live
@pytest.mark.alone  # links are shaped and rates controlled in real time
@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
def test_live_switches_are_tuned_while_packets_run(tmp_path: Path, capsys) -> None:
    path, told = tmp_path / "small.yaml", tmp_path / "told.json"
    text = EXAMPLE.read_text().replace("bytes: 50000000", "bytes: 3000000")
    path.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "tune",
                str(path),
                "--on",
                "live",
                "--interval-us",
                "200000",
                "--json",
                str(told),
                "-q",
            ]
        )
    assert not ended.value.code, capsys.readouterr().err
    found = json.loads(told.read_text())
    for run in (found["fixed"], found["tuned"]):
        assert run["report"]["completed"]
        assert run["report"]["lost_packets"] == 0
        assert run["tuner"]["telemetry_bytes"] > 0
        assert run["tuner"]["telemetry_bad"] == 0
    steps = found["tuned"]["tuner"]["steps"]
    assert len(steps) > 3
    assert len({tuple(step["place"]) for step in steps}) > 1
    assert found["fixed"]["tuner"]["steps"] == []
    # The senders were seen, and what had gone wrong: deep queues.
    seen = [one for one in found["fixed"]["tuner"]["seen"] if one["load"]]
    assert max(one["fan_in"] for one in seen) >= 2.0
    assert min(one["delay"] for one in seen) < 0.5


def test_where_it_cannot_run(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["tune", str(EXAMPLE), "--on", "bmv2"])
    assert "--on is sim or live, not bmv2: BMv2 has neither pauses" in capsys.readouterr().err
