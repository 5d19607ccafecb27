"""Calls: binding, inference, directions, who may call what where, instances."""

from __future__ import annotations

import pytest
from check_kit import PRELUDE, errors, in_apply, nodes, one_error, run, statement_errors

from sglb.p4 import ast
from sglb.p4.checked import CallKind

#: Statements on their own line of an apply block: "column: message", hint.
STATEMENTS = [
    ("b8 = twice();", "6: 'twice' needs an argument for v", "twice(in bit<8> v)"),
    ("b8 = twice(1, 2);", "6: 'twice' takes 1 argument, but is given 2", "twice(in bit<8> v)"),
    ("b8 = twice(x = 1);", "12: 'twice' has no parameter 'x'", ""),
    ("b8 = twice(b16);", "12: argument 'v' must have type bit<8>, but this is bit<16>", "(bit<8>)"),
    ("b8 = twise(1);", "6: function 'twise' is not declared", "'twice'"),
    ("b8 = b16(1);", "6: 'b16' is a variable and cannot be called", ""),
    ("tab();", "1: 'tab' is a table and cannot be called", "tab.apply"),
    ("b8 = same<bit<16>>(b8);", "20: argument 'v' must have type bit<16>", ""),
    (
        "b8 = same<bit<8>, bool>(b8);",
        "6: 'same' has 1 type parameter, but is given 2 type arguments",
        "",
    ),
    ("b8 = same(1);", "6: cannot infer a width for T of 'same' from a plain int", "32w0"),
    ("mark({ x = 1w1 });", "1: cannot infer the type argument T of 'mark' from a struct", "(S)"),
    ("mark(_);", "6: only an out parameter can be given '_'", ""),
    ("mark(tab);", "6: table tab cannot be an argument", ""),
    ("act(b8, 1, 2);", "1: 'act' takes 2 arguments, but is given 3", "inout bit<8> d"),
    ("act(ro, 1);", "5: 'ro' is an 'in' parameter and can only be read", "inout"),
    ("act(b8 + 1, 1);", "5: the inout argument 'd' must be something that can be written to", ""),
    ("act(b16, 1);", "5: argument 'd' must have type bit<8> exactly", "variable of type bit<8>"),
    ("reg.read(b8);", "1: 'read' needs an argument for i", ""),
    ("reg.read(b8, b8);", "14: argument 'i' must have type bit<32>, but this is bit<8>", ""),
    ("reg.reed(b8, 0);", "1: extern Reg<bit<8>> has no method 'reed'", "'read'"),
    (
        "reg.read(b16, 0);",
        "10: argument 'r' must have type bit<8> exactly, but this is bit<16>",
        "",
    ),
    ("b8 = reg.get;", "6: 'get' of Reg<bit<8>> is a method and must be called", ""),
    ("tab.apply(1);", "1: a table's apply takes no arguments", ""),
    ("q.h.setValid(1);", "1: 'setValid' takes no arguments", ""),
    ("q.u.setValid();", "1: a header union has no method 'setValid'", ""),
    ("s.setValid();", "1: a struct has no method 'setValid'", ""),
    ("q.q.push_front();", "1: 'push_front' takes one argument", ""),
    ("q.q.push_front(b8);", "16: the argument of 'push_front' must be known at compile time", ""),
    ("q.q.pop_front(-1);", "15: the number of elements cannot be negative", ""),
    ("q.q.setValid();", "1: a value of type H[3] has no method 'setValid'", ""),
    ("b8.minSizeInBits(1);", "1: 'minSizeInBits' takes no arguments", ""),
    ("verify(true, error.NoMatch);", "1: 'verify' cannot be called in an apply block", "parsers"),
    ("b8 = twice(act);", "12: callable act cannot be an argument", ""),
]


@pytest.mark.parametrize(("statement", "message", "hint"), STATEMENTS)
def test_statement_error(statement: str, message: str, hint: str) -> None:
    found = statement_errors([s for s, _, _ in STATEMENTS], statement)
    assert len(found) == 1, found
    assert found[0].startswith(message), found
    assert hint in found[0].split(" | ")[1], found


