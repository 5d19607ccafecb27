"""Every workload and topology key of a file reaches what it names, with its numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sglb.fabric import arrivals, collectives
from sglb.fabric.collectives import Machines
from sglb.fabric.moe import MoeShape, moe
from sglb.fabric.scenario import Scenario, from_dict, load
from sglb.fabric.yaml_source import SourceError

HOSTS = [5, 6, 7, 8]  # of 2 leaves and 2 spines
AT = 1_500_000
LINKS = Machines(2, 400_000_000_000)


def _load(workload: dict[str, Any], **more: Any) -> Scenario:
    topology = {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 2}}
    return from_dict({"topology": topology, "workload": workload, **more}, "f")


def _rng(purpose: str) -> Any:
    return _load({"permutation": {"bytes": 1}}).rng(purpose)


MATRIX = [[0, 1, 2, 3], [4, 0, 5, 6], [7, 8, 0, 9], [1, 1, 1, 0]]
SHAPE = {"tokens": 9, "token_bytes": 3, "experts": 8, "top_k": 2, "skew": 0.5, "combine": False}
INSIDE = {"gpus_per_host": 2, "nvlink_gbps": 400}


@pytest.mark.parametrize(
    ("block", "make"),
    [
        ({"all_to_all": {"bytes_per_pair": 7}}, lambda: collectives.all_to_all(HOSTS, 7, AT)),
        (
            {"all_to_all": {"bytes_matrix": MATRIX}},
            lambda: collectives.all_to_all(HOSTS, MATRIX, AT),
        ),
        (
            {"all_to_all": {"bytes_per_pair": 7}, **INSIDE, "rail_aware": True},
            lambda: collectives.all_to_all(HOSTS, 7, AT, LINKS, True),
        ),
        (
            {"all_to_all": {"bytes_per_pair": 7}, **INSIDE},
            lambda: collectives.all_to_all(HOSTS, 7, AT, LINKS),
        ),
        ({"ring_all_reduce": {"bytes": 9}}, lambda: collectives.ring_all_reduce(HOSTS, 9, AT)),
        ({"reduce_scatter": {"bytes": 9}}, lambda: collectives.reduce_scatter(HOSTS, 9, AT)),
        ({"all_gather": {"bytes": 9}}, lambda: collectives.all_gather(HOSTS, 9, AT)),
        (
            {"tree_all_reduce": {"bytes": 9, "chunk_bytes": 2}},
            lambda: collectives.tree_all_reduce(HOSTS, 9, 2, AT),
        ),
        (
            {"hierarchical_all_reduce": {"bytes": 9}, **INSIDE},
            lambda: collectives.hierarchical_all_reduce(HOSTS, 9, LINKS, AT),
        ),
        (
            {"broadcast": {"bytes": 9, "root": "h2", "chunk_bytes": 4}},
            lambda: collectives.broadcast(HOSTS, 7, 9, 4, AT),
        ),
        ({"broadcast": {"bytes": 9}}, lambda: collectives.broadcast(HOSTS, 5, 9, 524_288, AT)),
        (
            {"moe": SHAPE},
            lambda: moe(HOSTS, MoeShape(9, 3, 8, 2, 0.5, False), _rng("moe"), AT),
        ),
        (
            {"moe": SHAPE, **INSIDE, "rail_aware": True},
            lambda: moe(HOSTS, MoeShape(9, 3, 8, 2, 0.5, False), _rng("moe"), AT, LINKS, True),
        ),
        (
            {"arrivals": {"load": 0.5, "sizes": "web_search", "duration_us": 900}},
            lambda: arrivals.arrivals(
                dict.fromkeys(HOSTS, 10**11),
                arrivals.WEB_SEARCH,
                0.5,
                900_000_000,
                _rng("arrivals"),
                AT,
            ),
        ),
        (
            {
                "arrivals": {
                    "load": 0.5,
                    "sizes": [{"bytes": 10, "percent": 0}, {"bytes": 90_000, "percent": 100}],
                    "duration_us": 90,
                }
            },
            lambda: arrivals.arrivals(
                dict.fromkeys(HOSTS, 10**11),
                ((10, 0), (90_000, 100)),
                0.5,
                90_000_000,
                _rng("arrivals"),
                AT,
            ),
        ),
    ],
)
def test_workloads(block: dict[str, Any], make: Any) -> None:
    assert _load({**block, "start_us": 1.5}).workload == make()


def test_some_hosts_in_their_order() -> None:
    work = _load({"reduce_scatter": {"bytes": 9}, "hosts": ["h3", "h0"]}).workload
    assert work == collectives.reduce_scatter([8, 5], 9)


def test_flows_count_from_the_start_of_their_part() -> None:
    entry = {"src": "h0", "dst": "h3", "bytes": 9, "start_us": 2}
    flows = _load({"flows": [entry], "start_us": 1.5, "times": 2, "every_us": 10}).workload.flows
    assert [flow.start_ps for flow in flows] == [3_500_000, 13_500_000]


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (
            {"all_to_all": {}},
            "workload.all_to_all: needs exactly one of bytes_per_pair, bytes_matrix",
        ),
        (
            {"all_to_all": {"bytes_matrix": [[1]]}},
            "workload: all_to_all: bytes_matrix has 1 rows for",
        ),
        (
            {"ring_all_reduce": {"bytes": 9}, "gpus_per_host": 2},
            "gpus_per_host goes with all_to_all",
        ),
        (
            {"permutation": {"bytes": 9}, "rail_aware": True},
            "rail_aware goes with all_to_all or moe",
        ),
        ({"all_to_all": {"bytes_per_pair": 1}, "rail_aware": True}, "must be at least 2 for rails"),
        ({"hierarchical_all_reduce": {"bytes": 9}}, "gpus_per_host must be at least 2"),
        (
            {"hierarchical_all_reduce": {"bytes": 9}, "gpus_per_host": 3},
            "workload: hierarchical_all_reduce: 4 hosts do not fill machines of gpus_per_host: 3",
        ),
        ({"moe": {**SHAPE, "experts": 6}}, "workload: moe: 6 experts cannot be dealt evenly to 4"),
        ({"broadcast": {"bytes": 1, "root": "h9"}}, "workload: there is no host 'h9'"),
        (
            {"arrivals": {"load": 0.5, "sizes": "websearch", "duration_us": 1}},
            "must be one of web_search, fb_hdp",
        ),
        (
            {"flow_file": {"path": "none.txt"}, "hosts": ["h0", "h1"]},
            "hosts goes with a collective",
        ),
    ],
)
def test_impossible_workloads_are_one_line(block: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceError) as caught:
        _load(block)
    assert said in str(caught.value)


def test_flow_files(tmp_path: Path) -> None:
    (tmp_path / "flow.txt").write_text("2\n0 3 3 100 5000 2.000001\n1 2 3 100 7 2.0\n")
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "topology: {leaf_spine: {leaves: 2, spines: 2, hosts_per_leaf: 2}}\n"
        "workload: {flow_file: {path: flow.txt}}\n"
    )
    flows = load(scenario).workload.flows
    assert [(f.src, f.dst, f.size_bytes, f.start_ps) for f in flows] == [
        (5, 8, 5_000, 1_000_000),
        (6, 7, 7, 0),
    ]
    (tmp_path / "flow.txt").write_text("1\n0 9 3 100 5 2\n")
    with pytest.raises(SourceError, match="the flow file's node 9 is no host of the topology"):
        load(scenario)
    (tmp_path / "flow.txt").write_text("1\n2 2 3 100 5 2\n")
    with pytest.raises(SourceError, match="flow 1 goes from node 2 to itself"):
        load(scenario)


def test_topologies_of_other_tools(tmp_path: Path) -> None:
    (tmp_path / "topology.txt").write_text(
        "4 1 3\n3\n" + "".join(f"{n} 3 25Gbps 1us 0\n" for n in range(3))
    )
    tutorial = {"hosts": {"h1": {}, "h2": {}}, "switches": {"s1": {}}, "links": []}
    tutorial["links"] = [["h1", "s1-p1"], ["h2", "s1-p2"]]  # type: ignore[assignment]
    (tmp_path / "topology.json").write_text(json.dumps(tutorial))
    scenario = tmp_path / "s.yaml"
    for name, hosts in (("topology.txt", 3), ("topology.json", 2)):
        scenario.write_text(
            f"topology: {{file: {name}}}\nworkload: {{permutation: {{bytes: 5}}}}\n"
        )
        assert len(load(scenario).workload.flows) == hosts
    scenario.write_text("topology: {file: none}\nworkload: {permutation: {bytes: 5}}\n")
    with pytest.raises(SourceError, match="none: cannot be read"):
        load(scenario)


def test_flow_files_count_hosts_where_they_have_other_names(tmp_path: Path) -> None:
    (tmp_path / "flow.txt").write_text("1\n0 3 3 100 5 0\n")
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "topology: {rail_optimised: {hosts: 2, nics_per_host: 2, spines: 1}}\n"
        "workload: {flow_file: {path: flow.txt}}\n"
    )
    loaded = load(scenario)
    (flow,) = loaded.workload.flows
    names = [loaded.topology.by_id(n).name for n in (flow.src, flow.dst)]
    assert names == ["h0.nic0", "h1.nic1"]


def test_a_key_that_takes_words_or_numbers_is_told_of_once() -> None:
    block = {"arrivals": {"load": 0.5, "sizes": "websearch", "duration_us": 1}}
    with pytest.raises(SourceError) as caught:
        _load(block)
    assert str(caught.value) == (
        "f: workload.arrivals.sizes: must be one of web_search, fb_hdp or a list of points, "
        "got 'websearch'; did you mean web_search?"
    )


def _flows(scenario: Scenario) -> list[tuple[int, int, int, int, tuple[int, ...]]]:
    return [
        (f.src, f.dst, f.size_bytes, f.start_ps, tuple(f.after)) for f in scenario.workload.flows
    ]


def test_a_mix_has_the_flows_of_all_and_each_waits_for_its_own() -> None:
    found = _load(
        {
            "mix": [
                {"flows": [{"src": "h0", "dst": "h1", "bytes": 5, "start_us": 4}]},
                {"broadcast": {"bytes": 3, "chunk_bytes": 3}, "hosts": ["h1", "h2", "h3"]},
            ]
        }
    )
    assert _flows(found) == [
        (5, 6, 5, 4_000_000, ()),
        (6, 7, 3, 0, ()),
        (7, 8, 3, 0, (1,)),
    ]
    assert found.workload.start_ps == 0


def test_times_starts_the_same_flows_anew() -> None:
    block = {"incast": {"to": "h3", "from": ["h0", "h1"], "bytes": 7}, "start_us": 1}
    found = _load(block | {"times": 3, "every_us": 10})
    assert [(f.src, f.start_ps) for f in found.workload.flows] == [
        (host, at * 1_000_000) for at in (1, 11, 21) for host in (5, 6)
    ]
    assert found.workload.name == "incast"


def test_parts_of_one_kind_do_not_draw_the_same() -> None:
    part = {"arrivals": {"load": 0.5, "sizes": "fb_hdp", "duration_us": 90}}
    flows = _load({"mix": [part, part]}).workload.flows
    first = len(_load({"mix": [part, {"permutation": {"bytes": 1}}]}).workload.flows) - 4
    assert [f.start_ps for f in flows[:first]] != [f.start_ps for f in flows[first:]]


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"mix": [{"incast": {"to": "h9", "fan_in": 1, "bytes": 1}}] * 2}, r"mix\[0\].incast.to"),
        ({"mix": [{"permutation": {"bytes": 1}}] * 2, "start_us": 3}, "parts of a mix"),
        ({"mix": [{"permutation": {"bytes": 1}}]}, "at least 2"),
        ({"mix": [{"mix": [{"permutation": {"bytes": 1}}] * 2}] * 2}, "part of a mix"),
        ({"permutation": {"bytes": 1}, "times": 2}, "go together"),
        ({"permutation": {"bytes": 1}, "every_us": 2}, "go together"),
        (
            {"all_to_all": {"bytes_per_pair": 1}, "times": 100_000, "every_us": 2}
            | {"hosts": ["h0", "h1", "h2", "h3"]},
            None,
        ),
    ],
)
def test_what_is_no_mix(block: dict[str, Any], text: str | None) -> None:
    if text is None:
        block = {"mix": [block] * 2}
        text = "more than"
    with pytest.raises(SourceError, match=text):
        _load(block)
