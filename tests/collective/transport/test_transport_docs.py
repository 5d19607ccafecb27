"""docs/collective.md tells all settings with their defaults."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from sglb.collective.transport import Settings

TEXT = Path(__file__).parents[3].joinpath("docs", "collective.md").read_text()


def test_every_setting_is_told_with_its_default() -> None:
    told = dict(re.findall(r"^\| `RECCL_(\w+)` \| (\S+) \|", TEXT, re.MULTILINE))
    found = {}
    for field in fields(Settings):
        value = field.default
        if isinstance(value, bool):
            text = str(int(value))
        elif value in ("", ()):
            text = "found"
        else:
            text = f"{value:g}" if isinstance(value, float) else str(value)
        found[field.name.upper()] = text
    assert told == found
