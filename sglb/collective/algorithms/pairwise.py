"""Exchanges without reduction between pairs of ranks: all-to-all, gather, scatter."""

from __future__ import annotations

from collections import deque

from sglb.collective.algorithms.exchange import Exchange, Pending

_STEPS_AT_ONCE = 8  #: so many steps may be under way: ranks need not wait for the slowest in each


def all_to_all(x: Exchange, inputs: list[memoryview], outputs: list[memoryview]) -> None:
    """`outputs[p]` becomes rank p's `inputs[rank]`. In step k a rank sends to rank + k."""
    outputs[x.rank][:] = inputs[x.rank]
    under_way: deque[tuple[Pending, Pending]] = deque()
    for step in range(1, x.size):
        if len(under_way) == _STEPS_AT_ONCE:
            _finish(x, under_way)
        source, target = (x.rank - step) % x.size, (x.rank + step) % x.size
        under_way.append((x.recv(source, outputs[source]), x.send(target, inputs[target])))
    while under_way:
        _finish(x, under_way)


def _finish(x: Exchange, under_way: deque[tuple[Pending, Pending]]) -> None:
    for message in under_way.popleft():
        x.wait(message)


def gather(x: Exchange, own: memoryview, outputs: list[memoryview] | None, root: int) -> None:
    """`outputs[p]` on `root` becomes rank p's `own`; None on other ranks."""
    if outputs is None:
        x.wait(x.send(root, own))
        return
    arrivals = [x.recv(p, out) for p, out in enumerate(outputs) if p != x.rank]
    outputs[x.rank][:] = own
    for arrival in arrivals:
        x.wait(arrival)


def scatter(x: Exchange, inputs: list[memoryview] | None, out: memoryview, root: int) -> None:
    """`out` on rank p becomes `inputs[p]` of `root`; None on other ranks."""
    if inputs is None:
        x.wait(x.recv(root, out))
        return
    sent = [x.send(p, part) for p, part in enumerate(inputs) if p != x.rank]
    out[:] = inputs[x.rank]
    for message in sent:
        x.wait(message)
