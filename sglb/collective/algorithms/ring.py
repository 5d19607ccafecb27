"""Rings, for more ranks than should all talk to each other, and a chain for broadcasts of large data."""

from __future__ import annotations

from collections.abc import Callable

from sglb.collective.algorithms.exchange import Exchange, Pending, Reducer
from sglb.collective.algorithms.pieces import pieces, segments

_WINDOW = 3  #: pieces that may be under way to scratch memory while one is being added


def _reduce_round(
    x: Exchange,
    cuts: list[list[memoryview]],
    finished: Callable[[memoryview], None],
    reducer: Reducer,
) -> list[list[list[Pending]]]:
    """n-1 steps, in place: segment `rank + 1` is complete here at the end, other segments partial.

    `cuts[segment]` are the segment's pieces, as many for each. Returns what was sent of each piece.
    """
    n, r, count = x.size, x.rank, len(cuts[0])
    right, left = (r + 1) % n, (r - 1) % n
    sent: list[list[list[Pending]]] = [[[] for _ in range(count)] for _ in range(n)]
    slots = [x.scratch(max(len(p) for cut in cuts for p in cut)) for _ in range(_WINDOW)]
    steps = [((r - step - 1) % n, index) for step in range(n - 1) for index in range(count)]

    def expect(number: int) -> Pending:
        segment, index = steps[number]
        return x.recv(left, slots[number % _WINDOW][: len(cuts[segment][index])])

    for index in range(count):
        sent[r][index].append(x.send(right, cuts[r][index]))
    arrivals = [expect(number) for number in range(min(_WINDOW, len(steps)))]
    for number, (segment, index) in enumerate(steps):
        x.wait(arrivals[number])
        piece = cuts[segment][index]
        reducer.combine(slots[number % _WINDOW][: len(piece)], piece, piece)
        if number + _WINDOW < len(steps):
            arrivals.append(expect(number + _WINDOW))
        if number < len(steps) - count:
            sent[segment][index].append(x.send(right, piece))
        else:
            reducer.finish(piece)
            finished(piece)
    return sent


def _equally_many(
    parts: list[memoryview], piece_bytes: int, itemsize: int
) -> list[list[memoryview]]:
    count = max(1, -(-max(len(part) for part in parts) // piece_bytes))
    return [segments(part, count, itemsize) for part in parts]


def all_reduce(x: Exchange, data: memoryview, reducer: Reducer, piece_bytes: int) -> None:
    """2(n-1) steps between neighbours; pieces of a step are added while later ones arrive."""
    cuts = _equally_many(segments(data, x.size, reducer.itemsize), piece_bytes, reducer.itemsize)
    n, r, count = x.size, x.rank, len(cuts[0])
    right, left = (r + 1) % n, (r - 1) % n
    waiting: list[Pending] = []
    sent = _reduce_round(
        x, cuts, lambda piece: waiting.append(x.send(right, piece, part=1)), reducer
    )
    steps = [((r - step) % n, index) for step in range(n - 1) for index in range(count)]
    arrivals = []
    for segment, index in steps:
        for message in sent[segment][index]:
            x.wait(message)
        arrivals.append(x.recv(left, cuts[segment][index], part=1))
    for number, (segment, index) in enumerate(steps):
        x.wait(arrivals[number])
        if number < len(steps) - count:
            waiting.append(x.send(right, cuts[segment][index], part=1))
    for message in waiting:
        x.wait(message)


def reduce_scatter(
    x: Exchange, inputs: list[memoryview], out: memoryview, reducer: Reducer, piece_bytes: int
) -> None:
    """Neighbours only. Works on a copy of `inputs`, which stay as they are."""
    n = x.size
    whole = x.scratch(sum(len(part) for part in inputs))
    copies, at = [], 0
    for part in inputs:
        copies.append(whole[at : at + len(part)])
        copies[-1][:] = part
        at += len(part)
    # A round leaves segment rank + 1 here; this rank wants its own.
    turned = [copies[(index - 1) % n] for index in range(n)]
    cuts = _equally_many(turned, piece_bytes, reducer.itemsize)
    sent = _reduce_round(x, cuts, lambda _piece: None, reducer)
    out[:] = copies[x.rank]
    for segment in sent:
        for messages in segment:
            for message in messages:
                x.wait(message)


def all_gather(x: Exchange, own: memoryview, outputs: list[memoryview], piece_bytes: int) -> None:
    """Blocks travel round the ring; a piece goes on as soon as it is here."""
    n, r = x.size, x.rank
    right, left = (r + 1) % n, (r - 1) % n
    if outputs[r] is not own:
        outputs[r][:] = own
    steps = [
        (step, piece)
        for step in range(1, n)
        for piece in pieces(outputs[(r - step) % n], piece_bytes)
    ]
    arrivals = [x.recv(left, piece) for _step, piece in steps]
    sent = [x.send(right, piece) for piece in pieces(outputs[r], piece_bytes)]
    for arrival, (step, piece) in zip(arrivals, steps, strict=True):
        x.wait(arrival)
        if step < n - 1:
            sent.append(x.send(right, piece))
    for message in sent:
        x.wait(message)


def broadcast(x: Exchange, data: memoryview, root: int, piece_bytes: int) -> None:
    """A chain from `root` on: each rank passes a piece on while the next one arrives."""
    place = (x.rank - root) % x.size
    right, left = (x.rank + 1) % x.size, (x.rank - 1) % x.size
    cut = pieces(data, piece_bytes)
    arrivals = [x.recv(left, piece) for piece in cut] if place else []
    sent = []
    for index, piece in enumerate(cut):
        if place:
            x.wait(arrivals[index])
        if place < x.size - 1:
            sent.append(x.send(right, piece))
    for message in sent:
        x.wait(message)
