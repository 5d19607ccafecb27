"""Other tools' topologies: links, ports, rates and delays by hand."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.fabric.topology import LinkSpec, Topology
from sglb.fabric.topology_files import FileTopology, parse_hpcc, parse_p4lang, read
from sglb.fabric.yaml_source import SourceError

HOST, FABRIC = LinkSpec(25 * 10**9, 700_000), LinkSpec(100 * 10**9, 300_000)

P4LANG: dict[str, Any] = {
    "hosts": {
        "h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11", "commands": ["route add x"]},
        "h22": {"ip": "10.0.2.2/24", "mac": "08:00:00:00:02:22"},
    },
    "switches": {"s1": {"runtime_json": "s1-runtime.json"}, "s2": {}},
    "links": [["h1", "s1-p2"], ["s1-p3", "s2-p1", "5us", 0.5], ["h22", "s2-p4", 2]],
}

HPCC = """\
5 2 4
3 4
0 3 25Gbps 1us 0.000000
1 3 25Gbps 1000ns 0.25
2 4 25Gbps 0.001ms 0
3 4 100Gbps 1us 0
"""


def _parse(data: Any) -> FileTopology:
    return parse_p4lang(json.dumps(data), "t.json", HOST, FABRIC)


def _links(topology: Topology) -> list[tuple[str, int, int, int, int]]:
    return [
        (lk.name, lk.a_port, lk.b_port, lk.spec.rate_bps, lk.spec.delay_ps) for lk in topology.links
    ]


def test_p4lang_by_hand() -> None:
    topology = _parse(P4LANG).topology
    assert _links(topology) == [
        ("h1-s1", 1, 2, 25 * 10**9, 700_000),
        ("s1-s2", 3, 1, 500_000, 5_000_000),
        ("h22-s2", 1, 4, 25 * 10**9, 2_000_000_000),
    ]
    s2 = topology.switch("s2")
    assert list(topology.ports(s2.id)) == [1, 4]
    assert str(s2.kind) == "leaf"


@pytest.mark.parametrize(
    ("text", "delay_ps"), [("0", 0), ("15", 15_000_000), ("2ms", 2_000_000_000)]
)
def test_p4lang_latency_without_a_unit_is_us(text: str, delay_ps: int) -> None:
    """As `tc` takes it; the tutorials write "0"."""
    links = [["h1", "s1-p1", text], ["h22", "s1-p2"]]
    found = _parse({**P4LANG, "links": links}).topology.links
    assert found[0].spec.delay_ps == delay_ps


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("links", {}, "t.json: links must be a list"),
        ("hosts", [], "t.json: hosts must be a mapping of names"),
        ("links", [["h1"]], "links[0]: must be [node, node]"),
        ("links", [["h1", 3]], "links[0]: the two nodes must be text"),
        ("links", [["h1", "s1"]], "links[0]: 's1' is neither a host nor a switch with its port"),
        ("links", [["h1", "s9-p1"]], "links[0]: there is no node 's9'"),
        ("links", [["h1", "s1-p1", "5 parsecs"]], "links[0]: latency must be a number and one of"),
        ("links", [["h1", "s1-p1", 0, 0]], "links[0]: bandwidth must be Mbit/s above 0, got 0"),
        ("links", [["h1", "s1-p1", [1]]], "links[0]: latency must be a number of ms"),
        ("links", [["h1", "s1-p1"], ["h22", "s1-p1"]], "port 1 of node 's1' is used twice"),
        ("links", [["h1", "s1-p600"], ["h22", "s1-p1"]], "must be 1 to 508"),
        ("links", [["h1", "s1-p1"]], "host 'h22' cannot be reached"),
        ("switches", {"s 1": {}}, "node name 's 1' must be"),
    ],
)
def test_p4lang_mistakes(key: str, value: Any, said: str) -> None:
    with pytest.raises(SourceError) as caught:
        _parse({**P4LANG, key: value})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_not_even_json() -> None:
    with pytest.raises(SourceError, match=r"^t.json:2: is not JSON"):
        parse_p4lang("{\n,", "t.json", HOST, FABRIC)
    with pytest.raises(SourceError, match="must be a mapping with hosts"):
        _parse([])


def test_hpcc_by_hand() -> None:
    found = parse_hpcc(HPCC, "t.txt")
    assert _links(found.topology) == [
        ("h0-s3", 1, 1, 25 * 10**9, 1_000_000),
        ("h1-s3", 1, 2, 25 * 10**9, 1_000_000),
        ("h2-s4", 1, 1, 25 * 10**9, 1_000_000),
        ("s3-s4", 3, 2, 100 * 10**9, 1_000_000),
    ]
    (loss,) = found.losses
    assert (loss.data, loss.syncmesh, loss.from_ps, loss.to_ps) == (0.25, 0.0, 0, None)
    name = {n.id: n.name for n in found.topology.nodes}
    assert [(name[e.src], name[e.dst]) for e in loss.edges] == [("h1", "s3"), ("s3", "h1")]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (HPCC, "", "t.txt: ends before the counts"),
        ("5 2 4", "5 2", "t.txt:1: must be the counts of nodes, switches and links"),
        ("5 2 4", "2 2 4", "t.txt:1: cannot be 2 nodes"),
        ("5 2 4", "5 2 5", "t.txt:1: says 5 links, there are 4"),
        ("3 4\n", "3 3\n", "t.txt:2: must be 2 different switches"),
        ("3 4\n", "3 9\n", "t.txt:2: must be 2 different switches, numbered below 5"),
        ("0 3 25Gbps", "0 7 25Gbps", "t.txt:3: node '7' must be a number below 5"),
        ("0 3 25Gbps", "0 3 0Gbps", "t.txt:3: a link's rate must be above 0"),
        ("0 3 25Gbps", "0 3 25", "t.txt:3: rate must be a number and one of bps"),
        ("1us 0.000000", "1us 2", "t.txt:3: error must be a probability"),
        ("1us 0.000000", "1us", "t.txt:3: a link is `src dst rate delay error`, got 4 words"),
        ("2 4 25Gbps", "2 3 25Gbps", ""),
        ("1 3 25Gbps", "0 3 25Gbps", "t.txt: host 'h0' has 2 links"),
    ],
)
def test_hpcc_mistakes(old: str, new: str, said: str) -> None:
    assert old in HPCC
    text = HPCC.replace(old, new, 1)
    if not said:
        assert len(parse_hpcc(text, "t.txt").topology.hosts) == 3
        return
    with pytest.raises(SourceError) as caught:
        parse_hpcc(text, "t.txt")
    assert str(caught.value).startswith(said)


def test_files_are_told_apart_by_their_ending(tmp_path: Path) -> None:
    for name, text in (("a.json", json.dumps(P4LANG)), ("b.txt", HPCC)):
        (tmp_path / name).write_text(text)
    assert len(read(tmp_path / "a.json", HOST, FABRIC).topology.hosts) == 2
    assert len(read(tmp_path / "b.txt", HOST, FABRIC).topology.hosts) == 3
    with pytest.raises(SourceError, match="cannot be read"):
        read(tmp_path / "c", HOST, FABRIC)
    (tmp_path / "d").write_bytes(b"\xff")
    with pytest.raises(SourceError, match="is not UTF-8"):
        read(tmp_path / "d", HOST, FABRIC)


@given(st.text(st.sampled_from("0123456789. \nGbpsnu-"), max_size=80))
def test_junk_is_a_source_error(text: str) -> None:
    for parse in (lambda: parse_hpcc(text, "t"), lambda: parse_hpcc("3 1 2\n2\n" + text, "t")):
        with contextlib.suppress(SourceError):
            parse()


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.integers()
    | st.sampled_from(["h1", "s1-p1", "1us"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from(["hosts", "switches", "links"]), _JSON)
def test_json_junk_is_a_source_error(key: str, junk: Any) -> None:
    with contextlib.suppress(SourceError):
        _parse({**P4LANG, key: junk})
