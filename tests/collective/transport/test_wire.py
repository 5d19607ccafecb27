"""Bytes of the wire: what was packed comes back, anything else is refused and allocates nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.collective.transport.errors import WireError
from sglb.collective.transport.settings import MAX_CHUNK_BYTES, MAX_EAGER_BYTES
from sglb.collective.transport.wire import (
    ANSWER_BYTES,
    HEADER_BYTES,
    HELLO_BYTES,
    MAX_TEXT_BYTES,
    Hello,
    Kind,
    Step,
    bytes_of,
    pack_answer,
    pack_header,
    pack_hello,
    pack_refusal,
    text_of,
    unpack_answer,
    unpack_header,
    unpack_hello,
)

U16, U32, U64 = (st.integers(0, (1 << bits) - 1) for bits in (16, 32, 64))


def test_a_header_byte_by_byte() -> None:
    data = pack_header(Kind.DATA, 2, 3, 4, 5, 6, (7, 8, 9, 10))
    assert data.hex() == (
        "5263"
        "03"
        "00"
        "0200"
        "0000"
        "03000000"
        "04000000"
        "05000000"
        "0600000000000000"
        "0700000000000000"
        "0800000000000000"
        "0900000000000000"
        "0a00000000000000"
    )


@given(st.sampled_from(Kind), U16, U32, U64, U64, st.tuples(U64, U64, U64, U64))
def test_headers_come_back(kind, channel, epoch, seq, ack, fields) -> None:
    header = unpack_header(pack_header(kind, channel, epoch, seq, 0, ack, fields))
    assert header == (kind, channel, epoch, seq & 0xFFFFFFFF, 0, ack, *fields)


@given(st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES))
def test_any_bytes_are_a_header_within_bounds_or_refused(data: bytes) -> None:
    try:
        header = unpack_header(data)
    except WireError:
        return
    assert header.payload_bytes <= MAX_CHUNK_BYTES


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        (Kind.DATA, MAX_CHUNK_BYTES),
        (Kind.MSG, MAX_EAGER_BYTES),
        (Kind.ABORT, MAX_TEXT_BYTES),
        (Kind.GRANT, 0),
        (Kind.PING, 0),
    ],
)
def test_payloads_are_bounded_before_anything_is_allocated(kind: Kind, most: int) -> None:
    fields = (0, 0, 0, 0)
    assert unpack_header(pack_header(kind, 0, 0, 0, most, 0, fields)).payload_bytes == most
    with pytest.raises(WireError, match=f"at most {most}"):
        unpack_header(pack_header(kind, 0, 0, 0, most + 1, 0, fields))


@given(
    st.builds(
        Hello,
        version=U16,
        relay=U16,
        source=U32,
        target=U32,
        epoch=U32,
        channel=U16,
        rail=U16,
        group=st.binary(min_size=16, max_size=16),
        nonce=st.binary(min_size=16, max_size=16),
    )
)
def test_hellos_come_back(hello: Hello) -> None:
    data = pack_hello(hello)
    assert len(data) == HELLO_BYTES
    assert unpack_hello(data) == hello


@given(st.binary(max_size=2 * HELLO_BYTES))
def test_other_bytes_are_no_hello(data: bytes) -> None:
    with pytest.raises(WireError):
        unpack_hello(data)


@given(st.binary(max_size=2 * ANSWER_BYTES))
def test_other_bytes_are_no_answer(data: bytes) -> None:
    with pytest.raises(WireError):
        unpack_answer(data)


def test_answers_come_back_and_reasons_are_cut() -> None:
    answer = unpack_answer(pack_answer(Step.PROOF, b"n" * 16, b"m" * 32))
    assert (answer.kind, answer.nonce, answer.mac) == (Step.PROOF, b"n" * 16, b"m" * 32)
    assert unpack_answer(pack_refusal("version 2 here")).reason == "version 2 here"
    assert unpack_answer(pack_refusal("x" * 100)).reason == "x" * 48


@given(st.text())
def test_texts_come_back_as_far_as_they_fit(text: str) -> None:
    data = bytes_of(text)
    assert len(data) <= MAX_TEXT_BYTES
    if text.isascii() and len(text) <= MAX_TEXT_BYTES:
        assert text_of(data) == text
