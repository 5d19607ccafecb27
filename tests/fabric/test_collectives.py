"""Collectives: who sends what to whom, after what, written out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.fabric.collectives import (
    Machines,
    all_gather,
    all_to_all,
    broadcast,
    double_binary_tree,
    hierarchical_all_reduce,
    reduce_scatter,
    ring_all_reduce,
    split,
    tree_all_reduce,
)
from sglb.fabric.workload import Flow, Workload, WorkloadError

# NVLink that carries a byte a picosecond: delays are bytes.
BYTE_A_PS = 8_000_000_000_000
PAIRS = Machines(2, BYTE_A_PS)


def _sent(work: Workload) -> list[tuple[int, int, int]]:
    return [(f.src, f.dst, f.size_bytes) for f in work.flows]


def test_split_leaves_the_first_parts_longer() -> None:
    assert split(11, 4) == [3, 3, 3, 2]
    assert split(2, 3) == [1, 1, 0]


def test_reduce_scatter_is_the_first_half_of_a_ring() -> None:
    work = reduce_scatter([7, 8, 9], 10, start_ps=4)
    assert work.flows == ring_all_reduce([7, 8, 9], 10, start_ps=4).flows[:6]
    assert [f.step for f in work.flows] == [0, 0, 0, 1, 1, 1]
    # Chunks 4, 3, 3: in step 1 host i passes on chunk i-1, which came from host i-1.
    assert _sent(work)[3:] == [(7, 8, 3), (8, 9, 4), (9, 7, 3)]
    assert [f.after for f in work.flows[3:]] == [(2,), (0,), (1,)]
    assert work.bus_bytes == pytest.approx(10 * 2 / 3)


def test_all_gather_passes_every_part_around() -> None:
    work = all_gather([7, 8, 9], 10)
    assert _sent(work) == [(7, 8, 4), (8, 9, 3), (9, 7, 3), (7, 8, 3), (8, 9, 4), (9, 7, 3)]
    assert work.bus_bytes == pytest.approx(10 * 2 / 3)


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    # 4 hosts, 8 bytes: 2 x 3/4 x 8 = 12 bytes; 96 bits in 1 ns.
    assert ring_all_reduce([1, 2, 3, 4], 8).bus_gbps(1_000) == pytest.approx(96)
    assert tree_all_reduce([1, 2, 3, 4], 8, 8).bus_gbps(1_000) == pytest.approx(96)
    assert all_to_all([1, 2, 3, 4], 4).bus_gbps(1_000) == pytest.approx(96)
    assert broadcast([1, 2, 3, 4], 1, 12, 4).bus_gbps(1_000) == pytest.approx(96)
    assert Workload("w", (Flow(0, 1, 2, 1),)).bus_gbps(1_000) == 0


@pytest.mark.parametrize(
    ("count", "first", "second"),
    [
        (2, [-1, 0], [1, -1]),
        (3, [-1, 2, 0], [1, -1, 0]),
        (4, [-1, 2, 0, 2], [1, 3, 1, -1]),
        (5, [-1, 2, 4, 2, 0], [1, -1, 3, 0, 3]),
    ],
)
def test_double_binary_tree_by_hand(count: int, first: list[int], second: list[int]) -> None:
    assert double_binary_tree(count) == (first, second)


@given(st.integers(2, 300))
def test_double_binary_tree_loads_no_rank_twice(count: int) -> None:
    inner = []
    for parents in double_binary_tree(count):
        assert parents.count(-1) == 1
        for rank in range(count):  # every rank reaches the root in few steps
            for _ in range(count.bit_length() + 1):
                rank = parents[rank] if parents[rank] >= 0 else rank
            assert rank == parents.index(-1)
        children = [parents.count(rank) for rank in range(count)]
        assert max(children) <= 2
        inner.append({rank for rank, n in enumerate(children) if n})
    assert inner[0] & inner[1] <= ({0} if count % 2 else set())


def test_tree_all_reduce_of_two_by_hand() -> None:
    work = tree_all_reduce([10, 20], 9, 3, start_ps=2)
    # Halves 5 and 4, in chunks of 3: 3+2 and 3+1. Tree one is rooted at 10, tree two at 20.
    assert _sent(work) == [
        (20, 10, 3),
        (10, 20, 3),
        (10, 20, 3),
        (20, 10, 3),
        (20, 10, 2),
        (10, 20, 2),
        (10, 20, 1),
        (20, 10, 1),
    ]
    assert [f.after for f in work.flows] == [(), (0,), (), (2,), (), (4,), (), (6,)]
    assert {f.start_ps for f in work.flows} == {2}


def test_tree_all_reduce_of_four_waits_for_children_and_parents() -> None:
    flows = tree_all_reduce([0, 1, 2, 3], 8, 8).flows[:6]  # one chunk in tree one
    # Up: leaves 1 and 3 to 2, then 2 to the root 0; down: 0 to 2, 2 to 1 and 3.
    assert [(f.src, f.dst) for f in flows] == [(3, 2), (1, 2), (2, 0), (0, 2), (2, 1), (2, 3)]
    assert [f.after for f in flows] == [(), (), (0, 1), (2,), (3,), (3,)]
    assert [f.step for f in flows] == [0, 0, 1, 2, 3, 3]


@given(st.integers(2, 40), st.integers(2, 500), st.integers(1, 100))
def test_tree_all_reduce_sends_everything_over_every_edge_twice(
    count: int, size: int, chunk: int
) -> None:
    work = tree_all_reduce(range(count), size, chunk)
    assert work.total_bytes == 2 * (count - 1) * size
    for n, parents in enumerate(double_binary_tree(count)):
        up = [f for f in work.flows if parents[f.src] == f.dst]
        assert {(f.src, f.dst) for f in up} >= {(r, p) for r, p in enumerate(parents) if p >= 0}, n


def test_hierarchical_all_reduce_by_hand() -> None:
    work = hierarchical_all_reduce([10, 11, 20, 21], 11, PAIRS, start_ps=100)
    # Shards 6 and 5 a rail, halves 3+3 and 3+2 a machine; a GPU gives the other 6 bytes at most.
    assert (work.lead_ps, work.tail_ps, work.start_ps) == (6, 6, 100)
    assert _sent(work) == [
        (10, 20, 3),
        (11, 21, 3),
        (20, 10, 3),
        (21, 11, 2),
        (10, 20, 3),
        (11, 21, 2),
        (20, 10, 3),
        (21, 11, 3),
    ]
    assert [f.after for f in work.flows[4:]] == [(2,), (3,), (0,), (1,)]
    assert {f.start_ps for f in work.flows} == {106}
    assert work.bus_bytes == pytest.approx(11 * 2 * 3 / 4)


def test_broadcast_passes_chunks_along_a_chain() -> None:
    work = broadcast([5, 6, 7], 6, 10, 4, start_ps=1)
    assert _sent(work) == [(6, 7, 4), (7, 5, 4), (6, 7, 4), (7, 5, 4), (6, 7, 2), (7, 5, 2)]
    assert [f.after for f in work.flows] == [(), (0,), (), (2,), (), (4,)]


def test_uneven_all_to_all() -> None:
    work = all_to_all([5, 6, 7], [[9, 1, 2], [0, 9, 3], [4, 0, 9]])
    assert _sent(work) == [(5, 6, 1), (5, 7, 2), (6, 7, 3), (7, 5, 4)]
    assert work.bus_bytes == pytest.approx(10 / 3)


def test_all_to_all_leaves_pairs_in_a_machine_to_nvlink() -> None:
    work = all_to_all([10, 11, 20, 21], 7, 0, PAIRS)
    assert {(f.src, f.dst) for f in work.flows} == {
        (a, b) for pair in ((10, 11), (20, 21)) for a in pair for b in {10, 11, 20, 21} - set(pair)
    }
    assert (work.lead_ps, {f.size_bytes for f in work.flows}) == (0, {7})


def test_rail_aware_all_to_all_hands_over_first() -> None:
    work = all_to_all([10, 11, 20, 21], 7, 50, PAIRS, rail_aware=True)
    # A machine's 2 x 7 bytes for a GPU go from its rail; over NVLink a GPU gives away what is for
    # the other rail: (g-1) (N/g) m = 14 bytes.
    assert _sent(work) == [(10, 20, 14), (11, 21, 14), (20, 10, 14), (21, 11, 14)]
    assert (work.lead_ps, work.start_ps) == (14, 50)
    assert {f.start_ps for f in work.flows} == {64}
    assert work.bus_bytes == 21


def test_rail_aware_all_to_all_of_uneven_sizes() -> None:
    matrix = [[0, 0, 0, 5], [0, 0, 0, 6], [0, 0, 0, 0], [1, 0, 0, 0]]
    work = all_to_all([10, 11, 20, 21], matrix, 0, PAIRS, rail_aware=True)
    assert _sent(work) == [(11, 21, 11), (20, 10, 1)]
    assert work.lead_ps == 5  # 10 gives 11 what is for 21


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: reduce_scatter([1], 9), "reduce_scatter needs at least 2 hosts"),
        (lambda: all_gather([1, 2, 3], 2), "all_gather of 2 bytes is less than a byte a host"),
        (lambda: tree_all_reduce([1, 2], 1, 1), "leaves nothing for the second tree"),
        (lambda: tree_all_reduce(range(1000), 10**9, 1), "has more than 2097152 flows"),
        (
            lambda: hierarchical_all_reduce([1, 2, 3], 9, PAIRS),
            "3 hosts do not fill machines of gpus_per_host: 2",
        ),
        (lambda: hierarchical_all_reduce([1, 2], 9, PAIRS), "are in one machine, nothing to send"),
        (lambda: hierarchical_all_reduce([1, 2, 3, 4], 3, PAIRS), "less than a byte a host"),
        (lambda: broadcast([1, 2], 3, 9, 9), "root is not among its hosts"),
        (lambda: all_to_all([1, 2], [[0, 1]]), "bytes_matrix has 1 rows for 2 hosts"),
        (lambda: all_to_all([1, 2], [[0, 1], [1]]), "row 1 of bytes_matrix has 1 entries"),
        (lambda: all_to_all([1, 2], [[0, 0], [0, 0]]), "has no flow"),
    ],
)
def test_impossible_shapes(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(WorkloadError, match=message):
        make()
