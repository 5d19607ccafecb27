"""Compiled functions against what Python makes of the same lines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.translate_source import TranslationError
from sglb.switch.core.world import World

numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
FACTOR = 3


def wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def a_world() -> World:
    w = np.zeros(8, dtype=np.int64)
    return World(w, w.view(np.int32), w.view(np.uint8), w.ctypes.data)


@inlined
def twice(a: int) -> int:
    return a + a


@compiled
def arithmetic(a: int, b: int) -> tuple[int, int, int, int, int, int]:
    return a + b, a - b, a * b, a & b | 5, a ^ ~b, -a


@compiled
def divided(a: int, b: int) -> tuple[int, int]:
    return a // b, a % b


@compiled
def by_seven(a: int) -> tuple[int, int, int, int]:
    return a // 7, a % 7, a // -7, a % -7


@compiled
def shifted(a: int, count: int) -> tuple[int, int]:
    return a << count, a >> count


@compiled
def compared(a: int, b: int) -> tuple[int, int, int, int, int]:
    return a < b, a <= b < 7, a == b or a > 3, not a, a in (1, b, 5)


@compiled
def chosen(a: int, b: int) -> tuple[int, int, int, int, int]:
    return a and b, a or b, a if a < b else b + 1, min(a, b, 3), max(a, b) - abs(b >> 1)


@compiled
def is_small(a: int) -> bool:
    return -10 < a < 10


@compiled
def looped(count: int) -> tuple[int, int, int]:
    total = found = 0
    for i in range(count):
        if i == 2:
            continue
        for j in range(i, 0, -2):
            if j == 5:
                found += 100
                break
            total += j
        else:
            found += 1
    n = count
    while n > 0:
        n -= FACTOR
        if n == 4:
            break
    else:
        n = twice(n)
    for part in (10, n):
        total += part * 1000
    return total, found, n


@compiled
def stored(world: World, value: int) -> int:
    w, h = world.w, world.h
    b = world.b
    w[0] = value
    h[2] = value
    b[12] = value
    b[13] = b[12]
    h[4] = w[5] = 7
    h[2] += h[2] >> 1
    return w[0] + h[2] + b[13]


@compiled
def early(a: int) -> int:
    if a > 5:
        return 1
    return early(a + 1) + 1 if a > 0 else 0


@given(numbers, numbers)
def test_numbers_wrap_around(a: int, b: int) -> None:
    expected = (a + b, a - b, a * b, a & b | 5, a ^ ~b, -a)
    assert arithmetic(a, b) == tuple(wrapped(v) for v in expected)
    assert divided(a, b) == ((wrapped(a // b), a % b) if b else (0, 0))
    assert by_seven(a) == (a // 7, a % 7, a // -7, a % -7)
    assert shifted(a, b & 63) == (wrapped(a << (b & 63)), a >> (b & 63))


@given(numbers, numbers)
def test_truths_and_choices(a: int, b: int) -> None:
    assert compared(a, b) == (a < b, a <= b < 7, a == b or a > 3, not a, a in (1, b, 5))
    expected = (a and b, a or b, a if a < b else b + 1, min(a, b, 3), max(a, b) - abs(b >> 1))
    assert chosen(a, b) == tuple(wrapped(v) for v in expected)
    assert is_small(a) is (-10 < a < 10)


@given(st.integers(-3, 40))
def test_loops(count: int) -> None:
    assert looped(count) == looped.__wrapped__(count)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("start", "result"), [(-1, 0), (0, 0), (3, 4), (6, 1)])
def test_a_function_may_call_itself(start: int, result: int) -> None:
    assert early(start) == result


@given(numbers)
def test_memory_keeps_what_fits(value: int) -> None:
    world = a_world()
    low32 = (value + 2**31) % 2**32 - 2**31
    half = (low32 + (low32 >> 1) + 2**31) % 2**32 - 2**31
    assert stored(world, value) == wrapped(value + half + value % 256)
    assert int(world.w[0]) == value
    assert int(world.h[2]) == half
    assert world.b[12:14].tolist() == [value % 256] * 2
    assert (int(world.h[4]), int(world.w[5])) == (7, 7)


def test_what_there_is_not_is_named_with_its_place() -> None:
    @compiled
    def power(a: int) -> int:
        return a**2

    with pytest.raises(
        TranslationError, match=r"test_translate.py:\d+: no such operation here: a \*\* 2"
    ):
        power(3)


def test_arguments_are_counted() -> None:
    with pytest.raises(TypeError, match="is_small: 1 arguments are wanted"):
        is_small(1, 2)  # type: ignore[call-arg]
