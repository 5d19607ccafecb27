"""Write, Read, Capabilities and streams: order of checks, batches, atomicity, roles."""

import threading

import pytest
from finsy.proto import U128, p4r, stratum
from p4runtime_kit import (
    DEVICE,
    Bench,
    action,
    arbitration,
    exact,
    frame,
    table_entry,
)

from sglb.switch.clock import PS_PER_NS
from sglb.switch.p4runtime.service import ServiceOptions
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.tables import Table

Write = p4r.WriteRequest
ATOMICITIES = (Write.CONTINUE_ON_ERROR, Write.ROLLBACK_ON_ERROR)


@pytest.fixture
def bench():
    return Bench()


def entry(bench, key, port=2):
    act = action(bench.id("forward"), bytes([port]))
    return table_entry(bench.id("exact_t"), exact(1, bytes([key])), act=act)


def bad(bench, key=1):
    """An entry that is refused with INVALID_ARGUMENT."""
    return table_entry(bench.id("exact_t"), exact(1, bytes([key])))


def code_of(call):
    with pytest.raises(P4RuntimeError) as info:
        call()
    assert info.value.details == ()
    return info.value.code.name


# --- Write ----------------------------------------------------------------------------------------


def test_checks_come_in_the_order_of_the_specification():
    bench = Bench(empty=True)
    one = U128.encode(1)
    wrong = U128.encode(2)
    for fields, code in [
        ({"device_id": 9, "role": "x", "election_id": wrong}, "NOT_FOUND"),
        ({"role": "x", "election_id": wrong}, "NOT_FOUND"),
        ({"election_id": wrong}, "PERMISSION_DENIED"),
        ({"election_id": None}, "PERMISSION_DENIED"),
        ({"election_id": one}, "FAILED_PRECONDITION"),
    ]:
        assert bench.write(**fields) == [code]


def test_nobody_writes_after_the_primary_left(bench):
    bench.stream.close()
    assert bench.insert(entry(bench, 1)) == ["PERMISSION_DENIED"]


def test_old_primary_is_shut_out(bench):
    bench.service.open_stream(lambda _: None).receive(arbitration(7))
    assert bench.insert(entry(bench, 1)) == ["PERMISSION_DENIED"]
    assert bench.insert(entry(bench, 1), election_id=U128.encode(7)) == ["OK"]


def test_one_error_an_update_in_order(bench):
    updates = [
        p4r.Update(type=p4r.Update.INSERT, entity=entry(bench, 1)),
        p4r.Update(type=p4r.Update.INSERT, entity=entry(bench, 1)),
        p4r.Update(type=p4r.Update.UNSPECIFIED, entity=entry(bench, 2)),
        p4r.Update(type=9, entity=entry(bench, 2)),
        p4r.Update(type=p4r.Update.INSERT),
        p4r.Update(type=p4r.Update.INSERT, entity={"extern_entry": {}}),
        p4r.Update(type=p4r.Update.INSERT, entity=entry(bench, 3)),
    ]
    assert bench.write(*updates) == [
        "OK",
        "ALREADY_EXISTS",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        "UNIMPLEMENTED",
        "OK",
    ]
    assert len(bench.read(table_entry(bench.id("exact_t")))) == 2


def test_an_empty_batch_is_fine(bench):
    assert bench.write() == []


@pytest.mark.parametrize("atomicity", [Write.ROLLBACK_ON_ERROR, Write.DATAPLANE_ATOMIC])
def test_all_or_nothing(bench, atomicity):
    before = bench.everything()
    assert bench.insert(
        entry(bench, 1), entry(bench, 2), bad(bench), entry(bench, 3), atomicity=atomicity
    ) == ["ABORTED", "ABORTED", "INVALID_ARGUMENT", "ABORTED"]
    assert bench.everything() == before
    assert bench.insert(entry(bench, 1), entry(bench, 2), atomicity=atomicity) == ["OK", "OK"]


