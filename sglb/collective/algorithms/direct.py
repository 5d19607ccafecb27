"""Algorithms in which every rank talks to every other one: one or two hops whatever the number of ranks.

Each contribution is sent straight to the rank that adds it up, which does so in rank order; on a full
mesh this moves as few bytes as a ring, in 2 steps instead of 2(n-1). Many ranks use `ring` and `tree`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from sglb.collective.algorithms.exchange import Exchange, Pending, Reducer, others
from sglb.collective.algorithms.pieces import pieces, segments

_COPIED_BYTES = 64 << 10  #: up to here a copy costs less than to wait until a message has been read
_SENT_AHEAD = 2  #: pieces that are on their way to each peer while one is being added
_RECEIVED_AHEAD = 3  #: more: what comes before its receive is posted is copied once more


def fold(parts: list[memoryview], out: memoryview, reducer: Reducer, total: memoryview) -> None:
    """Adds up in rank order. `out` is separate from `parts`, or one of them.

    `total` is for partial sums: `out`, or other memory where `out` is a part that is read late.
    """
    reducer.combine(parts[0], parts[1], out if len(parts) == 2 else total)
    for index, part in enumerate(parts[2:], start=2):
        reducer.combine(total, part, out if index == len(parts) - 1 else total)
    reducer.finish(out)


def _fold_received(
    parts: list[memoryview], out: memoryview, reducer: Reducer, own: int | None
) -> None:
    """`fold` of parts that may be overwritten, unless `out` is one: `parts[own]`."""
    fold(parts, out, reducer, parts[0] if own is not None and own > 1 else out)


def all_reduce_at_once(x: Exchange, data: memoryview, reducer: Reducer) -> None:
    """Every rank sends all it has to every other and adds up for itself: one hop, for small `data`."""
    parts = [data] * x.size
    arrivals = []
    for peer in others(x):
        parts[peer] = x.scratch(len(data))
        arrivals.append(x.recv(peer, parts[peer]))
    copied = len(data) <= _COPIED_BYTES
    mine = x.private(data) if copied else data
    sent = [x.send(peer, mine) for peer in others(x)]
    for arrival in arrivals:
        x.wait(arrival)
    for message in () if copied else sent:
        x.wait(message)  # then `data` may become the result
    _fold_received(parts, data, reducer, x.rank)


class _Inflow:
    """Pieces of a rank's own segment from all others, into scratch memory that is used in turns."""

    def __init__(self, x: Exchange, results: list[memoryview]) -> None:
        self._x = x
        self._results = results
        slot_bytes = max(map(len, results), default=0)
        self._slots = {
            peer: [x.scratch(slot_bytes) for _ in results[:_RECEIVED_AHEAD]] for peer in others(x)
        }
        self._arrivals: dict[int, deque[Pending]] = {peer: deque() for peer in self._slots}
        for index in range(_RECEIVED_AHEAD):
            self.expect(index)

    def expect(self, index: int) -> None:
        """Posts the receives of a piece, if there is one, in place of `_RECEIVED_AHEAD` before it."""
        if index < len(self._results):
            for peer, slots in self._slots.items():
                into = slots[index % _RECEIVED_AHEAD][: len(self._results[index])]
                self._arrivals[peer].append(self._x.recv(peer, into))

    def take(self, index: int) -> dict[int, memoryview]:
        """The pieces of the other ranks, once they are here."""
        found = {}
        for peer, slots in self._slots.items():
            self._x.wait(self._arrivals[peer].popleft())
            found[peer] = slots[index % _RECEIVED_AHEAD][: len(self._results[index])]
        return found


class _Outflow:
    """Pieces of the other ranks' segments on their way to them, a few at a time."""

    def __init__(self, x: Exchange, parts: list[memoryview], piece_bytes: int) -> None:
        self._x = x
        self._cuts = {peer: pieces(parts[peer], piece_bytes) for peer in others(x)}
        self._sent: dict[int, list[Pending]] = {peer: [] for peer in self._cuts}
        self.rounds = max(map(len, self._cuts.values()), default=0)
        for index in range(_SENT_AHEAD):
            self.send(index)

    def send(self, index: int) -> None:
        """Sends piece `index` to every peer that has so many."""
        for peer, cut in self._cuts.items():
            if index < len(cut):
                self._sent[peer].append(self._x.send(peer, cut[index]))

    def arrived(self, index: int) -> dict[int, memoryview]:
        """Piece `index` of each peer that has so many, once the peer has it: free for other use."""
        found = {}
        for peer, cut in self._cuts.items():
            if index < len(cut):
                self._x.wait(self._sent[peer][index])
                found[peer] = cut[index]
        return found


