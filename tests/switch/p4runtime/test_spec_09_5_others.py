"""P4Runtime 1.5, sections 9.5, 9.6, 9.8 and 9.9: replication, value sets, digests, externs."""

import pytest
from finsy.proto import p4r
from p4runtime_kit import CPU_PORT, Bench, action, exact, frame, table_entry

from sglb.switch.clock import PS_PER_MS, PS_PER_NS

CPU = b"\xff\xff\xff\xfd"


def group(number, *replicas, **fields):
    """A multicast group of replicas, each (port, instance[, backups as (port, instance)])."""
    made = p4r.MulticastGroupEntry(multicast_group_id=number, **fields)
    for port, instance, *backups in replicas:
        made.replicas.add(port=port, instance=instance).backup_replicas.extend(
            p4r.BackupReplica(port=p, instance=i) for p, i in backups
        )
    return p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": made})


def session(number, *replicas, **fields):
    made = p4r.CloneSessionEntry(session_id=number, **fields)
    for port, instance in replicas:
        made.replicas.add(port=port, instance=instance)
    return p4r.Entity(packet_replication_engine_entry={"clone_session_entry": made})


class Kitchen(Bench):
    """All packets meet one action."""

    def all_do(self, name, *args):
        act = action(self.id(name), *args)
        self.modify(table_entry(self.id("exact_t"), act=act, is_default_action=True))

    def ports(self, packet=None):
        self.sent.clear()
        self.send(9, packet or frame())
        return sorted(port for port, _ in self.sent)

    def port(self, number, up):
        self.switch.set_port_state(number, up)
        self.clock.run(until_ps=self.clock.now_ps + 100 * PS_PER_MS)


@pytest.fixture
def bench():
    return Kitchen()


# --- 9.5.1 multicast groups -----------------------------------------------------------------------


@pytest.fixture
def multicast(bench):
    bench.all_do("group", b"\3")
    return bench


def test_9_5_1_a_copy_a_replica(multicast):
    multicast.insert(group(3, (b"\1", 1), (b"\2", 1), (b"\2", 2)))
    assert multicast.ports() == [1, 2, 2]


def test_9_5_1_an_unknown_group_drops(multicast):
    assert multicast.ports() == []


@pytest.mark.parametrize("make", [group, session])
def test_9_5_id_zero_cannot_be_written(bench, make):
    for write in (bench.insert, bench.modify, bench.delete):
        assert write(make(0)) == ["INVALID_ARGUMENT"]


@pytest.mark.parametrize("make", [group, session])
def test_9_5_updates_by_id(bench, make):
    assert bench.modify(make(3)) == ["NOT_FOUND"]
    assert bench.delete(make(3)) == ["NOT_FOUND"]
    assert bench.insert(make(3)) == ["OK"]
    assert bench.insert(make(3)) == ["ALREADY_EXISTS"]
    assert bench.modify(make(3, (b"\1", 1))) == ["OK"]
    assert bench.read(make(3)) == [make(3, (b"\1", 1))]
    assert bench.delete(make(3)) == ["OK"]
    assert bench.read(make(3)) == []


@pytest.mark.parametrize("make", [group, session])
def test_9_5_id_zero_reads_all(bench, make):
    bench.insert(make(3), make(4))
    assert bench.read(make(0)) == [make(3), make(4)]


@pytest.mark.parametrize("make", [group, session])
def test_9_5_only_the_id_counts_in_a_read(bench, make):
    bench.insert(make(3, (b"\1", 1)))
    assert bench.read(make(3, (b"\2", 2))) == [make(3, (b"\1", 1))]


@pytest.mark.parametrize("make", [group, session])
def test_9_5_instances_are_16_bits(bench, make):
    assert bench.insert(make(3, (b"\1", 0xFFFF))) == ["OK"]
    assert bench.insert(make(4, (b"\1", 0x10000))) == ["INVALID_ARGUMENT"]


@pytest.mark.parametrize("make", [group, session])
def test_9_5_ports_must_exist(bench, make):
    assert bench.insert(make(3, (b"\x63", 1))) == ["INVALID_ARGUMENT"]


def test_9_5_1_a_replica_is_not_its_own_backup(bench):
    assert bench.insert(group(3, (b"\1", 1, (b"\1", 2)))) == ["INVALID_ARGUMENT"]


@pytest.mark.parametrize(
    "replicas",
    [
        [(b"\1", 1), (b"\1", 1)],
        [(b"\1", 1), (b"\2", 2, (b"\1", 1))],
        [(b"\1", 1, (b"\3", 3)), (b"\2", 2, (b"\3", 3))],
        [(b"\1", 1, (b"\3", 3), (b"\3", 3))],
    ],
    ids=["replicas", "replica and backup", "backups", "backups of one replica"],
)
def test_9_5_1_port_and_instance_are_unique_in_a_group(bench, replicas):
    assert bench.insert(group(3, *replicas)) == ["INVALID_ARGUMENT"]


