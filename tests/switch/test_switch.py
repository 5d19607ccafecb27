"""The whole switch around a program: time, ports, events, copies, loops, reloading."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglb.p4.compiler import CompiledProgram
from sglb.p4.compiler import compile as compile_p4
from sglb.p4.hashing import CrcModel
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import PS_PER_NS, PS_PER_US, VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.digests import DigestConfig, DigestList
from sglb.switch.errors import ConfigError, EntryExists, NoSuchEntry
from sglb.switch.keys import MatchKey
from sglb.switch.pktgen import TimerApp
from sglb.switch.ports import Drop, DropReason
from sglb.switch.pre import CloneSession, MulticastGroup, Replica
from sglb.switch.profiles import ActionCall, ActionProfile, GroupMember, GroupRef
from sglb.switch.registers import RegisterArray
from sglb.switch.switch import Switch
from sglb.switch.tables import Table

US, NS = PS_PER_US, PS_PER_NS
GBPS = 10**9
INFO_BYTES = 35


@cache
def ops_program() -> CompiledProgram:
    return compile_p4(Path(__file__).with_name("ops.p4"))


class Info(NamedTuple):
    """The info header of ops.p4."""

    in_us: int
    out_us: int
    enq_us: int
    delta_us: int
    enq_depth: int
    deq_depth: int
    type: int
    rid: int
    len: int
    ingress: int


def info_of(frame: bytes) -> Info:
    sizes, at, values = (6, 6, 4, 4, 3, 3, 1, 2, 4, 2), 0, []
    for size in sizes:
        values.append(int.from_bytes(frame[at : at + size], "big"))
        at += size
    return Info(*values)


def op(code: int, port: int = 1, arg: int = 0, size: int = 4) -> bytes:
    return bytes((code, port, arg >> 8, arg & 255)).ljust(size, b"\0")


class Sent(NamedTuple):
    """A frame that left."""

    port: int
    data: bytes
    start_ps: int
    end_ps: int


class Bench:
    """A switch with ops.p4, ports 1..4 of 8 Gbit/s (a byte a nanosecond), and all it says."""

    def __init__(self, *, program: CompiledProgram | None = None, **settings: Any) -> None:
        self.clock = VirtualClock()
        config = SwitchConfig(**{"port_events": True, **settings})
        self.switch = Switch(program or ops_program(), config, self.clock, rng=RandomStream(1))
        for number in range(1, 5):
            self.switch.add_port(number, 8 * GBPS)
        self.out: list[Sent] = []
        self.cpu: list[bytes] = []
        self.drops: list[Drop] = []
        self.events: list[tuple[int, int, bool]] = []
        self.switch.on_transmit = lambda *frame: self.out.append(Sent(*frame))
        self.switch.on_cpu = self.cpu.append
        self.switch.on_drop = self.drops.append
        self.switch.on_port_event = lambda port, up: self.events.append(
            (self.clock.now_ps, port, up)
        )

    def run(self, *frames: bytes, port: int = 3) -> list[Sent]:
        """What leaves after these frames came in."""
        for frame in frames:
            self.switch.receive(port, frame)
        self.clock.run()
        out, self.out = self.out, []
        return out

    def reasons(self) -> list[DropReason]:
        return [drop.reason for drop in self.drops]

    def register(self, name: str) -> RegisterArray:
        found = self.switch.state.by_name(name)
        assert isinstance(found, RegisterArray)
        return found


# --- time -----------------------------------------------------------------------------------------


def test_a_packets_time_is_latency_queue_latency_and_wire() -> None:
    bench = Bench(ingress_latency_ps=300 * NS, egress_latency_ps=200 * NS)
    bench.clock.run(until_ps=7 * US)
    (sent,) = bench.run(op(0, 1, size=65))
    assert len(sent.data) == 100
    assert (sent.port, sent.start_ps, sent.end_ps) == (1, 7 * US + 500 * NS, 7 * US + 600 * NS)
    assert bench.clock.now_ps == sent.end_ps


def test_time_stamps_are_microseconds_of_arrival_queueing_and_dequeueing() -> None:
    bench = Bench(ingress_latency_ps=3 * US, egress_latency_ps=5 * US)
    bench.clock.run(until_ps=10 * US)
    # 2000 bytes and the info header keep the wire for 2.035 us; the second waits that long.
    first, second = (info_of(s.data) for s in bench.run(op(0, size=2000), op(0, size=2000)))
    assert (first.in_us, first.enq_us, first.delta_us, first.out_us) == (10, 13, 0, 13)
    assert (second.in_us, second.enq_us, second.delta_us, second.out_us) == (10, 13, 2, 15)


@pytest.mark.parametrize(
    ("unit", "depths"),
    [
        ("packets", [(0, 0), (0, 2), (1, 1), (2, 0)]),
        ("bytes", [(0, 0), (0, 320), (160, 160), (320, 0)]),
        ("cells", [(0, 0), (0, 4), (2, 2), (4, 0)]),
    ],
)
def test_programs_see_queue_depths(unit: str, depths: list[tuple[int, int]]) -> None:
    bench = Bench(depth_unit=unit)
    frames = bench.run(*[op(0, size=160)] * 4)
    assert [(i.enq_depth, i.deq_depth) for i in (info_of(s.data) for s in frames)] == depths
    assert bench.switch.port(1).queues[0].max_bytes == 480


def test_a_depth_beyond_its_field_shows_as_the_maximum() -> None:
    bench = Bench(depth_unit="bytes")
    sent = bench.run(*[op(0, size=9000)] * 62)
    depths = [info_of(s.data).enq_depth for s in sent]
    assert depths[59:] == [58 * 9000, 0x7FFFF, 0x7FFFF]  # 19 bits: 59 * 9000 does not fit


def test_priority_chooses_the_queue_and_the_largest_goes_first() -> None:
    bench = Bench()
    sent = bench.run(op(5, arg=0), op(5, arg=1), op(5, arg=7), op(5, arg=3))
    assert [s.data[INFO_BYTES + 3] for s in sent] == [0, 7, 3, 1]


# --- decisions ------------------------------------------------------------------------------------


def test_drops_are_counted_by_reason_and_told() -> None:
    bench = Bench(queue_limit_bytes=100)
    bench.run(op(1), op(15, 2), op(2, arg=9), op(0, 77), op(9, arg=1))
    assert [(d.reason, d.port, d.ingress_port) for d in bench.drops] == [
        (DropReason.INGRESS, None, 3),
        (DropReason.NO_GROUP, None, 3),
        (DropReason.ASSERTION, None, 3),
        (DropReason.EGRESS, 2, 3),
        (DropReason.NO_PORT, None, 3),
    ]
    bench.run(*[op(0, size=60)] * 3)
    assert bench.reasons()[5:] == [DropReason.QUEUE_FULL]
    assert bench.switch.drops[DropReason.QUEUE_FULL] == 1
    counters = bench.switch.port(1).counters
    assert (counters.tx_packets, counters.tx_bytes) == (2, 2 * (60 + INFO_BYTES))
    assert counters.drops == {DropReason.QUEUE_FULL: 1}
    assert bench.switch.port(2).counters.drops == {DropReason.EGRESS: 1}
    assert bench.switch.port(3).counters.rx_packets == 8
    assert bench.switch.port(3).counters.rx_bytes == 5 * 4 + 3 * 60


def test_multicast_copies_carry_their_instance_and_type() -> None:
    bench = Bench()
    bench.switch.replication.insert_group(
        MulticastGroup(5, (Replica(1, 11), Replica(2, 12), Replica(1, 13)))
    )
    sent = [(s.port, info_of(s.data).rid, info_of(s.data).type) for s in bench.run(op(2, arg=5))]
    assert sorted(sent) == [(1, 11, 5), (1, 13, 5), (2, 12, 5)]


def test_a_clone_has_its_sessions_queue_and_length() -> None:
    bench = Bench()
    session = CloneSession(6, (Replica(2, 1),), class_of_service=7, packet_length_bytes=40)
    bench.switch.replication.insert_session(session)
    blocker, late, clone = bench.run(op(0, 2, size=500), op(5, 2, 3), op(4, 1, 6, size=64))[:3]
    original = next(s for s in (blocker, late, clone) if s.port == 1)
    assert len(original.data) == 64 + INFO_BYTES
    to_two = [s for s in (blocker, late, clone) if s.port == 2]
    assert [info_of(s.data).type for s in to_two] == [0, 1]
    assert len(to_two[1].data) == 40
    assert info_of(to_two[1].data).rid == 1


def test_a_clone_to_an_unknown_session_is_none() -> None:
    bench = Bench()
    assert [s.port for s in bench.run(op(4, 1, 6))] == [1]
    assert bench.drops == []


def test_an_egress_clone_keeps_headers_and_loses_metadata() -> None:
    bench = Bench()
    bench.switch.replication.insert_session(CloneSession(6, (Replica(2),)))
    sent = {s.port: info_of(s.data) for s in bench.run(op(12, 1, 6))}
    assert (sent[1].type, sent[1].ingress, sent[1].len) == (0, 3, 4)
    # The clone's length includes the info header that egress had added to the original.
    assert (sent[2].type, sent[2].ingress, sent[2].len) == (2, 0, 4 + INFO_BYTES)


@pytest.mark.parametrize("code", [3, 10, 11])
def test_endless_passes_end(code: int) -> None:
    bench = Bench(max_passes=5)
    bench.switch.replication.insert_session(CloneSession(6, (Replica(2),)))
    sent = bench.run(op(code, 1, 6))
    assert bench.reasons() == [DropReason.LOOP]
    # Each of the five egress passes of code 10 sends its own packet, the original to port 1.
    assert [s.port for s in sent] == ([1, 2, 2, 2, 2] if code == 10 else [])


def test_copies_that_make_copies_end() -> None:
    bench = Bench(max_copies=20)
    bench.switch.replication.insert_session(CloneSession(6, (Replica(2), Replica(4))))
    sent = bench.run(op(10, 1, 6))
    # The packet, and two copies for each of the 20 clones that were allowed.
    assert len(sent) == 41
    assert set(bench.reasons()) == {DropReason.LOOP}


def test_passes_take_their_time() -> None:
    bench = Bench(
        max_passes=3,
        ingress_latency_ps=10 * NS,
        egress_latency_ps=20 * NS,
        recirculation_latency_ps=100 * NS,
    )
    bench.run(op(3))
    assert bench.drops[0].time_ps == 2 * (10 + 100) * NS
    bench.drops.clear()
    start = bench.clock.now_ps
    bench.run(op(11))
    # Two rounds of ingress, egress and recirculation; the third ends as it leaves its queue.
    assert bench.drops[0].time_ps - start == (2 * (10 + 20 + 100) + 10) * NS


def test_truncate_cuts_what_leaves() -> None:
    bench = Bench()
    (sent,) = bench.run(op(8, arg=10, size=100))
    assert (len(sent.data), sent.end_ps - sent.start_ps) == (10, 10 * NS)


# --- ports ----------------------------------------------------------------------------------------


def test_a_cut_is_known_after_the_detection_delay_in_this_order() -> None:
    bench = Bench(port_down_detection_ps=10 * US, port_up_detection_ps=4 * US)
    state = bench.register("port_state")
    bench.clock.run(until_ps=5 * US)
    bench.switch.set_port_state(2, up=False)
    bench.clock.run(until_ps=15 * US - 1)
    assert (state.values[2], bench.switch.port_live(2), bench.events) == (0, True, [])
    bench.clock.run(until_ps=15 * US)
    assert (state.values[2], bench.switch.port_live(2)) == (1, False)
    bench.switch.set_port_state(2, up=True)
    bench.clock.run()
    assert (state.values[2], bench.switch.port_live(2)) == (2, True)
    assert bench.events == [(15 * US, 2, False), (19 * US, 2, True)]
    assert bench.reasons() == [DropReason.INGRESS] * 2  # the event packets, which the program drops


def test_a_flap_shorter_than_the_detection_is_not_noticed_but_loses_frames() -> None:
    bench = Bench(ingress_latency_ps=0, egress_latency_ps=0)
    bench.switch.receive(3, op(0, 2, size=465))  # 500 ns on the wire
    bench.clock.run(until_ps=100 * NS)
    bench.switch.set_port_state(2, up=False)
    bench.switch.set_port_state(2, up=True)
    bench.clock.run()
    assert (bench.out, bench.events, bench.reasons()) == ([], [], [DropReason.CUT])
    assert bench.drops[0].time_ps == 500 * NS


def test_frames_into_a_cut_link_are_lost_before_and_after_detection() -> None:
    bench = Bench(ingress_latency_ps=0, egress_latency_ps=0, port_events=False)
    bench.switch.set_port_state(2, up=False)
    bench.switch.receive(3, op(0, 2))
    bench.clock.run(until_ps=9 * US)
    bench.switch.receive(2, op(0, 1))
    for _ in range(100):  # more than the 1 us up to detection can drain
        bench.switch.receive(3, op(0, 2, size=100))
    bench.clock.run()
    assert bench.out == []
    lost = bench.switch.drops
    # 135 ns each: eight begin within the last microsecond, the rest is flushed.
    assert lost == {DropReason.CUT: 9, DropReason.RX_PORT_DOWN: 1, DropReason.PORT_DOWN: 92}
    bench.run(op(0, 2))
    assert bench.reasons()[-1] is DropReason.PORT_DOWN


def test_watch_ports_and_backups_react_without_the_control_plane() -> None:
    bench = Bench()
    members = bench.switch.state.by_name("members")
    pick = bench.switch.state.by_name("pick")
    assert isinstance(members, ActionProfile)
    assert isinstance(pick, Table)
    to = next(a.p4info_id for a in pick.decl.actions if a.name == "I.to")
    for port in (1, 2):
        members.insert_member(port, ActionCall(to, (port,)))
    members.insert_group(1, [GroupMember(1, 1, 1), GroupMember(2, 1, 2)])
    pick.insert((7,), GroupRef(1))
    bench.switch.replication.insert_group(MulticastGroup(1, (Replica(2, 1, backups=((4, 9),)),)))
    assert [s.port for s in bench.run(op(7, arg=0), op(7, arg=1), op(2, arg=1))] == [1, 2, 2]
    bench.switch.set_port_state(2, up=False)
    bench.clock.run()
    sent = bench.run(op(7, arg=0), op(7, arg=1), op(2, arg=1))
    assert sorted(s.port for s in sent) == [1, 1, 4]
    bench.switch.set_port_state(2, up=True)
    bench.clock.run()
    assert [s.port for s in bench.run(op(7, arg=1))] == [2]


def test_a_programs_without_port_events_sees_no_packet() -> None:
    bench = Bench(port_events=False)
    bench.switch.set_port_state(2, up=False)
    bench.clock.run()
    assert bench.register("port_state").values[2] == 0
    assert bench.drops == []
    assert bench.events == [(10 * US, 2, False)]


def test_setting_the_state_a_port_has_does_nothing() -> None:
    bench = Bench()
    bench.switch.set_port_state(2, up=True)
    assert bench.clock.next_ps() is None


def test_refusals() -> None:
    bench = Bench()
    with pytest.raises(EntryExists, match="switch switch has a port 1 already"):
        bench.switch.add_port(1, None)
    with pytest.raises(ConfigError, match="internal event port"):
        bench.switch.add_port(509, None)
    with pytest.raises(ConfigError, match=r"outside 0\.\.511"):
        bench.switch.add_port(512, None)
    for do in (
        lambda: bench.switch.receive(9, b""),
        lambda: bench.switch.set_port_state(9, up=False),
        lambda: bench.switch.set_port_rate(9, 1),
    ):
        with pytest.raises(NoSuchEntry, match="no port 9"):
            do()
    with pytest.raises(NoSuchEntry, match=r"no object named 'nothing'; known are I\.members"):
        bench.switch.state.by_name("nothing")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"queues": 0}, "queues must be at least 1"),
        ({"ingress_latency_ps": -1}, "ingress_latency_ps must not be negative"),
        ({"depth_unit": "frames"}, "packets, bytes or cells"),
        ({"cpu_port": 511}, "three different numbers"),
        ({"event_app_id": 8}, "3 bits"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        SwitchConfig(**settings)


# --- control plane --------------------------------------------------------------------------------


def test_packets_to_and_from_the_control_plane() -> None:
    bench = Bench()
    bench.switch.packet_out(op(0, 2))
    (sent,) = bench.run()
    assert (sent.port, info_of(sent.data).ingress) == (2, 510)
    assert bench.run(op(13)) == []
    (frame,) = bench.cpu
    assert frame[INFO_BYTES:] == op(13)


def test_digests_reach_the_control_plane() -> None:
    bench = Bench()
    lists: list[DigestList] = []
    bench.switch.digests.on_list = lists.append
    (digest_id,) = bench.switch.state.digest_ids.values()
    bench.run(op(6, 1, 5))
    assert lists == []
    bench.switch.digests.enable(digest_id, DigestConfig(max_timeout_ns=2000))
    bench.switch.receive(3, op(6, 1, 0x1234))
    bench.switch.receive(3, op(6, 2, 7))
    start = bench.clock.now_ps
    bench.clock.run()
    assert lists == [DigestList(digest_id, 1, ((1, 0x1234), (2, 7)), start + 2 * US)]


def test_idle_entries_reach_the_control_plane() -> None:
    bench = Bench()
    told: list[tuple[int, str, MatchKey]] = []
    bench.switch.on_idle = lambda table, entries: told.extend(
        (bench.clock.now_ps, table.name, e.key) for e in entries
    )
    table = bench.switch.state.by_name("seen")
    assert isinstance(table, Table)
    no_action = table.decl.actions[0].p4info_id
    table.insert((5,), ActionCall(no_action), idle_timeout_ns=10_000)
    table.insert((6,), ActionCall(no_action), idle_timeout_ns=25_000)
    bench.clock.run(until_ps=6 * US)
    bench.switch.receive(3, op(14, 1, 5))
    bench.clock.run(until_ps=27 * US)
    assert told == [
        (16 * US, "I.seen", (5,)),
        (25 * US, "I.seen", (6,)),
        (26 * US, "I.seen", (5,)),
    ]


def test_a_timeout_of_a_nanosecond_leaves_time_for_packets() -> None:
    bench = Bench()
    told: list[int] = []
    bench.switch.on_idle = lambda table, entries: told.append(bench.clock.now_ps)
    table = bench.switch.state.by_name("seen")
    assert isinstance(table, Table)
    table.insert((5,), ActionCall(table.decl.actions[0].p4info_id), idle_timeout_ns=1)
    bench.clock.run(until_ps=3 * US)
    assert told == [1000, 1000 + US, 1000 + 2 * US]


def test_timers_reach_the_program() -> None:
    bench = Bench()
    bench.switch.start_generator(TimerApp(5, period_ps=US))
    bench.clock.run(until_ps=3 * US)
    assert list(bench.register("timers").values) == [0, 0, 0, 0, 0, 4, 0, 0]
    bench.switch.stop_generator(5)
    bench.clock.run()
    assert bench.register("timers").values[5] == 4


# --- programs -------------------------------------------------------------------------------------


def test_a_switch_that_is_unloaded_is_dead_until_it_is_loaded() -> None:
    bench = Bench()
    program = bench.switch.program
    assert program is not None
    bench.switch.start_generator(TimerApp(5, period_ps=US))
    bench.clock.run(until_ps=US)
    bench.switch.unload()
    assert bench.switch.program is None
    assert bench.clock.next_ps() is None  # no timer ticks
    bench.drops.clear()
    assert bench.run(op(0)) == []
    bench.switch.set_port_state(2, up=False)
    bench.clock.run()
    assert [drop.reason for drop in bench.drops] == [DropReason.NO_PROGRAM]  # the frame, no event
    assert not bench.switch.port_live(2)
    bench.switch.load(program)
    assert bench.register("timers").values[5] == 0
    assert [s.port for s in bench.run(op(0))] == [1]
    assert bench.switch.generator.running == ()


def test_a_switch_that_is_unloaded_loses_what_it_held() -> None:
    bench = Bench()
    bench.switch.receive(1, op(0))
    bench.switch.unload()
    bench.clock.run()
    assert [drop.reason for drop in bench.drops] == [DropReason.RELOADED]
    bench.switch.unload()  # twice is once


def test_without_a_program_packets_are_dropped() -> None:
    clock = VirtualClock()
    switch = Switch(None, SwitchConfig(), clock, name="s1", rng=RandomStream(1))
    switch.add_port(1, GBPS)
    switch.receive(1, op(0))
    switch.set_port_state(1, up=False)
    clock.run()
    assert switch.drops == {DropReason.NO_PROGRAM: 1}
    assert switch.program is None
    with pytest.raises(ConfigError, match="switch s1 has no program loaded"):
        _ = switch.state


def test_loading_a_program_drops_packets_inside_and_forgets_state() -> None:
    bench = Bench(ingress_latency_ps=10 * NS)
    for _ in range(3):
        bench.switch.receive(3, op(0, 1, size=65))  # 100 ns each on the wire
    bench.clock.run(until_ps=20 * NS)  # one on its way out, two queued
    bench.switch.receive(3, op(0, 2))  # still before its queue
    bench.switch.receive(3, op(3, 2))  # between two passes
    bench.register("timers").write(0, 9)
    bench.switch.replication.insert_group(MulticastGroup(1))
    bench.switch.load(ops_program())
    bench.clock.run()
    assert [s.port for s in bench.out] == [1]
    assert bench.reasons() == [DropReason.RELOADED] * 4
    assert bench.register("timers").values[0] == 0
    assert bench.switch.replication.groups() == ()
    bench.out.clear()
    assert [s.port for s in bench.run(op(0, 2))] == [2]


CRC_PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<72> data; bit<32> sum; }
struct headers_t { h_t h; }
struct meta_t { }
parser P(packet_in pkt, out headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    state start { pkt.extract(h.h); transition accept; }
}
control VC(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) {
    action_selector(HashAlgorithm.crc32_custom, 32w8, 32w32) members;
    action to(bit<9> port) { sm.egress_spec = port; }
    table pick {
        key = { h.h.sum : exact; h.h.data : selector; }
        actions = { to; NoAction; }
        implementation = members;
    }
    apply {
        pick.apply();
        hash(h.h.sum, HashAlgorithm.crc32_custom, 32w0, { h.h.data }, 33w0x100000000);
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t sm) { apply { } }
control CC(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out pkt, in headers_t h) { apply { pkt.emit(h); } }
V1Switch(P(), VC(), I(), E(), CC(), D()) main;
"""


