"""Values of `@p4runtime_translation` types: what the controller says against what the device holds.

P4Runtime 1.5, "PSA Metadata Translation". The mapping is set up with the switch, per type name or
URI. Without one, a numeric type translates to the same number, and a string type to the number it
spells, if it is one (`"7"`), else to a number handed out from the top of the type's range.
"""

from __future__ import annotations

from collections.abc import Mapping

from finsy.proto import p4i, p4t

from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.p4runtime.values import decode_bits, encode_bits


class Translator:
    """One translated type. `table` maps the controller's value (int or str) to the device's."""

    def __init__(
        self, name: str, spec: p4t.P4NewTypeTranslation, table: Mapping[int | str, int] | None
    ) -> None:
        self.name = name
        self.is_string = spec.WhichOneof("sdn_type") == "sdn_string"
        self.sdn_width = int(spec.sdn_bitwidth)
        self._fixed = table is not None
        self._to_device: dict[int | str, int] = dict(table or {})
        self._to_controller = {device: sdn for sdn, device in self._to_device.items()}
        wrong = [k for k in self._to_device if isinstance(k, str) is not self.is_string]
        if wrong:
            kind = "strings" if self.is_string else "numbers"
            raise ValueError(f"translation of {name}: {wrong[0]!r} found, the type has {kind}")
        if len(self._to_controller) != len(self._to_device):
            raise ValueError(f"translation of {name}: two values map to one device value")

    @property
    def is_identity(self) -> bool:
        """Whether device values are the controller's numbers."""
        return not self.is_string and not self._fixed

    def to_device(self, data: bytes, width: int, what: str) -> int:
        """The `width`-bit device value of a controller's byte string.

        Raises OUT_OF_RANGE for what doesn't fit, INVALID_ARGUMENT for what has no translation.
        """
        if self.is_string:
            return self._string_to_device(data, width, what)
        value = decode_bits(data, self.sdn_width, what)
        if not self._fixed:
            return decode_bits(encode_bits(value), width, what)
        return self._look_up(value, width, what)

    def to_controller(self, value: int) -> bytes:
        """The controller's byte string of a device value; one without a name stays a number."""
        sdn = self._to_controller.get(value, value)
        if self.is_string:
            return str(sdn).encode()
        return encode_bits(int(sdn))

    def _look_up(self, sdn: int | str, width: int, what: str) -> int:
        device = self._to_device.get(sdn)
        if device is None:
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT, f"{what}: {sdn!r} has no translation for type {self.name}"
            )
        if device >> width:
            raise P4RuntimeError(
                Code.OUT_OF_RANGE,
                f"{what}: {sdn!r} is translated to {device}, which does not fit {width} bits",
            )
        return device

    def _string_to_device(self, data: bytes, width: int, what: str) -> int:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT, f"{what}: {data!r} is not UTF-8 text (type {self.name})"
            ) from None
        if not text:
            raise P4RuntimeError(Code.OUT_OF_RANGE, f"{what}: empty string for type {self.name}")
        if self._fixed:
            return self._look_up(text, width, what)
        known = self._to_device.get(text)
        if known is not None:
            return known
        if text.isascii() and text.isdigit() and text == str(int(text[:80])):
            value = decode_bits(encode_bits(int(text)), width, what)
            if value in self._to_controller:
                raise P4RuntimeError(
                    Code.ALREADY_EXISTS,
                    f"{what}: {text} already stands for {self._to_controller[value]!r}",
                )
        else:
            value = self._free_number(width, what)
        self._to_device[text] = value
        self._to_controller[value] = text
        return value

    def _free_number(self, width: int, what: str) -> int:
        for value in range((1 << width) - 1, -1, -1):
            if value not in self._to_controller:
                return value
        raise P4RuntimeError(
            Code.RESOURCE_EXHAUSTED, f"{what}: no number of type {self.name} is left"
        )


class Translations:
    """The translated types of one P4Info. `tables` are keyed by type name or URI."""

    def __init__(
        self, p4info: p4i.P4Info, tables: Mapping[str, Mapping[int | str, int]] | None = None
    ) -> None:
        tables = tables or {}
        self._types: dict[str, Translator] = {}
        by_uri: dict[str, Translator] = {}
        for name in sorted(p4info.type_info.new_types):
            spec = p4info.type_info.new_types[name]
            if spec.WhichOneof("representation") != "translated_type":
                continue
            translation = spec.translated_type
            shared = by_uri.get(translation.uri) if translation.uri else None
            if shared is None:
                table = tables.get(name, tables.get(translation.uri))
                shared = Translator(name, translation, table)
                if translation.uri:
                    by_uri[translation.uri] = shared
            self._types[name] = shared

    def of(self, name: str) -> Translator | None:
        """The translator of a P4Info `type_name`, None for types that aren't translated."""
        return self._types.get(name)
