"""The file of `sglb switch --buffers`: a live switch's shared buffer and its lossless classes, in YAML.

    total_bytes: 4194304
    classes:
      3: {alpha: 0.125, xon_offset_bytes: 3072, headroom_bytes: 40000}

`headroom_bytes` is each port's; what is left of the total is shared. `xoff_bytes` in place of alpha
makes XOFF static. Classes that are not listed are lossy and have the queues' limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from sglb.switch.buffers import BufferSettings
from sglb.switch.core import model as m
from sglb.switch.core.settings import ClassSettings, TrafficSettings
from sglb.switch.errors import ConfigError

_Bytes = Annotated[int, Field(ge=0, le=1 << 40)]


class _Class(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    headroom_bytes: _Bytes
    alpha: Annotated[float, Field(ge=1 / 65_536, le=65_536)] | None = None
    xoff_bytes: _Bytes = 0
    xon_offset_bytes: _Bytes = 0


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    total_bytes: Annotated[int, Field(ge=1, le=1 << 40)]
    classes: dict[Annotated[int, Field(ge=0, lt=m.CLASSES)], _Class]


def load_buffers(path: Path, ports: Iterable[int], queue_limit_bytes: int) -> BufferSettings:
    """Reads a file for a switch with these ports. Raises `ConfigError` that names the file and key."""
    try:
        found = _File.model_validate(YAML(typ="safe", pure=True).load(path.read_text()))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ConfigError(f"{path}: {where}: {first['msg']}") from error
    headroom = {
        (port, cls): one.headroom_bytes for port in ports for cls, one in found.classes.items()
    }
    shared = found.total_bytes - sum(headroom.values())
    if shared <= 0:
        raise ConfigError(
            f"{path}: total_bytes is {found.total_bytes}, and headroom alone takes "
            f"{sum(headroom.values())}"
        )
    lossy = ClassSettings(limit_bytes=queue_limit_bytes)
    classes = tuple(
        _settings(found.classes[n]) if n in found.classes else lossy for n in range(m.CLASSES)
    )
    try:
        return BufferSettings(TrafficSettings(classes, shared), headroom)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _settings(one: _Class) -> ClassSettings:
    alpha = None if one.alpha is None else Fraction(one.alpha).limit_denominator(1 << 16)
    return ClassSettings(
        lossless=True,
        alpha=alpha,
        xoff_bytes=one.xoff_bytes,
        xon_offset_bytes=one.xon_offset_bytes,
    )
