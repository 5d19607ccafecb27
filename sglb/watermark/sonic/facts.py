"""What a SONiC switch says of its ports, and its counters of an interval as a tuner sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sglb.fabric.headroom import QUANTUM_BITS
from sglb.watermark.sonic.config import SwitchConfig
from sglb.watermark.sonic.database import Address, Database
from sglb.watermark.sonic.errors import SonicDataError
from sglb.watermark.sonic.fields import WRED_PROFILE
from sglb.watermark.sonic.keys import members
from sglb.watermark.sonic.telemetry import Difference, Kind, Sample
from sglb.watermark.telemetry.collector import SwitchView
from sglb.watermark.telemetry.reading import CLASSES, FIELDS, ROWS, WHOLE, Field, Values
from sglb.watermark.telemetry.view import PortFacts

_LONGEST_QUANTA = 65_535
#: Values of `ecn` with which green packets, as RoCE's are, are marked.
_MARKS_GREEN = frozenset({"ecn_green", "ecn_green_yellow", "ecn_green_red", "ecn_all"})
_NS_PER_S = 10**9


@dataclass(frozen=True, slots=True)
class SonicFacts:
    """A switch's ports by name: rate, and whether a host is behind; and the classes to tune.

    `queues` are those that use a tuned profile, as counters are named (`Ethernet0:3`).
    """

    ports: Mapping[str, PortFacts]
    classes: tuple[int, ...]
    queues: tuple[str, ...]


def read_facts(database: Database, config: SwitchConfig, profiles: set[str]) -> SonicFacts:
    """From PORT, QUEUE and the neighbours that DEVICE_NEIGHBOR(_METADATA) names.

    A port whose neighbour is a router of some kind leads into the fabric; every other one to a host.
    `profiles` are the WRED profiles that are tuned. Raises SonicDataError for ports without a speed,
    when no queue uses such a profile, or when one doesn't mark.
    """
    for name in sorted(profiles):
        _check_marking(config, name)
    queues = {
        (port, queue)
        for (table, name), profile in config.profiles.items()
        if table == WRED_PROFILE and (not profiles or name in profiles)
        for user in profile.users
        for port, queue in _queues(database.address, user)
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
    here = sorted((port, queue) for port, queue in queues if port in ports)
    classes = tuple(sorted({queue for _, queue in here}))
    return SonicFacts(ports, classes, tuple(f"{port}:{queue}" for port, queue in here))


def _check_marking(config: SwitchConfig, name: str) -> None:
    """Without ECN thresholds drop packets, of a lossless class too; without WRED they do nothing."""
    profile = config.named(WRED_PROFILE, name)
    ecn = profile.fields.get("ecn", "ecn_none")
    enabled = profile.fields.get("wred_green_enable", "false")
    if ecn not in _MARKS_GREEN:
        found = f"ecn is {ecn}: green packets would be dropped, not marked"
    elif enabled != "true":
        found = f"wred_green_enable is {enabled}: its thresholds have no effect on green packets"
    else:
        return
    raise SonicDataError(f"{config.address}: {WRED_PROFILE}|{name} {found}; nothing was tuned")


def _queues(address: Address, user: str) -> list[tuple[str, int]]:
    """Ports and queues of a key. Raises SonicDataError for a malformed one, or a queue without PFC."""
    found = members(address, user)
    beyond = sorted({queue for _, queue in found if queue not in range(CLASSES)})
    if beyond:
        raise SonicDataError(
            f"{address}: {user}: queue {beyond[0]} can't be tuned; only 0 to {CLASSES - 1} can be paused"
        )
    return found


def check_counted(address: Address, facts: SonicFacts, sample: Sample) -> None:
    """Raises SonicDataError for what `view` needs and nobody counts: it would pass for 0.

    A switch whose queue has no priority group loses nothing there.
    """
    counts, levels = sample.counts, sample.levels
    for name in facts.queues:
        port, _, cls = name.partition(":")
        pauses = (f"pfc{cls}_rx_packets", f"pfc{cls}_rx_pause_us")
        needed = [
            (counts, Kind.QUEUE, name, ("bytes",), "queue"),
            (counts, Kind.QUEUE, name, ("dropped_packets",), "queue"),
            (levels, Kind.QUEUE, name, ("watermark_bytes",), "watermark"),
            (counts, Kind.PORT, port, ("rx_bytes",), "port"),
            (counts, Kind.PORT, port, pauses, "port"),
        ]
        if not counts[Kind.GROUP] or name in counts[Kind.GROUP]:
            needed.append((counts, Kind.GROUP, name, ("dropped_packets",), "pg-drop"))
        for found, kind, of, any_of, poll in needed:
            if found[kind].get(of, {}).keys().isdisjoint(any_of):
                raise SonicDataError(
                    f"{address}: COUNTERS_DB has no {any_of[0]} of {kind} {of}: "
                    f"is `counterpoll {poll}` enabled?"
                )


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
