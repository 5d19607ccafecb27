"""Each operation of the process group against what plain tensors say."""

from __future__ import annotations

import random
import threading
from datetime import timedelta

import pytest
import torch
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    _make_nccl_premul_sum,
)
from torch.distributed import ReduceOp
from torch_kit import run

from sglb.collective.backend import ReCCL


def _of(rank: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 + rank)
    values = torch.randint(1, 9, shape, generator=generator)
    return values.to(dtype)


def _sync(kind: type, **fields: object) -> object:
    """Options of a synchronous call."""
    opts = kind()
    opts.asyncOp = False
    for name, value in fields.items():
        setattr(opts, name, value)
    return opts


INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
EXPECTED = {
    "SUM": lambda a, b, c: a + b + c,
    "PRODUCT": lambda a, b, c: a * b * c,
    "MIN": lambda a, b, c: a.minimum(b).minimum(c),
    "MAX": lambda a, b, c: a.maximum(b).maximum(c),
    "BAND": lambda a, b, c: a & b & c,
    "BOR": lambda a, b, c: a | b | c,
    "BXOR": lambda a, b, c: a ^ b ^ c,
    "AVG": lambda a, b, c: (a + b + c) / 3,
}


def test_all_reduce_takes_every_type_and_operator_that_has_a_meaning() -> None:
    cases = [(name, t) for name in EXPECTED if name != "AVG" for t in [*INTEGERS, torch.bool]]
    cases += [(name, t) for name in EXPECTED if not name.startswith("B") for t in FLOATS]
    cases += [(name, t) for name in ("SUM", "AVG") for t in (torch.complex64, torch.complex128)]

    def body(group: ReCCL) -> None:
        for name, dtype in cases:
            every = [_of(rank, 5, 3, dtype=dtype) for rank in range(3)]
            mine = every[group.rank()].clone()
            group.allreduce([mine], _sync(AllreduceOptions, reduceOp=getattr(ReduceOp, name)))
            torch.testing.assert_close(
                mine,
                EXPECTED[name](*every),
                rtol=1e-6 if name == "AVG" else 0,
                atol=0,
                msg=f"{name} {dtype}",
            )

    run(3, body)


def test_premultiplied_sums_scale_each_input() -> None:
    def body(group: ReCCL) -> None:
        tensor = torch.full((4,), group.rank() + 1.0)
        opts = AllreduceOptions()
        opts.reduceOp = _make_nccl_premul_sum(0.5)
        group.allreduce([tensor], opts).wait()
        assert tensor.tolist() == [1.5] * 4
        out, parts = torch.empty(2), [torch.full((2,), 2.0), torch.full((2,), 4.0)]
        scatter = ReduceScatterOptions()
        scatter.reduceOp = opts.reduceOp
        group.reduce_scatter([out], [parts], scatter).wait()
        assert out.tolist() == [[2.0, 2.0], [4.0, 4.0]][group.rank()]
        assert parts[0].tolist() == [2.0, 2.0]  # inputs stay

    run(2, body)


def test_minimum_and_maximum_pass_on_that_something_is_no_number() -> None:
    def body(group: ReCCL) -> None:
        for rank in range(2):
            for dtype in (torch.float32, torch.bfloat16):
                for op in (ReduceOp.MIN, ReduceOp.MAX):
                    tensor = torch.tensor([float("nan") if group.rank() == rank else 1.0, 2.0])
                    tensor = tensor.to(dtype)
                    group.allreduce([tensor], _sync(AllreduceOptions, reduceOp=op))
                    assert tensor.isnan().tolist() == [True, False]

    run(2, body)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("BAND", torch.float32),
        ("AVG", torch.int64),
        ("MAX", torch.complex64),
        ("SUM", torch.uint16),
    ],
)
def test_a_reduction_without_meaning_is_refused_before_anything_is_sent(
    name: str, dtype: torch.dtype
) -> None:
    def body(group: ReCCL) -> None:
        opts = AllreduceOptions()
        opts.reduceOp = getattr(ReduceOp, name)
        with pytest.raises(ValueError, match=str(dtype)):
            group.allreduce([torch.ones(3, dtype=dtype)], opts)

    run(1, body)


def test_reductions_to_one_and_scattered() -> None:
    def body(group: ReCCL) -> None:
        r = group.rank()
        for items in (2, 50_000):
            every = [_of(rank, 3 * items) for rank in range(3)]
            mine = every[r].clone()
            group.reduce([mine], _sync(ReduceOptions, rootRank=1))
            assert mine.equal(sum(every) if r == 1 else every[r])

            out = torch.empty(items)
            parts = list(every[r].clone().split(items))
            group.reduce_scatter([out], [parts], _sync(ReduceScatterOptions))
            wanted = sum(every).split(items)[r]
            assert out.equal(wanted)
            out.zero_()
            group.reduce_scatter_single(out, every[r], _sync(ReduceScatterOptions))
            assert out.equal(wanted)
            # In place: the output is the rank's part of the input.
            whole = every[r].clone()
            part = whole.split(items)[r]
            group.reduce_scatter_single(part, whole, _sync(ReduceScatterOptions))
            assert part.equal(wanted)

    run(3, body)


