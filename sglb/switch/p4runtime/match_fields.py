"""`FieldMatch` messages against the target's match fields, for table entries and value sets.

P4Runtime 1.5, "Match Format": a don't-care field is left out, bits outside a mask are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from finsy.proto import p4i, p4r

from sglb.switch.keys import MatchField, MatchKey, prefix_mask
from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.p4runtime.translation import Translations, Translator
from sglb.switch.p4runtime.values import decode_bits, encode_bits

KINDS = {
    p4i.MatchField.EXACT: "exact",
    p4i.MatchField.LPM: "lpm",
    p4i.MatchField.TERNARY: "ternary",
    p4i.MatchField.RANGE: "range",
    p4i.MatchField.OPTIONAL: "optional",
}


class _Matches(Protocol):
    """A repeated `FieldMatch` of a message."""

    def add(self) -> p4r.FieldMatch: ...


class FieldCodec:
    """One match field: `width` is its width in the device, which a translated type may change."""

    def __init__(
        self, field: p4i.MatchField, width: int, translations: Translations, where: str
    ) -> None:
        self.id = field.id
        self.width = width
        self.name = field.name or f"field {field.id}"
        self.what = f"{where}, field {field.name!r}" if field.name else where
        self.kind = KINDS.get(field.match_type, "")
        self._translator: Translator | None = None
        if field.HasField("type_name"):
            self._translator = translations.of(field.type_name.name)
        # Numbers that mean the same on both sides can be masked; others can only be compared.
        self._opaque = self._translator is not None and not (
            self._translator.is_identity and self._translator.sdn_width == width
        )
        if not self.kind:
            raise ValueError(
                f"{self.what}: match kind {field.other_match_type or 'unspecified'!r} is not one "
                "this target has"
            )

    @cached_property
    def dont_care(self) -> MatchField:
        """The device's match field for a field left out (of kinds that have one)."""
        match self.kind:
            case "optional":
                return None
            case "range":
                return 0, (1 << self.width) - 1
            case _:
                return 0, 0

    # --- from the controller ----------------------------------------------------------------------

    def decode(self, match: p4r.FieldMatch) -> MatchField:
        """The device's match field; raises INVALID_ARGUMENT or OUT_OF_RANGE."""
        got = match.WhichOneof("field_match_type")
        if got != self.kind:
            raise self._bad(f"is matched {self.kind}, the request says {got or 'nothing'}")
        match got:
            case "exact":
                return self._value(match.exact.value)
            case "optional":
                return self._value(match.optional.value)
            case "lpm":
                return self._lpm(match.lpm)
            case "ternary":
                return self._ternary(match.ternary)
            case _:
                return self._range(match.range)

    def _value(self, data: bytes) -> int:
        if self._translator is not None:
            return self._translator.to_device(data, self.width, self.what)
        return decode_bits(data, self.width, self.what)

    def _sdn_width(self) -> int:
        if self._translator is not None and not self._translator.is_string:
            return self._translator.sdn_width
        return self.width

    def _lpm(self, lpm: p4r.FieldMatch.LPM) -> MatchField:
        width = self._sdn_width()
        if not 0 < lpm.prefix_len <= width:
            hint = "; leave out a field that doesn't matter" if lpm.prefix_len == 0 else ""
            raise self._bad(f"prefix_len {lpm.prefix_len} is not in 1..{width}{hint}")
        if self._opaque:
            if lpm.prefix_len != width:
                raise self._bad("of a translated type takes whole values or nothing")
            return self._value(lpm.value), self.width
        value = self._value(lpm.value)
        if value & ~prefix_mask(lpm.prefix_len, self.width):
            raise self._bad(f"{value:#x}/{lpm.prefix_len} has bits set behind the prefix")
        return value, lpm.prefix_len

    def _ternary(self, ternary: p4r.FieldMatch.Ternary) -> MatchField:
        width = self._sdn_width()
        if self._opaque:
            all_ones = (1 << width) - 1
            if decode_bits(ternary.mask, width, f"{self.what}, mask") != all_ones:
                raise self._bad("of a translated type takes whole values or nothing")
            return self._value(ternary.value), (1 << self.width) - 1
        value = self._value(ternary.value)
        mask = decode_bits(ternary.mask, width, f"{self.what}, mask")
        if not mask:
            raise self._bad("has mask 0; leave out a field that doesn't matter")
        if value & ~mask:
            raise self._bad(f"value {value:#x} has bits set outside mask {mask:#x}")
        return value, mask

    def _range(self, bounds: p4r.FieldMatch.Range) -> MatchField:
        low, high = self._value(bounds.low), self._value(bounds.high)
        if self._opaque and low != high:
            raise self._bad("of a translated type takes whole values or nothing")
        if low > high:
            raise self._bad(f"range {low}..{high} is empty")
        if low == 0 and high == (1 << self.width) - 1 and not self._opaque:
            raise self._bad("spans all values; leave out a field that doesn't matter")
        return low, high

    def _bad(self, text: str) -> P4RuntimeError:
        return P4RuntimeError(Code.INVALID_ARGUMENT, f"{self.what} {text}")

    # --- to the controller ------------------------------------------------------------------------

    def fill(self, match: p4r.FieldMatch, field: MatchField) -> None:
        """Writes the canonical message of a field that matters."""
        match.field_id = self.id
        if isinstance(field, tuple):
            first, second = field
            if self.kind == "lpm":
                match.lpm.value = self._bytes(first)
                match.lpm.prefix_len = self._sdn_width() if second == self.width else second
            elif self.kind == "ternary":
                whole = second == (1 << self.width) - 1
                mask = (1 << self._sdn_width()) - 1 if whole else second
                match.ternary.value = self._bytes(first)
                match.ternary.mask = encode_bits(mask)
            else:
                match.range.low = self._bytes(first)
                match.range.high = self._bytes(second)
        elif field is not None:
            if self.kind == "exact":
                match.exact.value = self._bytes(field)
            else:
                match.optional.value = self._bytes(field)

    def _bytes(self, value: int) -> bytes:
        if self._translator is not None:
            return self._translator.to_controller(value)
        return encode_bits(value)


