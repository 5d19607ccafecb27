"""The IR as text that a person can read: storage by name, one statement a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from sglb.p4 import ir

F = TypeVar("F", bound=Callable[..., Any])
_EXPRS: Final[dict[type[ir.Expr], Callable[[_Printer, Any], str]]] = {}
_STMTS: Final[dict[type[ir.Stmt], Callable[[_Printer, Any], Iterator[str]]]] = {}


def print_ir(program: ir.Program) -> str:
    """A whole program as text, with a line break at the end; equal programs give equal texts."""
    return "\n".join(_Printer(program).program()) + "\n"


def _for(registry: dict[Any, Any], *kinds: type) -> Callable[[F], F]:
    def register(function: F) -> F:
        for kind in kinds:
            registry[kind] = function
        return function

    return register


def _indented(lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield "  " + line


class _Printer:
    def __init__(self, program: ir.Program) -> None:
        self.p = program

    def expr(self, expr: ir.Expr) -> str:
        """An expression."""
        return _EXPRS[type(expr)](self, expr)

    def exprs(self, exprs: Sequence[ir.Expr]) -> str:
        """Expressions, with commas."""
        return ", ".join(map(self.expr, exprs))

    def slot(self, slot: int) -> str:
        """A slot's name; numbers keep names that occur twice apart."""
        return f"{self.p.slots[slot].name}#{slot}"

    def run(self, first: int, count: int) -> str:
        """A run of slots."""
        return f"{self.slot(first)}..+{count}"

    def lvalue(self, target: ir.LValue) -> str:
        """The target of a write."""
        if isinstance(target, ir.SlotRef):
            return self.slot(target.slot)
        return f"{self.p.arrays[target.array].name}[{self.expr(target.index)}]+{target.offset}"

    def header(self, header: ir.HeaderRef) -> str:
        """A header that a statement names."""
        if isinstance(header, ir.HeaderAt):
            return self.p.headers[header.header].name
        return f"{self.p.arrays[header.array].name}[{self.expr(header.index)}]"

    def body(self, stmts: Sequence[ir.Stmt]) -> Iterator[str]:
        """Statements, indented."""
        for stmt in stmts:
            yield from _indented(_STMTS[type(stmt)](self, stmt))

    def fields(self, data: Sequence[ir.DataField]) -> str:
        """A field list."""
        parts = []
        for field in data:
            text = self.expr(field.value)
            if field.length is not None:
                text += f" of {self.expr(field.length)} bits"
            if field.valid is not None:
                text += f" if {self.slot(field.valid)}"
            parts.append(text)
        return "{" + ", ".join(parts) + "}"

    # --- the program ---

    def program(self) -> Iterator[str]:
        """Everything."""
        p = self.p
        yield "slots"
        for i, slot in enumerate(p.slots):
            kind = "int" if slot.signed else "bit"
            type_ = "bool" if slot.is_bool else f"{kind}<{slot.width}>"
            yield f"  {i:4} {type_} {slot.name}"
        for i, header in enumerate(p.headers):
            yield f"header {i} {header.name} at {header.valid}, {header.width} bits"
        for i, array in enumerate(p.arrays):
            yield f"array {i} {array.name} at {array.base}, {array.size} x {array.stride}"
        for i, instance in enumerate(p.instances):
            size = f"[{instance.size}]" if instance.size else ""
            yield f"instance {i} {instance.kind.value} {instance.name}{size}"
        for i, value_set in enumerate(p.value_sets):
            yield f"value_set {i} {value_set.name}[{value_set.size}]"
        for index, slots in p.field_lists.items():
            yield f"field_list {index} {', '.join(map(self.slot, slots))}"
        for table in p.tables:
            yield from self.table(table)
        for i, proc in enumerate(p.procs):
            yield from self.proc(i, proc)

    def table(self, table: ir.Table) -> Iterator[str]:
        """A table."""
        yield f"table {table.name} size {table.size}"
        for key in table.keys:
            yield f"  key {key.name} = {self.expr(key.expr)} : {key.kind}"
        if table.selector:
            yield f"  selector {self.fields(table.selector)}"
        for i, action in enumerate(table.actions):
            default = " (default)" if i == table.default_action else ""
            params = ", ".join(self.slot(slot) for slot, _ in action.params)
            yield f"  action {i} {action.name}({params}){default}"
            yield from self.part("setup", action.setup)
            yield from self.part("copy out", action.copy_out)
        for entry in table.entries:
            keys = ", ".join(map(_entry_key, entry.keys))
            args = ", ".join(map(str, entry.args))
            name = table.actions[entry.action].name
            yield f"  entry ({keys}) -> {name}({args}) priority {entry.priority}"

    def part(self, title: str, stmts: Sequence[ir.Stmt]) -> Iterator[str]:
        """A titled list of statements, if there are any."""
        if stmts:
            yield f"    {title}"
            yield from _indented(_indented(list(self.body(stmts))))

    def proc(self, index: int, proc: ir.Proc) -> Iterator[str]:
        """A procedure."""
        blocks = ("parser", "verify_checksum", "ingress", "egress", "compute_checksum", "deparser")
        roles = [name for name in blocks if getattr(self.p, name) == index]
        role = f" ({roles[0]})" if roles else ""
        yield f"{proc.kind} {index} {proc.name}{role}"
        yield from self.body(proc.body)
        for state in proc.states:
            yield f"  state {state.name}"
            yield from _indented(self.body(state.body))
            if isinstance(state.next, int):
                yield f"    goto {_target(proc, state.next)}"
                continue
            yield f"    select {self.exprs(state.next.operands)}"
            for case in state.next.cases:
                keys = ", ".join(map(self.key_set, case.keys))
                yield f"      {keys}: {_target(proc, case.state)}"

    def key_set(self, key: ir.KeySet) -> str:
        """One key set of a select."""
        if isinstance(key, ir.MatchMask):
            return f"{self.expr(key.value)} &&& {self.expr(key.mask)}"
        if isinstance(key, ir.MatchRange):
            return f"{self.expr(key.lo)} .. {self.expr(key.hi)}"
        if isinstance(key, ir.MatchSet):
            return self.p.value_sets[key.index].name
        return "_"


