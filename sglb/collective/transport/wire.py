"""The bytes between ranks: how a connection begins, and the frames on it. Little-endian.

A connection begins with four messages of fixed size, HELLO and PROOF of the side that connects,
CHALLENGE and WELCOME of the side that accepts (`handshake.py`); REFUSE may stand for either of the
latter two. Then frames follow, each a header and, for some, a payload. Frames up to `Kind.LENT_DATA` are
counted: `seq` is how many the sender had sent before on this connection, `ack` how many it had taken
in. What is counted and not acknowledged when a connection is lost, is sent again on another.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from sglb.collective.transport.errors import WireError
from sglb.collective.transport.settings import MAX_CHUNK_BYTES, MAX_EAGER_BYTES

VERSION = 1
MAX_TEXT_BYTES = 4096
MAX_CHANNELS = 1024
#: Numbers of channels that belong to no rail: over shared memory, through rank r (r added), and of a
#: connection to a relay, inside which another one begins.
MEMORY_CHANNEL = 0x3FFF
RELAY_CHANNEL = 0x4000
HOP_CHANNEL = 0xFFFF


class Kind(IntEnum):
    """Kinds of frames, and what their fields m, x, y, z are; `-` is 0."""

    MSG = 1  # message number m of this sender, on stream x, of y bytes, fingerprint z; first bytes
    GRANT = 2  # message m may come, -, -, -
    DATA = 3  # message m, offset x, -, -; the bytes
    REPORT = 4  # of connection (channel m, epoch x), y counted frames were taken in, -
    MISMATCH = 5  # message m met a receive of x bytes, -, fingerprint z; its label
    ABORT = 6  # of kind m (`Cause`), -, -, -; the reason
    LENT_MSG = 7  # MSG, its first bytes being where the payload (`Loan`) says
    LENT_DATA = 8  # DATA, the bytes being where the payload says
    ACK = 9  # m bytes of first pieces have met their receive so far, -, -, -; not counted
    PING = 10  # m as in ACK; something for the peer's kernel to acknowledge; not counted
    BYE = 11  # m as in ACK; the sender closes its transport in good order; not counted


class Cause(IntEnum):
    """Why a group was given up."""

    ABORT = 0
    MISMATCH = 1
    LOST = 2


#: Kinds up to this one are counted.
LAST_COUNTED = Kind.LENT_DATA
_MAX_PAYLOAD = {
    Kind.MSG: MAX_EAGER_BYTES,
    Kind.DATA: MAX_CHUNK_BYTES,
    Kind.MISMATCH: MAX_TEXT_BYTES,
    Kind.ABORT: MAX_TEXT_BYTES,
}
#: What a lent frame is once its bytes are there.
LENT = {Kind.LENT_MSG: Kind.MSG, Kind.LENT_DATA: Kind.DATA}
_LOAN = struct.Struct("<QQ")
_MAX_PAYLOAD |= dict.fromkeys(LENT, _LOAN.size)
_KINDS = {int(kind): (kind, _MAX_PAYLOAD.get(kind, 0)) for kind in Kind}

#: magic, kind, channel, epoch, seq, payload bytes, ack, m, x, y, z
_HEADER = struct.Struct("<2sBxHxxIIIQQQQQ")
HEADER_BYTES = _HEADER.size
_MAGIC = b"Rc"


class Header(NamedTuple):
    """A frame's header."""

    kind: Kind
    channel: int
    epoch: int
    seq: int
    payload_bytes: int
    ack: int
    m: int
    x: int
    y: int
    z: int


def pack_header(
    kind: int, channel: int, epoch: int, seq: int, payload: int, ack: int, fields: tuple[int, ...]
) -> bytes:
    """A frame's header; `seq` is cut to 32 bits, `fields` are m, x, y, z."""
    return _HEADER.pack(_MAGIC, kind, channel, epoch, seq & 0xFFFFFFFF, payload, ack, *fields)


def unpack_header(data: bytes | bytearray | memoryview, offset: int = 0) -> Header:
    """The header at `offset`. Raises WireError; then nothing may be read from this connection."""
    magic, number, channel, epoch, seq, payload, ack, m, x, y, z = _HEADER.unpack_from(data, offset)
    if magic != _MAGIC or number not in _KINDS:
        raise WireError(f"not a frame: magic {magic!r}, kind {number}")
    kind, most = _KINDS[number]
    if payload > most:
        raise WireError(f"frame {kind.name} of {payload} bytes, at most {most}")
    return Header(kind, channel, epoch, seq, payload, ack, m, x, y, z)


