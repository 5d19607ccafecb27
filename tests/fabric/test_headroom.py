"""Headroom against the values worked out by hand from SONiC's formula."""

from __future__ import annotations

import pytest

from sglb.fabric.headroom import (
    cell_occupancy,
    headroom,
    least_headroom_bytes,
    peer_response_quanta,
)


def _metres(metres: float, rate_bps: int) -> float:
    """Bytes on a cable at SONiC's 1.98e8 m/s."""
    return metres * rate_bps / 8 / 1.98e8


@pytest.mark.parametrize(
    ("gbps", "metres", "xoff", "size"),
    [(100, 5, 72_704, 91_136), (100, 300, 147_456, 165_888), (400, 40, 177_152, 195_584)],
)
def test_spectrum_anchors(gbps: int, metres: float, xoff: int, size: int) -> None:
    rate = gbps * 10**9
    found = headroom(
        rate, _metres(metres, rate), 1_024, 9_100, cell_bytes=96, pipeline_bytes=18 * 1_024
    )
    assert (found.xoff_bytes, found.size_bytes) == (xoff, size)


@pytest.mark.parametrize(("cell", "factor"), [(1, 1), (64, 2), (96, 2), (128, 2), (192, 3)])
def test_cell_occupancy(cell: int, factor: float) -> None:
    assert cell_occupancy(cell) == factor


@pytest.mark.parametrize(
    ("gbps", "quanta"), [(1, 67), (10, 67), (11, 80), (100, 394), (400, 905), (1_600, 905)]
)
def test_peer_response(gbps: int, quanta: int) -> None:
    assert peer_response_quanta(gbps * 10**9) == quanta


def test_least_headroom_is_what_can_arrive() -> None:
    # 100 Gbit/s are 12.5 bytes a ns: 2 x 500 ns of cable and 400 ns of pipeline are 17,500 bytes.
    assert least_headroom_bytes(100 * 10**9, 500_000, 1_000, 0, 400_000) == 17_500 + 2_000 + 84
    # A part of a byte counts as a whole one.
    assert least_headroom_bytes(8, 1, 1_000, 0, 0) == 2_000 + 84 + 1
