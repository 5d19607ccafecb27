"""Which storage each procedure touches, and which procedures each block reaches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sglb.p4 import ir

#: The blocks of a program, in the order in which a packet meets them.
BLOCKS: Final = (
    "parser",
    "verify_checksum",
    "ingress",
    "egress",
    "compute_checksum",
    "deparser",
)

#: Statements from which a procedure called at several places becomes a function of its own.
MAX_REPEATED: Final = 48


@dataclass(slots=True)
class ProcUse:
    """What one procedure's own statements touch.

    `arrays` are those reached by an index known at run time only, `memory` single slots that must
    lie in memory too, `calls` how often each procedure is called, `size` its statements.
    """

    slots: set[int] = field(default_factory=set)
    arrays: set[int] = field(default_factory=set)
    memory: set[int] = field(default_factory=set)
    kept: set[int] = field(default_factory=set)
    calls: Counter[int] = field(default_factory=Counter)
    size: int = 0
    loops: bool = False


@dataclass(slots=True)
class BlockUse:
    """What a block touches with all that it reaches.

    `outlined` are the procedures that become functions of their own, `shared` the slots that these
    touch.
    """

    procs: tuple[int, ...]
    slots: set[int]
    arrays: set[int]
    memory: set[int]
    outlined: frozenset[int]
    shared: set[int]
    loops: bool


def proc_uses(program: ir.Program) -> list[ProcUse]:
    """The use of every procedure."""
    uses = []
    for proc in program.procs:
        walk = _Walk(program)
        walk.stmts(proc.body)
        for state in proc.states:
            walk.stmts(state.body)
            if isinstance(state.next, ir.Select):
                walk.select(state.next)
        uses.append(walk.use)
    return uses


def block_use(uses: Sequence[ProcUse], root: int) -> BlockUse:
    """The use of the block whose procedure is `root`."""
    order = _callees_first(uses, root)
    sites: Counter[int] = Counter()
    for proc in order:
        sites.update(uses[proc].calls)
    outlined: set[int] = set()
    sizes: dict[int, int] = {}
    for proc in order:
        inner = (
            count * (1 if callee in outlined else sizes[callee])
            for callee, count in uses[proc].calls.items()
        )
        sizes[proc] = max(uses[proc].size, 1) + sum(inner)
        if proc != root and sites[proc] > 1 and sizes[proc] > MAX_REPEATED:
            outlined.add(proc)
    shared: set[int] = set()
    for proc in outlined:
        for inside in _callees_first(uses, proc):
            shared |= uses[inside].slots
    return BlockUse(
        procs=tuple(order),
        slots=set().union(*(uses[p].slots for p in order)),
        arrays=set().union(*(uses[p].arrays for p in order)),
        memory=set().union(*(uses[p].memory for p in order)),
        outlined=frozenset(outlined),
        shared=shared,
        loops=any(uses[p].loops for p in order),
    )


def _callees_first(uses: Sequence[ProcUse], root: int) -> list[int]:
    """The procedures that `root` reaches, each after those that it calls."""
    done: dict[int, None] = {}

    def visit(proc: int) -> None:
        for callee in sorted(uses[proc].calls):
            if callee not in done:
                visit(callee)
        done[proc] = None

    visit(root)
    return list(done)


def statements(bodies: Iterable[Sequence[ir.Stmt]]) -> Iterator[ir.Stmt]:
    """All statements, those inside others included; not those of tables' actions."""
    todo = list(bodies)
    while todo:
        for stmt in todo.pop():
            yield stmt
            if isinstance(stmt, ir.If):
                todo += [stmt.then, stmt.other]
            elif isinstance(stmt, ir.Switch):
                todo += [body for _, body in stmt.cases]
                todo.append(stmt.default)
            elif isinstance(stmt, ir.Loop):
                todo += [stmt.cond_setup, stmt.body, stmt.update]
            elif isinstance(stmt, ir.Call):
                todo.append(stmt.copy_out)


