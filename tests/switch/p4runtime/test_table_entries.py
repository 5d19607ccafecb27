"""TableEntry, clause by clause (P4Runtime 1.5, section "TableEntry")."""

import pytest
from finsy.proto import p4r
from p4runtime_kit import (
    Bench,
    action,
    exact,
    frame,
    lpm,
    optional,
    ranged,
    table_entry,
    ternary,
)

from sglb.switch.clock import PS_PER_NS


@pytest.fixture
def bench():
    return Bench()


class Ids:
    """Short names for the ids that the tests use."""

    def __init__(self, bench):
        self._bench = bench

    def __getattr__(self, alias):
        return self._bench.id(alias)


@pytest.fixture
def ids(bench):
    return Ids(bench)


def forward(ids, port=b"\x02"):
    return action(ids.forward, port)


def mixed(ids, *match, priority=10, **kw):
    """An entry of mixed_t: src ternary, b range, c optional, etype exact."""
    kw.setdefault("act", forward(ids))
    return table_entry(ids.mixed_t, *match, priority=priority, **kw)


ETYPE = exact(4, b"\x08\x00")

# --- match fields ---------------------------------------------------------------------------------


def test_bytes_of_any_length_come_back_shortest(bench, ids):
    entry = table_entry(ids.exact_t, exact(1, b"\0" * 9 + b"\x01"), act=forward(ids, b"\0\0\x03"))
    assert bench.insert(entry) == ["OK"]
    (found,) = bench.read(table_entry(ids.exact_t))
    assert found == table_entry(ids.exact_t, exact(1, b"\x01"), act=forward(ids, b"\x03"))


BAD_MATCHES = [
    # exact
    (lambda i: mixed(i), "INVALID_ARGUMENT"),  # the exact field is missing
    (lambda i: mixed(i, exact(4, b"")), "OUT_OF_RANGE"),
    (lambda i: mixed(i, exact(4, b"\x01\x00\x00")), "OUT_OF_RANGE"),
    (lambda i: mixed(i, ETYPE, exact(9, b"\x01")), "INVALID_ARGUMENT"),  # no such field
    (lambda i: mixed(i, ETYPE, ETYPE), "INVALID_ARGUMENT"),  # twice
    (lambda i: mixed(i, ternary(4, b"\x01", b"\x01")), "INVALID_ARGUMENT"),  # wrong kind
    (lambda i: mixed(i, p4r.FieldMatch(field_id=4)), "INVALID_ARGUMENT"),  # no kind
    # ternary: don't care is left out, masked bits are 0, the mask fits
    (lambda i: mixed(i, ETYPE, ternary(1, b"\0", b"\0")), "INVALID_ARGUMENT"),
    (lambda i: mixed(i, ETYPE, ternary(1, b"\x03", b"\x02")), "INVALID_ARGUMENT"),
    (lambda i: mixed(i, ETYPE, ternary(1, b"\x01", b"\x01" + b"\0" * 6)), "OUT_OF_RANGE"),
    (lambda i: mixed(i, ETYPE, ternary(1, b"", b"\x01")), "OUT_OF_RANGE"),
    # range: low <= high, don't care is left out
    (lambda i: mixed(i, ETYPE, ranged(2, b"\x05", b"\x04")), "INVALID_ARGUMENT"),
    (lambda i: mixed(i, ETYPE, ranged(2, b"\0", b"\xff\xff")), "INVALID_ARGUMENT"),
    (lambda i: mixed(i, ETYPE, ranged(2, b"\0", b"\x01\0\0")), "OUT_OF_RANGE"),
    # optional
    (lambda i: mixed(i, ETYPE, optional(3, b"")), "OUT_OF_RANGE"),
    (lambda i: mixed(i, ETYPE, exact(3, b"\x01")), "INVALID_ARGUMENT"),
    # priority
    (lambda i: mixed(i, ETYPE, priority=0), "INVALID_ARGUMENT"),
    (lambda i: mixed(i, ETYPE, priority=-1), "INVALID_ARGUMENT"),
    (
        lambda i: table_entry(i.exact_t, exact(1, b"\x01"), act=forward(i), priority=1),
        "INVALID_ARGUMENT",
    ),
    # lpm: don't care is left out, bits behind the prefix are 0
    (lambda i: table_entry(i.lpm_t, lpm(1, b"\0", 0), act=forward(i)), "INVALID_ARGUMENT"),
    (lambda i: table_entry(i.lpm_t, lpm(1, b"\0", 33), act=forward(i)), "INVALID_ARGUMENT"),
    (lambda i: table_entry(i.lpm_t, lpm(1, b"\0", -1), act=forward(i)), "INVALID_ARGUMENT"),
    (
        lambda i: table_entry(i.lpm_t, lpm(1, b"\x0a\0\0\x01", 24), act=forward(i)),
        "INVALID_ARGUMENT",
    ),
    (lambda i: table_entry(i.lpm_t, lpm(1, b"\x01\0\0\0\0", 24), act=forward(i)), "OUT_OF_RANGE"),
    # the table
    (lambda i: table_entry(0, exact(1, b"\x01"), act=forward(i)), "INVALID_ARGUMENT"),
    (lambda i: table_entry(0x02999999, exact(1, b"\x01"), act=forward(i)), "INVALID_ARGUMENT"),
    (lambda i: table_entry(i.keyless_t, act=action(i.drop)), "INVALID_ARGUMENT"),
]


