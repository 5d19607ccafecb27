"""Faults of the Llama 3 405B run: a public and complete count of what ends a large run.

Interruptions that were not planned, in a span of 54 days on 16,384 H100 GPUs ("The Llama 3 Herd of
Models", table 5, as listed at glennklockwood.com/garden/component-reliability). The counts add up to
the 419 that the text names; the printed share of faulty GPUs (30.1 %) does not fit its count (148,
35.3 %), so counts are what is used here.
"""

from __future__ import annotations

SOURCE = "Llama 3 405B, 54 days on 16,384 H100, table 5"
GPUS = 16_384
HOURS = 54 * 24

#: Kind of fault, times it interrupted the run, what it takes away (see `settings.Loss`).
COUNTS: tuple[tuple[str, int, str], ...] = (
    ("switch or cable", 35, "switch"),
    ("NIC", 7, "nic"),
    ("GPU", 148, "job"),
    ("GPU HBM3 memory", 72, "job"),
    ("software bug", 54, "job"),
    ("host maintenance", 32, "job"),
    ("GPU SRAM", 19, "job"),
    ("GPU system processor", 17, "job"),
    ("NCCL watchdog", 7, "job"),
    ("silent data corruption", 6, "job"),
    ("GPU thermal or sensor", 6, "job"),
    ("SSD", 3, "job"),
    ("power supply", 3, "job"),
    ("server chassis", 2, "job"),
    ("IO expansion board", 2, "job"),
    ("dependency", 2, "job"),
    ("CPU", 2, "job"),
    ("host memory", 2, "job"),
)

#: The table has no line for it: cables are counted with switches. Here so that it can be given a rate.
LAST_HOP = ("last-hop link", "none of its own there: in 'switch or cable'")


def per_gpu_hour(count: int) -> float:
    """Faults per GPU-hour of a kind that interrupted that run `count` times."""
    return count / (GPUS * HOURS)
