"""Algorithms of ranks on one host that take what they need from each other's memory, without messages.

Elements are added up in rank order, as `direct` does: results are the same to the bit.
"""

from __future__ import annotations

from itertools import accumulate

from sglb.collective.algorithms.direct import fold
from sglb.collective.algorithms.exchange import Exchange, Reducer, Table, others
from sglb.collective.algorithms.pieces import segments

#: What is added up at a time, from all ranks together: it should stay in a core's cache.
_STEP_BYTES = 1 << 20


def all_reduce_at_once(x: Exchange, t: Table, data: memoryview, reducer: Reducer) -> None:
    """Every rank adds up all: for data that is laid out as a copy."""
    t.post([data])
    t.posted()
    _add(x, t, data, data, 0, len(data), reducer)
    t.finish()


def all_reduce(x: Exchange, t: Table, data: memoryview, reducer: Reducer) -> None:
    """Each rank adds up a segment, then takes the others' results."""
    parts = segments(data, x.size, reducer.itemsize)
    starts = list(accumulate(map(len, parts), initial=0))
    t.post([data])
    t.posted()
    mine = parts[x.rank]
    _add(x, t, mine, mine, starts[x.rank], len(data), reducer)
    t.advance()
    for peer in others(x):
        t.advanced(peer)  # it has read what is overwritten here now
        t.take(peer, parts[peer], starts[peer], len(data))
    t.finish()


def _add(
    x: Exchange,
    t: Table,
    own: memoryview,
    out: memoryview,
    start: int,
    whole: int,
    reducer: Reducer,
) -> None:
    """`out`, which may be `own`, becomes the sum of `own` and of the others' parts from `start` on.

    Those parts have `whole` bytes each.
    """
    peers = others(x)
    views = [t.view(peer, whole) for peer in peers]
    step = min(_STEP_BYTES >> x.size.bit_length(), len(out))
    # Partial sums must not be written where this rank's own elements are still to be read.
    total = x.scratch(step) if out is own and x.rank > 1 else None
    buffers = [x.scratch(step) if view is None else view[start:] for view in views]
    for low in range(0, len(out), step or 1):
        piece = out[low : low + step]
        size = len(piece)
        parts = [own[low : low + step]] * x.size
        for peer, view, buffer in zip(peers, views, buffers, strict=True):
            if view is None:
                parts[peer] = buffer[:size]
                t.take(peer, parts[peer], start + low, whole)
            else:
                parts[peer] = buffer[low : low + size]
        fold(parts, piece, reducer, piece if total is None else total[:size])


def reduce_scatter(
    x: Exchange, t: Table, inputs: list[memoryview], out: memoryview, reducer: Reducer
) -> None:
    """`out` becomes the reduction of all ranks' `inputs[rank]`, from which it is separate."""
    t.post(inputs)
    t.posted()
    _add(x, t, inputs[x.rank], out, 0, len(out), reducer)
    t.finish()


def all_gather(x: Exchange, t: Table, own: memoryview, outputs: list[memoryview]) -> None:
    """`outputs[p]` becomes what rank p has in `own`; `outputs[rank]` may be that memory itself."""
    t.post([own])
    if outputs[x.rank] is not own:
        outputs[x.rank][:] = own
    _take_all(x, t, outputs)


def all_to_all(x: Exchange, t: Table, inputs: list[memoryview], outputs: list[memoryview]) -> None:
    """`outputs[p]` becomes rank p's `inputs[rank]`."""
    t.post(inputs)
    outputs[x.rank][:] = inputs[x.rank]
    _take_all(x, t, outputs)


def _take_all(x: Exchange, t: Table, outputs: list[memoryview]) -> None:
    for peer in others(x):
        t.posted([peer])
        t.take(peer, outputs[peer])
    t.finish()


def broadcast(x: Exchange, t: Table, data: memoryview, root: int) -> None:
    """All take it from `root`."""
    if x.rank == root:
        t.post([data])
    else:
        t.post()
        t.posted([root])
        t.take(root, data)
    t.finish()


def gather(
    x: Exchange, t: Table, own: memoryview, outputs: list[memoryview] | None, root: int
) -> None:
    """`outputs[p]` on `root` becomes rank p's `own`; None on other ranks."""
    t.post([] if outputs is not None else [own])
    if outputs is not None:
        outputs[root][:] = own
        _take_all(x, t, outputs)
    else:
        t.finish()


def scatter(t: Table, inputs: list[memoryview] | None, out: memoryview, root: int) -> None:
    """`out` on rank p becomes `inputs[p]` of `root`; None on other ranks."""
    t.post(inputs or [])
    if inputs is not None:
        out[:] = inputs[root]
    else:
        t.posted([root])
        t.take(root, out)
    t.finish()


def barrier(t: Table) -> None:
    """Ends when all have begun it."""
    t.post()
    t.posted()
    t.finish()
