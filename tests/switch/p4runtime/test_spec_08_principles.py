"""P4Runtime 1.5, section 8: default values, read-write symmetry, byte strings, P4Data.

The byte strings are the tables of section 8.3; the ones of signed types are in test_bytestrings.
"""

import pytest
from finsy.proto import p4d, p4r
from p4runtime_kit import Bench, action, exact, optional, ranged, table_entry, ternary


@pytest.fixture
def bench():
    return Bench()


def register(bench, name, data=None, index=0):
    made = p4r.RegisterEntry(register_id=bench.id(name), index={"index": index})
    if data is not None:
        made.data.CopyFrom(data)
    return p4r.Entity(register_entry=made)


def pair(x, y):
    """struct { bit<16> x; int<8> y; }"""
    members = [{"bitstring": x}, {"bitstring": y}]
    return p4d.P4Data(struct={"members": members})


# --- 8.1 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entity",
    [
        p4r.Entity(table_entry={}),
        p4r.Entity(action_profile_member={"member_id": 1}),
        p4r.Entity(action_profile_group={"group_id": 1}),
        p4r.Entity(counter_entry={}),
        p4r.Entity(direct_counter_entry={}),
        p4r.Entity(meter_entry={}),
        p4r.Entity(direct_meter_entry={}),
        p4r.Entity(register_entry={}),
        p4r.Entity(value_set_entry={}),
        p4r.Entity(digest_entry={}),
    ],
    ids=lambda entity: entity.WhichOneof("entity"),
)
def test_8_1_1_an_id_of_zero_in_a_write(bench, entity):
    assert bench.modify(entity) == ["INVALID_ARGUMENT"]


def test_8_1_2_a_set_index_of_zero_is_not_an_unset_one(bench):
    one = p4r.CounterEntry(counter_id=bench.id("hits"), index={})
    every = p4r.CounterEntry(counter_id=bench.id("hits"))
    assert len(bench.read(p4r.Entity(counter_entry=one))) == 1
    assert len(bench.read(p4r.Entity(counter_entry=every))) == 4


# --- 8.2 ------------------------------------------------------------------------------------------


def written(bench):
    """An entity of each kind, as a client would write it, with what reads it back."""
    forward = action(bench.id("forward"), b"\x03")
    spread = bench.id("spread")
    mixed = [ternary(1, b"\x10", b"\xf0"), ranged(2, b"\1", b"\5"), optional(3, b"\7")]
    one_shot = {
        "action_profile_actions": [
            {"action": forward, "weight": 2, "watch_port": b"\1"},
            {"action": forward, "weight": 1},
        ]
    }
    return {
        "table_entry": table_entry(
            bench.id("mixed_t"),
            *mixed,
            exact(4, b"\x08\0"),
            act=forward,
            priority=5,
            metadata=b"m",
            controller_metadata=9,
        ),
        "idle table_entry": table_entry(
            bench.id("exact_t"), exact(1, b"\7"), act=forward, idle_timeout_ns=10**12
        ),
        "one-shot table_entry": table_entry(
            bench.id("spread_t"),
            exact(1, b"\1"),
            action=p4r.TableAction(action_profile_action_set=one_shot),
        ),
        "action_profile_member": p4r.Entity(
            action_profile_member={
                "action_profile_id": bench.id("shared"),
                "member_id": 7,
                "action": forward,
            }
        ),
        "action_profile_group": p4r.Entity(
            action_profile_group={"action_profile_id": spread, "group_id": 1, "max_size": 3}
        ),
        "digest_entry": p4r.Entity(
            digest_entry={"digest_id": bench.id("learn_t"), "config": {"max_list_size": 4}}
        ),
        "multicast_group_entry": p4r.Entity(
            packet_replication_engine_entry={
                "multicast_group_entry": {
                    "multicast_group_id": 3,
                    "metadata": b"x",
                    "replicas": [
                        {
                            "port": b"\1",
                            "instance": 1,
                            "backup_replicas": [
                                {"port": b"\3", "instance": 2},
                                {"port": b"\2", "instance": 3},
                            ],
                        },
                        {"egress_port": 4},
                    ],
                }
            }
        ),
        "clone_session_entry": p4r.Entity(
            packet_replication_engine_entry={
                "clone_session_entry": {
                    "session_id": 3,
                    "class_of_service": 2,
                    "packet_length_bytes": 64,
                    "replicas": [{"port": b"\xff\xff\xff\xfd", "instance": 1}],
                }
            }
        ),
    }


@pytest.mark.parametrize(
    "kind",
    [
        "table_entry",
        "idle table_entry",
        "one-shot table_entry",
        "action_profile_member",
        "action_profile_group",
        "digest_entry",
        "multicast_group_entry",
        "clone_session_entry",
    ],
)
def test_8_2_what_is_inserted_is_read(bench, kind):
    entity = written(bench)[kind]
    assert bench.insert(entity) == ["OK"]
    assert entity in bench.read(_asked(entity))


