"""Which text stands where: source lines for diagnostics, and the warnings of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from sglb.p4.source import P4Error, Span

#: Directory name shown for the include files that come with the compiler.
BUILTIN_DIR = "<builtin>"


@dataclass(frozen=True, slots=True)
class P4Warning:
    """Something that a user should look at, but that stops nothing."""

    message: str
    span: Span
    line_text: str = ""

    def __str__(self) -> str:
        out = f"{self.span}: warning: {self.message}"
        if self.line_text:
            out += "\n  " + self.line_text.expandtabs(1)
            out += "\n  " + " " * (self.span.column - 1) + "^" * max(1, self.span.length)
        return out


@dataclass(frozen=True, slots=True)
class _Segment:
    """Lines of one file, numbered from `first` on: physical line `offset + 1` and following."""

    first: int
    lines: tuple[str, ...]
    offset: int


@dataclass(slots=True)
class SourceMap:
    """Source texts of a program and its includes, by the file names that spans carry.

    `main` is the program's own file name; `warnings` grows as phases find something to say.
    `digest` is the SHA-256 of the preprocessed program's tokens, in hex. `looked_for` has the SHA-256
    of each included file by its absolute path, and "" for files that would have come first but were
    not there.
    """

    main: str
    warnings: list[P4Warning] = field(default_factory=list)
    digest: str = ""
    looked_for: dict[str, str] = field(default_factory=dict)
    _segments: dict[str, list[_Segment]] = field(default_factory=dict)

    def add(self, file: str, lines: tuple[str, ...], *, first: int = 1, physical: int = 1) -> None:
        """Make a file's lines known.

        After a `#line`, line `first` of `file` is really line `physical` (both 1-based) of `lines`.
        """
        self._segments.setdefault(file, []).append(_Segment(first, lines, physical - 1))

    def meet(self, path: Path, data: bytes) -> None:
        """A file was included and held this."""
        self.looked_for[str(path.absolute())] = sha256(data).hexdigest()

    def miss(self, path: Path) -> None:
        """A file was not where it would have been included from."""
        self.looked_for[str(path.absolute())] = ""

    @property
    def files(self) -> tuple[str, ...]:
        """Names of all files read, in the order of first use."""
        return tuple(self._segments)

    def line_text(self, span: Span) -> str:
        """The source line a span stands on; "" when it isn't known."""
        for segment in reversed(self._segments.get(span.file, [])):
            index = span.line - segment.first + segment.offset
            if span.line >= segment.first and index < len(segment.lines):
                return segment.lines[index]
        return ""

    def is_builtin(self, span: Span) -> bool:
        """Whether a span lies in core.p4, v1model.p4 or what the compiler made up itself."""
        return span.file.startswith(BUILTIN_DIR)

    def fill(self, error: P4Error) -> P4Error:
        """Give an error its source line, where it has none yet; returns the same error."""
        if not error.line_text:
            error.line_text = self.line_text(error.span)
        return error

    def warn(self, message: str, span: Span) -> None:
        """Add a warning."""
        self.warnings.append(P4Warning(message, span, self.line_text(span)))
