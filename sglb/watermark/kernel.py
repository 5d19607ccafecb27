"""The fluid model's compiled step: the only file of machine code, so that its cache cannot be stale.

Sizes are bytes, times microseconds, rates bytes a microsecond (1 Gbit/s is 125). The last axis of state
is the *lane*: several settings advance together, each by the same operations in the same order whatever
its neighbours are, so a setting's result does not depend on its batch. Products are not fused with sums,
and exp and log are our own: results are the same, bit for bit, on every processor.

Axes: F flows, M strands (a flow at one of its hops), Q queues, G ingresses, U sources, W switches,
H steps of history, L lanes, S samples. Arrays of history and of samples have time first.

A step, from t to t + dt. Rates by Heun's method with the marks as they come back in its middle; queues
by what enters and what can leave in it, so that nothing is lost or made up:

1. For each flow the marks that its sender hears of, ln(1 - p) summed over its hops, and its rate as it
   was when they were made, both interpolated; from them the coefficients of DCQCN's equations, then its
   rate, target and alpha at t + dt.
2. Sources send (unless paused), at most at their rate. Strands receive what was sent a link ago; an open
   queue serves what it can, each strand in proportion to its share of the queue.
3. Ingresses count what is in the switch, put what is above their threshold into headroom, lose what does
   not fit there, and pause or resume their peer, which follows a delay later.
4. Marks for the queues as they now are; statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

import numba
import numpy as np

from sglb.watermark.arrays import Flat, Floats, Marks, Net, Rules, State, Tally, Work

P = ParamSpec("P")
T = TypeVar("T")

#: The logarithm of 1 - p where p is 1: so low that nothing passes unmarked.
LOWEST_LOG: Final = -700.0

#: Packets a microsecond of a sender that stands still, so that no division is by 0.
LEAST_PACE: Final = 1e-9
_TINY: Final = 1e-300
#: Takes the place of a chance of 0, for the same reason.
_UNMARKED: Final = 1e-30
#: No reference counts (`_nrt`): nothing is allocated here, and counting took half of the time. Sums stay
#: in their order, as `fastmath` allows neither reassociation nor contraction.
_OPTIONS: Final[dict[str, Any]] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"nnan", "nsz"},
    "_nrt": False,
}
_LOG2_E: Final = 1.4426950408889634
_LN2_HIGH: Final = 0.6931471803691238
_LN2_LOW: Final = 1.9082149292705877e-10
# 1 / n!, each by its own name: a table would be read from memory.
_F2: Final = 1.0 / 2
_F3: Final = 1.0 / 6
_F4: Final = 1.0 / 24
_F5: Final = 1.0 / 120
_F6: Final = 1.0 / 720
_F7: Final = 1.0 / 5040
_F8: Final = 1.0 / 40320
_F9: Final = 1.0 / 362880
_F10: Final = 1.0 / 3628800
_FRACTION: Final = (1 << 52) - 1
_SQRT2: Final = 1.4142135623730951
_ROUND: Final = 1.5 * 2**52
_BIAS: Final = 1023
_FRACTION_BITS: Final = 52


def _compiled(function: Callable[P, T]) -> Callable[P, T]:
    return cast(Callable[P, T], numba.njit(cache=True, **_OPTIONS)(function))


def _inlined(function: Callable[P, T]) -> Callable[P, T]:
    return cast(Callable[P, T], numba.njit(**_OPTIONS)(function))


@_inlined
def exp_down(x: float) -> float:
    """exp(x) for x <= 0 (and a little above), within 3e-13 of it; 0 below -700."""
    low = x if x > LOWEST_LOG else LOWEST_LOG
    # Adding 1.5 x 2^52 rounds to a whole number and leaves that in the lowest bits.
    shifted = low * _LOG2_E + _ROUND
    whole = shifted - _ROUND
    r = low - whole * _LN2_HIGH - whole * _LN2_LOW
    # Taylor's series in Horner's form: |r| <= ln 2 / 2, so that the next term is below 3e-13.
    s = _F10
    s = _F9 + r * s
    s = _F8 + r * s
    s = _F7 + r * s
    s = _F6 + r * s
    s = _F5 + r * s
    s = _F4 + r * s
    s = _F3 + r * s
    s = _F2 + r * s
    s = 1.0 + r * s
    s = 1.0 + r * s
    power = np.int64((np.float64(shifted).view(np.int64) + _BIAS) << _FRACTION_BITS).view(
        np.float64
    )
    return s * power if x > LOWEST_LOG else 0.0


@_inlined
def log_unmarked(p: float) -> float:
    """ln(1 - p) for 0 <= p <= 1, within 4 ulp; `LOWEST_LOG` where p is 1."""
    left = 1.0 - p
    bits = np.float64(left).view(np.int64)
    power = (bits >> _FRACTION_BITS) - _BIAS
    high = np.int64((bits & _FRACTION) | (_BIAS << _FRACTION_BITS)).view(np.float64)
    # The fraction between sqrt(1/2) and sqrt(2); near 1 straight from p, which is exact.
    up = high > _SQRT2
    fraction = 0.5 * high if up else high
    power = power + 1 if up else power
    ratio: float = (fraction - 1.0) / (fraction + 1.0)
    near = p < 0.25
    ratio = -p / (2.0 - p) if near else ratio
    square = ratio * ratio
    s = 1.0 / 21.0
    s = s * square + 1.0 / 19.0
    s = s * square + 1.0 / 17.0
    s = s * square + 1.0 / 15.0
    s = s * square + 1.0 / 13.0
    s = s * square + 1.0 / 11.0
    s = s * square + 1.0 / 9.0
    s = s * square + 1.0 / 7.0
    s = s * square + 1.0 / 5.0
    s = s * square + 1.0 / 3.0
    s = s * square + 1.0
    series = 2.0 * ratio * s
    found = series if near else series + power * _LN2_LOW + power * _LN2_HIGH
    return found if left > 0.0 else LOWEST_LOG


@_inlined
def _hear(rules: Rules, net: Net, state: State, work: Work, n: int) -> None:
    """ln(1 - p) over a flow's hops, and packets a microsecond, of which its sender hears at n + 1/2."""
    slots, lanes = state.logs.shape[0], state.rate.shape[1]
    for f in range(net.flow_at.size - 1):
        heard, pace, chance = work.heard[f], work.pace[f], work.chance[f]
        for i in range(lanes):
            # Kept off 0, so that no division is by it.
            heard[i], chance[i] = -_UNMARKED, _UNMARKED
        for m in range(net.flow_at[f], net.flow_at[f + 1]):
            back = n + 0.5 - net.strand_feedback[m]
            low = math.floor(back)
            part = back - low
            q = net.strand_queue[m]
            slot, next_slot = low % slots, (low + 1) % slots
            first, second = state.logs[slot, q], state.logs[next_slot, q]
            p, p_next = state.chances[slot, q], state.chances[next_slot, q]
            for i in range(lanes):
                heard[i] += (1.0 - part) * first[i] + part * second[i]
            for i in range(lanes):
                marked = (1.0 - part) * p[i] + part * p_next[i]
                chance[i] += (1.0 - chance[i]) * marked
        back = n - net.strand_feedback[net.flow_at[f]]
        low = math.floor(back)
        part = back - low
        a, b = state.sent[low % slots, f], state.sent[(low + 1) % slots, f]
        c = state.sent[(low + 2) % slots, f]
        scale = 1.0 / (rules.dt * rules.packet_bytes)
        for i in range(lanes):
            passed = (1.0 - part) * (b[i] - a[i])
            # A weight of 0 must not let in what the ring held a turn ago.
            passed = passed + part * (c[i] - b[i]) if part > 0.0 else passed
            pace[i] = max(passed * scale, LEAST_PACE)


