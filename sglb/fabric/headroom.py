"""Headroom: what still arrives after a port has decided to pause its peer.

The formula is the one that SONiC computes dynamic buffers by (HLD "dynamically headroom calculation"
and its Mellanox script), with one change: bytes on the cable come from the link's delay, not from its
length. On a port of `rate` with `cable` bytes under way in each direction:

    xoff = lossless frame + (port's largest frame + 2 cable + 2 gearbox + MAC and PHY + peer's response)
           x cell occupancy
    xon  = bytes that pipelines hold
    size = xoff + xon, xoff rounded up to KiB

A frame that the port had begun to send holds the pause frame back (port's largest frame); the peer
takes its time and ends the frame that it had begun (response, lossless frame); the cable is full both
ways. Packets that were in the ingress pipeline have not been counted when the decision is taken, and
those that a switch at the other end had picked before the pause are still in its egress pipeline: that
is xon, and a headroom of `size` bytes holds it all. The cell occupancy is the worst that small packets
make of a buffer of cells: ceil(2c / (1 + c)) for cells of c bytes up to 128, c / 64 beyond.
"""

from __future__ import annotations

from dataclasses import dataclass

from sglb.switch.clock import PS_PER_S

#: Longest time (in quanta of 512 bit times) that a receiver of a pause may go on sending, by rate in
#: Gbit/s (IEEE 802.3 as listed in SONiC's HLD).
PEER_RESPONSE_QUANTA = {
    10: 67,
    25: 80,
    40: 118,
    50: 147,
    100: 394,
    200: 453,
    400: 905,
    800: 905,
}
QUANTUM_BITS = 512
#: A pause frame on the wire: 64 bytes with FCS, preamble and gap.
PAUSE_WIRE_BYTES = 84
_KIB = 1_024
_SMALLEST_FRAME = 64


@dataclass(frozen=True, slots=True)
class Headroom:
    """`xoff_bytes` come of link and MAC, `xon_bytes` were in pipelines; `size_bytes` is both."""

    xoff_bytes: int
    xon_bytes: int

    @property
    def size_bytes(self) -> int:
        """Headroom that loses nothing."""
        return self.xoff_bytes + self.xon_bytes


def cable_bytes(rate_bps: int, delay_ps: int) -> float:
    """Bytes on a link in one direction."""
    return rate_bps * delay_ps / (8 * PS_PER_S)


def peer_response_quanta(rate_bps: int) -> int:
    """The listed response time of a rate; of the next higher rate for one that is not listed."""
    gbps = rate_bps / 1_000_000_000
    return next((q for rate, q in PEER_RESPONSE_QUANTA.items() if gbps <= rate), 905)


def cell_occupancy(cell_bytes: int) -> float:
    """Buffer bytes that a byte may take when all packets are as unfit as can be."""
    if cell_bytes > 2 * _SMALLEST_FRAME:
        return cell_bytes / _SMALLEST_FRAME
    return -(-2 * cell_bytes // (1 + cell_bytes))


def headroom(
    rate_bps: int,
    cable: float,
    lossless_frame_bytes: int,
    port_frame_bytes: int,
    *,
    response_quanta: int | None = None,
    mac_phy_bytes: int = 819,
    gearbox_bytes: int = 0,
    cell_bytes: int = 80,
    pipeline_bytes: int = 0,
) -> Headroom:
    """Headroom of a port and class by the module's formula.

    `cable` are the bytes on the link one way (`cable_bytes`), `response_quanta` None takes the listed
    value of the rate. Spectrum-1, which SONiC's anchors are for, has cells of 96 bytes, 0.8 KiB of MAC
    and PHY and a pipeline of 18 KiB.
    """
    quanta = peer_response_quanta(rate_bps) if response_quanta is None else response_quanta
    response = quanta * QUANTUM_BITS // 8
    path = port_frame_bytes + 2 * cable + 2 * gearbox_bytes + mac_phy_bytes + response
    xoff = lossless_frame_bytes + path * cell_occupancy(cell_bytes)
    return Headroom(int(-(-xoff // _KIB)) * _KIB, pipeline_bytes)


def least_headroom_bytes(
    rate_bps: int, delay_ps: int, frame_wire_bytes: int, response_ps: int, pipeline_ps: int
) -> int:
    """What arrives after the decision in the worst case when no byte is wasted on cells.

    Below this a paused class can lose packets. The port may have begun a frame, then sends the pause,
    which takes the delay; the peer responds after `response_ps` and ends a frame it had begun; what
    was on the way arrives a delay later, and what was counted or picked is `pipeline_ps` older: in the
    pipeline here before the queue, and at the peer behind it.
    """
    span_ps = 2 * delay_ps + response_ps + pipeline_ps
    return 2 * frame_wire_bytes + PAUSE_WIRE_BYTES - (-rate_bps * span_ps // (8 * PS_PER_S))
