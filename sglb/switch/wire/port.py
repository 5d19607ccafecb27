"""What makes a Linux interface a port."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InterfacePort:
    """P4 port `number` is the Linux interface `interface`; `rate_bps` None sends as fast as it takes."""

    number: int
    interface: str
    rate_bps: int | None = None
