"""The window kernel against the heap kernel and the reference engine; runs that must be the same."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from physics_kit import Outcome, fabric, leaf_spine, outcome, program

from sglb.fabric.control import load_control_plane
from sglb.fabric.run import run
from sglb.fabric.scenario import Scenario, from_dict
from sglb.fabric.simulation import Simulation

WORKLOADS: dict[str, Any] = {
    "permutation": {"permutation": {"bytes": 200_000}},
    "all-to-all": {"all_to_all": {"bytes_per_pair": 60_000}},
    "incast": {"incast": {"to": "h0", "fan_in": 7, "bytes": 150_000}},
    "ring": {"ring_all_reduce": {"bytes": 240_000}},
}
FAULTS: dict[str, Any] = {
    "permutation": [{"at_us": 12, "down": "leaf1-spine0"}, {"at_us": 40, "up": "leaf1-spine0"}],
    "all-to-all": [{"at_us": 15, "rate": {"link": "leaf0-spine1", "gbps": 40}}],
    "incast": [],
    "ring": [{"at_us": 10, "loss": {"link": "leaf1->spine1", "data": 0.05}}],
}


def crossed(workload: str, policy: str, pfc: bool, dcqcn: bool) -> Scenario:
    """Eight hosts on two leaves; XOFF is low, so that what may be paused is."""
    switch: dict[str, Any] = {"ecn": {"kmin_bytes": 5_000, "kmax_bytes": 60_000}}
    if pfc:
        switch["buffer"] = {
            "total_bytes": 8_000_000,
            "classes": [{"class": 3, "lossless": True, "scheduling": "dwrr"}],
        }
        switch["pfc"] = {"enabled": True, "xoff_bytes": 12_000}
    return fabric(
        topology=leaf_spine(2, 2, 4),
        workload=WORKLOADS[workload],
        faults=FAULTS[workload],
        switch=switch,
        transport={
            "traffic_class": 3,
            "ack_timer_us": 3,
            "recovery": "go_back_n" if policy == "ecmp" else "selective_repeat",
            "dcqcn": {"enabled": dcqcn, "defaults": "connectx"},
        },
        policies=[policy],
    )


def told(result: Outcome) -> dict[str, Any]:
    """Everything that a run tells, but the number of Python's own turns."""
    found = result.run
    ports = {
        (switch_id, number): (
            port.counters,
            [(queue.bytes, queue.max_bytes, queue.max_packets) for queue in port.queues],
        )
        for switch_id, switch in found.switches.items()
        for number, port in switch.ports.items()
    }
    return {
        "log": list(found.log),
        "hosts": found.hosts,
        "ports": ports,
        "drops": found.drops,
        "pauses": found.pauses,
        "control": found.control,
        "frames": found.wire_frames,
        "deepest": (found.max_queue_bytes, found.max_queue_at),
        "end": (found.completed, found.end_ps),
    }


def grid() -> list[tuple[str, str, bool, bool]]:
    """Every workload, policy and PFC; DCQCN in every other, so that each pair meets all four."""
    policies = ("ecmp", "spray", "dlb", "glb")
    return [
        (workload, policy, pfc, (i + j + pfc) % 2 == 1)
        for (i, workload), (j, policy), pfc in product(
            enumerate(WORKLOADS), enumerate(policies), (False, True)
        )
    ]


@pytest.mark.parametrize(("workload", "policy", "pfc", "dcqcn"), grid())
def test_window_and_heap_kernel_agree(workload: str, policy: str, pfc: bool, dcqcn: bool) -> None:
    scenario = crossed(workload, policy, pfc, dcqcn)
    windows = outcome(scenario, policy)
    assert windows.run.completed
    a, b = told(windows), told(outcome(scenario, policy, one_heap=True))
    for key in a:
        assert a[key] == b[key], key