class Turns:
    """A switch's lock that counts how often others could have had it."""

    def __init__(self):
        self.turns = 0

    def __enter__(self):
        pass

    def __exit__(self, *_):
        self.turns += 1


@pytest.mark.parametrize(
    ("atomicity", "turns"),
    [(Write.CONTINUE_ON_ERROR, 4), (Write.ROLLBACK_ON_ERROR, 1), (Write.DATAPLANE_ATOMIC, 1)],
)
def test_packets_wait_for_an_update_or_for_a_batch_of_all_or_nothing(bench, atomicity, turns):
    lock = bench.switch.lock = Turns()
    bench.insert(*(entry(bench, key) for key in range(3)), bad(bench, 3), atomicity=atomicity)
    assert lock.turns == turns


def test_unknown_atomicity(bench):
    assert bench.insert(entry(bench, 1), atomicity=9) == ["INVALID_ARGUMENT"]


def every_kind(bench):
    """Updates of every kind, for a switch on which `prepare` has run."""
    profile, hits, police = bench.id("spread"), bench.id("hits"), bench.id("police")
    act = action(bench.id("forward"), b"\x03")
    member = {"action_profile_id": profile, "member_id": 1, "action": act}
    group = {"action_profile_id": profile, "group_id": 1, "max_size": 6}
    named = {"table_id": bench.id("exact_t"), "match": [exact(1, b"\x0a")]}
    changed = {"table_entry": {**named, "action": {"action": action(bench.id("drop"))}}}
    config = {"cir": 9, "pir": 9}
    replicas = [{"port": b"\x04"}]
    digest = {"digest_id": bench.id("learn_t"), "config": {"max_list_size": 5}}
    default = {"table_id": bench.id("exact_t"), "is_default_action": True}
    values = [{"match": [exact(1, b"\x01\x02")]}]
    modify = [
        {"action_profile_member": member},
        {"action_profile_group": {**group, "members": [{"member_id": 1, "weight": 3}]}},
        {"table_entry": {**default, "action": {"action": act}, "metadata": b"x"}},
        {"table_entry": default},
        changed,
        {"direct_counter_entry": {"table_entry": named, "data": {"packet_count": 8}}},
        {"direct_meter_entry": {"table_entry": named, "config": config}},
        {"counter_entry": {"counter_id": hits, "data": {"packet_count": 4}}},
        {"meter_entry": {"meter_id": police, "config": config}},
        {"register_entry": {"register_id": bench.id("plain"), "data": {"bitstring": b"\x07"}}},
        {"value_set_entry": {"value_set_id": bench.id("body_types"), "members": values}},
        {"digest_entry": digest},
        pre(multicast_group_entry={"multicast_group_id": 1, "replicas": replicas}),
        pre(clone_session_entry={"session_id": 1, "replicas": replicas}),
    ]
    delete = [
        {"table_entry": {"table_id": bench.id("spread_t"), "match": [exact(1, b"\x01")]}},
        {"action_profile_group": group},
        {"action_profile_member": member},
        changed,
        {"digest_entry": digest},
        pre(multicast_group_entry={"multicast_group_id": 1}),
        pre(clone_session_entry={"session_id": 1}),
    ]
    insert = [
        {"action_profile_member": member},
        {"action_profile_group": {**group, "members": [{"member_id": 1, "weight": 1}]}},
        changed,
        {"digest_entry": digest},
        pre(multicast_group_entry={"multicast_group_id": 1, "replicas": replicas}),
        pre(clone_session_entry={"session_id": 1, "replicas": replicas}),
    ]
    kinds = ((p4r.Update.MODIFY, modify), (p4r.Update.DELETE, delete), (p4r.Update.INSERT, insert))
    return [p4r.Update(type=t, entity=p4r.Entity(**e)) for t, entities in kinds for e in entities]


