"""Messages between ranks over several rails: they survive rails that fail (docs/collective.md)."""

from sglb.collective.transport.errors import (
    AbortedError,
    ClosedError,
    MismatchError,
    PeerLostError,
    RendezvousError,
    SettingsError,
    TransportError,
    WaitTimeoutError,
)
from sglb.collective.transport.messages import Transfer
from sglb.collective.transport.settings import Settings
from sglb.collective.transport.stats import Stats
from sglb.collective.transport.transport import Transport

__all__ = [
    "AbortedError",
    "ClosedError",
    "MismatchError",
    "PeerLostError",
    "RendezvousError",
    "Settings",
    "SettingsError",
    "Stats",
    "Transfer",
    "Transport",
    "TransportError",
    "WaitTimeoutError",
]
