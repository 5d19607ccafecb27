"""Compiled functions against what Python makes of the same lines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_kit import a_world, all_plain, plain_world, wrapped

from sglb.switch.core import heap
from sglb.switch.core import model as m
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.world import World

numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
FACTOR = 3


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
    with all_plain():
        expected = looped(count)
    assert looped(count) == expected


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


def test_arguments_are_counted() -> None:
    with pytest.raises(TypeError, match="is_small: 1 arguments are wanted"):
        is_small(1, 2)  # type: ignore[call-arg]


# --- the order of things --------------------------------------------------------------------------


@compiled
def bump(world: World, by: int) -> int:
    world.w[0] += by
    return world.w[0]


@compiled
def orders(world: World) -> tuple[int, int]:
    w = world.w
    w[0] += bump(world, 10)
    w[1] = w[0] + bump(world, 100)
    w[w[0] & 7], w[2] = bump(world, 1), w[0]
    for n in (w[0], w[0] + 1):
        bump(world, n)
    return bump(world, 1), w[0]


@compiled
def stops(world: World, a: int) -> int:
    """The later parts must not be run: they would look far outside of the memory."""
    w = world.w
    far = 1 << 50
    count = 0
    if 0 <= a < w[far if a < 0 else 3] < far:
        count += 1
    if a < 0 or w[far if a < 0 else 3] > a:
        count += 2
    if not (a >= 0 and w[far if a < 0 else 3] < a):
        count += 4
    return count + (8 if a > 0 and w[far if a < 0 else 3] else 0)


def both(function: object, *given: int) -> tuple[object, object, World]:
    """A function's results on equal memory: compiled, and plain; and the memory of the former."""
    native, plain = a_world(), a_world()
    for world in (native, plain):
        world.w[:] = range(8)
    result = function(native, *given)  # type: ignore[operator]
    with all_plain():
        expected = function(plain_world(plain), *given)  # type: ignore[operator]
    assert native.w.tolist() == plain.w.tolist()
    return result, expected, native


def test_memory_is_read_and_written_in_the_order_of_python() -> None:
    result, expected, world = both(orders)
    # The call's own 10 is lost: 0 + 10. Then 10 + 110. Then word 0 is 111, so word 111 & 7 = 7 is set.
    assert world.w[1] == 10 + 110
    assert world.w[7] == 111
    assert world.w[2] == 111
    # the loop's numbers are 111 and 112, whatever its first round does
    assert result == expected == (111 + 111 + 112 + 1,) * 2


@pytest.mark.parametrize(
    ("a", "count"),
    [(-5, 0 + 2 + 4 + 0), (0, 1 + 2 + 4 + 0), (2, 1 + 2 + 4 + 8), (4, 0 + 0 + 0 + 8)],
)
def test_what_decides_stops_the_rest(a: int, count: int) -> None:
    assert both(stops, a)[:2] == (count, count)


# --- names ----------------------------------------------------------------------------------------


@compiled
def names(world: World, a: bool, b: int) -> tuple[bool, int, int]:
    c: int = m.CLASSES + heap.order_of(b, 0, 1)
    b += 1
    assert b > 10**6, "left out"
    if b < 0:
        m_at = 5  # 0 where no line has set it
    return (not a, m_at, c) if a else (world.w[b & 7] not in (1, 2), b, c)


def test_constants_and_functions_of_modules_and_truths() -> None:
    world = a_world()
    world.w[:] = [0, 1, 2, 3, 4, 5, 6, 7]
    order = 1 + m.CLASSES
    assert names(world, True, 3) == (False, 0, order + (3 << 40))
    assert names(world, True, -3) == (False, 5, order - (3 << 40))
    assert names(world, False, 0) == (False, 1, order)
    assert [type(part) for part in names(world, False, 2)] == [bool, int, int]
    assert names(world, False, 2) == (True, 3, order + (2 << 40))


@compiled
def nothing(world: World) -> None:
    if world.w[0]:
        return
    world.w[1] = 9
    while True:
        if world.w[0] > 4:
            break
        world.w[0] += 1
    else:
        world.w[1] = 10
    return None  # noqa: RET501


def test_a_function_may_give_nothing() -> None:
    world = a_world()
    assert nothing(world) is None  # type: ignore[func-returns-value]
    assert world.w[:2].tolist() == [5, 9]


@given(numbers)
def test_powers_of_two_divide_as_all_else(a: int) -> None:
    assert by_powers(a) == (a // 8, a % 8, a // 1, a % 1, wrapped(a // -1), a % -1, a // -8, a % -8)


@compiled
def by_powers(a: int) -> tuple[int, int, int, int, int, int, int, int]:
    return a // 8, a % 8, a // 1, a % 1, a // -1, a % -1, a // -8, a % -8


@compiled
def far_shifts(a: int) -> tuple[int, int, int, int, int]:
    return a << 64, a >> 65, 1 << 70, 5 // 0, 5 % 0


def test_shifts_count_modulo_64_and_divisions_by_0_give_0() -> None:
    assert far_shifts(-6) == (-6, -3, 1 << 6, 0, 0)


def test_a_compiled_function_is_known_by_its_own_name() -> None:
    assert bump.__name__ == "bump"
    assert stops.__doc__ == (
        "The later parts must not be run: they would look far outside of the memory."
    )
    assert early.__wrapped__(9) == 1  # type: ignore[attr-defined]
    assert bump.__module__ == __name__


def test_arguments_have_their_kinds() -> None:
    with pytest.raises(TypeError, match="a World is wanted, not int"):
        bump(3, 4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        is_small(1.5)  # type: ignore[arg-type]
    assert is_small(np.int32(-9)) is True
