"""Statements and procedures of the IR as LLVM text.

A procedure that is written out where it is called gives its caller's labels new meanings: its `return`
goes behind it, its `exit` runs the copy-out and goes on to the caller's exit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from sglb.p4 import ir
from sglb.p4.interp_stmt import LOOP_LIMIT
from sglb.p4.native.emit_expr import element, value
from sglb.p4.native.text import Function
from sglb.p4.native.unit import Body, Ending, Exits, with_exits

S = TypeVar("S", bound=ir.Stmt)
_EMITTERS: Final[dict[type[ir.Stmt], Callable[[Body, Any], None]]] = {}
#: Writes a parser's states; set by `emit_parser`, which needs this module.
PARSERS: Final[list[Callable[[Body, ir.Proc], None]]] = []

#: Neighbouring slots from which zeroing or copying works on bytes.
MIN_BYTES_RUN: Final = 12


def emits(kind: type[S]) -> Callable[[Callable[[Body, S], None]], Callable[[Body, S], None]]:
    """Registers the translator of one kind of statement."""

    def register(function: Callable[[Body, S], None]) -> Callable[[Body, S], None]:
        _EMITTERS[kind] = function
        return function

    return register


def emit_all(body: Body, stmts: Sequence[ir.Stmt]) -> None:
    """Translates statements in order; those that cannot be reached are dropped."""
    for stmt in stmts:
        if not body.fn.open:
            return
        _EMITTERS[type(stmt)](body, stmt)


# --- control flow ---------------------------------------------------------------------------------


@emits(ir.If)
def _if(body: Body, stmt: ir.If) -> None:
    fn = body.fn
    then, other, after = fn.label("then"), fn.label("else"), fn.label("end")
    fn.branch(value(body, stmt.cond), then, other)
    fn.place(then)
    emit_all(body, stmt.then)
    fn.jump(after)
    fn.place(other)
    emit_all(body, stmt.other)
    fn.place(after)


@emits(ir.Switch)
def _switch(body: Body, stmt: ir.Switch) -> None:
    fn = body.fn
    subject = value(body, stmt.subject)
    arms = [(values, fn.label("case"), stmts) for values, stmts in stmt.cases]
    default, after = fn.label("default"), fn.label("end")
    cases = [(number, label) for values, label, _ in arms for number in values]
    fn.switch(f"i{stmt.subject.width}", subject, default, cases)
    for _, label, stmts in arms:
        fn.place(label)
        emit_all(body, stmts)
        fn.jump(after)
    fn.place(default)
    emit_all(body, stmt.default)
    fn.place(after)


@emits(ir.Loop)
def _loop(body: Body, stmt: ir.Loop) -> None:
    fn = body.fn
    left = fn.alloca("i32")
    fn.do(f"store i32 {LOOP_LIMIT}, ptr {left}")
    head, inside, run = fn.label("loop"), fn.label("round"), fn.label("run")
    update, after, endless = fn.label("update"), fn.label("end"), fn.label("endless")
    fn.place_target(head)
    emit_all(body, stmt.cond_setup)
    fn.branch(value(body, stmt.cond), inside, after)
    fn.place(inside)
    now = fn.op(f"load i32, ptr {left}")
    now = fn.op(f"sub i32 {now}, 1")
    fn.do(f"store i32 {now}, ptr {left}")
    fn.branch(fn.op(f"icmp eq i32 {now}, 0"), endless, run)
    fn.place(endless)
    body.fail(f"a loop ran {LOOP_LIMIT} rounds without an end", stmt.span)
    fn.place(run)
    body.enter_loop(after, update)
    emit_all(body, stmt.body)
    body.loops.pop()
    fn.place(update)
    emit_all(body, stmt.update)
    fn.jump(head)
    fn.place(after)


@emits(ir.Break)
def _break(body: Body, _stmt: ir.Break) -> None:
    body.fn.jump(body.loops[-1].on_break)


@emits(ir.Continue)
def _continue(body: Body, _stmt: ir.Continue) -> None:
    body.fn.jump(body.loops[-1].on_continue)


@emits(ir.Return)
def _return(body: Body, _stmt: ir.Return) -> None:
    body.fn.jump(body.exits.on_return)


@emits(ir.Exit)
def _exit(body: Body, _stmt: ir.Exit) -> None:
    body.fn.jump(body.exits.on_exit)


# --- procedures -----------------------------------------------------------------------------------


@emits(ir.Call)
def _call(body: Body, stmt: ir.Call) -> None:
    run_proc(body, stmt.proc, stmt.copy_out)


def run_proc(body: Body, index: int, copy_out: Sequence[ir.Stmt]) -> None:
    """Runs a procedure, in place or by a call, and then its copy-out, however it ended."""
    fn, outer = body.fn, body.exits
    after = fn.label("after")
    exits = with_exits(outer, on_return=after)
    if copy_out:
        exits = with_exits(exits, on_exit=fn.label("exit"), on_stop=fn.label("stop"))
    if index in body.unit.layout.blocks[body.block].outlined:
        _call_function(body, index, exits)
    else:
        body.inside(exits, lambda: proc_body(body, body.program.procs[index]))
        fn.jump(after)
    if copy_out:
        for own, on in ((exits.on_exit, outer.on_exit), (exits.on_stop, outer.on_stop)):
            fn.place(own)
            emit_all(body, copy_out)
            fn.jump(on)
    fn.place(after)
    emit_all(body, copy_out)


def _call_function(body: Body, index: int, exits: Exits) -> None:
    fn = body.fn
    name = _proc_function(body, index)
    result = fn.op(f"call i8 @{name}(ptr %m, ptr %r, ptr %s, ptr %v)")
    ways = [
        (int(Ending.EXIT), exits.on_exit),
        (int(Ending.STOP), exits.on_stop),
        (int(Ending.FAILED), exits.on_fail),
    ]
    fn.switch("i8", result, exits.on_return, ways)


def _proc_function(body: Body, index: int) -> str:
    """The function of an outlined procedure, written on first use."""
    unit, block = body.unit, body.block
    name = f"{block}_proc{index}"
    if name not in unit.written:
        unit.written.add(name)
        fn = Function(f"define internal i8 @{name}({PARAMETERS}, ptr %v) noinline nounwind")
        exits = Exits(fn.label("return"), fn.label("exit"), fn.label("stop"), fn.label("fail"))
        inner = Body(unit, block, fn, exits)
        proc_body(inner, unit.program.procs[index])
        fn.place(exits.on_return)
        for label, ending in (
            (None, Ending.DONE),
            (exits.on_exit, Ending.EXIT),
            (exits.on_stop, Ending.STOP),
            (exits.on_fail, Ending.FAILED),
        ):
            if label is not None:
                fn.place(label)
            fn.leave(f"i8 {int(ending)}")
        unit.functions.append(fn.text())
    return name


#: What every function takes besides its block's memory.
PARAMETERS: Final = "ptr noalias align 8 %m, ptr noalias align 64 %r, ptr noalias align 16 %s"


def proc_body(body: Body, proc: ir.Proc) -> None:
    """A procedure's statements; behind them the current line goes on, as after a return."""
    if proc.kind == "parser":
        PARSERS[0](body, proc)
    else:
        emit_all(body, proc.body)


