"""How good a setting is: one number of throughput, delay and pauses, with weights that a user can set.

    score = wT x throughput + wD x base / (base + queueing) + wP x (1 - paused)

each part from 0 to 1: the share of what the receivers' links could carry; round trips without queues
over those with them; the share of time that senders and links were not paused. A setting that loses
lossless traffic scores 0. The parts are those of Paraleon's utility (ICNP 2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sglb.watermark.arrays import Floats
from sglb.watermark.errors import WatermarkError
from sglb.watermark.layout import BYTES_US_PER_GBPS
from sglb.watermark.solve import FluidResult


@dataclass(frozen=True, slots=True)
class Weights:
    """What counts how much; they are taken in proportion to their sum."""

    throughput: float = 0.4
    delay: float = 0.4
    pauses: float = 0.2

    def __post_init__(self) -> None:
        values = (self.throughput, self.delay, self.pauses)
        if not all(math.isfinite(v) and v >= 0 for v in values) or not sum(values):
            raise WatermarkError(
                "weights of throughput, delay and pauses must be 0 or more, and not all 0, got "
                + ", ".join(f"{v:g}" for v in values)
            )


@dataclass(frozen=True, slots=True)
class Parts:
    """The three parts of each setting's score, shape (B,), and whether it lost anything."""

    throughput: Floats
    delay: Floats
    unpaused: Floats
    lossless: np.typing.NDArray[np.bool_]

    def score(self, weights: Weights) -> Floats:
        """As the parts are shaped, 0 where something was lost."""
        total = weights.throughput + weights.delay + weights.pauses
        found = (
            weights.throughput * self.throughput
            + weights.delay * self.delay
            + weights.pauses * self.unpaused
        ) / total
        return np.where(self.lossless, found, 0.0)


def parts(found: FluidResult) -> Parts:
    """Of a solved network: its flows count by number, its ingresses too."""
    network = found.network
    rates = {queue.name: queue.rate_gbps for queue in network.queues}
    order = {queue.name: at for at, queue in enumerate(network.queues)}
    number = np.array([flow.count for flow in network.flows], dtype=np.float64)
    last = {flow.hops[-1].queue for flow in network.flows}
    carried = found.throughput_gbps @ number / sum(rates[name] for name in last)
    delay = np.zeros(len(found))
    for flow in network.flows:
        base_us = max(hop.feedback_us + hop.link_us for hop in flow.hops)
        waits = sum(
            found.queue_mean_bytes[:, order[hop.queue]] / BYTES_US_PER_GBPS / rates[hop.queue]
            for hop in flow.hops
        )
        delay += flow.count * base_us / (base_us + waits)
    ports = np.array([ingress.count for ingress in network.ingresses], dtype=np.float64)
    paused = found.paused_share @ ports / ports.sum()
    return Parts(
        np.minimum(carried, 1.0), delay / number.sum(), 1.0 - paused, found.lost_total_bytes <= 0
    )
