"""Types and compile-time values of expressions, worked out by hand from the specification."""

from __future__ import annotations

import pytest
from check_kit import constants, in_apply, marked, one_error, run, statement_errors, warnings
from hypothesis import given
from hypothesis import strategies as st

from sglb.p4.constants import arithmetic, bounds, shift
from sglb.p4.types import BitsT

TYPES = [
    # literals
    ("8w255", "bit<8>", 255),
    ("8w0x1F", "bit<8>", 31),
    ("4s7", "int<4>", 7),
    ("true", "bool", True),
    ("0w0", "bit<0>", 0),
    # arithmetic wraps
    ("8w255 + 8w1", "bit<8>", 0),
    ("8w3 - 8w5", "bit<8>", 254),
    ("8s127 + 8s1", "int<8>", -128),
    ("8w200 |+| 8w100", "bit<8>", 255),
    ("8w3 |-| 8w5", "bit<8>", 0),
    ("8s100 |+| 8s100", "int<8>", 127),
    ("8s0 - 8s100 |-| 8s100", "int<8>", -128),
    ("8w16 * 8w16", "bit<8>", 0),
    ("8w17 / 8w5", "bit<8>", 3),
    ("8w17 % 8w5", "bit<8>", 2),
    ("b8 + b8", "bit<8>", None),
    ("b8 + 1", "bit<8>", None),
    ("1 + b8", "bit<8>", None),
    ("(1 + 2) + b8", "bit<8>", None),
    ("b8 + kind", "bit<8>", None),
    ("k + 8w1", "bit<8>", None),
    ("b8 / 4", "bit<8>", None),
    ("b16 % 64", "bit<16>", None),
    # bitwise
    ("8w12 & 8w10", "bit<8>", 8),
    ("8w12 | 8w10", "bit<8>", 14),
    ("8w12 ^ 8w10", "bit<8>", 6),
    ("~8w1", "bit<8>", 254),
    ("-8w1", "bit<8>", 255),
    ("-8s1", "int<8>", -1),
    ("+8w1", "bit<8>", 1),
    # shifts
    ("8w1 << 3", "bit<8>", 8),
    ("8w129 << 1", "bit<8>", 2),
    ("8w128 >> 8w7", "bit<8>", 1),
    ("-8s128 >> 2", "int<8>", -32),
    ("b8 << b16", "bit<8>", None),
    ("b8 >> 16w4", "bit<8>", None),
    # comparison and logic
    ("8w3 < 8w5", "bool", True),
    ("8s3 < -8s5", "bool", False),
    ("8w5 == 5", "bool", True),
    ("b8 == 5", "bool", None),
    ("3 > 2", "bool", True),
    ("b8 >= ro", "bool", None),
    ("flag && true", "bool", None),
    ("false && flag", "bool", False),
    ("true || flag", "bool", True),
    ("!false", "bool", True),
    ("color == Color.red", "bool", None),
    ("kind == Kind.tcp", "bool", None),
    ("kind == 8w6", "bool", None),
    ("kind == 6", "bool", None),
    ("err == error.NoMatch", "bool", None),
    ("s == { 1, 2 }", "bool", None),
    ("s == { y = 2, x = 1 }", "bool", None),
    ("q.h == { 1, 2 }", "bool", None),
    ("q.h == (H){#}", "bool", None),
    ("q.h == {#}", "bool", None),
    ("q.q == q.q", "bool", None),
    ("q.u == q.u", "bool", None),
    ("pair == { 1, true }", "bool", None),
    ("port == port", "bool", None),
    # concatenation and slices
    ("8w1 ++ 8w2", "bit<16>", 258),
    ("4s7 ++ 4w15", "int<8>", 127),
    ("-4s1 ++ 4w0", "int<8>", -16),
    ("b8 ++ b16", "bit<24>", None),
    ("kind ++ b8", "bit<16>", None),
    ("16w0xABCD[11:4]", "bit<8>", 0xBC),
    ("16w0xABCD[15:15]", "bit<1>", 1),
    ("(-8s1)[3:0]", "bit<4>", 15),
    ("b16[7+:4]", "bit<4>", None),
    ("16w0xABCD[4+:8]", "bit<8>", 0xBC),
    ("b16[b8+:4]", "bit<4>", None),
    ("kind[3:0]", "bit<4>", None),
    # casts
    ("(bit<4>)8w0xAB", "bit<4>", 0xB),
    ("(bit<16>)8w0xAB", "bit<16>", 0xAB),
    ("(int<8>)8w255", "int<8>", -1),
    ("(bit<8>)-8s1", "bit<8>", 255),
    ("(int<16>)-8s1", "int<16>", -1),
    ("(bool)1w1", "bool", True),
    ("(bit<1>)true", "bit<1>", 1),
    ("(bool)1", "bool", True),
    ("(bit<8>)-1", "bit<8>", 255),
    ("(Kind)8w6", "Kind", 6),
    ("(bit<8>)Kind.udp", "bit<8>", 17),
    ("(bit<9>)port", "bit<9>", None),
    ("(Port)raw", "Port", None),
    ("(Port)5", "Port", 5),
    ("(S){ 1, 2 }", "S", (1, 2)),
    ("(S){ y = 2, x = 1 }", "S", (1, 2)),
    ("(N){ f = true, ... }", "N", ((0, 0), True)),
    ("(tuple<bit<8>, bool>){ 1, true }", "tuple<bit<8>, bool>", (1, True)),
    # members
    ("Color.green", "Color", 1),
    ("Kind.udp", "Kind", 17),
    ("Signed.low", "Signed", -128),
    ("error.NoError", "error", 0),
    ("error.ParserTimeout", "error", 5),
    ("q.h.b", "bit<16>", None),
    ("q.q[1].a", "bit<8>", None),
    ("q.q[b8].a", "bit<8>", None),
    ("q.q.size", "bit<32>", 3),
    ("q.p[1]", "bool", None),
    ("g.t", "bit<6>", None),
    ("((S){ 7, 8 }).y", "bit<16>", 8),
    ("((tuple<bit<8>, bool>){ 7, true })[0]", "bit<8>", 7),
    # ternary
    ("flag ? 8w1 : 8w2", "bit<8>", None),
    ("flag ? b8 : 2", "bit<8>", None),
    ("true ? 8w1 : 8w2", "bit<8>", 1),
    ("3 < 2 ? 8w1 : 2", "bit<8>", 2),
    # calls
    ("q.h.isValid()", "bool", None),
    ("q.u.isValid()", "bool", None),
    ("twice(4)", "bit<8>", None),
    ("same(b16)", "bit<16>", None),
    ("same<bit<4>>(3)", "bit<4>", None),
    ("reg.get()", "bit<8>", None),
    ("tab.apply().hit", "bool", None),
]


