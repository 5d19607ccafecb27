"""Algorithms in which every rank talks to every other one: one or two hops whatever the number of ranks.

Each contribution is sent straight to the rank that adds it up, which does so in rank order; on a full
mesh this moves as few bytes as a ring, in 2 steps instead of 2(n-1). Many ranks use `ring` and `tree`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from sglb.collective.algorithms.exchange import Exchange, Pending, Reducer, others
from sglb.collective.algorithms.pieces import pieces, segments

_WINDOW = 3  #: pieces a peer may have under way to scratch memory while one is being added


def fold(parts: list[memoryview], out: memoryview, reducer: Reducer, *, own: int | None) -> None:
    """Adds up in rank order. `out` is separate from `parts`, or is `parts[own]`.

    Parts other than a rank's own may be overwritten.
    """
    total = parts[0] if own is not None and own > 1 else out
    reducer.combine(parts[0], parts[1], out if len(parts) == 2 else total)
    for index, part in enumerate(parts[2:], start=2):
        reducer.combine(total, part, out if index == len(parts) - 1 else total)
    reducer.finish(out)


def all_reduce_at_once(x: Exchange, data: memoryview, reducer: Reducer) -> None:
    """Every rank sends all it has to every other and adds up for itself: one hop, for small `data`."""
    parts = [data] * x.size
    arrivals = []
    mine = x.private(data)
    for peer in others(x):
        x.send(peer, mine)
    for peer in others(x):
        parts[peer] = x.scratch(len(data))
        arrivals.append(x.recv(peer, parts[peer]))
    for arrival in arrivals:
        x.wait(arrival)
    fold(parts, data, reducer, own=x.rank)


def reduce_scatter(
    x: Exchange,
    inputs: list[memoryview],
    out: memoryview,
    reducer: Reducer,
    piece_bytes: int,
    finished: Callable[[int, memoryview], None] = lambda _index, _piece: None,
) -> dict[int, list[Pending]]:
    """`out` becomes the reduction of all ranks' `inputs[rank]`; it is separate from them or one of them.

    Adds a piece while later ones arrive, and calls `finished(index, piece)` for each. Returns what was
    sent, by peer and piece, for the caller to wait for.
    """
    sent = {
        peer: [x.send(peer, p) for p in pieces(inputs[peer], piece_bytes)] for peer in others(x)
    }
    mine = pieces(inputs[x.rank], piece_bytes)
    results = pieces(out, piece_bytes)
    in_place = x.rank if out is inputs[x.rank] else None
    slots = {
        peer: [x.scratch(min(piece_bytes, len(out))) for _ in results[:_WINDOW]]
        for peer in others(x)
    }
    arrivals: dict[int, deque[Pending]] = {peer: deque() for peer in slots}

    def expect(index: int) -> None:
        for peer, ring in slots.items():
            into = ring[index % _WINDOW][: len(results[index])]
            arrivals[peer].append(x.recv(peer, into))

    for index in range(min(_WINDOW, len(results))):
        expect(index)
    for index, result in enumerate(results):
        parts = [mine[index]] * x.size
        for peer, ring in slots.items():
            x.wait(arrivals[peer].popleft())
            parts[peer] = ring[index % _WINDOW][: len(result)]
        fold(parts, result, reducer, own=in_place)
        if index + _WINDOW < len(results):
            expect(index + _WINDOW)
        finished(index, result)
    return sent


def all_reduce(x: Exchange, data: memoryview, reducer: Reducer, piece_bytes: int) -> None:
    """Reduces a segment on each rank and sends the result to all others, piece by piece."""
    parts = segments(data, x.size, reducer.itemsize)
    whole: list[Pending] = []

    def distribute(_index: int, piece: memoryview) -> None:
        whole.extend(x.send(peer, piece, part=1) for peer in others(x))

    sent = reduce_scatter(x, parts, parts[x.rank], reducer, piece_bytes, distribute)
    # What a peer reduced lands where its share came from, so not before that has left for good.
    cuts = {peer: pieces(parts[peer], piece_bytes) for peer in others(x)}
    for index in range(max((len(cut) for cut in cuts.values()), default=0)):
        for peer, cut in cuts.items():
            if index < len(cut):
                x.wait(sent[peer][index])
                whole.append(x.recv(peer, cut[index], part=1))
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
    fold(parts, out, reducer, own=x.rank if out is data else None)


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
    targets = (
        segments(out, x.size, reducer.itemsize) if out is not None and out is not data else parts
    )
    waiting: list[Pending] = []
    if out is not None:
        mine = targets[x.rank]
        sent = reduce_scatter(x, parts, mine, reducer, piece_bytes)
        for peer in others(x):
            for index, piece in enumerate(pieces(targets[peer], piece_bytes)):
                x.wait(sent[peer][index])
                waiting.append(x.recv(peer, piece, part=1))
    else:
        mine = x.scratch(len(parts[x.rank]))
        sent = reduce_scatter(
            x,
            parts,
            mine,
            reducer,
            piece_bytes,
            lambda _index, piece: waiting.append(x.send(root, piece, part=1)),
        )
        waiting += [message for messages in sent.values() for message in messages]
    for message in waiting:
        x.wait(message)
