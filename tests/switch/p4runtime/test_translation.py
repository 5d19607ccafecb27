"""Translated types: ids of the controller's against the device's numbers."""

import pytest
from finsy.proto import p4i, p4r
from p4runtime_kit import Bench, action, exact, optional, table_entry

from sglb.switch.p4runtime.bound import TranslationOptions
from sglb.switch.p4runtime.match_fields import FieldCodec
from sglb.switch.p4runtime.packet_io import ControllerHeader
from sglb.switch.p4runtime.service import ServiceOptions
from sglb.switch.p4runtime.status import P4RuntimeError
from sglb.switch.p4runtime.translation import Translations


def options(tables, port_type=""):
    return ServiceOptions(translation=TranslationOptions(tables, port_type))


def entry(bench, port, vrf, *params):
    match = [exact(1, port)]
    if vrf is not None:
        match.append(optional(2, vrf))
    return table_entry(
        bench.id("translated_t"), *match, act=action(bench.id("set_port"), *params), priority=1
    )


def device_key(bench):
    """Key and arguments of the one entry, as the device has them."""
    (found,) = bench.switch.state.by_name("I.translated_t").entries()
    return found.key, found.args


def test_without_a_mapping_numbers_stay_and_names_get_numbers():
    bench = Bench()
    made = entry(bench, b"\x05", b"vrf-red", b"\x07", b"12")
    assert bench.insert(made) == ["OK"]
    # vrf_t has 10 bits: the first name gets the highest number.
    assert device_key(bench) == ((5, 1023), (7, 12))
    assert bench.read(table_entry(bench.id("translated_t"))) == [made]
    assert bench.insert(entry(bench, b"\x06", b"vrf-red", b"\x07", b"1")) == ["OK"]
    # 1023 is taken by a name, so it can't be a number any more; 9 bits are what a port has.
    assert bench.insert(entry(bench, b"\x07", b"1023", b"\x07", b"1")) == ["ALREADY_EXISTS"]
    assert bench.insert(entry(bench, b"\x02\0", b"1", b"\x07", b"1")) == ["OUT_OF_RANGE"]
    assert bench.insert(entry(bench, b"\x07", b"", b"\x07", b"1")) == ["OUT_OF_RANGE"]
    assert bench.insert(entry(bench, b"\x07", b"\xff\xfe", b"\x07", b"1")) == ["INVALID_ARGUMENT"]


def test_with_a_mapping():
    tables = {"test/port": {1000: 1, 2000: 2}, "vrf_t": {"red": 3}}
    bench = Bench(options=options(tables))
    made = entry(bench, b"\x03\xe8", b"red", b"\x07\xd0", b"red")
    assert bench.insert(made) == ["OK"]
    assert device_key(bench) == ((1, 3), (2, 3))
    assert bench.read(table_entry(bench.id("translated_t"))) == [made]
    assert bench.insert(entry(bench, b"\x01", b"red", b"\x07\xd0", b"red")) == ["INVALID_ARGUMENT"]
    assert bench.insert(entry(bench, b"\x07\xd0", b"x", b"\x07\xd0", b"red")) == [
        "INVALID_ARGUMENT"
    ]


def test_a_mapping_to_numbers_that_the_device_does_not_have():
    bench = Bench(options=options({"test/port": {1000: 512}, "vrf_t": {"red": -1}}))
    assert bench.insert(entry(bench, b"\x03\xe8", b"", b"\x03\xe8", b"")) == ["OUT_OF_RANGE"]
    act = action(bench.id("set_port"), b"\x03\xe8", b"red")
    made = table_entry(bench.id("exact_t"), exact(1, b"\1"), act=act)
    assert bench.insert(made) == ["OUT_OF_RANGE"]


@pytest.mark.parametrize(
    ("tables", "text"),
    [
        ({"vrf_t": {1: 1}}, "translation of vrf_t: 1 found, the type has strings"),
        ({"sdn_port_t": {"a": 1}}, "translation of sdn_port_t: 'a' found, the type has numbers"),
        ({"vrf_t": {"a": 1, "b": 1}}, "two values map to one device value"),
    ],
)
def test_bad_mappings(tables, text):
    with pytest.raises(ValueError, match=text):
        Bench(options=options(tables))


def test_ports_of_replicas_may_be_of_a_translated_type():
    bench = Bench(options=options({"sdn_port_t": {1000: 1, 2000: 2}}, "sdn_port_t"))
    replicas = [{"port": b"\x03\xe8", "backup_replicas": [{"port": b"\x07\xd0"}]}]
    group = {"multicast_group_id": 1, "replicas": replicas}
    made = p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": group})
    assert bench.insert(made) == ["OK"]
    assert bench.switch.replication.copies(1) == ((1, 0),)
    assert bench.read(made) == [made]
    replicas[0]["port"] = b"\x01"
    group["multicast_group_id"] = 2
    made = p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": group})
    assert bench.insert(made) == ["INVALID_ARGUMENT"]


