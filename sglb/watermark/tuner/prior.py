"""What the fluid model says of every setting, before any is tried.

A tuner does not know what traffic it will meet. So the model is solved for several kinds of it on the
device's own links: few and many flows to one port, from line rate or from their fair share, for long or
in bursts, and behind a shared uplink. Which kind is the nearest to what switches report, the guess
finds out (`sglb.watermark.tuner.guess`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sglb.fabric.dcqcn_config import DcqcnConfig
from sglb.watermark.arrays import Floats
from sglb.watermark.layout import BYTES_US_PER_GBPS, Timing
from sglb.watermark.network import Network, behind_uplink, incast
from sglb.watermark.objective import Parts, Weights, parts
from sglb.watermark.solve import solve
from sglb.watermark.space import Place, SearchSpace

_LONG_US = 1_500.0
_BURST_US = 100.0  #: of the receiver's link
_BEHIND = 8  #: flows behind the uplink
#: Moves no score in the model, so one level of it is solved.
_LEFT_OUT = "xon_offset_bytes"


@dataclass(frozen=True, slots=True)
class Links:
    """What the model needs of a fabric: its rate, delays one way from a mark to the sender, DCQCN."""

    rate_gbps: float
    feedback_us: float
    pause_us: float
    link_us: float
    packet_bytes: float
    dcqcn: DcqcnConfig


class Prior:
    """Scores' parts by kind of traffic and place.

    Attributes:
        kinds: names of the kinds of traffic.
        throughput, delay, unpaused: shape (kinds, places), each 0 to 1; `lossless` likewise.
    """

    def __init__(
        self,
        space: SearchSpace,
        links: Links,
        headroom: int,
        progress: Callable[[int, int], None] = lambda _done, _of: None,
    ) -> None:
        """Solves the model for all feasible places with this level of headroom."""
        self._at = [p.name for p in space.parameters].index(_LEFT_OUT)
        room = [p.name for p in space.parameters].index("headroom_bytes")
        places = [
            place
            for place in space.places()
            if not place[self._at] and place[room] == headroom and space.why_not(place) is None
        ]
        self._number = {place: n for n, place in enumerate(places)}
        settings = [space.watermarks(place) for place in places]
        kinds = _kinds(links, space, space.parameters[room].levels[headroom])
        self.kinds = tuple(kinds)
        found = []
        for n, (network, duration_us) in enumerate(kinds.values()):
            timing = Timing(duration_us, min(1.0, links.link_us, links.feedback_us))
            found.append(
                parts(
                    solve(
                        network,
                        settings,
                        timing,
                        progress=lambda done, of, n=n: progress(n * of + done, len(kinds) * of),  # type: ignore[misc]
                    )
                )
            )
        self.throughput: Floats = np.array([one.throughput for one in found])
        self.delay: Floats = np.array([one.delay for one in found])
        self.unpaused: Floats = np.array([one.unpaused for one in found])
        self.lossless = np.array([one.lossless for one in found])

    def scores(self, weights: Weights) -> Floats:
        """Shape (kinds, places), 0 where the model loses lossless traffic."""
        return Parts(self.throughput, self.delay, self.unpaused, self.lossless).score(weights)

    def like(self, place: Place) -> list[Place]:
        """All places that the model was asked about, with what it leaves out as in `place`."""
        level = place[self._at]
        return [(*one[: self._at], level, *one[self._at + 1 :]) for one in self._number]

    def number(self, place: Place) -> int | None:
        """A place's number on the second axis; None: the model was not asked."""
        return self._number.get((*place[: self._at], 0, *place[self._at + 1 :]))


def _kinds(
    links: Links, space: SearchSpace, headroom_bytes: float
) -> dict[str, tuple[Network, float]]:
    """Networks and how long they are watched; beside their ports' headroom they have the real pool."""
    pool = space.pool_bytes(headroom_bytes)

    def to_one(flows: int, start_gbps: float | None, size_bytes: float | None) -> Network:
        return incast(
            flows,
            links.rate_gbps,
            feedback_us=links.feedback_us,
            pause_delay_us=links.pause_us,
            buffer_bytes=pool + flows * headroom_bytes,
            size_bytes=size_bytes,
            start_gbps=start_gbps,
            dcqcn=links.dcqcn,
            packet_bytes=links.packet_bytes,
        )

    burst = links.rate_gbps * BYTES_US_PER_GBPS * _BURST_US
    uplink = behind_uplink(
        _BEHIND,
        links.rate_gbps,
        feedback_us=links.feedback_us,
        link_us=links.link_us,
        pause_delay_us=links.pause_us,
        buffer_bytes=pool + _BEHIND * headroom_bytes,
        dcqcn=links.dcqcn,
        packet_bytes=links.packet_bytes,
    )
    found = {f"{n} flows": (to_one(n, None, None), _LONG_US) for n in (2, 7, 24)}
    found |= {
        f"{n} flows at rest": (to_one(n, links.rate_gbps / n, None), _LONG_US) for n in (2, 8)
    }
    found["bursts"] = (to_one(7, None, burst / 7), 1.3 * _BURST_US)
    found["uplink"] = (uplink, _LONG_US)
    return found
