"""A program on its way to LLVM text: the unit (module) and the body (function) under construction.

Every function of the program takes `%m`, the machine, `%r`, the row, `%s`, its pass's memory, and
`%v`, its block's.
A procedure is written out where it is called, so that its slots can be registers; one that is large and
called at several places becomes a function, which returns how it ended (`Ending`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from sglb.p4 import ir
from sglb.p4.native import abi, table_layout
from sglb.p4.native.layout import Area, Layout
from sglb.p4.native.text import Function, Label, literal
from sglb.p4.native.usage import statements
from sglb.p4.source import BUILTIN, Span


class Ending(IntEnum):
    """How a procedure that is a function ended."""

    DONE = 0
    EXIT = 1
    STOP = 2  # a parser rejected
    FAILED = 3  # STATUS says why


#: Slots that the parser and deparser need besides the program's own.
POSITION, ERROR, STEPS = -1, -2, -3
_CURSOR_WIDTHS: Final = {POSITION: 64, ERROR: 32, STEPS: 64}


@dataclass(slots=True)
class Unit:
    """One program. `preserve_lists[0]` is the empty list; `failures[0]` stands for STATUS_OK."""

    program: ir.Program
    layout: Layout
    #: Some header isn't whole bytes: positions count bits, not bytes.
    unaligned: bool
    #: Parser states can come round again, so their number has to be limited.
    cyclic: bool
    #: How far a parser can look into a packet, None if there is no bound.
    max_parse_bytes: int | None
    #: Bytes that the deparser may write, and whether it has to watch them itself.
    max_header_bytes: int
    watch_output: bool
    failures: list[tuple[str, Span]] = field(default_factory=lambda: [("no failure", BUILTIN)])
    preserve_lists: dict[tuple[int, ...], int] = field(default_factory=lambda: {(): 0})
    hashes: set[str] = field(default_factory=set)
    digests: dict[int, tuple[int, ...]] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    random_widths: set[int] = field(default_factory=set)
    #: The first word of a trail that is a table's, and the word of an instance in a block (see `abi`).
    table_trails: dict[int, int] = field(default_factory=dict)
    instance_trails: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lay_trail("ingress", range(abi.OWN_TRAIL))
        self._lay_trail("egress", range(abi.EGRESS_TRAIL, abi.TRAIL_WORDS))

    def _lay_trail(self, block: str, words: range) -> None:
        """Shares out a block's words of a trail as far as they suffice, to tables first."""
        program, place = self.program, words.start
        bodies = [program.procs[proc].body for proc in self.layout.blocks[block].procs]
        inside = list(statements(bodies))
        for index in sorted({stmt.table for stmt in inside if isinstance(stmt, ir.Apply)}):
            after = place + table_layout.trail_words(program.tables[index])
            if after <= words.stop:
                self.table_trails[index], place = place, after
        externs = (stmt.instance for stmt in inside if isinstance(stmt, ir.Extern))
        for number in sorted({number for number in externs if number is not None}):
            if place < words.stop and _is_long(program.instances[number]):
                self.instance_trails[block, number] = place
                place += 1

    def failure(self, message: str, span: Span) -> int:
        """The number of a place where the program gives a packet up."""
        self.failures.append((message, span))
        return len(self.failures) - 1

    def preserve_list(self, slots: Sequence[int]) -> int:
        """The number of the list of these slots."""
        return self.preserve_lists.setdefault(tuple(slots), len(self.preserve_lists))

    def memory_bytes(self, block: str) -> int:
        """Bytes of a block's memory, the parser's or deparser's own slots included."""
        size = self.layout.memory_bytes[block]
        if self.layout.blocks[block].outlined:
            return self.cursor_offset(block, min(_CURSOR_WIDTHS)) + 8
        return size

    def cursor_offset(self, block: str, slot: int) -> int:
        """Where a block's memory keeps POSITION, ERROR or STEPS, if functions share them."""
        return -(-self.layout.memory_bytes[block] // 8) * 8 - 8 * (slot + 1)

    def error(self, name: str) -> int:
        """The index of a core error."""
        try:
            return self.program.errors.index(name)
        except ValueError:
            raise ValueError(f"the program lacks core.p4's error.{name}") from None


def _is_long(instance: ir.Instance) -> bool:
    """Whether an instance's elements take several lines of memory."""
    if instance.kind is ir.InstanceKind.REGISTER:
        return instance.size * table_layout.register_stride(instance) > table_layout.RECORD_ALIGN
    return instance.kind is ir.InstanceKind.COUNTER and instance.size > 4


@dataclass(frozen=True, slots=True)
class Exits:
    """Where to go on leaving early."""

    on_return: Label
    on_exit: Label
    on_stop: Label
    on_fail: Label


@dataclass(frozen=True, slots=True)
class _Loop:
    on_break: Label
    on_continue: Label


class Body:
    """One function of a block under construction."""

    def __init__(self, unit: Unit, block: str, fn: Function, exits: Exits) -> None:
        self.unit = unit
        self.program = unit.program
        self.block = block
        self.fn = fn
        self.exits = exits
        self.loops: list[_Loop] = []
        self._values: dict[int, str] = {}

    # --- slots ---

    def width(self, slot: int) -> int:
        """Bits of a slot."""
        return _CURSOR_WIDTHS[slot] if slot < 0 else self.program.slots[slot].width

    def load(self, slot: int, shift: str | None = None) -> str:
        """A slot's value; `shift` is how many bytes into its array its element lies."""
        width = self.width(slot)
        pointer = self.pointer(slot, shift)
        if self._is_value(slot):
            return self.fn.op(f"load i{width}, ptr {pointer}")
        return self.load_natural(pointer, width)

    def load_natural(self, pointer: str, width: int) -> str:
        """A value of `width` bits that lies in memory zero-extended."""
        size = table_layout.natural_bytes(width)
        align = table_layout.alignment(size)
        value = self.fn.op(f"load i{8 * size}, ptr {pointer}, align {align}")
        if width == 8 * size:
            return value
        return self.fn.op(f"trunc nuw i{8 * size} {value} to i{width}")

    def store(self, slot: int, value: str, shift: str | None = None) -> None:
        """Writes a slot."""
        width = self.width(slot)
        pointer = self.pointer(slot, shift)
        if self._is_value(slot):
            self.fn.do(f"store i{width} {value}, ptr {pointer}")
        else:
            self.store_natural(pointer, value, width)

    def store_natural(self, pointer: str, value: str, width: int) -> None:
        """Writes a value of `width` bits to memory, zero-extended."""
        size = table_layout.natural_bytes(width)
        align = table_layout.alignment(size)
        if width != 8 * size:
            value = self.resized(value, width, 8 * size)
        self.fn.do(f"store i{8 * size} {value}, ptr {pointer}, align {align}")

    def pointer(self, slot: int, shift: str | None = None) -> str:
        """A slot's address."""
        if self._is_value(slot):
            return self._value(slot)
        if slot < 0:
            return self.address("%v", self.unit.cursor_offset(self.block, slot))
        place = self.unit.layout.place(self.block, slot)
        return self.address(f"%{place.area.value}", place.offset, shift)

    def address(self, base: str, offset: int | str, shift: str | None = None) -> str:
        """An address some bytes from another one."""
        if shift is not None:
            base = self.fn.op(f"getelementptr inbounds i8, ptr {base}, i64 {shift}")
            return base if not offset else self.fn.op(_offset(base, offset))
        if not offset:
            return base
        if isinstance(offset, int) and base in ("%m", "%r", "%s", "%v"):
            return self.fn.at_start(_offset(base, offset))
        return self.fn.op(_offset(base, offset))

    def _is_value(self, slot: int) -> bool:
        if slot < 0:
            return not self.unit.layout.blocks[self.block].outlined
        return self.unit.layout.place(self.block, slot).area is Area.VALUE

    def _value(self, slot: int) -> str:
        known = self._values.get(slot)
        if known is None:
            type_ = f"i{self.width(slot)}"
            known = self._values[slot] = self.fn.alloca(type_)
            self.fn.start(f"store {type_} 0, ptr {known}")
        return known

    # --- row and machine ---

    def row(self, index: int) -> str:
        """The address of an int32 field of the row's head."""
        return self.address("%r", 4 * index)

    def row_word(self, index: int) -> str:
        """The address of an int64 field of the row's head."""
        return self.address("%r", 8 * index)

    def load_row(self, index: int) -> str:
        """An int32 field of the row's head."""
        return self.fn.op(f"load i32, ptr {self.row(index)}, align 4")

    def load_word(self, index: int) -> str:
        """An int64 field of the row's head."""
        return self.fn.op(f"load i64, ptr {self.row_word(index)}, align 8")

    def load_address(self, index: int) -> str:
        """An address in the row's head."""
        return self.fn.op(f"load ptr, ptr {self.row_word(index)}, align 8")

    def store_row(self, index: int, value: str) -> None:
        """Writes an int32 field of the row's head."""
        self.fn.do(f"store i32 {value}, ptr {self.row(index)}, align 4")

    def machine_address(self, word: int) -> str:
        """The address that a word of the machine holds; it stays while the program runs."""
        pointer = self.address("%m", 8 * word)
        return self.fn.op(f"load ptr, ptr {pointer}, align 8, !invariant.load !0")

    # --- numbers ---

    def resized(self, value: str, width: int, to: int) -> str:
        """A value cut or zero-extended to another width."""
        if width == to:
            return value
        kind = "trunc" if to < width else "zext"
        if value.isdigit() and int(value) < 1 << to:
            return value
        return self.fn.op(f"{kind} i{width} {value} to i{to}")

    def shifted_left(self, value: str, width: int, by: int) -> str:
        """`value << by`, `by` below the width."""
        return self.fn.op(f"shl i{width} {value}, {by}") if by else value

    def shifted_right(self, value: str, width: int, by: int) -> str:
        """`value >> by`, `by` below the width."""
        return self.fn.op(f"lshr i{width} {value}, {literal(by)}") if by else value

    # --- control flow ---

    def when(self, cond: str, hint: str = "then") -> _When:
        """A block of lines that run only if the i1 holds."""
        return _When(self, cond, hint)

    def fail(self, message: str, span: Span) -> None:
        """Gives the packet up: leaves the block at once, with STATUS saying why."""
        self.fail_with(str(self.unit.failure(message, span)))

    def fail_with(self, status: str) -> None:
        """Leaves the block at once with that STATUS."""
        self.store_row(abi.STATUS, status)
        self.fn.jump(self.exits.on_fail)

    def enter_loop(self, on_break: Label, on_continue: Label) -> None:
        """Statements from here on stand in a loop."""
        self.loops.append(_Loop(on_break, on_continue))

    def inside(self, exits: Exits, run: Callable[[], None]) -> None:
        """Runs something with other exits, outside the loops around the current line."""
        saved, self.exits = self.exits, exits
        loops, self.loops = self.loops, []
        run()
        self.exits, self.loops = saved, loops


class _When:
    """Context of `Body.when`."""

    def __init__(self, body: Body, cond: str, hint: str) -> None:
        self._body = body
        self._after = body.fn.label("end")
        then = body.fn.label(hint)
        body.fn.branch(cond, then, self._after)
        body.fn.place(then)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._body.fn.place(self._after)


def with_exits(exits: Exits, **labels: Label) -> Exits:
    """The exits with some replaced."""
    return replace(exits, **labels)


def _offset(base: str, offset: int | str) -> str:
    return f"getelementptr inbounds i8, ptr {base}, i64 {offset}"
