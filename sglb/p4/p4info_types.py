"""P4 types as P4Info shows them: data type specs, and the `type_info` that they refer to."""

from __future__ import annotations

from dataclasses import dataclass

from finsy.proto import p4i, p4t

from sglb.p4.p4info_names import (
    Annotations,
    add_annotations,
    find,
    p4info_error,
    string_argument,
)
from sglb.p4.types import (
    BitsT,
    BoolT,
    EnumT,
    ErrorT,
    FieldT,
    NewT,
    SerEnumT,
    StackT,
    StructT,
    TupleT,
    Type,
    VarbitT,
)

#: How wide v1model targets hold an enum without values, and an error.
ENUM_BITS = 32


@dataclass(frozen=True, slots=True)
class Translation:
    """@p4runtime_translation: a URI, and the controller's width in bits (0 for strings)."""

    uri: str
    bitwidth: int


def translation(type_: Type) -> Translation | None:
    """The type's own translation, if it has one."""
    annotation = find(_annotations(type_), "p4runtime_translation")
    if annotation is None:
        return None
    texts = [t for t in annotation.tokens if t != ","]
    if len(texts) == 5 and texts[1] == "bit" and (texts[2], texts[4]) == ("<", ">"):
        texts = [texts[0], texts[3]]
    if len(texts) != 2 or not (texts[1] == "string" or texts[1].isdecimal()):
        raise p4info_error(
            f"cannot read the @p4runtime_translation of {type_}",
            [annotation],
            'write @p4runtime_translation("uri", 32) or @p4runtime_translation("uri", string)',
        )
    return Translation(texts[0], 0 if texts[1] == "string" else int(texts[1]))


def _annotations(type_: Type) -> Annotations:
    if isinstance(type_, NewT | StructT) and type_.decl is not None:
        return type_.decl.annotations
    return ()


def type_label(type_: NewT | StructT | EnumT | SerEnumT) -> str:
    """A named type's control-plane name: its @name, else its own."""
    annotation = find(_annotations(type_), "name")
    return string_argument(annotation).removeprefix(".") if annotation else type_.name


def underlying(type_: Type) -> Type:
    """What is below any number of `type` declarations."""
    while isinstance(type_, NewT):
        type_ = type_.underlying
    return type_


def width_of(type_: Type) -> int:
    """Bits of a value as the control plane sends it; 0 for a string.

    An enum without values has ENUM_BITS, as in BMv2's JSON (p4c shows none in P4Info).
    """
    translated = translation(type_)
    if translated is not None:
        return translated.bitwidth
    below = underlying(type_)
    if isinstance(below, BitsT):
        return below.width
    if isinstance(below, BoolT):
        return 1
    if isinstance(below, SerEnumT):
        return below.underlying.width
    if isinstance(below, EnumT):
        return ENUM_BITS
    if isinstance(below, ErrorT):
        return 0
    if isinstance(below, VarbitT):
        return below.width
    raise p4info_error(f"a value of type {type_} has no form in P4Runtime")


