"""Statements and procedures of the IR as Python source.

Copy-out on early exit works by return codes (see `interp_code`): a callee that can't exit costs no
test. `signals` finds, before translation, which codes a list of statements can produce.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sglb.p4 import ir
from sglb.p4.interp_code import (
    BREAK,
    CONTINUE,
    EXIT,
    MAX_BLOCKS,
    MAX_NESTING,
    RETURN,
    STOP,
    Body,
    Unit,
    span_name,
)
from sglb.p4.interp_expr import assigned, condition, nesting
from sglb.p4.runtime import ExternFailure, Trace
from sglb.p4.source import Span

#: Rounds after which a loop of a control or function fails the packet.
LOOP_LIMIT = 1 << 20

#: Length at which a chain of `elif` is cut: Python's compiler recurses along it.
MAX_CHAIN = 200

#: Neighbouring slots from which zeroing by one slice is quicker.
MIN_ZEROED = 4

#: Statements up to which a callee that can't leave early is written where it is called.
MAX_INLINED = 24

S = TypeVar("S", bound=ir.Stmt)
_Emitter = Callable[[Body, ir.Stmt], None]
_EMITTERS: dict[type[ir.Stmt], _Emitter] = {}


def emits(kind: type[S]) -> Callable[[Callable[[Body, S], None]], Callable[[Body, S], None]]:
    """Registers the translator of one kind of statement."""

    def register(function: Callable[[Body, S], None]) -> Callable[[Body, S], None]:
        _EMITTERS[kind] = function  # type: ignore[assignment]
        return function

    return register


# --- early exits ----------------------------------------------------------------------------------

_OWN_SIGNAL: dict[type[ir.Stmt], int] = {
    ir.Return: RETURN,
    ir.Exit: EXIT,
    ir.Break: BREAK,
    ir.Continue: CONTINUE,
    ir.Extract: STOP,
    ir.ExtractNext: STOP,
    ir.StackLast: STOP,
    ir.Advance: STOP,
    ir.Lookahead: STOP,
    ir.Verify: STOP,
}


def signals(unit: Unit, stmts: Sequence[ir.Stmt]) -> frozenset[int]:
    """The codes by which the statements may leave early."""
    found: set[int] = set()
    for stmt in stmts:
        own = _OWN_SIGNAL.get(type(stmt))
        if own:
            found.add(own)
        elif isinstance(stmt, ir.If):
            found |= signals(unit, stmt.then) | signals(unit, stmt.other)
        elif isinstance(stmt, ir.Switch):
            for _, body in stmt.cases:
                found |= signals(unit, body)
            found |= signals(unit, stmt.default)
        elif isinstance(stmt, ir.Loop):
            parts = (*stmt.cond_setup, *stmt.body, *stmt.update)
            found |= signals(unit, parts) - {BREAK, CONTINUE}
        elif isinstance(stmt, ir.Call):
            found |= proc_signals(unit, stmt.proc)
        elif isinstance(stmt, ir.Apply):
            for action in unit.program.tables[stmt.table].actions:
                found |= proc_signals(unit, action.proc)
    return frozenset(found)


def proc_signals(unit: Unit, index: int) -> frozenset[int]:
    """The codes that a call of the procedure may return: exits, and for parsers rejection."""
    known = unit.signals.get(index)
    if known is None:
        proc = unit.program.procs[index]
        if proc.kind == "parser":
            known = frozenset({STOP})
        else:
            known = signals(unit, proc.body) - {RETURN}
        unit.signals[index] = known
    return known


def _leave(body: Body, signal: int) -> None:
    """One early exit, from wherever the current line stands."""
    if signal == BREAK and body.loops:
        body.line("break")
    elif signal == CONTINUE and body.loops:
        update = body.loops[-1]
        if update:
            emit_all(body, update)
        body.line("continue")
    elif signal == STOP:
        body.stop()
    elif signal == RETURN and not body.outlined:
        body.line("return")
    else:
        body.line(f"return {signal}")


def _call(body: Body, name: str, possible: frozenset[int], after: Sequence[ir.Stmt] = ()) -> None:
    """Calls a generated function, runs `after`, then hands on whatever made it leave."""
    if not possible:
        body.line(f"{name}(f)")
        emit_all(body, after)
        return
    result = body.temp("r")
    body.line(f"{result} = {name}(f)")
    emit_all(body, after)
    if len(possible) == 1:
        with body.block(f"if {result}:"):
            _leave(body, next(iter(possible)))
        return
    for signal in sorted(possible):
        with body.block(f"if {result} == {signal}:"):
            _leave(body, signal)


# --- blocks and control flow ----------------------------------------------------------------------


def emit_all(body: Body, stmts: Sequence[ir.Stmt]) -> None:
    """Translates statements in order, at the current depth."""
    if body.depth > MAX_BLOCKS and stmts:
        _outline(body, stmts)
        return
    at = 0
    while at < len(stmts):
        run = 0 if body.unit.traced else _zeroed(stmts, at)
        if run >= MIN_ZEROED:
            first = stmts[at]
            assert isinstance(first, ir.Assign)
            assert isinstance(first.target, ir.SlotRef)
            clear(body, str(first.target.slot), run)
            at += run
        else:
            _EMITTERS[type(stmts[at])](body, stmts[at])
            at += 1


def _zeroed(stmts: Sequence[ir.Stmt], at: int) -> int:
    """How many statements from `at` on zero one slot each, the next one each time."""
    count = 0
    slot = None
    for stmt in stmts[at:]:
        if not (
            isinstance(stmt, ir.Assign)
            and isinstance(stmt.target, ir.SlotRef)
            and isinstance(stmt.value, ir.Const)
            and stmt.value.value == 0
            and slot in (None, stmt.target.slot)
        ):
            break
        slot = stmt.target.slot + 1
        count += 1
    return count


def _outline(body: Body, stmts: Sequence[ir.Stmt]) -> None:
    """Moves statements that nest too deep into a function of their own."""
    unit = body.unit
    inner = Body(unit, state=body.state, outlined=True)
    emit_all(inner, stmts)
    name = f"deep_{len(unit.sources)}"
    unit.sources.append(inner.text(name))
    _call(body, name, signals(unit, stmts))


@emits(ir.If)
def _if(body: Body, stmt: ir.If) -> None:
    head = "if"
    for left in range(MAX_CHAIN, -1, -1):
        test = condition(body, stmt.cond)
        if not stmt.then and stmt.other:
            with body.block(f"{head} not {test}:"):
                emit_all(body, stmt.other)
            return
        with body.block(f"{head} {test}:"):
            emit_all(body, stmt.then)
        only = stmt.other[0] if len(stmt.other) == 1 else None
        if not (left and isinstance(only, ir.If) and nesting(body.unit, only.cond) < MAX_NESTING):
            break
        stmt, head = only, "elif"
    if stmt.other:
        with body.block("else:"):
            emit_all(body, stmt.other)


@emits(ir.Switch)
def _switch(body: Body, stmt: ir.Switch) -> None:
    subject = body.temp("s")
    body.line(f"{subject} = {assigned(body, stmt.subject)}")
    if len(stmt.cases) <= MAX_CHAIN:
        _cases(body, subject, stmt.cases, stmt.default)
        return
    head = "if"
    for at in range(0, len(stmt.cases), MAX_CHAIN):
        part = stmt.cases[at : at + MAX_CHAIN]
        known = frozenset(value for values, _ in part for value in values)
        with body.block(f"{head} {subject} in {body.unit.bind('k', known)}:"):
            _cases(body, subject, part, ())
        head = "elif"
    if stmt.default:
        with body.block("else:"):
            emit_all(body, stmt.default)


def _cases(
    body: Body,
    subject: str,
    cases: Sequence[tuple[tuple[int, ...], tuple[ir.Stmt, ...]]],
    default: tuple[ir.Stmt, ...],
) -> None:
    head = "if"
    for values, stmts in cases:
        test = f"== {values[0]}" if len(values) == 1 else f"in {body.unit.bind('k', values)}"
        with body.block(f"{head} {subject} {test}:"):
            emit_all(body, stmts)
        head = "elif"
    if not cases:
        emit_all(body, default)
    elif default:
        with body.block("else:"):
            emit_all(body, default)


@emits(ir.Loop)
def _loop(body: Body, stmt: ir.Loop) -> None:
    left = body.temp("n")
    body.line(f"{left} = {LOOP_LIMIT}")
    with body.block("while True:"):
        emit_all(body, stmt.cond_setup)
        with body.block(f"if not {condition(body, stmt.cond)}:"):
            body.line("break")
        body.line(f"{left} -= 1")
        with body.block(f"if not {left}:"):
            fail = body.unit.bind("fail", _fail)
            reason = body.unit.bind("why", f"a loop ran {LOOP_LIMIT} rounds without an end")
            body.line(f"{fail}({reason}, {span_name(body.unit, stmt.span)})")
        body.loops.append(stmt.update)
        emit_all(body, stmt.body)
        body.loops.pop()
        emit_all(body, stmt.update)


def _fail(reason: str, span: Span) -> None:
    raise ExternFailure(reason, span)


@emits(ir.Break)
def _break(body: Body, _stmt: ir.Break) -> None:
    _leave(body, BREAK)


@emits(ir.Continue)
def _continue(body: Body, _stmt: ir.Continue) -> None:
    _leave(body, CONTINUE)


@emits(ir.Return)
def _return(body: Body, _stmt: ir.Return) -> None:
    _leave(body, RETURN)


@emits(ir.Exit)
def _exit(body: Body, _stmt: ir.Exit) -> None:
    _leave(body, EXIT)


@emits(ir.Call)
def _call_proc(body: Body, stmt: ir.Call) -> None:
    run_proc(body, stmt.proc, stmt.copy_out)


def run_proc(body: Body, index: int, copy_out: Sequence[ir.Stmt]) -> None:
    """Runs a procedure, by a call or in place, and then its copy-out."""
    unit = body.unit
    proc = unit.program.procs[index]
    short = proc.kind != "parser" and _size(proc.body) <= MAX_INLINED
    if short and not signals(unit, proc.body):
        emit_all(body, proc.body)
        emit_all(body, copy_out)
    else:
        _call(body, proc_name(unit, index), proc_signals(unit, index), copy_out)


def _size(stmts: Sequence[ir.Stmt]) -> int:
    """Statements, those inside others included; loops, tables and calls count as too many."""
    total = 0
    for stmt in stmts:
        if isinstance(stmt, ir.If):
            total += 1 + _size(stmt.then) + _size(stmt.other)
        elif isinstance(stmt, ir.Switch | ir.Loop | ir.Apply | ir.Call):
            total += MAX_INLINED + 1
        else:
            total += 1
    return total


def proc_name(unit: Unit, index: int) -> str:
    """The generated function of a procedure, translated on first use."""
    name = unit.procs.get(index)
    if name is None:
        name = unit.procs[index] = f"p{index}"
        proc = unit.program.procs[index]
        if proc.kind == "parser":
            unit.emit_parser(unit, proc, name)
        else:
            body = Body(unit)
            emit_all(body, proc.body)
            unit.sources.append(body.text(name))
    return name


# --- data movement --------------------------------------------------------------------------------


def store(body: Body, target: ir.LValue, text: str, span: Span) -> None:
    """Writes the source expression `text` to an l-value; out of an array's range does nothing."""
    if isinstance(target, ir.SlotRef):
        body.line(f"f[{target.slot}] = {text}")
        _trace_slots(body, str(target.slot), "1", span)
        return
    array = body.unit.program.arrays[target.array]
    base = array.base + target.offset
    index = body.temp("i")
    body.line(f"{index} = {assigned(body, target.index)}")
    with body.block(f"if {index} < {array.size}:"):
        body.line(f"f[{base} + {index} * {array.stride}] = {text}")
        _trace_slots(body, f"{base} + {index} * {array.stride}", "1", span)