# --- data movement --------------------------------------------------------------------------------


def store(body: Body, target: ir.LValue, text: str) -> None:
    """Writes a value to an l-value; out of an array's range does nothing."""
    if isinstance(target, ir.SlotRef):
        body.store(target.slot, text)
        return
    array = body.program.arrays[target.array]
    slot = array.base + target.offset
    if isinstance(target.index, ir.Const):
        at = target.index.value
        if at < array.size:
            body.store(slot + at * array.stride, text)
        return
    if not array.size:
        return
    inside, shift = element(body, array, target.index)
    with body.when(inside):
        body.store(slot, text, shift)


@emits(ir.Assign)
def _assign(body: Body, stmt: ir.Assign) -> None:
    store(body, stmt.target, value(body, stmt.value))


@emits(ir.Copy)
def _copy(body: Body, stmt: ir.Copy) -> None:
    copy_slots(body, stmt.target, None, stmt.source, None, stmt.count)


def copy_slots(
    body: Body, target: int, to: str | None, source: int, of: str | None, count: int
) -> None:
    """Copies slots; `to` and `of` shift target and source by bytes inside their arrays."""
    if count >= MIN_BYTES_RUN and _same_shape(body, target, source, count):
        layout = body.unit.layout
        size = layout.span(body.block, source, count)
        assert size is not None
        move_bytes(body, _start(body, target, count, to), _start(body, source, count, of), size[2])
        return
    values = [body.load(source + i, of) for i in range(count)]
    for i, text in enumerate(values):
        body.store(target + i, text, to)


def _same_shape(body: Body, target: int, source: int, count: int) -> bool:
    layout, block = body.unit.layout, body.block
    if layout.span(block, target, count) is None or layout.span(block, source, count) is None:
        return False
    distances = {
        layout.place(block, target + i).offset - layout.place(block, source + i).offset
        for i in range(count)
    }
    return len(distances) == 1


def _start(body: Body, first: int, count: int, shift: str | None) -> str:
    span = body.unit.layout.span(body.block, first, count)
    assert span is not None
    return body.address(f"%{span[0].value}", span[1], shift)


def move_bytes(body: Body, target: str, source: str, size: int | str) -> None:
    """Copies bytes; the two may overlap."""
    arguments = f"ptr {target}, ptr {source}, i64 {size}, i1 false"
    body.fn.do(f"call void @llvm.memmove.p0.p0.i64({arguments})")


