"""Arenas: the memory of tables and registers."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sglb import p4
from sglb.p4.native import table_layout as lay
from sglb.p4.random_stream import RandomStream
from sglb.switch.clock import VirtualClock
from sglb.switch.config import SwitchConfig
from sglb.switch.memory import Arena, address_of
from sglb.switch.memory_index import Slots
from sglb.switch.switch import Switch

#: Small pieces lie in large pages, and beyond 12 KiB in memory of their own; from 2 KiB on they share
#: no chunk.
_EDGES = st.sampled_from([64, 2_048, 2_049, 12_288, 12_289])
_SIZES = st.lists(st.integers(1, 1 << 17) | _EDGES, max_size=30)


@given(_SIZES, st.integers(1, 3))
def test_pieces_of_all_arenas_are_zeroed_whole_lines_that_nobody_else_has(
    sizes: list[int], arenas: int
) -> None:
    made = [Arena() for _ in range(arenas)]
    pieces = [made[n % arenas].take(size) for n, size in enumerate(sizes)]
    for number, piece in enumerate(pieces):
        assert not piece.any()
        piece.fill(number + 1)
    for number, (piece, size) in enumerate(zip(pieces, sizes, strict=True)):
        assert (len(piece), address_of(piece) % 64) == (size, 0)
        assert (piece == number + 1).all()


def test_a_piece_outlives_its_arena() -> None:
    arena = Arena()
    piece = arena.take(100)
    piece.fill(7)
    del arena
    gc.collect()
    assert (Arena().take(100) == 0).all()
    assert (piece == 7).all()


def test_what_was_given_back_is_taken_again_and_zeroed() -> None:
    arena = Arena()
    first, second = arena.take(256), arena.take(256)
    first.fill(7)
    second.fill(8)
    arena.give_back(first)
    assert address_of(arena.take(512)) != address_of(first)  # for who wants as much, no more
    again = arena.take(256)
    assert address_of(again) == address_of(first)
    assert not again.any()
    assert address_of(arena.take(256)) not in (address_of(first), address_of(second))
    assert (second == 8).all()


def test_hash_tables_of_a_switch_pass_their_former_memory_on() -> None:
    arena = Arena()
    slots = Slots(1, arena)
    former = slots.address
    for key in range(5):  # the fifth is more than half of the first eight
        slots.add(key, 64 * (key + 1))
    assert slots.address != former
    assert Slots(1, arena).address == former


def test_views_of_a_piece_show_the_same_memory() -> None:
    arena = Arena()
    for size in (128, 1 << 16):
        piece = arena.piece(size)
        piece.words[piece.start_byte // 8] = 0x0102
        assert piece.bytes[piece.start_byte] == 2
        assert (piece.address - piece.start_byte) % 8 == 0
        first = np.frombuffer(piece.bytes, dtype=np.uint8)
        assert address_of(first) + piece.start_byte == piece.address


def test_a_switch_keeps_its_tables_heads_right_behind_its_machine() -> None:
    program = p4.compile(Path(__file__).parent / "state.p4")
    state = Switch(program, SwitchConfig(), VirtualClock(), rng=RandomStream(1)).state
    assert state is not None
    code, machine = state.program.ir, state.machine
    places = [int(machine[lay.table_word(index)]) for index in range(len(code.tables))]
    behind = address_of(machine) + 8 * lay.machine_words(code)
    for table, place in zip(code.tables, places, strict=True):
        assert place == behind
        # Default, index, extent; more for what has vectors of bits or members of a profile.
        rules = any(key.kind in ("ternary", "range", "optional") for key in table.keys)
        behind += 8 * (10 if table.implementation is not None else 6 if rules else 3)
