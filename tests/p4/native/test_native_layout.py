"""Where slots lie: nothing overlaps, everything is aligned, headers and arrays stay together."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interp_kit import Kit, load
from native_twins_kit import TESTS, compiled
from p4_text_kit import Program

from sglb.p4 import ir
from sglb.p4.compiler import compile as compile_p4
from sglb.p4.native.abi import FRAME_BYTE
from sglb.p4.native.layout import Area, Layout
from sglb.p4.native.table_layout import alignment, natural_bytes
from sglb.p4.native.usage import BLOCKS

GLB = Path(__file__).parents[3] / "p4src" / "v1model" / "glb.p4"


def check(program: ir.Program) -> Layout:
    """Everything that must hold of any layout."""
    layout = Layout(program)
    for block in BLOCKS:
        taken: dict[Area, dict[int, int]] = {Area.ROW: {}, Area.PASS: {}, Area.MEMORY: {}}
        for slot in range(len(program.slots)):
            place = layout.place(block, slot)
            if place.area is Area.VALUE:
                continue
            size = natural_bytes(program.slots[slot].width)
            assert place.offset % alignment(size) == 0
            for byte in range(place.offset, place.offset + size):
                assert taken[place.area].setdefault(byte, slot) == slot
        for byte in taken[Area.ROW]:
            assert FRAME_BYTE <= byte < FRAME_BYTE + layout.frame_bytes
        for byte in taken[Area.PASS]:
            assert byte < layout.pass_bytes
        for byte in taken[Area.MEMORY]:
            assert byte < layout.memory_bytes[block]
        for index in layout.blocks[block].arrays:
            _equal_strides(layout, block, program.arrays[index])
    assert layout.pass_at >= FRAME_BYTE + layout.frame_bytes
    assert layout.pass_at % 16 == 0  # of the widest slots
    return layout


def _equal_strides(layout: Layout, block: str, array: ir.Array) -> None:
    stride = layout.stride_bytes(block, array)
    for i in range(array.size):
        for offset in range(array.stride):
            first = layout.place(block, array.base + offset)
            here = layout.place(block, array.base + i * array.stride + offset)
            assert here.area is first.area is not Area.VALUE
            assert here.offset == first.offset + i * stride


@pytest.mark.parametrize(
    "path",
    [
        GLB,
        TESTS / "oracle" / "34-stack-index" / "program.p4",
        TESTS / "oracle" / "40-varbit" / "program.p4",
        TESTS / "oracle" / "43-uninitialised" / "program.p4",
    ],
    ids=lambda path: path.parent.name,
)
def test_programs(path: Path) -> None:
    check(compiled(path).ir)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_random_programs(seed: int) -> None:
    check(compile_p4(Program(seed).text).ir)


def test_the_frame_holds_what_outlives_a_pass_without_waste() -> None:
    layout = check(compiled(GLB).ir)
    program = layout.program
    slots = range(len(program.slots))
    known = {program.slots[s].name for s in slots if layout.row_place(s) is not None}
    held = [s for s in slots if layout.outlives_a_pass(s)]
    names = {program.slots[slot].name for slot in held}
    # Headers, what both passes use, and what a clone keeps.
    assert {"hdr.ipv4.ttl", "hdr.packet_in.reason", "meta.class", "meta.note_code"} <= names
    # What ingress alone looks at, and what egress is given anew.
    assert {"meta.flow_hash", "sm.ingress_port", "sm.egress_spec"} <= known - names
    assert "FabricIngress.balance.live" not in known  # a block's own
    needed = sum(natural_bytes(program.slots[slot].width) for slot in held)
    assert layout.frame_bytes <= needed + 16


def test_an_array_in_an_array() -> None:
    kit = Kit()
    first = len(kit.slots)
    for i in range(3):
        kit.slot(f"outer[{i}].x", 8)
        for j in range(2):
            kit.slot(f"outer[{i}].inner[{j}].a", 8)
            kit.slot(f"outer[{i}].inner[{j}].b", 40)
        kit.slot(f"outer[{i}].y", 100)
    kit.arrays = [
        ir.Array("outer", first, 6, 3),
        *(ir.Array(f"inner of {i}", first + 6 * i + 1, 2, 2) for i in range(3)),
    ]
    index = kit.slot("index", 8)
    out = kit.slot("out", 100)
    reads = [ir.LoadElement(100, 0, 5, load(index, 8))]
    reads += [ir.Extend(100, ir.LoadElement(40, n, 1, load(index, 8)), False) for n in (1, 2, 3)]
    kit.blocks["ingress"] = tuple(
        ir.Assign(target=ir.SlotRef(out, 100), value=read) for read in reads
    )
    layout = check(kit.program())
    assert layout.blocks["ingress"].arrays == {0, 1, 2, 3}
    # 40 and 100 bits take 8 and 16 bytes; x and both a fill 8 of the element's other bytes.
    assert layout.stride_bytes("ingress", kit.arrays[1]) == 16
    assert layout.stride_bytes("ingress", kit.arrays[0]) == 64
