"""A tuning loop's file: it goes on after its end, a kill and a fuller disk, or says why it can't."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sonic_kit import QUEUE_OIDS, Redis
from test_sonic_loop import FAST, GREEN, GUARD

from sglb.cli import main
from sglb.watermark.device import DEVICES, Port
from sglb.watermark.sonic.actuator import Journal, holding
from sglb.watermark.sonic.change import Change
from sglb.watermark.sonic.errors import SonicConflictError, SonicDataError
from sglb.watermark.sonic.fields import Target
from sglb.watermark.sonic.guard import Guard, load_guard
from sglb.watermark.sonic.levels import SonicSpace
from sglb.watermark.sonic.loop import LoopOptions, SonicLoop
from sglb.watermark.sonic.record import Record, Told
from sglb.watermark.space import grid
from sglb.watermark.tuner.annealing import Annealer
from sglb.watermark.tuner.observation import Observation

KMIN = Target.parse(f"{GREEN}_min_threshold")
OF = {"switches": ["a"], "seed": 1}


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    path = tmp_path / "guard.yaml"
    path.write_text(GUARD)
    return load_guard(path)


class Stepped(SonicLoop):
    """In each interval 100 Gbit/s leave by two ports, and queues stand at Kmin."""

    redis: Redis

    def _wait(self, stop) -> None:
        del stop
        time.sleep(0.002)
        counters = self.redis.counters
        kmin = self.redis.config.hget("WRED_PROFILE|AZURE_LOSSLESS", "green_min_threshold")
        for port in ("Ethernet0:3", "Ethernet4:3"):
            counters.hincrby(f"COUNTERS:{QUEUE_OIDS[port]}", "SAI_QUEUE_STAT_BYTES", 1_000_000)
            counters.hincrby(f"COUNTERS:{QUEUE_OIDS[port]}", "SAI_QUEUE_STAT_PACKETS", 1_000)
            counters.hset(
                f"COUNTERS:{QUEUE_OIDS[port]}", "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", kmin
            )


def go(
    switch: Redis, guard: Guard, path: Path, intervals: int, options: LoopOptions = FAST
) -> SonicLoop:
    with holding([switch.address]) as held:
        Stepped.redis = switch
        loop = Stepped([one.database for one in held], guard, options, Record(path))
        loop.run(
            held, Journal(path.with_suffix(".journal")), lambda _: None, lambda: False, intervals
        )
    return loop


def test_a_loop_that_ended_goes_on_with_what_it_knows(
    switch: Redis, guard: Guard, tmp_path: Path
) -> None:
    path = tmp_path / "course"
    first = go(switch, guard, path, 6)
    steps = list(first.annealer.steps)
    assert len(steps) == 6
    second = go(switch, guard, path, 4)
    assert second.record.kept == 6
    assert second.annealer.steps[:6] == steps
    assert len(second.annealer.steps) == 10
    # Levels are those of the first start, though another value stands there now.
    assert second.space.parameters == first.space.parameters
    assert second.record.start == first.record.start
    assert second.record.start is not None
    assert second.record.start[KMIN] == 1_048_576
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum("seen" in line for line in lines) == 10
    # What was written is noted field by field, each from what stood there.
    value = 1_048_576
    for line in lines:
        for change in line.get("written", {}).get(str(switch.address), ()):
            if change["field"] == str(KMIN):
                assert change["before"] == value
                value = change["after"]
    assert int(switch.config.hget("WRED_PROFILE|AZURE_LOSSLESS", "green_min_threshold")) == value


def test_what_another_has_changed_meanwhile_is_left(
    switch: Redis, guard: Guard, tmp_path: Path
) -> None:
    path = tmp_path / "course"
    go(switch, guard, path, 3)
    switch.config.hset("WRED_PROFILE|AZURE_LOSSLESS", "green_max_threshold", "1234567")
    with pytest.raises(SonicConflictError, match=r"is 1234567, .*this loop never set"):
        go(switch, guard, path, 1)
    assert switch.config.hget("WRED_PROFILE|AZURE_LOSSLESS", "green_max_threshold") == "1234567"


def test_after_a_reload_of_the_switch_it_goes_on(
    switch: Redis, guard: Guard, tmp_path: Path
) -> None:
    path = tmp_path / "course"
    go(switch, guard, path, 5)
    switch.fill()  # what stood there at first
    loop = go(switch, guard, path, 1)
    assert len(loop.annealer.steps) == 6


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda line: line.replace('"fan_in": ', '"fan_in": 9'), "another version of the tuner"),
        (
            lambda line: line.replace('"load"', '"lode"'),
            ":3: no course of a tuning loop, or damaged",
        ),
    ],
)
def test_a_changed_file_is_refused(
    switch: Redis, guard: Guard, tmp_path: Path, change, text: str
) -> None:
    path = tmp_path / "course"
    go(switch, guard, path, 6)
    lines = path.read_text().splitlines(keepends=True)
    at = [n for n, line in enumerate(lines) if '"seen"' in line]
    if "damaged" in text:
        text = text.replace(":3:", f":{at[1] + 1}:")
    lines[at[1]] = change(lines[at[1]])
    path.write_text("".join(lines))
    with pytest.raises(SonicDataError, match=text):
        go(switch, guard, path, 1)


def test_a_file_belongs_to_one_loop(switch: Redis, guard: Guard, tmp_path: Path) -> None:
    path = tmp_path / "course"
    go(switch, guard, path, 1)
    with pytest.raises(SonicDataError, match="of a loop with other seed; name another"):
        go(
            switch,
            guard,
            path,
            1,
            LoopOptions(interval_s=0.05, schedule=FAST.schedule, rtt_us=40, seed=2),
        )
    for other in ("", '{"format": "else"}\n', "\x00\n", "half"):
        name = tmp_path / "other"
        name.write_text(other)
        if other:
            with pytest.raises(SonicDataError, match="no course of a tuning loop"):
                Record(name)
            assert name.read_text() == other  # it is left as it was
    with pytest.raises(SonicDataError, match="no file"):
        Record(Path("/dev/zero"))
    with pytest.raises(SonicDataError, match="/dev/full: no file"):
        Record(Path("/dev/full"))


@pytest.mark.usefixtures("traffic")
def test_a_killed_loop_goes_on(switch: Redis, guard: Guard, tmp_path: Path) -> None:
    del guard
    path, course = tmp_path / "guard.yaml", tmp_path / "course"
    args = ["tune", "--sonic", str(switch.address), "--guard", str(path), "--apply"]
    args += ["--interval-us", "50000", "--resume", str(course), "--throughput", "0.5"]
    args += ["--journal", str(tmp_path / "journal")]
    command = [sys.executable, "-c", "from sglb.cli import main; main()", *args]
    loop = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        while not (course.exists() and course.read_text().count('"seen"') >= 5):
            assert loop.poll() is None
            time.sleep(0.02)
        loop.send_signal(signal.SIGKILL)
        loop.wait(timeout=10)
        counted = course.read_text().count('"seen": {')
        switch.state.flushdb()  # its lock would last for a minute
        (tmp_path / "journal").unlink()  # a kill in the middle of a write is `sonic restore`'s
        out = tmp_path / "out.json"
        page = tmp_path / "page.html"
        with pytest.raises(SystemExit) as ended:
            main([*args, "--intervals", "3", "--json", str(out), "--html", str(page)])
        assert not ended.value.code
    finally:
        loop.kill()
        loop.wait(timeout=10)
    found = json.loads(out.read_text())
    assert found["kept_intervals"] >= counted
    assert [one["number"] for one in found["intervals"]] == list(
        range(1, len(found["intervals"]) + 1)
    )
    assert len(found["intervals"]) == found["kept_intervals"] + 3
    assert found["in_force"] == found["best"]
    fields = switch.snapshot()["WRED_PROFILE|AZURE_LOSSLESS"]
    assert found["in_force"][str(KMIN)] == int(fields["green_min_threshold"])
    scored = [one for one in found["intervals"] if one["step"]]
    assert any(one["written"] for one in scored)
    assert scored[0]["step"]["phase"] == "baseline"
    drawn = page.read_text()
    assert drawn.count("<svg") == 2
    assert "The path of the search" in drawn
    assert all(f"<td>{one['step']['score']:.4f}</td>" in drawn for one in scored)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_loop_that_is_ended_leaves_its_reports(
    switch: Redis, guard: Guard, tmp_path: Path, number: signal.Signals
) -> None:
    del guard
    out, course = tmp_path / "out.json", tmp_path / "course"
    args = ["tune", "--sonic", str(switch.address), "--guard", str(tmp_path / "guard.yaml")]
    args += ["--apply", "--interval-us", "50000", "--journal", str(tmp_path / "journal")]
    args += ["--json", str(out), "--html", str(tmp_path / "page.html"), "--resume", str(course)]
    command = [sys.executable, "-c", "from sglb.cli import main; main()", *args]
    loop = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        while not (course.exists() and '"seen"' in course.read_text()):
            assert loop.poll() is None
            time.sleep(0.02)
        loop.send_signal(number)
        text, _ = loop.communicate(timeout=30)
    finally:
        loop.kill()
        loop.communicate()
    assert loop.returncode == 0
    assert "nothing was tried: " in text
    assert json.loads(out.read_text())["ended"] == "signal"
    drawn = (tmp_path / "page.html").read_text()
    assert "<svg" not in drawn  # a curve at 0 would pass for a score
    assert "no interval was measured" in drawn
    assert switch.state.keys("*") == []  # the lock is gone


@pytest.mark.usefixtures("traffic")
def test_an_error_leaves_the_reports_of_what_was_measured(
    switch: Redis, guard: Guard, tmp_path: Path, capsys, monkeypatch
) -> None:
    del guard
    out = tmp_path / "out.json"
    args = ["tune", "--sonic", str(switch.address), "--guard", str(tmp_path / "guard.yaml")]
    args += ["--apply", "--interval-us", "50000", "--journal", str(tmp_path / "journal")]
    saw = Record.saw

    def meddled(record: Record, told: Told) -> None:
        saw(record, told)
        if len(record.intervals) == 2:
            switch.config.hset("WRED_PROFILE|AZURE_LOSSLESS", "green_max_threshold", "1234567")

    monkeypatch.setattr(Record, "saw", meddled)
    with pytest.raises(SystemExit) as ended:
        main([*args, "--json", str(out)])
    assert ended.value.code
    assert "is 1234567 now" in capsys.readouterr().err
    found = json.loads(out.read_text())
    assert "is 1234567 now" in found["ended"]
    assert len(found["intervals"]) >= 2


def test_on_an_idle_switch_it_says_that_nothing_was_tried(
    switch: Redis, guard: Guard, tmp_path: Path, capsys
) -> None:
    del guard
    args = ["tune", "--sonic", str(switch.address), "--guard", str(tmp_path / "guard.yaml")]
    args += ["--interval-us", "20000", "--journal", str(tmp_path / "journal")]

    def told(*more: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*args, *more])
        assert not ended.value.code
        return capsys.readouterr().out

    before = switch.snapshot()
    out = told("--apply", "--intervals", "2", "--json", str(tmp_path / "j"))
    verdict = (
        "nothing was tried: of 2 intervals nothing moved in 2; what stood there at the start is in"
    )
    assert verdict in out
    assert "best" not in out
    assert f"  {KMIN} 1048576" in out
    assert switch.snapshot() == before
    assert json.loads((tmp_path / "j").read_text())["verdict"].startswith("nothing was tried")
    assert "nothing moved, so there is no first step to show" in told()
    document = json.loads(told("--json", "-"))
    assert document["seen"]["load"] == 0
    assert document["would_write"] == {}


def test_what_needs_apply(switch: Redis, guard: Guard, tmp_path: Path, capsys) -> None:
    del guard
    args = ["tune", "--sonic", str(switch.address), "--guard", str(tmp_path / "guard.yaml")]
    for flag in ("--html", "--resume"):
        with pytest.raises(SystemExit):
            main([*args, flag, str(tmp_path / "x")])
        assert f"{flag} needs --apply" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


# --- the file by itself ---

SEEN = Observation(1e5, 0.5, 0.5, 1.0, 0, 2.0, 0.5)
CHANGES = {"a": [Change(KMIN, 4, 5)], "b": []}


def kept(path: Path, count: int = 2) -> Annealer:
    """A file of so many intervals, and the annealer that made it."""
    record, annealer = Record(path), _annealer()
    record.begin(OF, {KMIN: 4})
    record.wrote(CHANGES)
    for number in range(count):
        if number == 1:
            record.saw(Told(None, None, {}, "counters began anew: x"))
        annealer.observed(SEEN)
        record.saw(Told(SEEN, annealer.steps[-1], {}))
        record.wrote(CHANGES)
        record.wrote({"a": []})
    return annealer


def _annealer() -> Annealer:
    found = grid(DEVICES["sonic"], Port(rate_gbps=100), levels={"headroom_bytes": 1})
    space = SonicSpace(found.parameters, found.device, found.port)
    return Annealer(space, (0,) * len(space.parameters), random.Random("1"))


def test_what_was_kept_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "f"
    made = kept(path)
    record, again = Record(path), _annealer()
    record.begin(OF, {KMIN: 9})
    assert record.start == {KMIN: 4}
    record.replay(again)
    assert (again.steps, again.place) == (made.steps, made.place)
    assert [told.why for told in record.intervals] == ["", "counters began anew: x", ""]
    assert record.began == {"a": [Change(KMIN, 4, 5)]}
    assert record.intervals[0].changes == {"a": [Change(KMIN, 4, 5)]}


def test_a_line_that_was_cut_off_is_none(tmp_path: Path) -> None:
    path = tmp_path / "f"
    made = kept(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    record = Record(path)
    assert len(record.intervals) == 3
    assert record.intervals[-1].changes == {}
    record.saw(Told(SEEN, made.steps[-1], {}))
    assert len(Record(path).intervals) == 4


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    path = tmp_path / "f"
    record = Record(path)
    path.symlink_to("/dev/full")
    with pytest.raises(SonicDataError, match="f: cannot be written: No space left"):
        record.begin(OF, {KMIN: 4})


@given(at=st.integers(0, 10_000), data=st.binary(max_size=40), drop=st.integers(0, 60))
def test_any_bytes_are_read_or_refused(tmp_path_factory, at: int, data: bytes, drop: int) -> None:
    path = tmp_path_factory.getbasetemp() / f"fuzz-{os.getpid()}"
    path.unlink(missing_ok=True)
    kept(path)
    text = path.read_bytes()
    at %= len(text)
    path.write_bytes(text[:at] + data + text[at + drop :])
    with suppress(SonicDataError):
        record = Record(path)
        record.begin(OF, {KMIN: 4})
        record.replay(_annealer())
