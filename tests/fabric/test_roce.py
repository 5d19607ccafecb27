"""Frames byte by byte, and as scapy reads and builds them."""

from __future__ import annotations

import random
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.compat import raw
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from sglb.fabric import roce
from sglb.fabric.roce import FrameError, Framer, Path
from sglb.fabric.topology import HostAddress

A = HostAddress(bytes.fromhex("0200000000aa"), IPv4Address("10.0.1.1"), IPv6Address("fd53::1"))
B = HostAddress(bytes.fromhex("0200000000bb"), IPv4Address("10.0.2.2"), IPv6Address("fd53::2"))
GATEWAY = bytes.fromhex("020000000001")


def _framer(version: int = 4) -> Framer:
    return Framer(Path(A, B, GATEWAY, 0xC123, version), dest_qp=0x00ABCD)


def test_a_data_frame_by_hand() -> None:
    frame = _framer().data(roce.SEND_ONLY, 0x010203, b"\xde\xad\xbe", True)
    assert frame[:14].hex() == "020000000001" + "0200000000aa" + "0800"
    # Length 20+8+12+4+4 = 48; checksum: the ones' complement sum of the other words is
    # 4502+0030+4000+4011+0a00+0101+0a00+0202 = dc46, so 23b9.
    assert frame[14:34].hex() == "45020030" + "00004000" + "401123b9" + "0a000101" + "0a000202"
    assert frame[34:42].hex() == "c12312b7" + "001c0000"
    assert frame[42:54].hex() == "0410ffff" + "0000abcd" + "80010203"
    assert frame[54:58].hex() == "deadbe00"
    assert len(frame) == 62 == roce.frame_bytes(3)


@pytest.mark.parametrize("version", [4, 6])
@given(st.binary(max_size=70), st.integers(0, roce.PSN_MOD - 1), st.booleans())
def test_scapy_builds_the_same_frame(version: int, payload: bytes, psn: int, ack: bool) -> None:
    frame = _framer(version).data(roce.SEND_MIDDLE, psn, payload, ack)
    pad = -len(payload) % 4
    ip = (
        IP(src="10.0.1.1", dst="10.0.2.2", tos=2, flags="DF", id=0)
        if version == 4
        else IPv6(src="fd53::1", dst="fd53::2", tc=2, hlim=64)
    )
    bth = BTH(opcode="RC_SEND_MIDDLE", padcount=pad, dqpn=0xABCD, ackreq=ack, psn=psn)
    body = Raw(payload + bytes(pad))
    ether = Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:aa")
    assert frame == raw(ether / ip / UDP(sport=0xC123, dport=4791, chksum=0) / bth / body)


@pytest.mark.parametrize("version", [4, 6])
def test_scapy_reads_an_ack_with_and_without_the_extension(version: int) -> None:
    plain = Ether(_framer(version).ack(9, 3))
    assert (plain[BTH].opcode, plain[BTH].psn) == (0x11, 9)
    assert (plain[AETH].syndrome, plain[AETH].msn, len(plain[AETH].payload)) == (0x1F, 3, 0)
    # PSNs 9+2+0 = 11 and 9+2+33 = 44 arrived beyond the hole: bits 0 and 33, in two words.
    holes = Ether(_framer(version).ack(9, 3, (1 << 33) | 1))
    assert raw(holes[AETH].payload) == bytes.fromhex("0100000002000000")
    read = roce.parse(raw(holes))
    assert roce.parse_ack(read) == (3, (1 << 33) | 1)


@pytest.mark.parametrize("version", [4, 6])
@given(st.binary(max_size=70), st.integers(0, roce.PSN_MOD - 1), st.booleans())
def test_parse_reads_back_what_was_built(version: int, payload: bytes, psn: int, ack: bool) -> None:
    read = roce.parse(_framer(version).data(roce.SEND_LAST, psn, payload, ack))
    dst = B.ipv4.packed if version == 4 else B.ipv6.packed
    assert read == (dst, roce.ECT0, roce.SEND_LAST, 0xABCD, psn, ack, payload)


def test_what_switches_may_change_keeps_the_icrc_and_what_they_may_not_breaks_it() -> None:
    frame = _framer().data(roce.SEND_ONLY, 5, b"data", False)
    packet = Ether(frame)
    packet[IP].ttl = 60
    packet[IP].tos = 3
    del packet[IP].chksum
    packet[UDP].chksum = 0x1234
    packet[BTH].fecn = 1
    packet.dst = "02:00:00:00:00:bb"
    assert roce.parse(raw(packet)).ecn == roce.CE
    for place in (36, 45, 53, 54, len(frame) - 1):  # UDP port, P_Key, PSN, payload, ICRC
        broken = bytearray(frame)
        broken[place] ^= 1
        with pytest.raises(FrameError):
            roce.parse(bytes(broken))


def test_ethernet_padding_behind_the_packet_is_ignored() -> None:
    frame = _framer().data(roce.SEND_ONLY, 5, b"", False)
    assert roce.parse(frame + bytes(6)).payload == b""


@given(st.binary(max_size=120), st.integers(0, 2**32))
def test_any_bytes_parse_or_raise_frame_error(junk: bytes, seed: int) -> None:
    rng = random.Random(seed)
    frame = bytearray(_framer(rng.choice((4, 6))).ack(1, 2, 3))
    for _ in range(rng.randrange(4)):
        frame[rng.randrange(len(frame))] = rng.randrange(256)
    for data in (junk, bytes(frame), bytes(frame[: rng.randrange(len(frame))])):
        try:
            packet = roce.parse(data)
            msn, bitmap = roce.parse_ack(packet)
        except FrameError:
            continue
        assert 0 <= msn < roce.PSN_MOD
        assert bitmap >= 0


def test_sizes_by_hand() -> None:
    # 14 + 20 + 8 + 12 + 4 = 58 bytes of headers and ICRC, 24 more on the wire.
    assert (roce.frame_bytes(4096), roce.wire_bytes(4096)) == (4154, 4178)
    assert (roce.frame_bytes(1, 6), roce.wire_bytes(4096, 6)) == (82, 4198)
    # 4178 bytes are 33424 bits: 334.24 ns at 100 Gbit/s.
    assert roce.serialisation_ps(4154, 100_000_000_000) == 334_240
    assert roce.serialisation_ps(4154, 7) == 4_774_857_142_857_143  # rounded up
    assert roce.split_over_qps(10_000, 1, 4096) == [10_000]
    assert roce.split_over_qps(10_000, 2, 4096) == [8192, 1808]
    assert roce.split_over_qps(10_000, 9, 4096) == [4096, 4096, 1808]


@given(st.integers(1, 10**7), st.integers(1, 64), st.integers(64, 9000))
def test_splitting_keeps_bytes_and_packets(size: int, qps: int, mtu: int) -> None:
    parts = roce.split_over_qps(size, qps, mtu)
    assert sum(parts) == size
    assert min(parts) >= 1
    assert sum(roce.packet_count(p, mtu) for p in parts) == roce.packet_count(size, mtu)
