"""Counters: read by name, and what grew between two samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sonic_kit import COUNTERS, PORT_OIDS, QUEUE_OIDS, Redis

from sglb.watermark.sonic.database import Database
from sglb.watermark.sonic.errors import SonicDataError
from sglb.watermark.sonic.telemetry import Kind, Sample, Telemetry, difference

BYTES = "SAI_QUEUE_STAT_BYTES"


def test_counters_by_name(switch: Redis) -> None:
    with Database(switch.address) as database:
        sample = Telemetry(database).sample()
        one = Telemetry(database, ["Ethernet4"]).sample()
    assert sample.counts[Kind.PORT]["Ethernet0"] == {
        "rx_bytes": 1000,
        "tx_bytes": 2000,
        "pfc3_rx_packets": 7,  # and N/A is no counter
        "pfc4_rx_packets": 0,
    }
    assert len(sample.counts[Kind.QUEUE]) == 32
    assert sample.counts[Kind.QUEUE]["Ethernet12:3"]["ecn_marked_packets"] == 4
    assert sample.levels[Kind.QUEUE]["Ethernet12:3"] == {"watermark_bytes": 4096}
    assert sample.levels[Kind.GROUP]["Ethernet0:4"]["shared_watermark_bytes"] == 2048
    assert list(one.counts[Kind.PORT]) == ["Ethernet4"]
    assert list(one.counts[Kind.QUEUE]) == [f"Ethernet4:{q}" for q in range(8)]


def test_what_grew_and_what_began_anew(switch: Redis) -> None:
    key = f"COUNTERS:{QUEUE_OIDS['Ethernet0:3']}"
    cleared = f"COUNTERS:{PORT_OIDS['Ethernet8']}"
    with Database(switch.address) as database:
        telemetry = Telemetry(database)
        before = telemetry.sample()
        switch.counters.hset(key, BYTES, "95000")
        switch.counters.hset(cleared, "SAI_PORT_STAT_IF_IN_OCTETS", "12")
        found = difference(before, telemetry.sample())
    assert found.counts[Kind.QUEUE]["Ethernet0:3"]["bytes"] == 80_000
    assert found.counts[Kind.QUEUE]["Ethernet0:4"]["bytes"] == 0
    assert found.restarted == ("Ethernet8",)
    assert "Ethernet8" not in found.counts[Kind.PORT]


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", str(1 << 64)])
def test_what_is_no_counter_is_named(switch: Redis, text: str) -> None:
    key = f"COUNTERS:{QUEUE_OIDS['Ethernet0:3']}"
    switch.counters.hset(key, BYTES, text)
    with Database(switch.address) as database, pytest.raises(SonicDataError) as caught:
        Telemetry(database).sample()
    assert key in str(caught.value)
    assert BYTES in str(caught.value)


def test_unknown_ports_and_no_switch_at_all(switch: Redis) -> None:
    with Database(switch.address) as database:
        with pytest.raises(SonicDataError, match="no port Ethernet1, Ethernet2"):
            Telemetry(database, ["Ethernet2", "Ethernet1", "Ethernet0"]).sample()
        switch.counters.flushdb()
        with pytest.raises(SonicDataError, match="is this a SONiC switch"):
            Telemetry(database).sample()
    assert "COUNTERS_PORT_NAME_MAP" in COUNTERS


def _sample(time_s: float, value: int) -> Sample:
    counts = {kind: {} for kind in Kind} | {Kind.QUEUE: {"Ethernet0:3": {"bytes": value}}}
    return Sample(time_s, counts, {kind: {} for kind in Kind})


@given(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 63) - 1))
def test_counters_wrap(start: int, grown: int) -> None:
    found = difference(_sample(1, start), _sample(2, (start + grown) % (1 << 64)))
    assert found.counts[Kind.QUEUE]["Ethernet0:3"] == {"bytes": grown}
    assert found.restarted == ()


def test_samples_have_an_order() -> None:
    with pytest.raises(ValueError, match="not later"):
        difference(_sample(2, 0), _sample(2, 0))
