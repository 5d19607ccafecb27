"""The NIC: what leaves a host next, and when.

One frame at a time is on the wire: CNPs first, then acknowledges, then the senders of the highest
class in turn, a frame each, as far as their windows and rates let them and the class isn't paused. A
sender whose frame has left goes behind those that wait.

A frame goes to its wire when it begins to leave. The end of a frame is an event only if something
could follow it.
"""

from __future__ import annotations

from sglb.fabric.kernel import dcqcn, send
from sglb.fabric.kernel import layout as k
from sglb.fabric.roce import WIRE_OVERHEAD_BYTES
from sglb.p4.native import abi
from sglb.switch.clock import PS_PER_S
from sglb.switch.core import lists
from sglb.switch.core import model as m
from sglb.switch.core.buffer import port_at
from sglb.switch.core.call import bit_length
from sglb.switch.core.heap import push
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.pfc import kick
from sglb.switch.core.wires import launch
from sglb.switch.core.world import World


@inlined
def _paused(world: World, port: int) -> int:
    """Classes that must not be sent, as bits."""
    return world.w[port + m.P_PAUSED] & ~world.w[port + m.P_IGNORE]


@compiled
def wait(world: World, host: int, end: int, now: int) -> None:
    """Puts a sender behind those that wait, if it has something that may be sent.

    If only its rate forbids that, it is tried again when the rate does not.
    """
    w = world.w
    if w[end + k.S_WAITING] or not send.ready(world, host, end):
        return
    if dcqcn.may_send_at(world, end) > now:
        _wait_for_rate(world, host, end)
        return
    w[end + k.S_WAITING] = 1
    w[end + k.S_NEXT_WAITING] = -1
    cls = w[end + k.E_CLASS]
    queue = host + k.H_WAIT + 2 * cls
    if w[host + k.H_WAIT_MASK] >> cls & 1:
        w[w[queue + 1] + k.S_NEXT_WAITING] = end
    else:
        w[queue] = end
        w[host + k.H_WAIT_MASK] |= 1 << cls
    w[queue + 1] = end


@compiled
def _wait_for_rate(world: World, host: int, end: int) -> None:
    w = world.w
    at = dcqcn.may_send_at(world, end)
    if 0 <= w[end + k.D_WAKE_AT] <= at:
        return
    w[end + k.D_WAKE_AT] = at
    push(world, w[host + k.H_NODE], at, m.EV_RATE, w[end + k.E_INDEX], 0)


@compiled
def wake(world: World, host: int, end: int, now: int) -> None:
    """Something has happened that may let a sender send."""
    wait(world, host, end, now)
    pump(world, host, now)


@compiled
def rate_event(world: World, host: int, end: int, now: int) -> None:
    """EV_RATE."""
    w = world.w
    if w[end + k.D_WAKE_AT] == now:
        w[end + k.D_WAKE_AT] = -1
        wake(world, host, end, now)


@compiled
def send_ack(world: World, host: int, row: int, now: int) -> None:
    """Queues an acknowledge."""
    if row >= 0:
        lists.append(world, host + k.H_ACK_HEAD, row)
        pump(world, host, now)


@compiled
def send_cnp(world: World, host: int, row: int, now: int) -> None:
    """Queues a CNP."""
    if row >= 0:
        lists.append(world, host + k.H_CNP_HEAD, row)
        pump(world, host, now)


@compiled
def free_event(world: World, host: int, now: int) -> None:
    """EV_FREE: the wire is free, or a pause is over."""
    w = world.w
    port = port_at(world, w[host + k.H_PORT])
    w[port + m.P_WAKING] = 0
    if now >= w[port + m.P_FREE]:
        end = w[host + k.H_SENDING]
        w[host + k.H_SENDING] = -1
        if end >= 0:
            wait(world, host, end, now)
    pump(world, host, now)


