"""What the expressions and statements of the IR must hold to, a rule each."""

from __future__ import annotations

from typing import Final

from sglb.p4 import ir
from sglb.p4.ir import BinOp
from sglb.p4.verify_core import EXPRS, INDEX_WIDTH, STMTS, Verifier, rule_for

_BOOLEAN: Final = frozenset({BinOp.LAND, BinOp.LOR})
_COMPARISON: Final = frozenset({BinOp.EQ, BinOp.NE, BinOp.LT, BinOp.LE, BinOp.LT_S, BinOp.LE_S})
_SHIFT: Final = frozenset({BinOp.SHL, BinOp.SHR, BinOp.SAR})

#: Operations on an instance, with the kinds they take.
INSTANCE_OPS: Final = {
    "register.read": ir.InstanceKind.REGISTER,
    "register.write": ir.InstanceKind.REGISTER,
    "counter.count": ir.InstanceKind.COUNTER,
    "direct_counter.count": ir.InstanceKind.DIRECT_COUNTER,
    "meter.execute_meter": ir.InstanceKind.METER,
    "direct_meter.read": ir.InstanceKind.DIRECT_METER,
    "digest": ir.InstanceKind.DIGEST,
    "Checksum16.get": ir.InstanceKind.CHECKSUM16,
}
#: Operations without one, with the number of inputs and outputs.
PLAIN_OPS: Final = {
    "hash": (2, 1),
    "random": (2, 1),
    "mark_to_drop": (0, 2),
    "clone": (2, 0),
    "clone3": (2, 0),
    "clone_preserving_field_list": (2, 0),
    "resubmit": (0, 0),
    "resubmit_preserving_field_list": (0, 0),
    "recirculate": (0, 0),
    "recirculate_preserving_field_list": (0, 0),
    "truncate": (1, 0),
    "verify_checksum": (2, 0),
    "verify_checksum_with_payload": (2, 0),
    "update_checksum": (1, 1),
    "update_checksum_with_payload": (1, 1),
    "assert": (1, 0),
    "assume": (1, 0),
    "log_msg": (0, 0),
}


# --- expressions ----------------------------------------------------------------------------------


@rule_for(EXPRS, ir.Const)
def _const(v: Verifier, e: ir.Const) -> None:
    v.require(0 <= e.value < 1 << e.width, f"constant {e.value} does not fit {e.width} bits")


@rule_for(EXPRS, ir.Load)
def _load(v: Verifier, e: ir.Load) -> None:
    v.slot(e.slot, e.width)


@rule_for(EXPRS, ir.LoadElement)
def _load_element(v: Verifier, e: ir.LoadElement) -> None:
    v.element(e.array, e.offset, e.width)
    v.expr(e.index)


@rule_for(EXPRS, ir.Binary)
def _binary(v: Verifier, e: ir.Binary) -> None:
    if e.op is BinOp.CONCAT:
        v.require(e.width == e.left.width + e.right.width, "the widths of ++ do not add up")
        v.expr(e.left)
        v.expr(e.right)
    elif e.op in _SHIFT:
        v.expr(e.left, e.width)
        v.expr(e.right)
    elif e.op in _COMPARISON:
        v.require(e.width == 1, f"{e.op.value} is {e.width} bits wide")
        v.expr(e.left)
        v.expr(e.right, e.left.width)
    else:
        if e.op in _BOOLEAN:
            v.require(e.width == 1, f"{e.op.value} is {e.width} bits wide")
        v.expr(e.left, e.width)
        v.expr(e.right, e.width)


@rule_for(EXPRS, ir.Unary)
def _unary(v: Verifier, e: ir.Unary) -> None:
    v.expr(e.operand, e.width)
    if e.op is ir.UnOp.NOT:
        v.require(e.width == 1, f"! is {e.width} bits wide")


