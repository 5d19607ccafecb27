"""Checks that an `ir.Program` is well formed, so that an engine may run it without looking.

Widths agree, slots and indices exist, headers and arrays lie as `sglb.p4.ir` says, calls don't recurse,
and every action's parameters are inside the frame. A failure is a fault of the compiler, not of the
P4 program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from sglb.p4 import ir
from sglb.p4.ir import BinOp
from sglb.p4.source import BUILTIN, P4Error, Span

INDEX_WIDTH: Final = 32
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
_PARSER_ONLY: Final = (
    ir.Extract,
    ir.ExtractNext,
    ir.StackLast,
    ir.Advance,
    ir.Lookahead,
    ir.Verify,
)


def verify(program: ir.Program) -> None:
    """Raise P4Error (phase "verify") at the first thing that is wrong with a program."""
    _Verifier(program).program()


F = TypeVar("F", bound=Callable[..., None])
_EXPRS: Final[dict[type[ir.Expr], Callable[[_Verifier, Any], None]]] = {}
_STMTS: Final[dict[type[ir.Stmt], Callable[[_Verifier, Any], None]]] = {}


def _for(registry: dict[Any, Any], kind: type) -> Callable[[F], F]:
    def register(function: F) -> F:
        registry[kind] = function
        return function

    return register


class _Verifier:
    def __init__(self, program: ir.Program) -> None:
        self.p = program
        self.where = ""
        self.span: Span = BUILTIN
        self.kind = ""
        self.loops = 0
        self.calls: dict[int, set[int]] = {}
        self.current = -1

    # --- helpers ---

    def require(self, holds: bool, message: str) -> None:
        """Fail unless something holds."""
        if not holds:
            where = f"{self.where}: " if self.where else ""
            raise P4Error(f"bad IR: {where}{message}", self.span, phase="verify")

    def index(self, value: int, items: Sequence[object], what: str) -> None:
        """An index into one of the program's lists."""
        self.require(0 <= value < len(items), f"there is no {what} {value} (of {len(items)})")

    def slot(self, slot: int, width: int | None = None) -> None:
        """A slot of the frame, of a width."""
        self.index(slot, self.p.slots, "slot")
        if width is not None:
            have = self.p.slots[slot].width
            name = self.p.slots[slot].name
            self.require(have == width, f"slot {slot} ({name}) is {have} bits wide, not {width}")

    def slots(self, first: int, count: int) -> None:
        """A run of slots."""
        self.require(count > 0, f"a run of {count} slots")
        self.slot(first)
        self.slot(first + count - 1)

    def expr(self, expr: ir.Expr, width: int | None = None) -> None:
        """An expression, of a width."""
        rule = _EXPRS.get(type(expr))
        self.require(rule is not None, f"unknown expression {type(expr).__name__}")
        assert rule is not None
        self.require(expr.width > 0, f"{type(expr).__name__} of {expr.width} bits")
        if width is not None:
            self.require(
                expr.width == width,
                f"{type(expr).__name__} is {expr.width} bits wide where {width} are due",
            )
        rule(self, expr)

    def lvalue(self, target: ir.LValue) -> None:
        """The target of a write."""
        if isinstance(target, ir.SlotRef):
            self.slot(target.slot, target.width)
        else:
            self.element(target.array, target.offset, target.width)
            self.expr(target.index)

    def element(self, array: int, offset: int, width: int) -> None:
        """A slot of an array's elements."""
        self.index(array, self.p.arrays, "array")
        found = self.p.arrays[array]
        self.require(
            0 <= offset < found.stride,
            f"offset {offset} in {found.name}, whose elements have {found.stride} slots",
        )
        self.slot(found.base + offset, width)

    def header(self, header: ir.HeaderRef) -> None:
        """A header that a statement names."""
        if isinstance(header, ir.HeaderAt):
            self.index(header.header, self.p.headers, "header")
            return
        self.index(header.array, self.p.arrays, "array")
        found = self.p.arrays[header.array]
        self.require(bool(found.headers), f"{found.name} is no header stack")
        self.expr(header.index)

    def stack(self, array: int) -> ir.Array:
        """A stack with a next index."""
        self.index(array, self.p.arrays, "array")
        found = self.p.arrays[array]
        self.require(found.next is not None, f"{found.name} has no next index")
        return found

    def body(self, stmts: Sequence[ir.Stmt]) -> None:
        """Statements in order."""
        for stmt in stmts:
            rule = _STMTS.get(type(stmt))
            self.span = stmt.span
            self.require(rule is not None, f"unknown statement {type(stmt).__name__}")
            assert rule is not None
            if isinstance(stmt, _PARSER_ONLY):
                self.require(
                    self.kind in ("parser", "function"),
                    f"{type(stmt).__name__} stands in a {self.kind}",
                )
            rule(self, stmt)

    def field(self, data: ir.DataField) -> None:
        """A piece of a field list."""
        self.expr(data.value, data.width)
        if data.length is not None:
            self.expr(data.length, INDEX_WIDTH)
        if data.valid is not None:
            self.slot(data.valid, 1)

    # --- the program ---

    def program(self) -> None:
        """Everything."""
        p = self.p
        for i, slot in enumerate(p.slots):
            self.where = f"slot {i} ({slot.name})"
            self.require(slot.width > 0, f"it is {slot.width} bits wide")
        self.where = ""
        for header in p.headers:
            self.header_layout(header)
        for array in p.arrays:
            self.array_layout(array)
        self.blocks()
        for i, proc in enumerate(p.procs):
            self.current = i
            self.proc(proc)
        self.current = -1
        for table in p.tables:
            self.table(table)
        self.where = ""
        self.no_recursion()

    def header_layout(self, header: ir.Header) -> None:
        """Validity, then the fields, contiguous."""
        self.where = f"header {header.name}"
        self.slot(header.valid, 1)
        expected = header.valid + 1
        fixed = 0
        for field in header.fields:
            self.require(field.slot == expected, f"field {field.name} is not where it is due")
            self.slot(field.slot, field.width)
            if field.varbit:
                self.slot(field.slot + 1, INDEX_WIDTH)
            else:
                fixed += field.width
            expected += 2 if field.varbit else 1
        self.require(header.size == expected - header.valid, f"its size is {header.size}")
        self.require(header.width == fixed, f"its width is {header.width}, not {fixed}")

    def array_layout(self, array: ir.Array) -> None:
        """Elements at equal stride; a stack's headers are its elements."""
        self.where = f"array {array.name}"
        self.require(array.stride > 0, "its elements have no slots")
        if array.size:
            self.slots(array.base, array.size * array.stride)
        for i in range(1, array.size):
            for offset in range(array.stride):
                first = self.p.slots[array.base + offset]
                other = self.p.slots[array.base + i * array.stride + offset]
                self.require(first.width == other.width, f"element {i} differs from element 0")
        if array.next is not None:
            self.slot(array.next, INDEX_WIDTH)
        if array.headers:
            self.require(len(array.headers) == array.size, "it lacks headers")
            for i, header in enumerate(array.headers):
                self.index(header, self.p.headers, "header")
                due = array.base + i * array.stride
                self.require(self.p.headers[header].valid == due, f"header {i} is not element {i}")

    def blocks(self) -> None:
        """The six blocks and the storage they share."""
        p = self.p
        self.where = "program"
        kinds = {"parser": p.parser}
        for name in ("verify_checksum", "ingress", "egress", "compute_checksum", "deparser"):
            kinds[name] = getattr(p, name)
        for name, index in kinds.items():
            self.index(index, p.procs, "procedure")
            due = "parser" if name == "parser" else "control"
            self.require(p.procs[index].kind == due, f"{name} is a {p.procs[index].kind}")
        for name, slot in p.standard_metadata.items():
            self.where = f"standard_metadata.{name}"
            self.slot(slot)
        self.where = "program"
        for first, count in (p.metadata, p.headers_out):
            if count:
                self.slots(first, count)
        for index, slots in p.field_lists.items():
            self.where = f"field list {index}"
            for slot in slots:
                self.slot(slot)
        for value_set in p.value_sets:
            self.where = f"value set {value_set.name}"
            self.require(len(value_set.widths) == len(value_set.kinds), "widths and kinds differ")

    def proc(self, proc: ir.Proc) -> None:
        """A procedure."""
        self.where, self.kind, self.span = f"{proc.kind} {proc.name}", proc.kind, proc.span
        self.require(
            proc.kind in ("control", "action", "function", "parser"), "its kind is unknown"
        )
        self.loops = 0
        self.body(proc.body)
        self.require(bool(proc.states) == (proc.kind == "parser"), "only parsers have states")
        for state in proc.states:
            self.where = f"parser {proc.name}, state {state.name}"
            self.span = state.span
            self.body(state.body)
            if isinstance(state.next, int):
                self.target(state.next, proc)
            else:
                self.select(state.next, proc)

    def target(self, state: int, proc: ir.Proc) -> None:
        """Where a transition goes."""
        if state not in (ir.ACCEPT, ir.REJECT):
            self.index(state, proc.states, "state")

    def select(self, select: ir.Select, proc: ir.Proc) -> None:
        """A select's operands, key sets and targets."""
        for operand in select.operands:
            self.expr(operand)
        for case in select.cases:
            self.target(case.state, proc)
            if len(case.keys) == 1 and isinstance(case.keys[0], ir.MatchSet):
                self.value_set(case.keys[0], select)
                continue
            self.require(
                len(case.keys) == len(select.operands),
                f"{len(case.keys)} key sets for {len(select.operands)} operands",
            )
            for key, operand in zip(case.keys, select.operands, strict=True):
                self.key_set(key, operand.width)

    def value_set(self, key: ir.MatchSet, select: ir.Select) -> None:
        """A value set takes all operands."""
        self.index(key.index, self.p.value_sets, "value set")
        widths = tuple(o.width for o in select.operands)
        have = self.p.value_sets[key.index].widths
        self.require(have == widths, f"value set of {have} bits for operands of {widths}")

    def key_set(self, key: ir.KeySet, width: int) -> None:
        """One key set for one operand."""
        if isinstance(key, ir.MatchMask):
            self.expr(key.value, width)
            self.expr(key.mask, width)
        elif isinstance(key, ir.MatchRange):
            self.expr(key.lo, width)
            self.expr(key.hi, width)
        else:
            self.require(isinstance(key, ir.MatchAny), "a value set does not stand alone")

    # --- tables ---

    def table(self, table: ir.Table) -> None:
        """A table."""
        self.where, self.span, self.kind = f"table {table.name}", table.span, "control"
        for key in table.keys:
            self.expr(key.expr, key.width)
            self.require(
                key.kind in ("exact", "lpm", "ternary", "range", "optional"),
                f"key {key.name} is of kind {key.kind}",
            )
        for field in table.selector:
            self.field(field)
        self.require(bool(table.actions), "it has no actions")
        for action in table.actions:
            self.table_action(action)
        self.index(table.default_action, table.actions, "action")
        self.arguments(table, table.default_action, table.default_args)
        self.require(table.size > 0, f"its size is {table.size}")
        for entry in table.entries:
            self.entry(table, entry)
        self.attached(table)

    def table_action(self, action: ir.TableAction) -> None:
        """An action of a table."""
        self.index(action.proc, self.p.procs, "procedure")
        kind = self.p.procs[action.proc].kind
        self.require(kind == "action", f"{action.name} is a {kind}")
        for slot, width in action.params:
            self.slot(slot, width)
        self.body(action.setup)
        self.body(action.copy_out)

    def arguments(self, table: ir.Table, action: int, args: Sequence[int]) -> None:
        """Action data: as many values as parameters, each fitting."""
        params = table.actions[action].params
        self.require(len(args) == len(params), f"{len(args)} values for {len(params)} parameters")
        for value, (_, width) in zip(args, params, strict=True):
            self.require(0 <= value < 1 << width, f"{value} does not fit {width} bits")

    def entry(self, table: ir.Table, entry: ir.ConstEntry) -> None:
        """An entry's keys and action."""
        self.require(len(entry.keys) == len(table.keys), "an entry has the wrong number of keys")
        for key, value in zip(table.keys, entry.keys, strict=True):
            limit = 1 << key.width
            parts = [value.value, value.mask, value.hi or 0]
            self.require(all(0 <= v < limit for v in parts), f"a value of {key.name} is too wide")
            if key.kind == "range":
                self.require(value.hi is not None, f"{key.name} has no upper end")
            else:
                self.require(value.value & ~value.mask == 0, f"{key.name} has bits off its mask")
        self.index(entry.action, table.actions, "action")
        self.arguments(table, entry.action, entry.args)

    def attached(self, table: ir.Table) -> None:
        """Direct counters, meters and profiles are what they should be."""
        kinds = ir.InstanceKind
        pairs = (
            (table.implementation, (kinds.ACTION_PROFILE, kinds.ACTION_SELECTOR)),
            (table.direct_counter, (kinds.DIRECT_COUNTER,)),
            (table.direct_meter, (kinds.DIRECT_METER,)),
        )
        for index, allowed in pairs:
            if index is not None:
                self.index(index, self.p.instances, "instance")
                kind = self.p.instances[index].kind
                self.require(kind in allowed, f"instance {index} is a {kind.value}")
        if table.meter_result is not None:
            self.lvalue(table.meter_result)

    def no_recursion(self) -> None:
        """Storage is static, so a procedure must not call itself, however indirectly."""
        done: set[int] = set()

        def visit(proc: int, path: tuple[int, ...]) -> None:
            names = " > ".join(self.p.procs[i].name for i in (*path, proc))
            self.require(proc not in path, f"recursion: {names}")
            if proc in done:
                return
            for callee in sorted(self.calls.get(proc, ())):
                visit(callee, (*path, proc))
            done.add(proc)

        for proc in range(len(self.p.procs)):
            visit(proc, ())