@pytest.mark.parametrize(("make", "code"), BAD_MATCHES)
def test_bad_matches(bench, ids, make, code):
    before = bench.everything()
    assert bench.insert(make(ids)) == [code]
    assert bench.everything() == before


def test_every_match_kind_is_written_and_read_back(bench, ids):
    entries = [
        mixed(ids, ETYPE),
        mixed(ids, ternary(1, b"\x12\0", b"\xff\0"), ETYPE, priority=11),
        mixed(ids, ranged(2, b"\x05", b"\x01\0"), ETYPE, priority=12),
        mixed(ids, optional(3, b"\x07"), ETYPE, priority=13),
        table_entry(ids.lpm_t, lpm(1, b"\x0a\0\0\0", 8), act=forward(ids)),
        table_entry(ids.lpm_t, act=forward(ids)),
    ]
    assert bench.insert(*entries) == ["OK"] * 6
    assert bench.read(table_entry(ids.mixed_t), table_entry(ids.lpm_t)) == entries


# --- actions --------------------------------------------------------------------------------------

BAD_ACTIONS = [
    (lambda i: {"act": action(i.drop, b"\x01")}, "INVALID_ARGUMENT"),  # an extra parameter
    (lambda i: {"act": action(i.forward)}, "INVALID_ARGUMENT"),  # one is missing
    (lambda i: {"act": action(i.forward, b"\x02\0")}, "OUT_OF_RANGE"),  # bit<9>
    (lambda i: {"act": action(i.forward, b"")}, "OUT_OF_RANGE"),
    (lambda i: {"act": action(0x01999999)}, "INVALID_ARGUMENT"),
    (lambda i: {"act": action(0)}, "INVALID_ARGUMENT"),
    (lambda i: {"act": action(i.NoAction)}, "PERMISSION_DENIED"),  # @defaultonly
    (lambda i: {}, "INVALID_ARGUMENT"),  # an INSERT needs one
    (lambda i: {"action": {}}, "INVALID_ARGUMENT"),
    (lambda i: {"action": {"action_profile_member_id": 1}}, "INVALID_ARGUMENT"),
    (lambda i: {"action": {"action_profile_group_id": 1}}, "INVALID_ARGUMENT"),
    (lambda i: {"action": {"action_profile_action_set": {}}}, "INVALID_ARGUMENT"),
    (lambda i: {"act": forward(i), "is_const": True}, "INVALID_ARGUMENT"),
]


