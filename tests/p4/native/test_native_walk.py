"""Random programs as native code against the plain walk over the IR (`reference_walk`)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interp_kit import FakeMatch, FakeTable
from native_run_kit import NativeIngress, in_block, in_row
from reference_walk import Walk
from test_interp_walk import Maker

from sglb.p4 import ir
from sglb.p4.native import usage


def stated(table: ir.Table, state: FakeTable) -> ir.Table:
    """A table that states, as entries and default, what the fake one answers."""
    width = table.keys[0].width
    entries = tuple(
        ir.ConstEntry((ir.EntryKey(key, (1 << width) - 1),), m.action, m.args, 0, True)
        for (key,), m in state.entries.items()
    )
    return replace(
        table,
        actions=tuple(replace(a, p4info_id=i + 1) for i, a in enumerate(table.actions)),
        entries=entries,
        default_action=state.default.action,
        default_args=state.default.args,
    )


def made(seed: int) -> tuple[ir.Program, list[FakeTable], dict[int, int]]:
    """A program, what its tables answer, and what its slots hold at first."""
    maker = Maker(random.Random(seed))
    program = maker.kit.program()
    states = maker.kit.table_states
    tables = tuple(stated(t, s) for t, s in zip(program.tables, states, strict=True))
    start = {slot: maker.number(width).value for slot, width in maker.scalars}
    return replace(program, tables=tables), states, start


@pytest.mark.parametrize("repeated", [usage.MAX_REPEATED, 0], ids=["inlined", "outlined"])
@pytest.mark.parametrize("place", [in_row, in_block])
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_random_programs_mean_what_the_walk_says(place, repeated: int, seed: int) -> None:
    program, states, start = made(seed)
    walk = Walk(program, states)
    walk.state.update(start)
    expected = walk.block(program.ingress)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(usage, "MAX_REPEATED", repeated)
        native = NativeIngress(place(program))
    slots = native.run(start)
    named = [(s.name, v) for s, v in zip(program.slots, slots, strict=True)]
    assert named == [(s.name, v) for s, v in zip(program.slots, expected, strict=True)]


def test_the_kit_states_what_the_fake_table_answers() -> None:
    action = ir.TableAction("a", 0, ((3, 8),))
    table = ir.Table("t", (ir.Key("k", ir.Load(3, 1), 3, "exact"),), (action,), 0, (), False, 4)
    state = FakeTable({(5,): FakeMatch(True, 0, (7,))}, FakeMatch(False, 0, (9,)))
    assert stated(table, state).entries == (ir.ConstEntry((ir.EntryKey(5, 7),), 0, (7,), 0, True),)
    assert stated(table, state).default_args == (9,)
