"""Which algorithm a collective takes, by size and number of ranks.

All ranks choose alike, since sizes are equal on all of them. Results depend on the algorithm (the order
of additions) and so on the sizes here, but not on what the network does.
"""

from __future__ import annotations

from sglb.collective.algorithms import direct, pairwise, ring, shared, tree
from sglb.collective.algorithms.exchange import Exchange, Reducer, Table

__all__ = [
    "Exchange",
    "Reducer",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]

#: Up to so many ranks all talk to all; the memory for that grows with their number.
DIRECT_RANKS = 8
SMALL_BYTES = 16 << 10  #: below, hops cost more than bytes
#: Two ranks send as much in one hop as in two, more ranks more: so many bytes, halved for each rank.
AT_ONCE_BYTES = 4 << 20
_SMALLEST_PIECE = 1 << 20
_LARGEST_PIECE = 4 << 20


def _piece_bytes(segment_bytes: int) -> int:
    """Small enough to overlap transfer and addition, large enough to spare messages; a power of two."""
    piece = _SMALLEST_PIECE
    while piece < _LARGEST_PIECE and piece * 4 <= segment_bytes:
        piece *= 2
    return piece


def _table(x: Exchange, nbytes: int) -> Table | None:
    """Shared memory for an operation in which no rank lays out more than so much, which all know."""
    table = x.table()
    return table if table is not None and (table.lends or table.copies(nbytes)) else None


def all_reduce(x: Exchange, data: memoryview, reducer: Reducer) -> None:
    """`data` becomes the reduction of all ranks' `data`."""
    if x.size == 1:
        reducer.finish(data)
    elif table := _table(x, len(data)):
        once = table.copies(len(data))
        (shared.all_reduce_at_once if once else shared.all_reduce)(x, table, data, reducer)
    elif x.size <= DIRECT_RANKS and len(data) <= AT_ONCE_BYTES >> x.size:
        direct.all_reduce_at_once(x, data, reducer)
    elif x.size <= DIRECT_RANKS:
        direct.all_reduce(x, data, reducer, _piece_bytes(len(data) // x.size))
    elif len(data) <= SMALL_BYTES:
        tree.all_reduce(x, data, reducer)
    else:
        ring.all_reduce(x, data, reducer, _piece_bytes(len(data) // x.size))


def reduce(
    x: Exchange, data: memoryview, out: memoryview | None, root: int, reducer: Reducer
) -> None:
    """`out` on `root` (which may be `data`) becomes the reduction; None and unchanged data elsewhere."""
    if x.size == 1:
        if out is not None and out is not data:
            out[:] = data
        reducer.finish(data if out is None else out)
    elif len(data) > SMALL_BYTES:
        piece = _piece_bytes(len(data) // x.size)
        direct.reduce_in_segments(x, data, out, root, reducer, piece)
    elif x.size <= DIRECT_RANKS:
        direct.reduce(x, data, out, root, reducer)
    else:
        tree.reduce(x, data, out, root, reducer)


def broadcast(x: Exchange, data: memoryview, root: int) -> None:
    """`data` becomes what `root` has."""
    if x.size == 1:
        return
    if table := _table(x, len(data)):
        shared.broadcast(x, table, data, root)
    elif len(data) <= SMALL_BYTES:
        tree.broadcast(x, data, root)
    else:
        ring.broadcast(x, data, root, _piece_bytes(len(data)))


def all_gather(x: Exchange, own: memoryview, outputs: list[memoryview]) -> None:
    """`outputs[p]` becomes rank p's `own`; `outputs[rank]` may be `own` itself."""
    if table := _table(x, max(map(len, outputs))):
        shared.all_gather(x, table, own, outputs)
    elif x.size <= DIRECT_RANKS:
        direct.all_gather(x, own, outputs)
    else:
        ring.all_gather(x, own, outputs, _LARGEST_PIECE)


def reduce_scatter(
    x: Exchange, inputs: list[memoryview], out: memoryview, reducer: Reducer
) -> None:
    """`out` becomes the reduction of all ranks' `inputs[rank]`, from which it is separate."""
    if x.size == 1:
        out[:] = inputs[0]
        reducer.finish(out)
        return
    # Sizes may differ between ranks, but all of them know all.
    if table := _table(x, sum(map(len, inputs))):
        shared.reduce_scatter(x, table, inputs, out, reducer)
        return
    piece_bytes = _piece_bytes(max(map(len, inputs)))
    if x.size <= DIRECT_RANKS:
        direct.reduce_scatter(x, inputs, out, reducer, piece_bytes)
    else:
        ring.reduce_scatter(x, inputs, out, reducer, piece_bytes)


def all_to_all(x: Exchange, inputs: list[memoryview], outputs: list[memoryview]) -> None:
    """`outputs[p]` becomes rank p's `inputs[rank]`."""
    table = x.table()
    if table is not None and table.lends:  # no rank knows what others lay out
        shared.all_to_all(x, table, inputs, outputs)
    else:
        pairwise.all_to_all(x, inputs, outputs)


def gather(x: Exchange, own: memoryview, outputs: list[memoryview] | None, root: int) -> None:
    """`outputs[p]` on `root` becomes rank p's `own`, all of one size; None on other ranks."""
    if table := _table(x, len(own)):
        shared.gather(x, table, own, outputs, root)
    else:
        pairwise.gather(x, own, outputs, root)


def scatter(x: Exchange, inputs: list[memoryview] | None, out: memoryview, root: int) -> None:
    """`out` on rank p becomes `inputs[p]` of `root`, all of one size; None on other ranks."""
    if table := _table(x, len(out) * x.size):
        shared.scatter(table, inputs, out, root)
    else:
        pairwise.scatter(x, inputs, out, root)


def barrier(x: Exchange) -> None:
    """Ends when all ranks have begun it."""
    if table := _table(x, 0):
        shared.barrier(table)
    else:
        tree.barrier(x)
