"""P4Runtime 1.5, section 9.1: TableEntry. Tests are named by the section of their rule."""

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

METER = {"cir": 1, "cburst": 2, "pir": 3, "pburst": 4}
ETYPE = exact(4, b"\x08\0")


class Kitchen(Bench):
    """Entries of the tables of kitchen.p4 in few words."""

    def forward(self, port=b"\2"):
        return action(self.id("forward"), port)

    def exact(self, key=b"\1", **fields):
        fields.setdefault("act", self.forward())
        return table_entry(self.id("exact_t"), exact(1, key), **fields)

    def lpm(self, value=b"\x0a\0\0\0", length=8, **fields):
        fields.setdefault("act", self.forward())
        return table_entry(self.id("lpm_t"), lpm(1, value, length), **fields)

    def mixed(self, *match, **fields):
        fields.setdefault("act", self.forward())
        fields.setdefault("priority", 10)
        return table_entry(self.id("mixed_t"), *match, **fields)

    def default(self, table="exact_t", **fields):
        return table_entry(self.id(table), is_default_action=True, **fields)

    def const(self, **fields):
        """The first entry of const_t, whose priority counts down to 1."""
        return table_entry(
            self.id("const_t"), ternary(1, b"\1", b"\xff"), **{"priority": 2, **fields}
        )

    def all_of(self, table, **fields):
        return self.read(table_entry(self.id(table), **fields))


@pytest.fixture
def bench():
    return Kitchen()


# --- 9.1 ------------------------------------------------------------------------------------------


def test_9_1_metadata_and_cookie_are_given_back(bench):
    entry = bench.exact(metadata=b"\0any", controller_metadata=2**64 - 1)
    bench.insert(entry)
    assert bench.all_of("exact_t") == [entry]


@pytest.mark.parametrize("match", [ternary(1, b"\1", b"\1"), ranged(2, b"\0", b"\1"), None])
def test_9_1_a_key_that_can_overlap_needs_a_priority(bench, match):
    fields = [] if match is None else [match]
    assert bench.insert(bench.mixed(*fields, ETYPE, priority=0)) == ["INVALID_ARGUMENT"]


def test_9_1_other_keys_have_priority_zero(bench):
    assert bench.insert(bench.exact(priority=1)) == ["INVALID_ARGUMENT"]
    assert bench.insert(bench.lpm(priority=1)) == ["INVALID_ARGUMENT"]


def test_9_1_two_entries_may_have_one_priority(bench):
    one, two = (bench.mixed(ternary(1, bytes([n]), b"\xff"), ETYPE) for n in (1, 2))
    assert bench.insert(one, two) == ["OK", "OK"]


def test_9_1_the_larger_number_wins(bench):
    low, high = (bench.mixed(ETYPE, act=bench.forward(bytes([p])), priority=p) for p in (3, 4))
    bench.insert(low, high)
    table = bench.switch.state.by_name("I.mixed_t")
    assert table.lookup((0x0200, 0, 0, 0x0800), b"", 0).args == (4,)


def test_9_1_match_and_priority_are_the_key(bench):
    bench.insert(bench.mixed(ETYPE, priority=1))
    assert bench.insert(bench.mixed(ETYPE, priority=1)) == ["ALREADY_EXISTS"]
    assert bench.modify(bench.mixed(ETYPE, priority=2)) == ["NOT_FOUND"]
    assert bench.delete(bench.mixed(ETYPE, priority=2)) == ["NOT_FOUND"]
    assert bench.insert(bench.mixed(ETYPE, priority=2)) == ["OK"]


def test_9_1_delete_looks_at_the_key_only(bench):
    bench.insert(bench.exact())
    nonsense = bench.exact(
        act=action(99, b""), idle_timeout_ns=-5, meter_config={"cir": -1}, metadata=b"other"
    )
    assert bench.delete(nonsense) == ["OK"]


def test_9_1_no_entry_in_a_keyless_table(bench):
    entry = table_entry(bench.id("keyless_t"), act=action(bench.id("drop")))
    assert bench.insert(entry) == ["INVALID_ARGUMENT"]


def test_9_1_a_full_table(bench):
    entries = [bench.exact(bytes([n])) for n in range(9)]  # its size is 8
    assert bench.insert(*entries) == ["OK"] * 8 + ["RESOURCE_EXHAUSTED"]


