"""Mixture of experts: flows by hand where all is certain, frequencies where it is drawn."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from sglb.fabric.collectives import Machines
from sglb.fabric.moe import MoeShape, draw, moe
from sglb.fabric.workload import WorkloadError

PAIRS = Machines(2, 8_000_000_000_000)  # a byte a ps


def test_every_token_to_every_host_by_hand() -> None:
    work = moe([5, 6, 7], MoeShape(10, 4, 6, 6), random.Random(1), 9)
    ends = [(f.src, f.dst) for f in work.flows]
    assert ends[:6] == [(5, 6), (5, 7), (6, 7), (6, 5), (7, 5), (7, 6)]
    assert ends[6:] == [(5, 6), (5, 7), (6, 7), (6, 5), (7, 5), (7, 6)]
    assert {f.size_bytes for f in work.flows} == {40}
    assert [f.after for f in work.flows[6:]] == [(3, 4), (3, 4), (0, 5), (0, 5), (1, 2), (1, 2)]
    assert [f.step for f in work.flows] == [0] * 6 + [1] * 6
    assert {f.start_ps for f in work.flows} == {9}
    # Flows behind one barrier share a gate.
    assert len(work.gates().members) == 3


def test_dispatch_alone() -> None:
    work = moe([5, 6], MoeShape(1, 4, 2, 2, combine=False), random.Random(1))
    assert [(f.src, f.dst, f.size_bytes) for f in work.flows] == [(5, 6, 4), (6, 5, 4)]


def test_rail_aware_by_hand() -> None:
    work = moe([10, 11, 20, 21], MoeShape(5, 2, 4, 4), random.Random(1), 0, PAIRS, rail_aware=True)
    assert [(f.src, f.dst, f.size_bytes) for f in work.flows[:4]] == [
        (10, 20, 10),
        (11, 21, 10),
        (20, 10, 10),
        (21, 11, 10),
    ]
    # A GPU has 5 tokens of its own and 5 of the other machine for its neighbour: 10 x 2 bytes there,
    # and as much back. Results wait for both GPUs of the machine.
    back = work.flows[4:]
    assert [(f.src, f.dst, f.after, f.delay_ps) for f in back] == [
        (10, 20, (2, 3), 40),
        (11, 21, (2, 3), 40),
        (20, 10, (0, 1), 40),
        (21, 11, (0, 1), 40),
    ]
    alone = moe(
        [10, 11, 20, 21],
        MoeShape(5, 2, 4, 4, combine=False),
        random.Random(1),
        0,
        PAIRS,
        rail_aware=True,
    )
    assert alone.tail_ps == 20


def test_without_rails_a_token_goes_to_each_gpu_but_those_of_its_machine() -> None:
    work = moe([10, 11, 20, 21], MoeShape(3, 2, 4, 4), random.Random(1), 0, PAIRS)
    first = [(f.src, f.dst, f.size_bytes) for f in work.flows[:8]]
    assert first[:2] == [(10, 20, 6), (10, 21, 6)]
    assert all(a // 10 != b // 10 for a, b, _ in first)
    assert {f.delay_ps for f in work.flows} == {0}


def test_drawn_with_the_weights_of_the_skew() -> None:
    choices = draw(1, MoeShape(60_000, 1, 3, 1, skew=1.0), random.Random(3))[0, :, 0]
    counts = sorted(np.bincount(choices, minlength=3).tolist(), reverse=True)
    for count, weight in zip(counts, (6 / 11, 3 / 11, 2 / 11), strict=True):
        sigma = math.sqrt(60_000 * weight * (1 - weight))
        assert abs(count - 60_000 * weight) < 5 * sigma


def test_drawn_without_replacement() -> None:
    choices = draw(1, MoeShape(60_000, 1, 3, 2, skew=1.0), random.Random(3))[0]
    assert (choices[:, 0] != choices[:, 1]).all()
    # Weights 6, 3, 2: the rarest expert is left out unless drawn first, or after one of the others:
    # 2/11 + 6/11 x 2/5 + 3/11 x 2/8.
    chance = 2 / 11 + 6 / 11 * 2 / 5 + 3 / 11 * 2 / 8
    drawn = min(int((choices == expert).sum()) for expert in range(3))
    assert abs(drawn - 60_000 * chance) < 5 * math.sqrt(60_000 * chance * (1 - chance))


def test_same_seed_same_flows() -> None:
    shape = MoeShape(50, 2, 16, 4, skew=1.0)
    works = [moe(range(8), shape, random.Random(seed)) for seed in (1, 1, 2)]
    assert works[0] == works[1] != works[2]


@pytest.mark.parametrize(
    ("hosts", "shape", "machines", "message"),
    [
        (3, MoeShape(1, 1, 4, 1), Machines(), "4 experts cannot be dealt evenly to 3 hosts"),
        (2, MoeShape(1, 1, 2, 3), Machines(), "top_k 3 is more than 2 experts"),
        (3, MoeShape(1, 1, 3, 1), PAIRS, "3 hosts do not fill machines"),
    ],
)
def test_impossible_shapes(hosts: int, shape: MoeShape, machines: Machines, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        moe(range(hosts), shape, random.Random(1), 0, machines)


def test_no_token_that_leaves() -> None:
    # One token a host and as many seeds as it takes for each to stay at home.
    with pytest.raises(WorkloadError, match="moe: no token leaves its machine"):
        [moe([1, 2], MoeShape(1, 1, 2, 1), random.Random(seed)) for seed in range(100)]
