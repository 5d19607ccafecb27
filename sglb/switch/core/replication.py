"""Copies and further passes: multicast, clones, resubmit, recirculate; and the way to the queues.

The rules are those of `sglb.switch.pipeline`. Lists take what waits, never a call within a call, even
where a delay is 0: the packet then goes on at the same time, after the event that it came from.
"""

from __future__ import annotations

from typing import Final

from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.call import call2, call4, zero_bytes
from sglb.switch.core.heap import push
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.lists import append
from sglb.switch.core.observe import count, log_lost
from sglb.switch.core.rows import row_copy, row_free
from sglb.switch.core.world import World

# standard_metadata.instance_type, as BMv2 numbers it.
INGRESS_CLONE: Final = 1
EGRESS_CLONE: Final = 2
RECIRCULATED: Final = 4
REPLICATION: Final = 5
RESUBMITTED: Final = 6


@inlined
def node_record(world: World, node: int) -> int:
    """Record of a node."""
    return world.w[m.NODES_AT] + node * m.NODE_WORDS


@inlined
def entry(world: World, record: int, which: int) -> int:
    """Address of an entry point (F_*) of the program that a node runs."""
    w = world.w
    return w[w[m.PROGRAMS_AT] + w[record + m.N_PROGRAM] * m.PROGRAM_WORDS + which]


@inlined
def row_address(world: World, row: int) -> int:
    """Where a row lies, for native code."""
    return world.w[m.BASE] + row * 8


@compiled
def lose(world: World, node: int, row: int, reason: int, now: int) -> None:
    """Counts, logs and frees a packet that was lost inside a switch, for no port."""
    count(world, world.w[node_record(world, node) + m.N_DROPS], reason)
    log_lost(world, node, -1, row, reason, now)
    row_free(world, row)


@inlined
def wait(world: World, node: int, row: int, head: int, kind: int, time: int) -> None:
    """Puts a packet on one of its node's lists, each of a constant delay, until `time`."""
    w = world.w
    at = node_record(world, node) + head
    w[row + m.R_TIME] = time
    if w[at] < 0:
        push(world, node, time, kind, 0, 0)
    append(world, at, row)


@compiled
def to_queue(world: World, node: int, row: int, number: int, queue: int, now: int) -> None:
    """Sends a packet to the queue of a P4 port number; it is there after the ingress latency."""
    w, half = world.w, row * 2
    world.h[half + m.RH_OUT_PORT] = number
    world.h[half + m.RH_QUEUE] = queue
    record = node_record(world, node)
    time = now + w[record + m.N_INGRESS_PS]
    w[row + m.R_TIME] = time
    if w[record + m.N_PIPE_HEAD] < 0:
        w[record + m.N_PIPE_DUE] = time
        if w[m.HEAPS] == 1:  # else whoever runs the node's heap looks at N_PIPE_DUE too
            push(world, node, time, m.EV_PIPE, 0, 0)
    append(world, record + m.N_PIPE_HEAD, row)
    pipe = w[m.PIPES_AT] + node * m.PIPE_WORDS
    w[pipe + m.PI_ROWS + w[pipe + m.PI_PUT] % m.PIPE_ROWS] = row
    w[pipe + m.PI_PUT] += 1


# --- families ---


@compiled
def _family(world: World, row: int) -> int:
    """Word offset of the record of what came of the same received packet, made when first needed.

    There are as many as rows, and each has a row.
    """
    w, half = world.w, row * 2 + m.RH_FAMILY
    family = world.h[half]
    if family == 0:
        family = w[m.FAMILY_FREE]
        if family == 0:
            family = w[m.FAMILY_FRESH]
            w[m.FAMILY_FRESH] = family + 1
        else:
            w[m.FAMILY_FREE] = w[w[m.FAMILIES_AT] + (family - 1) * m.FAMILY_WORDS + m.FA_ROWS]
        at = w[m.FAMILIES_AT] + (family - 1) * m.FAMILY_WORDS
        w[at + m.FA_ROWS] = 1
        w[at + m.FA_COUNT] = 0
        world.h[half] = family
    return w[m.FAMILIES_AT] + (family - 1) * m.FAMILY_WORDS


