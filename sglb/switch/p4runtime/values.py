"""Byte strings of P4Runtime: integers as the shortest big-endian string, any length accepted.

P4Runtime specification 1.5, "Bytestrings". Values are Python ints; `int<W>` values are their W-bit
two's complement patterns, 0 <= value < 2**W, as everywhere in the target.
"""

from __future__ import annotations

from sglb.switch.p4runtime.status import Code, P4RuntimeError


def decode_bits(data: bytes, width: int, what: str) -> int:
    """The bit<width> value of a byte string; `what` names the field in the error.

    Raises OUT_OF_RANGE for an empty string or a value that needs more than `width` bits.
    """
    if not data:
        raise P4RuntimeError(Code.OUT_OF_RANGE, f"{what}: empty byte string")
    value = int.from_bytes(data, "big")
    if value >> width:
        raise P4RuntimeError(
            Code.OUT_OF_RANGE,
            f"{what}: {_show(value)} needs {value.bit_length()} bits, the type is bit<{width}>",
        )
    return value


def encode_bits(value: int) -> bytes:
    """The shortest byte string of an unsigned value."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def decode_int(data: bytes, width: int, what: str) -> int:
    """The `width`-bit pattern of an int<width> byte string (sign extension of any length undone).

    Raises OUT_OF_RANGE for an empty string or a value outside -2**(width-1) .. 2**(width-1)-1.
    """
    if not data:
        raise P4RuntimeError(Code.OUT_OF_RANGE, f"{what}: empty byte string")
    value = int.from_bytes(data, "big", signed=True)
    if not -(1 << (width - 1)) <= value < 1 << (width - 1):
        raise P4RuntimeError(Code.OUT_OF_RANGE, f"{what}: {_show(value)} lies outside int<{width}>")
    return value & ((1 << width) - 1)


def encode_int(pattern: int, width: int) -> bytes:
    """The shortest two's complement byte string of a `width`-bit pattern."""
    value = pattern - (1 << width) if pattern >> (width - 1) else pattern
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) // 8, "big", signed=True)


def decode_varbit(data: bytes, bits: int, max_width: int, what: str) -> int:
    """The value of a varbit<max_width>, `bits` long; OUT_OF_RANGE when that is too long."""
    if bits < 0 or bits > max_width:
        raise P4RuntimeError(
            Code.OUT_OF_RANGE, f"{what}: {bits} bits do not fit varbit<{max_width}>"
        )
    value = int.from_bytes(data, "big")
    if value >> bits:
        raise P4RuntimeError(
            Code.OUT_OF_RANGE, f"{what}: {_show(value)} needs more than {bits} bits"
        )
    return value


def _show(value: int) -> str:
    """A number for an error line; a hostile one must not fill the screen."""
    text = f"{value:#x}"
    return text if len(text) <= 40 else f"{text[:24]}… ({len(text)} characters)"
