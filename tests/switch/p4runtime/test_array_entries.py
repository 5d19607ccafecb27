"""CounterEntry, MeterEntry, RegisterEntry (P4Runtime 1.5, sections of these names)."""

import pytest
from finsy.proto import p4d, p4r
from p4runtime_kit import Bench, action, exact, frame, table_entry


@pytest.fixture
def bench():
    return Bench()


def counter(bench, index=None, name="hits", **kw):
    made = p4r.CounterEntry(counter_id=bench.id(name), **kw)
    if index is not None:
        made.index.index = index
        made.index.SetInParent()
    return p4r.Entity(counter_entry=made)


def meter(bench, index=None, **kw):
    made = p4r.MeterEntry(meter_id=bench.id("police"), **kw)
    if index is not None:
        made.index.index = index
        made.index.SetInParent()
    return p4r.Entity(meter_entry=made)


def register(bench, index=None, name="plain", **kw):
    made = p4r.RegisterEntry(register_id=bench.id(name), **kw)
    if index is not None:
        made.index.index = index
        made.index.SetInParent()
    return p4r.Entity(register_entry=made)


def bits(data):
    return p4d.P4Data(bitstring=data)


def pair(x, y):
    return p4d.P4Data(struct={"members": [bits(x), bits(y)]})


def bump(bench, index, times=1):
    """Lets packets through action bump: a register is counted up, a counter counts, a meter runs."""
    act = action(bench.id("bump"), bytes([index]))
    bench.modify(table_entry(bench.id("exact_t"), act=act, is_default_action=True))
    for _ in range(times):
        bench.send(1, frame())


@pytest.mark.parametrize("make", [counter, meter, register])
def test_only_modify_within_the_array(bench, make):
    data = {"data": bits(b"\x01")} if make is register else {}
    assert bench.insert(make(bench, 0, **data)) == ["INVALID_ARGUMENT"]
    assert bench.delete(make(bench, 0, **data)) == ["INVALID_ARGUMENT"]
    for index, code in ((-1, "INVALID_ARGUMENT"), (4, "OUT_OF_RANGE"), (2**40, "OUT_OF_RANGE")):
        assert bench.modify(make(bench, index, **data)) == [code]
        assert bench.read_code(make(bench, index)) == [code]
    for bad in (
        p4r.Entity(counter_entry={"counter_id": 5}),
        p4r.Entity(meter_entry={"meter_id": 5}),
        p4r.Entity(register_entry={"register_id": 5}),
    ):
        assert bench.modify(bad) == ["INVALID_ARGUMENT"]
        assert bench.read_code(bad) == ["INVALID_ARGUMENT"]


def test_an_id_must_be_given_when_writing(bench):
    assert (
        bench.modify(
            p4r.Entity(counter_entry={}), p4r.Entity(meter_entry={}), p4r.Entity(register_entry={})
        )
        == ["INVALID_ARGUMENT"] * 3
    )


# --- counters -------------------------------------------------------------------------------------


def test_counters_count_and_are_set(bench):
    bump(bench, 2, times=3)
    three = {"packet_count": 3, "byte_count": 42}
    assert bench.read(counter(bench, 2)) == [counter(bench, 2, data=three)]
    assert bench.modify(counter(bench, 2)) == ["OK"]  # without data: no change
    assert bench.read(counter(bench, 2)) == [counter(bench, 2, data=three)]
    assert bench.modify(counter(bench, 2, data={"packet_count": 7})) == ["OK"]
    assert bench.read(counter(bench, 2)) == [counter(bench, 2, data={"packet_count": 7})]
    assert bench.modify(counter(bench, 2, data={"byte_count": -1})) == ["INVALID_ARGUMENT"]


def test_a_full_counter_wraps_around_and_can_still_be_read(bench):
    full = {"packet_count": 2**63 - 1, "byte_count": 2**63 - 10}
    assert bench.modify(counter(bench, 2, data=full)) == ["OK"]
    bump(bench, 2)  # 14 bytes
    wrapped = {"packet_count": 0, "byte_count": 4}
    assert bench.read(counter(bench, 2)) == [counter(bench, 2, data=wrapped)]


def test_counter_wildcards(bench):
    assert bench.modify(counter(bench, data={"byte_count": 5})) == ["OK"]
    all_cells = [counter(bench, i, data={"byte_count": 5}) for i in range(4)]
    assert bench.read(counter(bench)) == all_cells
    assert bench.read(p4r.Entity(counter_entry={})) == all_cells
    # With id 0 an index means nothing.
    assert bench.read(p4r.Entity(counter_entry={"index": {"index": 1}})) == all_cells


# --- meters ---------------------------------------------------------------------------------------

CONFIG = {"cir": 1, "cburst": 1, "pir": 1, "pburst": 2}


