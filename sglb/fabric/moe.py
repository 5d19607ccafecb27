"""Mixture-of-experts traffic: tokens to their experts (dispatch) and results back (combine).

N hosts with E / N experts each, in order. Every host has `tokens` tokens; each goes to `top_k`
different experts, drawn one after the other without replacement, expert of rank k (from 1) with the
weight 1 / k^skew; which expert has which rank is dealt at random. So popular experts, and with them
their hosts, get more: an uneven all-to-all.

A token travels once to a host however many of its experts are there, and one vector of the same size
comes back for it. A host sends results back once all tokens for it have come (a batch is computed as a
whole); computing takes no time.

Rail-aware (machines of g GPUs): a token travels once to a *machine*, from its GPU to the GPU of the
same rail there, which passes copies over NVLink to the GPUs of its experts; results come back the same
way. Both NVLink steps are one delay before the combine flows, that of the machine's busiest GPU.
Without it, tokens for other GPUs of the own machine use NVLink beside the fabric and are left out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sglb.fabric.collectives import ONE_GPU, Machines
from sglb.fabric.workload import Flow, Workload, WorkloadError, members


@dataclass(frozen=True, slots=True)
class MoeShape:
    """Sizes of one layer's exchange; see the module's text."""

    tokens: int
    token_bytes: int
    experts: int
    top_k: int
    skew: float = 0.0
    combine: bool = True

    def check(self, hosts: int) -> None:
        """Raises `WorkloadError` for a shape that so many hosts cannot have."""
        if self.experts % hosts:
            raise WorkloadError(
                f"moe: {self.experts} experts cannot be dealt evenly to {hosts} hosts"
            )
        if self.top_k > self.experts:
            raise WorkloadError(f"moe: top_k {self.top_k} is more than {self.experts} experts")


def moe(
    hosts: Sequence[int],
    shape: MoeShape,
    rng: random.Random,
    start_ps: int = 0,
    machines: Machines = ONE_GPU,
    rail_aware: bool = False,
) -> Workload:
    """Dispatch, and combine if the shape has it, among `hosts`; choices are drawn from `rng`.

    Raises `WorkloadError` for impossible shapes, and when no token leaves its host.
    """
    count = members(hosts, "moe", 2 * (len(hosts) - 1))
    shape.check(count)
    if machines.size > 1:
        machines.count(count, "moe")
    choices = draw(count, shape, rng)
    to_gpu = _token_counts(choices, shape.experts // count, count)
    return _flows(hosts, shape, to_gpu, choices, start_ps, machines, rail_aware)


Choices = npt.NDArray[np.int64]


def draw(hosts: int, shape: MoeShape, rng: random.Random) -> Choices:
    """Experts of every token, shape (hosts, tokens, top_k)."""
    bits = np.random.Generator(np.random.PCG64(rng.getrandbits(128)))
    ranks = list(range(shape.experts))
    rng.shuffle(ranks)
    weights = np.array([(rank + 1.0) ** -shape.skew for rank in ranks])
    ends = np.cumsum(weights) / weights.sum()
    ends[-1] = 1.0
    found = np.empty((hosts, shape.tokens, shape.top_k), dtype=np.int64)
    flat = found.reshape(-1, shape.top_k)
    for k in range(shape.top_k):
        open_rows = np.arange(len(flat))
        # Drawing again what was drawn before is drawing without replacement.
        while len(open_rows):
            drawn = np.searchsorted(ends, bits.random(len(open_rows)), side="right")
            flat[open_rows, k] = drawn
            again = (flat[open_rows, :k] == drawn[:, None]).any(axis=1)
            open_rows = open_rows[again]
    return found


def _token_counts(choices: Choices, per_host: int, count: int) -> npt.NDArray[np.int64]:
    """[i, j]: tokens of host i with an expert at host j."""
    return np.stack([_reached(rows // per_host, count).sum(axis=0) for rows in choices])


def _reached(places: Choices, count: int) -> npt.NDArray[np.bool_]:
    """[token, place]: whether the token has an expert there."""
    hit = np.zeros((len(places), count), dtype=np.bool_)
    np.put_along_axis(hit, places, True, axis=1)
    return hit


def _flows(
    hosts: Sequence[int],
    shape: MoeShape,
    to_gpu: npt.NDArray[np.int64],
    choices: Choices,
    start_ps: int,
    machines: Machines,
    rail_aware: bool,
) -> Workload:
    count, g = len(hosts), machines.size
    if rail_aware:
        sent, inside = _by_rail(choices, shape.experts // count, count, g)
        nvlink = [machines.nvlink_ps(int(n) * shape.token_bytes) for n in inside]
    else:
        sent, nvlink = to_gpu, [0] * (count // g)
    pairs = [(i, (i + k) % count) for i in range(count) for k in range(1, count)]
    pairs = [(i, j) for i, j in pairs if i // g != j // g and sent[i, j]]
    if not pairs:
        raise WorkloadError("moe: no token leaves its machine")
    size = {(i, j): int(sent[i, j]) * shape.token_bytes for i, j in pairs}
    flows = [Flow(n, hosts[i], hosts[j], size[i, j], start_ps) for n, (i, j) in enumerate(pairs)]
    if not shape.combine:
        return Workload("moe", tuple(flows), tail_ps=max(nvlink))
    # What a host computes must be there: all for itself, or all for its machine.
    group = g if rail_aware else 1
    into: dict[int, list[int]] = {}
    for n, (_, j) in enumerate(pairs):
        into.setdefault(j // group, []).append(n)
    after = {place: tuple(arriving) for place, arriving in into.items()}
    back = sorted(((j, (i - j) % count, i) for i, j in pairs))
    for j, _, i in back:
        delay_ps = 2 * nvlink[j // g]
        before = after[j // group]
        n = len(flows)
        flows.append(Flow(n, hosts[j], hosts[i], size[i, j], start_ps, before, 1, delay_ps))
    return Workload("moe", tuple(flows))


def _by_rail(
    choices: Choices, per_host: int, count: int, g: int
) -> tuple[npt.NDArray[np.int64], list[int]]:
    """Tokens from GPU to GPU of its rail, and for each machine the copies its busiest GPU passes on."""
    sent = np.zeros((count, count), dtype=np.int64)
    copies = np.zeros((count, g), dtype=np.int64)  # [GPU that has the token, GPU of its machine]
    for i in range(count):
        rail = i % g
        at_gpu = _reached(choices[i] // per_host, count)
        at_machine = at_gpu.reshape(len(at_gpu), count // g, g)
        for machine, tokens in enumerate(at_machine.any(axis=2).sum(axis=0)):
            relay = machine * g + rail
            if relay != i:
                sent[i, relay] = tokens
            copies[relay] += at_machine[:, machine, :].sum(axis=0)
    copies[np.arange(count), np.arange(count) % g] = 0
    out = copies.sum(axis=1).reshape(-1, g)
    into = copies.reshape(-1, g, g).sum(axis=1)
    return sent, [int(n) for n in np.maximum(out, into).max(axis=1)]
