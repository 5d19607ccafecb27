"""The syntax tree that the parser builds."""

from __future__ import annotations

from typing import Any

import pytest

from sglb.p4 import ast
from sglb.p4.parser import parse_program


def decls(source: str, **options: Any) -> tuple[ast.Decl, ...]:
    return parse_program(source, "m.p4", **options)[0].decls


def only(source: str) -> Any:
    return decls(source)[-1]


#: Names that the snippets below take for types.
TYPES = "struct T {} enum E { a } header H {} extern G<A> { G(); } "


def expr(text: str) -> Any:
    return only(f"{TYPES}const int k = {text};").value


def stmts(text: str) -> Any:
    return only(f"{TYPES}action act() {{ {text} }}").body.body


def show(node: Any) -> str:
    """A tree in prefix notation, so that a test can state it on a line."""
    match node:
        case ast.IntLit():
            return node.text
        case ast.BoolLit():
            return str(node.value).lower()
        case ast.StringLit():
            return repr(node.value)
        case ast.Name():
            return ("." if node.absolute else "") + node.name
        case ast.InvalidHeader():
            return "{#}"
        case ast.Default():
            return "_"
        case ast.ListExpr():
            return _braces([show(i) for i in node.items], node.dots)
        case ast.StructExpr():
            return _braces([f"{n}={show(v)}" for n, v in node.fields], node.dots)
        case ast.Expr():
            return _operation(node)
        case _:
            return _show_type(node)


def _operation(node: Any) -> str:
    match node:
        case ast.Member():
            return f"(. {show(node.base)} {node.name})"
        case ast.TypeExpr():
            return f"<{show(node.type)}>"
        case ast.Index():
            return f"([] {show(node.base)} {show(node.index)})"
        case ast.Slice(hi=None):
            return f"([+:] {show(node.base)} {show(node.lo)} {show(node.width)})"
        case ast.Slice():
            return f"([:] {show(node.base)} {show(node.hi)} {show(node.lo)})"
        case ast.Unary():
            return f"({node.op} {show(node.operand)})"
        case ast.Binary():
            return f"({node.op} {show(node.left)} {show(node.right)})"
        case ast.Ternary():
            return f"(? {show(node.cond)} {show(node.then)} {show(node.other)})"
        case ast.Cast():
            return f"(cast {show(node.type)} {show(node.operand)})"
        case _:
            return _call(node)


def _call(node: ast.Call) -> str:
    types = "".join(f" <{show(t)}>" for t in node.type_args)
    args = "".join(
        " " + (f"{a.name}=" if a.name else "") + (show(a.value) if a.value else "_")
        for a in node.args
    )
    return f"(call {show(node.callee)}{types}{args})"


def _braces(items: list[str], dots: bool) -> str:
    return "{" + " ".join(items + (["..."] if dots else [])) + "}"


def _show_type(node: Any) -> str:
    match node:
        case ast.BaseType():
            return node.kind + (f"<{show(node.width)}>" if node.width else "")
        case ast.NamedType():
            args = ",".join(show(a) for a in node.args)
            return ("." if node.absolute else "") + node.name + (f"<{args}>" if args else "")
        case ast.StackType():
            return f"{show(node.element)}[{show(node.size)}]"
        case ast.TupleType():
            inner = ",".join(show(a) for a in node.args)
            return f"{'list' if node.is_list else 'tuple'}<{inner}>"
        case ast.DontCareType():
            return "_"
        case _:
            raise TypeError(type(node))


