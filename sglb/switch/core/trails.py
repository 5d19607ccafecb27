"""Trails: what the last packet of a flow touched in a switch, for the next one to find it near.

A record is found by a hash of what packets of a flow have in common. It holds the addresses that the
program's passes left (see `abi.TRAIL`) and the queue that the packet went to. They are hints: several
flows may share a record, and what it names may have gone.
"""

from __future__ import annotations

from typing import Final

from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.call import fetch, load64
from sglb.switch.core.jit import inlined
from sglb.switch.core.world import World

_MIX: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_IPV4_ADDRESSES: Final = 26  #: behind an Ethernet header; then ports, length and checksum
_IPV6_ADDRESSES: Final = 30  #: from the middle of the source's on
_VERSION: Final = 14
_LOW_32: Final = 0xFFFFFFFF


@inlined
def trail_of(world: World, node: int, row: int) -> int:
    """The record of a switch for the flow of a packet."""
    w = world.w
    data = w[row + abi.DATA]
    at = data + _IPV4_ADDRESSES
    if world.b[data - w[m.BASE] + _VERSION] >> 4 == 6:
        at = data + _IPV6_ADDRESSES
    mixed = (load64(at) * _MIX ^ load64(at + 8)) * _MIX
    slot = mixed >> 40 & (m.TRAILS - 1)
    return w[m.TRAILS_AT] + (node * m.TRAILS + slot) * m.TRAIL_WORDS


@inlined
def follow(world: World, record: int, trail: int) -> None:
    """Has the next pass of a switch leave its addresses there."""
    w = world.w
    base = w[m.BASE]
    w[((w[record + m.N_MACHINE] - base) >> 3) + abi.TRAIL] = base + trail * 8


@inlined
def fetch_named(world: World, trail: int, first: int, end: int) -> None:
    """Has the processor bring near what some words of a record name.

    The bits that they lack are taken to be those of the fabric's block: it was laid out by the same
    system, not far from there, and a wrong guess costs time alone.
    """
    bits = 32 + abi.TRAIL_SHIFT
    above = world.w[m.BASE] >> bits << bits
    for word in range(first, end):
        line = world.h[trail * 2 + word]
        if line:
            fetch(above | (line & _LOW_32) << abi.TRAIL_SHIFT)
