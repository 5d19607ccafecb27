"""The kernel's log as the events that metrics and reports read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from sglb.fabric.events import (
    Event,
    FlowCompleted,
    FlowStarted,
    LossReason,
    NotificationReceived,
    NotificationSent,
    PacketLost,
    PacketSentIntoDeadPath,
    PauseSent,
    PauseStorm,
    Traffic,
)
from sglb.switch.core import model as m
from sglb.switch.core.memory import Memory

_TRAFFIC: Final = (Traffic.DATA, Traffic.ACK, Traffic.CONTROL)
_REASONS: Final = {
    m.DROP_QUEUE_FULL: LossReason.QUEUE_FULL,
    m.DROP_BUFFER_FULL: LossReason.QUEUE_FULL,
    m.DROP_HEADROOM: LossReason.HEADROOM,
    m.DROP_STORM: LossReason.STORM,
    m.DROP_PORT_DOWN: LossReason.LINK_DOWN,
    m.DROP_CUT: LossReason.LINK_DOWN,
    m.DROP_RX_PORT_DOWN: LossReason.LINK_DOWN,
    m.DROP_CARRIER: LossReason.LINK_DOWN,
    m.DROP_RELOADED: LossReason.SWITCH_DOWN,
    m.DROP_NO_PROGRAM: LossReason.SWITCH_DOWN,
    m.DROP_BLACKHOLE: LossReason.BLACKHOLE,
    m.DROP_RANDOM: LossReason.RANDOM_LOSS,
    m.DROP_BITS: LossReason.BIT_ERRORS,
}
_LOW32: Final = 0xFFFFFFFF


class LogReader:
    """Takes records out of the kernel's log. Raises RuntimeError when some found no room there."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._make: dict[int, Callable[[int, int, int, int, int], Event]] = {
            m.LOG_LOST: self._lost,
            m.LOG_NOTE_SENT: lambda t, n, p, a, b: NotificationSent(t, n, p, a, bool(b)),
            m.LOG_NOTE_RECEIVED: lambda t, n, p, a, b: NotificationReceived(t, n, p, a, bool(b)),
            m.LOG_DEAD_PATH: lambda t, n, p, a, _b: PacketSentIntoDeadPath(t, n, p, a),
            m.LOG_FLOW_STARTED: lambda t, _n, _p, a, _b: FlowStarted(t, a),
            m.LOG_FLOW_COMPLETED: lambda t, _n, _p, a, _b: FlowCompleted(t, a),
            m.LOG_PAUSE: lambda t, n, p, a, b: PauseSent(t, n, p, a, bool(b)),
            m.LOG_WATCHDOG: lambda t, n, p, a, b: PauseStorm(t, n, p, a, bool(b)),
        }

    def take(self) -> list[Event]:
        """All records, in order of time (those of one time as the kernel wrote them); empties it."""
        w = self._memory.world.w
        if w[m.LOG_OVERRUN]:
            raise RuntimeError(f"{w[m.LOG_OVERRUN]} records found no room in the kernel's log")
        used, start = int(w[m.LOG_USED]), int(w[m.LOG_AT])
        if not used:
            return []
        table = w[start : start + used * m.LOG_WORDS].reshape(used, m.LOG_WORDS)
        rows = table[np.argsort(table[:, m.L_TIME], kind="stable")].tolist()
        w[m.LOG_USED] = 0
        return [self._event(*row) for row in rows]

    def _event(self, time_ps: int, kind: int, node: int, port: int, a: int, b: int) -> Event:
        number = 0 if port < 0 else self._memory.name(port)[1]
        return self._make[kind](time_ps, self._memory.nodes[node].id, number, a, b)

    @staticmethod
    def _lost(time_ps: int, node: int, port: int, reason: int, what: int) -> PacketLost:
        return PacketLost(
            time_ps,
            node,
            port,
            _REASONS.get(reason, LossReason.PROGRAM),
            _TRAFFIC[what >> 32],
            what & _LOW32,
        )
