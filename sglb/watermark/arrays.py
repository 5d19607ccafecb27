"""The arrays that the compiled step works on; axes and units as `sglb.watermark.kernel` says."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Rules(NamedTuple):
    """DCQCN's constants: times us, sizes packets, rates packets a microsecond.

    `bytes_packets` 0: no byte counter. `cut` is 2^-alpha_shift / CNP interval, `least` in bytes/us.
    """

    dt: float
    packet_bytes: float
    cnp_us: float
    alpha_us: float
    timer_us: float
    bytes_packets: float
    threshold: int
    g: float
    increase: float
    cut: float
    least: float


class Net(NamedTuple):
    """What all settings of a batch share.

    Of flow f: strands `flow_at[f]` to `flow_at[f + 1]`, source, number, line rate, first step, size
    (inf: endless). Of a strand: queue, ingress, the strand before (-1: a source), steps since then,
    steps until the sender reacts to its marks. Of queues and sources: what pauses them (an ingress, or
    -1), rate of one, and how many a source is. Of an ingress: switch, number, steps until its peer
    obeys, whether it pauses at all, steps that a pause lasts (0: until it is called off).
    """

    flow_at: Ints
    flow_source: Ints
    flow_count: Floats
    flow_line: Floats
    flow_start: Ints
    flow_bytes: Floats
    strand_flow: Ints
    strand_queue: Ints
    strand_ingress: Ints
    strand_prev: Ints
    strand_delay: Floats
    strand_feedback: Floats
    queue_rate: Floats
    queue_pauser: Ints
    source_rate: Floats
    source_count: Floats
    source_pauser: Ints
    ingress_switch: Ints
    ingress_count: Floats
    ingress_delay: Ints
    ingress_pauses: Ints
    pause_steps: float
    steps: int
    measure_from: int
    sample_every: int


class Marks(NamedTuple):
    """A batch's watermarks: Q x L, G x L (`xoff` 0: alpha x unused pool), W x L."""

    kmin: Floats
    kmax: Floats
    pmax: Floats
    alpha: Floats
    xoff: Floats
    xon: Floats
    room: Floats
    pool: Floats


class State(NamedTuple):
    """Where a batch stands: F x L, M x L, G x L, W x L, and H x (F, M, Q, Q, G) x L of history."""

    rate: Floats
    target: Floats
    alpha: Floats
    held: Floats
    shared: Floats
    head: Floats
    pausing: Floats
    left: Floats
    used: Floats
    sent: Floats
    passed: Floats
    logs: Floats
    chances: Floats
    pauses: Floats


class Work(NamedTuple):
    """Room for one step's intermediate results: F x L, M x L, Q x L, G x L, U x L."""

    heard: Floats
    pace: Floats
    cut: Floats
    goal: Floats
    chance: Floats
    kept: Floats
    up: Floats
    rise: Floats
    before: Floats
    come: Floats
    gone: Floats
    total: Floats
    share: Floats
    arrived: Floats
    left: Floats
    limit: Floats
    load: Floats


class Flat(NamedTuple):
    """The same memory as `Work`'s arrays of these names, in one dimension: F L."""

    heard: Floats
    pace: Floats
    cut: Floats
    goal: Floats
    chance: Floats
    kept: Floats
    up: Floats
    rise: Floats


class Tally(NamedTuple):
    """What a run found: sums, maxima and samples; `*_then` are counters as measuring began."""

    depth_sum: Floats
    depth_square: Floats
    depth_max: Floats
    served: Floats
    marked: Floats
    paused: Floats
    pauses: Floats
    head_max: Floats
    lost: Floats
    done: Floats
    passed_then: Floats
    lost_then: Floats
    depth: Floats
    rates: Floats
    stopped: Floats
