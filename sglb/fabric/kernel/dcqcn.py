"""DCQCN: the rate of each sender, as `sglb.fabric.dcqcn_config` words it, in integers.

A sender is *active* while its rate is below its link's; then a frame may leave one frame time *at that
rate* after the last one began. Rates are bit/s on the wire, with preamble and gap, so that the link's
rate means no limit. Rates round up to the link's, down elsewhere.

Alpha is in 2^-30 inside, so that it decays to nothing and does not get stuck at 1/g steps. It matters
at CNPs only, so its timer has no events: the periods that have passed are made up for at each CNP.
The target stays where it is for `threshold` stages; the stage after them is the first that raises it,
as in IEEE 802.1Qau and in the fluid model of the paper (increase begins after F x B bytes).
"""

from __future__ import annotations

from typing import Final

from sglb.fabric.kernel import layout as k
from sglb.fabric.roce import WIRE_OVERHEAD_BYTES
from sglb.switch.clock import PS_PER_S
from sglb.switch.core import model as m
from sglb.switch.core.buffer import port_at
from sglb.switch.core.heap import push
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.world import World

ALPHA_BITS: Final = 30
G_BITS: Final = 20
#: A cut multiplies a rate (at most 2^46 bit/s) by so many bits of alpha.
_CUT_BITS: Final = 16


@inlined
def line_rate(world: World, host: int) -> int:
    """The link's rate, bit/s."""
    return world.w[port_at(world, world.w[host + k.H_PORT]) + m.P_RATE]


@inlined
def may_send_at(world: World, end: int) -> int:
    """From when on the rate lets a sender send its next frame, ps."""
    return world.w[end + k.D_PACED_AT]


@compiled
def pace(world: World, end: int) -> None:
    """Works out when the next frame may leave."""
    w = world.w
    if w[end + k.D_ACTIVE]:
        rate = w[end + k.D_RATE]
        gap = (w[end + k.D_SENT_BITS] * PS_PER_S + rate - 1) // rate
        w[end + k.D_PACED_AT] = w[end + k.D_SENT_AT] + gap
    else:
        w[end + k.D_PACED_AT] = 0


@compiled
def frame_sent(world: World, host: int, end: int, frame_bytes: int, now: int) -> None:
    """A sender's frame begins to leave: moves the byte counter on."""
    w = world.w
    w[end + k.D_SENT_AT] = now
    w[end + k.D_SENT_BITS] = (frame_bytes + WIRE_OVERHEAD_BYTES) * 8
    if not w[end + k.D_ACTIVE]:
        return
    limit = w[host + k.HD_BYTES]
    if limit:
        w[end + k.D_COUNTED] += frame_bytes
        while w[end + k.D_ACTIVE] and w[end + k.D_COUNTED] >= limit:
            w[end + k.D_COUNTED] -= limit
            w[end + k.D_BYTE_STAGE] += 1
            increase(world, host, end)
    pace(world, end)


@compiled
def increase(world: World, host: int, end: int) -> None:
    """One stage of the timer or the byte counter is over: towards the target, and the target up."""
    w = world.w
    stage, other = w[end + k.D_TIME_STAGE], w[end + k.D_BYTE_STAGE]
    if not w[host + k.HD_BYTES]:
        other = stage
    threshold = w[host + k.HD_THRESHOLD]
    line = line_rate(world, host)
    target = w[end + k.D_TARGET]
    if min(stage, other) > threshold:
        target += w[host + k.HD_HAI]
    elif max(stage, other) > threshold:
        target += w[host + k.HD_AI]
    target = min(target, line)
    rate = min((w[end + k.D_RATE] + target + 1) >> 1, line)
    w[end + k.D_TARGET] = target
    w[end + k.D_RATE] = rate
    if rate >= line:
        w[end + k.D_ACTIVE] = 0


@compiled
def age_alpha(world: World, host: int, end: int, now: int) -> None:
    """Makes up for the periods of the alpha timer that have passed."""
    w = world.w
    began = w[end + k.D_ALPHA_AT]
    periods = (now - began) // w[host + k.HD_ALPHA_TIMER]
    if periods <= 0:
        return
    w[end + k.D_ALPHA_AT] = began + periods * w[host + k.HD_ALPHA_TIMER]
    g = w[host + k.HD_G]
    alpha = w[end + k.D_ALPHA]
    if w[end + k.D_CNP]:
        alpha = toward_one(alpha, g)
        w[end + k.D_CNP] = 0
        periods -= 1
    while periods > 0:
        less = alpha * g >> G_BITS
        if less == 0:
            break
        alpha -= less
        periods -= 1
    w[end + k.D_ALPHA] = alpha


