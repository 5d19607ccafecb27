"""Hosts: frames and events that reach them, and links that change."""

from __future__ import annotations

from sglb.fabric import roce
from sglb.fabric.kernel import dcqcn, flows, nic, receive, send, templates
from sglb.fabric.kernel import layout as k
from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core.buffer import node_at
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.rows import data_at, row_free
from sglb.switch.core.world import World


@inlined
def host_at(world: World, node: int) -> int:
    """Record of the host that a node is."""
    w = world.w
    return w[m.HOSTS_AT] + w[node_at(world, node) + m.N_HOST] * k.HOST_WORDS


@inlined
def _end_at(world: World, host: int, index: int) -> int:
    return world.w[host + k.H_FIRST_QP] + index * k.QP_WORDS


@compiled
def host_receive(world: World, node: int, _port: int, row: int, now: int) -> None:
    """A frame has arrived at a host; the row ends here."""
    host = host_at(world, node)
    bad = _take(world, host, row, now)
    if bad >= 0:
        world.w[host + k.HS_BAD + bad] += 1
    row_free(world, row)


@compiled
def _take(world: World, host: int, row: int, now: int) -> int:
    """Takes a frame; a BAD_ number when it is dropped, else -1."""
    w, b = world.w, world.b
    bad = templates.check_frame(world, host, row)
    if bad >= 0:
        return bad
    at = data_at(world, row)
    bth = at + templates.bth_offset(world, host)
    opcode = b[bth]
    sends = opcode == roce.ACKNOWLEDGE or opcode == templates.CNP
    known = opcode <= roce.SEND_LAST or opcode == roce.SEND_ONLY
    if not (sends or (known and opcode != 3)):
        return k.BAD_OPCODE
    index = templates.get24(world, bth + 5) - k.FIRST_QPN
    if index < 0 or index >= w[host + k.H_QPS]:
        return k.BAD_QP
    end = _end_at(world, host, index)
    if (w[end + k.E_SENDS] != 0) != sends:
        return k.BAD_QP
    if not templates.from_peer(world, end, row):
        return k.BAD_PATH
    if opcode == roce.ACKNOWLEDGE:
        return _take_ack(world, host, end, row, bth, now)
    if opcode == templates.CNP:
        _take_cnp(world, host, end, now)
        return -1
    w[host + k.HS_DATA_RECEIVED] += 1
    if templates.congestion_marked(world, host, at):
        w[end + k.RS_CE] += 1
        if w[host + k.H_DCQCN]:
            receive.notify(world, host, end, now)
    psn = templates.get24(world, bth + 9)
    receive.take_data(world, host, end, opcode, psn, b[bth + 8] >= 0x80, now)
    return -1


@compiled
def _take_ack(world: World, host: int, end: int, row: int, bth: int, now: int) -> int:
    w, h, b = world.w, world.h, world.b
    at = bth + templates.BTH_BYTES
    udp_bytes = templates.get16(world, bth - 4)
    body = udp_bytes - templates.UDP_BYTES - templates.BTH_BYTES - templates.ICRC_BYTES
    words = (body - templates.AETH_BYTES) >> 2
    stored = data_at(world, row) + h[row * 2 + abi.STORED] - at
    if body < templates.AETH_BYTES or body & 3 or words > roce.SPAN_PACKETS // 32 or stored < body:
        return k.BAD_AETH
    kind = b[at] >> 5
    nak = b[at] == templates.NAK_SYNDROME and w[host + k.H_GO_BACK_N]
    if kind and not nak:
        return k.BAD_NAK
    w[host + k.HS_ACKS_RECEIVED] += 1
    psn = templates.get24(world, bth + 9)
    if nak:
        fresh = send.refused(world, host, end, psn, now)
    else:
        fresh = send.acknowledged(world, host, end, psn, at + templates.AETH_BYTES, words, now)
    if fresh:
        flows.acknowledged(world, end, now)
        nic.wake(world, host, end, now)
    return -1


@compiled
def _take_cnp(world: World, host: int, end: int, now: int) -> None:
    w = world.w
    w[host + k.HS_CNPS_RECEIVED] += 1
    w[end + k.SS_CNPS] += 1
    if w[host + k.H_DCQCN]:
        dcqcn.congestion_notified(world, host, end, now)


@compiled
def host_event(world: World, node: int, kind: int, index: int, now: int) -> None:
    """An event of a host: EV_FREE, EV_FLOW, EV_QP, EV_RATE, EV_DCQCN or EV_ACK."""
    host = host_at(world, node)
    if kind == m.EV_FREE:
        nic.free_event(world, host, now)
    elif kind == m.EV_FLOW:
        flows.flow_event(world, host, index, now)
    else:
        _end_event(world, host, _end_at(world, host, index), kind, now)


@compiled
def _end_event(world: World, host: int, end: int, kind: int, now: int) -> None:
    if kind == m.EV_RATE:
        nic.rate_event(world, host, end, now)
        return
    if kind == m.EV_ACK:
        receive.ack_event(world, host, end, now)
        return
    if kind == m.EV_DCQCN:
        changed = dcqcn.timer_event(world, host, end, now)
    else:
        changed = send.timer_event(world, host, end, now)
    if changed:
        nic.wake(world, host, end, now)


@compiled
def host_link_changed(world: World, node: int, now: int) -> None:
    """The carrier or the rate of a host's link has changed: what waits may go now."""
    nic.pump(world, host_at(world, node), now)


@compiled
def hosts_start(world: World) -> None:
    """Puts the first flows' start times into the heaps."""
    w = world.w
    for i in range(w[m.HOSTS]):
        flows.schedule(world, w[m.HOSTS_AT] + i * k.HOST_WORDS)
