"""The kernel's own functions, compiled and as plain Python, leave the same memory behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_kit import a_world, all_plain, plain_world

from sglb.switch.core import heap, wires
from sglb.switch.core import model as m
from sglb.switch.core.world import World

times = st.integers(0, 5)
steps = st.lists(
    st.tuples(st.just("push"), times, st.integers(0, 3), st.integers(0, 3))
    | st.tuples(st.just("pop"))
    | st.tuples(st.just("remove"), st.integers(0, 3), st.integers(0, 3)),
    max_size=40,
)


def a_heap() -> World:
    """One heap with room for twelve events, and nothing else."""
    world = a_world(512)
    w = world.w
    w[m.HEAPS_AT] = head = 400
    w[head + m.HEAP_FIRST] = 420
    w[head + m.HEAP_ROOM] = 12
    return world


def taken(world: World, steps: list[tuple[Any, ...]]) -> list[object]:
    """What each step gives."""
    results: list[object] = []
    for name, *rest in steps:
        if name == "push":
            time, node, kind = rest
            heap.push_order(world, 0, time, heap.order_of(node, kind, 7), time * 100)
        elif name == "remove":
            results.append(heap.remove(world, 0, heap.order_of(*rest, 7)))
        elif heap.peek(world, 0) != heap.NEVER:
            results.append(heap.pop(world, 0))
    return results


def same(work: Callable[[World], object], make: Callable[[], World]) -> object:
    """What the work gives on a memory, compiled; the same as plain Python, to the last word."""
    native, plain = make(), make()
    result = work(native)
    with all_plain():
        assert result == work(plain_world(plain))
    assert native.w.tolist() == plain.w.tolist()
    return result


@settings(max_examples=50, deadline=None)
@given(steps)
def test_heaps(steps: list[tuple[Any, ...]]) -> None:
    same(lambda world: taken(world, steps), a_heap)


@settings(max_examples=50, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_random_numbers(seed: int) -> None:
    def make() -> World:
        world = a_world()
        world.w[2] = seed
        return world

    same(lambda world: [wires.next64(world, 2) for _ in range(3)], make)


@pytest.mark.parametrize("rate", [0, 1, 2**40 + 7, 2**61])
@pytest.mark.parametrize("bits", [0, 1, 640, 9216 * 8])
def test_powers_of_fractions(rate: int, bits: int) -> None:
    same(lambda _world: wires.intact(rate, bits), a_world)
