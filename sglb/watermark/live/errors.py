"""What can go wrong with live switches."""

from __future__ import annotations

from sglb.watermark.errors import WatermarkError


class LiveTuneError(WatermarkError):
    """A setting that a switch can't have, refuses, or reads back otherwise; a text of one line."""