# --- expressions ----------------------------------------------------------------------------------


@_for(_EXPRS, ir.Const)
def _const(v: _Verifier, e: ir.Const) -> None:
    v.require(0 <= e.value < 1 << e.width, f"constant {e.value} does not fit {e.width} bits")


@_for(_EXPRS, ir.Load)
def _load(v: _Verifier, e: ir.Load) -> None:
    v.slot(e.slot, e.width)


@_for(_EXPRS, ir.LoadElement)
def _load_element(v: _Verifier, e: ir.LoadElement) -> None:
    v.element(e.array, e.offset, e.width)
    v.expr(e.index)


@_for(_EXPRS, ir.Binary)
def _binary(v: _Verifier, e: ir.Binary) -> None:
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


@_for(_EXPRS, ir.Unary)
def _unary(v: _Verifier, e: ir.Unary) -> None:
    v.expr(e.operand, e.width)
    if e.op is ir.UnOp.NOT:
        v.require(e.width == 1, f"! is {e.width} bits wide")


@_for(_EXPRS, ir.Slice)
def _slice(v: _Verifier, e: ir.Slice) -> None:
    v.require(0 <= e.lo <= e.hi < e.operand.width, f"[{e.hi}:{e.lo}] of {e.operand.width} bits")
    v.require(e.width == e.hi - e.lo + 1, f"[{e.hi}:{e.lo}] is {e.width} bits wide")
    v.expr(e.operand)