def pre(**kind):
    return {"packet_replication_engine_entry": kind}


def prepare(bench):
    profile = bench.id("spread")
    act = action(bench.id("forward"), b"\x02")
    config = {"cir": 1, "cburst": 2, "pir": 3, "pburst": 4}
    entities = [
        {"action_profile_member": {"action_profile_id": profile, "member_id": 1, "action": act}},
        {
            "action_profile_group": {
                "action_profile_id": profile,
                "group_id": 1,
                "max_size": 6,
                "members": [{"member_id": 1, "weight": 2, "watch_port": b"\x01"}],
            }
        },
        {
            "table_entry": {
                "table_id": bench.id("spread_t"),
                "match": [exact(1, b"\x01")],
                "action": {"action_profile_group_id": 1},
            }
        },
        {
            "table_entry": {
                "table_id": bench.id("exact_t"),
                "match": [exact(1, b"\x0a")],
                "action": {"action": act},
                "metadata": b"m",
                "controller_metadata": 3,
                "counter_data": {"packet_count": 2},
                "meter_config": config,
            }
        },
        {"digest_entry": {"digest_id": bench.id("learn_t"), "config": {"max_list_size": 2}}},
        pre(multicast_group_entry={"multicast_group_id": 1, "replicas": [{"port": b"\x01"}]}),
        pre(clone_session_entry={"session_id": 1, "replicas": [{"port": b"\x01"}]}),
    ]
    assert set(bench.insert(*(p4r.Entity(**e) for e in entities))) == {"OK"}
    bench.modify(
        p4r.Entity(meter_entry={"meter_id": bench.id("police"), "config": config}),
        p4r.Entity(
            value_set_entry={
                "value_set_id": bench.id("body_types"),
                "members": [{"match": [exact(1, b"\x08\0")]}],
            }
        ),
    )


def test_every_kind_of_update_is_rolled_back(bench):
    prepare(bench)
    before = bench.everything()
    updates = every_kind(bench)
    assert set(bench.write(*updates)) == {"OK"}
    after = bench.everything()
    fresh = Bench()
    prepare(fresh)
    failing = p4r.Update(type=p4r.Update.INSERT, entity=bad(fresh, 9))
    codes = fresh.write(*updates, failing, atomicity=Write.ROLLBACK_ON_ERROR)
    assert codes == ["ABORTED"] * len(updates) + ["INVALID_ARGUMENT"]
    assert fresh.everything() == before != after
    # What was put back works: the deleted group still selects, references still count.
    assert set(fresh.write(*updates, atomicity=Write.ROLLBACK_ON_ERROR)) == {"OK"}
    assert fresh.everything() == after


# --- Read -----------------------------------------------------------------------------------------


def test_read_checks():
    bench = Bench(empty=True)
    assert code_of(lambda: bench.service.read(p4r.ReadRequest(device_id=9))) == "NOT_FOUND"
    ask = p4r.ReadRequest(device_id=DEVICE, entities=[table_entry(0)])
    assert code_of(lambda: bench.service.read(ask)) == "FAILED_PRECONDITION"
    ask.role = "x"
    assert code_of(lambda: bench.service.read(ask)) == "NOT_FOUND"


def test_reading_needs_no_stream(bench):
    bench.stream.close()
    assert len(bench.read(table_entry(0))) == 4


def test_good_requests_are_answered_before_the_error(bench):
    """The specification's example: b and d are wrong, a and c are answered."""
    request = p4r.ReadRequest(device_id=DEVICE)
    started, const = bench.id("started_t"), bench.id("const_t")
    request.entities.extend(
        [table_entry(started), p4r.Entity(), table_entry(const), table_entry(0x02999999)]
    )
    answer = bench.service.read(request)
    found = [e.table_entry.table_id for e in next(answer).entities]
    with pytest.raises(P4RuntimeError) as info:
        next(answer)
    assert found == [started, started, const, const]
    assert info.value.code is Code.UNKNOWN
    assert [d.canonical_code for d in info.value.details] == [0, 3, 0, 3]


