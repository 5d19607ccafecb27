"""Packet capture files: a reader and a writer for classic pcap, in microseconds or nanoseconds.

Format: a 24-byte header (magic 0xa1b2c3d4 for microseconds, 0xa1b23c4d for nanoseconds, in either byte
order; version 2.4; snap length; link type), then per packet seconds, fraction, captured and original
length as 32-bit numbers and the bytes (IETF draft "PCAP Capture File Format"). Ethernet only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

_NS_PER_S = 1_000_000_000
_MAGICS = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}  # magic -> nanoseconds per unit of the fraction
_PCAPNG = 0x0A0D0D0A
_ETHERNET = 1
_SNAPLEN = 262_144


class PcapError(ValueError):
    """A file that cannot be used as a capture: one line with its name, the place and the reason."""


@dataclass(frozen=True, slots=True)
class CapturedPacket:
    """A frame and its time, in ns since the epoch."""

    time_ns: int
    data: bytes


class PcapReader:
    """Reads packets from an open binary stream, as they come; pipes work too.

    `name` is for errors. Raises `PcapError` at once for a bad header.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._number = 0
        header = self._take(24, "the file header")
        self._order, self._unit_ns = self._parse_magic(header[:4])
        _, _, _, _, snaplen, link = struct.unpack(f"{self._order}HHiIII", header[4:])
        # The upper bits of the link type tell about frame check sequences, which some tools set.
        if link & 0xFFFF != _ETHERNET:
            raise self._bad(f"its link type is {link & 0xFFFF}, only Ethernet (1) is understood")
        self._limit = max(snaplen, _SNAPLEN)

    def _parse_magic(self, magic: bytes) -> tuple[str, int]:
        for order in ("<", ">"):
            (number,) = struct.unpack(f"{order}I", magic)
            if number in _MAGICS:
                return order, _MAGICS[number]
            if number == _PCAPNG:
                raise self._bad("it is a pcapng file; convert it with `editcap -F pcap`")
        raise self._bad(f"it is no pcap file (it begins with {magic.hex()})")

    def __iter__(self) -> Iterator[CapturedPacket]:
        """The packets in file order. Raises `PcapError` where the file is damaged or cut off."""
        while True:
            head = self._stream.read(16)
            if not head:
                return
            self._number += 1
            head += self._take(16 - len(head), f"the header of packet {self._number}")
            seconds, fraction, captured, original = struct.unpack(f"{self._order}IIII", head)
            if captured > min(self._limit, 1 << 26):
                raise self._bad(f"packet {self._number} claims {captured} bytes: damaged")
            if captured < original:
                raise self._bad(
                    f"packet {self._number} was captured only in part ({captured} of {original} "
                    "bytes); capture with a larger snap length"
                )
            data = self._take(captured, f"packet {self._number}")
            yield CapturedPacket(seconds * _NS_PER_S + fraction * self._unit_ns, data)

    def _take(self, count: int, what: str) -> bytes:
        data = b""
        while len(data) < count:
            more = self._stream.read(count - len(data))
            if not more:
                raise self._bad(f"it ends inside {what}")
            data += more
        return data

    def _bad(self, text: str) -> PcapError:
        return PcapError(f"{self._name}: {text}")


class PcapWriter:
    """Writes a nanosecond capture; every packet is flushed, so that others can follow the file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self._file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, _SNAPLEN, _ETHERNET))
        self._file.flush()

    def __enter__(self) -> PcapWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, time_ns: int, data: bytes) -> None:
        """Appends a frame with its time in ns since the epoch."""
        seconds, fraction = divmod(time_ns, _NS_PER_S)
        size = len(data)
        self._file.write(struct.pack("<IIII", seconds & 0xFFFFFFFF, fraction, size, size) + data)
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def read_pcap(path: Path) -> list[CapturedPacket]:
    """All packets of a file; `PcapError` when it can't be read or is damaged."""
    try:
        with path.open("rb") as stream:
            return list(PcapReader(stream, str(path)))
    except OSError as error:
        raise PcapError(f"{path}: {error.strerror or error}") from error
