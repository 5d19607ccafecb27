"""The scapy layers and the codec agree, both ways, and survive any bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from sglb.syncmesh import messages as m
from sglb.syncmesh.layers import (
    Sync,
    SyncAck,
    SyncDelta,
    SyncEntry,
    SyncFull,
    SyncHello,
    SyncNote,
    SyncSet,
    SyncTag,
    signed,
)

KEY = m.FabricKey(b"0123456789abcdef")
MAC = bytes.fromhex("020000000007")
HEAD = {"origin": 7, "incarnation": 3, "seq": 1000}
ETHER = Ether(dst="01:80:c2:00:00:0e", src="02:00:00:00:00:07")

PAIRS = [
    (
        m.Note(**HEAD, subject=0x8001, code=15, capacity_mbps=5),
        ETHER / Sync(**HEAD) / SyncNote(subject=0x8001, code=15, capacity_mbps=5),
    ),
    (m.Probe(**HEAD), ETHER / Sync(type="PROBE", **HEAD)),
    (m.Probe(**HEAD), ETHER / Sync(type="PROBE", **HEAD)),
    (m.Beat(**HEAD, lost=True), ETHER / Sync(type="BEAT", flags=1, **HEAD)),
    (
        m.Set(**HEAD, what=m.SET_REMOTE, code=9, profile=4, port=12, subject=6),
        ETHER
        / Sync(type="SET", **HEAD)
        / SyncSet(what="REMOTE", code=9, profile=4, port=12, subject=6),
    ),
    (
        m.Hello(**HEAD, hold_us=9, nonce=1 << 63, echo=m.Echo(1, 2, 3), wants_notes=True),
        ETHER
        / Sync(type="HELLO", **HEAD)
        / SyncHello(
            hold_us=9, wishes="notes", nonce=1 << 63, echo_node=1, echo_incarnation=2, echo_nonce=3
        ),
    ),
    (
        m.Full(**HEAD, entries=(m.Entry(1, 2, 3, 4), m.Entry(5, 6, 7, 8)), index=1, count=2),
        ETHER
        / Sync(type="FULL", **HEAD)
        / SyncFull(
            index=1,
            fragments=2,
            entries=[
                SyncEntry(subject=1, code=2, capacity_mbps=3, seq=4),
                SyncEntry(subject=5, code=6, capacity_mbps=7, seq=8),
            ],
        ),
    ),
    (
        m.Delta(**HEAD, entries=(m.Entry(1, 2, 3, 4),)),
        ETHER
        / Sync(type="DELTA", **HEAD)
        / SyncDelta(entries=[SyncEntry(subject=1, code=2, capacity_mbps=3, seq=4)]),
    ),
    (
        m.Ack(**HEAD, acked_node=1, acked_incarnation=2, acked_seq=3),
        ETHER / Sync(type="ACK", **HEAD) / SyncAck(acked_node=1, acked_incarnation=2, acked_seq=3),
    ),
    (m.Bye(**HEAD), ETHER / Sync(type="BYE", **HEAD)),
]


@pytest.mark.parametrize(("message", "packet"), PAIRS, ids=[type(p[0]).__name__ for p in PAIRS])
def test_scapy_builds_and_reads_what_the_codec_does(message: m.Message, packet: Ether) -> None:
    if isinstance(message, m.AgentMessage):
        packet = signed(packet, KEY)
        data = m.frame(MAC, message.encode(KEY))
    else:
        assert isinstance(message, m.Probe | m.Note | m.Beat | m.Set)
        data = m.frame(MAC, message.encode())
    assert bytes(packet) == data
    read = Ether(data)
    assert [type(layer) for layer in _chain(read)] == [type(layer) for layer in _chain(packet)]
    assert m.decode(m.payload(bytes(read)), KEY) == message


def _chain(packet: Ether) -> list[object]:
    return [packet.getlayer(i) for i in range(len(packet.layers()))]


def test_signing_again_replaces_the_tag() -> None:
    once = signed(ETHER / Sync(type="BYE", **HEAD), KEY)
    once[Sync].seq = 1001
    again = signed(once, KEY)
    assert again.layers() == [Ether, Sync, SyncTag]
    assert m.decode(m.payload(bytes(again)), KEY) == m.Bye(origin=7, incarnation=3, seq=1001)
    with pytest.raises(ValueError, match="no Sync layer"):
        signed(ETHER / Raw(b"x"), KEY)


@settings(deadline=None)
@given(st.binary(max_size=100), st.integers(0, 15))
def test_any_bytes_can_be_shown(data: bytes, kind: int) -> None:
    packet = Ether(bytes(12) + b"\x88\xb5" + bytes((0x10 | kind,)) + data)
    assert packet.show(dump=True)
    assert bytes(packet)[:14] == bytes(12) + b"\x88\xb5"