def reduce_scatter(
    x: Exchange,
    inputs: list[memoryview],
    out: memoryview,
    reducer: Reducer,
    piece_bytes: int,
    finished: Callable[[memoryview], None] = lambda _piece: None,
    arrived: Callable[[dict[int, memoryview]], None] = lambda _pieces: None,
) -> None:
    """`out` becomes the reduction of all ranks' `inputs[rank]`; it is separate, or one of them.

    Adds a piece while later ones are under way. Calls `arrived` with pieces of `inputs`, by peer, that
    their peers have got, then `finished` with a piece of `out`, round by round.
    """
    mine, results = pieces(inputs[x.rank], piece_bytes), pieces(out, piece_bytes)
    in_place = x.rank if out is inputs[x.rank] else None
    inflow = _Inflow(x, results)
    outflow = _Outflow(x, inputs, piece_bytes)
    for index in range(max(len(results), outflow.rounds)):
        if index < len(results):
            parts = [mine[index]] * x.size
            for peer, piece in inflow.take(index).items():
                parts[peer] = piece
            _fold_received(parts, results[index], reducer, in_place)
            inflow.expect(index + _RECEIVED_AHEAD)
        outflow.send(index + _SENT_AHEAD)
        arrived(outflow.arrived(index))
        if index < len(results):
            finished(results[index])


def all_reduce(x: Exchange, data: memoryview, reducer: Reducer, piece_bytes: int) -> None:
    """Reduces a segment on each rank and sends the result to all others, piece by piece."""
    parts = segments(data, x.size, reducer.itemsize)
    whole: list[Pending] = []

    def receive(free: dict[int, memoryview]) -> None:
        whole.extend(x.recv(peer, piece, part=1) for peer, piece in free.items())

    def distribute(piece: memoryview) -> None:
        whole.extend(x.send(peer, piece, part=1) for peer in others(x))

    reduce_scatter(x, parts, parts[x.rank], reducer, piece_bytes, distribute, receive)
    for pending in whole:
        x.wait(pending)


def all_gather(x: Exchange, own: memoryview, outputs: list[memoryview]) -> None:
    """`outputs[p]` becomes what rank p has in `own`; `outputs[rank]` may be that memory itself."""
    pending = [x.recv(peer, outputs[peer]) for peer in reversed(others(x))]
    pending += [x.send(peer, own) for peer in others(x)]
    if outputs[x.rank] is not own:
        outputs[x.rank][:] = own
    for message in pending:
        x.wait(message)


def reduce(
    x: Exchange, data: memoryview, out: memoryview | None, root: int, reducer: Reducer
) -> None:
    """All of `data` goes to `root`, which adds up into `out`: for small data, or few ranks."""
    if out is None:
        x.send(root, x.private(data))
        return
    parts = [data] * x.size
    for peer in others(x):
        parts[peer] = x.scratch(len(data))
    for arrival in [x.recv(peer, parts[peer]) for peer in others(x)]:
        x.wait(arrival)
    _fold_received(parts, out, reducer, x.rank if out is data else None)


def reduce_in_segments(
    x: Exchange,
    data: memoryview,
    out: memoryview | None,
    root: int,
    reducer: Reducer,
    piece_bytes: int,
) -> None:
    """Reduces a segment on each rank and sends it to `root`; `data` stays as it was elsewhere."""
    parts = segments(data, x.size, reducer.itemsize)
    waiting: list[Pending] = []
    if out is None:
        mine = x.scratch(len(parts[x.rank]))

        def pass_on(piece: memoryview) -> None:
            waiting.append(x.send(root, piece, part=1))

        reduce_scatter(x, parts, mine, reducer, piece_bytes, pass_on)
    else:
        targets = parts if out is data else segments(out, x.size, reducer.itemsize)
        reduce_scatter(x, parts, targets[x.rank], reducer, piece_bytes)
        for peer in others(x):
            waiting += [x.recv(peer, p, part=1) for p in pieces(targets[peer], piece_bytes)]
    for message in waiting:
        x.wait(message)
