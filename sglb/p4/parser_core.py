"""What every part of the parser stands on: the token cursor, scopes of type names, and errors."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from sglb.p4 import ast
from sglb.p4.lexer import EOF, IDENTIFIER, KEYWORDS, NAME_KINDS, NUMBER, OTHER, STRING, Token
from sglb.p4.source import P4Error, Span

T = TypeVar("T")

#: How deep expressions, statements and types may nest.
MAX_NESTING: Final = 100

#: Undeclared types reported before giving up.
MAX_ERRORS: Final = 20

BASE_TYPE_KINDS: Final = frozenset(
    {"bool", "error", "string", "int", "match_kind", "void", "bit", "varbit", "tuple"}
)

#: What people write out of habit, and what P4 has instead.
_HABITS: Final = {
    "unsigned": "P4's unsigned integers are bit<W>",
    "char": "P4's bytes are bit<8>",
    "uint8_t": "P4's unsigned integers are bit<W>, here bit<8>",
    "uint16_t": "P4's unsigned integers are bit<W>, here bit<16>",
    "uint32_t": "P4's unsigned integers are bit<W>, here bit<32>",
    "uint64_t": "P4's unsigned integers are bit<W>, here bit<64>",
    "boolean": "P4's truth values are bool",
    "function": "a function starts with its result type",
    "var": "a variable starts with its type",
    "let": "a variable starts with its type",
    "counter": "include <v1model.p4>",
    "register": "include <v1model.p4>",
    "standard_metadata_t": "include <v1model.p4>",
    "packet_in": "include <core.p4>",
    "V1Switch": "include <v1model.p4>",
    "header_type": "this is P4_14: translate it first, with p4c's p4test --std p4-14 --pp FILE",
    "packet_out": "include <core.p4>",
}


def shown(token: Token) -> str:
    """How an error message names a token."""
    if token.kind == EOF:
        return "the end of the file"
    if token.kind == STRING:
        return "a string"
    if token.kind == OTHER:
        return f"the character {token.text!r}"
    if token.kind in KEYWORDS:
        return f"the keyword '{token.text}'"
    return f"'{token.text}'"


class ParserCore(ABC):
    """Cursor over classified tokens, the last of which is the end of the file."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._index = 0
        self.token = tokens[0]
        self.previous = tokens[0]
        self.errors: list[P4Error] = []
        self._scopes: list[dict[str, bool]] = [{}]
        self._undeclared: set[str] = set()
        self._depth = 0
        self._later: list[Token] | None = None

    @abstractmethod
    def expression(self, *, inside_angles: bool = False) -> ast.Expr:
        """Parse an expression; `inside_angles` stops it at `>`."""

    # --- cursor -----------------------------------------------------------------------------------

    def advance(self) -> Token:
        """Consume the current token and return it."""
        token = self.previous = self.token
        if token.kind != EOF:
            self._index += 1
            self.token = self._tokens[self._index]
        return token

    def peek(self, ahead: int = 1) -> Token:
        """A token further on; the end of the file stays the last."""
        return self._tokens[min(self._index + ahead, len(self._tokens) - 1)]

    def accept(self, kind: str) -> Token | None:
        """Consume the current token when it is of a kind."""
        return self.advance() if self.token.kind == kind else None

    def expect(self, kind: str, purpose: str = "") -> Token:
        """Consume a token that must be of a kind; `purpose` completes "expected 'x' …"."""
        if self.token.kind == kind:
            return self.advance()
        what = f"expected '{kind}'" + (f" {purpose}" if purpose else "")
        if kind == ";":
            raise self.missing(f"{what} before {shown(self.token)}")
        raise self.unexpected(what)

    def at_shift(self, second: str = ">") -> bool:
        """Whether `>` and `second` follow each other without a gap: `>>`, or `>>=`."""
        after = self.peek()
        return self.token.kind == ">" and after.kind == second and not after.space

    def separated(self, end: str, parse: Callable[[], T]) -> list[T]:
        """Parse items with commas between them, up to a closing token that is left unread."""
        out: list[T] = []
        if self.token.kind != end:
            out.append(parse())
            while self.accept(","):
                out.append(parse())
        return out

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Count one level of nesting, and refuse what goes too deep."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self.too_deep()
        yield
        self._depth -= 1

    def too_deep(self) -> P4Error:
        """The error for what nests too deeply."""
        return self.error(
            f"nested more than {MAX_NESTING} levels deep",
            self.token.span,
            hint="name the inner parts (constants, variables, actions)",
        )

    # --- spans and errors -------------------------------------------------------------------------

    def span_from(self, start: Token) -> Span:
        """From a token to the last one consumed, or the first alone where they share no line."""
        end = self.previous
        if (start.file, start.line) == (end.file, end.line) and end.column >= start.column:
            return Span(
                start.file, start.line, start.column, end.column + end.length - start.column
            )
        return start.span

    def error(self, message: str, span: Span, hint: str = "") -> P4Error:
        """A syntax error."""
        return P4Error(message, span, hint=hint, phase="parse")

    def missing(self, message: str, hint: str = "") -> P4Error:
        """A syntax error just after the last token consumed."""
        return self.error(message, self.previous.end_span(), hint or self._habit())

    def unexpected(self, expected: str, hint: str = "") -> P4Error:
        """A syntax error at the current token."""
        token = self.token
        if token.macro and not hint:
            hint = f"it comes out of macro '{token.macro}'"
        if token.kind == EOF and not hint:
            hint = "a closing bracket may be missing further up"
        return self.error(f"{expected}, found {shown(token)}", token.span, hint or self._habit())

    def _habit(self) -> str:
        for token in (self.token, self.previous):
            if token.kind == IDENTIFIER and token.text in _HABITS:
                return _HABITS[token.text]
        return ""

    # --- names and scopes -------------------------------------------------------------------------

    def name(self, what: str) -> Token:
        """Consume a name; `what` completes "expected …"."""
        token = self.token
        if token.kind in NAME_KINDS:
            return self.advance()
        hint = ""
        if token.kind in KEYWORDS and token.kind != "_":
            hint = f"'{token.text}' is reserved; choose another name"
        elif token.kind == NUMBER:
            hint = "a name starts with a letter or an underscore"
        raise self.unexpected(f"expected {what}", hint)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A scope of names around what is parsed inside."""
        self._scopes.append({})
        yield
        self._scopes.pop()

    def declare_type(self, name: str) -> None:
        """From here on, `name` is a type in this scope."""
        self._scopes[-1][name] = True

    def declare_object(self, name: str) -> None:
        """From here on, `name` is no type in this scope, whatever an outer one says."""
        self._scopes[-1][name] = False

    def is_type(self, name: str, *, absolute: bool = False) -> bool:
        """Whether a name stands for a type here."""
        if absolute:
            return self._scopes[0].get(name, False)
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return False

    def is_declared(self, name: str) -> bool:
        """Whether a name is known here, as whatever."""
        return any(name in scope for scope in self._scopes)

    def at_type_name(self) -> bool:
        """Whether the current token (after a dot, maybe) is a declared type's name."""
        if self.token.kind == ".":
            after = self.peek()
            return after.kind in NAME_KINDS and self.is_type(after.text, absolute=True)
        return self.token.kind in NAME_KINDS and self.is_type(self.token.text)

    def undeclared(self, token: Token) -> None:
        """Note that a type's name isn't declared; parsing goes on."""
        if self._later is not None:
            self._later.append(token)
            return
        self._report(token)

    @contextmanager
    def types_may_follow(self) -> Iterator[list[Token]]:
        """Collect undeclared type names instead, for a type that precedes its parameters' list."""
        outer, self._later = self._later, []
        yield self._later
        self._later = outer

    def settle(self, tokens: list[Token]) -> None:
        """Report those of the collected names that are no types now either."""
        for token in tokens:
            if not self.is_type(token.text):
                self.undeclared(token)

    def _report(self, token: Token) -> None:
        known = {name for scope in self._scopes for name in scope if self.is_type(name)}
        names = sorted((known | BASE_TYPE_KINDS) - self._undeclared)
        hint = _HABITS.get(token.text, "")
        if not hint:
            near = difflib.get_close_matches(token.text, names, 1)
            hint = f"did you mean '{near[0]}'?" if near else "declare it before its first use"
        self.errors.append(
            self.error(f"the type '{token.text}' is not declared", token.span, hint)
            if not self.is_declared(token.text)
            else self.error(f"'{token.text}' is not a type", token.span, "a type must stand here")
        )
        if len(self.errors) >= MAX_ERRORS:
            raise self.error("too many undeclared types; stopping here", token.span)
        self._undeclared.add(token.text)
        self._scopes[0].setdefault(token.text, True)
