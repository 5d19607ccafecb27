"""Every operator at every width against arithmetic on Python's integers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interp_kit import Kit, const, load

from sglb.p4 import ir
from sglb.p4.ir import BinOp, UnOp

WIDTHS = st.one_of(st.integers(1, 9), st.sampled_from([16, 31, 32, 33, 48, 64, 65, 128, 512]))


def evaluate_all(exprs: Sequence[ir.Expr], values: Sequence[tuple[int, int]]) -> list[int]:
    """Each expression over slots holding `values` (value, width), in one control."""
    kit = Kit()
    base = len(kit.slots)
    for number, (_, width) in enumerate(values):
        kit.slot(f"v{number}", width)
    outs = [kit.slot(f"out{number}", expr.width) for number, expr in enumerate(exprs)]
    kit.blocks["ingress"] = tuple(
        ir.Assign(target=ir.SlotRef(out, expr.width), value=expr)
        for out, expr in zip(outs, exprs, strict=True)
    )
    engine = kit.engine()
    context = engine.new_context(b"", 0)
    context.frame[base : base + len(values)] = [value for value, _ in values]
    engine.ingress(context)
    assert all(type(context.frame[out]) is int for out in outs)
    return [context.frame[out] for out in outs]


def evaluate(expr: ir.Expr, values: Sequence[tuple[int, int]]) -> int:
    return evaluate_all([expr], values)[0]


FIRST = len(Kit().slots)


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


def truth(op: BinOp, a: int, b: int, width: int) -> int:
    """What P4_16 section 8 says, on unbounded integers."""
    sa, sb = signed(a, width), signed(b, width)
    top = 1 << width
    low, high = -(top >> 1), (top >> 1) - 1
    exact = {
        BinOp.ADD: a + b,
        BinOp.SUB: a - b,
        BinOp.MUL: a * b,
        BinOp.AND: a & b,
        BinOp.OR: a | b,
        BinOp.XOR: a ^ b,
        BinOp.ADD_SAT: min(a + b, top - 1),
        BinOp.SUB_SAT: a - b if a > b else 0,
        BinOp.ADD_SAT_S: sorted((low, sa + sb, high))[1],
        BinOp.SUB_SAT_S: sorted((low, sa - sb, high))[1],
        BinOp.EQ: a == b,
        BinOp.NE: a != b,
        BinOp.LT: a < b,
        BinOp.LE: a <= b,
        BinOp.LT_S: sa < sb,
        BinOp.LE_S: sa <= sb,
    }[op]
    return int(exact) % top


ARITHMETIC = [
    op
    for op in BinOp
    if op not in (BinOp.SHL, BinOp.SHR, BinOp.SAR, BinOp.CONCAT, BinOp.LAND, BinOp.LOR)
]
COMPARISONS = (BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.LE, BinOp.LT_S, BinOp.LE_S)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_binary(data: st.DataObject) -> None:
    width = data.draw(WIDTHS)
    number = st.one_of(
        st.integers(0, (1 << width) - 1),
        st.sampled_from([0, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1]),
    )
    a, b = data.draw(number), data.draw(number)
    exprs, expected = [], []
    for op in ARITHMETIC:
        result = 1 if op in COMPARISONS else width
        for left, right in (
            (load(FIRST, width), load(FIRST + 1, width)),
            (load(FIRST, width), const(b, width)),
            (const(a, width), load(FIRST + 1, width)),
        ):
            exprs.append(ir.Binary(result, op, left, right))
            expected.append(truth(op, a, b, width))
    assert evaluate_all(exprs, [(a, width), (b, width)]) == expected


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_shifts(data: st.DataObject) -> None:
    width, amount_width = data.draw(WIDTHS), data.draw(st.sampled_from([3, 8, 9, 32, 64, 128]))
    a = data.draw(st.integers(0, (1 << width) - 1))
    amount = data.draw(
        st.one_of(st.integers(0, (1 << amount_width) - 1), st.integers(0, 2 * width))
    )
    amount %= 1 << amount_width
    near = min(amount, width)  # everything is out by then
    exprs, expected = [], []
    for right in (load(FIRST + 1, amount_width), const(amount, amount_width)):
        for op, result in (
            (BinOp.SHL, (a << near) % (1 << width)),
            (BinOp.SHR, a >> near),
            (BinOp.SAR, (signed(a, width) >> near) % (1 << width)),
        ):
            exprs.append(ir.Binary(width, op, load(FIRST, width), right))
            expected.append(result)
    assert evaluate_all(exprs, [(a, width), (amount, amount_width)]) == expected


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_unary_slices_and_casts(data: st.DataObject) -> None:
    width = data.draw(WIDTHS)
    a = data.draw(st.integers(0, (1 << width) - 1))
    lo = data.draw(st.integers(0, width - 1))
    hi = data.draw(st.integers(lo, width - 1))
    wider = width + data.draw(st.integers(0, 70))
    operand = load(FIRST, width)
    cases = [
        (ir.Unary(width, UnOp.INV, operand), (1 << width) - 1 - a),
        (ir.Unary(width, UnOp.NEG, operand), -a % (1 << width)),
        (ir.Slice(hi - lo + 1, operand, hi, lo), a // 2**lo % 2 ** (hi - lo + 1)),
        (ir.Extend(wider, operand, signed=False), a),
        (ir.Extend(wider, operand, signed=True), signed(a, width) % (1 << wider)),
    ]
    assert evaluate_all([e for e, _ in cases], [(a, width)]) == [r for _, r in cases]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_concat(data: st.DataObject) -> None:
    wa, wb = data.draw(WIDTHS), data.draw(WIDTHS)
    a, b = data.draw(st.integers(0, 2**wa - 1)), data.draw(st.integers(0, 2**wb - 1))
    expr = ir.Binary(wa + wb, BinOp.CONCAT, load(FIRST, wa), load(FIRST + 1, wb))
    assert evaluate(expr, [(a, wa), (b, wb)]) == int(f"{a:0{wa}b}{b:0{wb}b}", 2)


@pytest.mark.parametrize("a", [0, 1])
@pytest.mark.parametrize("b", [0, 1])
def test_boolean(a: int, b: int) -> None:
    la, lb = load(FIRST, 1), load(FIRST + 1, 1)
    values = [(a, 1), (b, 1)]
    assert evaluate(ir.Binary(1, BinOp.LAND, la, lb), values) == (a and b)
    assert evaluate(ir.Binary(1, BinOp.LOR, la, lb), values) == (a or b)
    assert evaluate(ir.Unary(1, UnOp.NOT, la), values) == 1 - a
    both = ir.Unary(1, UnOp.NOT, ir.Binary(1, BinOp.LOR, la, ir.Unary(1, UnOp.NOT, lb)))
    assert evaluate(both, values) == (1 if not a and b else 0)
    mux = ir.Mux(8, ir.Binary(1, BinOp.NE, la, lb), const(7, 8), const(9, 8))
    assert evaluate(mux, values) == (7 if a != b else 9)


def random_expr(draw: st.DrawFn, width: int, depth: int, values: list[tuple[int, int]]) -> tuple:
    """An expression of `width` bits and the value it must have."""
    if depth == 0:
        number = draw(st.integers(0, (1 << width) - 1))
        if draw(st.booleans()):
            return const(number, width), number
        values.append((number, width))
        return load(FIRST + len(values) - 1, width), number
    op = draw(st.sampled_from([o for o in ARITHMETIC if o not in COMPARISONS]))
    left, a = random_expr(draw, width, depth - 1, values)
    right, b = random_expr(draw, width, draw(st.integers(0, depth - 1)), values)
    return ir.Binary(width, op, left, right), truth(op, a, b, width)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_nested(data: st.DataObject) -> None:
    values: list[tuple[int, int]] = []
    expr, expected = random_expr(data.draw, data.draw(WIDTHS), 4, values)
    assert evaluate(expr, values) == expected


def test_very_deep_expressions() -> None:
    expr: ir.Expr = load(FIRST, 16)
    for _ in range(300):
        expr = ir.Binary(16, BinOp.ADD, expr, const(3, 16))
    assert evaluate(expr, [(5, 16)]) == 905
    deep: ir.Expr = load(FIRST, 1)
    for _ in range(301):
        deep = ir.Unary(1, UnOp.NOT, deep)
    assert evaluate(deep, [(1, 1)]) == 0


def test_elements_and_packet_length() -> None:
    kit = Kit()
    index = kit.slot("index", 8)
    stack = kit.stack("s", 3, ("a", 8), ("b", 16))
    out = kit.slot("out", 16)
    size = kit.slot("size", 32)
    fields = [kit.headers[i].fields[1].slot for i in range(3)]
    read = ir.LoadElement(16, stack, 2, load(index, 8))
    shifted = ir.LoadElement(16, stack, 2, ir.Binary(8, BinOp.ADD, load(index, 8), const(1, 8)))
    kit.blocks["ingress"] = (
        ir.Assign(target=ir.SlotRef(out, 16), value=read),
        ir.Assign(target=ir.SlotRef(size, 32), value=ir.PacketLength(32)),
    )
    kit.blocks["egress"] = (ir.Assign(target=ir.SlotRef(out, 16), value=shifted),)
    engine = kit.engine()
    for at, plain, after in ((0, 10, 20), (1, 20, 30), (2, 30, 0), (3, 0, 0), (255, 0, 10)):
        context = engine.new_context(bytes(77), 0)
        for slot, number in zip(fields, (10, 20, 30), strict=True):
            context.frame[slot] = number
        context.frame[index] = at
        engine.ingress(context)
        assert (context.frame[out], context.frame[size]) == (plain, 77)
        engine.egress(context)
        assert context.frame[out] == after
