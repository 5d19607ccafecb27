"""What can go wrong with a live fabric, in one line for the user."""

from __future__ import annotations


class LiveError(RuntimeError):
    """A live fabric cannot be built, or a part of it failed; the text says what, and what to do."""


class StartStoppedError(Exception):
    """A live fabric was asked to end before it was ready: it has nothing to report."""
