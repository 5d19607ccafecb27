"""Writing: all or nothing, one tuner, and nothing lost with a connection."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sonic_kit import CONFIG, PG_PROFILE, Redis, proxy

from sglb.watermark.sonic.actuator import Held, Journal, apply, holding, restore, write
from sglb.watermark.sonic.change import Change
from sglb.watermark.sonic.database import Address, Database
from sglb.watermark.sonic.errors import (
    SonicConflictError,
    SonicConnectionError,
    SonicDataError,
    SonicLockedError,
    SonicUncertainError,
)
from sglb.watermark.sonic.fields import Target
from sglb.watermark.sonic.lock import LOCK_KEY, TunerLock

WRED = "WRED_PROFILE|AZURE_LOSSLESS"
GMIN = Change(Target("WRED_PROFILE", "AZURE_LOSSLESS", "green_min_threshold"), 1048576, 500_000)
ALPHA = Change(Target("BUFFER_PROFILE", PG_PROFILE, "dynamic_th"), 0, -2)
BOTH = [ALPHA, GMIN]


def test_what_was_written_is_what_sonic_reads(switch: Redis) -> None:
    watcher = switch.config.pubsub()
    switch.config.config_set("notify-keyspace-events", "AKE")
    watcher.psubscribe("__keyspace@4__:*")
    with holding([switch.address]) as (held,):
        write(held, BOTH)
    expected = {key: dict(fields) for key, fields in CONFIG.items()}
    expected[WRED]["green_min_threshold"] = "500000"
    expected[f"BUFFER_PROFILE|{PG_PROFILE}"]["dynamic_th"] = "-2"
    assert switch.snapshot() == expected
    # SONiC's daemons follow keyspace events.
    events = [m for _ in range(3) if (m := watcher.get_message(timeout=1)) is not None]
    assert {(m["channel"], m["data"]) for m in events if m["type"] == "pmessage"} == {
        (f"__keyspace@4__:{WRED}", "hset"),
        (f"__keyspace@4__:BUFFER_PROFILE|{PG_PROFILE}", "hset"),
    }
    watcher.close()
    assert switch.state.keys("*") == []  # the lock is let go


def test_somebody_elses_change_is_not_run_over(switch: Redis) -> None:
    switch.config.hset(WRED, "green_min_threshold", "777777")
    before = switch.snapshot()
    with holding([switch.address]) as (held,), pytest.raises(SonicConflictError) as caught:
        write(held, BOTH)
    assert "green_min_threshold is 777777 now, not 1048576" in str(caught.value)
    assert switch.snapshot() == before  # not even the field that was as planned


def test_a_field_that_went_is_a_conflict(switch: Redis) -> None:
    switch.config.hdel(WRED, "green_min_threshold")
    with holding([switch.address]) as (held,), pytest.raises(SonicConflictError, match="not set"):
        write(held, BOTH)


def test_a_second_tuner_is_refused_and_comes_when_the_first_is_gone(switch: Redis) -> None:
    with (
        holding([switch.address]),
        pytest.raises(SonicLockedError, match=r"holds this switch; its lock ends in \d+ s"),
        holding([switch.address]),
    ):
        pass
    with holding([switch.address]):
        pass


def test_a_lock_that_ran_out_writes_nothing(switch: Redis) -> None:
    with Database(switch.address) as database, TunerLock(database) as lock:
        switch.state.delete(LOCK_KEY)  # time did that
        with TunerLock(Database(switch.address)):
            with pytest.raises(SonicLockedError, match="not ours any more; nothing was written"):
                write(Held(database, lock), BOTH)
            with pytest.raises(SonicLockedError):
                lock.renew()
        assert switch.config.hget(WRED, "green_min_threshold") == "1048576"
        lock.renew()
        assert 25_000 < switch.state.pttl(LOCK_KEY) <= 30_000
        write(Held(database, lock), BOTH)


def test_a_lock_does_not_let_go_of_anothers(switch: Redis) -> None:
    with Database(switch.address) as database:
        with TunerLock(database):
            switch.state.set(LOCK_KEY, "somebody 1")
        assert switch.state.get(LOCK_KEY) == "somebody 1"


# --- connections that are lost --------------------------------------------------------------------


def once(verdict: str) -> Callable[[bytes], str]:
    """Says it of the first write."""
    left = [verdict]

    def judge(data: bytes) -> str:
        return left.pop() if left and b"HSET" in data else "pass"

    return judge


def lossy(switch: Redis, judge: Callable[[bytes], str], patience_s: float = 5.0) -> None:
    with proxy(switch.socket, judge) as address, holding([address]) as (held,):
        write(held, BOTH, patience_s)


def test_a_write_whose_answer_is_lost_was_made(switch: Redis) -> None:
    lossy(switch, once("mute"))
    assert switch.config.hget(WRED, "green_min_threshold") == "500000"


def test_a_write_that_is_lost_was_not_made(switch: Redis) -> None:
    before = switch.snapshot()
    with pytest.raises(SonicConnectionError, match=r"no answer from Redis.*nothing was written"):
        lossy(switch, once("drop"))
    assert switch.snapshot() == before


@pytest.mark.parametrize("meddled", [False, True])
def test_a_connection_lost_in_the_reading_back(switch: Redis, meddled: bool) -> None:
    written, lost = [False], [False]

    def judge(data: bytes) -> str:
        if written[0] and not lost[0]:
            lost[0] = True
            if meddled:
                switch.config.hset(WRED, "green_min_threshold", str(GMIN.before))
            return "drop"
        written[0] = written[0] or b"'HSET'" in data
        return "pass"

    with proxy(switch.socket, judge) as address, holding([address]) as (held,):
        if meddled:
            with pytest.raises(SonicConflictError, match="read as before: somebody else"):
                write(held, [GMIN])
        else:
            write(held, [GMIN])
    assert lost[0]
    wanted = GMIN.before if meddled else GMIN.after
    assert switch.config.hget(WRED, "green_min_threshold") == str(wanted)


def test_a_switch_that_stays_away_leaves_it_open(switch: Redis) -> None:
    gone = []

    def judge(data: bytes) -> str:
        if b"HSET" in data:
            gone.append(1)
            return "mute"
        return "drop" if gone else "pass"

    with pytest.raises(SonicUncertainError, match=r"stayed away for 0.3 s: whether 2 fields"):
        lossy(switch, judge, patience_s=0.3)


def test_nobody_there() -> None:
    address = Address(unix="/nowhere/redis.sock")
    with pytest.raises(SonicConnectionError, match=r"unix:/nowhere/redis\.sock: no answer"):
        TunerLock(Database(address)).renew()


# --- several switches -----------------------------------------------------------------------------


def fleet(switch: Redis, other: Address, journal: Journal | None) -> None:
    changes = {str(switch.address): BOTH, str(other): BOTH}
    with holding([switch.address]) as (first,), Database(other) as database:
        # The other's lock is the same one here: both ways lead to one Redis.
        second = Held(database, first.lock)
        apply([first, second], changes, journal, patience_s=0.5)


def test_when_one_switch_fails_the_others_are_taken_back(switch: Redis, tmp_path: Path) -> None:
    before = switch.snapshot()
    journal = Journal(tmp_path / "journal")
    with (
        proxy(switch.socket, lambda data: "drop") as dead,
        pytest.raises(SonicConnectionError, match="no answer from Redis"),
    ):
        fleet(switch, dead, journal)
    assert switch.snapshot() == before


def test_a_conflict_on_the_second_takes_back_the_first(switch: Redis, tmp_path: Path) -> None:
    before = switch.snapshot()
    journal = Journal(tmp_path / "journal")
    with (
        proxy(switch.socket, lambda data: "pass") as other,
        pytest.raises(SonicConflictError, match="is -2 now, not 0"),  # the first wrote it
    ):
        fleet(switch, other, journal)
    assert switch.snapshot() == before
    assert journal.unfinished() == {}
    records = [json.loads(line) for line in journal.path.read_text().splitlines()]
    assert [list(r) for r in records] == [["do"], ["done"]]


def test_what_a_killed_tuner_left_is_taken_back(switch: Redis, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    before = switch.snapshot()
    journal.begin({str(switch.address): BOTH})
    with holding([switch.address]) as (held,):
        write(held, [GMIN])  # and then it was killed
    left = Journal(journal.path).unfinished()
    assert left == {str(switch.address): BOTH}
    with holding([switch.address]) as (held,):
        back = restore(held.database, left[str(switch.address)])
        assert back == [Change(GMIN.target, 500_000, 1048576)]
        write(held, back)
    assert switch.snapshot() == before


def test_a_journal_that_was_cut_off_or_is_none(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    assert Journal(path).unfinished() == {}
    Journal(path).begin({"a": BOTH})
    Journal(path).end()
    with path.open("a") as file:
        file.write('{"do": [{"swi')
    assert Journal(path).unfinished() == {}
    path.write_text("one\ntwo\n")
    with pytest.raises(SonicDataError, match=r"journal:1: no line of a journal"):
        Journal(path).unfinished()
    path.write_text('{"do": [{"switch": "a"}]}\n')
    with pytest.raises(SonicDataError, match="no entry of a journal"):
        Journal(path).unfinished()