@pytest.mark.parametrize(("fields", "code"), BAD_ACTIONS)
def test_bad_actions(bench, ids, fields, code):
    assert bench.insert(table_entry(ids.exact_t, exact(1, b"\x01"), **fields(ids))) == [code]
    assert bench.read(table_entry(ids.exact_t)) == []


def test_a_parameter_given_twice(bench, ids):
    twice = action(ids.forward, b"\x01")
    twice.params.add(param_id=1, value=b"\x02")
    entry = table_entry(ids.exact_t, exact(1, b"\x01"), act=twice)
    assert bench.insert(entry) == ["INVALID_ARGUMENT"]


# --- INSERT, MODIFY, DELETE -----------------------------------------------------------------------


def test_life_of_an_entry(bench, ids):
    key = exact(1, b"\x0a")
    entry = table_entry(
        ids.exact_t, key, act=forward(ids), metadata=b"mine", controller_metadata=2**63
    )
    assert bench.modify(entry) == ["NOT_FOUND"]
    assert bench.delete(entry) == ["NOT_FOUND"]
    assert bench.insert(entry) == ["OK"]
    assert bench.insert(entry) == ["ALREADY_EXISTS"]
    assert bench.read(table_entry(ids.exact_t)) == [entry]
    changed = table_entry(ids.exact_t, key, act=action(ids.drop), metadata=b"new")
    assert bench.modify(changed) == ["OK"]
    assert bench.read(table_entry(ids.exact_t)) == [changed]
    # A DELETE looks at the key only, whatever nonsense the rest is.
    nonsense = table_entry(ids.exact_t, key, act=action(0x01999999, b""), idle_timeout_ns=-1)
    assert bench.delete(nonsense) == ["OK"]
    assert bench.read(table_entry(ids.exact_t)) == []


def test_entries_forward_packets(bench, ids):
    bench.insert(table_entry(ids.exact_t, exact(1, b"\x0a"), act=forward(ids, b"\x03")))
    bench.send(1, frame(dst=0x0A))
    assert bench.sent == [(3, frame(dst=0x0A))]
    bench.delete(table_entry(ids.exact_t, exact(1, b"\x0a")))
    bench.send(1, frame(dst=0x0A))
    assert len(bench.sent) == 1


def test_modify_without_an_action_is_no_change(bench, ids):
    key = exact(1, b"\x0a")
    entry = table_entry(ids.exact_t, key, act=forward(ids), metadata=b"mine")
    bench.insert(entry)
    assert bench.modify(table_entry(ids.exact_t, key)) == ["OK"]
    assert bench.read(table_entry(ids.exact_t)) == [entry]


def test_a_full_table(bench, ids):
    entries = [table_entry(ids.exact_t, exact(1, bytes([i])), act=forward(ids)) for i in range(9)]
    assert bench.insert(*entries) == ["OK"] * 8 + ["RESOURCE_EXHAUSTED"]


def test_larger_priority_wins(bench, ids):
    src = ternary(1, b"\x02\0", b"\x02\0")
    bench.insert(
        mixed(ids, ETYPE_BODY, priority=5, act=forward(ids, b"\x05")),
        mixed(ids, src, ETYPE_BODY, priority=6, act=forward(ids, b"\x06")),
    )
    set_body_type(bench, ids)
    for source in (0x0200, 0x0400):
        bench.send(1, frame(src=source, etype=0x0801, payload=bytes(7)))
    assert [port for port, _ in bench.sent] == [6, 5]


ETYPE_BODY = exact(4, b"\x08\x01")


def set_body_type(bench, ids):
    members = [{"match": [exact(1, b"\x08\x01")]}]
    entry = p4r.ValueSetEntry(value_set_id=ids.body_types, members=members)
    assert bench.modify(p4r.Entity(value_set_entry=entry)) == ["OK"]


# --- default entries ------------------------------------------------------------------------------


def default(table, **kw):
    return table_entry(table, is_default_action=True, **kw)


