"""Scenario files: what good ones mean and what is said of bad ones."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglb.fabric.faults import FaultKind
from sglb.fabric.scenario import from_dict, load, loads
from sglb.fabric.yaml_source import SourceError

EXAMPLES = Path(__file__).parents[2] / "examples"

GOOD = """\
name: small
seed: 7
topology:
  leaf_spine: {leaves: 2, spines: 2, hosts_per_leaf: 2}
links:
  host: {rate_gbps: 25}
  overrides:
    - {between: [spine1, leaf0], rate_gbps: 50, delay_ns: 250}
    - between: [spine0, leaf1]
      loss: {syncmesh: 1.0, from_us: 5, to_us: 6.5, direction: spine0->leaf1}
workload:
  incast: {to: h1, fan_in: 2, bytes: 1000}
  start_us: 1.5
faults:
  - {at_us: 10, down: leaf0-spine1}
  - {flap: {link: leaf1-spine1, start_us: 12, down_us: 2, up_us: 3, count: 2}}
  - {at_us: 15.5, up: spine1-leaf0}
  - {at_us: 16, rate: {link: leaf0-spine0, gbps: 12.5}}
  - {at_us: 17, blackhole: leaf0->spine0}
  - {at_us: 18, heal: leaf0->spine0}
  - {at_us: 19, down_switch: spine0}
  - {at_us: 20, up_switch: spine0}
policies: [ecmp, glb]
stop_us: 1000
"""


def _lines(text: str) -> list[str]:
    with pytest.raises(SourceError) as caught:
        loads(text, "f.yaml")
    return str(caught.value).split("\n")


def test_a_scenario_means_what_it_says() -> None:
    scenario = loads(GOOD, "dir/f.yaml")
    topo = scenario.topology
    assert (scenario.name, scenario.policies, scenario.stop_ps) == (
        "small",
        ("ecmp", "glb"),
        1_000_000_000,
    )
    (slow,) = topo.find_links("leaf0-spine1")
    assert (slow.spec.rate_bps, slow.spec.delay_ps) == (50_000_000_000, 250_000)
    assert topo.attachment(topo.host("h0").id).spec.rate_bps == 25_000_000_000
    h = {name: topo.host(name).id for name in ("h1", "h2", "h3")}
    assert [(f.src, f.dst, f.size_bytes, f.start_ps) for f in scenario.workload.flows] == [
        (h["h2"], h["h1"], 1000, 1_500_000),
        (h["h3"], h["h1"], 1000, 1_500_000),
    ]
    (loss,) = scenario.losses
    assert (loss.syncmesh, loss.data, loss.from_ps, loss.to_ps) == (1.0, 0.0, 5_000_000, 6_500_000)
    (edge,) = loss.edges
    assert (topo.by_id(edge.src).name, topo.by_id(edge.dst).name) == ("spine0", "leaf1")
    assert [(f.time_ps // 100_000, f.kind) for f in scenario.faults] == [
        (100, FaultKind.LINK_DOWN),
        (120, FaultKind.LINK_DOWN),
        (140, FaultKind.LINK_UP),
        (155, FaultKind.LINK_UP),
        (160, FaultKind.LINK_RATE),
        (170, FaultKind.LINK_DOWN),
        (170, FaultKind.BLACKHOLE),
        (180, FaultKind.HEAL),
        (190, FaultKind.LINK_UP),
        (190, FaultKind.SWITCH_DOWN),
        (200, FaultKind.SWITCH_UP),
    ]
    assert scenario.faults[4].rate_bps == 12_500_000_000


def test_every_default_is_filled_in() -> None:
    scenario = loads("topology: {clos3: {k: 2}}\nworkload: {all_to_all: {bytes_per_pair: 1}}\n")
    assert scenario.policies == ("ecmp", "flowlet", "spray", "dlb", "glb")
    assert scenario.model.switch.port_down_detection_us == 10
    assert scenario.model.control_plane.failure_detection_ms == 150
    assert len(scenario.workload.flows) == 2


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_examples_load_and_keep_to_the_packet_budget(path: Path) -> None:
    scenario = load(path)
    mtu = scenario.model.transport.mtu_bytes
    packets = sum(-(-f.size_bytes // mtu) for f in scenario.workload.flows)
    assert 2_000 <= packets <= 20_000
    assert scenario.warnings == ()
    assert set(scenario.policies) >= {"ecmp", "glb"}


def test_explicit_topology() -> None:
    scenario = loads(
        """\
topology:
  explicit:
    switches: [a, {name: b, kind: core}]
    hosts: [x, y]
    links:
      - {between: [x, a]}
      - {between: [a, b], count: 2, rate_gbps: 400}
      - {between: [b, y], delay_ns: 1}