# --- expressions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        # precedence: unlike in C, comparisons bind weaker than & ^ |
        ("a + b * c - d", "(- (+ a (* b c)) d)"),
        ("a == b & c", "(== a (& b c))"),
        ("a < b | c ^ d & e", "(< a (| b (^ c (& d e))))"),
        ("a & b << c + d", "(& a (<< b (+ c d)))"),
        ("a || b && c == d < e", "(|| a (&& b (== c (< d e))))"),
        ("a ++ b + c |+| d |-| e", "(|-| (|+| (+ (++ a b) c) d) e)"),
        ("a >> b >> c", "(>> (>> a b) c)"),
        ("a * b / c % d", "(% (/ (* a b) c) d)"),
        ("a >= b != c <= d", "(!= (>= a b) (<= c d))"),
        ("a ? b : c ? d : e", "(? a b (? c d e))"),
        ("a ? b ? c : d : e", "(? a (? b c d) e)"),
        ("-a[3:0] + ~b.c", "(+ (- ([:] a 3 0)) (~ (. b c)))"),
        ("!!a && - - b", "(&& (! (! a)) (- (- b)))"),
        ("(a + b) * c", "(* (+ a b) c)"),
        ("- 8w1", "(- 8w1)"),
        # angle brackets: arguments only before a type's name, and only when ( follows them
        ("a < b > (c)", "(> (< a b) c)"),
        ("a < T > (c)", "(call a <T> c)"),
        ("a < E.a", "(< a (. <E> a))"),
        ("a < (bit<8>) b", "(< a (cast bit<8> b))"),
        ("f<bit<8>>(a)", "(call f <bit<8>> a)"),
        ("f<tuple<bit<8>, T>, _>()", "(call f <tuple<bit<8>,T>> <_>)"),
        ("p.lookahead<bit<4>>()[3:2]", "([:] (call (. p lookahead) <bit<4>>) 3 2)"),
        ("p.f<G<G<T>>>(a) >> 2", "(>> (call (. p f) <G<G<T>>> a) 2)"),
        # casts and parentheses
        ("(bit<8>) a + b", "(+ (cast bit<8> a) b)"),
        ("(T) a.b[1]", "(cast T ([] (. a b) 1))"),
        ("(int<W + 1>) -a", "(cast fixint<(+ W 1)> (- a))"),
        ("(bit<(W > 2 ? 8 : 4)>) a", "(cast bit<(? (> W 2) 8 4)> a)"),
        ("(a) + b", "(+ a b)"),
        ("(a)(b)", "(call a b)"),
        ("(E.a == b)", "(== (. <E> a) b)"),
        ("(error.NoError != a)", "(!= (. <error> NoError) a)"),
        ("(bool)(bit<1>) a", "(cast bool (cast bit<1> a))"),
        ("(G<T>) { 1, 2 }", "(cast G<T> {1 2})"),
        ("(list<T>) { { 1 } }", "(cast list<T> {{1}})"),
        # calls and constructors
        ("f(a, b = 1, c = _, _)", "(call f a b=1 c=_ _)"),
        ("G<T>(1)", "(call <G<T>> 1)"),
        ("G<bit<8>>(1)", "(call <G<bit<8>>> 1)"),
        ("T.f(1).g", "(. (call (. <T> f) 1) g)"),
        ("G<T>.f()", "(call (. <G<T>> f))"),
        (".a.b + .T.c", "(+ (. .a b) (. <.T> c))"),
        ("this.f()", "(call (. this f))"),
        # the rest
        ("a[1] ++ a[i + 1:i] ++ a[i +: 4]", "(++ (++ ([] a 1) ([:] a (+ i 1) i)) ([+:] a i 4))"),
        ("{ 1, { a, b }, }", "{1 {a b}}"),
        ("{ x = 1, y = { z = 2 } }", "{x=1 y={z=2}}"),
        ("{ 1, ... }", "{1 ...}"),
        ("{ x = 1, ... }", "{x=1 ...}"),
        ("{ ... }", "{...}"),
        ("{ }", "{}"),
        ("{#}", "{#}"),
        ("...", "_"),
        ('"a" "\\"b"', "'a\"b'"),
        ("true && false", "(&& true false)"),
        # contextual keywords are names
        ("key.actions + state[entries] - type", "(- (+ (. key actions) ([] state entries)) type)"),
        ("apply(priority, list)", "(call apply priority list)"),
        ("list < b", "(< list b)"),
    ],
)
def test_expressions(text: str, tree: str) -> None:
    assert show(expr(text)) == tree