class MatchCodec:
    """All match fields of a table or value set, in the device's key order.

    `widths` are the key widths in the device. Raises ValueError for a match kind that the target
    doesn't have.
    """

    def __init__(
        self,
        fields: Sequence[p4i.MatchField],
        widths: Sequence[int],
        translations: Translations,
        where: str,
    ) -> None:
        self._where = where
        self._fields = [
            FieldCodec(field, width, translations, where)
            for field, width in zip(fields, widths, strict=True)
        ]
        self._by_id = {field.id: i for i, field in enumerate(self._fields)}
        self._ids = [field.id for field in self._fields]

    def decode(self, matches: Sequence[p4r.FieldMatch]) -> MatchKey:
        """The key of an entry; fields left out become don't care.

        Raises INVALID_ARGUMENT for an unknown, repeated or missing field, or as the fields do.
        """
        if [match.field_id for match in matches] == self._ids:  # as clients mostly send them
            fields = zip(self._fields, matches, strict=True)
            return tuple([field.decode(match) for field, match in fields])
        key: list[MatchField] = [field.dont_care for field in self._fields]
        seen: set[int] = set()
        for match in matches:
            index = self._by_id.get(match.field_id)
            if index is None:
                raise P4RuntimeError(
                    Code.INVALID_ARGUMENT,
                    f"{self._where} has no match field {match.field_id} "
                    f"(it has {', '.join(f'{f.id} {f.name}' for f in self._fields) or 'none'})",
                )
            if index in seen:
                raise P4RuntimeError(
                    Code.INVALID_ARGUMENT,
                    f"{self._where}: match field {match.field_id} is given twice",
                )
            seen.add(index)
            key[index] = self._fields[index].decode(match)
        for i, field in enumerate(self._fields):
            if field.kind == "exact" and i not in seen:
                raise P4RuntimeError(
                    Code.INVALID_ARGUMENT, f"{field.what} is matched exact and must be given"
                )
        return tuple(key)

    def fill(self, matches: _Matches, key: MatchKey) -> None:
        """Adds the canonical messages of a key, don't-care fields left out."""
        for field, part in zip(self._fields, key, strict=True):
            if field.kind == "exact" or part != field.dont_care:
                field.fill(matches.add(), part)
