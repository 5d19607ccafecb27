"""P4Runtime 1.5, sections 16 and 18: stream messages, translation. Tests are named by section."""

from dataclasses import replace

import pytest
from finsy.proto import p4i, p4r
from p4runtime_kit import (
    CPU_PORT,
    DEVICE,
    KITCHEN,
    Bench,
    action,
    arbitration,
    compiled,
    exact,
    frame,
    kitchen,
    optional,
    table_entry,
)

from sglb.switch.p4runtime.bound import TranslationOptions
from sglb.switch.p4runtime.service import ServiceOptions
from sglb.switch.p4runtime.status import Code, P4RuntimeError

EGRESS, PAD = (1, b"\3"), (2, b"\0")


@pytest.fixture
def bench():
    return Bench()


def packet_out(*metadata, payload=None):
    return p4r.StreamMessageRequest(
        packet={
            "payload": frame() if payload is None else payload,
            "metadata": [{"metadata_id": i, "value": v} for i, v in metadata],
        }
    )


def digest_ack(digest_id, list_id=1):
    return p4r.StreamMessageRequest(digest_ack={"digest_id": digest_id, "list_id": list_id})


def errors(bench, message):
    """The StreamErrors that a message of the primary is answered with."""
    bench.stream.receive(message)
    bench.clock.run()
    return [m.error for m in bench.heard]


# --- 16.1 packet I/O ------------------------------------------------------------------------------


def test_16_1_a_packet_out_enters_the_pipeline_with_its_metadata(bench):
    assert errors(bench, packet_out(EGRESS, PAD)) == []
    assert bench.sent == [(3, frame())]


def test_16_1_the_order_of_metadata_is_free(bench):
    assert errors(bench, packet_out(PAD, EGRESS)) == []
    assert bench.sent == [(3, frame())]


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ([EGRESS], "INVALID_ARGUMENT"),
        ([EGRESS, EGRESS, PAD], "INVALID_ARGUMENT"),
        ([EGRESS, PAD, (7, b"\1")], "INVALID_ARGUMENT"),
        ([(1, b"\2\0"), PAD], "OUT_OF_RANGE"),
        ([(1, b""), PAD], "OUT_OF_RANGE"),
    ],
    ids=["one is missing", "one comes twice", "an unknown one", "too wide", "empty"],
)
def test_16_1_metadata_against_the_p4info(bench, metadata, code):
    (error,) = errors(bench, packet_out(*metadata))
    assert Code(error.canonical_code).name == code
    assert bench.sent == []


def test_16_1_a_backup_may_not_send_packets(bench):
    heard = []
    backup = bench.service.open_stream(heard.append)
    backup.receive(arbitration(0))
    heard.clear()
    backup.receive(packet_out(EGRESS, PAD))
    bench.clock.run()
    assert [m.error.canonical_code for m in heard] == [Code.PERMISSION_DENIED]
    assert bench.sent == []


def test_16_1_nor_one_that_is_not_known_yet(bench):
    heard = []
    bench.service.open_stream(heard.append).receive(packet_out(EGRESS, PAD))
    assert [m.error.canonical_code for m in heard] == [Code.PERMISSION_DENIED]


def test_16_1_a_packet_in_has_each_metadata_once_and_the_whole_packet(bench):
    bench.send(4, frame(dst=9, payload=b"rest"))
    (message,) = bench.heard
    assert [(m.metadata_id, m.value) for m in message.packet.metadata] == [
        (1, b"\4"),
        (2, b"\1"),
        (3, b"\0"),
    ]
    assert message.packet.payload == frame(dst=9, payload=b"rest")


def test_16_1_packet_ins_are_for_the_primary(bench):
    heard = []
    bench.service.open_stream(heard.append).receive(arbitration(0))
    heard.clear()
    bench.send(4, frame())
    assert (len(bench.heard), heard) == (1, [])


# --- 16.5, 16.6 -----------------------------------------------------------------------------------


def test_16_5_other_messages_are_unknown_here(bench):
    message = p4r.StreamMessageRequest()
    message.other.Pack(p4r.Uint128(low=1))
    (error,) = errors(bench, message)
    assert error.canonical_code == Code.UNIMPLEMENTED


def test_16_6_the_message_that_was_wrong_is_named(bench):
    wrong = packet_out(EGRESS)
    (error,) = errors(bench, wrong)
    assert error.WhichOneof("details") == "packet_out"
    assert error.packet_out.packet_out == wrong.packet
    assert error.message


def test_16_6_a_digest_id_that_the_p4info_lacks(bench):
    (error,) = errors(bench, digest_ack(7))
    assert error.canonical_code == Code.INVALID_ARGUMENT
    assert error.digest_list_ack.digest_list_ack.digest_id == 7


def test_16_6_an_unknown_list_is_no_error(bench):
    assert errors(bench, digest_ack(bench.id("learn_t"), list_id=99)) == []


def test_16_6_arbitration_errors_end_the_stream_instead(bench):
    with pytest.raises(P4RuntimeError) as info:
        bench.stream.receive(arbitration(1, device_id=DEVICE + 1))
    assert info.value.code is Code.FAILED_PRECONDITION
    assert bench.heard == []


