"""Functions made up at random: translated, they do what Python does."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_kit import a_world, all_plain, module_of, plain_world

HEAD = """\
from sglb.switch.core.jit import compiled, inlined
from sglb.switch.core.world import World

@inlined
def mixed(world: World, x: int, y: int) -> tuple[int, int]:
    world.h[3] += x
    return x ^ y, world.h[3]

@inlined
def same(world: World, x: int) -> int:
    return x

@compiled
def total(world: World, x: int) -> int:
    world.w[5] += x
    return world.w[5] if x > 0 else -x

@compiled
def tried(world: World, a: int, b: int, c: int) -> tuple[int, int, int]:
    w, h = world.w, world.h
    steps = 0
"""
END = "    return a, b, c\n"

numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70)


class Writer:
    """Writes lines over a, b, c and the memory.

    A number that is written out is only ever the right side of something: so that all that is computed
    wraps around in the oracle too.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _one_of(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _name(self) -> str:
        return self._one_of("a", "b", "c")

    def value(self, depth: int) -> str:
        if depth == 0:
            return self._name()
        one, two, three = (self.value(self._random.randrange(depth)) for _ in range(3))
        right = self._one_of(two, two, str(self._random.randrange(70)))
        op = self._one_of("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>")
        if op in ("//", "%"):  # plain numbers may meet here, of which 0 divides none
            right = f"({right} | 1)"
        return self._one_of(
            *[f"({one} {op} {right})"] * 4,
            f"(-{one})",
            f"(~{one})",
            f"({one} if {self.test(depth - 1)} else {two})",
            f"({one} {self._one_of('and', 'or')} {two} {self._one_of('and', 'or')} {three})",
            f"{self._one_of('min', 'max')}({one}, {two}, {three})",
            f"abs({one})",
            f"w[{one} & 7]",
            f"h[{one} & 15]",
            f"world.b[{one} & 63]",
            f"total(world, {one})",
        )

    def test(self, depth: int) -> str:
        one, two, three = (self.value(min(depth, 1)) for _ in range(3))
        orders = [self._one_of("<", "<=", ">", ">=", "==", "!=") for _ in range(2)]
        choices = [
            f"{one} {orders[0]} {self._one_of(two, '7')}",
            f"{one} {orders[0]} {two} {orders[1]} {three}",
            f"{one} {self._one_of('in', 'not in')} ({two}, 3)",
            one,
        ]
        if depth > 0:
            inner = self.test(depth - 1)
            choices += [f"(not {inner})", f"({inner} {self._one_of('and', 'or')} {choices[0]})"]
        return self._one_of(*choices)

    def _simple(self) -> str:
        place = self._one_of(self._name(), f"w[{self._name()} & 7]", f"h[{self._name()} & 15]")
        # Python 3.11.2 gets `a, a = 1, 2` wrong.
        other, first = self._name(), "a"
        if other == place:
            other = "b" if place == "a" else "a"
        if place == "a":
            first = "b"
        one, two = self.value(2), self.value(1)
        op = self._one_of("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>")
        if op in ("//", "%"):  # plain numbers may meet here, of which 0 divides none
            one, two = f"({one} | 1)", f"({two} | 1)"
        return self._one_of(
            f"{place} = {one}",
            f"{self._name()} = {place} = {one}",
            f"{place} {op}= {one}",
            f"{place} {op}= total(world, {two}) | 1",
            f"{other}, {place} = {one}, {two}",
            f"{first}, {place} = mixed(world, {one}, {two})",
            f"total(world, {one})",
            f"if {self.test(1)}: return {self._name()}, {two}, a",
        )

    def block(self, depth: int, *, loop: bool = False) -> list[str]:
        kind = self._random.randrange(6 if depth else 3)
        if kind < 3:
            return [self._simple()]
        if kind == 3:
            test = f"if {self.test(2)}:"
            return [test, *self._body(depth, loop), "else:", *self._body(depth, loop)]
        if kind == 4:
            head = self._one_of(
                "for a in range(3):",
                "for b in range(c & 3, -2, -1):",
                f"for c in ({self.value(1)}, {self.value(1)}, 4):",
            )
            wraps = f"    {head[4]} = same(world, {head[4]})"  # a loop's own number doesn't
            return [head, wraps, *self._body(depth, True), "else:", *self._body(depth, loop)]
        count = "    steps += 1"
        return [f"while steps < 9 and {self.test(1)}:", count, *self._body(depth, True)]

    def _body(self, depth: int, loop: bool) -> list[str]:
        lines = self.block(depth - 1, loop=loop)
        if loop and self._random.randrange(2):
            lines.append(f"if {self.test(1)}: {self._one_of('break', 'continue')}")
            lines += self.block(0)
        return [f"    {line}" for line in lines]

    def body(self) -> str:
        lines = [line for _ in range(self._random.randrange(2, 6)) for line in self.block(3)]
        return "".join(f"    {line}\n" for line in lines)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(numbers, numbers, numbers), min_size=4, max_size=4),
)
def test_a_function_does_what_python_does(seed: int, inputs: list[tuple[int, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = HEAD + Writer(seed).body() + END
        module = module_of(Path(folder), source)
        native, plain = a_world(), a_world()
        for values in inputs:
            result = module.tried(native, *values)
            with all_plain():
                expected = module.tried(plain_world(plain), *values)
            assert result == expected, source
            assert native.w.tolist() == plain.w.tolist(), source
