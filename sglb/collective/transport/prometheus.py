"""Statistics as Prometheus text (exposition format 0.0.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sglb.collective.transport.stats import PeerStats, RailStats, Stats

_PREFIX = "sglb_collective"

_RAIL: tuple[tuple[str, str, str, Callable[[RailStats], float]], ...] = (
    ("rail_sent_bytes_total", "counter", "Bytes sent over a rail.", lambda r: r.sent_bytes),
    (
        "rail_received_bytes_total",
        "counter",
        "Bytes received over a rail.",
        lambda r: r.received_bytes,
    ),
    (
        "rail_rate_bytes_per_second",
        "gauge",
        "Rate at which peers acknowledge, as last measured.",
        lambda r: r.rate,
    ),
    ("rail_carrier", "gauge", "1 if the rail's interface has its carrier.", lambda r: r.carrier),
    ("rail_channels_up", "gauge", "Connections that carry data.", lambda r: r.channels_up),
    ("rail_channels_down", "gauge", "Connections that are missing.", lambda r: r.channels_down),
    ("rail_failovers_total", "counter", "Connections given up.", lambda r: r.failovers),
)
_PEER: tuple[tuple[str, str, Callable[[PeerStats], float]], ...] = (
    ("messages_sent_total", "Messages sent.", lambda p: p.messages_sent),
    ("messages_received_total", "Messages received.", lambda p: p.messages_received),
    ("failovers_total", "Connections to the peer given up.", lambda p: p.failovers),
    ("failbacks_total", "Connections to the peer that carry data again.", lambda p: p.failbacks),
    ("replayed_bytes_total", "Bytes sent again after a failover.", lambda p: p.replayed_bytes),
    ("replayed_frames_total", "Frames sent again after a failover.", lambda p: p.replayed_frames),
    ("duplicates_total", "Frames that came twice and were dropped.", lambda p: p.duplicates),
)
_WHOLE: tuple[tuple[str, str, str, Callable[[Stats], float]], ...] = (
    ("open", "gauge", "1 until the group is given up.", lambda s: s.state == "open"),
    (
        "detection_bound_seconds",
        "gauge",
        "After how long a silent path is dead, at least.",
        lambda s: s.detection_bound_s,
    ),
    (
        "relayed_bytes_total",
        "counter",
        "Bytes passed on for ranks of the same host.",
        lambda s: s.relayed_bytes,
    ),
    (
        "shared_bytes_total",
        "counter",
        "Bytes taken from the memory of ranks of the same host without messages.",
        lambda s: s.shared_bytes,
    ),
)


def escape(text: str) -> str:
    """A label's value."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _line(name: str, labels: dict[str, Any], value: float) -> str:
    words = ",".join(f'{key}="{escape(str(word))}"' for key, word in labels.items())
    return f"{_PREFIX}_{name}{{{words}}} {float(value):.10g}"


def exposition(found: Iterable[Stats]) -> str:
    """The page of all transports of a process."""
    return "\n".join(_lines(list(found))) + "\n"


def _lines(found: list[Stats]) -> Iterator[str]:
    def labels(stats: Stats) -> dict[str, Any]:
        return {"group": stats.group, "rank": stats.rank}

    for name, kind, help_, whole in _WHOLE:
        yield from _head(name, kind, help_)
        for stats in found:
            yield _line(name, labels(stats), whole(stats))
    for name, kind, help_, of_rail in _RAIL:
        yield from _head(name, kind, help_)
        for stats in found:
            for rail in stats.rails:
                yield _line(name, {**labels(stats), "rail": rail.name}, of_rail(rail))
    for name, help_, of_peer in _PEER:
        yield from _head(name, "counter", help_)
        for stats in found:
            for number, peer in stats.peers.items():
                yield _line(name, {**labels(stats), "peer": number}, of_peer(peer))


def _head(name: str, kind: str, help_: str) -> Iterator[str]:
    yield f"# HELP {_PREFIX}_{name} {help_}"
    yield f"# TYPE {_PREFIX}_{name} {kind}"
