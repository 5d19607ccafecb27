"""YAML read so that every later complaint can name file, key and line.

The YAML library's own containers carry line numbers; `read` splits them into plain Python data
and a map from key path to line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarbool import ScalarBoolean
from ruamel.yaml.scalarfloat import ScalarFloat
from ruamel.yaml.scalarint import ScalarInt

KeyPath = tuple[str | int, ...]

MAX_BYTES = 4_000_000
MAX_DEPTH = 32
# Aliases can make a small file expand without end.
MAX_VALUES = 200_000


@dataclass(frozen=True, slots=True)
class Problem:
    """One complaint about a file: where it is (line 0: no place in it) and what is wrong."""

    file: str
    line: int
    path: KeyPath
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        return f"{where}{dotted(self.path)}: {self.message}" if self.path else where + self.message


class SourceError(ValueError):
    """A file with one or more problems; its text has one line for each."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(p) for p in problems))


@dataclass(slots=True)
class Source:
    """Plain data of one YAML file, and the line (from 1) of each key path.

    Data that stood in no file have no lines.
    """

    file: str
    data: dict[str, Any]
    lines: Mapping[KeyPath, int] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """Line of a key path, or of the nearest enclosing one that the file has; 0 without lines."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)

    def problem(self, path: KeyPath, message: str) -> Problem:
        """A complaint about a key path."""
        return Problem(self.file, self.line(path), path, message)


def dotted(path: KeyPath) -> str:
    """A key path as users write it: `faults[1].at_us`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def read_file(path: Path) -> Source:
    """Read a YAML file. Raises `SourceError` when it is not there, not text or not YAML."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)  # a device may have no end
    except OSError as error:
        reason = error.strerror or str(error)
        raise SourceError([Problem(str(path), 0, (), f"cannot be read: {reason}")]) from None
    return read_bytes(raw, str(path))


def read_bytes(raw: bytes, file: str) -> Source:
    """Like `read_file`, for bytes at hand; `file` is the name used in complaints."""
    if len(raw) > MAX_BYTES:
        raise SourceError([Problem(file, 0, (), f"is larger than {MAX_BYTES} bytes")])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SourceError([Problem(file, line, (), "is not UTF-8 text")]) from None
    return read(text, file)


def read(text: str, file: str) -> Source:
    """Like `read_file`, for text at hand."""
    yaml = YAML(typ="rt", pure=True)
    try:
        tree = yaml.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise SourceError([Problem(file, line, (), f"is not YAML: {_reason(error)}")]) from None
    except (YAMLError, ValueError, RecursionError, AttributeError, TypeError, KeyError) as error:
        # The library lets some of its own slips through on odd input; to a user they are all one.
        message = f"is not YAML: {_reason(error)}"
        raise SourceError([Problem(file, 1, (), message)]) from None
    if not isinstance(tree, CommentedMap):
        what = "is empty" if tree is None else "must be a mapping of keys to values"
        raise SourceError([Problem(file, 1, (), what)])
    return _Plain(file).convert(tree)


def _reason(error: Exception) -> str:
    text = getattr(error, "problem", None) or str(error) or type(error).__name__
    return " ".join(str(text).split("\n")[0].split())


class _Plain:
    """Turns the library's tree into plain data, noting lines on the way."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._lines: dict[KeyPath, int] = {(): 1}
        self._count = 0

    def convert(self, tree: CommentedMap) -> Source:
        data = self._value(tree, ())
        assert isinstance(data, dict)
        return Source(self._file, data, self._lines)

    def _fail(self, path: KeyPath, message: str) -> SourceError:
        line = Source(self._file, {}, self._lines).line(path)
        return SourceError([Problem(self._file, line, path, message)])

    def _value(self, value: Any, path: KeyPath) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            raise self._fail(path, f"more than {MAX_VALUES} values")
        if len(path) > MAX_DEPTH:
            raise self._fail(path[:4], f"nested more than {MAX_DEPTH} deep")
        if isinstance(value, CommentedMap):
            return self._mapping(value, path)
        if isinstance(value, CommentedSeq):
            for i in range(len(value)):
                self._note(value, i, (*path, i))
            return [self._value(item, (*path, i)) for i, item in enumerate(value)]
        return self._scalar(value, path)

    def _mapping(self, value: CommentedMap, path: KeyPath) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key in value:
            if not isinstance(key, str):
                raise self._fail(path, f"key {key!r} must be text")
            name = str(key)
            self._note(value, key, (*path, name))
            plain[name] = self._value(value[key], (*path, name))
        return plain

    def _note(self, container: Any, key: Any, path: KeyPath) -> None:
        position = (container.lc.data or {}).get(key)
        if position is not None:
            self._lines[path] = position[0] + 1

    def _scalar(self, value: Any, path: KeyPath) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        for kind, plain in ((ScalarBoolean, bool), (ScalarInt, int), (ScalarFloat, float)):
            if isinstance(value, kind):
                return plain(value)
        if isinstance(value, str):
            return str(value)
        raise self._fail(path, f"a {type(value).__name__} is not understood here")
