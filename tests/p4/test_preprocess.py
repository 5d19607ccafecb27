"""The preprocessor: directives, macros, includes, and where every token is said to stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglb.p4.preprocess import Preprocessor
from sglb.p4.source import P4Error, P4Errors, read_program


def texts(source: str, filename: str = "main.p4", **options: object) -> str:
    tokens = Preprocessor(source, filename, **options).tokens()  # type: ignore[arg-type]
    return " ".join(t.text for t in tokens)


def failure(source: str, filename: str = "main.p4", **options: object) -> P4Error:
    with pytest.raises(P4Error) as caught:
        texts(source, filename, **options)
    return caught.value


# --- macros ---------------------------------------------------------------------------------------

# The examples of the C standard (C11, 6.10.3.5), with the results it gives.
STANDARD = """\
#define x 3
#define f(a) f(x * (a))
#undef x
#define x 2
#define g f
#define z z[0]
#define h g(~
#define m(a) a(w)
#define w 0,1
#define t(a) a
#define p() int
#define q(x) x
#define r(x,y) x ## y
#define str(x) # x
"""


@pytest.mark.parametrize(
    ("use", "result"),
    [
        ("f(y+1) + f(f(z)) % t(t(g)(0) + t)(1);",
         "f(2*(y+1))+f(2*(f(2*(z[0]))))%f(2*(0))+t(1);"),
        ("g(x+(3,4)-w) | h 5) & m\n(f)^m(m);",
         "f(2*(2+(3,4)-0,1))|f(2*(~5))&f(2*(0,1))^m(0,1);"),
        ("p() i[q()] = { q(1), r(2,3), r(4,), r(,5), r(,) };", "inti[]={1,23,4,5,};"),
        ("str(hello) str() str( a  +\n b )", '"hello""""a + b"'),
        ('str("a\\n" // c\n)', '"\\"a\\\\n\\""'),
    ],
)  # fmt: skip
def test_examples_of_the_c_standard(use: str, result: str) -> None:
    assert texts(STANDARD + use).replace(" ", "") == result.replace(" ", "")


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("#define N 8w4\nbit<N> a;", "bit < 8w4 > a ;"),
        ("#define EMPTY\na EMPTY b", "a b"),
        ("#define F(x) [x]\nF (1) F", "[ 1 ] F"),
        ("#define F (x)\nF", "( x )"),
        ("#define F(x) x+x\nF((1,2))", "( 1 , 2 ) + ( 1 , 2 )"),
        ("#define F(...) f(__VA_ARGS__)\nF() F(1) F(1,2)", "f ( ) f ( 1 ) f ( 1 , 2 )"),
        ("#define F(a, ...) f(a, ## __VA_ARGS__)\nF(1) F(1,2,3)", "f ( 1 ) f ( 1 , 2 , 3 )"),
        ("#define F(a, rest...) a rest\nF(1,2,3)", "1 2 , 3"),
        ("#define W(n) n ## w0 ## x1F\nW(8)", "8w0x1F"),
        ("#define ID(a, b) a ## _ ## b\n#define X y\nID(X, X)", "X_X"),
        ("#define A B\n#define B A\nA B", "A B"),
        ("#define F(x) F(x)\nF(F(1))", "F ( F ( 1 ) )"),
        ("#define A 1 \\\n  + 2\nA;", "1 + 2 ;"),
        ("#define A 1 // one\n#define B 2 /* two\n lines */\nA B", "1 2"),
        ("#define A 1\n#undef A\nA", "A"),
        ("#define A 1\n\"A // A\" A", '"A // A" 1'),
        ("#  define A 1\n  # undef B\n#\nA", "1"),
        ("#define S(x) @name(#x)\nS(a b)", '@ name ( "a b" )'),
        ("a\r\n#define A 1\r\nA", "a 1"),
        ("\ufeff#define A 1\nA", "1"),
        ("__LINE__\n__LINE__ __FILE__", '1 2 "main.p4"'),
        ("#define L __LINE__\n\nL", "3"),
        ("#pragma don't \"care\na", "a"),
        ("{#}", "{#}"),
    ],
)  # fmt: skip
def test_macros(source: str, result: str) -> None:
    assert texts(source) == result


