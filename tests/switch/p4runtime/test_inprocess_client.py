"""The in-process client with finsy's entities, in virtual time."""

import finsy as fy
import pytest
from finsy.proto import p4r
from p4runtime_kit import KITCHEN, Bench, frame, kitchen

from sglb.switch.p4runtime.client import Atomicity, InProcessClient
from sglb.switch.p4runtime.status import Code, P4RuntimeError


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def client(bench):
    return InProcessClient(bench.service, election_id=10)


def entry(key, port=2):
    return fy.P4TableEntry(
        "exact_t", match=fy.Match(dst=key), action=fy.Action("forward", port=port)
    )


def test_write_and_read(client):
    client.write([+entry(1), +entry(2)])
    client.write(~entry(2, port=5))
    client.write([-entry(1)])
    found = client.read(fy.P4TableEntry("exact_t"))
    assert found == [entry(2, port=5)]
    client.insert(entry(3))
    client.modify([entry(3, port=4)])
    client.delete([entry(2), entry(3)])
    assert client.read([fy.P4TableEntry("exact_t")]) == []


def test_registers_and_groups(client):
    client.write(fy.P4RegisterEntry("plain", index=1, data=7))
    assert [e.data for e in client.read(fy.P4RegisterEntry("plain"))] == [0, 7, 0, 0]
    group = fy.P4MulticastGroupEntry(3, replicas=(1, 2))
    client.write(+group)
    assert client.read(fy.P4MulticastGroupEntry(3)) == [group]


def test_errors_name_switch_update_and_reason(client):
    client.write(+entry(1))
    with pytest.raises(P4RuntimeError) as info:
        client.write([+entry(2), +entry(1), -entry(9)])
    assert info.value.code is Code.UNKNOWN
    assert [d.canonical_code for d in info.value.details] == [0, 6, 5]
    text = str(info.value)
    assert "switch s1: 2 of 3 updates failed" in text
    assert "update 1, INSERT table_entry: ALREADY_EXISTS: table I.exact_t" in text
    assert "update 2, DELETE table_entry: NOT_FOUND: table I.exact_t" in text
    assert len(text.splitlines()) == 3


def test_rollback(client):
    with pytest.raises(P4RuntimeError, match="nothing was written"):
        client.write([+entry(1), -entry(9)], atomicity=Atomicity.ROLLBACK_ON_ERROR)
    assert client.read(fy.P4TableEntry("exact_t")) == []


def test_packets(bench, client):
    seen = []
    client.on_packet_in(lambda p: seen.append((bench.clock.now_ps, p["ingress_port"], p.payload)))
    bench.switch.receive(4, frame())
    assert seen == []  # never in the middle of a packet's way
    bench.clock.run()
    config = bench.switch.config
    assert seen == [(config.ingress_latency_ps + config.egress_latency_ps, 4, frame())]
    client.packet_out(frame(), egress_port=3, pad=0)
    bench.clock.run()
    assert bench.sent == [(3, frame())]
    with pytest.raises(ValueError, match="missing parameter 'pad'"):
        client.packet_out(frame(), egress_port=3)


def test_packets_as_wanted(bench, client):
    seen = []
    client.on_packet_in(lambda p: seen.append(p["ingress_port"]), ingress_port=4)
    for port in (3, 4):
        bench.send(port, frame())
    assert seen == [4]
    with pytest.raises(ValueError, match="packet_in header has no colour"):
        client.on_packet_in(seen.append, colour=1)


def test_messages_take_their_time(bench):
    seen = []
    client = InProcessClient(bench.service, election_id=10, delay_ps=1000)
    client.on_packet_in(lambda _: seen.append(bench.clock.now_ps))
    bench.send(4, frame())
    config = bench.switch.config
    assert seen == [config.ingress_latency_ps + config.egress_latency_ps + 1000]


def test_digests_and_idle_entries(bench, client):
    lists, idle = [], []
    client.on_digest(lists.append)
    client.on_idle(idle.append)
    learn = fy.P4TableEntry("exact_t", action=fy.Action("learn"), is_default_action=True)
    client.write([~learn, +fy.P4DigestEntry("learn_t", ack_timeout_ns=10**12)])
    bench.switch.receive(4, frame(src=5))
    bench.clock.run()
    assert [d["mac"] for d in lists[0]] == [5]
    client.write(lists[0].ack())
    timed = entry(1)
    timed.idle_timeout_ns = 100
    client.write(+timed)
    bench.clock.run(until_ps=bench.clock.now_ps + 150_000)
    assert [e.match["dst"] for e in idle[0].table_entry] == [1]


def test_refused_stream_messages(bench, client):
    backup = InProcessClient(bench.service, election_id=2)
    backup.packet_out(frame(), egress_port=3, pad=0)
    with pytest.raises(P4RuntimeError, match="s1 refused a packet_out: only the primary"):
        bench.clock.run()
    errors = []
    backup.on_error(errors.append)
    backup.packet_out(frame(), egress_port=3, pad=0)
    bench.clock.run()
    assert [e.canonical_code for e in errors] == [Code.PERMISSION_DENIED]
    assert bench.sent == []


def test_primaries(bench, client):
    changes = []
    client.on_primary(changes.append)
    assert client.is_primary
    other = InProcessClient(bench.service, election_id=11)
    bench.clock.run()
    assert (client.is_primary, other.is_primary, changes) == (False, True, [False])
    assert client.primary_id == 11
    with pytest.raises(P4RuntimeError, match="PERMISSION_DENIED"):
        client.write(+entry(1))
    other.close()
    client.ask_primary(11)
    bench.clock.run()
    assert changes == [False, True]
    client.write(+entry(1))
    with pytest.raises(P4RuntimeError, match="election id 11 is already used"):
        InProcessClient(bench.service, election_id=11)


def test_pipeline():
    bench = Bench(empty=True)
    client = InProcessClient(bench.service, election_id=10)
    with pytest.raises(P4RuntimeError, match="switch s1 has no program: set_pipeline first"):
        client.write(+entry(1))
    client.set_pipeline(kitchen().p4info, KITCHEN.read_text(), cookie=4)
    client.write(+entry(1))
    assert client.read(fy.P4TableEntry("exact_t")) == [entry(1)]


def test_a_closed_client_hears_nothing(bench, client):
    seen = []
    client.on_packet_in(seen.append)
    bench.switch.receive(4, frame())
    bench.clock.run(until_ps=bench.switch.config.ingress_latency_ps)
    client.close()
    bench.clock.run()
    assert seen == []


def test_a_role(bench):
    client = InProcessClient(bench.service, role=p4r.Role(name="lab"))
    client.write(+entry(1))
    assert client.read(fy.P4TableEntry("exact_t")) == [entry(1)]