@_for(_EXPRS, ir.Extend)
def _extend(v: _Verifier, e: ir.Extend) -> None:
    v.require(e.width > e.operand.width, f"{e.operand.width} bits extended to {e.width}")
    v.expr(e.operand)


@_for(_EXPRS, ir.Mux)
def _mux(v: _Verifier, e: ir.Mux) -> None:
    v.expr(e.cond, 1)
    v.expr(e.then, e.width)
    v.expr(e.other, e.width)


@_for(_EXPRS, ir.PacketLength)
def _packet_length(v: _Verifier, e: ir.PacketLength) -> None:
    v.require(e.width == INDEX_WIDTH, f"a packet's length is {e.width} bits wide")


# --- statements -----------------------------------------------------------------------------------


@_for(_STMTS, ir.Assign)
def _assign(v: _Verifier, s: ir.Assign) -> None:
    v.lvalue(s.target)
    v.expr(s.value, s.target.width)


@_for(_STMTS, ir.Copy)
def _copy(v: _Verifier, s: ir.Copy) -> None:
    v.slots(s.target, s.count)
    v.slots(s.source, s.count)
    for i in range(s.count):
        v.slot(s.target + i, v.p.slots[s.source + i].width)


@_for(_STMTS, ir.CopyElement)
def _copy_element(v: _Verifier, s: ir.CopyElement) -> None:
    v.expr(s.index)
    v.slots(s.slot, s.count)
    for i in range(s.count):
        v.element(s.array, s.offset + i, v.p.slots[s.slot + i].width)