@rule_for(EXPRS, ir.Slice)
def _slice(v: Verifier, e: ir.Slice) -> None:
    v.require(0 <= e.lo <= e.hi < e.operand.width, f"[{e.hi}:{e.lo}] of {e.operand.width} bits")
    v.require(e.width == e.hi - e.lo + 1, f"[{e.hi}:{e.lo}] is {e.width} bits wide")
    v.expr(e.operand)


@rule_for(EXPRS, ir.Extend)
def _extend(v: Verifier, e: ir.Extend) -> None:
    v.require(e.width > e.operand.width, f"{e.operand.width} bits extended to {e.width}")
    v.expr(e.operand)


@rule_for(EXPRS, ir.Mux)
def _mux(v: Verifier, e: ir.Mux) -> None:
    v.expr(e.cond, 1)
    v.expr(e.then, e.width)
    v.expr(e.other, e.width)


@rule_for(EXPRS, ir.PacketLength)
def _packet_length(v: Verifier, e: ir.PacketLength) -> None:
    v.require(e.width == INDEX_WIDTH, f"a packet's length is {e.width} bits wide")


# --- statements -----------------------------------------------------------------------------------


@rule_for(STMTS, ir.Assign)
def _assign(v: Verifier, s: ir.Assign) -> None:
    v.lvalue(s.target)
    v.expr(s.value, s.target.width)


@rule_for(STMTS, ir.Copy)
def _copy(v: Verifier, s: ir.Copy) -> None:
    v.slots(s.target, s.count)
    v.slots(s.source, s.count)
    for i in range(s.count):
        v.slot(s.target + i, v.p.slots[s.source + i].width)


@rule_for(STMTS, ir.CopyElement)
def _copy_element(v: Verifier, s: ir.CopyElement) -> None:
    v.expr(s.index)
    v.slots(s.slot, s.count)
    for i in range(s.count):
        v.element(s.array, s.offset + i, v.p.slots[s.slot + i].width)


@rule_for(STMTS, ir.Zero)
def _zero(v: Verifier, s: ir.Zero) -> None:
    v.slots(s.target, s.count)


@rule_for(STMTS, ir.If)
def _if(v: Verifier, s: ir.If) -> None:
    v.expr(s.cond, 1)
    v.body(s.then)
    v.body(s.other)


@rule_for(STMTS, ir.Switch)
def _switch(v: Verifier, s: ir.Switch) -> None:
    v.expr(s.subject)
    for values, body in s.cases:
        for value in values:
            v.require(0 <= value < 1 << s.subject.width, f"label {value} of {s.subject.width} bits")
        v.body(body)
    v.body(s.default)


@rule_for(STMTS, ir.Loop)
def _loop(v: Verifier, s: ir.Loop) -> None:
    v.body(s.cond_setup)
    v.expr(s.cond, 1)
    v.loops += 1
    v.body(s.body)
    v.loops -= 1
    v.body(s.update)


@rule_for(STMTS, ir.Break)
@rule_for(STMTS, ir.Continue)
def _leave_loop(v: Verifier, s: ir.Stmt) -> None:
    v.require(v.loops > 0, f"{type(s).__name__} stands in no loop")


@rule_for(STMTS, ir.Return)
@rule_for(STMTS, ir.Exit)
def _leave_proc(v: Verifier, s: ir.Stmt) -> None:
    v.require(v.kind != "parser", f"{type(s).__name__} stands in a parser")


@rule_for(STMTS, ir.Call)
def _call(v: Verifier, s: ir.Call) -> None:
    v.index(s.proc, v.p.procs, "procedure")
    if v.p.procs[s.proc].kind == "parser":
        v.require(v.kind == "parser", f"a {v.kind} calls parser {v.p.procs[s.proc].name}")
    v.calls.setdefault(v.current, set()).add(s.proc)
    v.body(s.copy_out)


