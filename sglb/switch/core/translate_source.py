"""What is known of a compiled function before it is translated: its source, its signature, its place."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType
from typing import Final

_TUPLE: Final = re.compile(r"tuple\[((?:int|bool)(?:, (?:int|bool))+)\]")


class TranslationError(Exception):
    """Something that compiled functions do not have; says where, and what."""


class Source:
    """A file of Python as it was when the first compiled function in it was made."""

    def __init__(self, file: str) -> None:
        self.file = file
        try:
            self.text = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise TranslationError(f"{file}: no source, which compiled functions need") from error

    @cached_property
    def _functions(self) -> dict[int, ast.FunctionDef]:
        """By the first line, a decorator's where there is one."""
        found = [
            node for node in ast.walk(ast.parse(self.text)) if isinstance(node, ast.FunctionDef)
        ]
        return {min([f.lineno, *(d.lineno for d in f.decorator_list)]): f for f in found}

    def definition(self, function: FunctionType) -> ast.FunctionDef:
        """A function's syntax. TranslationError if the file is not what was imported."""
        line = function.__code__.co_firstlineno
        found = self._functions.get(line)
        if found is None or found.name != function.__name__:
            raise TranslationError(f"{self.file}:{line}: {function.__name__} has moved: start anew")
        return found


@cache
def _source(file: str, _time_ns: int) -> Source:
    return Source(file)


def source_of(function: FunctionType) -> Source:
    """The file that a function is in."""
    file = function.__code__.co_filename
    path = Path(file)
    return _source(file, path.stat().st_mtime_ns if path.exists() else 0)


@dataclass(frozen=True, slots=True)
class Signature:
    """Names of parameters, which of them is the `World`, and for each result whether it is a bool."""

    names: tuple[str, ...]
    world: str | None
    truths: tuple[bool, ...]

    @property
    def kind(self) -> str:
        """The LLVM type of the result."""
        count = len(self.truths)
        if count == 0:
            return "void"
        return "i64" if count == 1 else "{" + ", ".join(["i64"] * count) + "}"

    def parameters(self, prefix: str = "") -> str:
        """The LLVM parameters: `%` and the prefix and the name; each is an i64, a world a pointer."""
        kinds = ("ptr" if name == self.world else "i64" for name in self.names)
        return ", ".join(f"{kind} %{prefix}{n}" for kind, n in zip(kinds, self.names, strict=True))


def signature_of(function: FunctionType) -> Signature:
    """A function's signature, from its annotations."""
    code = function.__code__
    place = f"{code.co_filename}:{code.co_firstlineno}: {function.__name__}"
    odd = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or code.co_kwonlyargcount
    if odd or function.__defaults__:
        raise TranslationError(f"{place}: only plain parameters, without defaults")
    if code.co_freevars:
        raise TranslationError(f"{place}: uses variables of a function around it")
    notes = {name: _written(note) for name, note in function.__annotations__.items()}
    names = code.co_varnames[: code.co_argcount]
    for name in names:
        if notes.get(name) not in ("World", "int", "bool"):
            raise TranslationError(f"{place}: {name} must be a World, an int or a bool")
    worlds = [name for name in names if notes[name] == "World"]
    if len(worlds) > 1:
        raise TranslationError(f"{place}: two worlds")
    return Signature(names, worlds[0] if worlds else None, _results(place, notes.get("return")))


def _results(place: str, note: str | None) -> tuple[bool, ...]:
    if note == "None":
        return ()
    if note in ("int", "bool"):
        return (note == "bool",)
    parts = _TUPLE.fullmatch(note or "")
    if parts is None:
        raise TranslationError(
            f"{place}: must give None, int, bool or a tuple of these, not {note}"
        )
    return tuple(part == "bool" for part in parts[1].split(", "))


def _written(note: object) -> str:
    if isinstance(note, str):
        return note
    return (
        "None"
        if note is None
        else getattr(note, "__name__", "")
        if type(note) is type
        else str(note)
    )