def test_accepted_statements() -> None:
    run(
        in_apply(
            "b8 = twice(v = 3); act(d = b8, data = 4);"
            "act(s.x, ro); act(b16[7:0], 1); reg.read(_, 2); reg.read(b8, 1 + 1);"
            "q.q.push_front(2); q.q.pop_front(1); q.h.setInvalid(); q.q[b8].setValid();"
            "mark(s); mark({ b8, b16 }); mark(kind); mark<S>({ 1, 2 }); tab.apply();"
        )
    )


def test_call_info() -> None:
    checked = run(in_apply("act(data = 4, d = b8); b8 = same(b8); reg.read(b8, 1);"))
    infos = {i.name: i for i in checked.calls.values()}
    act = infos["act"]
    assert act.kind is CallKind.ACTION
    assert [b.param.name for b in act.args] == ["d", "data"]
    assert isinstance(act.args[1].arg, ast.Argument)
    assert isinstance(act.args[1].arg.value, ast.IntLit)
    assert infos["same"].kind is CallKind.FUNCTION
    assert [str(t) for t in infos["same"].type_args] == ["bit<8>"]
    read = infos["read"]
    assert read.kind is CallKind.METHOD
    assert isinstance(read.receiver, ast.Name)
    assert [str(b.type) for b in read.args] == ["bit<8>", "bit<32>"]
    made = [
        checked.calls[id(n)]
        for n in nodes(checked.program)
        if isinstance(n, ast.Instance) and n.name == "reg"
    ]
    assert [(i.kind, str(i.result)) for i in made] == [(CallKind.CONSTRUCTOR, "Reg<bit<8>>")]


# --- overloads, defaults, optional ----------------------------------------------------------------

OVERLOADS = (
    PRELUDE + "extern void f(in bit<8> a); extern void f(in bit<8> a, in bit<8> b); "
    "extern void f(in bit<8> z, in bool y); extern void d(in bit<8> a, in bit<8> b = 7); "
    "extern void o(in bit<8> a, @optional in bit<8> b);\n"
)


def called(text: str) -> str:
    return OVERLOADS + f"control c(inout bit<8> x) {{ apply {{\n{text}\n}} }}"


def test_overloads_are_told_apart_by_number_and_names() -> None:
    checked = run(
        called("f(1); f(a = 1, b = 2); f(z = 1, y = true); d(1); d(1, 2); o(1); o(1, 2);")
    )
    calls = [i for i in checked.calls.values() if i.name == "f"]
    names = sorted([b.param.name for b in i.args] for i in calls)
    assert names == [["a"], ["a", "b"], ["z", "y"]]
    left_out = [i for i in checked.calls.values() if i.name in "do" and i.args[1].arg is None]
    assert [i.name for i in left_out] == ["d", "o"]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("f(1, 2);", "4:1: 'f' is ambiguous here", "f(in bit<8> a, in bit<8> b); f(in bit<8> z"),
        ("f();", "4:1: no 'f' takes these arguments", "there is: f(in bit<8> a); f("),
        ("d(b = 1);", "4:1: 'd' needs an argument for a", ""),
        ("d(1, b = 2);", "4:1: either all arguments are named or none", ""),
        ("d(a = 1, a = 2);", "4:1: parameter 'a' is given twice", ""),
    ],
)
def test_overload_errors(text: str, message: str, hint: str) -> None:
    found = one_error(called(text))
    assert found.startswith(message), found
    assert hint in found


# --- declarations, instances ----------------------------------------------------------------------

BLOCKS = (
    PRELUDE + "control C<X>(inout X x); parser P<X>(packet_in p, out X x); "
    "package Pack<X>(P<X> p, C<X> c); package One(C<S> c); "
    "parser ps(packet_in p, out S x) { state start { transition accept; } } "
    "control cs(inout S x) { apply {} } control cn(inout N x) { apply {} } "
    "control ci(in S x) { apply {} } control c2(inout S x, in bool y) { apply {} } "
    "control ck(inout S x)(bit<8> n) { apply {} } "
    "extern Abs { Abs(); abstract bit<8> f(in bit<8> x); abstract void g(); }\n"
)

