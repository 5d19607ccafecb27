"""Ranks as threads whose messages pass through memory: all that algorithms stand on.

A message is copied when both ends are there, like one that lands in place; a buffer that an algorithm
gives away and touches too early is found, since what it sent is read only then.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable


class Message:
    def __init__(self, memory: memoryview) -> None:
        self.memory = memory
        self.done = threading.Event()


class Network:
    def __init__(self, size: int) -> None:
        self.size = size
        self.lock = threading.Lock()
        self.sends: dict[tuple[int, int, int], deque[Message]] = defaultdict(deque)
        self.recvs: dict[tuple[int, int, int], deque[Message]] = defaultdict(deque)
        self.messages = 0

    def post(self, key: tuple[int, int, int], memory: memoryview, *, sends: bool) -> Message:
        mine, theirs = (self.sends, self.recvs) if sends else (self.recvs, self.sends)
        message = Message(memory)
        with self.lock:
            self.messages += sends
            if theirs[key]:
                other = theirs[key].popleft()
                source, target = (message, other) if sends else (other, message)
                assert len(source.memory) == len(target.memory)
                target.memory[:] = source.memory
                source.done.set()
                target.done.set()
            else:
                mine[key].append(message)
        return message


class Rank:
    def __init__(self, network: Network, rank: int) -> None:
        self.rank, self.size = rank, network.size
        self.network = network

    def send(self, peer: int, data: memoryview, part: int = 0) -> Message:
        return self.network.post((self.rank, peer, part), data, sends=True)

    def recv(self, peer: int, into: memoryview, part: int = 0) -> Message:
        return self.network.post((peer, self.rank, part), into, sends=False)

    def wait(self, pending: Message) -> None:
        assert pending.done.wait(20), "stuck"

    def table(self) -> None:
        return None

    def scratch(self, nbytes: int) -> memoryview:
        return memoryview(bytearray(b"\xaa" * nbytes))

    def private(self, data: memoryview) -> memoryview:
        return memoryview(bytes(data))


def run(size: int, body: Callable[[Rank], None]) -> Network:
    """Runs `body` on all ranks, and checks that every message has met its receive."""
    network = Network(size)
    errors: list[BaseException] = []

    def rank(number: int) -> None:
        try:
            body(Rank(network, number))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    assert not any(network.sends.values())
    assert not any(network.recvs.values())
    return network
