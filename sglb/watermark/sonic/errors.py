"""What can go wrong with a SONiC switch. Each text names the switch, the key and what to do."""

from __future__ import annotations


class SonicError(RuntimeError):
    """Base of all; a text of one line."""


class SonicConnectionError(SonicError):
    """The database can't be reached; says whether anything was written."""


class SonicUncertainError(SonicConnectionError):
    """A connection was lost in a write, and what became of it can't be told."""


class SonicDataError(SonicError):
    """The database holds what SONiC's schema does not allow, or lacks what is asked for."""


class SonicLockedError(SonicError):
    """Another tuner holds the switch."""


class SonicConflictError(SonicError):
    """Somebody else changed a value meanwhile; nothing of theirs was overwritten."""


class SonicRefusedError(SonicError):
    """A change that must not be made: outside the guard band, the field's range, or other fields."""
