"""What can go wrong with telemetry."""

from __future__ import annotations

from sglb.watermark.errors import WatermarkError


class TelemetryError(WatermarkError):
    """A message that is none, or names what its switch does not have; a text of one line."""
