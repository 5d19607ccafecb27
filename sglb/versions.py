"""Versions of sglb and of what decides its results."""

from __future__ import annotations

import platform
from importlib.metadata import version

_STANDS_ON = ("finsy", "llvmlite", "networkx", "numpy", "protobuf", "pydantic")


def versions() -> dict[str, str]:
    """By name."""
    found = {name: version(name) for name in ("sglb", *_STANDS_ON)}
    return found | {"python": platform.python_version()}
