"""What can be wrong with a fluid network, its watermarks, or the way it is to be solved."""

from __future__ import annotations


class WatermarkError(ValueError):
    """A network, a setting or a request that makes no sense; the text names the part and the remedy."""
