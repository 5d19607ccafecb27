"""The README's table is the stored result, and the stored result is what a run gives."""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path

import pytest

from sglb.fabric import scenario as scenarios
from sglb.fabric.report import RunReport
from sglb.fabric.run import run

ROOT = Path(__file__).parents[1]
FIGURES = runpy.run_path(str(ROOT / "bench" / "figures.py"))
SCENARIO = scenarios.load(FIGURES["SCENARIO"])
HINT = "out of date: run `make figures`"


@pytest.fixture(scope="module")
def stored() -> RunReport:
    return RunReport.from_json(FIGURES["RESULT"].read_text())


def test_the_readme_shows_the_stored_result(stored: RunReport) -> None:
    readme = FIGURES["README"].read_text()
    assert FIGURES["table_in"](readme).splitlines() == FIGURES["table"](stored).splitlines(), HINT


def test_the_stored_result_is_that_of_the_scenario(stored: RunReport) -> None:
    assert scenarios.from_dict(stored.scenario).model == SCENARIO.model, HINT
    assert tuple(stored.policies) == SCENARIO.policies


def test_a_run_gives_the_stored_result(stored: RunReport) -> None:
    # glb only, which is done first; the other policies take minutes. Versions differ by machine.
    found = run(SCENARIO, policies=["glb"])
    assert found.lower_bounds == stored.lower_bounds, HINT
    again, before = found.policies["glb"], stored.policies["glb"]
    assert dataclasses.asdict(again) == dataclasses.asdict(before), HINT