def pack_loan(address: int, size: int) -> bytes:
    """The payload of a lent frame: where in the sender's memory, and how many bytes."""
    return _LOAN.pack(address, size)


def unpack_loan(kind: Kind, payload: memoryview) -> tuple[int, int]:
    """(address, bytes) of a lent frame. Raises WireError."""
    if len(payload) != _LOAN.size:
        raise WireError(f"a loan of {len(payload)} bytes")
    address, size = _LOAN.unpack(payload)
    most = _MAX_PAYLOAD[LENT[kind]]
    if not 0 < size <= most:
        raise WireError(f"a loan for {size} bytes, at most {most}")
    return address, size


# Beginning of a connection.

HELLO_MAGIC = b"RECCL\x00\xf1\x01"
NONCE_BYTES = 16
MAC_BYTES = 32
_GROUP_BYTES = 16

_HELLO = struct.Struct(f"<8sHHIIIHH{_GROUP_BYTES}s{NONCE_BYTES}s")
HELLO_BYTES = _HELLO.size
_ANSWER = struct.Struct(f"<8sHH{NONCE_BYTES}s{MAC_BYTES}s")
ANSWER_BYTES = _ANSWER.size
_REASON_BYTES = NONCE_BYTES + MAC_BYTES


class Hello(NamedTuple):
    """First message: who connects to whom, for which channel, over which of its rails.

    relay: of a HOP_CHANNEL, the rank to pass everything on to, plus 1; 0: what follows is for the
    target itself.
    """

    version: int
    relay: int
    source: int
    target: int
    epoch: int
    channel: int
    rail: int
    group: bytes
    nonce: bytes


class Answer(NamedTuple):
    """CHALLENGE, PROOF, WELCOME or REFUSE; the last has its reason where others have nonce and MAC."""

    version: int
    kind: int
    nonce: bytes
    mac: bytes

    @property
    def reason(self) -> str:
        """Why, of a REFUSE."""
        return (self.nonce + self.mac).rstrip(b"\0").decode("ascii", "replace")


class Step(IntEnum):
    """Kinds of `Answer`."""

    CHALLENGE = 1
    PROOF = 2
    WELCOME = 3
    REFUSE = 4


def pack_hello(hello: Hello) -> bytes:
    """The bytes of a HELLO."""
    return _HELLO.pack(
        HELLO_MAGIC,
        hello.version,
        hello.relay,
        hello.source,
        hello.target,
        hello.epoch,
        hello.channel,
        hello.rail,
        hello.group,
        hello.nonce,
    )


def unpack_hello(data: bytes | bytearray | memoryview) -> Hello:
    """A HELLO of any version. Raises WireError."""
    if len(data) != HELLO_BYTES:
        raise WireError(f"a HELLO of {len(data)} bytes")
    magic, *fields = _HELLO.unpack(data)
    if magic != HELLO_MAGIC:
        raise WireError("not a reccl connection")
    return Hello(*fields)


def pack_answer(step: Step, nonce: bytes, mac: bytes) -> bytes:
    """The bytes of a CHALLENGE, PROOF or WELCOME."""
    return _ANSWER.pack(HELLO_MAGIC, VERSION, step, nonce, mac)


def pack_refusal(reason: str) -> bytes:
    """The bytes of a REFUSE; the reason is cut to 48 characters."""
    text = reason.encode("ascii", "replace")[:_REASON_BYTES].ljust(_REASON_BYTES, b"\0")
    return _ANSWER.pack(HELLO_MAGIC, VERSION, Step.REFUSE, text[:NONCE_BYTES], text[NONCE_BYTES:])


def unpack_answer(data: bytes | bytearray | memoryview) -> Answer:
    """An answer. Raises WireError."""
    if len(data) != ANSWER_BYTES:
        raise WireError(f"an answer of {len(data)} bytes")
    magic, version, kind, nonce, mac = _ANSWER.unpack(data)
    if magic != HELLO_MAGIC or kind not in _STEPS:
        raise WireError("not an answer of reccl")
    return Answer(version, kind, nonce, mac)


_STEPS = frozenset(int(step) for step in Step)


def text_of(payload: bytes | bytearray | memoryview) -> str:
    """Text of a payload; what isn't UTF-8 is replaced."""
    return bytes(payload).decode("utf-8", "replace")


def bytes_of(text: str) -> bytes:
    """Payload of a text, cut to the most that a frame takes."""
    return text.encode("utf-8", "replace")[:MAX_TEXT_BYTES]