@compiled
def pump(world: World, host: int, now: int) -> None:
    """Sends the next frame if the wire is free."""
    w = world.w
    number = w[host + k.H_PORT]
    port = port_at(world, number)
    if w[port + m.P_WAKING] or not w[port + m.P_UP]:
        return
    if now < w[port + m.P_FREE]:
        if _anything(world, host, port):
            kick(world, number, now)
        return
    paused = _paused(world, port)
    if w[host + k.H_CNP_HEAD] >= 0 and not paused >> w[host + k.H_CNP_CLASS] & 1:
        row = lists.take(world, host + k.H_CNP_HEAD)
        w[host + k.HS_CNPS_SENT] += 1
        _start(world, host, port, row, -1, now)
    elif w[host + k.H_ACK_HEAD] >= 0 and not paused >> w[host + k.H_ACK_CLASS] & 1:
        row = lists.take(world, host + k.H_ACK_HEAD)
        w[host + k.HS_ACKS_SENT] += 1
        _start(world, host, port, row, -1, now)
    else:
        _pump_data(world, host, port, paused, now)


@compiled
def _pump_data(world: World, host: int, port: int, paused: int, now: int) -> None:
    w = world.w
    while True:
        classes = w[host + k.H_WAIT_MASK] & ~paused
        if classes == 0:
            return
        end = _next_waiting(world, host, bit_length(classes) - 1)
        if not send.ready(world, host, end):
            continue
        if dcqcn.may_send_at(world, end) > now:
            _wait_for_rate(world, host, end)
            continue
        row = send.next_frame(world, host, end, now)
        if row < 0:
            return  # the driver stops at HALT_ROWS
        w[host + k.HS_DATA_SENT] += 1
        if w[host + k.H_DCQCN]:
            dcqcn.frame_sent(world, host, end, world.h[row * 2 + abi.LENGTH], now)
        _start(world, host, port, row, end, now)
        return


@inlined
def _next_waiting(world: World, host: int, cls: int) -> int:
    """Takes the sender that has waited longest in a class."""
    w = world.w
    queue = host + k.H_WAIT + 2 * cls
    end = w[queue]
    w[end + k.S_WAITING] = 0
    following = w[end + k.S_NEXT_WAITING]
    w[queue] = following
    if following < 0:
        w[host + k.H_WAIT_MASK] &= ~(1 << cls)
    return end


@compiled
def _took(world: World, host: int, port: int, length: int) -> int:
    """Time on the wire of a frame, rounded up to ps."""
    w = world.w
    rate = w[port + m.P_RATE]
    if length != w[host + k.H_LENGTH] or rate != w[host + k.H_RATE]:
        w[host + k.H_LENGTH] = length
        w[host + k.H_RATE] = rate
        bits = (length + WIRE_OVERHEAD_BYTES) * 8
        w[host + k.H_TOOK] = (bits * PS_PER_S + rate - 1) // rate
    return w[host + k.H_TOOK]


@compiled
def _start(world: World, host: int, port: int, row: int, end: int, now: int) -> None:
    """Puts a frame on the wire; `end` is the sender whose data it is, or -1."""
    w = world.w
    number = w[host + k.H_PORT]
    until = now + _took(world, host, port, world.h[row * 2 + abi.LENGTH])
    w[port + m.P_FREE] = until
    w[row + m.R_START] = now
    launch(world, number, row, until)
    follows = end >= 0 and w[end + k.S_WAITING] == 0 and send.ready(world, host, end)
    if follows and dcqcn.may_send_at(world, end) > until:
        _wait_for_rate(world, host, end)
        follows = False
    w[host + k.H_SENDING] = end if follows else -1
    if follows or _anything(world, host, port):
        kick(world, number, now)


@inlined
def _anything(world: World, host: int, port: int) -> bool:
    """Whether something waits that could leave when the wire is free."""
    w = world.w
    paused = _paused(world, port)
    if w[host + k.H_WAIT_MASK] & ~paused or w[host + k.H_SENDING] >= 0:
        return True
    if w[host + k.H_ACK_HEAD] >= 0 and not paused >> w[host + k.H_ACK_CLASS] & 1:
        return True
    return w[host + k.H_CNP_HEAD] >= 0 and not paused >> w[host + k.H_CNP_CLASS] & 1