def test_an_identical_redefinition_is_silent_and_another_warns() -> None:
    quiet = Preprocessor("#define A 1 + 2\n#define A  1 + 2\nA", "m.p4")
    quiet.tokens()
    assert quiet.sources.warnings == []
    loud = Preprocessor("#define A 1\n  #define A 2\nA", "m.p4")
    assert [t.text for t in loud.tokens()] == ["2"]
    [warning] = loud.sources.warnings
    assert str(warning).splitlines() == [
        "m.p4:2:11: warning: macro 'A' is defined anew (before: m.p4:1:9)",
        "    #define A 2",
        "            ^",
    ]


def test_tokens_stand_where_the_user_wrote_them() -> None:
    source = "#define TWICE(x) x + x\n\n  a = TWICE( bc )\n;/* c\n*/ d \\\n e"
    tokens = Preprocessor(source, "m.p4").tokens()
    places = [(t.text, t.line, t.column, t.length) for t in tokens]
    assert places == [
        ("a", 3, 3, 1),
        ("=", 3, 5, 1),
        ("bc", 3, 14, 2),
        ("+", 3, 7, 5),  # out of the macro's body: where TWICE was used
        ("bc", 3, 14, 2),
        (";", 4, 1, 1),
        ("d", 5, 4, 1),
        ("e", 6, 2, 1),
    ]
    assert tokens[3].macro == "TWICE"
    assert tokens[0].macro == ""


@pytest.mark.parametrize(
    ("source", "message", "line", "column"),
    [
        ("#define F(a) a\n F(1, 2)", "macro 'F' takes 1 argument(s), 2 given", 2, 2),
        ("#define F(a, b, ...) a\nF(1)", "macro 'F' takes at least 2 argument(s), 1 given", 2, 1),
        ("#define F(a) a\n F(1, (2)", "the arguments of macro 'F' are never closed", 2, 2),
        ("#define F(a a", "the parameters of macro 'F' are never closed", 1, 9),
        ("#define F(a,) a", "the parameters of macro 'F' are malformed", 1, 9),
        ("#define F(..., a) a", "the parameters of macro 'F' are malformed", 1, 9),
        ("#define F(a, a) a", "'a' cannot be a parameter here", 1, 14),
        ("#define F(a) #b", "'#' needs a parameter of the macro after it", 1, 14),
        ("#define A ## b", "'##' needs a token on both sides", 1, 11),
        ("#define A a ##", "'##' needs a token on both sides", 1, 13),
        ("#define A + ## ;\nA", "'##' joins '+' and ';' to '+;', which is not one token", 2, 1),
        ("#define 1 2", "'1' cannot be a macro's name", 1, 9),
        ("#define defined 2", "'defined' cannot be a macro's name", 1, 9),
        ("#define", "#define needs a name", 1, 2),
        ('#define A "x', "this string is never closed", 1, 11),
        ('#define A "x\n"', "this string is not closed on the directive's line", 1, 11),
        ("a /* b", "this comment is never closed", 1, 3),
        ("#defien A", "unknown directive #defien", 1, 2),
        ("#error no  such\tluck", "#error no  such\tluck", 1, 2),
        ("#line x", "#line needs a number, then maybe a file name in quotes", 1, 2),
    ],
)
def test_malformed_macros_and_directives(source: str, message: str, line: int, column: int) -> None:
    error = failure(source)
    assert (error.message, error.span.line, error.span.column) == (message, line, column)


def test_a_misspelt_directive_names_its_neighbour() -> None:
    assert failure("#defien A").hint == "did you mean #define?"


