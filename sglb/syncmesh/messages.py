"""SyncMesh messages and their bytes (docs/syncmesh.md has the tables).

Everything is big endian and starts with the 12-byte header of `p4src/include/syncmesh.p4`. NOTE, BEAT
and SET are the data plane's, PROBE is routing's; HELLO, FULL, DELTA, ACK and BYE pass between agents
and end with a tag, HMAC-SHA256 cut to 128 bits over all bytes from the header on, keyed per fabric.
What `encode` returns and `decode` takes follows the EtherType; `frame` and `payload` put it on and off
Ethernet.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

ETHERTYPE = 0x88B5
VERSION = 1
#: The nearest bridge's group address (IEEE 802.1Q): no bridge passes it on.
GROUP_MAC = bytes.fromhex("0180c200000e")

HELLO, FULL, DELTA, ACK, BYE = 1, 2, 3, 4, 5
PROBE, NOTE, BEAT, SET = 6, 8, 9, 10
TYPE_NAMES = {
    HELLO: "HELLO",
    FULL: "FULL",
    DELTA: "DELTA",
    ACK: "ACK",
    BYE: "BYE",
    PROBE: "PROBE",
    NOTE: "NOTE",
    BEAT: "BEAT",
    SET: "SET",
}

SET_REMOTE = 1
SET_LINK = 2
FLAG_LOST = 1  # BEAT: the sender heard this neighbour once and lost it
FLAG_URGENT = 1  # NOTE: down, or no longer down
FLAG_WANTS_NOTES = 1  # HELLO

ETHERNET_BYTES = 14
MIN_FRAME_BYTES = 60  # without FCS: shorter frames are padded with zeros on the wire
HEADER_BYTES = 12
TAG_BYTES = 16
ENTRY_BYTES = 12
MIN_KEY_BYTES = 16
DEFAULT_MTU_BYTES = 1_514  # of a frame with its Ethernet header, without FCS

_HEADER = struct.Struct("!BBHII")
_NOTE = struct.Struct("!HBBI")
_SET = struct.Struct("!BBHHH")
_HELLO = struct.Struct("!IBBBBQIHHQ")
_ENTRY = struct.Struct("!HBBII")
_FULL = struct.Struct("!HBB")
_DELTA = struct.Struct("!HH")
_ACK = struct.Struct("!IHHI")


class DecodeError(ValueError):
    """Bytes that are no message of this protocol. `offset` counts from the header's first byte."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(f"SyncMesh: {what} at byte {offset}")
        self.what = what
        self.offset = offset


class TagError(DecodeError):
    """A message whose tag does not fit: forged, damaged, or of a fabric with another key."""


