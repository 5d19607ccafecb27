"""Parsing of annotations, types, type parameters and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sglb.p4 import ast
from sglb.p4.lexer import EOF, IDENTIFIER, KEYWORDS, NAME_KINDS, STRING, Token, unquote
from sglb.p4.parser_core import BASE_TYPE_KINDS, MAX_NESTING, ParserCore

_WIDTH_KINDS: Final = {"bit": "bit", "int": "fixint", "varbit": "varbit"}
_DIRECTIONS: Final = ("in", "out", "inout")
#: Tokens that a width may have where it is still open whether it is one.
_LONGEST_WIDTH: Final = 200
_NEVER_IN_WIDTH: Final = frozenset({EOF, ";", "{", "}", ")", "]", ",", "=", ">="})


def _soup_text(tokens: Sequence[Token]) -> str:
    """Tokens as written, each gap shown as one blank."""
    return "".join((" " if t.space and i else "") + t.text for i, t in enumerate(tokens))


def _soup_values(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Texts of tokens, strings unquoted and adjacent ones joined."""
    out: list[str] = []
    after_string = False
    for token in tokens:
        is_string = token.kind == STRING
        text = unquote(token.text) if is_string else token.text
        if is_string and after_string:
            out[-1] += text
        else:
            out.append(text)
        after_string = is_string
    return tuple(out)


