"""Units of scenario files to those of the simulation."""

from __future__ import annotations

from sglb.switch.clock import PS_PER_NS, PS_PER_US


def us_to_ps(time_us: float) -> int:
    """Microseconds to integer picoseconds."""
    return round(time_us * PS_PER_US)


def ns_to_ps(time_ns: float) -> int:
    """Nanoseconds to integer picoseconds."""
    return round(time_ns * PS_PER_NS)


def gbps_to_bps(rate_gbps: float) -> int:
    """10^9 bit/s to bit/s."""
    return round(rate_gbps * 1_000_000_000)
