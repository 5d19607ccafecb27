"""What ranks are told when they do not call the same thing, when one is late, when one is gone."""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta

import pytest
import torch
from torch._C._distributed_c10d import AllreduceOptions, BroadcastOptions, ScatterOptions
from torch.distributed import HashStore, ReduceOp
from torch_kit import LIMIT_S, outcomes, run

from sglb.collective import operation
from sglb.collective.backend import ReCCL
from sglb.collective.errors import CollectiveError, CollectiveTimeoutError


def _reduce(group: ReCCL, items: int, dtype: torch.dtype = torch.float32, op: str = "SUM") -> None:
    opts = AllreduceOptions()
    opts.reduceOp = getattr(ReduceOp, op)
    opts.asyncOp = False
    group.allreduce([torch.ones(items, dtype=dtype)], opts)


MISMATCHES = {
    "sizes": (lambda g: _reduce(g, 100), lambda g: _reduce(g, 101), "float32[100]", "float32[101]"),
    "types": (
        lambda g: _reduce(g, 100),
        lambda g: _reduce(g, 100, torch.int32),
        "float32[100]",
        "int32[100]",
    ),
    "operators": (
        lambda g: _reduce(g, 100_000),
        lambda g: _reduce(g, 100_000, op="MAX"),
        "100000] SUM",
        "100000] MAX",
    ),
    "algorithms": (lambda g: _reduce(g, 10), lambda g: _reduce(g, 400_000), "[10]", "[400000]"),
    "operations": (
        lambda g: _reduce(g, 100_000),
        lambda g: g.broadcast([torch.ones(100_000)]).wait(),
        "all_reduce",
        "broadcast",
    ),
}


@pytest.mark.parametrize("name", MISMATCHES)
def test_every_rank_is_told_both_sides_of_a_mismatch(name: str) -> None:
    usual, other, *words = MISMATCHES[name]
    found = outcomes(3, lambda g: (other if g.rank() == 2 else usual)(g))
    assert [type(one) for one in found] == [CollectiveError] * 3
    for text in map(str, found):
        for word in (*words, "rank 2"):
            assert word in text


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", ["broadcast", "scatter"])
def test_ranks_that_take_different_roots_are_told_by_the_next_operation(
    kind: str, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A root waits for nobody, so by itself it cannot know."""
    if not shared:
        monkeypatch.setenv("RECCL_SHARED_MEMORY", "0")

    def body(group: ReCCL) -> None:
        rank = group.rank()
        if kind == "broadcast":
            opts = BroadcastOptions()
            opts.rootRank = rank
            group.broadcast([torch.full((10,), float(rank))], opts).wait()
        else:
            given = ScatterOptions()
            given.rootRank = rank
            group.scatter([torch.empty(10)], [[torch.ones(10), torch.ones(10)]], given).wait()
        _reduce(group, 3)

    found = outcomes(2, body)
    assert [type(one) for one in found] == [CollectiveError] * 2
    for text in map(str, found):
        for root in (0, 1):
            assert f"after {kind} float32[10] from {root}" in text


def test_a_receive_of_another_type_is_told() -> None:
    def body(group: ReCCL) -> None:
        if group.rank() == 0:
            group.send([torch.ones(10)], 1).wait()
            _reduce(group, 1)
        else:
            group.recv([torch.ones(10, dtype=torch.int32)], 0).wait()

    found = outcomes(2, body)
    assert [type(one) for one in found] == [CollectiveError] * 2
    assert "float32[10]" in str(found[1])
    assert "int32[10]" in str(found[1])


def test_a_tensor_without_memory_is_refused_by_name() -> None:
    def body(group: ReCCL) -> None:
        with pytest.raises(ValueError, match="not on meta"):
            group.allreduce([torch.ones(3, device="meta")])

    run(1, body)


def test_a_forked_process_is_told_and_its_parent_goes_on() -> None:
    def body(group: ReCCL) -> str:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _reduce(group, 3)
            except Exception as error:
                os.write(write, str(error).encode())
            os._exit(0)
        os.waitpid(child, 0)
        _reduce(group, 3)
        os.close(write)
        with os.fdopen(read) as told:
            return told.read()

    for rank, text in enumerate(run(2, body)):
        assert f"this process was forked from rank {rank}" in text


def test_ranks_that_wait_for_each_other_in_different_operations_find_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody sends: rank 0 waits to gather, the others for its broadcast."""
    monkeypatch.setattr(operation, "_STUCK_S", 0.2)

    def body(group: ReCCL) -> None:
        if group.rank() == 0:
            group.gather([[torch.ones(1)] * 3], [torch.ones(1)]).wait()
        else:
            opts = BroadcastOptions()
            opts.rootRank = 0
            group.broadcast([torch.ones(1)], opts).wait()

    found = outcomes(3, body)
    assert [type(one) for one in found] == [CollectiveError] * 3
    for text in map(str, found):
        assert "gather float32[1]" in text
        assert "broadcast float32[1]" in text


def test_a_timeout_names_who_is_missing_and_ends_the_group_everywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operation, "_STUCK_S", 0.1)
    gave_up = [threading.Event(), threading.Event()]

    def body(group: ReCCL) -> None:
        if group.rank() == 2:
            for one in gave_up:  # or the slower one could still be helped
                one.wait(LIMIT_S)
            _reduce(group, 10)  # what others sent for it is here already
            _reduce(group, 10)
            return
        try:
            _reduce(group, 10)
        finally:
            gave_up[group.rank()].set()

    found = outcomes(3, body, limit_s=1.0)
    assert isinstance(found[0], CollectiveError)
    assert all("all_reduce #1 float32[10] SUM" in str(one) for one in found)
    assert "Timed out waiting 1 s" in str(found[0])
    assert "rank 2" in str(found[0])


