"""DCQCN's parameters as the hosts use them: one set of integers, whatever names they were given in.

Reaction point (sender), for each queue pair; rates in bit/s, alpha in units of 2^-20:

- A CNP, unless the last decrease is less than `decrease_interval_ps` ago. The first one of a flow sets
  both rates to `first_cnp_rate_bps` if that is not 0. Otherwise: target = current, if
  `clamp_target_rate` or the rate has been increased since the last decrease; current = max(current x
  (1 - alpha / 2^`alpha_shift`), current x `min_decrease_percent` / 100, `min_rate_bps`); byte counter,
  increase timer and both stages start anew. With `alpha_at_cnp` alpha = alpha + g (1 - alpha) and the
  alpha timer starts anew.
- Alpha, every `alpha_timer_ps`: alpha = alpha (1 - g); without `alpha_at_cnp` g is added as well if a
  CNP came in that time.
- Increase, at every `timer_ps` and every `byte_counter_bytes` sent (0: never): the stage of the timer
  or counter goes up by one. While both are below `threshold` fast recovery leaves the target, above it
  in one of them target += `rate_ai_bps`, in both target += `rate_hai_bps`; then
  current = (current + target) / 2. Neither exceeds the link's rate.

Notification point (receiver): a CNP for a marked packet, at most one in `cnp_interval_ps` for each
queue pair.

Sources: Zhu et al., SIGCOMM 2015, sections 3 and 5; the increase of IEEE 802.1Qau; NVIDIA's page of
DCQCN parameters for ConnectX-4 and later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sglb.fabric.schema_lossless import CONNECTX_NAMES, DcqcnBlock
from sglb.switch.clock import PS_PER_US

#: Unit of alpha and g: 1.0 is this.
ALPHA_ONE = 1 << 20
_BPS_PER_MBPS = 1_000_000


@dataclass(frozen=True, slots=True)
class DcqcnConfig:
    """See the module's text; all integers, times ps, rates bit/s, alpha and g in 1 / `ALPHA_ONE`."""

    enabled: bool
    timer_ps: int
    byte_counter_bytes: int
    threshold: int
    rate_ai_bps: int
    rate_hai_bps: int
    min_rate_bps: int
    g: int
    alpha_timer_ps: int
    initial_alpha: int
    alpha_at_cnp: bool
    alpha_shift: int
    min_decrease_percent: int
    decrease_interval_ps: int
    first_cnp_rate_bps: int
    clamp_target_rate: bool
    cnp_interval_ps: int


def resolve(block: DcqcnBlock) -> DcqcnConfig:
    """The integers that a block means; ConnectX's names are in the units of its documentation."""
    values = {paper: _value(block, paper) for paper in CONNECTX_NAMES}
    return DcqcnConfig(
        enabled=block.enabled,
        timer_ps=_us(values["timer_us"]),
        byte_counter_bytes=values["byte_counter_bytes"],
        threshold=values["threshold"],
        rate_ai_bps=_mbps(values["rate_ai_mbps"]),
        rate_hai_bps=_mbps(values["rate_hai_mbps"]),
        min_rate_bps=_mbps(values["min_rate_mbps"]),
        g=round(values["g"] * ALPHA_ONE),
        alpha_timer_ps=_us(values["alpha_timer_us"]),
        initial_alpha=round(values["initial_alpha"] * ALPHA_ONE),
        alpha_at_cnp=block.defaults == "paper",
        alpha_shift=values["alpha_shift"],
        min_decrease_percent=values["min_decrease_percent"],
        decrease_interval_ps=_us(values["decrease_interval_us"]),
        first_cnp_rate_bps=_mbps(values["first_cnp_rate_mbps"]),
        clamp_target_rate=values["clamp_target_rate"],
        cnp_interval_ps=_us(values["cnp_interval_us"]),
    )


def _value(block: DcqcnBlock, paper: str) -> Any:
    """A quantity in the paper's unit, from whichever name was given."""
    given = getattr(block, paper)
    if given is not None:
        return given
    theirs = getattr(block, CONNECTX_NAMES[paper])
    match paper:
        case "g":
            return 1 - theirs / 1_024
        case "initial_alpha":
            return theirs / 1_024
        case "alpha_shift":
            return theirs - 10
    return theirs


def _us(time_us: float) -> int:
    return round(time_us * PS_PER_US)


def _mbps(rate_mbps: float) -> int:
    return round(rate_mbps * _BPS_PER_MBPS)
