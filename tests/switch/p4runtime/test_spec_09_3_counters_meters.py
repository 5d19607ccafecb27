"""P4Runtime 1.5, sections 9.3, 9.4 and 9.7: counters, meters, registers, by section."""

import pytest
from finsy.proto import p4d, p4i, p4r
from p4runtime_kit import KITCHEN, Bench, action, compiled, exact, frame, table_entry

from sglb.p4.source import P4Errors

METER = {"cir": 1, "cburst": 2, "pir": 3, "pburst": 4}
COUNT = {"byte_count": 20, "packet_count": 2}


class Kitchen(Bench):
    """`hits` has 4 counters, `police` 2 meters, `plain` 4 registers of 16 bits."""

    def counter(self, index=None, **fields):
        return p4r.Entity(counter_entry=_at(index, counter_id=self.id("hits"), **fields))

    def meter(self, index=None, **fields):
        return p4r.Entity(meter_entry=_at(index, meter_id=self.id("police"), **fields))

    def register(self, index=None, value=None):
        fields = {} if value is None else {"data": p4d.P4Data(bitstring=value)}
        return p4r.Entity(register_entry=_at(index, register_id=self.id("plain"), **fields))

    def entry(self, key=b"\1", **fields):
        return table_entry(self.id("exact_t"), exact(1, key), act=action(self.id("drop")), **fields)

    def key(self, key=b"\1"):
        return {"table_id": self.id("exact_t"), "match": [exact(1, key)]}

    def bump(self, index, times=1):
        """Packets that count, are metered and add to a register at an index."""
        act = action(self.id("bump"), bytes([index]))
        self.modify(table_entry(self.id("exact_t"), act=act, is_default_action=True))
        for _ in range(times):
            self.send(1, frame())


def _at(index, **fields):
    return fields if index is None else {**fields, "index": {"index": index}}


@pytest.fixture
def bench():
    return Kitchen()


def counts(found):
    return [e.counter_entry.data.packet_count for e in found]


# --- 9.3 counters ---------------------------------------------------------------------------------


def test_9_3_packets_and_bytes_are_counted(bench):
    bench.bump(1, times=2)
    (found,) = bench.read(bench.counter(1))
    assert found.counter_entry.data == p4r.CounterData(byte_count=28, packet_count=2)


def test_9_3_1_modify_only(bench):
    bench.insert(bench.entry())
    direct = p4r.Entity(direct_counter_entry={"table_entry": bench.key()})
    assert bench.insert(direct) == ["INVALID_ARGUMENT"]
    assert bench.delete(direct) == ["INVALID_ARGUMENT"]


def test_9_3_1_set_and_read(bench):
    bench.insert(bench.entry())
    direct = p4r.Entity(direct_counter_entry={"table_entry": bench.key(), "data": COUNT})
    assert bench.modify(direct) == ["OK"]
    ask = p4r.Entity(direct_counter_entry={"table_entry": bench.key()})
    assert bench.read(ask) == [direct]


def test_9_3_1_without_data_nothing_is_changed(bench):
    bench.insert(bench.entry(counter_data=COUNT))
    ask = p4r.Entity(direct_counter_entry={"table_entry": bench.key()})
    assert bench.modify(ask) == ["OK"]
    (found,) = bench.read(ask)
    assert found.direct_counter_entry.data == p4r.CounterData(**COUNT)


def test_9_3_1_of_no_entry(bench):
    ask = p4r.Entity(direct_counter_entry={"table_entry": bench.key(b"\7")})
    assert (bench.modify(ask), bench.read_code(ask)) == (["NOT_FOUND"], ["NOT_FOUND"])


def test_9_3_1_goes_with_its_entry(bench):
    bench.insert(bench.entry(counter_data=COUNT))
    bench.delete(bench.entry())
    bench.insert(bench.entry())
    ask = p4r.Entity(direct_counter_entry={"table_entry": bench.key()})
    assert bench.read(ask)[0].direct_counter_entry.data == p4r.CounterData()


@pytest.mark.parametrize("kind", ["counter", "meter"])
def test_9_3_2_modify_only(bench, kind):
    entity = getattr(bench, kind)(0)
    assert bench.insert(entity) == ["INVALID_ARGUMENT"]
    assert bench.delete(entity) == ["INVALID_ARGUMENT"]


def test_9_3_2_they_begin_with_zero(bench):
    assert counts(bench.read(bench.counter())) == [0, 0, 0, 0]


