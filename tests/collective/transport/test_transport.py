"""Messages between ranks without faults."""

from __future__ import annotations

import errno
import os
import random
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from transport_kit import DictStore, on_all, ranks, settings

from sglb.collective.transport import (
    AbortedError,
    ClosedError,
    MismatchError,
    SettingsError,
    Transport,
    WaitTimeoutError,
    lending,
)
from sglb.collective.transport import transport as transport_module
from sglb.collective.transport.runtime import listen_at, sweep

SIZES = [0, 1, 60, 64 << 10, (64 << 10) + 1, 300_000, 3_000_001]


@pytest.mark.parametrize(
    ("rails", "memory", "single_copy"),
    [(1, False, False), (2, False, False), (1, True, False), (1, True, True)],
)
def test_messages_of_all_sizes_arrive_both_ways(
    rails: int, memory: bool, single_copy: bool
) -> None:
    with ranks(2, settings(rails, shared_memory=memory, single_copy=single_copy)) as made:
        source = [random.Random(n).randbytes(size) for n, size in enumerate(SIZES)]

        def exchange(rank: int) -> list[bytearray]:
            mine = made[rank]
            into = [bytearray(size) for size in SIZES]
            found = [mine.recv(1 - rank, 7, buffer) for buffer in into]
            sent = [mine.send(1 - rank, 7, data) for data in source]
            for transfer in found + sent:
                transfer.wait(20)
            return into

        for into in on_all(2, exchange):
            assert [bytes(data) for data in into] == source


def test_messages_that_come_before_their_receive_keep_their_order() -> None:
    with ranks(2) as made:
        sent = [made[0].send(1, n % 2, bytes([n]) * (n * 30_000)) for n in range(10)]
        buffers = {n: bytearray(n * 30_000) for n in range(10)}
        order = [1, 3, 0, 5, 2, 7, 4, 9, 6, 8]
        found = [made[1].recv(0, n % 2, buffers[n]) for n in order]
        for transfer in found + sent:
            transfer.wait(20)
        assert all(bytes(data) == bytes([n]) * (n * 30_000) for n, data in buffers.items())


def test_any_source_takes_what_came_first_and_says_from_whom() -> None:
    with ranks(3) as made:
        into = bytearray(5)
        made[2].send(0, 9, b"hello").wait(10)
        first = made[0].recv_any(9, into)
        first.wait(10)
        assert (first.peer, bytes(into)) == (2, b"hello")
        second = made[0].recv_any(9, into)
        with pytest.raises(WaitTimeoutError):
            second.wait(0.02)
        large = made[1].send(0, 9, b"world")
        second.wait(10)
        large.wait(10)
        assert (second.peer, bytes(into)) == (1, b"world")


def test_many_early_messages_stay_within_the_budget_and_all_arrive() -> None:
    with ranks(2, settings(1, eager_bytes=1000, eager_budget_bytes=5000)) as made:
        sent = [made[0].send(1, 1, bytes([n]) * 1000) for n in range(50)]
        assert sum(not transfer.done for transfer in sent) == 45  # 5 fit the budget
        for n in range(50):
            into = bytearray(1000)
            made[1].recv(0, 1, into).wait(10)
            assert bytes(into) == bytes([n]) * 1000
        for transfer in sent:
            transfer.wait(10)


@pytest.mark.parametrize("size", [100, 500_000])
def test_sizes_that_differ_are_told_on_every_rank(size: int) -> None:
    with ranks(3) as made:
        into = bytearray(200)
        transfers = [
            made[0].send(1, 4, bytes(size), label="all_reduce #1 float32[25]"),
            made[1].recv(0, 4, into, label=lambda: "broadcast #1 float64[25]"),
            made[2].recv(0, 4, bytearray(3)),
        ]
        for rank in (1, 2):
            with pytest.raises(MismatchError) as caught:
                transfers[rank].wait(10)
            words = str(caught.value)
            assert f"rank 0 sent {size} bytes (all_reduce #1 float32[25]) to rank 1" in words
            assert "expected 200 bytes (broadcast #1 float64[25])" in words
        with pytest.raises(MismatchError):
            made[0].recv(1, 1, into).wait(10)


def test_operations_that_differ_are_told_though_sizes_agree() -> None:
    with ranks(2) as made:
        made[0].send(1, 4, b"abcd", fingerprint=1, label="sum")
        with pytest.raises(MismatchError, match=r"operations differ: .*\(sum\).*\(max\)"):
            made[1].recv(0, 4, bytearray(4), fingerprint=2, label="max").wait(10)


def test_abort_ends_transfers_on_all_ranks() -> None:
    with ranks(3) as made:
        waiting = [made[rank].recv((rank + 1) % 3, 0, bytearray(8)) for rank in range(3)]
        made[1].abort("out of memory")
        for transfer in waiting:
            with pytest.raises(AbortedError, match="rank 1 aborted: out of memory"):
                transfer.wait(10)