@_for(_STMTS, ir.Zero)
def _zero(v: _Verifier, s: ir.Zero) -> None:
    v.slots(s.target, s.count)


@_for(_STMTS, ir.If)
def _if(v: _Verifier, s: ir.If) -> None:
    v.expr(s.cond, 1)
    v.body(s.then)
    v.body(s.other)


@_for(_STMTS, ir.Switch)
def _switch(v: _Verifier, s: ir.Switch) -> None:
    v.expr(s.subject)
    for values, body in s.cases:
        for value in values:
            v.require(0 <= value < 1 << s.subject.width, f"label {value} of {s.subject.width} bits")
        v.body(body)
    v.body(s.default)


@_for(_STMTS, ir.Loop)
def _loop(v: _Verifier, s: ir.Loop) -> None:
    v.body(s.cond_setup)
    v.expr(s.cond, 1)
    v.loops += 1
    v.body(s.body)
    v.loops -= 1
    v.body(s.update)


@_for(_STMTS, ir.Break)
@_for(_STMTS, ir.Continue)
def _leave_loop(v: _Verifier, s: ir.Stmt) -> None:
    v.require(v.loops > 0, f"{type(s).__name__} stands in no loop")


@_for(_STMTS, ir.Return)
@_for(_STMTS, ir.Exit)
def _leave_proc(v: _Verifier, s: ir.Stmt) -> None:
    v.require(v.kind != "parser", f"{type(s).__name__} stands in a parser")


