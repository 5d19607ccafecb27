"""Equal shares over unequal paths: `examples/suppression.yaml`, with less to send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from controller_kit import program

from sglb.fabric import run, scenario

EXAMPLE = Path(__file__).parents[2] / "examples/suppression.yaml"


def ratio(policy: str, *, slots: bool = True) -> float:
    """Completion over the lower bound."""
    keys: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    keys["switch"]["capacity_slots"] = slots
    for flow in keys["workload"]["flows"]:
        flow["bytes"] = 256 << 10
    given = scenario.from_dict(keys)
    report = run.run(given, policies=[policy], program=program(), jobs=1)
    return report.policies[policy].ratio


def test_with_slots_by_capacity_glb_is_near_the_bound() -> None:
    assert ratio("glb") <= 1.15


# 3.5 of 2.0 is 1.75 for a long transfer; the first and last packets' way is the same for all.
@pytest.mark.parametrize(("policy", "least"), [("spray", 1.5), ("dlb", 1.5), ("glb", 1.25)])
def test_equal_shares_are_suppressed(policy: str, least: float) -> None:
    assert least <= ratio(policy, slots=False) < 1.75