def test_broadcast_gather_and_scatter() -> None:
    def body(group: ReCCL) -> None:
        r = group.rank()
        for items in (3, 30_000):
            every = [_of(rank, items, dtype=torch.int16) for rank in range(3)]
            mine = every[r].clone()
            group.broadcast([mine], _sync(BroadcastOptions, rootRank=2))
            assert mine.equal(every[2])

            outputs = [[torch.empty_like(one) for one in every]] if r == 1 else []
            group.gather(outputs, [every[r]], _sync(GatherOptions, rootRank=1))
            if r == 1:
                assert all(map(torch.equal, outputs[0], every))

            out = torch.empty_like(mine)
            inputs = [every] if r == 0 else []
            group.scatter([out], inputs, _sync(ScatterOptions, rootRank=0))
            assert out.equal(every[r])

    run(3, body)


def test_gathers_to_all() -> None:
    def body(group: ReCCL) -> None:
        r = group.rank()
        for items in (3, 70_000):
            every = [_of(rank, items, dtype=torch.bfloat16) for rank in range(3)]
            outputs = [torch.empty_like(one) for one in every]
            group.allgather([outputs], [every[r]], _sync(AllgatherOptions))
            assert all(map(torch.equal, outputs, every))

            whole = torch.empty(3 * items, dtype=torch.bfloat16)
            group.all_gather_single(whole, every[r], _sync(AllgatherOptions))
            assert whole.equal(torch.cat(every))
            whole.zero_()
            own = whole.split(items)[r]
            own.copy_(every[r])
            group.all_gather_single(whole, own, _sync(AllgatherOptions))
            assert whole.equal(torch.cat(every))

    run(3, body)


def test_all_to_all_of_equal_and_other_parts() -> None:
    def body(group: ReCCL) -> None:
        r, n = group.rank(), group.size()
        sent = torch.arange(2 * n * 4).reshape(2 * n, 4) + 1000 * r
        got = torch.empty_like(sent)
        group.all_to_all_single(got, sent, [], [], _sync(AllToAllOptions))
        wanted = [
            torch.arange(2 * n * 4).reshape(2 * n, 4)[2 * r : 2 * r + 2] + 1000 * s
            for s in range(n)
        ]
        assert got.equal(torch.cat(wanted))

        # Rank s sends s + t rows to rank t.
        into = [s + r for s in range(n)]
        out = [r + t for t in range(n)]
        rows = torch.cat([torch.full((r + t, 2), 10.0 * r + t) for t in range(n)])
        got = torch.empty(sum(into), 2)
        group.all_to_all_single(got, rows, into, out, _sync(AllToAllOptions))
        assert got.equal(torch.cat([torch.full((s + r, 2), 10.0 * s + r) for s in range(n)]))

        inputs = [torch.full((t + 1,), float(r)) for t in range(n)]
        outputs = [torch.empty(r + 1) for _ in range(n)]
        group.alltoall(outputs, inputs, _sync(AllToAllOptions))
        assert [one.tolist() for one in outputs] == [[float(s)] * (r + 1) for s in range(n)]

    run(3, body)


def test_coalesced_operations() -> None:
    def body(group: ReCCL) -> None:
        r = group.rank()
        a, b = torch.full((2, 2), r + 1.0), torch.full((3,), 10.0 * (r + 1))
        group.allreduce_coalesced([a, b], _sync(AllreduceCoalescedOptions))
        assert (a.tolist(), b.tolist()) == ([[3.0] * 2] * 2, [30.0] * 3)

        outputs = [torch.empty(2), torch.empty(4)]
        inputs = [torch.full((1,), float(r)), torch.full((2,), r + 5.0)]
        group.all_gather_single_coalesced(outputs, inputs, _sync(AllgatherOptions))
        assert [one.tolist() for one in outputs] == [[0, 1], [5, 5, 6, 6]]
        lists = [[torch.empty(1), torch.empty(2)] for _ in range(2)]
        group.allgather_coalesced(lists, inputs, _sync(AllgatherOptions))
        assert [[one.tolist() for one in row] for row in lists] == [[[0], [5, 5]], [[1], [6, 6]]]

        outputs = [torch.empty(1), torch.empty(2)]
        inputs = [torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0, 3.0, 4.0])]
        group.reduce_scatter_single_coalesced(outputs, inputs, _sync(ReduceScatterOptions))
        assert [one.tolist() for one in outputs] == [[[2], [2, 4]], [[4], [6, 8]]][r]

    run(2, body)


