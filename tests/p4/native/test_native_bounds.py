"""Native code touches no byte beyond what the border gives it: behind each piece, memory is fenced off.

A packet's bytes, the room for its headers and its row each end where a page begins that nobody may read
or write. One step too far ends the process.
"""

from __future__ import annotations

import ctypes
import mmap
import random

import numpy as np
import pytest
from native_rows_kit import NativePasses, Row
from native_twins_kit import Twin, compiled, variations
from test_native_programs import CASES, ORACLE, compiles, recorded

from sglb.p4.native import abi

_PAGE = mmap.PAGESIZE
_NO_ACCESS = 0
_libc = ctypes.CDLL(None, use_errno=True)


class Fenced:
    """`size` bytes with a page behind them that nobody may touch."""

    def __init__(self, size: int) -> None:
        pages = -(-size // _PAGE) + 1
        self._map = mmap.mmap(-1, pages * _PAGE)
        whole = np.frombuffer(self._map, dtype=np.uint8)
        self._fence = whole.ctypes.data + (pages - 1) * _PAGE
        self._protect(_NO_ACCESS)
        self.bytes = whole[(pages - 1) * _PAGE - size : (pages - 1) * _PAGE]
        self.address = self._fence - size

    def open(self) -> None:
        """The page behind may be touched again, so that the memory can go."""
        self._protect(mmap.PROT_READ | mmap.PROT_WRITE)

    def _protect(self, access: int) -> None:
        place = ctypes.c_void_p(self._fence)
        assert _libc.mprotect(place, ctypes.c_size_t(_PAGE), access) == 0


def through(native: NativePasses, row: Row) -> tuple[list[int], bytes]:
    """What both passes leave in the row's head, and the headers."""
    status = native.run("p4_ingress_pass", row)
    if not status and not row.get("MCAST_GRP"):
        row.ints[abi.EGRESS_PORT] = row.get("EGRESS_SPEC")
        status = native.run("p4_egress_pass", row)
    ends = [row.get("OUT_LENGTH"), row.get("PAYLOAD_OFFSET")] if not status else []
    return [status, *ends], row.out() if not status else b""


@pytest.mark.parametrize("name", CASES)
def test_no_byte_beyond_its_memory_is_touched(name: str) -> None:
    path = ORACLE / name / "program.p4"
    if not compiles(path):
        return
    commands, packets = recorded(name)
    fenced, roomy = (
        NativePasses(Twin(compiled(path), "native", commands).switch.state) for _ in "ab"
    )
    code = fenced.native
    rows, outs = Fenced(code.row_bytes), Fenced(code.max_header_bytes)
    tight, wide = Row(code), Row(code)
    tight.place(rows.bytes)
    tight.words[abi.OUT] = outs.address
    reach, rng = code.max_parse_bytes, random.Random(name)
    for port, data in variations(random.Random(name), packets[:6]):
        # Behind the packet's bytes come zeros that are not stored, but readable up to the reach.
        length = len(data) + (0 if reach is None else rng.choice([0, 1, 30, 300]))
        there = Fenced(max(len(data), min(length, reach or 0)))
        there.bytes[: len(data)] = np.frombuffer(data, dtype=np.uint8)
        fields = {"INGRESS_PORT": port, "PACKET_LENGTH": length, "OUT_LENGTH": 0}
        wide.put(data, length, 10**9, **fields)
        tight.words[abi.NOW], tight.words[abi.DATA] = 10**9, there.address
        for field, value in {**fields, "LENGTH": length, "STORED": len(data)}.items():
            tight.ints[getattr(abi, field)] = value
        got, _ = through(fenced, tight)
        there.open()
        expected, headers = through(roomy, wide)
        assert got == expected
        if not got[0]:
            assert outs.bytes[: got[1]].tobytes() == headers
    rows.open()
    outs.open()
