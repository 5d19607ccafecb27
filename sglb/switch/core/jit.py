"""The core's compiled functions: plain Python functions that run as machine code.

A function is translated (see `translate`) together with all that it calls when Python first calls it;
the machine code is kept on disk, by content.
"""

from __future__ import annotations

import ctypes
import inspect
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, ParamSpec, TypeVar, cast

from sglb.p4.native import jit
from sglb.switch.core.translate import Translation
from sglb.switch.core.translate_expr import Signature, signature_of
from sglb.switch.core.world import World

P = ParamSpec("P")
T = TypeVar("T")

_ENTRY: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_lock = threading.RLock()


class _Definition:
    """Something with LLVM text that compiled functions call."""

    symbol: str
    signature: Signature

    def parts(self) -> tuple[str, tuple[_Definition, ...]]:
        """Its text and what that calls."""
        raise NotImplementedError


class _Primitive(_Definition):
    """A function whose body is LLVM text."""

    def __init__(self, function: FunctionType, body: str) -> None:
        self.symbol = f"{function.__module__}.{function.__qualname__}"
        self.signature = signature_of(function)
        self._names = list(inspect.signature(function).parameters)
        self._body = body

    def parts(self) -> tuple[str, tuple[_Definition, ...]]:
        names = ", ".join(f"i64 %{name}" for name in self._names)
        head = f'define internal {self.signature.kind} @"{self.symbol}"({names}) alwaysinline'
        return f"{head} {{\n{inspect.cleandoc(self._body)}\n}}\n", ()


class _Compiled(_Definition):
    """A function that Python can call, and so can others of its kind."""

    def __init__(self, function: FunctionType, attributes: str) -> None:
        self.py_func = function
        line = function.__code__.co_firstlineno
        self.symbol = f"{function.__module__}.{function.__qualname__}.{line}"
        self.signature = signature_of(function)
        self._attributes = attributes
        self._parts: tuple[str, tuple[_Definition, ...]] | None = None
        self._code: tuple[Callable[[Any, Any], None], object] | None = None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__

    def parts(self) -> tuple[str, tuple[_Definition, ...]]:
        if self._parts is None:
            made = Translation(self.py_func, self.symbol, self._attributes)
            self._parts = made.text, cast(tuple[_Definition, ...], tuple(made.callees))
        return self._parts

    def __call__(self, *arguments: Any) -> Any:
        code = self._code or self._load()
        signature = self.signature
        if len(arguments) != len(signature.worlds):
            raise TypeError(f"{self.__name__}: {len(signature.worlds)} arguments are wanted")
        words = [a.address if isinstance(a, World) else int(a) for a in arguments]
        given = (ctypes.c_int64 * len(words))(*words)
        results = (ctypes.c_int64 * max(1, signature.results))()
        code[0](ctypes.addressof(given), ctypes.addressof(results))
        if signature.results > 1:
            return tuple(results)
        if signature.is_truth:
            return results[0] != 0
        return results[0] if signature.results else None

    def _load(self) -> tuple[Callable[[Any, Any], None], object]:
        with _lock:
            if self._code is None:
                text = "\n".join([self._entry(), *_closure(self)])
                loaded = jit.load(text, ["entry"])
                self._code = _ENTRY(loaded.addresses["entry"]), loaded
        return self._code

    def _entry(self) -> str:
        """A function that takes its arguments from one array and leaves its results in another."""
        lines, arguments = [], []
        for i, world in enumerate(self.signature.worlds):
            lines.append(f"%p{i} = getelementptr i64, ptr %given, i64 {i}")
            kind = "ptr" if world else "i64"
            lines.append(f"%a{i} = load {kind}, ptr %p{i}, align 8")
            arguments.append(f"{kind} %a{i}")
        signature = self.signature
        call = f'call {signature.kind} @"{self.symbol}"({", ".join(arguments)})'
        if signature.results == 0:
            lines.append(call)
        else:
            lines += [f"%r = {call}", f"store {signature.kind} %r, ptr %results, align 8"]
        body = "\n  ".join(lines)
        return f"define void @entry(ptr %given, ptr %results) {{\n  {body}\n  ret void\n}}\n"


def _closure(root: _Definition) -> list[str]:
    """The texts of a function and of all that it calls, each once."""
    texts: dict[str, str] = {}
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if one.symbol not in texts:
            texts[one.symbol], callees = one.parts()
            waiting.extend(callees)
    return list(texts.values())


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """A function over a `World` and ints, compiled when first called (see `translate`)."""
    return cast(Callable[P, T], _Compiled(cast(FunctionType, function), "nounwind"))


def inlined(function: Callable[P, T]) -> Callable[P, T]:
    """As `compiled`, for a few lines that are wanted within their caller's code."""
    return cast(Callable[P, T], _Compiled(cast(FunctionType, function), "nounwind alwaysinline"))


def primitive(body: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function of ints, for compiled functions only, whose body is LLVM text.

    Parameters are `%name`; the values are i64.
    """

    def make(function: Callable[P, T]) -> Callable[P, T]:
        return cast(Callable[P, T], _Primitive(cast(FunctionType, function), body))

    return make