def test_strided_empty_scalar_and_conjugate_tensors() -> None:
    def body(group: ReCCL) -> None:
        r = group.rank()
        base = torch.zeros(4, 6)
        base[:, ::2] = r + 1.0
        group.allreduce([base.t()[::2]]).wait()
        assert base[:, ::2].tolist() == [[3.0] * 3] * 4
        assert base[:, 1::2].tolist() == [[0.0] * 3] * 4

        group.allreduce([torch.empty(0)]).wait()
        scalar = torch.tensor(r + 1)
        group.allreduce([scalar]).wait()
        assert scalar.item() == 3

        outputs = [torch.empty(2, 3).t() for _ in range(2)]
        group.allgather([outputs], [torch.full((3, 2), float(r))]).wait()
        assert [one.unique().tolist() for one in outputs] == [[0.0], [1.0]]

        z = torch.tensor([1 + 2j * (r + 1)]).conj()
        outputs = [torch.empty(1, dtype=z.dtype) for _ in range(2)]
        group.allgather([outputs], [z]).wait()
        assert [one.item() for one in outputs] == [1 - 2j, 1 - 4j]

        got = torch.empty(4, 2).t()
        group.all_to_all_single(
            got, torch.full((2, 4), float(r)).t().contiguous().t(), [], []
        ).wait()
        assert got.tolist() == [[0.0] * 4, [1.0] * 4]

    run(2, body)


def test_sparse_all_reduce_adds_and_averages() -> None:
    def body(group: ReCCL) -> None:
        r = group.rank()
        for name, factor in (("SUM", 1.0), ("AVG", 0.5)):
            tensor = torch.sparse_coo_tensor(
                [[0, r + 1]], [[1.0, 1.0], [2.0, 2.0]], (5, 2), check_invariants=True
            )
            group.allreduce([tensor], _sync(AllreduceOptions, reduceOp=getattr(ReduceOp, name)))
            wanted = [[2, 2], [2, 2], [2, 2], [0, 0], [0, 0]]
            assert (tensor.to_dense() / factor).tolist() == wanted

    run(2, body)


def test_messages_meet_by_tag_and_from_anybody() -> None:
    def body(group: ReCCL) -> None:
        r = group.rank()
        if r == 0:
            first, second = torch.empty(2), torch.empty(2, 3).t()
            works = [group.recv([second], 1, 2), group.recv([first], 1, 1)]
            for work in works:
                assert work.wait()
            assert first.tolist() == [1, 1]
            assert second.tolist() == [[0, 1], [2, 3], [4, 5]]
            seen = {}
            for _ in range(2):
                tensor = torch.empty(1)
                work = group.recv_anysource([tensor], 7)
                work.wait()
                seen[work._source_rank()] = tensor.item()
            assert seen == {1: 10.0, 2: 20.0}
        else:
            if r == 1:
                group.send([torch.ones(2)], 0, 1).wait()
                group.send([torch.arange(6.0).reshape(3, 2)], 0, 2).wait()
            group.send([torch.tensor([10.0 * r])], 0, 7).wait()

    run(3, body)


def test_large_messages_both_ways_at_once() -> None:
    def body(group: ReCCL) -> None:
        sent = torch.full((400_000,), float(group.rank()))
        got = torch.empty_like(sent)
        works = [group.send([sent], 1 - group.rank()), group.recv([got], 1 - group.rank())]
        for work in works:
            work.wait()
        assert got.unique().tolist() == [1.0 - group.rank()]

    run(2, body)


def test_asynchronous_operations_overlap_and_end_with_futures() -> None:
    def body(group: ReCCL) -> None:
        tensors = [torch.full((n,), float(group.rank())) for n in (3, 200_000, 10)]
        works = [group.allreduce([one]) for one in tensors]
        values = [work.get_future().then(lambda f: f.value()[0].clone()) for work in works]
        group.broadcast([torch.ones(4)], _sync(BroadcastOptions))  # while others are under way
        for one, work, value in zip(tensors, works, values, strict=True):
            assert work.wait(timedelta(seconds=30))
            assert (work.is_completed(), work.is_success(), work.exception()) == (True, True, None)
            assert one.unique().tolist() == [1.0]
            assert value.wait().equal(one)
            assert work.get_future().value()[0] is one
            assert work.result()[0] is one

    run(2, body)


