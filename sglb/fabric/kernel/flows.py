"""Flows: begun when their time has come and what they wait for is complete, then split into parts.

A part is a message on one queue pair (see `sglb.fabric.roce.split_over_qps`). A flow is complete when
its receiver has every byte. Flows wait at gates, which open when all their members are complete, and
start `delay_ps` later. No host hears of another in no time: `host_memory` lets a flow wait, without a
delay of at least a link's, only for what its own host has received, or has sent and had acknowledged.
"""

from __future__ import annotations

from sglb.fabric.kernel import layout as k
from sglb.fabric.kernel.nic import wake
from sglb.switch.core import model as m
from sglb.switch.core.heap import push
from sglb.switch.core.jit import compiled
from sglb.switch.core.observe import log_at_node
from sglb.switch.core.world import World


@compiled
def _note(world: World, kind: int, host: int, flow: int, now: int) -> None:
    """A record in the log."""
    w = world.w
    log_at_node(world, now, kind, w[host + k.H_NODE], -1, w[flow + k.FL_ID], 0)


@compiled
def schedule(world: World, host: int) -> None:
    """Has the event come that begins a host's next flow by its time."""
    w = world.w
    number = w[host + k.H_NEXT_FLOW]
    if number < w[host + k.H_FLOWS]:
        flow = w[host + k.H_FIRST_FLOW] + number * k.FLOW_WORDS
        push(world, w[host + k.H_NODE], w[flow + k.FL_START], m.EV_FLOW, 0, 0)


@compiled
def flow_event(world: World, host: int, index: int, now: int) -> None:
    """EV_FLOW: start times have come (index 0), or the delay of flow `index` - 1 is over."""
    w = world.w
    if index:
        _condition_met(world, w[host + k.H_FIRST_FLOW] + (index - 1) * k.FLOW_WORDS, now)
        return
    while w[host + k.H_NEXT_FLOW] < w[host + k.H_FLOWS]:
        flow = w[host + k.H_FIRST_FLOW] + w[host + k.H_NEXT_FLOW] * k.FLOW_WORDS
        if w[flow + k.FL_START] > now:
            break
        w[host + k.H_NEXT_FLOW] += 1
        _condition_met(world, flow, now)
    schedule(world, host)


@compiled
def _condition_met(world: World, flow: int, now: int) -> None:
    w = world.w
    w[flow + k.FL_WAITS] -= 1
    if w[flow + k.FL_WAITS]:
        return
    host = w[flow + k.FL_HOST]
    _note(world, m.LOG_FLOW_STARTED, host, flow, now)
    first = w[flow + k.FL_FIRST_PART]
    for i in range(w[flow + k.FL_PARTS]):
        part = first + i * k.PART_WORDS
        _post(world, part)
        wake(world, host, w[part + k.PT_QP], now)


@compiled
def _post(world: World, part: int) -> None:
    """Appends a part to what its sender is to send."""
    w = world.w
    end = w[part + k.PT_QP]
    w[part + k.PT_START] = w[end + k.S_END]
    w[part + k.PT_NEXT] = -1
    w[end + k.S_END] += w[part + k.PT_PACKETS]
    if w[end + k.S_LAST_PART] < 0:
        w[end + k.S_FIRST_PART] = part
        w[end + k.S_SEND_PART] = part
    else:
        w[w[end + k.S_LAST_PART] + k.PT_NEXT] = part
    w[end + k.S_LAST_PART] = part
    if w[end + k.S_ACK_PART] < 0:
        w[end + k.S_ACK_PART] = part


@compiled
def delivered(world: World, end: int, now: int) -> None:
    """A receiver has its next message whole."""
    w = world.w
    last = w[end + k.R_LAST_PART]
    part = w[last + k.PT_NEXT] if last >= 0 else w[w[end + k.E_PEER] + k.S_FIRST_PART]
    if part < 0:
        return  # a forged frame: nothing was posted that could end here
    w[end + k.R_LAST_PART] = part
    w[end + k.R_MESSAGES] += 1
    flow = w[part + k.PT_FLOW]
    w[flow + k.FL_LEFT] -= 1
    if w[flow + k.FL_LEFT]:
        return
    _note(world, m.LOG_FLOW_COMPLETED, w[end + k.E_HOST], flow, now)
    w[m.FLOWS_OPEN] -= 1
    if w[m.FLOWS_OPEN] == 0:
        w[m.HALT] |= m.HALT_DONE
    for i in range(w[flow + k.FL_OPENS_COUNT]):
        _pass(world, w[w[flow + k.FL_OPENS] + i], now)


@compiled
def _pass(world: World, gate: int, now: int) -> None:
    """A member of a gate is complete."""
    w = world.w
    w[gate + k.GT_TIME] = max(w[gate + k.GT_TIME], now)
    w[gate + k.GT_LEFT] -= 1
    if w[gate + k.GT_LEFT]:
        return
    for i in range(w[gate + k.GT_COUNT]):
        flow = w[w[gate + k.GT_FLOWS] + i]
        if w[flow + k.FL_DELAY]:
            time = w[gate + k.GT_TIME] + w[flow + k.FL_DELAY]
            node = w[w[flow + k.FL_HOST] + k.H_NODE]
            push(world, node, time, m.EV_FLOW, w[flow + k.FL_INDEX] + 1, 0)
        else:
            _condition_met(world, flow, now)


@compiled
def acknowledged(world: World, end: int, now: int) -> None:
    """A sender's first packet that is not acknowledged has moved on: parts may be over."""
    w = world.w
    base = w[end + k.S_BASE]
    part = w[end + k.S_ACK_PART]
    while part >= 0 and base >= w[part + k.PT_START] + w[part + k.PT_PACKETS]:
        flow = w[part + k.PT_FLOW]
        part = w[part + k.PT_NEXT]
        w[end + k.S_ACK_PART] = part
        w[flow + k.FL_UNACKED] -= 1
        if w[flow + k.FL_UNACKED] == 0:
            for i in range(w[flow + k.FL_SENT_COUNT]):
                _pass(world, w[w[flow + k.FL_SENT] + i], now)
            part = w[end + k.S_ACK_PART]