def zero_bytes(body: Body, target: str, size: int | str) -> None:
    """Zeroes bytes."""
    body.fn.do(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")


@emits(ir.CopyElement)
def _copy_element(body: Body, stmt: ir.CopyElement) -> None:
    array = body.program.arrays[stmt.array]
    slot = array.base + stmt.offset
    if isinstance(stmt.index, ir.Const):
        at = slot + stmt.index.value * array.stride
        if stmt.index.value >= array.size:
            _miss(body, stmt)
        elif stmt.load:
            copy_slots(body, stmt.slot, None, at, None, stmt.count)
        else:
            copy_slots(body, at, None, stmt.slot, None, stmt.count)
        return
    if not array.size:
        _miss(body, stmt)
        return
    inside, shift = element(body, array, stmt.index)
    fn = body.fn
    hit, miss, after = fn.label("inside"), fn.label("outside"), fn.label("end")
    fn.branch(inside, hit, miss)
    fn.place(hit)
    if stmt.load:
        copy_slots(body, stmt.slot, None, slot, shift, stmt.count)
    else:
        copy_slots(body, slot, shift, stmt.slot, None, stmt.count)
    fn.jump(after)
    fn.place(miss)
    _miss(body, stmt)
    fn.place(after)


def _miss(body: Body, stmt: ir.CopyElement) -> None:
    if stmt.load:
        zero_slots(body, stmt.slot, stmt.count)


@emits(ir.Zero)
def _zero(body: Body, stmt: ir.Zero) -> None:
    zero_slots(body, stmt.target, stmt.count)


def zero_slots(body: Body, first: int, count: int, shift: str | None = None) -> None:
    """Zeroes slots."""
    if count >= MIN_BYTES_RUN:
        span = body.unit.layout.span(body.block, first, count)
        if span is not None:
            zero_bytes(body, _start(body, first, count, shift), span[2])
            return
    for slot in range(first, first + count):
        body.store(slot, "0", shift)


# --- headers and stacks ---------------------------------------------------------------------------


def at_header(body: Body, ref: ir.HeaderRef, use: Callable[[ir.Header, str | None], None]) -> None:
    """Lets `use` work on a header, given as its array's first element and a shift in bytes."""
    program = body.program
    if isinstance(ref, ir.HeaderAt):
        use(program.headers[ref.header], None)
        return
    array = program.arrays[ref.array]
    if isinstance(ref.index, ir.Const):
        if ref.index.value < array.size:
            use(program.headers[array.headers[ref.index.value]], None)
        return
    if not array.size:
        return
    inside, shift = element(body, array, ref.index)
    with body.when(inside):
        use(program.headers[array.headers[0]], shift)


@emits(ir.SetValid)
def _set_valid(body: Body, stmt: ir.SetValid) -> None:
    at_header(body, stmt.header, lambda header, shift: _make_valid(body, header, shift))


def _make_valid(body: Body, header: ir.Header, shift: str | None) -> None:
    invalid = body.fn.op(f"xor i1 {body.load(header.valid, shift)}, 1")
    with body.when(invalid):
        body.store(header.valid, "1", shift)
        zero_slots(body, header.valid + 1, header.size - 1, shift)


@emits(ir.SetInvalid)
def _set_invalid(body: Body, stmt: ir.SetInvalid) -> None:
    at_header(body, stmt.header, lambda header, shift: body.store(header.valid, "0", shift))


@emits(ir.Push)
def _push(body: Body, stmt: ir.Push) -> None:
    array = body.program.arrays[stmt.array]
    moved = min(abs(stmt.count), array.size)
    if not moved:
        return
    layout = body.unit.layout
    span = layout.span(body.block, array.base, array.size * array.stride)
    assert span is not None, "a stack that is pushed lies in memory"
    area, start, size = span
    stride = layout.stride_bytes(body.block, array) if array.size > 1 else size
    cut, base = moved * stride, f"%{area.value}"
    low, high = body.address(base, start), body.address(base, start + cut)
    kept = (array.size - moved) * stride
    if stmt.count > 0:
        move_bytes(body, high, low, kept - (array.size * stride - size))
        zero_bytes(body, low, cut)
    else:
        move_bytes(body, low, high, kept - (array.size * stride - size))
        zero_bytes(body, body.address(base, start + kept), cut - (array.size * stride - size))
    if array.next is not None:
        _move_next(body, array.next, stmt.count, array.size)


def _move_next(body: Body, slot: int, count: int, size: int) -> None:
    kind, by = ("uadd", count) if count > 0 else ("usub", -count)
    by = min(by, (1 << 32) - 1)
    now = body.fn.op(f"call i32 @llvm.{kind}.sat.i32(i32 {body.load(slot)}, i32 {by})")
    if count > 0:
        now = body.fn.op(f"call i32 @llvm.umin.i32(i32 {now}, i32 {size})")
    body.store(slot, now)
