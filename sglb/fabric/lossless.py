"""The lossless fabric in integers: what a traffic manager needs of a scenario's keys."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sglb.fabric.headroom import (
    QUANTUM_BITS,
    cable_bytes,
    headroom,
    least_headroom_bytes,
    peer_response_quanta,
)
from sglb.fabric.roce import frame_bytes, wire_bytes
from sglb.fabric.schema import SwitchBlock, TransportBlock
from sglb.fabric.schema_lossless import ClassBlock, PfcBlock, alpha_of
from sglb.fabric.topology import LinkSpec, Topology
from sglb.switch.clock import PS_PER_NS, PS_PER_S, PS_PER_US

CLASSES = 8


@dataclass(frozen=True, slots=True)
class ClassConfig:
    """One class: queue and PFC priority `number`.

    `strict` classes go first, the largest number before the others; the rest share by DWRR with
    `quantum_bytes` a round. `alpha_num / alpha_den` is alpha of the dynamic threshold. `xoff_bytes`
    0 means dynamic. Sizes are bytes of frames without FCS, as buffers hold them.
    """

    number: int
    lossless: bool
    strict: bool
    quantum_bytes: int
    alpha_num: int
    alpha_den: int
    reserved_bytes: int
    queue_limit_bytes: int
    xoff_bytes: int
    xon_offset_bytes: int
    kmin_bytes: int
    kmax_bytes: int
    pmax: float


@dataclass(frozen=True, slots=True)
class BufferConfig:
    """A switch's buffer. `total_bytes` 0: no shared buffer, each queue has `queue_limit_bytes`.

    `classes` has all eight, by number. `watchdog_ps` 0: no watchdog; `watchdog_drops`: a storming
    queue's packets are dropped, else forwarded.
    """

    total_bytes: int
    pfc: bool
    classes: tuple[ClassConfig, ...]
    pause_quanta: int
    watchdog_ps: int
    watchdog_restore_ps: int
    watchdog_drops: bool

    def pause_ps(self, rate_bps: int) -> int:
        """What a pause frame asks for on a link of this rate."""
        return self.pause_quanta * QUANTUM_BITS * PS_PER_S // rate_bps


def resolve(switch: SwitchBlock, transport: TransportBlock) -> BufferConfig:
    """The integers that the keys of `switch` mean."""
    pfc = switch.pfc
    dog = pfc.watchdog
    return BufferConfig(
        total_bytes=switch.buffer.total_bytes or 0,
        pfc=pfc.enabled,
        classes=tuple(_class(switch, transport, n) for n in range(CLASSES)),
        pause_quanta=pfc.pause_quanta,
        watchdog_ps=0 if dog is None else round(dog.detection_us * PS_PER_US),
        watchdog_restore_ps=0 if dog is None else round(dog.restore_us * PS_PER_US),
        watchdog_drops=dog is not None and dog.action == "drop",
    )


def _class(switch: SwitchBlock, transport: TransportBlock, number: int) -> ClassConfig:
    buffer, pfc = switch.buffer, switch.pfc
    block: ClassBlock = buffer.of(number)
    alpha = Fraction(alpha_of(block.alpha, block.dynamic_th, buffer.alpha_or_default))
    alpha = alpha.limit_denominator(1 << 16)
    reserved = buffer.reserved_bytes if block.reserved_bytes is None else block.reserved_bytes
    ecn = switch.ecn_of(number)
    frame = frame_bytes(transport.mtu_bytes, transport.ip_version)
    return ClassConfig(
        number=number,
        lossless=block.lossless,
        strict=block.scheduling == "strict",
        quantum_bytes=(block.weight or 1) * frame,
        alpha_num=alpha.numerator,
        alpha_den=alpha.denominator,
        reserved_bytes=reserved,
        queue_limit_bytes=switch.queue_bytes,
        xoff_bytes=0 if pfc.xoff_bytes == "dynamic" else pfc.xoff_bytes,
        xon_offset_bytes=pfc.xon_offset_bytes,
        kmin_bytes=ecn.kmin_bytes,
        kmax_bytes=ecn.kmax_bytes,
        pmax=ecn.pmax,
    )


def port_headroom_bytes(spec: LinkSpec, switch: SwitchBlock, transport: TransportBlock) -> int:
    """Headroom of a port and lossless class on a link; 0 without PFC."""
    pfc = switch.pfc
    if not pfc.enabled:
        return 0
    if pfc.headroom_bytes != "auto":
        return pfc.headroom_bytes
    frame = frame_bytes(transport.mtu_bytes, transport.ip_version)
    found = headroom(
        spec.rate_bps,
        cable_bytes(spec.rate_bps, spec.delay_ps),
        frame,
        frame,
        response_quanta=_response_quanta(pfc, spec.rate_bps),
        mac_phy_bytes=pfc.mac_phy_bytes,
        cell_bytes=switch.buffer.cell_bytes,
        pipeline_bytes=round(cable_bytes(spec.rate_bps, _pipeline_ps(switch))),
    )
    return found.size_bytes


def least_port_headroom_bytes(
    spec: LinkSpec, switch: SwitchBlock, transport: TransportBlock
) -> int:
    """Below this a lossless class on the link can lose packets."""
    frame = wire_bytes(transport.mtu_bytes, transport.ip_version)
    quanta = _response_quanta(switch.pfc, spec.rate_bps)
    response_ps = quanta * QUANTUM_BITS * PS_PER_S // spec.rate_bps
    return least_headroom_bytes(
        spec.rate_bps, spec.delay_ps, frame, response_ps, _pipeline_ps(switch)
    )


def _pipeline_ps(switch: SwitchBlock) -> int:
    """What a port's own pipeline (before the queue) and its peer's (behind it) take together.

    All switches are alike; a host has no pipeline, and headroom to spare.
    """
    return round(switch.pipeline_latency_ns * PS_PER_NS)


def _response_quanta(pfc: PfcBlock, rate_bps: int) -> int:
    if pfc.peer_response_quanta == "auto":
        return peer_response_quanta(rate_bps)
    return pfc.peer_response_quanta


def switch_headroom_bytes(
    topology: Topology, switch_id: int, switch: SwitchBlock, transport: TransportBlock
) -> int:
    """Headroom of all lossless classes of all ports of one switch."""
    lossless = sum(c.lossless for c in switch.buffer.classes)
    ports = topology.ports(switch_id).values()
    return lossless * sum(port_headroom_bytes(link.spec, switch, transport) for link in ports)
