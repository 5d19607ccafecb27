"""Whole programs: the same packets, drops, times, digests and state as by the interpreter.

Each program runs the packets that its case records and variations of them: cut at any byte, longer,
with bits flipped, made up. Random draws come from equal streams.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from native_twins_kit import TESTS, Twins, variations

from sglb.p4.compiler import compile as compile_p4
from sglb.p4.source import P4Errors

ORACLE = TESTS / "oracle"
#: Refused when it is loaded, whatever would run it.
REFUSED = "86-duplicate-entries"
CASES = sorted(path.name for path in ORACLE.iterdir() if path.is_dir() and path.name != REFUSED)


def compiles(path: Path) -> bool:
    try:
        compile_p4(path)
    except P4Errors:
        return False
    return True


def recorded(name: str) -> tuple[str, list[tuple[int, bytes]]]:
    """A case's commands, and the packets that come in with their ports."""
    given = ORACLE / name / "commands.txt"
    inputs = json.loads((ORACLE / name / "case.json").read_text())["inputs"]
    packets = [(item["port"], bytes.fromhex(item["hex"])) for item in inputs]
    return given.read_text() if given.exists() else "", packets


@pytest.mark.parametrize("name", CASES)
def test_recorded_cases_and_variations(name: str) -> None:
    folder = ORACLE / name
    if not compiles(folder / "program.p4"):
        assert not json.loads((folder / "case.json").read_text()).get("outputs")
        return
    commands, packets = recorded(name)
    twins = Twins(folder / "program.p4", commands)
    for port, data in variations(random.Random(name), packets[:12]):
        twins.feed(port, data)
    twins.check_state()
