"""Solves the fluid model for many settings at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import numpy as np

from sglb.watermark import layout
from sglb.watermark.arrays import Floats, Marks, Net, Rules, State, Tally
from sglb.watermark.errors import WatermarkError
from sglb.watermark.layout import Setting, Timing
from sglb.watermark.network import Network

#: Settings that advance together in one thread; results do not depend on it.
LANES = 32
#: Samples of a block of lanes are kept in memory until its percentiles are known.
MAX_SAMPLE_BYTES = 1 << 31
#: Steps that a thread makes before it looks whether it is still wanted.
_STEPS_AT_ONCE = 4096
_USUAL = Timing()
_GBPS_PER_BYTES_US = 1 / layout.BYTES_US_PER_GBPS


@dataclass(frozen=True, slots=True)
class Trace:
    """Samples of a run: `time_us` (T), the others (settings, T, queues / flows / ingresses)."""

    time_us: Floats
    queue_bytes: Floats
    rate_gbps: Floats
    pausing: Floats


@dataclass(frozen=True, slots=True)
class FluidResult:
    """What became of each setting; the first axis is the setting (B), in the order they were given.

    Averages, percentiles and counters are of the time from `measure_from_us` on. Axes: F flows, Q
    queues, G ingresses, in the network's order; what counts several (`count`) is told for one of them.

    Attributes:
        throughput_gbps: (B, F) what left the last queue.
        utilisation: (B, Q) of the queue's rate.
        queue_mean_bytes, queue_std_bytes, queue_p99_bytes, queue_max_bytes: (B, Q); the percentile is
            that of the samples.
        marked_share: (B, Q) of what left the queue.
        paused_share: (B, G) of the time that the peer stood paused.
        pauses: (B, G) how often it was paused.
        headroom_max_bytes: (B, G) the most that was in headroom.
        lost_bytes: (B, F) of all flows of the kind, over all hops.
        completion_us: (B, F) when the last byte of a flow with a size left its last queue, to a packet;
            NaN where it did not.
        sent_bytes, delivered_bytes, queued_bytes, in_flight_bytes, lost_total_bytes: (B,) over the
            whole run: sent = delivered + queued + in flight + lost.
        trace: samples, when asked for.
    """

    network: Network
    timing: Timing
    throughput_gbps: Floats
    utilisation: Floats
    queue_mean_bytes: Floats
    queue_std_bytes: Floats
    queue_p99_bytes: Floats
    queue_max_bytes: Floats
    marked_share: Floats
    paused_share: Floats
    pauses: Floats
    headroom_max_bytes: Floats
    lost_bytes: Floats
    completion_us: Floats
    sent_bytes: Floats
    delivered_bytes: Floats
    queued_bytes: Floats
    in_flight_bytes: Floats
    lost_total_bytes: Floats
    trace: Trace | None = None

    def __len__(self) -> int:
        return len(self.throughput_gbps)


Progress = Callable[[int, int], None]


def solve(
    network: Network,
    settings: Sequence[Setting],
    timing: Timing = _USUAL,
    *,
    trace: bool = False,
    workers: int | None = None,
    progress: Progress = lambda _done, _of: None,
) -> FluidResult:
    """Solve a network for each setting; the results are the same for any batch and any `workers`.

    `workers` threads (one a processor) each advance `LANES` settings at a time; `progress` hears how
    many settings of how many are done. Raises `WatermarkError`.
    """
    if not settings:
        raise WatermarkError("there is no setting to solve for")
    made, rules = layout.net(network, timing), layout.rules(network, timing)
    _check_memory(made, len(settings) if trace else LANES)
    blocks = [settings[i : i + LANES] for i in range(0, len(settings), LANES)]
    marks = [layout.marks(network, block) for block in blocks]  # before the work: it may complain

    stopped = Event()

    def run(at: int) -> dict[str, Floats]:
        return _block(network, made, rules, marks[at], len(blocks[at]), trace, stopped)

    found: list[dict[str, Floats]] = []
    with ThreadPoolExecutor(workers or _processors()) as pool:
        waiting = [pool.submit(run, at) for at in range(len(blocks))]
        try:
            for at, future in enumerate(waiting):
                found.append(future.result())
                progress(min((at + 1) * LANES, len(settings)), len(settings))
        except BaseException:
            stopped.set()  # else the pool waits for what is being solved, however long
            for future in waiting:
                future.cancel()
            raise
    whole = {key: np.concatenate([part[key] for part in found]) for key in found[0]}
    samples = None
    if trace:
        keys = ("queue_bytes", "rate_gbps", "pausing")
        samples = Trace(timing.sample_times_us, *(whole.pop(key) for key in keys))
    return FluidResult(network, timing, **whole, trace=samples)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _check_memory(made: Net, lanes: int) -> None:
    flows, queues, ingresses = made.flow_count.size, made.queue_rate.size, made.ingress_switch.size
    columns = flows + made.strand_flow.size + 2 * queues + ingresses
    history = layout.slots(made) * columns * min(lanes, LANES) * 8
    if history > MAX_SAMPLE_BYTES:
        raise WatermarkError(
            f"the longest delay is {layout.slots(made):,} steps, whose history would take "
            f"{history / 2**30:.1f} GiB; longer steps (step_us) or shorter delays take less"
        )
    needed = made.steps // made.sample_every * (flows + queues + ingresses) * lanes * 8
    if needed > MAX_SAMPLE_BYTES:
        raise WatermarkError(
            f"samples of {lanes} settings would take {needed / 2**30:.1f} GiB; sample less often "
            f"(sample_us)"
        )


def _block(
    network: Network,
    made: Net,
    rules: Rules,
    marks: Marks,
    lanes: int,
    trace: bool,
    stopped: Event,
) -> dict[str, Floats]:
    # Imported here: whoever only reads settings need not wait for the compiler.
    from sglb.watermark.kernel import advance

    state, tally = layout.state(network, made, lanes), layout.tally(made, lanes)
    room = layout.work(made, lanes)
    flat = layout.flat(room)
    for begin in range(0, made.steps, _STEPS_AT_ONCE):
        if stopped.is_set():
            raise CancelledError
        end = min(begin + _STEPS_AT_ONCE, made.steps)
        advance(rules, made, marks, state, room, flat, tally, begin, end)
    found = _averages(made, rules, state, tally) | _balance(made, state, tally)
    if trace:
        found["queue_bytes"] = tally.depth.transpose(2, 0, 1)
        found["rate_gbps"] = tally.rates.transpose(2, 0, 1) * _GBPS_PER_BYTES_US
        found["pausing"] = tally.stopped.transpose(2, 0, 1)
    return found


def _averages(made: Net, rules: Rules, state: State, tally: Tally) -> dict[str, Floats]:
    steps = made.steps - made.measure_from
    span_us = steps * rules.dt
    last = made.flow_at[1:] - 1
    passed = state.passed[made.steps % state.passed.shape[0]]
    mean = tally.depth_sum / steps
    variance = np.maximum(tally.depth_square / steps - mean**2, 0.0)
    first_sample = -(-(made.measure_from + 1) // made.sample_every) - 1
    sampled = tally.depth[first_sample:] if len(tally.depth) > first_sample else tally.depth[-1:]
    out = (passed[last] - tally.passed_then[last]) / span_us / made.flow_count[:, None]
    found = {
        "throughput_gbps": out * _GBPS_PER_BYTES_US,
        "utilisation": tally.served / span_us / made.queue_rate[:, None],
        "queue_mean_bytes": mean,
        "queue_std_bytes": np.sqrt(variance),
        "queue_p99_bytes": np.percentile(sampled, 99, axis=0, method="higher"),
        "queue_max_bytes": tally.depth_max,
        "marked_share": tally.marked / np.maximum(tally.served, 1e-300),
        "paused_share": tally.paused / span_us,
        "pauses": tally.pauses,
        "headroom_max_bytes": tally.head_max,
        "lost_bytes": np.add.reduceat(tally.lost - tally.lost_then, made.flow_at[:-1]),
        "completion_us": np.where(tally.done < 0, np.nan, tally.done),
    }
    return {key: value.T for key, value in found.items()}


def _balance(made: Net, state: State, tally: Tally) -> dict[str, Floats]:
    """Where all bytes are at the end; in flight is what left a source or queue and has not arrived."""
    end = made.steps % state.passed.shape[0]
    sent = (state.sent[end] * made.flow_count[:, None]).sum(axis=0)
    passed = state.passed[end]
    last = made.flow_at[1:] - 1
    delivered, queued = passed[last].sum(axis=0), state.held.sum(axis=0)
    flying = np.zeros_like(sent)
    for m, prev in enumerate(made.strand_prev):
        f = made.strand_flow[m]
        put = state.sent[:, f] * made.flow_count[f] if prev < 0 else state.passed[:, prev]
        flying += put[end] - _lagged(put, made.steps, made.strand_delay[m])
    return {
        "sent_bytes": sent,
        "delivered_bytes": delivered,
        "queued_bytes": queued,
        "in_flight_bytes": flying,
        "lost_total_bytes": tally.lost.sum(axis=0),
    }


def _lagged(history: Floats, now: int, delay: float) -> Floats:
    """A column of history `delay` steps ago, interpolated."""
    low = int(np.floor(now - delay))
    part = now - delay - low
    first, second = history[low % len(history)], history[(low + 1) % len(history)]
    return np.asarray((1 - part) * first + (part * second if part else 0.0))
