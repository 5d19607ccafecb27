"""Flow files in the format of HPCC's ns-3 simulations.

The first number is the count of flows; each flow is a line `src dst class port bytes start`, with
node numbers, a priority group, a destination port, a size in bytes and a start in seconds. `#` begins
a comment. Class and port are checked and not used: the transport has its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from sglb.fabric.workload import MAX_FLOWS
from sglb.fabric.yaml_source import Problem, SourceError
from sglb.switch.clock import PS_PER_S

MAX_BYTES = 256_000_000
_FIELDS = ("src", "dst", "class", "port", "bytes")
_MAX_START_S = 86_400


@dataclass(frozen=True, slots=True)
class FileFlow:
    """A line of a flow file: node numbers of the file, size, and start from the file's time 0."""

    src: int
    dst: int
    size_bytes: int
    start_ps: int


def read_flow_file(path: Path) -> list[FileFlow]:
    """All flows, in the file's order. Raises `SourceError` with file and line."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SourceError([Problem(str(path), 0, (), f"is larger than {MAX_BYTES} bytes")])
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError([Problem(str(path), 0, (), f"cannot be read: {reason}")]) from None
    except UnicodeDecodeError:
        raise SourceError([Problem(str(path), 0, (), "is not UTF-8 text")]) from None
    return parse_flows(text, str(path))


def parse_flows(text: str, file: str) -> list[FileFlow]:
    """Like `read_flow_file`, for text at hand; `file` is the name used in complaints."""
    lines = [(n, line.partition("#")[0].split()) for n, line in enumerate(text.splitlines(), 1)]
    rows = [(n, words) for n, words in lines if words]
    if not rows:
        raise SourceError([Problem(file, 0, (), "is empty; it must begin with the count of flows")])
    number, first = rows[0]
    count = _whole(first[0]) if len(first) == 1 else None
    if count is None or not 1 <= count <= MAX_FLOWS:
        message = f"must be the count of flows alone, 1 to {MAX_FLOWS}, got {' '.join(first)!r}"
        raise SourceError([Problem(file, number, (), message[:120])])
    if len(rows) - 1 < count:
        message = f"has {len(rows) - 1} flows, its first line says {count}"
        raise SourceError([Problem(file, number, (), message)])
    return [_flow(file, n, words) for n, words in rows[1 : count + 1]]


def _flow(file: str, line: int, words: list[str]) -> FileFlow:
    def bad(message: str) -> SourceError:
        return SourceError([Problem(file, line, (), message)])

    if len(words) != len(_FIELDS) + 1:
        raise bad(f"a flow is `src dst class port bytes start`, got {len(words)} words")
    numbers = [_whole(word) for word in words[:-1]]
    for name, word, value in zip(_FIELDS, words, numbers, strict=False):
        if value is None:
            raise bad(f"{name} must be a whole number, got {word[:40]!r}")
    src, dst, _class, _port, size = (n or 0 for n in numbers)
    if not 1 <= size <= 1 << 40:
        raise bad(f"bytes must be 1 to {1 << 40}, got {size}")
    try:
        start = Decimal(words[-1])
        fits = 0 <= start <= _MAX_START_S
    except InvalidOperation:
        fits = False
    if not fits:
        raise bad(f"start must be seconds, 0 to {_MAX_START_S}, got {words[-1][:40]!r}")
    return FileFlow(src, dst, size, round(start * PS_PER_S))


def _whole(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdigit() and len(word) < 19 else None