@pytest.fixture(scope="module")
def found_types() -> list[tuple[str, object]]:
    return list(marked(tuple(text for text, _, _ in TYPES)))


@pytest.mark.parametrize("case", TYPES, ids=lambda case: case[0])
def test_type_and_value(case: tuple[str, str, object], found_types: list[object]) -> None:
    assert found_types[TYPES.index(case)] == case[1:]


CONSTANTS = [
    ("int", "1 << 100", "int", 1 << 100),
    ("int", "-7 + 2", "int", -5),
    ("int", "(1 << 70) - 1 >> 68", "int", 3),
    ("int", "17 / 5", "int", 3),
    ("int", "17 % 5", "int", 2),
    ("int", "12 | 3", "int", 15),
    ("int", "true ? 4 : 5", "int", 4),
    ("int", "(int)8w200", "int", 200),
    ("int", "(int)-8s1", "int", -1),
    ("bit<8>", "300 - 50", "int", 250),
    ("string", '"a" ++ "b"', "string", "ab"),
    ("list<bit<8>>", "{ 1, 2, 3 }", "tuple<int, int, int>", (1, 2, 3)),
    ("int", "H.minSizeInBits()", "int", 24),
    ("int", "V.minSizeInBits()", "int", 8),
    ("int", "V.maxSizeInBits()", "int", 72),
    ("int", "V.maxSizeInBytes()", "int", 9),
    ("int", "U.minSizeInBits()", "int", 8),
    ("int", "U.maxSizeInBytes()", "int", 9),
    ("int", "S.minSizeInBytes()", "int", 3),
    ("int", "N.maxSizeInBits()", "int", 25),
    ("int", "N.minSizeInBytes()", "int", 4),
    ("int", "Port.minSizeInBits()", "int", 9),
    ("bool", 'static_assert(S.minSizeInBits() == 24, "size")', "bool", True),
    ("Port", "5", "int", 5),
]


@pytest.fixture(scope="module")
def found_constants() -> list[tuple[str, object]]:
    return list(constants(tuple((t, text) for t, text, _, _ in CONSTANTS)))


