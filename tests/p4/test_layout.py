"""Where the parts of a value lie, counted by hand."""

from __future__ import annotations

import pytest

from sglb.p4.layout import Frame, bit_width, leaves, min_bit_width, offset_of, size_of
from sglb.p4.source import P4Error, Span
from sglb.p4.types import (
    BitsT,
    BoolT,
    EnumT,
    ErrorT,
    FieldT,
    IntT,
    NewT,
    SerEnumT,
    StackT,
    StructT,
    TupleT,
    Type,
    VarbitT,
)

HERE = Span("x.p4", 3, 4)


def struct(name: str, kind: str, **fields: Type) -> StructT:
    return StructT(name, kind, tuple(FieldT(n, t) for n, t in fields.items()))


SMALL = struct("small", "header", a=BitsT(4), b=BitsT(12))
OPTIONS = struct("options", "header", n=BitsT(8), v=VarbitT(40))
UNION = struct("either", "header_union", s=SMALL, o=OPTIONS)
ALL = struct(
    "all",
    "struct",
    flag=BoolT(),
    stack=StackT(SMALL, 3),
    u=UNION,
    t=TupleT((BitsT(8), BitsT(9))),
    array=StackT(BitsT(7), 2),
)


def test_sizes_and_offsets() -> None:
    assert (size_of(SMALL), size_of(OPTIONS), size_of(UNION)) == (3, 4, 7)
    assert size_of(StackT(SMALL, 3)) == 1 + 3 * 3  # the next index first
    assert size_of(StackT(BitsT(7), 2)) == 2
    assert size_of(ALL) == 1 + 10 + 7 + 2 + 2
    assert offset_of(ALL, "stack") == (1, StackT(SMALL, 3))
    assert offset_of(ALL, "t")[0] == 18
    assert offset_of(SMALL, "b") == (2, BitsT(12))  # behind the validity
    assert offset_of(StackT(SMALL, 3), "2") == (7, SMALL)
    assert offset_of(StackT(BitsT(7), 2), "1") == (1, BitsT(7))


def test_widths_on_the_wire() -> None:
    assert (bit_width(OPTIONS), min_bit_width(OPTIONS)) == (48, 8)
    assert (bit_width(UNION), min_bit_width(UNION)) == (48, 8)
    assert bit_width(StackT(SMALL, 3)) == 48


def test_a_frame_names_every_slot_and_knows_headers_and_stacks() -> None:
    frame = Frame()
    place = frame.allocate(ALL, "x", HERE)
    assert [s.name for s in frame.slots[:5]] == [
        "x.flag",
        "x.stack.$next$",
        "x.stack[0].$valid$",
        "x.stack[0].a",
        "x.stack[0].b",
    ]
    stack = frame.arrays[frame.array_at[1, StackT(SMALL, 3)]]
    assert (stack.base, stack.stride, stack.size, stack.next, stack.headers) == (
        2,
        3,
        3,
        1,
        (0, 1, 2),
    )
    options = frame.headers[4]
    assert (options.name, options.valid, options.width, options.size) == ("x.u.o", 14, 8, 4)
    assert [(f.name, f.slot, f.varbit) for f in options.fields] == [
        ("n", 15, False),
        ("v", 16, True),
    ]
    assert frame.slots[17].name == "x.u.o.v.$length$"
    assert frame.siblings == {11: (4,), 14: (3,)}
    array = frame.arrays[frame.array_at[20, StackT(BitsT(7), 2)]]
    assert (array.base, array.stride, array.next, array.headers) == (20, 1, None, ())
    assert [p.base for p in leaves(place.member("u"))] == [12, 13, 15, 16]


def test_fields_of_structures_and_arrays_in_a_header_are_its_own() -> None:
    inner = struct("inner", "struct", p=BitsT(3), q=BitsT(5))
    header = struct("h", "header", i=inner, a=StackT(BitsT(8), 2), z=BitsT(8))
    frame = Frame()
    frame.allocate(header, "h", HERE)
    (made,) = frame.headers
    assert [(f.name, f.slot) for f in made.fields] == [
        ("i.p", 1),
        ("i.q", 2),
        ("a.0", 3),
        ("a.1", 4),
        ("z", 5),
    ]
    assert (made.width, made.size) == (32, 6)
    assert frame.array_at == {(3, StackT(BitsT(8), 2)): 0}


def test_slots_show_values_by_name() -> None:
    frame = Frame(errors=("NoError", "PacketTooShort"))
    kind = SerEnumT("Kind", BitsT(4), ("A", "B"), (1, -1))
    for type_ in (ErrorT(), EnumT("E", ("x", "y")), kind, NewT("N", BitsT(5, True))):
        frame.allocate(type_, "v", HERE)
    assert [dict(s.labels) for s in frame.slots] == [
        {0: "NoError", 1: "PacketTooShort"},
        {0: "x", 1: "y"},
        {1: "A", 15: "B"},
        {},
    ]
    assert [s.width for s in frame.slots] == [32, 32, 4, 5]
    assert frame.slots[3].signed


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (BitsT(0), "v is a bit<0>: it holds nothing"),
        (struct("s", "struct", a=BitsT(0)), "v.a is a bit<0>"),
        (IntT(), "v: a value of type int exists only at compile time"),
    ],
)
def test_what_has_no_storage_is_refused(type_: Type, message: str) -> None:
    with pytest.raises(P4Error) as caught:
        Frame().allocate(type_, "v", HERE)
    assert message in caught.value.message
    assert caught.value.span == HERE
