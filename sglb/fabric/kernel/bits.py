"""Bitmaps of packets that are rings.

A ring holds one bit for each of `mask` + 1 packets (a power of two, at least 32) as int32 elements;
packet n has bit n modulo the size.
"""

from __future__ import annotations

from typing import Final

from sglb.switch.core.jit import inlined
from sglb.switch.core.world import World

LOW_32: Final = 0xFFFFFFFF


@inlined
def ring_get(world: World, ring: int, mask: int, packet: int) -> int:
    """Whether a packet's bit is set; `ring` is an int32 offset."""
    place = packet & mask
    return world.h[ring + (place >> 5)] >> (place & 31) & 1


@inlined
def ring_set(world: World, ring: int, mask: int, packet: int) -> None:
    """Sets a packet's bit."""
    place = packet & mask
    world.h[ring + (place >> 5)] |= 1 << (place & 31)


@inlined
def ring_clear(world: World, ring: int, mask: int, packet: int) -> None:
    """Clears a packet's bit."""
    place = packet & mask
    world.h[ring + (place >> 5)] &= ~(1 << (place & 31))


@inlined
def ring_get32(world: World, ring: int, mask: int, packet: int) -> int:
    """Bits of a packet (the lowest) and the 31 after it."""
    h = world.h
    place = packet & mask
    low = h[ring + (place >> 5)] & LOW_32
    high = h[ring + (((place >> 5) + 1) & (mask >> 5))] & LOW_32
    return (low >> (place & 31) | high << (32 - (place & 31))) & LOW_32
