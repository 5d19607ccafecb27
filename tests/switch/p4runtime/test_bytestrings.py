"""Byte strings: the specification's own tables of valid and invalid encodings, and round trips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.p4runtime.values import (
    decode_bits,
    decode_int,
    decode_varbit,
    encode_bits,
    encode_int,
)

# Specification 1.5, table "Examples of Valid Bytestring Encoding": width, value, bytes, canonical.
VALID_BITS = [
    (8, 99, b"\x63", True),
    (16, 99, b"\x00\x63", False),
    (16, 99, b"\x63", True),
    (16, 12388, b"\x30\x64", True),
    (16, 12388, b"\x00\x30\x64", False),
    (12, 99, b"\x00\x63", False),
    (12, 99, b"\x63", True),
    (12, 99, b"\x00\x00\x63", False),
]
VALID_INT = [
    (8, 99, b"\x63", True),
    (8, -99, b"\x9d", True),
    (8, -99, b"\xff\x9d", False),
    (12, -739, b"\xfd\x1d", True),
    (16, 0, b"\x00\x00", False),
    (16, 0, b"\x00", True),
]
INVALID_BITS = [
    (8, b"\x01\x63"),
    (8, b""),
    (16, b"\x01\x00\x63"),
    (12, b"\x10\x63"),
    (12, b"\x01\x00\x63"),
    (12, b"\x00\x40\x63"),
]
INVALID_INT = [(8, b"\x00\x9d"), (12, b"\x8d\x1d"), (16, b"")]


@pytest.mark.parametrize(("width", "value", "data", "canonical"), VALID_BITS)
def test_valid_bits(width, value, data, canonical):
    assert decode_bits(data, width, "x") == value
    assert (encode_bits(value) == data) is canonical


@pytest.mark.parametrize(("width", "value", "data", "canonical"), VALID_INT)
def test_valid_int(width, value, data, canonical):
    assert decode_int(data, width, "x") == value % 2**width
    assert (encode_int(value % 2**width, width) == data) is canonical


@pytest.mark.parametrize(("width", "data"), INVALID_BITS)
def test_invalid_bits(width, data):
    with pytest.raises(P4RuntimeError, match="the field") as info:
        decode_bits(data, width, "the field")
    assert info.value.code is Code.OUT_OF_RANGE


@pytest.mark.parametrize(("width", "data"), INVALID_INT)
def test_invalid_int(width, data):
    with pytest.raises(P4RuntimeError, match="the field") as info:
        decode_int(data, width, "the field")
    assert info.value.code is Code.OUT_OF_RANGE


@given(st.integers(1, 600), st.data())
def test_bits_survive_any_padding(width, data):
    value = data.draw(st.integers(0, 2**width - 1))
    padding = data.draw(st.integers(0, 9))
    canonical = encode_bits(value)
    assert len(canonical) == 1 or canonical[0] != 0
    assert decode_bits(bytes(padding) + canonical, width, "x") == value


@given(st.integers(1, 600), st.data())
def test_ints_survive_any_sign_extension(width, data):
    value = data.draw(st.integers(-(2 ** (width - 1)), 2 ** (width - 1) - 1))
    padding = data.draw(st.integers(0, 9))
    canonical = encode_int(value % 2**width, width)
    sign = b"\xff" if value < 0 else b"\x00"
    assert int.from_bytes(canonical, "big", signed=True) == value
    assert decode_int(sign * padding + canonical, width, "x") == value % 2**width


def test_one_bit_int_holds_minus_one_and_zero():
    assert decode_int(b"\xff", 1, "x") == 1
    assert encode_int(1, 1) == b"\xff"
    with pytest.raises(P4RuntimeError):
        decode_int(b"\x01", 1, "x")


def test_varbit_length():
    assert decode_varbit(b"\x0f", 4, 8, "x") == 15
    assert decode_varbit(b"", 0, 8, "x") == 0
    for data, bits in ((b"\x0f", 3), (b"\x0f", 9), (b"\x0f", -1)):
        with pytest.raises(P4RuntimeError) as info:
            decode_varbit(data, bits, 8, "x")
        assert info.value.code is Code.OUT_OF_RANGE


def test_a_huge_number_makes_a_short_error_line():
    with pytest.raises(P4RuntimeError) as info:
        decode_bits(b"\xff" * 10_000, 8, "x")
    assert len(str(info.value)) < 200
