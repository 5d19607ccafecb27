"""Fields, guard bands, plans: what SONiC's schema and an operator allow."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sonic_kit import PG_PROFILE, PORTS, Redis

from sglb.watermark.sonic.change import Change, commands, diff_lines, plan
from sglb.watermark.sonic.config import read_config
from sglb.watermark.sonic.database import Address, Database
from sglb.watermark.sonic.errors import SonicDataError, SonicError, SonicRefusedError
from sglb.watermark.sonic.fields import FIELDS, Target
from sglb.watermark.sonic.guard import Guard, load_guard

GMIN = Target("WRED_PROFILE", "AZURE_LOSSLESS", "green_min_threshold")
GMAX = Target("WRED_PROFILE", "AZURE_LOSSLESS", "green_max_threshold")
GDROP = Target("WRED_PROFILE", "AZURE_LOSSLESS", "green_drop_probability")
ALPHA = Target("BUFFER_PROFILE", PG_PROFILE, "dynamic_th")
XON = Target("BUFFER_PROFILE", PG_PROFILE, "xon")


@pytest.mark.parametrize(
    ("text", "host", "port", "unix"),
    [
        ("leaf0", "leaf0", 6379, ""),
        ("10.0.0.1:6380", "10.0.0.1", 6380, ""),
        ("[fd00::1]:7000", "fd00::1", 7000, ""),
        ("[fd00::1]", "fd00::1", 6379, ""),
        ("unix:/var/run/redis/redis.sock", "", 6379, "/var/run/redis/redis.sock"),
    ],
)
def test_addresses(text: str, host: str, port: int, unix: str) -> None:
    address = Address.parse(text)
    assert (address.host, address.port, address.unix) == (host, port, unix)
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize("text", ["", ":1", "a:b:c", "fd00::1", "a:0", "a:65536", "unix:", "[x"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(SonicError, match=r"HOST|65535"):
        Address.parse(text)


def test_the_profiles_and_who_uses_them(switch: Redis) -> None:
    with Database(switch.address) as database:
        config = read_config(database)
    wred = config.profiles["WRED_PROFILE", "AZURE_LOSSLESS"]
    assert wred.users == tuple(sorted(f"QUEUE|{port}|{q}" for port in PORTS for q in (3, 4)))
    assert config.profile(ALPHA).users == tuple(sorted(f"BUFFER_PG|{port}|3-4" for port in PORTS))
    egress = config.profiles["BUFFER_PROFILE", "egress_lossless_profile"]
    assert egress.users == tuple(sorted(f"BUFFER_QUEUE|{port}|3-4" for port in PORTS))
    assert (config.value(GMIN), config.value(GDROP), config.value(ALPHA)) == (1048576, 5, 0)
    with pytest.raises(
        SonicDataError, match="no WRED_PROFILE is named X; there are AZURE_LOSSLESS"
    ):
        config.value(Target("WRED_PROFILE", "X", "green_min_threshold"))


@pytest.mark.parametrize("text", ["", "-1", "1e3", " 7", "\u0661", "0x10", "1.0"])
def test_what_is_no_number_is_named(switch: Redis, text: str) -> None:
    switch.config.hset("WRED_PROFILE|AZURE_LOSSLESS", "green_min_threshold", text)
    with Database(switch.address) as database, pytest.raises(SonicDataError) as caught:
        plan(read_config(database), {GMIN: 5}, None)
    assert "WRED_PROFILE.AZURE_LOSSLESS.green_min_threshold" in str(caught.value)


def test_a_key_of_another_type_or_no_text_is_named(switch: Redis) -> None:
    switch.config.set("WRED_PROFILE|odd", "text")
    with Database(switch.address) as database, pytest.raises(SonicDataError, match="WRED_PROFILE"):
        read_config(database)
    switch.config.delete("WRED_PROFILE|odd")
    switch.config.hset("WRED_PROFILE|odd", "ecn", b"\xff\xfe")
    with Database(switch.address) as database, pytest.raises(SonicDataError, match="not text"):
        read_config(database)


def test_a_plan_is_what_differs(switch: Redis) -> None:
    with Database(switch.address) as database:
        config = read_config(database)
    changes = plan(config, {GMIN: 500_000, GMAX: 2097152, ALPHA: -2, GDROP: 20}, None)
    assert changes == [Change(ALPHA, 0, -2), Change(GDROP, 5, 20), Change(GMIN, 1048576, 500_000)]
    assert diff_lines(changes) == [
        f"@@ BUFFER_PROFILE|{PG_PROFILE} @@",
        "-dynamic_th: 0",
        "+dynamic_th: -2",
        "@@ WRED_PROFILE|AZURE_LOSSLESS @@",
        "-green_drop_probability: 5",
        "+green_drop_probability: 20",
        "-green_min_threshold: 1048576",
        "+green_min_threshold: 500000",
    ]
    assert commands(changes) == [
        "ecnconfig -p AZURE_LOSSLESS -gdrop 20 -gmin 500000",
        f"config buffer profile set {PG_PROFILE} --dynamic_th -2",
    ]


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({GMIN: 3_000_000}, "green_min_threshold would be 3000000 and green_max_threshold 2097152"),
        ({GMIN: 10, GMAX: 9}, "would be 10 and green_max_threshold 9"),
        ({GDROP: 101}, "0 to 100 percent"),
        ({ALPHA: 9}, "-8 to 8"),
        ({ALPHA: -9}, "-8 to 8"),
        ({GMIN: -1}, "bytes"),
        ({XON: 91137}, "xon would be 91137 and size 91136"),
        ({Target("BUFFER_PROFILE", PG_PROFILE, "static_th"): 5}, "is not set"),
    ],
)
def test_what_sonic_would_refuse_is_refused(
    switch: Redis, wanted: dict[Target, int], text: str
) -> None:
    with Database(switch.address) as database:
        config = read_config(database)
    with pytest.raises(SonicRefusedError) as caught:
        plan(config, wanted, None)
    assert text in str(caught.value)


def test_nothing_outside_the_guard_band(switch: Redis) -> None:
    guard = Guard({GMIN: (100_000, 900_000)}, "guard.yaml")
    with Database(switch.address) as database:
        config = read_config(database)
    assert plan(config, {GMIN: 900_000}, guard) == [Change(GMIN, 1048576, 900_000)]
    with pytest.raises(SonicRefusedError, match="outside the guard band 100000 to 900000"):
        plan(config, {GMIN: 900_001}, guard)
    with pytest.raises(SonicRefusedError, match=r"green_max_threshold: guard.yaml does not allow"):
        plan(config, {GMAX: 2_000_000}, guard)


def test_a_guard_file(tmp_path: Path) -> None:
    path = tmp_path / "guard.yaml"
    path.write_text(f"# the ECN band\n{GMIN}: [1, 5]\n{ALPHA}: [-3, 2]\n")
    assert load_guard(path).bands == {GMIN: (1, 5), ALPHA: (-3, 2)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a line a field"),
        ("- 1", "a line a field"),
        (f"{GMIN}: 5", "not \\[low, high\\]"),
        (f"{GMIN}: [900000, 100000]", "\\[900000, 100000\\] is reversed"),
        (f"{GMIN}: [1, 2, 3]", "not \\[low, high\\]"),
        (f"{GMIN}: [true, 5]", "not \\[low, high\\]"),
        (f"{GMIN}: [1.5, 5]", "not \\[low, high\\]"),
        (f"{ALPHA}: [-9, 5]", "-8 to 8"),
        ("WRED_PROFILE.X.ecn: [0, 1]", "has no field ecn that may be written"),
        ("QUEUE.X.y: [0, 1]", "no table QUEUE"),
        ("nonsense: [0, 1]", "names no field"),
        (f"{GMIN}: [1, 2", "line"),
        ("\0", "guard.yaml"),
    ],
)
def test_guard_files_that_say_nothing(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "guard.yaml"
    path.write_text(text)
    with pytest.raises(SonicRefusedError, match=message) as caught:
        load_guard(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(SonicRefusedError, match="cannot be read"):
        load_guard(tmp_path / "none.yaml")


@given(st.text(max_size=60))
def test_any_text_is_a_field_or_refused(text: str) -> None:
    try:
        target = Target.parse(text)
    except SonicRefusedError:
        assert text not in {f"{t}.p.{n}" for t, n in FIELDS}
    else:
        assert (target.table, target.name) in FIELDS
        assert str(target) == text
