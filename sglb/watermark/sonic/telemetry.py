"""What a switch counts: COUNTERS_DB by port, queue and priority group, and differences between samples.

Names lead to object ids by the maps COUNTERS_PORT_NAME_MAP, COUNTERS_QUEUE_NAME_MAP and
COUNTERS_PG_NAME_MAP; an object's counters stand in `COUNTERS:<oid>`. SONiC's daemons refresh them by
default once a second for ports, every 10 s for queues and every 60 s for watermarks (sonic-swss,
portsorch.cpp), so samples closer together find the same numbers.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sglb.watermark.sonic.database import Database, Db
from sglb.watermark.sonic.errors import SonicDataError

_PRIORITIES: Final = range(8)
_WRAP: Final = 1 << 64

#: Counters that only grow, by kind of object and by the name that samples give them.
_PORT: Final = {
    "rx_bytes": "SAI_PORT_STAT_IF_IN_OCTETS",
    "tx_bytes": "SAI_PORT_STAT_IF_OUT_OCTETS",
    "rx_packets": "SAI_PORT_STAT_IF_IN_UCAST_PKTS",
    "tx_packets": "SAI_PORT_STAT_IF_OUT_UCAST_PKTS",
    "rx_drops": "SAI_PORT_STAT_IF_IN_DISCARDS",
    "tx_drops": "SAI_PORT_STAT_IF_OUT_DISCARDS",
    "ecn_marked_packets": "SAI_PORT_STAT_ECN_MARKED_PACKETS",
    **{f"pfc{i}_rx_packets": f"SAI_PORT_STAT_PFC_{i}_RX_PKTS" for i in _PRIORITIES},
    **{f"pfc{i}_tx_packets": f"SAI_PORT_STAT_PFC_{i}_TX_PKTS" for i in _PRIORITIES},
    **{f"pfc{i}_rx_pause_us": f"SAI_PORT_STAT_PFC_{i}_RX_PAUSE_DURATION_US" for i in _PRIORITIES},
}
_QUEUE: Final = {
    "packets": "SAI_QUEUE_STAT_PACKETS",
    "bytes": "SAI_QUEUE_STAT_BYTES",
    "dropped_packets": "SAI_QUEUE_STAT_DROPPED_PACKETS",
    "ecn_marked_packets": "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS",
    "ecn_marked_bytes": "SAI_QUEUE_STAT_WRED_ECN_MARKED_BYTES",
}
_GROUP: Final = {"dropped_packets": "SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS"}
#: Levels: the highest since they were cleared, in bytes.
_NO_LEVELS: Final[Mapping[str, str]] = {}
_QUEUE_LEVELS: Final = {"watermark_bytes": "SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES"}
_GROUP_LEVELS: Final = {
    "shared_watermark_bytes": "SAI_INGRESS_PRIORITY_GROUP_STAT_SHARED_WATERMARK_BYTES",
    "headroom_watermark_bytes": "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES",
}


class Kind(StrEnum):
    """Objects with counters."""

    PORT = "port"
    QUEUE = "queue"
    GROUP = "priority group"


#: Keys of the hashes that lead from names to object ids.
_MAPS: Final = {
    Kind.PORT: "COUNTERS_PORT_NAME_MAP",
    Kind.QUEUE: "COUNTERS_QUEUE_NAME_MAP",
    Kind.GROUP: "COUNTERS_PG_NAME_MAP",
}
_COUNTERS: Final = {Kind.PORT: _PORT, Kind.QUEUE: _QUEUE, Kind.GROUP: _GROUP}
_LEVELS: Final = {Kind.PORT: _NO_LEVELS, Kind.QUEUE: _QUEUE_LEVELS, Kind.GROUP: _GROUP_LEVELS}


@dataclass(frozen=True, slots=True)
class Sample:
    """All counters at `time_s` (monotonic), by kind and name (`Ethernet0`, `Ethernet0:3`).

    A counter that the switch does not have is missing.
    """

    time_s: float
    counts: Mapping[Kind, Mapping[str, Mapping[str, int]]]
    levels: Mapping[Kind, Mapping[str, Mapping[str, int]]]


@dataclass(frozen=True, slots=True)
class Difference:
    """What was counted in `duration_s`; `restarted` are objects whose counters began anew meanwhile.

    Of those nothing is told: what they counted before they were cleared is not known.
    """

    duration_s: float
    counts: Mapping[Kind, Mapping[str, Mapping[str, int]]]
    restarted: tuple[str, ...]


class Telemetry:
    """Takes samples of a switch, of these ports if some are named."""

    def __init__(self, database: Database, ports: Iterable[str] | None = None) -> None:
        self._database = database
        self._ports = None if ports is None else frozenset(ports)

    def sample(self) -> Sample:
        """Reads everything once. Raises SonicConnectionError, or SonicDataError that names the key."""
        counts: dict[Kind, dict[str, dict[str, int]]] = {}
        levels: dict[Kind, dict[str, dict[str, int]]] = {}
        for kind in Kind:
            ids = self._ids(kind)
            keys = [f"COUNTERS:{ids[name]}" for name in ids]
            hashes = self._database.hashes(Db.COUNTERS, keys)
            counts[kind], levels[kind] = {}, {}
            for name, key, fields in zip(ids, keys, hashes, strict=True):
                counts[kind][name] = self._numbers(key, fields, _COUNTERS[kind])
                levels[kind][name] = self._numbers(key, fields, _LEVELS[kind])
        return Sample(time.monotonic(), counts, levels)

    def _ids(self, kind: Kind) -> dict[str, str]:
        found = self._database.hash(Db.COUNTERS, _MAPS[kind])
        if not found and kind is Kind.PORT:
            raise SonicDataError(
                f"{self._database.address}: COUNTERS_DB has no {_MAPS[kind]}: "
                "is this a SONiC switch, and is `counterpoll port` enabled?"
            )
        if self._ports is not None and kind is Kind.PORT:
            unknown = sorted(self._ports - found.keys())
            if unknown:
                raise SonicDataError(f"{self._database.address}: no port {', '.join(unknown)}")
        wanted = self._ports
        return {
            name: found[name]
            for name in sorted(found)
            if wanted is None or name.partition(":")[0] in wanted
        }

    def _numbers(
        self, key: str, fields: Mapping[str, str], names: Mapping[str, str]
    ) -> dict[str, int]:
        found = {}
        for name, field in names.items():
            text = fields.get(field)
            if text is None or text == "N/A":
                continue
            if not (text.isascii() and text.isdigit() and int(text) < _WRAP):
                raise SonicDataError(
                    f"{self._database.address}: {key} {field} is {text!r}, not a 64-bit counter"
                )
            found[name] = int(text)
        return found


def difference(before: Sample, after: Sample) -> Difference:
    """What was counted between two samples of one switch.

    A counter that went back has wrapped at 2^64 if it is closer to its old value that way round, else
    it was cleared. An object that is new, or gone, is left out. Raises ValueError when `after` is
    not later.
    """
    if after.time_s <= before.time_s:
        raise ValueError("the second sample is not later than the first")
    restarted = []
    counts: dict[Kind, dict[str, dict[str, int]]] = {}
    for kind in Kind:
        counts[kind] = {}
        for name, now in after.counts[kind].items():
            then = before.counts[kind].get(name)
            if then is None:
                continue
            grown = {field: (now[field] - then[field]) % _WRAP for field in now if field in then}
            if any(value >= _WRAP // 2 for value in grown.values()):
                restarted.append(name)
            else:
                counts[kind][name] = grown
    return Difference(after.time_s - before.time_s, counts, tuple(restarted))
