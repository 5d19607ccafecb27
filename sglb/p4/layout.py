"""How P4 values lie in the frame: each type's slots, and the storage handed out for variables.

A scalar takes one slot, a varbit two (bits, length), a header its validity slot and then its fields,
a struct, union or tuple its members one after the other, a header stack its next index and then its
elements at equal stride.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from sglb.p4 import ir
from sglb.p4.source import BUILTIN, P4Error, Span
from sglb.p4.types import (
    BitsT,
    BoolT,
    EnumT,
    ErrorT,
    NewT,
    SerEnumT,
    StackT,
    StructT,
    TupleT,
    Type,
    VarbitT,
    VoidT,
)

#: Slots that hold an error or enum index, a varbit's length or a stack's next index are this wide.
INDEX_WIDTH = 32


def strip(type_: Type) -> Type:
    """The type under `type … name`."""
    while isinstance(type_, NewT):
        type_ = type_.underlying
    return type_


def is_scalar(type_: Type) -> bool:
    """Whether a value of the type is one slot."""
    return isinstance(strip(type_), BitsT | BoolT | ErrorT | EnumT | SerEnumT)


def is_signed(type_: Type) -> bool:
    """Whether the type is int<W>."""
    type_ = strip(type_)
    if isinstance(type_, SerEnumT):
        type_ = type_.underlying
    return isinstance(type_, BitsT) and type_.signed


def is_header(type_: Type) -> bool:
    """Whether the type is a header (not a union)."""
    return isinstance(type_, StructT) and type_.kind == "header"


def is_union(type_: Type) -> bool:
    """Whether the type is a header union."""
    return isinstance(type_, StructT) and type_.kind == "header_union"


def is_header_stack(type_: Type) -> bool:
    """Whether the type is a stack of headers or unions, which has a next index."""
    return isinstance(type_, StackT) and (is_header(type_.element) or is_union(type_.element))


def scalar_width(type_: Type) -> int:
    """Bits of a scalar type."""
    type_ = strip(type_)
    if isinstance(type_, SerEnumT):
        return type_.underlying.width
    if isinstance(type_, BitsT):
        return type_.width
    if isinstance(type_, BoolT):
        return 1
    if isinstance(type_, ErrorT | EnumT):
        return INDEX_WIDTH
    raise TypeError(f"{type_} is not a scalar")


def members(type_: Type) -> list[tuple[str, Type]]:
    """Names and types of the parts of a struct, header, union, tuple or stack, in order.

    Those of tuples and stacks are named by their numbers.
    """
    type_ = strip(type_)
    if isinstance(type_, StructT):
        return [(f.name, f.type) for f in type_.fields]
    if isinstance(type_, TupleT):
        return [(str(i), t) for i, t in enumerate(type_.items)]
    if isinstance(type_, StackT):
        return [(str(i), type_.element) for i in range(type_.size)]
    return []


@lru_cache(maxsize=4096)
def size_of(type_: Type) -> int:
    """Slots that a value of the type takes."""
    type_ = strip(type_)
    if isinstance(type_, VarbitT):
        return 2
    if isinstance(type_, StackT):
        return (1 if is_header_stack(type_) else 0) + type_.size * size_of(type_.element)
    if isinstance(type_, StructT | TupleT):
        own = 1 if is_header(type_) else 0
        return own + sum(size_of(t) for _, t in members(type_))
    if isinstance(type_, VoidT):
        return 0
    if is_scalar(type_):
        return 1
    raise TypeError(f"a value of type {type_} exists only at compile time")


def offset_of(type_: Type, name: str) -> tuple[int, Type]:
    """Slot offset and type of a struct's field, or of a numbered element of a tuple or stack."""
    type_ = strip(type_)
    if isinstance(type_, StackT):
        first = 1 if is_header_stack(type_) else 0
        return first + int(name) * size_of(type_.element), type_.element
    return _offsets(type_)[name]


