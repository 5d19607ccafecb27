"""RoCEv2 frames as bytes: Ethernet, IPv4 or IPv6, UDP 4791, BTH, (AETH), payload, ICRC.

Layouts from the InfiniBand Architecture Specification volume 1 (BTH 9.2, AETH 9.5.2, packet
CRC 7.8) and its annex A17 for RoCEv2. Data travels as SEND First/Middle/Last/Only of the
reliable connected transport, which needs no RETH.

The ICRC is computed in full, so that the receiver finds any change that a switch must not make:
CRC-32 (the polynomial of Ethernet) over 64 one bits and then the packet from the IP header on,
with the fields that change on the way read as ones (IPv4: TOS, TTL, header checksum; IPv6:
traffic class, flow label, hop limit; UDP checksum; the BTH byte with FECN and BECN), sent low
byte first.

Acknowledge packets carry an extension of ours between AETH and ICRC when packets are missing:
the BTH's PSN acknowledges everything up to itself, and bit i (low bit of the first byte first)
of the extension says that PSN + 2 + i has arrived as well. It is as long as it needs to be, in
whole 32 bit words, and absent when nothing is missing: then the packet is a plain IBTA ACK.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from sglb.fabric.topology import HostAddress
from sglb.switch.clock import PS_PER_S

UDP_PORT = 4791
# What a frame takes on the wire beside its bytes: FCS, preamble with SFD, inter-packet gap.
WIRE_OVERHEAD_BYTES = 4 + 8 + 12
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY, ACKNOWLEDGE = 0x00, 0x01, 0x02, 0x04, 0x11
CNP = 0x81
DATA_OPCODES = frozenset((SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY))
PSN_MOD = 1 << 24
# AETH syndrome: an ACK that sets no limit of credits.
ACK_SYNDROME = 0x1F
# How far a receiver's bitmap reaches, and thus how far a sender may run ahead of a hole.
SPAN_PACKETS = 1_024
ECT0, CE = 0b10, 0b11
_ETH_BYTES, _UDP_BYTES, _BTH_BYTES, _AETH_BYTES, _ICRC_BYTES = 14, 8, 12, 4, 4
_IP_BYTES = {4: 20, 6: 40}
_ETHERTYPE = {4: 0x0800, 6: 0x86DD}
_TTL = 64
_PROTOCOL_UDP = 17
_DEFAULT_PKEY = 0xFFFF
_BECN = 0x40
_CNP_BYTES = 16


class FrameError(ValueError):
    """A frame that a RoCEv2 NIC drops; the text is the reason."""


def padded(payload_bytes: int) -> int:
    """Payload bytes as sent: whole 32 bit words (IBTA 9.2.4, PadCnt)."""
    return payload_bytes + -payload_bytes % 4


def frame_bytes(payload_bytes: int, ip_version: int = 4) -> int:
    """Length of a data frame without FCS: what a switch's buffer holds."""
    headers = _ETH_BYTES + _IP_BYTES[ip_version] + _UDP_BYTES + _BTH_BYTES
    return headers + padded(payload_bytes) + _ICRC_BYTES


def wire_bytes(payload_bytes: int, ip_version: int = 4) -> int:
    """Byte times that a data packet takes on a link: the frame, FCS, preamble and gap."""
    return frame_bytes(payload_bytes, ip_version) + WIRE_OVERHEAD_BYTES


