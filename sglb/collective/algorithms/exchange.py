"""What an algorithm sees of the network: messages of one operation, a deadline, memory to work in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Pending(Protocol):
    """A message on its way, as the transport knows it."""


class Reducer(Protocol):
    """How elements are combined. `itemsize` in bytes; views are whole elements."""

    itemsize: int

    def combine(self, first: memoryview, second: memoryview, out: memoryview) -> None:
        """`out = first (op) second`; `out` may be either of them."""

    def finish(self, out: memoryview) -> None:
        """Completes a reduction over all ranks (the division of an average)."""


class Table(Protocol):
    """Memory that all ranks share for one operation: each lays out a part for each other rank, once.

    All ranks call `post`, at last all call `finish`; what a rank lays out stays as it is meanwhile, or
    as `advance` and `advanced` agree.
    """

    #: Whether ranks can lay out any number of bytes, or only those that are copied.
    lends: bool

    def copies(self, nbytes: int) -> bool:
        """Whether so many bytes, for all ranks together, are laid out as a copy."""

    def post(self, parts: Sequence[memoryview] = ()) -> None:
        """Lays out a part for each rank, or one for all."""

    def posted(self, ranks: Sequence[int] | None = None) -> None:
        """Waits until these ranks, or all, have laid out theirs."""

    def view(self, rank: int, size: int) -> memoryview | None:
        """A rank's part, to read only, where it lies in shared memory; None where it does not."""

    def take(self, rank: int, into: memoryview, at: int = 0, size: int | None = None) -> None:
        """Copies a rank's part, or of a part of `size` bytes what begins at `at`."""

    def advance(self) -> None:
        """Says that this rank has made a step."""

    def advanced(self, rank: int) -> None:
        """Waits until a rank has said so."""

    def finish(self) -> None:
        """Nothing more is taken; waits until nobody needs what this rank has laid out."""


class Exchange(Protocol):
    """One operation on one rank.

    Messages between two ranks meet in the order in which they are sent and received, separately for each
    `part`. Memory given to `send` and `recv` is in use until `wait` has returned for the message. All of
    these raise the operation's error: a peer that does something else, a timeout, a lost peer.
    """

    rank: int
    size: int

    def send(self, peer: int, data: memoryview, part: int = 0) -> Pending:
        """Starts to send."""

    def recv(self, peer: int, into: memoryview, part: int = 0) -> Pending:
        """Starts to receive exactly `len(into)` bytes."""

    def wait(self, pending: Pending) -> None:
        """Until the message has arrived whole: here, or at the peer."""

    def scratch(self, nbytes: int) -> memoryview:
        """Memory with any content that is this operation's until it ends."""

    def table(self) -> Table | None:
        """For one exchange, where all ranks are on one host and share memory; all ask for it."""

    def private(self, data: memoryview) -> memoryview:
        """A copy that need not be waited for: it lives until it has arrived."""


def others(x: Exchange) -> list[int]:
    """The other ranks, from the next one on, so that not all begin with the same one."""
    return [(x.rank + step) % x.size for step in range(1, x.size)]