def test_large_answers_come_in_chunks():
    bench = Bench(options=ServiceOptions(read_chunk=3))
    request = p4r.ReadRequest(device_id=DEVICE, entities=[p4r.Entity(counter_entry={})])
    assert [len(r.entities) for r in bench.service.read(request)] == [3, 1]


def test_what_is_read_is_of_one_moment(bench):
    bench.insert(entry(bench, 1))
    request = p4r.ReadRequest(device_id=DEVICE, entities=[table_entry(bench.id("exact_t"))])
    answer = bench.service.read(request)
    bench.delete(entry(bench, 1))
    assert [e for r in answer for e in r.entities] == [entry(bench, 1)]


def test_externs(bench):
    assert bench.read(p4r.Entity(extern_entry={})) == []
    assert bench.read_code(p4r.Entity(extern_entry={"extern_type_id": 0x81})) == [
        "INVALID_ARGUMENT"
    ]


# --- Capabilities, device ids ---------------------------------------------------------------------


def test_capabilities(bench):
    assert bench.service.capabilities().p4runtime_api_version == "1.5.0"
    ask = p4r.CapabilitiesRequest(device_id=DEVICE)
    assert bench.service.capabilities(ask).p4runtime_api_version == "1.5.0"
    ask.device_id = 9
    assert code_of(lambda: bench.service.capabilities(ask)) == "NOT_FOUND"


def test_device_id_zero():
    with pytest.raises(ValueError, match="s1: P4Runtime forbids device_id 0"):
        Bench(device_id=0)
    bench = Bench(device_id=0, options=ServiceOptions(allow_device_id_zero=True))
    assert bench.insert(entry(bench, 1)) == ["OK"]


# --- packets --------------------------------------------------------------------------------------


def packet_out(payload, *metadata):
    return p4r.StreamMessageRequest(
        packet=p4r.PacketOut(
            payload=payload, metadata=[{"metadata_id": i, "value": v} for i, v in metadata]
        )
    )


def test_packet_out_leaves_where_its_metadata_says(bench):
    bench.stream.receive(packet_out(frame(), (1, b"\x03"), (2, b"\0")))
    bench.clock.run()
    assert bench.sent == [(3, frame())]
    assert bench.heard == []


BAD_PACKETS = [
    ([(1, b"\x03")], "INVALID_ARGUMENT"),  # the padding is missing
    ([(1, b"\x03"), (2, b"\0"), (3, b"\0")], "INVALID_ARGUMENT"),
    ([(1, b"\x03"), (1, b"\x03"), (2, b"\0")], "INVALID_ARGUMENT"),
    ([(1, b"\x02\0"), (2, b"\0")], "OUT_OF_RANGE"),
    ([(1, b""), (2, b"\0")], "OUT_OF_RANGE"),
]


@pytest.mark.parametrize(("metadata", "code"), BAD_PACKETS)
def test_bad_packet_outs_are_dropped_with_an_error(bench, metadata, code):
    message = packet_out(b"payload", *metadata)
    bench.stream.receive(message)
    bench.clock.run()
    (heard,) = bench.heard
    assert Code(heard.error.canonical_code).name == code
    assert heard.error.packet_out.packet_out == message.packet
    assert heard.error.message
    assert bench.sent == []


def test_packets_of_others_are_dropped(bench):
    heard = []
    backup = bench.service.open_stream(heard.append)
    for stream_is_known in (False, True):
        if stream_is_known:
            backup.receive(arbitration(0))
            heard.clear()
        backup.receive(packet_out(frame(), (1, b"\x03"), (2, b"\0")))
        bench.clock.run()
        assert [m.error.canonical_code for m in heard] == [Code.PERMISSION_DENIED]
        heard.clear()
    assert bench.sent == []


