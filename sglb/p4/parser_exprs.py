"""Parsing of expressions, arguments and key sets."""

from __future__ import annotations

from typing import Final

from sglb.p4 import ast
from sglb.p4.lexer import EOF, NAME_KINDS, NUMBER, STRING, Token, integer_value, unquote
from sglb.p4.parser_core import BASE_TYPE_KINDS, MAX_NESTING
from sglb.p4.parser_types import TypeParser

# Binding strength of the binary operators, `? :` being weaker than all. Unlike C's, comparisons are
# weaker than & ^ |, and ++ binds as + does.
_LEVELS: Final = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 4,
    ">": 4,
    "<=": 4,
    ">=": 4,
    "|": 5,
    "^": 6,
    "&": 7,
    "<<": 8,
    ">>": 8,
    "++": 9,
    "+": 9,
    "-": 9,
    "|+|": 9,
    "|-|": 9,
    "*": 10,
    "/": 10,
    "%": 10,
}
_PREFIXES: Final = ("!", "~", "-", "+")
_OPERANDS: Final = frozenset({NUMBER, STRING, "true", "false", "~", "!"})


class ExpressionParser(TypeParser):
    """Expressions by precedence climbing."""

    def expression(self, *, inside_angles: bool = False) -> ast.Expr:
        """Parse an expression; `inside_angles` stops it at `>`."""
        with self.nested():
            start = self.token
            condition = self._binary(1, inside_angles)
            if self.token.kind != "?":
                return condition
            self.advance()
            then = self.expression()
            self.expect(":", "between the two values of '?'")
            other = self.expression(inside_angles=inside_angles)
            return ast.Ternary(span=self.span_from(start), cond=condition, then=then, other=other)

    def _binary(self, lowest: int, inside_angles: bool) -> ast.Expr:
        start = self.token
        left = self._unary()
        while True:
            op = ">>" if self.at_shift() else self.token.kind
            level = _LEVELS.get(op, 0)
            if level < lowest or (inside_angles and op in (">", ">>", ">=")):
                return left
            if op == ">" and self.at_shift(">="):
                return left
            self.advance()
            if op == ">>":
                self.advance()
            right = self._binary(level + 1, inside_angles)
            left = ast.Binary(span=self.span_from(start), op=op, left=left, right=right)

    def _unary(self) -> ast.Expr:
        prefixes: list[Token] = []
        while self.token.kind in _PREFIXES:
            prefixes.append(self.advance())
            if len(prefixes) > MAX_NESTING:
                raise self.too_deep()
        out = self._cast_or_postfix()
        for prefix in reversed(prefixes):
            out = ast.Unary(span=self.span_from(prefix), op=prefix.kind, operand=out)
        return out

    def _cast_or_postfix(self) -> ast.Expr:
        if self.token.kind == "(":
            start = self.token
            kind = self._cast_type()
            if kind is not None:
                with self.nested():
                    operand = self._unary()
                return ast.Cast(span=self.span_from(start), type=kind, operand=operand)
        return self.postfix()

    def _cast_type(self) -> ast.TypeRef | None:
        """The type of a cast that starts here, parentheses consumed; None where it is no cast."""
        after = self.skip_type(1)
        if after is None or self.peek(after).kind != ")":
            return None
        name = self.peek()
        known = self.is_type(name.text) or (name.kind == "list" and after > 2)
        # One unknown name in parentheses: only before an operand must it be a type.
        alone = after == 2 and self._opens_operand(self.peek(3))
        if name.kind in NAME_KINDS and not known and not alone:
            return None
        self.advance()
        kind = self.type_ref()
        self.advance()
        return kind

    @staticmethod
    def _opens_operand(token: Token) -> bool:
        return token.kind in _OPERANDS or token.kind in NAME_KINDS

    # --- postfix ----------------------------------------------------------------------------------

    def postfix(self) -> ast.Expr:
        """Parse a primary expression with its members, indices, slices and calls."""
        start = self.token
        out = self._primary()
        while True:
            kind = self.token.kind
            if kind == ".":
                self.advance()
                name = self.name("a member's name after '.'")
                out = ast.Member(span=self.span_from(start), base=out, name=name.text)
            elif kind == "[":
                out = self._index_or_slice(start, out)
            elif kind == "(":
                args = self.arguments()
                out = ast.Call(span=self.span_from(start), callee=out, args=args)
            elif kind == "<":
                types = self._call_types(out)
                if types is None:
                    return out
                args = self.arguments()
                out = ast.Call(span=self.span_from(start), callee=out, type_args=types, args=args)
            else:
                return out

    def _call_types(self, callee: ast.Expr) -> tuple[ast.TypeRef, ...] | None:
        """The type arguments of a generic call; None where `<` is the operator."""
        if not isinstance(callee, ast.Name | ast.Member):
            return None
        first = self.peek()
        declared = first.kind in NAME_KINDS and self.is_type(first.text)
        if not (declared or first.kind in BASE_TYPE_KINDS or first.kind in ("_", ".", "list", ">")):
            return None
        after = self.skip_type_arguments(0)
        if after is None or self.peek(after).kind != "(":
            return None
        return self.type_arguments()

    def _index_or_slice(self, start: Token, base: ast.Expr) -> ast.Expr:
        self.expect("[")
        first = self.expression()
        second: ast.Expr | None = None
        plus = self.token.kind == "+:"
        if plus or self.token.kind == ":":
            self.advance()
            second = self.expression()
        self.expect("]", "to close '['")
        span = self.span_from(start)
        if second is None:
            return ast.Index(span=span, base=base, index=first)
        if plus:
            return ast.Slice(span=span, base=base, hi=None, lo=first, width=second)
        return ast.Slice(span=span, base=base, hi=first, lo=second)

    def arguments(self) -> tuple[ast.Argument, ...]:
        """Parse `(value, name = value, _ …)`."""
        self.expect("(", "before the arguments")
        out = self.separated(")", self._argument)
        self.expect(")", "to close the arguments")
        return tuple(out)

    def _argument(self) -> ast.Argument:
        start = self.token
        name = None
        if start.kind in NAME_KINDS and self.peek().kind == "=":
            name = self.advance().text
            self.advance()
        value = None if self.accept("_") else self.expression()
        return ast.Argument(span=self.span_from(start), value=value, name=name)

    # --- primary ----------------------------------------------------------------------------------

    def _primary(self) -> ast.Expr:
        token = self.token
        kind = token.kind
        if kind == NUMBER:
            return self._number()
        if kind in ("true", "false"):
            return ast.BoolLit(span=self.advance().span, value=kind == "true")
        if kind == STRING:
            return self._string()
        if kind == "(":
            self.advance()
            inner = self.expression()
            self.expect(")", "to close '('")
            return inner
        if kind == "{":
            return self._braces()
        if kind == "{#}":
            return ast.InvalidHeader(span=self.advance().span)
        if kind == "...":
            return ast.Default(span=self.advance().span)
        if kind == "this":
            return ast.Name(span=self.advance().span, name="this")
        return self._name_or_type()

    def _name_or_type(self) -> ast.Expr:
        token = self.token
        if token.kind == "." or token.kind in NAME_KINDS:
            if self.at_type_name():
                named = self.named_type()
                if self.token.kind not in (".", "("):
                    raise self.error(
                        f"'{named.name}' is a type, but a value must stand here",
                        named.span,
                        f"write {named.name}.member, or {named.name}(…) to construct one",
                    )
                return ast.TypeExpr(span=named.span, type=named)
            absolute = self.accept(".") is not None
            name = self.name("a name")
            return ast.Name(span=self.span_from(token), name=name.text, absolute=absolute)
        if token.kind == "error":
            kind = ast.BaseType(span=self.advance().span, kind="error")
            if self.token.kind != ".":
                raise self.unexpected("expected '.' and an error's name", "write error.NoError")
            return ast.TypeExpr(span=kind.span, type=kind)
        hint = ""
        if token.kind == "=":
            hint = "'=' assigns; '==' compares"
        elif token.kind in BASE_TYPE_KINDS:
            hint = "a cast is written (bit<8>) x"
        elif token.kind in ("action", "table", "control", "parser", "header", "struct"):
            hint = "a } is missing above, or this stands outside its place"
        elif token.kind == "select":
            hint = "write transition select(…)"
        raise self.unexpected("expected an expression", hint)

    def _number(self) -> ast.IntLit:
        token = self.advance()
        parts = integer_value(token)
        return ast.IntLit(
            span=token.span,
            value=parts.value,
            width=parts.width,
            signed=parts.signed,
            radix=parts.radix,
            text=token.text,
        )

    def _string(self) -> ast.StringLit:
        start = self.token
        pieces: list[str] = []
        while self.token.kind == STRING:
            pieces.append(unquote(self.advance().text))
        return ast.StringLit(span=self.span_from(start), value="".join(pieces))

    def _braces(self) -> ast.Expr:
        """`{a, b}`, `{x = a, y = b}`, either of them maybe ending in `...` or a comma."""
        start = self.expect("{")
        items: list[ast.Expr] = []
        fields: list[tuple[str, ast.Expr]] = []
        dots = False
        while self.token.kind != "}":
            if self.token.kind == "...":
                self.advance()
                dots = True
                self.accept(",")
                break
            if not items and self.token.kind in NAME_KINDS and self.peek().kind == "=":
                name = self.advance().text
                self.advance()
                fields.append((name, self.expression()))
            elif fields:
                raise self.unexpected("expected 'name = value' as before in these braces")
            else:
                items.append(self.expression())
            if not self.accept(","):
                break
        self.expect("}", "to close '{'")
        span = self.span_from(start)
        if fields:
            return ast.StructExpr(span=span, fields=tuple(fields), dots=dots)
        return ast.ListExpr(span=span, items=tuple(items), dots=dots)

    # --- key sets ---------------------------------------------------------------------------------

    def keyset(self) -> tuple[ast.Expr, ...]:
        """Parse what stands before the `:` of a select case or a table entry."""
        if self.token.kind != "(" or not self._whole_parentheses():
            return (self.simple_keyset(),)
        self.advance()
        out = self.separated(")", self.simple_keyset)
        if not out:
            raise self.unexpected("expected a key")
        self.expect(")", "to close the keys")
        return tuple(out)

    def _whole_parentheses(self) -> bool:
        """Whether the parenthesis that opens here closes right before a `:`."""
        depth, ahead = 0, 0
        while (token := self.peek(ahead)).kind != EOF:
            if token.kind == "(":
                depth += 1
            elif token.kind == ")":
                depth -= 1
                if depth == 0:
                    return self.peek(ahead + 1).kind == ":"
            ahead += 1
        return False

    def simple_keyset(self) -> ast.Expr:
        """Parse one key: a value, `a &&& mask`, `a .. b`, `_` or `default`."""
        start = self.token
        if start.kind in ("_", "default"):
            return ast.Default(span=self.advance().span)
        left = self.expression()
        if self.token.kind not in ("&&&", ".."):
            return left
        op = self.advance().kind
        right = self.expression()
        return ast.Binary(span=self.span_from(start), op=op, left=left, right=right)