@lru_cache(maxsize=1024)
def _offsets(type_: Type) -> dict[str, tuple[int, Type]]:
    found: dict[str, tuple[int, Type]] = {}
    offset = 1 if is_header(type_) else 0
    for member, member_type in members(type_):
        found[member] = offset, member_type
        offset += size_of(member_type)
    return found


def bit_width(type_: Type) -> int:
    """Bits of a value on the wire; a varbit counts its maximum, a union its widest member."""
    type_ = strip(type_)
    if isinstance(type_, VarbitT):
        return type_.width
    if is_union(type_):
        return max((bit_width(t) for _, t in members(type_)), default=0)
    if isinstance(type_, StructT | TupleT | StackT):
        return sum(bit_width(t) for _, t in members(type_))
    return scalar_width(type_)


def min_bit_width(type_: Type) -> int:
    """Fewest bits of a value on the wire: varbits empty, the narrowest member of a union."""
    type_ = strip(type_)
    if isinstance(type_, VarbitT):
        return 0
    if is_union(type_):
        return min((min_bit_width(t) for _, t in members(type_)), default=0)
    if isinstance(type_, StructT | TupleT | StackT):
        return sum(min_bit_width(t) for _, t in members(type_))
    return scalar_width(type_)


@dataclass(frozen=True, slots=True)
class SlotPlace:
    """Storage known before run time: `size_of(type)` slots from `base` on."""

    base: int
    type: Type

    def member(self, name: str) -> SlotPlace:
        """The place of a field or numbered element."""
        offset, type_ = offset_of(self.type, name)
        return SlotPlace(self.base + offset, type_)

    def with_type(self, type_: Type) -> SlotPlace:
        """The same slots seen as another type of equal layout."""
        return SlotPlace(self.base, type_)


@dataclass(frozen=True, slots=True)
class ElementPlace:
    """Storage inside the element `index` of an array, `offset` slots into the element."""

    array: int
    index: ir.Expr
    offset: int
    type: Type

    def member(self, name: str) -> ElementPlace:
        """The place of a field or numbered element."""
        offset, type_ = offset_of(self.type, name)
        return ElementPlace(self.array, self.index, self.offset + offset, type_)

    def with_type(self, type_: Type) -> ElementPlace:
        """The same slots seen as another type of equal layout."""
        return ElementPlace(self.array, self.index, self.offset, type_)


@dataclass(frozen=True, slots=True)
class SlicePlace:
    """Bits `low + width - 1 .. low` of a scalar; `low` may be known at run time only."""

    whole: SlotPlace | ElementPlace
    low: int | ir.Expr
    type: BitsT


Place = SlotPlace | ElementPlace | SlicePlace
Storage = SlotPlace | ElementPlace