def test_packet_in_to_the_primary_only(bench):
    heard = []
    bench.service.open_stream(heard.append).receive(arbitration(0))
    heard.clear()
    bench.send(4, frame(dst=9))
    (message,) = bench.heard
    values = [(m.metadata_id, m.value) for m in message.packet.metadata]
    assert values == [(1, b"\x04"), (2, b"\x01"), (3, b"\0")]
    assert message.packet.payload == frame(dst=9)
    assert heard == []


def test_packet_ins_without_a_primary_are_counted(bench):
    bench.stream.close()
    bench.send(4, frame())
    assert bench.service.lost_packet_ins == 1


def test_frames_too_short_for_the_header_are_counted(bench):
    bench.insert(pre_clone(1))
    bench.modify(
        table_entry(
            bench.id("exact_t"),
            act=action(bench.id("mirror"), b"\x01"),
            is_default_action=True,
        )
    )
    bench.send(1, frame())
    assert bench.service.lost_packet_ins == 1
    assert bench.heard == []


def pre_clone(session_id):
    """A session that sends one byte to the CPU port."""
    session = {
        "session_id": session_id,
        "replicas": [{"port": b"\x01\xfe"}],
        "packet_length_bytes": 1,
    }
    return p4r.Entity(packet_replication_engine_entry={"clone_session_entry": session})


# --- other stream messages ------------------------------------------------------------------------


def test_other_messages_are_refused(bench):
    message = p4r.StreamMessageRequest()
    message.other.Pack(p4r.Uint128(low=1))
    bench.stream.receive(message)
    bench.stream.receive(p4r.StreamMessageRequest())
    unknown, empty = bench.heard
    assert unknown.error.canonical_code == Code.UNIMPLEMENTED
    assert unknown.error.other.other == message.other
    assert empty.error.canonical_code == Code.INVALID_ARGUMENT


def test_a_refused_arbitration_ends_the_stream(bench):
    assert code_of(lambda: bench.stream.receive(arbitration(1, device_id=9)))
    assert code_of(lambda: bench.stream.receive(packet_out(b""))) == "FAILED_PRECONDITION"
    assert bench.insert(entry(bench, 1)) == ["PERMISSION_DENIED"]


def test_port_states_in_process(bench):
    seen = []
    bench.service.on_port_state(lambda port, up: seen.append((bench.clock.now_ps, port, up)))
    assert bench.service.port_states() == dict.fromkeys(range(1, 10), True)
    bench.switch.set_port_state(3, False)
    bench.clock.run()
    delay = bench.switch.config.port_down_detection_ps
    assert seen == [(delay, 3, False)]
    assert bench.service.port_states()[3] is False


# --- digests --------------------------------------------------------------------------------------


def digest_entry(bench, **config):
    return p4r.Entity(digest_entry={"digest_id": bench.id("learn_t"), "config": config})


def lists(bench):
    return [m.digest for m in bench.heard if m.HasField("digest")]


def learn(bench):
    act = action(bench.id("learn"))
    bench.modify(table_entry(bench.id("exact_t"), act=act, is_default_action=True))


def test_digest_entries(bench):
    entry = digest_entry(bench, max_timeout_ns=5, max_list_size=2, ack_timeout_ns=9)
    assert bench.modify(entry) == ["NOT_FOUND"]
    assert bench.delete(entry) == ["NOT_FOUND"]
    assert bench.insert(entry) == ["OK"]
    assert bench.insert(entry) == ["ALREADY_EXISTS"]
    assert bench.read(p4r.Entity(digest_entry={})) == [entry]
    assert bench.modify(digest_entry(bench)) == ["OK"]
    assert bench.read(digest_entry(bench)) == [digest_entry(bench)]
    assert bench.delete(entry) == ["OK"]
    assert bench.read(p4r.Entity(digest_entry={})) == []
    unknown = p4r.Entity(digest_entry={"digest_id": 5})
    assert bench.insert(unknown) == ["INVALID_ARGUMENT"]
    assert bench.read_code(unknown) == ["INVALID_ARGUMENT"]
    assert bench.insert(digest_entry(bench, max_list_size=-1)) == ["INVALID_ARGUMENT"]


