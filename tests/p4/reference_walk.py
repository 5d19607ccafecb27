"""A second, tiny meaning of the IR: a plain walk over expressions and statements on a dict.

It shares nothing with the interpreter: no generated text, no masks kept away, arithmetic on numbers
as the IR's own page defines them. Slow and obvious, so that what the interpreter does for speed
(inlining, zeroing by slices, moving deep blocks out, return codes for early exits) can be held to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from interp_kit import FakeTable

from sglb.p4 import ir


class Leave(Exception):
    """A statement leaves early."""


class BreakLoop(Leave):
    """To the end of the loop."""


class ContinueLoop(Leave):
    """To the loop's update."""


class ReturnProc(Leave):
    """To the end of the procedure."""


class ExitBlock(Leave):
    """To the end of the block."""


def signed(value: int, width: int) -> int:
    """A pattern as a two's complement number."""
    return value - (1 << width) if value >> (width - 1) else value


def clamp(value: int, low: int, high: int) -> int:
    return low if value < low else high if value > high else value


Numbers = Callable[[int, int, int], int]

#: From both operands (patterns) and the width of the left one to a number, cut to the result's width.
OPERATIONS: dict[ir.BinOp, Numbers] = {
    ir.BinOp.ADD: lambda a, b, w: a + b,
    ir.BinOp.SUB: lambda a, b, w: a - b,
    ir.BinOp.MUL: lambda a, b, w: a * b,
    ir.BinOp.AND: lambda a, b, w: a & b,
    ir.BinOp.OR: lambda a, b, w: a | b,
    ir.BinOp.XOR: lambda a, b, w: a ^ b,
    ir.BinOp.SHL: lambda a, b, w: a * 2**b if b < w else 0,
    ir.BinOp.SHR: lambda a, b, w: a // 2**b if b < w else 0,
    ir.BinOp.SAR: lambda a, b, w: signed(a, w) // 2 ** min(b, w),
    ir.BinOp.ADD_SAT: lambda a, b, w: clamp(a + b, 0, 2**w - 1),
    ir.BinOp.SUB_SAT: lambda a, b, w: clamp(a - b, 0, 2**w - 1),
    ir.BinOp.ADD_SAT_S: lambda a, b, w: clamp(
        signed(a, w) + signed(b, w), -(2 ** (w - 1)), 2 ** (w - 1) - 1
    ),
    ir.BinOp.SUB_SAT_S: lambda a, b, w: clamp(
        signed(a, w) - signed(b, w), -(2 ** (w - 1)), 2 ** (w - 1) - 1
    ),
    ir.BinOp.EQ: lambda a, b, w: int(a == b),
    ir.BinOp.NE: lambda a, b, w: int(a != b),
    ir.BinOp.LT: lambda a, b, w: int(a < b),
    ir.BinOp.LE: lambda a, b, w: int(a <= b),
    ir.BinOp.LT_S: lambda a, b, w: int(signed(a, w) < signed(b, w)),
    ir.BinOp.LE_S: lambda a, b, w: int(signed(a, w) <= signed(b, w)),
    ir.BinOp.LAND: lambda a, b, w: int(a == 1 and b == 1),
    ir.BinOp.LOR: lambda a, b, w: int(a == 1 or b == 1),
}