def test_9_1_what_exists_already_comes_before_fullness(bench):
    bench.insert(*(bench.exact(bytes([n])) for n in range(8)))
    assert bench.insert(bench.exact(b"\1")) == ["ALREADY_EXISTS"]


def test_9_1_is_const_is_not_for_clients(bench):
    bench.insert(bench.exact())
    for write, key in ((bench.insert, b"\2"), (bench.modify, b"\1"), (bench.delete, b"\1")):
        assert write(bench.exact(key, is_const=True)) == ["INVALID_ARGUMENT"]


def test_9_1_an_unknown_table(bench):
    assert bench.insert(table_entry(0x02FFFFFF)) == ["INVALID_ARGUMENT"]


# --- 9.1.1 Match Format ---------------------------------------------------------------------------


def test_9_1_1_what_does_not_matter_is_left_out(bench):
    entry = bench.mixed(ETYPE)
    bench.insert(entry)
    assert bench.all_of("mixed_t") == [entry]


def test_9_1_1_an_exact_field_cannot_be_left_out(bench):
    assert bench.insert(bench.mixed()) == ["INVALID_ARGUMENT"]


def test_9_1_1_the_order_of_fields_is_free(bench):
    assert bench.insert(bench.mixed(ETYPE, optional(3, b"\1"))) == ["OK"]
    assert bench.insert(bench.mixed(optional(3, b"\1"), ETYPE)) == ["ALREADY_EXISTS"]


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ("exact_t", exact(2, b"\1")),
        ("exact_t", p4r.FieldMatch(field_id=1)),
        ("exact_t", lpm(1, b"\1", 48)),
        ("lpm_t", lpm(1, b"\0", 0)),
        ("lpm_t", lpm(1, b"\0", 33)),
        ("lpm_t", lpm(1, b"\x0a\0\0\1", 8)),
        ("mixed_t", ternary(1, b"\0", b"\0")),
        ("mixed_t", ternary(1, b"\3", b"\1")),
        ("mixed_t", ranged(2, b"\2", b"\1")),
        ("mixed_t", ranged(2, b"\0", b"\xff\xff")),
    ],
    ids=[
        "an id that the table lacks",
        "no kind",
        "another kind",
        "lpm: prefix 0 must be omitted",
        "lpm: prefix beyond the width",
        "lpm: a bit behind the prefix",
        "ternary: mask 0 must be omitted",
        "ternary: a bit outside the mask",
        "range: low above high",
        "range: all values must be omitted",
    ],
)
def test_9_1_1_bad_matches(bench, table, match):
    more = [ETYPE] if table == "mixed_t" else []
    priority = 10 if more else 0
    entry = table_entry(
        bench.id(table), match, *more, act=action(bench.id("drop")), priority=priority
    )
    assert bench.insert(entry) == ["INVALID_ARGUMENT"]


def test_9_1_1_a_field_given_twice(bench):
    entry = table_entry(bench.id("exact_t"), exact(1, b"\1"), exact(1, b"\2"), act=bench.forward())
    assert bench.insert(entry) == ["INVALID_ARGUMENT"]


@pytest.mark.parametrize(
    "match", [lpm(1, b"", 8), lpm(1, b"\1\0\0\0\0", 8)], ids=["empty", "too wide"]
)
def test_9_1_1_byte_strings_of_a_match(bench, match):
    entry = table_entry(bench.id("lpm_t"), match, act=bench.forward())
    assert bench.insert(entry) == ["OUT_OF_RANGE"]  # as 8.3 has it


# --- 9.1.2 Action Specification -------------------------------------------------------------------


def test_9_1_2_an_insert_needs_an_action(bench):
    assert bench.insert(bench.exact(act=None)) == ["INVALID_ARGUMENT"]


def test_9_1_2_a_modify_without_an_action_changes_none(bench):
    entry = bench.exact()
    bench.insert(entry)
    assert bench.modify(bench.exact(act=None)) == ["OK"]
    assert bench.all_of("exact_t") == [entry]


def test_9_1_2_modify_assigns_the_whole_entry(bench):
    bench.insert(bench.exact(metadata=b"m", idle_timeout_ns=10**12))
    bench.modify(bench.exact(act=bench.forward(b"\3")))
    assert bench.all_of("exact_t") == [bench.exact(act=bench.forward(b"\3"))]


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ("exact_t", {"action_profile_member_id": 1}),
        ("exact_t", {"action_profile_group_id": 1}),
        ("exact_t", {"action_profile_action_set": {}}),
        ("exact_t", {}),
        ("shared_t", {"action": {}}),
        ("shared_t", {"action_profile_group_id": 1}),
        ("shared_t", {"action_profile_action_set": {}}),
        ("spread_t", {"action": {}}),
    ],
)
def test_9_1_2_the_kind_of_action_is_the_tables(bench, table, kind):
    entry = table_entry(bench.id(table), exact(1, b"\1"), action=p4r.TableAction(**kind))
    assert bench.insert(entry) == ["INVALID_ARGUMENT"]


