"""Heaps, rows and what lies in them."""

from __future__ import annotations

import heapq
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.p4.native import abi
from sglb.switch.config import SwitchConfig
from sglb.switch.core import heap, rows
from sglb.switch.core import model as m
from sglb.switch.core.memory import Memory, NodeSpec, PortSpec, Sizes, build
from sglb.switch.errors import ConfigError

SIZES = Sizes(rows=3, frame_bytes=40, data_bytes=64, blobs=1, blob_bytes=256, parse_bytes=32)


def small(**changes: object) -> Memory:
    ports = [PortSpec(1), PortSpec(2)]
    sizes = {k: getattr(SIZES, k) for k in SIZES.__dataclass_fields__} | changes
    return build([NodeSpec(1, ports, SwitchConfig())], Sizes(**sizes))  # type: ignore[arg-type]


# --- events ---


@pytest.mark.parametrize("seed", range(3))
def test_events_come_by_time_then_node_kind_and_index(seed: int) -> None:
    memory, rng = small(), random.Random(seed)
    world, model = memory.world, []
    for step in range(400):
        if model and rng.random() < 0.45:
            assert heap.peek(world, 0) == model[0][0]
            assert heap.pop(world, 0) == heapq.heappop(model)
        elif model and rng.random() < 0.1:
            gone = model.pop(rng.randrange(len(model)))
            heapq.heapify(model)
            assert heap.remove(world, 0, gone[1])
        elif len(model) < 40:
            time, kind = rng.randrange(50), rng.randrange(15)
            heap.push(world, 0, time, kind, step, step)
            heapq.heappush(model, (time, kind << 32 | step, step))
    assert not heap.remove(world, 0, 99 << 40)
    while model:
        assert heap.pop(world, 0) == heapq.heappop(model)
    assert heap.peek(world, 0) == heap.NEVER


def test_an_order_tells_node_kind_and_index() -> None:
    order = heap.order_of(1027, m.EV_OUT, 511)
    parts = (heap.node_of(order), heap.kind_of(order), heap.index_of(order))
    assert parts == (1027, m.EV_OUT, 511)


def test_a_full_heap_halts() -> None:
    world = small().world
    room = int(world.w[world.w[m.HEAPS_AT] + m.HEAP_ROOM])
    for i in range(room):
        heap.push(world, 0, i, 0, i, 0)
    assert not world.w[m.HALT]
    heap.push(world, 0, 5, 0, 0, 0)
    assert world.w[m.HALT] == m.HALT_HEAP


# --- rows ---


def put(memory: Memory, data: bytes, length: int = 0) -> int:
    """A row with these bytes stored."""
    world = memory.world
    at = int(world.w[m.OTHER_SCRATCH])
    world.b[at : at + len(data)] = list(data)
    row = rows.row_new(world)
    assert rows.row_store(world, row, world.address + at, len(data), length or len(data))
    return row


def bytes_of(memory: Memory, row: int) -> bytes:
    world = memory.world
    at = int(world.w[row + abi.DATA]) - world.address
    return world.b[at : at + int(world.h[2 * row + abi.STORED])].tobytes()


def deparse(memory: Memory, row: int, headers: bytes, consumed: int) -> bool:
    """As if a program had consumed that many bytes and written these headers."""
    world = memory.world
    out = int(world.w[row + abi.OUT]) - world.address
    world.b[out : out + len(headers)] = list(headers)
    world.h[2 * row + abi.OUT_LENGTH] = len(headers)
    world.h[2 * row + abi.PAYLOAD_OFFSET] = consumed
    return rows.deparsed(world, row)


def test_rows_are_used_again_and_run_out() -> None:
    world = small().world
    taken = [rows.row_new(world) for _ in range(3)]
    assert len(set(taken)) == 3
    assert all(world.w[row + abi.DATA] % 8 == 0 and row % 8 == 0 for row in taken)
    assert world.address % 64 == 0
    assert rows.row_new(world) == -1
    assert world.w[m.HALT] == m.HALT_ROWS
    rows.row_free(world, taken[1])
    assert rows.row_new(world) == taken[1]
    assert (int(world.w[m.ROWS_USED]), int(world.w[m.ROWS_PEAK])) == (3, 3)


