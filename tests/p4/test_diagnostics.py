"""What a user sees when a program is wrong, and that nothing worse than that ever happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lower_kit import build

from sglb.p4.parser import parse_program
from sglb.p4.source import P4Error, P4Errors


def errors(source: str, **options: Any) -> P4Errors:
    with pytest.raises(P4Errors) as caught:
        parse_program(source, "m.p4", **options)
    return caught.value


def printed(source: str, **options: Any) -> list[str]:
    return str(errors(source, **options)).splitlines()


# --- whole messages -------------------------------------------------------------------------------


def test_an_undeclared_type_names_its_neighbour() -> None:
    source = "header ethernet_t { bit<48> dst; }\nstruct headers {\n    ethernt_t eth;\n}\n"
    assert printed(source) == [
        "m.p4:3:5: error: the type 'ethernt_t' is not declared",
        "      ethernt_t eth;",
        "      ^^^^^^^^^",
        "  hint: did you mean 'ethernet_t'?",
    ]


def test_every_undeclared_type_is_reported_once() -> None:
    source = "struct S { foo_t a; zzz b; foo_t c; }\naction a(in hdr h) { bar x; }"
    found = errors(source).errors
    assert [(e.message, e.span.line, e.span.column) for e in found] == [
        ("the type 'foo_t' is not declared", 1, 12),
        ("the type 'zzz' is not declared", 1, 21),
        ("the type 'hdr' is not declared", 2, 13),
        ("the type 'bar' is not declared", 2, 22),
    ]
    assert all(e.phase == "parse" and e.line_text for e in found)


def test_a_missing_semicolon_points_past_the_previous_token() -> None:
    assert printed("const bit<8> a = 1 // one\nconst bit<8> b = 2;") == [
        "m.p4:1:19: error: expected ';' to end the constant before the keyword 'const'",
        "  const bit<8> a = 1 // one",
        "                    ^",
    ]


def test_a_missing_include_names_the_directories() -> None:
    assert printed("#include <v1modl.p4>\n", include_dirs=[Path("/opt/p4inc")]) == [
        "m.p4:1:2: error: cannot find 'v1modl.p4'",
        "  #include <v1modl.p4>",
        "   ^^^^^^^",
        "  hint: searched in /opt/p4inc, <builtin>; add a directory with -I",
    ]


def test_tabs_keep_the_caret_in_place() -> None:
    assert printed("\tconst int\tk = ;")[1:3] == ["   const int k = ;", "                 ^"]


def test_an_error_in_an_include_shows_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.p4").write_text("\n  const int = 1;\n")
    [error] = errors('#include "bad.p4"', include_dirs=[tmp_path]).errors
    assert str(error.span) == f"{tmp_path}/bad.p4:2:13"
    assert error.line_text == "  const int = 1;"


def test_an_error_out_of_a_macro_points_at_its_use() -> None:
    assert printed("#define WIDTH 8 8\nconst bit<WIDTH> a = 1;") == [
        "m.p4:2:11: error: expected '>' to close '<', found '8'",
        "  const bit<WIDTH> a = 1;",
        "            ^^^^^",
        "  hint: it comes out of macro 'WIDTH'",
    ]


# --- the place and the gist -----------------------------------------------------------------------


def in_control(text: str) -> str:
    return f"control C(inout bit<8> x) {{ {text} }}"  # the text starts at column 29


def in_apply(text: str) -> str:
    return in_control(f"apply {{ {text} }}")  # the text starts at column 37


@pytest.mark.parametrize(
    ("source", "column", "message", "hint"),
    [
        ("struct S { unsigned a; }", 12, "the type 'unsigned' is not declared", "bit<W>"),
        ("struct S { uint16_t a; }", 12, "the type 'uint16_t' is not declared", "bit<16>"),
        ("parser P(packet_in p) { state start { } }", 10,
         "the type 'packet_in' is not declared", "include <core.p4>"),
        ("bit<8> x;", 8, "a variable cannot stand at the top level", "make it a 'const'"),
        ("const bit<8> table = 1;", 14, "expected the constant's name, found the keyword 'table'",
         "'table' is reserved; choose another name"),
        ("const bit<8> 2x = 1;", 14, "expected the constant's name, found '2x'",
         "starts with a letter"),
        ("const bit<8> x = 8q1;", 18, "'8q1' is not an integer", "8w255"),
        ("const bit<8> x = bit<8>(1);", 18, "expected an expression, found the keyword 'bit'",
         "(bit<8>) x"),
        ("const bit<8> x = 1 ü;", 19, "expected ';' to end the constant before the character 'ü'",
         ""),
        ("const bit<8>= 1;", 12, "expected '>', found '>='", "put a blank"),
        ("enum E { a = 1 }", 12, "expected ',' or '}', found '='", "enum bit<8> Name"),
        ("header H { bit<8> a }", 20, "expected ';' to end the field before '}'", ""),
        ("header H { varbit a; }", 19, "expected '<' and the largest width, found 'a'", ""),
        ("extern X { f(); }", 12, "a method needs a result type and a name", "named 'X'"),
        ("parser P() { }", 8, "parser 'P' has no states", "start"),
        ("package P<T, T>();", 14, "type parameter 'T' is given twice", ""),
        ("table t { }", 1, "expected a declaration, found the keyword 'table'",
         "inside a control"),
        ("}", 1, "expected a declaration, found '}'", "one '}' too many"),
        ("x", 1, "expected a declaration, found 'x'", ""),
        ("@name(\"a\" const int k = 1;", 1, "this annotation's '(' is never closed", "')'"),
        ("@p[a = 1, 2] const int k = 1;", 11, "expected 'name = value' as before", ""),
        ("control C() { bit<8> x; }", 25, "control 'C' has no apply block", "apply { … }"),
        ("control C() { x = 1; apply { } }", 15, "expected a declaration or 'apply'",
         "inside apply"),
        ("control C() { apply { } bit<8> x; }", 25, "expected '}' to close the control",
         "before 'apply'"),
        ("control C() { apply { f(); ", 27, "expected '}' to close the block opened at m.p4:1:21",
         "bracket"),
        (in_apply("if (x = 1) { }"), 43, "expected ')', found '='", "'==' compares"),
        (in_apply("x++;"), 38, "expected '=' or a call, found '++'", "write x = x + 1"),
        (in_apply("x;"), 37, "'x' alone is no statement", "()"),
        (in_apply("f() g();"), 40, "expected ';' to end the statement before 'g'", ""),
        (in_apply("@a x = 1;"), 40, "expected a block or a declaration after", ""),
        (in_apply("if (x == 1) bit<8> y;"), 49, "a declaration cannot stand alone here",
         "braces"),
        (in_apply("x y;"), 37, "'x' is not a type", "a type must stand here"),
        ("enum E { a } const bit<1> k = E;", 31, "'E' is a type, but a value must stand here",
         "E.member"),
        (in_apply("foo_t y;"), 37, "the type 'foo_t' is not declared", ""),
        (in_apply("foo_t<bit<8>>(3) y;"), 37, "the type 'foo_t' is not declared", ""),
        (in_apply("x = (foo_t) 3;"), 42, "the type 'foo_t' is not declared", ""),
        (in_apply("switch (x) { case 1: { } }"), 50, "expected a case's label, found 'case'",
         "P4 has no 'case'"),
        (in_apply("for (i in 1 .. 3) { }"), 42, "expected the loop variable's type",
         "for (bit<8> i in …)"),
        (in_apply("while (x == 1) { }"), 37, "'while' is no statement of P4",
         "no while"),
        (in_control("table t { }"), 35, "table 't' has no actions", "actions"),
        (in_control("table t { key = { x: exact } }"), 55, "expected ';' to end the key field",
         ""),
        (in_control("table t { key = { x; } }"), 48, "expected ':' and the key's match kind",
         ""),
        (in_control("table t { actions = { a, b } }"), 52, "expected ';'",
         "actions end in ';'"),
        (in_control("table t { key = { } key = { } }"), 49, "this table has 'key' twice", ""),
        (in_control("table t { const key = { } }"), 45, "'key' takes neither annotations", ""),
        (in_control("table t { actions = { }; }"), 52, "expected a table property, found ';'",
         "no ';' follows"),
        ("parser P() { state start { return; } }", 28, "'return' cannot stand here", ""),
        ("parser P() { state start { transition accept } }", 45,
         "expected ';' after the state's name", ""),
        ("parser P() { state start { transition select(1) { _: a; }; } }", 58,
         "expected '}' to close the state", "no ';' follows"),
        ("parser P() { state a { transition b; } bit<8> x; }", 40, "expected a state",
         "before the first state"),
    ],
)  # fmt: skip
def test_syntax_errors(source: str, column: int, message: str, hint: str) -> None:
    [error] = errors(source).errors
    assert error.message.startswith(message)
    assert (error.span.line, error.span.column) == (1, column)
    assert hint in error.hint
    assert error.line_text == source


def test_a_call_on_the_next_line_is_a_missing_semicolon_not_a_type() -> None:
    source = "control C() { apply {\n  foo()\n  bar();\n} }"
    [error] = errors(source).errors
    assert error.message == "expected ';' to end the statement before 'bar'"
    assert (error.span.line, error.span.column) == (2, 8)


def test_errors_before_the_first_line_is_read_have_their_text_too() -> None:
    [error] = errors("", defines={"a b": "1"}).errors
    assert (error.span.file, error.line_text) == ("<command line>", "-D a b=1")


# --- robustness -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "const int k = " + "(" * 5000,
        "const int k = " + "-" * 5000 + "1;",
        "const int k = " + "{" * 5000,
        "const int k = " + "a[" * 5000,
        "const int k = " + "f(" * 5000,
        "const int k = " + "a ? " * 5000,
        "const int k = " + "a || a && a == a < a | a ^ a & a << a + a * (" * 500,
        "const int k = " + "(T[" * 500,
        "struct T {} const int k = " + "(T[" * 2000,
        "struct T {} const int k = " + "a < T[" * 2000,
        "struct T {} const int k = " + "a < T<" * 2000,
        "const int k = " + "a < bit<1 + " * 1000,
        "const int k = " + "bit<" * 3000,
        "tuple<" * 3000,
        "const T[1]" + "[1]" * 3000 + " k = 1;",
        "action a() " + "{" * 5000,
        "action a() { " + "if (a) " * 5000,
        "action a() { " + "for (;a;) " * 5000,
        "action a() { " + "switch (a) { b: { " * 2000,
        "@a" + "(" * 5000,
        "@a[" * 2000,
        "#if " + "(" * 5000,
        "#if " + "1 ? " * 5000,
        "#define F(x) x\n" + "F(" * 5000,
        "extern X<" + "A<" * 3000,
        "control C() { " * 2000,
        "typedef struct S { " * 2000,
        "package P(" + "bit<8> a = {" * 2000,
    ],
)
def test_deep_nesting_is_an_error_like_any_other(source: str) -> None:
    assert errors(source).errors


def test_long_flat_programs_are_no_problem() -> None:
    chain = " else ".join(["if (a) { }"] * 1000)
    parse_program(f"action f() {{ {chain} }}", "m.p4")
    parse_program(f"const int k = {' + '.join(['1'] * 1000)};", "m.p4")
    parse_program(f"const int k = {{ {', '.join(['1'] * 3000)} }};", "m.p4")


PROGRAM = """\
#include <core.p4>
#define W(n) bit<n>
#ifdef X
struct X {}
#endif
header h_t { W(8) a; @f varbit<32> v; }
struct s { h_t h; h_t[2] hs; bool b; }
enum bit<8> E { A = 1, B = 2 }
parser P(packet_in p, out s hdr)(bit<8> n) {
    value_set<bit<8>>(4) vs;
    state start {
        p.extract<h_t>(hdr.h);
        transition select(hdr.h.a, 8w0x1F[3:0]) { (1 &&& 2, _): next; default: accept; }
    }
    state next { hdr.hs.next = { 1, ... }; transition reject; }
}
control C(inout s hdr) {
    @name("x") action act(bit<8> y) { hdr.h.a = (bit<8>) y << 2 ++ 1; }
    table t {
        key = { hdr.h.a & 0xF : exact @name("k"); }
        actions = { act; NoAction; }
        const default_action = NoAction();
        const entries = { (1) : act(2); priority = 3 : _ : NoAction(); }
    }
    apply {
        if (t.apply().hit && !hdr.b) { exit; } else if (hdr.h.a > 3) return;
        switch (t.apply().action_run) { act: { } default: { ; } }
        for (bit<8> i = 0; i < 4; i += 1) { hdr.h.a |+|= i; }
    }
}
"""
WORDS = PROGRAM.split()
SOUP = [
    *sorted(set(WORDS)), "<", ">", "(", ")", "{", "}", "[", "]", ";", ",", ":", "=", "@", "@pragma",
    "#", "##", "{#}", "...", "..", "&&&", ">>", "|+|", "?", ".", "'", '"', "/*", "*/", "//", "\\",
    "\n", "\n#define A", "\n#define F(x)", "#x", "\n#if", "\n#else", "\n#endif", "\n#include", "defined",
    "A", "F(", "__VA_ARGS__", "\n#line 3", "select", "extern", "typedef", "type", "tuple<", "list<",
    "error", "match_kind", "package", "abstract", "this", "in", "out", "inout", "true", "0x", "8w", "é",
    "\x00", "\ud800",
]  # fmt: skip

fuzz = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])


def survives(source: str) -> None:
    """Parse; only P4Errors may come out, each with a message and a place."""
    found: list[P4Error] = []
    try:
        parse_program(source, "m.p4")
    except P4Errors as caught:
        found = caught.errors
        assert str(caught)  # noqa: PT017 - any program may pass or fail here
    assert all(e.message and e.span.line >= 1 and e.span.column >= 1 for e in found)


def test_the_fuzzed_program_itself_is_right() -> None:
    assert len(parse_program(PROGRAM, "m.p4")[0].decls) > 10


@fuzz
@given(st.text(max_size=80))
def test_any_text(source: str) -> None:
    survives(source)


@fuzz
@given(st.lists(st.sampled_from(SOUP), max_size=60))
def test_token_soup(words: list[str]) -> None:
    survives(" ".join(words))


@fuzz
@given(st.lists(st.sampled_from(SOUP), max_size=25), st.sampled_from(
    ["const int k = {};", "action a() {{ {} }}", "control C() {{ {} }}", "extern X {{ {} }}",
     "control C() {{ table t {{ {} }} apply {{ }} }}", "parser P() {{ state s {{ {} }} }}",
     "#if {}\n#endif", "#define F(x, y) {}\nF(1, F(2, F))", '@a("\n#if {}\n") const int k = 1;'],
))  # fmt: skip
def test_token_soup_in_its_place(words: list[str], frame: str) -> None:
    survives(frame.format(" ".join(words)))


@st.composite
def mutants(draw: st.DrawFn) -> str:
    words = list(WORDS)
    for _ in range(draw(st.integers(1, 4))):
        if len(words) < 2:
            break
        at = draw(st.integers(0, len(words) - 1))
        match draw(st.sampled_from(["drop", "double", "swap", "put", "cut"])):
            case "drop":
                del words[at]
            case "double":
                words.insert(at, words[at])
            case "swap":
                other = draw(st.integers(0, len(words) - 1))
                words[at], words[other] = words[other], words[at]
            case "put":
                words.insert(at, draw(st.sampled_from(SOUP)))
            case _:
                words = words[: max(1, at)]
    directives = {"#include": "\n#include", "#define": "\n#define", "#ifdef": "\n#ifdef"}
    return " ".join(directives.get(w, w) for w in words)


@fuzz
@given(mutants())
def test_mutated_programs(source: str) -> None:
    survives(source)


@pytest.mark.parametrize(
    ("locals_", "apply", "message", "hint"),
    [
        ("table t { key = { h.i.x : longest; } actions = { NoAction; } }", "t.apply();",
         "match_kind 'longest'", "the match kinds are exact, ternary, lpm"),
        ("table t { key = { h.i.x : lpm; h.i.y : lpm; } actions = { NoAction; } }", "t.apply();",
         "table 't' has a second lpm key", "make one of them ternary"),
        ("action a() { t.apply(); } table t { actions = { a; } }", "t.apply();",
         r"'t' is used before its declaration at <program>:16:\d+", "declare it before"),
        ("table t { actions = { NoAction; } }", "if (t.apply()) {}", "must be bool", "add .hit or"),
        ("register<bit<8>> r;", "", "'r' cannot be a variable", r"register<bit<8>>\(…\) r;"),
        ("", "if (h.i.valid) {}", "has no field 'valid'", r"isValid\(\)"),
        ("", "if (h.i.isValid() == True) {}", "'True' is not declared", "did you mean 'true'"),
        ("action a() { h.o.r0 = 1; action b() { }", "", "found the keyword 'action'", "a } is miss"),
    ],
)  # fmt: skip
def test_hints_for_common_mistakes(locals_: str, apply: str, message: str, hint: str) -> None:
    with pytest.raises(P4Errors, match=rf"error: [^\n]*{message}[\s\S]*hint: [^\n]*{hint}"):
        build(apply, locals=locals_)


def test_an_action_is_never_mistaken_for_a_counter() -> None:
    with pytest.raises(P4Errors) as caught:
        build("t.apply();", locals="table t { actions = { counte; } }")
    assert "hint" not in str(caught.value)