class TypeInfo:
    """Turns types into specs, and records the named ones in a P4Info's `type_info`."""

    def __init__(self, p4info: p4i.P4Info, errors: tuple[str, ...]) -> None:
        self._p4info = p4info
        self._errors = errors

    def touch(self) -> None:
        """Makes `type_info` present, were it only as an empty message."""
        self._p4info.type_info.SetInParent()

    def name_of(self, type_: Type) -> str | None:
        """The name that `type_name` fields hold: that of a `type` declaration, which is recorded."""
        self.spec(type_)
        return type_.name if isinstance(type_, NewT) else None

    def spec(self, type_: Type) -> p4t.P4DataTypeSpec:
        """The type's spec. Raises P4Error for one that the control plane can't see."""
        self.touch()
        out = p4t.P4DataTypeSpec()
        if isinstance(type_, BitsT):
            kind = out.bitstring.int if type_.signed else out.bitstring.bit
            kind.bitwidth = type_.width
        elif isinstance(type_, VarbitT):
            out.bitstring.varbit.max_bitwidth = type_.width
        elif isinstance(type_, BoolT):
            out.bool.SetInParent()
        elif isinstance(type_, ErrorT):
            out.error.SetInParent()
            if not self._p4info.type_info.HasField("error"):
                self._p4info.type_info.error.members.extend(self._errors)
        elif isinstance(type_, TupleT):
            out.tuple.members.extend(self.spec(item) for item in type_.items)
            out.tuple.SetInParent()
        elif isinstance(type_, StackT):
            self._stack(out, type_)
        else:
            self._named(out, type_)
        return out

    def _stack(self, out: p4t.P4DataTypeSpec, type_: StackT) -> None:
        element = self.spec(type_.element)
        if element.HasField("header"):
            out.header_stack.header.name = element.header.name
            out.header_stack.size = type_.size
        elif element.HasField("header_union"):
            out.header_union_stack.header_union.name = element.header_union.name
            out.header_union_stack.size = type_.size
        else:
            raise p4info_error(f"P4Runtime has no arrays of {type_.element}")

    def _named(self, out: p4t.P4DataTypeSpec, type_: Type) -> None:
        if isinstance(type_, NewT):
            out.new_type.name = type_label(type_)
            self._new_type(type_)
        elif isinstance(type_, EnumT):
            out.enum.name = type_label(type_)
            enum = self._p4info.type_info.enums[out.enum.name]
            if not enum.members:
                for member in type_.members:
                    enum.members.add().name = member
        elif isinstance(type_, SerEnumT):
            out.serializable_enum.name = type_label(type_)
            self._serializable_enum(type_)
        elif isinstance(type_, StructT):
            self._struct(out, type_)
        else:
            raise p4info_error(f"a value of type {type_} has no form in P4Runtime")

    def _new_type(self, type_: NewT) -> None:
        types = self._p4info.type_info.new_types
        name = type_label(type_)
        if name in types:
            return
        below = underlying(type_)
        spec = self.spec(below)
        entry = types[name]
        add_annotations(entry, _annotations(type_), ("p4runtime_translation",))
        translated = translation(type_)
        if translated is None:
            entry.original_type.CopyFrom(spec)
            return
        if not isinstance(below, BitsT):
            raise p4info_error(
                f"@p4runtime_translation of {type_} needs a type of bits below it, not {below}",
                _annotations(type_),
            )
        entry.translated_type.uri = translated.uri
        if translated.bitwidth:
            entry.translated_type.sdn_bitwidth = translated.bitwidth
        else:
            entry.translated_type.sdn_string.SetInParent()

    def _serializable_enum(self, type_: SerEnumT) -> None:
        enum = self._p4info.type_info.serializable_enums[type_label(type_)]
        if enum.members:
            return
        enum.underlying_type.bitwidth = type_.underlying.width
        for member, value in zip(type_.members, type_.values, strict=True):
            added = enum.members.add()
            added.name = member
            added.value = to_bytes(value, type_.underlying.width)

    def _struct(self, out: p4t.P4DataTypeSpec, type_: StructT) -> None:
        info = self._p4info.type_info
        name = type_label(type_)
        if type_.kind == "header":
            out.header.name = name
            if name not in info.headers:
                header = info.headers[name]
                for field, below in flat_fields(type_):
                    member = header.members.add()
                    member.name = field
                    member.type_spec.CopyFrom(self._bitstring(below))
        elif type_.kind == "header_union":
            out.header_union.name = name
            if name not in info.header_unions:
                union = info.header_unions[name]
                for f in type_.fields:
                    part = union.members.add()
                    part.name = field_name(f)
                    part.header.name = self.spec(f.type).header.name
        else:
            out.struct.name = name
            if name not in info.structs:
                struct = info.structs[name]
                for f in type_.fields:
                    item = struct.members.add()
                    item.name = field_name(f)
                    item.type_spec.CopyFrom(self.spec(f.type))

    def _bitstring(self, type_: Type) -> p4t.P4BitstringLikeTypeSpec:
        spec = self.spec(type_)
        if spec.HasField("bitstring"):
            return spec.bitstring
        out = p4t.P4BitstringLikeTypeSpec()
        out.bit.bitwidth = width_of(type_)
        return out


def field_name(field: FieldT) -> str:
    """A field's control-plane name: its @name, else its own."""
    annotation = find(field.annotations, "name")
    return string_argument(annotation).removeprefix(".") if annotation else field.name


def flat_fields(header: StructT) -> list[tuple[str, Type]]:
    """A header's scalar fields, those of structs inside it named by their path."""
    out: list[tuple[str, Type]] = []
    for field in header.fields:
        if isinstance(field.type, StructT):
            out += [(f"{field.name}.{name}", below) for name, below in flat_fields(field.type)]
        else:
            out.append((field_name(field), field.type))
    return out


def to_bytes(value: int, width: int) -> bytes:
    """A value as p4c writes it: big-endian, padded to whole bytes of its width."""
    return value.to_bytes(max((width + 7) // 8, (value.bit_length() + 7) // 8), "big")
