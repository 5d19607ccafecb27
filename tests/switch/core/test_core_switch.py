"""The native switch against the one in Python: same frames at the same picosecond, same counts.

Delays and rates are such that different ways through a switch hardly ever take the same time: events of
one time are ordered by kind here, by when they were asked for there.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from core_kit import GBPS, Bench, CoreBench, copies_program

from sglb.p4.compiler import compile as compile_p4
from sglb.switch.clock import PS_PER_US
from sglb.switch.core import bind
from sglb.switch.core import model as m
from sglb.switch.errors import ConfigError
from sglb.switch.pktgen import TimerApp
from sglb.switch.ports import DropReason
from sglb.switch.pre import CloneSession, MulticastGroup, Replica

US = PS_PER_US
ODD = {
    "rate_bps": 7_919_999_983,
    "ingress_latency_ps": 400_003,
    "egress_latency_ps": 300_007,
    "recirculation_latency_ps": 123_457,
    "wire_overhead_bytes": 24,
    "queue_limit_bytes": 3_000,
    "max_passes": 3,
    "max_copies": 5,
    "port_events": True,
}
CLONE, RESUBMIT, MULTICAST, DROP, CLONE_E, AGAIN, DROP_E, CUT = (1 << i for i in range(8))


def command(
    ops: int = 0, port: int = 1, queue: int = 0, session: int = 1, left: int = 0, size: int = 6
) -> bytes:
    return bytes((ops, port, queue, session, left, 0)).ljust(size, b"\xab")


def replicate(bench: Bench) -> None:
    engine = bench.switch.replication
    copies = (Replica(1, 1), Replica(2, 2), Replica(3, 3), Replica(77, 4))
    engine.insert_group(MulticastGroup(1, copies))
    engine.insert_group(MulticastGroup(2, (Replica(1, 5, ((2, 6),)), Replica(4, 7))))
    engine.insert_session(CloneSession(1, (Replica(2, 9),)))
    engine.insert_session(CloneSession(2, (Replica(1, 10), Replica(510, 11)), 3, 50))
    engine.insert_session(CloneSession(1025, (Replica(4, 12),)))  # in the slot after that of 1
    engine.insert_session(CloneSession(3, ()))


def random_traffic(bench: Bench, seed: int) -> None:
    rng = random.Random(seed)
    replicate(bench)
    clock, switch = bench.clock, bench.switch
    time = 0
    for _ in range(250):
        time += rng.randrange(1, 400_000)
        ops = sum(1 << bit for bit in range(8) if rng.random() < 0.2)
        if ops & AGAIN:  # what comes of one packet would meet at the same time
            ops &= ~(CLONE_E | MULTICAST)
        if ops & MULTICAST:
            ops &= ~CLONE_E
        data = command(
            ops,
            rng.choice((1, 2, 3, 4, 5, 255)),
            rng.choice((0, 1, 2, 3, 0xCC, 0xDD, 0xEE)),
            rng.choice((0, 1, 1, 2, 2, 3)),
            rng.randrange(4),
            rng.choice((6, 7, 20, 64, 200, 700, 1500)),
        )
        clock.call_at(time, switch.receive, rng.choice((1, 2, 3, 4, 510)), data)
    clock.call_at(20 * US + 11, switch.set_port_state, 1, False)
    clock.call_at(45 * US + 17, switch.set_port_state, 1, True)
    switch.start_generator(TimerApp(3, 7 * US + 3, b"payload!", US + 1, 3, 500_009))
    clock.call_at(40 * US + 1, switch.stop_generator, 3)
    clock.call_at(30 * US + 1, switch.set_port_rate, 2, 3 * GBPS)
    clock.call_at(48 * US + 1, switch.load, switch.program)
    bench.run(100 * US)


def outcome(bench: Bench) -> dict[str, Any]:
    ports = bench.switch.ports.items()
    return {
        "sent": sorted(bench.sent, key=lambda frame: (frame[3], frame[0])),
        "to the controller": sorted(bench.cpu),
        "digests": sorted(bench.digests),
        "drops": dict(bench.switch.drops),
        "counters": {number: port.counters for number, port in ports},
        "deepest": {n: [(q.max_bytes, q.max_packets) for q in p.queues] for n, p in ports},
    }


@pytest.mark.parametrize("depth_unit", ["packets", "bytes", "cells"])
@pytest.mark.parametrize("seed", range(4))
def test_random_traffic_comes_out_the_same(seed: int, depth_unit: str) -> None:
    settings = ODD | {"depth_unit": depth_unit}
    reference, native = Bench(copies_program(), **settings), CoreBench(copies_program(), **settings)
    random_traffic(reference, seed)
    random_traffic(native, seed)
    native.core.collect()
    assert outcome(native) == outcome(reference)
    assert len(reference.sent) > 90
    assert native.world.w[m.ROWS_USED] == 0


def both(**settings: Any) -> tuple[Bench, CoreBench]:
    return Bench(copies_program(), **settings), CoreBench(copies_program(), **settings)


@pytest.mark.parametrize(
    "ops", [RESUBMIT, AGAIN, CLONE | RESUBMIT, CLONE_E | CUT, MULTICAST | CLONE]
)
def test_without_delays_everything_happens_at_once(ops: int) -> None:
    benches = both(rate_bps=None, ingress_latency_ps=0, egress_latency_ps=0, max_passes=4)
    for bench in benches:
        replicate(bench)
        bench.switch.receive(3, command(ops, 2, 1, 1, 2, 100))
        bench.run(0)
    reference, native = benches
    native.core.collect()
    assert sorted(native.sent) == sorted(reference.sent)
    assert native.switch.drops == reference.switch.drops


def test_a_backup_replica_takes_over_and_hands_back() -> None:
    for bench in both(port_down_detection_ps=US, port_up_detection_ps=US):
        replicate(bench)
        for at, up in ((10 * US, False), (20 * US, True)):
            bench.clock.call_at(at, bench.switch.set_port_state, 1, up)
        for at in (5, 15, 25):
            bench.clock.call_at(at * US, bench.switch.receive, 3, command(MULTICAST, session=2))
        bench.run(30 * US)
        assert sorted(port for port, _, start, _ in bench.sent if start < 10 * US) == [1, 4]
        assert sorted(port for port, _, start, _ in bench.sent if 10 < start // US < 20) == [2, 4]
        assert sorted(port for port, _, start, _ in bench.sent if start > 20 * US) == [1, 4]


def test_groups_and_sessions_that_go_are_gone() -> None:
    for bench in both():
        replicate(bench)
        engine = bench.switch.replication
        engine.delete_session(1)
        engine.modify_session(CloneSession(1025, (Replica(3, 1),)))
        engine.delete_group(1)
        engine.modify_group(MulticastGroup(2, (Replica(4, 7), Replica(2, 1))))
        for i, data in enumerate(
            (command(CLONE), command(MULTICAST), command(MULTICAST, session=2))
        ):
            bench.clock.call_at(i * US, bench.switch.receive, 4, data)
        bench.run(10 * US)
        assert sorted(port for port, *_ in bench.sent) == [1, 2, 4]
        assert bench.switch.drops == {DropReason.NO_GROUP: 1} or hasattr(bench, "core")
    bench.core.collect()  # type: ignore[attr-defined]
    assert bench.switch.drops == {DropReason.NO_GROUP: 1}


def test_a_switch_that_is_off_loses_everything() -> None:
    for bench in both():
        bench.switch.receive(3, command())
        bench.clock.call_at(US // 4, bench.switch.unload)
        bench.clock.call_at(US, bench.switch.receive, 3, command())
        bench.clock.call_at(2 * US, bench.switch.load, copies_program())
        bench.clock.call_at(3 * US, bench.switch.receive, 3, command(port=2))
        bench.run(10 * US)
        if isinstance(bench, CoreBench):
            bench.core.collect()
        assert [port for port, *_ in bench.sent] == [2]
        assert bench.switch.drops == {DropReason.RELOADED: 1, DropReason.NO_PROGRAM: 1}


def test_frames_from_a_control_plane_wait_for_their_time() -> None:
    bench = CoreBench(copies_program())
    for time in (3, 1, 2):  # asked for in this order
        bench.clock.now_ps = time * US
        bench.switch.packet_out(command(port=time))
    bench.clock.now_ps = 0
    bench.run(10 * US)
    assert [(port, start // US) for port, _, start, _ in bench.sent] == [(1, 2), (2, 3), (3, 4)]
    assert [len(data) for _, data, *_ in bench.sent] == [6 + 42] * 3


def test_an_unbound_switch_is_its_own_data_plane_again() -> None:
    bench = CoreBench(copies_program())
    bench.switch.start_generator(TimerApp(1, US))
    bench.switch.receive(3, command())
    bench.run(US // 4)
    bind.unbind(bench.core)
    bench.switch.receive(3, command(port=2))
    bench.clock.run(10 * US)
    assert [port for port, *_ in bench.sent] == [2]
    assert bench.switch.generator.running == ()


def test_what_the_memory_has_no_room_for() -> None:
    bench = CoreBench(copies_program())
    with pytest.raises(ConfigError, match="no room for a frame of 3000 bytes"):
        bench.switch.receive(1, bytes(3000))
    bench.world.w[m.HALT] = 0
    with pytest.raises(ConfigError, match="payload of 3000 bytes is longer than 2048"):
        bench.switch.start_generator(TimerApp(1, US, bytes(3000)))
    wide = tuple(Replica(1, i) for i in range(5000))
    with pytest.raises(ConfigError, match="more than 4096 copies"):
        bench.switch.replication.insert_group(MulticastGroup(5, wide))
    for i in range(512):
        bench.switch.replication.insert_session(CloneSession(i))
    with pytest.raises(ConfigError, match="room for 512 clone sessions"):
        bench.switch.replication.insert_session(CloneSession(512))
    bench.switch.add_port(9, None)
    with pytest.raises(ConfigError, match="has no port 9"):
        bind.bind(bench.memory, 0, bench.switch)


def test_programs_take_each_others_place_time_and_again() -> None:
    text = (Path(__file__).parent / "copies.p4").read_text()
    bench = CoreBench(copies_program())
    for number in range(1, 5):
        bench.switch.load(compile_p4(text))
        bench.switch.receive(3, command(port=1 + number % 3))
        bench.run(number * 10 * US)
    assert [port for port, *_ in bench.sent] == [2, 3, 1, 2]


def test_a_program_too_large_for_the_memory_leaves_the_one_that_runs() -> None:
    class Small(CoreBench):
        sizes = CoreBench.sizes.__class__(rows=10, frame_bytes=8, parse_bytes=64)

    with pytest.raises(ConfigError, match="the program needs rows of 96 bytes"):
        Small(copies_program())
    bench = CoreBench(copies_program())
    fields = " ".join(f"bit<128> f{i};" for i in range(64))
    text = (Path(__file__).parent / "copies.p4").read_text()
    wide = text.replace("header ", f"header wide_h {{ {fields} }}\nheader ", 1)
    start = wide.index("struct headers")
    wide = f"{wide[:start]}{wide[start:].replace('{', '{ wide_h wide;', 1)}"
    with pytest.raises(ConfigError, match="more than the fabric's memory was laid out for"):
        bench.switch.load(compile_p4(wide))
    bench.switch.receive(3, command(port=2))
    bench.run(10 * US)
    assert [port for port, *_ in bench.sent] == [2]
