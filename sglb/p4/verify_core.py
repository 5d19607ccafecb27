"""What verifying IR needs throughout: indices, widths, places; and the registries of the rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from sglb.p4 import ir
from sglb.p4.source import BUILTIN, P4Error, Span

INDEX_WIDTH: Final = 32
PARSER_ONLY: Final = (
    ir.Extract,
    ir.ExtractNext,
    ir.StackLast,
    ir.Advance,
    ir.Lookahead,
    ir.Verify,
)


F = TypeVar("F", bound=Callable[..., None])
EXPRS: Final[dict[type[ir.Expr], Callable[[Verifier, Any], None]]] = {}
STMTS: Final[dict[type[ir.Stmt], Callable[[Verifier, Any], None]]] = {}


def rule_for(registry: dict[Any, Any], kind: type) -> Callable[[F], F]:
    """Register the rule for a kind of node."""

    def register(function: F) -> F:
        registry[kind] = function
        return function

    return register


class Verifier:
    """Looks at one program, and knows where in it."""

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
        rule = EXPRS.get(type(expr))
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
            rule = STMTS.get(type(stmt))
            self.span = stmt.span
            self.require(rule is not None, f"unknown statement {type(stmt).__name__}")
            assert rule is not None
            if isinstance(stmt, PARSER_ONLY):
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