def test_9_5_1_modify_has_the_same_rules(bench):
    bench.insert(group(3))
    assert bench.modify(group(3, (b"\1", 1, (b"\1", 2)))) == ["INVALID_ARGUMENT"]


def test_9_5_1_metadata_is_given_back_and_replaced(bench):
    bench.insert(group(3, metadata=b"one"))
    bench.modify(group(3, metadata=b"two"))
    assert bench.read(group(3)) == [group(3, metadata=b"two")]


def test_9_5_1_backups_take_over_in_their_order_and_give_back(multicast):
    multicast.insert(group(3, (b"\1", 1, (b"\2", 1), (b"\3", 1))))
    seen = [multicast.ports()]
    for port, up in ((1, False), (2, False), (3, False), (3, True), (2, True), (1, True)):
        multicast.port(port, up)
        seen.append(multicast.ports())
    assert seen == [[1], [2], [3], [], [3], [2], [1]]


def test_8_2_backups_are_read_in_their_order(bench):
    entity = group(3, (b"\1", 1, (b"\4", 1), (b"\2", 1), (b"\3", 1)))
    bench.insert(entity)
    assert bench.read(group(0)) == [entity]


def test_9_5_1_a_deleted_group_drops(multicast):
    multicast.insert(group(3, (b"\1", 1)))
    multicast.delete(group(3, (b"\x63", 1)))  # other fields do not matter
    assert multicast.ports() == []


# --- 9.5.2 clone sessions -------------------------------------------------------------------------


@pytest.fixture
def cloning(bench):
    """Packets leave by port 1 and are cloned in session 3."""
    bench.all_do("mirror", b"\3")
    return bench


def test_9_5_2_a_copy_a_replica(cloning):
    cloning.insert(session(3, (b"\2", 1), (b"\3", 1)))
    assert cloning.ports() == [1, 2, 3]


def test_9_5_2_an_unknown_session_makes_no_copy(cloning):
    assert cloning.ports() == [1]


def test_9_5_2_copies_are_cut_to_a_length(cloning):
    cloning.insert(session(3, (b"\2", 1), packet_length_bytes=20))
    cloning.send(9, frame(payload=bytes(100)))
    assert {port: len(data) for port, data in cloning.sent} == {1: 114, 2: 20}


def test_9_5_2_and_whole_with_length_zero(cloning):
    cloning.insert(session(3, (b"\2", 1)))
    cloning.send(9, frame(payload=bytes(100)))
    assert {port: len(data) for port, data in cloning.sent} == {1: 114, 2: 114}


@pytest.mark.parametrize("fields", [{"class_of_service": 8}, {"packet_length_bytes": -1}])
def test_9_5_2_bad_fields(bench, fields):
    assert bench.insert(session(3, **fields)) == ["INVALID_ARGUMENT"]


def test_9_5_2_the_cpu_port_has_a_number_of_its_own(cloning):
    cloning.insert(session(3, (CPU, 1)))
    cloning.send(9, frame())
    assert len([m for m in cloning.heard if m.HasField("packet")]) == 1
    found = cloning.switch.replication.session(3)
    assert [replica.port for replica in found.replicas] == [CPU_PORT]


def test_9_5_the_type_must_be_set(bench):
    empty = p4r.Entity(packet_replication_engine_entry={})
    assert bench.insert(empty) == ["INVALID_ARGUMENT"]
    assert bench.read_code(empty) == ["INVALID_ARGUMENT"]


# --- 9.6 value sets -------------------------------------------------------------------------------


def value_set(bench, *values):
    made = p4r.ValueSetEntry(value_set_id=bench.id("body_types"))
    for value in values:
        made.members.add().match.append(exact(1, value))
    return p4r.Entity(value_set_entry=made)


def test_9_6_modify_only(bench):
    for write in (bench.insert, bench.delete):
        assert write(value_set(bench, b"\x08\0")) == ["INVALID_ARGUMENT"]


def test_9_6_members_steer_the_parser(bench):
    bench.all_do("NoAction")
    lpm = table_entry(bench.id("lpm_t"), act=action(bench.id("forward"), b"\5"))
    const = table_entry(
        bench.id("const_t"), act=action(bench.id("forward"), b"\5"), is_default_action=True
    )
    bench.insert(lpm)
    bench.modify(const)
    packet = frame(etype=0x22F3, payload=bytes(7))
    assert bench.ports(packet) == []
    bench.modify(value_set(bench, b"\x22\xf3", b"\x89\x3b"))
    assert bench.ports(packet) == [5]
    bench.modify(value_set(bench))
    assert bench.ports(packet) == []


def test_9_6_more_members_than_it_holds(bench):
    full = [bytes([8, n]) for n in range(3)]  # its size is 3
    assert bench.modify(value_set(bench, *full)) == ["OK"]
    assert bench.modify(value_set(bench, *full, b"\x08\3")) == ["RESOURCE_EXHAUSTED"]
    assert bench.read(value_set(bench)) == [value_set(bench, *full)]


