"""The monitored barrier. Its errors are worded so that programs that look for gloo's find them."""

from __future__ import annotations

from sglb.collective.algorithms.exchange import Exchange
from sglb.collective.errors import CollectiveError, CollectiveTimeoutError
from sglb.collective.transport import TransportError

_NOTHING = memoryview(bytearray())


def watch(x: Exchange, limit_s: float, everybody: bool) -> None:
    """Rank 0: waits for all others, then lets them go.

    Raises CollectiveTimeoutError naming the first rank that did not come, or all if `everybody`.
    """
    limit_ms = round(limit_s * 1000)
    if limit_ms <= 0:
        raise CollectiveTimeoutError(f"Rank 0 timed out in monitoredBarrier after {limit_ms} ms")
    arrivals = {peer: x.recv(peer, _NOTHING) for peer in range(1, x.size)}
    late: list[int] = []
    for peer, arrival in arrivals.items():
        try:
            x.wait(arrival)
        except CollectiveTimeoutError:
            late.append(peer)
            if not everybody:
                break
    if late:
        ranks = ", ".join(map(str, late))
        raise CollectiveTimeoutError(
            f"Rank{'s' * (len(late) > 1)} {ranks} failed to pass monitoredBarrier in {limit_ms} ms"
        )
    for peer in arrivals:
        x.send(peer, _NOTHING, part=1)


def report(x: Exchange) -> None:
    """Other ranks: tells rank 0 and waits for its answer."""
    x.send(0, _NOTHING)
    try:
        x.wait(x.recv(0, _NOTHING, part=1))
    except (TransportError, CollectiveError) as error:
        raise CollectiveError(
            f"Rank {x.rank} successfully reached monitoredBarrier, but received errors while "
            f"waiting for send/recv from rank 0: {error}"
        ) from error