def test_9_3_2_one_is_set(bench):
    assert bench.modify(bench.counter(2, data=COUNT)) == ["OK"]
    assert counts(bench.read(bench.counter())) == [0, 0, 2, 0]


def test_9_3_2_without_data_nothing_is_changed(bench):
    bench.modify(bench.counter(2, data=COUNT))
    assert bench.modify(bench.counter(2)) == ["OK"]
    assert counts(bench.read(bench.counter(2))) == [2]


def test_9_3_2_without_index_all_are_set(bench):
    assert bench.modify(bench.counter(data=COUNT)) == ["OK"]
    assert counts(bench.read(bench.counter())) == [2, 2, 2, 2]


@pytest.mark.parametrize("kind", ["counter", "meter", "register"])
@pytest.mark.parametrize(("index", "code"), [(-1, "INVALID_ARGUMENT"), (4, "OUT_OF_RANGE")])
def test_9_3_2_and_9_4_2_and_9_7_indices(bench, kind, index, code):
    value = {"value": b"\1"} if kind == "register" else {}
    assert bench.modify(getattr(bench, kind)(index, **value)) == [code]
    assert bench.read_code(getattr(bench, kind)(index)) == [code]


def test_9_3_2_id_zero_reads_all_arrays(bench):
    assert len(bench.read(p4r.Entity(counter_entry={}))) == 4


# --- 9.4 meters -----------------------------------------------------------------------------------


def test_9_4_a_two_rate_meter_has_no_excess_burst(bench):
    bad = bench.meter(0, config={**METER, "eburst": 1})
    assert bench.modify(bad) == ["INVALID_ARGUMENT"]


def of_type(note):
    return Kitchen(compiled(KITCHEN.read_text().replace("    meter(2,", f"    @{note} meter(2,")))


ONE_RATE = {"cir": 5, "cburst": 6, "pir": 5, "pburst": 6}


@pytest.mark.parametrize(
    ("note", "config", "code"),
    [
        ("single_rate_three_color", {**ONE_RATE, "eburst": 7}, "OK"),
        ("single_rate_three_color", {**ONE_RATE, "pir": 6}, "INVALID_ARGUMENT"),
        ("single_rate_three_color", {**ONE_RATE, "pburst": 7}, "INVALID_ARGUMENT"),
        ("single_rate_two_color", ONE_RATE, "OK"),
        ("single_rate_two_color", {**ONE_RATE, "pir": 6}, "INVALID_ARGUMENT"),
        ("single_rate_two_color", {**ONE_RATE, "eburst": 7}, "INVALID_ARGUMENT"),
        ("two_rate_three_color", METER, "OK"),
    ],
)
def test_9_4_configurations_by_type(note, config, code):
    bench = of_type(note)
    entity = bench.meter(0, config=config)
    assert bench.modify(entity) == [code]
    assert (bench.read(bench.meter(0)) == [entity]) is (code == "OK")


def test_6_4_5_the_type_is_in_the_p4info():
    info = of_type("single_rate_three_color").program.p4info
    assert [m.spec.type for m in info.meters] == [p4i.MeterSpec.SINGLE_RATE_THREE_COLOR]


def test_6_4_5_a_meter_has_one_type():
    with pytest.raises(P4Errors, match="police is both @single_rate_two_color and @two_rate_"):
        of_type("single_rate_two_color @two_rate_three_color")


def test_9_4_an_excess_burst_is_yellow():
    bench = of_type("single_rate_three_color")
    bench.modify(bench.meter(0, config={**ONE_RATE, "cburst": 1, "pburst": 1, "eburst": 2}))
    bench.bump(0, times=4)
    (found,) = bench.read(bench.meter(0, counter_data={}))
    data = found.meter_entry.counter_data
    assert [c.packet_count for c in (data.green, data.yellow, data.red)] == [1, 2, 1]


def direct_meter(bench, **fields):
    return p4r.Entity(direct_meter_entry={"table_entry": bench.key(), **fields})


def test_9_4_1_modify_only(bench):
    bench.insert(bench.entry())
    assert bench.insert(direct_meter(bench)) == ["INVALID_ARGUMENT"]
    assert bench.delete(direct_meter(bench)) == ["INVALID_ARGUMENT"]


def test_9_4_1_set_and_read(bench):
    bench.insert(bench.entry())
    assert bench.modify(direct_meter(bench, config=METER)) == ["OK"]
    assert bench.read(direct_meter(bench)) == [direct_meter(bench, config=METER)]


