"""How far a run has come: what a progress bar shows, and how a run is asked to end early."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Advance:
    """Data packets that have arrived, of those that the workload needs; virtual time; packet-hops."""

    arrived: int
    total: int
    virtual_us: float
    hops: int


#: Told now and then how far one run has come.
Tell = Callable[[Advance], None]
#: Says whether a run should end with what it has; asked a few times a second.
Stop = Callable[[], bool]


def never() -> bool:
    """A `Stop` that lets a run go on to its end."""
    return False
