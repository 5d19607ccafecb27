"""What becomes of frames on a connection that is lost.

Each side closes its own end first, so that it reads nothing late, and reports, over another
connection, how many frames of the lost one it has taken in. Only with the other side's report does it
know which of its own frames to send again, elsewhere: these and no others, so that nothing arrives
twice. Reports themselves may arrive twice; one on a connection that is lost in turn is sent again at
once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from sglb.collective.transport.channel import Channel
from sglb.collective.transport.messages import Frame

_TCP_INFO_BYTES = 192
_TCP_INFO = struct.Struct("=BBBBBBBB24I")
_ACKED = struct.Struct("=Q")
_ACKED_AT = 120  # tcpi_bytes_acked


class Ledger:
    """Connections of one peer by (channel, epoch): those that were, those that await its report."""

    def __init__(self) -> None:
        self._known: set[tuple[int, int]] = set()
        self._lost: dict[tuple[int, int], Channel] = {}

    def __len__(self) -> int:
        return len(self._lost)

    def opened(self, channel: Channel) -> None:
        """A connection carries frames from now on."""
        self._known.add((channel.index, channel.epoch))

    def knows(self, index: int, epoch: int) -> bool:
        """Whether this side ever opened the connection."""
        return (index, epoch) in self._known

    def last_epoch(self, index: int) -> int:
        """The highest epoch that a channel ever had."""
        return max((e for i, e in self._known if i == index), default=0)

    def never_was(self, index: int, epoch: int) -> None:
        """The other side opened a connection, this side did not, and won't."""
        self._known.add((index, epoch))

    def lost(self, channel: Channel) -> None:
        """A connection is closed on this side."""
        self._lost[channel.index, channel.epoch] = channel

    def reported(self, index: int, epoch: int, received: int) -> list[Frame]:
        """The other side took in `received` frames of it; those to send again."""
        channel = self._lost.pop((index, epoch), None)
        return [] if channel is None else channel.settle(received)

    def waiting(self) -> list[Channel]:
        """Lost connections whose report has not come."""
        return list(self._lost.values())


@dataclass(frozen=True, slots=True)
class Path:
    """What the kernel knows of a connection's path, from TCP_INFO. Times are seconds."""

    unacked: int
    probes: int
    since_ack_s: float
    rtt_s: float
    acked_bytes: int


def parse_tcp_info(data: bytes) -> Path:
    """Fields of `struct tcp_info` (linux/tcp.h); a short one counts as zeros."""
    data = data.ljust(_TCP_INFO_BYTES, b"\0")
    head = _TCP_INFO.unpack_from(data)
    words = head[8:]
    return Path(
        unacked=words[4],
        probes=head[3],
        since_ack_s=words[12] / 1000 if words[4] else 0.0,
        rtt_s=(words[15] + 4 * words[16]) / 1e6,
        acked_bytes=_ACKED.unpack_from(data, _ACKED_AT)[0],
    )