@rule_for(STMTS, ir.Apply)
def _apply(v: Verifier, s: ir.Apply) -> None:
    v.index(s.table, v.p.tables, "table")
    v.require(v.kind == "control", f"a {v.kind} applies table {v.p.tables[s.table].name}")
    if s.hit is not None:
        v.slot(s.hit, 1)
    if s.action_run is not None:
        v.slot(s.action_run, INDEX_WIDTH)
    for action in v.p.tables[s.table].actions:
        v.calls.setdefault(v.current, set()).add(action.proc)


@rule_for(STMTS, ir.SetValid)
@rule_for(STMTS, ir.SetInvalid)
def _set_validity(v: Verifier, s: ir.SetValid | ir.SetInvalid) -> None:
    v.header(s.header)


@rule_for(STMTS, ir.Push)
def _push(v: Verifier, s: ir.Push) -> None:
    v.stack(s.array)


@rule_for(STMTS, ir.Extract)
def _extract(v: Verifier, s: ir.Extract) -> None:
    if s.header is None:
        v.require(s.width >= 0, f"{s.width} bits are skipped")
    else:
        v.header(s.header)
        v.require(s.width == 0, f"{s.width} bits are skipped besides the header")
    if s.var_bits is not None:
        v.expr(s.var_bits, INDEX_WIDTH)


@rule_for(STMTS, ir.ExtractNext)
def _extract_next(v: Verifier, s: ir.ExtractNext) -> None:
    v.require(bool(v.stack(s.array).headers), "the stack holds no headers")
    if s.var_bits is not None:
        v.expr(s.var_bits, INDEX_WIDTH)


@rule_for(STMTS, ir.StackLast)
def _stack_last(v: Verifier, s: ir.StackLast) -> None:
    v.stack(s.array)


@rule_for(STMTS, ir.Advance)
def _advance(v: Verifier, s: ir.Advance) -> None:
    v.expr(s.bits, INDEX_WIDTH)


@rule_for(STMTS, ir.Lookahead)
def _lookahead(v: Verifier, s: ir.Lookahead) -> None:
    v.require(s.width >= 0, f"{s.width} bits are looked at")
    v.slot(s.target, s.width or None)


@rule_for(STMTS, ir.Verify)
def _verify(v: Verifier, s: ir.Verify) -> None:
    v.expr(s.cond, 1)
    v.expr(s.error, INDEX_WIDTH)
    if isinstance(s.error, ir.Const):
        v.index(s.error.value, v.p.errors, "error")


@rule_for(STMTS, ir.Emit)
def _emit(v: Verifier, s: ir.Emit) -> None:
    v.index(s.header, v.p.headers, "header")


@rule_for(STMTS, ir.Extern)
def _extern(v: Verifier, s: ir.Extern) -> None:
    for value in s.ins:
        v.expr(value)
    for target in s.outs:
        v.lvalue(target)
    for field in s.data:
        v.field(field)
    for slot in s.preserved:
        v.slot(slot)
    v.require(s.number >= 0, f"{s.op} of field list {s.number}")
    if s.op in INSTANCE_OPS:
        v.require(s.instance is not None, f"{s.op} has no instance")
        assert s.instance is not None
        v.index(s.instance, v.p.instances, "instance")
        kind = v.p.instances[s.instance].kind
        v.require(kind is INSTANCE_OPS[s.op], f"{s.op} on a {kind.value}")
        _register(v, s)
        return
    v.require(s.op in PLAIN_OPS, f"unknown operation {s.op}")
    have = (len(s.ins), len(s.outs))
    v.require(have == PLAIN_OPS[s.op], f"{s.op} with {have[0]} inputs and {have[1]} outputs")


def _register(v: Verifier, s: ir.Extern) -> None:
    """A register's elements have one value a leaf."""
    assert s.instance is not None
    elements = v.p.instances[s.instance].elements
    widths: tuple[int, ...] | None = None
    if s.op == "register.read":
        widths = tuple(o.width for o in s.outs)
    elif s.op == "register.write":
        widths = tuple(i.width for i in s.ins[1:])
    if widths is not None:
        v.require(widths == elements, f"{s.op} of {widths} bits, elements of {elements}")