def test_waiting_with_a_limit_of_its_own_leaves_the_operation_alone() -> None:
    late = threading.Event()

    def body(group: ReCCL) -> None:
        if group.rank() == 1:
            late.wait(LIMIT_S)
        tensor = torch.ones(1)
        work = group.allreduce([tensor])
        if group.rank() == 0:
            with pytest.raises(CollectiveTimeoutError, match="was not done"):
                work.wait(timedelta(seconds=0.05))
            assert not work.is_completed()
            late.set()
        work.wait()
        assert tensor.item() == 2

    run(2, body)


def test_a_receive_that_nobody_sends_to_times_out() -> None:
    def body(group: ReCCL) -> None:
        if group.rank() == 0:
            with pytest.raises(CollectiveTimeoutError, match=r"recv float32\[3\] from 1.*0 of 12"):
                group.recv([torch.empty(3)], 1).wait()

    run(2, body, limit_s=0.5)


def test_a_failed_operation_ends_when_nothing_uses_its_memory_any_more() -> None:
    ended = []

    def body(group: ReCCL) -> None:
        if group.rank() == 1:
            return
        work = group.recv([torch.empty(3)], 1)
        transport = group._group.transport
        abort = transport.abort

        def watched(reason: str) -> None:
            ended.append(work.is_completed())
            abort(reason)

        transport.abort = watched  # type: ignore[method-assign]
        with pytest.raises(CollectiveTimeoutError):
            work.wait()
        assert work.is_completed()

    run(2, body, limit_s=0.3)
    assert ended[0] is False


def test_monitored_barrier_names_who_did_not_come() -> None:
    for everybody, words in ((False, "Rank 1 failed"), (True, "Ranks 1, 3 failed")):
        gone = threading.Event()

        def body(group: ReCCL, everybody: bool = everybody, gone: threading.Event = gone) -> None:
            group.monitored_barrier()
            if group.rank() in (1, 3):
                gone.wait(LIMIT_S)
                return
            try:
                group.monitored_barrier(timedelta(seconds=0.5), wait_all_ranks=everybody)
            finally:
                gone.set()

        found = outcomes(4, body)
        assert isinstance(found[0], CollectiveTimeoutError)
        assert words in str(found[0])
        assert words in str(found[2])


def test_a_failed_future_raises_and_later_operations_say_why() -> None:
    def body(group: ReCCL) -> None:
        work = group.allreduce([torch.ones(1 + group.rank())])
        with pytest.raises(RuntimeError, match="differ"):
            work.get_future().wait()
        assert isinstance(work.exception(), CollectiveError)
        assert not work.is_success()
        with pytest.raises(CollectiveError, match="#1"):
            _reduce(group, 1)

    run(2, body)


def test_abort_ends_what_is_under_way_on_all_ranks() -> None:
    def body(group: ReCCL) -> None:
        if group.rank() == 0:
            work = group.recv([torch.empty(1)], 1)
            group.abort()
            work.wait()
        else:
            _reduce(group, 5)

    found = outcomes(2, body)
    assert all("abort() was called on rank 0" in str(one) for one in found)


def test_a_rank_that_never_comes_is_an_error_when_the_group_is_made() -> None:
    began = time.monotonic()
    with pytest.raises(CollectiveError, match=r"rank 0 of 2: .*rank.* 1"):
        ReCCL(HashStore(), 0, 2, timedelta(seconds=0.3))
    assert time.monotonic() - began < LIMIT_S