def test_macros_that_grow_without_bound_are_stopped() -> None:
    levels = "".join(f"#define A{n + 1} A{n} A{n}\n" for n in range(40))
    assert "macros produce more than" in failure(f"#define A0 x\n{levels}A40").message
    doubling = "#define F(x) x x\n" + "F(" * 40 + "1" + ")" * 40
    assert "macros produce more than" in failure(doubling).message
    deep = "#define F(x) x\n" + "F(" * 3000 + "1" + ")" * 3000
    assert "nested more than" in failure(deep).message


def test_a_long_chain_of_macros_is_fine() -> None:
    chain = "".join(f"#define A{n + 1} A{n}\n" for n in range(1500))
    assert texts(f"#define A0 7\n{chain}A1500") == "7"


# --- conditions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        ("1 + 2 * 3 == 7", True),
        ("(1 + 2) * 3 == 7", False),
        ("10 - 4 - 3 == 3", True),
        ("-7 / 2 == -3 && -7 % 2 == -1 && 7 / -2 == -3 && 7 % -2 == 1", True),
        ("0x1F == 31 && 010 == 8 && 0b101 == 5 && 10UL == 10", True),
        ("(5 & 3 | 8 ^ 1) == 9", True),
        ("1 << 4 == 16 && 256 >> 4 == 16", True),
        ("~0 == -1 && !0 && !!5 == 1 && - -1 == +1", True),
        ("1 << 63 < 0", True),  # 64 bits, as in C
        ("1 << 64", False),
        ("9223372036854775807 + 1 < 0", True),
        ("4 > 3 > 2", False),
        ("1 ? 0 : 1", False),
        ("0 ? 0 : 0 ? 0 : 5", True),
        ("0 && 1 / 0", False),
        ("1 || 1 / 0", True),
        ("1 ? 2 : 1 / 0", True),
        ("UNKNOWN", False),
        ("defined SET && defined(SET) && !defined UNSET", True),
        ("SET == 3", True),
        ("PLUS(SET, 1) == 4", True),
        ("SET /* c */ > 2 // d", True),
        ("SET \\\n > 2", True),
        ("defined __LINE__ && __LINE__ == 3", True),
    ],
)
def test_condition_arithmetic(condition: str, truth: bool) -> None:
    source = f"#define SET 3\n#define PLUS(a, b) a + b\n#if {condition}\nyes\n#else\nno\n#endif"
    assert texts(source) == ("yes" if truth else "no")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("#if 1 / 0\n#endif", "division by zero in this condition"),
        ("#if 8w1\n#endif", "'8w1' is not an integer that a condition can use"),
        ("#if 1 +\n#endif", "this condition ends too early"),
        ("#if (1\n#endif", "expected ')' in this condition"),
        ("#if 1 2\n#endif", "unexpected '2' in this condition"),
        ('#if "a"\n#endif', "'\"a\"' cannot stand in a condition"),
        ("#if\n#endif", "#if needs a condition"),
        ("#ifdef\n#endif", "#ifdef needs a name"),
        ("#if defined(\n#endif", "'defined(' needs a name and ')'"),
        ("#if 1\na", "this #if has no #endif"),
        ("#if 0\na", "this #if has no #endif"),
        ("#if 0\n#else\n#else\n#endif", "#else after #else"),
        ("#if 1\n#else\n#elif 1\n#endif", "#elif after #else"),
        ("#endif", "#endif without #if"),
        ("#else", "#else without #if"),
    ],
)
def test_malformed_conditions(source: str, message: str) -> None:
    assert failure(source).message == message


@pytest.mark.parametrize(("value", "branch"), [("1", "one"), ("2", "two"), ("3", "else")])
def test_one_branch_of_a_chain_is_taken(value: str, branch: str) -> None:
    source = (
        f"#if {value} == 1\none\n#elif {value} == 2\ntwo\n#elif {value} < 3\nnever\n"
        "#else // d\nelse\n#endif /* c */\nafter"
    )
    assert texts(source) == f"{branch} after"


