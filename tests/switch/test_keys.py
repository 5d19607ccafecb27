"""Match fields in their canonical form."""

from __future__ import annotations

import pytest

from sglb.p4 import ir
from sglb.switch.errors import BadValue, ValueTooLarge
from sglb.switch.keys import MatchField, from_const, matches, normalise, prefix_mask, show


@pytest.mark.parametrize(
    ("length", "mask"),
    [(0, 0), (1, 0x80000000), (8, 0xFF000000), (31, 0xFFFFFFFE), (32, 0xFFFFFFFF)],
)
def test_prefix_mask(length: int, mask: int) -> None:
    assert prefix_mask(length, 32) == mask


@pytest.mark.parametrize(
    ("kind", "given", "canonical"),
    [
        ("exact", 0x1FF, 0x1FF),
        ("lpm", (0x1AB, 1), (0x100, 1)),
        ("lpm", (0x1AB, 0), (0, 0)),
        ("ternary", (0x1FF, 0x0F0), (0x0F0, 0x0F0)),
        ("range", (3, 3), (3, 3)),
        ("optional", None, None),
        ("optional", 7, 7),
    ],
)
def test_bits_outside_the_mask_are_cleared(
    kind: str, given: MatchField, canonical: MatchField
) -> None:
    assert normalise(kind, given, 9) == canonical


@pytest.mark.parametrize(
    ("kind", "given", "error", "text"),
    [
        ("exact", 0x200, ValueTooLarge, "0x200 does not fit 9 bits"),
        ("exact", -1, ValueTooLarge, "does not fit"),
        ("exact", None, BadValue, "needs one number"),
        ("exact", (1, 2), BadValue, "needs one number"),
        ("lpm", (1, 10), BadValue, "prefix length 10 is outside 0..9"),
        ("lpm", 1, BadValue, "needs a pair"),
        ("ternary", (0, 0x200), ValueTooLarge, "does not fit 9 bits"),
        ("range", (4, 3), BadValue, "the range 4..3 is empty"),
        ("range", (0, 512), ValueTooLarge, "does not fit"),
    ],
)
def test_malformed_fields_are_refused(
    kind: str, given: MatchField, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        normalise(kind, given, 9)


def test_a_signed_range_runs_from_minus_to_plus() -> None:
    # int<4>: 0xE is -2, 0x1 is 1.
    assert normalise("range", (0xE, 0x1), 4, signed=True) == (0xE, 0x1)
    inside = [v for v in range(16) if matches("range", (0xE, 0x1), v, 4, signed=True)]
    assert inside == [0x0, 0x1, 0xE, 0xF]
    with pytest.raises(BadValue):
        normalise("range", (0x1, 0xE), 4, signed=True)


@pytest.mark.parametrize(
    ("kind", "entry", "field"),
    [
        ("exact", ir.EntryKey(5, 0xFF), 5),
        ("lpm", ir.EntryKey(0xAB, 0xF0), (0xA0, 4)),
        ("ternary", ir.EntryKey(0xAB, 0x0F), (0x0B, 0x0F)),
        ("optional", ir.EntryKey(5, 0xFF), 5),
        ("optional", ir.EntryKey(0, 0), None),
        ("range", ir.EntryKey(3, 0, 9), (3, 9)),
        ("range", ir.EntryKey(0, 0), (0, 255)),
    ],
)
def test_fields_of_program_entries(kind: str, entry: ir.EntryKey, field: MatchField) -> None:
    assert from_const(kind, entry, 8) == field


def test_fields_read_as_people_write_them() -> None:
    assert [
        show("exact", 10),
        show("lpm", (0xA0, 4)),
        show("ternary", (1, 3)),
        show("range", (1, 3)),
        show("optional", None),
    ] == ["0xa", "0xa0/4", "0x1&&&0x3", "0x1..0x3", "*"]
