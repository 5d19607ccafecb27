"""Set- and GetForwardingPipelineConfig (P4Runtime 1.5, sections of these names)."""

import pytest
from finsy.proto import U128, p4d, p4i, p4r
from p4runtime_kit import (
    DEVICE,
    KITCHEN,
    Bench,
    action,
    compiled,
    exact,
    frame,
    kitchen,
    table_entry,
)

from sglb.switch.p4runtime.p4info_diff import first_difference
from sglb.switch.p4runtime.status import P4RuntimeError

Set = p4r.SetForwardingPipelineConfigRequest
Get = p4r.GetForwardingPipelineConfigRequest

SMALL = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
struct hs { h_t h; }
struct ms { }
parser P(packet_in p, out hs h, inout ms m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout hs h, inout ms m) { apply { } }
control I(inout hs h, inout ms m, inout standard_metadata_t s) {
    register<bit<8>>(2) last;
    counter(2, CounterType.packets) seen;
    direct_counter(CounterType.packets) hits;
    action forward(bit<9> port) { s.egress_spec = port; seen.count(0); }
    action drop() { mark_to_drop(s); }
    table t {
        key = { h.h.a: exact; }
        actions = { forward; drop; }
        default_action = drop();
        counters = hits;
        size = SIZE;
        entries = { 9: forward(9); }
    }
    EXTRA
    apply { t.apply(); last.write(0, h.h.a); APPLY }
}
control E(inout hs h, inout ms m, inout standard_metadata_t s) { apply { } }
control C(inout hs h, inout ms m) { apply { } }
control D(packet_out p, in hs h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def small(size=8, extra="", apply=""):
    text = SMALL.replace("SIZE", str(size)).replace("EXTRA", extra).replace("APPLY", apply)
    return text, compiled(text).p4info


MORE = small(size=16, extra="table u { actions = { drop; } size = 4; }", apply="u.apply();")


def push(bench, action, text="", p4info=None, cookie=None, election=1, config=True):
    request = Set(device_id=DEVICE, election_id=U128.encode(election), action=action)
    if config:
        request.config.p4_device_config = text if isinstance(text, bytes) else text.encode()
        request.config.p4info.CopyFrom(p4info or p4i.P4Info())
        if cookie is not None:
            request.config.cookie.cookie = cookie
    try:
        bench.service.set_forwarding_pipeline_config(request)
    except P4RuntimeError as error:
        return ("DETAILS" if error.details else error.code.name), error.message
    return "OK", ""


def get(bench, response_type=Get.ALL):
    request = Get(device_id=DEVICE, response_type=response_type)
    return bench.service.get_forwarding_pipeline_config(request)


def t_entry(bench, key, port):
    return table_entry(
        bench.id("t"), exact(1, bytes([key])), act=action(bench.id("forward"), bytes([port]))
    )


def ports_for(bench, *keys):
    bench.sent.clear()
    for key in keys:
        bench.send(1, bytes([key]))
    return [port for port, _ in bench.sent]


# --- Get ------------------------------------------------------------------------------------------


def test_get_before_any_config_is_ok_and_unset():
    assert not get(Bench(empty=True)).HasField("config")


def test_get_of_a_switch_started_with_a_program():
    config = get(Bench()).config
    assert config.p4info == kitchen().p4info
    assert not config.HasField("cookie")


def test_get_gives_what_was_set():
    bench = Bench(empty=True)
    text, p4info = small()
    assert push(bench, Set.VERIFY_AND_COMMIT, text, p4info, cookie=77) == ("OK", "")
    config = get(bench).config
    assert (config.p4_device_config.decode(), config.cookie.cookie) == (text, 77)
    assert config.p4info == p4info
    for kind, fields in [
        (Get.COOKIE_ONLY, {"cookie"}),
        (Get.P4INFO_AND_COOKIE, {"cookie", "p4info"}),
        (Get.DEVICE_CONFIG_AND_COOKIE, {"cookie", "p4_device_config"}),
    ]:
        assert {f.name for f, _ in get(bench, kind).config.ListFields()} == fields
    with pytest.raises(P4RuntimeError, match="response_type 9"):
        get(bench, 9)


def test_get_of_another_device():
    with pytest.raises(P4RuntimeError, match="NOT_FOUND"):
        Bench().service.get_forwarding_pipeline_config(Get(device_id=9))


# --- Set ------------------------------------------------------------------------------------------


def test_checks_and_mistakes():
    bench = Bench(empty=True)
    text, p4info = small()
    other = p4i.P4Info()
    other.CopyFrom(p4info)
    other.tables[0].size = 5
    for arguments, code, part in [
        ((Set.VERIFY, text, p4info, None, 2), "PERMISSION_DENIED", "election_id 2"),
        ((Set.UNSPECIFIED, text, p4info), "INVALID_ARGUMENT", "action 0"),
        ((9, text, p4info), "INVALID_ARGUMENT", "action 9"),
        ((Set.COMMIT, text, p4info), "INVALID_ARGUMENT", "COMMIT takes no config"),
        ((Set.VERIFY, "", p4info), "INVALID_ARGUMENT", "not started with a program"),
        ((Set.VERIFY, b"\xff\xfe\0", p4info), "INVALID_ARGUMENT", "not started with a program"),
        ((Set.VERIFY, '{"bmv2": 1}', p4info), "INVALID_ARGUMENT", "not started with a program"),
        ((Set.VERIFY, "control C(", p4info), "INVALID_ARGUMENT", "does not compile: p4_device"),
        ((Set.VERIFY, text, other), "INVALID_ARGUMENT", "table I.t"),
        ((Set.VERIFY, text), "INVALID_ARGUMENT", "has table I.t"),
    ]:
        assert push(bench, *arguments)[0] == code
        assert part in push(bench, *arguments)[1]
    for action_ in (Set.VERIFY, Set.VERIFY_AND_SAVE, Set.VERIFY_AND_COMMIT):
        assert push(bench, action_, config=False)[0] == "INVALID_ARGUMENT"
    assert push(bench, Set.RECONCILE_AND_COMMIT, config=False)[0] == "INVALID_ARGUMENT"
    assert push(bench, Set.COMMIT, config=False)[0] == "NOT_FOUND"
    assert bench.switch.program is None


def test_verify_changes_nothing():
    bench = Bench()
    before = bench.everything()
    assert push(bench, Set.VERIFY, *small()) == ("OK", "")
    assert bench.switch.program is kitchen()
    assert bench.everything() == before


def test_commit_clears_the_state():
    bench = Bench(empty=True)
    push(bench, Set.VERIFY_AND_COMMIT, *small())
    bench.insert(t_entry(bench, 1, 4))
    group = {"multicast_group_id": 1, "replicas": [{"port": b"\x01"}]}
    pre = p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": group})
    bench.insert(pre)
    assert ports_for(bench, 1, 9) == [4, 9]
    push(bench, Set.VERIFY_AND_COMMIT, *small())
    assert ports_for(bench, 1, 9) == [9]
    assert bench.read(pre) == []


def test_saved_config_takes_reads_and_writes_until_committed():
    bench = Bench(empty=True)
    push(bench, Set.VERIFY_AND_COMMIT, *small())
    bench.insert(t_entry(bench, 1, 4))
    assert push(bench, Set.VERIFY_AND_SAVE, *MORE, 5) == ("OK", "")
    assert get(bench).config.cookie.cookie == 5
    # Forwarding goes on as before, reads and writes mean the new program.
    assert [e.table_entry.match[0].exact.value for e in bench.read(table_entry(0))] == [b"\x09"]
    assert bench.insert(t_entry(bench, 2, 5)) == ["OK"]
    group = {"multicast_group_id": 1, "replicas": [{"port": b"\x01"}]}
    pre = p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": group})
    assert bench.insert(pre) == ["OK"]
    assert ports_for(bench, 1, 2, 9) == [4, 9]
    assert push(bench, Set.COMMIT, config=False) == ("OK", "")
    assert ports_for(bench, 1, 2, 9) == [5, 9]
    assert bench.read(pre) == [pre]
    assert bench.switch.replication.copies(1) == ((1, 0),)
    assert push(bench, Set.COMMIT, config=False)[0] == "NOT_FOUND"


def test_ports_that_change_while_a_config_is_saved():
    bench = Bench()
    text = KITCHEN.read_text()
    push(bench, Set.VERIFY_AND_SAVE, text, kitchen().p4info)
    info = kitchen().p4info
    ids = {o.preamble.alias: o.preamble.id for o in (*info.tables, *info.actions)}
    actions = [
        {"action": action(ids["forward"], bytes([p])), "weight": 1, "watch_port": bytes([p])}
        for p in (1, 2)
    ]
    chosen = p4r.TableAction(action_profile_action_set={"action_profile_actions": actions})
    bench.insert(table_entry(ids["spread_t"], exact(1, b"\x01"), action=chosen))
    bench.switch.set_port_state(1, False)
    bench.clock.run()
    push(bench, Set.COMMIT, config=False)
    table = bench.switch.state.by_name("I.spread_t")
    assert {table.lookup((1,), bytes([0, v]), 0).args for v in range(4)} == {(2,)}


# --- programs that the switch has -----------------------------------------------------------------


@pytest.mark.parametrize("blob", [b"", b'{"bmv2": "json"}', b"\x7fELF\0\xff"])
def test_a_known_program_needs_no_text(blob):
    """Controllers written for BMv2 push its JSON: they go on working."""
    bench = Bench()
    bench.insert(
        table_entry(
            bench.id("exact_t"), exact(1, b"\x01"), act=action(bench.id("forward"), b"\x02")
        )
    )
    assert push(bench, Set.VERIFY_AND_COMMIT, blob, kitchen().p4info, 3) == ("OK", "")
    assert bench.read(table_entry(bench.id("exact_t"))) == []
    assert get(bench).config.p4_device_config == blob
    code, text = push(bench, Set.VERIFY_AND_COMMIT, blob, small()[1])
    assert code == "INVALID_ARGUMENT"
    assert "the program has table I.exact_t" in text


def test_back_to_the_program_of_the_start():
    bench = Bench()
    push(bench, Set.VERIFY_AND_COMMIT, *small())
    assert push(bench, Set.VERIFY_AND_COMMIT, "", kitchen().p4info) == ("OK", "")
    bench.send(1, frame())
    assert len(bench.heard) == 1


# --- reconcile ------------------------------------------------------------------------------------


def test_reconcile_with_the_same_program_touches_nothing():
    bench = Bench(empty=True)
    text, p4info = small()
    push(bench, Set.VERIFY_AND_COMMIT, text, p4info)
    bench.insert(t_entry(bench, 1, 4))
    ports_for(bench, 1)
    state = bench.switch.state
    assert push(bench, Set.RECONCILE_AND_COMMIT, text, p4info, 8) == ("OK", "")
    assert bench.switch.state is state
    assert get(bench, Get.COOKIE_ONLY).config.cookie.cookie == 8


def test_reconcile_carries_the_state_to_another_program():
    bench = Bench(empty=True)
    push(bench, Set.VERIFY_AND_COMMIT, *small())
    bench.insert(t_entry(bench, 1, 4))
    bench.delete(t_entry(bench, 9, 9))
    bench.modify(
        table_entry(bench.id("t"), act=action(bench.id("forward"), b"\x06"), is_default_action=True)
    )
    group = {"multicast_group_id": 1, "replicas": [{"port": b"\x01"}]}
    bench.insert(p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": group}))
    assert ports_for(bench, 1, 7) == [4, 6]
    before = set(bench.everything())
    assert push(bench, Set.RECONCILE_AND_COMMIT, *MORE) == ("OK", "")
    after = set(bench.everything())
    assert before < after  # all that was, and the default entry of the new table
    assert len(after - before) == 1
    (last,) = bench.read(register(bench, 0))
    assert last.register_entry.data == p4d.P4Data(bitstring=b"\x07")
    assert ports_for(bench, 1, 7, 9) == [4, 6, 6]


def register(bench, index):
    made = p4r.RegisterEntry(register_id=bench.id("last"))
    made.index.index = index
    made.index.SetInParent()
    return p4r.Entity(register_entry=made)


def test_reconcile_refuses_what_cannot_be_kept():
    bench = Bench(empty=True)
    push(bench, Set.VERIFY_AND_COMMIT, *small(size=8))
    bench.insert(*(t_entry(bench, key, 4) for key in range(5)))
    before = bench.everything()
    code, text = push(bench, Set.RECONCILE_AND_COMMIT, *small(size=4))
    assert code == "INVALID_ARGUMENT"
    assert "table I.t is full" in text
    assert bench.everything() == before
    assert ports_for(bench, 1) == [4]


NO_COUNTER = small(size=8, extra="action nop() { }")[0].replace("counters = hits;", "")
CONST = (
    small(size=16)[0].replace("entries = {", "const entries = {"),
    small(size=17)[0].replace("entries = { 9: forward(9); }", "const entries = { 8: drop(); }"),
    small(size=18)[0].replace("entries = {", "const entries = {"),
)


def test_reconcile_and_counters_that_get_lost():
    """A table that loses its direct counter: fine as long as it has counted nothing."""
    bench = Bench(empty=True)
    without = NO_COUNTER.replace("direct_counter(CounterType.packets) hits;", "")
    push(bench, Set.VERIFY_AND_COMMIT, *small())
    bench.insert(t_entry(bench, 1, 4))
    new = (without, compiled(without).p4info)
    ports_for(bench, 1)
    code, text = push(bench, Set.RECONCILE_AND_COMMIT, *new)
    assert code == "INVALID_ARGUMENT"
    assert "counter_data is set, but there is no direct counter" in text
    count = table_entry(bench.id("t"), exact(1, b"\x01"), counter_data={})
    bench.modify(count)
    assert push(bench, Set.RECONCILE_AND_COMMIT, *new) == ("OK", "")
    assert ports_for(bench, 1) == [4]


def test_reconcile_and_const_entries():
    """Their counts go on where the new program has the entry; others go with their program."""
    old, other, same = ((text, compiled(text).p4info) for text in CONST)
    for new, count in ((same, 2), (other, None)):
        bench = Bench(empty=True)
        push(bench, Set.VERIFY_AND_COMMIT, *old)
        ports_for(bench, 9, 9)
        assert push(bench, Set.RECONCILE_AND_COMMIT, *new) == ("OK", "")
        found = bench.read(table_entry(bench.id("t"), exact(1, b"\x09"), counter_data={}))
        assert [e.table_entry.counter_data.packet_count for e in found] == (
            [] if count is None else [count]
        )


def test_reconcile_without_a_program_commits():
    bench = Bench(empty=True)
    assert push(bench, Set.RECONCILE_AND_COMMIT, *small()) == ("OK", "")
    assert ports_for(bench, 9) == [9]


# --- comparing P4Info -----------------------------------------------------------------------------


def changed(change):
    info = p4i.P4Info()
    info.CopyFrom(kitchen().p4info)
    change(info)
    return first_difference(info, kitchen().p4info)


def remove(field, index=0):
    return lambda info: getattr(info, field).pop(index)


def test_differences_are_named():
    extra = p4i.Register(preamble={"id": 0x16000001, "name": "I.extra"})
    for change, text in [
        (lambda i: None, None),
        (remove("tables"), "the program has table I.exact_t (0x02"),
        (remove("actions"), "the program has action "),
        (remove("digests"), "the program has digest learn_t"),
        (lambda i: i.registers.append(extra), "the P4Info has register I.extra (0x16000001)"),
        (lambda i: setattr(i.tables[1], "size", 3), "table I.lpm_t (0x02ded8f7): size is 3"),
        (
            lambda i: setattr(i.tables[0].match_fields[0], "bitwidth", 32),
            "match_fields[0].bitwidth is 32 in the P4Info, 48 in the program",
        ),
        (lambda i: i.tables[0].match_fields.pop(), "match_fields has 0 elements"),
        (lambda i: setattr(i.tables[0].preamble, "name", "x"), "preamble.name is 'x'"),
        (
            lambda i: setattr(i.type_info.new_types["vrf_t"].translated_type, "sdn_bitwidth", 10),
            "type vrf_t",
        ),
        (lambda i: i.type_info.new_types.pop("vrf_t"), "the translated type vrf_t"),
        # What the protocol doesn't depend on may differ.
        (lambda i: i.ClearField("pkg_info"), None),
        (lambda i: setattr(i.tables[0].preamble, "alias", "x"), None),
        (lambda i: i.tables[0].preamble.annotations.append("@note"), None),
        (lambda i: i.tables[0].ClearField("initial_default_action"), None),
    ]:
        found = changed(change)
        assert found is None if text is None else text in found


def test_a_program_loaded_behind_the_services_back():
    """A switch that is restarted by a simulation has new state, and the service follows."""
    bench = Bench()
    bench.insert(
        table_entry(
            bench.id("exact_t"), exact(1, b"\x01"), act=action(bench.id("forward"), b"\x02")
        )
    )
    bench.switch.load(kitchen())
    assert bench.read(table_entry(bench.id("exact_t"))) == []
    assert bench.delete(table_entry(bench.id("exact_t"), exact(1, b"\x01"))) == ["NOT_FOUND"]
    bench.send(4, frame())
    assert len(bench.heard) == 1