def test_9_6_a_member_given_twice(bench):
    assert bench.modify(value_set(bench, b"\x08\0", b"\0\x08\0")) == ["ALREADY_EXISTS"]


def test_9_6_members_follow_the_rules_of_matches(bench):
    entity = value_set(bench)
    entity.value_set_entry.members.add()
    assert bench.modify(entity) == ["INVALID_ARGUMENT"]


# --- 9.8 digests ----------------------------------------------------------------------------------


def digest(bench, **config):
    return p4r.Entity(digest_entry={"digest_id": bench.id("learn_t"), "config": config})


class Learning:
    """Packets with a source address are learned; `lists` takes the sources of each list sent."""

    def __init__(self, bench, **config):
        self.bench = bench
        bench.all_do("learn")
        assert bench.insert(digest(bench, **config)) == ["OK"]

    def learn(self, *sources):
        for source in sources:
            self.bench.switch.receive(4, frame(src=source))
        self.wait(1)

    def wait(self, ns):
        self.bench.clock.run(until_ps=self.bench.clock.now_ps + ns * PS_PER_NS)

    def lists(self):
        found = [m.digest for m in self.bench.heard if m.HasField("digest")]
        self.bench.heard.clear()
        self.last = found[-1] if found else None
        return [[d.struct.members[0].bitstring[0] for d in one.data] for one in found]

    def ack(self, list_id):
        ack = p4r.DigestListAck(digest_id=self.bench.id("learn_t"), list_id=list_id)
        self.bench.stream.receive(p4r.StreamMessageRequest(digest_ack=ack))


def test_9_8_updates(bench):
    entity = digest(bench, max_list_size=1)
    assert bench.modify(entity) == ["NOT_FOUND"]
    assert bench.delete(entity) == ["NOT_FOUND"]
    assert bench.insert(entity) == ["OK"]
    assert bench.insert(entity) == ["ALREADY_EXISTS"]
    assert bench.modify(digest(bench, max_list_size=2)) == ["OK"]
    assert bench.read(digest(bench)) == [digest(bench, max_list_size=2)]
    assert bench.delete(entity) == ["OK"]


def test_9_8_only_inserted_digests_are_sent(bench):
    learning = Learning(bench)
    bench.delete(digest(bench))
    learning.learn(1)
    assert learning.lists() == []


def test_9_8_a_list_goes_out_when_it_is_full(bench):
    learning = Learning(bench, max_list_size=2, max_timeout_ns=10**9)
    learning.learn(1)
    assert learning.lists() == []
    learning.learn(2)
    assert learning.lists() == [[1, 2]]


def test_9_8_or_when_its_first_message_has_waited(bench):
    learning = Learning(bench, max_list_size=9, max_timeout_ns=10**6)
    learning.learn(1)
    learning.wait(10**6 - 2000)
    assert learning.lists() == []
    learning.wait(10**6)
    assert learning.lists() == [[1]]


def test_9_8_messages_of_a_list_are_distinct(bench):
    learning = Learning(bench, max_list_size=2, max_timeout_ns=10**9)
    learning.learn(1, 1, 2)
    assert learning.lists() == [[1, 2]]


@pytest.mark.parametrize("config", [{"max_timeout_ns": 0}, {"max_list_size": 1}])
def test_9_8_each_message_at_once(bench, config):
    learning = Learning(bench, **{"max_timeout_ns": 10**9, "max_list_size": 9, **config})
    learning.learn(1)
    learning.learn(2)
    assert learning.lists() == [[1], [2]]


def test_9_8_what_was_sent_is_not_sent_again_before_it_is_acknowledged(bench):
    learning = Learning(bench, ack_timeout_ns=10**12)
    learning.learn(1)
    assert learning.lists() == [[1]]
    first = learning.last.list_id
    learning.learn(1)
    assert learning.lists() == []
    learning.ack(first + 7)  # another list
    learning.learn(1)
    assert learning.lists() == []
    learning.ack(first)
    learning.learn(1)
    assert learning.lists() == [[1]]


def test_9_8_or_the_time_for_that_is_over(bench):
    learning = Learning(bench, ack_timeout_ns=10**6)
    learning.learn(1)
    learning.wait(10**6)
    learning.learn(1)
    assert learning.lists() == [[1], [1]]


def test_9_8_without_a_time_nothing_is_held_back(bench):
    learning = Learning(bench, ack_timeout_ns=0)
    learning.learn(1)
    learning.learn(1)
    assert learning.lists() == [[1], [1]]


def test_9_8_only_the_primary_gets_lists(bench):
    others = []
    bench.service.open_stream(others.append)
    learning = Learning(bench)
    learning.learn(1)
    assert (learning.lists(), others) == ([[1]], [])


# --- 9.9 ------------------------------------------------------------------------------------------


def test_9_9_a_read_of_all_externs_finds_none_in_v1model(bench):
    assert bench.read(p4r.Entity(extern_entry={})) == []