def test_custom_crcs_hold_for_hashes_and_selectors() -> None:
    bench = Bench(program=compile_p4(CRC_PROGRAM))
    members: Any = bench.switch.state.by_name("members")
    pick: Any = bench.switch.state.by_name("pick")
    to = next(a.p4info_id for a in pick.decl.actions if a.name == "I.to")
    for port in (1, 2, 3, 4):
        members.insert_member(port, ActionCall(to, (port,)))
    members.insert_group(1, [GroupMember(port) for port in (1, 2, 3, 4)])
    pick.insert((0,), GroupRef(1))
    frame = b"123456789" + bytes(4)
    # CRC-32 of "123456789" is cbf43926, which is 2 modulo 4: the third port.
    assert [(s.port, s.data[9:].hex()) for s in bench.run(frame)] == [(3, "cbf43926")]
    bench.switch.set_custom_crc("crc32_custom", CrcModel(32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF))
    # CRC-32C of it is e3069283, 3 modulo 4.
    assert [(s.port, s.data[9:].hex()) for s in bench.run(frame)] == [(4, "e3069283")]
    with pytest.raises(ConfigError, match="only crc16_custom and crc32_custom"):
        bench.switch.set_custom_crc("crc32", CrcModel(32, 1))


def test_same_seed_same_frames() -> None:
    def story() -> tuple[list[Sent], list[Drop]]:
        bench = Bench(max_passes=4)
        bench.switch.replication.insert_session(CloneSession(6, (Replica(2), Replica(4))))
        for number in range(40):
            bench.switch.receive(1 + number % 4, op(number % 16, 1 + number % 4, 6, 60 + number))
            bench.clock.run(until_ps=number * 50 * NS)
        bench.clock.run()
        return bench.out, bench.drops

    assert story() == story()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=80), max_size=6))
def test_any_bytes_end_somewhere(frames: list[bytes]) -> None:
    bench = Bench(max_passes=4)
    bench.switch.replication.insert_session(CloneSession(0, (Replica(2),)))
    for frame in frames:
        bench.switch.receive(3, frame)
        bench.switch.packet_out(frame)
    bench.clock.run()
    assert all(port.queued == 0 for port in bench.switch.ports.values())
