"""The native hosts' numbers from a scenario's `transport` block."""

from __future__ import annotations

import pytest

from sglb.fabric.kernel.host_settings import HostSettings, host_settings
from sglb.fabric.schema import TransportBlock


def test_a_block_in_microseconds_becomes_picoseconds() -> None:
    block = TransportBlock.model_validate(
        {
            "recovery": "go_back_n",
            "nack": False,
            "window_packets": None,
            "ack_timer_us": 2.5,
            "rto_us": 100.0,
            "traffic_class": 3,
            "cnp_class": 5,
            "dcqcn": {"enabled": True, "timer_us": 300.0},
        }
    )
    settings = host_settings(block)
    assert settings.dcqcn is not None
    assert (settings.controls_rate, settings.dcqcn.timer_ps) == (True, 300_000_000)
    assert (settings.go_back_n, settings.nack, settings.window_packets) == (True, False, None)
    assert (settings.ack_timer_ps, settings.rto_ps) == (2_500_000, 100_000_000)
    assert (settings.traffic_class, settings.cnp_class) == (3, 5)
    assert not host_settings(TransportBlock()).controls_rate


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"mtu_bytes": 4_098}, "mtu_bytes must be a multiple of 4"),
        ({"window_packets": 0}, "window_packets must be 1..1024, got 0"),
        ({"ack_every": 0}, "ack_every >= 1"),
        ({"rto_ps": 2, "rto_max_ps": 1}, "rto_ps <= rto_max_ps"),
        ({"ip_version": 5}, "ip_version must be 4 or 6"),
        ({"cnp_class": 8}, "must be 0..7"),
    ],
)
def test_numbers_that_cannot_be_are_refused(bad: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HostSettings(**bad)  # type: ignore[arg-type]