def test_a_local_name_hides_a_type() -> None:
    assert show(expr("(T) - 1")) == "(cast T (- 1))"
    control = only(TYPES + "control C(in bit<8> T) { bit<8> r; apply { r = (T) - 1; } }")
    assert show(control.body.body[0].value) == "(- T 1)"


def test_literals_keep_radix_and_spelling() -> None:
    assert expr("8w0x0F") == ast.IntLit(
        span=None,
        value=15,
        width=8,
        signed=False,
        radix=16,
        text="8w0x0F",  # type: ignore[arg-type]
    )
    assert (expr("4s0b0_1").signed, expr("4s0b0_1").radix) == (True, 2)


def test_spans_cover_what_was_written() -> None:
    value = only("const int k =\n  a + bc[1];").value
    assert (value.span.line, value.span.column, value.span.length) == (2, 3, 9)
    assert (value.right.span.column, value.right.span.length) == (7, 5)


# --- types and declarations -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "tree"),
    [
        ("bit", "bit<1>"),
        ("bit<8>", "bit<8>"),
        ("bit<W * 2>", "bit<(* W 2)>"),
        ("bit<(W >> 1)>", "bit<(>> W 1)>"),
        ("int", "int"),
        ("int<16>", "fixint<16>"),
        ("varbit<320>", "varbit<320>"),
        ("bool", "bool"),
        ("error", "error"),
        ("string", "string"),
        ("match_kind", "match_kind"),
        ("H[4][2]", "H[4][2]"),
        ("tuple<bit<8>, bool>", "tuple<bit<8>,bool>"),
        ("tuple<>", "tuple<>"),
        ("list<G<G<bit<8>>>>", "list<G<G<bit<8>>>>"),
        ("G<_>", "G<_>"),
        (".H", ".H"),
    ],
)
def test_types(written: str, tree: str) -> None:
    struct = only(f"{TYPES}struct S {{ {written} f; }}")
    assert show(struct.fields[0].type) == tree


def test_structs_headers_unions() -> None:
    union = only(TYPES + "@u header_union U { @f(1) H a; H b; }")
    assert (union.kind, union.name, [f.name for f in union.fields]) == (
        "header_union", "U", ["a", "b"],
    )  # fmt: skip
    assert [a.name for a in union.annotations + union.fields[0].annotations] == ["u", "f"]
    generic = only("struct S<A, B> { A x; B[2] y; bit<8> z[3]; }")
    assert generic.type_params == ("A", "B")
    assert [show(f.type) for f in generic.fields] == ["A", "B[2]", "bit<8>[3]"]


def test_enums() -> None:
    plain = only("enum E { a, b, }")
    assert (plain.underlying, [m.name for m in plain.members]) == (None, ["a", "b"])
    valued = only("enum bit<4> E { a = 1, b = 1 + 1 }")
    assert show(valued.underlying) == "bit<4>"
    assert [(m.name, show(m.value)) for m in valued.members] == [("a", "1"), ("b", "(+ 1 1)")]


def test_type_names() -> None:
    alias, new, inline, named = decls(
        "typedef bit<9> P; type P Q; typedef struct S { bit<8> a; } R;"
    )
    assert (alias.is_new, new.is_new, show(new.type)) == (False, True, "P")  # type: ignore[attr-defined]
    assert (inline.name, named.name, show(named.type)) == ("S", "R", "S")  # type: ignore[attr-defined]


def test_error_and_match_kind() -> None:
    error, kinds = decls("error { A, B } match_kind { exact, mine, }")
    assert isinstance(error, ast.ErrorDecl)
    assert isinstance(kinds, ast.MatchKindDecl)
    assert (error.members, kinds.members) == (("A", "B"), ("exact", "mine"))


