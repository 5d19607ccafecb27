"""What a switch counts for a tuner: fields by port and class, and what grew between two readings.

A reading has one row a port and class, and one more a port for what is counted of the whole port
(`WHOLE`). Values are unsigned, 64 bits. A counter only grows, and may wrap at 2^32 or 2^64; a level
stands for an interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from sglb.watermark.telemetry.errors import TelemetryError

#: Classes, and the row of the whole port after them.
CLASSES: Final = 8
WHOLE: Final = CLASSES
ROWS: Final = CLASSES + 1

Values = np.typing.NDArray[np.uint64]


class Field(IntEnum):
    """What is told; the number is its bit in a message, the most frequent first."""

    SENT_BYTES = 0  #: to the wire
    QUEUE_MEAN_BYTES = 1
    QUEUE_PEAK_BYTES = 2
    MARKED_PACKETS = 3  #: by ECN; of a whole port
    PAUSED_NS = 4  #: for which the peer had paused this port
    PEER_PAUSED_NS = 5  #: for which this port had paused its peer
    RECEIVED_BYTES = 6  #: of a whole port
    SENT_PACKETS = 7  #: of a whole port
    RECEIVED_PACKETS = 8  #: of a whole port
    PAUSES_SENT = 9  #: pause frames of all kinds
    PAUSES_RECEIVED = 10  #: those that ask to stop
    LOST_PACKETS = 11  #: for want of room; of a whole port


FIELDS: Final = len(Field)
#: All others are counters.
LEVELS: Final = frozenset({Field.QUEUE_MEAN_BYTES, Field.QUEUE_PEAK_BYTES})
COUNTERS: Final = tuple(field for field in Field if field not in LEVELS)


@dataclass(frozen=True, slots=True)
class Reading:
    """A switch's values at `time_ps`.

    Attributes:
        ports: P4 port numbers in order.
        values: shape (ports, `ROWS`, `FIELDS`).
    """

    time_ps: int
    ports: tuple[int, ...]
    values: Values

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.ports), ROWS, FIELDS):
            raise TelemetryError(
                f"{len(self.ports)} ports need values of shape ({len(self.ports)}, {ROWS}, "
                f"{FIELDS}), got {self.values.shape}"
            )
        if list(self.ports) != sorted(set(self.ports)):
            raise TelemetryError(f"ports must be in order, each once, got {self.ports}")


def grown(before: Values, after: Values, bits: int = 64) -> tuple[Values, bool]:
    """How much counters grew, element by element; whether they began anew in between.

    A counter that went back has wrapped at 2^`bits` if it is closer to its old value that way round;
    if not, the switch has restarted, and what it says now is what it has counted since.
    """
    if bits not in (32, 64):
        raise TelemetryError(f"a counter has 32 or 64 bits, not {bits}")
    mask = np.uint64((1 << bits) - 1)
    difference = (after - before) & mask
    restarted = bool((difference >= np.uint64(1 << (bits - 1))).any())
    return (after.copy() if restarted else difference), restarted


def increase(before: Reading, after: Reading, bits: int = 64) -> tuple[Values, bool]:
    """What an interval brought: counters' growth and the levels as they are; whether it restarted.

    Ports that are new count from 0, those that are gone are left out. Raises `TelemetryError` when
    `after` is not later.
    """
    if after.time_ps <= before.time_ps:
        raise TelemetryError("the second reading is not later than the first")
    was = np.zeros_like(after.values)
    place = {port: at for at, port in enumerate(before.ports)}
    for at, port in enumerate(after.ports):
        if port in place:
            was[at] = before.values[place[port]]
    found = after.values.copy()
    counters = list(COUNTERS)
    found[..., counters], restarted = grown(was[..., counters], after.values[..., counters], bits)
    return found, restarted