@_inlined
def _unmarked_runs(p: float, y: float, kept: float) -> float:
    """p / (e^y - 1), `kept` being e^-y: how often, in packets, a span of them passes without a mark."""
    # 1 - e^-y from its series where the difference would lose its digits. Sums of products, not a
    # choice: a branch would keep the loop from running in vectors.
    small = 1.0 if y < 1e-5 else 0.0
    rest = small * y * (1.0 - 0.5 * y) + (1.0 - small) * (1.0 - kept)
    return p * kept / max(rest, _TINY)


@_inlined
def _unmarked(heard: Floats, pace: Floats, span_us: float, kept: Floats) -> None:
    """Chance that nothing is marked within a time; F x L flat."""
    for i in range(heard.size):
        kept[i] = exp_down(heard[i] * pace[i] * span_us)


@_inlined
def _cuts(rules: Rules, flat: Flat) -> None:
    """Chance of a mark within a CNP interval and within alpha's; leaves that of the timer in `kept`."""
    cut, goal, kept = flat.cut, flat.goal, flat.kept
    _unmarked(flat.heard, flat.pace, rules.cnp_us, kept)
    for i in range(cut.size):
        cut[i] = 1.0 - kept[i]
    if rules.alpha_us != rules.timer_us:
        _unmarked(flat.heard, flat.pace, rules.alpha_us, kept)
        for i in range(goal.size):
            goal[i] = 1.0 - kept[i]
    _unmarked(flat.heard, flat.pace, rules.timer_us, kept)
    if rules.alpha_us == rules.timer_us:
        for i in range(goal.size):
            goal[i] = 1.0 - kept[i]