def test_externs() -> None:
    obj = only("extern X<A> { X(bit<8> n); abstract B f<B>(in A a, out B b); void g(); }")
    make, generic, plain = obj.methods
    assert (make.name, make.result, make.params[0].name) == ("X", None, "n")
    assert (generic.abstract, generic.type_params, show(generic.result)) == (True, ("B",), "B")
    assert [(p.direction, show(p.type)) for p in generic.params] == [("in", "A"), ("out", "B")]
    assert show(plain.result) == "void"
    function = only("extern A f<A, B>(inout A x, @optional in B y, in bit<8> z = 3);")
    assert (function.name, function.body) == ("f", None)
    assert [p.optional for p in function.signature.params] == [False, True, False]
    assert show(function.signature.params[2].default) == "3"
    assert only("extern F;").methods == ()


def test_functions_may_return_their_own_type_parameters() -> None:
    function = only("tuple<A> f<A>(in A x) { return { x }; }")
    assert show(function.signature.result) == "tuple<A>"
    assert show(function.body.body[0].value) == "{x}"


def test_packages_and_instances() -> None:
    source = TYPES + "package P<A>(G<A> g, @optional T t); @x P(G<T>(), t = _) main;"
    package, main = decls(source)[-2:]
    assert [p.name for p in package.params] == ["g", "t"]  # type: ignore[attr-defined]
    assert isinstance(main, ast.Instance)
    assert (main.name, show(main.type), main.annotations[0].name) == ("main", "P", "x")
    assert [(a.name, a.value and show(a.value)) for a in main.args] == [
        (None, "(call <G<T>>)"), ("t", None),
    ]  # fmt: skip


def test_instances_with_methods() -> None:
    inst = only(TYPES + "G<T>() g = { bit<8> f(in bit<8> x) { return x; } G<H>() inner; };")
    function, inner = inst.body
    assert (function.signature.name, show(function.signature.result)) == ("f", "bit<8>")
    assert (inner.name, show(inner.type)) == ("inner", "G<H>")


def test_unicode_in_comments_and_strings() -> None:
    assert expr('"grün" /* наука */ // 日本\n').value == "grün"


# --- annotations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "name", "body", "tokens"),
    [
        ("@hidden", "hidden", None, ()),
        ("@a()", "a", "", ()),
        ('@name("x.y")', "name", '"x.y"', ("x.y",)),
        ("@a(b::c ! (d [) $ 'é' == 8w1)", "a", "b::c ! (d [) $ 'é' == 8w1",
         ("b", ":", ":", "c", "!", "(", "d", "[", ")", "$", "'", "é", "'", "==", "8w1")),
        ('@a("x"\n   "y", z)', "a", '"x" "y", z', ("xy", ",", "z")),
        ('@a("\n // kept\n")', "a", '"\n // kept\n"', ("\n // kept\n",)),
        ("@pragma p q 1\n", "p", "q 1", ("q", "1")),
        ("@action(x)", "action", "x", ("x",)),
        ("@ spaced (x)", "spaced", "x", ("x",)),
    ],
)  # fmt: skip
def test_annotations(written: str, name: str, body: str | None, tokens: tuple[str, ...]) -> None:
    [found] = only(f"{written} const int k = 1;").annotations
    assert (found.name, found.body, found.tokens, found.structured) == (name, body, tokens, False)


def test_structured_annotations() -> None:
    pairs, exprs, empty = only(
        '@p[k = 1 + 2, l = "s"] @e[1, x, ] @n[] const int k = 1;'
    ).annotations
    assert [(k, show(v)) for k, v in pairs.pairs] == [("k", "(+ 1 2)"), ("l", "'s'")]
    assert (pairs.structured, pairs.exprs, pairs.body) == (True, (), 'k = 1 + 2, l = "s"')
    assert [show(e) for e in exprs.exprs] == ["1", "x"]
    assert (empty.structured, empty.exprs, empty.pairs) == (True, (), ())