def test_skipped_text_may_be_anything() -> None:
    skipped = (
        "#if 0\n#if 1\n#else\n#endif\n don't 'stop' \"here\n/*\n#endif\n*/ // /* \n#error no\n"
        "#nonsense\n#elif 0 // c\n#include <nowhere>\n#endif\nend"
    )
    assert texts(skipped) == "end"


def test_ifdef_and_its_alternatives() -> None:
    source = (
        "#ifdef A\na\n#elifdef B\nb\n#endif\n#ifndef A\nc\n#endif\n#if 0\n#elifndef B\nd\n#endif"
    )
    assert texts(source, defines={"A": ""}) == "a d"
    assert texts(source, defines={"B": ""}) == "b c"


def test_defines_come_from_outside() -> None:
    assert texts("N M", defines={"N": "8w4", "M": "(N + 1)"}) == "8w4 ( 8w4 + 1 )"
    error = failure("", defines={"1x": "2"})
    assert error.message == "'1x' cannot be defined as a macro"


# --- strings --------------------------------------------------------------------------------------


def test_multi_line_strings_keep_what_looks_like_comments_and_macros() -> None:
    source = '#define A 1\n@x("\n  // A /* A\n  it\'s A\n") A'
    assert [t.text for t in Preprocessor(source, "m.p4").tokens()] == [
        "@", "x", "(", '"\n  // A /* A\n  it\'s A\n"', ")", "1",
    ]  # fmt: skip


def test_conditionals_on_lines_of_their_own_hold_inside_strings() -> None:
    source = (
        '#define TOR 2\n"a\n#if defined(TOR) && TOR > 1\nb\n #ifdef NONE\nc\n#else\nd\n#endif\n'
        '#elif 1\ne\n#endif\n# no directive\nf"'
    )
    [token] = Preprocessor(source, "m.p4").tokens()
    assert token.text == '"a\n\nb\n\n\n\nd\n\n\n\n\n# no directive\nf"'


@pytest.mark.parametrize(
    ("inside", "message", "line"),
    [
        ("#if 1", "this #if has no #endif in its string", 2),
        ("#endif", "#endif without #if in this string", 2),
        ("x\n  #if 1 +\n#endif", "this condition ends too early", 3),
    ],
)
def test_malformed_conditionals_inside_strings(inside: str, message: str, line: int) -> None:
    error = failure(f'"a\n{inside}\n"')
    assert (error.message, error.span.line) == (message, line)


# --- files ----------------------------------------------------------------------------------------


def test_include_search_order(tmp_path: Path) -> None:
    for directory in ("here", "first", "second"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "x.p4").write_text(f"{directory}")
    (tmp_path / "second" / "core.p4").write_text("mine")
    (tmp_path / "second" / "only.p4").write_text('#include "x.p4"\n')
    dirs = [tmp_path / "first", tmp_path / "second"]
    main = str(tmp_path / "here" / "main.p4")
    assert texts('#include "x.p4"', main, include_dirs=dirs) == "here"
    assert texts("#include <x.p4>", main, include_dirs=dirs) == "first"
    assert texts("#include <only.p4>", main, include_dirs=dirs) == "second"
    assert texts("#include <core.p4>", main, include_dirs=dirs) == "mine"
    assert texts("#include <core.p4>", main).startswith("error { NoError ,")
    assert texts('#define X <x.p4>\n#define Y "x.p4"\n#include X\n#include Y', main,
                 include_dirs=dirs) == "first here"  # fmt: skip


def test_the_compilers_own_files_include_each_other(tmp_path: Path) -> None:
    (tmp_path / "core.p4").write_text("mine")
    pre = Preprocessor("#include <v1model.p4>", "m.p4", include_dirs=[tmp_path])
    assert "mine" not in {t.text for t in pre.tokens()}
    assert pre.sources.files == ("m.p4", "<builtin>/v1model.p4", "<builtin>/core.p4")


