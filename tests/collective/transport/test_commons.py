"""Memory that all ranks of a host share: what is laid out, taken, refused; who is late, or gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transport_kit import DictStore, on_all, ranks, settings

from sglb.collective.transport import (
    AbortedError,
    MismatchError,
    PeerLostError,
    Transport,
    TransportError,
)
from sglb.collective.transport import commons as shared
from sglb.collective.transport.commons import Call, Round
from sglb.collective.transport.memory import folder
from sglb.collective.transport.segment import COPIED_BYTES, Segment

LARGE = COPIED_BYTES + 1
HERE = Path(__file__).parent


def _begin(transport: Transport, number: int, text: str = "op", fingerprint: int = 7) -> Round:
    found = transport.round(Call(number, 0, fingerprint, text), lambda _late: None)
    assert found is not None
    return found


def _here(**options: Any) -> Any:
    return settings(shared_memory=True, **options)


def _exchange(transport: Transport, number: int, parts: list[bytes]) -> list[bytes]:
    """What the ranks have laid out for this one, by rank."""
    table = _begin(transport, number)
    table.post([memoryview(part) for part in parts])
    table.posted()
    found = []
    for rank in range(transport.size):
        into = bytearray(len(parts[rank]))
        if rank != transport.rank:
            table.take(rank, memoryview(into))
        found.append(bytes(into))
    table.finish()
    return found


@pytest.mark.parametrize("size", [0, 5, LARGE])
def test_each_rank_takes_the_part_that_is_for_it(size: int) -> None:
    def parts(rank: int) -> list[bytes]:
        return [bytes([10 * rank + to]) * size for to in range(3)]

    with ranks(3, _here()) as made:
        found = on_all(3, lambda rank: _exchange(made[rank], 1, parts(rank)))
        assert made[0].stats().shared_bytes == 2 * size
    for rank in range(3):
        for source in set(range(3)) - {rank}:
            assert found[rank][source] == bytes([10 * source + rank]) * size


def test_a_part_may_be_taken_in_pieces_and_looked_at_where_it_lies() -> None:
    def body(transport: Transport, data: bytes) -> tuple[bytes, bytes | None]:
        table = _begin(transport, 1)
        table.post([memoryview(data)])
        table.posted()
        piece = bytearray(3)
        table.take(1 - transport.rank, memoryview(piece), 4, len(data))
        view = table.view(1 - transport.rank, len(data))
        copy = None if view is None else bytes(view)
        table.finish()
        return bytes(piece), copy

    with ranks(2, _here()) as made:
        small = on_all(2, lambda rank: body(made[rank], b"0123456789" if rank else b"abcdefghij"))
        assert small == [(b"456", b"0123456789"), (b"efg", b"abcdefghij")]


def test_nothing_is_overwritten_that_a_slow_rank_has_still_to_take() -> None:
    """Ranks run ahead as far as they may: 40 rounds in 4 slots, each rank slow in some."""

    def body(transport: Transport) -> bool:
        right = True
        for number in range(1, 41):
            if number % transport.size == transport.rank:
                time.sleep(0.002)
            wanted = [bytes([number, rank]) * 20 for rank in range(transport.size)]
            found = _exchange(transport, number, [wanted[transport.rank]] * transport.size)
            found[transport.rank] = wanted[transport.rank]
            right &= found == wanted
        return right

    with ranks(3, _here()) as made:
        assert on_all(3, lambda rank: body(made[rank])) == [True] * 3


def test_lent_memory_is_given_back_when_all_have_taken_it() -> None:
    """The lender's `finish` returns only after the taker's; only then it overwrites."""
    taken = threading.Event()
    order = []

    def lend(transport: Transport) -> None:
        data = bytearray(b"x" * LARGE)
        table = _begin(transport, 1)
        table.post([memoryview(data)])
        table.finish()
        order.append(taken.is_set())
        data[:] = b"y" * LARGE

    def take(transport: Transport) -> bytes:
        table = _begin(transport, 1)
        table.post()
        table.posted([0])
        time.sleep(0.05)  # the lender sleeps by now
        into = bytearray(LARGE)
        table.take(0, memoryview(into))
        taken.set()
        table.finish()
        return bytes(into)

    with ranks(2, _here()) as made:
        found = on_all(2, lambda rank: (take if rank else lend)(made[rank]))
    assert order == [True]
    assert found[1] == b"x" * LARGE


def test_ranks_that_do_different_things_are_named() -> None:
    with ranks(2, _here()) as made:
        for transport in made:
            _begin(transport, 1, f"op of {transport.rank}", transport.rank).post()
        with pytest.raises(
            MismatchError, match="operations differ: rank 0 is in op of 0, rank 1 in op of 1"
        ):
            _begin(made[0], 1, "op of 0", 0).posted()


def test_parts_of_another_size_are_named() -> None:
    with ranks(2, _here()) as made:
        for transport in made:
            _begin(transport, 1).post([memoryview(bytes(3))])
        with pytest.raises(
            MismatchError,
            match=r"rank 1 has 3 bytes \(op\) for rank 0, which expects 4 bytes \(op\)",
        ):
            _begin(made[0], 1).take(1, memoryview(bytearray(4)))


def test_loans_of_a_group_that_is_given_up_are_not_used() -> None:
    with ranks(2, _here()) as made:
        lender = _begin(made[0], 1)
        lender.post([memoryview(bytearray(LARGE))])
        taker = _begin(made[1], 1)
        made[0].abort("enough")
        with pytest.raises(AbortedError, match="enough"):
            taker.take(0, memoryview(bytearray(LARGE)))


def test_a_rank_that_has_done_its_part_may_leave() -> None:
    with ranks(3, _here()) as made:
        root = _begin(made[0], 1)
        root.post([memoryview(b"all of it")])
        root.finish()
        made[0].close()
        for late in made[1:]:
            table = _begin(late, 1)
            table.post()
            table.posted([0])
            into = bytearray(9)
            table.take(0, memoryview(into))
            table.finish()
            assert into == b"all of it"


def test_a_rank_that_left_without_its_part_is_missed() -> None:
    with ranks(2, _here()) as made:
        made[1].close()
        table = _begin(made[0], 1)
        table.post()
        with pytest.raises(PeerLostError, match="rank 1"):
            table.posted()


def test_what_a_caller_raises_while_it_waits_ends_the_wait() -> None:
    def give_up(late: Callable[[], list[int]]) -> None:
        raise TimeoutError(f"no {late()}")

    with ranks(2, _here()) as made:
        table = made[0].round(Call(1, 0, 7, "op"), give_up)
        assert table is not None
        table.post()
        with pytest.raises(TimeoutError, match=r"no \[1\]"):
            table.posted()


def test_a_killed_process_is_missed_soon(tmp_path: Path) -> None:
    """Both ranks are processes; rank 1 is killed while rank 0 waits for it."""
    code = f"""
