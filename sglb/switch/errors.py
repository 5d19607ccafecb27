"""Refusals of the switch's state: what a control plane asked for and why it cannot be done.

Each class names the canonical status code that P4Runtime gives for it, so that a server only has to
pass `code` and the message on.
"""

# ruff: noqa: N818 - named for what is wrong, as they read in messages and handlers

from __future__ import annotations

from typing import ClassVar


class SwitchError(Exception):
    """Base. `code` is a canonical status code by name; the message says what, where and why."""

    code: ClassVar[str] = "INTERNAL"


class BadValue(SwitchError):
    """A value that has the wrong shape, count or width."""

    code = "INVALID_ARGUMENT"


class ValueTooLarge(SwitchError):
    """A value that does not fit its width, or an index beyond the last element."""

    code = "OUT_OF_RANGE"


class EntryExists(SwitchError):
    """Something with this key or id is there already."""

    code = "ALREADY_EXISTS"


class NoSuchEntry(SwitchError):
    """Nothing has this key or id."""

    code = "NOT_FOUND"


class TableFull(SwitchError):
    """The stated size is reached."""

    code = "RESOURCE_EXHAUSTED"


class ConstTable(SwitchError):
    """The program fixed these entries, this entry or this default action."""

    code = "PERMISSION_DENIED"


class ActionScope(SwitchError):
    """The action is reserved for entries (`@tableonly`) or for the default (`@defaultonly`)."""

    code = "PERMISSION_DENIED"


class UnknownAction(SwitchError):
    """The table or profile has no such action."""

    code = "INVALID_ARGUMENT"


class InUse(SwitchError):
    """A member or group that entries or groups still refer to."""

    code = "FAILED_PRECONDITION"


class ConfigError(SwitchError):
    """A switch that cannot be set up like this."""

    code = "INVALID_ARGUMENT"


def full(kind: str, name: str, size: int) -> TableFull:
    """The error of a container that holds `size` things already."""
    return TableFull(f"{kind} {name} is full: its size is {size}; raise `size` in the program")
