"""What grew between two readings: counters that wrap, go back, ports that come and go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.watermark.telemetry.errors import TelemetryError
from sglb.watermark.telemetry.reading import FIELDS, ROWS, WHOLE, Field, Reading, grown, increase


def reading(time_ps: int, **sent: int) -> Reading:
    """Ports like `p1`, with the bytes that class 3 has sent."""
    ports = tuple(sorted(int(name[1:]) for name in sent))
    values = np.zeros((len(ports), ROWS, FIELDS), dtype=np.uint64)
    for at, port in enumerate(ports):
        values[at, 3, Field.SENT_BYTES] = sent[f"p{port}"]
    return Reading(time_ps, ports, values)


@pytest.mark.parametrize("bits", [32, 64])
@given(data=st.data())
def test_counters_wrap(bits: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, (1 << bits) - 1))
    more = data.draw(st.integers(0, (1 << (bits - 1)) - 1))
    before = np.array([start], dtype=np.uint64)
    after = np.array([(start + more) % (1 << bits)], dtype=np.uint64)
    found, restarted = grown(before, after, bits)
    assert (int(found[0]), restarted) == (more, False)


def test_a_counter_that_went_back_began_anew() -> None:
    found, restarted = increase(reading(1, p1=5_000, p2=70), reading(2, p1=40, p2=90))
    assert restarted
    assert found[:, 3, Field.SENT_BYTES].tolist() == [40, 90]


def test_levels_are_taken_as_they_are() -> None:
    before, after = reading(1, p1=10), reading(2, p1=30)
    before.values[0, 3, Field.QUEUE_PEAK_BYTES] = 900
    after.values[0, 3, Field.QUEUE_PEAK_BYTES] = 200
    found, restarted = increase(before, after)
    assert not restarted
    assert found[0, 3, Field.QUEUE_PEAK_BYTES] == 200
    assert found[0, 3, Field.SENT_BYTES] == 20


def test_ports_that_come_and_go() -> None:
    found, restarted = increase(reading(1, p1=10, p2=20), reading(2, p2=25, p9=7))
    assert not restarted
    assert found[:, 3, Field.SENT_BYTES].tolist() == [5, 7]


def test_what_is_no_reading() -> None:
    with pytest.raises(TelemetryError, match="not later"):
        increase(reading(2, p1=1), reading(2, p1=1))
    with pytest.raises(TelemetryError, match="in order"):
        Reading(0, (2, 1), np.zeros((2, ROWS, FIELDS), dtype=np.uint64))
    with pytest.raises(TelemetryError, match="of shape"):
        Reading(0, (1,), np.zeros((1, WHOLE, FIELDS), dtype=np.uint64))
    with pytest.raises(TelemetryError, match="32 or 64"):
        grown(np.zeros(1, np.uint64), np.zeros(1, np.uint64), 16)
