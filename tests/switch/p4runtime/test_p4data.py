"""P4Data of every type against the flat numbers of the device."""

import pytest
from finsy.proto import p4d, p4i, p4t
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from sglb.switch.p4runtime.p4data import P4DataCodec
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.p4runtime.translation import Translations

INFO = text_format.Parse(
    """
    type_info {
      headers { key: "h" value {
        members { name: "a" type_spec { bit { bitwidth: 12 } } }
        members { name: "v" type_spec { varbit { max_bitwidth: 16 } } } } }
      headers { key: "g" value { members { name: "x" type_spec { int { bitwidth: 4 } } } } }
      header_unions { key: "u" value {
        members { name: "h" header { name: "h" } }
        members { name: "g" header { name: "g" } } } }
      structs { key: "s" value {
        members { name: "flag" type_spec { bool { } } }
        members { name: "kind" type_spec { enum { name: "e" } } }
        members { name: "code" type_spec { serializable_enum { name: "se" } } }
        members { name: "err" type_spec { error { } } }
        members { name: "port" type_spec { new_type { name: "port" } } }
        members { name: "own" type_spec { new_type { name: "own" } } } } }
      enums { key: "e" value { members { name: "RED" } members { name: "BLUE" } } }
      serializable_enums { key: "se" value { underlying_type { bitwidth: 8 } } }
      error { members: "NoError" members: "PacketTooShort" }
      new_types { key: "port" value { translated_type { uri: "p" sdn_bitwidth: 32 } } }
      new_types { key: "own" value { original_type { bitstring { bit { bitwidth: 9 } } } } }
    }
    """,
    p4i.P4Info(),
)
CODEC = P4DataCodec(INFO, Translations(INFO, {"port": {500: 3}}))


def spec(text):
    return text_format.Parse(text, p4t.P4DataTypeSpec())


def data(text):
    return text_format.Parse(text, p4d.P4Data())


H_WIDTHS, G_WIDTHS = (1, 12, 16, 32), (1, 4)
S_WIDTHS = (1, 32, 8, 32, 9, 9)
CASES = [
    ("bitstring { bit { bitwidth: 12 } }", (12,), [0x123], r'bitstring: "\x01\x23"'),
    ("bitstring { int { bitwidth: 12 } }", (12,), [0xFFF], r'bitstring: "\xff"'),
    (
        "bitstring { varbit { max_bitwidth: 12 } }",
        (12, 32),
        [5, 9],
        r'varbit { bitstring: "\x00\x05" bitwidth: 9 }',
    ),
    ("bool { }", (1,), [1], "bool: true"),
    ("bool { }", (1,), [0], "bool: false"),
    (
        "tuple { members { bool { } } members { bitstring { bit { bitwidth: 8 } } } }",
        (1, 8),
        [1, 7],
        r'tuple { members { bool: true } members { bitstring: "\x07" } }',
    ),
    (
        'struct { name: "s" }',
        S_WIDTHS,
        [1, 1, 200, 1, 3, 6],
        r"""struct { members { bool: true } members { enum: "BLUE" }
        members { enum_value: "\xc8" } members { error: "PacketTooShort" }
        members { bitstring: "\x01\xf4" } members { bitstring: "\x06" } }""",
    ),
    (
        'header { name: "h" }',
        H_WIDTHS,
        [1, 0xABC, 0x1234, 16],
        r'header { is_valid: true bitstrings: "\x0a\xbc" bitstrings: "\x12\x34" }',
    ),
    ('header { name: "h" }', H_WIDTHS, [0, 0, 0, 0], "header { }"),
    (
        'header_union { name: "u" }',
        H_WIDTHS + G_WIDTHS,
        [0, 0, 0, 0, 1, 0xE],
        r"""header_union { valid_header_name: "g"
        valid_header { is_valid: true bitstrings: "\xfe" } }""",
    ),
    ('header_union { name: "u" }', H_WIDTHS + G_WIDTHS, [0] * 6, "header_union { }"),
    (
        'header_stack { header { name: "g" } size: 2 }',
        G_WIDTHS * 2,
        [1, 3, 0, 0],
        r'header_stack { entries { is_valid: true bitstrings: "\x03" } entries { } }',
    ),
    (
        'header_union_stack { header_union { name: "u" } size: 1 }',
        H_WIDTHS + G_WIDTHS,
        [0] * 6,
        "header_union_stack { entries { } }",
    ),
]


