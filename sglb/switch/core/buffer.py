"""The shared buffer: what a packet is counted against, and until when.

Each packet that waits is counted once. In a lossless class it is counted with its ingress *priority
group* (port it came in by, class); in all others, and when it did not come in by a port, with its
egress queue. Either may use `C_RESERVED` bytes of its own and, beyond, the switch's shared pool of
`N_SHARED_BYTES` (0: no pool, and nothing is bounded by one).

Queues. A static limit (`C_LIMIT` bytes, `C_LIMIT_PACKETS`) drops what would exceed it. A dynamic
threshold (Choudhury and Hahne, ToN 1998) drops what would make the queue's part of the pool larger
than alpha x what is unused of the pool as the packet comes (rounded down to whole bytes).

Groups. The XOFF threshold is `C_XOFF` bytes or, dynamic, reserved + alpha x unused pool. A group that
stands at its threshold or above after a packet is to pause its peer; that packet is still in the pool,
so the headroom (`G_ROOM`) holds exactly what comes after the pause was decided. While paused, packets
that find the group at its threshold go to headroom; without a pool's room any packet does. What does
not fit there is lost. What leaves empties the headroom first. The peer may go on once the headroom is
empty and the group is below the threshold by more than `C_XON_OFFSET`, or empty.
"""

from __future__ import annotations

from sglb.switch.core import model as m
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.world import World


@inlined
def port_at(world: World, port: int) -> int:
    """Record of a port."""
    return world.w[m.PORTS_AT] + port * m.PORT_WORDS


@inlined
def node_at(world: World, node: int) -> int:
    """Record of a node."""
    return world.w[m.NODES_AT] + node * m.NODE_WORDS


@inlined
def queue_at(world: World, port: int, cls: int) -> int:
    """Record of a port's queue of a class."""
    return world.w[m.QUEUES_AT] + (port * m.CLASSES + cls) * m.QUEUE_WORDS


@inlined
def group_at(world: World, port: int, cls: int) -> int:
    """Record of a port's ingress priority group of a class."""
    return world.w[m.GROUPS_AT] + (port * m.CLASSES + cls) * m.GROUP_WORDS


@inlined
def class_at(world: World, node_record: int, cls: int) -> int:
    """Settings of a class at a node."""
    return (
        world.w[m.CONFIG_AT]
        + world.w[node_record + m.N_TM_CONFIG] * m.CFG_WORDS
        + cls * m.CFG_CLASS_WORDS
    )


@inlined
def beyond(used: int, reserved: int) -> int:
    """The part of `used` bytes that is in the shared pool."""
    return used - reserved if used > reserved else 0


@inlined
def _use_pool(world: World, node_record: int, count: int) -> None:
    w = world.w
    used = w[node_record + m.N_SHARED_USED] + count
    w[node_record + m.N_SHARED_USED] = used
    if used > w[node_record + m.N_SHARED_PEAK]:
        w[node_record + m.N_SHARED_PEAK] = used


@compiled
def xoff_threshold(world: World, node_record: int, settings: int) -> int:
    """Bytes of a priority group from which on its peer is paused."""
    w = world.w
    if w[settings + m.C_XOFF] > 0:
        return w[settings + m.C_XOFF]
    unused = beyond(w[node_record + m.N_SHARED_BYTES], w[node_record + m.N_SHARED_USED])
    share = unused * w[settings + m.C_ALPHA_NUM] // w[settings + m.C_ALPHA_DEN]
    return w[settings + m.C_RESERVED] + share


@compiled
def over(world: World, node_record: int, settings: int, group: int) -> bool:
    """Whether a group stands at its XOFF threshold or above, or uses headroom."""
    w = world.w
    if w[group + m.G_HEADROOM] > 0:
        return True
    return w[group + m.G_BYTES] >= xoff_threshold(world, node_record, settings)


@compiled
def calm(world: World, node_record: int, settings: int, group: int) -> bool:
    """Whether the peer of a paused group may go on."""
    w = world.w
    if w[group + m.G_HEADROOM] > 0:
        return False
    held = w[group + m.G_BYTES]
    threshold = xoff_threshold(world, node_record, settings)
    return held == 0 or held + w[settings + m.C_XON_OFFSET] < threshold


@inlined
def _queue_reserved(world: World, settings: int) -> int:
    """Reserved bytes of a queue; in a lossless class they are the groups'."""
    return 0 if world.w[settings + m.C_LOSSLESS] else world.w[settings + m.C_RESERVED]


