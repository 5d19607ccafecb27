"""Readings of a switch on the native engine, simulated or live: its memory has what is counted."""

from __future__ import annotations

from typing import Final

import numpy as np

from sglb.switch.clock import PS_PER_NS
from sglb.switch.core import model as m
from sglb.switch.core.bind import CoreSwitch
from sglb.switch.ports import DropReason
from sglb.watermark.telemetry.errors import TelemetryError
from sglb.watermark.telemetry.reading import CLASSES, FIELDS, ROWS, WHOLE, Field, Reading, Values

#: Packets marked, by port: a counter of the P4 program, packets and bytes of each cell.
_MARKED: Final = "FabricEgress.ecn.marked"
_LOSSES: Final = (DropReason.QUEUE_FULL, DropReason.BUFFER_FULL, DropReason.HEADROOM)
_Ints = np.typing.NDArray[np.int64]


class KernelSource:
    """Reads a switch. For a live one, hold its lock around every call.

    Between `begin` and `read` call `sample` at even times: the mean depth of queues is over these, the
    deepest is exact. Marks are told of programs that count them in `FabricEgress.ecn.marked`, else they
    are 0. Raises `TelemetryError` for a port that the switch doesn't have.
    """

    def __init__(self, core: CoreSwitch, ports: tuple[int, ...]) -> None:
        known = core.memory.port_numbers[core.node]
        unknown = [port for port in ports if port not in known]
        if unknown:
            raise TelemetryError(
                f"switch {core.switch.name} has no port {unknown[0]}; it has "
                f"{', '.join(map(str, sorted(known)))}"
            )
        self._core = core
        self.ports = tuple(sorted(ports))
        world = core.memory.world
        self._w = world.w
        number = np.array([core.memory.port(core.node, port) for port in self.ports])
        self._records: _Ints = int(self._w[m.PORTS_AT]) + number * m.PORT_WORDS
        classes = number[:, None] * m.CLASSES + np.arange(CLASSES)
        self._queues: _Ints = int(self._w[m.QUEUES_AT]) + classes * m.QUEUE_WORDS
        self._groups: _Ints = int(self._w[m.GROUPS_AT]) + classes * m.GROUP_WORDS
        self._depths: list[_Ints] = []
        self._marked_id = _counter_id(core)

    def begin(self) -> None:
        """Queues' means and peaks are from now on."""
        self._depths = []
        self._w[self._queues + m.Q_HIGH_BYTES] = self._w[self._queues + m.Q_BYTES]

    def sample(self) -> None:
        """Looks at the depths of queues."""
        self._depths.append(self._w[self._queues + m.Q_BYTES])

    def read(self) -> Reading:
        """All there is, now."""
        now_ps = self._core.switch.clock.now_ps
        values = np.zeros((len(self.ports), ROWS, FIELDS), dtype=np.uint64)
        self._by_class(values[:, :CLASSES], now_ps)
        self._by_port(values[:, WHOLE])
        return Reading(now_ps, self.ports, values)

    def _by_class(self, out: Values, now_ps: int) -> None:
        w, queues = self._w, self._queues
        out[..., Field.SENT_BYTES] = w[queues + m.Q_SENT_BYTES]
        if self._depths:
            out[..., Field.QUEUE_MEAN_BYTES] = np.mean(self._depths, axis=0).round()
        out[..., Field.QUEUE_PEAK_BYTES] = w[queues + m.Q_HIGH_BYTES]
        held = w[queues + m.Q_HELD_PS] + np.where(w[self._groups + m.G_XOFF] != 0, now_ps, 0)
        out[..., Field.PEER_PAUSED_NS] = held // PS_PER_NS
        paused = w[self._records + m.P_PAUSED][:, None] >> np.arange(CLASSES) & 1
        since = np.where(paused != 0, now_ps - w[queues + m.Q_PAUSED_AT], 0)
        out[..., Field.PAUSED_NS] = (w[queues + m.Q_PAUSED_PS] + since) // PS_PER_NS
        out[..., Field.PAUSES_SENT] = w[queues + m.Q_PAUSE_TX]
        out[..., Field.PAUSES_RECEIVED] = w[queues + m.Q_PAUSE_RX]

    def _by_port(self, out: Values) -> None:
        w, records = self._w, self._records
        out[:, Field.SENT_PACKETS] = w[records + m.P_TX_PACKETS]
        out[:, Field.RECEIVED_BYTES] = w[records + m.P_RX_BYTES]
        out[:, Field.RECEIVED_PACKETS] = w[records + m.P_RX_PACKETS]
        self._core.collect()
        state = self._core.switch.state
        counter = None if self._marked_id is None else state.counters[self._marked_id]
        for at, port in enumerate(self.ports):
            drops = self._core.switch.ports[port].counters.drops
            out[at, Field.LOST_PACKETS] = sum(drops[reason] for reason in _LOSSES)
            if counter is not None:
                out[at, Field.MARKED_PACKETS] = counter.cell(port).packets


def _counter_id(core: CoreSwitch) -> int | None:
    counters = core.switch.state.counters if core.switch.program is not None else {}
    return next((number for number, one in counters.items() if one.name == _MARKED), None)
