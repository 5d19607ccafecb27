"""What stuck ranks leave in the store, and memory that is used again."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from torch.distributed import HashStore

from sglb.collective.operation import Board, Scratch, call_of


def test_ranks_read_what_others_are_stuck_in() -> None:
    store = HashStore()
    store.set_timeout(timedelta(seconds=5))
    boards = [Board(store, "g/1", rank, 3) for rank in range(3)]
    call = call_of("all_reduce", "torch.float32", (4, 5), "SUM of all")
    boards[1].announce(7, call)
    assert boards[0].read() == boards[2].read() == {1: (7, call)}
    assert boards[1].read() == {}
    assert Board(store, "g/2", 0, 3).read() == {}, "of a group that was there before"
    assert call.text == "all_reduce float32[4,5] SUM of all"


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_whatever_stands_in_the_store_is_read_or_passed_over(data: bytes) -> None:
    store = HashStore()
    store.set("g/1/stuck/1", data)
    found = Board(store, "g/1", 0, 2).read()
    assert found == {} or (list(found) == [1] and isinstance(found[1][0], int))


def test_calls_that_differ_in_the_same_way_do_not_make_up_for_each_other() -> None:
    made = []
    for root in (0, 1):
        last = None
        for count in (1, 40, 3):
            last = call_of("broadcast", "torch.uint8", (count,), f"from {root}").after(last)
        made.append(call_of("all_reduce", "torch.float32", (3,), "SUM").after(last))
    assert made[0].fingerprint != made[1].fingerprint
    assert made[0].told == "all_reduce float32[3] SUM (after broadcast uint8[3] from 0)"


def test_scratch_memory_is_kept_up_to_its_limit() -> None:
    scratch = Scratch(keep_bytes=4096)
    first = scratch.take(1000)
    assert len(first) == 1024
    scratch.give_back([first, bytearray(8192)])
    assert scratch.take(1024) is first
    assert len(scratch.take(8000)) == 8192
    assert scratch.take(1024) is not first
