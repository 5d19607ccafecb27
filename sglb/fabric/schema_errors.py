"""Schema errors in words: one line for each, with the nearest known key."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from sglb.fabric.schema import ScenarioModel
from sglb.fabric.topology import closest, nearest
from sglb.fabric.yaml_source import KeyPath, Problem, Source, dotted


def schema_problems(source: Source, error: ValidationError) -> list[Problem]:
    """All complaints of pydantic about a scenario file, by line.

    A required key that is there, but misspelt, makes one of them.
    """
    items = [(_path(item["loc"]), item) for item in error.errors(include_url=False)]
    missing = {path for path, item in items if item["type"] == "missing"}
    problems = []
    for path, item in items:
        if item["type"] == "extra_forbidden":
            meant = _meant(path, missing)
            missing.discard((*path[:-1], meant))
            problems.append(source.problem(path, f"unknown key{_hint(path, meant)}"))
        elif item["type"] != "missing":
            problems.append(source.problem(path, _say(item)))
    problems += [source.problem(path, "is required") for path in missing]
    return sorted(problems, key=lambda p: (p.line, dotted(p.path)))


def _path(location: KeyPath) -> KeyPath:
    """A key's path, without the tags of `schema_types` for kinds of values."""
    return tuple(part for part in location if not str(part).startswith("<"))


def _meant(path: KeyPath, missing: set[KeyPath]) -> str:
    """The known key that an unknown one is nearest to, best one that is missing; "" for none."""
    wanted = [str(p[-1]) for p in missing if p[:-1] == path[:-1]]
    return nearest(str(path[-1]), sorted(wanted)) or nearest(str(path[-1]), _known_keys(path[:-1]))


def _hint(path: KeyPath, meant: str) -> str:
    return f"; did you mean {meant}?" if meant else f"; known: {', '.join(_known_keys(path[:-1]))}"


_SAY = {
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "model_type": "must be a block of keys",
}


def _say(item: Any) -> str:
    kind: str = item["type"]
    if kind == "literal_error":
        expected = item["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        hint = closest(str(item["input"]), expected.split(", "))
        either = "".join(f" {p[1:-1]}" for p in item["loc"] if str(p).startswith("<or "))
        return f"must be one of {expected}{either}, got {_short(item['input'])}{hint}"
    if kind in _SAY:
        return f"{_SAY[kind]}, got {_short(item['input'])}"
    text = item["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if kind == "value_error":
        return str(text)
    return f"{text[0].lower()}{text[1:]}, got {_short(item['input'])}"


def _short(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _known_keys(path: KeyPath) -> list[str]:
    """Keys of the block at a path of the schema."""
    kind: Any = ScenarioModel
    for part in path:
        if isinstance(part, int):
            continue
        for name, info in kind.model_fields.items():
            if part in (name, info.alias):
                kind = next(_models_in(info.annotation))
    return [info.alias or name for name, info in kind.model_fields.items()]


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, BaseModel):
            yield annotation
        return
    for inner in typing.get_args(annotation):
        yield from _models_in(inner)
