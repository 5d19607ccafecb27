"""What an observer on a wire can tell of a frame: whose it is and where it is bound.

This classifies for metrics only; nothing is forwarded by it.
"""

from __future__ import annotations

from sglb.fabric.events import Traffic

_IPV4 = b"\x08\x00"
_IPV6 = b"\x86\xdd"
SYNCMESH = b"\x88\xb5"
_ETHERNET = 14
_ROCE_ACK = 0x11
_ROCE_CNP = 0x81
_BTH_IPV4 = _ETHERNET + 20 + 8
_BTH_IPV6 = _ETHERNET + 40 + 8
_NOTE = 8
_URGENT = 1
_NOTE_BYTES = _ETHERNET + 12 + 8
_CODE_DOWN = 8


def ether_type(frame: bytes) -> bytes:
    """The EtherType's two bytes."""
    return frame[12:14]


def destination_switch(frame: bytes) -> int:
    """The switch id in a host's address (see `Topology.prefix4`); 0 for other frames."""
    kind = frame[12:14]
    if kind == _IPV4 and len(frame) >= _BTH_IPV4:
        return int.from_bytes(frame[31:33], "big")
    if kind == _IPV6 and len(frame) >= _BTH_IPV6:
        return int.from_bytes(frame[44:46], "big")
    return 0


def traffic(frame: bytes) -> Traffic:
    """Data and acknowledges of hosts, or control frames (DCQCN's notifications among them)."""
    kind = frame[12:14]
    at = _BTH_IPV4 if kind == _IPV4 else _BTH_IPV6 if kind == _IPV6 else 0
    if not at or len(frame) <= at or frame[at] == _ROCE_CNP:
        return Traffic.CONTROL
    return Traffic.ACK if frame[at] == _ROCE_ACK else Traffic.DATA


def packet_identity(frame: bytes) -> bytes | None:
    """What stays the same in a host's data packet on its way, and when it is sent again.

    Destination address, queue pair and PSN; None for other frames.
    """
    if traffic(frame) is not Traffic.DATA:
        return None
    if frame[12:14] == _IPV4:
        address, bth = frame[30:34], _BTH_IPV4
    else:
        address, bth = frame[38:54], _BTH_IPV6
    return address + frame[bth + 5 : bth + 8] + frame[bth + 9 : bth + 12]


def urgent_note(frame: bytes) -> tuple[int, bool] | None:
    """(origin, whether it tells of a down path) of an urgent SyncMesh notification, else None."""
    if frame[12:14] != SYNCMESH or len(frame) < _NOTE_BYTES:
        return None
    if frame[14] & 0xF != _NOTE or not frame[15] & _URGENT:
        return None
    origin = int.from_bytes(frame[18:22], "big")
    return origin, frame[28] & 0xF == _CODE_DOWN