def test_digest_lists_and_acknowledgement(bench):
    learn(bench)
    bench.insert(digest_entry(bench, max_list_size=2, max_timeout_ns=10**6, ack_timeout_ns=10**9))
    for src in (1, 1, 2):
        bench.switch.receive(4, frame(src=src))
    (first,) = lists(bench)
    assert (first.digest_id, first.list_id) == (bench.id("learn_t"), 1)
    macs = [[m.bitstring for m in d.struct.members] for d in first.data]
    assert macs == [[b"\x01", b"\x04"], [b"\x02", b"\x04"]]
    for src in (1, 2):  # not acknowledged yet: not sent again
        bench.switch.receive(4, frame(src=src))
    ack = p4r.DigestListAck(digest_id=first.digest_id, list_id=1)
    bench.stream.receive(p4r.StreamMessageRequest(digest_ack=ack))
    bench.switch.receive(4, frame(src=2))
    start_ps = bench.clock.now_ps
    bench.clock.run(until_ps=start_ps + 10**6 * PS_PER_NS)
    second = lists(bench)[1]
    assert (second.list_id, len(second.data)) == (2, 1)
    assert second.timestamp == start_ps // PS_PER_NS + 10**6


def test_acknowledging_what_does_not_exist(bench):
    ack = p4r.DigestListAck(digest_id=5, list_id=1)
    bench.stream.receive(p4r.StreamMessageRequest(digest_ack=ack))
    (heard,) = bench.heard
    assert heard.error.canonical_code == Code.INVALID_ARGUMENT
    assert heard.error.digest_list_ack.digest_list_ack == ack


def test_time_stamps_count_from_the_epoch():
    bench = Bench(options=ServiceOptions(epoch_ns=10**18))
    learn(bench)
    bench.insert(digest_entry(bench))
    bench.switch.receive(4, frame(src=1))
    assert lists(bench)[0].timestamp == 10**18


# --- value sets -----------------------------------------------------------------------------------


def value_set(bench, *values):
    members = [{"match": [exact(1, v)]} for v in values]
    return p4r.Entity(value_set_entry={"value_set_id": bench.id("body_types"), "members": members})


def test_value_sets(bench):
    assert bench.read(p4r.Entity(value_set_entry={})) == [value_set(bench)]
    assert bench.modify(value_set(bench, b"\0\x01", b"\x02")) == ["OK"]
    assert bench.read(value_set(bench)) == [value_set(bench, b"\x01", b"\x02")]
    for update in (bench.insert, bench.delete):
        assert update(value_set(bench, b"\x03")) == ["INVALID_ARGUMENT"]
    for values, code in [
        ((b"\x01", b"\0\x01"), "ALREADY_EXISTS"),
        ((b"\x01", b"\x02", b"\x03", b"\x04"), "RESOURCE_EXHAUSTED"),
        ((b"",), "OUT_OF_RANGE"),
        ((b"\x01\0\0",), "OUT_OF_RANGE"),
    ]:
        assert bench.modify(value_set(bench, *values)) == [code]
    unset = p4r.Entity(value_set_entry={"value_set_id": bench.id("body_types"), "members": [{}]})
    assert bench.modify(unset) == ["INVALID_ARGUMENT"]  # an exact match can't be left out
    assert bench.read(value_set(bench)) == [value_set(bench, b"\x01", b"\x02")]
    assert bench.modify(value_set(bench)) == ["OK"]
    assert bench.read(value_set(bench)) == [value_set(bench)]


# --- roles ----------------------------------------------------------------------------------------