@_inlined
def _timed(rules: Rules, flat: Flat) -> None:
    """Increases by the timer, and those of them that raise the target, a microsecond."""
    heard, pace, chance, kept = flat.heard, flat.pace, flat.chance, flat.kept
    up, rise = flat.up, flat.rise
    for i in range(heard.size):
        y = -heard[i] * pace[i] * rules.timer_us
        up[i] = pace[i] * _unmarked_runs(chance[i], y, kept[i])
        rise[i] = up[i]
    for _ in range(rules.threshold):
        for i in range(heard.size):
            rise[i] *= kept[i]


@_inlined
def _counted(rules: Rules, flat: Flat) -> None:
    """Adds those by the byte counter."""
    heard, pace, chance, kept = flat.heard, flat.pace, flat.chance, flat.kept
    up, rise = flat.up, flat.rise
    for i in range(heard.size):
        kept[i] = exp_down(heard[i] * rules.bytes_packets)
    for i in range(heard.size):
        y = -heard[i] * rules.bytes_packets
        chance[i] = pace[i] * _unmarked_runs(chance[i], y, kept[i])
        up[i] += chance[i]
    for _ in range(rules.threshold):
        for i in range(heard.size):
            chance[i] *= kept[i]
    for i in range(heard.size):
        rise[i] += chance[i]


@_inlined
def _react(rules: Rules, net: Net, state: State, work: Work, n: int) -> None:
    """Rate, target and alpha a step on, by Heun's method with the coefficients of its middle."""
    dt, lanes = rules.dt, state.rate.shape[1]
    to_goal = rules.g / rules.alpha_us
    add = rules.increase * rules.packet_bytes
    for f in range(net.flow_at.size - 1):
        rate, target, alpha = state.rate[f], state.target[f], state.alpha[f]
        cut, goal, up, rise = work.cut[f], work.goal[f], work.up[f], work.rise[f]
        before, line = work.before[f], net.flow_line[f]
        if n < net.flow_start[f]:
            for i in range(lanes):
                before[i] = rate[i]
            continue
        for i in range(lanes):
            r, t, a = rate[i], target[i], alpha[i]
            fall, grow, drop = cut[i] * rules.cut, 0.5 * up[i], cut[i] / rules.cnp_us
            r1 = (t - r) * grow - r * a * fall
            t1 = add * rise[i] - (t - r) * drop
            a1 = to_goal * (goal[i] - a)
            r2, t2, a2 = r + dt * r1, t + dt * t1, a + dt * a1
            r = r + 0.5 * dt * (r1 + (t2 - r2) * grow - r2 * a2 * fall)
            t = t + 0.5 * dt * (t1 + add * rise[i] - (t2 - r2) * drop)
            before[i] = rate[i]
            rate[i] = max(min(r, line), rules.least)
            target[i] = max(min(t, line), rules.least)
            alpha[i] = a + 0.5 * dt * (a1 + to_goal * (goal[i] - a2))


