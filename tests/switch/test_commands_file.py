"""Commands of `simple_switch_CLI` as entries; the truths are what a runtime file says of the same."""

import json
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from finsy import P4Schema
from finsy.proto import p4r
from hypothesis import given
from hypothesis import strategies as st

from sglb.p4.compiler import compile as compile_p4
from sglb.switch import commands_file, runtime_file
from sglb.switch.runtime_file import RuntimeFileError

PROGRAM = Path(__file__).with_name("runtime_file.p4")


@cache
def schema() -> P4Schema:
    return P4Schema(compile_p4(PROGRAM).p4info)


def as_json(**lists: object) -> list[p4r.Update]:
    return runtime_file.parse(json.dumps(lists), "x.json", schema())


def test_commands_say_what_a_runtime_file_says() -> None:
    text = """
        # routes
        table_set_default MyIngress.routes NoAction
        table_add routes via 10.0.1.0/24 => 3 08:00:00:00:01:11   # by alias
        table_add MyIngress.routes MyIngress.via 0x0a000000/8 => 0x1 0x5
        table_add rules NoAction 10.0.0.1&&&255.255.255.255 1->64 6 0x800 => 5
        table_add rules NoAction 0&&&0 0->255 17 0x800 => 7
        mc_mgrp_create 4
        mc_node_create 9 1 2
        mc_node_create 8 3
        mc_node_associate 4 1
        mc_node_associate 4 0
        mirroring_add 6 2
    """
    via = {"table": "MyIngress.routes", "action_name": "MyIngress.via"}
    rule = {"table": "MyIngress.rules", "action_name": "NoAction", "action_params": {}}
    expected = as_json(
        table_entries=[
            {
                "table": "MyIngress.routes",
                "default_action": True,
                "action_name": "NoAction",
                "action_params": {},
            },
            {
                **via,
                "match": {"hdr.ipv4.dst": ["10.0.1.0", 24]},
                "action_params": {"port": 3, "mac": "08:00:00:00:01:11"},
            },
            {
                **via,
                "match": {"hdr.ipv4.dst": ["10.0.0.0", 8]},
                "action_params": {"port": 1, "mac": 5},
            },
            {
                **rule,
                "match": {
                    "hdr.ipv4.src": ["10.0.0.1", "255.255.255.255"],
                    "hdr.ipv4.ttl": [1, 64],
                    "hdr.ipv4.protocol": 6,
                    "hdr.ethernet.type": 0x800,
                },
                "priority": (1 << 30) - 5,
            },
            {
                **rule,
                "match": {
                    "hdr.ipv4.ttl": [0, 255],
                    "hdr.ipv4.protocol": 17,
                    "hdr.ethernet.type": 0x800,
                },
                "priority": (1 << 30) - 7,
            },
        ],
        clone_session_entries=[{"clone_session_id": 6, "replicas": [{"egress_port": 2}]}],
    )
    expected += as_json(
        multicast_group_entries=[
            {
                "multicast_group_id": 4,
                "replicas": [
                    {"egress_port": 3, "instance": 8},
                    {"egress_port": 1, "instance": 9},
                    {"egress_port": 2, "instance": 9},
                ],
            }
        ]
    )
    assert commands_file.parse(text, "s1-commands.txt", schema()) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("table_dump routes", "table_dump: is not among the commands that are read: table_add, "),
        ("table_add", "table_add: needs a table and an action"),
        ("table_add nope via 1/2 => 3", "table_add: the program has no table 'nope'"),
        ("table_add routes nope 1/2 => 3", "table_add: the program has no action 'nope'"),
        ("table_add routes via 1/2 3", "table_add: needs `=>` between match and parameters"),
        ("table_add routes via => 3 1", "table MyIngress.routes matches hdr.ipv4.dst; given: "),
        (
            "table_add routes via 10.0.0.1 => 3 1",
            "hdr.ipv4.dst must be value/value, got '10.0.0.1'",
        ),
        ("table_add routes via 1/x => 3 1", "table_add: 'x' must be a whole number"),
        ("table_add routes via 1/2 => 3", "has the parameters port, mac; given: 3"),
        (
            "table_add routes via 1/2 => 512 1",
            "action parameter port: '512' is no value of 9 bits",
        ),
        ("table_add rules NoAction 1&&&1 1->2 6 1 =>", "needs the parameters and a priority"),
        ("table_set_default rules via 1 2", "the program has no action for MyIngress.rules named"),
        ("mc_mgrp_create", "mc_mgrp_create: needs a group"),
        ("mc_mgrp_create one", "mc_mgrp_create: 'one' must be a whole number"),
        ("mc_node_associate 1 0", "mc_node_associate: there is no group 1 or no node 0 yet"),
        ("mirroring_add 1", "mirroring_add: needs a session and a port"),
    ],
)
def test_a_mistake_is_told_with_its_line(line: str, message: str) -> None:
    with pytest.raises(RuntimeFileError) as told:
        commands_file.parse(f"\n\n{line}", "s1-commands.txt", schema())
    assert str(told.value).startswith("s1-commands.txt:3: ")
    assert message in str(told.value)


_WORDS = st.sampled_from(
    [
        *("table_add", "table_set_default", "mc_node_create", "mc_mgrp_create", "mirroring_add"),
        *("routes", "rules", "via", "NoAction", "=>", "1/2", "1&&&3", "4->9", "10.0.0.1", "#"),
    ]
)


@given(st.lists(st.lists(_WORDS | st.text(max_size=4), max_size=8), max_size=4))
def test_any_text_is_read_or_refused(lines: list[list[str]]) -> None:
    with suppress(RuntimeFileError):
        commands_file.parse("\n".join(map(" ".join, lines)), "x", schema())
