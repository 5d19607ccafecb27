"""Every algorithm against sums and copies that numpy makes of all ranks' data."""

from __future__ import annotations

import numpy as np
import pytest
from memory_network import Rank, run

from sglb.collective import algorithms
from sglb.collective.algorithms import direct, pairwise, ring, tree


class Sum:
    """Addition of one numpy type, with or without a division at the end."""

    def __init__(self, kind: type, divisor: int = 1) -> None:
        self.kind = np.dtype(kind)
        self.itemsize = self.kind.itemsize
        self.divisor = divisor

    def combine(self, first: memoryview, second: memoryview, out: memoryview) -> None:
        a, b, c = (np.frombuffer(view, self.kind) for view in (first, second, out))
        np.add(a, b, out=c)

    def finish(self, out: memoryview) -> None:
        if self.divisor > 1:
            np.frombuffer(out, self.kind)[:] //= self.divisor


def _data(size: int, items: int, kind: type = np.int64) -> list[np.ndarray]:
    rng = np.random.default_rng(size * 1000 + items)
    if kind is np.int64:
        return [rng.integers(-1000, 1000, items) for _ in range(size)]
    return [rng.standard_normal(items).astype(kind) for _ in range(size)]


def _view(array: np.ndarray) -> memoryview:
    return array.view(np.uint8).data


SIZES = [1, 2, 3, 4, 5, 8, 9, 13]
ITEMS = [0, 1, 7, 1000, 5001]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("items", ITEMS)
def test_all_reduce_that_is_chosen_by_size(size: int, items: int) -> None:
    data = _data(size, items)
    total = np.sum(data, axis=0) // size
    run(size, lambda x: algorithms.all_reduce(x, _view(data[x.rank]), Sum(np.int64, size)))
    for array in data:
        assert (array == total).all()


ALL_REDUCES = {
    "at once": direct.all_reduce_at_once,
    "direct": lambda x, d, r: direct.all_reduce(x, d, r, 4096),
    "doubling": tree.all_reduce,
    "ring": lambda x, d, r: ring.all_reduce(x, d, r, 4096),
}


@pytest.mark.parametrize("name", ALL_REDUCES)
@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_all_reduces_give_all_ranks_the_same_bits_every_time(name: str, size: int) -> None:
    original = _data(size, 40_000, np.float32)
    results = []
    for _ in range(2):
        data = [array.copy() for array in original]
        run(size, lambda x, d=data: ALL_REDUCES[name](x, _view(d[x.rank]), Sum(np.float32)))
        results += [array.tobytes() for array in data]
    assert len(set(results)) == 1
    np.testing.assert_allclose(
        np.frombuffer(results[0], np.float32),
        np.sum(np.array(original, np.float64), axis=0),
        atol=1e-4,
    )


@pytest.mark.parametrize("name", ["at once", "direct"])
def test_direct_algorithms_add_in_rank_order(name: str) -> None:
    data = _data(4, 9000, np.float32)
    wanted = ((data[0] + data[1]) + data[2]) + data[3]
    run(4, lambda x: ALL_REDUCES[name](x, _view(data[x.rank]), Sum(np.float32)))
    assert [array.tobytes() for array in data] == [wanted.tobytes()] * 4


@pytest.mark.parametrize("size", [2, 3, 5, 9])
@pytest.mark.parametrize("items", [3, 60_000])
@pytest.mark.parametrize("in_place", [True, False])
def test_reduce_leaves_other_ranks_as_they_were(size: int, items: int, in_place: bool) -> None:
    data = _data(size, items)
    before = [array.copy() for array in data]
    root = size - 1
    out = data[root] if in_place else np.empty_like(data[root])

    def body(x: Rank) -> None:
        view = _view(data[x.rank])
        into = view if in_place else _view(out)
        algorithms.reduce(x, view, into if x.rank == root else None, root, Sum(np.int64))

    run(size, body)
    assert (out == np.sum(before, axis=0)).all()
    for rank in range(size - 1):
        assert (data[rank] == before[rank]).all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("items", [1, 20_000])