def test_a_copy_is_a_packet_of_its_own() -> None:
    memory = small()
    world = memory.world
    row = put(memory, b"headers", 1500)
    world.h[2 * row + abi.TRUNCATE] = 21
    world.h[2 * row + m.RH_PASSES] = 3
    world.h[2 * row + m.RH_FLAGS] |= m.RF_CLONE | m.RF_EGRESS | m.RF_GROUP
    world.b[8 * row + abi.FRAME_BYTE + 39] = 77
    twin = rows.row_copy(world, row)
    world.b[world.w[row + abi.DATA] - world.address] = ord("H")
    assert (bytes_of(memory, row), bytes_of(memory, twin)) == (b"Headers", b"headers")
    assert world.b[8 * twin + abi.FRAME_BYTE + 39] == 77
    half = 2 * twin
    kept = [int(world.h[half + i]) for i in (abi.LENGTH, abi.TRUNCATE, m.RH_PASSES, m.RH_FLAGS)]
    assert kept == [1500, 0, 3, m.RF_CLONE]


def test_long_frames_go_to_blobs_which_copies_do_not_share() -> None:
    memory = small(blobs=2)
    world = memory.world
    long = bytes(range(200))
    row = put(memory, long)
    twin = rows.row_copy(world, row)
    assert bytes_of(memory, row) == bytes_of(memory, twin) == long
    assert world.w[row + abi.DATA] != world.w[twin + abi.DATA]
    assert rows.row_copy(world, row) == -1
    assert world.w[m.HALT] == m.HALT_BLOBS
    world.w[m.HALT] = 0
    rows.row_free(world, twin)
    assert bytes_of(memory, rows.row_copy(world, row)) == long
    assert not rows.row_store(world, row, world.address, 257, 257)
    assert world.w[m.HALT] == m.HALT_BLOBS


@pytest.mark.parametrize("free", ["row_free", "row_room"])
def test_a_blob_whose_packet_moved_within_it_is_given_back_whole(free: str) -> None:
    memory = small()
    world = memory.world
    row = put(memory, bytes(200))
    blob = int(world.w[row + abi.DATA])
    world.w[row + abi.DATA] += 40  # as a frame received with room before it, or a shorter header
    if free == "row_free":
        rows.row_free(world, row)
    else:
        assert rows.row_room(world, row, 1)
    assert int(world.w[put(memory, bytes(200)) + abi.DATA]) == blob


@given(stored=st.integers(0, 256), consumed=st.integers(0, 200), headers=st.integers(0, 100))
def test_a_deparsed_packet_is_its_headers_and_the_rest(
    stored: int, consumed: int, headers: int
) -> None:
    memory = small()
    data = bytes(i % 251 for i in range(stored))
    row = put(memory, data, 1500)
    for passes in range(2):
        written = bytes((200 + passes,)) * headers
        length = int(memory.world.h[2 * row + abi.LENGTH])
        expected = written + bytes_of(memory, row)[consumed:]
        if len(expected) > 256:
            return
        assert deparse(memory, row, written, consumed)
        assert bytes_of(memory, row) == expected
        assert memory.world.h[2 * row + abi.LENGTH] == length - consumed + headers
    assert not memory.world.w[m.HALT]


def test_a_packet_that_outgrows_a_blob_halts() -> None:
    memory = small()
    row = put(memory, bytes(250), 1500)
    assert not deparse(memory, row, bytes(7), 0)
    assert memory.world.w[m.HALT] == m.HALT_BLOBS


@pytest.mark.parametrize(
    ("stored", "length", "wide"), [(5, 1500, 32), (5, 20, 20), (40, 1500, 40), (7, 7, 7)]
)
def test_bytes_that_a_program_may_look_at_are_stored_as_zeros(
    stored: int, length: int, wide: int
) -> None:
    memory = small()
    row = put(memory, b"\xff" * 64, 64)  # what the row held before must not show
    rows.row_free(memory.world, row)
    row = put(memory, b"\xee" * stored, length)
    if stored < min(length, 32):
        assert rows.row_widen(memory.world, row)
    assert bytes_of(memory, row) == b"\xee" * stored + bytes(wide - stored)


def test_what_cannot_be_laid_out() -> None:
    with pytest.raises(ConfigError, match="switches come before its hosts"):
        build([NodeSpec(1, []), NodeSpec(2, [], SwitchConfig())], SIZES)
    with pytest.raises(ConfigError, match="at most 8 queues"):
        build([NodeSpec(1, [], SwitchConfig(queues=9))], SIZES)
    with pytest.raises(ConfigError, match="node 1 has no port 9"):
        small().port(0, 9)