def test_macros_are_expanded_in_annotations() -> None:
    [found] = only("#define ID 0x01000001\n@id(ID) const int k = 1;").annotations
    assert found.tokens == ("0x01000001",)


# --- statements -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "op"),
    [("=", ""), ("+=", "+"), ("-=", "-"), ("*=", "*"), ("/=", "/"), ("%=", "%"), ("&=", "&"),
     ("|=", "|"), ("^=", "^"), ("<<=", "<<"), (">>=", ">>"), ("|+|=", "|+|"), ("|-|=", "|-|")],
)  # fmt: skip
def test_assignments(written: str, op: str) -> None:
    [assign] = stmts(f"h.f[i][3:0] {written} b >> 1;")
    assert isinstance(assign, ast.Assign)
    assert (show(assign.target), assign.op, show(assign.value)) == (
        "([:] ([] (. h f) i) 3 0)", op, "(>> b 1)",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "call"),
    [
        ("f();", "(call f)"),
        ("t.apply();", "(call (. t apply))"),
        ("T.apply(h, 1);", "(call (. <T> apply) h 1)"),
        ("G<T>.apply();", "(call (. <G<T>> apply))"),
        ("p.extract<H>(h);", "(call (. p extract) <H> h)"),
        ("hash<bit<8>, _>(a, { b });", "(call hash <bit<8>> <_> a {b})"),
        ("h.s.push_front(1);", "(call (. (. h s) push_front) 1)"),
        (".f(a);", "(call .f a)"),
    ],
)
def test_call_statements(written: str, call: str) -> None:
    [stmt] = stmts(written)
    assert isinstance(stmt, ast.CallStmt)
    assert show(stmt.call) == call


@pytest.mark.parametrize(
    ("written", "kind", "name", "tree"),
    [
        ("bit<8> x;", ast.VarDecl, "x", "bit<8>"),
        ("@a T x = { 1 };", ast.VarDecl, "x", "T"),
        ("G<T> x;", ast.VarDecl, "x", "G<T>"),
        ("H[3] x;", ast.VarDecl, "x", "H[3]"),
        ("H x[3];", ast.VarDecl, "x", "H[3]"),
        ("tuple<T> x;", ast.VarDecl, "x", "tuple<T>"),
        ("error key;", ast.VarDecl, "key", "error"),
        ("const bit<8> x = 1;", ast.ConstDecl, "x", "bit<8>"),
        ("G<bit<8>>(4) x;", ast.Instance, "x", "G<bit<8>>"),
        (".T x;", ast.VarDecl, "x", ".T"),
    ],
)
def test_declarations_among_statements(
    written: str, kind: type[ast.Decl], name: str, tree: str
) -> None:
    [stmt] = stmts(written)
    assert isinstance(stmt, ast.DeclStmt)
    assert isinstance(stmt.decl, kind)
    assert (stmt.decl.name, show(stmt.decl.type)) == (name, tree)


def test_if_chains_nest_to_the_right() -> None:
    [outer] = stmts("if (a) x = 1; else if (b) { } else if (c) ; else { y(); }")
    middle, inner = outer.other, outer.other.other
    assert [show(i.cond) for i in (outer, middle, inner)] == ["a", "b", "c"]
    assert isinstance(outer.then, ast.Assign)
    assert isinstance(middle.then, ast.Block)
    assert isinstance(inner.then, ast.Empty)
    assert isinstance(inner.other, ast.Block)


def test_a_dangling_else_belongs_to_the_nearer_if() -> None:
    [outer] = stmts("if (a) if (b) ; else exit;")
    assert outer.other is None
    assert isinstance(outer.then.other, ast.Exit)


