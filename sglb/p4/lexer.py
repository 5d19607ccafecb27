"""Tokens of P4_16, and the scanner that the preprocessor reads files with.

One compiled expression finds every token. Words are kept as plain identifiers until after
preprocessing (a macro may be named like a keyword); `classify` then gives each its final kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sglb.p4.source import P4Error, Span

#: Kinds of tokens that are not named after their own text.
IDENTIFIER: Final = "identifier"
NUMBER: Final = "number"
STRING: Final = "string_literal"  # not "string", which is the keyword of that name
OTHER: Final = "other"
EOF: Final = "end of file"

KEYWORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """abstract action actions apply bool bit break const continue control default else entries
        enum error exit extern false for header header_union if in inout int key list match_kind out
        parser package priority return select state string struct switch table this transition true
        tuple type typedef varbit value_set void _""",
    )
)

#: Keywords that are names wherever their own construct cannot stand.
CONTEXTUAL: Final = frozenset({"actions", "apply", "entries", "key", "priority", "state", "type"})

#: Kinds of tokens that a declaration or a member may be named by.
NAME_KINDS: Final = CONTEXTUAL | {IDENTIFIER, "list"}

# `>` is never joined with what follows it, since `>>` may close two argument lists.
MASTER: Final = re.compile(
    r"""
    (?P<space>(?:[ \t\r\f\v]|\\\n)+)
  | (?P<newline>\n)
  | (?P<identifier>[A-Za-z_][A-Za-z0-9_]*(?:(?:\\\n)+[A-Za-z0-9_]+)*)
  | (?P<number>[0-9][0-9A-Za-z_]*(?:(?:\\\n)+[A-Za-z0-9_]+)*)
  | (?P<comment>//(?:\\\n|[^\n])*+|/\*.*?\*/)
  | (?P<string_literal>"(?:[^"\\]|\\.)*+")
  | (?P<unclosed>"|/\*)
  | (?P<operator>\{\#\}|\|\+\|=|\|-\|=|<<=|\|\+\||\|-\||&&&|\.\.\.|\.\.|<<|&&|\|\||==|!=|>=|<=
      |\+\+|\+:|\+=|-=|\*=|/=|%=|&=|\|=|\^=|\#\#|[-+*/%&|^~!<>=?:;,.()\[\]{}@\#])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)

_LITERAL: Final = re.compile(
    r"(?:(?P<width>[0-9]+)(?P<sign>[ws]))?"
    r"(?:0[xX](?P<hex>[0-9a-fA-F_]+)|0[oO](?P<oct>[0-7_]+)|0[bB](?P<bin>[01_]+)"
    r"|0[dD](?P<dec>[0-9_]+)|(?P<plain>[0-9_]+))"
)
_RADIX: Final = {"hex": 16, "oct": 8, "bin": 2, "dec": 10, "plain": 10}
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "\n": ""}

#: Digits a literal may have; a longer one is a mistake or an attack.
MAX_DIGITS: Final = 4000


@dataclass(slots=True, eq=False)
class Token:
    """One token, where the user wrote it (for text out of a macro: where the macro was used).

    `space` tells that white space stands before it, `first` that it opens a line, `hidden` the
    macros that may no longer expand it, `macro` the one it came out of ("" when written directly).
    """

    kind: str
    text: str
    file: str
    line: int
    column: int
    length: int
    space: bool = False
    first: bool = False
    hidden: frozenset[str] = frozenset()
    macro: str = ""

    @property
    def span(self) -> Span:
        """Where the token stands."""
        return Span(self.file, self.line, self.column, self.length)

    def copy(self) -> Token:
        """A token of its own with the same content."""
        return Token(
            self.kind,
            self.text,
            self.file,
            self.line,
            self.column,
            self.length,
            self.space,
            self.first,
            self.hidden,
            self.macro,
        )

    def end_span(self) -> Span:
        """The column just after the token."""
        return Span(self.file, self.line, self.column + self.length, 1)


class Scanner:
    """Reads one file's tokens; knows lines and columns, and nothing of directives."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.line_shift = 0  # what `#line` adds to physical line numbers
        self._position = 0
        self._line = 1
        self._line_start = 0
        self._first = True

    @property
    def physical_line(self) -> int:
        """The 1-based line that the scanner stands on, `#line` not applied."""
        return self._line

    def here(self, length: int = 1) -> Span:
        """The scanner's own position."""
        column = self._position - self._line_start + 1
        return Span(self.file, self._line + self.line_shift, column, length)

    def next(self, *, within_line: bool = False) -> Token | None:
        """The next token; None at the end of the file or, `within_line`, before the line's end."""
        text, space = self.text, False
        match = MASTER.match
        while found := match(text, self._position):
            kind, end = found.lastgroup, found.end()
            if kind == "newline":
                if within_line:
                    return None
                self._position = self._line_start = end
                self._line += 1
                self._first = True
                space = True
            elif kind == "space" or kind == "comment":
                space = True
                self._advance(end)
            elif kind == "unclosed":
                raise self._unclosed(found.group())
            else:
                return self._token(str(kind), found.group(), end, space)
        return None

    def _token(self, kind: str, piece: str, end: int, space: bool) -> Token:
        if kind == "operator":
            kind = piece
        line = self._line + self.line_shift
        column = self._position - self._line_start + 1
        length = len(piece)
        first, self._first = self._first, False
        if "\n" in piece:
            length = piece.index("\n")
            self._advance(end)
            if kind != STRING:  # a name or number that goes on after a backslash at the line's end
                piece = piece.replace("\\\n", "")
        else:
            self._position = end
        return Token(kind, piece, self.file, line, column, length, space, first)

    def _advance(self, end: int) -> None:
        newlines = self.text.count("\n", self._position, end)
        if newlines:
            self._line += newlines
            self._line_start = self.text.rindex("\n", self._position, end) + 1
        self._position = end

    def _unclosed(self, opener: str) -> P4Error:
        if opener == '"':
            return P4Error(
                "this string is never closed",
                self.here(),
                hint='end it with a double quote ("); write a quote inside a string as \\"',
                phase="lex",
            )
        return P4Error(
            "this comment is never closed", self.here(2), hint="end it with */", phase="lex"
        )

    # --- what directives need ---------------------------------------------------------------------

    def rest_of_line(self) -> str:
        """The raw text up to the end of the line (continuations joined), which is consumed."""
        found = _REST.match(self.text, self._position)
        assert found is not None
        self._advance(found.end())
        return found.group().replace("\\\n", " ").strip()

    def skip_to_directive(self) -> Token | None:
        """Skip to the next line that opens with `#`, past the `#`; None at the end of the file."""
        text, first = self.text, self._first
        while found := _SKIP.match(text, self._position):
            piece = found.group()
            if piece == "#" and first:
                return self._token("#", piece, found.end(), True)
            if piece == "\n":
                first = True
            elif not (piece.isspace() or piece.startswith(("/*", "//"))):
                first = False
            self._advance(found.end())
        self._first = first
        return None


_REST: Final = re.compile(r"(?:\\\n|[^\n])*+")
_SKIP: Final = re.compile(
    r"""//(?:\\\n|[^\n])*+|/\*(?:.*?\*/|.*)|"(?:[^"\\\n]|\\.)*+"
      |\n|\#|[\ \t\r\f\v]+|[^/"\n\#\s]+|.""",
    re.VERBOSE | re.DOTALL,
)


def scan_all(text: str, like: Token) -> list[Token]:
    """Tokens of a piece of text, all standing where `like` stands.

    Raises `P4Error` for a string or comment that isn't closed.
    """
    scanner = Scanner(text, like.file)
    out: list[Token] = []
    while token := scanner.next():
        token.line, token.column, token.length = like.line, like.column, like.length
        out.append(token)
    return out


def classify(token: Token) -> Token:
    """Give an identifier that is a keyword its final kind (in place)."""
    if token.kind == IDENTIFIER and token.text in KEYWORDS:
        token.kind = token.text
    return token


@dataclass(frozen=True, slots=True)
class IntegerValue:
    """The parts of an integer literal; `width` None for one without a width."""

    value: int
    width: int | None
    signed: bool
    radix: int


def integer_value(token: Token) -> IntegerValue:
    """Value of a number token: `10`, `0xFF`, `0b1`, `0o17`, `0d10`, `8w255`, `4s0b11`, `1_000`.

    Raises `P4Error` (phase "lex") for what isn't a P4 integer.
    """
    text = token.text
    found = _LITERAL.fullmatch(text)
    digits, group = "", "plain"
    if found:
        group = next(g for g in _RADIX if found.group(g) is not None)
        digits = found.group(group).replace("_", "")
    if found is None or not digits:
        raise P4Error(
            f"'{text}' is not an integer",
            token.span,
            hint="P4 integers look like 10, 0xFF, 0b101, 0o17, 8w255 (8 bits) or 8s0x7F (signed)",
            phase="lex",
        )
    if len(text) > MAX_DIGITS:
        raise P4Error(
            f"integer literal of {len(text)} characters (at most {MAX_DIGITS})",
            token.span,
            hint="no P4 type is that wide",
            phase="lex",
        )
    width = found.group("width")
    radix = _RADIX[group]
    return IntegerValue(
        int(digits, radix), None if width is None else int(width), found.group("sign") == "s", radix
    )


def unquote(text: str) -> str:
    r"""Content of a string literal (quotes included in `text`): `\"`, `\\`, `\n` and `\t` resolved.

    Any other backslash stays as written; a backslash before a line end joins the lines.
    """
    inner = text[1:-1]
    if "\\" not in inner:
        return inner
    return _ESCAPE.sub(lambda m: _ESCAPED.get(m.group(1), m.group()), inner)
