"""What switches report of an interval, summed up as the tuner judges it."""

from __future__ import annotations

from dataclasses import dataclass

from sglb.watermark.objective import Weights


@dataclass(frozen=True, slots=True)
class Observation:
    """One interval under one setting.

    Attributes:
        duration_us: how long it was.
        throughput: what was delivered, of what the busy ports to hosts could carry (0 to 1).
        delay: a round trip without queues over one with them (0 to 1), averaged over bytes.
        unpaused: the share of time in which no port was paused (0 to 1), averaged over ports.
        lost_packets: of the lossless class, in buffers.
        fan_in: hosts that sent, over hosts that were sent to; 0 when nobody was.
        load: the share of hosts that sent or were sent to.
    """

    duration_us: float
    throughput: float
    delay: float
    unpaused: float
    lost_packets: int
    fan_in: float
    load: float

    @property
    def idle(self) -> bool:
        """Whether nothing moved: such an interval says nothing of a setting."""
        return self.load == 0

    def score(self, weights: Weights) -> float:
        """From 0 to 1, as `sglb.watermark.objective` has it; 0 when anything was lost."""
        if self.lost_packets:
            return 0.0
        total = weights.throughput + weights.delay + weights.pauses
        found = (
            weights.throughput * self.throughput
            + weights.delay * self.delay
            + weights.pauses * self.unpaused
        )
        return found / total
