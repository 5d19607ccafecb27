"""The verifier takes what the compiler makes and refuses what is damaged, saying where."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lower_kit import build

from sglb import p4
from sglb.p4 import P4Error, ir
from sglb.p4.verify_ir import verify

ORACLE = Path(__file__).parents[1] / "oracle"
CASES = ("26-const-entries-order", "34-stack-index", "37-select-forms", "40-varbit", "61-counters")

ROOT = build(
    """
    h.s[h.i.x].v = 1; h.o.r0 = f(h.i.x); t.apply();
    for (bit<8> i = 0; i < 3; i = i + 1) { if (i == 1) { continue; } h.o.r1 = h.o.r1 |+| i; }
    switch (h.i.y) { 1: { h.o.r2 = 1; } default: { h.s.push_front(1); } }
    hash(m.m1, HashAlgorithm.crc16, 16w0, { h.i.x }, 16w9);
    """,
    top="header e_h { bit<8> v; } bit<8> f(in bit<8> v) { return v + 1; }",
    headers="e_h[2] s;",
    locals="""register<bit<8>>(2) r; action set(bit<8> v) { h.o.r3 = v; r.write(0, v); }
    table t { key = { h.i.x : ternary; } actions = { set; NoAction; }
              const entries = { 1 : set(2); } }""",
).ir


def test_what_the_compiler_makes_is_well_formed() -> None:
    verify(ROOT)
    for name in CASES:
        verify(p4.compile(ORACLE / name / "program.p4").ir)


def with_ingress(*stmts: ir.Stmt) -> ir.Program:
    procs = list(ROOT.procs)
    procs[ROOT.ingress] = dataclasses.replace(procs[ROOT.ingress], body=stmts)
    return dataclasses.replace(ROOT, procs=tuple(procs))


X = next(i for i, s in enumerate(ROOT.slots) if s.name == "h.i.x")  # 8 bits wide
STACK = next(i for i, a in enumerate(ROOT.arrays) if a.name == "h.s")


@pytest.mark.parametrize(
    ("stmt", "message"),
    [
        (
            ir.Assign(target=ir.SlotRef(X, 8), value=ir.Const(9, 0)),
            "control I: Const is 9 bits wide where 8 are due",
        ),
        (ir.Assign(target=ir.SlotRef(X, 9), value=ir.Const(9, 0)), "(h.i.x) is 8 bits wide, not 9"),
        (ir.Assign(target=ir.SlotRef(X, 8), value=ir.Const(8, 256)), "256 does not fit 8 bits"),
        (
            ir.Assign(target=ir.SlotRef(X, 8), value=ir.Load(8, len(ROOT.slots))),
            f"there is no slot {len(ROOT.slots)}",
        ),
        (
            ir.Assign(
                target=ir.SlotRef(X, 8),
                value=ir.Binary(8, ir.BinOp.ADD, ir.Load(8, X), ir.Const(7, 1)),
            ),
            "Const is 7 bits wide where 8 are due",
        ),
        (
            ir.Assign(target=ir.SlotRef(X, 8), value=ir.Slice(8, ir.Load(8, X), 8, 1)),
            "[8:1] of 8 bits",
        ),
        (
            ir.Assign(target=ir.ElementRef(STACK, 2, ir.Const(1, 0), 8), value=ir.Const(8, 0)),
            "offset 2 in h.s, whose elements have 2 slots",
        ),
        (ir.If(cond=ir.Const(2, 1), then=()), "Const is 2 bits wide where 1 are due"),
        (ir.Break(), "Break stands in no loop"),
        (ir.Extract(header=ir.HeaderAt(0)), "Extract stands in a control"),
        (ir.Emit(header=99), "there is no header 99"),
        (ir.Call(proc=99), "there is no procedure 99"),
        (ir.Call(proc=ROOT.ingress), "recursion: I > I"),
        (ir.Apply(table=1), "there is no table 1"),
        (ir.Copy(target=X, source=X, count=0), "a run of 0 slots"),
        (ir.Copy(target=X, source=X - 1, count=1), ""),
        (ir.Extern(op="frobnicate"), "unknown operation frobnicate"),
        (ir.Extern(op="truncate"), "truncate with 0 inputs and 0 outputs"),
        (ir.Extern(op="counter.count", instance=0), "counter.count on a register"),
        (
            ir.Extern(op="register.write", instance=0, ins=(ir.Const(32, 0), ir.Const(9, 0))),
            "register.write of (9,) bits, elements of (8,)",
        ),
        (
            ir.Switch(subject=ir.Load(8, X), cases=(((256,), ()),)),
            "label 256 of 8 bits",
        ),
        (ir.SetValid(header=ir.HeaderIn(99, ir.Const(8, 0))), "there is no array 99"),
    ],
)
def test_a_bad_statement_is_told_with_its_place(stmt: ir.Stmt, message: str) -> None:
    if message == "":
        verify(with_ingress(stmt))  # h.i.op and h.i.x are alike
        return
    with pytest.raises(P4Error) as caught:
        verify(with_ingress(stmt))
    assert message in str(caught.value)
    assert caught.value.phase == "verify"


def damaged(node: Any, rng: random.Random) -> Iterator[Any]:
    """Copies of an IR node, each with one integer below it put out of every range."""
    if not dataclasses.is_dataclass(node) or isinstance(node, type):
        return
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if field.name in ("span", "p4info_id", "labels", "initial", "size", "priority", "count"):
            continue
        if isinstance(value, int) and not isinstance(value, bool):
            yield dataclasses.replace(node, **{field.name: value - 10**9})
        elif isinstance(value, tuple):
            for i, item in enumerate(value):
                for bad in damaged(item, rng):
                    yield dataclasses.replace(
                        node, **{field.name: (*value[:i], bad, *value[i + 1 :])}
                    )
        else:
            for bad in damaged(value, rng):
                yield dataclasses.replace(node, **{field.name: bad})


DAMAGED = [
    dataclasses.replace(ROOT, procs=(*ROOT.procs[:i], bad, *ROOT.procs[i + 1 :]))
    for i, proc in enumerate(ROOT.procs)
    for bad in damaged(proc, random.Random(1))
]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(DAMAGED) - 1))
def test_a_number_out_of_range_in_any_statement_is_noticed(index: int) -> None:
    with pytest.raises(P4Error, match="bad IR"):
        verify(DAMAGED[index])


def test_every_way_to_damage_the_code_was_tried() -> None:
    kinds = {type(s).__name__ for proc in ROOT.procs for s in proc.body}
    assert {"Assign", "Apply", "Call", "Loop", "Switch", "Extern"} <= kinds
    assert len(DAMAGED) > 80


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"default_action": 5}, "there is no action 5"),
        ({"default_args": (1, 2)}, "2 values for 0 parameters"),
        ({"size": 0}, "its size is 0"),
        ({"direct_counter": 0}, "instance 0 is a register"),
        ({"actions": ()}, "it has no actions"),
    ],
)
def test_bad_tables(change: dict[str, Any], message: str) -> None:
    table = dataclasses.replace(ROOT.tables[0], **change)
    with pytest.raises(P4Error) as caught:
        verify(dataclasses.replace(ROOT, tables=(table,)))
    assert f"bad IR: table I.t: {message}" in str(caught.value)


def test_bad_layouts() -> None:
    first = ROOT.headers[0]
    for bad in (
        dataclasses.replace(first, width=first.width + 1),
        dataclasses.replace(first, size=first.size + 1),
        dataclasses.replace(first, fields=first.fields[::-1]),
        dataclasses.replace(first, valid=first.valid + 1),
    ):
        with pytest.raises(P4Error, match=r"bad IR: header h\.o"):
            verify(dataclasses.replace(ROOT, headers=(bad, *ROOT.headers[1:])))
    stack = ROOT.arrays[STACK]
    for wrong in (
        dataclasses.replace(stack, headers=stack.headers[:1]),
        dataclasses.replace(stack, base=stack.base + 1),
        dataclasses.replace(stack, next=X),
    ):
        arrays = tuple(wrong if a is stack else a for a in ROOT.arrays)
        with pytest.raises(P4Error, match="bad IR: array"):
            verify(dataclasses.replace(ROOT, arrays=arrays))
