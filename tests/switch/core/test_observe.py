"""The core's observer against the one of the reference engine."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sglb.fabric import frames
from sglb.fabric.events import Traffic
from sglb.p4.native import abi
from sglb.switch.core import model as m
from sglb.switch.core import observe, rows
from sglb.switch.core.memory import NodeSpec, Sizes, build

WORLD = build([NodeSpec(1, [])], Sizes(rows=1, frame_bytes=8, data_bytes=128)).world
ROW = rows.row_new(WORLD)
AT = 8 * ROW + int(WORLD.w[m.ROW_DATA])

kinds = st.sampled_from([b"\x08\x00", b"\x86\xdd", b"\x88\xb5", b"\x88\xb6"])
known = st.sampled_from([0x08, 0x11, 0x04, 0x81, 0xFF])


@st.composite
def frame(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.binary(max_size=110)))
    if len(data) >= 14:
        data[12:14] = draw(kinds)
    if len(data) > 15:
        data[15] = draw(st.sampled_from([0, 1, 2, 0xFF]))
    for place in (14, 28, 42, 62):
        if len(data) > place:
            data[place] = draw(known)
    return bytes(data)


@given(frame())
def test_both_see_the_same(data: bytes) -> None:
    WORLD.b[AT : AT + 128] = 0x11  # left by somebody else
    WORLD.b[AT : AT + len(data)] = list(data)
    WORLD.h[2 * ROW + abi.LENGTH] = WORLD.h[2 * ROW + abi.STORED] = len(data)
    told = frames.urgent_note(data)
    assert observe.urgent_note(WORLD, ROW) == (-1 if told is None else told[0] << 1 | told[1])
    seen = observe.traffic(WORLD, ROW)
    assert list(Traffic)[seen >> 32] is frames.traffic(data)
    assert seen & 0xFFFFFFFF == frames.destination_switch(data)