@_for(_STMTS, ir.Call)
def _call(v: _Verifier, s: ir.Call) -> None:
    v.index(s.proc, v.p.procs, "procedure")
    if v.p.procs[s.proc].kind == "parser":
        v.require(v.kind == "parser", f"a {v.kind} calls parser {v.p.procs[s.proc].name}")
    v.calls.setdefault(v.current, set()).add(s.proc)
    v.body(s.copy_out)


@_for(_STMTS, ir.Apply)
def _apply(v: _Verifier, s: ir.Apply) -> None:
    v.index(s.table, v.p.tables, "table")
    v.require(v.kind == "control", f"a {v.kind} applies table {v.p.tables[s.table].name}")
    if s.hit is not None:
        v.slot(s.hit, 1)
    if s.action_run is not None:
        v.slot(s.action_run, INDEX_WIDTH)
    for action in v.p.tables[s.table].actions:
        v.calls.setdefault(v.current, set()).add(action.proc)


@_for(_STMTS, ir.SetValid)
@_for(_STMTS, ir.SetInvalid)
def _set_validity(v: _Verifier, s: ir.SetValid | ir.SetInvalid) -> None:
    v.header(s.header)


@_for(_STMTS, ir.Push)
def _push(v: _Verifier, s: ir.Push) -> None:
    v.stack(s.array)


@_for(_STMTS, ir.Extract)
def _extract(v: _Verifier, s: ir.Extract) -> None:
    if s.header is None:
        v.require(s.width >= 0, f"{s.width} bits are skipped")
    else:
        v.header(s.header)
        v.require(s.width == 0, f"{s.width} bits are skipped besides the header")
    if s.var_bits is not None:
        v.expr(s.var_bits, INDEX_WIDTH)


@_for(_STMTS, ir.ExtractNext)
def _extract_next(v: _Verifier, s: ir.ExtractNext) -> None:
    v.require(bool(v.stack(s.array).headers), "the stack holds no headers")
    if s.var_bits is not None:
        v.expr(s.var_bits, INDEX_WIDTH)


@_for(_STMTS, ir.StackLast)
def _stack_last(v: _Verifier, s: ir.StackLast) -> None:
    v.stack(s.array)


@_for(_STMTS, ir.Advance)
def _advance(v: _Verifier, s: ir.Advance) -> None:
    v.expr(s.bits, INDEX_WIDTH)


@_for(_STMTS, ir.Lookahead)
def _lookahead(v: _Verifier, s: ir.Lookahead) -> None:
    v.require(s.width >= 0, f"{s.width} bits are looked at")
    v.slot(s.target, s.width or None)


@_for(_STMTS, ir.Verify)
def _verify(v: _Verifier, s: ir.Verify) -> None:
    v.expr(s.cond, 1)
    v.expr(s.error, INDEX_WIDTH)
    if isinstance(s.error, ir.Const):
        v.index(s.error.value, v.p.errors, "error")


@_for(_STMTS, ir.Emit)
def _emit(v: _Verifier, s: ir.Emit) -> None:
    v.index(s.header, v.p.headers, "header")


@_for(_STMTS, ir.Extern)
def _extern(v: _Verifier, s: ir.Extern) -> None:
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


def _register(v: _Verifier, s: ir.Extern) -> None:
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
