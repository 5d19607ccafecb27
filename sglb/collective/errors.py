"""What a user of the torch backend may see."""

from __future__ import annotations

from torch.distributed import DistBackendError


class CollectiveError(DistBackendError):
    """A collective did not complete: it names the operation, the rank, and what happened.

    A RuntimeError, as torch's own backends raise. The group cannot be used any more: destroy it.
    """


class CollectiveTimeoutError(CollectiveError, TimeoutError):
    """A collective did not complete within its timeout."""