@compiled
def _twin(world: World, row: int) -> int:
    """A copy of a packet, of the same family; -1 when there is no room (HALT says what for)."""
    at = _family(world, row)
    twin = row_copy(world, row)
    if twin >= 0:
        world.w[at + m.FA_ROWS] += 1
        world.h[twin * 2 + m.RH_FAMILY] = world.h[row * 2 + m.RH_FAMILY]
    return twin


@compiled
def _may_go_on(world: World, record: int, row: int) -> bool:
    """Whether a further pass or egress clone is within the limits; counts it."""
    w = world.w
    at = _family(world, row)
    w[at + m.FA_COUNT] += 1
    within = w[at + m.FA_COUNT] <= w[record + m.N_MAX_COPIES]
    return within and world.h[row * 2 + m.RH_PASSES] < w[record + m.N_MAX_PASSES]


# --- copies ---


@compiled
def multicast(world: World, node: int, row: int, now: int) -> None:
    """Replaces a packet by the copies of its multicast group."""
    w, h = world.w, world.h
    half = row * 2
    group = h[half + abi.MCAST_GRP]
    copies = 0
    if group < w[m.MCAST_GROUPS]:
        at = w[node_record(world, node) + m.N_MCAST] + group * m.MCAST_WORDS
        copies = w[at + m.M_COUNT]
    if copies == 0:
        lose(world, node, row, m.DROP_NO_GROUP, now)
        return
    h[half + abi.INSTANCE_TYPE] = REPLICATION
    _replicate(world, node, row, w[at + m.M_FIRST], copies, h[half + abi.PRIORITY], now)


@compiled
def _replicate(
    world: World, node: int, row: int, first: int, copies: int, queue: int, now: int
) -> None:
    """Sends copies of a packet to queues, one for each (port, rid) pair; the last is the row itself."""
    w, h = world.w, world.h
    if copies == 0:
        row_free(world, row)
        return
    for i in range(copies):
        twin = row
        if i + 1 < copies:
            twin = _twin(world, row)
            if twin < 0:
                break
        at = w[m.COPIES_AT] + (first + i) * m.COPY_WORDS
        h[twin * 2 + abi.TRUNCATE] = 0
        h[twin * 2 + abi.EGRESS_RID] = w[at + 1]
        to_queue(world, node, twin, w[at], queue, now)


@compiled
def _session(world: World, record: int, number: int) -> int:
    """Word offset of a clone session's record, -1 when it is not configured."""
    w = world.w
    slots = w[m.CLONE_SESSIONS]
    slot = number % slots
    for _ in range(slots):
        at = w[record + m.N_CLONES] + slot * m.CLONE_WORDS
        if w[at + m.S_ID] == number + 1:
            return at
        if w[at + m.S_ID] == 0:
            break
        slot = (slot + 1) % slots
    return -1


@compiled
def clone_ingress(world: World, node: int, row: int, now: int) -> None:
    """Clones the packet as it was received: it is parsed again."""
    h = world.h
    record = node_record(world, node)
    session = _session(world, record, h[row * 2 + abi.CLONE] - 1)
    if session < 0:
        return
    twin = _twin(world, row)
    if twin < 0:
        return
    half = twin * 2
    h[half + abi.FLAGS] = 0
    if h[half + m.RH_PASSES] != 1:
        h[half + abi.INGRESS_PORT] = 0
    call2(
        entry(world, record, m.F_PARSE),
        world.w[record + m.N_MACHINE],
        row_address(world, twin),
    )
    if h[half + abi.STATUS] != 0:
        h[half + m.RH_FLAGS] |= m.RF_CLONE
        lose(world, node, twin, m.DROP_ASSERTION, now)
        return
    h[half + m.RH_BYTES] = h[half + abi.LENGTH]
    _send_clone(world, node, row, twin, session, INGRESS_CLONE, now)


