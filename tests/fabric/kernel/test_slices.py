"""How long the kernel runs between two looks at the wall clock must not show in what comes out."""

from __future__ import annotations

import pytest

from sglb import programs
from sglb.fabric import scenario as scenarios
from sglb.fabric.control import load_control_plane
from sglb.fabric.kernel import simulation
from sglb.p4.compiler import compile as compile_p4

FABRIC = {
    "engine": "native",
    "topology": {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 2}},
    "workload": {"all_to_all": {"bytes_per_pair": 65_536}},
    "policies": ["glb"],
}


def counts(slice_ps: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    monkeypatch.setattr(simulation, "_FIRST_SLICE_PS", slice_ps)
    monkeypatch.setattr(simulation, "_SLICE_S", 0.0)
    program = compile_p4(programs.glb())
    given = scenarios.from_dict(FABRIC)
    run = simulation.NativeSimulation(given, "glb", program, load_control_plane()).run()
    return run.end_ps, run.wire_frames, run.events_run


def test_slices_of_any_length_give_the_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({counts(ps, monkeypatch) for ps in (700_001, 20_000_000, 10_000_000_000)}) == 1