@_inlined
def _send(rules: Rules, net: Net, state: State, work: Work, n: int) -> None:
    """What sources send within the step, into `sent`."""
    slots, lanes = state.sent.shape[0], state.rate.shape[1]
    for u in range(net.source_rate.size):
        load = work.load[u]
        for i in range(lanes):
            load[i] = 0.0
    for f in range(net.flow_at.size - 1):
        if n < net.flow_start[f]:
            continue
        load, rate, before = work.load[net.flow_source[f]], state.rate[f], work.before[f]
        sent, size = state.sent[n % slots, f], net.flow_bytes[f]
        for i in range(lanes):
            wanted = 0.5 * (rate[i] + before[i]) * net.flow_count[f]
            load[i] += wanted if sent[i] < size else 0.0
    for u in range(net.source_rate.size):
        load, capacity = work.load[u], net.source_rate[u] * net.source_count[u]
        for i in range(lanes):
            load[i] = min(1.0, capacity / max(load[i], _TINY))
        pauser = net.source_pauser[u]
        if pauser >= 0:
            paused = state.pauses[(n - net.ingress_delay[pauser]) % slots, pauser]
            for i in range(lanes):
                load[i] *= 1.0 - paused[i]
    for f in range(net.flow_at.size - 1):
        share, rate, before = work.load[net.flow_source[f]], state.rate[f], work.before[f]
        sent, after = state.sent[n % slots, f], state.sent[(n + 1) % slots, f]
        active = rules.dt if n >= net.flow_start[f] else 0.0
        for i in range(lanes):
            more = active * 0.5 * (rate[i] + before[i]) * share[i]
            after[i] = min(sent[i] + more, net.flow_bytes[f])


@_inlined
def _arrive(net: Net, state: State, work: Work, n: int) -> None:
    """What reaches each strand within the step."""
    slots, lanes = state.sent.shape[0], state.rate.shape[1]
    for m in range(net.strand_queue.size):
        back = n - net.strand_delay[m]
        low = math.floor(back)
        part = back - low
        prev = net.strand_prev[m]
        f = net.strand_flow[m]
        if prev < 0:
            a, b = state.sent[low % slots, f], state.sent[(low + 1) % slots, f]
            c, count = state.sent[(low + 2) % slots, f], net.flow_count[f]
        else:
            a, b = state.passed[low % slots, prev], state.passed[(low + 1) % slots, prev]
            c, count = state.passed[(low + 2) % slots, prev], 1.0
        come = work.come[m]
        for i in range(lanes):
            passed = (1.0 - part) * (b[i] - a[i])
            passed = passed + part * (c[i] - b[i]) if part > 0.0 else passed
            come[i] = count * passed


@_inlined
def _serve(rules: Rules, net: Net, state: State, work: Work, n: int) -> None:
    """What leaves each strand within the step, into `passed`."""
    slots, lanes = state.sent.shape[0], state.rate.shape[1]
    for q in range(net.queue_rate.size):
        total = work.total[q]
        for i in range(lanes):
            total[i] = 0.0
    for m in range(net.strand_queue.size):
        total, held, come = work.total[net.strand_queue[m]], state.held[m], work.come[m]
        for i in range(lanes):
            total[i] += held[i] + come[i]
    for q in range(net.queue_rate.size):
        total, share = work.total[q], work.share[q]
        capacity = rules.dt * net.queue_rate[q]
        for i in range(lanes):
            share[i] = min(1.0, capacity / max(total[i], _TINY))
        pauser = net.queue_pauser[q]
        if pauser >= 0:
            paused = state.pauses[(n - net.ingress_delay[pauser]) % slots, pauser]
            for i in range(lanes):
                share[i] *= 1.0 - paused[i]
    for m in range(net.strand_queue.size):
        share, held, come = work.share[net.strand_queue[m]], state.held[m], work.come[m]
        gone = work.gone[m]
        passed, after = state.passed[n % slots, m], state.passed[(n + 1) % slots, m]
        for i in range(lanes):
            there = held[i] + come[i]
            gone[i] = there * share[i]
            held[i] = there - gone[i]
            after[i] = passed[i] + gone[i]


@_inlined
def _limits(net: Net, marks: Marks, state: State, work: Work) -> None:
    """XOFF thresholds as the pools now are, and what the pools have in use."""
    lanes = state.rate.shape[1]
    for w in range(state.used.shape[0]):
        used = state.used[w]
        for i in range(lanes):
            used[i] = 0.0
    for g in range(net.ingress_switch.size):
        used, shared = state.used[net.ingress_switch[g]], state.shared[g]
        for i in range(lanes):
            used[i] += net.ingress_count[g] * shared[i]
    for g in range(net.ingress_switch.size):
        w = net.ingress_switch[g]
        used, pool, limit = state.used[w], marks.pool[w], work.limit[g]
        alpha, xoff = marks.alpha[g], marks.xoff[g]
        for i in range(lanes):
            dynamic = alpha[i] * max(pool[i] - used[i], 0.0)
            limit[i] = xoff[i] if xoff[i] > 0.0 else dynamic


