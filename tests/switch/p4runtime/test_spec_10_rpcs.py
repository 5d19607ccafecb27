"""P4Runtime 1.5, sections 10 to 15 and 17: the unary RPCs. Tests are named by their section."""

import pytest
from finsy.proto import U128, p4i, p4r
from p4runtime_kit import (
    DEVICE,
    KITCHEN,
    Bench,
    action,
    arbitration,
    exact,
    frame,
    kitchen,
    table_entry,
)

from sglb.switch.p4runtime.service import ServiceOptions
from sglb.switch.p4runtime.status import Code, P4RuntimeError, details_of

Write = p4r.WriteRequest
Set = p4r.SetForwardingPipelineConfigRequest
Get = p4r.GetForwardingPipelineConfigRequest
ALL_OR_NONE = (Write.ROLLBACK_ON_ERROR, Write.DATAPLANE_ATOMIC)


class Kitchen(Bench):
    """Entries of exact_t, which forward to port 2, and one that is refused."""

    def entry(self, key, port=2):
        act = action(self.id("forward"), bytes([port]))
        return table_entry(self.id("exact_t"), exact(1, bytes([key])), act=act)

    def bad(self, key=9):
        return table_entry(self.id("exact_t"), exact(1, bytes([key])))

    def keys(self):
        found = self.read(table_entry(self.id("exact_t")))
        return [e.table_entry.match[0].exact.value[0] for e in found]

    def push(self, what, config=None, **fields):
        """A pipeline config; the code of the outcome."""
        request = Set(
            **{"device_id": DEVICE, "election_id": U128.encode(1), "action": what, **fields}
        )
        if config is not None:
            request.config.CopyFrom(config)
        return code(lambda: self.service.set_forwarding_pipeline_config(request))

    def config(self, response_type=Get.ALL):
        request = Get(device_id=DEVICE, response_type=response_type)
        return self.service.get_forwarding_pipeline_config(request)


def code(call):
    """The code of an RPC that is refused as a whole (it has no details then), or OK."""
    try:
        call()
    except P4RuntimeError as error:
        return "DETAILS" if error.details else error.code.name
    return "OK"


def failure(call):
    with pytest.raises(P4RuntimeError) as info:
        call()
    return info.value


def updates(*entities, kind=p4r.Update.INSERT):
    return [p4r.Update(type=kind, entity=e) for e in entities]


def pipeline(p4info=None, **fields):
    return p4r.ForwardingPipelineConfig(
        p4info=p4info or kitchen().p4info, p4_device_config=KITCHEN.read_bytes(), **fields
    )


def wrong():
    """A config that cannot be realized: its P4Info is another program's."""
    return pipeline(p4i.P4Info(pkg_info={"arch": "v1model"}))


@pytest.fixture
def bench():
    return Kitchen()


# --- 10, 12.3 error reporting ---------------------------------------------------------------------


def test_10_code_and_message_are_those_of_the_status(bench):
    error = failure(lambda: bench.service.write(bench.request(updates(bench.bad()))))
    status = error.to_status()
    assert (status.code, status.message) == (error.code, error.message)
    assert details_of(status) == list(error.details)


def test_12_3_1_all_succeeded(bench):
    assert bench.service.write(bench.request(updates(bench.entry(1)))) == p4r.WriteResponse()


def test_12_3_2_an_error_before_any_update_has_no_details(bench):
    request = bench.request(updates(bench.entry(1)), device_id=DEVICE + 1)
    assert code(lambda: bench.service.write(request)) == "NOT_FOUND"


def test_12_3_3_unknown_with_an_error_an_update_in_their_order(bench):
    request = bench.request(updates(bench.bad(), bench.entry(1), bench.entry(1)))
    error = failure(lambda: bench.service.write(request))
    assert error.code is Code.UNKNOWN
    assert [Code(d.canonical_code).name for d in error.details] == [
        "INVALID_ARGUMENT",
        "OK",
        "ALREADY_EXISTS",
    ]
    assert error.details[1] == p4r.Error()
    assert error.details[0].message


# --- 12 Write -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"device_id": 9, "role": "x", "election_id": U128.encode(9)}, "NOT_FOUND"),
        ({"role": "x", "election_id": U128.encode(9)}, "NOT_FOUND"),
        ({"election_id": U128.encode(9)}, "PERMISSION_DENIED"),
        ({"election_id": None}, "PERMISSION_DENIED"),
        ({}, "FAILED_PRECONDITION"),
    ],
    ids=["device", "role", "election id", "no election id", "no pipeline"],
)
def test_12_checks_in_their_order(fields, expected):
    assert Kitchen(empty=True).write(p4r.Update(), **fields) == [expected]