def _trace_slots(body: Body, first: str, count: str, span: Span) -> None:
    if body.unit.traced:
        names = body.unit.bind("names", body.unit.program.slots)
        show = body.unit.bind("show", _show_slots)
        body.line(f"{show}(m.trace, f, {names}, {first}, {count}, {span_name(body.unit, span)})")


def _show_slots(
    trace: Trace, frame: list[int], slots: Sequence[ir.Slot], first: int, count: int, span: Span
) -> None:
    for at in range(first, first + count):
        trace.assign(slots[at].name, frame[at], span)


@emits(ir.Assign)
def _assign(body: Body, stmt: ir.Assign) -> None:
    store(body, stmt.target, assigned(body, stmt.value), stmt.span)


@emits(ir.Copy)
def _copy(body: Body, stmt: ir.Copy) -> None:
    to, source, count = stmt.target, stmt.source, stmt.count
    if count == 1:
        body.line(f"f[{to}] = f[{source}]")
    else:
        body.line(f"f[{to}:{to + count}] = f[{source}:{source + count}]")
    _trace_slots(body, str(to), str(count), stmt.span)


@emits(ir.CopyElement)
def _copy_element(body: Body, stmt: ir.CopyElement) -> None:
    array = body.unit.program.arrays[stmt.array]
    index, at = body.temp("i"), body.temp("a")
    body.line(f"{index} = {assigned(body, stmt.index)}")
    here = f"f[{stmt.slot}:{stmt.slot + stmt.count}]"
    with body.block(f"if {index} < {array.size}:"):
        body.line(f"{at} = {array.base + stmt.offset} + {index} * {array.stride}")
        there = f"f[{at}:{at} + {stmt.count}]"
        body.line(f"{here} = {there}" if stmt.load else f"{there} = {here}")
        _trace_slots(body, str(stmt.slot) if stmt.load else at, str(stmt.count), stmt.span)
    if stmt.load:
        with body.block("else:"):
            body.line(f"{here} = {zeros(body, stmt.count)}")