class FabricKey:
    """The secret that the agents of one fabric share; at least 16 bytes."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) < MIN_KEY_BYTES:
            raise ValueError(
                f"a fabric key has at least {MIN_KEY_BYTES} bytes, this one has {len(key)}"
            )
        self._key = bytes(key)

    def __repr__(self) -> str:
        return "FabricKey(...)"

    def tag(self, data: bytes) -> bytes:
        """The 16-byte tag of a message's bytes up to the tag."""
        return hmac.digest(self._key, data, "sha256")[:TAG_BYTES]

    def verifies(self, data: bytes, tag: bytes) -> bool:
        """Whether a tag is that of the bytes, in constant time."""
        return hmac.compare_digest(self.tag(data), tag)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The header: `origin` is a node id, `seq` counts its data plane's or its agent's messages."""

    origin: int
    incarnation: int
    seq: int

    TYPE: ClassVar[int]

    @property
    def flags(self) -> int:
        """The header's flags byte."""
        return 0

    def _header(self) -> bytes:
        return _packed(
            _HEADER,
            VERSION << 4 | self.TYPE,
            self.flags,
            self.incarnation,
            self.origin,
            self.seq,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Message):
    """The quality of the origin's paths toward a subject (a switch id, or POD_SUBJECT | pod) changed.

    `code`: 4 bits in two's complement, 0 best, -1 to -7 worse (15 to 9), -8 (8) down, 1 to 7 better
    than told by the band alone. `urgent`: the subject is down, or was until this change.
    """

    TYPE: ClassVar[int] = NOTE
    subject: int
    code: int
    capacity_mbps: int
    urgent: bool = False

    @property
    def flags(self) -> int:
        """Bit 0 is `urgent`."""
        return FLAG_URGENT if self.urgent else 0

    def encode(self) -> bytes:
        """20 bytes. Raises ValueError when a field is too large, as every `encode` here."""
        return self._header() + _packed(_NOTE, self.subject, self.code, 0, self.capacity_mbps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(Message):
    """Routing's own question whether the link carries frames, as BFD asks it; not an agent's."""

    TYPE: ClassVar[int] = PROBE

    def encode(self) -> bytes:
        """12 bytes."""
        return self._header()


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat(Message):
    """The link carries frames. `lost`: the sender heard this neighbour once and hears it no more."""

    TYPE: ClassVar[int] = BEAT
    lost: bool = False

    @property
    def flags(self) -> int:
        """Bit 0 is `lost`."""
        return FLAG_LOST if self.lost else 0

    def encode(self) -> bytes:
        """12 bytes."""
        return self._header()


@dataclass(frozen=True, slots=True, kw_only=True)
class Set(Message):
    """What an agent writes into its own data plane.

    SET_REMOTE: the code of `port`'s lane in a profile; SET_LINK: the port's liveness, code 8 down, 0 up.
    `subject` is the index of the announcement that may change by it, 0 for none.
    """

    TYPE: ClassVar[int] = SET
    what: int
    code: int
    profile: int
    port: int
    subject: int

    def encode(self) -> bytes:
        """20 bytes."""
        return self._header() + _packed(
            _SET, self.what, self.code, self.profile, self.port, self.subject
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMessage(Message):
    """A message between agents: it ends with a tag."""

    def _body(self) -> bytes:
        return b""

    def encode(self, key: FabricKey) -> bytes:
        """Header, body and tag."""
        data = self._header() + self._body()
        return data + key.tag(data)


@dataclass(frozen=True, slots=True)
class Echo:
    """Whom the sender of a HELLO hears: node id, incarnation and nonce of that one's HELLO."""

    node: int
    incarnation: int
    nonce: int


NOBODY = Echo(0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello(AgentMessage):
    """I am here, for `hold_us` from now on, and this is whom I hear.

    `nonce` is new with every start of an agent: a HELLO that echoes it is no recording. The versions are
    those the sender can speak.
    """

    TYPE: ClassVar[int] = HELLO
    hold_us: int
    nonce: int
    echo: Echo = NOBODY
    wants_notes: bool = False
    version_min: int = VERSION
    version_max: int = VERSION

    def _body(self) -> bytes:
        return _packed(
            _HELLO,
            self.hold_us,
            FLAG_WANTS_NOTES if self.wants_notes else 0,
            self.version_min,
            self.version_max,
            0,
            self.nonce,
            self.echo.node,
            self.echo.incarnation,
            0,
            self.echo.nonce,
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """What a data plane announced last about a subject, and in which of its frames (`seq`)."""

    subject: int
    code: int
    capacity_mbps: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Full(AgentMessage):
    """Everything that the origin announced; fragment `index` of `count` (each stands alone)."""

    TYPE: ClassVar[int] = FULL
    entries: tuple[Entry, ...] = ()
    index: int = 0
    count: int = 1

    def _body(self) -> bytes:
        if not self.index < self.count:
            raise ValueError(f"SyncMesh: fragment {self.index} of {self.count}")
        return _packed(_FULL, len(self.entries), self.index, self.count) + _entries(self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta(AgentMessage):
    """What changed and was not acknowledged yet."""

    TYPE: ClassVar[int] = DELTA
    entries: tuple[Entry, ...] = ()

    def _body(self) -> bytes:
        return _packed(_DELTA, len(self.entries), 0) + _entries(self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack(AgentMessage):
    """The DELTA of that node, incarnation and sequence number arrived."""

    TYPE: ClassVar[int] = ACK
    acked_node: int
    acked_incarnation: int
    acked_seq: int

    def _body(self) -> bytes:
        return _packed(_ACK, self.acked_node, self.acked_incarnation, 0, self.acked_seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bye(AgentMessage):
    """I go, on purpose."""

    TYPE: ClassVar[int] = BYE


AnyAgentMessage = Hello | Full | Delta | Ack | Bye


def entries_per_message(mtu_bytes: int) -> int:
    """How many entries a FULL or DELTA holds in frames of that size (at most 65535)."""
    room = mtu_bytes - ETHERNET_BYTES - HEADER_BYTES - _FULL.size - TAG_BYTES
    if room < ENTRY_BYTES:
        raise ValueError(f"frames of {mtu_bytes} bytes have no room for a SyncMesh entry")
    return min(room // ENTRY_BYTES, 0xFFFF)


def split(entries: Sequence[Entry], mtu_bytes: int) -> list[tuple[Entry, ...]]:
    """Entries in as many parts as frames of that size need; one empty part for none."""
    size = entries_per_message(mtu_bytes)
    return [tuple(entries[at : at + size]) for at in range(0, len(entries), size)] or [()]


def decode(data: bytes, key: FabricKey) -> AnyAgentMessage | Probe | Note | Beat | Set:
    """The message in the bytes behind the EtherType.

    Zeros that pad a short Ethernet frame are allowed. Raises `DecodeError`, of which `TagError` for an
    agent message whose tag does not fit; the tag is checked before the body is believed.
    """
    reader = _Reader(data)
    first, flags, incarnation, origin, seq = reader.take(_HEADER, "header")
    if first >> 4 != VERSION:
        raise DecodeError(f"version {first >> 4}, this is {VERSION}", 0)
    head = _Head(first & 0xF, flags, origin, incarnation, seq)
    match head.type:
        case 1 | 2 | 3 | 4 | 5:
            return _decode_agent(reader, head, key)
        case 6:
            reader.finish()
            return Probe(**head.fields)
        case 8:
            subject, code, _, capacity = reader.take(_NOTE, "NOTE")
            reader.finish()
            return Note(
                **head.fields,
                subject=subject,
                code=code & 0xF,
                capacity_mbps=capacity,
                urgent=bool(flags & FLAG_URGENT),
            )
        case 9:
            reader.finish()
            return Beat(**head.fields, lost=bool(flags & FLAG_LOST))
        case 10:
            what, code, profile, port, subject = reader.take(_SET, "SET")
            reader.finish()
            return Set(
                **head.fields, what=what, code=code, profile=profile, port=port, subject=subject
            )
    raise DecodeError(f"unknown message type {head.type}", 0)


def frame(source_mac: bytes, payload: bytes, destination_mac: bytes = GROUP_MAC) -> bytes:
    """An Ethernet frame around an encoded message."""
    return destination_mac + source_mac + ETHERTYPE.to_bytes(2, "big") + payload


def link_order(mac: bytes, node: int, port: int, code: int) -> bytes:
    """The frame of a SET_LINK to the own data plane, for a switch (`mac`, `node`) without an agent."""
    order = Set(
        origin=node,
        incarnation=0,
        seq=0,
        what=SET_LINK,
        code=code,
        profile=0,
        port=port,
        subject=0,
    )
    return frame(mac, order.encode())


def payload(data: bytes) -> bytes:
    """What follows the EtherType of a SyncMesh frame. Raises `DecodeError` for other frames."""
    if len(data) < ETHERNET_BYTES:
        raise DecodeError(f"a frame of {len(data)} bytes has no Ethernet header", 0)
    if data[12:14] != ETHERTYPE.to_bytes(2, "big"):
        raise DecodeError(f"EtherType 0x{data[12:14].hex()} is not SyncMesh's", 0)
    return data[ETHERNET_BYTES:]


@dataclass(frozen=True, slots=True)
class _Head:
    type: int
    flags: int
    origin: int
    incarnation: int
    seq: int

    @property
    def fields(self) -> dict[str, int]:
        return {"origin": self.origin, "incarnation": self.incarnation, "seq": self.seq}


@dataclass(slots=True)
class _Reader:
    data: bytes
    at: int = field(default=0)

    def take(self, layout: struct.Struct, what: str) -> tuple[int, ...]:
        """The next fields."""
        end = self.at + layout.size
        if end > len(self.data):
            raise DecodeError(
                f"{what} needs {layout.size} bytes, {len(self.data) - self.at} are left", self.at
            )
        values = layout.unpack_from(self.data, self.at)
        self.at = end
        return values

    def finish(self) -> None:
        """Nothing may follow but the padding of a short frame."""
        rest = self.data[self.at :]
        if rest and (len(self.data) + ETHERNET_BYTES > MIN_FRAME_BYTES or any(rest)):
            raise DecodeError(f"{len(rest)} bytes too many", self.at)


def _decode_agent(reader: _Reader, head: _Head, key: FabricKey) -> AnyAgentMessage:
    body = reader.at
    reader.at += _body_bytes(reader, head.type)
    covered = reader.at
    tag = reader.data[covered : covered + TAG_BYTES]
    if len(tag) < TAG_BYTES:
        name = TYPE_NAMES[head.type]
        raise DecodeError(f"{name} ends before its tag does", min(covered, len(reader.data)))
    if not key.verifies(reader.data[:covered], tag):
        raise TagError("the tag does not fit", covered)
    reader.at += TAG_BYTES
    reader.finish()
    reader.at = body
    match head.type:
        case 1:
            return _decode_hello(reader, head)
        case 2:
            n, index, count = reader.take(_FULL, "FULL")
            if index >= count:
                raise DecodeError(f"fragment {index} of {count}", body + 2)
            return Full(**head.fields, entries=_take_entries(reader, n), index=index, count=count)
        case 3:
            n, _ = reader.take(_DELTA, "DELTA")
            return Delta(**head.fields, entries=_take_entries(reader, n))
        case 4:
            node, incarnation, _, seq = reader.take(_ACK, "ACK")
            return Ack(**head.fields, acked_node=node, acked_incarnation=incarnation, acked_seq=seq)
    return Bye(**head.fields)


def _body_bytes(reader: _Reader, kind: int) -> int:
    """Length of a body; that of FULL and DELTA follows from their count."""
    if kind in (FULL, DELTA):
        peek = _Reader(reader.data, reader.at)
        count = peek.take(_FULL, TYPE_NAMES[kind])[0]
        return _FULL.size + count * ENTRY_BYTES
    return {HELLO: _HELLO.size, ACK: _ACK.size, BYE: 0}[kind]


def _decode_hello(reader: _Reader, head: _Head) -> Hello:
    hold_us, flags, low, high, _, nonce, node, incarnation, _, echoed = reader.take(_HELLO, "HELLO")
    return Hello(
        **head.fields,
        hold_us=hold_us,
        nonce=nonce,
        echo=Echo(node, incarnation, echoed),
        wants_notes=bool(flags & FLAG_WANTS_NOTES),
        version_min=low,
        version_max=high,
    )


def _take_entries(reader: _Reader, count: int) -> tuple[Entry, ...]:
    found = []
    for _ in range(count):
        subject, code, _, capacity, seq = reader.take(_ENTRY, "entry")
        found.append(Entry(subject, code & 0xF, capacity, seq))
    return tuple(found)


def _entries(entries: Sequence[Entry]) -> bytes:
    return b"".join(_packed(_ENTRY, e.subject, e.code, 0, e.capacity_mbps, e.seq) for e in entries)


def _packed(layout: struct.Struct, *values: int) -> bytes:
    try:
        return layout.pack(*values)
    except struct.error as error:
        raise ValueError(f"SyncMesh: a field does not fit: {error}") from error
