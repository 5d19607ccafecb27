"""Port numbers in watch ports and replicas (P4Runtime 1.5, "Translation of Port Numbers")."""

from __future__ import annotations

from collections.abc import Callable

from sglb.switch.p4runtime.status import Code, P4RuntimeError
from sglb.switch.p4runtime.translation import Translator
from sglb.switch.p4runtime.values import decode_bits, encode_bits


class PortCodec:
    """Controller's port bytes against the switch's port numbers.

    `known` tells whether the switch has a port. `translator` is that of the program's port type, if
    it has a translated one; without it numbers mean themselves.
    """

    def __init__(
        self, known: Callable[[int], bool], cpu_port: int, translator: Translator | None
    ) -> None:
        self._known = known
        self._cpu_port = cpu_port
        self._translator = translator

    def decode(self, data: bytes, what: str) -> int:
        """The port number; INVALID_ARGUMENT for a port that the switch doesn't have."""
        if self._translator is not None:
            return self.check(self._translator.to_device(data, 9, f"{what}: port"), what)
        return self.check(decode_bits(data, 32, f"{what}: port"), what)

    def check(self, port: int, what: str) -> int:
        """`port` itself; raises as `decode`."""
        if port != self._cpu_port and not self._known(port):
            raise P4RuntimeError(
                Code.INVALID_ARGUMENT,
                f"{what}: the switch has no port {port} (its CPU port is {self._cpu_port})",
            )
        return port

    def encode(self, port: int) -> bytes:
        """The controller's bytes for a port."""
        if self._translator is not None:
            return self._translator.to_controller(port)
        return encode_bits(port)
