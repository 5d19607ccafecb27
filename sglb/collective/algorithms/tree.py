"""Logarithmic algorithms for small data between many ranks."""

from __future__ import annotations

from sglb.collective.algorithms.exchange import Exchange, Reducer


def all_reduce(x: Exchange, data: memoryview, reducer: Reducer) -> None:
    """Recursive doubling (Thakur, Rabenseifner, Gropp 2005): ceil(log2 n) exchanges of all of `data`.

    Where n is no power of two, the first 2(n - 2^k) ranks join in pairs before and part after.
    """
    power = 1 << (x.size.bit_length() - 1)
    rest = x.size - power
    theirs = x.scratch(len(data))
    if x.rank < 2 * rest:
        if x.rank % 2 == 0:
            x.send(x.rank + 1, x.private(data))
            x.wait(x.recv(x.rank + 1, data, part=1))
            return
        x.wait(x.recv(x.rank - 1, theirs))
        reducer.combine(theirs, data, data)
    place = x.rank // 2 if x.rank < 2 * rest else x.rank - rest
    mask = 1
    while mask < power:
        other = place ^ mask
        peer = 2 * other + 1 if other < rest else other + rest
        x.send(peer, x.private(data))
        x.wait(x.recv(peer, theirs))
        first, second = (theirs, data) if other < place else (data, theirs)
        reducer.combine(first, second, data)
        mask <<= 1
    reducer.finish(data)
    if x.rank < 2 * rest:
        x.send(x.rank - 1, x.private(data), part=1)


def broadcast(x: Exchange, data: memoryview, root: int) -> None:
    """Binomial tree."""
    place = (x.rank - root) % x.size
    mask = 1
    while mask < x.size:
        if place & mask:
            x.wait(x.recv((x.rank - mask) % x.size, data))
            break
        mask <<= 1
    mine = x.private(data)
    mask >>= 1
    while mask:
        if place + mask < x.size:
            x.send((x.rank + mask) % x.size, mine)
        mask >>= 1


def reduce(
    x: Exchange, data: memoryview, out: memoryview | None, root: int, reducer: Reducer
) -> None:
    """Binomial tree; `out` is where `root` wants the result (it may be `data`), None elsewhere."""
    place = (x.rank - root) % x.size
    total = x.scratch(len(data)) if out is None else out
    if total is not data:
        total[:] = data
    theirs = x.scratch(len(data))
    mask = 1
    while mask < x.size:
        if place & mask:
            x.send((x.rank - mask) % x.size, x.private(total))
            return
        if place + mask < x.size:
            x.wait(x.recv((x.rank + mask) % x.size, theirs))
            reducer.combine(total, theirs, total)
        mask <<= 1
    reducer.finish(total)


def barrier(x: Exchange) -> None:
    """Dissemination (Hensgen, Finkel, Manber 1988): after ceil(log2 n) rounds all know of all."""
    nothing = memoryview(b"")
    into = memoryview(bytearray())
    step = 1
    while step < x.size:
        x.send((x.rank + step) % x.size, nothing)
        x.wait(x.recv((x.rank - step) % x.size, into))
        step <<= 1
