"""Runtime files of the P4 tutorials: what they say, and what is told of mistakes in them."""

import json
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from finsy import Action, Match, P4CloneSessionEntry, P4MulticastGroupEntry, P4Schema, P4TableEntry
from finsy.proto import p4r
from hypothesis import given
from hypothesis import strategies as st

from sglb.p4.compiler import compile as compile_p4
from sglb.switch import runtime_file
from sglb.switch.runtime_file import RuntimeFileError

PROGRAM = Path(__file__).with_name("runtime_file.p4")


@cache
def schema() -> P4Schema:
    return P4Schema(compile_p4(PROGRAM).p4info)


def updates(**lists: object) -> list[p4r.Update]:
    return runtime_file.parse(json.dumps(lists), "s1-runtime.json", schema())


def entry(**fields: object) -> dict[str, object]:
    return {"table": "MyIngress.routes", "action_name": "MyIngress.via", **fields}


VIA = {"port": 3, "mac": "08:00:00:00:01:11"}


def test_an_entry_of_each_kind_of_match() -> None:
    (route,) = updates(
        table_entries=[entry(match={"hdr.ipv4.dst": ["10.0.1.0", 24]}, action_params=VIA)]
    )
    assert route.type == p4r.Update.INSERT
    (field,) = route.entity.table_entry.match
    assert (field.lpm.value, field.lpm.prefix_len) == (b"\x0a\x00\x01\x00", 24)
    port, mac = route.entity.table_entry.action.action.params
    assert (port.value, mac.value) == (b"\x03", b"\x08\x00\x00\x00\x01\x11")
    (rule,) = updates(
        table_entries=[
            {
                "table": "MyIngress.rules",
                "match": {
                    "hdr.ipv4.src": ["10.0.0.1", "255.255.255.255"],
                    "hdr.ipv4.ttl": [1, 64],
                    "hdr.ipv4.protocol": 6,
                    "hdr.ethernet.type": "0x800",
                },
                "priority": 7,
                "action_name": "NoAction",
                "action_params": {},
            }
        ]
    )
    src, ttl, protocol, kind = rule.entity.table_entry.match
    assert (src.ternary.value, src.ternary.mask) == (b"\x0a\x00\x00\x01", b"\xff\xff\xff\xff")
    assert (ttl.range.low, ttl.range.high) == (b"\x01", b"\x40")
    assert protocol.optional.value == b"\x06"
    assert kind.exact.value == b"\x08\x00"
    assert rule.entity.table_entry.priority == 7


def test_defaults_groups_and_sessions() -> None:
    default, group, session = updates(
        table_entries=[entry(default_action=True, action_params=VIA)],
        multicast_group_entries=[
            {"multicast_group_id": 1, "replicas": [{"egress_port": 2, "instance": 5}]}
        ],
        clone_session_entries=[
            {"clone_session_id": 9, "replicas": [{"egress_port": 4}], "packet_length_bytes": 64}
        ],
        target="bmv2",
    )
    assert default.type == p4r.Update.MODIFY
    assert default.entity.table_entry.is_default_action
    pre = group.entity.packet_replication_engine_entry.multicast_group_entry
    assert pre.multicast_group_id == 1
    assert [(r.egress_port, r.instance) for r in pre.replicas] == [(2, 5)]
    clone = session.entity.packet_replication_engine_entry.clone_session_entry
    assert (clone.session_id, clone.packet_length_bytes) == (9, 64)
    assert [(r.egress_port, r.instance) for r in clone.replicas] == [(4, 0)]