class TypeParser(ParserCore):
    """Annotations, types and parameters."""

    # --- annotations ------------------------------------------------------------------------------

    def annotations(self) -> tuple[ast.Annotation, ...]:
        """Parse any annotations that stand here."""
        out: list[ast.Annotation] = []
        while self.token.kind == "@":
            out.append(self._annotation())
        return tuple(out)

    def _annotation(self) -> ast.Annotation:
        start = self.advance()
        if self.token.kind == IDENTIFIER and self.token.text == "pragma" and not self.token.space:
            return self._pragma(start)
        name = self._annotation_name()
        if self.token.kind == "(":
            self.advance()
            inside = self._soup(start)
            return ast.Annotation(
                span=self.span_from(start),
                name=name,
                body=_soup_text(inside),
                tokens=_soup_values(inside),
            )
        if self.token.kind == "[":
            return self._structured(start, name)
        return ast.Annotation(span=self.span_from(start), name=name)

    def _annotation_name(self) -> str:
        if self.token.kind == IDENTIFIER or self.token.kind in KEYWORDS:
            return self.advance().text
        raise self.unexpected("expected the annotation's name after '@'")

    def _soup(self, start: Token) -> list[Token]:
        """Tokens up to the parenthesis that closes the annotation."""
        inside: list[Token] = []
        depth = 0
        while True:
            token = self.token
            if token.kind == EOF:
                raise self.error(
                    "this annotation's '(' is never closed", start.span, "a ')' is missing"
                )
            self.advance()
            if token.kind == ")":
                if depth == 0:
                    return inside
                depth -= 1
            elif token.kind == "(":
                depth += 1
            inside.append(token)

    def _pragma(self, start: Token) -> ast.Annotation:
        self.advance()
        if self.token.first:
            raise self.missing("expected the annotation's name after '@pragma'")
        name = self._annotation_name()
        inside: list[Token] = []
        while self.token.kind != EOF and not self.token.first:
            inside.append(self.advance())
        return ast.Annotation(
            span=self.span_from(start),
            name=name,
            body=_soup_text(inside),
            tokens=_soup_values(inside),
        )

    def _structured(self, start: Token, name: str) -> ast.Annotation:
        self.expect("[")
        first = self._index
        exprs: list[ast.Expr] = []
        pairs: list[tuple[str, ast.Expr]] = []
        while self.token.kind != "]":
            if not exprs and self.token.kind in NAME_KINDS and self.peek().kind == "=":
                key = self.advance().text
                self.advance()
                pairs.append((key, self.expression()))
            elif pairs:
                raise self.unexpected("expected 'name = value' as before in this annotation")
            else:
                exprs.append(self.expression())
            if not self.accept(","):
                break
        inside = self._tokens[first : self._index]
        self.expect("]", "to close the annotation")
        return ast.Annotation(
            span=self.span_from(start),
            name=name,
            body=_soup_text(inside),
            tokens=_soup_values(inside),
            structured=True,
            exprs=tuple(exprs),
            pairs=tuple(pairs),
        )

    # --- types ------------------------------------------------------------------------------------

    def at_type(self) -> bool:
        """Whether a type starts here: a base type, or the name of a declared one."""
        kind = self.token.kind
        if kind in BASE_TYPE_KINDS:
            return True
        if kind == "list" and self.peek().kind == "<":
            return True
        return self.at_type_name()

    def skip_type(self, ahead: int, depth: int = 0) -> int | None:
        """How far ahead a type that starts `ahead` tokens on ends; None where the tokens make none.

        Looks at shapes alone (names need not be declared), and consumes nothing.
        """
        kind = self.peek(ahead).kind
        if depth > MAX_NESTING or not (
            kind in BASE_TYPE_KINDS or kind == "." or kind in NAME_KINDS
        ):
            return None
        if kind == ".":
            ahead += 1
            if self.peek(ahead).kind not in NAME_KINDS:
                return None
        after: int | None = ahead + 1
        if self.peek(ahead + 1).kind == "<":
            if kind in _WIDTH_KINDS:
                after = self._skip_width(ahead + 2)
            else:
                after = self.skip_type_arguments(ahead + 1, depth + 1)
        while after is not None and self.peek(after).kind == "[":
            after = self._skip_brackets(after)
        return after

    def skip_type_arguments(self, ahead: int, depth: int = 0) -> int | None:
        """As `skip_type`, for a list that starts with `<`."""
        ahead += 1
        while self.peek(ahead).kind != ">":
            after = ahead + 1 if self.peek(ahead).kind == "_" else self.skip_type(ahead, depth)
            if after is None:
                return None
            ahead = after
            if self.peek(ahead).kind != ",":
                break
            ahead += 1
        return ahead + 1 if self.peek(ahead).kind == ">" else None

    def _skip_width(self, ahead: int) -> int | None:
        """Past the `>` that ends a width."""
        last = ahead + _LONGEST_WIDTH
        while (kind := self.peek(ahead).kind) != ">" and ahead < last:
            if kind in ("(", "["):
                after = self._skip_brackets(ahead)
                if after is None:
                    return None
                ahead = after
            elif kind in _NEVER_IN_WIDTH:
                return None
            else:
                ahead += 1
        return ahead + 1 if ahead < last else None

    def _skip_brackets(self, ahead: int) -> int | None:
        """Past the bracket that closes the one that stands here."""
        depth = 0
        while (kind := self.peek(ahead).kind) not in (EOF, ";"):
            ahead += 1
            if kind in ("(", "["):
                depth += 1
            elif kind in (")", "]"):
                depth -= 1
                if depth == 0:
                    return ahead
        return None

    def type_ref(self) -> ast.TypeRef:
        """Parse a type, array suffixes included; an undeclared name is noted as an error."""
        with self.nested():
            start = self.token
            out = self._simple_type()
            while self.token.kind == "[":
                self.advance()
                size = self.expression()
                self.expect("]", "after the array's size")
                out = ast.StackType(span=self.span_from(start), element=out, size=size)
            return out

    def _simple_type(self) -> ast.TypeRef:
        kind = self.token.kind
        if kind in _WIDTH_KINDS:
            return self._sized_type()
        if kind == "tuple" or (kind == "list" and self.peek().kind == "<"):
            start = self.advance()
            if self.token.kind != "<":
                raise self.unexpected("expected '<' and the tuple's types")
            args = self.type_arguments()
            if kind == "list" and len(args) != 1:
                raise self.error(f"list takes one type, {len(args)} given", start.span)
            return ast.TupleType(span=self.span_from(start), args=args, is_list=kind == "list")
        if kind in BASE_TYPE_KINDS:
            return ast.BaseType(span=self.advance().span, kind=kind)
        if kind == "." or kind in NAME_KINDS:
            return self.named_type()
        hint = ""
        if kind in KEYWORDS and kind != "_":
            hint = f"'{self.token.text}' is reserved"
        raise self.unexpected("expected a type", hint)

    def _sized_type(self) -> ast.TypeRef:
        start = self.advance()
        kind = start.kind
        if not self.accept("<"):
            if kind == "int":
                return ast.BaseType(span=start.span, kind="int")
            if kind == "varbit":
                raise self.unexpected("expected '<' and the largest width", "write varbit<320>")
            one = ast.IntLit(span=start.span, value=1, text="1")
            return ast.BaseType(span=start.span, kind="bit", width=one)
        width = self.expression(inside_angles=True)
        self.close_angle()
        return ast.BaseType(span=self.span_from(start), kind=_WIDTH_KINDS[kind], width=width)

    def close_angle(self) -> None:
        """Consume the `>` of a list of type arguments or parameters."""
        if self.token.kind == ">=":
            raise self.unexpected("expected '>'", "put a blank between '>' and '='")
        self.expect(">", "to close '<'")

    def named_type(self) -> ast.NamedType:
        """Parse a type's name with its arguments, if any."""
        start = self.token
        absolute = self.accept(".") is not None
        name = self.name("a type's name")
        if not self.is_type(name.text, absolute=absolute):
            self.undeclared(name)
        args: tuple[ast.TypeRef, ...] = ()
        if self.token.kind == "<":
            args = self.type_arguments()
        return ast.NamedType(
            span=self.span_from(start), name=name.text, args=args, absolute=absolute
        )

    def type_arguments(self) -> tuple[ast.TypeRef, ...]:
        """Parse `<T, …>`; `_` and `void` may stand among them."""
        self.expect("<")
        out = self.separated(">", self._type_argument)
        self.close_angle()
        return tuple(out)

    def _type_argument(self) -> ast.TypeRef:
        if self.token.kind == "_":
            return ast.DontCareType(span=self.advance().span)
        return self.type_ref()

    def type_parameters(self) -> tuple[str, ...]:
        """Parse `<T, …>` where one may stand, and declare its names."""
        if not self.accept("<"):
            return ()
        out: list[str] = []
        while True:
            name = self.name("a type parameter's name")
            if name.text in out:
                raise self.error(f"type parameter '{name.text}' is given twice", name.span)
            out.append(name.text)
            self.declare_type(name.text)
            if not self.accept(","):
                break
        self.close_angle()
        return tuple(out)

    def declarator(self, kind: ast.TypeRef, what: str) -> tuple[Token, ast.TypeRef]:
        """Parse a name, and the array sizes that may follow it."""
        name = self.name(what)
        while self.token.kind == "[":
            self.advance()
            size = self.expression()
            self.expect("]", "after the array's size")
            kind = ast.StackType(span=kind.span, element=kind, size=size)
        return name, kind

    # --- parameters -------------------------------------------------------------------------------

    def parameters(self) -> tuple[ast.Param, ...]:
        """Parse `(direction type name = default, …)` and declare the names."""
        self.expect("(", "before the parameters")
        out = self.separated(")", self._parameter)
        self.expect(")", "to close the parameters")
        return tuple(out)

    def _parameter(self) -> ast.Param:
        annotations = self.annotations()
        direction = self.advance().text if self.token.kind in _DIRECTIONS else ""
        kind = self.type_ref()
        name, kind = self.declarator(kind, "the parameter's name")
        default = self.expression() if self.accept("=") else None
        self.declare_object(name.text)
        return ast.Param(
            span=name.span,
            name=name.text,
            annotations=annotations,
            direction=direction,
            type=kind,
            default=default,
            optional=any(a.name == "optional" for a in annotations),
        )