def _target(proc: ir.Proc, state: int) -> str:
    names = {ir.ACCEPT: "accept", ir.REJECT: "reject"}
    return names[state] if state in names else proc.states[state].name


def _entry_key(key: ir.EntryKey) -> str:
    if key.hi is not None:
        return f"{key.value:#x}..{key.hi:#x}"
    return f"{key.value:#x}&{key.mask:#x}"


# --- expressions ----------------------------------------------------------------------------------


@_for(_EXPRS, ir.Const)
def _const(p: _Printer, e: ir.Const) -> str:  # noqa: ARG001
    return f"{e.width}w{e.value:#x}"


@_for(_EXPRS, ir.Load)
def _load(p: _Printer, e: ir.Load) -> str:
    return p.slot(e.slot)


@_for(_EXPRS, ir.LoadElement)
def _load_element(p: _Printer, e: ir.LoadElement) -> str:
    return f"{p.p.arrays[e.array].name}[{p.expr(e.index)}]+{e.offset}"


@_for(_EXPRS, ir.Binary)
def _binary(p: _Printer, e: ir.Binary) -> str:
    return f"({p.expr(e.left)} {e.op.value} {p.expr(e.right)})"


@_for(_EXPRS, ir.Unary)
def _unary(p: _Printer, e: ir.Unary) -> str:
    return f"{e.op.value}{p.expr(e.operand)}"


@_for(_EXPRS, ir.Slice)
def _slice(p: _Printer, e: ir.Slice) -> str:
    return f"{p.expr(e.operand)}[{e.hi}:{e.lo}]"


@_for(_EXPRS, ir.Extend)
def _extend(p: _Printer, e: ir.Extend) -> str:
    return f"({'sext' if e.signed else 'zext'}<{e.width}>){p.expr(e.operand)}"


@_for(_EXPRS, ir.Mux)
def _mux(p: _Printer, e: ir.Mux) -> str:
    return f"({p.expr(e.cond)} ? {p.expr(e.then)} : {p.expr(e.other)})"


@_for(_EXPRS, ir.PacketLength)
def _packet_length(p: _Printer, e: ir.PacketLength) -> str:  # noqa: ARG001
    return "packet.length"


# --- statements -----------------------------------------------------------------------------------


@_for(_STMTS, ir.Assign)
def _assign(p: _Printer, s: ir.Assign) -> Iterator[str]:
    yield f"{p.lvalue(s.target)} = {p.expr(s.value)}"


@_for(_STMTS, ir.Copy)
def _copy(p: _Printer, s: ir.Copy) -> Iterator[str]:
    yield f"copy {p.run(s.target, s.count)} = {p.slot(s.source)}"


@_for(_STMTS, ir.CopyElement)
def _copy_element(p: _Printer, s: ir.CopyElement) -> Iterator[str]:
    element = f"{p.p.arrays[s.array].name}[{p.expr(s.index)}]+{s.offset}"
    if s.load:
        yield f"copy {p.run(s.slot, s.count)} = {element}"
    else:
        yield f"copy {element}..+{s.count} = {p.slot(s.slot)}"


@_for(_STMTS, ir.Zero)
def _zero(p: _Printer, s: ir.Zero) -> Iterator[str]:
    yield f"zero {p.run(s.target, s.count)}"