@compiled
def count_egress(world: World, row: int, node_record: int, queue: int, settings: int) -> int:
    """Counts a packet with its queue. 0, or the number of the reason to drop it.

    A packet of a lossless class gets here when it came in by no port: it has no reservation and no
    threshold, only the pool and the static limits.
    """
    w, h = world.w, world.h
    count = h[2 * row + m.RH_BYTES]
    limit, packets = w[settings + m.C_LIMIT], w[settings + m.C_LIMIT_PACKETS]
    if limit >= 0 and w[queue + m.Q_BYTES] + count > limit:
        return m.DROP_QUEUE_FULL
    if packets >= 0 and w[queue + m.Q_PACKETS] >= packets:
        return m.DROP_QUEUE_FULL
    pool = w[node_record + m.N_SHARED_BYTES]
    if pool == 0:
        return 0
    used = w[queue + m.Q_COUNTED]
    reserved = _queue_reserved(world, settings)
    part = beyond(used + count, reserved)
    if part > 0:
        unused = pool - w[node_record + m.N_SHARED_USED]
        grow = min(part, count)
        if grow > unused:
            return m.DROP_BUFFER_FULL
        den = 0 if w[settings + m.C_LOSSLESS] else w[settings + m.C_ALPHA_DEN]
        if den > 0 and part > unused * w[settings + m.C_ALPHA_NUM] // den:
            return m.DROP_BUFFER_FULL
        _use_pool(world, node_record, grow)
    w[queue + m.Q_COUNTED] = used + count
    h[2 * row + m.RH_FLAGS] |= m.RF_EGRESS
    return 0


@compiled
def count_ingress(world: World, row: int, node_record: int, group: int, settings: int) -> int:
    """Counts a packet with its priority group. 0, or the number of the reason to drop it."""
    w, h = world.w, world.h
    count = h[2 * row + m.RH_BYTES]
    held, head = w[group + m.G_BYTES], w[group + m.G_HEADROOM]
    reserved = w[settings + m.C_RESERVED]
    grow = beyond(held + count, reserved) - beyond(held, reserved)
    pool = w[node_record + m.N_SHARED_BYTES]
    fits = pool == 0 or grow == 0 or grow <= pool - w[node_record + m.N_SHARED_USED]
    if fits and (
        w[group + m.G_XOFF] == 0 or held + head < xoff_threshold(world, node_record, settings)
    ):
        w[group + m.G_BYTES] = held + count
        w[group + m.G_MAX_BYTES] = max(w[group + m.G_MAX_BYTES], held + count)
        if grow > 0:
            _use_pool(world, node_record, grow)
    elif head + count <= w[group + m.G_ROOM]:
        w[group + m.G_HEADROOM] = head + count
        w[group + m.G_MAX_HEADROOM] = max(w[group + m.G_MAX_HEADROOM], head + count)
        used = w[node_record + m.N_HEADROOM_USED] + count
        w[node_record + m.N_HEADROOM_USED] = used
        w[node_record + m.N_HEADROOM_PEAK] = max(w[node_record + m.N_HEADROOM_PEAK], used)
    else:
        w[group + m.G_DROPS] += 1
        return m.DROP_HEADROOM
    h[2 * row + m.RH_FLAGS] |= m.RF_GROUP
    return 0


@compiled
def uncount_ingress(world: World, row: int, node_record: int, group: int, settings: int) -> None:
    """Gives the bytes of a packet back that its priority group holds, those of the headroom first."""
    w, h = world.w, world.h
    count = h[2 * row + m.RH_BYTES]
    reserved = w[settings + m.C_RESERVED]
    head = min(w[group + m.G_HEADROOM], count)
    w[group + m.G_HEADROOM] -= head
    w[node_record + m.N_HEADROOM_USED] -= head
    held = w[group + m.G_BYTES]
    rest = held - (count - head)
    w[group + m.G_BYTES] = rest
    w[node_record + m.N_SHARED_USED] -= beyond(held, reserved) - beyond(rest, reserved)
    h[2 * row + m.RH_FLAGS] &= ~m.RF_GROUP


@compiled
def uncount_egress(world: World, row: int, node_record: int, queue: int, settings: int) -> None:
    """Gives the bytes of a packet back that its queue holds."""
    w, h = world.w, world.h
    reserved = _queue_reserved(world, settings)
    held = w[queue + m.Q_COUNTED]
    rest = held - h[2 * row + m.RH_BYTES]
    w[queue + m.Q_COUNTED] = rest
    w[node_record + m.N_SHARED_USED] -= beyond(held, reserved) - beyond(rest, reserved)
    h[2 * row + m.RH_FLAGS] &= ~m.RF_EGRESS


@compiled
def recount(world: World, node: int) -> None:
    """Works out a node's use of the shared pool anew, after its settings have changed."""
    w = world.w
    node_record = node_at(world, node)
    used = 0
    for port in range(
        w[node_record + m.N_FIRST_PORT],
        w[node_record + m.N_FIRST_PORT] + w[node_record + m.N_PORTS],
    ):
        for cls in range(m.CLASSES):
            settings = class_at(world, node_record, cls)
            reserved = w[settings + m.C_RESERVED]
            used += beyond(w[group_at(world, port, cls) + m.G_BYTES], reserved)
            reserved = _queue_reserved(world, settings)
            used += beyond(w[queue_at(world, port, cls) + m.Q_COUNTED], reserved)
    w[node_record + m.N_SHARED_USED] = used