links: {host: {rate_gbps: 10}}
workload:
  flows: [{src: x, dst: y, bytes: 5}, {src: y, dst: x, bytes: 6, start_us: 3}]
"""
    )
    topo = scenario.topology
    assert [(n.name, str(n.kind)) for n in topo.switches] == [("a", "leaf"), ("b", "core")]
    assert [(lk.name, lk.spec.rate_bps // 10**9, lk.spec.delay_ps) for lk in topo.links] == [
        ("x-a", 10, 500_000),
        ("a-b#1", 400, 500_000),
        ("a-b#2", 400, 500_000),
        ("b-y", 10, 1_000),
    ]
    assert [(f.size_bytes, f.start_ps) for f in scenario.workload.flows] == [(5, 0), (6, 3_000_000)]


BASE: dict[str, Any] = {
    "topology": {"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 1}},
    "workload": {"all_to_all": {"bytes_per_pair": 10}},
}


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("seed: 7", "sede: 7", "f.yaml:2: sede: unknown key; did you mean seed?"),
        ("seed: 7", "seed: x", "f.yaml:2: seed: must be a whole number, got 'x'"),
        ("seed: 7", "seed: -1", "f.yaml:2: seed: should be greater than or equal to 0, got -1"),
        (
            "spines: 2,",
            "spine: 2,",
            "f.yaml:4: topology.leaf_spine.spine: unknown key; did you mean spines?",
        ),
        (
            "rate_gbps: 25",
            "rate_gbps: 0",
            "f.yaml:6: links.host.rate_gbps: should be greater than 0, got 0",
        ),
        (
            "[spine1, leaf0]",
            "[spine1, laef0]",
            "f.yaml:8: links.overrides[0].between: there is no node 'laef0' in the topology; "
            "did you mean leaf0?",
        ),
        (
            "[spine1, leaf0]",
            "[leaf1, leaf0]",
            "f.yaml:8: links.overrides[0].between: there is no link 'leaf1-leaf0' in the topology",
        ),
        (
            "to_us: 6.5",
            "to_us: 5",
            "f.yaml:10: links.overrides[1].loss: to_us (5) must be after from_us (5)",
        ),
        (
            "direction: spine0->leaf1",
            "direction: spine1->leaf1",
            "f.yaml:10: links.overrides[1].loss.direction: must be spine0->leaf1 or leaf1->spine0",
        ),
        (
            "to: h1",
            "to: h9",
            "f.yaml:12: workload.incast.to: there is no host 'h9' in the topology",
        ),
        (
            "fan_in: 2",
            "fan_in: 4",
            "f.yaml:12: workload.incast.fan_in: is 4, there are 3 other hosts",
        ),
        (
            "fan_in: 2",
            "from: [h0, h1]",
            "f.yaml:12: workload.incast.from[1]: host h1 cannot send here: it is named already",
        ),
        ("down: leaf0-spine1", "down: leaf0-spin1", "f.yaml:15: faults[0].down: there is no link"),
        (
            "at_us: 10,",
            "at_us: 100,",
            "f.yaml:16: faults[1]: is at 12 us, before the fault above it (100 us); "
            "put them in order of time",
        ),
        ("at_us: 10, down", "down", "f.yaml:15: faults[0]: needs at_us, the time of the fault"),
        (
            "at_us: 10, down: leaf0-spine1",
            "at_us: 10",
            "f.yaml:15: faults[0]: needs exactly one of down, up, rate, flap, down_switch, "
            "up_switch, blackhole, heal, loss, bit_errors; got none",
        ),
        (
            "{at_us: 10, down: leaf0-spine1}",
            "{at_us: 10, down: leaf0-spine0}",
            "f.yaml:14: faults: spine1-leaf0 at 15.5 us: link up without link down before it",
        ),
        (
            "gbps: 12.5",
            "gbps: -1",
            "f.yaml:18: faults[3].rate.gbps: should be greater than 0, got -1",
        ),
        ("down_switch: spine0", "down_switch: h0", "f.yaml:21: faults[6].down_switch: there is no"),
        (
            "policies: [ecmp, glb]",
            "policies: [ecmp, gbl]",
            "f.yaml:23: policies[1]: must be one of ecmp, flowlet, spray, dlb, glb, got 'gbl'; "
            "did you mean glb?",
        ),
        (
            "policies: [ecmp, glb]",
            "policies: [ecmp, ecmp]",
            "f.yaml:23: policies[1]: ecmp is named twice",
        ),
        ("stop_us: 1000", "stop_us: .inf", "f.yaml:24: stop_us: should be a finite number"),
        ("workload:", "workload: {}\nx:", "needs exactly one of all_to_all, ring_all_reduce"),
    ],
)
def test_one_line_with_key_and_line_for_a_mistake(old: str, new: str, line: str) -> None:
    assert old in GOOD
    said = _lines(GOOD.replace(old, new, 1))
    assert any(line in s for s in said), said
    assert all(s.startswith("f.yaml:") for s in said)


def test_a_single_mistake_makes_a_single_line() -> None:
    assert len(_lines(GOOD.replace("seed: 7", "sede: 7"))) == 1
    assert len(_lines(GOOD.replace("to: h1", "to: h9"))) == 1
    # A required key is not missing as well.
    assert _lines(GOOD.replace("workload:", "worklod:")) == [
        "f.yaml:11: worklod: unknown key; did you mean workload?"
    ]
    assert _lines(GOOD.replace("spines: 2,", "spine: 2,")) == [
        "f.yaml:4: topology.leaf_spine.spine: unknown key; did you mean spines?"
    ]


def test_a_key_that_is_missing_beside_an_unknown_one_gets_its_own_line() -> None:
    assert _lines(GOOD.replace("spines: 2,", "zzz: 2,")) == [
        "f.yaml:4: topology.leaf_spine.spines: is required",
        "f.yaml:4: topology.leaf_spine.zzz: unknown key; known: leaves, spines, hosts_per_leaf, "
        "links_per_pair",
    ]


def test_data_from_no_file_name_the_key_only() -> None:
    with pytest.raises(SourceError) as caught:
        from_dict({**BASE, "seed": -1}, "mine")
    assert str(caught.value) == "mine: seed: should be greater than or equal to 0, got -1"


def test_all_mistakes_are_told_at_once_in_order_of_lines() -> None:
    text = GOOD.replace("down: leaf0-spine1", "down: nowhere").replace(
        "[ecmp, glb]", "[ecmp, ecmp]"
    )
    numbers = [int(s.split(":")[1]) for s in _lines(text)]
    assert numbers == sorted(numbers)
    assert len(numbers) == 3  # the link, its `up` without a `down`, and the policy


def test_unreachable_host_is_named() -> None:
    text = """\
