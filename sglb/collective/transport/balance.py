"""Which channel takes the next chunk: any that has room, unless it would end last.

Channels pull: each takes a chunk as what it took before is acknowledged, so that a rail at half rate
carries half of what a whole one does, without anybody measuring it beforehand. Only the end needs a
rule: a slow channel must not take a chunk for which all would wait in the end.

Ways through neighbours need one more. They meet again at the rail of the other end, where the one
that was there first can keep the others small: it would carry most, and its neighbour pay for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

#: How much more than the median a way through a neighbour may have taken, as a factor and in bytes.
_EXCESS = 1.25
_SLACK_BYTES = 1 << 20


class Paced(Protocol):
    """What is known of a channel: unacknowledged bytes, measured rate in bytes a second or 0.

    detour_bytes: what it has carried since there are as many ways through neighbours as now; -1 if it is
    none of these.
    """

    @property
    def inflight_bytes(self) -> int: ...  # noqa: D102
    @property
    def rate(self) -> float: ...  # noqa: D102
    @property
    def detour_bytes(self) -> int: ...  # noqa: D102


def may_take(channel: Paced, size: int, left: int, channels: Sequence[Paced]) -> bool:
    """Whether the channel should take `size` of the `left` bytes.

    Not if it is a way through a neighbour far ahead of the median of such ways. Not if one of the others
    that may would alone have sent all that is left before this one had sent these. The channel of
    these that would end first may always take them, so that never all of them hold back.
    """
    taken = sorted(other.detour_bytes for other in channels if other.detour_bytes >= 0)
    most = _EXCESS * taken[len(taken) // 2] + _SLACK_BYTES if taken else 0.0
    if channel.detour_bytes > most:
        return False
    if not channel.rate:
        return True
    ends = (channel.inflight_bytes + size) / channel.rate
    return all(
        (other.inflight_bytes + left) / other.rate >= ends
        for other in channels
        if other is not channel and other.rate and other.detour_bytes <= most
    )
