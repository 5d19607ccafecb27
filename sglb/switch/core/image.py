"""Images: the machine code of many compiled functions, made at once.

When Python first calls a function that none calls, all such of its package that exist by then become one
LLVM module, with all that they call; it is optimised as a whole, and kept on disk. What Python cannot
reach in it can be woven into its callers. A function that others call is made with those of its module,
in an image of their own: so the others' code stays as it is. Functions that come later lead to another
image, which is used from then on; the code has no state.

What an image is kept under (its *stamp*) covers the sources of its functions and each constant that they
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
#: See `jit`: what is to be woven in says so, or is called once. More takes longer and runs no faster.
_INLINE_COST: Final = 50
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
        """The part of the program that it belongs to."""
        return self.function.__module__.partition(".")[0]

    def named(self) -> Iterator[Definition]:
        """What its code names, and so all that it calls."""
        names = self.function.__code__.co_names
        for name in names:
            value = self.function.__globals__.get(name)
            if isinstance(value, Definition):
                yield value
            elif isinstance(value, ModuleType):
                within = (vars(value).get(other) for other in names)
                yield from (other for other in within if isinstance(other, Definition))

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
            made = Translation(self.function, self.source, self.symbol, self._attributes)
            self._parts = made.text, cast(tuple[Definition, ...], tuple(made.callees))
        return self._parts

    def code(self) -> Callable[..., Any]:
        """The machine code: takes addresses and ints; several results go to an array, given last."""
        if self._code is None:
            with _lock:
                if self._code is None:
                    _load(self)
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


def _load(wanted: Routine) -> None:
    """Makes or finds the image of a function."""
    routines = _image_of(wanted)
    image = jit.load_stamped(
        _stamp(routines), lambda: image_text(routines), [_TABLE], inline_cost=_INLINE_COST
    )
    table = (_I64 * len(routines)).from_address(image.addresses[_TABLE])
    for routine, address in zip(routines, table, strict=True):
        routine.settle(address, image)


def _image_of(wanted: Routine) -> list[Routine]:
    """The functions that Python calls by the same image, in an order that no import changes."""
    package = [d for d in _definitions.values() if isinstance(d, Routine)]
    package = sorted((d for d in package if d.package == wanted.package), key=lambda d: d.symbol)
    called = {other for routine in package for other in routine.named() if other is not routine}
    if wanted not in called:
        return [routine for routine in package if routine not in called]
    module = wanted.function.__module__
    return [d for d in package if d in called and d.function.__module__ == module]


def image_text(routines: Iterable[Routine]) -> str:
    """A module of these functions, all that they call, and a table of those that Python calls."""
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


def _stamp(routines: Iterable[Routine]) -> str:
    """Of all that an image of these functions can depend on."""
    digest = hashlib.sha256(_own_sources())
    reached = set(waiting := list[Definition](routines))
    for routine in routines:
        digest.update(f"{routine.symbol}\n".encode())
    while waiting:
        new = set(waiting.pop().named()) - reached
        reached |= new
        waiting += new
    modules = {(d.function.__module__, d.source.file): d for d in reached}
    for (name, _), definition in sorted(modules.items()):
        digest.update(f"{name}\n{definition.source.text}\n".encode())
        for place, value in _constants(definition.function.__globals__):
            digest.update(f"{place} {value}\n".encode())
    return f"image {digest.hexdigest()}"


def _constants(names: dict[str, Any], *, within: str = "") -> Iterator[tuple[str, object]]:
    """The integers and compiled functions that a module's functions can name."""
    for name, value in sorted(names.items()):
        if isinstance(value, int):
            yield within + name, int(value)
        elif isinstance(value, Definition):
            yield within + name, value.symbol
        elif isinstance(value, ModuleType) and not within:
            yield from _constants(vars(value), within=f"{name}.")