def test_9_4_1_without_config_it_is_green_for_all_again(bench):
    bench.insert(bench.entry(meter_config=METER))
    assert bench.modify(direct_meter(bench)) == ["OK"]
    assert bench.read(direct_meter(bench)) == [direct_meter(bench)]


def test_9_4_1_of_no_entry(bench):
    ask = direct_meter(bench)
    assert (bench.modify(ask), bench.read_code(ask)) == (["NOT_FOUND"], ["NOT_FOUND"])


def test_9_4_1_counts_are_cleared_if_set_and_left_if_not(bench):
    bench.insert(bench.entry(meter_config=METER))
    bench.send(1, frame(dst=1))
    ask = direct_meter(bench, counter_data={})
    green = [bench.read(ask)[0].direct_meter_entry.counter_data.green.packet_count]
    for update in (direct_meter(bench, config=METER), direct_meter(bench, counter_data={})):
        bench.modify(update)
        green.append(bench.read(ask)[0].direct_meter_entry.counter_data.green.packet_count)
    assert green == [1, 1, 0]


def test_9_4_1_counts_take_nothing_but_zeros(bench):
    bench.insert(bench.entry())
    bad = direct_meter(bench, counter_data={"red": {"byte_count": 1}})
    assert bench.modify(bad) == ["INVALID_ARGUMENT"]


def test_9_4_1_counts_come_if_asked_for(bench):
    bench.insert(bench.entry())
    (without,), (with_counts,) = (
        bench.read(direct_meter(bench)),
        bench.read(direct_meter(bench, counter_data={})),
    )
    assert not without.direct_meter_entry.HasField("counter_data")
    assert with_counts.direct_meter_entry.HasField("counter_data")


def test_9_4_2_they_begin_with_the_default(bench):
    assert bench.read(bench.meter()) == [bench.meter(0), bench.meter(1)]


def test_9_4_2_one_is_configured_and_reset(bench):
    assert bench.modify(bench.meter(1, config=METER)) == ["OK"]
    assert bench.read(bench.meter()) == [bench.meter(0), bench.meter(1, config=METER)]
    assert bench.modify(bench.meter(1)) == ["OK"]
    assert bench.read(bench.meter(1)) == [bench.meter(1)]


def test_9_4_2_without_index_all_are_configured(bench):
    bench.modify(bench.meter(config=METER))
    assert bench.read(bench.meter()) == [bench.meter(n, config=METER) for n in (0, 1)]


def test_9_4_2_id_zero_reads_all_arrays(bench):
    assert len(bench.read(p4r.Entity(meter_entry={}))) == 2


def test_9_4_3_each_colour_has_its_count(bench):
    bench.modify(bench.meter(1, config={"cir": 0, "cburst": 1, "pir": 0, "pburst": 3}))
    bench.bump(1, times=4)
    (found,) = bench.read(bench.meter(1, counter_data={}))
    data = found.meter_entry.counter_data
    assert [c.packet_count for c in (data.green, data.yellow, data.red)] == [1, 2, 1]
    assert [c.byte_count for c in (data.green, data.yellow, data.red)] == [14, 28, 14]


# --- 9.7 registers --------------------------------------------------------------------------------


def test_9_7_one_element(bench):
    assert bench.modify(bench.register(2, b"\x12\x34")) == ["OK"]
    assert bench.read(bench.register(2)) == [bench.register(2, b"\x12\x34")]


def test_9_7_wildcards_write_and_read_the_array(bench):
    assert bench.modify(bench.register(None, b"\7")) == ["OK"]
    assert bench.read(bench.register()) == [bench.register(n, b"\7") for n in range(4)]


def test_9_7_the_data_plane_writes_too(bench):
    bench.modify(bench.register(3, b"\x09"))
    bench.bump(3)
    assert bench.read(bench.register(3)) == [bench.register(3, b"\x0a")]


@pytest.mark.parametrize("data", [None, p4d.P4Data(bool=True), p4d.P4Data(struct={}), p4d.P4Data()])
def test_9_7_data_of_another_type(bench, data):
    entity = bench.register(0)
    if data is not None:
        entity.register_entry.data.CopyFrom(data)
    assert bench.modify(entity) == ["INVALID_ARGUMENT"]


def test_9_7_id_zero_reads_all_arrays(bench):
    assert len(bench.read(p4r.Entity(register_entry={}))) == 4 + 2
