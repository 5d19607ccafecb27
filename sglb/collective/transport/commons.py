"""Memory that all ranks of a group on one host share: what one lays out there, the others take.

An operation among them needs no messages then. Each rank has a page of words that it alone writes
(others only ring its bell), and a few slots that operations use in turns; in its slot a rank says which
operation it is in and lays out a part for each other rank: small ones as a copy in the slot, large ones
as an address from which the others copy (`lending.read_process`) until they say that they have. A rank
that waits looks again and again for a moment, then sleeps until its bell is rung.

Whether all of them can do so is found out once, together, when the group is made.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from sglb.collective.transport.errors import (
    AbortedError,
    MismatchError,
    PeerLostError,
    WireError,
)
from sglb.collective.transport.lending import read_process
from sglb.collective.transport.segment import (
    COPIED_BYTES,
    FIRST_TEXT_WORD,
    SLOTS,
    TEXT_WORDS,
    Segment,
    SlotWord,
    Word,
    address_of,
)

#: So long a rank looks before it sleeps.
_LOOK_S = 100e-6
#: One reading of another rank's memory: a moment's work, so that an end of the group is noticed.
_PIECE_BYTES = 8 << 20
_STEP_BITS = 20


class Call(NamedTuple):
    """What a rank is in: number of the operation, step of it, what it is, as 64 bits and in words."""

    number: int
    step: int
    fingerprint: int
    text: str

    @property
    def key(self) -> int:
        """Grows with each step of each operation."""
        return self.number << _STEP_BITS | self.step


#: Ranks that have not yet done what is waited for.
Late = Callable[[], list[int]]


class Watch(NamedTuple):
    """What goes on while a rank sleeps: `awaiting` others, `look` whether it still may."""

    awaiting: Callable[[], AbstractContextManager[None]]
    look: Callable[[Late], None]


class Commons:
    """The memory of all ranks of a group, seen by one of them.

    lends: whether all can read each other's memory, so that operations of any size can be done here.
    """

    def __init__(self, rank: int, segments: Sequence[Segment], *, lends: bool) -> None:
        self.rank, self.size = rank, len(segments)
        self.lends = lends
        self.taken_bytes = 0
        self.others = [(rank + step) % self.size for step in range(1, self.size)]
        self._segments = segments
        self._pids = [segment.words[Word.PID] for segment in segments]
        self._words = [[s.slot(number) for s in segments] for number in range(SLOTS)]
        self._data = [[s.data(number) for s in segments] for number in range(SLOTS)]
        self._last = [0] * SLOTS  # keys of the calls that used them last
        self._told = [""] * SLOTS
        self._sleeping = threading.Lock()

    def round(self, call: Call, watch: Watch) -> Round:
        """This rank's part of an operation."""
        return Round(self, call, watch)

    def revoke(self) -> None:
        """The group is given up: what this rank has lent must not be used any more."""
        self._segments[self.rank].words[Word.REVOKED] = 1

    def revoked(self, rank: int) -> bool:
        """Whether a rank has done so."""
        return bool(self._segments[rank].words[Word.REVOKED])

    def slot(self, call: Call) -> tuple[list[memoryview], list[memoryview]]:
        """Words and bytes, by rank, of an operation's slot."""
        return self._words[call.number % SLOTS], self._data[call.number % SLOTS]

    def use(self, call: Call) -> int:
        """The key of the call before this one in its slot, which is this one's from now on."""
        number = call.number % SLOTS
        last, self._last[number] = self._last[number], call.key
        return last

    def tell(self, call: Call) -> None:
        """Write into its slot what a call is, unless that stands there from another one."""
        number = call.number % SLOTS
        if self._told[number] == call.text:
            return
        self._told[number] = call.text
        words = self._words[number][self.rank]
        text = call.text.encode()[: 8 * TEXT_WORDS]
        words[FIRST_TEXT_WORD:].cast("B")[: len(text)] = text
        words[SlotWord.TEXT_BYTES] = len(text)

    def read(self, rank: int, address: int, into: memoryview) -> None:
        """Copy from a rank's memory. Raises OSError."""
        read_process(self._pids[rank], address, into)

    def ring(self, fence: threading.Lock) -> None:
        """Tell all others that something has changed."""
        full_fence(fence)
        for rank in self.others:
            segment = self._segments[rank]
            if segment.words[Word.SLEEPERS]:
                segment.ring()

    def wait(self, late: Late, watch: Watch, fence: threading.Lock) -> None:
        """Until nobody is late. Raises what `watch.look` does."""
        if not late():
            return
        limit = time.monotonic() + _LOOK_S
        while time.monotonic() < limit:
            os.sched_yield()
            if not late():
                return
        with watch.awaiting(), self._asleep() as segment:
            while True:
                full_fence(fence)
                if not late():
                    return
                segment.nap()
                if not late():
                    return
                watch.look(late)

    @contextmanager
    def _asleep(self) -> Iterator[Segment]:
        """Others see that the bell has to be rung."""
        segment = self._segments[self.rank]
        with self._sleeping:
            segment.words[Word.SLEEPERS] += 1
        try:
            yield segment
        finally:
            with self._sleeping:
                segment.words[Word.SLEEPERS] -= 1