def test_16_6_other_errors_do_not(bench):
    errors(bench, packet_out(EGRESS))
    bench.heard.clear()
    assert errors(bench, packet_out(EGRESS, PAD)) == []


# --- 18.1 translation -----------------------------------------------------------------------------

#: The controller calls port 3 by 32 bits, and VRF 5 by a name.
TABLES = {"test/port": {0x01000003: 3}, "vrf_t": {"red": 5}}
PORT = b"\1\0\0\3"


@pytest.fixture
def mapped():
    translation = TranslationOptions(TABLES, port_type="sdn_port_t")
    return Bench(options=ServiceOptions(translation=translation))


def translated(bench, port=PORT, vrf=b"red"):
    act = action(bench.id("set_port"), port, vrf)
    return table_entry(
        bench.id("translated_t"), exact(1, port), optional(2, vrf), act=act, priority=1
    )


def test_18_1_3_and_18_1_4_match_fields_and_parameters(mapped):
    assert mapped.insert(translated(mapped)) == ["OK"]
    (entry,) = mapped.switch.state.by_name("I.translated_t").entries()
    assert (entry.key, entry.args) == ((3, 5), (3, 5))
    assert mapped.read(table_entry(mapped.id("translated_t"))) == [translated(mapped)]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"port": b"\3"}, "INVALID_ARGUMENT"),
        ({"vrf": b"blue"}, "INVALID_ARGUMENT"),
        ({"port": b"\1\0\0\0\3"}, "OUT_OF_RANGE"),
    ],
    ids=["a port without translation", "a name without translation", "more than 32 bits"],
)
def test_18_1_values_that_cannot_be_translated(mapped, fields, code):
    assert mapped.insert(translated(mapped, **fields)) == [code]


def clone(port):
    session = {"session_id": 3, "replicas": [{"port": port, "instance": 1}]}
    return p4r.Entity(packet_replication_engine_entry={"clone_session_entry": session})


def test_18_1_5_ports_of_replicas(mapped):
    assert mapped.insert(clone(PORT)) == ["OK"]
    assert [r.port for r in mapped.switch.replication.session(3).replicas] == [3]
    assert mapped.read(clone(PORT)) == [clone(PORT)]


def test_18_1_5_watch_ports(mapped):
    entry = table_entry(
        mapped.id("spread_t"),
        exact(1, b"\1"),
        action={
            "action_profile_action_set": {
                "action_profile_actions": [
                    {
                        "action": action(mapped.id("forward"), b"\2"),
                        "weight": 1,
                        "watch_port": PORT,
                    }
                ]
            }
        },
    )
    assert mapped.insert(entry) == ["OK"]
    assert mapped.read(table_entry(mapped.id("spread_t"))) == [entry]


def test_18_1_1_the_cpu_port_is_known_by_its_reserved_number():
    identity = ServiceOptions(translation=TranslationOptions(port_type="sdn_port_t"))
    for bench in (Bench(), Bench(options=identity)):
        assert bench.insert(clone(b"\xff\xff\xff\xfd")) == ["OK"]
        assert [r.port for r in bench.switch.replication.session(3).replicas] == [CPU_PORT]


@pytest.fixture
def headers():
    """kitchen.p4 with a translated port in both controller headers."""
    text = (
        KITCHEN.read_text()
        .replace("bit<9> ingress_port;", "sdn_port_t ingress_port;")
        .replace("bit<9> egress_port;", "sdn_port_t egress_port;")
        .replace("s.egress_spec = h.pout", "s.egress_spec = (bit<9>)h.pout")
        .replace(
            "h.pin.ingress_port = s.ingress_port", "h.pin.ingress_port = (sdn_port_t)s.ingress_port"
        )
    )
    return Bench(compiled(text), options=ServiceOptions(translation=TranslationOptions(TABLES)))


def test_18_1_2_packet_out(headers):
    assert errors(headers, packet_out((1, PORT), PAD)) == []
    assert headers.sent == [(3, frame())]


def test_18_1_2_packet_in(headers):
    headers.send(3, frame())
    (message,) = headers.heard
    assert message.packet.metadata[0].value == PORT


@pytest.fixture
def indexed():
    """Counters indexed by a translated type, as P4Info has it for v1model of 2020."""
    p4info = p4i.P4Info()
    p4info.CopyFrom(kitchen().p4info)
    p4info.counters[0].index_type_name.name = "sdn_port_t"
    program = replace(kitchen(), p4info=p4info)
    return Bench(program, options=ServiceOptions(translation=TranslationOptions(TABLES)))


def test_18_1_6_indices(indexed):
    entity = p4r.Entity(
        counter_entry={
            "counter_id": indexed.id("hits"),
            "index": {"index": 0x01000003},
            "data": {"packet_count": 5},
        }
    )
    assert indexed.modify(entity) == ["OK"]
    assert indexed.switch.state.by_name("I.hits").cell(3).packets == 5
    assert indexed.read(entity) == [entity]
