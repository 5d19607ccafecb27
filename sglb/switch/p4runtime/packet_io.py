"""Packet-in and packet-out: `PacketMetadata` against the bits of a controller header.

P4Runtime 1.5, "Packet I/O". A frame to or from the CPU port begins with the program's header
annotated `@controller_header("packet_in")` or `("packet_out")`; its fields, padding included, are
the metadata that P4Info lists, packed without gaps. Zero bits fill up the last byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from finsy.proto import p4i, p4r

from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.p4runtime.translation import Translations, Translator
from sglb.switch.p4runtime.values import decode_bits, encode_bits


@dataclass(frozen=True, slots=True)
class _Field:
    id: int
    name: str
    width: int
    translator: Translator | None


class ControllerHeader:
    """The codec of one controller header; `header` None stands for a program without one.

    `widths` gives a field's width in the device where it differs from P4Info's (translated types).
    """

    def __init__(
        self,
        name: str,
        header: p4i.ControllerPacketMetadata | None,
        translations: Translations,
        widths: Sequence[int] | None = None,
    ) -> None:
        self.name = name
        metadata = list(header.metadata) if header is not None else []
        if widths is None:
            widths = [m.bitwidth for m in metadata]
        self._fields = [
            _Field(
                m.id,
                m.name,
                width,
                translations.of(m.type_name.name) if m.HasField("type_name") else None,
            )
            for m, width in zip(metadata, widths, strict=True)
        ]
        self._by_id = {field.id: field for field in self._fields}
        bits = sum(field.width for field in self._fields)
        self.size_bytes = (bits + 7) // 8
        self._padding = 8 * self.size_bytes - bits

    def pack(self, packet: p4r.PacketOut) -> bytes:
        """The frame for the CPU port: header, then payload.

        Raises INVALID_ARGUMENT unless each field is there once, OUT_OF_RANGE for a bad value.
        """
        values: dict[int, int] = {}
        for metadata in packet.metadata:
            field = self._by_id.get(metadata.metadata_id)
            if field is None:
                raise P4RuntimeError(
                    Code.INVALID_ARGUMENT,
                    f"{self.name}: unknown metadata id {metadata.metadata_id} ({self._known()})",
                )
            if field.id in values:
                raise P4RuntimeError(
                    Code.INVALID_ARGUMENT, f"{self.name}: metadata {field.name!r} is given twice"
                )
            what = f"{self.name}: metadata {field.name!r}"
            if field.translator is not None:
                values[field.id] = field.translator.to_device(metadata.value, field.width, what)
            else:
                values[field.id] = decode_bits(metadata.value, field.width, what)
        missing = [field.name for field in self._fields if field.id not in values]
        if missing:
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT, f"{self.name}: metadata {missing[0]!r} is missing"
            )
        bits = 0
        for field in self._fields:
            bits = bits << field.width | values[field.id]
        return (bits << self._padding).to_bytes(self.size_bytes, "big") + packet.payload

    def unpack(self, frame: bytes) -> p4r.PacketIn:
        """The message for a frame that left on the CPU port.

        Raises OUT_OF_RANGE for a frame shorter than the header.
        """
        if len(frame) < self.size_bytes:
            raise P4RuntimeError(
                Code.OUT_OF_RANGE,
                f"{self.name}: a frame of {len(frame)} bytes left on the CPU port, but the "
                f"controller header takes {self.size_bytes}: does the program emit it?",
            )
        bits = int.from_bytes(frame[: self.size_bytes], "big") >> self._padding
        values = []
        for field in reversed(self._fields):
            values.append(bits & ((1 << field.width) - 1))
            bits >>= field.width
        packet = p4r.PacketIn(payload=frame[self.size_bytes :])
        for field, value in zip(self._fields, reversed(values), strict=True):
            translator = field.translator
            data = encode_bits(value) if translator is None else translator.to_controller(value)
            packet.metadata.add(metadata_id=field.id, value=data)
        return packet

    def _known(self) -> str:
        if not self._fields:
            return f"the program has no @controller_header({self.name!r})"
        return "known: " + ", ".join(f"{f.id} {f.name}" for f in self._fields)
