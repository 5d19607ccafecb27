"""Packets go through both engines: whatever a switch does with the interpreter it does natively."""

from __future__ import annotations

import pytest

from sglb.switch.switch import ENGINE_VARIABLE

#: Test modules whose switches run packets.
BOTH = {
    "test_oracle",
    "test_queues",
    "test_switch",
    "test_trace",
    "test_action_profiles",
    "test_array_entries",
    "test_p4runtime_fuzz",
    "test_pipeline_config",
    "test_table_entries",
    "test_spec_09_2_action_profiles",
    "test_spec_09_3_counters_meters",
    "test_spec_09_5_others",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in BOTH:
        metafunc.parametrize("engine", ["interpreter", "native"], indirect=True)


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine of every switch that a test makes."""
    if hasattr(request, "param"):
        monkeypatch.setenv(ENGINE_VARIABLE, request.param)
