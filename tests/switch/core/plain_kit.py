"""Compiled functions as plain Python: the oracle of the translation.

`I64` is a Python integer that wraps around after each operation, shifts modulo 64, and divides by 0 to
0. What plain Python's own functions make of it (`int`, `True + 1`) does not wrap.
"""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from sglb.switch.core.image import Primitive
from sglb.switch.core.jit import Compiled
from sglb.switch.core.world import World

_numbers = itertools.count(1)


def wrapped(value: int, bits: int = 64) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


class I64(int):
    """An int64 as compiled functions have it."""

    def __new__(cls, value: int) -> I64:
        return super().__new__(cls, wrapped(int(value)))


def _wrapping(work: Callable[..., int]) -> tuple[Callable[..., I64], Callable[..., I64]]:
    def plain(*given: int) -> I64:
        return I64(work(*(int(value) for value in given)))

    return plain, lambda a, b: plain(b, a)


for _name, _work in {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "lshift": lambda a, b: a << (b & 63),
    "rshift": lambda a, b: a >> (b & 63),
}.items():
    _plain, _swapped = _wrapping(_work)
    setattr(I64, f"__{_name}__", _plain)
    setattr(I64, f"__r{_name}__", _swapped)
for _name in ("neg", "pos", "abs", "invert"):
    setattr(I64, f"__{_name}__", _wrapping(getattr(operator, _name))[0])


class _View:
    """A view that gives I64 and keeps what fits."""

    def __init__(self, array: Any, keep: Callable[[int], int]) -> None:
        self._array = array
        self._keep = keep

    def __getitem__(self, index: int) -> I64:
        return I64(int(self._array[int(index)]))

    def __setitem__(self, index: int, value: int) -> None:
        self._array[int(index)] = self._keep(int(value))


def a_world(words: int = 8) -> World:
    w = np.zeros(words, dtype=np.int64)
    return World(w, w.view(np.int32), w.view(np.uint8), w.ctypes.data)


def plain_world(world: World) -> World:
    """The same memory for plain functions."""
    views = (
        _View(world.w, wrapped),
        _View(world.h, lambda value: wrapped(value, 32)),
        _View(world.b, lambda value: value & 0xFF),
    )
    return World(*cast(Any, views), world.address)


def _move(to: int, origin: int, count: int) -> None:
    ctypes.memmove(int(to), int(origin), int(count))


def _zero(to: int, count: int) -> None:
    ctypes.memset(int(to), 0, int(count))


_PRIMITIVES: dict[str, Callable[..., object]] = {
    "lowest": lambda value: I64((value & -value).bit_length() - 1 if value else 64),
    "bit_length": lambda value: I64(int(value).bit_length()),
    "load64": lambda address: I64(ctypes.c_int64.from_address(int(address)).value),
    "fetch": lambda _address: None,
    "move_bytes": _move,
    "zero_bytes": _zero,
}


def _call_plain(compiled: Compiled, *given: Any) -> Any:
    values = [value if isinstance(value, World) else I64(value) for value in given]
    result = compiled.__wrapped__(*values)
    if isinstance(result, tuple):
        return tuple(I64(part) for part in result)
    return result if result is None or isinstance(result, bool) else I64(result)


def _call_primitive(primitive: Primitive, *given: int) -> object:
    return _PRIMITIVES[primitive.function.__name__](*given)


@contextmanager
def all_plain() -> Iterator[None]:
    """Compiled functions run as plain Python meanwhile, and so does what they call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Compiled, "__call__", _call_plain)
        patch.setattr(Primitive, "__call__", _call_primitive, raising=False)
        yield


def module_of(folder: Path, source: str, *, package: str = "") -> Any:
    """A new module with this source, in a package or in none but its own."""
    name = f"{package and package + '.'}made_{next(_numbers)}"
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
