"""Field lists: what hash, checksum, digest, log and selector keys read, flattened to scalars.

A field of an invalid header is told apart, because BMv2 treats it so: zeros in a hash and in a table
key, left out of a checksum and of a selector's hash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from sglb.p4 import ast, ir
from sglb.p4.ir_build import const, mux
from sglb.p4.layout import (
    SlicePlace,
    SlotPlace,
    Storage,
    is_header,
    is_scalar,
    is_signed,
    members,
    scalar_width,
    strip,
)
from sglb.p4.lower_core import Body
from sglb.p4.lower_env import problem
from sglb.p4.lower_expr import as_slots
from sglb.p4.types import IntT, TupleT, Type, VarbitT


class Invalid(Enum):
    """What becomes of a field of an invalid header."""

    ZERO = "it counts as zeros"
    SKIP = "it is left out (`DataField.valid`)"
    AS_IS = "its slot's value"


def header_of(body: Body, expr: ast.Expr) -> Storage | None:
    """The header whose field an expression reads, through slices."""
    while isinstance(expr, ast.Slice):
        expr = expr.base
    if not isinstance(expr, ast.Member) or not is_header(strip(body.own_type(expr.base))):
        return None
    place = body.place(expr.base, fix=False)
    return None if isinstance(place, SlicePlace) else place


def zero_if_invalid(body: Body, expr: ast.Expr) -> ir.Expr:
    """A scalar's value; a field of an invalid header reads as zero."""
    value = body.expr(expr)
    header = header_of(body, expr)
    if header is None or isinstance(value, ir.Const):
        return value
    return mux(validity(header), value, const(value.width, 0))


def validity(header: Storage) -> ir.Expr:
    """A header's validity."""
    if isinstance(header, SlotPlace):
        return ir.Load(1, header.base)
    return ir.LoadElement(1, header.array, header.offset, header.index)


def data_fields(
    body: Body, expr: ast.Expr, invalid: Invalid, type_: Type | None = None
) -> tuple[ir.DataField, ...]:
    """The scalars of a list, struct, header or single value, in order.

    `type_` is the type they are used in, where it differs from the expression's own.
    """
    fields: list[ir.DataField] = []
    for read in _readers(body, expr, invalid, type_):
        with body.captured() as effects:
            found = read()
        if effects:
            fields = [kept(body, f) for f in fields]
            body.emit(*effects)
        fields.extend(found)
    return tuple(fields)


Reader = Callable[[], list[ir.DataField]]


def _readers(body: Body, expr: ast.Expr, invalid: Invalid, type_: Type | None) -> list[Reader]:
    """One reader a piece of the list, so that each piece's effects can be told apart."""
    items = _items(expr)
    if items is None or body.known(expr) is not None:
        return [lambda: _piece(body, expr, invalid, type_)]
    parts: list[Type | None] = [None] * len(items)
    if type_ is not None and isinstance(strip(type_), TupleT):
        parts = [t for _, t in members(type_)]
    out: list[Reader] = []
    for item, part in zip(items, parts, strict=True):
        out += _readers(body, item, invalid, part)
    return out


def _items(expr: ast.Expr) -> tuple[ast.Expr, ...] | None:
    if isinstance(expr, ast.ListExpr) and not expr.dots:
        return expr.items
    if isinstance(expr, ast.StructExpr) and not expr.dots:
        return tuple(value for _, value in expr.fields)
    if isinstance(expr, ast.Cast) and isinstance(expr.operand, ast.ListExpr | ast.StructExpr):
        return _items(expr.operand)
    return None


def kept(body: Body, data: ir.DataField) -> ir.DataField:
    """The piece with its value in a temporary, safe from later statements."""
    value = body.keep(data.value)
    assert isinstance(value, ir.Expr)
    return replace(data, value=value)


def _piece(body: Body, expr: ast.Expr, invalid: Invalid, part: Type | None) -> list[ir.DataField]:
    type_ = body.type_of(expr)
    if isinstance(type_, IntT) and part is not None:
        type_ = part
    if isinstance(type_, IntT):
        raise problem(
            "the width of this constant is not known", expr.span, hint="write it as, say, 16w1"
        )
    if not is_scalar(type_):
        return _storage_fields(body, as_slots(body, body.storage(expr)), invalid)
    value = body.expr(expr)
    header = None if isinstance(value, ir.Const) else header_of(body, expr)
    valid: int | None = None
    if header is not None and invalid is Invalid.ZERO:
        value = mux(validity(header), value, const(value.width, 0))
    elif header is not None and invalid is Invalid.SKIP:
        valid = _valid_slot(body, header)
    return [ir.DataField(value, value.width, signed=is_signed(type_), valid=valid)]


def _valid_slot(body: Body, header: Storage) -> int:
    if isinstance(header, SlotPlace):
        return header.base
    return body.in_temp(validity(header)).slot


def _storage_fields(
    body: Body, place: SlotPlace, invalid: Invalid, header: SlotPlace | None = None
) -> list[ir.DataField]:
    """The leaves of a place; those of a header inside it know the header."""
    type_ = strip(place.type)
    if is_header(type_):
        header = place
    valid = header.base if header is not None and invalid is Invalid.SKIP else None
    hide = header if invalid is Invalid.ZERO else None
    if is_scalar(type_):
        value: ir.Expr = ir.Load(scalar_width(type_), place.base)
        if hide is not None:
            value = mux(validity(hide), value, const(value.width, 0))
        return [ir.DataField(value, value.width, signed=is_signed(type_), valid=valid)]
    if isinstance(type_, VarbitT):
        length: ir.Expr = ir.Load(32, place.base + 1)
        if hide is not None:
            length = mux(validity(hide), length, const(32, 0))
        bits = ir.Load(type_.width, place.base)
        return [ir.DataField(bits, type_.width, length=length, valid=valid)]
    out: list[ir.DataField] = []
    for name, _ in members(type_):
        member = place.member(name)
        out += _storage_fields(body, member, invalid, header)
    return out


def preserved_slots(fields: tuple[ir.DataField, ...]) -> tuple[int, ...]:
    """The slots that a field list was read from; constants have none."""
    return tuple(f.value.slot for f in fields if isinstance(f.value, ir.Load))
