"""Where what came of `sglb tune` goes, whatever was tuned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Outputs:
    """A file for JSON, one for the page, and one that a later call goes on from."""

    json_file: Path | None = None
    html: Path | None = None
    resume: Path | None = None

    @property
    def on_stderr(self) -> bool:
        """Whether tables go there, as standard output is taken."""
        return "-" in (str(self.json_file), str(self.html))
