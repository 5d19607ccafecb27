"""Messages: their bytes by hand, the way there and back, and what is none."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sglb.watermark.telemetry.errors import TelemetryError
from sglb.watermark.telemetry.message import Message, decode, encode
from sglb.watermark.telemetry.reading import FIELDS, ROWS, Field

NUMBER = st.integers(0, (1 << 64) - 1)
STEP = st.integers(1, (1 << 64) - 1)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    ports = draw(st.lists(st.integers(0, 1 << 20), unique=True, max_size=5).map(sorted))
    key = st.tuples(st.integers(0, ROWS * 5), st.integers(0, FIELDS - 1))
    cells = st.dictionaries(key, NUMBER, max_size=12)
    head = [draw(NUMBER) for _ in range(4)]
    full = draw(st.booleans())
    return Message(
        *head,
        draw(STEP),
        draw(cells),
        tuple(ports) if full else (),
        tuple(draw(STEP) for _ in range(FIELDS)) if full else (),
        draw(cells) if full else None,
    )


@given(messages())
def test_there_and_back(message: Message) -> None:
    assert decode(encode(message)) == message


def test_its_bytes() -> None:
    cells = {(3, Field.SENT_BYTES): 300, (3, Field.QUEUE_PEAK_BYTES): 1, (8, Field.SENT_PACKETS): 7}
    # 5 = 0b101: bits of the two fields; 300 = 0x2c | 0x80, 2; row 8 is 4 beyond row 3; bit 7 = 128.
    expected = (
        b"W\x01\x00"
        + bytes((9, 0, 130, 1, 4, 5))
        + bytes((2, 3, 5, 0xAC, 0x02, 1, 4, 0x80, 0x01, 7))
    )
    assert encode(Message(9, 0, 130, 4, 5, cells)) == expected
    assert decode(expected) == Message(9, 0, 130, 4, 5, cells)


def test_its_bytes_when_full() -> None:
    found = encode(Message(1, 2, 0, 4, 5, {}, (1, 4), (1,) * FIELDS, {(0, 0): 6}))
    assert found == b"W\x01\x01" + bytes((1, 2, 0, 4, 5, 2, 1, 2)) + b"\x01" * 12 + bytes(
        (0, 1, 0, 1, 6)
    )


@given(st.binary(max_size=60))
@example(b"W\x01\x00\x01\x01\x01\x01\x00\x00")
@example(b"W\x01\x01" + b"\x01" * 5 + b"\xff" * 9 + b"\x01")
def test_any_bytes_are_a_message_or_an_error(data: bytes) -> None:
    for start in (b"", b"W\x01\x00", b"W\x01\x01"):
        try:
            message = decode(start + data)
        except TelemetryError:
            continue
        assert encode(message) == start + data


@given(messages(), st.data())
def test_a_damaged_message_is_another_or_an_error(message: Message, data: st.DataObject) -> None:
    raw = bytearray(encode(message))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(TelemetryError):
        assert decode(bytes(raw)) != message
    with pytest.raises(TelemetryError):
        decode(encode(message)[:-1])


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "ends too early"),
        (b"X\x01", "begins with '5801'"),
        (b"W\x02\x00", "version 1"),
        (b"W\x01\x02", "unknown flags"),
        (b"W\x01\x00\x01\x01\x01\x01\x00\x00", "no time"),
        (b"W\x01\x00\x01\x01\x01\x01\x01\x00\x00", "after its end"),
        (b"W\x01\x00" + b"\xff" * 11, "no number"),
        (b"W\x01\x00\x80\x00", "no number"),
        (b"W\x01\x00\x01\x01\x01\x01\x01\x01\x00\x80\x20\x00", "unknown fields"),
        (b"W\x01\x01\x01\x01\x01\x01\x01\x81\x20", "4096 at most"),
    ],
)
def test_what_is_none_is_told(raw: bytes, text: str) -> None:
    with pytest.raises(TelemetryError, match=text):
        decode(raw)


def test_values_of_64_bits() -> None:
    with pytest.raises(TelemetryError, match="64 bits"):
        encode(Message(0, 0, 0, 0, 1, {(0, 0): 1 << 64}))
