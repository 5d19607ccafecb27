"""What compiled functions need of the system: the C library by address, fields of its structs."""

from __future__ import annotations

import os

# Not by `import ctypes`: that has addresses, and stamps of compiled code cover a module's integers.
from ctypes import CDLL, c_uint64, c_void_p, cast
from typing import Final

from sglb.switch.core.jit import primitive

_library: Final = CDLL(None, use_errno=True)
_PRIO_INHERIT: Final = 1


def address_of(name: str) -> int:
    """Where a function of the C library lies."""
    found = cast(getattr(_library, name), c_void_p).value
    assert found is not None
    return found


def fair_mutex(address: int) -> None:
    """Makes a pthread mutex there whose holder runs at the priority of whoever waits for it.

    A data plane that is a real-time thread would else wait as long as its switch's Python waits for a
    processor.
    """
    attributes = (c_uint64 * 2)()
    _library.pthread_mutexattr_init(attributes)
    _library.pthread_mutexattr_setprotocol(attributes, _PRIO_INHERIT)
    result = _library.pthread_mutex_init(c_void_p(address), attributes)
    if result:
        raise OSError(result, os.strerror(result))


@primitive("""
    %f = inttoptr i64 %address to ptr
    %r = call i32 %f(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e)
    %w = sext i32 %r to i64
    ret i64 %w
""")
def system(address: int, a: int, b: int, c: int, d: int, e: int) -> int:
    """Calls a C function of up to five integers or pointers; its result as an int (32 bits).

    Functions with fewer parameters don't look at the rest.
    """


@primitive("""
    %f = inttoptr i64 %address to ptr
    %p = call ptr %f()
    %v = load i32, ptr %p, align 4
    %w = sext i32 %v to i64
    ret i64 %w
""")
def last_error(address: int) -> int:
    """errno of this thread; `address` is that of `__errno_location`."""


@primitive("""
    %p = inttoptr i64 %address to ptr
    %v = load i16, ptr %p, align 1
    %w = zext i16 %v to i64
    ret i64 %w
""")
def load16(address: int) -> int:
    """Two bytes in the machine's order."""


@primitive("""
    %p = inttoptr i64 %address to ptr
    %v = load i32, ptr %p, align 1
    %w = zext i32 %v to i64
    ret i64 %w
""")
def load32(address: int) -> int:
    """Four bytes in the machine's order."""


@primitive("""
    %p = inttoptr i64 %address to ptr
    %v = trunc i64 %value to i16
    store i16 %v, ptr %p, align 1
    ret void
""")
def store16(address: int, value: int) -> None:
    """Stores two bytes in the machine's order."""
