"""Python source under construction: what the interpreter's translators write into.

A `Unit` is one translation of a whole program (plain or traced), a `Body` one function in it. Every
function takes the frame `f` and returns None, or the signal by which it left. `m` names the
interpreter's `Machine` in the generated text; nothing of the user's program is ever pasted into it
but numbers: names, spans and states are bound as objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from sglb.p4 import ir
from sglb.p4.runtime import PacketContext, Trace
from sglb.p4.source import Span

#: How a function may leave early. A parser state returns the next state, ACCEPT or REJECT instead.
RETURN: Final = 1
EXIT: Final = 2
BREAK: Final = 3
CONTINUE: Final = 4
STOP: Final = 5  # a parser rejects

#: Python nests 100 blocks and 200 brackets at most: deeper ones move into functions or variables.
MAX_BLOCKS: Final = 30
MAX_NESTING: Final = 50

Run = Callable[[list[int]], int | None]

#: A role ("lookup", "register", "hash" …) and the index or name of what plays it.
Link = tuple[str, int | str]


@dataclass(slots=True)
class Machine:
    """What the generated code shares with the interpreter while it runs a packet."""

    context: PacketContext
    trace: Trace | None = None
    data: bytes = b""
    now_ps: int = 0
    length: int = 0
    pos: int = 0
    end: int = 0
    error: int = 0
    steps: int = 0
    out: list[bytes] = field(default_factory=list)
    bits: int = 0
    bit_count: int = 0

    def put(self, value: int, width: int) -> None:
        """Appends `width` bits, where headers aren't whole bytes."""
        self.bits = self.bits << width | value
        self.bit_count += width


@dataclass(slots=True)
class Unit:
    """One translation of `program`, the same for every interpreter that runs it.

    `space` are the globals of the generated code that the program alone decides, `links` those that
    differ by interpreter: what each name stands for in its state.
    """

    program: ir.Program
    traced: bool
    #: Some header isn't whole bytes, so the parser may stand inside a byte.
    unaligned: bool
    #: Translates a procedure of kind "parser" into the function of that name.
    emit_parser: Callable[[Unit, ir.Proc, str], None]
    space: dict[str, Any] = field(default_factory=dict)
    links: dict[str, Link] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    procs: dict[int, str] = field(default_factory=dict)
    signals: dict[int, frozenset[int]] = field(default_factory=dict)
    #: How deep expressions of the program nest, by `id`: they live as long as the program.
    nestings: dict[int, int] = field(default_factory=dict)
    _bound: dict[tuple[str, int], str] = field(default_factory=dict)

    def bind(self, prefix: str, value: object) -> str:
        """A global name for `value`; the same object gets the same name."""
        key = (prefix, id(value))
        name = self._bound.get(key)
        if name is None:
            name = self._bound[key] = f"{prefix}_{len(self._bound)}"
            self.space[name] = value
        return name

    def link(self, role: str, what: int | str) -> str:
        """A global name for an object of the interpreter's state (see `interp.Interpreter`)."""
        name = f"{role}_of_{what}"
        self.links[name] = (role, what)
        return name

    def error(self, name: str) -> int:
        """The index of a core error."""
        try:
            return self.program.errors.index(name)
        except ValueError:
            raise ValueError(f"the program lacks core.p4's error.{name}") from None


class Body:
    """One function of a unit: lines at a depth, early exits, the loops around the current line."""

    def __init__(self, unit: Unit, *, state: bool = False, outlined: bool = False) -> None:
        self.unit = unit
        self.state = state
        self.outlined = outlined
        self.depth = 1
        self.loops: list[tuple[ir.Stmt, ...]] = []
        self._lines: list[str] = []
        self._temps = 0

    def line(self, text: str) -> None:
        """Adds one line at the current depth."""
        self._lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """An indented block under `head` (an `if …:`); empty ones get a `pass`."""
        self.line(head)
        self.depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self.depth -= 1

    def temp(self, prefix: str) -> str:
        """A local name that this function hasn't used."""
        self._temps += 1
        return f"{prefix}{self._temps}"

    def fail(self, error: str) -> None:
        """Stops the parser with a core error."""
        self.line(f"m.error = {self.unit.error(error)}")
        self.stop()

    def stop(self) -> None:
        """Stops the parser with the error already in `m.error`."""
        self.line(f"return {ir.REJECT if self.state and not self.outlined else STOP}")

    def text(self, name: str) -> str:
        """The function's source."""
        return "\n".join([f"def {name}(f):", *(self._lines or ["    pass"])])


def literal(value: int) -> str:
    """A number as source; hexadecimal where decimal would meet Python's limit on digits."""
    return str(value) if abs(value) < 10**9 else f"{value:#x}"


def span_name(unit: Unit, span: Span) -> str:
    """The global that holds a span."""
    return unit.bind("at", span)


def total_width(fields: Sequence[ir.HeaderField]) -> int:
    """Bits of the fixed fields."""
    return sum(f.width for f in fields if not f.varbit)
