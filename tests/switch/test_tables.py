"""Tables: what matches, what is refused, what is counted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from switch_kit import ACTIONS, NOP, SET, WIDE, found, key, make_decl, make_table, set_

from sglb.p4 import ir
from sglb.p4.runtime import Colour
from sglb.switch.clock import PS_PER_S, PS_PER_US, VirtualClock
from sglb.switch.errors import (
    ActionScope,
    BadValue,
    ConstTable,
    EntryExists,
    NoSuchEntry,
    SwitchError,
    TableFull,
    UnknownAction,
    ValueTooLarge,
)
from sglb.switch.keys import MatchKey, matches
from sglb.switch.meters import MeterConfig
from sglb.switch.profiles import ActionCall
from sglb.switch.tables import Table


def test_exact_keys_must_all_agree() -> None:
    table = make_table([key("exact", 9), key("exact", 33)])
    table.insert((0x1FF, 0x1_FFFF_FFFF), set_(1))
    assert found(table, 0x1FF, 0x1_FFFF_FFFF) == 1
    assert found(table, 0x1FF, 0x0_FFFF_FFFF) is None


def test_the_longest_prefix_wins_in_any_order_of_insertion() -> None:
    table = make_table([key("lpm", 32)])
    for value, length, result in [
        (0x0A000000, 8, 8),
        (0x0A010203, 32, 32),
        (0x0A010000, 16, 16),
        (0, 0, 0),
        (0x0A01024D, 24, 24),  # host bits set: stands for 10.1.2.0/24
    ]:
        table.insert(((value, length),), set_(result))
    assert found(table, 0x0A010203) == 32
    assert found(table, 0x0A010204) == 24
    assert found(table, 0x0A01FF00) == 16
    assert found(table, 0x0AFF0000) == 8
    assert found(table, 0x0B000000) == 0
    table.delete(((0, 0),))
    assert found(table, 0x0B000000) is None
    assert found(table, 0x0A010203) == 32


def test_lpm_beside_exact_keys() -> None:
    table = make_table([key("exact", 4), key("lpm", 8)])
    table.insert((1, (0xF0, 4)), set_(14))
    table.insert((1, (0, 0)), set_(10))
    table.insert((2, (0xFF, 8)), set_(28))
    assert found(table, 1, 0xF7) == 14
    assert found(table, 1, 0x07) == 10
    assert found(table, 2, 0xFF) == 28
    assert found(table, 2, 0xF7) is None


def test_larger_priority_wins_and_of_equals_the_first() -> None:
    table = make_table([key("ternary", 32)])
    table.insert(((0x0C0C0000, 0xFFFF0000),), set_(6), priority=7)
    table.insert(((0x0C0C0C00, 0xFFFFFF00),), set_(7), priority=7)
    table.insert(((0, 0),), set_(1), priority=9)
    assert found(table, 0x0C0C0C01) == 1
    table.delete(((0, 0),), 9)
    assert found(table, 0x0C0C0C01) == 6
    table.delete(((0x0C0C0000, 0xFFFF0000),), 7)
    assert found(table, 0x0C0C0C01) == 7
    assert found(table, 0x0D000000) is None


def test_same_key_with_two_priorities_is_two_entries() -> None:
    table = make_table([key("ternary", 8)])
    table.insert(((1, 0xFF),), set_(1), priority=1)
    table.insert(((1, 0xFF),), set_(2), priority=2)
    with pytest.raises(EntryExists, match=r"C\.t has an entry \[k8=0x1&&&0xff\]"):
        table.insert(((1, 0xFF),), set_(3), priority=2)
    assert found(table, 1) == 2
    table.delete(((1, 0xFF),), 2)
    assert found(table, 1) == 1


def test_range_and_optional_keys() -> None:
    table = make_table([key("range", 16), key("optional", 8)])
    table.insert(((100, 200), 1), set_(1), priority=10)
    table.insert(((0, 100), 1), set_(2), priority=5)
    table.insert(((0, 100), None), set_(3), priority=1)
    assert [found(table, v, 1) for v in (99, 100, 200)] == [2, 1, 1]
    assert [found(table, v, 9) for v in (0, 100, 101)] == [3, 3, None]


def test_a_keyless_table_runs_its_default() -> None:
    table = make_table([], default_action=0, default_args=(9,))
    assert table.lookup((), b"", 0).args == (9,)
    with pytest.raises(BadValue, match="has no key"):
        table.insert((), set_(1))
    table.set_default(set_(4))
    assert table.lookup((), b"", 0).args == (4,)
    table.reset_default()
    assert table.lookup((), b"", 0).args == (9,)


def test_a_write_is_seen_by_the_next_lookup_of_a_remembered_key() -> None:
    table = make_table([key("ternary", 8)])
    assert found(table, 5) is None
    table.insert(((5, 0xFF),), set_(1), priority=1)
    assert found(table, 5) == 1
    table.modify(((5, 0xFF),), set_(2), priority=1)
    assert found(table, 5) == 2
    table.set_default(set_(7))
    table.clear()
    match = table.lookup((5,), b"", 0)
    assert (match.hit, match.args) == (False, (7,))


def refusals() -> list[tuple[type[SwitchError], str, Any]]:
    return [
        (EntryExists, r"C\.t has an entry \[k8=0x1\]", lambda t: t.insert((1,), set_(0))),
        (NoSuchEntry, r"C\.t has no entry \[k8=0x2\]", lambda t: t.modify((2,), set_(0))),
        (NoSuchEntry, r"C\.t has no entry \[k8=0x2\]", lambda t: t.delete((2,))),
        (BadValue, "1 key field", lambda t: t.insert((1, 2), set_(0))),
        (ValueTooLarge, "key k8: 0x100 does not fit", lambda t: t.insert((256,), set_(0))),
        (BadValue, "its keys take none", lambda t: t.insert((2,), set_(0), priority=1)),
        (
            UnknownAction,
            r"no action with id 9; it has C\.set",
            lambda t: t.insert((2,), ActionCall(9)),
        ),
        (BadValue, r"C\.set takes 1 parameter", lambda t: t.insert((2,), ActionCall(SET))),
        (ValueTooLarge, "exceeds 8 bits", lambda t: t.insert((2,), set_(256))),
        (
            ValueTooLarge,
            r"parameter 2 of C\.wide is 16",
            lambda t: t.insert((2,), ActionCall(WIDE, (1, 16))),
        ),
        (BadValue, "support_timeout", lambda t: t.insert((2,), set_(0), idle_timeout_ns=1)),
    ]


@pytest.mark.parametrize(("error", "text", "do"), refusals())
def test_refusals_name_table_and_key_and_change_nothing(
    error: type[SwitchError], text: str, do: Any
) -> None:
    table = make_table([key("exact", 8)])
    table.insert((1,), set_(11))
    with pytest.raises(error, match=text):
        do(table)
    assert len(table) == 1
    assert found(table, 1) == 11
    assert found(table, 2) is None


def test_a_full_table_takes_an_entry_again_after_a_delete() -> None:
    table = make_table([key("exact", 8)], size=2)
    table.insert((1,), set_(1))
    table.insert((2,), set_(2))
    with pytest.raises(TableFull, match=r"table C\.t is full: its size is 2"):
        table.insert((3,), set_(3))
    table.delete((2,))
    table.insert((3,), set_(3))
    assert found(table, 3) == 3


def const_entries() -> tuple[ir.ConstEntry, ...]:
    full = ir.EntryKey(0x10, 0xF0)
    return (
        ir.ConstEntry((full,), 0, (1,), 2, is_const=True),
        ir.ConstEntry((ir.EntryKey(0, 0),), 0, (2,), 1, is_const=False),
    )


def test_const_entries_cannot_be_touched() -> None:
    table = make_table([key("ternary", 8)], entries=const_entries(), entries_const=True)
    assert [found(table, v) for v in (0x1F, 0x2F)] == [1, 2]
    for do in (
        lambda: table.insert(((1, 1),), set_(0), priority=1),
        lambda: table.modify(((0x10, 0xF0),), set_(0), priority=2),
        lambda: table.delete(((0x10, 0xF0),), 2),
    ):
        with pytest.raises(ConstTable, match=r"C\.t"):
            do()


def test_only_the_const_ones_among_program_entries_are_fixed() -> None:
    table = make_table([key("ternary", 8)], entries=const_entries())
    with pytest.raises(ConstTable):
        table.delete(((0x10, 0xF0),), 2)
    table.delete(((0, 0),), 1)
    table.insert(((0, 0),), set_(5), priority=1)
    table.clear()
    assert [found(table, v) for v in (0x1F, 0x2F)] == [1, None]


def test_a_const_default_stays() -> None:
    table = make_table([key("exact", 8)], const_default=True)
    for do in (lambda: table.set_default(set_(1)), table.reset_default):
        with pytest.raises(ConstTable, match="default action is const"):
            do()


def test_action_scopes() -> None:
    scoped = (
        ir.TableAction("C.set", 0, params=((0, 8),), p4info_id=SET, table_only=True),
        ir.TableAction("NoAction", 1, p4info_id=NOP, default_only=True),
    )
    table = make_table([key("exact", 8)], actions=scoped)
    with pytest.raises(ActionScope, match=r"C\.set is @tableonly"):
        table.set_default(set_(1))
    with pytest.raises(ActionScope, match="NoAction is @defaultonly"):
        table.insert((1,), ActionCall(NOP))


def test_direct_counters_count_hits_and_misses_apart() -> None:
    table = make_table([key("exact", 8)], direct_counter=0)
    entry = table.insert((1,), set_(1))
    for value, length in [(1, 60), (1, 40), (2, 7)]:
        table.count(table.lookup((value,), b"", 0), length)
    assert (entry.counter.packets, entry.counter.bytes) == (2, 100)
    assert (table.default.counter.packets, table.default.counter.bytes) == (1, 7)
    table.modify((1,), set_(2))
    assert entry.counter.packets == 2


def test_direct_meters_are_per_entry() -> None:
    table = Table(make_decl([key("exact", 8)], direct_meter=0), VirtualClock(), meter_packets=True)
    table.insert((1,), set_(1)).meter.configure(MeterConfig(0, 1, 0, 2), 0)
    table.insert((2,), set_(2))
    colours = [table.meter(table.lookup((1,), b"", 0), 60, 0) for _ in range(3)]
    assert colours == [Colour.GREEN, Colour.YELLOW, Colour.RED]
    assert table.meter(table.lookup((2,), b"", 0), 60, 0) is Colour.GREEN


def test_idle_entries_are_told_once_per_timeout() -> None:
    clock = VirtualClock()
    table = make_table([key("exact", 8)], clock, support_timeout=True)
    entry = table.insert((1,), set_(1), idle_timeout_ns=1000)
    table.insert((2,), set_(2))
    assert table.next_idle_ps() == PS_PER_US
    assert table.idle(PS_PER_US - 1) == []
    assert table.idle(PS_PER_US) == [entry]
    assert table.idle(2 * PS_PER_US - 1) == []
    assert table.idle(2 * PS_PER_US) == [entry]
    table.lookup((1,), b"", 5 * PS_PER_US)
    assert table.next_idle_ps() == 6 * PS_PER_US
    assert entry.last_hit_ps == 5 * PS_PER_US


def test_time_of_last_hit_starts_at_insertion() -> None:
    clock = VirtualClock(start_ps=PS_PER_S)
    table = make_table([key("exact", 8)], clock, support_timeout=True)
    assert table.insert((1,), set_(1)).last_hit_ps == PS_PER_S


# --- against the plain definition of a match ------------------------------------------------------

WIDTH = 4
VALUES = st.integers(0, 15)
FIELDS = {
    "exact": VALUES,
    "lpm": st.tuples(VALUES, st.integers(0, WIDTH)),
    "ternary": st.tuples(VALUES, VALUES),
    "range": st.tuples(VALUES, VALUES).map(lambda p: (min(p), max(p))),
    "optional": st.none() | VALUES,
}


class LinearTable:
    """Looks at every entry: longest prefix first without priorities, else priority, then age."""

    def __init__(self, decl: ir.Table, *, needs_priority: bool) -> None:
        self.decl = decl
        self.needs_priority = needs_priority
        self.rules: list[tuple[MatchKey, int, int]] = []

    def find(self, values: tuple[int, ...]) -> int | None:
        best: tuple[Any, int] | None = None
        for order, (fields, priority, result) in enumerate(self.rules):
            decls = self.decl.keys
            if not all(
                matches(d.kind, f, v, d.width)
                for d, f, v in zip(decls, fields, values, strict=True)
            ):
                continue
            if self.needs_priority:
                rank: Any = (priority, -order)
            else:
                rank = [f[1] for d, f in zip(decls, fields, strict=True) if d.kind == "lpm"]
            if best is None or rank > best[0]:
                best = (rank, result)
        return None if best is None else best[1]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_indices_agree_with_a_linear_search(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=3))
    table = make_table([key(kind, WIDTH, name=f"k{i}") for i, kind in enumerate(kinds)])
    model = LinearTable(table.decl, needs_priority=table.needs_priority)
    for step in range(data.draw(st.integers(1, 12))):
        if model.rules and data.draw(st.integers(0, 3)) == 0:
            fields, priority, _ = model.rules.pop(data.draw(st.integers(0, len(model.rules) - 1)))
            table.delete(fields, priority)
        else:
            fields = data.draw(st.tuples(*(FIELDS[kind] for kind in kinds)))
            priority = data.draw(st.integers(1, 3)) if table.needs_priority else 0
            try:
                entry = table.insert(fields, set_(step), priority=priority)
            except EntryExists:
                assert table.get(fields, priority) is not None
            else:
                model.rules.append((entry.key, priority, step))
        for _ in range(3):
            values = data.draw(st.tuples(*(VALUES for _ in kinds)))
            assert found(table, *values) == model.find(values)
    assert {(e.key, e.priority) for e in table.entries()} == {(k, p) for k, p, _ in model.rules}


def test_the_kit_has_the_ids_it_names() -> None:
    assert [a.p4info_id for a in ACTIONS] == [SET, NOP, WIDE]
