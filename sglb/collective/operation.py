"""One operation on one rank: its messages, its deadline, and what it tells when it is stuck."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from torch._C._distributed_c10d import Store

from sglb.collective.algorithms.exchange import Pending, Table
from sglb.collective.errors import CollectiveError, CollectiveTimeoutError
from sglb.collective.transport import Transfer, Transport, WaitTimeoutError, commons
from sglb.collective.transport.segment import SLOTS

_PARTS = 4  #: streams of an operation
_FINGERPRINT = (1 << 63) - 1
_MIX = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, odd
_LOOK_AGAIN_S = 0.05
_STUCK_S = (
    2.0  #: a rank that waits so long for a message tells what it is in, and looks who else does
)


class Call(NamedTuple):
    """What a rank calls. The transport tells ranks whose calls differ in `fingerprint`.

    That covers the calls before it as well, of which `before` is the last: who waits for nobody, as the
    root of a broadcast, cannot tell by itself that others called something else.
    """

    text: str
    fingerprint: int
    before: str = ""

    def after(self, last: Call | None) -> Call:
        """The call as the next one after another."""
        if last is None:
            return self
        # Not by CRCs, which are linear: two calls that differ alike would make up for each other.
        both = last.fingerprint * _MIX + self.fingerprint & _FINGERPRINT or 1
        return Call(self.text, both, last.text)

    @property
    def told(self) -> str:
        """For errors: what it is, and what was before it."""
        return f"{self.text} (after {self.before})" if self.before else self.text


@lru_cache(maxsize=4096)
def call_of(kind: str, dtype: object, sizes: tuple[int, ...], detail: str = "") -> Call:
    """E.g. `all_reduce float32[1024] SUM`. `sizes` are numbers of elements, equal on all ranks."""
    shape = ",".join(str(size) for size in sizes)
    text = f"{kind} {str(dtype).removeprefix('torch.')}[{shape}] {detail}".rstrip()
    return Call(text, zlib.crc32(text.encode()) or 1)


class Board:
    """Where ranks that are stuck say in what, so that an error can name who is elsewhere, or missing.

    One key for each rank in the group's store, under `place`, which no other group there has. The store
    is asked only when something is wrong; where it cannot be reached, nothing is known.
    """

    def __init__(self, store: Store, place: str, rank: int, size: int) -> None:
        self._store = store
        self._place = place
        self._rank = rank
        self._size = size

    def announce(self, number: int, call: Call) -> None:
        """Tells the others."""
        try:
            self._store.set(self._key(self._rank), f"{number} {call.fingerprint} {call.told}")
        except RuntimeError:  # the process that holds the store may have ended
            return

    def read(self) -> dict[int, tuple[int, Call]]:
        """Number and call of every other rank that is, or was, stuck."""
        said = {}
        for rank in range(self._size):
            key = self._key(rank)
            try:
                if rank == self._rank or not self._store.check([key]):
                    continue
                number, fingerprint, text = self._store.get(key).decode().split(" ", 2)
                said[rank] = (int(number), Call(text, int(fingerprint)))
            except (RuntimeError, ValueError):  # ValueError: not from one of ours
                continue
        return said

    def _key(self, rank: int) -> str:
        return f"{self._place}/stuck/{rank}"


class Scratch:
    """Memory that operations use again: fresh pages cost more than what is copied into them."""

    def __init__(self, keep_bytes: int) -> None:
        self._keep_bytes = keep_bytes
        self._kept_bytes = 0
        self._free: dict[int, list[bytearray]] = {}

    def take(self, nbytes: int) -> bytearray:
        """At least `nbytes`; any content."""
        size = 1 << max(nbytes - 1, 0).bit_length()
        try:
            held = self._free[size].pop()
        except (KeyError, IndexError):
            return bytearray(size)
        self._kept_bytes -= size
        return held

    def give_back(self, held: list[bytearray]) -> None:
        """Of an operation that has ended well: nothing uses them any more."""
        for one in held:
            if self._kept_bytes + len(one) <= self._keep_bytes:
                self._kept_bytes += len(one)
                self._free.setdefault(len(one), []).append(one)


class Turns:
    """Operations of a rank whose numbers are `SLOTS` apart use the same shared memory, in turn.

    Which of them are asynchronous, and so wait for others of their rank, each rank chooses for itself.
    """

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._changed = threading.Condition()

    def begin(self, number: int) -> None:
        """Called in the order of numbers."""
        with self._changed:
            self._open.add(number)

    def end(self, number: int) -> None:
        """It has ended, well or not."""
        with self._changed:
            self._open.discard(number)
            self._changed.notify_all()

    def wait(self, number: int, look: Callable[[], None]) -> None:
        """Until all operations before this one in its place have ended. Raises what `look` does."""
        with self._changed:
            while any(n < number and (number - n) % SLOTS == 0 for n in self._open):
                self._changed.wait(_LOOK_AGAIN_S)
                look()


class Operation:
    """An `Exchange`: one collective, number `number` of its group."""

    def __init__(
        self,
        transport: Transport,
        scratch: Scratch,
        board: Board,
        turns: Turns,
        number: int,
        call: Call,
        timeout_s: float,
    ) -> None:
        self.rank, self.size = transport.rank, transport.size
        self._transport = transport
        self._scratch = scratch
        self._board = board
        self._turns = turns
        self.number = number
        self._stream = number * _PARTS
        self._call = call
        self._timeout_s = timeout_s
        now_s = time.monotonic()
        self._deadline_s = now_s + timeout_s
        self._look_at_s = now_s + _STUCK_S
        self._rounds = 0
        self._held: list[bytearray] = []

    def label(self) -> str:
        """E.g. `all_reduce #12 float32[1024] SUM`."""
        kind, _, rest = self._call.text.partition(" ")
        return f"{kind} #{self.number} {rest}".rstrip()

    def _told(self) -> str:
        before = self._call.before
        return f"{self.label()} (after {before})" if before else self.label()

    def send(self, peer: int, data: memoryview, part: int = 0) -> Transfer:
        """See `Exchange`."""
        return self._transport.send(
            peer,
            self._stream + part,
            data,
            label=self._told,
            fingerprint=self._call.fingerprint,
        )

    def recv(self, peer: int, into: memoryview, part: int = 0) -> Transfer:
        """See `Exchange`."""
        return self._transport.recv(
            peer,
            self._stream + part,
            into,
            label=self._told,
            fingerprint=self._call.fingerprint,
        )

    def table(self) -> Table | None:
        """See `Exchange`. Raises TransportError."""
        call = commons.Call(self.number, self._rounds, self._call.fingerprint, self._call.told)
        self._rounds += 1
        if call.step == 0:
            self._turns.wait(self.number, self._look_at_deadline)
        return self._transport.round(call, self._look)

    def _look_at_deadline(self) -> None:
        """While this rank waits for operations that it has begun before."""
        self._transport.check()
        if time.monotonic() >= self._deadline_s:
            raise CollectiveTimeoutError(
                f"Timed out waiting {self._timeout_s:g} s for operation #{self.number - SLOTS} and "
                "others before it on this rank"
            )

    def _look(self, late: commons.Late) -> None:
        """While this rank waits in shared memory."""
        now_s = time.monotonic()
        if now_s >= self._deadline_s:
            ranks = late()
            if ranks:
                who = ", ".join(map(str, ranks))
                raise CollectiveTimeoutError(
                    f"Timed out waiting {self._timeout_s:g} s for rank{'s' * (len(ranks) > 1)} {who}"
                )
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + _STUCK_S
            self._look_around()

    def wait(self, pending: Pending) -> None:
        """See `Exchange`. Raises TransportError or CollectiveError."""
        assert isinstance(pending, Transfer)
        while not pending.done:
            left_s = self._deadline_s - time.monotonic()
            if left_s <= 0:
                raise CollectiveTimeoutError(self._late(pending))
            try:
                pending.wait(min(left_s, _STUCK_S))
            except WaitTimeoutError:
                self._look_around()
        if pending.error is not None:
            raise pending.error

    def scratch(self, nbytes: int) -> memoryview:
        """See `Exchange`."""
        self._held.append(self._scratch.take(nbytes))
        return memoryview(self._held[-1])[:nbytes]

    def private(self, data: memoryview) -> memoryview:
        """See `Exchange`."""
        return memoryview(bytes(data))

    def close(self) -> None:
        """It has ended well."""
        self._scratch.give_back(self._held)

    def _look_around(self) -> None:
        self._board.announce(self.number, self._call)
        for rank, (number, call) in self._board.read().items():
            if number == self.number and call.fingerprint != self._call.fingerprint:
                raise CollectiveError(
                    f"ranks call different things as operation #{number}: rank {self.rank} "
                    f"{self._call.told}, rank {rank} {call.text}"
                )

    def _late(self, pending: Transfer) -> str:
        there = [r for r, (number, _) in self._board.read().items() if number == self.number]
        missing = [r for r in range(self.size) if r not in there and r != self.rank]
        who = (
            "all ranks are in it"
            if not missing
            else (
                f"nothing is known of rank{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
                " being in it"
            )
        )
        return (
            f"Timed out waiting {self._timeout_s:g} s for {pending.size_bytes} bytes with rank "
            f"{pending.peer}; {who}"
        )
