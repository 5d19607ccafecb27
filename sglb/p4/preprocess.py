"""The C preprocessor for P4: files in, tokens out, every token where the user wrote it.

Works on tokens throughout, so strings (the multi-line ones of annotations too) stay untouched and
no column is lost. Directives: include, define, undef, if, ifdef, ifndef, elif, elifdef, elifndef,
else, endif, error, warning, line, pragma (ignored). Macros: see `sglb.p4.macros`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from sglb.p4.ifexpr import evaluate
from sglb.p4.lexer import IDENTIFIER, NUMBER, STRING, Scanner, Token, scan_all, unquote
from sglb.p4.macros import PASTE, STRINGIFY, Expander, Macro, TokenReader
from sglb.p4.source import P4Error, Span
from sglb.p4.sourcemap import BUILTIN_DIR, SourceMap

#: core.p4, v1model.p4 and whatever else comes with the compiler.
INCLUDE_DIR: Final = Path(__file__).parent / "include"

MAX_INCLUDE_DEPTH: Final = 64
MAX_INCLUDES: Final = 10_000

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IN_STRING: Final = re.compile(
    r"[ \t]*#[ \t]*(?P<word>ifdef|ifndef|if|elifdef|elifndef|elif|else|endif)\b(?P<rest>.*)"
)
_RESERVED: Final = frozenset({"defined", "__LINE__", "__FILE__", "__VA_ARGS__"})


@dataclass(slots=True)
class _Conditional:
    """An open `#if`: `taken` once one of its branches was, `after_else` once `#else` came."""

    span: Span
    taken: bool
    after_else: bool = False


@dataclass(slots=True)
class _OpenFile:
    scanner: Scanner
    path: Path
    lines: tuple[str, ...]
    conditionals: list[_Conditional] = field(default_factory=list)


def _error(message: str, span: Span, hint: str = "") -> P4Error:
    return P4Error(message, span, hint=hint, phase="preprocess")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long, or with a NUL
        return False


class Preprocessor:
    """Turns one program text and its includes into expanded tokens; `tokens()` works once."""

    def __init__(
        self,
        text: str,
        filename: str,
        *,
        include_dirs: Sequence[Path] = (),
        defines: Mapping[str, str] | None = None,
    ) -> None:
        self.sources = SourceMap(filename)
        self._include_dirs = tuple(include_dirs)
        self._expander = Expander()
        self._stack: list[_OpenFile] = []
        self._includes = 0
        self._directives: dict[str, Callable[[Token], None]] = {
            "include": self._include,
            "define": self._define,
            "undef": self._undef,
            "if": self._if,
            "ifdef": self._if,
            "ifndef": self._if,
            "elif": self._alternative,
            "elifdef": self._alternative,
            "elifndef": self._alternative,
            "else": self._alternative,
            "endif": self._endif,
            "error": self._user_error,
            "warning": self._user_warning,
            "line": self._line,
            "pragma": lambda _: self._ignore_line(),
        }
        self._defines = dict(defines or {})
        self._open(text, filename, Path(filename))

    def tokens(self) -> list[Token]:
        """All tokens of the program, macros expanded.

        Raises `P4Error` (phase "preprocess" or "lex") at the first thing that is wrong.
        """
        for name, value in self._defines.items():
            self._define_from_outside(name, value)
        reader = TokenReader(self._raw)
        out: list[Token] = []
        following = self._expander.next
        while token := following(reader):
            out.append(token)
        return out

    # --- files ------------------------------------------------------------------------------------

    def _open(self, text: str, name: str, path: Path) -> None:
        text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        lines = tuple(text.split("\n"))
        self.sources.add(name, lines)
        self._stack.append(_OpenFile(Scanner(text, name), path, lines))

    def _raw(self) -> Token | None:
        """The next token of the innermost open file, directives obeyed on the way."""
        while self._stack:
            current = self._stack[-1]
            token = current.scanner.next()
            if token is None:
                if current.conditionals:
                    raise _error("this #if has no #endif", current.conditionals[-1].span)
                self._stack.pop()
            elif token.kind == "#" and token.first:
                self._directive()
            elif token.kind == STRING and "#" in token.text and "\n" in token.text:
                return self._string_with_conditions(token)
            else:
                return token
        return None

    @property
    def _scanner(self) -> Scanner:
        return self._stack[-1].scanner

    def _rest_tokens(self) -> list[Token]:
        """The tokens left on the directive's line."""
        out: list[Token] = []
        while token := self._scanner.next(within_line=True):
            if token.kind == STRING and "\n" in token.text.replace("\\\n", ""):
                raise _error("this string is not closed on the directive's line", token.span)
            out.append(token)
        return out

    def _directive(self) -> None:
        scanner = self._scanner
        word = scanner.next(within_line=True)
        if word is None:
            return
        if word.kind == NUMBER:  # a line marker, as C preprocessors print them
            self._set_line(word, [word, *self._rest_tokens()], marker=True)
            return
        handler = self._directives.get(word.text)
        if handler is None:
            near = difflib.get_close_matches(word.text, sorted(self._directives), 1)
            raise _error(
                f"unknown directive #{word.text}",
                word.span,
                f"did you mean #{near[0]}?" if near else "",
            )
        handler(word)
        while scanner.next(within_line=True):
            pass

    def _include(self, word: Token) -> None:
        scanner = self._scanner
        span = scanner.here()
        written = scanner.rest_of_line()
        if not written.startswith(("<", '"')):
            like = Token("", "", span.file, span.line, span.column, len(written) or 1)
            tokens = self._expander.expand(scan_all(written, like)) if written else []
            written = "".join((" " if t.space and i else "") + t.text for i, t in enumerate(tokens))
        found = re.match(r'"([^"]*)"|<([^>]*)>', written)
        if not found or not (found.group(1) or found.group(2)):
            raise _error(
                "#include needs a file", word.span, 'write #include <core.p4> or "file.p4"'
            )
        quoted = found.group(1) is not None
        name = found.group(1) if quoted else found.group(2)
        shown = Span(word.file, word.line, word.column, len("include"))
        searched = self._search_path(quoted)
        for directory, label in searched:
            path = directory / name
            if not _is_file(path):
                self.sources.miss(path)
            else:
                self._enter(path, f"{label}/{name}" if label else str(path), shown)
                return
        places = ", ".join(label or str(directory) for directory, label in searched)
        raise _error(
            f"cannot find '{name}'", shown, f"searched in {places}; add a directory with -I"
        )

    def _search_path(self, quoted: bool) -> list[tuple[Path, str]]:
        """Directories to search, each with the name to show for it ("" for its own)."""
        out = [(directory, "") for directory in self._include_dirs]
        out.append((INCLUDE_DIR, BUILTIN_DIR))
        here = self._stack[-1].path.parent
        if quoted:
            out.insert(0, (here, BUILTIN_DIR if here == INCLUDE_DIR else ""))
        return out

    def _enter(self, path: Path, name: str, span: Span) -> None:
        self._includes += 1
        if len(self._stack) >= MAX_INCLUDE_DEPTH or self._includes > MAX_INCLUDES:
            raise self._loop(path, span)
        try:
            data = path.read_bytes()
            text = data.decode("utf-8")
        except OSError as error:
            raise _error(f"cannot read '{name}': {error.strerror}", span) from error
        except UnicodeDecodeError as error:
            raise _error(
                f"'{name}' is not UTF-8 text (byte {error.start})", span, "save it as UTF-8"
            ) from error
        self.sources.meet(path, data)
        self._open(text, name, path)

    def _loop(self, path: Path, span: Span) -> P4Error:
        names = [f.path.name for f in self._stack]
        if path.name in names:
            start = len(names) - 1 - names[::-1].index(path.name)
            cycle = " -> ".join([*names[start:], path.name])
            hint = f"{cycle}; guard the file with #ifndef ... #define ... #endif"
        else:
            hint = "guard the files with #ifndef ... #define ... #endif"
        return _error(f"includes go round in circles or too deep ('{path.name}')", span, hint)

    # --- macros -----------------------------------------------------------------------------------

    def _define_from_outside(self, name: str, value: str) -> None:
        self.sources.add("<command line>", (f"-D {name}={value}",))
        place = Token("", "", "<command line>", 1, 4, max(1, len(name)))
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise _error(f"'{name}' cannot be defined as a macro", place.span, "use a plain name")
        body = tuple(scan_all(value, place))
        self._expander.macros[name] = Macro(name, place.span, body)

    def _macro_name(self, directive: Token) -> Token:
        token = self._scanner.next(within_line=True)
        if token is None:
            raise _error(f"#{directive.text} needs a name", directive.span)
        if token.kind != IDENTIFIER or token.text in _RESERVED:
            raise _error(f"'{token.text}' cannot be a macro's name", token.span)
        return token

    def _define(self, word: Token) -> None:
        name = self._macro_name(word)
        tokens = self._rest_tokens()
        params: tuple[str, ...] | None = None
        variadic = False
        if tokens and tokens[0].kind == "(" and not tokens[0].space:
            params, variadic, tokens = self._parameters(name, tokens)
        body = self._body(tokens, params)
        macro = Macro(name.text, name.span, body, params, variadic)
        old = self._expander.macros.get(name.text)
        if old is not None and not old.same_as(macro):
            self.sources.warn(
                f"macro '{name.text}' is defined anew (before: {old.span})", name.span
            )
        self._expander.macros[name.text] = macro

    def _parameters(
        self, name: Token, tokens: list[Token]
    ) -> tuple[tuple[str, ...], bool, list[Token]]:
        params: list[str] = []
        variadic = False
        closing = next((i for i, t in enumerate(tokens) if t.kind == ")"), None)
        if closing is None:
            raise _error(f"the parameters of macro '{name.text}' are never closed", name.span)
        inside = tokens[1:closing]
        while inside and not variadic:
            token = inside.pop(0)
            if token.kind == "...":
                variadic = True
                params.append("__VA_ARGS__")
            elif token.kind == IDENTIFIER and token.text not in params:
                params.append(token.text)
                if inside and inside[0].kind == "...":
                    inside.pop(0)
                    variadic = True
            else:
                raise _error(f"'{token.text}' cannot be a parameter here", token.span)
            if inside and (inside.pop(0).kind != "," or not inside or variadic):
                raise _error(
                    f"the parameters of macro '{name.text}' are malformed",
                    name.span,
                    "write #define F(a, b) or #define F(a, ...)",
                )
        return tuple(params), variadic, tokens[closing + 1 :]

    def _body(self, tokens: list[Token], params: tuple[str, ...] | None) -> tuple[Token, ...]:
        for index, token in enumerate(tokens):
            following = tokens[index + 1] if index + 1 < len(tokens) else None
            if token.kind == "##":
                if index == 0 or following is None:
                    raise _error("'##' needs a token on both sides", token.span)
                token.kind = PASTE
            elif token.kind == "#" and params is not None:
                if following is None or following.text not in params:
                    raise _error("'#' needs a parameter of the macro after it", token.span)
                token.kind = STRINGIFY
        if tokens:
            tokens[0].space = False
        return tuple(tokens)

    def _undef(self, word: Token) -> None:
        self._expander.macros.pop(self._macro_name(word).text, None)

    # --- conditions -------------------------------------------------------------------------------

    def _if(self, word: Token) -> None:
        self._branch(_Conditional(word.span, False), self._condition(word))

    def _condition(self, word: Token) -> bool:
        return self._tokens_hold(word, self._rest_tokens())

    def _tokens_hold(self, word: Token, tokens: list[Token]) -> bool:
        """Truth of the condition that follows any kind of #if or #elif."""
        if not tokens:
            needed = "a name" if word.text.endswith("def") else "a condition"
            raise _error(f"#{word.text} needs {needed}", word.span)
        if word.text.endswith("def"):
            if tokens[0].kind != IDENTIFIER:
                raise _error(f"'{tokens[0].text}' cannot be a macro's name", tokens[0].span)
            return self._is_defined(tokens[0]) is not word.text.endswith("ndef")
        return evaluate(self._expander.expand(self._replace_defined(tokens)), word.span)

    def _is_defined(self, name: Token) -> bool:
        return name.text in self._expander.macros or name.text in ("__LINE__", "__FILE__")

    def _replace_defined(self, tokens: list[Token]) -> list[Token]:
        out: list[Token] = []
        rest = iter(tokens)
        for token in rest:
            if token.kind != IDENTIFIER or token.text != "defined":
                out.append(token)
                continue
            name = next(rest, None)
            if name is not None and name.kind == "(":
                name = next(rest, None)
                closing = next(rest, None)
                if closing is None or closing.kind != ")":
                    raise _error("'defined(' needs a name and ')'", token.span)
            if name is None or name.kind != IDENTIFIER:
                raise _error("'defined' needs a name", token.span)
            token.kind, token.text = NUMBER, str(int(self._is_defined(name)))
            out.append(token)
        return out

    def _branch(self, conditional: _Conditional, live: bool) -> None:
        """Open a conditional; when its condition is false, go on to the branch that holds."""
        conditional.taken = live
        self._stack[-1].conditionals.append(conditional)
        if not live:
            self._skip()

    def _alternative(self, word: Token) -> None:
        """`#else` or `#elif` after a branch that was taken."""
        conditional = self._innermost(word)
        self._note_alternative(word, conditional)
        self._skip()

    def _innermost(self, word: Token) -> _Conditional:
        conditionals = self._stack[-1].conditionals
        if not conditionals:
            raise _error(f"#{word.text} without #if", word.span)
        return conditionals[-1]

    def _note_alternative(self, word: Token, conditional: _Conditional) -> None:
        if conditional.after_else:
            raise _error(
                f"#{word.text} after #else", word.span, f"the #if stands at {conditional.span}"
            )
        conditional.after_else = word.text == "else"

    def _endif(self, word: Token) -> None:
        self._innermost(word)
        self._stack[-1].conditionals.pop()

    def _skip(self) -> None:
        """Skip to the branch of the innermost conditional that holds, or to its end."""
        conditional = self._stack[-1].conditionals[-1]
        depth = 0
        while self._scanner.skip_to_directive():
            word = self._scanner.next(within_line=True)
            if word is None:
                continue
            if word.text in ("if", "ifdef", "ifndef"):
                depth += 1
            elif word.text == "endif" and depth:
                depth -= 1
            elif depth == 0 and word.text == "endif":
                self._stack[-1].conditionals.pop()
                return
            elif depth == 0 and word.text in ("else", "elif", "elifdef", "elifndef"):
                self._note_alternative(word, conditional)
                if not conditional.taken and self._holds(word):
                    conditional.taken = True
                    return
            self._scanner.rest_of_line()
        raise _error("this #if has no #endif", conditional.span)

    def _holds(self, word: Token) -> bool:
        return word.text == "else" or self._condition(word)

    def _string_with_conditions(self, token: Token) -> Token:
        """Obey conditionals on lines of their own in a string, as SAI's entry restrictions have them.

        What goes is left as empty lines. Nothing else of a string is touched, macros included.
        """
        open_: list[tuple[_Conditional, bool]] = []  # with whether its current branch is live
        lines = token.text.split("\n")
        for index, line in enumerate(lines[:-1]):
            found = _IN_STRING.match(line) if index else None
            if found is None:
                lines[index] = line if all(live for _, live in open_) else ""
                continue
            lines[index] = ""
            column = found.start("word") + 1
            word, condition = found.group("word", "rest")
            place = replace(
                token, text=word, line=token.line + index, column=column, length=len(word)
            )
            self._string_directive(place, scan_all(condition, place), open_)
        if open_:
            raise _error("this #if has no #endif in its string", open_[-1][0].span)
        return replace(token, text="\n".join(lines))

    def _string_directive(
        self, word: Token, condition: list[Token], open_: list[tuple[_Conditional, bool]]
    ) -> None:
        if word.text in ("if", "ifdef", "ifndef"):
            live = all(live for _, live in open_) and self._tokens_hold(word, condition)
            open_.append((_Conditional(word.span, live), live))
            return
        if not open_:
            raise _error(f"#{word.text} without #if in this string", word.span)
        conditional, _ = open_.pop()
        if word.text == "endif":
            return
        self._note_alternative(word, conditional)
        live = not conditional.taken and all(live for _, live in open_)
        live = live and (word.text == "else" or self._tokens_hold(word, condition))
        conditional.taken = conditional.taken or live
        open_.append((conditional, live))

    # --- the rest ---------------------------------------------------------------------------------

    def _user_error(self, word: Token) -> None:
        raise _error(f"#error {self._scanner.rest_of_line()}", word.span)

    def _user_warning(self, word: Token) -> None:
        self.sources.warn(f"#warning {self._scanner.rest_of_line()}", word.span)

    def _ignore_line(self) -> None:
        self._scanner.rest_of_line()

    def _line(self, word: Token) -> None:
        self._set_line(word, self._expander.expand(self._rest_tokens()), marker=False)

    def _set_line(self, word: Token, tokens: list[Token], *, marker: bool) -> None:
        well_formed = (
            bool(tokens)
            and tokens[0].kind == NUMBER
            and tokens[0].text.isdigit()
            and len(tokens[0].text) < 10
            and (len(tokens) == 1 or tokens[1].kind == STRING)
            and (len(tokens) <= 2 or marker)
        )
        if not well_formed:
            raise _error("#line needs a number, then maybe a file name in quotes", word.span)
        scanner = self._scanner
        number = int(tokens[0].text)
        if len(tokens) > 1:
            scanner.file = unquote(tokens[1].text)
        next_physical = scanner.physical_line + 1
        scanner.line_shift = number - next_physical
        lines = self._stack[-1].lines
        self.sources.add(scanner.file, lines, first=number, physical=next_physical)
