"""Where what came of `sglb tune` goes, whatever was tuned."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sglb.cli.errors import UserError


@dataclass(frozen=True, slots=True)
class Outputs:
    """A file for JSON, one for the page, and one that a later call goes on from.

    Raises `UserError` where two are the same file: one would be lost in the other.
    """

    json_file: Path | None = None
    html: Path | None = None
    resume: Path | None = None

    def __post_init__(self) -> None:
        taken: dict[str, str] = {}
        given = (("--json", self.json_file), ("--html", self.html), ("--resume", self.resume))
        for flag, path in given:
            if path is None or str(path) == os.devnull:
                continue
            place = "-" if str(path) == "-" else os.path.realpath(path)
            if place in taken:
                raise UserError(f"{taken[place]} and {flag} are both {path}: give them two files")
            taken[place] = flag

    @property
    def on_stderr(self) -> bool:
        """Whether tables go there, as standard output is taken."""
        return "-" in (str(self.json_file), str(self.html))
