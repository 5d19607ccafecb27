"""The buffer of a running switch: what pauses and when, read and changed while packets run.

A `BufferSettings` is what it starts with. `Buffers` changes single values, all of a request or none,
and checks that nothing can be lost by it: a port's headroom may not fall below what it started with,
which its link asks for. What headroom takes, it takes from the shared pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from sglb.switch.core.bind import CoreSwitch
from sglb.switch.core.memory import Memory
from sglb.switch.core.settings import (
    ClassSettings,
    TrafficSettings,
    set_headroom,
    write_settings,
)
from sglb.switch.errors import ConfigError

ALPHA: Final = "alpha"
XOFF: Final = "xoff-bytes"
XON_OFFSET: Final = "xon-offset-bytes"
HEADROOM: Final = "headroom-bytes"

#: (class, ALPHA, XOFF or XON_OFFSET), or (class, HEADROOM, P4 port number).
Key = tuple[int, str] | tuple[int, str, int]
_FINEST: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class BufferSettings:
    """What a switch's buffer is like; `headroom_bytes` by (P4 port number, lossless class).

    The pool of `traffic` is what is left beside reservations and headroom.
    """

    traffic: TrafficSettings
    headroom_bytes: Mapping[tuple[int, int], int] = field(default_factory=dict)

    @property
    def total_bytes(self) -> int:
        """The pool and all headroom."""
        return self.traffic.shared_bytes + sum(self.headroom_bytes.values())

    @property
    def lossless(self) -> tuple[int, ...]:
        """Classes that pause their peers."""
        return tuple(n for n, one in enumerate(self.traffic.classes) if one.lossless)


def write_buffers(memory: Memory, node: int, settings: BufferSettings) -> None:
    """Gives a node its buffer. Raises `ConfigError` for a port that it lacks, or one without a rate."""
    write_settings(memory.world, node, 0, settings.traffic)
    for (port, cls), size in sorted(settings.headroom_bytes.items()):
        if port not in memory.port_numbers[node]:
            raise ConfigError(f"headroom of port {port}: the switch has no such port")
        set_headroom(memory.world, memory.port(node, port), cls, size)


class Buffers:
    """The buffer of a switch that runs. Every call takes the switch's lock."""

    def __init__(
        self, core: CoreSwitch, settings: BufferSettings, lock: AbstractContextManager[object]
    ) -> None:
        self._memory = core.memory
        self._node = core.node
        self._lock = lock
        self._least = dict(settings.headroom_bytes)
        self._now = settings
        write_buffers(self._memory, self._node, settings)

    @property
    def shared_bytes(self) -> int:
        """The pool that is left beside headroom."""
        return self._now.traffic.shared_bytes

    def read(self) -> dict[Key, int | float]:
        """All that can be changed; bytes, and alpha as a number (0: XOFF is static)."""
        found: dict[Key, int | float] = {}
        for cls in self._now.lossless:
            one = self._now.traffic.classes[cls]
            found[cls, ALPHA] = 0.0 if one.alpha is None else float(one.alpha)
            found[cls, XOFF] = one.xoff_bytes
            found[cls, XON_OFFSET] = one.xon_offset_bytes
        for (port, cls), size in sorted(self._now.headroom_bytes.items()):
            found[cls, HEADROOM, port] = size
        return found

    def change(self, wanted: Mapping[Key, int | float]) -> None:
        """Changes some values, all or none. Raises `ConfigError` that says which can't be, and why."""
        following = self._following(wanted)
        with self._lock:
            write_buffers(self._memory, self._node, following)
        self._now = following

    def _following(self, wanted: Mapping[Key, int | float]) -> BufferSettings:
        known = self.read()
        classes = list(self._now.traffic.classes)
        headroom = dict(self._now.headroom_bytes)
        for key, value in wanted.items():
            if key not in known:
                raise ConfigError(f"there is no {_name(key)}: its class is not lossless here")
            if len(key) == 3:
                cls, _, port = key
                headroom[port, cls] = self._headroom(port, cls, value)
            else:
                classes[key[0]] = _class(classes[key[0]], key, value)
        shared = (
            self._now.traffic.shared_bytes
            + sum(self._now.headroom_bytes.values())
            - sum(headroom.values())
        )
        if shared <= 0:
            raise ConfigError(
                f"headroom of {sum(headroom.values())} bytes leaves nothing of the shared pool"
            )
        for cls in self._now.lossless:
            if classes[cls].xoff_bytes > shared:
                raise ConfigError(
                    f"{XOFF} of class {cls} is {classes[cls].xoff_bytes}, more than the shared pool's "
                    f"{shared}: nobody would be paused in time"
                )
        return BufferSettings(TrafficSettings(tuple(classes), shared), headroom)

    def _headroom(self, port: int, cls: int, value: int | float) -> int:
        least = self._least[port, cls]
        if value != int(value) or value < least:
            raise ConfigError(
                f"{HEADROOM} of port {port}, class {cls} can't be {value}: its link asks for {least}, "
                "below that a lossless class can lose packets"
            )
        return int(value)


def _name(key: Key) -> str:
    port = f" of port {key[2]}" if len(key) == 3 else ""
    return f"{key[1]} of class {key[0]}{port}"


def _class(one: ClassSettings, key: tuple[int, str], value: int | float) -> ClassSettings:
    cls, name = key
    if name == ALPHA:
        alpha = Fraction(value).limit_denominator(_FINEST) if 0 < value <= _FINEST else None
        if not alpha:
            raise ConfigError(f"{ALPHA} of class {cls} must be from 1/65536 to 65536, got {value}")
        return replace(one, alpha=alpha)
    if value != int(value) or value < 0:
        raise ConfigError(f"{name} of class {cls} must be 0 or more whole bytes, got {value}")
    if name == XOFF:
        if not value and one.alpha is None:
            raise ConfigError(f"{XOFF} of class {cls} can't be 0 (dynamic) without {ALPHA}")
        return replace(one, xoff_bytes=int(value))
    return replace(one, xon_offset_bytes=int(value))