@dataclass(slots=True)
class Frame:
    """All storage of a program, handed out once."""

    slots: list[ir.Slot] = field(default_factory=list)
    headers: list[ir.Header] = field(default_factory=list)
    arrays: list[ir.Array] = field(default_factory=list)
    errors: tuple[str, ...] = ()
    #: Validity slot -> index into `headers`.
    header_at: dict[int, int] = field(default_factory=dict)
    #: (first slot, type) -> index into `arrays`.
    array_at: dict[tuple[int, StackT], int] = field(default_factory=dict)
    #: The type of each of `arrays`.
    array_types: list[StackT] = field(default_factory=list)
    #: Validity slot of a union's member -> indices of the union's other members.
    siblings: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _temps: int = 0
    _span: Span = BUILTIN

    def allocate(self, type_: Type, name: str, span: Span) -> SlotPlace:
        """Storage for a variable of the type; its slots are named `name`, `name.field` …"""
        place = SlotPlace(len(self.slots), type_)
        try:
            size_of(type_)
        except TypeError as error:
            raise P4Error(f"{name}: {error}", span, phase="lower") from error
        self._span = span
        self._lay(type_, name)
        return place

    def temp(self, type_: Type, span: Span = BUILTIN) -> SlotPlace:
        """Storage for a value the compiler must keep, of any type."""
        self._temps += 1
        return self.allocate(type_, f"$t{self._temps}", span)

    def _lay(self, type_: Type, name: str) -> None:
        type_ = strip(type_)
        if isinstance(type_, VarbitT):
            self.slots.append(ir.Slot(name, type_.width))
            self.slots.append(ir.Slot(f"{name}.$length$", INDEX_WIDTH))
        elif isinstance(type_, StackT):
            self._lay_array(type_, name)
        elif is_header(type_):
            self._lay_header(type_, name)
        elif isinstance(type_, StructT | TupleT):
            first = len(self.headers)
            for member, member_type in members(type_):
                self._lay(member_type, f"{name}.{member}")
            if is_union(type_):
                own = range(first, len(self.headers))
                for index in own:
                    others = tuple(i for i in own if i != index)
                    self.siblings[self.headers[index].valid] = others
        elif not isinstance(type_, VoidT):
            if type_ == BitsT(0):
                raise P4Error(f"{name} is a {type_}: it holds nothing", self._span, phase="lower")
            self.slots.append(
                ir.Slot(
                    name,
                    scalar_width(type_),
                    signed=is_signed(type_),
                    is_bool=isinstance(type_, BoolT),
                    labels=self._labels(type_),
                )
            )

    def _labels(self, type_: Type) -> Mapping[int, str]:
        if isinstance(type_, ErrorT):
            return dict(enumerate(self.errors))
        if isinstance(type_, EnumT):
            return dict(enumerate(type_.members))
        if isinstance(type_, SerEnumT):
            mask = (1 << type_.underlying.width) - 1
            return {v & mask: n for v, n in zip(type_.values, type_.members, strict=True)}
        return {}

    def _lay_header(self, type_: Type, name: str) -> None:
        valid = len(self.slots)
        self.slots.append(ir.Slot(f"{name}.$valid$", 1, is_bool=True))
        for member, member_type in members(type_):
            self._lay(member_type, f"{name}.{member}")
        fields: list[ir.HeaderField] = []
        slot = valid + 1
        for member, member_type in _flat_fields(type_):
            varbit = isinstance(strip(member_type), VarbitT)
            fields.append(ir.HeaderField(member, slot, bit_width(member_type), varbit))
            slot += size_of(member_type)
        fixed = sum(f.width for f in fields if not f.varbit)
        self.header_at[valid] = len(self.headers)
        self.headers.append(ir.Header(name, valid, tuple(fields), fixed, len(self.slots) - valid))

    def _lay_array(self, type_: StackT, name: str) -> None:
        first = len(self.slots)
        next_slot: int | None = None
        if is_header_stack(type_):
            next_slot = first
            self.slots.append(ir.Slot(f"{name}.$next$", INDEX_WIDTH))
        base = len(self.slots)
        headers: list[int] = []
        for i in range(type_.size):
            if is_header(type_.element):
                headers.append(len(self.headers))
            self._lay(type_.element, f"{name}[{i}]")
        self.array_at[first, type_] = len(self.arrays)
        self.array_types.append(type_)
        self.arrays.append(
            ir.Array(name, base, size_of(type_.element), type_.size, next_slot, tuple(headers))
        )


def _flat_fields(type_: Type, prefix: str = "") -> Iterator[tuple[str, Type]]:
    """A header's scalar and varbit fields, those of structs and arrays inside it included."""
    for member, member_type in members(type_):
        inner = strip(member_type)
        name = f"{prefix}{member}"
        if isinstance(inner, StructT | TupleT | StackT):
            yield from _flat_fields(inner, f"{name}.")
        else:
            yield name, member_type


def leaves(place: SlotPlace) -> Iterator[SlotPlace]:
    """The scalar and varbit places inside a place, in order; validity and next slots left out."""
    type_ = strip(place.type)
    if isinstance(type_, StructT | TupleT | StackT):
        for member, _ in members(type_):
            yield from leaves(place.member(member))
    elif not isinstance(type_, VoidT):
        yield place
