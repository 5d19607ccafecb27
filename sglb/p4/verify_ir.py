"""Checks that an `ir.Program` is well formed, so that an engine may run it without looking.

Widths agree, slots and indices exist, headers and arrays lie as `sglb.p4.ir` says, calls don't recurse,
and every action's parameters are inside the frame. A failure is a fault of the compiler, not of the
P4 program.
"""

from __future__ import annotations

from collections.abc import Sequence

from sglb.p4 import ir

# The rules register themselves when their module is imported.
from sglb.p4 import verify_code as _verify_code  # noqa: F401
from sglb.p4.verify_core import INDEX_WIDTH, Verifier


def verify(program: ir.Program) -> None:
    """Raise P4Error (phase "verify") at the first thing that is wrong with a program."""
    _ProgramVerifier(program).program()


class _ProgramVerifier(Verifier):
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