def serialisation_ps(frame_length: int, rate_bps: int) -> int:
    """Time on a link for a frame of so many bytes (without FCS), rounded up to whole ps."""
    bit_ps = (frame_length + WIRE_OVERHEAD_BYTES) * 8 * PS_PER_S
    return -(-bit_ps // rate_bps)


def packet_count(size_bytes: int, mtu_bytes: int) -> int:
    """Packets of a message of `size_bytes` (> 0)."""
    return -(-size_bytes // mtu_bytes)


def split_over_qps(size_bytes: int, qps: int, mtu_bytes: int) -> list[int]:
    """Bytes for each of at most `qps` queue pairs; only the last packet of all is short.

    The number of packets is the same as with one queue pair.
    """
    packets = packet_count(size_bytes, mtu_bytes)
    counts = [packets // qps + (n < packets % qps) for n in range(min(qps, packets))]
    sizes = [count * mtu_bytes for count in counts]
    sizes[-1] -= packets * mtu_bytes - size_bytes
    return sizes


def ipv4_checksum(header: bytes) -> int:
    """The Internet checksum (RFC 1071) of an IPv4 header whose checksum field is zero."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


@dataclass(frozen=True, slots=True)
class Path:
    """Outer addresses of one direction of a queue pair.

    `next_hop_mac` is the Ethernet destination; `source_port` is the entropy that load balancers
    hash, one per queue pair. `traffic_class` is 0 to 7.
    """

    src: HostAddress
    dst: HostAddress
    next_hop_mac: bytes
    source_port: int
    ip_version: int = 4
    traffic_class: int = 0

    @property
    def tos(self) -> int:
        """DSCP 8 x class, and ECT(0)."""
        return self.traffic_class << 5 | ECT0


class Framer:
    """Builds the frames of one direction of a queue pair from headers packed once."""

    def __init__(self, path: Path, dest_qp: int) -> None:
        self._path = path
        self._dest_qp = dest_qp
        self._heads: dict[tuple[int, int, int, bool], tuple[bytes, int]] = {}

    def data(self, opcode: int, psn: int, payload: bytes, ack_request: bool) -> bytes:
        """A data frame; `psn` in 0..2^24-1."""
        pad = -len(payload) % 4
        body = payload + bytes(pad) if pad else payload
        return self._frame(opcode, psn, body, pad, ack_request)

    def ack(self, psn: int, msn: int, missing_beyond: int = 0) -> bytes:
        """An acknowledge of everything up to `psn`.

        `missing_beyond` is the bitmap of the module's text as an integer, 0 for a plain ACK;
        `msn` is the number of messages completed, modulo 2^24.
        """
        words = -(-missing_beyond.bit_length() // 32)
        body = ((ACK_SYNDROME << 24) | msn).to_bytes(4, "big")
        body += missing_beyond.to_bytes(words * 4, "little")
        return self._frame(ACKNOWLEDGE, psn, body, 0, False)

    def cnp(self) -> bytes:
        """A congestion notification packet (annex A17.9.3)."""
        return self._frame(CNP, 0, bytes(_CNP_BYTES), 0, False)

    def _frame(self, opcode: int, psn: int, body: bytes, pad: int, ack_request: bool) -> bytes:
        key = (opcode, len(body), pad, ack_request)
        head = self._heads.get(key)
        if head is None:
            head = self._heads[key] = self._head(*key)
        tail = psn.to_bytes(3, "big") + body
        return head[0] + tail + zlib.crc32(tail, head[1]).to_bytes(4, "little")

    def _head(self, opcode: int, length: int, pad: int, ack_request: bool) -> tuple[bytes, int]:
        """Everything before the PSN, and the CRC so far with the changing fields as ones."""
        path = self._path
        udp_length = _UDP_BYTES + _BTH_BYTES + length + _ICRC_BYTES
        ip, ip_masked = (_ipv4, _ipv6)[path.ip_version == 6](path, udp_length)
        ports = struct.pack("!HHH", path.source_port, UDP_PORT, udp_length)
        bth = struct.pack("!BBH", opcode, pad << 4, _DEFAULT_PKEY)
        rest = self._dest_qp.to_bytes(3, "big") + bytes((ack_request << 7,))
        eth = path.next_hop_mac + path.src.mac + _ETHERTYPE[path.ip_version].to_bytes(2, "big")
        masked = b"\xff" * 8 + ip_masked + ports + b"\xff\xff" + bth + b"\xff" + rest
        notes = bytes((_BECN if opcode == CNP else 0,))
        return eth + ip + ports + b"\x00\x00" + bth + notes + rest, zlib.crc32(masked)


def _ipv4(path: Path, udp_length: int) -> tuple[bytes, bytes]:
    """Header with ECT(0), DF and identification 0 (RFC 6864), and the same masked for the ICRC."""
    ends = path.src.ipv4.packed + path.dst.ipv4.packed
    length = _IP_BYTES[4] + udp_length
    header = (
        struct.pack("!BBHHHBBH", 0x45, path.tos, length, 0, 0x4000, _TTL, _PROTOCOL_UDP, 0) + ends
    )
    checksum = ipv4_checksum(header).to_bytes(2, "big")
    masked = struct.pack("!BBHHHBBH", 0x45, 0xFF, length, 0, 0x4000, 0xFF, _PROTOCOL_UDP, 0xFFFF)
    return header[:10] + checksum + ends, masked + ends


def _ipv6(path: Path, udp_length: int) -> tuple[bytes, bytes]:
    ends = path.src.ipv6.packed + path.dst.ipv6.packed
    header = struct.pack("!IHBB", (6 << 28) | (path.tos << 20), udp_length, _PROTOCOL_UDP, _TTL)
    masked = struct.pack("!IHBB", 0x6FFFFFFF, udp_length, _PROTOCOL_UDP, 0xFF)
    return header + ends, masked + ends


class RocePacket(NamedTuple):
    """What a NIC reads from a frame; `payload` without padding, for an ACK from the AETH on."""

    dst_ip: bytes
    ecn: int
    opcode: int
    dest_qp: int
    psn: int
    ack_request: bool
    payload: bytes


def parse(frame: bytes) -> RocePacket:
    """Read and check a frame. Raises `FrameError` for anything but a sound RoCEv2 packet."""
    if len(frame) < _ETH_BYTES + _IP_BYTES[4] + _UDP_BYTES + _BTH_BYTES + _ICRC_BYTES:
        raise FrameError("too short")
    ethertype = frame[12:14]
    if ethertype == b"\x08\x00":
        ecn, dst_ip, udp, masked_ip = _read_ipv4(frame)
    elif ethertype == b"\x86\xdd":
        ecn, dst_ip, udp, masked_ip = _read_ipv6(frame)
    else:
        raise FrameError("not IP")
    source, dest, length = struct.unpack_from("!HHH", frame, udp)
    if dest != UDP_PORT:
        raise FrameError("not RoCEv2")
    bth, end = udp + _UDP_BYTES, udp + length
    if length < _UDP_BYTES + _BTH_BYTES + _ICRC_BYTES or end > len(frame):
        raise FrameError("bad UDP length")
    # Ethernet may have padded a short frame beyond `end`.
    ports = struct.pack("!HHHH", source, dest, length, 0xFFFF)
    crc = zlib.crc32(b"".join((b"\xff" * 8, masked_ip, ports, frame[bth : bth + 4], b"\xff")))
    crc = zlib.crc32(frame[bth + 5 : end - _ICRC_BYTES], crc)
    if crc != int.from_bytes(frame[end - _ICRC_BYTES : end], "little"):
        raise FrameError("bad ICRC")
    pad = frame[bth + 1] >> 4 & 3
    payload = frame[bth + _BTH_BYTES : end - _ICRC_BYTES - pad]
    return RocePacket(
        dst_ip,
        ecn,
        frame[bth],
        int.from_bytes(frame[bth + 5 : bth + 8], "big"),
        int.from_bytes(frame[bth + 9 : bth + 12], "big"),
        frame[bth + 8] >= 0x80,
        payload,
    )


def _read_ipv4(frame: bytes) -> tuple[int, bytes, int, bytes]:
    if frame[14] != 0x45 or frame[23] != _PROTOCOL_UDP:
        raise FrameError("not RoCEv2")
    header = frame[14:34]
    if sum(struct.unpack("!10H", header)) % 0xFFFF:
        raise FrameError("bad IPv4 checksum")
    masked = b"".join((b"\x45\xff", header[2:8], b"\xff", header[9:10], b"\xff\xff", header[12:]))
    return header[1] & 3, header[16:], 34, masked


def _read_ipv6(frame: bytes) -> tuple[int, bytes, int, bytes]:
    if len(frame) < 54 + _UDP_BYTES + _BTH_BYTES + _ICRC_BYTES:
        raise FrameError("too short")
    if frame[14] >> 4 != 6 or frame[20] != _PROTOCOL_UDP:
        raise FrameError("not RoCEv2")
    masked = b"".join((b"\x6f\xff\xff\xff", frame[18:21], b"\xff", frame[22:54]))
    return frame[15] >> 4 & 3, frame[38:54], 54, masked


def parse_ack(packet: RocePacket) -> tuple[int, int]:
    """MSN and bitmap of an acknowledge. Raises `FrameError` for a NAK or a broken AETH."""
    body = packet.payload
    if len(body) < _AETH_BYTES or len(body) % 4 or len(body) > _AETH_BYTES + SPAN_PACKETS // 8:
        raise FrameError("bad AETH")
    if body[0] >> 5:
        raise FrameError("not a positive acknowledge")
    return int.from_bytes(body[1:4], "big"), int.from_bytes(body[4:], "little")
