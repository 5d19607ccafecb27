"""docs/scenarios.md against the schema: every key is told, every told default is true, snippets load."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from sglb.fabric.scenario import loads
from sglb.fabric.schema import ScenarioModel
from sglb.fabric.schema_lossless import CONNECTX_NAMES, DcqcnBlock

DOCS = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL)
WORDS = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`\n]+)`", DOCS))))


def _keys(model: type[BaseModel]) -> Iterator[str]:
    for name, info in model.model_fields.items():
        yield info.alias or name
        for inner in _models(info.annotation):
            if inner is not model:  # a mix is made of workloads
                yield from _keys(inner)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, BaseModel):
            yield annotation
        return
    for inner in typing.get_args(annotation):
        yield from _models(inner)


def test_every_key_of_the_schema_is_in_the_docs() -> None:
    words = WORDS | set(re.findall(r"[a-z_0-9]+", " ".join(SNIPPETS)))
    assert sorted({key for key in _keys(ScenarioModel) if key not in words}) == []


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_snippets_load_without_a_warning(snippet: str) -> None:
    assert loads(snippet).warnings == ()


def test_the_table_of_dcqcn_is_true() -> None:
    rows = re.findall(
        r"^\| `(\w+)`[^|]*\| `(\w+)`[^|]*\| ([^|]+) \| ([^|]+) \|$", DOCS, re.MULTILINE
    )
    assert {paper: theirs for paper, theirs, _, _ in rows} == CONNECTX_NAMES
    for defaults, name_at, value_at in (("paper", 0, 2), ("connectx", 1, 3)):
        block = DcqcnBlock.model_validate({"defaults": defaults}).model_dump()
        for row in rows:
            told = {"true": "1", "false": "0"}.get(row[value_at], row[value_at].replace(",", ""))
            number, _, over = told.partition("/")
            assert block[row[name_at]] == float(number) / float(over or 1), row
