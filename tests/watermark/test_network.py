"""Networks whose names do not fit together."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from sglb.watermark.errors import WatermarkError
from sglb.watermark.network import Hop, Network, behind_uplink


def _with(part: str, at: int, **change: Any) -> Network:
    network = behind_uplink(4)
    parts = list(getattr(network, part))
    parts[at] = dataclasses.replace(parts[at], **change)
    return dataclasses.replace(network, **{part: tuple(parts)})


@pytest.mark.parametrize(
    ("part", "at", "change", "text"),
    [
        (
            "queues",
            0,
            {"switch": "nea"},
            "queue 'uplink': there is no switch 'nea'; did you mean near?",
        ),
        ("queues", 0, {"rate_gbps": 0}, "queue 'uplink': rate_gbps must be above 0, got 0"),
        ("queues", 0, {"name": "port"}, "two queues are called 'port'"),
        ("queues", 0, {"name": "hosts"}, "a source and a queue are both called 'hosts'"),
        (
            "ingresses",
            0,
            {"pauses": "host"},
            "ingress 'from hosts': there is no source or queue 'host'",
        ),
        ("ingresses", 1, {"pauses": "hosts"}, "both pause 'hosts': a link has one end"),
        ("ingresses", 1, {"delay_us": -1}, "delay_us must be 0 or more, got -1"),
        ("ingresses", 1, {"switch": "near"}, "is in switch 'far', ingress 'from near' in 'near'"),
        ("flows", 0, {"source": "h"}, "flow 'flows': there is no source 'h'"),
        ("flows", 0, {"hops": ()}, "flow 'flows' passes no queue"),
        (
            "flows",
            0,
            {"hops": (Hop("port", "from near", 1),)},
            "comes to ingress 'from near' from 'hosts'",
        ),
        ("flows", 0, {"size_bytes": 0}, "size_bytes must be above 0"),
        ("switches", 0, {"buffer_bytes": -1}, "switch 'near': buffer_bytes must be above 0"),
    ],
)
def test_each_mistake_is_named(part: str, at: int, change: dict[str, Any], text: str) -> None:
    with pytest.raises(WatermarkError) as caught:
        _with(part, at, **change)
    assert text in str(caught.value)


def test_parts_are_needed() -> None:
    network = behind_uplink(4)
    with pytest.raises(WatermarkError, match="a network needs a flow"):
        dataclasses.replace(network, flows=())