def test_default_entry_is_modified_and_reset(bench, ids):
    original = default(ids.exact_t, act=action(ids.to_cpu, b"\x01"))
    assert bench.read(default(ids.exact_t)) == [original]
    assert bench.read(table_entry(ids.exact_t)) == []
    changed = default(ids.exact_t, act=forward(ids), metadata=b"m", controller_metadata=3)
    assert bench.modify(changed) == ["OK"]
    assert bench.read(default(ids.exact_t)) == [changed]
    bench.send(1, frame())
    assert bench.sent == [(2, frame())]
    assert bench.modify(default(ids.exact_t)) == ["OK"]
    assert bench.read(default(ids.exact_t)) == [original]


def test_default_entry_rules(bench, ids):
    fine = default(ids.exact_t, act=forward(ids))
    assert bench.insert(fine) == ["INVALID_ARGUMENT"]
    assert bench.delete(fine) == ["INVALID_ARGUMENT"]
    rules = [
        (default(ids.exact_t, act=forward(ids), priority=1), "INVALID_ARGUMENT"),
        (default(ids.exact_t, act=forward(ids), idle_timeout_ns=5), "INVALID_ARGUMENT"),
        (default(ids.exact_t, act=forward(ids), time_since_last_hit={}), "INVALID_ARGUMENT"),
        (default(ids.exact_t, action={"action_profile_member_id": 1}), "INVALID_ARGUMENT"),
        (default(ids.exact_t, act=action(ids.set_port, b"\x01", b"1")), "PERMISSION_DENIED"),
        (default(ids.exact_t, act=action(ids.NoAction)), "OK"),  # @defaultonly
        (default(ids.lpm_t, act=action(ids.drop)), "PERMISSION_DENIED"),  # const default
        (default(ids.lpm_t), "PERMISSION_DENIED"),
        (default(ids.spread_t, act=action(ids.drop)), "PERMISSION_DENIED"),  # with a selector
        (default(ids.keyless_t, act=action(ids.drop)), "OK"),
        (default(ids.const_t, act=forward(ids)), "OK"),  # const entries, not a const default
    ]
    assert bench.modify(*(entry for entry, _ in rules)) == [code for _, code in rules]
    with_match = table_entry(
        ids.exact_t, exact(1, b"\x01"), act=forward(ids), is_default_action=True
    )
    assert bench.modify(with_match) == ["INVALID_ARGUMENT"]


# --- const and initial entries --------------------------------------------------------------------


def test_const_table_reads_with_priorities_counting_down(bench, ids):
    found = bench.read(table_entry(ids.const_t))
    assert found == [
        table_entry(
            ids.const_t,
            ternary(1, b"\x01", b"\xff"),
            act=forward(ids, b"\x03"),
            priority=2,
            is_const=True,
        ),
        table_entry(
            ids.const_t,
            ternary(1, b"\x02", b"\xfe"),
            act=forward(ids, b"\x04"),
            priority=1,
            is_const=True,
        ),
    ]


def test_const_table_takes_direct_resources_only(bench, ids):
    key = ternary(1, b"\x01", b"\xff")
    with_action = table_entry(ids.const_t, key, act=forward(ids, b"\x03"), priority=2)
    for write in (bench.insert, bench.modify, bench.delete):
        assert write(with_action) == ["PERMISSION_DENIED"]
    counter = table_entry(ids.const_t, key, priority=2, counter_data={"packet_count": 5})
    assert bench.modify(counter) == ["OK"]
    (found,) = bench.read(table_entry(ids.const_t, key, priority=2, counter_data={}))
    assert found.table_entry.counter_data == p4r.CounterData(packet_count=5)


def test_initial_entries(bench, ids):
    """An entry marked const stays; others, and new ones, are as in any table."""
    seven = table_entry(ids.started_t, exact(1, b"\x07"), act=forward(ids, b"\x07"))
    eight = table_entry(ids.started_t, exact(1, b"\x08"), act=forward(ids, b"\x08"), is_const=True)
    nine = table_entry(ids.started_t, exact(1, b"\x09"), act=forward(ids, b"\x09"))
    assert bench.read(table_entry(ids.started_t)) == [seven, eight]
    assert bench.insert(nine) == ["OK"]
    assert bench.modify(eight) == ["INVALID_ARGUMENT"]  # is_const cannot be said by a client
    eight.table_entry.is_const = False
    assert bench.modify(eight) == ["PERMISSION_DENIED"]
    assert bench.delete(eight) == ["PERMISSION_DENIED"]
    assert bench.delete(seven) == ["OK"]
    eight.table_entry.is_const = True
    assert bench.read(table_entry(ids.started_t)) == [eight, nine]