def test_switch() -> None:
    [switch] = stmts("switch (t.apply().action_run) { a: b: { f(); } 8w1 + 1: { } default: { } }")
    assert show(switch.subject) == "(. (call (. t apply)) action_run)"
    labels = [(show(c.label), c.body is None) for c in switch.cases]
    assert labels == [("a", True), ("b", False), ("(+ 8w1 1)", False), ("_", False)]


def test_loops() -> None:
    counted, bare, ranged, listed = stmts(
        "for (bit<8> i = 0, j = 1; i < 4; i += 1, f()) { break; continue; }"
        "for (; x; ) ;"
        "for (bit<8> i in a + 1 .. 9) g(i);"
        "for (H h in hs) { }"
    )
    assert [type(s).__name__ for s in counted.init + counted.update] == [
        "DeclStmt", "Assign", "Assign", "CallStmt",
    ]  # fmt: skip
    assert (show(counted.cond), len(counted.body.body)) == ("(< i 4)", 2)
    assert (bare.init, bare.update, show(bare.cond)) == ((), (), "x")
    assert (show(ranged.type), ranged.name, show(ranged.collection)) == (
        "bit<8>", "i", "(.. (+ a 1) 9)",
    )  # fmt: skip
    assert (show(listed.type), show(listed.collection)) == ("H", "hs")


def test_jumps_blocks_and_empties() -> None:
    kinds = [type(s).__name__ for s in stmts("; exit; return; return a; { } @atomic { ; }")]
    assert kinds == ["Empty", "Exit", "Return", "Return", "Block", "Block"]
    assert stmts("@atomic { }")[0].annotations[0].name == "atomic"


# --- parsers --------------------------------------------------------------------------------------


def test_parsers() -> None:
    parser = only(
        TYPES
        + """
        @p parser P<A>(G<A> g, out H h)(bit<8> n, bool b) {
            const bit<8> k = 1; bit<8> v = 2; G<T>() sub; value_set<tuple<bit<8>, T>>(4) vs;
            state start { h.x = 1; bit<8> y; { ; } if (b) { f(); } else ; transition next; }
            @s state next { transition select(h.x, y) {
                (1, 2): a; (1 &&& 3, _): b; (4 .. 5, default): c; vs: start;
                (k): d; (bit<8>) 3: d; (1 + 2) * 3 &&& 7: d; default: reject; } }
            state key { }
        }"""
    )
    assert parser.type_params == ("A",)
    assert [p.name for p in parser.constructor_params] == ["n", "b"]
    assert [type(d).__name__ for d in parser.locals] == [
        "ConstDecl", "VarDecl", "Instance", "ValueSetDecl",
    ]  # fmt: skip
    assert show(parser.locals[3].type) == "tuple<bit<8>,T>"
    start, following, empty = parser.states
    assert [type(s).__name__ for s in start.body] == ["Assign", "DeclStmt", "Block", "If"]
    assert (start.transition, empty.transition, empty.name) == ("next", None, "key")
    assert [show(e) for e in following.transition.exprs] == ["(. h x)", "y"]
    cases = [([show(k) for k in c.keys], c.state) for c in following.transition.cases]
    assert cases == [
        (["1", "2"], "a"),
        (["(&&& 1 3)", "_"], "b"),
        (["(.. 4 5)", "_"], "c"),
        (["vs"], "start"),
        (["k"], "d"),
        (["(cast bit<8> 3)"], "d"),
        (["(&&& (* (+ 1 2) 3) 7)"], "d"),
        (["_"], "reject"),
    ]


def test_parser_and_control_types_have_no_body() -> None:
    parser, control = decls("parser P<H>(out H h); control C(in bit<8> x);")
    assert isinstance(parser, ast.ParserDecl)
    assert isinstance(control, ast.ControlDecl)
    assert (parser.states, control.body) == (None, None)


# --- controls and tables --------------------------------------------------------------------------