def test_9_1_2_an_action_of_another_table(bench):
    entry = bench.lpm(act=action(bench.id("learn")))
    assert bench.insert(entry) == ["INVALID_ARGUMENT"]


def test_9_1_2_the_scope_of_an_action(bench):
    tableonly = action(bench.id("set_port"), b"\1", b"v")
    defaultonly = action(bench.id("NoAction"))
    assert bench.modify(bench.default(act=tableonly)) == ["PERMISSION_DENIED"]
    assert bench.insert(bench.exact(act=defaultonly)) == ["PERMISSION_DENIED"]
    assert bench.modify(bench.default(act=defaultonly)) == ["OK"]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ([], "INVALID_ARGUMENT"),
        ([(1, b"\1"), (2, b"\1")], "INVALID_ARGUMENT"),
        ([(2, b"\1")], "INVALID_ARGUMENT"),
        ([(1, b"\1"), (1, b"\1")], "INVALID_ARGUMENT"),
        ([(1, b"")], "OUT_OF_RANGE"),
        ([(1, b"\2\0")], "OUT_OF_RANGE"),
    ],
    ids=["missing", "extra", "unknown", "twice", "empty", "too wide"],
)
def test_9_1_2_parameters(bench, params, code):
    act = p4r.Action(action_id=bench.id("forward"))
    for param_id, value in params:
        act.params.add(param_id=param_id, value=value)
    assert bench.insert(bench.exact(act=act)) == [code]


@pytest.mark.parametrize("kind", ["action_profile_member_id", "action_profile_group_id"])
def test_9_1_2_a_reference_to_nothing(bench, kind):
    entry = table_entry(bench.id("spread_t"), exact(1, b"\1"), action=p4r.TableAction(**{kind: 7}))
    assert bench.insert(entry) == ["NOT_FOUND"]


# --- 9.1.3 Default Entry --------------------------------------------------------------------------


def test_9_1_3_there_is_always_one(bench):
    (found,) = bench.read(bench.default())
    assert found == bench.default(act=action(bench.id("to_cpu"), b"\1"))


def test_9_1_3_only_modify(bench):
    entry = bench.default(act=action(bench.id("drop")))
    assert bench.insert(entry) == ["INVALID_ARGUMENT"]
    assert bench.delete(entry) == ["INVALID_ARGUMENT"]


def test_9_1_3_neither_match_nor_priority(bench):
    act = action(bench.id("drop"))
    assert bench.modify(bench.exact(act=act, is_default_action=True)) == ["INVALID_ARGUMENT"]
    assert bench.modify(bench.default(act=act, priority=1)) == ["INVALID_ARGUMENT"]


def test_9_1_3_without_an_action_it_is_as_in_the_program_again(bench):
    fresh = bench.read(bench.default(counter_data={}, meter_config={}))
    bench.modify(
        bench.default(
            act=action(bench.id("drop")),
            metadata=b"m",
            controller_metadata=3,
            meter_config=METER,
            counter_data={"packet_count": 5},
        )
    )
    assert bench.read(bench.default(counter_data={}, meter_config={})) != fresh
    assert bench.modify(bench.default()) == ["OK"]
    assert bench.read(bench.default(counter_data={}, meter_config={})) == fresh


def test_9_1_3_a_const_one_stays(bench):
    for entry in (
        bench.default("lpm_t", act=action(bench.id("drop"))),
        bench.default("lpm_t"),
    ):
        assert bench.modify(entry) == ["PERMISSION_DENIED"]


def test_9_1_3_that_of_an_indirect_table_is_const(bench):
    entry = bench.default("spread_t", act=action(bench.id("drop")))
    assert bench.modify(entry) == ["PERMISSION_DENIED"]


def test_9_1_3_it_has_direct_resources(bench):
    entry = bench.default(act=action(bench.id("drop")), meter_config=METER)
    bench.modify(entry)
    bench.send(1, frame())
    (found,) = bench.read(bench.default(meter_config={}, counter_data={}))
    assert found.table_entry.meter_config == p4r.MeterConfig(**METER)
    assert found.table_entry.counter_data.packet_count == 1