import sys, time
from pathlib import Path
sys.path.insert(0, {str(HERE.parents[2] / "bench")!r})
from rail_lab import FolderStore
from sglb.collective.transport import Settings, Transport
from sglb.collective.transport.commons import Call
rank = int(sys.argv[1])
settings = Settings(rails=("127.0.0.1",), runtime_dir={str(tmp_path / "run")!r})
store = FolderStore(Path({str(tmp_path)!r}))
transport = Transport.open(store, rank, 2, settings=settings, timeout_s=30)
table = transport.round(Call(1, 0, 7, "op"), lambda late: None)
print("ready", flush=True)
if rank:
    time.sleep(60)
table.post()
try:
    table.posted()
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""
    work = [
        subprocess.Popen([sys.executable, "-c", code, str(rank)], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        for process in work:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        os.kill(work[1].pid, signal.SIGKILL)
        said = work[0].communicate(timeout=30)[0]
    finally:
        for process in work:
            process.kill()
            process.communicate()
    assert said.startswith("PeerLostError rank 1 has ended")


@pytest.mark.parametrize(
    ("options", "lends"),
    [
        ([{"host": "a"}, {"host": "b"}], None),
        ([{}, {"shared_memory": False}], None),
        ([{}, {"single_copy": False}], False),
        ([{}, {}], True),
    ],
    ids=["two hosts", "one without", "one that may not read", "all"],
)
def test_all_ranks_agree_what_they_share(options: list[dict[str, Any]], lends: bool | None) -> None:
    store = DictStore()
    chosen = [settings(**{"shared_memory": True, **some}) for some in options]
    made = on_all(
        2, lambda rank: Transport.open(store, rank, 2, settings=chosen[rank], timeout_s=20)
    )
    rounds = [one.round(Call(1, 0, 7, "op"), lambda _late: None) for one in made]
    assert [None if table is None else table.lends for table in rounds] == [lends] * 2
    on_all(2, lambda rank: made[rank].close())


def _files() -> set[str]:
    return {path.name for path in folder().glob("reccl-commons-*")}


def test_no_file_is_left() -> None:
    with ranks(2, _here()) as made:
        own = made[0]._group.commons
        assert own is not None
        assert not {f"reccl-commons-{s.name.hex()}" for s in own._segments} & _files()


def test_what_a_killed_process_left_is_removed_and_nothing_else() -> None:
    held = Segment.make()
    left = folder() / f"reccl-commons-{os.urandom(16).hex()}"
    left.touch()
    try:
        Segment.make().unname()
        assert left.name not in _files()
        assert f"reccl-commons-{held.name.hex()}" in _files()
    finally:
        held.unname()
        left.unlink(missing_ok=True)


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 10), min_size=48, max_size=48))
def test_any_words_of_another_rank_are_an_error_or_bytes_of_its_slot(words: list[int]) -> None:
    segments = [Segment.make() for _ in range(2)]
    for segment in segments:
        segment.unname()
    mine = shared.Commons(0, segments, lends=True)
    call = Call(1, 0, 7, "op")
    theirs = segments[1].slot(1)
    for place, word in enumerate(words):
        theirs[place] = word
    theirs[0] = call.key
    theirs[4] = 0  # as a copy: any address of a loan is the lender's own matter

    def look(_late: Callable[[], list[int]]) -> None:
        raise AbortedError("enough")

    table = Round(mine, call, shared.Watch(nullcontext, look))
    table.post()
    into = bytearray(3)
    try:
        table.posted()
        table.take(1, memoryview(into))
    except TransportError:
        return
    assert bytes(into) == bytes(3)


def test_ranks_that_begin_at_once_sweep_away_nothing_of_each_others() -> None:
    for _ in range(20):
        made = on_all(8, lambda _rank: Segment.make())
        for one in made:
            Segment.open(one.name)
            one.unname()