def test_meters_are_configured_and_reset(bench):
    assert bench.read(meter(bench, 0)) == [meter(bench, 0)]
    assert bench.modify(meter(bench, 0, config=CONFIG)) == ["OK"]
    assert bench.read(meter(bench)) == [meter(bench, 0, config=CONFIG), meter(bench, 1)]
    assert bench.modify(meter(bench)) == ["OK"]
    assert bench.read(p4r.Entity(meter_entry={})) == [meter(bench, 0), meter(bench, 1)]


def test_meter_colours_are_counted(bench):
    bench.modify(meter(bench, 1, config=CONFIG))
    bump(bench, 1, times=3)  # 1 token committed, 2 at peak: green, yellow, red
    (found,) = bench.read(meter(bench, 1, counter_data={}))
    counts = found.meter_entry.counter_data
    assert [c.packet_count for c in (counts.green, counts.yellow, counts.red)] == [1, 1, 1]
    assert bench.modify(
        meter(bench, 1, config=CONFIG, counter_data={"red": {"packet_count": 1}})
    ) == ["INVALID_ARGUMENT"]
    assert bench.modify(meter(bench, 1, config=CONFIG, counter_data={})) == ["OK"]
    (found,) = bench.read(meter(bench, 1, counter_data={}))
    assert found.meter_entry.counter_data.red.packet_count == 0


@pytest.mark.parametrize(
    "config",
    [{"cir": -1}, {"cir": 2, "pir": 1}, {**CONFIG, "eburst": 1}],
)
def test_bad_meter_configs(bench, config):
    assert bench.modify(meter(bench, 0, config=config)) == ["INVALID_ARGUMENT"]
    assert bench.read(meter(bench, 0)) == [meter(bench, 0)]


# --- registers ------------------------------------------------------------------------------------


def test_registers_are_read_and_written(bench):
    assert bench.modify(register(bench, 2, data=bits(b"\0\0\xff\xff"))) == ["OK"]
    bump(bench, 2)
    assert bench.read(register(bench, 2)) == [register(bench, 2, data=bits(b"\0"))]
    bump(bench, 2)
    assert bench.read(register(bench)) == [
        register(bench, i, data=bits(b"\x01" if i == 2 else b"\0")) for i in range(4)
    ]


def test_register_wildcards(bench):
    assert bench.modify(register(bench, data=bits(b"\x12\x34"))) == ["OK"]
    written = [register(bench, i, data=bits(b"\x12\x34")) for i in range(4)]
    pairs = [register(bench, i, "pairs", data=pair(b"\0", b"\0")) for i in range(2)]
    assert bench.read(p4r.Entity(register_entry={})) == [*written, *pairs]


def test_struct_registers(bench):
    value = pair(b"\x01\x02", b"\xff")  # bit<16> 258, int<8> -1
    assert bench.modify(register(bench, 0, "pairs", data=value)) == ["OK"]
    assert bench.read(register(bench, 0, "pairs")) == [register(bench, 0, "pairs", data=value)]
    keep = table_entry(bench.id("exact_t"), act=action(bench.id("keep")), is_default_action=True)
    members = [{"match": [exact(1, b"\x99\x99")]}]
    entry = p4r.ValueSetEntry(value_set_id=bench.id("body_types"), members=members)
    assert bench.modify(keep, p4r.Entity(value_set_entry=entry)) == ["OK", "OK"]
    bench.send(1, frame(payload=bytes([0, 0, 0, 0, 0xAB, 0xCD, 0])))
    assert bench.read(register(bench, 1, "pairs")) == [
        register(bench, 1, "pairs", data=pair(b"\xab\xcd", b"\xff"))
    ]


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("plain", None, "INVALID_ARGUMENT"),
        ("plain", p4d.P4Data(), "INVALID_ARGUMENT"),
        ("plain", bits(b""), "OUT_OF_RANGE"),
        ("plain", bits(b"\x01\0\0"), "OUT_OF_RANGE"),
        ("plain", p4d.P4Data(bool=True), "INVALID_ARGUMENT"),
        ("pairs", bits(b"\x01"), "INVALID_ARGUMENT"),
        ("pairs", p4d.P4Data(struct={"members": [bits(b"\x01")]}), "INVALID_ARGUMENT"),
        ("pairs", pair(b"\x01", b"\0\x80"), "OUT_OF_RANGE"),  # 128 is no int<8>
        ("pairs", p4d.P4Data(tuple={"members": [bits(b"\x01")] * 2}), "INVALID_ARGUMENT"),
    ],
)
def test_register_data_must_have_the_type(bench, name, data, code):
    before = bench.everything()
    assert bench.modify(register(bench, 0, name, data=data)) == [code]
    assert bench.everything() == before