class Walk:
    """Runs statements of `program`; `state` maps slots to values, tables answer as they are told."""

    def __init__(self, program: ir.Program, tables: Sequence[FakeTable]) -> None:
        self.program = program
        self.tables = tables
        self.state = dict.fromkeys(range(len(program.slots)), 0)

    def block(self, proc: int) -> list[int]:
        """Runs a top-level block; gives the whole frame."""
        with contextlib.suppress(ExitBlock):
            self.proc(proc)
        return [self.state[slot] for slot in range(len(self.program.slots))]

    # --- expressions ------------------------------------------------------------------------------

    def value(self, expr: ir.Expr) -> int:
        """What an expression gives."""
        result = self._value(expr)
        assert 0 <= result < 2**expr.width, expr
        return result

    def _value(self, expr: ir.Expr) -> int:  # noqa: C901 - one case a node
        match expr:
            case ir.Const():
                return expr.value
            case ir.Load():
                return self.state[expr.slot]
            case ir.LoadElement():
                slot = self.element(expr.array, expr.offset, expr.index)
                return 0 if slot is None else self.state[slot]
            case ir.Binary(op=ir.BinOp.CONCAT):
                high, low = self.value(expr.left), self.value(expr.right)
                return high * 2**expr.right.width + low
            case ir.Binary():
                left, right = self.value(expr.left), self.value(expr.right)
                return OPERATIONS[expr.op](left, right, expr.left.width) % 2**expr.width
            case ir.Unary(op=ir.UnOp.NOT):
                return 1 - self.value(expr.operand)
            case ir.Unary(op=ir.UnOp.INV):
                return 2**expr.width - 1 - self.value(expr.operand)
            case ir.Unary():
                return -self.value(expr.operand) % 2**expr.width
            case ir.Slice():
                return self.value(expr.operand) // 2**expr.lo % 2 ** (expr.hi - expr.lo + 1)
            case ir.Extend():
                narrow = self.value(expr.operand)
                if expr.signed:
                    narrow = signed(narrow, expr.operand.width)
                return narrow % 2**expr.width
            case ir.Mux():
                return self.value(expr.then if self.value(expr.cond) else expr.other)
        raise AssertionError(expr)

    def element(self, array: int, offset: int, index: ir.Expr) -> int | None:
        """The slot at `offset` of an array's element; None where there is no such element."""
        shape = self.program.arrays[array]
        at = self.value(index)
        return shape.base + at * shape.stride + offset if at < shape.size else None

    def header(self, ref: ir.HeaderRef) -> ir.Header | None:
        """The header meant; None where there is no such element."""
        if isinstance(ref, ir.HeaderAt):
            return self.program.headers[ref.header]
        members = self.program.arrays[ref.array].headers
        at = self.value(ref.index)
        return self.program.headers[members[at]] if at < len(members) else None

    # --- statements -------------------------------------------------------------------------------

    def all(self, stmts: Sequence[ir.Stmt]) -> None:
        """Runs statements in order."""
        for stmt in stmts:
            self.run(stmt)

    def run(self, stmt: ir.Stmt) -> None:  # noqa: C901 - one case a node
        """Runs one statement."""
        match stmt:
            case ir.Assign():
                self.assign(stmt.target, self.value(stmt.value))
            case ir.Copy():
                self.copy(stmt.target, stmt.source, stmt.count)
            case ir.CopyElement():
                self.copy_element(stmt)
            case ir.Zero():
                self.zero(stmt.target, stmt.count)
            case ir.If():
                self.all(stmt.then if self.value(stmt.cond) else stmt.other)
            case ir.Switch():
                subject = self.value(stmt.subject)
                bodies = [body for values, body in stmt.cases if subject in values]
                self.all(bodies[0] if bodies else stmt.default)
            case ir.Loop():
                self.loop(stmt)
            case ir.Break():
                raise BreakLoop
            case ir.Continue():
                raise ContinueLoop
            case ir.Return():
                raise ReturnProc
            case ir.Exit():
                raise ExitBlock
            case ir.Call():
                self.call(stmt.proc, stmt.copy_out)
            case ir.Apply():
                self.apply(stmt)
            case ir.SetValid():
                header = self.header(stmt.header)
                if header is not None and not self.state[header.valid]:
                    self.zero(header.valid, header.size)
                    self.state[header.valid] = 1
            case ir.SetInvalid():
                header = self.header(stmt.header)
                if header is not None:
                    self.state[header.valid] = 0
            case ir.Push():
                self.push(stmt)
            case _:
                raise AssertionError(stmt)

    def assign(self, target: ir.LValue, value: int) -> None:
        if isinstance(target, ir.SlotRef):
            self.state[target.slot] = value
            return
        slot = self.element(target.array, target.offset, target.index)
        if slot is not None:
            self.state[slot] = value

    def copy(self, target: int, source: int, count: int) -> None:
        values = [self.state[source + i] for i in range(count)]
        for i, value in enumerate(values):
            self.state[target + i] = value

    def copy_element(self, stmt: ir.CopyElement) -> None:
        there = self.element(stmt.array, stmt.offset, stmt.index)
        if there is not None and stmt.load:
            self.copy(stmt.slot, there, stmt.count)
        elif there is not None:
            self.copy(there, stmt.slot, stmt.count)
        elif stmt.load:
            self.zero(stmt.slot, stmt.count)

    def zero(self, first: int, count: int) -> None:
        for slot in range(first, first + count):
            self.state[slot] = 0

    def loop(self, stmt: ir.Loop) -> None:
        try:
            while True:
                self.all(stmt.cond_setup)
                if not self.value(stmt.cond):
                    return
                with contextlib.suppress(ContinueLoop):
                    self.all(stmt.body)
                self.all(stmt.update)
        except BreakLoop:
            return

    def proc(self, index: int) -> None:
        try:
            self.all(self.program.procs[index].body)
        except ReturnProc:
            return

    def call(self, proc: int, copy_out: Sequence[ir.Stmt]) -> None:
        try:
            self.proc(proc)
        finally:  # on exit too
            self.all(copy_out)

    def apply(self, stmt: ir.Apply) -> None:
        table = self.program.tables[stmt.table]
        key = tuple(self.value(k.expr) for k in table.keys)
        found = self.tables[stmt.table].lookup(key, b"", 0)
        if stmt.hit is not None:
            self.state[stmt.hit] = int(found.hit)
        if stmt.action_run is not None:
            self.state[stmt.action_run] = found.action
        action = table.actions[found.action]
        for (slot, _), value in zip(action.params, found.args, strict=True):
            self.state[slot] = value
        self.all(action.setup)
        self.call(action.proc, action.copy_out)

    def push(self, stmt: ir.Push) -> None:
        array = self.program.arrays[stmt.array]
        assert array.next is not None
        empty = [0] * array.stride
        elements = [
            [self.state[array.base + i * array.stride + j] for j in range(array.stride)]
            for i in range(array.size)
        ]
        for _ in range(abs(stmt.count)):
            elements = [empty, *elements[:-1]] if stmt.count > 0 else [*elements[1:], empty]
        for i, element in enumerate(elements):
            for j, value in enumerate(element):
                self.state[array.base + i * array.stride + j] = value
        following = self.state[array.next] + stmt.count
        self.state[array.next] = clamp(following, 0, array.size)
