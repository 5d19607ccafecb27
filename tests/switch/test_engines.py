"""Two switches, one interpreting and one native: the same writes and packets leave the same behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sglb import p4
from sglb.p4 import CompiledProgram
from sglb.p4.hashing import CrcModel
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import PS_PER_US, VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.counters import CounterData
from sglb.switch.digests import DigestConfig
from sglb.switch.errors import SwitchError
from sglb.switch.keys import MatchKey
from sglb.switch.meters import Meter, MeterConfig
from sglb.switch.pre import CloneSession, Replica
from sglb.switch.profiles import (
    ActionCall,
    GroupMember,
    GroupRef,
    MemberRef,
    OneShot,
    OneShotAction,
)
from sglb.switch.switch import EngineName, Switch
from sglb.switch.tables import Table
from sglb.switch.trace import TraceRecorder

GBPS = 10**9


@lru_cache(maxsize=1)
def program() -> CompiledProgram:
    return p4.compile(Path(__file__).parent / "state.p4")


class Bench:
    """A switch with ports 0 to 3 and all that it says."""

    def __init__(self, engine: EngineName) -> None:
        self.clock = VirtualClock()
        self.said: list[Any] = []
        config = SwitchConfig(port_down_detection_ps=0, port_up_detection_ps=0)
        self.switch = Switch(program(), config, self.clock, rng=RandomStream("both"), engine=engine)
        for number in range(4):
            self.switch.add_port(number, 8 * GBPS)
        self.switch.on_transmit = lambda *frame: self.said.append(frame)
        self.switch.on_drop = lambda drop: self.said.append(drop)
        self.switch.on_idle = lambda table, entries: self.said.append(
            (table.name, [entry.key for entry in entries])
        )
        self.switch.digests.on_list = self.said.append
        (digest,) = self.switch.state.digest_ids.values()
        self.switch.digests.enable(digest, DigestConfig())
        self.switch.replication.insert_session(CloneSession(1, (Replica(3, 7),)))

    def table(self, name: str) -> Table:
        found = self.switch.state.by_name(name)
        assert isinstance(found, Table)
        return found

    def act(self, step: Callable[[Bench], object]) -> None:
        try:
            step(self)
        except SwitchError as error:
            self.said.append(str(error))

    def left_behind(self) -> list[Any]:
        """All state, as the control plane reads it."""
        state = self.switch.state
        found: list[Any] = []
        for table in state.tables:
            for entry in (*table.entries(), table.default):
                found.append((table.name, entry.key, entry.priority, entry.last_hit_ps))
                found += [numbers(entry.counter), meter_state(entry.meter)]
        for register in state.registers.values():
            found.append([register.read(index) for index in range(register.size)])
        for counter in state.counters.values():
            found.append([numbers(counter.cell(index)) for index in range(counter.size)])
        for meter in state.meters.values():
            found.append([meter_state(meter.cell(index)) for index in range(meter.size)])
        found += [profile.empty_lookups for profile in state.profiles.values()]
        return [*found, self.switch.drops]


def numbers(cell: CounterData) -> tuple[int, int]:
    return cell.packets, cell.bytes


def meter_state(meter: Meter) -> Any:
    return meter.config, [numbers(cell) for cell in meter.counts]


# --- what can happen ------------------------------------------------------------------------------

Step = Callable[[Bench], object]

BYTES = st.integers(0, 3)
LONG = st.sampled_from([0, 1, 0x0A000000, 0x0A000001, 0x0A010000, 0xFFFFFFFF])
SHORT = st.sampled_from([0, 1, 5, 6, 255, 256, 0xFFFF])


def packets() -> st.SearchStrategy[Step]:
    def made(a: int, b: int, c: int, op: int, port: int, gap: int) -> Step:
        data = bytes([a, *b.to_bytes(2, "big"), *c.to_bytes(4, "big"), op]) + bytes(gap % 50)

        def send(bench: Bench) -> None:
            bench.switch.receive(port, data[: 4 if gap == 13 else None])
            bench.clock.run(until_ps=bench.clock.now_ps + gap * PS_PER_US)

        return send

    ops = st.one_of(st.integers(0, 63), st.just(255))
    return st.builds(made, BYTES, SHORT, LONG, ops, st.integers(0, 3), st.integers(0, 40))


def prefix(width: int, values: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(values, st.sampled_from([0, 4, 8, 15, 16, 31, 32, width]))


def masks(width: int) -> st.SearchStrategy[int]:
    top = (1 << width) - 1
    return st.sampled_from([0, 1, 2, top, top - 1, top << width // 2 & top, top >> width // 2])


WIDE = LONG.map(lambda v: v << 96 | v << 64 | v)
KEYS: dict[str, st.SearchStrategy[MatchKey]] = {
    "exact": st.tuples(BYTES, st.integers(0, 63)),
    "long": st.tuples(prefix(32, LONG)),
    "wide": st.tuples(prefix(128, WIDE)),
    "mixed": st.tuples(BYTES, prefix(32, LONG)),
    "many": st.tuples(
        st.tuples(BYTES, masks(8)), st.tuples(LONG, masks(32)), st.one_of(st.none(), SHORT)
    ),
    "span": st.tuples(
        st.tuples(SHORT, SHORT).map(lambda p: (min(p), max(p))), st.tuples(BYTES, masks(8))
    ),
    "chosen": st.tuples(BYTES),
    "fixed": st.tuples(BYTES),
}


def call(table: Table, value: int) -> ActionCall:
    action = table.decl.actions[0]
    return ActionCall(action.p4info_id, (value, value << 100)[: len(action.params)])


def target(table: Table, kind: int, value: int) -> Any:
    if table.decl.implementation is None:
        return call(table, value)
    if kind == 0:
        return MemberRef(value % 6)
    if kind == 1:
        return GroupRef(value % 3)
    ports = (value % 4, None, None)
    return OneShot(tuple(OneShotAction(call(table, value ^ p), 1 + p, ports[p]) for p in range(3)))


@st.composite
def writes(draw: st.DrawFn) -> Step:
    name = draw(st.sampled_from(sorted(KEYS)))
    key, what = draw(KEYS[name]), draw(st.sampled_from(["insert"] * 5 + ["modify", "delete"]))
    priority = draw(st.integers(1, 4)) if name in ("many", "span") else 0
    kind, value = draw(st.integers(0, 2)), draw(st.integers(1, 255))
    idle = draw(st.sampled_from([0, 20_000])) if name == "exact" else 0

    def write(bench: Bench) -> None:
        table = bench.table(name)
        if what == "delete":
            table.delete(key, priority)
            return
        method = table.insert if what == "insert" else table.modify
        method(key, target(table, kind, value), priority=priority, idle_timeout_ns=idle)

    return write


@st.composite
def many_rules(draw: st.DrawFn) -> Step:
    """Enough masks that rules are found another way."""
    seed, count = draw(st.integers(0, 10**6)), draw(st.sampled_from([20, 120]))

    def write(bench: Bench) -> None:
        stream, table = RandomStream(seed), bench.table("many")
        for number in range(count):
            key: MatchKey = (
                (stream.bits(2), stream.bits(8)),
                (stream.bits(32), stream.bits(32) & stream.bits(32)),
                None,
            )
            if table.get(key, priority := 1 + stream.bits(3)) is None:
                table.insert(key, call(table, number), priority=priority)

    return write


@st.composite
def profile_writes(draw: st.DrawFn) -> Step:
    name = draw(st.sampled_from(["members", "profile"]))
    what = draw(st.sampled_from(["member", "member", "change", "group", "regroup", "ungroup"]))
    number, value = draw(st.integers(0, 5)), draw(st.integers(0, 255))
    weights = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=4))
    chosen = [GroupMember(m, w, m % 4 if w == 2 else None) for m, w in dict(weights).items()]

    def write(bench: Bench) -> None:
        table = bench.table("chosen" if name == "members" else "fixed")
        profile = table.profile
        assert profile is not None
        if what == "member":
            profile.insert_member(number, call(table, value))
        elif what == "change":
            profile.modify_member(number, call(table, value))
        elif what == "group":
            profile.insert_group(number % 3, chosen)
        elif what == "regroup":
            profile.modify_group(number % 3, chosen)
        else:
            profile.delete_group(number % 3)

    return write


@st.composite
def other_writes(draw: st.DrawFn) -> Step:
    number, value = draw(st.integers(0, 3)), draw(st.integers(0, 2**40))
    rates = (value % 2000, value % 100, value % 3000 + 2000, value % 200)
    state: list[Step] = [
        lambda b: b.switch.set_port_state(number, value % 2 == 0),
        lambda b: b.switch.state.by_name("sums").write(number, value),  # type: ignore[union-attr]
        lambda b: b.switch.state.by_name("pairs").write(number, (3, value % 99)),  # type: ignore[union-attr]
        lambda b: b.switch.state.by_name("small").reset(),  # type: ignore[union-attr]
        lambda b: (
            b.switch.state.by_name("rates")
            .cell(number % 2)
            .configure(  # type: ignore[union-attr]
                MeterConfig(*rates), b.clock.now_ps
            )
        ),
        lambda b: b.switch.state.by_name("known").replace([(1,), (value % 9,)][: 1 + number % 2]),  # type: ignore[union-attr]
        lambda b: b.switch.set_custom_crc(
            "crc16_custom", CrcModel(16, 0x8BB7, value & 0xFFFF, 0, reflect_in=value % 2 == 0)
        ),
        lambda b: b.switch.set_custom_crc("crc32_custom", CrcModel(32, 0x1EDC6F41, number)),
        lambda b: b.table("long").set_default(call(b.table("long"), value % 256)),
        lambda b: b.table("many").set_default(call(b.table("many"), value % 256)),
        lambda b: b.table("long").reset_default(),
        lambda b: [
            entry.meter.configure(MeterConfig(*rates), b.clock.now_ps)
            for entry in b.table("many").entries()
        ],
        trace,
        lambda b: b.switch.load(program()) if value % 7 == 0 else None,
    ]
    return draw(st.sampled_from(state))


def trace(bench: Bench) -> None:
    """The next packets go through the interpreter, whatever the engine is; or no longer."""
    recorder = bench.switch.recorder
    bench.switch.recorder = TraceRecorder() if recorder is None else None


STEPS = st.one_of(packets(), packets(), writes(), writes(), profile_writes(), other_writes())


@given(st.lists(STEPS, min_size=5, max_size=40), st.lists(many_rules(), max_size=1))
@settings(max_examples=60)
def test_both_engines_leave_the_same_behind(steps: list[Step], first: list[Step]) -> None:
    benches = (Bench("interpreter"), Bench("native"))
    for step in (*first, *steps):
        for bench in benches:
            bench.act(step)
        assert benches[0].said == benches[1].said
    for bench in benches:
        bench.clock.run(until_ps=bench.clock.now_ps + 100 * PS_PER_US)
    assert benches[0].said == benches[1].said
    assert benches[0].left_behind() == benches[1].left_behind()
