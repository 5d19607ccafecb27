"""Port numbers in watch ports and replicas (P4Runtime 1.5, "Translation of Port Numbers")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.p4runtime.translation import Translator
from sglb.switch.p4runtime.values import decode_bits, encode_bits

#: The number that P4Runtime reserves for the CPU port of every device.
SDN_PORT_CPU: Final = 0xFFFFFFFD


class PortCodec:
    """Controller's port bytes against the switch's port numbers.

    `known` tells whether the switch has a port. `translator` is that of the program's port type, if
    it has a translated one; without it numbers mean themselves. `SDN_PORT_CPU` is the CPU port
    unless the translation says otherwise.
    """

    def __init__(
        self, known: Callable[[int], bool], cpu_port: int, translator: Translator | None
    ) -> None:
        self._known = known
        self._cpu_port = cpu_port
        self._translator = translator

    def decode(self, data: bytes, what: str) -> int:
        """The port number; INVALID_ARGUMENT for a port that the switch doesn't have."""
        translator = self._translator
        numeric = translator is None or translator.is_identity
        if numeric and int.from_bytes(data, "big") == SDN_PORT_CPU:
            return self._cpu_port
        if translator is not None:
            return self.check(translator.to_device(data, 9, f"{what}: port"), what)
        return self.check(decode_bits(data, 32, f"{what}: port"), what)

    def check(self, port: int, what: str) -> int:
        """`port` itself; raises as `decode`."""
        if port != self._cpu_port and not self._known(port):
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT,
                f"{what}: the switch has no port {port} (its CPU port is {self._cpu_port})",
            )
        return port

    def canonical(self, data: bytes) -> bytes:
        """The shortest bytes for the controller's own name of a port that `decode` has taken."""
        if self._translator is not None and self._translator.is_string:
            return data
        return encode_bits(int.from_bytes(data, "big"))

    def encode(self, port: int) -> bytes:
        """The controller's bytes for a port."""
        if self._translator is not None:
            return self._translator.to_controller(port)
        return encode_bits(port)
