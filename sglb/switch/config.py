"""What a switch is built like: sizes, delays, special ports. All of it is stated, none is hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sglb.switch.clock import PS_PER_NS, PS_PER_US
from sglb.switch.errors import ConfigError

DepthUnit = Literal["packets", "bytes", "cells"]


@dataclass(frozen=True, slots=True)
class SwitchConfig:
    """Settings of a switch; times in ps, sizes in bytes.

    Pipeline. `ingress_latency_ps` lies between a packet's arrival and its queue, `egress_latency_ps`
    between leaving the queue and the first bit on the wire. They delay packets and do not bound the
    rate. A packet passes ingress at most `max_passes` times (egress clones count as passes), and all
    passes and egress clones that come of one received packet are at most `max_copies`;
    `recirculation_latency_ps` is added to each further pass.

    Queues. Each port has `queues` of them; `standard_metadata.priority` (or a clone session's class of
    service) picks one and the largest number is served first. `queue_limit_bytes` bounds each queue
    (tail drop), `queue_limit_packets` too when set. `wire_overhead_bytes` is added to a frame's length
    when its time on the wire is worked out (24 for Ethernet's preamble, FCS and gap; 0 counts the
    frame alone). `enq_qdepth`/`deq_qdepth` are in `depth_unit`: packets as in BMv2, bytes, or buffer
    cells of `cell_bytes`; a depth that exceeds its field is shown as the field's maximum.

    Ports. `drop_port` in egress_spec means drop. What is sent to `cpu_port` goes to `Switch.on_cpu`,
    and `packet_out` enters there. Port events and generated packets enter on `event_port` with
    EtherType `event_ethertype` (see `sglb.switch.pktgen`); port events only with `port_events` on,
    since a program that does not expect such packets would forward them. A change of a port's state
    is known to the switch `port_down_detection_ps` / `port_up_detection_ps` after it happened.
    """

    ingress_latency_ps: int = 500 * PS_PER_NS
    egress_latency_ps: int = 500 * PS_PER_NS
    recirculation_latency_ps: int = 0
    max_passes: int = 64
    max_copies: int = 10_000
    queues: int = 8
    queue_limit_bytes: int = 2_000_000
    queue_limit_packets: int | None = None
    wire_overhead_bytes: int = 0
    depth_unit: DepthUnit = "packets"
    cell_bytes: int = 80
    cpu_port: int = 510
    drop_port: int = 511
    event_port: int = 509
    event_ethertype: int = 0x88B6
    event_app_id: int = 0
    port_events: bool = False
    port_down_detection_ps: int = 10 * PS_PER_US
    port_up_detection_ps: int = 10 * PS_PER_US

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and value < 0:
                raise ConfigError(f"switch setting {name} must not be negative, got {value}")
        for name in ("max_passes", "max_copies", "queues", "queue_limit_bytes", "cell_bytes"):
            if getattr(self, name) < 1:
                raise ConfigError(f"switch setting {name} must be at least 1")
        if self.depth_unit not in ("packets", "bytes", "cells"):
            raise ConfigError(
                f"switch setting depth_unit must be packets, bytes or cells, got {self.depth_unit!r}"
            )
        if self.event_app_id > 7 or self.event_ethertype > 0xFFFF:
            raise ConfigError("event_app_id has 3 bits and event_ethertype 16")
        if len({self.cpu_port, self.drop_port, self.event_port}) != 3:
            raise ConfigError("cpu_port, drop_port and event_port must be three different numbers")