@compiled
def clone_egress(world: World, node: int, row: int, now: int) -> None:
    """Clones a packet with its headers as they stand after egress."""
    h, half = world.h, row * 2
    record = node_record(world, node)
    session = _session(world, record, h[half + abi.CLONE] - 1)
    if session < 0:
        return
    if not _may_go_on(world, record, row):
        count(world, world.w[record + m.N_DROPS], m.DROP_LOOP)
        log_lost(world, node, -1, row, m.DROP_LOOP, now)
        return
    twin = _twin(world, row)
    if twin < 0:
        return
    h[twin * 2 + m.RH_PASSES] += 1
    whole = h[half + abi.LENGTH] - h[half + abi.PARSED_BYTES]
    h[twin * 2 + m.RH_BYTES] = whole + h[half + abi.HEADER_BYTES]
    _send_clone(world, node, row, twin, session, EGRESS_CLONE, now)


@compiled
def _send_clone(
    world: World, node: int, row: int, twin: int, session: int, kind: int, now: int
) -> None:
    w, h = world.w, world.h
    record, half = node_record(world, node), twin * 2
    machine, to = w[record + m.N_MACHINE], row_address(world, twin)
    call2(entry(world, record, m.F_CLEAR), machine, to)
    kept = h[row * 2 + abi.CLONE_LIST]
    call4(entry(world, record, m.F_PRESERVE), machine, row_address(world, row), to, kept)
    h[half + abi.INSTANCE_TYPE] = kind
    h[half + abi.EGRESS_RID] = 0
    flags = h[half + m.RH_FLAGS] & ~m.RF_LIMIT | m.RF_CLONE
    if w[session + m.S_LENGTH]:
        flags |= m.RF_LIMIT
        w[twin + m.R_LIMIT] = w[session + m.S_LENGTH]
    h[half + m.RH_FLAGS] = flags
    first, copies = w[session + m.S_FIRST], w[session + m.S_COUNT]
    _replicate(world, node, twin, first, copies, w[session + m.S_CLASS], now)


# --- further passes ---


@compiled
def again(world: World, node: int, row: int, kept: int, kind: int, now: int) -> None:
    """Sends a packet's bytes as they stand through ingress anew; `kept` is a preserve list.

    `kind` is RESUBMITTED, after the ingress latency, or RECIRCULATED, after the egress latency.
    """
    w, h = world.w, world.h
    record = node_record(world, node)
    if not _may_go_on(world, record, row):
        lose(world, node, row, m.DROP_LOOP, now)
        return
    twin = _twin(world, row)
    if twin < 0:
        row_free(world, row)
        return
    half, to = twin * 2, row_address(world, twin)
    zero_bytes(to + abi.FRAME_BYTE, w[m.ROW_DATA] - abi.FRAME_BYTE)
    machine = w[record + m.N_MACHINE]
    call4(entry(world, record, m.F_PRESERVE), machine, row_address(world, row), to, kept)
    row_free(world, row)
    h[half + abi.FLAGS] = abi.FLAG_KEEP_FRAME
    h[half + abi.INSTANCE_TYPE] = kind
    h[half + abi.PACKET_LENGTH] = h[half + abi.LENGTH]
    h[half + abi.EGRESS_RID] = 0
    h[half + m.RH_PASSES] += 1
    h[half + m.RH_FLAGS] &= m.RF_BLOB
    time = now + w[record + m.N_AGAIN_PS]
    if kind == RESUBMITTED:
        time += w[record + m.N_INGRESS_PS]
        wait(world, node, twin, m.N_RESUBMIT_HEAD, m.EV_RESUBMIT, time)
    else:
        time += w[record + m.N_EGRESS_PS]
        wait(world, node, twin, m.N_RECIRC_HEAD, m.EV_RECIRC, time)
