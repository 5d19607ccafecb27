"""What a selective repeat sender knows of each packet: under way, lost, acknowledged, sent again.

See `layout` for the memory. Every step here takes the same time however many packets there are.
"""

from __future__ import annotations

from sglb.fabric.kernel import layout as k
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.world import World

_NEXT = 16
_PREVIOUS = 32
_FIELD = 0xFFFF
_NEXT_FIELD = _FIELD << _NEXT
_PREVIOUS_FIELD = _FIELD << _PREVIOUS
# A lost packet's int32: -1 - (next place << 11 | previous place).
_LOST_BITS = 11


@inlined
def sacked_ring(world: World, end: int) -> int:
    """int32 offset of the bitmap of acknowledged packets."""
    return world.w[end + k.E_RING_H] + world.w[end + k.E_MASK] + 1


@inlined
def again_ring(world: World, end: int) -> int:
    """int32 offset of the bitmap of packets that were sent again."""
    return sacked_ring(world, end) + ((world.w[end + k.E_MASK] + 1) >> 5)


@inlined
def _slot_at(world: World, end: int, slot: int) -> int:
    return world.w[end + k.S_SLOTS] + slot * k.SLOT_WORDS


@inlined
def oldest_sent(world: World, end: int) -> int:
    """When the packet that has been under way longest was sent; there must be one."""
    return world.w[_slot_at(world, end, world.w[end + k.S_OLDEST])]


@compiled
def start(world: World, end: int, packet: int, now: int) -> None:
    """A packet is sent now: the newest under way. There must be a free slot."""
    w = world.w
    slot = w[end + k.S_FREE]
    at = _slot_at(world, end, slot)
    w[end + k.S_FREE] = w[at + 1]
    place = packet & w[end + k.E_MASK]
    newest = w[end + k.S_NEWEST]
    w[at] = now
    w[at + 1] = place | k.NO_SLOT << _NEXT | newest << _PREVIOUS
    if newest == k.NO_SLOT:
        w[end + k.S_OLDEST] = slot
    else:
        before = _slot_at(world, end, newest) + 1
        w[before] = (w[before] & ~_NEXT_FIELD) | slot << _NEXT
    w[end + k.S_NEWEST] = slot
    w[end + k.S_UNDER_WAY] += 1
    world.h[w[end + k.E_RING_H] + place] = slot + 1


@inlined
def _stop(world: World, end: int, slot: int) -> int:
    """Takes a slot out of the list; returns when its packet was sent."""
    w = world.w
    at = _slot_at(world, end, slot)
    links = w[at + 1]
    following, previous = links >> _NEXT & _FIELD, links >> _PREVIOUS & _FIELD
    if previous == k.NO_SLOT:
        w[end + k.S_OLDEST] = following
    else:
        other = _slot_at(world, end, previous) + 1
        w[other] = (w[other] & ~_NEXT_FIELD) | following << _NEXT
    if following == k.NO_SLOT:
        w[end + k.S_NEWEST] = previous
    else:
        other = _slot_at(world, end, following) + 1
        w[other] = (w[other] & ~_PREVIOUS_FIELD) | previous << _PREVIOUS
    w[at + 1] = w[end + k.S_FREE]
    w[end + k.S_FREE] = slot
    w[end + k.S_UNDER_WAY] -= 1
    return w[at]


@compiled
def finish(world: World, end: int, packet: int) -> int:
    """A packet has arrived: it is neither under way nor lost.

    Returns when it was sent, -1 when it was not under way.
    """
    w, h = world.w, world.h
    element = w[end + k.E_RING_H] + (packet & w[end + k.E_MASK])
    state = h[element]
    if state > 0:
        h[element] = 0
        return _stop(world, end, state - 1)
    if state < 0:
        lost_remove(world, end, packet)
    return -1


@compiled
def lose_oldest(world: World, end: int) -> None:
    """The packet that has been under way longest is lost: the last in the list of losses."""
    w, h = world.w, world.h
    slot = w[end + k.S_OLDEST]
    place = w[_slot_at(world, end, slot) + 1] & _FIELD
    _stop(world, end, slot)
    tail = w[end + k.S_LOST_TAIL]
    if tail == k.NO_LOST:
        w[end + k.S_LOST] = place
    else:
        before = w[end + k.E_RING_H] + tail
        links = -1 - h[before]
        h[before] = -1 - (place << _LOST_BITS | links & k.NO_LOST)
    w[end + k.S_LOST_TAIL] = place
    h[w[end + k.E_RING_H] + place] = -1 - (k.NO_LOST << _LOST_BITS | tail)


@compiled
def lost_remove(world: World, end: int, packet: int) -> None:
    """Takes a packet out of the list of losses."""
    w, h = world.w, world.h
    ring = w[end + k.E_RING_H]
    element = ring + (packet & w[end + k.E_MASK])
    links = -1 - h[element]
    h[element] = 0
    following, previous = links >> _LOST_BITS, links & k.NO_LOST
    if previous == k.NO_LOST:
        w[end + k.S_LOST] = following
    else:
        other = -1 - h[ring + previous]
        h[ring + previous] = -1 - (following << _LOST_BITS | other & k.NO_LOST)
    if following == k.NO_LOST:
        w[end + k.S_LOST_TAIL] = previous
    else:
        other = -1 - h[ring + following]
        h[ring + following] = -1 - ((other >> _LOST_BITS) << _LOST_BITS | previous)