def test_12_a_type_is_needed(bench):
    update = p4r.Update(type=p4r.Update.UNSPECIFIED, entity=bench.entry(1))
    assert bench.write(update) == ["INVALID_ARGUMENT"]


def test_12_an_entity_is_needed(bench):
    assert bench.insert(p4r.Entity()) == ["INVALID_ARGUMENT"]


def test_12_insert_of_what_exists_leaves_it_unchanged(bench):
    bench.insert(bench.entry(1, port=2))
    assert bench.insert(bench.entry(1, port=3)) == ["ALREADY_EXISTS"]
    assert bench.read(table_entry(bench.id("exact_t"))) == [bench.entry(1, port=2)]


def test_12_modify_and_delete_need_what_exists(bench):
    assert bench.modify(bench.entry(1)) == ["NOT_FOUND"]
    assert bench.delete(bench.entry(1)) == ["NOT_FOUND"]


# --- 12.1, 12.2 batches ---------------------------------------------------------------------------


def test_12_1_a_batch_may_mix_kinds_of_entities(bench):
    counter = p4r.Entity(counter_entry={"counter_id": bench.id("hits"), "data": {}})
    batch = updates(bench.entry(1)) + updates(counter, kind=p4r.Update.MODIFY)
    assert bench.write(*batch) == ["OK", "OK"]


def test_12_2_continue_on_error_is_the_default(bench):
    assert bench.insert(bench.bad(), bench.entry(1), bench.bad(), bench.entry(2)) == [
        "INVALID_ARGUMENT",
        "OK",
        "INVALID_ARGUMENT",
        "OK",
    ]
    assert bench.keys() == [1, 2]


@pytest.mark.parametrize("atomicity", ALL_OR_NONE)
def test_12_2_all_or_none(bench, atomicity):
    bench.insert(bench.entry(1))
    before = bench.everything()
    batch = [
        *updates(bench.entry(2), bench.entry(3)),
        *updates(bench.entry(1, port=7), kind=p4r.Update.MODIFY),
        *updates(bench.entry(1), kind=p4r.Update.DELETE),
        *updates(bench.bad()),
    ]
    assert bench.write(*batch, atomicity=atomicity)[-1] == "INVALID_ARGUMENT"
    assert bench.everything() == before


@pytest.mark.parametrize("atomicity", ALL_OR_NONE)
def test_12_2_all_if_there_is_no_error(bench, atomicity):
    assert bench.insert(bench.entry(1), bench.entry(2), atomicity=atomicity) == ["OK", "OK"]
    assert bench.keys() == [1, 2]


def test_12_2_an_unknown_atomicity(bench):
    assert bench.insert(bench.entry(1), atomicity=9) == ["INVALID_ARGUMENT"]


def test_12_1_when_write_returns_the_data_plane_has_it(bench):
    bench.insert(bench.entry(1))
    bench.send(9, frame(dst=1))
    assert [port for port, _ in bench.sent] == [2]


# --- 13 Read --------------------------------------------------------------------------------------


def read_code(bench, **fields):
    request = p4r.ReadRequest(**{"device_id": DEVICE, **fields})
    return code(lambda: list(bench.service.read(request)))


def test_13_an_unknown_device(bench):
    assert read_code(bench, device_id=DEVICE + 1) == "NOT_FOUND"


def test_13_without_a_pipeline():
    assert read_code(Kitchen(empty=True)) == "FAILED_PRECONDITION"


def test_13_neither_session_nor_election_id_is_needed(bench):
    bench.stream.close()
    assert read_code(bench, entities=[table_entry(0)]) == "OK"


def test_13_2_the_entity_must_be_set(bench):
    assert bench.read_code(p4r.Entity()) == ["INVALID_ARGUMENT"]


def test_13_3_good_requests_are_answered_whatever_others_are(bench):
    bench.insert(bench.entry(1))
    request = p4r.ReadRequest(
        device_id=DEVICE,
        entities=[bench.entry(1), p4r.Entity(), p4r.Entity(), p4r.Entity(digest_entry={})],
    )
    for entity in request.entities[:1]:
        entity.table_entry.ClearField("action")
    found = []

    def collect():
        for response in bench.service.read(request):
            found.extend(response.entities)

    error = failure(collect)
    assert found == [bench.entry(1)]
    assert error.code is Code.UNKNOWN
    names = [Code(d.canonical_code).name for d in error.details]
    assert names == ["OK", "INVALID_ARGUMENT", "INVALID_ARGUMENT", "OK"]