def test_controls() -> None:
    control = only(
        TYPES
        + """
        control C(inout H h)(bit<8> n) {
            const bit<8> k = 1; bit<8> apply; @a action act(in bit<8> x, bit<8> y) { h.f = x; }
            G<T>(n) g; table t { actions = { act; } } apply { t.apply(); }
        }"""
    )
    assert [(type(d).__name__, d.name) for d in control.locals] == [
        ("ConstDecl", "k"), ("VarDecl", "apply"), ("ActionDecl", "act"), ("Instance", "g"),
        ("TableDecl", "t"),
    ]  # fmt: skip
    assert [p.direction for p in control.locals[2].params] == ["in", ""]
    assert show(control.body.body[0].call) == "(call (. t apply))"


def test_tables() -> None:
    table = only(
        TYPES
        + """
        control C(inout H h) { @id(7) table t {
            key = { h.a : exact @name("x") @y; h.b & 0xF : ternary; h.isValid() : my_kind; }
            actions = { @defaultonly a; b(1, 2); .c; @tableonly d(); }
            size = 1 << 10;
            const default_action = b(1);
            @p implementation = G<T>(4);
            largest_priority_wins = false;
            const entries = {
                (1, 2 &&& 3, _) : a;
                const priority = 10 : (0x1, _, true) : b(1) @e;
                priority = (5 + 1) : (4 .. 5, default, false) : .c();
            }
        } apply { } }"""
    ).locals[0]
    assert table.annotations[0].tokens == ("7",)
    assert [(show(k.expr), k.match_kind, [a.name for a in k.annotations]) for k in table.keys] == [
        ("(. h a)", "exact", ["name", "y"]),
        ("(& (. h b) 0xF)", "ternary", []),
        ("(call (. h isValid))", "my_kind", []),
    ]
    assert [(a.name, a.absolute, a.args and len(a.args)) for a in table.actions] == [
        ("a", False, None), ("b", False, 2), ("c", True, None), ("d", False, ()),
    ]  # fmt: skip
    assert [(p.name, p.is_const, show(p.value)) for p in table.properties] == [
        ("size", False, "(<< 1 10)"),
        ("default_action", True, "(call b 1)"),
        ("implementation", False, "(call <G<T>> 4)"),
        ("largest_priority_wins", False, "false"),
    ]
    assert table.properties[2].annotations[0].name == "p"
    assert table.entries_const
    entries = [
        ([show(k) for k in e.keys], e.action.name, e.priority and show(e.priority), e.is_const)
        for e in table.entries
    ]
    assert entries == [
        (["1", "(&&& 2 3)", "_"], "a", None, False),
        (["0x1", "_", "true"], "b", "10", True),
        (["(.. 4 5)", "_", "false"], "c", "(+ 5 1)", False),
    ]
    assert table.entries[1].annotations[0].name == "e"
    assert table.entries[2].action.absolute


def test_a_table_without_key_or_entries() -> None:
    source = "control C() { table t { actions = { } entries = { } } apply { } }"
    table = only(source).locals[0]
    assert (table.keys, table.actions, table.entries, table.entries_const) == (None, (), (), False)
    source = "control C() { table t { key = { } actions = { a; } } apply { } }"
    table = only(source).locals[0]
    assert (table.keys, table.entries) == ((), None)


# --- the compiler's own includes ------------------------------------------------------------------


def test_core_declares_what_the_specification_lists() -> None:
    program, sources = parse_program("#include <core.p4>", "m.p4")
    by_kind: dict[str, list[str]] = {}
    for decl in program.decls:
        names = getattr(decl, "members", None) or [decl.name]
        by_kind.setdefault(type(decl).__name__, []).extend(names)
    assert by_kind == {
        "ErrorDecl": ["NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort",
                      "ParserTimeout", "ParserInvalidArgument"],
        "ExternDecl": ["packet_in", "packet_out"],
        "FunctionDecl": ["verify", "static_assert", "static_assert"],
        "ActionDecl": ["NoAction"],
        "MatchKindDecl": ["exact", "ternary", "lpm"],
    }  # fmt: skip
    assert sources.is_builtin(program.decls[0].span)
    assert str(program.decls[0].span).startswith("<builtin>/core.p4:")


