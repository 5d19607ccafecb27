"""SyncMesh for scapy: `Ether()/Sync()/SyncNote()` and what `sniff` and `rdpcap` then show.

Importing this module binds the layers to EtherType 0x88B5. It needs scapy (the extra `sglb[scapy]`).
The tag of an agent message is the layer `SyncTag`, computed by `signed`.
"""

from __future__ import annotations

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    FieldLenField,
    FlagsField,
    IntField,
    PacketListField,
    ShortField,
    StrFixedLenField,
    XByteField,
    XLongField,
)
from scapy.layers.l2 import Ether
from scapy.packet import Packet, bind_layers

from sglb.syncmesh import messages as m


class Sync(Packet):
    """The header that all messages share."""

    name = "SyncMesh"
    fields_desc = [  # noqa: RUF012 (scapy's way)
        BitField("version", m.VERSION, 4),
        BitEnumField("type", m.NOTE, 4, m.TYPE_NAMES),
        FlagsField("flags", 0, 8, ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"]),
        ShortField("incarnation", 1),
        IntField("origin", 0),
        IntField("seq", 0),
    ]


class SyncNote(Packet):
    """The quality of the origin's paths toward a subject."""

    name = "SyncMesh NOTE"
    fields_desc = [  # noqa: RUF012
        ShortField("subject", 0),
        XByteField("code", 0),
        ByteField("reserved", 0),
        IntField("capacity_mbps", 0),
    ]


class SyncSet(Packet):
    """An agent's order to its own data plane."""

    name = "SyncMesh SET"
    fields_desc = [  # noqa: RUF012
        ByteEnumField("what", m.SET_REMOTE, {m.SET_REMOTE: "REMOTE", m.SET_LINK: "LINK"}),
        XByteField("code", 0),
        ShortField("profile", 0),
        ShortField("port", 0),
        ShortField("subject", 0),
    ]


class SyncTag(Packet):
    """The authentication tag that ends an agent message."""

    name = "SyncMesh tag"
    fields_desc = [  # noqa: RUF012
        StrFixedLenField("tag", bytes(m.TAG_BYTES), m.TAG_BYTES)
    ]


class SyncHello(Packet):
    """Adjacency: who is here and whom it hears."""

    name = "SyncMesh HELLO"
    fields_desc = [  # noqa: RUF012
        IntField("hold_us", 0),
        FlagsField("wishes", 0, 8, ["notes", "w1", "w2", "w3", "w4", "w5", "w6", "w7"]),
        ByteField("version_min", m.VERSION),
        ByteField("version_max", m.VERSION),
        ByteField("reserved", 0),
        XLongField("nonce", 0),
        IntField("echo_node", 0),
        ShortField("echo_incarnation", 0),
        ShortField("reserved2", 0),
        XLongField("echo_nonce", 0),
    ]


class SyncEntry(Packet):
    """One subject of a FULL or DELTA."""

    name = "SyncMesh entry"
    fields_desc = [  # noqa: RUF012
        ShortField("subject", 0),
        XByteField("code", 0),
        ByteField("reserved", 0),
        IntField("capacity_mbps", 0),
        IntField("seq", 0),
    ]

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Entries are a list: what follows one belongs to the list."""
        return b"", s


class SyncFull(Packet):
    """Everything that the origin announced."""

    name = "SyncMesh FULL"
    fields_desc = [  # noqa: RUF012
        FieldLenField("count", None, fmt="!H", count_of="entries"),
        ByteField("index", 0),
        ByteField("fragments", 1),
        PacketListField("entries", [], SyncEntry, count_from=lambda packet: packet.count),
    ]


class SyncDelta(Packet):
    """What changed."""

    name = "SyncMesh DELTA"
    fields_desc = [  # noqa: RUF012
        FieldLenField("count", None, fmt="!H", count_of="entries"),
        ShortField("reserved", 0),
        PacketListField("entries", [], SyncEntry, count_from=lambda packet: packet.count),
    ]


class SyncAck(Packet):
    """A DELTA arrived."""

    name = "SyncMesh ACK"
    fields_desc = [  # noqa: RUF012
        IntField("acked_node", 0),
        ShortField("acked_incarnation", 0),
        ShortField("reserved", 0),
        IntField("acked_seq", 0),
    ]


def signed(packet: Packet, key: m.FabricKey) -> Packet:
    """The packet with the right tag at its end, in place of one that is there.

    `packet` starts with or contains `Sync`. Raises ValueError when it does not.
    """
    if Sync not in packet:
        raise ValueError("there is no Sync layer to sign")
    done = packet.copy()
    if SyncTag in done:
        done[SyncTag].underlayer.remove_payload()
    return done / SyncTag(tag=key.tag(bytes(done[Sync])))


bind_layers(Ether, Sync, type=m.ETHERTYPE)
for _kind, _layer in (
    (m.NOTE, SyncNote),
    (m.SET, SyncSet),
    (m.HELLO, SyncHello),
    (m.FULL, SyncFull),
    (m.DELTA, SyncDelta),
    (m.ACK, SyncAck),
    (m.BYE, SyncTag),
):
    bind_layers(Sync, _layer, type=_kind)
for _layer in (SyncHello, SyncFull, SyncDelta, SyncAck):
    bind_layers(_layer, SyncTag)
