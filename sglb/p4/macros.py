"""Macro definitions, and their expansion by hide sets (the algorithm behind the C standard).

Every expanded token stands where the user invoked the macro, and remembers which one it came from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from sglb.p4.lexer import IDENTIFIER, STRING, Token, scan_all
from sglb.p4.source import P4Error, Span

#: Tokens that macros may produce in one program, and nesting of invocations in arguments.
MAX_EXPANDED: Final = 200_000
MAX_NESTING: Final = 100

#: Kinds of `##` and of `#` before a parameter, in a macro's body.
PASTE: Final = "paste"
STRINGIFY: Final = "stringify"


@dataclass(frozen=True, slots=True)
class Macro:
    """`#define name body`, or with `params` (a tuple, maybe empty) `#define name(params) body`.

    `variadic` tells that the last of `params` takes all remaining arguments. In `body`, the
    operators have the kinds PASTE and STRINGIFY.
    """

    name: str
    span: Span
    body: tuple[Token, ...]
    params: tuple[str, ...] | None = None
    variadic: bool = False

    def same_as(self, other: Macro) -> bool:
        """Whether a redefinition changes nothing."""
        mine = [(t.text, t.space) for t in self.body]
        theirs = [(t.text, t.space) for t in other.body]
        return (self.params, self.variadic, mine) == (other.params, other.variadic, theirs)


class TokenReader:
    """A stream of tokens with push-back, over whatever gives the next raw one."""

    def __init__(self, source: Callable[[], Token | None]) -> None:
        self._source = source
        self._pushed: list[Token] = []

    def next(self) -> Token | None:
        """The next token, or None at the end."""
        return self._pushed.pop() if self._pushed else self._source()

    def push(self, tokens: list[Token]) -> None:
        """Put tokens back, the first of them to be read next."""
        self._pushed.extend(reversed(tokens))


def _list_reader(tokens: list[Token]) -> TokenReader:
    iterator = iter(tokens)
    return TokenReader(lambda: next(iterator, None))


class Expander:
    """Expands macros out of a table that its owner changes as directives come by.

    Raises `P4Error` (phase "preprocess") for malformed invocations and for runaway expansion.
    """

    def __init__(self) -> None:
        self.macros: dict[str, Macro] = {}
        self._produced = 0
        self._depth = 0

    def next(self, reader: TokenReader) -> Token | None:
        """The next token of `reader` after expansion; None at its end."""
        while token := reader.next():
            if token.kind != IDENTIFIER:
                return token
            macro = self.macros.get(token.text)
            if macro is None:
                return self._predefined(token)
            if macro.name in token.hidden or not self._invoke(macro, token, reader):
                return token
        return None

    def expand(self, tokens: list[Token]) -> list[Token]:
        """All tokens of a list, expanded as if nothing followed it."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise P4Error(
                f"macro invocations nested more than {MAX_NESTING} deep",
                tokens[0].span,
                phase="preprocess",
            )
        reader, out = _list_reader(tokens), []
        while token := self.next(reader):
            out.append(token)
        self._depth -= 1
        return out

    def _predefined(self, token: Token) -> Token:
        if token.text == "__LINE__":
            return replace(token, kind="number", text=str(token.line))
        if token.text == "__FILE__":
            name = token.file.replace("\\", "\\\\").replace('"', '\\"')
            return replace(token, kind=STRING, text=f'"{name}"')
        return token

    def _invoke(self, macro: Macro, token: Token, reader: TokenReader) -> bool:
        """Push the macro's expansion onto `reader`; False when it isn't an invocation after all."""
        if macro.params is None:
            body = _paste([_placed(t, token) for t in macro.body], token)
            self._emit(macro, token, body, token.hidden | {macro.name}, reader)
            return True
        opener = reader.next()
        if opener is None or opener.kind != "(":
            if opener is not None:
                reader.push([opener])
            return False
        arguments, closer = self._arguments(macro, token, reader)
        body = self._substitute(macro, token, self._bind(macro, token, arguments))
        hidden = (token.hidden & closer.hidden) | {macro.name}
        self._emit(macro, token, _paste(body, token), hidden, reader)
        return True

    def _emit(
        self,
        macro: Macro,
        use: Token,
        body: list[Token],
        hidden: frozenset[str],
        reader: TokenReader,
    ) -> None:
        self._count(len(body), use)
        for token in body:
            token.hidden |= hidden
            token.macro = token.macro or macro.name
        if body:
            body[0].space, body[0].first = use.space, use.first
        reader.push(body)

    def _count(self, produced: int, use: Token) -> None:
        self._produced += produced
        if self._produced > MAX_EXPANDED:
            raise P4Error(
                f"macros produce more than {MAX_EXPANDED} tokens",
                use.span,
                hint="a macro that uses others several times grows with every level",
                phase="preprocess",
            )

    def _arguments(
        self, macro: Macro, use: Token, reader: TokenReader
    ) -> tuple[list[list[Token]], Token]:
        arguments: list[list[Token]] = [[]]
        depth = 0
        while token := reader.next():
            if token.kind == ")":
                if depth == 0:
                    return arguments, token
                depth -= 1
            elif token.kind == "(":
                depth += 1
            elif token.kind == "," and depth == 0:
                assert macro.params is not None
                if not (macro.variadic and len(arguments) == len(macro.params)):
                    arguments.append([])
                    continue
            arguments[-1].append(token)
        raise P4Error(
            f"the arguments of macro '{macro.name}' are never closed",
            use.span,
            hint="a ')' is missing",
            phase="preprocess",
        )

    def _bind(
        self, macro: Macro, use: Token, arguments: list[list[Token]]
    ) -> dict[str, list[Token]]:
        params = macro.params or ()
        if not params and arguments == [[]]:
            arguments = []
        if macro.variadic and len(arguments) == len(params) - 1:
            arguments.append([])
        if len(arguments) != len(params):
            wanted = f"at least {len(params) - 1}" if macro.variadic else str(len(params))
            raise P4Error(
                f"macro '{macro.name}' takes {wanted} argument(s), {len(arguments)} given",
                use.span,
                hint=f"it is defined at {macro.span}",
                phase="preprocess",
            )
        return dict(zip(params, arguments, strict=True))

    def _substitute(self, macro: Macro, use: Token, bound: dict[str, list[Token]]) -> list[Token]:
        """The body with parameters replaced; PASTE operators stay for `_paste`."""
        out: list[Token] = []
        expanded: dict[str, list[Token]] = {}
        body = macro.body
        index = 0
        while index < len(body):
            token = body[index]
            index += 1
            if token.kind == STRINGIFY:
                out.append(_stringify(bound[body[index].text], token, use))
                index += 1
                continue
            if token.kind != IDENTIFIER or token.text not in bound:
                out.append(_placed(token, use))
                continue
            pasted = (index < len(body) and body[index].kind == PASTE) or (
                bool(out) and out[-1].kind == PASTE
            )
            if pasted:
                argument = bound[token.text]
                elided = _gnu_comma(macro, token, argument, out)
            else:
                if token.text not in expanded:
                    expanded[token.text] = self.expand(bound[token.text])
                argument, elided = expanded[token.text], False
            self._count(len(argument), use)
            if not elided:
                copies = [t.copy() for t in argument] or ([_placemarker(use)] if pasted else [])
                if copies:
                    copies[0].space, copies[0].first = token.space, False
                out.extend(copies)
        return out


