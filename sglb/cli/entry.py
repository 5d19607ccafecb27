"""The way in. Ctrl-C ends the command with one line whenever it comes, even before all is imported.

This module imports next to nothing: only from `main` on is Ctrl-C in good hands.
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

#: Exit status, as of a program that SIGINT ended.
INTERRUPTED = 130


class Interrupted(BaseException):
    """The command was interrupted; the text, if any, says how far it had come.

    Not an Exception and not KeyboardInterrupt, so that no library on the way takes it for its own.
    """


def main(arguments: list[str] | None = None) -> None:
    """The `sglb` command; `arguments` instead of the process's own. Ends by SystemExit."""
    given = sys.argv[1:] if arguments is None else arguments
    before = _on_sigint(_leave)
    try:
        # Takes seconds, in which an exception could come up anywhere in other people's modules.
        from sglb.cli.app import execute

        execute(given)
    except Interrupted as stopped:
        text = str(stopped)
        print(f"interrupted: {text}" if text else "interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)
    finally:
        # The process's own ends here; a caller's goes on.
        _on_sigint(_leave if arguments is None else before)


def raise_on_sigint() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt, once: there is something to put in order."""
    _on_sigint(_raise)


def _on_sigint(handler: _Handler) -> _Handler:
    """Install a handler; the one before. Leaves alone a process that is told to ignore SIGINT."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        with suppress(ValueError):  # only the main thread may, and only it is interrupted
            signal.signal(signal.SIGINT, handler)
    return before


def _raise(_signal: int, _frame: FrameType | None) -> Never:
    _on_sigint(_leave)
    raise KeyboardInterrupt


def _leave(_signal: int, _frame: FrameType | None) -> Never:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
