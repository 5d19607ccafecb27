"""The tuner's side: what switches have said, put together, and which of it is to be believed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sglb.watermark.telemetry.errors import TelemetryError
from sglb.watermark.telemetry.message import Cells, Message, decode
from sglb.watermark.telemetry.reading import FIELDS, ROWS, Values


@dataclass(slots=True)
class SwitchView:
    """What is known of a switch.

    Attributes:
        incarnation, sequence: of its last message.
        end_us, span_us: the last interval that it told of.
        ports: its ports in order.
        values: of an interval as long as the last, counters' growth and levels, shape (ports, 9, 12);
            exact within the deadband.
        totals: its counters as of the last full message, same shape.
        whole: whether nothing was lost since the last full message.
        missed: messages that never came.
        ignored: those that came before any full one, too late, or twice.
    """

    incarnation: int
    sequence: int
    end_us: int = 0
    span_us: int = 1
    ports: tuple[int, ...] = ()
    steps: Values = field(default_factory=lambda: np.ones(FIELDS, dtype=np.uint64))
    values: Values = field(default_factory=lambda: np.zeros((0, ROWS, FIELDS), dtype=np.uint64))
    totals: Values = field(default_factory=lambda: np.zeros((0, ROWS, FIELDS), dtype=np.uint64))
    whole: bool = False
    missed: int = 0
    ignored: int = 0


class Collector:
    """Takes messages in, in whatever order and however often they come."""

    def __init__(self) -> None:
        self.switches: dict[int, SwitchView] = {}
        self.bytes = 0

    def take(self, data: bytes) -> int:
        """A message arrives; the switch that it is from.

        Raises `TelemetryError` for what is none, or names a port that its switch has not told of:
        then nothing has changed.
        """
        message = decode(data)
        _check(message, self.switches.get(message.switch))
        self.bytes += len(data)
        view = self.switches.setdefault(
            message.switch, SwitchView(message.incarnation, message.sequence - 1)
        )
        if message.incarnation < view.incarnation:
            view.ignored += 1
            return message.switch
        if message.incarnation > view.incarnation:
            view.whole, view.ports = False, ()
            view.incarnation, view.sequence = message.incarnation, -1
        if message.sequence <= view.sequence:
            view.ignored += 1
            return message.switch
        gap = message.sequence - view.sequence - 1
        view.missed += gap
        view.sequence = message.sequence
        if message.full:
            _renew(view, message)
        elif not view.ports:
            view.ignored += 1
            return message.switch
        else:
            view.whole = view.whole and not gap
            _write(view.values, message.cells, view.steps)
        view.end_us, view.span_us = message.end_us, message.span_us
        return message.switch


def _check(message: Message, view: SwitchView | None) -> None:
    if message.full:
        ports = len(message.ports)
    elif view is None or not view.ports or message.incarnation != view.incarnation:
        return  # it is to be ignored
    else:
        ports = len(view.ports)
    cells = [*message.cells, *(message.totals or ())]
    row = max((row for row, _ in cells), default=-1)
    if row >= ports * ROWS:
        raise TelemetryError(
            f"switch {message.switch}: a value of port {row // ROWS}, counted from 0, but it has "
            f"{ports} ports"
        )


def _renew(view: SwitchView, message: Message) -> None:
    view.ports = message.ports
    view.steps = np.array(message.steps, dtype=np.uint64)
    shape = (len(message.ports), ROWS, FIELDS)
    view.values = np.zeros(shape, dtype=np.uint64)
    view.totals = np.zeros(shape, dtype=np.uint64)
    _write(view.values, message.cells, view.steps)
    _write(view.totals, message.totals or {}, np.ones(FIELDS, dtype=np.uint64))
    view.whole = True


def _write(values: Values, cells: Cells, steps: Values) -> None:
    flat = values.reshape(-1, FIELDS)
    for (row, at), value in cells.items():
        flat[row, at] = min(value * int(steps[at]), (1 << 64) - 1)
