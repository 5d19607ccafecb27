"""Hashes against published check values and what BMv2 answered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.p4.hashing import (
    CrcModel,
    HashAlgorithms,
    crc16,
    crc32,
    csum16,
    identity,
    make_crc,
    xor16,
)
from sglb.p4.random_stream import RandomStream

CHECK = b"123456789"

# Name, model, the CRC of "123456789" (CRC RevEng's catalogue).
CATALOGUE = [
    ("CRC-16/ARC", CrcModel(16, 0x8005), 0xBB3D),
    ("CRC-16/IBM-3740", CrcModel(16, 0x1021, 0xFFFF, 0, False, False), 0x29B1),
    ("CRC-16/KERMIT", CrcModel(16, 0x1021), 0x2189),
    ("CRC-16/MODBUS", CrcModel(16, 0x8005, 0xFFFF), 0x4B37),
    ("CRC-16/RIELLO", CrcModel(16, 0x1021, 0xB2AA), 0x63D0),
    ("CRC-32/ISO-HDLC", CrcModel(32, 0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF), 0xCBF43926),
    ("CRC-32/BZIP2", CrcModel(32, 0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF, False, False), 0xFC891918),
    ("CRC-32/ISCSI", CrcModel(32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF), 0xE3069283),
    ("CRC-12/UMTS", CrcModel(12, 0x80F, 0, 0, False, True), 0xDAF),
]


@pytest.mark.parametrize(("name", "model", "check"), CATALOGUE)
def test_catalogue(name: str, model: CrcModel, check: int) -> None:
    assert make_crc(model)(CHECK) == check


def test_the_named_ones() -> None:
    assert crc16(CHECK) == 0xBB3D
    assert crc32(CHECK) == 0xCBF43926
    assert crc16(b"") == 0
    assert crc32(b"") == 0


# What BMv2 answered for these bytes: crc16, crc32, csum16, xor16, identity cut to 32 bits.
BMV2 = [
    ("00000000000000", 0x0000, 0x9D6CDF7E, 0xFFFF, 0x0000, 0x00000000),
    ("01020304050607", 0x7106, 0x70E46888, 0xEFF3, 0x0000, 0x04050607),
    ("ffffffffffffff", 0x800E, 0xFF41D9ED, 0x00FF, 0x00FF, 0xFFFFFFFF),
    ("deadbeefcafe42", 0x10DB, 0x6C2CBD54, 0x5563, 0xE8BC, 0xEFCAFE42),
]


@pytest.mark.parametrize(("data", "c16", "c32", "csum", "xor", "ident"), BMV2)
def test_bmv2(data: str, c16: int, c32: int, csum: int, xor: int, ident: int) -> None:
    raw = bytes.fromhex(data)
    assert crc16(raw) == c16
    assert crc32(raw) == c32
    assert csum16(raw) == csum
    assert xor16(raw) == xor
    assert identity(raw) & 0xFFFFFFFF == ident


def test_identity_takes_eight_bytes() -> None:
    assert identity(bytes(range(1, 18))) == 0x0102030405060708
    assert identity(b"\x03") == 3
    assert identity(b"") == 0


def test_csum16_rfc1071_example() -> None:
    # RFC 1071, section 3: the words 0001 f203 f4f5 f6f7 sum to ddf2.
    assert csum16(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2


def test_csum16_of_zero_sums() -> None:
    assert csum16(b"") == 0xFFFF
    assert csum16(bytes(20)) == 0xFFFF
    assert csum16(b"\xff\xff") == 0
    assert csum16(b"\xff\xff\x00\x00\xff\xff") == 0


@given(st.binary(max_size=80))
def test_csum16_by_end_around_carry(data: bytes) -> None:
    padded = data + bytes(len(data) % 2)
    total = 0
    for at in range(0, len(padded), 2):
        total += int.from_bytes(padded[at : at + 2], "big")
        total = (total & 0xFFFF) + (total >> 16)
    assert csum16(data) == total ^ 0xFFFF


@given(st.binary(max_size=40))
def test_crc16_bit_by_bit(data: bytes) -> None:
    register = 0
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ 0xA001 if register & 1 else register >> 1
    assert crc16(data) == register


def test_custom_parameters_reach_functions_taken_before() -> None:
    algorithms = HashAlgorithms(RandomStream(1))
    custom = algorithms["crc32_custom"]
    assert custom(CHECK) == 0xCBF43926
    algorithms.set_custom("crc32_custom", CrcModel(32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF))
    assert custom(CHECK) == 0xE3069283
    assert algorithms["crc16_custom"](CHECK) == 0xBB3D


def test_random_is_the_given_stream() -> None:
    algorithms = HashAlgorithms(RandomStream(7))
    draws = [algorithms["random"](b"same") for _ in range(4)]
    again = RandomStream(7)
    assert draws == [again.bits(32) for _ in range(4)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a["md5"], "unknown hash algorithm 'md5'; known are crc16, "),
        (lambda a: a.set_custom("crc16", CrcModel(16, 1)), "only crc16_custom and crc32_custom"),
        (lambda a: a.set_custom("crc16_custom", CrcModel(32, 1)), "needs a CRC of 16 bits, not 32"),
        (lambda _: CrcModel(16, 0x18005), "CRC polynomial 0x18005 exceeds 16 bits"),
        (lambda _: CrcModel(5, 5), "at least 8 bits, not 5"),
    ],
)
def test_errors(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(HashAlgorithms(RandomStream(1)))