def full_fence(held: threading.Lock) -> None:
    """What was stored is seen by others before what is loaded next, and before what is stored next.

    Python has no word for it; the two atomic operations of a lock that only this thread uses, in this
    order, do.
    """
    held.release()
    held.acquire()


class Round:
    """One rank's part of one operation. Not for several threads at once; calls `SLOTS` apart in turn.

    All ranks call `post`; then a rank may take what the others have laid out for it; at last all call
    `finish`. Each raises the group's error, or what makes it one.
    """

    def __init__(self, commons: Commons, call: Call, watch: Watch) -> None:
        self.lends = commons.lends
        self._commons = commons
        self._call = call
        self._key = call.key
        self._watch = watch
        self._words, self._data = commons.slot(call)
        self._fence = threading.Lock()
        self._fence.acquire()
        self._lent = False
        self._held: Sequence[memoryview] = ()

    def copies(self, nbytes: int) -> bool:
        """Whether so much, for all others together, is laid out as a copy."""
        return nbytes <= COPIED_BYTES

    def post(self, parts: Sequence[memoryview] = ()) -> None:
        """Lay out a part for each rank, by rank, or one for all. It may change after `finish`."""
        commons, key = self._commons, self._key
        words, data = self._words[commons.rank], self._data[commons.rank]
        last = commons.use(self._call)
        if last:
            self._until(SlotWord.FINISHED, last, commons.others)
        self._lent = not self.copies(sum(map(len, parts)))
        self._held = parts
        at = 0
        for index, part in enumerate(parts):
            size = len(part)
            words[SlotWord.FIRST_PART + 2 * index] = size
            if self._lent:
                words[SlotWord.FIRST_PART + 1 + 2 * index] = address_of(part) if size else 0
            else:
                data[at : at + size] = part
                words[SlotWord.FIRST_PART + 1 + 2 * index] = at
                at += size
        words[SlotWord.PARTS] = len(parts)
        words[SlotWord.LENT] = self._lent
        words[SlotWord.FINGERPRINT] = self._call.fingerprint
        words[SlotWord.PROGRESS] = 0
        commons.tell(self._call)
        full_fence(self._fence)
        words[SlotWord.POSTED] = key
        commons.ring(self._fence)

    def posted(self, ranks: Sequence[int] | None = None) -> None:
        """Wait until others, or all of them, have laid out theirs. Raises MismatchError."""
        key = self._key
        for rank in self._commons.others if ranks is None else ranks:
            theirs = self._words[rank]
            if theirs[SlotWord.POSTED] < key:
                self._until(SlotWord.POSTED, key, [rank])
            if theirs[SlotWord.POSTED] != key or (
                theirs[SlotWord.FINGERPRINT] != self._call.fingerprint
            ):
                raise MismatchError(
                    f"operations differ: rank {self._commons.rank} is in {self._call.text}, "
                    f"rank {rank} in {self._text(rank)}"
                )

    def _text(self, rank: int) -> str:
        words = self._words[rank]
        place = words[FIRST_TEXT_WORD:].cast("B")
        return bytes(place[: min(words[SlotWord.TEXT_BYTES], len(place))]).decode(
            "utf-8", "replace"
        )

    def _part(self, rank: int, size: int) -> int:
        """Where a rank's part for this one is; it has to have this size."""
        words = self._words[rank]
        index = self._commons.rank if words[SlotWord.PARTS] > 1 else 0
        found = words[SlotWord.FIRST_PART + 2 * index] if words[SlotWord.PARTS] else 0
        if found != size:
            raise MismatchError(
                f"sizes differ: rank {rank} has {found} bytes ({self._text(rank)}) for rank "
                f"{self._commons.rank}, which expects {size} bytes ({self._call.text})"
            )
        where = words[SlotWord.FIRST_PART + 1 + 2 * index]
        if not words[SlotWord.LENT] and where + size > COPIED_BYTES:
            raise WireError(f"rank {rank} says that {size} bytes lie at {where} of {COPIED_BYTES}")
        return where

    def view(self, rank: int, size: int) -> memoryview | None:
        """A rank's part for this one, to be read only, where it lies as a copy; None: it is lent."""
        at = self._part(rank, size)
        if self._words[rank][SlotWord.LENT]:
            return None
        self._commons.taken_bytes += size
        return self._data[rank][at : at + size]

    def take(self, rank: int, into: memoryview, at: int = 0, size: int | None = None) -> None:
        """Copy from a rank's part, of `size` bytes if `into` is not all of it, from offset `at` on."""
        start = self._part(rank, len(into) if size is None else size) + at
        commons = self._commons
        commons.taken_bytes += len(into)
        if not self._words[rank][SlotWord.LENT]:
            into[:] = self._data[rank][start : start + len(into)]
            return
        for low in range(0, len(into), _PIECE_BYTES):
            piece = into[low : low + _PIECE_BYTES]
            try:
                commons.read(rank, start + low, piece)
            except OSError as error:
                self._lost(rank, str(error))
            if commons.revoked(rank):
                self._lost(rank, "it has given the group up")

    def _lost(self, rank: int, why: str) -> None:
        """Of an end of the group its first reason counts, which may be on its way."""
        limit = time.monotonic() + 1
        with self._watch.awaiting():
            while time.monotonic() < limit:
                self._watch.look(lambda: [rank])
                time.sleep(0.01)
        kind = AbortedError if self._commons.revoked(rank) else PeerLostError
        raise kind(f"cannot take what rank {rank} has for rank {self._commons.rank}: {why}")

    def advance(self) -> None:
        """Say that this rank has come one step further."""
        full_fence(self._fence)
        self._words[self._commons.rank][SlotWord.PROGRESS] += 1
        self._commons.ring(self._fence)

    def advanced(self, rank: int) -> None:
        """Wait until a rank has said so."""
        self._until(SlotWord.PROGRESS, 1, [rank])

    def finish(self) -> None:
        """Nothing more is taken here; wait until nobody needs what this rank has lent."""
        full_fence(self._fence)
        self._words[self._commons.rank][SlotWord.FINISHED] = self._key
        self._commons.ring(self._fence)
        if self._lent:
            self._until(SlotWord.FINISHED, self._key, self._commons.others)

    def _until(self, word: int, value: int, ranks: Sequence[int]) -> None:
        """Until a word of these ranks has become so large; they only grow during an operation."""
        words = self._words
        self._commons.wait(
            lambda: [rank for rank in ranks if words[rank][word] < value], self._watch, self._fence
        )