#: standard_metadata_t: field and width, in the order that P4Info and tools depend on.
STANDARD_METADATA = [
    ("ingress_port", "9"), ("egress_spec", "9"), ("egress_port", "9"), ("instance_type", "32"),
    ("packet_length", "32"), ("enq_timestamp", "32"), ("enq_qdepth", "19"),
    ("deq_timedelta", "32"), ("deq_qdepth", "19"), ("ingress_global_timestamp", "48"),
    ("egress_global_timestamp", "48"), ("mcast_grp", "16"), ("egress_rid", "16"),
    ("checksum_error", "1"), ("parser_error", "error"), ("priority", "3"),
]  # fmt: skip

EXTERN_OBJECTS = {
    "counter", "direct_counter", "meter", "direct_meter", "register", "action_profile",
    "action_selector", "Checksum16", "packet_in", "packet_out",
}  # fmt: skip

EXTERN_FUNCTIONS = [
    "verify", "static_assert", "static_assert", "random", "digest", "mark_to_drop", "mark_to_drop",
    "hash", "verify_checksum", "update_checksum", "verify_checksum_with_payload",
    "update_checksum_with_payload", "clone", "resubmit", "resubmit_preserving_field_list",
    "recirculate", "recirculate_preserving_field_list", "clone3", "clone_preserving_field_list",
    "truncate", "assert", "assume", "log_msg", "log_msg",
]  # fmt: skip


@pytest.mark.parametrize("version", [None, "20200408"])
def test_v1model_declares_the_architecture(version: str | None) -> None:
    defines = {"V1MODEL_VERSION": version} if version else {}
    found = decls("#include <v1model.p4>", defines=defines)
    named = {d.name: d for d in found}
    externs = {d.name for d in found if isinstance(d, ast.ExternDecl)}
    functions = [d.name for d in found if isinstance(d, ast.FunctionDecl)]
    assert (externs, functions) == (EXTERN_OBJECTS, EXTERN_FUNCTIONS)
    fields: Any = named["standard_metadata_t"]
    port = "PortId_t" if version else "bit<9>"
    assert [(f.name, show(f.type).replace(port, "port")) for f in fields.fields] == [
        (name, {"9": "port", "error": "error"}.get(width, f"bit<{width}>"))
        for name, width in STANDARD_METADATA
    ]
    register: Any = named["register"]
    assert register.type_params == (("T", "I") if version else ("T",))
    assert ("PortId_t" in named) is bool(version)
    version_constant: Any = named["__v1model_version"]
    assert show(version_constant.value) == (version or "20180101")
    package: Any = named["V1Switch"]
    assert [p.name for p in package.params] == ["p", "vr", "ig", "eg", "ck", "dep"]


def test_v1model_enums() -> None:
    enums = {d.name: [m.name for m in d.members] for d in decls("#include <v1model.p4>")
             if isinstance(d, ast.EnumDecl)}  # fmt: skip
    assert enums == {
        "CounterType": ["packets", "bytes", "packets_and_bytes"],
        "MeterType": ["packets", "bytes"],
        "HashAlgorithm": ["crc32", "crc32_custom", "crc16", "crc16_custom", "random", "identity",
                          "csum16", "xor16"],
        "CloneType": ["I2E", "E2E"],
    }  # fmt: skip


def test_source_map_knows_lines_and_files() -> None:
    _, sources = parse_program("#include <core.p4>\nconst int k = 1;", "m.p4")
    assert sources.main == "m.p4"
    assert sources.files == ("m.p4", "<builtin>/core.p4")
    program, sources = parse_program("\nconst int k = 1;", "m.p4")
    assert sources.line_text(program.decls[0].span) == "const int k = 1;"
    assert not sources.is_builtin(program.decls[0].span)
