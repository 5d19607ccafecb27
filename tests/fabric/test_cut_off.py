"""Faults that cut a flow off for good, and those that only seem to."""

from __future__ import annotations

from typing import Any

import pytest

from sglb.fabric import cut_off
from sglb.fabric import scenario as scenarios

LEAF_SPINE = {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 1}}
# x - a - b - c - d - y: no leaf's own links are cut when b and c part.
LINE = {
    "explicit": {
        "switches": ["a", "b", "c", "d"],
        "hosts": ["x", "y"],
        "links": [{"between": pair.split("-")} for pair in ("x-a", "a-b", "b-c", "c-d", "d-y")],
    }
}
#: 100 Gbit/s carry 1 MB in 80 us, headers aside.
FLOW = {"src": "h0", "dst": "h1", "bytes": 1_000_000}
SPINES = [{"at_us": 5, "down": "leaf0-spine0"}]


def found(*faults: dict[str, Any], topology: Any = LEAF_SPINE, **flow: Any) -> tuple[Any, str]:
    answer = cut_off.find(
        scenarios.from_dict(
            {
                "topology": topology,
                "workload": {"flows": [{**FLOW, **flow}]},
                "faults": list(faults),
            }
        )
    )
    return ((), "") if answer is None else (answer.path, answer.message)


@pytest.mark.parametrize(
    ("faults", "path"),
    [
        ([{"at_us": 70, "down": "leaf1-h1"}], ("faults", 0, "down")),
        ([*SPINES, {"at_us": 70, "down": "spine1-leaf0"}], ("faults", 1, "down")),
        ([*SPINES, {"at_us": 70, "down_switch": "spine1"}], ("faults", 1, "down_switch")),
        ([*SPINES, {"at_us": 70, "blackhole": "spine1->leaf1"}], ("faults", 1, "blackhole")),
        (
            [
                {"at_us": 1, "down": "leaf1-h1"},
                {"at_us": 2, "up": "leaf1-h1"},
                {"at_us": 3, "down": "leaf1-h1"},
            ],
            ("faults", 2, "down"),
        ),
    ],
)
def test_the_fault_since_which_there_is_no_way_is_to_blame(faults: list[Any], path: Any) -> None:
    where, message = found(*faults)
    assert where == path
    assert message.startswith("cuts h1 off from h0 for good")


@pytest.mark.parametrize(
    "faults",
    [
        [],
        SPINES,  # the other spine is left
        [{"at_us": 70, "down": "leaf1-h1"}, {"at_us": 90_000, "up": "leaf1-h1"}],
        [{"flap": {"link": "leaf1-h1", "start_us": 1, "down_us": 5, "up_us": 5, "count": 3}}],
        [{"at_us": 200, "down": "leaf1-h1"}],  # the flow can be complete by then
        [{"at_us": 1, "blackhole": "leaf0->h0"}],  # only the way back is cut
        [*SPINES, {"at_us": 6, "down": "leaf1-spine1"}, {"at_us": 7, "up": "leaf0-spine0"}],
    ],
)
def test_what_is_not_hopeless_is_let_through(faults: list[Any]) -> None:
    assert found(*faults) == ((), "")


def test_flows_that_fit_alone_but_not_together_are_hopeless() -> None:
    fault = {"at_us": 120, "down": "leaf1-h1"}
    assert found(fault) == ((), "")
    two = [FLOW, {**FLOW, "src": "h2"}]
    topology = {"leaf_spine": {"leaves": 3, "spines": 2, "hosts_per_leaf": 1}}
    scenario = scenarios.from_dict(
        {"topology": topology, "workload": {"flows": two}, "faults": [fault]}
    )
    answer = cut_off.find(scenario)
    assert answer is not None
    assert answer.path == ("faults", 0, "down")


def test_a_cut_in_the_middle_of_a_fabric_is_found() -> None:
    line: dict[str, Any] = {"topology": LINE, "src": "x", "dst": "y"}
    where, message = found({"at_us": 70, "down": "b-c"}, **line)
    assert where == ("faults", 0, "down")
    assert message.startswith("cuts y off from x for good")
    assert found({"at_us": 200, "down": "b-c"}, **line) == ((), "")