def test_tokens_of_includes_carry_their_file(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "a.p4").write_text("\n  a\n")
    pre = Preprocessor('#include "inc/a.p4"\nb', str(tmp_path / "m.p4"))
    places = [(t.text, t.file, t.line, t.column) for t in pre.tokens()]
    inner = str(tmp_path / "inc" / "a.p4")
    assert places == [("a", inner, 2, 3), ("b", str(tmp_path / "m.p4"), 2, 1)]


def test_a_missing_file_names_the_directories_searched(tmp_path: Path) -> None:
    error = failure('\n#include "no.p4"', str(tmp_path / "m.p4"), include_dirs=[Path("/inc")])
    assert error.message == "cannot find 'no.p4'"
    assert error.hint == f"searched in {tmp_path}, /inc, <builtin>; add a directory with -I"
    assert (error.span.line, error.span.column, error.span.length) == (2, 2, 7)
    assert failure("#include <" + "a" * 5000 + ">").message.startswith("cannot find 'aaa")
    assert failure("#include <a\0b>").message.startswith("cannot find")
    assert failure("#include nothing").message == "#include needs a file"
    assert failure("#include").message == "#include needs a file"


def test_includes_that_go_in_circles(tmp_path: Path) -> None:
    (tmp_path / "a.p4").write_text('#include "b.p4"\n')
    (tmp_path / "b.p4").write_text('#include "a.p4"\n')
    error = failure('#include "a.p4"', str(tmp_path / "m.p4"))
    assert error.message.startswith("includes go round in circles or too deep")
    assert error.hint.startswith(("a.p4 -> b.p4 -> a.p4;", "b.p4 -> a.p4 -> b.p4;"))
    guarded = '#ifndef G\n#define G\n#include "g.p4"\ng\n#endif\n'
    (tmp_path / "g.p4").write_text(guarded)
    assert texts('#include "g.p4"\n#include "g.p4"', str(tmp_path / "m.p4")) == "g"


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "latin.p4").write_bytes(b"// \xe9\n")
    error = failure('#include "latin.p4"', str(tmp_path / "m.p4"))
    assert error.message == f"'{tmp_path / 'latin.p4'}' is not UTF-8 text (byte 3)"
    with pytest.raises(P4Errors, match=r"the program is not UTF-8 text \(byte 3\)"):
        read_program(tmp_path / "latin.p4")
    with pytest.raises(P4Errors, match="cannot read the program: No such file or directory"):
        read_program(tmp_path / "absent.p4")


def test_line_directives_move_what_is_reported() -> None:
    source = 'a\n#line 100 "other.p4"\nb\n c\n# 7 "third.p4" 2\nd\n#line 9\ne'
    pre = Preprocessor(source, "m.p4")
    places = [(t.text, t.file, t.line) for t in pre.tokens()]
    assert places == [
        ("a", "m.p4", 1), ("b", "other.p4", 100), ("c", "other.p4", 101), ("d", "third.p4", 7),
        ("e", "third.p4", 9),
    ]  # fmt: skip
    tokens = Preprocessor(source, "m.p4").tokens()
    assert pre.sources.line_text(tokens[2].span) == " c"
    assert pre.sources.line_text(tokens[3].span) == "d"


def test_warnings_are_collected() -> None:
    pre = Preprocessor("a\n#warning old, use b\nb", "m.p4")
    assert [t.text for t in pre.tokens()] == ["a", "b"]
    [warning] = pre.sources.warnings
    assert (warning.message, warning.span.line) == ("#warning old, use b", 2)
    assert warning.line_text == "#warning old, use b"


def test_a_backslash_at_the_end_of_a_line_may_stand_inside_a_name_or_number() -> None:
    source = "#define LONG_\\\nNAME \\\n  7\nLONG_NAME + 1\\\n2 + LONG\\\n_NAME error"
    assert texts(source) == "7 + 12 + 7 error"
    last = Preprocessor(source, "main.p4").tokens()[-1]
    assert (last.line, last.column) == (6, 7)
