"""Numbers that wrap around: sequence numbers (32 bits) and incarnations (16 bits), as RFC 1982."""

from __future__ import annotations

SEQ_BITS = 32
INCARNATION_BITS = 16


def newer(a: int, b: int, bits: int) -> bool:
    """Whether `a` comes after `b`: less than half the circle ahead of it."""
    ahead = (a - b) & ((1 << bits) - 1)
    return 0 < ahead < 1 << (bits - 1)


def following(a: int, bits: int) -> int:
    """The number after `a`; 0 is skipped, as it stands for "none"."""
    return (a + 1) & ((1 << bits) - 1) or 1
