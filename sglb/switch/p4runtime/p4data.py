"""`P4Data` of registers and digests against the flat integers that the data plane holds.

P4Runtime 1.5, "P4Data in p4runtime.proto". A value is the list of its leaves, in declaration order:
a bit<W>, int<W>, bool, enum or error is one, a varbit two (bits, length), a header its validity and
then its fields, a struct, tuple, stack or union the concatenation of its members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from finsy.proto import p4d, p4i, p4t

from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.p4runtime.translation import Translations
from sglb.switch.p4runtime.values import (
    decode_bits,
    decode_int,
    decode_varbit,
    encode_bits,
    encode_int,
)


class P4DataCodec:
    """Reads and writes `P4Data` by the type specifications of one P4Info."""

    def __init__(self, p4info: p4i.P4Info, translations: Translations) -> None:
        self._types = p4info.type_info
        self._translations = translations

    # --- to P4Data --------------------------------------------------------------------------------

    def encode(self, spec: p4t.P4DataTypeSpec, leaves: Sequence[int]) -> p4d.P4Data:
        """The canonical message of a value given by its leaves."""
        return self._encode(spec, iter(leaves))

    def _encode(self, spec: p4t.P4DataTypeSpec, leaves: Iterator[int]) -> p4d.P4Data:
        kind = spec.WhichOneof("type_spec")
        data = p4d.P4Data()
        match kind:
            case "bitstring":
                self._encode_bits(spec.bitstring, leaves, data)
            case "bool":
                data.bool = bool(next(leaves))
            case "tuple":
                data.tuple.SetInParent()
                data.tuple.members.extend(self._encode(m, leaves) for m in spec.tuple.members)
            case "struct":
                data.struct.SetInParent()
                for member in self._types.structs[spec.struct.name].members:
                    data.struct.members.append(self._encode(member.type_spec, leaves))
            case "header":
                data.header.CopyFrom(self._encode_header(spec.header.name, leaves))
            case "header_union":
                data.header_union.CopyFrom(self._encode_union(spec.header_union.name, leaves))
            case "header_stack":
                data.header_stack.SetInParent()
                for _ in range(spec.header_stack.size):
                    name = spec.header_stack.header.name
                    data.header_stack.entries.append(self._encode_header(name, leaves))
            case "header_union_stack":
                data.header_union_stack.SetInParent()
                for _ in range(spec.header_union_stack.size):
                    name = spec.header_union_stack.header_union.name
                    data.header_union_stack.entries.append(self._encode_union(name, leaves))
            case _:
                self._encode_named(spec, leaves, data)
        return data

    def _encode_named(
        self, spec: p4t.P4DataTypeSpec, leaves: Iterator[int], data: p4d.P4Data
    ) -> None:
        match spec.WhichOneof("type_spec"):
            case "enum":
                members = self._types.enums[spec.enum.name].members
                data.enum = _name_at([m.name for m in members], next(leaves))
            case "error":
                data.error = _name_at(list(self._types.error.members), next(leaves))
            case "serializable_enum":
                data.enum_value = encode_bits(next(leaves))
            case "new_type":
                translator = self._translations.of(spec.new_type.name)
                if translator is not None:
                    data.bitstring = translator.to_controller(next(leaves))
                else:
                    original = self._types.new_types[spec.new_type.name].original_type
                    data.CopyFrom(self._encode(original, leaves))
            case other:
                raise ValueError(f"P4Info names no type for a value (type_spec {other!r})")

    def _encode_bits(
        self, spec: p4t.P4BitstringLikeTypeSpec, leaves: Iterator[int], data: p4d.P4Data
    ) -> None:
        match spec.WhichOneof("type_spec"):
            case "varbit":
                value, bits = next(leaves), next(leaves)
                data.varbit.bitstring = value.to_bytes((bits + 7) // 8, "big")
                data.varbit.bitwidth = bits
            case _:
                data.bitstring = self._encode_field(spec, leaves)

    def _encode_field(self, spec: p4t.P4BitstringLikeTypeSpec, leaves: Iterator[int]) -> bytes:
        match spec.WhichOneof("type_spec"):
            case "int":
                return encode_int(next(leaves), spec.int.bitwidth)
            case "varbit":
                value, bits = next(leaves), next(leaves)
                return value.to_bytes((bits + 7) // 8, "big")
            case _:
                return encode_bits(next(leaves))

    def _encode_header(self, name: str, leaves: Iterator[int]) -> p4d.P4Header:
        valid = bool(next(leaves))
        fields = [
            self._encode_field(m.type_spec, leaves) for m in self._types.headers[name].members
        ]
        return p4d.P4Header(is_valid=valid, bitstrings=fields if valid else [])

    def _encode_union(self, name: str, leaves: Iterator[int]) -> p4d.P4HeaderUnion:
        union = p4d.P4HeaderUnion()
        for member in self._types.header_unions[name].members:
            header = self._encode_header(member.header.name, leaves)
            if header.is_valid:
                union.valid_header_name = member.name
                union.valid_header.CopyFrom(header)
        return union

    # --- from P4Data ------------------------------------------------------------------------------

    def decode(
        self, spec: p4t.P4DataTypeSpec, data: p4d.P4Data, widths: Sequence[int], what: str
    ) -> list[int]:
        """The leaves of a message; `widths` are those of the leaves in the data plane.

        Raises INVALID_ARGUMENT for another shape than the type's, OUT_OF_RANGE for a bad string.
        """
        return list(self._decode(spec, data, iter(widths), what))

    def _decode(
        self, spec: p4t.P4DataTypeSpec, data: p4d.P4Data, widths: Iterator[int], what: str
    ) -> Iterator[int]:
        kind = spec.WhichOneof("type_spec") or "bitstring"
        named = {"serializable_enum": "enum_value", "new_type": ""}
        wanted = named.get(kind, kind)
        if kind == "bitstring" and spec.bitstring.WhichOneof("type_spec") == "varbit":
            wanted = "varbit"
        got = data.WhichOneof("data")
        if wanted and got != wanted:
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT, f"{what}: the type calls for {wanted}, the data has {got}"
            )
        match kind:
            case "tuple":
                yield from self._decode_members(
                    list(spec.tuple.members), data.tuple.members, widths, what
                )
            case "struct":
                members = self._types.structs[spec.struct.name].members
                yield from self._decode_members(
                    [m.type_spec for m in members], data.struct.members, widths, what
                )
            case "header":
                yield from self._decode_header(spec.header.name, data.header, widths, what)
            case "header_union":
                yield from self._decode_union(
                    spec.header_union.name, data.header_union, widths, what
                )
            case "header_stack":
                stack = spec.header_stack
                _same_length(stack.size, data.header_stack.entries, what)
                for header in data.header_stack.entries:
                    yield from self._decode_header(stack.header.name, header, widths, what)
            case "header_union_stack":
                unions = spec.header_union_stack
                _same_length(unions.size, data.header_union_stack.entries, what)
                for union in data.header_union_stack.entries:
                    yield from self._decode_union(unions.header_union.name, union, widths, what)
            case _:
                yield from self._decode_scalar(spec, data, widths, what)

    def _decode_scalar(
        self, spec: p4t.P4DataTypeSpec, data: p4d.P4Data, widths: Iterator[int], what: str
    ) -> Iterator[int]:
        match spec.WhichOneof("type_spec"):
            case "bool":
                next(widths)
                yield int(bool(data.bool))
            case "enum":
                next(widths)
                members = [m.name for m in self._types.enums[spec.enum.name].members]
                yield _index_of(members, data.enum, what)
            case "error":
                next(widths)
                yield _index_of(list(self._types.error.members), data.error, what)
            case "serializable_enum":
                yield decode_bits(data.enum_value, next(widths), what)
            case "new_type":
                yield from self._decode_new(spec.new_type.name, data, widths, what)
            case _:
                if data.WhichOneof("data") == "varbit":
                    limit = spec.bitstring.varbit.max_bitwidth
                    yield decode_varbit(data.varbit.bitstring, data.varbit.bitwidth, limit, what)
                    next(widths), next(widths)
                    yield data.varbit.bitwidth
                else:
                    yield from self._decode_field(spec.bitstring, data.bitstring, widths, what)

    def _decode_new(
        self, name: str, data: p4d.P4Data, widths: Iterator[int], what: str
    ) -> Iterator[int]:
        translator = self._translations.of(name)
        if translator is None:
            original = self._types.new_types[name].original_type
            yield from self._decode(original, data, widths, what)
        elif data.WhichOneof("data") != "bitstring":
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT, f"{what}: type {name} calls for a bitstring"
            )
        else:
            yield translator.to_device(data.bitstring, next(widths), what)

    def _decode_members(
        self,
        specs: Sequence[p4t.P4DataTypeSpec],
        members: Sequence[p4d.P4Data],
        widths: Iterator[int],
        what: str,
    ) -> Iterator[int]:
        _same_length(len(specs), members, what)
        for spec, member in zip(specs, members, strict=True):
            yield from self._decode(spec, member, widths, what)

    def _decode_field(
        self, spec: p4t.P4BitstringLikeTypeSpec, data: bytes, widths: Iterator[int], what: str
    ) -> Iterator[int]:
        match spec.WhichOneof("type_spec"):
            case "int":
                yield decode_int(data, next(widths), what)
            case "varbit":
                # A header's varbit comes as whole bytes: its length is theirs.
                bits = 8 * len(data)
                yield decode_varbit(data, bits, spec.varbit.max_bitwidth, what)
                next(widths), next(widths)
                yield bits
            case _:
                yield decode_bits(data, next(widths), what)

    def _decode_header(
        self, name: str, header: p4d.P4Header, widths: Iterator[int], what: str
    ) -> Iterator[int]:
        members = self._types.headers[name].members
        next(widths)
        yield int(header.is_valid)
        if header.is_valid:
            _same_length(len(members), header.bitstrings, what)
            for member, data in zip(members, header.bitstrings, strict=True):
                yield from self._decode_field(member.type_spec, data, widths, what)
            return
        if header.bitstrings:
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT, f"{what}: an invalid header must have no bitstrings"
            )
        for _ in range(self._header_leaves(name)):
            next(widths)
            yield 0

    def _header_leaves(self, name: str) -> int:
        members = self._types.headers[name].members
        return sum(2 if m.type_spec.WhichOneof("type_spec") == "varbit" else 1 for m in members)

    def _decode_union(
        self, name: str, union: p4d.P4HeaderUnion, widths: Iterator[int], what: str
    ) -> Iterator[int]:
        members = self._types.header_unions[name].members
        chosen = union.valid_header_name
        if chosen not in {"", *(m.name for m in members)} or (
            union.HasField("valid_header") is not bool(chosen)
            or union.valid_header.is_valid is not bool(chosen)
        ):
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT, f"{what}: {chosen!r} is no valid header of union {name}"
            )
        for member in members:
            header = union.valid_header if member.name == chosen else p4d.P4Header()
            yield from self._decode_header(member.header.name, header, widths, what)


def _same_length(wanted: int, got: Sequence[object], what: str) -> None:
    if len(got) != wanted:
        raise P4RuntimeError(
            Code.INVALID_ARGUMENT, f"{what}: {len(got)} values given, the type has {wanted}"
        )


def _name_at(names: Sequence[str], index: int) -> str:
    return names[index] if index < len(names) else ""


def _index_of(names: Sequence[str], name: str, what: str) -> int:
    if name not in names:
        raise P4RuntimeError(
            Code.INVALID_ARGUMENT, f"{what}: {name!r} is not one of {', '.join(names)}"
        )
    return names.index(name)
