"""What a SONiC switch says of its ports, and its counters of an interval as a tuner sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sglb.fabric.headroom import QUANTUM_BITS
from sglb.watermark.sonic.config import SwitchConfig
from sglb.watermark.sonic.database import Database
from sglb.watermark.sonic.errors import SonicDataError
from sglb.watermark.sonic.fields import WRED_PROFILE
from sglb.watermark.sonic.telemetry import Difference, Kind, Sample
from sglb.watermark.telemetry.collector import SwitchView
from sglb.watermark.telemetry.reading import FIELDS, ROWS, WHOLE, Field, Values
from sglb.watermark.telemetry.view import PortFacts

_LONGEST_QUANTA = 65_535
_NS_PER_S = 10**9


@dataclass(frozen=True, slots=True)
class SonicFacts:
    """A switch's ports by name: rate, and whether a host is behind; and the classes to tune."""

    ports: Mapping[str, PortFacts]
    classes: tuple[int, ...]


def read_facts(database: Database, config: SwitchConfig, profiles: set[str]) -> SonicFacts:
    """From PORT, QUEUE and the neighbours that DEVICE_NEIGHBOR(_METADATA) names.

    A port whose neighbour is a router of some kind leads into the fabric; every other one to a host.
    `profiles` are the WRED profiles that are tuned. Raises SonicDataError for ports without a speed, or
    when no queue uses such a profile.
    """
    users = [
        user.split("|")
        for (table, name), profile in config.profiles.items()
        if table == WRED_PROFILE and (not profiles or name in profiles)
        for user in profile.users
    ]
    queues = {
        (port, _number(database, queue)) for _, port, queue in (u for u in users if len(u) == 3)
    }
    if not queues:
        raise SonicDataError(
            f"{database.address}: no queue uses {', '.join(sorted(profiles)) or 'a WRED profile'}: "
            "there is nothing to tune"
        )
    kinds = {
        name: fields.get("type", "")
        for name, fields in database.table("DEVICE_NEIGHBOR_METADATA").items()
    }
    neighbours = {
        port: kinds.get(fields.get("name", ""), "")
        for port, fields in database.table("DEVICE_NEIGHBOR").items()
    }
    used = {port for port, _ in queues}
    ports = {}
    for port, fields in database.table("PORT").items():
        if port in used:
            speed = fields.get("speed", "")
            if not (speed.isascii() and speed.isdigit() and int(speed)):
                raise SonicDataError(
                    f"{database.address}: PORT|{port} speed is {speed!r}, no Mbit/s"
                )
            to_host = "Router" not in neighbours.get(port, "")
            ports[port] = PortFacts(int(speed) * 10**6, to_host)
    if not ports:
        raise SonicDataError(f"{database.address}: PORT has none of {', '.join(sorted(used)[:3])}")
    return SonicFacts(ports, tuple(sorted({queue for port, queue in queues if port in ports})))


def _number(database: Database, queue: str) -> int:
    if not (queue.isascii() and queue.isdigit() and int(queue) < 8):
        raise SonicDataError(f"{database.address}: QUEUE has a queue {queue!r}; they are 0 to 7")
    return int(queue)


def view(facts: SonicFacts, grown: Difference, after: Sample) -> SwitchView:
    """An interval's counters, the tuned classes as one (the first of them).

    SONiC has no mean depth of queues: the high-water mark stands for it. Where it doesn't count how
    long a class was paused, and for how long it has paused its peer, each pause frame counts for the
    longest time it can ask for: an upper bound.
    """
    values = np.zeros((len(facts.ports), ROWS, FIELDS), dtype=np.uint64)
    span_ns = max(1, round(grown.duration_s * _NS_PER_S))
    for at, (name, port) in enumerate(sorted(facts.ports.items())):
        _port(values[at], facts, name, port, grown, after, span_ns)
    return SwitchView(
        0,
        0,
        span_us=max(1, span_ns // 1_000),
        ports=tuple(range(len(facts.ports))),
        values=values,
        whole=not grown.restarted,
    )


def _port(
    out: Values,
    facts: SonicFacts,
    name: str,
    port: PortFacts,
    grown: Difference,
    after: Sample,
    span_ns: int,
) -> None:
    counts = grown.counts[Kind.PORT].get(name, {})
    row = out[facts.classes[0]]
    longest_ns = _LONGEST_QUANTA * QUANTUM_BITS * _NS_PER_S // port.rate_bps
    lost = 0
    for cls in facts.classes:
        queue = grown.counts[Kind.QUEUE].get(f"{name}:{cls}", {})
        group = grown.counts[Kind.GROUP].get(f"{name}:{cls}", {})
        peak = after.levels[Kind.QUEUE].get(f"{name}:{cls}", {}).get("watermark_bytes", 0)
        row[Field.SENT_BYTES] += np.uint64(queue.get("bytes", 0))
        row[Field.QUEUE_PEAK_BYTES] = max(int(row[Field.QUEUE_PEAK_BYTES]), peak)
        received = counts.get(f"pfc{cls}_rx_packets", 0)
        paused_us = counts.get(f"pfc{cls}_rx_pause_us")
        paused_ns = received * longest_ns if paused_us is None else paused_us * 1_000
        held_ns = counts.get(f"pfc{cls}_tx_packets", 0) * longest_ns
        for field, told_ns in ((Field.PAUSED_NS, paused_ns), (Field.PEER_PAUSED_NS, held_ns)):
            row[field] = max(int(row[field]), min(told_ns, span_ns))
        row[Field.PAUSES_RECEIVED] += np.uint64(received)
        lost += queue.get("dropped_packets", 0) + group.get("dropped_packets", 0)
    row[Field.QUEUE_MEAN_BYTES] = row[Field.QUEUE_PEAK_BYTES]
    whole = out[WHOLE]
    whole[Field.LOST_PACKETS] = lost
    whole[Field.MARKED_PACKETS] = counts.get("ecn_marked_packets", 0)
    whole[Field.RECEIVED_BYTES] = counts.get("rx_bytes", 0)
    whole[Field.RECEIVED_PACKETS] = counts.get("rx_packets", 0)
    whole[Field.SENT_PACKETS] = counts.get("tx_packets", 0)
