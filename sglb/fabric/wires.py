"""Wires: what happens to a frame between two ports, in one direction."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sglb.fabric import frames
from sglb.fabric.events import LossReason
from sglb.fabric.faults import FabricState, frame_loss
from sglb.fabric.topology import Edge
from sglb.switch.clock import Scheduler


@dataclass(frozen=True, slots=True)
class LossSpan:
    """Random loss from `from_ps` to `to_ps`: see `sglb.fabric.faults.LinkLoss`."""

    syncmesh: float
    data: float
    from_ps: int
    to_ps: int | None
    ber: float = 0.0


class Wire:
    """One direction of a link: takes frames whose last bit has left, delivers them after the delay.

    A frame is lost when the link has no carrier as it leaves or arrives, when the direction
    swallows frames, and at random within a loss span. `on_lost(edge, frame, reason)` tells of it.
    """

    def __init__(
        self,
        edge: Edge,
        clock: Scheduler,
        state: FabricState,
        deliver: Callable[[bytes], None],
        on_lost: Callable[[Edge, bytes, LossReason], None],
        losses: Sequence[LossSpan],
        rng: random.Random,
    ) -> None:
        self.edge = edge
        self.frames = 0
        self._clock = clock
        self._state = state
        self._deliver = deliver
        self._on_lost = on_lost
        self._losses = losses
        self._rng = rng
        self._delay_ps = edge.link.spec.delay_ps

    def send(self, frame: bytes) -> None:
        """The last bit of a frame has left the sending port, now."""
        self.frames += 1
        if not self._state.carrier(self.edge.link):
            self._on_lost(self.edge, frame, LossReason.LINK_DOWN)
        elif not self._state.delivers(self.edge):
            self._on_lost(self.edge, frame, LossReason.BLACKHOLE)
        elif self._losses and self._unlucky(frame):
            self._on_lost(self.edge, frame, LossReason.RANDOM_LOSS)
        else:
            self._clock.call_later(self._delay_ps, self._arrive, frame)

    def _unlucky(self, frame: bytes) -> bool:
        now_ps = self._clock.now_ps
        control = frames.ether_type(frame) == frames.SYNCMESH
        for span in self._losses:
            if span.from_ps <= now_ps and (span.to_ps is None or now_ps < span.to_ps):
                chance = span.syncmesh if control else span.data
                if chance and self._rng.random() < chance:
                    return True
                if span.ber and self._rng.random() < frame_loss(span.ber, len(frame)):
                    return True
        return False

    def _arrive(self, frame: bytes) -> None:
        if self._state.carrier(self.edge.link):
            self._deliver(frame)
        else:
            self._on_lost(self.edge, frame, LossReason.LINK_DOWN)
