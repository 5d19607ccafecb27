"""What the parts of an agent share: the time, counters, and the way out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from sglb.syncmesh import messages as m
from sglb.syncmesh.config import AgentConfig
from sglb.syncmesh.effects import Effect, SendFrame, SendToPipeline
from sglb.syncmesh.serial import SEQ_BITS, following
from sglb.syncmesh.stats import Count


class Outbox:
    """Numbers, signs and collects what goes out during one call of the agent."""

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        self.now_ps = 0
        self.counters: Counter[Count] = Counter()
        self._effects: list[Effect] = []
        self._seq = config.first_seq

    def emit(self, effect: Effect) -> None:
        """Adds an effect."""
        self._effects.append(effect)

    def take(self) -> list[Effect]:
        """The effects since the last call."""
        effects, self._effects = self._effects, []
        return effects

    def count(self, what: Count) -> None:
        """Counts."""
        self.counters[what] += 1

    def send(self, port: int, make: Callable[[int, int, int], m.AnyAgentMessage]) -> int:
        """Sends `make(origin, incarnation, seq)` to a port; returns its sequence number."""
        self._seq = following(self._seq, SEQ_BITS)
        config = self.config
        message = make(config.node, config.incarnation, self._seq)
        self.emit(SendFrame(port, m.frame(config.mac, message.encode(config.key))))
        return self._seq

    def send_set(self, what: int, code: int, profile: int, port: int, subject: int) -> None:
        """Sends a SET to the own data plane."""
        self._seq = following(self._seq, SEQ_BITS)
        config = self.config
        order = m.Set(
            origin=config.node,
            incarnation=config.incarnation,
            seq=self._seq,
            what=what,
            code=code,
            profile=profile,
            port=port,
            subject=subject,
        )
        self.emit(SendToPipeline(m.frame(config.mac, order.encode())))
        self.count(Count.SET_OUT)


def earliest(*times_ps: int | None) -> int | None:
    """The first of the times that are set."""
    return min((t for t in times_ps if t is not None), default=None)