class _Walk:
    """Fills one `ProcUse`."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.use = ProcUse()

    def stmts(self, stmts: Sequence[ir.Stmt]) -> None:
        for stmt in statements([stmts]):
            self.use.size += 1
            visit = _STMTS.get(type(stmt))
            if visit is not None:
                visit(self, stmt)

    def expr(self, expr: ir.Expr) -> None:
        todo = [expr]
        while todo:
            at = todo.pop()
            if isinstance(at, ir.Load):
                self.use.slots.add(at.slot)
            elif isinstance(at, ir.LoadElement):
                self.element(at.array, at.index)
                todo.append(at.index)
            elif isinstance(at, ir.Binary):
                todo += [at.left, at.right]
            elif isinstance(at, ir.Unary | ir.Slice | ir.Extend):
                todo.append(at.operand)
            elif isinstance(at, ir.Mux):
                todo += [at.cond, at.then, at.other]

    def exprs(self, exprs: Iterable[ir.Expr]) -> None:
        for expr in exprs:
            self.expr(expr)

    def element(self, index: int, at: ir.Expr) -> None:
        array = self.program.arrays[index]
        self.range(array.base, array.size * array.stride)
        if not isinstance(at, ir.Const):
            self.use.arrays.add(index)

    def range(self, first: int, count: int) -> None:
        self.use.slots.update(range(first, first + count))

    def lvalue(self, target: ir.LValue) -> None:
        if isinstance(target, ir.SlotRef):
            self.use.slots.add(target.slot)
        else:
            self.element(target.array, target.index)
            self.expr(target.index)

    def header(self, index: int) -> None:
        header = self.program.headers[index]
        self.range(header.valid, header.size)
        self.use.memory.update(f.slot for f in header.fields if f.varbit)

    def header_ref(self, ref: ir.HeaderRef) -> None:
        if isinstance(ref, ir.HeaderAt):
            self.header(ref.header)
            return
        self.element(ref.array, ref.index)
        self.expr(ref.index)
        for header in self.program.arrays[ref.array].headers:
            self.header(header)

    def stack(self, index: int, *, moved: bool) -> None:
        array = self.program.arrays[index]
        if array.next is not None:
            self.use.slots.add(array.next)
        if moved:
            self.range(array.base, array.size * array.stride)
            self.use.arrays.add(index)
            for header in array.headers:
                self.header(header)

    def fields(self, fields: Iterable[ir.DataField]) -> None:
        for data in fields:
            self.expr(data.value)
            if data.length is not None:
                self.expr(data.length)
            if data.valid is not None:
                self.use.slots.add(data.valid)

    def select(self, select: ir.Select) -> None:
        self.exprs(select.operands)
        for case in select.cases:
            for key in case.keys:
                if isinstance(key, ir.MatchMask):
                    self.exprs((key.value, key.mask))
                elif isinstance(key, ir.MatchRange):
                    self.exprs((key.lo, key.hi))

    def table(self, table: ir.Table) -> None:
        self.exprs(key.expr for key in table.keys)
        self.fields(table.selector)
        for action in table.actions:
            self.use.slots.update(slot for slot, _ in action.params)
            self.stmts(action.setup)
            self.stmts(action.copy_out)
            self.use.calls[action.proc] += 1
        if table.meter_result is not None:
            self.lvalue(table.meter_result)


# --- one function a kind of statement -------------------------------------------------------------


def _assign(walk: _Walk, stmt: ir.Assign) -> None:
    walk.lvalue(stmt.target)
    walk.expr(stmt.value)


def _copy(walk: _Walk, stmt: ir.Copy) -> None:
    walk.range(stmt.target, stmt.count)
    walk.range(stmt.source, stmt.count)


def _copy_element(walk: _Walk, stmt: ir.CopyElement) -> None:
    walk.element(stmt.array, stmt.index)
    walk.expr(stmt.index)
    walk.range(stmt.slot, stmt.count)


def _zero(walk: _Walk, stmt: ir.Zero) -> None:
    walk.range(stmt.target, stmt.count)


def _if(walk: _Walk, stmt: ir.If) -> None:
    walk.expr(stmt.cond)


def _switch(walk: _Walk, stmt: ir.Switch) -> None:
    walk.expr(stmt.subject)


def _loop(walk: _Walk, stmt: ir.Loop) -> None:
    walk.expr(stmt.cond)
    walk.use.loops = True


def _call(walk: _Walk, stmt: ir.Call) -> None:
    walk.use.calls[stmt.proc] += 1


def _apply(walk: _Walk, stmt: ir.Apply) -> None:
    walk.use.slots.update(s for s in (stmt.hit, stmt.action_run) if s is not None)
    walk.table(walk.program.tables[stmt.table])


def _validity(walk: _Walk, stmt: ir.SetValid | ir.SetInvalid) -> None:
    walk.header_ref(stmt.header)


def _push(walk: _Walk, stmt: ir.Push) -> None:
    walk.stack(stmt.array, moved=True)


def _extract(walk: _Walk, stmt: ir.Extract) -> None:
    if stmt.header is not None:
        walk.header_ref(stmt.header)
    if stmt.var_bits is not None:
        walk.expr(stmt.var_bits)


def _extract_next(walk: _Walk, stmt: ir.ExtractNext) -> None:
    walk.stack(stmt.array, moved=True)
    if stmt.var_bits is not None:
        walk.expr(stmt.var_bits)


def _stack_last(walk: _Walk, stmt: ir.StackLast) -> None:
    walk.stack(stmt.array, moved=False)


def _advance(walk: _Walk, stmt: ir.Advance) -> None:
    walk.expr(stmt.bits)


def _lookahead(walk: _Walk, stmt: ir.Lookahead) -> None:
    walk.use.slots.add(stmt.target)


def _verify(walk: _Walk, stmt: ir.Verify) -> None:
    walk.exprs((stmt.cond, stmt.error))


def _emit(walk: _Walk, stmt: ir.Emit) -> None:
    walk.header(stmt.header)


def _extern(walk: _Walk, stmt: ir.Extern) -> None:
    walk.exprs(stmt.ins)
    for target in stmt.outs:
        walk.lvalue(target)
    walk.fields(stmt.data)
    walk.use.kept.update(stmt.preserved)
    if stmt.op.startswith("verify_checksum"):
        walk.use.slots.add(walk.program.standard_metadata["checksum_error"])


_STMTS: Final[dict[type[ir.Stmt], Callable[[_Walk, Any], None]]] = {
    ir.Assign: _assign,
    ir.Copy: _copy,
    ir.CopyElement: _copy_element,
    ir.Zero: _zero,
    ir.If: _if,
    ir.Switch: _switch,
    ir.Loop: _loop,
    ir.Call: _call,
    ir.Apply: _apply,
    ir.SetValid: _validity,
    ir.SetInvalid: _validity,
    ir.Push: _push,
    ir.Extract: _extract,
    ir.ExtractNext: _extract_next,
    ir.StackLast: _stack_last,
    ir.Advance: _advance,
    ir.Lookahead: _lookahead,
    ir.Verify: _verify,
    ir.Emit: _emit,
    ir.Extern: _extern,
}
