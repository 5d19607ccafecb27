"""BMv2's own control interface, for what P4Runtime doesn't reach there: queue rates and registers.

Calls of Apache Thrift's strict binary protocol over TCP, to services that are named before the method
(`SERVICE:METHOD`, as its multiplexed protocol has it). Arguments are integers and texts, an answer is an
integer or nothing.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from sglb.watermark.live.errors import LiveTuneError

_VERSION: Final = 0x8001_0000
_CALL, _REPLY = 1, 2
_I32, _I64, _STRING, _STOP = 8, 10, 11, 0
_SIZES: Final = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}  #: of values of one size, by type
_STRUCT: Final = 12
_MAX_BYTES: Final = 1 << 16
_CALL_S: Final = 10.0
_DEEPEST: Final = 8


class I64(int):
    """An argument of 64 bits; others have 32."""


class ThriftClient:
    """Calls over a connected socket, which is closed with it. `bytes` counts both ways.

    Raises `LiveTuneError` for a method that fails, and for an answer that is none.
    """

    def __init__(self, name: str, connection: socket.socket) -> None:
        self._name = name
        self._socket = connection
        self._socket.settimeout(_CALL_S)
        self._number = 0
        self.bytes = 0

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def call(self, method: str, *arguments: int | str) -> int | None:
        """`SERVICE:METHOD` with arguments in order; the integer that it answers, if it does."""
        self._number += 1
        head = struct.pack("!II", _VERSION | _CALL, len(method)) + method.encode()
        body = b"".join(_field(number, one) for number, one in enumerate(arguments, 1))
        request = head + struct.pack("!I", self._number) + body + bytes((_STOP,))
        try:
            self._socket.sendall(request)
            self.bytes += len(request)
            return self._answer(method.partition(":")[2])
        except OSError as error:
            raise LiveTuneError(f"{self._name}: {method}: {error}") from error

    def _answer(self, method: str) -> int | None:
        version, size = struct.unpack("!II", self._read(8))
        name, (number,) = self._read(size), struct.unpack("!I", self._read(4))
        fields = self._fields(0)
        if name != method.encode() or number != self._number or version >> 16 != _VERSION >> 16:
            raise LiveTuneError(f"{self._name}: an answer that is none to {method}")
        if version & 0xFF != _REPLY or (fields and 0 not in fields):
            why = next((v for v in fields.values() if isinstance(v, str)), "it was refused")
            raise LiveTuneError(f"{self._name}: {method}: {why}")
        found = fields.get(0)
        return found if isinstance(found, int) else None

    def _fields(self, depth: int) -> dict[int, int | str]:
        """Integers and texts of a struct by number; what is in others of it is passed over."""
        if depth > _DEEPEST:
            raise LiveTuneError(f"{self._name}: an answer that is nested too deep")
        found: dict[int, int | str] = {}
        while (kind := self._read(1)[0]) != _STOP:
            (number,) = struct.unpack("!h", self._read(2))
            if kind == _STRUCT:
                self._fields(depth + 1)
                found[number] = "it was refused"
            elif kind == _STRING:
                (size,) = struct.unpack("!I", self._read(4))
                found[number] = self._read(size).decode(errors="replace")
            elif kind in _SIZES:
                found[number] = int.from_bytes(self._read(_SIZES[kind]), "big", signed=True)
            else:
                raise LiveTuneError(f"{self._name}: an answer with a value of type {kind}")
        return found

    def _read(self, size: int) -> bytes:
        if size > _MAX_BYTES:
            raise LiveTuneError(f"{self._name}: an answer with a text of {size} bytes")
        found = b""
        while len(found) < size:
            more = self._socket.recv(size - len(found))
            if not more:
                raise LiveTuneError(f"{self._name}: ended in the middle of an answer")
            found += more
        self.bytes += size
        return found


def _field(number: int, value: int | str) -> bytes:
    if isinstance(value, str):
        return struct.pack("!bhI", _STRING, number, len(value.encode())) + value.encode()
    if isinstance(value, I64):
        return struct.pack("!bhq", _I64, number, value)
    return struct.pack("!bhi", _I32, number, value)