def test_one_value_lists_and_negative_numbers_are_values_too() -> None:
    (route,) = updates(
        table_entries=[
            entry(match={"hdr.ipv4.dst": [[167772160], 8]}, action_params={"port": -1, "mac": 1})
        ]
    )
    assert route.entity.table_entry.action.action.params[0].value == b"\x01\xff"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"table": "nope"}, "the program has no table 'nope'; it has MyIngress."),
        ({"action_name": "nope"}, "the program has no action for MyIngress.routes named 'nope'"),
        ({"action_params": {}}, "has the parameters port, mac, given: (none)"),
        ({"action_params": {"port": 1, "mac": "x"}}, "action parameter mac: 'x' is no value of 48"),
        ({"action_params": {"port": 512, "mac": 0}}, "port: 512 does not fit into 9 bits"),
        ({"match": {"ttl": 1}}, "matches no 'ttl'; it matches hdr.ipv4.dst"),
        ({"match": {"hdr.ipv4.dst": "10.0.0.1"}}, "must be [value, prefix length], got '10.0.0.1'"),
        ({"match": {"hdr.ipv4.dst": ["10.0.0.1", 33]}}, "prefix length must be 0 to 32, got 33"),
        ({"match": {"hdr.ipv4.dst": [True, 3]}}, "must be a number or text, got True"),
        ({"match": 3}, "match must be a mapping"),
        (
            {"default_action": True, "match": {"hdr.ipv4.dst": [0, 0]}},
            "default action has no match",
        ),
        ({"default_action": "yes"}, "default_action must be true or false"),
        ({"table": 3}, "table must be a name"),
        (
            {
                "table": "MyIngress.rules",
                "action_name": "NoAction",
                "action_params": {},
                "match": {},
            },
            "match hdr.ethernet.type is missing, it is exact",
        ),
        (
            {
                "table": "MyIngress.rules",
                "action_name": "NoAction",
                "action_params": {},
                "match": {"hdr.ethernet.type": 1},
            },
            "an entry needs a priority above 0",
        ),
        (
            {
                "table": "MyIngress.rules",
                "action_name": "NoAction",
                "action_params": {},
                "priority": 1,
                "match": {"hdr.ethernet.type": 1, "hdr.ipv4.ttl": [3, 2]},
            },
            "match hdr.ipv4.ttl: the range [3, 2] ends before it begins",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(fields: dict[str, object], message: str) -> None:
    given = {**entry(match={"hdr.ipv4.dst": [0, 0]}, action_params=VIA), **fields}
    with pytest.raises(RuntimeFileError) as told:
        updates(table_entries=[entry(default_action=True, action_params=VIA), given])
    assert str(told.value).startswith("s1-runtime.json: table_entries[1]: ")
    assert message in str(told.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"table_entries": [', "s1.json:1: is not JSON: "),
        ('{"hosts": {}, "links": []}', "s1.json: is no runtime file, it has none of table_entries"),
        ("[]", "s1.json: must be a mapping with table_entries"),
        ('{"table_entries": {}}', "s1.json: table_entries must be a list"),
        ('{"table_entries": [3]}', "s1.json: table_entries[0]: must be a mapping"),
        (
            '{"clone_session_entries": [{"clone_session_id": 1, "replicas": [{}]}]}',
            "s1.json: clone_session_entries[0]: replicas[0]: egress_port must be a number",
        ),
        ("[" * 100_000, "s1.json: is nested too deep"),
    ],
)
def test_a_file_that_is_none_is_told(text: str, message: str) -> None:
    with pytest.raises(RuntimeFileError) as told:
        runtime_file.parse(text, "s1.json", schema())
    assert str(told.value).startswith(message)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFileError, match=r"gone\.json: cannot be read: No such file"):
        runtime_file.read(tmp_path / "gone.json", schema())
    (tmp_path / "latin.json").write_bytes(b"\xff\xfe")
    with pytest.raises(RuntimeFileError, match=r"latin\.json: is not UTF-8 text"):
        runtime_file.read(tmp_path / "latin.json", schema())


def test_what_is_written_says_the_same_when_read() -> None:
    entities = [
        P4TableEntry(
            "MyIngress.routes",
            match=Match({"hdr.ipv4.dst": "10.0.1.0/24"}),
            action=Action("MyIngress.via", port=3, mac=0x0800_0000_0111),
        ),
        P4TableEntry(
            "MyIngress.rules",
            match=Match(
                {
                    "hdr.ethernet.type": 0x800,
                    "hdr.ipv4.src": (1, 3),
                    "hdr.ipv4.ttl": (2, 9),
                    "hdr.ipv4.protocol": 17,
                }
            ),
            action=Action("NoAction"),
            priority=5,
        ),
        P4TableEntry(
            "MyIngress.routes",
            action=Action("MyIngress.via", port=1, mac=2),
            is_default_action=True,
        ),
        P4MulticastGroupEntry(4, replicas=[(1, 2), (3, 4)]),
        P4CloneSessionEntry(5, replicas=[(7, 1)], packet_length_bytes=100),
    ]
    text = runtime_file.to_json(entities, schema(), target="bmv2")
    data = json.loads(text)
    assert data["target"] == "bmv2"
    assert data["table_entries"][0]["match"] == {"hdr.ipv4.dst": ["10.0.1.0", 24]}
    assert data["table_entries"][0]["action_params"] == {"port": 3, "mac": "08:00:00:00:01:11"}
    found = [u.entity for u in runtime_file.parse(text, "x", schema())]
    assert found == [entity.encode(schema()) for entity in entities]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["table", "match", "action_name", "action_params", "hdr.ipv4.dst"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_ENTRY = st.fixed_dictionaries(
    {"table": st.sampled_from(["MyIngress.routes", "MyIngress.rules"])},
    optional={
        "match": st.dictionaries(
            st.sampled_from(["hdr.ipv4.dst", "hdr.ipv4.ttl", "hdr.ethernet.type"]), _JSON
        ),
        "action_name": st.sampled_from(["MyIngress.via", "NoAction"]),
        "action_params": st.just(VIA) | _JSON,
        "priority": _JSON,
        "default_action": st.booleans(),
    },
)


@given(
    st.dictionaries(st.sampled_from(list(runtime_file._KINDS)), st.lists(_ENTRY | _JSON) | _JSON)
)
def test_any_json_is_read_or_refused(data: dict[str, object]) -> None:
    with suppress(RuntimeFileError):
        runtime_file.parse(json.dumps(data), "f.json", schema())


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(raw)
    with suppress(RuntimeFileError):
        runtime_file.read(path, schema())
