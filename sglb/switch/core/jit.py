"""The core's compiled functions: plain Python functions that run as machine code (see `translate`)."""

from __future__ import annotations

import ctypes
import functools
import operator
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, ParamSpec, TypeVar, cast

from sglb.switch.core.image import Primitive, Routine
from sglb.switch.core.world import World

P = ParamSpec("P")
T = TypeVar("T")

_I64: Final = ctypes.c_int64


class Compiled(Routine):
    """A compiled function as Python calls it; `__wrapped__` is the plain one, which does the same.

    The plain one differs where a number leaves int64, where a shift is by more than 63, and in divisions
    by 0.
    """

    __wrapped__: FunctionType

    def __init__(self, function: FunctionType, *, always_inline: bool = False) -> None:
        functools.update_wrapper(cast(Callable[..., Any], self), function)
        super().__init__(function, always_inline=always_inline)

    def __call__(self, *arguments: Any) -> Any:
        """Runs the machine code, other threads beside it."""
        signature = self.signature
        names, truths = signature.names, signature.truths
        if len(arguments) != len(names):
            raise TypeError(f"{self.function.__name__}: {len(names)} arguments are wanted")
        words = [
            _address(value) if name == signature.world else operator.index(value)
            for name, value in zip(names, arguments, strict=True)
        ]
        code = self.code()
        if len(truths) < 2:
            result = code(*words)
            return result != 0 if truths == (True,) else result
        results = (_I64 * len(truths))()
        code(*words, results)
        return tuple(r != 0 if is_truth else r for is_truth, r in zip(truths, results, strict=True))


def _address(value: object) -> int:
    if not isinstance(value, World):
        raise TypeError(f"a World is wanted, not {type(value).__name__}")
    return value.address


def compile_all(packages: tuple[str, ...]) -> int:
    """Compiles all functions of the loaded modules whose names begin so; how many there are."""
    found = {
        id(value): value
        for name, module in tuple(sys.modules.items())
        if name.startswith(packages)
        for value in vars(module).values()
        if isinstance(value, Compiled)
    }
    for function in found.values():
        function.code()
    return len(found)


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """A function over a `World` and ints, compiled when first called.

    TranslationError, then or now, if it has something that compiled functions have not.
    """
    return cast(Callable[P, T], Compiled(cast(FunctionType, function)))


def inlined(function: Callable[P, T]) -> Callable[P, T]:
    """As `compiled`, for a few lines that are wanted within their caller's code."""
    return cast(Callable[P, T], Compiled(cast(FunctionType, function), always_inline=True))


def primitive(body: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function of ints, for compiled functions only, whose body is LLVM text.

    Parameters are `%name`; the values are i64.
    """

    def make(function: Callable[P, T]) -> Callable[P, T]:
        return cast(Callable[P, T], Primitive(cast(FunctionType, function), body))

    return make
