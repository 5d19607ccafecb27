"""Images: the machine code of many compiled functions, made at once.

When Python first calls one of a package's functions, all of that package that exist by then become one
LLVM module, with whatever they call; it is optimised as a whole, and kept on disk. Functions that come
later lead to another image, which is used from then on; the code has no state.

What an image is kept under (its *stamp*) covers the sources of all functions and each constant that they
can see, so that nothing needs to be translated, or even parsed, to find it again.
"""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, cast

from sglb.p4.native import jit, text
from sglb.switch.core import translate, translate_source, translate_values
from sglb.switch.core.translate import Translation
from sglb.switch.core.translate_source import Signature, signature_of, source_of

_TABLE: Final = "table"
_I64: Final = ctypes.c_int64
_lock = threading.RLock()


class Definition:
    """Something with LLVM text that compiled functions can call. Each has its own symbol."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.signature: Signature = signature_of(function)
        self.source = source_of(function)
        self.symbol = _new_symbol(function, self)

    @property
    def package(self) -> str:
        """The part of the program that it is compiled with."""
        return self.function.__module__.partition(".")[0]

    def parts(self) -> tuple[str, tuple[Definition, ...]]:
        """Its text and what that calls."""
        raise NotImplementedError


class Primitive(Definition):
    """A function whose body is LLVM text."""

    def __init__(self, function: FunctionType, body: str) -> None:
        super().__init__(function)
        self._body = inspect.cleandoc(body)

    def parts(self) -> tuple[str, tuple[Definition, ...]]:
        """As `Definition.parts`."""
        signature = self.signature
        head = f'define internal {signature.kind} @"{self.symbol}"({signature.parameters()})'
        return f"{head} alwaysinline {{\n{self._body}\n}}\n", ()


class Routine(Definition):
    """A function that is translated."""

    def __init__(self, function: FunctionType, *, always_inline: bool) -> None:
        super().__init__(function)
        self._attributes = "nounwind alwaysinline" if always_inline else "nounwind"
        self._parts: tuple[str, tuple[Definition, ...]] | None = None
        self._code: Callable[..., Any] | None = None

    def parts(self) -> tuple[str, tuple[Definition, ...]]:
        """As `Definition.parts`."""
        if self._parts is None:
            made = Translation(self.function, self.symbol, self._attributes)
            self._parts = made.text, cast(tuple[Definition, ...], tuple(made.callees))
        return self._parts

    def code(self) -> Callable[..., Any]:
        """The machine code: takes addresses and ints; several results go to an array, given last."""
        if self._code is None:
            with _lock:
                if self._code is None:
                    _load(self.package)
        assert self._code is not None
        return self._code

    def settle(self, address: int, image: object) -> None:
        """Takes this code from now on."""
        code = _prototype(self.signature)(address)
        code.image = image  # type: ignore[attr-defined]  # lives as long as its code is in use
        self._code = code

    def entry(self) -> tuple[str, str]:
        """The symbol that Python calls, and the text of that function where it is another."""
        signature = self.signature
        if len(signature.truths) < 2:
            return self.symbol, ""
        symbol = f"entry {self.symbol}"
        lines = [
            f'define internal void @"{symbol}"({signature.parameters()}, ptr %results) {{',
            f'  %whole = call {signature.kind} @"{self.symbol}"({signature.parameters()})',
            f"  store {signature.kind} %whole, ptr %results, align 8",
            "  ret void\n}\n",
        ]
        return symbol, "\n".join(lines)


_definitions: dict[str, Definition] = {}


def _new_symbol(function: FunctionType, definition: Definition) -> str:
    name = symbol = f"{function.__module__}.{function.__qualname__}"
    count = 1
    while symbol in _definitions:
        count += 1
        symbol = f"{name} {count}"
    _definitions[symbol] = definition
    return symbol


@cache
def _prototype(signature: Signature) -> Callable[[int], Callable[..., Any]]:
    """The foreign function type; calls let go of Python's global lock."""
    arguments = [_I64] * len(signature.names)
    if len(signature.truths) > 1:
        return ctypes.CFUNCTYPE(None, *arguments, ctypes.c_void_p)
    return ctypes.CFUNCTYPE(_I64 if signature.truths else None, *arguments)


def _load(package: str) -> None:
    """Makes or finds the image of a package's functions."""
    everything = sorted(_definitions.values(), key=lambda d: d.symbol)
    routines = [d for d in everything if isinstance(d, Routine) and d.package == package]
    stamp = _stamp(package, everything)
    image = jit.load_stamped(stamp, lambda: image_text(routines), [_TABLE])
    table = (_I64 * len(routines)).from_address(image.addresses[_TABLE])
    for routine, address in zip(routines, table, strict=True):
        routine.settle(address, image)


def image_text(routines: Iterable[Routine]) -> str:
    """A module of these functions, all that they call, and a table of what Python calls."""
    entries = [routine.entry() for routine in routines]
    table = ", ".join(f'ptr @"{symbol}"' for symbol, _ in entries)
    head = f"@{_TABLE} = constant [{len(entries)} x ptr] [{table}]\n"
    return "\n".join([head, *(made for _, made in entries if made), *_closure(routines)])


def _closure(roots: Iterable[Definition]) -> Iterator[str]:
    """The texts of functions and of all that they call, each once."""
    waiting = list(roots)
    seen = set(waiting)
    while waiting:
        made, callees = waiting.pop().parts()
        yield made
        for callee in callees:
            if callee not in seen:
                seen.add(callee)
                waiting.append(callee)


# --- stamps ---------------------------------------------------------------------------------------


@cache
def _own_sources() -> bytes:
    """Of all that turns sources into text."""
    digest = hashlib.sha256()
    for file in (
        __file__,
        *(m.__file__ for m in (translate, translate_source, translate_values, text)),
    ):
        assert file is not None
        digest.update(Path(file).read_bytes())
    return digest.digest()


def _stamp(package: str, everything: Iterable[Definition]) -> str:
    """Of all that an image can depend on."""
    digest = hashlib.sha256(_own_sources())
    modules: dict[str, Definition] = {}
    for definition in everything:
        digest.update(f"{definition.symbol}\n".encode())
        modules.setdefault(definition.function.__module__, definition)
    for name, definition in sorted(modules.items()):
        digest.update(f"{name}\n{definition.source.text}\n".encode())
        for place, value in _constants(definition.function.__globals__):
            digest.update(f"{place} {value}\n".encode())
    return f"image of {package} {digest.hexdigest()}"


def _constants(names: dict[str, Any], *, within: str = "") -> Iterator[tuple[str, object]]:
    """The integers and compiled functions that a module's functions can name."""
    for name, value in sorted(names.items()):
        if isinstance(value, int):
            yield within + name, int(value)
        elif isinstance(value, Definition):
            yield within + name, value.symbol
        elif isinstance(value, ModuleType) and not within:
            yield from _constants(vars(value), within=f"{name}.")
