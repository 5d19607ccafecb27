"""Capture files: known bytes, both resolutions and byte orders, and one clear error for bad ones."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.switch.pcap import CapturedPacket, PcapError, PcapWriter, read_pcap

HEADER_US = bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 ffff0000 01000000")
HEADER_NS = bytes.fromhex("4d3cb2a1 0200 0400 00000000 00000000 ffff0000 01000000")
HEADER_BIG = bytes.fromhex("a1b2c3d4 0002 0004 00000000 00000000 0000ffff 00000001")
#: 2 s and 3 units, 4 bytes.
PACKET = bytes.fromhex("02000000 03000000 04000000 04000000 deadbeef")
PACKET_BIG = bytes.fromhex("00000002 00000003 00000004 00000004 deadbeef")


@pytest.mark.parametrize(
    ("content", "time_ns"),
    [
        (HEADER_US + PACKET, 2_000_003_000),
        (HEADER_NS + PACKET, 2_000_000_003),
        (HEADER_BIG + PACKET_BIG, 2_000_003_000),
    ],
)
def test_reads_every_variant(tmp_path, content, time_ns):
    path = tmp_path / "1.pcap"
    path.write_bytes(content)
    assert read_pcap(path) == [CapturedPacket(time_ns, bytes.fromhex("deadbeef"))]


def test_writes_known_bytes(tmp_path):
    path = tmp_path / "out.pcap"
    with PcapWriter(path) as out:
        out.write(2_000_000_003, bytes.fromhex("deadbeef"))
    header = bytes.fromhex("4d3cb2a1 0200 0400 00000000 00000000 00000400 01000000")
    assert path.read_bytes() == header + PACKET


def test_scapy_reads_what_is_written(tmp_path):
    from scapy.utils import RawPcapReader

    path = tmp_path / "out.pcap"
    with PcapWriter(path) as out:
        out.write(5_000_000_007, b"x" * 60)
    with RawPcapReader(str(path)) as reader:
        ((data, meta),) = list(reader)
    assert (data, meta.sec, meta.usec, meta.wirelen) == (b"x" * 60, 5, 7, 60)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "ends inside the file header"),
        (HEADER_US[:20], "ends inside the file header"),
        (b"\x0a\x0d\x0d\x0a" + bytes(40), "pcapng"),
        (b"hello, this is no capture", "is no pcap file"),
        (HEADER_US[:-4] + b"\x65\0\0\0", "link type is 101"),
        (HEADER_US + PACKET[:10], "ends inside the header of packet 1"),
        (HEADER_US + PACKET + PACKET[:-1], "ends inside packet 2"),
        (HEADER_US + PACKET[:8] + b"\xff" * 8, "claims 4294967295 bytes"),
        (HEADER_US + PACKET[:12] + b"\x08\0\0\0deadbeef", "only in part \\(4 of 8 bytes\\)"),
    ],
)
def test_bad_files(tmp_path, content, text):
    path = tmp_path / "1.pcap"
    path.write_bytes(content)
    with pytest.raises(PcapError, match=f"1.pcap: .*{text}"):
        read_pcap(path)


def test_missing_file(tmp_path):
    with pytest.raises(PcapError, match="No such file"):
        read_pcap(tmp_path / "1.pcap")


@given(st.binary(max_size=120), st.integers(0, 2), st.data())
def test_garbage_gives_packets_or_one_error(tmp_path_factory, garbage, start, data):
    content = (b"", HEADER_US, HEADER_NS + PACKET)[start] + garbage
    content = content[: data.draw(st.integers(0, len(content)))]
    path = tmp_path_factory.getbasetemp() / "fuzz.pcap"
    path.write_bytes(content)
    try:
        packets = read_pcap(path)
    except PcapError as error:
        text = str(error)
        packets = None
    if packets is None:
        assert "\n" not in text
    else:
        assert sum(16 + len(p.data) for p in packets) + 24 == len(content)


@given(st.lists(st.tuples(st.integers(0, 2**32 * 10**9 - 1), st.binary(max_size=50))))
def test_round_trip(tmp_path_factory, packets):
    path = tmp_path_factory.getbasetemp() / "round.pcap"
    with PcapWriter(path) as out:
        for time_ns, data in packets:
            out.write(time_ns, data)
    assert read_pcap(path) == [CapturedPacket(*p) for p in packets]
    assert struct.unpack("<I", path.read_bytes()[:4]) == (0xA1B23C4D,)