def _gnu_comma(macro: Macro, token: Token, argument: list[Token], out: list[Token]) -> bool:
    """Handle `, ## __VA_ARGS__`: the comma goes when there are no arguments; True when it did.

    With arguments, the `##` merely disappears.
    """
    assert macro.params is not None
    if not (macro.variadic and token.text == macro.params[-1]):
        return False
    if len(out) < 2 or out[-1].kind != PASTE or out[-2].kind != ",":
        return False
    out.pop()
    if argument:
        return False
    out.pop()
    return True


def _placed(token: Token, use: Token) -> Token:
    placed = token.copy()
    placed.file, placed.line, placed.column = use.file, use.line, use.column
    placed.length, placed.first = use.length, False
    return placed


def _placemarker(use: Token) -> Token:
    return replace(use, kind="", text="")


def _stringify(argument: list[Token], operator: Token, use: Token) -> Token:
    pieces: list[str] = []
    for token in argument:
        text = token.text
        if token.kind == STRING:
            text = text.replace("\\", "\\\\").replace('"', '\\"')
        pieces.append((" " if pieces and (token.space or token.first) else "") + text)
    string = replace(operator, kind=STRING, text='"' + "".join(pieces) + '"')
    return _placed(string, use)


def _paste(tokens: list[Token], use: Token) -> list[Token]:
    """Apply the PASTE operators of a substituted body and drop placemarkers."""
    out: list[Token] = []
    index = 0
    while index < len(tokens):
        token = tokens[index]
        index += 1
        if token.kind == PASTE:
            out[-1] = _joined(out[-1], tokens[index], use)
            index += 1
        else:
            out.append(token)
    return [t for t in out if t.kind]


def _joined(left: Token, right: Token, use: Token) -> Token:
    text = left.text + right.text
    if not text:
        return left
    made = scan_all(text, use)
    if len(made) != 1:
        raise P4Error(
            f"'##' joins '{left.text}' and '{right.text}' to '{text}', which is not one token",
            use.span,
            phase="preprocess",
        )
    made[0].space, made[0].hidden = left.space, left.hidden & right.hidden
    return made[0]
