"""Native lookups against the plain definition of a match, over random tables and writes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_kit import NativeSet, NativeTable, entry_at, hit
from switch_kit import key, make_decl, set_

from sglb.p4 import ir
from sglb.switch.clock import VirtualClock
from sglb.switch.keys import MatchField, MatchKey, matches
from sglb.switch.tables import Table, TableEntry
from sglb.switch.value_sets import ValueSetTable

#: Key kinds and widths, chosen so that every kind of index and every number of words occurs.
SHAPES: tuple[tuple[tuple[str, int], ...], ...] = (
    (("exact", 8),),
    (("exact", 3), ("exact", 4)),
    (("exact", 40),),
    (("exact", 64),),
    (("exact", 60), ("exact", 5)),
    (("exact", 128), ("exact", 9), ("exact", 200)),
    (("lpm", 5),),
    (("lpm", 8),),
    (("lpm", 32),),
    (("lpm", 61),),
    (("lpm", 128),),
    (("exact", 6), ("lpm", 10), ("lpm", 3)),
    (("ternary", 8),),
    (("ternary", 32), ("ternary", 32), ("lpm", 16), ("exact", 16), ("optional", 8)),
    (("range", 8),),
    (("ternary", 7), ("range", 64), ("range", 140)),
    (("optional", 1), ("optional", 1)),
)


@cache
def decl_of(shape: tuple[tuple[str, int], ...], signed: bool = False) -> ir.Table:
    keys = [key(k, w, signed=signed, name=f"k{i}") for i, (k, w) in enumerate(shape)]
    return make_decl(keys, size=200)


@cache
def native(shape: tuple[tuple[str, int], ...], signed: bool = False) -> NativeTable:
    return NativeTable(decl_of(shape, signed), "")


def values_of(width: int) -> st.SearchStrategy[int]:
    """Few enough values that keys meet, and those at the edges of words."""
    top = (1 << width) - 1
    near = st.integers(0, min(top, 7))
    return st.one_of(near, near.map(lambda v: top - v), near.map(lambda v: v << width >> 3 & top))


def fields_of(kind: str, width: int, signed: bool) -> st.SearchStrategy[MatchField]:
    value = values_of(width)
    if kind == "exact":
        return value
    if kind == "optional":
        return st.one_of(st.none(), value)
    if kind == "lpm":
        lengths = st.one_of(st.integers(0, width), st.sampled_from([0, width // 2, width]))
        return st.tuples(value, lengths)
    if kind == "ternary":
        masks = st.one_of(values_of(width), st.sampled_from([0, (1 << width) - 1]))
        return st.tuples(value, masks)
    sign = 1 << (width - 1) if signed else 0
    return st.tuples(value, value).map(lambda p: tuple(sorted(p, key=lambda v: v ^ sign)))  # type: ignore[arg-type,return-value]


def best(table: Table, values: tuple[int, ...]) -> TableEntry:
    """What the definition says matches: without any index."""
    decls = table.decl.keys
    found = [
        entry
        for entry in table.entries()
        if all(
            matches(k.kind, f, v, k.width, k.signed)
            for k, f, v in zip(decls, entry.key, values, strict=True)
        )
    ]
    lengths = [i for i, k in enumerate(decls) if k.kind == "lpm"]

    def preference(entry: TableEntry) -> tuple[Any, ...]:
        if table.needs_priority:
            return -entry.priority, entry.order
        return tuple(-entry.key[i][1] for i in lengths)  # type: ignore[index]

    return min(found, key=preference, default=table.default)


def check(table: Table, code: NativeTable, values: tuple[int, ...]) -> None:
    result, entry = code.lookup(table.share(0), values)
    wanted = best(table, values)
    assert entry_at(table, entry) is wanted
    assert code.read(result) == (wanted.action, wanted.args)
    assert hit(entry) == wanted.hit
    match = table.lookup(values, b"", 0)
    assert match is wanted


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("signed", [False, True])
@given(data=st.data())
@settings(max_examples=25)
def test_native_lookups_find_what_the_definition_says(
    shape: tuple[tuple[str, int], ...], signed: bool, data: st.DataObject
) -> None:
    if signed and all(kind != "range" for kind, _ in shape):
        return
    table = Table(decl_of(shape, signed), VirtualClock())
    code = native(shape, signed)
    keys = st.tuples(*(fields_of(kind, width, signed) for kind, width in shape))
    packets = st.tuples(*(values_of(width) for _, width in shape))
    if data.draw(st.booleans()):
        table.share(0)  # else the entries that are there by the first lookup come in at once
    for step in range(data.draw(st.integers(1, 25))):
        act = data.draw(st.sampled_from(["insert"] * 4 + ["delete", "modify", "look", "restore"]))
        entries = table.entries()
        if act == "insert":
            insert(table, data.draw(keys), data.draw(st.integers(0, 3)), step)
        elif entries and act == "look":
            check(table, code, data.draw(packets))
        elif entries:
            entry = data.draw(st.sampled_from(entries))
            if act == "modify":
                table.modify(entry.key, set_(step), priority=entry.priority)
            else:
                target = entry.target
                table.delete(entry.key, entry.priority)
                if act == "restore":
                    table.restore(entry, target)
    for values in data.draw(st.lists(packets, min_size=1, max_size=8)):
        check(table, code, values)
    for entry in table.entries():
        inside = tuple(f if isinstance(f, int) else 0 if f is None else f[0] for f in entry.key)
        check(table, code, inside)


def insert(table: Table, wanted: MatchKey, priority: int, number: int) -> None:
    priority = priority if table.needs_priority else 0
    if table.get(wanted, priority) is None:
        table.insert(wanted, set_(number), priority=priority)


@pytest.mark.parametrize("shape", [(("exact", 40),), (("exact", 60), ("exact", 5))])
def test_slots_grow_and_shrink_without_losing_anything(shape: tuple[tuple[str, int], ...]) -> None:
    decl = make_decl([key(k, w, name=f"k{i}") for i, (k, w) in enumerate(shape)], size=3000)
    table = Table(decl, VirtualClock())
    head, code = table.share(0), native(shape)
    keys = [tuple(i * 0x9E3779B1 % (1 << w) for _, w in shape) for i in range(3000)]
    for i, values in enumerate(keys):
        table.insert(values, set_(i % 256))
    for i, values in enumerate(keys):
        if i % 3:
            table.delete(values)
    for i, values in enumerate(keys):
        result, entry = code.lookup(head, values)
        assert hit(entry) == (i % 3 == 0)
        assert i % 3 or code.read(result) == (0, (i % 256,))


def test_a_trie_of_many_prefixes_gets_a_wide_first_node() -> None:
    shape = (("lpm", 32),)
    table = Table(make_decl([key("lpm", 32, name="k0")], size=5000), VirtualClock())
    head, code = table.share(0), native(shape)
    for i in range(2500):  # /17 to /32, all below 10/8, and one short one
        length = 17 + i % 16
        value = 0x0A000000 + (i * 40503 % (1 << 24))
        insert(table, ((value, length),), 0, i % 256)
    table.insert(((0x08000000, 5),), set_(77))
    packets = [0x0A000000 + (i * 40503 % (1 << 24)) for i in range(0, 2500, 7)]
    for step in range(2):
        for value in (*packets, 0x08000001, 0x0F123456, 0x10000000):
            _, entry = code.lookup(head, (value,))
            assert entry_at(table, entry) is table.lookup((value,), b"", 0)
        if step == 0:
            for entry in table.entries()[::2]:
                table.delete(entry.key)


@cache
def native_set(leaves: tuple[tuple[str, int], ...]) -> NativeSet:
    return NativeSet(set_decl(leaves))


def set_decl(leaves: tuple[tuple[str, int], ...]) -> ir.ValueSet:
    return ir.ValueSet("P.vs", tuple(w for _, w in leaves), tuple(k for k, _ in leaves), 30)


@pytest.mark.parametrize(
    "leaves",
    [
        (("exact", 16),),
        (("exact", 128), ("exact", 2)),
        (("ternary", 8), ("range", 8), ("lpm", 8)),
        (("lpm", 32),),
        (("exact", 4), ("lpm", 8)),
    ],
)
@given(data=st.data())
@settings(max_examples=25)
def test_value_sets_hold_their_members(
    leaves: tuple[tuple[str, int], ...], data: st.DataObject
) -> None:
    values = ValueSetTable(set_decl(leaves))
    members = st.tuples(*(fields_of(kind, width, False) for kind, width in leaves))
    operands = st.tuples(*(values_of(width) for _, width in leaves))
    code = native_set(leaves)
    for _ in range(2):
        wanted = data.draw(st.lists(members, max_size=12))
        shaped = {ValueSetTable(set_decl(leaves)).shape(member): member for member in wanted}
        values.replace(list(shaped.values()))
        for one in data.draw(st.lists(operands, min_size=1, max_size=8)):
            held = any(
                all(map(matches, values.kinds, member, one, values.widths)) for member in shaped
            )
            assert values.contains(one) == held
            assert code.contains(values, one) == held


def test_a_value_set_forgets_the_many_members_that_it_had() -> None:
    leaves = (("ternary", 8), ("range", 8), ("lpm", 8))
    values, code = ValueSetTable(set_decl(leaves)), native_set(leaves)
    many = [((0, mask), (0, 0), (0, 0)) for mask in range(12)]
    for members, held in ((many, True), ([], False), (many[:1], True), ([], False)):
        values.replace(members)
        assert code.contains(values, (0, 0, 0)) == held
