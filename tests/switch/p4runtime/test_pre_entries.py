"""Multicast groups and clone sessions (P4Runtime 1.5, "PacketReplicationEngineEntry")."""

import pytest
from finsy.proto import p4r
from p4runtime_kit import Bench, action, frame, table_entry


@pytest.fixture
def bench():
    return Bench()


def replica(port, instance=0, *backups):
    made = p4r.Replica(port=bytes([port]), instance=instance)
    for other, number in backups:
        made.backup_replicas.add(port=bytes([other]), instance=number)
    return made


def multicast(group_id, *replicas, **kw):
    made = p4r.MulticastGroupEntry(multicast_group_id=group_id, replicas=replicas, **kw)
    return p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": made})


def clone(session_id, *replicas, **kw):
    made = p4r.CloneSessionEntry(session_id=session_id, replicas=replicas, **kw)
    return p4r.Entity(packet_replication_engine_entry={"clone_session_entry": made})


@pytest.mark.parametrize("make", [multicast, clone])
def test_life(bench, make):
    assert bench.modify(make(3, replica(1))) == ["NOT_FOUND"]
    assert bench.insert(make(3, replica(1), replica(2, 7))) == ["OK"]
    assert bench.insert(make(3)) == ["ALREADY_EXISTS"]
    assert bench.insert(make(2, replica(4))) == ["OK"]
    assert bench.read(make(0)) == [make(2, replica(4)), make(3, replica(1), replica(2, 7))]
    assert bench.read(make(3)) == [make(3, replica(1), replica(2, 7))]
    assert bench.read(make(9)) == []
    assert bench.modify(make(3, replica(5))) == ["OK"]
    assert bench.read(make(3)) == [make(3, replica(5))]
    assert bench.delete(make(3)) == ["OK"]
    assert bench.delete(make(3)) == ["NOT_FOUND"]


def test_everything_written_is_read_back(bench):
    group = multicast(1, replica(1, 1, (2, 5), (3, 6)), replica(4), metadata=b"\0mine")
    session = clone(1, replica(1, 2), class_of_service=7, packet_length_bytes=64)
    assert bench.insert(group, session) == ["OK", "OK"]
    assert bench.read(multicast(1), clone(1)) == [group, session]


def test_the_older_port_field(bench):
    old = multicast(1, p4r.Replica(egress_port=3, instance=1))
    assert bench.insert(old) == ["OK"]
    assert bench.read(multicast(1)) == [old]
    assert bench.insert(multicast(2, p4r.Replica(egress_port=99))) == ["INVALID_ARGUMENT"]


@pytest.mark.parametrize(
    "bad",
    [
        multicast(0, replica(1)),
        multicast(1 << 16, replica(1)),
        multicast(1, replica(99)),
        multicast(1, p4r.Replica(instance=1)),
        multicast(1, replica(1, 1), replica(1, 1)),
        multicast(1, replica(1, 1, (1, 2))),
        multicast(1, replica(1, 1, (2, 2), (2, 2))),
        multicast(1, replica(1, 1, (99, 2))),
        multicast(1, replica(1, 1 << 16)),
        multicast(1, replica(1, 0, (2, 1 << 16))),
        clone(0, replica(1)),
        clone(1 << 15, replica(1)),
        clone(1, replica(99)),
        clone(1, replica(1), replica(1)),
        clone(1, replica(1), class_of_service=8),
        clone(1, replica(1), packet_length_bytes=-1),
        p4r.Entity(packet_replication_engine_entry={}),
    ],
)
def test_bad_ones(bench, bad):
    before = bench.everything()
    # Ports that are given as nothing, not as a wrong number, are a bad byte string.
    empty_port = bad == multicast(1, p4r.Replica(instance=1))
    assert bench.insert(bad) == ["OUT_OF_RANGE" if empty_port else "INVALID_ARGUMENT"]
    assert bench.everything() == before


def send(bench, act):
    bench.modify(table_entry(bench.id("exact_t"), act=act, is_default_action=True))
    bench.sent.clear()
    bench.send(1, frame())
    return [port for port, _ in bench.sent]


def test_multicast_with_backups(bench):
    bench.insert(multicast(1, replica(2, 1, (3, 5), (4, 6)), replica(5)))
    group = action(bench.id("group"), b"\x01")
    assert send(bench, group) == [2, 5]
    for port, left in ((2, [3, 5]), (3, [4, 5]), (4, [5])):
        bench.switch.set_port_state(port, False)
        bench.clock.run()
        assert send(bench, group) == left
    bench.switch.set_port_state(3, True)
    bench.clock.run()
    assert send(bench, group) == [3, 5]
    bench.delete(multicast(1))
    assert send(bench, group) == []


def test_clone_is_cut_to_its_length(bench):
    bench.insert(clone(4, replica(6), packet_length_bytes=10))
    bench.modify(
        table_entry(
            bench.id("exact_t"),
            act=action(bench.id("mirror"), b"\x04"),
            is_default_action=True,
        )
    )
    bench.send(1, frame(payload=b"x" * 20))
    assert sorted(bench.sent) == [(1, frame(payload=b"x" * 20)), (6, frame()[:10])]