def role(bench, name="r", **config):
    made = p4r.Role(name=name)
    made.config.Pack(stratum.P4RoleConfig(**config))
    heard = []
    stream = bench.service.open_stream(heard.append)
    stream.receive(arbitration(1, role=made))
    heard.clear()
    return stream, heard


def test_a_role_writes_and_reads_its_objects_only(bench):
    bench.insert(entry(bench, 1))
    role(bench, exclusive_p4_ids=[bench.id("exact_t")], shared_p4_ids=[bench.id("hits")])
    lpm = table_entry(bench.id("lpm_t"), act=action(bench.id("drop")))
    counter = p4r.Entity(counter_entry={"counter_id": bench.id("hits")})
    assert bench.insert(entry(bench, 2), lpm, pre_clone(1), role="r") == [
        "OK",
        "PERMISSION_DENIED",
        "PERMISSION_DENIED",
    ]
    assert bench.modify(counter, role="r") == ["OK"]
    request = p4r.ReadRequest(device_id=DEVICE, role="r", entities=[table_entry(0)])
    found = [e for r in bench.service.read(request) for e in r.entities]
    assert {e.table_entry.table_id for e in found} == {bench.id("exact_t")}


def test_a_role_without_a_config_may_do_everything(bench):
    stream = bench.service.open_stream(lambda _: None)
    stream.receive(arbitration(1, role=p4r.Role(name="all")))
    assert bench.insert(entry(bench, 1), pre_clone(1), role="all") == ["OK", "OK"]


def test_packet_ins_by_role(bench):
    _, none = role(bench, "none", receives_packet_ins=False)
    _, some = role(
        bench,
        "some",
        receives_packet_ins=True,
        packet_in_filter={"metadata_id": 1, "value": b"\0\x04"},
    )
    bench.send(4, frame())
    bench.send(5, frame())
    assert (len(bench.heard), len(some), len(none)) == (2, 1, 0)


def test_pushing_a_pipeline_by_role(bench):
    role(bench, can_push_pipeline=False)
    request = p4r.SetForwardingPipelineConfigRequest(
        device_id=DEVICE, role="r", election_id=U128.encode(1)
    )
    code = code_of(lambda: bench.service.set_forwarding_pipeline_config(request))
    assert code == "PERMISSION_DENIED"


def test_idle_and_digest_messages_by_role(bench):
    _, mine = role(bench, "mine", shared_p4_ids=[bench.id("exact_t"), bench.id("learn_t")])
    _, other = role(bench, "other", shared_p4_ids=[bench.id("lpm_t")])
    learn(bench)
    idle = entry(bench, 1)
    idle.table_entry.idle_timeout_ns = 100
    bench.insert(idle, digest_entry(bench))
    bench.switch.receive(1, frame(dst=7))
    bench.clock.run(until_ps=150 * PS_PER_NS)
    assert [m.WhichOneof("update") for m in mine] == ["digest", "idle_timeout_notification"]
    assert other == []


# --- other threads --------------------------------------------------------------------------------


@pytest.mark.parametrize("atomicity", ATOMICITIES)
def test_no_packet_of_another_thread_runs_between_the_updates_of_a_request(
    bench, monkeypatch, atomicity
):
    free = []

    def try_to_run():
        free.append(bench.switch.lock.acquire(blocking=False))
        if free[-1]:
            bench.switch.lock.release()

    def in_another_thread():
        thread = threading.Thread(target=try_to_run)
        thread.start()
        thread.join()

    insert = Table.insert_known

    def watched(self, *arguments, **named):
        in_another_thread()
        result = insert(self, *arguments, **named)
        in_another_thread()
        return result

    monkeypatch.setattr(Table, "insert_known", watched)
    assert bench.insert(entry(bench, 1), entry(bench, 2), atomicity=atomicity) == ["OK", "OK"]
    in_another_thread()
    assert free == [False] * 4 + [True]
