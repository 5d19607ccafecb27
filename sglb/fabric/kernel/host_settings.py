"""What the native hosts are told: the transport's numbers, resolved from a scenario's block."""

from __future__ import annotations

from dataclasses import dataclass

from sglb.fabric import dcqcn_config
from sglb.fabric.dcqcn_config import DcqcnConfig
from sglb.fabric.kernel.layout import CLASSES
from sglb.fabric.roce import SPAN_PACKETS
from sglb.fabric.schema import TransportBlock
from sglb.switch.clock import PS_PER_US

_LARGEST_MTU = 65_000  # what 16 bit lengths of IP and UDP leave


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The transport's numbers; see `sglb.fabric.schema.TransportBlock`. Sizes are bytes, times ps.

    `window_packets` None sets no limit. `dcqcn` None (or not enabled) sends by window alone.
    """

    mtu_bytes: int = 4_096
    window_packets: int | None = 32
    ack_every: int = 4
    ack_timer_ps: int = 0
    rto_ps: int = 200 * PS_PER_US
    rto_max_ps: int = 20_000 * PS_PER_US
    reorder_ps: int = 50 * PS_PER_US
    ip_version: int = 4
    go_back_n: bool = False
    nack: bool = True
    traffic_class: int = 0
    cnp_class: int = 6
    dcqcn: DcqcnConfig | None = None

    def __post_init__(self) -> None:
        if not 0 < self.mtu_bytes <= _LARGEST_MTU or self.mtu_bytes % 4:
            raise ValueError(
                f"mtu_bytes must be a multiple of 4 up to {_LARGEST_MTU}, got {self.mtu_bytes}"
            )
        if self.window_packets is not None and not 0 < self.window_packets <= SPAN_PACKETS:
            raise ValueError(f"window_packets must be 1..{SPAN_PACKETS}, got {self.window_packets}")
        if self.ack_every < 1 or self.ack_timer_ps < 0:
            raise ValueError("need ack_every >= 1 and ack_timer_ps >= 0")
        if not 0 < self.rto_ps <= self.rto_max_ps or self.reorder_ps < 0:
            raise ValueError("need 0 < rto_ps <= rto_max_ps and reorder_ps >= 0")
        if self.ip_version not in (4, 6):
            raise ValueError(f"ip_version must be 4 or 6, got {self.ip_version}")
        if not (0 <= self.traffic_class < CLASSES and 0 <= self.cnp_class < CLASSES):
            raise ValueError(f"traffic_class and cnp_class must be 0..{CLASSES - 1}")

    @property
    def controls_rate(self) -> bool:
        """Whether DCQCN is on."""
        return self.dcqcn is not None and self.dcqcn.enabled


def host_settings(block: TransportBlock) -> HostSettings:
    """The settings that a scenario's `transport` means."""
    return HostSettings(
        mtu_bytes=block.mtu_bytes,
        window_packets=block.window_packets,
        ack_every=block.ack_every,
        ack_timer_ps=_us(block.ack_timer_us),
        rto_ps=_us(block.rto_us),
        rto_max_ps=_us(block.rto_max_us),
        reorder_ps=_us(block.reorder_us),
        ip_version=block.ip_version,
        go_back_n=block.recovery == "go_back_n",
        nack=block.nack,
        traffic_class=block.traffic_class,
        cnp_class=block.cnp_class,
        dcqcn=dcqcn_config.resolve(block.dcqcn),
    )


def _us(time_us: float) -> int:
    return round(time_us * PS_PER_US)