def test_closing_ends_what_other_threads_wait_for() -> None:
    with ranks(2) as made:
        errors: list[BaseException] = []

        def wait(stream: int) -> None:
            try:
                made[0].recv(1, stream, bytearray(5)).wait(20)
            except AbortedError as error:
                errors.append(error)

        threads = [threading.Thread(target=wait, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        made[0].close()
        for thread in threads:
            thread.join(10)
        assert [str(error) for error in errors] == ["the transport was closed"] * 3


def test_many_threads_wait_at_once() -> None:
    with ranks(2) as made:

        def talk(rank: int, stream: int) -> None:
            for number in range(30):
                into = bytearray(4)
                found = made[rank].recv(1 - rank, stream, into)
                made[rank].send(1 - rank, stream, number.to_bytes(4, "big")).wait(20)
                found.wait(20)
                assert int.from_bytes(into, "big") == number

        on_all(8, lambda n: talk(n % 2, n // 2))


def test_callbacks_run_once_with_the_result() -> None:
    with ranks(2) as made:
        calls: list[object] = []
        found = made[1].recv(0, 0, bytearray(3), done=calls.append)
        made[0].send(1, 0, b"abc", done=calls.append).wait(10)
        found.wait(10)
        found.on_done(calls.append)
        assert calls == [None, None, None]


def sockets() -> set[str]:
    names = set()
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the folder itself
            names.add(str(fd.readlink()))
    return {name for name in names if name.startswith("socket:")}


@pytest.mark.parametrize("memory", [False, True])
def test_a_forked_child_holds_no_connection_open(memory: bool) -> None:
    before = sockets()
    with ranks(2, settings(2, shared_memory=memory)) as made:
        assert len(sockets() - before) > 4
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            held = len(sockets() - before)
            try:
                made[0].send(1, 0, b"x")
                word = "sent"
            except ClosedError:
                word = "closed"
            os.write(write, f"{held} {word}".encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 100) == b"0 closed"
        os.close(read)
        os.close(write)
        into = bytearray(3)
        found = made[1].recv(0, 0, into)
        made[0].send(1, 0, b"abc").wait(10)
        found.wait(10)
        assert into == b"abc"


def test_ranks_whose_doors_cannot_be_found_use_their_rails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two containers with one network and a /tmp each."""
    real = transport_module.open_door

    def elsewhere(folder: str) -> tuple[str, socket.socket]:
        path, door = real(folder)
        Path(path).unlink()
        return path, door

    monkeypatch.setattr(transport_module, "open_door", elsewhere)
    with ranks(3, settings(shared_memory=True)) as made:
        into = bytearray(3)
        found = made[2].recv(0, 0, into)
        made[0].send(2, 0, b"abc").wait(10)
        found.wait(10)
        assert into == b"abc"
        rails = {"127.0.0.1", "127.0.0.2"}  # the first that stands has carried it
        end_s = time.monotonic() + 10
        while {channel.rail for channel in made[0].stats().channels} != rails:
            assert time.monotonic() < end_s
            time.sleep(0.01)


def test_what_cannot_be_borrowed_comes_through_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for memory that belongs to a device."""
    real = lending.read_process

    def only_small(pid: int, address: int, into: memoryview) -> None:
        if len(into) > 100:
            raise OSError(errno.EFAULT, "no page")
        real(pid, address, into)

    monkeypatch.setattr(lending, "read_process", only_small)
    data = random.Random(4).randbytes(3_000_000)
    with ranks(2, settings(shared_memory=True, retry_s=0.01)) as made:
        into = bytearray(len(data))
        found = made[1].recv(0, 0, into)
        made[0].send(1, 0, data).wait(20)
        found.wait(20)
        assert into == data
        assert made[1].stats().failovers <= 1


def test_a_folder_whose_name_is_too_long_is_named(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    with pytest.raises(SettingsError, match=r"RECCL_RUNTIME_DIR: .*at most 107"):
        Transport.open(
            DictStore(),
            0,
            1,
            settings=settings(shared_memory=True, runtime_dir=str(folder)),
            timeout_s=1,
        )


def test_sockets_of_killed_processes_are_swept(tmp_path: Path) -> None:
    """Of two left sockets with the number of no process one is still listened at, by a container's."""
    gone = 2**22 + 1  # above the highest process number
    doors = {}
    for name in ("a", "b"):
        path = tmp_path / f"{gone}-{name}.door"
        doors[name] = listen_at(path)
    mine = tmp_path / f"{os.getpid()}-c.door"
    listen_at(mine).close()
    doors["a"].close()
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"{gone}-b.door", mine.name}
    doors["b"].close()