def _asked(entity):
    """What reads it: an action's parameters would be no filter."""
    asked = p4r.Entity()
    asked.CopyFrom(entity)
    if entity.HasField("table_entry"):
        asked.table_entry.ClearField("action")
    return asked


def modified(bench):
    member = {"match": [{"field_id": 1, "exact": {"value": b"\x08\0"}}]}
    return {
        "counter_entry": p4r.Entity(
            counter_entry={
                "counter_id": bench.id("hits"),
                "index": {"index": 2},
                "data": {"byte_count": 5, "packet_count": 1},
            }
        ),
        "meter_entry": p4r.Entity(
            meter_entry={
                "meter_id": bench.id("police"),
                "index": {"index": 1},
                "config": {"cir": 1, "cburst": 2, "pir": 3, "pburst": 4},
            }
        ),
        "register_entry": register(bench, "pairs", pair(b"\1", b"\x9d"), index=1),
        "value_set_entry": p4r.Entity(
            value_set_entry={"value_set_id": bench.id("body_types"), "members": [member]}
        ),
        "default table_entry": table_entry(
            bench.id("exact_t"),
            act=action(bench.id("forward"), b"\2"),
            is_default_action=True,
            metadata=b"d",
        ),
    }


@pytest.mark.parametrize(
    "kind",
    ["counter_entry", "meter_entry", "register_entry", "value_set_entry", "default table_entry"],
)
def test_8_2_what_is_modified_is_read(bench, kind):
    entity = modified(bench)[kind]
    assert bench.modify(entity) == ["OK"]
    assert bench.read(_asked(entity)) == [entity]


# --- 8.3 ------------------------------------------------------------------------------------------

VALID = [
    (b"\x00\x63", b"\x63"),
    (b"\x63", b"\x63"),
    (b"\x30\x64", b"\x30\x64"),
    (b"\x00\x30\x64", b"\x30\x64"),
    (b"\x00", b"\x00"),
]


@pytest.mark.parametrize(("sent", "canonical"), VALID)
def test_8_3_any_length_is_taken_and_the_shortest_given_back(bench, sent, canonical):
    table, act = bench.id("started_t"), action(bench.id("NoAction"))
    assert bench.insert(table_entry(table, exact(1, sent), act=act)) == ["OK"]
    found = table_entry(table, exact(1, canonical), act=act)
    assert found in bench.read(table_entry(table))


@pytest.mark.parametrize("sent", [b"\x01\x00\x63", b"", b"\x01\x00\x00"])
def test_8_3_what_needs_more_bits_or_has_none_is_out_of_range(bench, sent):
    entry = table_entry(bench.id("started_t"), exact(1, sent), act=action(bench.id("NoAction")))
    assert bench.insert(entry) == ["OUT_OF_RANGE"]


@pytest.mark.parametrize("sent", [b"\x02\x00", b"\x01\x00\x63", b""])
def test_8_3_widths_that_are_no_bytes_are_kept_to_the_bit(bench, sent):
    entry = table_entry(bench.id("exact_t"), exact(1, b"\1"), act=action(bench.id("forward"), sent))
    assert bench.insert(entry) == ["OUT_OF_RANGE"]


@pytest.mark.parametrize(
    ("sent", "canonical"),
    [(b"\x63", b"\x63"), (b"\x9d", b"\x9d"), (b"\xff\x9d", b"\x9d"), (b"\x00\x00", b"\x00")],
)
def test_8_3_signed_values_are_sign_extended(bench, sent, canonical):
    assert bench.modify(register(bench, "pairs", pair(b"\0", sent))) == ["OK"]
    assert bench.read(register(bench, "pairs")) == [
        register(bench, "pairs", pair(b"\0", canonical))
    ]


def test_8_3_a_signed_value_out_of_range(bench):
    assert bench.modify(register(bench, "pairs", pair(b"\0", b"\x00\x9d"))) == ["OUT_OF_RANGE"]


# --- 8.4 ------------------------------------------------------------------------------------------


def test_8_4_2_members_of_a_struct_come_in_their_order(bench):
    bench.modify(register(bench, "pairs", pair(b"\1", b"\2")))
    (found,) = bench.read(register(bench, "pairs"))
    members = found.register_entry.data.struct.members
    assert [m.bitstring for m in members] == [b"\1", b"\2"]


def test_8_4_2_a_struct_must_have_all_its_members(bench):
    short = p4d.P4Data(struct={"members": [{"bitstring": b"\1"}]})
    assert bench.modify(register(bench, "pairs", short)) == ["INVALID_ARGUMENT"]