# --- reading --------------------------------------------------------------------------------------


def test_filters(bench, ids):
    a = mixed(ids, ETYPE, priority=1, metadata=b"a", act=forward(ids))
    b = mixed(ids, ETYPE, priority=2, metadata=b"b", act=action(ids.drop))
    c = mixed(ids, ETYPE, optional(3, b"\x01"), priority=2, controller_metadata=9, act=forward(ids))
    bench.insert(a, b, c)
    c.table_entry.match.reverse()  # fields come back in key order
    for wanted, found in [
        ({}, [a, b, c]),
        ({"priority": 2}, [b, c]),
        ({"metadata": b"a"}, [a]),
        ({"controller_metadata": 9}, [c]),
        ({"act": action(ids.forward)}, [a, c]),
        ({"act": action(ids.drop)}, [b]),
        ({"act": action(ids.forward), "priority": 2}, [c]),
        ({"priority": 7}, []),
    ]:
        assert bench.read(table_entry(ids.mixed_t, **wanted)) == found
    assert bench.read(table_entry(ids.mixed_t, ETYPE)) == [a, b]
    assert bench.read(table_entry(ids.mixed_t, ETYPE, priority=2)) == [b]
    assert (
        bench.read_code(
            table_entry(ids.mixed_t, act=action(0x01999999)),
            table_entry(ids.mixed_t, act=forward(ids)),  # no filter on parameters
            table_entry(ids.mixed_t, exact(9, b"\x01")),
            table_entry(ids.spread_t, action={"action_profile_member_id": 1}),
            table_entry(0x02999999),
            table_entry(0, priority=3),
        )
        == ["INVALID_ARGUMENT"] * 6
    )


def test_all_tables_but_no_default_entries(bench, ids):
    entry = table_entry(ids.exact_t, exact(1, b"\x0a"), act=forward(ids))
    bench.insert(entry)
    found = bench.read(table_entry(0))
    assert [e.table_entry.table_id for e in found] == [
        ids.exact_t,
        ids.const_t,
        ids.const_t,
        ids.started_t,
        ids.started_t,
    ]
    assert not any(e.table_entry.is_default_action for e in found)


def test_a_missing_entry_reads_as_nothing(bench, ids):
    assert bench.read(table_entry(ids.exact_t, exact(1, b"\x0a"))) == []


# --- direct resources -----------------------------------------------------------------------------

CONFIG = {"cir": 1, "cburst": 2, "pir": 3, "pburst": 4}


def test_resources_come_only_when_asked_for(bench, ids):
    key = exact(1, b"\x0a")
    bare = table_entry(ids.exact_t, key, act=forward(ids))
    bench.insert(
        table_entry(
            ids.exact_t,
            key,
            act=forward(ids),
            meter_config=CONFIG,
            counter_data={"byte_count": 7, "packet_count": 1},
        )
    )
    assert bench.read(table_entry(ids.exact_t)) == [bare]
    (full,) = bench.read(
        table_entry(ids.exact_t, meter_config={}, counter_data={}, meter_counter_data={})
    )
    assert full.table_entry.meter_config == p4r.MeterConfig(**CONFIG)
    assert full.table_entry.counter_data == p4r.CounterData(byte_count=7, packet_count=1)
    assert full.table_entry.HasField("meter_counter_data")
    bench.send(1, frame(dst=0x0A))
    (full,) = bench.read(table_entry(ids.exact_t, counter_data={}, meter_counter_data={}))
    assert full.table_entry.counter_data == p4r.CounterData(byte_count=21, packet_count=2)
    green = full.table_entry.meter_counter_data.green
    assert (green.packet_count, green.byte_count) == (1, 14)


