"""The parser of P4_16: source text to syntax tree, by recursive descent.

The grammar of the specification (version 1.2.5) needs to know which names are types, so scopes of
names are kept while parsing. Layers: `parser_core` (cursor, scopes, errors), `parser_types`,
`parser_exprs`, `parser_stmts`, `parser_tables`, and here the top-level declarations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from sglb.p4 import ast
from sglb.p4.lexer import EOF, NAME_KINDS, Token, classify
from sglb.p4.parser_tables import TableParser
from sglb.p4.preprocess import Preprocessor
from sglb.p4.source import P4Error, P4Errors, Span
from sglb.p4.sourcemap import SourceMap

_Annotations = tuple[ast.Annotation, ...]
_DERIVED: Final = ("struct", "header", "header_union", "enum")


class Parser(TableParser):
    """Declarations of a whole program."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self._inline: list[ast.Decl] = []  # types declared inside the typedef being parsed

    def program(self, span: Span) -> ast.SourceProgram:
        """Parse declarations up to the end of the file; `span` is what stands for the whole."""
        out: list[ast.Decl] = []
        while self.token.kind != EOF:
            if self.accept(";"):
                continue
            made = self.declaration()
            out.extend(self._inline)
            self._inline.clear()
            out.append(made)
        return ast.SourceProgram(span=span, decls=tuple(out))

    def declaration(self) -> ast.Decl:
        """Parse one top-level declaration."""
        annotations = self.annotations()
        kind = self.token.kind
        if kind == "const":
            return self.constant(annotations)
        if kind == "action":
            return self.action(annotations)
        if kind in ("error", "match_kind") and self.peek().kind == "{":
            return self._names(annotations)
        handlers = {
            "extern": self._extern,
            "parser": self._parser,
            "control": self._control,
            "package": self._package,
            "typedef": self._typedef,
            "struct": self._struct,
            "header": self._struct,
            "header_union": self._struct,
            "enum": self._enum,
        }
        if kind in handlers:
            return handlers[kind](annotations)
        if kind == "type" and self.skip_type(1) is not None and self.peek().kind != "(":
            return self._typedef(annotations)
        return self._function_or_instance(annotations)

    def _function_or_instance(self, annotations: _Annotations) -> ast.Decl:
        hints = {
            "table": "tables stand inside a control",
            "state": "states stand inside a parser",
            "value_set": "value sets stand inside a parser",
            "apply": "apply stands inside a control",
            "if": "statements stand inside a control, an action or a function",
            "}": "one '}' too many, here or further up",
        }
        shape = self.skip_type(0)
        plausible = shape is not None and self.peek(shape).kind in NAME_KINDS | {"("}
        if not plausible and not self.at_type():
            raise self.unexpected("expected a declaration", hints.get(self.token.text, ""))
        with self.types_may_follow() as pending:
            result = self.type_ref()
        if self.token.kind == "(":
            self.settle(pending)
            return self.instance(annotations, result)
        if self.token.kind in NAME_KINDS and self.peek().kind in ("=", ";"):
            self.settle(pending)
            raise self.error(
                "a variable cannot stand at the top level",
                self.token.span,
                "make it a 'const', or move it into a control, parser or function",
            )
        return self.function(annotations, result, pending)

    # --- simple declarations ----------------------------------------------------------------------

    def _names(self, annotations: _Annotations) -> ast.Decl:
        """`error { … }` or `match_kind { … }`."""
        start = self.advance()
        self.expect("{")
        members: list[str] = []
        while self.token.kind != "}":
            members.append(self.name(f"a name for this {start.kind}").text)
            if not self.accept(","):
                break
        self.expect("}", "to close the names")
        made = ast.ErrorDecl if start.kind == "error" else ast.MatchKindDecl
        return made(
            span=start.span, name=start.kind, annotations=annotations, members=tuple(members)
        )

    def _typedef(self, annotations: _Annotations) -> ast.Decl:
        """`typedef T name;` or `type T name;`; a typedef's T may be declared on the spot."""
        is_new = self.advance().kind == "type"
        kind = (
            self._inline_type() if self.token.kind in _DERIVED and not is_new else self.type_ref()
        )
        name, kind = self.declarator(kind, "the new type's name")
        self.expect(";", "to end the type's declaration")
        self.declare_type(name.text)
        return ast.TypedefDecl(
            span=name.span, name=name.text, annotations=annotations, type=kind, is_new=is_new
        )

    def _inline_type(self) -> ast.TypeRef:
        declare = self._enum if self.token.kind == "enum" else self._struct
        made = declare(())
        self._inline.append(made)
        return ast.NamedType(span=made.span, name=made.name)

    def _struct(self, annotations: _Annotations) -> ast.Decl:
        kind = self.advance().kind
        name = self.name(f"the {kind}'s name")
        self.declare_type(name.text)
        with self.scope():
            type_params = self.type_parameters()
            self.expect("{", f"to open the {kind}")
            fields: list[ast.Field] = []
            while self.token.kind not in ("}", EOF):
                fields.append(self._field())
            self.expect("}", f"to close the {kind}")
        return ast.StructDecl(
            span=name.span,
            name=name.text,
            annotations=annotations,
            kind=kind,
            fields=tuple(fields),
            type_params=type_params,
        )

    def _field(self) -> ast.Field:
        annotations = self.annotations()
        kind = self.type_ref()
        name, kind = self.declarator(kind, "the field's name")
        self.expect(";", "to end the field")
        return ast.Field(span=name.span, name=name.text, annotations=annotations, type=kind)

    def _enum(self, annotations: _Annotations) -> ast.Decl:
        self.advance()
        underlying: ast.TypeRef | None = None
        if self.peek().kind != "{":
            underlying = self.type_ref()
        name = self.name("the enum's name")
        self.declare_type(name.text)
        self.expect("{", "to open the enum")
        members: list[ast.EnumMember] = []
        while self.token.kind not in ("}", EOF):
            members.append(self._enum_member(underlying is not None))
            if not self.accept(","):
                break
        self.expect("}", "to close the enum")
        return ast.EnumDecl(
            span=name.span,
            name=name.text,
            annotations=annotations,
            members=tuple(members),
            underlying=underlying,
        )

    def _enum_member(self, valued: bool) -> ast.EnumMember:
        annotations = self.annotations()
        name = self.name("an enum member's name")
        value: ast.Expr | None = None
        if valued:
            self.expect("=", "and the member's value")
            value = self.expression()
        elif self.token.kind == "=":
            raise self.unexpected(
                "expected ',' or '}'", "for members with values, give a type: enum bit<8> Name"
            )
        return ast.EnumMember(span=name.span, name=name.text, value=value, annotations=annotations)

    def _package(self, annotations: _Annotations) -> ast.Decl:
        self.advance()
        name = self.name("the package's name")
        self.declare_type(name.text)
        with self.scope():
            type_params = self.type_parameters()
            params = self.parameters()
        self.expect(";", "to end the package")
        return ast.PackageDecl(
            span=name.span,
            name=name.text,
            annotations=annotations,
            params=params,
            type_params=type_params,
        )

    # --- externs ----------------------------------------------------------------------------------

    def _extern(self, annotations: _Annotations) -> ast.Decl:
        self.advance()
        if self.token.kind in NAME_KINDS and self._at_extern_object():
            return self._extern_object(annotations)
        with self.types_may_follow() as pending:
            result = self.type_ref()
        with self.scope():
            signature = self.signature(annotations, result, pending)
        self.expect(";", "to end the extern function")
        self.declare_object(signature.name)
        return ast.FunctionDecl(
            span=signature.span,
            name=signature.name,
            annotations=annotations,
            signature=signature,
            body=None,
        )

    def _at_extern_object(self) -> bool:
        ahead: int | None = 1
        if self.peek().kind == "<":
            ahead = self.skip_type_arguments(1)
        return ahead is not None and self.peek(ahead).kind in ("{", ";")

    def _extern_object(self, annotations: _Annotations) -> ast.Decl:
        name = self.name("the extern's name")
        self.declare_type(name.text)
        methods: list[ast.FunctionSig] = []
        with self.scope():
            type_params = self.type_parameters()
            if not self.accept(";"):
                self.expect("{", "to open the extern")
                while self.token.kind not in ("}", EOF):
                    methods.append(self._method(name.text))
                self.expect("}", "to close the extern")
        return ast.ExternDecl(
            span=name.span,
            name=name.text,
            annotations=annotations,
            methods=tuple(methods),
            type_params=type_params,
        )

    def _method(self, extern: str) -> ast.FunctionSig:
        annotations = self.annotations()
        abstract = self.accept("abstract") is not None
        constructor = self.token.text == extern and self.peek().kind == "("
        pending: list[Token] = []
        result: ast.TypeRef | None = None
        if not constructor:
            with self.types_may_follow() as pending:
                result = self.type_ref()
            if self.token.kind == "(":
                raise self.error(
                    "a method needs a result type and a name",
                    self.previous.span,
                    f"'void' where it gives nothing; a constructor is named '{extern}'",
                )
        with self.scope():
            signature = self.signature(annotations, result, pending, abstract=abstract)
        self.expect(";", "to end the method")
        return signature

    # --- parsers and controls ---------------------------------------------------------------------

    def _parser(self, annotations: _Annotations) -> ast.Decl:
        self.advance()
        name = self.name("the parser's name")
        self.declare_type(name.text)
        with self.scope():
            type_params = self.type_parameters()
            params = self.parameters()
            if self.accept(";"):
                return ast.ParserDecl(
                    span=name.span,
                    name=name.text,
                    annotations=annotations,
                    params=params,
                    type_params=type_params,
                )
            constructor = self.parameters() if self.token.kind == "(" else ()
            self.expect("{", "to open the parser")
            locals_: list[ast.Decl] = []
            states: list[ast.ParserState] = []
            while self.token.kind not in ("}", EOF):
                self._parser_member(locals_, states)
            self.expect("}", "to close the parser")
        if not states:
            raise self.error(
                f"parser '{name.text}' has no states", name.span, "it needs a state 'start'"
            )
        return ast.ParserDecl(
            span=name.span,
            name=name.text,
            annotations=annotations,
            params=params,
            type_params=type_params,
            constructor_params=constructor,
            locals=tuple(locals_),
            states=tuple(states),
        )

    def _parser_member(self, locals_: list[ast.Decl], states: list[ast.ParserState]) -> None:
        annotations = self.annotations()
        kind = self.token.kind
        if kind == "state" and self.peek(2).kind == "{":
            states.append(self.state(annotations))
            return
        if states:
            raise self.unexpected("expected a state", "declarations stand before the first state")
        if kind == "const":
            locals_.append(self.constant(annotations))
        elif kind == "value_set":
            locals_.append(self._value_set(annotations))
        elif self.at_declaration():
            locals_.append(self.variable_or_instance(annotations))
        else:
            raise self.unexpected("expected a state or a declaration")

    def _value_set(self, annotations: _Annotations) -> ast.ValueSetDecl:
        self.advance()
        self.expect("<", "and the value set's type")
        kind = self.type_ref()
        self.close_angle()
        self.expect("(", "and the value set's size")
        size = self.expression()
        self.expect(")", "after the value set's size")
        name = self.name("the value set's name")
        self.expect(";", "to end the value set")
        self.declare_object(name.text)
        return ast.ValueSetDecl(
            span=name.span, name=name.text, annotations=annotations, type=kind, size=size
        )

    def _control(self, annotations: _Annotations) -> ast.Decl:
        self.advance()
        name = self.name("the control's name")
        self.declare_type(name.text)
        with self.scope():
            type_params = self.type_parameters()
            params = self.parameters()
            if self.accept(";"):
                return ast.ControlDecl(
                    span=name.span,
                    name=name.text,
                    annotations=annotations,
                    params=params,
                    type_params=type_params,
                )
            constructor = self.parameters() if self.token.kind == "(" else ()
            self.expect("{", "to open the control")
            locals_: list[ast.Decl] = []
            while not (self.token.kind == "apply" and self.peek().kind in ("{", "@")):
                locals_.append(self._control_local(name))
            self.advance()
            body = self.block("to open the control's body")
            if self.token.kind != "}":
                raise self.unexpected(
                    "expected '}' to close the control", "declarations stand before 'apply'"
                )
            self.advance()
        return ast.ControlDecl(
            span=name.span,
            name=name.text,
            annotations=annotations,
            params=params,
            type_params=type_params,
            constructor_params=constructor,
            locals=tuple(locals_),
            body=body,
        )

    def _control_local(self, control: Token) -> ast.Decl:
        annotations = self.annotations()
        kind = self.token.kind
        if kind == "const":
            return self.constant(annotations)
        if kind == "action":
            return self.action(annotations)
        if kind == "table":
            return self.table(annotations)
        if kind == "}":
            raise self.error(
                f"control '{control.text}' has no apply block",
                self.token.span,
                "end it with apply { … }",
            )
        if self.at_declaration():
            return self.variable_or_instance(annotations)
        raise self.unexpected(
            "expected a declaration or 'apply'", "statements stand inside apply { … }"
        )


