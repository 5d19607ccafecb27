"""Bits: what numba has no word for, and bitmaps of packets that are rings.

A ring holds one bit for each of `mask` + 1 packets (a power of two, at least 32) as int32 elements;
packet n has bit n modulo the size.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from sglb.switch.core.jit import inlined
from sglb.switch.core.world import World

_I64 = ir.IntType(64)
LOW_32: Final = 0xFFFFFFFF


@intrinsic
def load64(_typing: Any, _address: Any) -> Any:
    """load64(address): eight bytes as int64, wherever they lie."""

    def code(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], _I64.as_pointer()), align=1)

    return types.int64(types.int64), code


@intrinsic
def lowest(_typing: Any, _value: Any) -> Any:
    """lowest(value): number of the lowest bit that is set, 64 for 0."""

    def code(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), code


@intrinsic
def bit_length(_typing: Any, _value: Any) -> Any:
    """bit_length(value): bits that a value (>= 0) needs, 0 for 0."""

    def code(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        zeros = builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))
        return builder.sub(ir.Constant(_I64, 64), zeros)

    return types.int64(types.int64), code


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