@pytest.mark.parametrize("case", CONSTANTS, ids=lambda case: f"{case[0]}-{case[1]}")
def test_constant(case: tuple[str, str, str, object], found_constants: list[object]) -> None:
    assert found_constants[CONSTANTS.index(case)] == case[2:]


#: Expressions and statements on line 4, and the beginning of "column: message | hint".
ERRORS = [
    ("b8 = b16;", "6: the assigned value must have type bit<8>, but this is bit<16>", "(bit<8>)"),
    ("b8 = i8;", "6: the assigned value must have type bit<8>, but this is int<8>", "(bit<8>)"),
    ("i8 = b16;", "6: the assigned value must have type int<8>", "(int<8>)(bit<8>)"),
    ("b8 = b8 + b16;", "6: cannot add bit<8> and bit<16>: different widths", "cast one side"),
    ("b8 = b8 + i8;", "6: cannot add bit<8> and int<8>: different signs", ""),
    ("b8 = b8 + flag;", "11: cannot add values of type bool", "(bit<1>)"),
    ("flag = b8 < i8;", "8: cannot compare bit<8> and int<8>", ""),
    ("flag = color < color;", "8: cannot compare values of type Color", ""),
    ("flag = s == q.h;", "8: cannot compare S and H", ""),
    ("flag = 1 == true;", "8: cannot compare int and bool", ""),
    ("flag = tab == tab;", "8: values of type table tab cannot be compared", ""),
    ("flag = reg == reg;", "8: values of type Reg<bit<8>> cannot be compared", ""),
    ("flag = b1 && flag;", "8: '&&' needs bool operands, but this is bit<1>", "!= 0"),
    ("flag = !b1;", "9: '!' needs a bool, but this is bit<1>", ""),
    ("b8 = ~5;", "6: '~' is not defined on int", "8w1"),
    ("b8 = -flag;", "6: '-' is not defined on bool", ""),
    ("b8 = 1 |+| 2;", "6: '|+|' is not defined on int", "width"),
    ("b8 = b8 / b8;", "6: division is possible only between values known", ""),
    ("b8 = b8 % 3;", "6: modulo is possible only between values known", ""),
    ("b8 = 8w3 / 0;", "6: division by zero", ""),
    ("b8 = 8w3 % 8w0;", "6: modulo by zero", ""),
    ("b8 = -7 / 2;", "6: '/' is not defined on negative numbers", ""),
    ("i8 = 8s7 / 8s2;", "6: '/' is not defined on signed values (int<8>)", ""),
    ("b8 = b8 << -1;", "12: cannot shift by the negative amount -1", ""),
    ("b8 = b8 << i8;", "12: a shift amount must be unsigned, but this is int<8>", ""),
    ("b8 = 1 << b8;", "6: an int without a width can be shifted only by a constant", "width"),
    ("b8 = flag << 1;", "6: cannot shift a value of type bool", ""),
    ("b8 = b8 << flag;", "12: a shift amount must be bit<W> or int", ""),
    ("b16 = b8 ++ 1;", "13: '++' is not defined on int", "8w1"),
    ("b8 = b16[8:9];", "6: the slice [8:9] is empty", ""),
    ("b8 = b16[16:9];", "10: bit 16 is beyond the highest bit, 15, of bit<16>", ""),
    ("b8 = b16[7:-1];", "12: a slice's bound cannot be negative", ""),
    ("b8 = b16[b8:0];", "10: a slice's bound must be a constant", ""),
    ("b8 = b16[9+:8];", "6: bit 16 is beyond the highest bit", ""),
    ("b8 = b16[0+:b8];", "13: a slice's width must be a constant", ""),
    ("flag = flag[0:0];", "8: only bit<W> and int<W> can be sliced, but this is bool", ""),
    ("b8 = (bit<8>)flag;", "6: cannot cast bool to bit<8>", "(bit<8>)(bit<1>)"),
    ("i8 = (int<8>)b16;", "6: cannot cast bit<16> to int<8>", "(int<8>)(bit<8>)"),
    ("flag = (bool)b8;", "8: cannot cast bit<8> to bool", "!= 0"),
    ("b16 = (bit<16>)kind;", "7: cannot cast Kind to bit<16>", ""),
    ("b8 = b8 + (int)b8;", "11: only a value known at compile time can be cast to int", ""),
    ("kind = 6;", "8: the assigned value must have type Kind, but this is int", "(Kind)"),
    ("kind = 8w6;", "8: the assigned value must have type Kind, but this is bit<8>", "(Kind)"),
    ("port = raw;", "8: the assigned value must have type Port, but this is bit<9>", "(Port)"),
    ("raw = port;", "7: the assigned value must have type bit<9>, but this is Port", "(bit<9>)"),
    ("port = port + 1;", "8: cannot add values of type Port", ""),
    ("s = { 1 };", "5: the assigned value must have type S with 2 values, but this has 1", "..."),
    ("s = { 1, 2, 3 };", "5: the assigned value must have type S with 2 values", ""),
    ("s = { x = 1 };", "5: no value for y of S", "..."),
    ("s = { x = 1, yy = 2 };", "19: struct S has no field 'yy'", "'y'"),
    ("s = { x = 1, x = 2 };", "18: field 'x' is given twice", ""),
    ("s = { true, 2 };", "7: field 'x' of S must have type bit<8>, but this is bool", ""),
    ("s = pair;", "5: the assigned value must have type S, but this is tuple<bit<8>, bool>", ""),
    ("s = {#};", "5: the assigned value must have type S, but this is {#}", ""),
    ("b8 = q.h.c;", "6: header H has no field 'c'", ""),
    ("flag = q.h.isValid;", "8: header H has no field 'isValid'", "isValid()"),
    ("b8 = q.q[3].a;", "10: index 3 is beyond the last element, 2, of H[3]", ""),
    ("b8 = q.q[-1].a;", "10: an index cannot be negative", ""),
    ("b8 = q.q[flag].a;", "10: an index must be an integer, but this is bool", ""),
    ("b8 = q.p[b8];", "10: the index of a tuple<bit<8>, bool> must be known", ""),
    ("b8 = q.h[0].a;", "6: a value of type H has no elements", ""),
    ("q.h = q.q.last;", "7: 'last' of a header stack can be used only in a parser", "index"),
    ("b8 = b8.x;", "6: a value of type bit<8> has no member 'x'", ""),
    ("color = Color.rod;", "9: enum Color has no member 'rod'", "'red'"),
    ("err = error.NoMach;", "7: error 'NoMach' is not declared", "'NoMatch'"),
    ("b8 = flag ? 1 : true;", "6: the branches of '?:' have different types", ""),
    ("b8 = b8 ? 8w1 : 8w2;", "6: the condition of '?:' must have type bool", ""),
    ("b8 = flag ? 1 : 2;", "6: neither branch of '?:' has a width", "8w1"),
    ("flag = flagg;", "8: name 'flagg' is not declared", "'flag'"),
    ("b8 = tab;", "6: the assigned value must have type bit<8>, but this is table tab", ""),
    ("flag = tab.apply().hot;", "8: the result of applying a table has no member 'hot'", "miss"),
    # what can be written to
    ("ro = 1;", "1: 'ro' is an 'in' parameter and can only be read", "inout"),
    ("k = 1;", "1: 'k' is a parameter without direction", ""),
    ("b8[3:0] = 300 < 2;", "11: the assigned value must have type bit<4>, but this is bool", ""),
    ("(b8 + 1)[3:0] = 2;", "2: the left side of an assignment must be something", ""),
    ("q.q.size = 1;", "1: the left side of an assignment cannot be 'size'", ""),
    ("NoAction = 1;", "1: 'NoAction' is an action", ""),
    ("twice(1) = 1;", "1: the left side of an assignment must be something", ""),
    # compound assignment
    ("b8 += b16;", "7: cannot add bit<8> and bit<16>", ""),
    ("b8 <<= -1;", "8: cannot shift by the negative amount", ""),
    ("b8 /= 3;", "1: division is possible only between", ""),
    ("kind += 1;", "1: '+=' is not defined on enum Kind", ""),
]