# --- 9.1.4 Constant Tables, 9.1.5 Preinitialized Tables -------------------------------------------


def test_9_1_4_entries_of_a_const_table_are_immutable(bench):
    act = bench.forward()
    assert bench.insert(bench.const(priority=9, act=act)) == ["PERMISSION_DENIED"]
    assert bench.delete(bench.const()) == ["PERMISSION_DENIED"]
    assert bench.modify(bench.const(act=bench.forward(b"\3"))) == ["PERMISSION_DENIED"]


def test_9_1_4_their_direct_resources_are_not(bench):
    assert bench.modify(bench.const(counter_data={"packet_count": 4})) == ["OK"]
    found = bench.all_of("const_t", counter_data={})
    assert [e.table_entry.counter_data.packet_count for e in found] == [4, 0]


def test_9_1_4_nor_is_the_default_action(bench):
    assert bench.modify(bench.default("const_t", act=bench.forward())) == ["OK"]


def test_9_1_4_a_modify_names_key_and_priority(bench):
    assert bench.modify(bench.const(priority=1, counter_data={})) == ["NOT_FOUND"]
    assert bench.modify(bench.const(priority=0, counter_data={})) == ["INVALID_ARGUMENT"]


def test_9_1_4_priorities_count_down_from_the_number_of_entries(bench):
    assert bench.all_of("const_t") == [
        bench.const(act=bench.forward(b"\3"), is_const=True),
        table_entry(
            bench.id("const_t"),
            ternary(1, b"\2", b"\xfe"),
            act=bench.forward(b"\4"),
            priority=1,
            is_const=True,
        ),
    ]


def started(bench, key, port=None, **fields):
    if port is not None:
        fields["act"] = bench.forward(port)
    return table_entry(bench.id("started_t"), exact(1, key), **fields)


def test_9_1_5_initial_entries_are_read(bench):
    assert bench.all_of("started_t") == [
        started(bench, b"\7", b"\7"),
        started(bench, b"\x08", b"\x08", is_const=True),
    ]


def test_9_1_5_entries_may_be_added(bench):
    assert bench.insert(started(bench, b"\1", b"\1")) == ["OK"]


def test_9_1_5_those_without_const_may_be_changed(bench):
    assert bench.modify(started(bench, b"\7", b"\1")) == ["OK"]
    assert bench.delete(started(bench, b"\7")) == ["OK"]


def test_9_1_5_const_ones_may_not(bench):
    assert bench.modify(started(bench, b"\x08", b"\1")) == ["PERMISSION_DENIED"]
    assert bench.delete(started(bench, b"\x08")) == ["PERMISSION_DENIED"]


# --- 9.1.6 Wildcard Reads -------------------------------------------------------------------------


@pytest.fixture
def filled(bench):
    """Entries to choose from: priorities 1 and 2, two cookies, two actions."""
    bench.insert(
        bench.mixed(ETYPE, optional(3, b"\1"), priority=1, metadata=b"a"),
        bench.mixed(ETYPE, optional(3, b"\2"), priority=2, controller_metadata=7),
        bench.mixed(ETYPE, optional(3, b"\3"), priority=2, act=action(bench.id("drop"))),
        bench.exact(b"\1"),
        bench.exact(b"\2"),
    )
    return bench


def optionals(entities):
    return [e.table_entry.match[-2].optional.value[0] for e in entities]


def test_9_1_6_table_zero_is_all_tables_const_ones_too_without_defaults(filled):
    found = [e.table_entry for e in filled.read(table_entry(0))]
    counts = {t: sum(e.table_id == filled.id(t) for e in found) for t in ("mixed_t", "exact_t")}
    assert counts == {"mixed_t": 3, "exact_t": 2}
    assert len(found) == 3 + 2 + 2 + 2  # and const_t, started_t
    assert not any(e.is_default_action for e in found)


def test_9_1_6_table_zero_takes_no_other_filter(bench):
    for fields in (
        {"priority": 1},
        {"metadata": b"m"},
        {"controller_metadata": 1},
        {"is_default_action": True},
        {"act": action(bench.id("drop"))},
    ):
        assert bench.read_code(table_entry(0, **fields)) == ["INVALID_ARGUMENT"]