def test_several_threads_may_use_their_own_groups() -> None:
    totals = []

    def body(group: ReCCL) -> None:
        tensor = torch.ones(100)
        for _ in range(20):
            group.allreduce([tensor], _sync(AllreduceOptions))
        totals.append(tensor[0].item())

    threads = [threading.Thread(target=run, args=(2, body)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [2.0**20] * 4


def test_what_a_rank_got_last_is_left_when_it_leaves_first() -> None:
    def body(group: ReCCL) -> None:
        tensor = torch.ones(300_000)
        group.allreduce([tensor], _sync(AllreduceOptions))
        if group.rank() == 0:
            group.shutdown()
        assert tensor.unique().tolist() == [2.0]

    for _ in range(3):
        run(2, body)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda g: g.allreduce([torch.ones(1)] * 2), "one tensor per rank, not 2"),
        (lambda g: g.allgather([[torch.ones(1)] * 2], [torch.ones(1)]), "2 tensors for 1 ranks"),
        (lambda g: g.allgather([[torch.ones(2)]], [torch.ones(1)]), "elements do not fit"),
        (lambda g: g.all_gather_single(torch.ones(3), torch.ones(2)), "3 elements is not 1 times"),
        (
            lambda g: g.all_to_all_single(torch.ones(2), torch.ones(2), [1], [2]),
            "do not add up to 2",
        ),
        (lambda g: g.gather([[torch.ones(1).int()]], [torch.ones(1)]), "different types"),
        (
            lambda g: g.broadcast([torch.ones(1)], _sync(BroadcastOptions, rootRank=3)),
            "rank 3 is none",
        ),
        (lambda g: g.send([torch.ones(1)], 0), "this rank itself"),
        (lambda g: g.broadcast([torch.ones(2).to_sparse()], _sync(BroadcastOptions)), "strided"),
    ],
)
def test_arguments_are_checked_before_anything_is_sent(call: object, match: str) -> None:
    def body(group: ReCCL) -> None:
        with pytest.raises(ValueError, match=match):
            call(group)

    run(1, body)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_tensors_of_an_accelerator_are_staged() -> None:
    def body(group: ReCCL) -> None:
        tensor = torch.full((100_000,), group.rank() + 1.0, device="cuda")
        work = group.allreduce([tensor])
        work.wait()
        assert tensor.unique().tolist() == [3.0]
        outputs = [torch.empty(3, device="cuda") for _ in range(2)]
        group.allgather([outputs], [torch.full((3,), float(group.rank()), device="cuda")]).wait()
        assert [one.tolist() for one in outputs] == [[0.0] * 3, [1.0] * 3]

    run(2, body)


def test_a_tensor_whose_elements_share_memory_is_refused_before_anything_is_sent() -> None:
    def body(group: ReCCL) -> None:
        with pytest.raises(ValueError, match="expanded tensor"):
            group.allreduce([torch.zeros(1).expand(4)])
        tensor = torch.ones(1).expand(4)
        if group.rank() == 0:
            group.broadcast([tensor]).wait()  # it is only read
        else:
            found = torch.zeros(4)
            group.broadcast([found]).wait()
            assert found.tolist() == [1.0] * 4

    run(2, body)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_shared_memory_changes_no_bit(size: int) -> None:
    """Operations in shared memory, in part or not at all: the same order of additions."""
    every = {
        n: [torch.randn(n, generator=torch.Generator().manual_seed(r)) for r in range(size)]
        for n in (5, 20_000, 60_000, 700_001)
    }

    def body(group: ReCCL) -> list[torch.Tensor]:
        found = []
        for n, inputs in every.items():
            for op in ("SUM", "AVG", "MAX"):
                mine = inputs[group.rank()].clone()
                group.allreduce([mine], _sync(AllreduceOptions, reduceOp=getattr(ReduceOp, op)))
                found.append(mine)
            whole = torch.cat([inputs[group.rank()][: n // size]] * size)
            part = torch.empty(n // size)
            group.reduce_scatter_single(part, whole).wait()
            gathered = torch.empty(n // size * size)
            group.all_gather_single(gathered, part).wait()
            turned = torch.empty_like(gathered)
            group.all_to_all_single(turned, gathered).wait()
            found += [part, gathered, turned]
        return found

    ways = [
        run(size, body),
        run(size, body, single_copy=False),
        run(size, body, shared_memory=False),
    ]
    for first, *others in zip(*ways, strict=True):
        for other in others:
            for a, b in zip(first, other, strict=True):
                assert torch.equal(a, b)


def test_synchronous_operations_may_overtake_asynchronous_ones() -> None:
    """Each rank chooses for itself which of its operations are asynchronous."""

    def body(group: ReCCL) -> None:
        draw = random.Random(group.rank())
        works, tensors = [], []
        for number in range(60):
            tensors.append(torch.full((100,), float(number * (group.rank() + 1))))
            opts = AllreduceOptions()
            opts.asyncOp = draw.random() < 0.7
            works.append(group.allreduce([tensors[-1]], opts))
        for number, (work, tensor) in enumerate(zip(works, tensors, strict=True)):
            work.wait()
            assert tensor.unique().tolist() == [6.0 * number]

    run(3, body)
