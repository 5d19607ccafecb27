"""`sglb sonic` against a real Redis: what a person at the keyboard sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from sonic_kit import PG_PROFILE, QUEUE_OIDS, Redis, proxy

from sglb.cli import main

GMIN = "WRED_PROFILE.AZURE_LOSSLESS.green_min_threshold"


@pytest.fixture
def sglb(capsys, monkeypatch, tmp_path):
    """Runs the command in a folder of its own; exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["sonic", *args])
        out = capsys.readouterr()
        code = ended.value.code
        return code if isinstance(code, int) else 0, out.out, out.err

    return call


@pytest.fixture
def guard(tmp_path: Path) -> str:
    path = tmp_path / "guard.yaml"
    path.write_text(f"{GMIN}: [100000, 900000]\n")
    return str(path)


def test_show(switch: Redis, sglb) -> None:
    status, out, _ = sglb("show", "-s", str(switch.address))
    assert status == 0
    assert "  WRED_PROFILE.AZURE_LOSSLESS: used by QUEUE 3-4 of 4 ports\n" in out
    assert "    green_min_threshold             1048576 bytes\n" in out
    assert f"  BUFFER_PROFILE.{PG_PROFILE}: used by BUFFER_PG 3-4 of 4 ports\n" in out
    assert "  BUFFER_PROFILE.ingress_lossless_profile: used by nobody\n" in out


def test_show_counts_the_ports_of_a_key(switch: Redis, sglb) -> None:
    for queue in (3, 4):
        switch.config.delete(f"QUEUE|Ethernet0|{queue}", f"QUEUE|Ethernet4|{queue}")
    switch.config.delete("QUEUE|Ethernet8|4")
    switch.config.hset("QUEUE|Ethernet0,Ethernet4|3-4", "wred_profile", "AZURE_LOSSLESS")
    switch.config.hset("BUFFER_QUEUE|Ethernet0,Ethernet4|3", "profile", PG_PROFILE)
    _, out, _ = sglb("show", "-s", str(switch.address))
    assert "used by QUEUE 3 of 4 ports, QUEUE 4 of 3 ports\n" in out
    assert "used by BUFFER_PG 3-4 of 4 ports, BUFFER_QUEUE 3 of 2 ports\n" in out
    switch.config.hset("BUFFER_QUEUE|Ethernet0|3-x", "profile", PG_PROFILE)
    status, _, err = sglb("show", "-s", str(switch.address))
    assert (status, err.count("\n")) == (1, 1)
    assert "BUFFER_QUEUE|Ethernet0|3-x ends in '3-x'" in err


def test_a_change_is_shown_and_written_only_on_demand(switch: Redis, sglb, guard: str) -> None:
    before = switch.snapshot()
    command = ("set", f"{GMIN}=500000", "-s", str(switch.address))
    status, out, _ = sglb(*command)
    assert status == 0
    assert "-green_min_threshold: 1048576" in out
    assert "+green_min_threshold: 500000" in out
    assert "$ ecnconfig -p AZURE_LOSSLESS -gmin 500000" in out
    assert "nothing was written" in out
    assert switch.snapshot() == before
    status, _, err = sglb(*command, "--apply")
    assert (status, err) == (
        1,
        "error: --apply needs --guard FILE: only what it declares is written\n",
    )
    status, out, _ = sglb(*command, "--apply", "--guard", guard)
    assert status == 0
    assert "wrote 1 fields on 1 switches and read them back" in out
    assert switch.config.hget("WRED_PROFILE|AZURE_LOSSLESS", "green_min_threshold") == "500000"
    assert sglb(*command, "--apply", "--guard", guard)[1].endswith("nothing to write\n")


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((f"{GMIN}=99999",), "outside the guard band 100000 to 900000"),
        ((f"{GMIN}=x",), "is not FIELD=VALUE"),
        ((GMIN,), "is not FIELD=VALUE"),
        ((f"{GMIN}=200000", f"{GMIN}=300000"), "is given twice"),
        (("WRED_PROFILE.X.green_min_threshold=200000",), "does not allow it"),
    ],
)
def test_what_is_refused(switch: Redis, sglb, guard: str, args: tuple[str, ...], text: str) -> None:
    before = switch.snapshot()
    status, _, err = sglb("set", *args, "-s", str(switch.address), "--guard", guard, "--apply")
    assert status == 1
    assert text in err
    assert err.count("\n") == 1
    assert switch.snapshot() == before


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--journal", "/dev/zero"), "/dev/zero: no file; a journal is kept in one"),
        (("--journal", "/none/journal"), "/none/journal: cannot be written: No such file"),
        (("--guard", "/dev/zero"), "/dev/zero: is larger than a guard file may be"),
        (("--guard", "/none"), "/none: cannot be read: No such file or directory\n"),
    ],
)
def test_files_that_are_none(
    switch: Redis, sglb, guard: str, options: tuple[str, ...], text: str
) -> None:
    before = switch.snapshot()
    command = ("set", f"{GMIN}=500000", "-s", str(switch.address), "--guard", guard, "--apply")
    status, _, err = sglb(*command, *options)
    assert status == 1
    assert text in err
    assert err.count("\n") == 1
    assert switch.snapshot() == before


def test_nobody_there(sglb) -> None:
    status, _, err = sglb("show", "-s", "unix:/nowhere")
    assert status == 1
    assert err.startswith("error: unix:/nowhere: no answer from Redis")


def test_a_write_that_was_cut_short_is_taken_back(switch: Redis, sglb, guard: str) -> None:
    before = switch.snapshot()
    gone = []

    def judge(data: bytes) -> str:
        if b"HSET" in data:
            gone.append(1)
            return "mute"
        return "drop" if gone else "pass"

    with proxy(switch.socket, judge) as address:
        command = ("set", f"{GMIN}=500000", "-s", str(address), "--apply", "--guard", guard)
        status, _, err = sglb(*command)
        assert status == 1
        assert "whether 1 fields were written is not known" in err
        status, _, err = sglb(*command)
        assert status == 1
        assert "was cut short: `sglb sonic restore` takes it back" in err
        gone.clear()
        switch.state.flushdb()  # the lock ran out meanwhile
        status, out, _ = sglb("restore", "-s", str(address))
        assert status == 0
        assert "+green_min_threshold: 1048576" in out
    assert switch.snapshot() != before
    journal = Path("sonic-journal.jsonl")
    journal.write_text(journal.read_text().replace(str(address), str(switch.address)))
    assert sglb("restore", "-s", str(switch.address), "--apply")[1].endswith("took back 1 fields\n")
    assert switch.snapshot() == before
    assert "no write was cut short" in sglb("restore", "-s", str(switch.address))[1]


def test_watch(switch: Redis, sglb) -> None:
    key = f"COUNTERS:{QUEUE_OIDS['Ethernet0:3']}"
    switch.counters.hset(key, "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", "123456")
    status, out, _ = sglb(
        *("watch", "-s", str(switch.address), "--interval", "0.05", "--count", "2"),
        *("-p", "Ethernet0"),
    )
    assert status == 0
    assert "is 123,456" in out
    status, _, err = sglb("watch", "-s", str(switch.address), "-p", "Ethernet1", "--count", "1")
    assert (status, "no port Ethernet1" in err) == (1, True)