def test_9_1_6_match_selects_one(filled):
    assert filled.all_of("exact_t") == [filled.exact(b"\1"), filled.exact(b"\2")]
    key = table_entry(filled.id("exact_t"), exact(1, b"\2"))
    assert filled.read(key) == [filled.exact(b"\2")]
    assert filled.read(table_entry(filled.id("exact_t"), exact(1, b"\3"))) == []


def test_9_1_6_match_must_be_a_valid_key(bench):
    ask = table_entry(bench.id("mixed_t"), optional(3, b"\1"))
    assert bench.read_code(ask) == ["INVALID_ARGUMENT"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"priority": 2}, [2, 3]),
        ({"metadata": b"a"}, [1]),
        ({"controller_metadata": 7}, [2]),
        ({"priority": 2, "controller_metadata": 7}, [2]),
        ({"priority": 9}, []),
    ],
)
def test_9_1_6_filters(filled, fields, expected):
    assert optionals(filled.all_of("mixed_t", **fields)) == expected


def test_9_1_6_filter_by_action(filled):
    found = filled.all_of("mixed_t", act=action(filled.id("drop")))
    assert optionals(found) == [3]


def test_9_1_6_no_filter_by_parameters(filled):
    ask = table_entry(filled.id("mixed_t"), act=filled.forward())
    assert filled.read_code(ask) == ["INVALID_ARGUMENT"]


def test_9_1_6_no_filter_by_member_or_group(bench):
    for kind in ("action_profile_member_id", "action_profile_group_id"):
        ask = table_entry(bench.id("spread_t"), action=p4r.TableAction(**{kind: 1}))
        assert bench.read_code(ask) == ["INVALID_ARGUMENT"]


def test_9_1_6_the_default_entry_alone(filled):
    (found,) = filled.all_of("exact_t", is_default_action=True)
    assert found.table_entry.is_default_action


def test_9_1_6_an_entry_of_wildcards_only_reads_as_all(bench):
    bench.insert(
        table_entry(bench.id("lpm_t"), act=bench.forward()),
        bench.lpm(),
    )
    assert len(bench.all_of("lpm_t")) == 2


# --- 9.1.7 Direct Resources -----------------------------------------------------------------------

ALL = {"meter_config": {}, "counter_data": {}, "meter_counter_data": {}}


def resources(bench, **fields):
    (found,) = bench.all_of("exact_t", **(fields or ALL))
    return found.table_entry


def test_9_1_7_unset_in_an_insert_they_start_at_their_defaults(bench):
    bench.insert(bench.exact())
    found = resources(bench)
    assert not found.HasField("meter_config")
    assert found.counter_data == p4r.CounterData()


def test_9_1_7_set_in_an_insert_they_start_so(bench):
    bench.insert(bench.exact(meter_config=METER, counter_data={"packet_count": 3}))
    found = resources(bench)
    assert found.meter_config == p4r.MeterConfig(**METER)
    assert found.counter_data == p4r.CounterData(packet_count=3)


def test_9_1_7_modify_with_meter_config_unset_resets_it(bench):
    bench.insert(bench.exact(meter_config=METER))
    bench.modify(bench.exact())
    assert not resources(bench).HasField("meter_config")


def test_9_1_7_modify_with_counter_data_unset_leaves_it(bench):
    bench.insert(bench.exact(counter_data={"packet_count": 3}))
    bench.modify(bench.exact())
    assert resources(bench).counter_data.packet_count == 3


def test_9_1_7_modify_with_counter_data_set_writes_it(bench):
    bench.insert(bench.exact(counter_data={"packet_count": 3}))
    bench.modify(bench.exact(counter_data={}))
    assert resources(bench).counter_data.packet_count == 0


def metered(bench):
    """An entry whose meter has coloured one packet green."""
    bench.insert(bench.exact(meter_config=METER))
    bench.send(1, frame(dst=1))
    assert resources(bench).meter_counter_data.green.packet_count == 1


def test_9_1_7_modify_with_meter_counts_unset_leaves_them(bench):
    metered(bench)
    bench.modify(bench.exact(meter_config=METER))
    assert resources(bench).meter_counter_data.green.packet_count == 1


def test_9_1_7_modify_with_meter_counts_set_zeroes_them(bench):
    metered(bench)
    bench.modify(bench.exact(meter_config=METER, meter_counter_data={}))
    assert resources(bench).meter_counter_data == p4r.MeterCounterData(green={}, yellow={}, red={})