def test_modify_keeps_the_counter_and_resets_the_meter(bench, ids):
    key = exact(1, b"\x0a")
    count = {"byte_count": 7, "packet_count": 1}
    bench.insert(
        table_entry(ids.exact_t, key, act=forward(ids), meter_config=CONFIG, counter_data=count)
    )
    bench.modify(table_entry(ids.exact_t, key, act=action(ids.drop)))
    (found,) = bench.read(table_entry(ids.exact_t, meter_config={}, counter_data={}))
    assert found.table_entry.counter_data == p4r.CounterData(**count)
    assert not found.table_entry.HasField("meter_config")  # the default stays unset
    bench.modify(table_entry(ids.exact_t, key, meter_config=CONFIG, counter_data={}))
    (found,) = bench.read(table_entry(ids.exact_t, meter_config={}, counter_data={}))
    assert found.table_entry.meter_config == p4r.MeterConfig(**CONFIG)
    assert found.table_entry.counter_data == p4r.CounterData()
    assert found.table_entry.action.action.action_id == ids.drop


@pytest.mark.parametrize(
    "fields",
    [
        {"meter_config": {"cir": -1}},
        {"meter_config": {"cir": 5, "pir": 4}},
        {"meter_config": {**CONFIG, "eburst": 1}},
        {"counter_data": {"packet_count": -1}},
        {"meter_counter_data": {"red": {"packet_count": 1}}},
    ],
)
def test_bad_resources(bench, ids, fields):
    entry = table_entry(ids.exact_t, exact(1, b"\x0a"), act=forward(ids), **fields)
    assert bench.insert(entry) == ["INVALID_ARGUMENT"]
    assert bench.read(table_entry(ids.exact_t)) == []


def test_resources_that_a_table_lacks(bench, ids):
    for fields in ({"meter_config": {}}, {"counter_data": {}}, {"meter_counter_data": {}}):
        entry = table_entry(ids.lpm_t, act=forward(ids), **fields)
        assert bench.insert(entry) == ["INVALID_ARGUMENT"]
        assert bench.read_code(table_entry(ids.lpm_t, **fields)) == ["INVALID_ARGUMENT"]
    # A read of all tables gives what each has.
    assert bench.read_code(table_entry(0, counter_data={}, meter_config={})) == ["OK"]


def test_direct_entries(bench, ids):
    key = exact(1, b"\x0a")
    bench.insert(table_entry(ids.exact_t, key, act=forward(ids)))
    named = p4r.TableEntry(table_id=ids.exact_t, match=[key])
    counter = p4r.DirectCounterEntry(table_entry=named, data={"packet_count": 3})
    meter = p4r.DirectMeterEntry(table_entry=named, config=CONFIG)
    assert bench.modify(
        p4r.Entity(direct_counter_entry=counter), p4r.Entity(direct_meter_entry=meter)
    ) == ["OK", "OK"]
    for write in (bench.insert, bench.delete):
        assert (
            write(p4r.Entity(direct_counter_entry=counter), p4r.Entity(direct_meter_entry=meter))
            == ["INVALID_ARGUMENT"] * 2
        )
    ask = p4r.DirectCounterEntry(table_entry=named)
    assert bench.read(p4r.Entity(direct_counter_entry=ask)) == [
        p4r.Entity(direct_counter_entry=counter)
    ]
    # Without data a counter stays as it is; without config a meter goes back to green.
    bench.modify(p4r.Entity(direct_counter_entry=ask))
    bench.modify(p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=named)))
    (found,) = bench.read(table_entry(ids.exact_t, counter_data={}, meter_config={}))
    assert found.table_entry.counter_data.packet_count == 3
    assert not found.table_entry.HasField("meter_config")
    other = p4r.TableEntry(table_id=ids.exact_t, match=[exact(1, b"\x0b")])
    missing = p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=other))
    assert (bench.modify(missing), bench.read_code(missing)) == (["NOT_FOUND"], ["NOT_FOUND"])
    # Everything: exact_t's entry and const_t's two.
    assert len(bench.read(p4r.Entity(direct_counter_entry={}))) == 3
    assert len(bench.read(p4r.Entity(direct_meter_entry={}))) == 1
    no_meter = p4r.DirectMeterEntry(table_entry={"table_id": ids.lpm_t})
    assert bench.read_code(p4r.Entity(direct_meter_entry=no_meter)) == ["INVALID_ARGUMENT"]