def test_broadcast(size: int, items: int) -> None:
    for root in {0, size // 2}:
        data = _data(size, items)
        wanted = data[root].copy()
        run(size, lambda x, d=data, r=root: algorithms.broadcast(x, _view(d[x.rank]), r))
        for array in data:
            assert (array == wanted).all()


@pytest.mark.parametrize("size", [2, 4, 5])
def test_pieces_travel_along_a_chain_and_to_the_root(size: int) -> None:
    data = _data(size, 9001)
    wanted, total = data[1].copy(), np.sum(data, axis=0)
    sums = np.empty_like(total)

    def body(x: Rank) -> None:
        into = _view(sums) if x.rank == 0 else None
        direct.reduce_in_segments(x, _view(data[x.rank]), into, 0, Sum(np.int64), 4096)
        ring.broadcast(x, _view(data[x.rank]), 1, 4096)

    run(size, body)
    assert (sums == total).all()
    for array in data:
        assert (array == wanted).all()


@pytest.mark.parametrize("size", SIZES)
def test_all_gather_of_blocks_of_different_sizes(size: int) -> None:
    data = [np.full(rank * 700, rank, np.int64) for rank in range(size)]
    outputs = [[np.full(rank * 700, -1) for rank in range(size)] for _ in range(size)]

    def body(x: Rank) -> None:
        algorithms.all_gather(x, _view(data[x.rank]), [_view(o) for o in outputs[x.rank]])

    run(size, body)
    for rank in range(size):
        for output, wanted in zip(outputs[rank], data, strict=True):
            assert (output == wanted).all()


REDUCE_SCATTERS = {
    "chosen by size": algorithms.reduce_scatter,
    "direct": lambda *args: direct.reduce_scatter(*args, 4096),
    "ring": lambda *args: ring.reduce_scatter(*args, 4096),
}


@pytest.mark.parametrize("name", REDUCE_SCATTERS)
@pytest.mark.parametrize("size", [2, 3, 5, 9])
@pytest.mark.parametrize("items", [1, 7001])
def test_reduce_scatter_leaves_inputs_as_they_were(name: str, size: int, items: int) -> None:
    inputs = [_data(size, items + 17 * rank) for rank in range(size)]  # inputs[target][source]
    before = [[one.copy() for one in row] for row in inputs]
    out = [np.empty(items + 17 * rank, np.int64) for rank in range(size)]

    def body(x: Rank) -> None:
        mine = [_view(inputs[target][x.rank]) for target in range(size)]
        REDUCE_SCATTERS[name](x, mine, _view(out[x.rank]), Sum(np.int64))

    run(size, body)
    for rank in range(size):
        assert (out[rank] == np.sum(before[rank], axis=0)).all()
        for one, wanted in zip(inputs[rank], before[rank], strict=True):
            assert (one == wanted).all()


@pytest.mark.parametrize("size", [*SIZES, 20])
def test_all_to_all_with_sizes_of_each_pair(size: int) -> None:
    def block(source: int, target: int) -> np.ndarray:
        return np.full((source + 2 * target) % 5, source * 100 + target, np.int64)

    def body(x: Rank) -> None:
        inputs = [_view(block(x.rank, target)) for target in range(size)]
        outputs = [np.empty_like(block(source, x.rank)) for source in range(size)]
        pairwise.all_to_all(x, inputs, [_view(output) for output in outputs])
        for source, output in enumerate(outputs):
            assert (output == block(source, x.rank)).all()

    run(size, body)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_gather_and_scatter_are_inverse(size: int) -> None:
    root = size // 2
    data = _data(size, 500)
    gathered = [np.empty_like(array) for array in data]
    scattered = [np.empty_like(array) for array in data]

    def body(x: Rank) -> None:
        mine = x.rank == root
        views = [_view(array) for array in gathered] if mine else None
        pairwise.gather(x, _view(data[x.rank]), views, root)
        pairwise.scatter(x, views, _view(scattered[x.rank]), root)

    run(size, body)
    for array, copy in zip(data, scattered, strict=True):
        assert (array == copy).all()


@pytest.mark.parametrize("size", SIZES)
def test_nobody_leaves_a_barrier_before_all_have_come(size: int) -> None:
    came: list[int] = []
    seen: list[int] = []

    def body(x: Rank) -> None:
        came.append(x.rank)
        tree.barrier(x)
        seen.append(len(came))

    run(size, body)
    assert seen == [size] * size


def test_few_ranks_move_no_more_than_the_least_that_an_all_reduce_can() -> None:
    data = _data(4, 80_000, np.int64)
    network = run(4, lambda x: algorithms.all_reduce(x, _view(data[x.rank]), Sum(np.int64)))
    # Each rank sends a quarter to three others twice; 160,000 bytes are one piece.
    assert network.messages == 4 * 3 * 2
