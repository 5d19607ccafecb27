"""Tokens, integer literals and strings."""

from __future__ import annotations

import pytest

from sglb.p4.lexer import (
    IDENTIFIER,
    NUMBER,
    OTHER,
    STRING,
    IntegerValue,
    Scanner,
    Token,
    classify,
    integer_value,
    unquote,
)
from sglb.p4.source import P4Error


def scan(text: str) -> list[Token]:
    scanner = Scanner(text, "m.p4")
    out = []
    while token := scanner.next():
        out.append(classify(token))
    return out


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a|+|=b|-|c|+d|=e", "a |+|= b |-| c | + d |= e"),
        ("a&&&b&&c&d&=e", "a &&& b && c & d &= e"),
        ("1..2 a...b.c", "1 .. 2 a ... b . c"),
        ("a<<=b<<c<=d<e", "a <<= b << c <= d < e"),
        ("a>>=b>>c>=d>e", "a > >= b > > c >= d > e"),  # `>` may close an argument list
        ("{#} {# #} a##b", "{#} { # # } a ## b"),
        ("[a+:w] a+b a++b +=", "[ a +: w ] a + b a ++ b +="),
        ("!a!=b=c==d^=e%=f/=g*=h-=i", "! a != b = c == d ^= e %= f /= g *= h -= i"),
        ("8w0xFF 4s0b1 _x x_1 _", "8w0xFF 4s0b1 _x x_1 _"),
        ("a/b//c\n/*d*/e/**/f", "a / b e f"),
    ],
)
def test_longest_match(text: str, tokens: str) -> None:
    assert [t.text for t in scan(text)] == tokens.split()


def test_kinds() -> None:
    kinds = [(t.kind, t.text) for t in scan('apply applying _ __ 12 "s" == ü `')]
    assert kinds == [
        ("apply", "apply"),
        (IDENTIFIER, "applying"),
        ("_", "_"),
        (IDENTIFIER, "__"),
        (NUMBER, "12"),
        (STRING, '"s"'),
        ("==", "=="),
        (OTHER, "ü"),
        (OTHER, "`"),
    ]


def test_places_and_gaps() -> None:
    tokens = scan('a b\n\tc/* é\n */d "x\ny" e')
    assert [(t.text, t.line, t.column, t.space, t.first) for t in tokens] == [
        ("a", 1, 1, False, True),
        ("b", 1, 3, True, False),
        ("c", 2, 2, True, True),
        ("d", 3, 4, True, False),
        ('"x\ny"', 3, 6, True, False),
        ("e", 4, 4, True, False),
    ]
    assert tokens[4].length == 2  # what of the string stands on its first line
    assert str(tokens[5].end_span()) == "m.p4:4:5"


@pytest.mark.parametrize(
    ("text", "value", "width", "signed", "radix"),
    [
        ("0", 0, None, False, 10),
        ("00012", 12, None, False, 10),
        ("1_000", 1000, None, False, 10),
        ("0xFf", 255, None, False, 16),
        ("0X_f", 15, None, False, 16),
        ("0b1_01", 5, None, False, 2),
        ("0o17", 15, None, False, 8),
        ("0d19", 19, None, False, 10),
        ("8w255", 255, 8, False, 10),
        ("8s0x7F", 127, 8, True, 16),
        ("48w0xAABB_CCDD_EEFF", 0xAABBCCDDEEFF, 48, False, 16),
        ("3w0B111", 7, 3, False, 2),
        ("16s0O777", 511, 16, True, 8),
        ("5w0D9", 9, 5, False, 10),
    ],
)
def test_integer_literals(
    text: str, value: int, width: int | None, signed: bool, radix: int
) -> None:
    [token] = scan(text)
    assert integer_value(token) == IntegerValue(value, width, signed, radix)


@pytest.mark.parametrize("text", ["0x", "0x_", "8w", "8w_", "8q1", "0b2", "0o8", "12ab", "8w0xG"])
def test_what_is_no_integer(text: str) -> None:
    [token] = scan(text)
    with pytest.raises(P4Error, match=f"'{text}' is not an integer"):
        integer_value(token)


def test_endless_literals_are_refused() -> None:
    [token] = scan("9" * 5000)
    with pytest.raises(P4Error, match="integer literal of 5000 characters"):
        integer_value(token)


@pytest.mark.parametrize(
    ("written", "content"),
    [
        ('""', ""),
        (r'"a\"b\\c"', 'a"b\\c'),
        (r'"a\nb\tc"', "a\nb\tc"),
        (r'"a\d"', r"a\d"),
        ('"a\\\nb"', "ab"),
        ('"ü // x"', "ü // x"),
    ],
)
def test_strings(written: str, content: str) -> None:
    [token] = scan(written)
    assert token.kind == STRING
    assert unquote(token.text) == content


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ('a "b\\"', "this string is never closed", 3),
        ("a /* b *", "this comment is never closed", 3),
    ],
)
def test_what_is_never_closed(text: str, message: str, column: int) -> None:
    with pytest.raises(P4Error, match=message) as caught:
        scan(text)
    assert (caught.value.phase, caught.value.span.column) == ("lex", column)
