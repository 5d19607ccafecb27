"""Frames that the switch makes: their bytes and their times."""

from __future__ import annotations

from typing import Any

import pytest

from sglb.switch.clock import PS_PER_NS, PS_PER_US, VirtualClock
from sglb.switch.errors import BadValue
from sglb.switch.pktgen import KIND_PORT, KIND_TIMER, PacketGenerator, TimerApp, event_frame

HEAD = "000000000000000000000000" + "88b6"


@pytest.mark.parametrize(
    ("frame", "tail"),
    [
        (event_frame(0x88B6, 0, KIND_PORT, False, 0x1FE, 3), "000001fe0003"),
        (event_frame(0x88B6, 5, KIND_PORT, True, 7, 0x10002), "050100070002"),
        (event_frame(0x88B6, 7, KIND_TIMER, False, 0x2ABCD, 1), "0710abcd0001"),
    ],
)
def test_frames_byte_by_byte(frame: bytes, tail: str) -> None:
    assert frame.hex() == HEAD + tail


def generator() -> tuple[PacketGenerator, VirtualClock, list[tuple[int, str]]]:
    clock = VirtualClock()
    out: list[tuple[int, str]] = []
    made = PacketGenerator(clock, lambda data: out.append((clock.now_ps, data[14:].hex())), 0x88B6)
    return made, clock, out


def test_batches_and_packets_are_numbered_and_spaced() -> None:
    made, clock, out = generator()
    made.start(
        TimerApp(
            2,
            period_ps=10 * PS_PER_US,
            payload=b"\xca\xfe",
            start_ps=PS_PER_US,
            batch_packets=2,
            gap_ps=5 * PS_PER_NS,
            batches=2,
        )
    )
    assert made.running == (2,)
    clock.run()
    assert out == [
        (1_000_000, "021000000000cafe"),
        (1_005_000, "021000000001cafe"),
        (11_000_000, "021000010000cafe"),
        (11_005_000, "021000010001cafe"),
    ]
    assert made.running == ()


def test_an_endless_timer_stops_when_told() -> None:
    made, clock, out = generator()
    made.start(TimerApp(0, period_ps=PS_PER_US))
    made.start(TimerApp(1, period_ps=PS_PER_US))
    clock.run(until_ps=2 * PS_PER_US)
    made.stop(0)
    made.stop(0)
    clock.run(until_ps=3 * PS_PER_US)
    assert [frame[:2] for _, frame in out] == ["00", "01", "00", "01", "00", "01", "01"]
    made.stop_all()
    assert made.running == ()
    assert clock.next_ps() is None


def test_starting_an_application_again_replaces_it() -> None:
    made, clock, out = generator()
    made.start(TimerApp(0, period_ps=PS_PER_US, payload=b"a"))
    made.start(TimerApp(0, period_ps=PS_PER_US, payload=b"b", batches=1))
    clock.run()
    assert out == [(0, "00100000000062")]


@pytest.mark.parametrize(
    "settings",
    [
        {"app_id": 8, "period_ps": 1},
        {"app_id": 0, "period_ps": 0},
        {"app_id": 0, "period_ps": 1, "batch_packets": 0},
        {"app_id": 0, "period_ps": 10, "batch_packets": 3, "gap_ps": 5},
    ],
)
def test_bad_applications_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match="packet generator"):
        TimerApp(**settings)
