"""What users may write, and what they are told: each complaint names the key."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from sglb.collective.savings.given import checked
from sglb.collective.savings.settings import Settings, SettingsError


def _refused(data: dict[str, Any]) -> str:
    with pytest.raises(SettingsError) as found:
        checked(data)
    return str(found.value)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"gpus": 1.5}, "gpus: must be a whole number, got 1.5"),
        ({"gpus": 0}, "gpus: should be greater than or equal to 1, got 0"),
        ({"days": True}, "days: must be a number, got True"),
        ({"days": float("nan")}, "days: should be a finite number, got nan"),
        ({"restart_mins": 3}, "restart_mins: unknown key; did you mean restart_min?"),
        (
            {"reroute": "even"},
            "reroute: must be one of balanced, neighbour, dual-homed, got 'even'",
        ),
        (
            {"checkpoint_interval_min": "best"},
            "checkpoint_interval_min: must be one of young, daly, exact or a number, got 'best'",
        ),
        (
            {"checkpoint_interval_min": 0},
            "checkpoint_interval_min: should be greater than 0, got 0",
        ),
        (
            {"failover_saves": ["nic", "gpu"]},
            "failover_saves.1: must be one of nic, link, switch, got 'gpu'",
        ),
        ({"failover_saves": "nic"}, "failover_saves: must be a list, got 'nic'"),
        ({"faults": {"fan": {}}}, "faults.fan.per_gpu_hour: is required"),
        ({"faults": {"fan": 3}}, "faults.fan: must be a block of keys, got 3"),
        (
            {"faults": {"float": {"per_gpu_hour": 0.1, "rate": 1}}},
            "faults.float.rate: unknown key; known: per_gpu_hour, loses, repair_h, source",
        ),
        ({"faults": []}, "faults: must be a block of keys, got []"),
        ({"fault_table": "none"}, "fault_table is none and faults has no kind: nothing can fail"),
    ],
)
def test_complaints(data: dict[str, Any], complaint: str) -> None:
    assert _refused(data) == complaint


def test_every_problem_is_told() -> None:
    assert _refused({"gpus": 0, "days": -1}).splitlines() == [
        "gpus: should be greater than or equal to 1, got 0",
        "days: should be greater than 0, got -1",
    ]


def test_a_rule_for_the_interval_needs_a_price_of_writing() -> None:
    assert "needs checkpoint_write_s above 0" in _refused({"checkpoint_write_s": 0})


@pytest.mark.parametrize("keys", [{"fault_scale": 10_000}, {"fault_scale": 10_000, "runs": 2}])
def test_what_would_take_minutes_is_refused(keys: dict[str, Any]) -> None:
    assert "would take minutes" in _refused(keys)


def test_the_place_stands_before_the_complaint() -> None:
    with pytest.raises(SettingsError) as found:
        checked({"gpus": 0}, lambda path: f"here {path}")
    assert str(found.value).startswith("here ('gpus',): should be")


def test_a_kind_of_the_table_can_be_replaced_and_scaled() -> None:
    settings = checked(
        {"network_fault_scale": 2, "faults": {"NIC": {"per_gpu_hour": 1e-6, "loses": "nic"}}}
    )
    kinds = settings.kinds()
    assert kinds["NIC"].per_gpu_hour == 2e-6
    assert kinds["switch or cable"].per_gpu_hour == pytest.approx(2 * 35 / 21_233_664)
    assert kinds["GPU"].per_gpu_hour == pytest.approx(148 / 21_233_664)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
_KEYS = st.sampled_from(list(Settings.model_fields)) | st.text(max_size=6)


@tries(max_examples=150, deadline=None)
@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_anything_is_settings_or_complaints(data: dict[str, Any]) -> None:
    with suppress(SettingsError):
        checked(data)