@pytest.mark.parametrize("policy", ["ecmp", "flowlet", "glb"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_looking_ahead_changes_nothing(workload: str, policy: str) -> None:
    scenario = crossed(workload, policy, True, True)
    a, b = (told(outcome(scenario, policy, look_ahead=ahead)) for ahead in (False, True))
    for key in a:
        assert a[key] == b[key], key


def test_a_large_fabric_looks_ahead_on_its_own() -> None:
    """As large as those that do: 125 switches."""
    keys: dict[str, Any] = {
        "topology": {"clos3": {"k": 10}},
        "workload": {"permutation": {"bytes": 20_000}},
        "policies": ["ecmp"],
    }
    scenario = fabric(**keys)
    a, b = (told(outcome(scenario, "ecmp", look_ahead=ahead)) for ahead in (None, False))
    for key in a:
        assert a[key] == b[key], key


def test_the_grid_has_what_it_is_about() -> None:
    paused = outcome(crossed("all-to-all", "glb", True, True), "glb").run
    assert paused.pauses.pause_frames > 50
    assert paused.pauses.cnps > 20
    assert outcome(crossed("permutation", "ecmp", True, True), "ecmp").lost["link down"] > 0
    assert outcome(crossed("ring", "spray", False, True), "spray").lost == {"random loss": 2}


def test_the_same_seed_gives_the_same_bytes_whatever_the_jobs() -> None:
    keys: dict[str, Any] = {
        "topology": leaf_spine(2, 2, 4),
        "workload": WORKLOADS["permutation"],
        "faults": FAULTS["ring"],
        "policies": ["spray", "glb"],
    }
    found = run(fabric(**keys), program=program(), jobs=1).to_json()
    assert run(fabric(**keys), program=program(), jobs=2).to_json() == found
    other = run(fabric(**keys, seed=2), program=program(), policies=["spray"], jobs=1)
    before = json.loads(found)["policies"]["spray"]["completion_us"]
    assert other.policies["spray"].completion_us != before


# --- the reference engine -------------------------------------------------------------------------

CUT = [{"at_us": 10, "down": "leaf1-spine0"}]
HOLE = [
    {"at_us": 10, "blackhole": "leaf0->spine0"},
    {"at_us": 30, "heal": "leaf0->spine0"},
]


def plain(policy: str, workload: str, faults: list[Any], *, ties: bool) -> Scenario:
    """Six hosts; without `ties` no two links have the same delay."""
    keys: dict[str, Any] = {
        "topology": leaf_spine(3, 2, 2),
        "workload": {**WORKLOADS, "incast": {"incast": {"to": "h0", "fan_in": 5, "bytes": 50_000}}}[
            workload
        ],
        "faults": faults,
        "policies": [policy],
    }
    if not ties:
        topology = fabric(**keys).topology
        names = [[topology.by_id(end).name for end in (x.a, x.b)] for x in topology.links]
        delays = [500 + 7 * i * i % 97 + 0.137 * i + 0.001 * i * i for i in range(len(names))]
        overrides = [
            {"between": between, "delay_ns": round(delay, 3)}
            for between, delay in zip(names, delays, strict=True)
        ]
        keys["links"] = {"overrides": overrides}
    return fabric(**keys)


def reference(scenario: Scenario, policy: str) -> Outcome:
    """The same on the interpreter and the Python hosts."""
    data = scenario.model.model_dump(mode="json", by_alias=True)
    again = from_dict({**data, "engine": "reference"})
    return Outcome(again, Simulation(again, policy, program(), load_control_plane()).run())


@pytest.mark.parametrize(
    ("policy", "workload", "faults"),
    [
        ("ecmp", "all-to-all", CUT),
        ("flowlet", "permutation", []),
        ("spray", "incast", []),
        ("spray", "all-to-all", HOLE),
        ("dlb", "permutation", []),
        ("glb", "ring", []),
        ("glb", "all-to-all", CUT),
    ],
)
def test_without_ties_the_reference_engine_sees_the_same_events(
    policy: str, workload: str, faults: list[Any]
) -> None:
    scenario = plain(policy, workload, faults, ties=False)
    native, python = outcome(scenario, policy), reference(scenario, policy)
    # Events of one time are in the order of the engine's own making.
    assert _by_time(native) == _by_time(python)
    assert native.transport.data_sent == python.transport.data_sent


def _by_time(result: Outcome) -> list[tuple[int, str]]:
    return sorted((event.time_ps, repr(event)) for event in result.run.log)


@pytest.mark.parametrize(
    ("policy", "workload"), [("ecmp", "incast"), ("spray", "all-to-all"), ("glb", "all-to-all")]
)
def test_with_ties_completion_is_nearly_the_reference_engines(policy: str, workload: str) -> None:
    scenario = plain(policy, workload, [], ties=True)
    native, python = outcome(scenario, policy), reference(scenario, policy)
    assert native.completion_ps == pytest.approx(python.completion_ps, rel=0.01)
