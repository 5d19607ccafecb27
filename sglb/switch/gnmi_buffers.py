"""The buffer of a switch as gNMI paths, a vendor's: OpenConfig has neither XON nor headroom by port.

/sglb-buffers/class[number=3]/config/alpha                   double
/sglb-buffers/class[number=3]/config/xoff-bytes              uint; 0: dynamic, by alpha
/sglb-buffers/class[number=3]/config/xon-offset-bytes        uint
/sglb-buffers/interface[name=p1]/class[number=3]/config/headroom-bytes   uint
/sglb-buffers/state/shared-bytes                             uint, what headroom leaves; read only
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from finsy.proto import gnmi

from sglb.switch.buffers import ALPHA, HEADROOM, Buffers, Key
from sglb.switch.errors import ConfigError
from sglb.switch.gnmi import Elem, Leaf

ROOT: Final = "sglb-buffers"


class BufferPaths:
    """The paths of one switch; `names` are its ports' by number."""

    def __init__(self, buffers: Buffers, names: Mapping[int, str]) -> None:
        self._buffers = buffers
        self._names = dict(names)

    def leaves(self) -> Iterator[Leaf]:
        """All leaves with their values."""
        for key, value in self._buffers.read().items():
            typed = (
                gnmi.TypedValue(double_val=value)
                if key[1] == ALPHA
                else gnmi.TypedValue(uint_val=int(value))
            )
            yield self._path(key), typed
        head: tuple[Elem, ...] = ((ROOT, {}), ("state", {}), ("shared-bytes", {}))
        yield head, gnmi.TypedValue(uint_val=self._buffers.shared_bytes)

    def set(self, wanted: Sequence[tuple[tuple[Elem, ...], gnmi.TypedValue]]) -> None:
        """Sets leaves, all or none. Raises `ConfigError` that names the path or the value."""
        changes: dict[Key, int | float] = {}
        known = {_plain(self._path(key)): key for key in self._buffers.read()}
        for path, value in wanted:
            key = known.get(_plain(path))
            if key is None:
                raise ConfigError(f"{_plain(path)} is nothing that can be set")
            if key in changes:
                raise ConfigError(f"{_plain(path)} is given twice")
            changes[key] = _number(path, value)
        self._buffers.change(changes)

    def _path(self, key: Key) -> tuple[Elem, ...]:
        cls: Elem = ("class", {"number": f"{key[0]}"})
        leaf: tuple[Elem, ...] = (("config", {}), (key[1], {}))
        if len(key) == 3:
            assert key[1] == HEADROOM
            return ((ROOT, {}), ("interface", {"name": self._names[key[2]]}), cls, *leaf)
        return ((ROOT, {}), cls, *leaf)


def _plain(path: Sequence[Elem]) -> str:
    return "".join(
        f"/{name}" + "".join(f"[{k}={v}]" for k, v in sorted(keys.items())) for name, keys in path
    )


def _number(path: Sequence[Elem], value: gnmi.TypedValue) -> int | float:
    match value.WhichOneof("value"):
        case "uint_val":
            return int(value.uint_val)
        case "int_val":
            return int(value.int_val)
        case "double_val" if math.isfinite(value.double_val):
            return float(value.double_val)
    raise ConfigError(f"{_plain(path)} takes a number")
