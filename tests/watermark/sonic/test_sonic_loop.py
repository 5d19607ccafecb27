"""The tuner on a real Redis whose counters another process moves as the watermarks have it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from sonic_kit import PG_OIDS, PG_PROFILE, PORT_OIDS, PORTS, QUEUE_OIDS, Redis, proxy

from sglb.cli import main
from sglb.watermark.sonic.actuator import Journal, holding
from sglb.watermark.sonic.config import read_config
from sglb.watermark.sonic.database import Database
from sglb.watermark.sonic.errors import (
    SonicConflictError,
    SonicConnectionError,
    SonicDataError,
    SonicError,
    SonicLockedError,
    SonicRefusedError,
)
from sglb.watermark.sonic.facts import read_facts, view
from sglb.watermark.sonic.guard import Guard, load_guard
from sglb.watermark.sonic.loop import LoopOptions, SonicLoop
from sglb.watermark.sonic.record import Told
from sglb.watermark.sonic.telemetry import Telemetry, difference
from sglb.watermark.telemetry.reading import WHOLE, Field
from sglb.watermark.tuner.annealing import Phase, Schedule

GREEN = "WRED_PROFILE.AZURE_LOSSLESS.green"
TH = f"BUFFER_PROFILE.{PG_PROFILE}.dynamic_th"
LAST_QUEUE, LAST_PORT, LAST_GROUP = (
    f"COUNTERS:{oid}"
    for oid in (QUEUE_OIDS["Ethernet12:4"], PORT_OIDS["Ethernet12"], PG_OIDS["Ethernet12:4"])
)
GUARD = f"""
{GREEN}_min_threshold: [50000, 1048576]
{GREEN}_max_threshold: [400000, 2097152]
{GREEN}_drop_probability: [1, 50]
{TH}: [-2, 2]
BUFFER_PROFILE.{PG_PROFILE}.xoff: [72704, 72704]
"""
FAST = LoopOptions(
    interval_s=0.05, patience_s=5.0, schedule=Schedule(cooling=0.3, tries=4), rtt_us=40.0
)


@pytest.fixture
def guard_file(tmp_path: Path) -> Path:
    path = tmp_path / "guard.yaml"
    path.write_text(GUARD)
    return path


@pytest.fixture
def guard(guard_file: Path) -> Guard:
    return load_guard(guard_file)


def tune(
    address, guard: Guard, journal: Path, intervals: int, tell=lambda told: None, options=FAST
) -> tuple[SonicLoop, list[Told]]:
    found: list[Told] = []

    def both(told: Told) -> None:
        found.append(told)
        tell(told)

    with holding([address]) as held:
        loop = SonicLoop([one.database for one in held], guard, options)
        loop.run(held, Journal(journal), both, lambda: False, intervals)
    return loop, found


@pytest.mark.usefixtures("traffic")
def test_it_finds_a_better_setting_within_the_guard_band(
    switch: Redis, guard: Guard, tmp_path: Path
) -> None:
    before = switch.snapshot()
    loop, found = tune(switch.address, guard, tmp_path / "journal", 30)
    after = switch.snapshot()
    kmin = int(after["WRED_PROFILE|AZURE_LOSSLESS"]["green_min_threshold"])
    # Neither paused nor empty; at first it was the former.
    assert 200_000 <= kmin <= 700_000
    scores = [told.step.score for told in found if told.step]
    assert max(scores) > scores[0] + 0.1
    best = loop.space.values(loop.annealer.best)
    assert best["kmin_bytes"] == kmin
    # Only what the guard names has changed, and no headroom.
    for key, fields in before.items():
        for name, value in fields.items():
            if after[key][name] != value:
                assert f"{key.replace('|', '.')}.{name}" in GUARD
    assert after[f"BUFFER_PROFILE|{PG_PROFILE}"]["xoff"] == "72704"
    assert after[f"BUFFER_PROFILE|{PG_PROFILE}"]["dynamic_th"] in ("-2", "-1", "0", "1", "2")
    assert loop.left_alone == (f"BUFFER_PROFILE.{PG_PROFILE}.xoff",)
    assert Journal(tmp_path / "journal").unfinished() == {}
    assert switch.state.keys("*") == []  # the lock is gone


@pytest.mark.usefixtures("traffic")
def test_a_step_that_hurts_is_taken_back(switch: Redis, tmp_path: Path) -> None:
    # From the best one there is only a worse one: links run half empty.
    switch.config.hset("WRED_PROFILE|AZURE_LOSSLESS", "green_min_threshold", "200000")
    path = tmp_path / "guard.yaml"
    path.write_text(f"{GREEN}_min_threshold: [199999, 200000]\n")
    # T so low that nothing that is worse is accepted.
    cold = Schedule(first_temperature=1e-4, last_temperature=1e-5, cooling=0.5, tries=2)
    options = LoopOptions(interval_s=0.05, patience_s=5, schedule=cold, rtt_us=1_000.0)
    in_force = []

    def tell(told: Told) -> None:
        del told
        in_force.append(switch.config.hget("WRED_PROFILE|AZURE_LOSSLESS", "green_min_threshold"))

    loop, found = tune(switch.address, load_guard(path), tmp_path / "j", 14, tell, options)
    phases = [told.step.phase for told in found if told.step]
    hurt = next(
        at for at, told in enumerate(found) if told.step and told.step.phase is Phase.RESTORE
    )
    assert phases.count(Phase.RESTORE) > 0
    # The interval before was the one that hurt; what was in force after it is the good one.
    assert found[hurt - 1].step is not None
    assert not found[hurt - 1].step.accepted
    assert int(in_force[hurt - 1]) == 200_000
    assert int(switch.config.hget("WRED_PROFILE|AZURE_LOSSLESS", "green_min_threshold")) == 200_000
    assert loop.space.values(loop.annealer.best)["kmin_bytes"] == 200_000


@pytest.mark.usefixtures("traffic")
def test_a_connection_that_goes_and_comes_back_loses_nothing(
    switch: Redis, guard: Guard, tmp_path: Path
) -> None:
    requests = [0]
    shaky = [False]

    def flaky(data: bytes) -> str:
        requests[0] += shaky[0]
        # Drops some requests and some answers, those of writes among them.
        if requests[0] % 37 == 36:
            return "mute"
        return "drop" if requests[0] % 53 == 52 else "pass"

    def shake(told: Told) -> None:
        del told
        shaky[0] = True

    with proxy(switch.socket, flaky) as address:
        loop, found = tune(address, guard, tmp_path / "journal", 8, shake)
    assert requests[0] > 50
    assert len(found) == 8
    fields = switch.snapshot()["WRED_PROFILE|AZURE_LOSSLESS"]
    best = loop.space.values(loop.annealer.best)
    assert int(fields["green_min_threshold"]) == best["kmin_bytes"]
    assert int(fields["green_max_threshold"]) == best["kmax_bytes"]
    assert Journal(tmp_path / "journal").unfinished() == {}


def test_a_connection_that_stays_away_is_told(switch: Redis, guard: Guard, tmp_path: Path) -> None:
    gone = [False]
    short = LoopOptions(interval_s=0.05, patience_s=0.3)

    def tell(told: Told) -> None:
        del told
        gone[0] = True

    with (
        proxy(switch.socket, lambda data: "drop" if gone[0] else "pass") as address,
        pytest.raises(SonicConnectionError, match="no answer from Redis"),
    ):
        tune(address, guard, tmp_path / "journal", 5, tell, short)


def test_a_second_tuner_is_refused(switch: Redis, guard: Guard, tmp_path: Path) -> None:
    def second(told: Told) -> None:
        del told
        with pytest.raises(SonicLockedError, match=r"a tuner on .* holds this switch"):
            tune(switch.address, guard, tmp_path / "other", 1)

    _, found = tune(switch.address, guard, tmp_path / "journal", 1, second)
    assert len(found) == 1


@pytest.mark.usefixtures("traffic")
def test_what_somebody_else_changes_is_left_to_them(
    switch: Redis, guard: Guard, tmp_path: Path
) -> None:
    def meddle(told: Told) -> None:
        del told
        switch.config.hset("WRED_PROFILE|AZURE_LOSSLESS", "green_max_threshold", "1234567")

    with pytest.raises(SonicConflictError, match="is 1234567 now, not 2097152: somebody else"):
        tune(switch.address, guard, tmp_path / "journal", 30, meddle)
    assert switch.snapshot()["WRED_PROFILE|AZURE_LOSSLESS"]["green_max_threshold"] == "1234567"


def test_counters_that_begin_anew_do_not_count(switch: Redis, guard: Guard, tmp_path: Path) -> None:
    key = f"COUNTERS:{QUEUE_OIDS['Ethernet0:3']}"
    turns = [0]

    class Clearing(SonicLoop):
        def _wait(self, stop) -> None:
            turns[0] += 1
            switch.counters.hset(key, "SAI_QUEUE_STAT_BYTES", "9")
            super()._wait(stop)

    found: list[Told] = []
    with holding([switch.address]) as held:
        loop = Clearing([one.database for one in held], guard, FAST)
        loop.run(held, Journal(tmp_path / "j"), found.append, lambda: False, 1)
    assert found[0].seen is None
    assert found[0].why == "counters began anew: Ethernet0:3"
    assert loop.annealer.steps == []


def test_counters_as_the_tuner_sees_them(switch: Redis) -> None:
    queue, port = f"COUNTERS:{QUEUE_OIDS['Ethernet4:4']}", f"COUNTERS:{PORT_OIDS['Ethernet4']}"
    switch.config.hset("DEVICE_NEIGHBOR|Ethernet12", mapping={"name": "spine0", "port": "Eth1"})
    switch.config.hset("DEVICE_NEIGHBOR_METADATA|spine0", mapping={"type": "LeafRouter"})
    with Database(switch.address) as database:
        facts = read_facts(database, read_config(database), {"AZURE_LOSSLESS"})
        telemetry = Telemetry(database, facts.ports)
        before = telemetry.sample()
        switch.counters.hset(queue, "SAI_QUEUE_STAT_BYTES", "115000")
        switch.counters.hset(queue, "SAI_QUEUE_STAT_DROPPED_PACKETS", "2")
        switch.counters.hset(port, "SAI_PORT_STAT_PFC_3_RX_PKTS", "8")
        after = telemetry.sample()
        found = view(facts, difference(before, after), after)
    assert facts.classes == (3, 4)
    assert [one.to_host for _, one in sorted(facts.ports.items())] == [True, False, True, True]
    assert {one.rate_bps for one in facts.ports.values()} == {100 * 10**9}
    at = sorted(PORTS).index("Ethernet4")
    assert found.values[at, 3, Field.SENT_BYTES] == 100_000
    assert found.values[at, 3, Field.QUEUE_PEAK_BYTES] == 4_096
    assert found.values[at, WHOLE, Field.LOST_PACKETS] == 2
    # It doesn't count the time: one frame asks for 65535 x 512 bits, 335.5 us at 100 Gbit/s.
    span_ns = found.span_us * 1_000
    assert found.values[at, 3, Field.PAUSED_NS] == pytest.approx(min(335_539, span_ns), abs=1_000)


@pytest.mark.parametrize(
    ("text", "error", "what"),
    [
        (f"BUFFER_PROFILE.{PG_PROFILE}.xoff: [1, 99999]", SonicRefusedError, "none of its fields"),
        (f"{GREEN}_min_threshold: [1, 5000]", SonicRefusedError, "1048576, outside its guard band"),
        ("WRED_PROFILE.OTHER.green_min_threshold: [1, 5]", SonicError, "there are AZURE_LOSSLESS"),
        (
            f"{GREEN}_min_threshold: [1, 2000000]\n"
            "WRED_PROFILE.AZURE_LOSSLESS.red_min_threshold: [2100000, 3000000]",
            SonicRefusedError,
            "nothing in common",
        ),
        (f"BUFFER_PROFILE.{PG_PROFILE}.xon_offset: [0, 9]", SonicRefusedError, "is not set"),
    ],
)
def test_what_cannot_be_tuned(
    switch: Redis, tmp_path: Path, text: str, error: type[Exception], what: str
) -> None:
    path = tmp_path / "guard.yaml"
    path.write_text(text + "\n")
    with Database(switch.address) as database, pytest.raises(error, match=what):
        SonicLoop([database], load_guard(path), FAST)


def _as_one_key(switch: Redis, key: str) -> None:
    """All queues of AZURE_LOSSLESS under one key."""
    for port in PORTS:
        for queue in (3, 4):
            switch.config.delete(f"QUEUE|{port}|{queue}")
    switch.config.hset(key, "wred_profile", "AZURE_LOSSLESS")


def test_keys_may_name_several_ports_and_a_range_of_queues(switch: Redis) -> None:
    _as_one_key(switch, f"QUEUE|{','.join(PORTS)}|3-4")
    with Database(switch.address) as database:
        facts = read_facts(database, read_config(database), {"AZURE_LOSSLESS"})
    assert facts.classes == (3, 4)
    assert sorted(facts.ports) == sorted(PORTS)
    assert facts.queues == tuple(f"{port}:{queue}" for port in sorted(PORTS) for queue in (3, 4))


@pytest.mark.parametrize(
    "rest",
    [
        *(f"Ethernet0|{queues}" for queues in ("4-3", "3-", "8", "-3", "3-4-5", "x", "\u0663", "")),
        *(
            "Ethernet0",
            "|3",
            ",Ethernet0|3",
            "Ethernet0,,Ethernet4|3",
            "Ethernet0, Ethernet4|3",
            "Ethernet0|300-301",
        ),
    ],
)
def test_keys_that_name_no_queue_are_told(switch: Redis, rest: str) -> None:
    _as_one_key(switch, f"QUEUE|{rest}")
    told = re.escape(f"QUEUE|{rest}") + "( does not name ports|: queue 8|.* neither a number)"
    with Database(switch.address) as database, pytest.raises(SonicDataError, match=told):
        read_facts(database, read_config(database), {"AZURE_LOSSLESS"})


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"ecn": "ecn_none"}, "AZURE_LOSSLESS ecn is ecn_none: green packets would be dropped"),
        ({"ecn": "ecn_red"}, "ecn is ecn_red"),
        ({"ecn": None}, "ecn is ecn_none"),
        ({"wred_green_enable": "false"}, "wred_green_enable is false"),
        ({"wred_green_enable": None}, "wred_green_enable is false"),
    ],
)
def test_a_profile_that_marks_nothing_is_not_tuned(
    switch: Redis, guard: Guard, changes: dict[str, str | None], what: str
) -> None:
    for field, value in changes.items():
        if value is None:
            switch.config.hdel("WRED_PROFILE|AZURE_LOSSLESS", field)
        else:
            switch.config.hset("WRED_PROFILE|AZURE_LOSSLESS", field, value)
    with Database(switch.address) as database, pytest.raises(SonicDataError, match=what):
        SonicLoop([database], guard, FAST)


@pytest.mark.parametrize(
    ("key", "field", "what"),
    [
        ("COUNTERS_QUEUE_NAME_MAP", None, "bytes of queue Ethernet0:3: is `counterpoll queue`"),
        ("COUNTERS_QUEUE_NAME_MAP", "Ethernet4:4", "bytes of queue Ethernet4:4"),
        (LAST_QUEUE, None, "bytes of queue Ethernet12:4"),
        (LAST_QUEUE, "SAI_QUEUE_STAT_DROPPED_PACKETS", "dropped_packets of queue Ethernet12:4"),
        (
            LAST_QUEUE,
            "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES",
            "watermark_bytes of queue Ethernet12:4: is `counterpoll watermark` enabled",
        ),
        (LAST_PORT, None, "rx_bytes of port Ethernet12: is `counterpoll port` enabled"),
        (LAST_PORT, "SAI_PORT_STAT_PFC_4_RX_PKTS", "pfc4_rx_packets of port Ethernet12"),
        ("COUNTERS_PG_NAME_MAP", None, "dropped_packets of priority group Ethernet0:3"),
        (LAST_GROUP, None, "priority group Ethernet12:4: is `counterpoll pg-drop` enabled"),
    ],
)
def test_what_nobody_counts_is_not_tuned_blindly(
    switch: Redis, guard: Guard, tmp_path: Path, key: str, field: str | None, what: str
) -> None:
    # Where it stands breaks a rule: a write would come before the first interval.
    switch.config.hset(f"BUFFER_PROFILE|{PG_PROFILE}", "dynamic_th", "-2")
    before = switch.snapshot()
    if field is None:
        switch.counters.delete(key)
    else:
        switch.counters.hdel(key, field)
    with pytest.raises(SonicDataError, match=what):
        tune(switch.address, guard, tmp_path / "journal", 3)
    assert switch.snapshot() == before


def test_counters_that_end_meanwhile_end_the_tuner(
    switch: Redis, guard: Guard, tmp_path: Path
) -> None:
    def disable(told: Told) -> None:
        del told
        switch.counters.delete("COUNTERS_QUEUE_NAME_MAP")

    with pytest.raises(SonicDataError, match="bytes of queue Ethernet0:3"):
        tune(switch.address, guard, tmp_path / "journal", 3, disable)


def test_a_queue_without_a_priority_group_is_tuned(switch: Redis, guard: Guard) -> None:
    switch.counters.hdel("COUNTERS_PG_NAME_MAP", "Ethernet0:3", "Ethernet0:4")
    with Database(switch.address) as database:
        SonicLoop([database], guard, FAST)


@pytest.mark.parametrize("fields", [("size",), ("size", "type", "mode"), ("0",)])
def test_a_pool_without_a_size_is_said_by_hand(
    switch: Redis, guard: Guard, fields: tuple[str, ...]
) -> None:
    if fields == ("0",):
        switch.config.hset("BUFFER_POOL|ingress_lossless_pool", "size", "0")
    else:
        switch.config.hdel("BUFFER_POOL|ingress_lossless_pool", *fields)
    with Database(switch.address) as database:
        with pytest.raises(SonicDataError, match="say it by --pool-bytes"):
            SonicLoop([database], guard, FAST)
        SonicLoop([database], guard, replace(FAST, pool_bytes=20_000_000))


@pytest.mark.usefixtures("traffic")
def test_pool_and_round_trip_at_the_keyboard(
    switch: Redis, guard_file: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    switch.config.hdel("BUFFER_POOL|ingress_lossless_pool", "size")

    def sglb(*args: str) -> tuple[str, str]:
        every = ("--interval-us", "50000", "--guard", str(guard_file))
        with pytest.raises(SystemExit):
            main(["tune", "--sonic", str(switch.address), *every, *args])
        return capsys.readouterr()

    def delay(*args: str) -> float:
        out, _ = sglb("--pool-bytes", "4580864", *args)
        found = re.search(r"delay (\d\.\d+)", out)
        assert found
        return float(found[1])

    _, err = sglb()
    assert err.endswith("say it by --pool-bytes\n")
    _, err = sglb("--pool-bytes", "5")
    assert (err[:7], err.count("\n")) == ("error: ", 1)
    assert delay("--rtt-us", "1000") > 0.5 > delay()


def test_fields_that_differ_and_switches_that_do(
    switch: Redis, guard: Guard, tmp_path: Path
) -> None:
    switch.config.hset("WRED_PROFILE|AZURE_LOSSLESS", "red_min_threshold", "5")
    path = tmp_path / "other.yaml"
    path.write_text(
        f"{GREEN}_min_threshold: [1, 2000000]\n"
        "WRED_PROFILE.AZURE_LOSSLESS.red_min_threshold: [1, 2000000]\n"
    )
    with Database(switch.address) as database:
        with pytest.raises(SonicRefusedError, match="red_min_threshold is 5: a tuner moves them"):
            SonicLoop([database], load_guard(path), FAST)
        switch.config.hset("PORT|Ethernet0", "speed", "fast")
        with pytest.raises(SonicDataError, match="speed is 'fast', no Mbit/s"):
            SonicLoop([database], guard, FAST)


@pytest.mark.usefixtures("traffic")
def test_at_the_keyboard(
    switch: Redis, guard_file: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)

    def sglb(*args: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["tune", "--sonic", str(switch.address), "--interval-us", "50000", *args])
        out = capsys.readouterr()
        return ended.value.code or 0, out.out, out.err

    before = switch.snapshot()
    status, out, _ = sglb("--guard", str(guard_file))
    assert status == 0
    assert f"left alone, as a tuner never writes these: BUFFER_PROFILE.{PG_PROFILE}.xoff" in out
    # Two of eight ends of links are paused for a third of the time.
    unpaused = re.search(r"unpaused (0\.\d+)", out)
    assert unpaused
    assert 0.7 < float(unpaused[1]) < 1
    assert "  @@ " in out
    assert "(--apply writes)" in out
    assert switch.snapshot() == before
    status, out, _ = sglb("--guard", str(guard_file), "--apply", "--intervals", "3")
    assert status == 0
    assert out.count("score 0.") == 3
    assert re.search(rf"the best of \d settings tried is in force.*:\n  {TH} ", out)
    assert sglb()[::2] == (
        1,
        "error: --sonic needs --guard FILE: it declares what may be tuned, and within what\n",
    )
    assert "not both" in sglb("x.yaml")[2]