@pytest.mark.parametrize(("type_", "widths", "leaves", "message"), CASES)
def test_both_ways(type_, widths, leaves, message):
    assert CODEC.encode(spec(type_), leaves) == data(message)
    assert CODEC.decode(spec(type_), data(message), widths, "x") == leaves


BAD = [
    ("bool { }", (1,), "enum: 'RED'", Code.INVALID_ARGUMENT),
    ('struct { name: "s" }', S_WIDTHS, "struct { members { bool: true } }", Code.INVALID_ARGUMENT),
    ('header { name: "h" }', H_WIDTHS, "header { is_valid: true }", Code.INVALID_ARGUMENT),
    ('header { name: "h" }', H_WIDTHS, 'header { bitstrings: "a" }', Code.INVALID_ARGUMENT),
    (
        'header_union { name: "u" }',
        H_WIDTHS + G_WIDTHS,
        'header_union { valid_header_name: "zz" valid_header { is_valid: true } }',
        Code.INVALID_ARGUMENT,
    ),
    (
        'header_union { name: "u" }',
        H_WIDTHS + G_WIDTHS,
        'header_union { valid_header_name: "g" }',
        Code.INVALID_ARGUMENT,
    ),
    (
        'header_stack { header { name: "g" } size: 2 }',
        G_WIDTHS * 2,
        "header_stack { entries { } }",
        Code.INVALID_ARGUMENT,
    ),
    ('enum { name: "e" }', (32,), 'enum: "GREEN"', Code.INVALID_ARGUMENT),
    ("error { }", (32,), 'error: "GREEN"', Code.INVALID_ARGUMENT),
    ('serializable_enum { name: "se" }', (8,), r'enum_value: "\x01\x00"', Code.OUT_OF_RANGE),
    ('new_type { name: "port" }', (9,), r'bitstring: "\x01"', Code.INVALID_ARGUMENT),
    ('new_type { name: "port" }', (9,), "bool: true", Code.INVALID_ARGUMENT),
    ('new_type { name: "own" }', (9,), r'bitstring: "\x02\x00"', Code.OUT_OF_RANGE),
    (
        "bitstring { varbit { max_bitwidth: 12 } }",
        (12, 32),
        'varbit { bitstring: "ab" bitwidth: 13 }',
        Code.OUT_OF_RANGE,
    ),
    (
        "bitstring { varbit { max_bitwidth: 12 } }",
        (12, 32),
        'bitstring: "a"',
        Code.INVALID_ARGUMENT,
    ),
]


@pytest.mark.parametrize(("type_", "widths", "message", "code"), BAD)
def test_other_shapes_are_refused(type_, widths, message, code):
    with pytest.raises(P4RuntimeError, match="register r") as info:
        CODEC.decode(spec(type_), data(message), widths, "register r")
    assert info.value.code is code


@given(st.binary(max_size=60), st.sampled_from(CASES))
def test_random_bytes_decode_or_are_refused(raw, case):
    type_, widths, _, _ = case
    try:
        message = p4d.P4Data.FromString(raw)
    except Exception:
        return
    try:
        leaves = CODEC.decode(spec(type_), message, widths, "x")
    except P4RuntimeError:
        return
    assert len(leaves) == len(widths)
    assert all(0 <= leaf < 1 << width for leaf, width in zip(leaves, widths, strict=True))