@pytest.mark.parametrize("write", ["insert", "modify"])
def test_9_1_7_meter_counts_take_nothing_but_zeros(bench, write):
    if write == "modify":
        bench.insert(bench.exact())
    entry = bench.exact(meter_counter_data={"green": {"packet_count": 1}})
    assert getattr(bench, write)(entry) == ["INVALID_ARGUMENT"]


@pytest.mark.parametrize("field", ALL)
def test_9_1_7_what_is_not_asked_for_is_not_in_the_answer(bench, field):
    bench.insert(bench.exact(meter_config=METER))
    found = resources(bench, **{field: {}})
    assert [name for name in ALL if found.HasField(name)] == [field]


@pytest.mark.parametrize("field", ALL)
def test_9_1_7_a_table_without_the_resource(bench, field):
    assert bench.insert(bench.lpm(**{field: {}})) == ["INVALID_ARGUMENT"]


# --- 9.1.8 Idle-timeout, 16.4 ---------------------------------------------------------------------


def notifications(bench, until_ns):
    bench.heard.clear()
    bench.clock.run(until_ps=until_ns * PS_PER_NS)
    return [m.idle_timeout_notification for m in bench.heard]


def test_9_1_8_an_entry_without_a_hit_is_told(bench):
    bench.insert(bench.exact(idle_timeout_ns=1000))
    assert notifications(bench, 999) == []
    assert len(notifications(bench, 1000)) == 1


def test_9_1_8_zero_never_expires(bench):
    bench.insert(bench.exact())
    assert notifications(bench, 10**9) == []


def test_9_1_8_a_hit_starts_the_time_anew(bench):
    bench.insert(bench.exact(idle_timeout_ns=1000))
    bench.clock.run(until_ps=600 * PS_PER_NS)
    bench.switch.receive(1, frame(dst=1))
    assert notifications(bench, 1599) == []
    assert len(notifications(bench, 1600)) == 1


def test_9_1_8_the_timeout_is_read_as_written(bench):
    entry = bench.exact(idle_timeout_ns=12345)
    bench.insert(entry)
    assert bench.all_of("exact_t") == [entry]


def test_9_1_8_time_since_last_hit_is_read_only(bench):
    assert bench.insert(bench.exact(time_since_last_hit={})) == ["INVALID_ARGUMENT"]


def test_9_1_8_time_since_last_hit_is_given_if_asked_for_without_a_timeout_too(bench):
    bench.insert(bench.exact())
    bench.clock.run(until_ps=70 * PS_PER_NS)
    (found,) = bench.all_of("exact_t", time_since_last_hit={})
    assert found.table_entry.time_since_last_hit.elapsed_ns == 70
    (found,) = bench.all_of("exact_t")
    assert not found.table_entry.HasField("time_since_last_hit")


@pytest.mark.parametrize("fields", [{"idle_timeout_ns": 1}, {"time_since_last_hit": {}}])
def test_9_1_8_a_table_without_support(bench, fields):
    assert bench.insert(bench.lpm(**fields)) == ["INVALID_ARGUMENT"]


@pytest.mark.parametrize("fields", [{"idle_timeout_ns": 1}, {"time_since_last_hit": {}}])
def test_9_1_8_not_for_default_entries(bench, fields):
    entry = bench.default(act=action(bench.id("drop")), **fields)
    assert bench.modify(entry) == ["INVALID_ARGUMENT"]


def test_16_4_a_notification_names_key_cookie_metadata_and_timeout(bench):
    bench.insert(bench.exact(idle_timeout_ns=1000, metadata=b"m", controller_metadata=3))
    (told,) = notifications(bench, 1000)
    (entry,) = told.table_entry
    assert (entry.table_id, list(entry.match)) == (bench.id("exact_t"), [exact(1, b"\1")])
    assert (entry.metadata, entry.controller_metadata) == (b"m", 3)
    assert (entry.idle_timeout_ns, told.timestamp) == (1000, 1000)


def test_16_4_after_a_notification_the_time_starts_anew(bench):
    bench.insert(bench.exact(idle_timeout_ns=1000))
    assert len(notifications(bench, 1000)) == 1
    assert len(notifications(bench, 1999)) == 0
    assert len(notifications(bench, 2000)) == 1


def test_16_4_only_the_primary_is_told(bench):
    others = []
    bench.service.open_stream(others.append)
    bench.insert(bench.exact(idle_timeout_ns=1000))
    assert len(notifications(bench, 1000)) == 1
    assert others == []
