"""What the type checker knows while it walks a program: scopes, side tables, errors found so far.

The rules themselves live in the `check_*` modules. They register with `rule`, so that `Env.expr`,
`Env.stmt` and `Env.decl` reach them without the modules importing each other in a circle.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeVar

from sglb.p4 import ast
from sglb.p4.checked import Checked, Const
from sglb.p4.source import P4Error, P4Errors, Span
from sglb.p4.sourcemap import SourceMap
from sglb.p4.types import Type

#: Errors after which the checker gives up: what follows is seldom worth reading.
MAX_ERRORS: Final = 20


class Poisoned(Exception):  # noqa: N818 - not an error of its own
    """What an expression depends on has failed already; nothing more is to be said about it."""


class _Enough(Exception):  # noqa: N818 - control flow
    """`MAX_ERRORS` errors have been found."""


class Place(Enum):
    """The kind of body that is being checked."""

    TOP = "at top level"
    PARSER = "among a parser's declarations"
    STATE = "in a parser state"
    CONTROL = "among a control's declarations"
    APPLY = "in an apply block"
    ACTION = "in an action"
    FUNCTION = "in a function"
    METHOD = "in a method"
    TABLE = "in a table"
    KEYSET = "in a key set"


@dataclass(frozen=True, slots=True)
class TypeParam:
    """A type parameter, as a scope holds it."""

    name: str


@dataclass(slots=True)
class Overloads:
    """Functions that share a name."""

    decls: list[ast.FunctionDecl]


Entity = ast.Node | TypeParam | Overloads


@dataclass(frozen=True, slots=True)
class Signature:
    """A callable's parameters with their types; types may hold `TypeVarT` of `type_params`."""

    name: str
    type_params: tuple[str, ...]
    params: tuple[ast.Param, ...]
    types: tuple[Type, ...]
    result: Type
    decl: ast.Decl

    def __str__(self) -> str:
        parts = [
            f"{p.direction} {t} {p.name}".lstrip()
            for p, t in zip(self.params, self.types, strict=True)
        ]
        generic = f"<{', '.join(self.type_params)}>" if self.type_params else ""
        return f"{self.name}{generic}({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Frame:
    """The body being checked: where, whose, what it returns, how deep in loops."""

    place: Place
    owner: ast.Decl | None = None
    result: Type | None = None
    loops: int = 0


@dataclass(slots=True)
class Scope:
    """One level of names."""

    parent: Scope | None = None
    names: dict[str, Entity] = field(default_factory=dict)

    def find(self, name: str) -> Entity | None:
        """What `name` means here, None if nothing."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def visible(self) -> Iterator[str]:
        """All names that can be used here, inner ones first."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.parent


_N = TypeVar("_N", bound=ast.Node)
_R = TypeVar("_R")

_EXPR_RULES: dict[type[ast.Node], Callable[[Env, Any], Type]] = {}
_STMT_RULES: dict[type[ast.Node], Callable[[Env, Any], None]] = {}
_DECL_RULES: dict[type[ast.Node], Callable[[Env, Any], None]] = {}


def expr_rule(
    kind: type[_N],
) -> Callable[[Callable[[Env, _N], Type]], Callable[[Env, _N], Type]]:
    """Register the typing rule of one kind of expression."""

    def register(fn: Callable[[Env, _N], Type]) -> Callable[[Env, _N], Type]:
        _EXPR_RULES[kind] = fn
        return fn

    return register


def stmt_rule(
    kind: type[_N],
) -> Callable[[Callable[[Env, _N], None]], Callable[[Env, _N], None]]:
    """Register the check of one kind of statement."""

    def register(fn: Callable[[Env, _N], None]) -> Callable[[Env, _N], None]:
        _STMT_RULES[kind] = fn
        return fn

    return register


def decl_rule(
    kind: type[_N],
) -> Callable[[Callable[[Env, _N], None]], Callable[[Env, _N], None]]:
    """Register the check of one kind of declaration."""

    def register(fn: Callable[[Env, _N], None]) -> Callable[[Env, _N], None]:
        _DECL_RULES[kind] = fn
        return fn

    return register


