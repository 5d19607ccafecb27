"""Workloads against flows and dependencies written out by hand."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.fabric.collectives import all_to_all, ring_all_reduce
from sglb.fabric.workload import Flow, Workload, WorkloadError, flow_list, incast, permutation


def test_all_to_all_is_staggered() -> None:
    work = all_to_all([10, 20, 30], 99, start_ps=5)
    assert [(f.src, f.dst) for f in work.flows] == [
        (10, 20),
        (10, 30),
        (20, 30),
        (20, 10),
        (30, 10),
        (30, 20),
    ]
    assert {(f.size_bytes, f.start_ps, f.after) for f in work.flows} == {(99, 5, ())}
    assert (work.start_ps, work.total_bytes) == (5, 6 * 99)


def test_ring_of_three_by_hand() -> None:
    # 10 bytes over 3 hosts: chunks of 4, 3, 3. Step s: host i sends chunk (i - s) mod 3.
    work = ring_all_reduce([7, 8, 9], 10)
    chunk = [4, 3, 3]
    sends = [(0, 1, 2), (2, 0, 1), (1, 2, 0), (0, 1, 2)]  # chunk sent by hosts 0, 1, 2 a step
    assert [f.size_bytes for f in work.flows] == [chunk[c] for step in sends for c in step]
    assert [(f.src, f.dst) for f in work.flows] == [(7, 8), (8, 9), (9, 7)] * 4
    assert [f.step for f in work.flows] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    # Host 1 (flow 4) forwards in step 1 what host 0 sent in step 0 (flow 0), and so on.
    assert [f.after for f in work.flows[3:6]] == [(2,), (0,), (1,)]
    assert [f.after for f in work.flows[9:]] == [(8,), (6,), (7,)]


@given(st.integers(2, 9), st.integers(0, 50))
def test_ring_reduces_and_gathers_every_chunk_everywhere(count: int, extra: int) -> None:
    work = ring_all_reduce(list(range(count)), count + extra)
    # Replay: a host that receives chunk c adds the sender's contributions to its own.
    have = [[{host} for _ in range(count)] for host in range(count)]
    for step in range(2 * (count - 1)):
        sent = [(i, (i - step) % count) for i in range(count)]
        snapshot = {(i, c): set(have[i][c]) for i, c in sent}
        for i, c in sent:
            have[(i + 1) % count][c] |= snapshot[i, c]
    assert all(chunk == set(range(count)) for host in have for chunk in host)
    assert sum(f.size_bytes for f in work.flows) == 2 * (count - 1) * (count + extra)


def test_incast_and_flow_list() -> None:
    assert [(f.src, f.dst, f.size_bytes) for f in incast(5, [1, 2], 8).flows] == [
        (1, 5, 8),
        (2, 5, 8),
    ]
    assert flow_list([(1, 2, 3, 4)]).flows == (Flow(0, 1, 2, 3, 4),)


@given(st.integers(2, 30), st.integers(0, 1000))
def test_permutation_is_one_cycle_and_depends_on_the_seed_alone(count: int, seed: int) -> None:
    hosts = [100 + i for i in range(count)]
    work = permutation(hosts, 1, random.Random(seed))
    image = {f.src: f.dst for f in work.flows}
    at, seen = hosts[0], []
    for _ in hosts:
        seen.append(at)
        at = image[at]
    assert sorted(seen) == hosts
    assert permutation(hosts, 1, random.Random(seed)) == work


def test_nonsense_is_refused() -> None:
    for make, message in (
        (lambda: all_to_all([1], 1), "all_to_all needs at least 2 hosts, got 1"),
        (lambda: all_to_all([1, 1], 1), "names a host twice"),
        (lambda: all_to_all(range(1450), 1), "of 1450 hosts has more than 2097152 flows"),
        (lambda: ring_all_reduce([1, 2, 3], 2), "less than a byte a host"),
        (lambda: incast(1, [1], 1), "from host 1 to itself"),
        (lambda: incast(1, [], 1), "workload incast has no flow"),
        (lambda: incast(1, [2], 0), "has 0 bytes"),
        (
            lambda: Workload("w", (Flow(0, 1, 2, 1, after=(0,)),)),
            "flow 0 waits for one that is not",
        ),
        (lambda: Workload("w", (Flow(1, 1, 2, 1),)), "flow 1 is out of order"),
        (lambda: Flow(0, 1, 2, 1, delay_ps=1), "has a delay after nothing"),
    ):
        with pytest.raises(WorkloadError, match=message):
            make()