@_inlined
def _admit(net: Net, marks: Marks, state: State, work: Work, tally: Tally) -> None:
    """Counts what came and went with its ingress: pool, then headroom, then loss."""
    lanes = state.rate.shape[1]
    for g in range(net.ingress_switch.size):
        arrived, left = work.arrived[g], work.left[g]
        for i in range(lanes):
            arrived[i] = 0.0
            left[i] = 0.0
    for m in range(net.strand_queue.size):
        g = net.strand_ingress[m]
        arrived, left, come, gone = work.arrived[g], work.left[g], work.come[m], work.gone[m]
        part = 1.0 / net.ingress_count[g]
        for i in range(lanes):
            arrived[i] += come[i] * part
            left[i] += gone[i] * part
    for g in range(net.ingress_switch.size):
        w = net.ingress_switch[g]
        arrived, left, limit = work.arrived[g], work.left[g], work.limit[g]
        shared, head, room = state.shared[g], state.head[g], marks.room[g]
        pool, used = marks.pool[w], state.used[w]
        for i in range(lanes):
            # What came and left again within the step was never over any limit.
            through = min(arrived[i], left[i])
            new, out = arrived[i] - through, left[i] - through
            calm = min(head[i], out)
            h, s = head[i] - calm, max(shared[i] - (out - calm), 0.0)
            to_pool = min(new, max(min(limit[i] - s - h, pool[i] - used[i]), 0.0))
            to_head = min(new - to_pool, max(room[i] - h, 0.0))
            lost = new - to_pool - to_head
            shared[i] = s + to_pool
            head[i] = h + to_head
            # From here on the share of what came that is lost.
            arrived[i] = lost / max(arrived[i], _TINY)
    for m in range(net.strand_queue.size):
        share, held, come = work.arrived[net.strand_ingress[m]], state.held[m], work.come[m]
        lost = tally.lost[m]
        for i in range(lanes):
            gone = min(share[i] * come[i], held[i])
            held[i] -= gone
            lost[i] += gone


@_inlined
def _pause(net: Net, marks: Marks, state: State, work: Work, n: int) -> None:
    """Whether each ingress pauses its peer from now on, into `pauses`."""
    slots, lanes = state.sent.shape[0], state.rate.shape[1]
    for g in range(net.ingress_switch.size):
        pauses = state.pauses[(n + 1) % slots, g]
        if net.ingress_pauses[g] == 0:
            continue
        pausing, limit, xon, left = state.pausing[g], work.limit[g], marks.xon[g], state.left[g]
        shared, head = state.shared[g], state.head[g]
        for i in range(lanes):
            over = head[i] > 0.0 or shared[i] >= limit[i]
            calm = head[i] <= 0.0 and (shared[i] <= 0.0 or shared[i] + xon[i] < limit[i])
            if net.pause_steps > 0.0:
                rest = left[i] - 1.0
                left[i] = rest if rest > 0.5 else (net.pause_steps if over else 0.0)
                pausing[i] = 1.0 if left[i] > 0.5 else 0.0
            else:
                stays = 0.0 if calm else pausing[i]
                pausing[i] = 1.0 if over else stays
            pauses[i] = pausing[i]


@_inlined
def _mark(net: Net, marks: Marks, state: State, work: Work, n: int) -> None:
    """ln(1 - p) of each queue, into `logs`; its depth into `total`, its p into `share`."""
    slots, lanes = state.sent.shape[0], state.rate.shape[1]
    for q in range(net.queue_rate.size):
        total = work.total[q]
        for i in range(lanes):
            total[i] = 0.0
    for m in range(net.strand_queue.size):
        total, held = work.total[net.strand_queue[m]], state.held[m]
        for i in range(lanes):
            total[i] += held[i]
    for q in range(net.queue_rate.size):
        total, share = work.total[q], work.share[q]
        chance, logs = state.chances[(n + 1) % slots, q], state.logs[(n + 1) % slots, q]
        kmin, kmax, pmax = marks.kmin[q], marks.kmax[q], marks.pmax[q]
        for i in range(lanes):
            part = (total[i] - kmin[i]) / max(kmax[i] - kmin[i], 1e-9)
            ramp = min(max(part, 0.0), 1.0) * pmax[i]
            chance[i] = 1.0 if total[i] > kmax[i] else ramp
            share[i] = chance[i]
        for i in range(lanes):
            logs[i] = log_unmarked(chance[i])


