"""Settings as users give them, and complaints that name the place and the key."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from sglb.collective.savings.settings import Fault, Settings, SettingsError

KeyPath = tuple[str | int, ...]

_SAY = {
    "bool_type": "must be true or false",
    "dict_type": "must be a block of keys",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "model_type": "must be a block of keys",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}


def checked(data: Mapping[str, Any], where: Callable[[KeyPath], str] | None = None) -> Settings:
    """Settings from plain data, such as a YAML file's.

    `where` gives what a complaint about a key path begins with (`FILE:LINE: KEY`); without it that is
    the key, dotted. Raises `SettingsError` with one line for each problem, each naming its key.
    """
    try:
        return Settings.model_validate(dict(data))
    except ValidationError as error:
        lines = []
        for item in error.errors(include_url=False):
            if _of_other_kind(item):
                continue
            path = item["loc"][: len(item["loc"]) - len(_tags(item))]
            start = ".".join(map(str, path)) if where is None else where(path)
            lines.append(f"{start}: {_say(item, path)}" if start else _say(item, path))
        raise SettingsError("\n".join(lines)) from None


def _tags(item: Any) -> tuple[str, ...]:
    """The end of a place that is no key, but names a kind of value; only one key has several."""
    place: tuple[str, ...] = item["loc"]
    return place[1:] if place[:1] == ("checkpoint_interval_min",) else ()


def _of_other_kind(item: Any) -> bool:
    """Whether it complains of a word that it is no number, or of a number that it is no word."""
    tags = _tags(item)
    return bool(tags) and tags[0].startswith("literal[") != isinstance(item["input"], str)


def _say(item: Any, path: KeyPath) -> str:
    kind: str = item["type"]
    if kind == "extra_forbidden":
        known = list((Fault if len(path) > 1 else Settings).model_fields)
        close = difflib.get_close_matches(str(path[-1]), known, 1)
        return (
            f"unknown key; did you mean {close[0]}?"
            if close
            else (f"unknown key; known: {', '.join(known)}")
        )
    if kind == "missing":
        return "is required"
    if kind == "value_error":
        return str(item["ctx"]["error"])
    got = repr(item["input"])
    got = got if len(got) <= 40 else got[:37] + "..."
    if kind == "literal_error":
        words = item["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        number = " or a number" if _tags(item) else ""
        return f"must be one of {words}{number}, got {got}"
    text = _SAY.get(kind) or item["msg"].removeprefix("Input ")
    return f"{text}, got {got}"
