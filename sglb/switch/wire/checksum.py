"""The Internet checksum (RFC 1071), on a little-endian machine."""

from __future__ import annotations

from typing import Final

from sglb.switch.core.call import load64
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.wire.native import load16

_LOW32: Final = 0xFFFFFFFF


@inlined
def swapped(value: int) -> int:
    """A number of 16 bits with its bytes in the other order."""
    return value >> 8 & 0xFF | (value & 0xFF) << 8


@compiled
def internet_checksum(address: int, count: int) -> int:
    """The checksum of bytes as it stands in memory, 0xFFFF for 0."""
    total, at, end = 0, address, address + count
    while at + 8 <= end:
        word = load64(at)
        total += (word & _LOW32) + (word >> 32 & _LOW32)
        at += 8
    while at + 2 <= end:
        total += load16(at)
        at += 2
    if at < end:
        total += load16(at - 1) >> 8 if count > 1 else load16(at) & 0xFF
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    found = total ^ 0xFFFF
    return found if found else 0xFFFF
