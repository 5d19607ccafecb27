"""What a switch can be set to, and what its ports ask for: ranges, units of memory, headroom."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sglb.fabric.headroom import Headroom, cable_bytes, headroom
from sglb.switch.clock import PS_PER_S
from sglb.watermark.errors import WatermarkError

#: Signals go this far a second in a cable (SONiC's HLD on dynamic headroom).
METRES_PER_S = 1.98e8
_KIB = 1_024


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of switch.

    Attributes:
        name: what users call it.
        buffer_bytes: all of its packet memory.
        cell_bytes: packets take whole cells of it.
        pipeline_bytes, mac_phy_bytes: what is under way inside when a pause is decided.
        dynamic_th: least and largest exponent n of alpha = 2^n.
        threshold_step_bytes: marking thresholds, XOFF, XON and headroom are multiples of it.
        pmax_step: the unit of marking probabilities (SONiC: whole percent).
    """

    name: str
    buffer_bytes: int
    cell_bytes: int
    pipeline_bytes: int
    mac_phy_bytes: int
    dynamic_th: tuple[int, int]
    threshold_step_bytes: int = 1
    pmax_step: float = 0.01


#: `sonic`: the ranges of SONiC's own commands; `spectrum-1`: with cells and pipeline as its HLD on
#: headroom states them; `dell`: the narrower range of Dell's Ansible role; `simulated`: the
#: fabric of `sglb run` with its defaults. The 16 MiB of memory are a placeholder: give your chip's.
DEVICES = {
    device.name: device
    for device in (
        Device("sonic", 16 << 20, 96, 18 * _KIB, 819, (-8, 8), _KIB),
        Device("spectrum-1", 16 << 20, 96, 18 * _KIB, 819, (-8, 8), _KIB),
        Device("dell", 16 << 20, 96, 18 * _KIB, 819, (-6, 3), _KIB),
        Device("simulated", 16 << 20, 80, 0, 819, (-8, 8)),
    )
}


@dataclass(frozen=True, slots=True)
class Port:
    """The ports of a switch that are tuned, all alike.

    Attributes:
        rate_gbps, cable_m: of the link.
        mtu_bytes: largest frame of the lossless class; `port_mtu_bytes`: of any class.
        ports: how many there are.
        lossless_classes: of each port.
        response_quanta: how long the peer may go on, in 512 bit times; None: what 802.3 allows.
    """

    rate_gbps: float = 100.0
    cable_m: float = 40.0
    mtu_bytes: int = 1_086
    port_mtu_bytes: int = 9_100
    ports: int = 32
    lossless_classes: int = 2
    response_quanta: int | None = None

    def __post_init__(self) -> None:
        for key in ("rate_gbps", "mtu_bytes", "port_mtu_bytes", "ports", "lossless_classes"):
            value = getattr(self, key)
            if not (math.isfinite(value) and value > 0):
                raise WatermarkError(f"{key} must be above 0, got {value!r}")
        if not (math.isfinite(self.cable_m) and self.cable_m >= 0):
            raise WatermarkError(f"cable_m must be 0 or more metres, got {self.cable_m!r}")

    @property
    def cable_us(self) -> float:
        """One way."""
        return self.cable_m / METRES_PER_S * 1e6

    def headroom(self, device: Device) -> Headroom:
        """Headroom that loses nothing, by SONiC's formula (`sglb.fabric.headroom`)."""
        rate_bps = round(self.rate_gbps * 1e9)
        return headroom(
            rate_bps,
            cable_bytes(rate_bps, round(self.cable_m / METRES_PER_S * PS_PER_S)),
            self.mtu_bytes,
            self.port_mtu_bytes,
            response_quanta=self.response_quanta,
            mac_phy_bytes=device.mac_phy_bytes,
            cell_bytes=device.cell_bytes,
            pipeline_bytes=device.pipeline_bytes,
        )


def ecn_before_pfc_bytes(
    alpha: float, pool_bytes: float, queues: int = 1, classes: int = 1
) -> float:
    """Kmin below which every queue marks before any ingress pauses, whoever fills them.

    At worst all that stands in `queues` egress queues came in by one ingress, and as much stands in
    each of `classes` classes: n Kmin < alpha (pool - C n Kmin), which gives the bound. With all ports
    and classes it is that of the DCQCN paper (Zhu et al., SIGCOMM 2015, section 4), whose beta is alpha
    x classes.
    """
    return alpha * pool_bytes / (queues * (1 + classes * alpha))