@_inlined
def _measure(rules: Rules, net: Net, state: State, work: Work, tally: Tally, n: int) -> None:
    """Adds the step to the sums."""
    slots, lanes = state.sent.shape[0], state.rate.shape[1]
    for q in range(net.queue_rate.size):
        depth, highest = work.total[q], tally.depth_max[q]
        total, square = tally.depth_sum[q], tally.depth_square[q]
        for i in range(lanes):
            total[i] += depth[i]
            square[i] += depth[i] * depth[i]
            highest[i] = max(highest[i], depth[i])
    for m in range(net.strand_queue.size):
        q = net.strand_queue[m]
        gone, chance, served, marked = work.gone[m], work.share[q], tally.served[q], tally.marked[q]
        for i in range(lanes):
            served[i] += gone[i]
            marked[i] += gone[i] * chance[i]
    for g in range(net.ingress_switch.size):
        now, then = state.pauses[(n + 1) % slots, g], state.pauses[n % slots, g]
        felt = state.pauses[(n - net.ingress_delay[g]) % slots, g]
        paused, pauses = tally.paused[g], tally.pauses[g]
        head, most = state.head[g], tally.head_max[g]
        for i in range(lanes):
            paused[i] += rules.dt * felt[i]
            pauses[i] += max(now[i] - then[i], 0.0)
            most[i] = max(most[i], head[i])


@_inlined
def _finish(rules: Rules, net: Net, state: State, tally: Tally, n: int) -> None:
    """Notes when flows of a size have left their last queue, but for less than a packet."""
    slots, lanes = state.sent.shape[0], state.rate.shape[1]
    for f in range(net.flow_at.size - 1):
        size = net.flow_bytes[f]
        if size == np.inf:
            continue
        last = net.flow_at[f + 1] - 1
        passed, done = state.passed[(n + 1) % slots, last], tally.done[f]
        enough = net.flow_count[f] * size - min(rules.packet_bytes, 0.5 * size)
        for i in range(lanes):
            if done[i] < 0.0 and passed[i] >= enough:
                done[i] = (n + 1) * rules.dt


@_inlined
def _copy(to: Floats, row: Floats) -> None:
    for i in range(row.size):
        to[i] = row[i]


@_inlined
def _sample(net: Net, state: State, work: Work, tally: Tally, at: int) -> None:
    for q in range(net.queue_rate.size):
        _copy(tally.depth[at, q], work.total[q])
    for f in range(net.flow_at.size - 1):
        _copy(tally.rates[at, f], state.rate[f])
    for g in range(net.ingress_switch.size):
        _copy(tally.stopped[at, g], state.pausing[g])


@_compiled
def advance(
    rules: Rules,
    net: Net,
    marks: Marks,
    state: State,
    work: Work,
    flat: Flat,
    tally: Tally,
    begin: int,
    end: int,
) -> None:
    """Runs a batch from step `begin` to before `end`; see the module's text."""
    slots = state.sent.shape[0]
    for n in range(begin, end):
        if n == net.measure_from:
            for m in range(net.strand_queue.size):
                _copy(tally.passed_then[m], state.passed[n % slots, m])
                _copy(tally.lost_then[m], tally.lost[m])
        _hear(rules, net, state, work, n)
        _cuts(rules, flat)
        _timed(rules, flat)
        if rules.bytes_packets > 0.0:
            _counted(rules, flat)
        _react(rules, net, state, work, n)
        _send(rules, net, state, work, n)
        _arrive(net, state, work, n)
        _serve(rules, net, state, work, n)
        _limits(net, marks, state, work)
        _admit(net, marks, state, work, tally)
        _limits(net, marks, state, work)
        _pause(net, marks, state, work, n)
        _mark(net, marks, state, work, n)
        if n >= net.measure_from:
            _measure(rules, net, state, work, tally, n)
        _finish(rules, net, state, tally, n)
        if (n + 1) % net.sample_every == 0:
            _sample(net, state, work, tally, (n + 1) // net.sample_every - 1)
