"""What can go wrong between ranks; each text names ranks and rails and says what to do."""

from __future__ import annotations


class TransportError(Exception):
    """The group cannot go on, or could not be made."""


class SettingsError(TransportError, ValueError):
    """A setting makes no sense."""


class RendezvousError(TransportError):
    """A rank did not appear, or is not one of ours: version, secret, group."""


class PeerLostError(TransportError):
    """A rank cannot be reached over any rail, or its process has ended."""


class MismatchError(TransportError):
    """Two ranks called different things: sizes or fingerprints of a message differ."""


class AbortedError(TransportError):
    """The group was aborted, here or by another rank."""


class ClosedError(TransportError):
    """The transport has been closed."""


class WaitTimeoutError(TransportError, TimeoutError):
    """A transfer was not done in time; it goes on, its buffer is still in use."""


class WireError(TransportError):
    """Bytes that no transport of this version sends."""
