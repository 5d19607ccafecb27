"""Scenarios in words."""

from __future__ import annotations

from typing import Any

import pytest

from sglb.cli import words
from sglb.fabric import scenario as scenarios
from sglb.fabric.scenario import Scenario


def make(**keys: Any) -> Scenario:
    return scenarios.from_dict(
        {
            "topology": {"leaf_spine": {"leaves": 2, "spines": 1, "hosts_per_leaf": 2}},
            "workload": {"all_to_all": {"bytes_per_pair": 4_096}},
            **keys,
        }
    )


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.5, "0.5"), (61, "61"), (1e6, "1,000,000"), (12.3456, "12.346")]
)
def test_numbers_have_no_needless_digits(value: float, text: str) -> None:
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (4_154, "4.15 kB"), (16_802, "16.8 kB"), (163_840, "164 kB"),
     (999_960, "1 MB"), (2_000_000, "2 MB"), (39_321_600, "39.3 MB"), (3 * 10**9, "3 GB")],
)  # fmt: skip
def test_sizes_have_three_digits(size: int, text: str) -> None:
    assert words.size(size) == text


def test_the_fabric_counts_each_kind() -> None:
    assert words.fabric(make().topology) == "2 leaves, 1 spine, 4 hosts"
    fat_tree = make(topology={"clos3": {"k": 4}})
    assert words.fabric(fat_tree.topology) == "8 leaves, 8 spines, 4 cores, 16 hosts"


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (
            {"all_to_all": {"bytes_per_pair": 4_096}},
            "all-to-all, 4.1 kB a pair (12 flows, 49.2 kB)",
        ),
        ({"ring_all_reduce": {"bytes": 4_000}}, "ring all-reduce of 4 kB (24 flows, 24 kB)"),
        (
            {"incast": {"to": "h0", "fan_in": 3, "bytes": 1_000}},
            "incast to h0, 1 kB a sender (3 flows, 3 kB)",
        ),
        ({"permutation": {"bytes": 500}}, "permutation, 500 B a host (4 flows, 2 kB)"),
        ({"flows": [{"src": "h0", "dst": "h1", "bytes": 7}]}, "a list of flows (1 flow, 7 B)"),
    ],
)
def test_workloads(block: dict[str, Any], text: str) -> None:
    assert words.workload(make(workload=block)) == text


def test_faults_of_one_link_stand_together() -> None:
    faults = [
        {"at_us": 60, "down": "leaf0-spine0"},
        {"at_us": 3_000, "up": "leaf0-spine0"},
        {"at_us": 4_000, "rate": {"link": "leaf1-spine0", "gbps": 50}},
    ]
    assert words.faults(make(faults=faults)) == (
        "leaf0-spine0: link down at 60 us, link up at 3,000 us; leaf1-spine0: 50 Gbit/s at 4,000 us"
    )
    assert words.faults(make()) == "none"


def test_a_link_that_flaps_is_not_told_a_thousand_times() -> None:
    flap = {"link": "leaf0-spine0", "start_us": 1, "down_us": 2, "up_us": 3, "count": 500}
    assert words.faults(make(faults=[{"flap": flap}])) == (
        "leaf0-spine0: link down at 1 us, link up at 3 us, link down at 6 us, link up at 8 us, "
        "and 996 more"
    )


def test_rates_of_live_fabrics_are_told_in_full() -> None:
    overrides = [
        {"between": ["leaf0", "spine0"], "rate_gbps": 0.0025},
        {"between": ["leaf1", "spine0"], "rate_gbps": 0.000025},
    ]
    assert words.links(
        make(
            links={
                "fabric": {"rate_gbps": 0.005},
                "host": {"rate_gbps": 0.005},
                "overrides": overrides,
            }
        ).topology
    ) == ("5 Mbit/s and 500 ns one way, but leaf0-spine0 2.5 Mbit/s, leaf1-spine0 25 kbit/s")


def test_links_that_differ_are_named() -> None:
    overrides = [
        {"between": ["leaf0", "spine0"], "rate_gbps": 50},
        {"between": ["leaf1", "spine0"], "delay_ns": 1_500},
    ]
    assert words.links(make(links={"overrides": overrides}).topology) == (
        "100 Gbit/s and 500 ns one way, but leaf0-spine0 50 Gbit/s, leaf1-spine0 1,500 ns"
    )