def test_13_3_a_request_may_come_more_than_once(bench):
    bench.insert(bench.entry(1))
    ask = table_entry(bench.id("exact_t"))
    assert bench.read(ask, ask) == [bench.entry(1)] * 2


def test_13_3_large_answers_come_in_many_messages():
    bench = Kitchen(options=ServiceOptions(read_chunk=3))
    bench.insert(*(bench.entry(n) for n in range(8)))
    request = p4r.ReadRequest(device_id=DEVICE, entities=[table_entry(bench.id("exact_t"))])
    assert [len(r.entities) for r in bench.service.read(request)] == [3, 3, 2]


def test_13_4_a_read_has_nothing_of_a_later_write():
    bench = Kitchen(options=ServiceOptions(read_chunk=1))
    bench.insert(bench.entry(1), bench.entry(2))
    request = p4r.ReadRequest(device_id=DEVICE, entities=[table_entry(bench.id("exact_t"))])
    responses = bench.service.read(request)
    first = next(responses)
    bench.modify(bench.entry(2, port=7))
    assert [*first.entities, *next(responses).entities] == [bench.entry(1), bench.entry(2)]


def test_13_4_nor_does_a_read_end_early_for_it():
    bench = Kitchen(options=ServiceOptions(read_chunk=1))
    bench.insert(*(bench.entry(n) for n in (1, 2, 3)))
    request = p4r.ReadRequest(
        device_id=DEVICE, entities=[table_entry(bench.id("exact_t")), p4r.Entity()]
    )
    responses = bench.service.read(request)
    found = list(next(responses).entities)
    bench.delete(bench.entry(2), bench.entry(3))
    assert bench.push(Set.VERIFY_AND_COMMIT, pipeline()) == "OK"

    def collect():
        for response in responses:
            found.extend(response.entities)

    names = [Code(d.canonical_code).name for d in failure(collect).details]
    assert found == [bench.entry(1), bench.entry(2), bench.entry(3)]
    assert names == ["OK", "INVALID_ARGUMENT"]


# --- 14 SetForwardingPipelineConfig ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"device_id": 9, "election_id": U128.encode(9)}, "NOT_FOUND"),
        ({"role": "x", "election_id": U128.encode(9)}, "NOT_FOUND"),
        ({"election_id": U128.encode(9)}, "PERMISSION_DENIED"),
        ({"election_id": None}, "PERMISSION_DENIED"),
    ],
)
def test_14_checks_in_their_order(bench, fields, expected):
    assert bench.push(Set.VERIFY, **fields) == expected


@pytest.mark.parametrize(
    "what", [Set.VERIFY, Set.VERIFY_AND_SAVE, Set.VERIFY_AND_COMMIT, Set.RECONCILE_AND_COMMIT]
)
def test_14_a_config_is_needed_and_must_be_realizable(bench, what):
    assert bench.push(what) == "INVALID_ARGUMENT"
    assert bench.push(what, wrong()) == "INVALID_ARGUMENT"


def test_14_an_action_is_needed(bench):
    assert bench.push(Set.UNSPECIFIED, pipeline()) == "INVALID_ARGUMENT"


def test_14_verify_changes_nothing(bench):
    bench.insert(bench.entry(1))
    before = (bench.everything(), bench.config())
    assert bench.push(Set.VERIFY, pipeline(cookie={"cookie": 4})) == "OK"
    assert (bench.everything(), bench.config()) == before


def test_14_a_config_that_is_refused_changes_nothing(bench):
    bench.insert(bench.entry(1))
    before = (bench.everything(), bench.config())
    for what in (Set.VERIFY_AND_SAVE, Set.VERIFY_AND_COMMIT, Set.RECONCILE_AND_COMMIT):
        bench.push(what, wrong())
    assert (bench.everything(), bench.config()) == before


def test_14_save_leaves_the_forwarding_state(bench):
    bench.insert(bench.entry(1))
    assert bench.push(Set.VERIFY_AND_SAVE, pipeline()) == "OK"
    bench.send(9, frame(dst=1))
    assert [port for port, _ in bench.sent] == [2]


def test_14_after_save_reads_and_writes_are_about_the_new_config(bench):
    bench.insert(bench.entry(1))
    bench.push(Set.VERIFY_AND_SAVE, pipeline())
    assert bench.keys() == []
    assert bench.insert(bench.entry(3)) == ["OK"]
    assert bench.keys() == [3]