def _closing(end: Span) -> Token:
    return Token(EOF, "", end.file, end.line, end.column, 1)


def parse_program(
    text: str,
    filename: str,
    *,
    include_dirs: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
) -> tuple[ast.SourceProgram, SourceMap]:
    """Preprocess and parse a program.

    `filename` names the text in diagnostics, and its directory is where `#include "…"` looks first;
    then come `include_dirs` and the compiler's own core.p4 and v1model.p4. `defines` are macros, as
    -D gives them. The `SourceMap` has the source lines and the warnings.

    Raises `P4Errors`, with the source line in each error: undeclared types are collected, anything
    else ends the parse.
    """
    preprocessor = Preprocessor(text, filename, include_dirs=include_dirs, defines=defines)
    sources = preprocessor.sources
    parser: Parser | None = None
    try:
        tokens = [classify(token) for token in preprocessor.tokens()]
        sources.digest = sha256(
            "\n".join(t.text for t in tokens).encode("utf-8", "surrogatepass")
        ).hexdigest()
        tokens.append(_closing(tokens[-1].end_span() if tokens else Span(filename, 1, 1)))
        parser = Parser(tokens)
        program = parser.program(Span(filename, 1, 1))
    except P4Error as error:
        found = [*(parser.errors if parser else []), error]
        raise P4Errors([sources.fill(e) for e in found]) from None
    except RecursionError:
        span = parser.token.span if parser else Span(filename, 1, 1)
        deep = P4Error("nested too deeply", span, hint="name the inner parts", phase="parse")
        raise P4Errors([sources.fill(deep)]) from None
    if parser.errors:
        raise P4Errors([sources.fill(e) for e in parser.errors])
    return program, sources
