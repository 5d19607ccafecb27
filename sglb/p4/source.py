"""Places in P4 source, and the errors that point at them.

A `Span` names a file, a line and columns after preprocessing has been undone, so that a diagnostic
always shows what the user wrote.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one source line: 1-based `line` and `column`, `length` in characters."""

    file: str
    line: int
    column: int
    length: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


#: Where compiler-made nodes stand.
BUILTIN: Final = Span("<builtin>", 0, 0, 0)


class P4Error(Exception):
    """One problem in a P4 program, printed as file:line:column, the source line, a caret and a hint.

    `phase` is one of "preprocess", "lex", "parse", "type", "lower", "p4info", "verify".
    """

    def __init__(
        self, message: str, span: Span, *, hint: str = "", line_text: str = "", phase: str = "type"
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint
        self.line_text = line_text
        self.phase = phase

    def __str__(self) -> str:
        out = [f"{self.span}: error: {self.message}"]
        if self.line_text:
            out.append("  " + self.line_text.expandtabs(1))
            out.append("  " + " " * (self.span.column - 1) + "^" * max(1, self.span.length))
        if self.hint:
            out.append(f"  hint: {self.hint}")
        return "\n".join(out)


class P4Errors(Exception):  # noqa: N818 - a group of P4Error
    """Every problem found in a program, in source order."""

    def __init__(self, errors: list[P4Error]) -> None:
        super().__init__("\n".join(str(e) for e in errors))
        self.errors = errors


def read_program(path: Path) -> str:
    """Text of a program file; raises `P4Errors` where it cannot be read or isn't UTF-8."""
    place = Span(os.fspath(path), 1, 1)
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        problem = P4Error(f"cannot read the program: {error.strerror}", place, phase="preprocess")
    except UnicodeDecodeError as error:
        message = f"the program is not UTF-8 text (byte {error.start})"
        problem = P4Error(message, place, hint="save it as UTF-8", phase="preprocess")
    raise P4Errors([problem])
