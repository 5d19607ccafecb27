"""What can be set, with its default; each setting is a variable `RECCL_...` or a keyword."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from sglb.collective.transport.errors import SettingsError

MAX_CHUNK_BYTES = 16 << 20
MAX_EAGER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a transport. Times are seconds, sizes bytes.

    rails: interfaces or local addresses, in the same order on every rank; empty: found.
    channels_per_rail: TCP connections to each peer over each rail.
    eager_bytes: up to here a message goes at once, from a copy.
    head_bytes: so much of a larger message goes at once too; the rest once its receive is posted.
    eager_budget_bytes: what one peer may have sent before it is received.
    chunk_bytes: largest piece of a message that one channel takes at a time.
    unsent_bytes: what a channel may leave with the kernel unsent; the rest stays with the
        message, for whichever channel is free first.
    window_s: how long a channel's unacknowledged bytes may take at its measured rate.
    detection_s: floor of the time after which a path that acknowledges nothing is dead.
    rtt_factor: the time is at least this many measured round trips.
    unreachable_s: how long a peer may be out of reach over every rail before that is an error.
    connect_s: how long ranks have to find each other (the smaller of this and the group's timeout).
    handshake_s: how long a connection has to prove that it is one of ours.
    probation_s: how long a rail that came back is probed before it carries data again.
    probation_max_s: the same after many faults in a row; it doubles with each.
    retry_s, retry_max_s: first and last pause between attempts to reopen a channel.
    bind_device: tie a rail's connections to its interface, where the kernel lets us.
    shared_memory: reach ranks of the same host without their rails, and pass on for them.
    single_copy: let ranks of the same host read large messages straight from each other's memory,
        where the kernel allows it.
    relay: go through ranks of the same host when no rail of one's own is left.
    host: ranks with the same text share memory; empty: found.
    group: name in the store, for several groups on one store.
    metrics_port: TCP port of the Prometheus endpoint on 127.0.0.1; 0: none. A rank adds its
        rank number to it.
    runtime_dir: where processes leave sockets for status and shared memory; empty: found.
    """

    rails: tuple[str, ...] = ()
    channels_per_rail: int = 1
    eager_bytes: int = 64 << 10
    head_bytes: int = 512 << 10
    eager_budget_bytes: int = 32 << 20
    chunk_bytes: int = 1 << 20
    unsent_bytes: int = 128 << 10
    window_s: float = 0.2
    detection_s: float = 0.15
    rtt_factor: float = 4.0
    unreachable_s: float = 20.0
    connect_s: float = 60.0
    handshake_s: float = 5.0
    probation_s: float = 0.5
    probation_max_s: float = 30.0
    retry_s: float = 0.1
    retry_max_s: float = 2.0
    bind_device: bool = True
    shared_memory: bool = True
    single_copy: bool = True
    relay: bool = True
    host: str = ""
    group: str = "default"
    metrics_port: int = 0
    runtime_dir: str = ""

    def __post_init__(self) -> None:
        for name, low, high in _BOUNDS:
            value = getattr(self, name)
            if not low <= value <= high:
                raise SettingsError(
                    f"{_variable(name)} is {value}; it must be from {low} to {high}"
                )
        if len(set(self.rails)) != len(self.rails):
            raise SettingsError(f"RECCL_RAILS names a rail twice: {','.join(self.rails)}")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **options: Any) -> Settings:
        """Settings of the variables `RECCL_<NAME>`; `options` win.

        Raises SettingsError, also for a variable `RECCL_...` that is none of them.
        """
        found = os.environ if environ is None else environ
        _check_names(found)
        values: dict[str, Any] = {}
        for field in fields(cls):
            text = found.get(_variable(field.name), "").strip()
            if field.name not in options and text:
                values[field.name] = _read(field.name, text, str(field.type))
        unknown = sorted(set(options) - {field.name for field in fields(cls)})
        if unknown:
            raise SettingsError(f"no such setting: {', '.join(unknown)}")
        return cls(**values, **options)


_BOUNDS: tuple[tuple[str, float, float], ...] = (
    ("channels_per_rail", 1, 16),
    ("eager_bytes", 0, MAX_EAGER_BYTES),
    ("head_bytes", 0, MAX_EAGER_BYTES),
    ("eager_budget_bytes", 0, 1 << 30),
    ("chunk_bytes", 4096, MAX_CHUNK_BYTES),
    ("unsent_bytes", 1024, 1 << 30),
    ("window_s", 0.001, 10),
    ("detection_s", 0.01, 60),
    ("rtt_factor", 1, 1000),
    ("unreachable_s", 0.01, 86_400),
    ("connect_s", 0.01, 86_400),
    ("handshake_s", 0.01, 3600),
    ("probation_s", 0, 3600),
    ("probation_max_s", 0, 86_400),
    ("retry_s", 0.001, 3600),
    ("retry_max_s", 0.001, 3600),
    ("metrics_port", 0, 65_535),
)


def _variable(name: str) -> str:
    return f"RECCL_{name.upper()}"


def _check_names(environ: Mapping[str, str]) -> None:
    """A misspelt variable would be passed over in silence."""
    known = [field.name for field in fields(Settings)]
    for name in sorted(environ):
        setting = name.removeprefix("RECCL_").lower()
        if name.startswith("RECCL_") and (setting not in known or name != name.upper()):
            near = get_close_matches(setting, known, 1)
            hint = (
                f"did you mean {_variable(near[0])}?"
                if near
                else "docs/collective.md lists them all"
            )
            raise SettingsError(f"{name}: no such setting; {hint}")


def _rails(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _switch(text: str) -> bool:
    word = text.lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"0", "false", "no", "off"}:
        return False
    raise ValueError("write 1 or 0")


_READERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": _switch,
    "str": str,
    "tuple[str, ...]": _rails,
}


def _read(name: str, text: str, kind: str) -> Any:
    try:
        return _READERS[kind](text)
    except ValueError:
        raise SettingsError(f"{_variable(name)}={text}: not a value of type {kind}") from None