topology:
  explicit:
    switches: [a, b]
    hosts: [x, y]
    links:
      - {between: [x, a]}
      - {between: [y, b]}
workload: {all_to_all: {bytes_per_pair: 1}}
"""
    assert _lines(text) == [
        "f.yaml:5: topology.explicit.links: host y cannot be reached from x: "
        "no links lead from a to b"
    ]
    text = text.replace("      - {between: [y, b]}\n", "")
    assert _lines(text) == [
        "f.yaml:2: topology.explicit: host 'y' cannot be reached: it has no link"
    ]


def test_explicit_link_to_nowhere_names_the_entry() -> None:
    text = """\
topology:
  explicit:
    switches: [sw1]
    hosts: [x]
    links:
      - {between: [x, sw2]}
workload: {all_to_all: {bytes_per_pair: 1}}
"""
    assert _lines(text) == [
        "f.yaml:6: topology.explicit.links[0]: there is no node 'sw2' in the topology; "
        "did you mean sw1?"
    ]


def test_clos3_wants_k_or_all_sizes() -> None:
    for block, message in (
        ({"k": 3}, "k must be even, got 3"),
        ({"k": 4, "pods": 1}, "takes k or the five sizes, not both"),
        ({"pods": 2}, "missing: leaves_per_pod, spines_per_pod, cores_per_spine, hosts_per_leaf"),
    ):
        with pytest.raises(SourceError, match=message):
            from_dict({**BASE, "topology": {"clos3": block}})


def test_sizes_that_no_machine_could_hold_are_refused_at_once() -> None:
    block = {"leaves": 5_000, "spines": 500, "hosts_per_leaf": 2}
    with pytest.raises(SourceError, match="2510000 links are more than 262144"):
        from_dict({**BASE, "topology": {"leaf_spine": block}})
    block = {"leaves": 5_000, "spines": 50, "hosts_per_leaf": 200}
    said = r"1000000 hosts and 5050 switches are more than 65535 nodes, .* some 186 GiB"
    with pytest.raises(SourceError, match=said):
        from_dict({**BASE, "topology": {"leaf_spine": block}})


_KEYS = st.sampled_from(
    ["topology", "leaf_spine", "leaves", "faults", "at_us", "down", "workload", "flows", "src", "x"]
)
_JUNK: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)),
    max_leaves=6,
)


@settings(max_examples=200)
@given(
    st.sampled_from(["topology", "links", "workload", "faults", "policies", "switch", "seed"]),
    _JUNK,
)
def test_junk_in_any_block_is_a_source_error_or_a_scenario(key: str, junk: Any) -> None:
    data = copy.deepcopy(BASE)
    data[key] = junk
    try:
        scenario = from_dict(data)
    except SourceError as error:
        said = str(error)
    else:
        said = scenario.name
    assert said
