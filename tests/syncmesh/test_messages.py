"""Bytes on the wire, worked out by hand; everything else is refused."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglb.syncmesh import messages as m

Wire = m.AnyAgentMessage | m.Probe | m.Note | m.Beat | m.Set
KEY = m.FabricKey(b"0123456789abcdef")
OTHER = m.FabricKey(b"0123456789abcdeF")


def tag(data: bytes) -> bytes:
    return hmac.new(b"0123456789abcdef", data, hashlib.sha256).digest()[:16]


HEAD = {"origin": 0x0A0B0C0D, "incarnation": 0x0102, "seq": 0x11223344}
ENTRY = m.Entry(subject=0x8003, code=9, capacity_mbps=400_000, seq=7)

#: Message, type nibble, flags, body in hexadecimal.
LAYOUTS: list[tuple[m.AnyAgentMessage | m.Probe | m.Note | m.Beat | m.Set, int, int, str]] = [
    (m.Note(**HEAD, subject=5, code=8, capacity_mbps=800_000), 8, 0, "0005 08 00 000c3500"),
    (m.Probe(**HEAD), 6, 0, ""),
    (m.Beat(**HEAD), 9, 0, ""),
    (m.Beat(**HEAD, lost=True), 9, 1, ""),
    (
        m.Set(**HEAD, what=m.SET_LINK, code=8, profile=63, port=300, subject=2),
        10,
        0,
        "02 08 003f 012c 0002",
    ),
    (
        m.Hello(
            **HEAD,
            hold_us=3500,
            nonce=0x1122334455667788,
            echo=m.Echo(9, 4, 0x99AABBCCDDEEFF00),
            wants_notes=True,
        ),
        1,
        0,
        "00000dac 01 01 01 00 1122334455667788 00000009 0004 0000 99aabbccddeeff00",
    ),
    (
        m.Full(**HEAD, entries=(ENTRY,), index=1, count=3),
        2,
        0,
        "0001 01 03 8003 09 00 00061a80 00000007",
    ),
    (m.Delta(**HEAD, entries=(ENTRY,)), 3, 0, "0001 0000 8003 09 00 00061a80 00000007"),
    (
        m.Ack(**HEAD, acked_node=6, acked_incarnation=2, acked_seq=99),
        4,
        0,
        "00000006 0002 0000 00000063",
    ),
    (m.Bye(**HEAD), 5, 0, ""),
]
IDS = [type(case[0]).__name__ for case in LAYOUTS]


def encoded(message: m.AnyAgentMessage | m.Probe | m.Note | m.Beat | m.Set) -> bytes:
    return message.encode(KEY) if isinstance(message, m.AgentMessage) else message.encode()


@pytest.mark.parametrize(("message", "kind", "flags", "body"), LAYOUTS, ids=IDS)
def test_layout(
    message: m.AnyAgentMessage | m.Probe | m.Note | m.Beat | m.Set, kind: int, flags: int, body: str
) -> None:
    expected = bytes((0x10 | kind, flags)) + bytes.fromhex("0102 0a0b0c0d 11223344" + body)
    if kind <= 5:
        expected += tag(expected)
    assert encoded(message).hex(" ") == expected.hex(" ")
    assert m.decode(expected, KEY) == message


@pytest.mark.parametrize(("message", "kind", "flags", "body"), LAYOUTS, ids=IDS)
def test_every_prefix_is_refused(
    message: m.AnyAgentMessage | m.Probe | m.Note | m.Beat | m.Set, kind: int, flags: int, body: str
) -> None:
    data = encoded(message)
    for length in range(len(data)):
        with pytest.raises(m.DecodeError):
            m.decode(data[:length], KEY)


def test_short_frames_may_be_padded_and_long_ones_not() -> None:
    bye = m.Bye(**HEAD)
    data = bye.encode(KEY)
    assert m.decode(data.ljust(46, b"\0"), KEY) == bye  # 14 + 46 is the shortest Ethernet frame
    with pytest.raises(m.DecodeError, match="19 bytes too many at byte 28"):
        m.decode(data.ljust(47, b"\0"), KEY)
    with pytest.raises(m.DecodeError, match="18 bytes too many"):
        m.decode(data.ljust(45, b"\0") + b"\1", KEY)


def test_what_is_wrong_is_said() -> None:
    data = m.Full(**HEAD, entries=(ENTRY,)).encode(KEY)
    for damaged, text in (
        (b"", "header needs 12 bytes, 0 are left at byte 0"),
        (b"\x22" + data[1:], "version 2, this is 1 at byte 0"),
        (b"\x17" + data[1:], "unknown message type 7 at byte 0"),
        (data[:12], "FULL needs 4 bytes, 0 are left at byte 12"),
        (data[:-1], "FULL ends before its tag does at byte 28"),
        (data[:-1] + bytes((data[-1] ^ 1,)), "the tag does not fit at byte 28"),
    ):
        with pytest.raises(m.DecodeError, match=text):
            m.decode(damaged, KEY)
    unsigned = data[:14] + b"\3\3" + data[16:28]
    with pytest.raises(m.DecodeError, match="fragment 3 of 3 at byte 14"):
        m.decode(unsigned + tag(unsigned), KEY)


def test_another_fabrics_key_does_not_verify() -> None:
    with pytest.raises(m.TagError):
        m.decode(m.Bye(**HEAD).encode(OTHER), KEY)


def test_keys_are_long_and_stay_out_of_logs() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes, this one has 15"):
        m.FabricKey(bytes(15))
    assert repr(KEY) == "FabricKey(...)"


def test_fields_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="a field does not fit"):
        m.Note(**HEAD, subject=0x10000, code=0, capacity_mbps=0).encode()
    with pytest.raises(ValueError, match="fragment 2 of 2"):
        m.Full(**HEAD, index=2, count=2).encode(KEY)


def test_frames() -> None:
    mac = bytes.fromhex("020000000007")
    data = m.frame(mac, b"abc")
    assert data == bytes.fromhex("0180c200000e 020000000007 88b5") + b"abc"
    assert m.payload(data) == b"abc"
    with pytest.raises(m.DecodeError, match="EtherType 0x0800"):
        m.payload(bytes(12) + b"\x08\x00")
    with pytest.raises(m.DecodeError, match="a frame of 13 bytes"):
        m.payload(bytes(13))


def test_entries_are_split_by_the_mtu() -> None:
    # 14 Ethernet + 12 header + 4 + 16 tag leave 1468 of 1514 bytes: 122 entries of 12.
    assert m.entries_per_message(1514) == 122
    entries = [replace(ENTRY, subject=i) for i in range(245)]
    parts = m.split(entries, 1514)
    assert [len(p) for p in parts] == [122, 122, 1]
    assert [e for part in parts for e in part] == entries
    longest = m.Full(**HEAD, entries=parts[0], index=0, count=3).encode(KEY)
    assert len(m.frame(bytes(6), longest)) == 1510
    assert m.split([], 1514) == [()]
    with pytest.raises(ValueError, match="57 bytes have no room"):
        m.entries_per_message(57)


@settings(deadline=None)
@given(st.integers(0, 255) | st.integers(0x10, 0x1F), st.binary(max_size=120))
def test_random_bytes_are_refused_or_are_messages_of_the_data_plane(
    first: int, rest: bytes
) -> None:
    data = bytes((first,)) + rest
    try:
        message = m.decode(data, KEY)
    except m.DecodeError as error:
        offset = error.offset
    else:
        offset = 0
        assert isinstance(message, m.Probe | m.Note | m.Beat | m.Set)
        assert message.encode()[0] == first
    assert 0 <= offset <= len(data)


@settings(deadline=None)
@given(st.sampled_from(LAYOUTS), st.data())
def test_damaged_messages_never_verify(
    case: tuple[m.AnyAgentMessage | m.Probe | m.Note | m.Beat | m.Set, int, int, str],
    data: st.DataObject,
) -> None:
    original = encoded(case[0])
    damaged = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for candidate in (bytes(damaged), bytes(damaged[:cut]), bytes(damaged) + original[:cut]):
        if candidate == original:
            continue
        try:
            message = m.decode(candidate, KEY)
        except m.DecodeError:
            continue
        assert not isinstance(message, m.AgentMessage)
