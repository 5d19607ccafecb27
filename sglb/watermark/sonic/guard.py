"""The guard band: what may be written at all, as an operator declares it in a YAML file.

    WRED_PROFILE.AZURE_LOSSLESS.green_min_threshold: [100000, 2000000]
    BUFFER_PROFILE.pg_lossless_100000_5m_profile.dynamic_th: [-3, 2]

A field that is not listed is not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from sglb.watermark.sonic.errors import SonicRefusedError
from sglb.watermark.sonic.fields import Target

#: Far more than every field of every profile takes.
_MAX_CHARACTERS = 1 << 20


@dataclass(frozen=True, slots=True)
class Guard:
    """Lowest and highest value by field; `source` is what errors name."""

    bands: Mapping[Target, tuple[int, int]]
    source: str

    def check(self, target: Target, value: int) -> None:
        """Raises SonicRefusedError for what may not be written."""
        band = self.bands.get(target)
        if band is None:
            raise SonicRefusedError(f"{target}: {self.source} does not allow it to be written")
        low, high = band
        if not low <= value <= high:
            raise SonicRefusedError(
                f"{target} = {value}: outside the guard band {low} to {high} of {self.source}"
            )


def load_guard(path: Path) -> Guard:
    """Reads a guard file. Raises SonicRefusedError that names the file and the line or the key."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_MAX_CHARACTERS + 1)  # a device may have no end
        if len(text) > _MAX_CHARACTERS:
            raise SonicRefusedError(f"{path}: is larger than a guard file may be, 1 MiB")
        found = YAML(typ="safe", pure=True).load(text)
    except OSError as error:
        raise SonicRefusedError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SonicRefusedError(f"{path}: cannot be read: {error}") from error
    except YAMLError as error:
        raise SonicRefusedError(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict) or not found:
        raise SonicRefusedError(f"{path}: it is TABLE.profile.field: [low, high], a line a field")
    bands = {}
    for key, value in found.items():
        target = Target.parse(str(key))
        bands[target] = _band(path, target, value)
    return Guard(bands, str(path))


def _band(path: Path, target: Target, value: Any) -> tuple[int, int]:
    match value:
        case [int() as low, int() as high] if not isinstance(low, bool) and not isinstance(
            high, bool
        ):
            target.field.check(low, f"{path}: {target}")
            target.field.check(high, f"{path}: {target}")
            if low <= high:
                return low, high
            raise SonicRefusedError(
                f"{path}: {target}: [{low}, {high}] is reversed: it is [low, high]"
            )
    raise SonicRefusedError(f"{path}: {target}: {value!r} is not [low, high] in whole numbers")
