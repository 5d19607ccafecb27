"""The hash and checksum algorithms of v1model's `HashAlgorithm`, over bytes.

CRC models are given by the usual parameters (polynomial, initial value, reflection of input and
output, final XOR), as catalogued by Greg Cook's "CRC RevEng"; the Internet checksum is RFC 1071's.
The parameters that crc16_custom and crc32_custom have before anybody sets them are BMv2's.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sglb.p4.random_stream import RandomStream

HashFunction = Callable[[bytes], int]


@dataclass(frozen=True, slots=True)
class CrcModel:
    """A cyclic redundancy check of `width` bits; `polynomial` without its top bit.

    `reflect_in` takes each byte's least significant bit first, `reflect_out` reverses the register
    before the final XOR.
    """

    width: int
    polynomial: int
    initial: int = 0
    final_xor: int = 0
    reflect_in: bool = True
    reflect_out: bool = True

    def __post_init__(self) -> None:
        if self.width < 8:
            raise ValueError(f"a CRC needs at least 8 bits, not {self.width}")
        for name in ("polynomial", "initial", "final_xor"):
            if not 0 <= getattr(self, name) < 1 << self.width:
                raise ValueError(f"CRC {name} {getattr(self, name):#x} exceeds {self.width} bits")


CRC16: Final = CrcModel(16, 0x8005)
CRC32: Final = CrcModel(32, 0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF)


def _reflect(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


@lru_cache(maxsize=64)
def crc_table(model: CrcModel) -> tuple[int, ...]:
    """What each byte value adds to the register; the register is reflected when the input is."""
    top, mask = 1 << (model.width - 1), (1 << model.width) - 1
    table = []
    for byte in range(256):
        value = (_reflect(byte, 8) if model.reflect_in else byte) << (model.width - 8)
        for _ in range(8):
            value = (value << 1 ^ model.polynomial if value & top else value << 1) & mask
        table.append(_reflect(value, model.width) if model.reflect_in else value)
    return tuple(table)


def crc_start(model: CrcModel) -> int:
    """What the register holds before the first byte."""
    return _reflect(model.initial, model.width) if model.reflect_in else model.initial


def make_crc(model: CrcModel) -> HashFunction:
    """The function that computes `model` over bytes, one table step a byte."""
    table, final_xor, width = crc_table(model), model.final_xor, model.width
    flip = model.reflect_in != model.reflect_out

    start = crc_start(model)
    if model.reflect_in:

        def reflected(data: bytes) -> int:
            register = start
            for byte in data:
                register = register >> 8 ^ table[(register ^ byte) & 0xFF]
            return (_reflect(register, width) if flip else register) ^ final_xor

        return reflected

    shift, mask = width - 8, (1 << width) - 1

    def straight(data: bytes) -> int:
        register = start
        for byte in data:
            register = register << 8 & mask ^ table[register >> shift ^ byte]
        return (_reflect(register, width) if flip else register) ^ final_xor

    return straight


#: CRC-16/ARC.
crc16: Final[HashFunction] = make_crc(CRC16)


#: CRC-32 of IEEE 802.3, as zlib has it.
crc32: Final[HashFunction] = binascii.crc32


def csum16(data: bytes) -> int:
    """The Internet checksum (RFC 1071), an odd last byte being the high half of its word.

    2**16 is 1 modulo 2**16 - 1, so the ones' complement sum of the words is the whole number modulo
    0xffff, except that a sum of a multiple of 0xffff other than 0 is held as 0xffff.
    """
    number = int.from_bytes(data, "big")
    return fold_sum(number << 8 if len(data) & 1 else number)


def fold_sum(total: int) -> int:
    """The Internet checksum of words whose plain sum is `total` modulo 0xffff (0 only if all are 0)."""
    folded = total % 0xFFFF
    return 0xFFFF - folded if folded or not total else 0


def xor16(data: bytes) -> int:
    """The XOR of the 16-bit words, an odd last byte being the high half of its word."""
    padded = data + b"\0" if len(data) & 1 else data
    result = 0
    for at in range(0, len(padded), 2):
        result ^= padded[at] << 8 | padded[at + 1]
    return result


def identity(data: bytes) -> int:
    """The first eight bytes, or fewer where there are fewer, as a big-endian number."""
    return int.from_bytes(data[:8], "big")


class HashAlgorithms:
    """The functions by the names of `HashAlgorithm`'s members.

    The two custom CRCs can be changed while a program runs; `random` draws 32 bits from `rng`
    whatever the data.
    """

    def __init__(self, rng: RandomStream) -> None:
        self._custom = {"crc16_custom": make_crc(CRC16), "crc32_custom": make_crc(CRC32)}
        self._functions: dict[str, HashFunction] = {
            "crc16": crc16,
            "crc32": crc32,
            "csum16": csum16,
            "xor16": xor16,
            "identity": identity,
            "crc16_custom": lambda data: self._custom["crc16_custom"](data),
            "crc32_custom": lambda data: self._custom["crc32_custom"](data),
            "random": lambda _data: rng.bits(32),
        }

    def __getitem__(self, name: str) -> HashFunction:
        """The function, valid also after its parameters change; ValueError for an unknown name."""
        try:
            return self._functions[name]
        except KeyError:
            known = ", ".join(sorted(self._functions))
            raise ValueError(f"unknown hash algorithm {name!r}; known are {known}") from None

    def set_custom(self, name: str, model: CrcModel) -> None:
        """Gives crc16_custom or crc32_custom other parameters.

        ValueError when `name` is neither, or the model's width is not the name's.
        """
        if name not in self._custom:
            raise ValueError(f"only crc16_custom and crc32_custom take parameters, not {name!r}")
        if model.width != int(name[3:5]):
            raise ValueError(f"{name} needs a CRC of {name[3:5]} bits, not {model.width}")
        self._custom[name] = make_crc(model)
