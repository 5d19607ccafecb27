"""Helpers of the type checker's tests: one expression or one statement in a small program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from sglb.p4 import ast
from sglb.p4.check import check
from sglb.p4.checked import Checked, Const
from sglb.p4.parser import parse_program
from sglb.p4.scope import MAX_ERRORS
from sglb.p4.source import P4Error, P4Errors

#: What expressions and statements under test can use. One line, so that line 2 is the test's own.
PRELUDE = (
    "#include <core.p4>\n"
    "extern void mark<T>(in T x); "
    "header H { bit<8> a; bit<16> b; } header V { bit<8> n; varbit<64> v; } header E {} "
    "header_union U { H h; V v; } "
    "struct S { bit<8> x; bit<16> y; } struct N { S s; bool f; } struct G<T> { T t; bit<4> k; } "
    "struct Q { H[3] q; tuple<bit<8>, bool> p; H h; U u; S s; } "
    "enum Color { red, green } enum bit<8> Kind { tcp = 6, udp = 17 } "
    "enum int<8> Signed { low = -128 } type bit<9> Port; typedef bit<9> Raw; "
    "extern Reg<T> { Reg(bit<32> size); void read(out T r, in bit<32> i); T get(); } "
    "bit<8> twice(in bit<8> v) { return v + v; } T same<T>(in T v) { return v; } "
)
VARIABLES = (
    "bit<8> b8; bit<16> b16; bit<1> b1; int<8> i8; int<16> i16; bool flag; S s; N n; Kind kind; "
    "Color color; Port port; Raw raw; error err; tuple<bit<8>, bool> pair; G<bit<6>> g; "
)


def in_apply(statements: str) -> str:
    """A program whose apply block holds `statements`, which stand alone on line 4."""
    return (
        f"{PRELUDE}control c(inout Q q, in bit<8> ro, out bit<8> wo)(bit<8> k, int big) {{"
        f"{VARIABLES} action act(inout bit<8> d, bit<8> data) {{}} "
        f"table tab {{ key = {{ b8 : exact; }} actions = {{ NoAction; }} }} Reg<bit<8>>(4) reg;"
        f" apply {{\n\n{statements}\n}} }}\n"
    )


def run(source: str) -> Checked:
    """Check a program that must be right."""
    return check(*parse_program(source, "m.p4"))


def warnings(source: str) -> list[str]:
    """The warnings about a program that must be right."""
    program, sources = parse_program(source, "m.p4")
    check(program, sources)
    return [f"{w.span.line}:{w.span.column}: {w.message}" for w in sources.warnings]


def errors(source: str) -> list[P4Error]:
    """The errors in a program that parses and must be wrong."""
    program, sources = parse_program(source, "m.p4")
    try:
        check(program, sources)
    except P4Errors as e:
        return e.errors
    raise AssertionError("accepted:\n" + source)


def one_error(source: str) -> str:
    """The single error in a program, as "line:column: message | hint"."""
    found = errors(source)
    texts = [f"{e.span.line}:{e.span.column}: {e.message} | {e.hint}" for e in found]
    assert len(texts) == 1, texts
    assert found[0].line_text, "an error without its source line"
    return texts[0]


def nodes(root: Any) -> list[ast.Node]:
    """All nodes below `root`, itself included."""
    out: list[ast.Node] = []
    todo = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, tuple):
            todo.extend(item)
        elif isinstance(item, ast.Node) and is_dataclass(item):
            out.append(item)
            todo.extend(getattr(item, f.name) for f in fields(item) if f.name != "span")
    return out


def marked(texts: tuple[str, ...]) -> list[tuple[str, Const | None]]:
    """Types and compile-time values of expressions, read in one apply block."""
    checked = run(in_apply("\n".join(f"mark({t});" for t in texts)))
    found = {}
    for node in nodes(checked.program):
        match node:
            case ast.Call(callee=ast.Name(name="mark"), args=(ast.Argument(value=e),)):
                found[node.span.line - 4] = str(checked.types[id(e)]), checked.consts.get(id(e))
    return [found[i] for i in range(len(texts))]


def constants(texts: tuple[tuple[str, str], ...]) -> list[tuple[str, Const | None]]:
    """The own types of constants' initialisers, (type, initialiser) each, and their values."""
    lines = [f"const {t} k{i} = {text};" for i, (t, text) in enumerate(texts)]
    checked = run(PRELUDE + "\n".join(lines))
    decls = [d for d in checked.program.decls[-len(texts) :] if isinstance(d, ast.ConstDecl)]
    return [(str(checked.types[id(d.value)]), checked.consts.get(id(d.value))) for d in decls]


@cache
def errors_by_statement(statements: tuple[str, ...]) -> dict[str, list[str]]:
    """Errors of each of at most 19 wrong statements, "column: message | hint", from one program.

    That none hides another's is part of what is tested.
    """
    assert len(statements) < MAX_ERRORS
    out: dict[str, list[str]] = {s: [] for s in statements}
    for e in errors(in_apply("\n".join(statements))):
        assert e.line_text == statements[e.span.line - 4]
        out[statements[e.span.line - 4]].append(f"{e.span.column}: {e.message} | {e.hint}")
    return out


def statement_errors(statements: Sequence[str], statement: str) -> list[str]:
    """Errors of one of the statements, which are checked a dozen at a time."""
    for i in range(0, len(statements), 12):
        chunk = tuple(statements[i : i + 12])
        if statement in chunk:
            return errors_by_statement(chunk)[statement]
    raise AssertionError(statement)


def pointed(source: str) -> tuple[int, str, str]:
    """The single error in a program: its line, the text its caret marks, "message | hint"."""
    (e,) = errors(source)
    begin = e.span.column - 1
    return e.span.line, e.line_text[begin : begin + e.span.length], f"{e.message} | {e.hint}"