def children(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    """The operands whose being known at compile time makes `expr` known."""
    match expr:
        case ast.Unary(operand=e) | ast.Cast(operand=e) | ast.Member(base=e):
            return (e,)
        case ast.Binary(left=left, right=right) | ast.Index(base=left, index=right):
            return (left, right)
        case ast.Slice(base=e):
            return (e,)
        case ast.Ternary(cond=c, then=t, other=o):
            return (c, t, o)
        case ast.ListExpr(items=items):
            return items
        case ast.StructExpr(fields=fields):
            return tuple(e for _, e in fields)
    return ()


class Env:
    """The checker's state."""

    def __init__(self, program: ast.SourceProgram, sources: SourceMap) -> None:
        self.sources = sources
        self.checked = Checked(program, warnings=sources.warnings)
        self.found: list[P4Error] = []
        self.top = Scope()
        self.scope = self.top
        self.frame = Frame(Place.TOP)
        #: id(declaration of a type) -> the type; of a value -> its type.
        self.decl_types: dict[int, Type] = {}
        self.decl_consts: dict[int, Const] = {}
        self.signatures: dict[int, Signature] = {}
        #: ids of expressions known at compile time, if only once constructor arguments are.
        self.known_ids: set[int] = set()
        #: ids of declarations whose check has begun.
        self.checked_decls: set[int] = set()
        #: id(ExternDecl) -> its methods' and its constructors' signatures.
        self.methods: dict[int, list[Signature]] = {}
        #: id(ExternDecl | ParserDecl | ControlDecl | PackageDecl) -> its constructors.
        self.constructors: dict[int, list[Signature]] = {}
        #: ids of expressions made of action data and compile-time values alone.
        self.data_ids: set[int] = set()
        self.error_index: dict[str, int] = {}
        self.match_kinds: dict[str, ast.MatchKindDecl] = {}
        #: Declarations being checked, outermost first: naming one of them is recursion.
        self.defining: list[ast.Decl] = []
        #: Top-level names by what will be declared under them.
        self.later: dict[str, ast.Decl] = {d.name: d for d in reversed(program.decls) if d.name}

    # --- errors -----------------------------------------------------------------------------------

    def error(self, message: str, span: Span, hint: str = "") -> P4Error:
        """An error to raise, with its source line."""
        return self.sources.fill(P4Error(message, span, hint=hint))

    def report(self, error: P4Error) -> None:
        """Note an error and go on, unless there are too many."""
        self.found.append(error)
        if len(self.found) >= MAX_ERRORS:
            raise _Enough

    def complain(self, message: str, span: Span, hint: str = "") -> None:
        """Note an error that need not stop the check of what surrounds it."""
        self.report(self.error(message, span, hint))

    def warn(self, message: str, span: Span) -> None:
        """Note a warning, unless it is about the compiler's own include files."""
        if not self.sources.is_builtin(span):
            self.sources.warn(message, span)

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """Contain an error to the declaration or statement inside."""
        try:
            yield
        except P4Error as e:
            self.report(e)
        except Poisoned:
            pass

    def finish(self, run: Callable[[], None]) -> None:
        """Run the whole check and raise what it found, in source order of the user's files."""
        try:
            run()
        except _Enough:
            pass
        except RecursionError:
            self.found.append(self.error("the program nests too deeply", self.checked.program.span))
        if self.found:
            order = {name: i for i, name in enumerate(self.sources.files)}
            self.found.sort(key=lambda e: (order.get(e.span.file, 0), e.span.line, e.span.column))
            raise P4Errors(self.found)

    # --- scopes -----------------------------------------------------------------------------------

    @contextmanager
    def inner(self, frame: Frame | None = None) -> Iterator[None]:
        """A nested scope, maybe of another body."""
        scope, old = self.scope, self.frame
        self.scope = Scope(scope)
        if frame is not None:
            self.frame = frame
        try:
            yield
        finally:
            self.scope, self.frame = scope, old

    @contextmanager
    def at(self, frame: Frame) -> Iterator[None]:
        """Another frame in the same scope."""
        old = self.frame
        self.frame = frame
        try:
            yield
        finally:
            self.frame = old

    @contextmanager
    def define(self, decl: ast.Decl) -> Iterator[None]:
        """Mark a declaration as being checked, so that a use inside itself is told as recursion."""
        self.defining.append(decl)
        try:
            yield
        finally:
            self.defining.pop()

    @property
    def in_parser(self) -> bool:
        """Whether a parser's state is being checked."""
        return self.frame.place is Place.STATE

    def declare(self, name: str, entity: Entity, span: Span) -> None:
        """Bring a name into the innermost scope."""
        old = self.scope.names.get(name)
        if old is not None:
            raise self.error(f"'{name}' is already declared{self.place_of(old)}", span)
        if self.scope is not self.top and self.scope.parent is not None:
            outer = self.scope.parent.find(name)
            body = self.frame.place not in (Place.CONTROL, Place.PARSER)
            if body and isinstance(outer, ast.Param) and not isinstance(entity, ast.Param):
                raise self.error(f"'{name}' hides the parameter{self.place_of(outer)}", span)
            if isinstance(outer, ast.Node) and not self.sources.is_builtin(outer.span):
                self.warn(f"'{name}' hides the one declared{self.place_of(outer)}", span)
        self.scope.names[name] = entity

    def place_of(self, entity: Entity) -> str:
        """' at FILE:LINE' of a declaration, '' where there is none to show."""
        if isinstance(entity, Overloads):
            entity = entity.decls[0]
        return f" at {entity.span}" if isinstance(entity, ast.Node) else ""

    def find(self, name: str, *, absolute: bool = False) -> Entity | None:
        """What a name means here."""
        return (self.top if absolute else self.scope).find(name)

    def lookup(self, name: str, span: Span, what: str, *, absolute: bool = False) -> Entity:
        """What a name means here; an error with the nearest name otherwise."""
        found = self.find(name, absolute=absolute)
        if found is None:
            raise self.undeclared(name, span, what)
        return found

    def undeclared(self, name: str, span: Span, what: str) -> P4Error:
        """The error for a name that means nothing here."""
        for decl in self.defining:
            if decl.name == name:
                return self.error(f"'{name}' cannot refer to itself: P4 has no recursion", span)
        later = self.later.get(name)
        if later is not None:
            if id(later) in self.checked_decls:
                raise Poisoned  # its own declaration has failed
            return self.error(
                f"{what} '{name}' is used before its declaration at {later.span}",
                span,
                "declare it before its first use",
            )
        near = ("true", "false", *(n for n in self.scope.visible() if self._fits(n, what)))
        return self.error(f"{what} '{name}' is not declared", span, self.near(name, near))

    def _fits(self, name: str, what: str) -> bool:
        """Whether a name could stand where `what` is wanted."""
        found = self.scope.find(name)
        if what == "action":
            return isinstance(found, ast.ActionDecl)
        return what == "type" or not isinstance(found, ast.StructDecl)

    @contextmanager
    def declaring(self, decls: Sequence[ast.Decl]) -> Iterator[None]:
        """While a block's declarations are checked, a name of one that is still to come is known."""
        outer = self.later
        self.later = outer | {d.name: d for d in reversed(decls) if d.name}
        try:
            yield
        finally:
            self.later = outer

    @staticmethod
    def near(name: str, choices: tuple[str, ...]) -> str:
        """A hint that names the nearest of `choices`, '' if none is near."""
        alike = [c for c in sorted(set(choices)) if c.lower() == name.lower()]
        close = alike or difflib.get_close_matches(name, sorted(set(choices)), n=1, cutoff=0.6)
        return f"did you mean '{close[0]}'?" if close else ""

    # --- dispatch ---------------------------------------------------------------------------------

    def expr(self, e: ast.Expr) -> Type:
        """Type an expression, its parts first, and record type and compile-time value."""
        t = _EXPR_RULES[type(e)](self, e)
        self.checked.types[id(e)] = t
        if id(e) not in self.checked.consts:
            parts = children(e)
            if parts and all(self.known(p) for p in parts):
                self.known_ids.add(id(e))
            elif parts and all(self.known(p) or id(p) in self.data_ids for p in parts):
                self.data_ids.add(id(e))
        return t

    def stmt(self, s: ast.Stmt) -> None:
        """Check a statement; its errors stay with it."""
        with self.recovering():
            _STMT_RULES[type(s)](self, s)

    def decl(self, d: ast.Decl) -> None:
        """Check a declaration and bring its name into scope; its errors stay with it."""
        self.checked_decls.add(id(d))
        self.annotations(d.annotations)
        with self.recovering():
            _DECL_RULES[type(d)](self, d)

    def annotations(self, annotations: tuple[ast.Annotation, ...]) -> None:
        """Check the values of structured annotations: compile-time int, string or bool."""
        structured = [a for a in annotations if a.structured]
        for i, a in enumerate(structured):
            with self.recovering():
                if any(a.name == b.name for b in structured[:i]):
                    raise self.error(f"annotation '@{a.name}' is given twice", a.span)
                for e in (*a.exprs, *(value for _, value in a.pairs)):
                    self.expr(e)
                    if not isinstance(self.const(e), int | str):
                        raise self.error(
                            f"a value of '@{a.name}' must be a constant int, string or bool",
                            e.span,
                        )

    # --- side tables ------------------------------------------------------------------------------

    def known(self, e: ast.Expr) -> bool:
        """Whether an expression is known at compile time, constructor arguments included."""
        return id(e) in self.checked.consts or id(e) in self.known_ids

    def const(self, e: ast.Expr) -> Const | None:
        """An expression's compile-time value in its own type, None when not known (yet)."""
        return self.checked.consts.get(id(e))

    def set_const(self, e: ast.Expr, value: Const) -> None:
        """Record an expression's compile-time value."""
        self.checked.consts[id(e)] = value

    def type(self, e: ast.Expr) -> Type:
        """The recorded type of a typed expression."""
        return self.checked.types[id(e)]

    def decl_type(self, decl: ast.Node) -> Type:
        """The type a declaration has or denotes."""
        t = self.decl_types.get(id(decl))
        if t is None:
            raise Poisoned
        return t