@_for(_STMTS, ir.If)
def _if(p: _Printer, s: ir.If) -> Iterator[str]:
    yield f"if {p.expr(s.cond)}"
    yield from p.body(s.then)
    if s.other:
        yield "else"
        yield from p.body(s.other)


@_for(_STMTS, ir.Switch)
def _switch(p: _Printer, s: ir.Switch) -> Iterator[str]:
    yield f"switch {p.expr(s.subject)}"
    for values, body in s.cases:
        yield f"case {', '.join(map(str, values))}"
        yield from p.body(body)
    yield "default"
    yield from p.body(s.default)


@_for(_STMTS, ir.Loop)
def _loop(p: _Printer, s: ir.Loop) -> Iterator[str]:
    yield f"while {p.expr(s.cond)}"
    if s.cond_setup:
        yield "before each test"
        yield from p.body(s.cond_setup)
        yield "do"
    yield from p.body(s.body)
    if s.update:
        yield "then"
        yield from p.body(s.update)


@_for(_STMTS, ir.Break, ir.Continue, ir.Return, ir.Exit)
def _leave(p: _Printer, s: ir.Stmt) -> Iterator[str]:  # noqa: ARG001
    yield type(s).__name__.lower()


@_for(_STMTS, ir.Call)
def _call(p: _Printer, s: ir.Call) -> Iterator[str]:
    yield f"call {s.proc} {p.p.procs[s.proc].name}"
    if s.copy_out:
        yield "copy out"
        yield from p.body(s.copy_out)


@_for(_STMTS, ir.Apply)
def _apply(p: _Printer, s: ir.Apply) -> Iterator[str]:
    text = f"apply {p.p.tables[s.table].name}"
    if s.hit is not None:
        text += f", hit to {p.slot(s.hit)}"
    if s.action_run is not None:
        text += f", action to {p.slot(s.action_run)}"
    yield text


@_for(_STMTS, ir.SetValid, ir.SetInvalid)
def _set_validity(p: _Printer, s: ir.SetValid | ir.SetInvalid) -> Iterator[str]:
    yield f"{'validate' if isinstance(s, ir.SetValid) else 'invalidate'} {p.header(s.header)}"


@_for(_STMTS, ir.Push)
def _push(p: _Printer, s: ir.Push) -> Iterator[str]:
    verb = "push" if s.count >= 0 else "pop"
    yield f"{verb} {p.p.arrays[s.array].name} by {abs(s.count)}"


@_for(_STMTS, ir.Extract)
def _extract(p: _Printer, s: ir.Extract) -> Iterator[str]:
    target = f"{s.width} bits" if s.header is None else p.header(s.header)
    tail = "" if s.var_bits is None else f", {p.expr(s.var_bits)} bits of varbit"
    yield f"extract {target}{tail}"


@_for(_STMTS, ir.ExtractNext)
def _extract_next(p: _Printer, s: ir.ExtractNext) -> Iterator[str]:
    tail = "" if s.var_bits is None else f", {p.expr(s.var_bits)} bits of varbit"
    yield f"extract {p.p.arrays[s.array].name}.next{tail}"


@_for(_STMTS, ir.StackLast)
def _stack_last(p: _Printer, s: ir.StackLast) -> Iterator[str]:
    yield f"require {p.p.arrays[s.array].name}.last"


@_for(_STMTS, ir.Advance)
def _advance(p: _Printer, s: ir.Advance) -> Iterator[str]:
    yield f"advance {p.expr(s.bits)} bits"


@_for(_STMTS, ir.Lookahead)
def _lookahead(p: _Printer, s: ir.Lookahead) -> Iterator[str]:
    yield f"{p.slot(s.target)} = lookahead {s.width} bits"


@_for(_STMTS, ir.Verify)
def _verify(p: _Printer, s: ir.Verify) -> Iterator[str]:
    error = s.error
    name = p.p.errors[error.value] if isinstance(error, ir.Const) else p.expr(error)
    yield f"verify {p.expr(s.cond)} else {name}"


@_for(_STMTS, ir.Emit)
def _emit(p: _Printer, s: ir.Emit) -> Iterator[str]:
    yield f"emit {p.p.headers[s.header].name}"


@_for(_STMTS, ir.Extern)
def _extern(p: _Printer, s: ir.Extern) -> Iterator[str]:
    name = s.op if s.instance is None else f"{s.op} {p.p.instances[s.instance].name}"
    parts = [p.exprs(s.ins)] if s.ins else []
    if s.data:
        parts.append(p.fields(s.data))
    if s.algorithm:
        parts.append(s.algorithm)
    if s.number:
        parts.append(f"list {s.number}")
    if s.text:
        parts.append(repr(s.text))
    outs = ", ".join(map(p.lvalue, s.outs))
    yield f"{outs + ' = ' if outs else ''}{name}({', '.join(parts)})"