def test_an_unknown_port_type():
    with pytest.raises(ValueError, match="port type 'x' is no translated type"):
        Bench(options=options({}, "x"))


# --- masks of translated fields -------------------------------------------------------------------


def field(kind, table=None):
    info = p4i.P4Info()
    spec = info.type_info.new_types["port_t"].translated_type
    spec.uri, spec.sdn_bitwidth = "u", 32
    tables = {} if table is None else {"port_t": table}
    match = p4i.MatchField(
        id=1, name="port", bitwidth=32, match_type=kind, type_name={"name": "port_t"}
    )
    return FieldCodec(match, 9, Translations(info, tables), "table t")


ALL = b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("kind", "match", "device"),
    [
        ("TERNARY", p4r.FieldMatch(field_id=1, ternary={"value": b"\x05", "mask": ALL}), (5, 511)),
        ("LPM", p4r.FieldMatch(field_id=1, lpm={"value": b"\x05", "prefix_len": 32}), (5, 9)),
        ("RANGE", p4r.FieldMatch(field_id=1, range={"low": b"\x05", "high": b"\x05"}), (5, 5)),
    ],
)
def test_whole_values_only(kind, match, device):
    codec = field(p4i.MatchField.MatchType.Value(kind))
    assert codec.decode(match) == device
    made = p4r.FieldMatch()
    codec.fill(made, device)
    assert made == match
    part = p4r.FieldMatch()
    part.CopyFrom(match)
    for name in ("ternary", "lpm", "range"):
        if part.HasField(name):
            inner = getattr(part, name)
            if name == "ternary":
                inner.mask = b"\x05"
            elif name == "lpm":
                inner.prefix_len = 31
            else:
                inner.high = b"\x06"
    with pytest.raises(P4RuntimeError, match="whole values or nothing"):
        codec.decode(part)


# --- packet headers -------------------------------------------------------------------------------

TRANSLATED_HEADER = """
#include <core.p4>
#include <v1model.p4>
@p4runtime_translation("test/port", 32)
type bit<9> sdn_port_t;
@controller_header("packet_in")
header pin_t { sdn_port_t port; bit<7> pad; }
struct hs { pin_t pin; }
struct ms { }
parser P(packet_in p, out hs h, inout ms m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout hs h, inout ms m) { apply { } }
control I(inout hs h, inout ms m, inout standard_metadata_t s) {
    apply { h.pin.setValid(); h.pin.port = (sdn_port_t)s.ingress_port; s.egress_spec = 510; }
}
control E(inout hs h, inout ms m, inout standard_metadata_t s) { apply { } }
control C(inout hs h, inout ms m) { apply { } }
control D(packet_out p, in hs h) { apply { p.emit(h.pin); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def test_packet_in_with_a_translated_port():
    from p4runtime_kit import compiled

    bench = Bench(compiled(TRANSLATED_HEADER), options=options({"test/port": {1000: 4}}))
    bench.send(4, b"hello")
    bench.send(5, b"hello")
    packets = [[m.value for m in h.packet.metadata] for h in bench.heard]
    assert packets == [[b"\x03\xe8", b"\0"], [b"\x05", b"\0"]]
    assert bench.heard[0].packet.payload == b"hello"


def test_header_bits_are_packed_without_gaps():
    info = p4i.ControllerPacketMetadata(
        metadata=[
            {"id": 7, "name": "a", "bitwidth": 9},
            {"id": 3, "name": "b", "bitwidth": 1},
            {"id": 9, "name": "c", "bitwidth": 3},
        ]
    )
    header = ControllerHeader("packet_out", info, Translations(p4i.P4Info()))
    packet = p4r.PacketOut(payload=b"xyz")
    for number, value in ((9, b"\x05"), (7, b"\x01\x01"), (3, b"\x01")):
        packet.metadata.add(metadata_id=number, value=value)
    # 100000001 1 101, then three zero bits.
    assert header.pack(packet) == bytes([0b10000000, 0b11101000]) + b"xyz"
    back = header.unpack(bytes([0b10000000, 0b11101000]) + b"xyz")
    assert [(m.metadata_id, m.value) for m in back.metadata] == [
        (7, b"\x01\x01"),
        (3, b"\x01"),
        (9, b"\x05"),
    ]
    assert back.payload == b"xyz"
    with pytest.raises(P4RuntimeError, match="a frame of 1 bytes left on the CPU port"):
        header.unpack(b"x")


def test_a_program_without_a_header():
    header = ControllerHeader("packet_out", None, Translations(p4i.P4Info()))
    assert header.pack(p4r.PacketOut(payload=b"xyz")) == b"xyz"
    assert header.unpack(b"xyz") == p4r.PacketIn(payload=b"xyz")
    with pytest.raises(P4RuntimeError, match="has no @controller_header"):
        header.pack(p4r.PacketOut(metadata=[{"metadata_id": 1}]))