@emits(ir.Zero)
def _zero(body: Body, stmt: ir.Zero) -> None:
    clear(body, str(stmt.target), stmt.count)


def clear(body: Body, first: str, count: int) -> None:
    """Zeroes `count` slots from the slot that `first` is source of."""
    if count == 1:
        body.line(f"f[{first}] = 0")
    elif count:
        body.line(f"f[{first}:{first} + {count}] = {zeros(body, count)}")


def zeros(body: Body, count: int) -> str:
    """A global tuple of zeros."""
    name = f"zeros_{count}"
    body.unit.space[name] = (0,) * count
    return name


# --- headers and stacks ---------------------------------------------------------------------------


def header_at(body: Body, ref: ir.HeaderRef) -> tuple[ir.Header, str, str]:
    """A header's first element, the source of its slots' offset, and a test for its range."""
    program = body.unit.program
    if isinstance(ref, ir.HeaderAt):
        return program.headers[ref.header], "", ""
    array = program.arrays[ref.array]
    index, offset = body.temp("i"), body.temp("o")
    body.line(f"{index} = {assigned(body, ref.index)}")
    body.line(f"{offset} = {index} * {array.stride}")
    return program.headers[array.headers[0]], f"{offset} + ", f"if {index} < {array.size}:"


@emits(ir.SetValid)
def _set_valid(body: Body, stmt: ir.SetValid) -> None:
    header, offset, test = header_at(body, stmt.header)
    if test:
        with body.block(test):
            _make_valid(body, header, offset)
    else:
        _make_valid(body, header, offset)


