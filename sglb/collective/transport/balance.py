"""Which channel takes the next chunk: any that has room, unless it would end last.

Channels pull: each takes a chunk as what it took before is acknowledged, so that a rail at half rate
carries half of what a whole one does, without anybody measuring it beforehand. Only the end needs a
rule: a slow channel must not take a chunk for which all would wait in the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Paced(Protocol):
    """What is known of a channel: unacknowledged bytes, measured rate in bytes a second or 0."""

    @property
    def inflight_bytes(self) -> int: ...  # noqa: D102
    @property
    def rate(self) -> float: ...  # noqa: D102


def may_take(channel: Paced, size: int, left: int, channels: Iterable[Paced]) -> bool:
    """Whether the channel should take `size` of the `left` bytes.

    Not if one of the others would alone have sent all that is left before this one had sent these.
    The channel that would end first may always take them, so that never all of them hold back.
    """
    if not channel.rate:
        return True
    ends = (channel.inflight_bytes + size) / channel.rate
    return all(
        other is channel or not other.rate or (other.inflight_bytes + left) / other.rate >= ends
        for other in channels
    )
