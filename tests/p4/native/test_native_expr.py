"""Every operator natively, at widths from 1 to 512 bits, against arithmetic on Python's integers."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from interp_kit import Kit, const, load
from native_run_kit import NativeIngress, in_block
from test_interp_expr import ARITHMETIC, COMPARISONS, signed, truth

from sglb.p4 import ir
from sglb.p4.ir import BinOp, UnOp

WIDTHS = [1, 2, 3, 5, 7, 8, 9, 12, 16, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 192, 512]
#: An expression, and its truth from the values of all slots.
Case = tuple[ir.Expr, Callable[[dict[int, int]], int]]


class Operands:
    """Slots of random widths that expressions read, and the cases over them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.kit = Kit()
        self.slots: dict[int, int] = {}
        self.cases: list[Case] = []

    def operand(self, width: int) -> tuple[ir.Expr, Callable[[dict[int, int]], int]]:
        """A slot, or now and then a constant."""
        if self.rng.random() < 0.2:
            value = self.number(width)
            return const(value, width), lambda _values: value
        slot = self.kit.slot(f"v{len(self.slots)}", width)
        self.slots[slot] = width
        return load(slot, width), lambda values: values[slot]

    def number(self, width: int) -> int:
        top = (1 << width) - 1
        edges = [0, 1, top, top >> 1, top ^ top >> 1, width, width - 1, width + 1]
        return self.rng.choice([*edges, self.rng.getrandbits(width)]) & top

    def width(self) -> int:
        return self.rng.choice(WIDTHS)

    # --- one case each ---

    def arithmetic(self) -> None:
        op, width = self.rng.choice(ARITHMETIC), self.width()
        (left, a), (right, b) = self.operand(width), self.operand(width)
        result = 1 if op in COMPARISONS else width
        self.cases.append(
            (ir.Binary(result, op, left, right), lambda v: truth(op, a(v), b(v), width))
        )

    def shift(self) -> None:
        width, of_amount = self.width(), self.width()
        (left, a), (right, b) = self.operand(width), self.operand(of_amount)
        op = self.rng.choice([BinOp.SHL, BinOp.SHR, BinOp.SAR])

        def expected(v: dict[int, int]) -> int:
            value, amount = a(v), min(b(v), 1024)
            if op is BinOp.SHL:
                return (value << amount) % (1 << width)
            if op is BinOp.SHR:
                return value >> amount
            return (signed(value, width) >> amount) % (1 << width)

        self.cases.append((ir.Binary(width, op, left, right), expected))

    def concat(self) -> None:
        high, low = self.width(), self.width()
        (left, a), (right, b) = self.operand(high), self.operand(low)
        expr = ir.Binary(high + low, BinOp.CONCAT, left, right)
        self.cases.append((expr, lambda v: a(v) * 2**low + b(v)))

    def cut(self) -> None:
        width = self.width()
        operand, a = self.operand(width)
        low = self.rng.randrange(width)
        high = self.rng.randrange(low, width)
        expr = ir.Slice(high - low + 1, operand, high, low)
        self.cases.append((expr, lambda v: a(v) // 2**low % 2 ** (high - low + 1)))

    def extend(self) -> None:
        width, more, keeps = self.width(), self.width(), self.rng.random() < 0.5
        operand, a = self.operand(width)
        wide = width + more

        def expected(v: dict[int, int]) -> int:
            return (signed(a(v), width) if keeps else a(v)) % (1 << wide)

        self.cases.append((ir.Extend(wide, operand, keeps), expected))

    def unary(self) -> None:
        width, op = self.width(), self.rng.choice([UnOp.INV, UnOp.NEG])
        operand, a = self.operand(width)
        top = 1 << width
        expr = ir.Unary(width, op, operand)
        self.cases.append((expr, lambda v: (-a(v) - (op is UnOp.INV)) % top))

    def mux(self) -> None:
        width = self.width()
        cond, c = self.operand(1)
        (then, a), (other, b) = self.operand(width), self.operand(width)
        self.cases.append((ir.Mux(width, cond, then, other), lambda v: a(v) if c(v) else b(v)))

    def logic(self) -> None:
        (left, a), (right, b) = self.operand(1), self.operand(1)
        both = self.rng.random() < 0.5
        expr = ir.Binary(1, BinOp.LAND if both else BinOp.LOR, left, right)
        inverted = ir.Unary(1, UnOp.NOT, expr)
        self.cases.append((inverted, lambda v: 1 - (a(v) & b(v) if both else a(v) | b(v))))


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_operators(seed: int) -> None:
    operands = Operands(random.Random(seed))
    for _ in range(8):
        for kind in ("arithmetic", "arithmetic", "shift", "concat", "cut", "extend", "unary"):
            getattr(operands, kind)()
    operands.mux()
    operands.logic()
    kit = operands.kit
    outs = [kit.slot(f"out{i}", expr.width) for i, (expr, _) in enumerate(operands.cases)]
    kit.blocks["ingress"] = tuple(
        ir.Assign(target=ir.SlotRef(out, expr.width), value=expr)
        for out, (expr, _) in zip(outs, operands.cases, strict=True)
    )
    native = NativeIngress(in_block(kit.program()))
    for _ in range(20):
        values = {slot: operands.number(width) for slot, width in operands.slots.items()}
        left = native.run(values)
        for out, (expr, expected) in zip(outs, operands.cases, strict=True):
            assert left[out] == expected(values), (expr, values)