DECLARATIONS = [
    ("Pack(ps(), cn()) main;", "3:12: control cn does not fit parameter 'c' of type C: parameter 1"),
    ("Pack(ps(), ci()) main;", "3:12: control ci does not fit parameter 'c' of type C: parameter 1"),
    ("Pack(ps(), c2()) main;", "3:12: control c2 does not fit parameter 'c' of type C: it has 2"),
    ("Pack(cs(), ps()) main;", "3:6: control cs does not fit parameter 'p' of type P"),
    ("One(cn()) main;", "3:5: control cn does not fit parameter 'c' of type C"),
    ("One(ck()) main;", "3:5: 'ck' needs an argument for n"),
    ("One() main;", "3:7: 'One' needs an argument for c"),
    ("cs() top;", "3:6: a control cannot be instantiated at top level"),
    ("Reg<bit<8>>(4) main;", "3:16: 'main' must be a package, not Reg<bit<8>>"),
    ("Reg(4) r;", "3:8: cannot infer the type argument T of 'Reg'"),
    ("Reg<bit<8>, bool>(4) r;", "3:22: 'Reg' has 1 type parameter, but is given 2"),
    ("Reg<bit<8>>() r;", "3:15: 'Reg' needs an argument for size"),
    ("S(4) r;", "3:1: there are no instances of S"),
    ("C<S>() r;", "3:1: 'C' is only a type, without a body to instantiate"),
    ("control x(inout S s) { action a() { Reg<bit<8>>(4) r; } apply {} }", "3:52: 'Reg' cannot"),
    ("control x(inout S s) { apply { Reg<bit<8>>(4) r; } }", "3:47: 'Reg' cannot be instantiated"),
    ("control x(inout S s) { ps() p; apply {} }", "3:29: a control cannot hold an instance"),
    ("control x(inout S s) { x() y; apply {} }", "3:24: 'x' cannot refer to itself"),
    ("control x(in bit<8> v)(bit<8> n) { ck(v) y; apply {} }", "3:39: argument 'n' must be known"),
    ("Abs() a = { bit<8> f(in bit<8> x) { return x; } };", "3:7: 'a' must implement the abstract"),
    ("Abs() a = { void g() {} bit<8> f(in bit<16> x) { return 1; } };", "3:32: 'f' does not have"),
    ("Abs() a = { void g() {} void h() {} bit<8> f(in bit<8> x) { return x; } };", "3:30: extern"),
    ("cs() a = { void g() {} };", "3:6: a control cannot be instantiated"),
    ("control x(inout S s, in Abs a) { apply {} }", "3:29: parameter 'a' of type Abs cannot have"),
    ("bit<8> f(in bit<8> v) { return f(v); }", "3:32: 'f' cannot refer to itself: P4 has no rec"),
    ("bit<8> f(in bit<8> v) { if (v > 1) { return v; } }", "3:8: 'f' must return bit<8>, but can"),
    ("bit<8> f(in bit<8> v) { return true; }", "3:32: the returned value must have type bit<8>"),
    ("bit<8> f(in bit<8> v) { return; }", "3:25: this must return a value of type bit<8>"),
    ("void f(in bit<8> v) { return v; }", "3:30: a function returning void cannot return"),
    ("void f(in bit<8> v) { exit; }", "3:23: 'exit' cannot be used in a function"),
    ("void f(in bit<8> v) { NoAction(); }", "3:23: action 'NoAction' cannot be called in a fun"),
    ("void f(in bit<8> v, in bit<8> v) { }", "3:31: parameter 'v' is declared twice"),
    ("void f(in bit<8> v) { bit<8> v = 1; }", "3:30: 'v' hides the parameter at m.p4:3:18"),
    ("bit<8> twice(in bit<8> v) { return v; }", "3:8: 'twice' with these parameters is already"),
    ("const bit<8> S = 1;", "3:14: 'S' is already declared at m.p4:2:"),
    ("const bit<8> a = b; const bit<8> b = 1;", "3:18: name 'b' is used before its declaration"),
    ("action a(bit<8> d, in bit<8> e) {}", "3:30: parameter 'e' must stand before those without"),
    ("action a(int d) {}", "3:14: an action's parameter cannot have type int"),
    ("action a(bit<8> d) { d = 1; }", "3:22: 'd' is a parameter without direction and can only"),
    ("extern X { void X(); }", "3:17: only a constructor can have the extern's name"),
    ("package X(in bit<8> v);", "3:21: a package's parameters have no direction"),
    ("control x(inout S s)(in bit<8> n) { apply {} }", "3:32: constructor parameters have no"),
    ("control x(inout S s) { table t { actions = { NoAction; } } "
     "action a() { t.apply(); } apply {} }", "3:73: table 't' cannot be applied in an action"),
    ("control x(inout S s) { action a() { break; } apply {} }", "3:37: 'break' can be used only"),
    ("control x(inout S s) { action a() { return 1; } apply {} }", "3:44: nothing can be returned"),
    ("control x(inout S s) { apply { if (s.x) {} } }", "3:36: the condition of 'if' must be bool"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), DECLARATIONS)
