"""How the core's functions are compiled: to machine code, once, kept on disk.

Numba would keep using what it has on disk when a function that is called, or a constant that was
compiled in, has changed in another file. So the stamp here covers every file that can matter.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

from sglb.p4.native import abi

P = ParamSpec("P")
T = TypeVar("T")


@cache
def _stamp(folder: Path) -> str:
    """Of all sources that a function in `folder` can depend on: its folder, the core, the ABI."""
    digest = hashlib.sha256(Path(abi.__file__).read_bytes())
    for place in sorted({folder, Path(__file__).parent}):
        for source in sorted(place.glob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()


class _Cache(FunctionCache):
    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        self._cache_file = IndexDataCacheFile(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=_stamp(Path(inspect.getfile(function)).parent),
        )


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """A function over a `World` and ints, compiled when first called.

    Divisions by zero give anything, and no exception ever leaves it.
    """
    dispatcher = njit(error_model="numpy", nogil=True, no_cfunc_wrapper=True)(function)
    dispatcher._cache = _Cache(function)
    return cast(Callable[P, T], dispatcher)


def inlined(function: Callable[P, T]) -> Callable[P, T]:
    """As `compiled`, for a few lines that are wanted within their caller's code."""
    return cast(Callable[P, T], njit(error_model="numpy", nogil=True, forceinline=True)(function))
