"""When a channel that was lost is tried again, and when it is trusted again.

Attempts come with doubling pauses. A connection that stands is probed first and carries no data until
it has stood for a probation, which doubles with each fault and shrinks back after a long time without
one: a rail that flaps is used ever less, a rail that was repaired soon. A peer that no other channel
reaches has no choice: then any connection is used at once.
"""

from __future__ import annotations

from sglb.collective.transport.settings import Settings

_MAX_DOUBLINGS = 16


class Comeback:
    """Of one channel toward one peer; all times from one clock, seconds."""

    def __init__(self, settings: Settings, now: float) -> None:
        self._settings = settings
        self._attempts = 0
        self.faults = 0
        self.next_try = now
        self._calm_since = now

    def lost(self, now: float) -> None:
        """The connection was lost."""
        if now - self._calm_since > self._settings.probation_max_s:
            self.faults = 0  # that was long enough to be trusted again
        self.faults += 1
        self._calm_since = now
        self._attempts = 0
        self.next_try = now + self._settings.retry_s

    def failed(self, now: float) -> None:
        """An attempt to connect failed."""
        self._attempts += 1
        pause = self._settings.retry_s * 2 ** min(self._attempts, _MAX_DOUBLINGS)
        self.next_try = now + min(pause, self._settings.retry_max_s)

    def hurry(self, now: float) -> None:
        """The rail's carrier is back: no reason to wait."""
        self.next_try = min(self.next_try, now + self._settings.retry_s)

    def opened(self, now: float) -> None:
        """A connection stands; its probation begins."""
        self._attempts = 0
        self._calm_since = now

    def probation_s(self) -> float:
        """How long a connection must stand before it carries data: 0 before the first fault."""
        if not self.faults:
            return 0.0
        doubled: float = self._settings.probation_s * 2 ** min(self.faults - 1, _MAX_DOUBLINGS)
        return min(doubled, self._settings.probation_max_s)

    def trusted(self, now: float) -> bool:
        """Whether the connection has stood for its probation."""
        return now - self._calm_since >= self.probation_s()