@inlined
def toward_one(alpha: int, g: int) -> int:
    """Alpha + g (1 - alpha)."""
    return alpha + (((1 << ALPHA_BITS) - alpha) * g >> G_BITS)


@compiled
def congestion_notified(world: World, host: int, end: int, now: int) -> None:
    """A CNP has arrived for a sender."""
    w = world.w
    first = w[end + k.D_ALPHA_AT] < 0
    if first:
        w[end + k.D_ALPHA] = w[host + k.HD_INITIAL_ALPHA] << (ALPHA_BITS - G_BITS)
        w[end + k.D_ALPHA_AT] = now
    else:
        age_alpha(world, host, end, now)
        if now - w[end + k.D_CUT_AT] < w[host + k.HD_INTERVAL]:
            w[end + k.D_CNP] = 0 if w[host + k.HD_ALPHA_AT_CNP] else 1
            return
    _cut(world, host, end, first)
    if w[host + k.HD_ALPHA_AT_CNP]:
        w[end + k.D_ALPHA] = toward_one(w[end + k.D_ALPHA], w[host + k.HD_G])
        w[end + k.D_ALPHA_AT] = now
    else:
        w[end + k.D_CNP] = 1
    w[end + k.D_CUT_AT] = now
    w[end + k.D_TIME_STAGE] = 0
    w[end + k.D_BYTE_STAGE] = 0
    w[end + k.D_COUNTED] = 0
    w[end + k.D_TIMER_AT] = now + w[host + k.HD_TIMER]
    pace(world, end)
    if w[end + k.D_ACTIVE]:
        _arm(world, host, end)


@compiled
def _cut(world: World, host: int, end: int, first: bool) -> None:
    """Lowers the rate and notes the target."""
    w = world.w
    line = line_rate(world, host)
    rate = w[end + k.D_RATE] if w[end + k.D_ACTIVE] else line
    target = w[end + k.D_TARGET] if w[end + k.D_ACTIVE] else line
    increased = w[end + k.D_TIME_STAGE] + w[end + k.D_BYTE_STAGE] > 0
    if first and w[host + k.HD_FIRST_RATE]:
        rate = target = min(w[host + k.HD_FIRST_RATE], line)
    else:
        if w[host + k.HD_CLAMP] or increased:
            target = rate
        alpha = w[end + k.D_ALPHA] >> (ALPHA_BITS - _CUT_BITS)
        less = rate * alpha >> (_CUT_BITS + w[host + k.HD_SHIFT])
        rate = max(rate - less, rate * w[host + k.HD_MIN_PERCENT] // 100)
        rate = min(max(rate, w[host + k.HD_MIN_RATE]), line)
    w[end + k.D_RATE] = rate
    w[end + k.D_TARGET] = target
    w[end + k.D_ACTIVE] = 1 if rate < line else 0


@compiled
def _arm(world: World, host: int, end: int) -> None:
    """Has the increase timer's event come; one that comes too early is put off then."""
    w = world.w
    if w[end + k.D_TIMER_LIVE] < 0:
        due = w[end + k.D_TIMER_AT]
        w[end + k.D_TIMER_LIVE] = due
        push(world, w[host + k.H_NODE], due, m.EV_DCQCN, w[end + k.E_INDEX], 0)


@compiled
def timer_event(world: World, host: int, end: int, now: int) -> bool:
    """EV_DCQCN. Says whether the rate has changed."""
    w = world.w
    w[end + k.D_TIMER_LIVE] = -1
    if not w[end + k.D_ACTIVE]:
        return False
    over = now >= w[end + k.D_TIMER_AT]
    if over:
        w[end + k.D_TIME_STAGE] += 1
        w[end + k.D_TIMER_AT] = now + w[host + k.HD_TIMER]
        increase(world, host, end)
        pace(world, end)
    if w[end + k.D_ACTIVE]:
        _arm(world, host, end)
    return over