def test_14_a_switch_without_a_program_can_be_written_to_after_save():
    bench = Kitchen(empty=True)
    assert bench.push(Set.VERIFY_AND_SAVE, pipeline()) == "OK"
    drop = p4r.Entity(digest_entry={"digest_id": kitchen().p4info.digests[0].preamble.id})
    assert bench.insert(drop) == ["OK"]


def test_14_commit_realizes_it_with_what_was_written_since(bench):
    bench.insert(bench.entry(1))
    bench.push(Set.VERIFY_AND_SAVE, pipeline())
    bench.insert(bench.entry(3, port=4))
    assert bench.push(Set.COMMIT) == "OK"
    assert bench.keys() == [3]
    bench.send(9, frame(dst=3))
    assert [port for port, _ in bench.sent] == [4]


def test_14_commit_takes_no_config(bench):
    bench.push(Set.VERIFY_AND_SAVE, pipeline())
    assert bench.push(Set.COMMIT, pipeline()) == "INVALID_ARGUMENT"


def test_14_commit_needs_a_saved_config(bench):
    assert bench.push(Set.COMMIT) == "NOT_FOUND"
    bench.push(Set.VERIFY_AND_SAVE, pipeline())
    bench.push(Set.COMMIT)
    assert bench.push(Set.COMMIT) == "NOT_FOUND"


def test_14_verify_and_commit_clears_the_state(bench):
    bench.insert(bench.entry(1))
    assert bench.push(Set.VERIFY_AND_COMMIT, pipeline()) == "OK"
    assert bench.keys() == []


def test_14_reconcile_keeps_the_state(bench):
    bench.insert(bench.entry(1))
    before = bench.everything()
    assert bench.push(Set.RECONCILE_AND_COMMIT, pipeline(cookie={"cookie": 4})) == "OK"
    assert bench.everything() == before
    assert bench.config().config.cookie.cookie == 4


# --- 15 GetForwardingPipelineConfig ---------------------------------------------------------------


def test_15_an_unknown_device(bench):
    request = Get(device_id=DEVICE + 1)
    assert code(lambda: bench.service.get_forwarding_pipeline_config(request)) == "NOT_FOUND"


def test_15_unset_before_there_is_one():
    assert not Kitchen(empty=True).config().HasField("config")


def test_15_all_is_what_was_set(bench):
    given = pipeline(cookie={"cookie": 7})
    bench.push(Set.VERIFY_AND_COMMIT, given)
    assert bench.config().config == given


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Get.COOKIE_ONLY, {"cookie"}),
        (Get.P4INFO_AND_COOKIE, {"p4info", "cookie"}),
        (Get.DEVICE_CONFIG_AND_COOKIE, {"p4_device_config", "cookie"}),
        (Get.ALL, {"p4info", "p4_device_config", "cookie"}),
    ],
)
def test_15_parts_by_response_type(bench, kind, fields):
    bench.push(Set.VERIFY_AND_COMMIT, pipeline(cookie={"cookie": 7}))
    assert {f.name for f, _ in bench.config(kind).config.ListFields()} == fields


def test_15_installed_otherwise_there_is_the_p4info_and_no_cookie(bench):
    config = bench.config().config
    assert config.p4info == kitchen().p4info
    assert not config.HasField("cookie")


def test_15_no_cookie_given_none_is_told(bench):
    bench.push(Set.VERIFY_AND_COMMIT, pipeline())
    assert not bench.config().config.HasField("cookie")


# --- 17 Capabilities ------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [0, DEVICE])
def test_17_the_version_is_a_full_semantic_one(bench, device):
    found = bench.service.capabilities(p4r.CapabilitiesRequest(device_id=device))
    assert found.p4runtime_api_version == "1.5.0"


def test_17_an_unknown_device(bench):
    request = p4r.CapabilitiesRequest(device_id=DEVICE + 1)
    assert code(lambda: bench.service.capabilities(request)) == "NOT_FOUND"


# --- 3.5 ------------------------------------------------------------------------------------------


def test_3_5_a_restart_begins_with_a_clean_state(bench):
    bench.insert(bench.entry(1))
    bench.service.power(False)
    bench.switch.unload()
    bench.switch.load(kitchen())
    bench.service.power(True)
    stream = bench.service.open_stream(bench.heard.append)
    stream.receive(arbitration(1))
    assert bench.keys() == []
