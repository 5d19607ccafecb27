"""The way in. Ctrl-C or SIGTERM ends the command with one line whenever it comes, even during imports.

This module imports next to nothing: only from `main` on are these signals in good hands.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Never

    _Handler = Callable[[int, FrameType | None], object] | int | None

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Exit status of a program that a signal ended, less the signal's number.
_BY_SIGNAL = 128
_came = signal.SIGINT


class Interrupted(BaseException):
    """The command was interrupted; the text, if any, says how far it had come.

    Not an Exception and not KeyboardInterrupt, so that no library on the way takes it for its own.
    """


def main(arguments: list[str] | None = None) -> None:
    """The `sglb` command; `arguments` instead of the process's own. Ends by SystemExit."""
    given = sys.argv[1:] if arguments is None else arguments
    before = _on_signals(*(_leave for _ in _SIGNALS))
    try:
        # Takes seconds, in which an exception could come up anywhere in other people's modules.
        from sglb.cli.app import execute

        execute(given)
    except Interrupted as stopped:
        text = str(stopped)
        print(f"interrupted: {text}" if text else "interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(_BY_SIGNAL + _came)
    finally:
        # The process's own ends here; a caller's goes on.
        _on_signals(*([_leave] * len(_SIGNALS) if arguments is None else before))


def raise_on_signals() -> None:
    """From here on these signals raise KeyboardInterrupt, once: there is something to put in order."""
    _on_signals(*(_raise for _ in _SIGNALS))


def _on_signals(*handlers: _Handler) -> list[_Handler]:
    """Install handlers; those before. Leaves alone what the process is told to ignore."""
    before = [signal.getsignal(number) for number in _SIGNALS]
    for number, handler, old in zip(_SIGNALS, handlers, before, strict=True):
        if old is not signal.SIG_IGN:
            with suppress(ValueError):  # only the main thread may, and only it is interrupted
                signal.signal(number, handler)
    return before


def _raise(number: int, _frame: FrameType | None) -> Never:
    global _came
    _on_signals(*(_leave for _ in _SIGNALS))
    _came = signal.Signals(number)
    raise KeyboardInterrupt


def _leave(number: int, _frame: FrameType | None) -> Never:
    os.write(2, b"interrupted\n")
    os._exit(_BY_SIGNAL + number)
