"""A setting: the watermarks of a lossless class, as one switch has them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sglb.watermark.errors import WatermarkError


@dataclass(frozen=True, slots=True)
class Watermarks:
    """What a switch marks, pauses and keeps room by.

    Attributes:
        kmin_bytes, kmax_bytes, pmax: marking by queue depth: never below kmin, always above kmax, with a
            chance that grows to pmax in between.
        alpha: XOFF is alpha x the unused shared pool (SONiC: alpha = 2^dynamic_th), unless
        xoff_bytes: says how much.
        xon_offset_bytes: a paused peer goes on when its ingress is that much below XOFF.
        headroom_bytes: an ingress's room for what still comes after it has paused; None: what the
            ingress has by itself, which its link asks for.

    Raises `WatermarkError` that names the attribute.
    """

    kmin_bytes: int | float = 100_000
    kmax_bytes: int | float = 400_000
    pmax: float = 0.2
    alpha: float = 0.125
    xoff_bytes: int | float | None = None
    xon_offset_bytes: int | float = 3_072
    headroom_bytes: int | float | None = None

    def __post_init__(self) -> None:
        for name in ("kmin_bytes", "kmax_bytes", "xon_offset_bytes", "headroom_bytes"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise WatermarkError(f"{name} must be 0 or more bytes, got {value!r}")
        if self.kmin_bytes > self.kmax_bytes:
            raise WatermarkError(
                f"kmin_bytes ({self.kmin_bytes:,.0f}) must not exceed kmax_bytes "
                f"({self.kmax_bytes:,.0f})"
            )
        if not 0 <= self.pmax <= 1:
            raise WatermarkError(f"pmax is a probability, from 0 to 1, got {self.pmax!r}")
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise WatermarkError(f"alpha must be above 0, got {self.alpha!r}")
        if self.xoff_bytes is not None and not (
            math.isfinite(self.xoff_bytes) and self.xoff_bytes > 0
        ):
            raise WatermarkError(
                f"xoff_bytes must be above 0 (or left out: alpha x unused pool), got "
                f"{self.xoff_bytes!r}"
            )