def _make_valid(body: Body, header: ir.Header, offset: str) -> None:
    with body.block(f"if not f[{offset}{header.valid}]:"):
        body.line(f"f[{offset}{header.valid}] = 1")
        if header.size > 1:
            clear(body, f"{offset}{header.valid + 1}", header.size - 1)


@emits(ir.SetInvalid)
def _set_invalid(body: Body, stmt: ir.SetInvalid) -> None:
    header, offset, test = header_at(body, stmt.header)
    if test:
        with body.block(test):
            body.line(f"f[{offset}{header.valid}] = 0")
    else:
        body.line(f"f[{offset}{header.valid}] = 0")


@emits(ir.Push)
def _push(body: Body, stmt: ir.Push) -> None:
    array = body.unit.program.arrays[stmt.array]
    end = array.base + array.size * array.stride
    moved = min(abs(stmt.count), array.size) * array.stride
    if not moved:
        return
    if stmt.count > 0:
        body.line(f"f[{array.base + moved}:{end}] = f[{array.base}:{end - moved}]")
        clear(body, str(array.base), moved)
        change = f"min(f[{array.next}] + {stmt.count}, {array.size})"
    else:
        body.line(f"f[{array.base}:{end - moved}] = f[{array.base + moved}:{end}]")
        clear(body, str(end - moved), moved)
        change = f"max(f[{array.next}] - {-stmt.count}, 0)"
    if array.next is not None:
        body.line(f"f[{array.next}] = {change}")
