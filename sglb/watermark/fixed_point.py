"""Where DCQCN comes to rest: the marking probability at which N alike flows fill a queue's link.

Setting the derivatives of the fluid model to 0 with every rate at its fair share R leaves one equation
in p (Zhu et al., "ECN or Delay", CoNEXT 2016, section 3; letters as there, R in packets a second):

    a^2 alpha = tau^2 R_AI R (b + d) (c + e)

with the model's coefficients, alpha = 1 - (1 - p)^(tau' R). Its left side grows with p from 0 and its
right side falls, so there is one root. The queue rests where p is marked: q = Kmin + p (Kmax - Kmin) /
Pmax, if p <= Pmax.
"""

from __future__ import annotations

import math

from sglb.fabric.dcqcn_config import DcqcnConfig
from sglb.switch.clock import PS_PER_S
from sglb.watermark.errors import WatermarkError
from sglb.watermark.settings import Watermarks

_HALVINGS = 200


def marking_probability(
    flows: int, rate_gbps: float, dcqcn: DcqcnConfig, packet_bytes: float = 1_000.0
) -> float:
    """p at the fixed point of `flows` alike flows on a link of `rate_gbps`; 0 for a single one.

    Raises `WatermarkError` for numbers below what they count.
    """
    if flows < 1 or not rate_gbps > 0 or not packet_bytes > 0:
        raise WatermarkError(
            f"a fixed point needs at least 1 flow, a rate and a packet size above 0, got {flows}, "
            f"{rate_gbps!r} Gbit/s, {packet_bytes!r} bytes"
        )
    pace = rate_gbps * 1e9 / 8 / packet_bytes / flows
    low, high = -40.0, 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _surplus(math.exp(middle), pace, dcqcn, packet_bytes) < 0:
            low = middle
        else:
            high = middle
    return 0.0 if flows == 1 else math.exp(low)


def _surplus(p: float, pace: float, dcqcn: DcqcnConfig, packet_bytes: float) -> float:
    """Left side less right side of the equation; `pace` in packets a second."""
    log = math.log1p(-p) if p < 1 else -math.inf
    cnp_s = max(dcqcn.cnp_interval_ps, dcqcn.decrease_interval_ps, 1) / PS_PER_S
    cut = -math.expm1(log * cnp_s * pace)
    alpha = -math.expm1(log * dcqcn.alpha_timer_ps / PS_PER_S * pace) / 2 ** (dcqcn.alpha_shift - 1)
    up = rise = 0.0
    for span in (dcqcn.byte_counter_bytes / packet_bytes, dcqcn.timer_ps / PS_PER_S * pace):
        if span > 0:
            runs = p / math.expm1(min(-log * span, 700.0))
            up += runs
            rise += runs * math.exp(log * dcqcn.threshold * span)
    add = dcqcn.rate_ai_bps / 8 / packet_bytes
    return float(cut**2 * alpha - cnp_s**2 * add * pace * up * rise)


def queue_bytes(p: float, watermarks: Watermarks) -> float:
    """Where the queue rests; NaN if no depth up to Kmax marks with p."""
    if p > watermarks.pmax:
        return math.nan
    if p == 0:
        return watermarks.kmin_bytes
    span = watermarks.kmax_bytes - watermarks.kmin_bytes
    return watermarks.kmin_bytes + p * span / watermarks.pmax