@pytest.mark.parametrize(("statement", "message", "hint"), ERRORS)
def test_error(statement: str, message: str, hint: str) -> None:
    found = statement_errors([s for s, _, _ in ERRORS], statement)
    assert len(found) == 1, found
    assert found[0].startswith(message), found
    assert hint in found[0].split(" | ")[1], found


ACCEPTED = [
    "b16[11:4] = b8;",
    "q.q[1].b[7:0] = 3;",
    "q.p[0] = 4;",
    "wo = ro;",
    "s = { 1, ... };",
    "s = { y = 1, ... };",
    "s = ...;",
    "n = { { 1, 2 }, true };",
    "n = { s = { y = 2, x = 1 }, f = flag };",
    "q.h = {#};",
    "q.u = {#};",
    "q.q = { {1, 2}, {#}, q.h };",
    "q.h = { 1, 2 };",
    "b8 = kind;",
    "b8 += 1;",
    "b8 |+|= 1;",
    "b8 /= 4;",
    "b8 <<= 2;",
    "b8 = big + b8;",
    "s = flag ? s : { 1, 2 };",
]


def test_accepted() -> None:
    run(in_apply("\n".join(ACCEPTED)))


WARNINGS = [
    ("b8 = 256;", ["4:6: 256 does not fit bit<8> and is cut to its width"]),
    ("b8 = -1;", ["4:6: -1 does not fit bit<8> and is cut to its width"]),
    ("b8 = 8w300;", ["4:6: 300 does not fit bit<8> and is cut to its width"]),
    ("b8 = 255;", []),
    ("i8 = -128;", []),
    ("b8 = b8 << 8;", ["4:6: shifting bit<8> by 8 leaves nothing of it"]),
    ("{ bit<8> b8 = 1; }", ["4:10: 'b8' hides the one declared at m.p4:2:"]),
]