def test_the_default_entry_has_resources_too(bench, ids):
    bench.send(1, frame())
    (found,) = bench.read(default(ids.exact_t, counter_data={}))
    assert found.table_entry.counter_data == p4r.CounterData(packet_count=1, byte_count=14)
    bench.modify(default(ids.exact_t))
    (found,) = bench.read(default(ids.exact_t, counter_data={}))
    assert found.table_entry.counter_data == p4r.CounterData()


# --- idle timeouts --------------------------------------------------------------------------------


def idle_of(bench):
    return [
        m.idle_timeout_notification for m in bench.heard if m.HasField("idle_timeout_notification")
    ]


def test_idle_notification_and_rearming(bench, ids):
    key = exact(1, b"\x0a")
    entry = table_entry(ids.exact_t, key, act=forward(ids), idle_timeout_ns=1000, metadata=b"m")
    assert bench.insert(entry) == ["OK"]
    assert bench.read(table_entry(ids.exact_t)) == [entry]
    bench.clock.run(until_ps=600 * PS_PER_NS)
    bench.switch.receive(1, frame(dst=0x0A))
    bench.clock.run(until_ps=1599 * PS_PER_NS)
    assert idle_of(bench) == []
    bench.clock.run(until_ps=1600 * PS_PER_NS)
    named = p4r.TableEntry(table_id=ids.exact_t, match=[key], idle_timeout_ns=1000, metadata=b"m")
    assert idle_of(bench) == [p4r.IdleTimeoutNotification(table_entry=[named], timestamp=1600)]
    bench.clock.run(until_ps=2600 * PS_PER_NS)
    assert [n.timestamp for n in idle_of(bench)] == [1600, 2600]
    bench.modify(table_entry(ids.exact_t, key, act=forward(ids)))
    bench.clock.run(until_ps=9000 * PS_PER_NS)
    assert len(idle_of(bench)) == 2


def test_time_since_last_hit(bench, ids):
    key = exact(1, b"\x0a")
    bench.insert(table_entry(ids.exact_t, key, act=forward(ids)))
    bench.clock.run(until_ps=500 * PS_PER_NS)
    ask = table_entry(ids.exact_t, time_since_last_hit={})
    assert bench.read(ask)[0].table_entry.time_since_last_hit.elapsed_ns == 500
    assert not bench.read(table_entry(ids.exact_t))[0].table_entry.HasField("time_since_last_hit")
    bench.switch.receive(1, frame(dst=0x0A))
    assert bench.read(ask)[0].table_entry.HasField("time_since_last_hit")
    assert bench.read(ask)[0].table_entry.time_since_last_hit.elapsed_ns == 0


def test_timeouts_where_the_table_has_none(bench, ids):
    entry = table_entry(ids.lpm_t, act=forward(ids), idle_timeout_ns=5)
    assert bench.insert(entry) == ["INVALID_ARGUMENT"]
    ask = table_entry(ids.lpm_t, time_since_last_hit={})
    assert bench.read_code(ask) == ["INVALID_ARGUMENT"]
    written = table_entry(ids.exact_t, exact(1, b"\x01"), act=forward(ids), time_since_last_hit={})
    assert bench.insert(written) == ["INVALID_ARGUMENT"]
    negative = table_entry(ids.exact_t, exact(1, b"\x01"), act=forward(ids), idle_timeout_ns=-1)
    assert bench.insert(negative) == ["INVALID_ARGUMENT"]
