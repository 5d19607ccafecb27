"""The integer expressions of `#if`, as C has them: 64 bits, wrapping, truncating division."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Final

from sglb.p4.lexer import IDENTIFIER, NUMBER, Token
from sglb.p4.source import P4Error, Span

_LITERAL: Final = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)[uUlL]*")
MAX_NESTING: Final = 100


def _wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _divide(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _shift_left(left: int, by: int) -> int:
    if by < 0:
        return _shift_right(left, -by)
    return left << by if by < 64 else 0


def _shift_right(left: int, by: int) -> int:
    if by < 0:
        return _shift_left(left, -by)
    return left >> min(by, 63)


_BINARY: Final[dict[str, tuple[int, Callable[[int, int], int]]]] = {
    "||": (1, lambda a, b: int(bool(a) or bool(b))),
    "&&": (2, lambda a, b: int(bool(a) and bool(b))),
    "|": (3, operator.or_),
    "^": (4, operator.xor),
    "&": (5, operator.and_),
    "==": (6, lambda a, b: int(a == b)),
    "!=": (6, lambda a, b: int(a != b)),
    "<": (7, lambda a, b: int(a < b)),
    ">": (7, lambda a, b: int(a > b)),
    "<=": (7, lambda a, b: int(a <= b)),
    ">=": (7, lambda a, b: int(a >= b)),
    "<<": (8, _shift_left),
    ">>": (8, _shift_right),
    "+": (9, operator.add),
    "-": (9, operator.sub),
    "*": (10, operator.mul),
    "/": (10, _divide),
    "%": (10, lambda a, b: a - b * _divide(a, b)),
}


class _Evaluator:
    def __init__(self, tokens: list[Token], directive: Span) -> None:
        self._tokens = _join_shifts(tokens)
        self._directive = directive
        self._index = 0
        self._depth = 0

    def value(self) -> int:
        value = self._ternary(True)
        if self._index < len(self._tokens):
            raise self._error(f"unexpected '{self._tokens[self._index].text}' in this condition")
        return value

    def _peek(self) -> str:
        if self._index >= len(self._tokens):
            return ""
        token = self._tokens[self._index]
        return "" if token.kind in (IDENTIFIER, NUMBER) else token.kind

    def _error(self, message: str, hint: str = "") -> P4Error:
        if self._index < len(self._tokens):
            span = self._tokens[self._index].span
        elif self._tokens:
            span = self._tokens[-1].end_span()
        else:
            span = self._directive
        return P4Error(message, span, hint=hint, phase="preprocess")

    def _ternary(self, live: bool) -> int:
        """`live` is false where the value doesn't count, so that division by zero may stand."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._error(f"condition nested more than {MAX_NESTING} deep")
        condition = self._binary(1, live)
        if self._peek() == "?":
            self._index += 1
            then = self._ternary(live and bool(condition))
            self._expect(":")
            other = self._ternary(live and not condition)
            condition = then if condition else other
        self._depth -= 1
        return condition

    def _binary(self, lowest: int, live: bool) -> int:
        left = self._unary(live)
        while (op := self._peek()) in _BINARY and _BINARY[op][0] >= lowest:
            level, function = _BINARY[op]
            self._index += 1
            counts = live and not (op == "&&" and not left) and not (op == "||" and left)
            right = self._binary(level + 1, counts)
            if op in "/%" and right == 0:
                if live:
                    self._index -= 1
                    raise self._error("division by zero in this condition")
                right = 1
            left = _wrap(function(left, right))
        return left

    def _unary(self, live: bool) -> int:
        signs: list[str] = []
        while (op := self._peek()) in ("!", "~", "-", "+") and op:
            signs.append(op)
            self._index += 1
        value = self._primary(live)
        for op in reversed(signs):
            if op == "!":
                value = int(not value)
            elif op != "+":
                value = _wrap(~value if op == "~" else -value)
        return value

    def _primary(self, live: bool) -> int:
        if self._peek() == "(":
            self._index += 1
            value = self._ternary(live)
            self._expect(")")
            return value
        if self._index >= len(self._tokens):
            raise self._error("this condition ends too early", "a value is missing")
        token = self._tokens[self._index]
        if token.kind == IDENTIFIER:
            value = 0  # a name that is no macro counts as 0
        elif token.kind == NUMBER:
            value = self._number(token)
        else:
            raise self._error(f"'{token.text}' cannot stand in a condition")
        self._index += 1
        return value

    def _number(self, token: Token) -> int:
        found = _LITERAL.fullmatch(token.text)
        if not found or len(token.text) > 100:
            raise self._error(
                f"'{token.text}' is not an integer that a condition can use",
                "conditions take plain integers such as 10 or 0xFF, without a P4 width",
            )
        digits = found.group(1)
        octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
        return _wrap(int(digits, 8 if octal else 0))

    def _expect(self, kind: str) -> None:
        if self._peek() != kind:
            raise self._error(f"expected '{kind}' in this condition")
        self._index += 1


def _join_shifts(tokens: list[Token]) -> list[Token]:
    """The scanner leaves `>>` as two tokens; a condition has no argument lists to close."""
    out: list[Token] = []
    for token in tokens:
        if token.kind == ">" and out and out[-1].kind == ">" and not token.space:
            previous = out[-1]
            previous.kind, previous.text, previous.length = ">>", ">>", previous.length + 1
        else:
            out.append(token)
    return out


def evaluate(tokens: list[Token], directive: Span) -> bool:
    """Truth of a condition whose macros are expanded and whose `defined` are replaced by 0 or 1.

    Raises `P4Error` (phase "preprocess") where the tokens are no integer expression.
    """
    return bool(_Evaluator(tokens, directive).value())
