"""A switch's side: what moved by more than its deadband since it was told last goes into one message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sglb.switch.clock import PS_PER_US
from sglb.watermark.telemetry.errors import TelemetryError
from sglb.watermark.telemetry.message import Message, encode
from sglb.watermark.telemetry.reading import (
    COUNTERS,
    FIELDS,
    ROWS,
    Field,
    Reading,
    Values,
    increase,
)

_ONE: Final = 1_024


@dataclass(frozen=True, slots=True)
class Deadband:
    """How much has to move before it is told.

    A value is told in steps (`steps`, 1 for fields that are not listed), once it is more than `share`
    of what was told last, and more than `least` steps, away from that. Losses are told as they are.
    `every`: after so many intervals comes a full message.
    """

    steps: dict[Field, int] = field(
        default_factory=lambda: {
            Field.SENT_BYTES: _ONE,
            Field.RECEIVED_BYTES: _ONE,
            Field.QUEUE_MEAN_BYTES: _ONE,
            Field.QUEUE_PEAK_BYTES: _ONE,
            Field.PAUSED_NS: 1_000,
            Field.PEER_PAUSED_NS: 1_000,
        }
    )
    share: float = 0.1
    least: int = 2
    every: int = 64

    @classmethod
    def for_rate(cls, rate_bps: int, span_us: float, mtu_bytes: int) -> Deadband:
        """For intervals of `span_us`: steps of a percent of what a port carries in one, and of time."""
        step_bytes = max(1, round(rate_bps * span_us / 8e8))
        step_packets = max(1, step_bytes // mtu_bytes)
        step_ns = max(1, round(span_us * 10))
        return cls(
            {
                Field.SENT_BYTES: step_bytes,
                Field.RECEIVED_BYTES: step_bytes,
                Field.SENT_PACKETS: step_packets,
                Field.RECEIVED_PACKETS: step_packets,
                Field.MARKED_PACKETS: step_packets,
                Field.QUEUE_MEAN_BYTES: mtu_bytes,
                Field.QUEUE_PEAK_BYTES: mtu_bytes,
                Field.PAUSED_NS: step_ns,
                Field.PEER_PAUSED_NS: step_ns,
            }
        )

    def __post_init__(self) -> None:
        if any(step < 1 for step in self.steps.values()):
            raise TelemetryError("a step is at least 1")
        if not 0 <= self.share < 1 or self.least < 1 or self.every < 1:
            raise TelemetryError("share is from 0 to below 1; least and every are at least 1")


class Agent:
    """Makes a switch's messages. `begin` an interval with a reading, `report` it with the next.

    Give a switch that has restarted a larger `incarnation`. `bits` are those of its counters.
    """

    def __init__(
        self, switch: int, incarnation: int = 0, deadband: Deadband | None = None, bits: int = 64
    ) -> None:
        self._switch = switch
        self._incarnation = incarnation
        self._deadband = deadband or Deadband()
        self._bits = bits
        self._steps = np.array([self._deadband.steps.get(one, 1) for one in Field], dtype=np.uint64)
        self._sequence = 0
        self._since_full = self._deadband.every
        self._ports: tuple[int, ...] = ()
        self._told: Values = np.zeros((0, ROWS, FIELDS), dtype=np.uint64)
        self._before: Reading | None = None

    def begin(self, reading: Reading) -> None:
        """An interval begins."""
        self._before = reading

    def report(self, after: Reading) -> bytes | None:
        """The message of the interval that `begin` began; the next begins here. None: nothing moved.

        Raises `TelemetryError` without `begin`, or when time has not gone on.
        """
        if self._before is None:
            raise TelemetryError("report without begin")
        before, self._before = self._before, after
        found, restarted = increase(before, after, self._bits)
        now = found // self._steps + (found % self._steps > self._steps // np.uint64(2))
        if restarted:
            self._incarnation += 1
            self._sequence = 0
        full = (
            restarted or after.ports != self._ports or self._since_full >= self._deadband.every - 1
        )
        if full:
            self._ports = after.ports
            told = now > 0
            self._told = now.copy()
        else:
            told = self._moved(now)
            self._told[told] = now[told]
        self._since_full = 0 if full else self._since_full + 1
        if not told.any() and not full:
            return None
        message = Message(
            self._switch,
            self._incarnation,
            self._sequence,
            after.time_ps // PS_PER_US,
            max(1, (after.time_ps - before.time_ps) // PS_PER_US),
            _cells(now, told),
            after.ports if full else (),
            tuple(int(step) for step in self._steps) if full else (),
            _totals(after.values) if full else None,
        )
        self._sequence += 1
        return encode(message)

    def _moved(self, now: Values) -> np.typing.NDArray[np.bool_]:
        last = self._told.astype(np.float64)
        distance = np.abs(now.astype(np.float64) - last)
        wide = np.maximum(float(self._deadband.least), self._deadband.share * last)
        found = distance > wide
        found[..., Field.LOST_PACKETS] = distance[..., Field.LOST_PACKETS] > 0
        return found


def _cells(values: Values, told: np.typing.NDArray[np.bool_]) -> dict[tuple[int, int], int]:
    flat, chosen = values.reshape(-1, FIELDS), told.reshape(-1, FIELDS)
    return {(int(r), int(f)): int(flat[r, f]) for r, f in zip(*np.nonzero(chosen), strict=True)}


def _totals(values: Values) -> dict[tuple[int, int], int]:
    counters = np.zeros(FIELDS, dtype=bool)
    counters[list(COUNTERS)] = True
    return _cells(values, (values > 0) & counters)
