"""Schema errors in words: one line for each, with the nearest known key."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from sglb.fabric.schema import ScenarioModel
from sglb.fabric.topology import closest
from sglb.fabric.yaml_source import KeyPath, Problem, Source


def schema_problems(source: Source, error: ValidationError) -> list[Problem]:
    """All complaints of pydantic about a scenario file, by line."""
    problems = []
    for item in error.errors(include_url=False):
        path: KeyPath = tuple(item["loc"])
        problems.append(source.problem(path, _say(path, item)))
    return sorted(problems, key=lambda p: p.line)


_SAY = {
    "missing": "is required",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "model_type": "must be a block of keys",
}


def _say(path: KeyPath, item: Any) -> str:
    kind: str = item["type"]
    if kind == "extra_forbidden":
        known = _known_keys(path[:-1])
        hint = closest(str(path[-1]), known) or f"; known: {', '.join(known)}"
        return f"unknown key{hint}"
    if kind == "literal_error":
        expected = item["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        hint = closest(str(item["input"]), expected.split(", "))
        return f"must be one of {expected}, got {_short(item['input'])}{hint}"
    if kind in _SAY:
        got = "" if kind == "missing" else f", got {_short(item['input'])}"
        return _SAY[kind] + got
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
