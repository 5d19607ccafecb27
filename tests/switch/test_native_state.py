"""Native hashes, random numbers, counters, meters and action selectors against Python's."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_kit import Module, NativeTable, entry_at, hit
from switch_kit import key, make_decl, set_

from sglb.p4 import ir
from sglb.p4.hashing import CRC16, CRC32, CrcModel, HashAlgorithms
from sglb.p4.native import abi
from sglb.p4.native import table_layout as lay
from sglb.p4.native.emit_hash import (
    ALGORITHMS,
    hash_functions,
    random_between_function,
    random_function,
)
from sglb.p4.native.emit_meter import meter_functions
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import PS_PER_S, VirtualClock
from sglb.switch.memory import address_of, aligned_bytes
from sglb.switch.meters import Meter, MeterConfig
from sglb.switch.profiles import (
    ActionProfile,
    GroupMember,
    GroupRef,
    MemberRef,
    OneShot,
    OneShotAction,
)
from sglb.switch.tables import Table

POINTER, I32, I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
WIDTHS = (1, 7, 32, 63, 64, 65, 128, 130)


@cache
def hashes() -> Module:
    text = hash_functions(set(ALGORITHMS)) + random_function()
    for name in ALGORITHMS:
        text += (
            f"define i64 @run_{name}(ptr %m, ptr %b, i32 %n) {{\n"
            f"  %r = call i64 @hash_{name}(ptr %m, ptr %b, i32 %n)\n  ret i64 %r\n}}\n"
        )
    for width in WIDTHS:
        size = 8 * lay.natural_bytes(width)
        text += random_between_function(width) + (
            f"define void @between_{width}(ptr %m, ptr %low, ptr %high, ptr %out) {{\n"
            f"  %a = load i{width}, ptr %low, align 1\n"
            f"  %b = load i{width}, ptr %high, align 1\n"
            f"  %r = call i{width} @random_between_{width}(ptr %m, i{width} %a, i{width} %b)\n"
            + ("" if size == width else f"  %w = zext i{width} %r to i{size}\n")
            + f"  store i{size} {'%r' if size == width else '%w'}, ptr %out, align 1\n"
            "  ret void\n}\n"
        )
    return Module(text)


class Machine:
    """A machine with a random state and the two custom CRCs."""

    def __init__(self, seed: int = 1, crc16: CrcModel = CRC16, crc32: CrcModel = CRC32) -> None:
        self.stream = RandomStream(seed)
        self.python = HashAlgorithms(RandomStream(seed))
        self.python.set_custom("crc16_custom", crc16)
        self.python.set_custom("crc32_custom", crc32)
        self._crcs = [np.array(lay.crc_words(m), dtype=np.uint64) for m in (crc16, crc32)]
        self.words = np.zeros(abi.FIRST_TABLE, dtype=np.int64)
        self.words[lay.CUSTOM_CRC16], self.words[lay.CUSTOM_CRC32] = map(address_of, self._crcs)
        self.stream.move(self.words, abi.RANDOM_STATE)
        self.address = address_of(self.words)

    def hash(self, name: str, data: bytes) -> int:
        run = hashes().function(f"run_{name}", ctypes.c_uint64, POINTER, POINTER, I32)
        return int(run(self.address, data, len(data)))


@pytest.mark.parametrize("name", ALGORITHMS)
@given(data=st.binary(max_size=70))
def test_hashes_are_those_of_hashing(name: str, data: bytes) -> None:
    machine = Machine(seed=len(data))
    assert machine.hash(name, data) == machine.python[name](data)


@pytest.mark.parametrize(
    "model",
    [
        CrcModel(16, 0x1021, 0xFFFF, 0, reflect_in=False, reflect_out=False),
        CrcModel(16, 0x8BB7, 0x1234, 0xFFFF, reflect_in=True, reflect_out=False),
        CrcModel(32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF),
        CrcModel(32, 0x04C11DB7, 1, 2, reflect_in=False, reflect_out=True),
    ],
)
@given(data=st.binary(max_size=20))
def test_custom_crcs_follow_their_model(model: CrcModel, data: bytes) -> None:
    name = f"crc{model.width}_custom"
    machine = Machine(**{f"crc{model.width}": model})  # type: ignore[arg-type]
    assert machine.hash(name, data) == machine.python[name](data)


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown hash algorithms \['md5'\]; known are crc16"):
        hash_functions({"md5"})


@given(
    st.sampled_from(WIDTHS),
    st.integers(0, (1 << 64) - 1),
    st.lists(st.tuples(st.integers(0), st.integers(0)), min_size=1, max_size=4),
)
def test_both_sides_draw_the_same_numbers(
    width: int, seed: int, bounds: list[tuple[int, int]]
) -> None:
    machine, reference = Machine(seed), RandomStream(seed)
    run = hashes().function(f"between_{width}", None, *(POINTER,) * 4)
    size = lay.natural_bytes(width)
    for low, high in bounds:
        low, high = low % (1 << width), high % (1 << width)
        out = ctypes.create_string_buffer(size)
        sides = (low.to_bytes(size, "little"), high.to_bytes(size, "little"))
        run(machine.address, *sides, out)
        assert int.from_bytes(out.raw, "little") == reference.between(low, high)
    assert machine.stream.state == reference.state


@cache
def meters() -> Any:
    text = (
        f"{meter_functions()}define i32 @run(ptr %m, i32 %n, i64 %now) {{\n"
        "  %r = call i32 @meter_execute(ptr %m, i32 %n, i64 %now)\n  ret i32 %r\n}\n"
    )
    module = Module(text)
    return module, module.function("run", I32, POINTER, I32, I64)


#: Up to the largest rates and bursts there are: sums must not leave 128 bits.
NUMBERS = st.one_of(st.integers(0, 3000), st.integers(0, 10**10), st.just((1 << 63) - 1))
TWO_RATES = st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS).map(
    lambda r: MeterConfig(min(r[0], r[2]), r[1], max(r[0], r[2]), r[3])
)
BURSTS = st.one_of(st.integers(1, 3000), st.just(1 << 62))
ONE_RATE = st.tuples(NUMBERS, BURSTS, BURSTS).map(
    lambda r: MeterConfig(r[0], r[1] - 1, r[0], r[1] - 1, r[2])
)


@given(
    st.booleans(),
    st.one_of(st.none(), TWO_RATES, ONE_RATE),
    st.lists(
        st.tuples(
            st.integers(0, 9000), st.one_of(st.integers(0, 10**6), st.just(PS_PER_S * 10**5))
        ),
        max_size=20,
    ),
)
def test_native_meters_give_the_colours_of_meters(
    packets: bool, config: MeterConfig | None, seen: list[tuple[int, int]]
) -> None:
    memory = aligned_bytes(lay.METER_BYTES)
    live = Meter(packets=packets, words=memory.view(np.uint64).data)
    model = Meter(packets=packets)
    if config is not None:
        live.configure(config, 5)
        model.configure(config, 5)
    _, run = meters()
    now = 5
    for number, (size, gap) in enumerate(seen):
        now += gap
        colour = model.execute(size, now)
        # Python and native code take turns on the live one.
        got = run(address_of(memory), size, now) if number % 3 else int(live.execute(size, now))
        assert got == colour
    assert [(c.packets, c.bytes) for c in live.counts] == [
        (c.packets, c.bytes) for c in model.counts
    ]


# --- entries --------------------------------------------------------------------------------------


def test_entries_count_meter_and_age_natively() -> None:
    decl = make_decl([key("exact", 12)], direct_counter=0, direct_meter=1, support_timeout=True)
    table = Table(decl, VirtualClock(), meter_packets=True)
    code = NativeTable(decl)
    entry = table.insert((7,), set_(1))
    entry.meter.configure(MeterConfig(0, 1, 0, 2), 0)
    head = code.share(table)
    _, found = code.lookup(head, (7,), now_ps=77)
    for size in (100, 200, 300):
        code.count(found, size)
    assert [code.meter(found, 60, 0) for _ in range(3)] == [0, 1, 2]
    assert (entry.counter.packets, entry.counter.bytes) == (3, 600)
    assert [c.packets for c in entry.meter.counts] == [1, 1, 1]
    assert entry.last_hit_ps == 77
    _, missed = code.lookup(head, (8,), now_ps=99)
    code.count(missed, 50)
    assert (table.default.counter.bytes, table.default.last_hit_ps) == (50, 99)


def test_a_deleted_entrys_record_is_used_again_once_nobody_holds_it() -> None:
    decl = make_decl([key("exact", 12)], direct_counter=0)
    table, code = Table(decl, VirtualClock()), NativeTable(decl)
    entry = table.insert((7,), set_(1))
    head = code.share(table)
    code.count(code.lookup(head, (7,))[1], 100)
    address = entry.record.address
    table.delete((7,))
    other = table.insert((8,), set_(2))
    assert other.record.address != address
    table.restore(entry, set_(1))
    assert (entry.counter.packets, entry.counter.bytes) == (1, 100)
    assert code.lookup(head, (7,))[1] == address
    table.delete((7,))
    del entry
    fresh = table.insert((9,), set_(3))
    assert fresh.record.address == address
    assert (fresh.counter.packets, fresh.counter.bytes) == (0, 0)


class Selected:
    """A table with an action selector, native and not."""

    def __init__(self, algorithm: str = "crc16") -> None:
        self.up = {1: True, 2: True}
        instance = ir.Instance(
            ir.InstanceKind.ACTION_SELECTOR, "C.sel", size=64, algorithm=algorithm
        )
        hashes = HashAlgorithms(RandomStream(1))
        self.profile = ActionProfile(instance, lambda p: self.up[p], hashes[algorithm])
        decl = make_decl([key("exact", 12)], implementation=0, direct_counter=1)
        self.table = Table(decl, VirtualClock(), profile=self.profile)
        self.code = NativeTable(decl, algorithm)
        self.head = self.code.share(self.table)
        for number in range(1, 5):
            self.profile.insert_member(number, set_(10 * number))

    def check(self, value: int, selector: bytes) -> int | None:
        result, entry = self.code.lookup(self.head, (value,), selector)
        match = self.table.lookup((value,), selector, 0)
        assert self.code.read(result) == (match.action, match.args)
        assert hit(entry) == match.hit
        assert entry_at(self.table, entry) is (self.table.get((value,)) or self.table.default)
        return match.args[0] if match.args else None


SELECTORS = [bytes([i, 3 * i & 255]) for i in range(40)]


@pytest.mark.parametrize("algorithm", ["crc16", "crc32", "identity", "xor16", "csum16"])
def test_native_selectors_choose_as_bmv2_does(algorithm: str) -> None:
    bench = Selected(algorithm)
    profile, table = bench.profile, bench.table
    profile.insert_group(1, [GroupMember(1, 2, watch_port=1), GroupMember(2), GroupMember(4, 3)])
    table.insert((1,), GroupRef(1))
    table.insert((2,), MemberRef(3))
    shot = (OneShotAction(set_(7), 1, watch_port=2), OneShotAction(set_(8), 2))
    table.insert((3,), OneShot(shot))
    every = (1, 2, 3, 4)

    def seen(value: int) -> set[int | None]:
        return {bench.check(value, data) for data in SELECTORS}

    assert [seen(value) for value in every] == [{10, 20, 40}, {30}, {7, 8}, {None}]
    for port in bench.up:
        bench.up[port] = False
        profile.port_changed(port)
    assert [seen(value) for value in every] == [{20, 40}, {30}, {8}, {None}]
    profile.modify_member(3, set_(99))
    profile.modify_group(1, [GroupMember(1, 1, watch_port=1)])
    assert [seen(value) for value in every] == [{None}, {99}, {8}, {None}]
    # Every lookup above of the group without anybody alive was native and in Python.
    assert profile.empty_lookups == 2 * len(SELECTORS)
    bench.up[1] = True
    profile.port_changed(1)
    table.modify((3,), MemberRef(2))
    assert [seen(value) for value in every] == [{10}, {99}, {20}, {None}]


def test_tables_that_share_a_profile_number_its_actions_their_own_way() -> None:
    first = make_decl([key("exact", 12)], implementation=0, name="C.a")
    turned = (first.actions[1], first.actions[0], first.actions[2])
    second = make_decl([key("exact", 12)], implementation=0, name="C.b", actions=turned)
    instance = ir.Instance(ir.InstanceKind.ACTION_PROFILE, "C.p", size=8)
    profile = ActionProfile(instance, lambda _: True, lambda _: 0)
    tables = [Table(decl, VirtualClock(), profile=profile) for decl in (first, second)]
    profile.insert_member(1, set_(5))
    for table, index in zip(tables, (0, 1), strict=True):
        table.insert((1,), MemberRef(1))
        code = NativeTable(table.decl)
        result, _ = code.lookup(code.share(table), (1,))
        assert code.read(result) == (index, (5,))
    with pytest.raises(ValueError, match=r"C\.p has members already"):
        Table(first, VirtualClock(), profile=profile)