def test_declaration_error(text: str, message: str) -> None:
    found = one_error(BLOCKS + text)
    assert found.startswith(message), found


ACCEPTED = [
    "Pack(ps(), cs()) main;",
    "Pack<S>(p = ps(), c = cs()) main;",
    "One(ck(4)) main;",
    "Reg<bit<8>>(4) r; Reg<S>(size = 4) r2;",
    "Abs() a = { bit<8> f(in bit<8> x) { return x + 1; } void g() { return; } };",
    "control x(inout S s) { cs() a; ck(3) b; apply { a.apply(s); b.apply(s); cs.apply(s); } }",
    "control x(inout S s)(bit<8> n) { ck(n) a; Reg<bit<8>>((bit<32>)n) r; apply { a.apply(s); } }",
    "control g<X>(inout X v) { apply { X w = v; v = w; } } "
    "control x(inout S s) { g<S>() a; apply { a.apply(s); } }",
    "bit<8> f(in bit<8> v) { if (v > 1) { return v; } else { return 0; } }",
    "bit<8> f(in bit<8> v) { switch (v) { 1: { return 1; } default: { return 2; } } }",
    "T id<T>(in T v) { T w = v; return w; } const bit<8> k = 1; void f() { bit<8> v = id(k); }",
    "struct L<A> { A a; } struct M { L<bit<4>> l; } void f(in M m) { bit<4> v = m.l.a; }",
    "enum bit<4> E4 { a = 1, b = (bit<4>)17 } const bit<4> x = E4.b;",
    "extern void h<T, D>(out T r, in D d); void f() { bit<16> r; h(r, { 8w1, true }); }",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_declaration_accepted(text: str) -> None:
    run(BLOCKS + text)


def test_a_block_that_does_not_fit_shows_the_type_as_declared() -> None:
    found = one_error(BLOCKS + "Pack(ps(), c2()) main;")
    assert found.endswith("it has 2 parameters instead of 1 | C is declared as C<X>(inout X x)")
    found = one_error(BLOCKS + "Pack(ps(), cn()) main;")
    assert "parameter 1 ('x') has type N, but S is needed | C is declared as C<X>(" in found


def test_independent_errors_are_all_found() -> None:
    found = errors(
        BLOCKS + "struct A { int m; }\n" + "control x(inout S s, in A a) {\n"
        "  bit<8> v = true;\n"
        "  action f() { v = 16w1; }\n"  # v is in error already: nothing more is said of it
        "  apply { f(); v = unknown; s.z = 1; }\n"
        "}\n"
        "One(cn()) main;\n"
    )
    assert [e.span.line for e in found] == [3, 5, 7, 9]


def test_no_more_than_twenty_errors() -> None:
    assert len(errors(in_apply("flag = 1;\n" * 40))) == 20


def test_a_failed_declaration_is_not_blamed_again() -> None:
    text = one_error(in_apply("bit<8> v = true; b8 = v; v = 1; b8 = v + v;"))
    assert text.startswith("4:12: the initial value of 'v' must have type bit<8>")


# --- types ----------------------------------------------------------------------------------------

TYPE_ERRORS = [
    ("header X { int<8> a; tuple<bit<8>> t; }", "3:36: field 't' of header X cannot have type tup"),
    ("header X { H h; }", "3:14: field 'h' of header X cannot have type H"),
    (
        "header X { varbit<8> a; varbit<8> b; }",
        "3:8: header X has more than one varbit field: a, b",
    ),
    ("header X { error e; }", "3:18: field 'e' of header X cannot have type error"),
    ("header_union X { S s; }", "3:20: field 's' of header union X cannot have type S"),
    ("struct X { int i; }", "3:16: field 'i' of struct X cannot have type int"),
    ("struct X { packet_in p; }", "3:22: field 'p' of struct X cannot have type packet_in"),
    ("struct X { bit<8> a; bit<8> a; }", "3:29: field 'a' is declared twice"),
    ("struct X { G g; }", "3:12: 'G' is generic and needs type arguments"),
    ("struct X { G<bit<8>, bool> g; }", "3:12: 'G' has 1 type parameter, but is given 2 type"),
    ("struct X { S<bit<8>> g; }", "3:12: 'S' has no type parameters, but is given 1 type"),
    ("struct X { bit<(-1)> b; }", "3:17: the width cannot be negative, but this is -1"),
    ("struct X { int<0> b; }", "3:12: the width of a signed type must be at least 1"),
    ("struct X { bit<(true)> b; }", "3:17: the width must be an integer, but this is bool"),
    ("struct X { H[-1] b; }", "3:14: the size of an array cannot be negative"),
    ("struct X { bit<8> b; } struct X { bit<8> b; }", "3:31: 'X' is already declared at m.p4:3:8"),
    ("enum X { a, a }", "3:13: enum member 'a' is declared twice"),
    ("enum bit<4> X { a = 16 }", "3:21: 16 does not fit bit<4> (0 to 15)"),
    ("enum bool X { a = true }", "3:6: an enum's values are bit<W> or int<W>, not bool"),
    ("enum Port X { a = 1 }", "3:6: an enum's values are bit<W> or int<W>, not Port"),
    ("type S X;", "3:6: 'type' can make a new type of bit<W>, int<W> or bool, not of S"),
    ("typedef G X;", "3:9: 'G' is generic and needs type arguments"),
    ("error { NoError }", "3:1: error 'NoError' is declared twice"),
    ("match_kind { exact }", "3:1: match_kind 'exact' is declared twice"),
    ("const int v = 8w1;", "3:15: the value of 'v' must have type int, but this is bit<8>"),
    ("void f(in int v) {}", "3:15: parameter 'v' of type int cannot have a direction"),
    ("void f() { int v = 1; }", "3:16: there are no variables of type int"),
    ("void f() { string v; }", "3:19: there are no variables of type string"),
    ("void f(in G<H> g) { bit<8> v = g.t; }", "3:32: the initial value of 'v' must have type"),
    ("header GH<T> { T t; } void f(in GH<H> g) {}", "3:33: field 't' of header GH<H> cannot have"),
    ('const bool b = static_assert(1 + 1 == 3, "sums");', "3:16: static assertion failed: sums"),
]


@pytest.mark.parametrize(("text", "message"), TYPE_ERRORS)
def test_type_error(text: str, message: str) -> None:
    found = one_error(PRELUDE + "\n" + text)
    assert found.startswith(message), found


def test_what_a_program_declares_is_found() -> None:
    checked = run(BLOCKS + "error { Mine, Yours } One(cs()) other; Pack(ps(), cs()) main;")
    assert checked.errors[:2] == ("NoError", "PacketTooShort")
    assert checked.errors[7:] == ("Mine", "Yours")
    assert checked.main is not None
    info = checked.calls[id(checked.main)]
    assert [str(t) for t in info.type_args] == ["S"]
    assert [b.param.name for b in info.args] == ["p", "c"]
    assert run(BLOCKS).main is None


def test_errors_come_in_source_order_with_hints_in_their_text() -> None:
    found = errors(
        PRELUDE + "control c(inout S s) {\n"
        "  table t { key = { s.x : exact; } actions = { NoAction; } default_action = nothing; }\n"
        "  apply { s.x = s.y; t.aply(); }\n"
        "}\n"
    )
    assert [e.span.line for e in found] == [3, 4, 4]
    assert str(found[1]).split("\n") == [
        "m.p4:4:17: error: the assigned value must have type bit<8>, but this is bit<16>",
        "    apply { s.x = s.y; t.aply(); }",
        "                  ^^^",
        "  hint: P4 never changes width or sign by itself: write (bit<8>) before it",
    ]
    assert found[2].hint == "did you mean 'apply'?"