@pytest.mark.parametrize(("statement", "expected"), WARNINGS)
def test_warning(statement: str, expected: list[str]) -> None:
    found = warnings(in_apply(statement))
    assert len(found) == len(expected), found
    assert all(f.startswith(e) for f, e in zip(found, expected, strict=True)), found


def test_a_huge_constant_is_refused_instead_of_computed() -> None:
    assert "more than 65536 bits" in one_error(in_apply("b8 = (bit<8>)(1 << 10000000000);"))
    assert "more than 65536 bits" in one_error(
        in_apply("b8 = (bit<8>)((1 << 60000) * (1 << 60000));")
    )


# --- constants against plain integers -------------------------------------------------------------

WIDTHS = st.integers(1, 70)


def as_bits(value: int, t: BitsT) -> int:
    """`value` in `t` by way of its bytes, which shares nothing with the code."""
    size = t.width // 8 + 20
    text = "".join(f"{byte:08b}" for byte in value.to_bytes(size, "big", signed=True))[-t.width :]
    plain = int(text, 2)
    return plain - 2**t.width if t.signed and text[0] == "1" else plain


@given(WIDTHS, st.booleans(), st.data(), st.sampled_from(["+", "-", "*", "&", "|", "^"]))
def test_arithmetic_is_modular(width: int, signed: bool, data: st.DataObject, op: str) -> None:
    t = BitsT(width, signed)
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
    a, b = data.draw(st.integers(low, high)), data.draw(st.integers(low, high))
    plain = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}[op]
    assert arithmetic(op, a, b, t) == as_bits(plain, t)
    assert bounds(t) == (low, high)


@given(WIDTHS, st.booleans(), st.data(), st.integers(0, 200))
def test_shifts(width: int, signed: bool, data: st.DataObject, amount: int) -> None:
    t = BitsT(width, signed)
    low, high = bounds(t)
    a = data.draw(st.integers(low, high))
    assert shift("<<", a, amount, t) == (as_bits(a * 2**amount, t) if amount < width else 0)
    assert shift(">>", a, amount, t) == a // 2**amount


UNSET = [
    ("bit<8> z; b8 = z;", ["4:16: 'z' is read before it is set, which gives zero"]),
    ("bit<8> z; b8 = z; b8 = z;", ["4:16: 'z' is read before it is set, which gives zero"]),
    ("bit<8> z; z += 1;", ["4:11: 'z' is read before it is set, which gives zero"]),
    ("bit<8> z; act(z, 1);", ["4:15: 'z' is read before it is set, which gives zero"]),
    ("Port z; flag = z == z;", ["4:16: 'z' is read before it is set, which gives zero"]),
    ("bit<8> z = 1; b8 = z;", []),
    ("bit<8> z; if (flag) { z = 1; } b8 = z;", []),
    ("bit<8> z; reg.read(z, 1); b8 = z;", []),
    ("bit<8> z; z[3:0] = 1; b8 = z;", []),
    ("bit<8> z; for (bit<8> i in 0 .. 3) { if (i > 0) { b8 = z; } z = i; }", []),
    ("S z; b8 = z.x;", []),
]


@pytest.mark.parametrize(("statement", "expected"), UNSET)
def test_reads_of_variables_that_nothing_has_set(statement: str, expected: list[str]) -> None:
    assert warnings(in_apply(statement)) == expected
