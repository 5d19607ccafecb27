"""Whether a channel's path is alive: what is sent must be acknowledged by the other side's kernel.

The kernel's acknowledgements tell a broken path from a peer that is merely slow: a busy process does
not read, but its kernel acknowledges. So nothing but a few bytes now and then (PING) is needed to
probe a path on which nothing else is sent, and no answer of the peer's process.
"""

from __future__ import annotations

import socket
from typing import Protocol

from sglb.collective.transport.channel import ByteStream, Channel
from sglb.collective.transport.failover import Path, parse_tcp_info
from sglb.collective.transport.settings import Settings

_TCP_INFO_BYTES = 192
#: Probes of a closed window that the peer's kernel left unanswered.
_MAX_PROBES = 2
_PINGS_A_BOUND = 3
_IDLE_PING_S = 1.0


class Watched(Protocol):
    """Something over a connection; `Health` writes the latter two: since when, at which count."""

    @property
    def stream(self) -> ByteStream: ...  # noqa: D102

    rtt_s: float
    stalled: tuple[float, int] | None


class Health:
    """Judges channels; remembers nothing but what it writes to them."""

    def __init__(self, settings: Settings) -> None:
        self._floor_s = settings.detection_s
        self._factor = settings.rtt_factor

    def bound_s(self, path: Path) -> float:
        """After how long without an acknowledgement a path is dead."""
        return max(self._floor_s, self._factor * path.rtt_s)

    def check(self, channel: Watched, now: float) -> str:
        """Why the channel is to be given up, or ''."""
        stream = channel.stream
        if not isinstance(stream, socket.socket) or stream.family == socket.AF_UNIX:
            return ""
        try:
            data = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        except OSError as error:
            return error.strerror or str(error)
        path = parse_tcp_info(data)
        channel.rtt_s = path.rtt_s
        if not path.unacked:
            channel.stalled = None
            if path.probes > _MAX_PROBES:
                return f"{path.probes} probes of a closed window are unanswered"
            return ""
        if channel.stalled is None or channel.stalled[1] != path.acked_bytes:
            channel.stalled = now, path.acked_bytes  # it may have been sent just now
            return ""
        silent_s = min(now - channel.stalled[0], path.since_ack_s)
        bound_s = self.bound_s(path)
        if silent_s < bound_s:
            return ""
        return (
            f"nothing acknowledged for {silent_s * 1000:.0f} ms "
            f"(bound {bound_s * 1000:.0f} ms, round trip {path.rtt_s * 1000:.2f} ms)"
        )

    def wants_ping(self, channel: Channel, now: float, busy: bool) -> bool:
        """Whether it is time to give the peer's kernel something to acknowledge."""
        pause_s = self._floor_s / _PINGS_A_BOUND if busy or not channel.up else _IDLE_PING_S
        return not channel.unacked and now - channel.sent_at >= pause_s
